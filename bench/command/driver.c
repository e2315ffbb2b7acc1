/* driver.c - `pleat bench driver`: driver calls and time of growing, by growth policy.
 *
 * Each work runs through pleat with each growth policy, and through PyTorch's expandable segments.
 * A run makes some passes in one allocator. The first pass grows; later passes show the remaining
 * cost. */
#include <stdlib.h>

#include "bench/base/size.h"
#include "bench/command/commands.h"
#include "bench/command/parse_options.h"
#include "bench/run/output.h"
#include "bench/works/files.h"

enum { KEY_PASSES = 0x300, KEY_DRIVER_MEMORY };

#define GIB ((double)(1 << 30))

static const struct {
    const char *name;
    const char *allocator;
    const char *conf;
} policies[] = {
    { "pleat, balanced", "pleat", "growth:balanced" },
    { "pleat, frugal", "pleat", "growth:frugal" },
    { "pleat, ample", "pleat", "growth:ample" },
    { "torch-expandable", "torch-expandable", "" },
};

enum { N_POLICIES = sizeof policies / sizeof policies[0] };

/* Of one replay, or summed over works. */
typedef struct driver_figures {
    uint64_t n_failed;
    uint64_t grown_bytes; /* taken from the driver in the first pass */
    uint64_t n_iterations;
    double first_ms;
    double later_ms;   /* of a pass */
    double longest_ms; /* the longest request */
} driver_figures;

typedef struct driver_command {
    bench_options options;
    unsigned n_passes;
    bench_setup setups[N_POLICIES];
    driver_figures sums[N_POLICIES];
    unsigned n_works; /* in the sums */
    bench_progress progress;
    bench_failure failure;
} driver_command;

/* clang-format off */
static const struct argp_option options_list[] = {
    { .name = "passes", .key = KEY_PASSES, .arg = "N",
      .doc = "Passes over each work in one allocator, the first among them (default: 2)" },
    { .name = "memory", .key = KEY_DRIVER_MEMORY, .arg = "SIZE|RATIOx|unlimited",
      .doc = "Memory of the device (simulator) or limit of the allocator (CUDA); a ratio is a "
             "multiple of the work's peak live bytes (default: unlimited)" },
    { 0 },
};
/* clang-format on */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    driver_command *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->options;
        return 0;
    case KEY_PASSES:
        c->n_passes = bench_number(state, "--passes", arg, 2, BENCH_MAX_LOOPS);
        return 0;
    case KEY_DRIVER_MEMORY:
        if (!bench_memory_parse(arg, &c->options.memory)) {
            char why[256];
            argp_error(state, "--memory: %s", bench_memory_refusal(arg, why, sizeof why));
        }
        return 0;
    case ARGP_KEY_ARGS:
        c->options.works = state->argv + state->next;
        c->options.n_works = (unsigned)(state->argc - state->next);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = { { .argp = &bench_driver_argp }, { 0 } };

static const struct argp driver_argp = {
    .options = options_list,
    .parser = parse,
    .children = children,
    .args_doc = "[WORK]...",
    .doc = "Measure what growing costs in the driver: pleat with each growth policy, and "
           "torch-expandable.\vWORK is what `pleat replay` takes (default: the bundled traces). "
           "Takes place on the simulated GPU unless --driver says otherwise, with --sim "
           "costs:driver580 unless other costs are named (costs:a100, costs:gb10, or a file of "
           "`pleat probe`). Exit status: 0; 1 if an allocation failed or a hazard was seen; 2 for "
           "bad input or usage.",
};

static double per(double sum, double n)
{
    return n > 0 ? sum / n : 0.0;
}

static double grown_gib(const driver_figures *f)
{
    return (double)f->grown_bytes / GIB;
}

static void print_heading(const driver_command *c)
{
    char banner[192];
    const bench_setup *setup = &c->setups[0];
    printf("%s%s%s; %u passes over each work, times in ms\n",
           bench_setup_banner(setup, banner, sizeof banner), bench_setup_is_sim(setup) ? "; " : "",
           bench_setup_is_sim(setup) ? setup->sim : "", c->n_passes);
    printf("%-*s %-16s %8s %9s %10s %8s %10s %10s %9s\n", BENCH_OUTPUT_NAME, "work", "allocator",
           "failures", "GiB grown", "first pass", "a GiB", "later pass", "iteration", "longest");
}

static void print_row(const char *work, unsigned policy, const driver_figures *f)
{
    printf("%-*.*s %-16s %8llu %9.3f %10.2f %8.3f %10.3f %10.4f %9.3f\n", BENCH_OUTPUT_NAME,
           BENCH_OUTPUT_NAME, work, policies[policy].name, (unsigned long long)f->n_failed,
           grown_gib(f), f->first_ms, per(f->first_ms, grown_gib(f)), f->later_ms,
           per(f->later_ms, (double)f->n_iterations), f->longest_ms);
    fflush(stdout);
}

