/* sleep_test.c - `pleat bench sleep`: measurements that match the calls, and the output.
 */
/* labels: unit */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/command/parse_options.h"
#include "bench/measure/sleep.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20, N_ROWS = 6 };

static bench_failure failure;
static bench_sleep_result result;

static bool measure(const char *sim, uint64_t n_blocks, uint64_t block_bytes, const char *folder)
{
    bench_options options;
    bench_setup setup;
    bench_options_init(&options);
    options.target.has_driver = true;
    options.target.driver = PL_DRIVER_SIM;
    options.target.sim = sim;
    ck_assert_msg(bench_setup_init(&setup, &options.target, &failure), "%s", failure.text);
    bench_sleep_options asked = { .setup = &setup,
                                  .n_blocks = n_blocks,
                                  .block_bytes = block_bytes,
                                  .n_rounds = 2,
                                  .folder = folder };
    return bench_sleep(&asked, &result, &failure);
}

static const bench_sleep_figures *of(pleat_sleep how)
{
    return &result.of[how];
}

START_TEST(all_of_it_goes_each_way_and_contents_where_asked)
{
    ck_assert_msg(measure("backing:memory", 4, 4 * MIB, "/tmp"), "%s", failure.text);
    for (unsigned how = 0; how < BENCH_SLEEP_N_HOWS; how++) {
        const bench_sleep_figures *f = &result.of[how];
        ck_assert_uint_eq(f->bytes, 16 * MIB);
        ck_assert_uint_eq(f->kept_bytes, how == PLEAT_SLEEP_DISCARD ? 0 : 16 * MIB);
        ck_assert(f->sleep.ns > 0 && f->wake.ns > 0);
        ck_assert(f->sleep.driver_ns > 0 && f->wake.driver_ns > 0);
        ck_assert_uint_gt(f->sleep.n_driver_calls, 0);
        ck_assert_uint_gt(f->wake.n_driver_calls, 0);
    }
    ck_assert_uint_gt(of(PLEAT_SLEEP_HOST)->sleep.n_driver_calls,
                      of(PLEAT_SLEEP_DISCARD)->sleep.n_driver_calls);
    ck_assert_uint_gt(result.engine.lock_ns, 0);
    ck_assert_uint_gt(result.engine.out_ns, 0);
    ck_assert_uint_gt(result.engine.in_ns, 0);
}
END_TEST

/* The costs in the cost file appear in the driver's time only. */
START_TEST(the_driver_s_time_is_that_of_the_cost_file)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/bench_sleep_%d.cost", (int)getpid());
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs("gpu none\ncuMemUnmap call 1000000\ncuMemMap call 2000000\n", file);
    ck_assert_int_eq(fclose(file), 0);
    char sim[128];
    snprintf(sim, sizeof sim, "costs:%s", path);
    ck_assert_msg(measure(sim, 1, 2 * MIB, "/tmp"), "%s", failure.text);
    unlink(path);
    ck_assert_double_eq_tol(of(PLEAT_SLEEP_DISCARD)->sleep.driver_ns, 1e9, 1e3);
    ck_assert_double_eq_tol(of(PLEAT_SLEEP_DISCARD)->wake.driver_ns, 2e9, 1e3);
    ck_assert(of(PLEAT_SLEEP_DISCARD)->sleep.ns < 1e9);
}
END_TEST

START_TEST(what_fails_is_named)
{
    ck_assert(!measure("", 1, 2 * MIB, "/nowhere/at/all"));
    ck_assert_ptr_nonnull(strstr(failure.text, "a sleep failed"));
    ck_assert_ptr_nonnull(strstr(failure.text, "No such file"));
    ck_assert(!measure("without:cuMemHostAlloc", 1, 2 * MIB, "/tmp"));
    ck_assert_ptr_nonnull(strstr(failure.text, "plain copies failed"));
}
END_TEST

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) {
        n++;
    }
    return n;
}

static size_t count_commas(const char *line)
{
    size_t n = 0;
    for (; *line != '\n' && *line != '\0'; line++) {
        n += *line == ',';
    }
    return n;
}

static bench_child child;

START_TEST(the_command_prints_text_csv_and_json)
{
    char csv[64];
    char line[256];
    char text[512];
    snprintf(csv, sizeof csv, "/tmp/bench_sleep_%d.csv", (int)getpid());
    snprintf(line, sizeof line, "bench sleep --bytes 32M --rounds 1 --small 1M --csv %s", csv);
    bench_child_run(&child, line);
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
    static const char *const wanted[] = { "SIMULATED GPU", "discard", "host", "file",
                                          "plain copy" };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        ck_assert_msg(strstr(child.out, wanted[i]) != NULL, "%s: %s", wanted[i], child.out);
    }
    FILE *file = fopen(csv, "r");
    ck_assert_ptr_nonnull(file);
    size_t n_rows = 0;
    size_t n_commas = 0;
    while (fgets(text, sizeof text, file) != NULL) {
        n_commas = n_rows++ == 0 ? count_commas(text) : n_commas;
        ck_assert_uint_eq(count_commas(text), n_commas);
    }
    ck_assert_int_eq(fclose(file), 0);
    unlink(csv);
    ck_assert_uint_eq(n_rows, 1 + N_ROWS);
    bench_child_run(&child, "bench sleep --bytes 32M --rounds 1 --small 1M --json");
    ck_assert_int_eq(child.status, 0);
    ck_assert_uint_eq(count_lines(child.out), N_ROWS);
    ck_assert_ptr_nonnull(strstr(child.out, "\"blocks\":32"));
    ck_assert_ptr_nonnull(strstr(child.out, "\"bytes\":33554432"));
}
END_TEST

START_TEST(bad_usage_is_named)
{
    static const struct {
        const char *line;
        const char *culprit;
    } bad[] = {
        { "bench sleep --bytes 1M", "--bytes: '1M'" },
        { "bench sleep --bytes much", "'much'" },
        { "bench sleep --small 100", "--small: '100'" },
        { "bench sleep --rounds 0", "--rounds" },
        { "bench sleep --csv /nowhere/at/all.csv", "/nowhere/at/all.csv: No such file" },
        { "bench sleep --folder /nowhere/at/all", "--folder: /nowhere/at/all: No such file" },
        { "bench sleep gpt2s_tiny", "'gpt2s_tiny': it takes no work" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bench_child_run(&child, bad[i].line);
        ck_assert_msg(child.status == 2, "%s: %d", bad[i].line, child.status);
        ck_assert_msg(strstr(child.err, bad[i].culprit) != NULL, "%s: %s", bad[i].line, child.err);
    }
}
END_TEST

SUITE(bench_sleep)
{
    TCase *measured = suite_case(suite, "measured", NULL, NULL);
    tcase_add_test(measured, all_of_it_goes_each_way_and_contents_where_asked);
    tcase_add_test(measured, the_driver_s_time_is_that_of_the_cost_file);
    tcase_add_test(measured, what_fails_is_named);
    TCase *command = suite_case(suite, "command", NULL, NULL);
    tcase_add_test(command, the_command_prints_text_csv_and_json);
    tcase_add_test(command, bad_usage_is_named);
}
