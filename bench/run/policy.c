/* policy.c - see policy.h. */
#include "bench/run/policy.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/run/fit.h"
#include "bench/run/output.h"

static bool find_runner(char *out, size_t n)
{
    /* build/pleat, PREFIX/bin/pleat, the Python package */
    static const char *const from_command[] = { ".", "../lib", "../lib/x86_64-linux-gnu" };
    char command[3072];
    ssize_t length = readlink("/proc/self/exe", command, sizeof command - 1);
    command[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(command, '/');
    for (size_t i = 0; slash && i < sizeof from_command / sizeof from_command[0]; i++) {
        *slash = '\0';
        int used = snprintf(out, n, "%s/%s/libpleat_policy_python.so", command, from_command[i]);
        if (used > 0 && (size_t)used < n && access(out, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

bool bench_policy_place(bench_setup *setup, bench_failure *failure)
{
    char *policy = setup->config.policy;
    size_t n = strlen(policy);
    if (n < 3 || strcmp(policy + n - 3, ".py") != 0) {
        return true;
    }
    char *script = realpath(policy, NULL);
    bool fits = script && strlen(script) < sizeof setup->policy_script;
    if (fits) {
        memcpy(setup->policy_script, script, strlen(script) + 1);
    }
    free(script);
    if (!fits) {
        return bench_fail(failure, "policy: %.200s: there is no such script", policy);
    }
    return find_runner(policy, sizeof setup->config.policy) ||
           bench_fail(failure, "policy: libpleat_policy_python.so is not beside this command");
}

void bench_policy_tell(const bench_setup *setup)
{
    if (setup->policy_script[0] != '\0') {
        (void)setenv("PLEAT_POLICY_SCRIPT", setup->policy_script, 1);
    }
}

/* ---- the judge ---- */

bool bench_judged_wants(const bench_setup *setup, const char *allocator)
{
    return setup->config.policy[0] != '\0' && strcmp(allocator, "pleat") == 0;
}

static void add(bench_judged *judged, const bench_record *const records[2])
{
    bool both = bench_record_is_clean(records[0]) && bench_record_is_clean(records[1]);
    bool is_searched = records[0]->least_memory_bytes > 0 && records[1]->least_memory_bytes > 0;
    judged->n++;
    judged->n_both += both;
    judged->n_searched += is_searched;
    for (unsigned i = 0; i < 2; i++) {
        const bench_record *r = records[i];
        double held = bench_output_ratio(r);
        judged->of[i].n_failing += !bench_record_is_clean(r);
        judged->of[i].held += held;
        judged->of[i].most_held = held > judged->of[i].most_held ? held : judged->of[i].most_held;
        judged->of[i].driver_ms += both ? r->first_driver_us / 1e3 : 0.0;
        judged->of[i].least += is_searched
                                   ? (double)r->least_memory_bytes / (double)r->peak_live_bytes
                                   : 0.0;
    }
}

bool bench_judged_run(bench_judged *judged, const bench_work *work,
                      const bench_replay_options *options, bool is_fit,
                      const bench_record *by_policy, bench_failure *failure)
{
    static bench_record own;
    bench_setup setup = *options->setup;
    bench_replay_options again = {
        .setup = &setup,
        .allocator = options->allocator,
        .memory_bytes = options->memory_bytes,
        .loops = options->loops,
        .compact = options->compact,
        .progress = options->progress,
    };
    setup.config.policy[0] = '\0';
    if (!(is_fit ? bench_fit(work, &again, &own, failure)
                 : bench_replay(work, &again, &own, failure))) {
        return false;
    }
    const bench_record *const records[2] = { by_policy, &own };
    add(judged, records);
    return true;
}

void bench_judged_print(const bench_judged *judged, FILE *file)
{
    if (judged->n == 0) {
        return;
    }
    double n = judged->n;
    fprintf(file,
            "\njudge: the policy, and in parentheses pleat's own, in %u run%s\n"
            "  failing                  %u (%u)\n"
            "  held / live: mean, most  %.3f, %.3f (%.3f, %.3f)\n",
            judged->n, judged->n == 1 ? "" : "s", judged->of[0].n_failing, judged->of[1].n_failing,
            judged->of[0].held / n, judged->of[0].most_held, judged->of[1].held / n,
            judged->of[1].most_held);
    if (judged->n_searched > 0) {
        fprintf(file, "  least device / live      %.3f (%.3f)\n",
                judged->of[0].least / judged->n_searched, judged->of[1].least / judged->n_searched);
    }
    fprintf(file, "  driver ms, first pass    %.0f (%.0f), of %u that both complete\n",
            judged->of[0].driver_ms, judged->of[1].driver_ms, judged->n_both);
}