static void print_json(const driver_command *c, const bench_work *work, unsigned policy,
                       const bench_record *record, const driver_figures *f)
{
    json_t *object = json_object();
    json_object_set_new(object, "bench", json_string("driver"));
    json_object_set_new(object, "trace", json_string(work->name));
    json_object_set_new(object, "allocator", json_string(record->allocator));
    json_object_set_new(object, "conf", json_string(policies[policy].conf));
    json_object_set_new(object, "driver", json_string(record->driver));
    json_object_set_new(object, "sim", json_string(c->setups[policy].sim));
    json_object_set_new(object, "memory_bytes", json_integer((json_int_t)record->memory_bytes));
    json_object_set_new(object, "passes", json_integer(c->n_passes));
    json_object_set_new(object, "oom_count", json_integer((json_int_t)f->n_failed));
    json_object_set_new(object, "hazards", json_integer((json_int_t)record->hazards));
    json_object_set_new(object, "bytes_created", json_integer((json_int_t)f->grown_bytes));
    json_object_set_new(object, "bytes_mapped", json_integer((json_int_t)record->bytes_mapped));
    json_object_set_new(object, "driver_ms", json_real(f->first_ms));
    json_object_set_new(object, "driver_ms_per_gib", json_real(per(f->first_ms, grown_gib(f))));
    json_object_set_new(object, "later_driver_ms", json_real(f->later_ms));
    json_object_set_new(object, "iterations", json_integer((json_int_t)f->n_iterations));
    json_object_set_new(object, "later_driver_ms_per_iteration",
                        f->n_iterations ? json_real(f->later_ms / (double)f->n_iterations)
                                        : json_null());
    json_object_set_new(object, "longest_driver_ms", json_real(f->longest_ms));
    (void)bench_output_line(object, stdout);
}

static void add(driver_figures *sum, const driver_figures *f)
{
    sum->n_failed += f->n_failed;
    sum->grown_bytes += f->grown_bytes;
    sum->n_iterations += f->n_iterations;
    sum->first_ms += f->first_ms;
    sum->later_ms += f->later_ms;
    sum->longest_ms = f->longest_ms > sum->longest_ms ? f->longest_ms : sum->longest_ms;
}

static bool run_policy(driver_command *c, const bench_work *work, unsigned policy)
{
    const bench_setup *setup = &c->setups[policy];
    bench_replay_options options = {
        .setup = setup,
        .allocator = policies[policy].allocator,
        .loops = 1,
        .later_passes = c->n_passes - 1,
        .progress = &c->progress,
    };
    if (c->options.memory.kind != BENCH_MEMORY_UNLIMITED) {
        options.memory_bytes = bench_memory_bytes(&c->options.memory, work->peak_live_bytes,
                                                  setup->granule_bytes);
    }
    static bench_record record;
    bench_progress_label(&c->progress, work->n_events * c->n_passes, "%s: %s",
                         policies[policy].name, work->name);
    bool ok = bench_replay(work, &options, &record, &c->failure);
    bench_progress_clear(&c->progress);
    if (!ok) {
        fprintf(stderr, "pleat: %s\n", c->failure.text);
        return false;
    }
    driver_figures f = {
        .n_failed = record.oom_count,
        .grown_bytes = record.bytes_created,
        .n_iterations = work->n_marks,
        .first_ms = record.first_driver_us / 1e3,
        .later_ms = record.later_driver_us / 1e3,
        .longest_ms = record.longest_driver_us / 1e3,
    };
    add(&c->sums[policy], &f);
    if (c->options.json) {
        print_json(c, work, policy, &record, &f);
    } else {
        print_row(work->name, policy, &f);
    }
    bench_output_refusals(&record, policies[policy].name);
    return bench_record_is_clean(&record);
}

/* The exit status of one work. */
static int run_work(driver_command *c, const char *spec)
{
    bench_work work;
    if (!bench_work_open_device(spec, &c->progress, &work, &c->failure)) {
        fprintf(stderr, "pleat: %s\n", c->failure.text);
        return BENCH_EXIT_USAGE;
    }
    int status = BENCH_EXIT_OK;
    for (unsigned i = 0; i < N_POLICIES; i++) {
        status = run_policy(c, &work, i) ? status : BENCH_EXIT_FAILED;
    }
    bench_work_close(&work);
    c->n_works++;
    return status;
}

static int run_bundled(driver_command *c)
{
    char folder[1024];
    char path[2048];
    struct dirent **entries;
    unsigned n = bench_file_bundled(folder, sizeof folder, &entries);
    int status = n > 0 ? BENCH_EXIT_OK : BENCH_EXIT_USAGE;
    if (n == 0) {
        fputs("pleat: the bundled traces are not there\n", stderr);
    }
    for (unsigned i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        int one = run_work(c, path);
        status = one > status ? one : status;
        free(entries[i]);
    }
    free(entries);
    return status;
}

static bool make_setups(driver_command *c)
{
    bench_target target = c->options.target;
    for (unsigned i = 0; i < N_POLICIES; i++) {
        target.own_conf = policies[i].conf;
        if (!bench_setup_init(&c->setups[i], &target, &c->failure)) {
            fprintf(stderr, "pleat: %s\n", c->failure.text);
            return false;
        }
    }
    return true;
}

int bench_command_driver(int argc, char **argv)
{
    static driver_command c = { .n_passes = 2 };
    bench_options_init(&c.options);
    c.options.target.driver = PL_DRIVER_SIM;
    c.options.target.has_driver = true;
    c.options.target.sim_default = "costs:driver580";
    c.options.target.has_own_allocators = true;
    if (!bench_parse(&driver_argp, argc, argv, &c) || !make_setups(&c)) {
        return BENCH_EXIT_USAGE;
    }
    bench_progress_init(&c.progress);
    if (!c.options.json) {
        print_heading(&c);
    }
    int status = c.options.n_works == 0 ? run_bundled(&c) : BENCH_EXIT_OK;
    for (unsigned i = 0; i < c.options.n_works; i++) {
        int one = run_work(&c, c.options.works[i]);
        status = one > status ? one : status;
    }
    for (unsigned i = 0; c.n_works > 1 && !c.options.json && i < N_POLICIES; i++) {
        print_row("all of them", i, &c.sums[i]);
    }
    return status;
}
