/* pairs_test.c - the requests of `pleat bench pairs` to the rows, and the results. */
#include <check.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/command/parse_options.h"
#include "bench/pairs/crowd.h"
#include "bench/pairs/loops.h"
#include "bench/pairs/pair_cell.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

enum { N_PAIRS = 300, N_ROUNDS = 2, N_RUNS = 2, LONGEST_LOG = 1 << 16, FIRST_ADDRESS = 4096 };

static bench_failure failure;
static bench_child child;

/* ---- rows made up ---------------------------------------------------------------------------- */

/* The requests to a row, in memory shared with the processes of a cell. */
typedef struct asked {
    uint64_t bytes[LONGEST_LOG]; /* 0 = a free */
    unsigned n;
    unsigned n_live;
    unsigned fail_at;  /* number of the failing allocation; 0 = none */
    unsigned crash_at; /* number of the allocation that ends the process; 0 = none */
} asked;

static asked *logs[2];

static pleat_devptr log_alloc(asked *log, uint64_t bytes)
{
    log->bytes[log->n++ % LONGEST_LOG] = bytes;
    log->n_live++;
    if (log->crash_at != 0 && log->n >= log->crash_at) {
        raise(SIGKILL);
    }
    return log->fail_at != 0 && log->n >= log->fail_at ? 0 : FIRST_ADDRESS + log->n;
}

static bool log_free(asked *log)
{
    log->bytes[log->n++ % LONGEST_LOG] = 0;
    log->n_live--;
    return true;
}

static pleat_devptr alloc_first(const bench_through *through, uint64_t bytes, void *stream)
{
    (void)through;
    ck_assert_ptr_null(stream);
    return log_alloc(logs[0], bytes);
}

static pleat_devptr alloc_second(const bench_through *through, uint64_t bytes, void *stream)
{
    (void)through;
    (void)stream;
    return log_alloc(logs[1], bytes);
}

static bool free_first(const bench_through *through, pleat_devptr ptr, void *stream)
{
    (void)through;
    (void)stream;
    return ptr >= FIRST_ADDRESS && log_free(logs[0]);
}

static bool free_second(const bench_through *through, pleat_devptr ptr, void *stream)
{
    (void)through;
    return ptr >= FIRST_ADDRESS && stream != NULL && log_free(logs[1]);
}

static bool open_first(bench_through *through, bench_failure *why)
{
    (void)why;
    through->alloc = alloc_first;
    through->release = free_first;
    return true;
}

static bool open_second(bench_through *through, bench_failure *why)
{
    (void)why;
    through->alloc = alloc_second;
    through->release = free_second;
    return true;
}

static const bench_through_kind first_kind = { .name = "first",
                                               .stream = BENCH_THROUGH_LEGACY,
                                               .open = open_first };
static const bench_through_kind second_kind = { .name = "second",
                                                .stream = BENCH_THROUGH_CREATED,
                                                .open = open_second };
static const bench_through_kind *const both[] = { &first_kind, &second_kind };

static void set_up(void)
{
    for (unsigned i = 0; i < 2; i++) {
        logs[i] = mmap(NULL, sizeof *logs[i], PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0);
        ck_assert_ptr_ne(logs[i], MAP_FAILED);
    }
}

static void tear_down(void)
{
    for (unsigned i = 0; i < 2; i++) {
        munmap(logs[i], sizeof *logs[i]);
    }
}

static bench_scenario parsed(const char *text)
{
    bench_scenario scenario;
    ck_assert_msg(bench_scenario_parse(text, &scenario, &failure), "%s", failure.text);
    return scenario;
}

/* At most 64 blocks, since debug builds walk over all blocks after many of the calls. */
static bench_cell_end measure(const char *text, const bench_through_kind *const *kinds,
                              unsigned n_kinds, bench_cell_result *out)
{
    bench_scenario scenario = parsed(text);
    scenario.n_blocks = scenario.n_blocks < 64 ? scenario.n_blocks : 64;
    bench_cell_options options = {
        .scenario = &scenario,
        .kinds = kinds,
        .n_kinds = n_kinds,
        .n_rounds = N_ROUNDS,
        .n_runs = N_RUNS,
        .n_pairs = N_PAIRS,
        .seed = 7,
        .conf = "",
    };
    return bench_cell(&options, out, &failure);
}

/* ---- scenarios ------------------------------------------------------------------------------- */

START_TEST(names_of_scenarios_are_read)
{
    bench_scenario s = parsed("random:4096");
    ck_assert(s.kind == BENCH_SCENARIO_RANDOM && s.n_blocks == 4096 && s.n_threads == 1);
    s = parsed("threads:3");
    ck_assert(s.kind == BENCH_SCENARIO_THREADS && s.n_threads == 3 && s.n_streams == 3);
    s = parsed("threads:3,shared");
    ck_assert(s.kind == BENCH_SCENARIO_THREADS && s.n_threads == 3 && s.n_streams == 1);
    s = parsed("threads:3,hot");
    ck_assert(s.kind == BENCH_SCENARIO_THREADS && s.is_hot && s.n_streams == 3);
    s = parsed("threads:3,shared,hot");
    ck_assert(s.kind == BENCH_SCENARIO_THREADS && s.is_hot && s.n_streams == 1);
    s = parsed("streams:10");
    ck_assert(s.kind == BENCH_SCENARIO_STREAMS && s.n_threads == 1 && s.n_streams == 10);
    ck_assert(parsed("hot").kind == BENCH_SCENARIO_HOT);
    ck_assert(parsed("gpt2l_amp_var").kind == BENCH_SCENARIO_WORK);
    const char *name;
    for (unsigned i = 0; (name = bench_scenario_standard(i % 2 != 0, i / 2)) != NULL; i++) {
        ck_assert_msg(parsed(name).kind != BENCH_SCENARIO_WORK, "%s", name);
    }
}
END_TEST

START_TEST(bad_numbers_in_names_are_refused_with_the_bounds)
{
    static const char *const bad[] = { "random:",         "random:0",
                                       "random:12x",      "random:-1",
                                       "random:1048577",  "random:99999999999999",
                                       "threads:0",       "threads:65",
                                       "threads:2,share", "threads:2,hot,shared",
                                       "streams:1025" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bench_scenario scenario;
        ck_assert_msg(!bench_scenario_parse(bad[i], &scenario, &failure), "%s", bad[i]);
        ck_assert_msg(strstr(failure.text, bad[i]) != NULL, "%s", failure.text);
        ck_assert_ptr_nonnull(strstr(failure.text, "a number from 1 to "));
    }
}
END_TEST

START_TEST(threads_keep_to_their_own_blocks_and_a_seed_repeats_its_requests)
{
    bench_scenario scenario = parsed("threads:3");
    bench_course one;
    bench_course two;
    ck_assert(bench_course_open(&scenario, N_PAIRS, 5, &one, &failure));
    ck_assert(bench_course_open(&scenario, N_PAIRS, 5, &two, &failure));
    bench_course_draw(&one);
    bench_course_draw(&two);
    for (unsigned i = 0; i < 3 * N_PAIRS; i++) {
        unsigned each = one.n_slots / 3;
        ck_assert_uint_eq(one.pairs[i].index / each, i / N_PAIRS);
        ck_assert_uint_eq(one.pairs[i].index, two.pairs[i].index);
        ck_assert_uint_eq(one.pairs[i].bytes, two.pairs[i].bytes);
    }
    uint64_t before = one.pairs[0].bytes + one.pairs[1].bytes + one.pairs[2].bytes;
    bench_course_draw(&one);
    ck_assert_uint_ne(before, one.pairs[0].bytes + one.pairs[1].bytes + one.pairs[2].bytes);
    bench_course_close(&one);
    bench_course_close(&two);
}
END_TEST

START_TEST(hot_pairs_take_the_size_that_they_give_back)
{
    bench_scenario scenario = parsed("hot");
    bench_course course;
    ck_assert(bench_course_open(&scenario, N_PAIRS, 1, &course, &failure));
    bench_course_draw(&course);
    for (unsigned i = 0; i < N_PAIRS; i++) {
        ck_assert_uint_eq(course.pairs[i].bytes, course.first_bytes[course.pairs[i].index]);
    }
    bench_course_close(&course);
}
END_TEST

/* ---- cells ----------------------------------------------------------------------------------- */

START_TEST(all_rows_are_asked_for_the_same_and_each_free_is_followed_by_an_allocation)
{
    bench_cell_result result;
    ck_assert_msg(measure("random:50", both, 2, &result) == BENCH_CELL_DONE, "%s", failure.text);
    /* 128 spare blocks come and go, 50 stay; 4 rounds to warm up, 2 measured, 1 timed. */
    ck_assert_uint_eq(logs[0]->n, N_RUNS * (2 * 128 + 50 + (4 + N_ROUNDS + 1) * 2 * N_PAIRS));
    ck_assert_uint_eq(logs[0]->n, logs[1]->n);
    ck_assert_mem_eq(logs[0]->bytes, logs[1]->bytes, logs[0]->n * sizeof logs[0]->bytes[0]);
    const uint64_t *pairs = logs[0]->bytes + 2 * 128 + 50;
    bench_scenario scenario = parsed("random:50");
    bench_course course;
    ck_assert(bench_course_open(&scenario, N_PAIRS, 7, &course, &failure));
    ck_assert_mem_eq(logs[0]->bytes + 128, course.first_bytes, 50 * sizeof(uint64_t));
    for (unsigned i = 0; i < (4 + N_ROUNDS + 1) * N_PAIRS; i++) {
        if (i % N_PAIRS == 0) {
            bench_course_draw(&course);
        }
        ck_assert_uint_eq(pairs[2 * i], 0);
        ck_assert_uint_eq(pairs[2 * i + 1], course.pairs[i % N_PAIRS].bytes);
    }
    bench_course_close(&course);
    unsigned half = logs[0]->n / N_RUNS;
    ck_assert_mem_eq(logs[0]->bytes, logs[0]->bytes + half, half * sizeof logs[0]->bytes[0]);
    ck_assert_uint_eq(result.n_units, N_PAIRS);
    for (unsigned i = 0; i < 2; i++) {
        const bench_cell_figures *f = &result.rows[i];
        ck_assert(!f->is_left_out && f->ns > 0 && f->ns < 1e9 && f->has_calls);
        ck_assert(f->p50 <= f->p99 && f->p99 <= f->p99_9 && f->longest_call < 1e12);
        ck_assert(f->longest_hold < 0 && f->n_driver_calls < 0);
    }
}
END_TEST

START_TEST(the_events_of_a_work_come_in_their_order_and_the_rest_is_freed)
{
    static const char text[] = "i 0\na 1 1000 0\na 2 2000 1\nf 1\na 3 3000 0\ni 1\nf 3\n";
    const char *path = bench_child_file(".trace", text, strlen(text));
    bench_cell_result result;
    ck_assert_msg(measure(path, both, 2, &result) == BENCH_CELL_DONE, "%s", failure.text);
    unlink(path);
    ck_assert_ptr_null(strchr(result.name, '/'));
    ck_assert_ptr_nonnull(strstr(path, result.name));
    static const uint64_t wanted[] = { 1000, 2000, 0, 3000, 0, 0, 1000 };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        ck_assert_uint_eq(logs[0]->bytes[i], wanted[i]);
        ck_assert_uint_eq(logs[1]->bytes[i], wanted[i]);
    }
    ck_assert_uint_eq(logs[0]->n_live, 0);
    ck_assert(result.is_events);
    ck_assert_uint_eq(result.n_units, 5);
}
END_TEST

START_TEST(a_row_on_the_legacy_stream_is_left_out_where_there_are_several)
{
    bench_cell_result result;
    ck_assert_msg(measure("streams:3", both, 2, &result) == BENCH_CELL_DONE, "%s", failure.text);
    ck_assert(result.rows[0].is_left_out);
    ck_assert(!result.rows[1].is_left_out);
    ck_assert_uint_eq(logs[0]->n, 0);
}
END_TEST

START_TEST(a_request_that_fails_is_told_with_its_row)
{
    bench_cell_result result;
    logs[1]->fail_at = 900;
    ck_assert(measure("random:50", both, 2, &result) == BENCH_CELL_FAILED);
    ck_assert_msg(strstr(failure.text, "random:50: second: a request failed") != NULL, "%s",
                  failure.text);
    ck_assert_uint_lt(logs[1]->n, 1000); /* there was no further run */
    logs[1]->fail_at = 10;
    logs[1]->n = 0;
    ck_assert(measure("random:50", both, 2, &result) == BENCH_CELL_FAILED);
    ck_assert_ptr_nonnull(strstr(failure.text, "second: an allocation failed"));
}
END_TEST

START_TEST(a_row_that_crashes_is_told_by_name)
{
    bench_cell_result result;
    logs[0]->crash_at = 900;
    ck_assert(measure("random:50", both, 2, &result) == BENCH_CELL_FAILED);
    ck_assert_msg(strstr(failure.text, "random:50: first: its process was killed by signal 9"),
                  "%s", failure.text);
}
END_TEST

START_TEST(an_unknown_work_is_told_by_name)
{
    bench_cell_result result;
    ck_assert(measure("no_such_trace", both, 2, &result) == BENCH_CELL_UNKNOWN);
    ck_assert_ptr_nonnull(strstr(failure.text, "no_such_trace"));
}
END_TEST

START_TEST(rows_of_pleat_tell_driver_calls_and_holds)
{
    static const char *const names[] = { "pleat", "pleat-created", "pleat-told",
                                         "hooks", "native",        "glibc" };
    enum { N = sizeof names / sizeof names[0] };
    const bench_through_kind *kinds[N];
    for (unsigned i = 0; i < N; i++) {
        kinds[i] = bench_through_find(names[i], strlen(names[i]));
        ck_assert_ptr_nonnull(kinds[i]);
    }
    bench_cell_result result;
    ck_assert_msg(measure("hot", kinds, N, &result) == BENCH_CELL_DONE, "%s", failure.text);
    for (unsigned i = 0; i + 1 < N; i++) {
        const bench_cell_figures *f = &result.rows[i];
        ck_assert_msg(f->longest_hold >= 0 && f->longest_hold < 1e12, "%s", names[i]);
        /* With the defaults each call asks about a created stream, and each of PyTorch's hooks
         * whether handle 0 is a green context's. */
        bool is_asking = strcmp(names[i], "pleat-created") == 0 || strcmp(names[i], "hooks") == 0;
        ck_assert_msg((f->n_driver_calls > 0) == is_asking, "%s: %lld", names[i],
                      (long long)f->n_driver_calls);
    }
    ck_assert(result.rows[N - 1].longest_hold < 0 && result.rows[N - 1].n_driver_calls < 0);
}
END_TEST

START_TEST(threads_share_the_work_of_a_round)
{
    const bench_through_kind *kinds[] = { bench_through_find("pleat-told", 10),
                                          bench_through_find("pleat", 5),
                                          bench_through_find("glibc", 5) };
    bench_cell_result result;
    ck_assert_msg(measure("threads:2", kinds, 3, &result) == BENCH_CELL_DONE, "%s", failure.text);
    ck_assert_uint_eq(result.n_units, 2 * N_PAIRS);
    ck_assert(!result.rows[0].is_left_out && result.rows[1].is_left_out);
    ck_assert(result.rows[0].wall_ns > 0 && result.rows[0].wall_ns < 1e9);
    ck_assert(!result.rows[0].has_calls && !result.rows[2].is_left_out);
    ck_assert_msg(measure("threads:2,shared", kinds, 3, &result) == BENCH_CELL_DONE, "%s",
                  failure.text);
    ck_assert(!result.rows[1].is_left_out && result.rows[1].ns > 0);
}
END_TEST

/* ---- the command ----------------------------------------------------------------------------- */

static void run(const char *line)
{
    bench_child_run(&child, line);
}

START_TEST(the_command_prints_an_object_for_each_row)
{
    run("bench pairs --through glibc,native --rounds 2 --runs 1 --pairs 200 --no-callgrind --json "
        "hot threads:1");
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
    const char *at = child.out;
    for (unsigned i = 0; i < 4; i++) {
        json_t *o = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        ck_assert_ptr_nonnull(o);
        at = strchr(at, '\n') + 1;
        ck_assert_str_eq(json_string_value(json_object_get(o, "scenario")),
                         i < 2 ? "hot" : "threads:1");
        ck_assert_str_eq(json_string_value(json_object_get(o, "through")),
                         i % 2 ? "native" : "glibc");
        ck_assert(json_real_value(json_object_get(o, "ns")) > 0);
        ck_assert(json_is_null(json_object_get(o, "ratio_to_torch")));
        ck_assert(json_is_null(json_object_get(o, "instructions")));
        ck_assert(json_is_real(json_object_get(o, i < 2 ? "p99_9_ns" : "speed_up")));
        ck_assert(json_is_null(json_object_get(o, i < 2 ? "speed_up" : "p99_9_ns")));
        json_decref(o);
    }
    ck_assert_str_eq(at, "");
}
END_TEST

START_TEST(bad_usage_makes_the_status_2_and_names_the_culprit)
{
    static const struct {
        const char *line;
        const char *culprit;
    } bad[] = {
        { "bench pairs --through pleat,best", "unknown row 'best'; known: torch, " },
        { "bench pairs --through hooks,hooks", "'hooks' is given twice" },
        { "bench pairs --through ''", "unknown row ''" },
        { "bench pairs random:none", "'random:none'" },
        { "bench pairs hot no_such_trace", "no_such_trace: no such file" },
        { "bench pairs --all hot", "--all and 'hot'" },
        { "bench pairs --rounds 0", "--rounds: '0'" },
        { "bench pairs --runs 101", "--runs: '101'" },
        { "bench pairs --pairs many", "--pairs: 'many'" },
        { "bench pairs --conf colour:red", "colour" },
        { "bench pairs --conf allocator:unpooled", "'allocator:unpooled': driver, sim and" },
        { "bench pairs --conf driver:cuda", "'driver:cuda': driver, sim and allocator" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        run(bad[i].line);
        ck_assert_msg(child.status == 2, "'%s': %d: %s", bad[i].line, child.status, child.err);
        ck_assert_str_eq(child.out, "");
        ck_assert_msg(strstr(child.err, bad[i].culprit) != NULL, "'%s': '%s' is not in '%s'",
                      bad[i].line, bad[i].culprit, child.err);
    }
}
END_TEST

START_TEST(rows_that_cannot_be_had_are_left_out_with_one_line)
{
    setenv("PLEAT_PAIRS", "/nonexistent", 1);
    run("bench pairs --through torch,torch-created,glibc --rounds 1 --runs 1 --pairs 50 "
        "--no-callgrind hot");
    ck_assert_int_eq(child.status, 0);
    ck_assert_ptr_nonnull(strstr(child.out, "  glibc "));
    ck_assert_ptr_null(strstr(child.out, "  torch"));
    ck_assert_ptr_nonnull(strstr(child.err, "left out: torch: "));
    ck_assert_ptr_eq(strchr(child.err, '\n'), strrchr(child.err, '\n'));
    run("bench pairs --through torch hot");
    ck_assert_int_eq(child.status, 1);
    ck_assert_ptr_nonnull(strstr(child.err, "no row is left"));
    unsetenv("PLEAT_PAIRS");
}
END_TEST

/* Each row has a separate count, in the order of the rows. */
START_TEST(instructions_are_counted_row_by_row)
{
    bool is_expected = access("/usr/bin/valgrind", X_OK) == 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    is_expected = false;
#endif
    run("bench pairs --through glibc,pleat --rounds 1 --runs 1 --pairs 50 --json hot");
    ck_assert_int_eq(child.status, 0);
    if (!is_expected) {
        return;
    }
    ck_assert_str_eq(child.err, "");
    json_t *glibc = json_loads(child.out, JSON_DISABLE_EOF_CHECK, NULL);
    json_t *pleat_row = json_loads(strchr(child.out, '\n') + 1, JSON_DISABLE_EOF_CHECK, NULL);
    double few = json_real_value(json_object_get(glibc, "instructions"));
    double many = json_real_value(json_object_get(pleat_row, "instructions"));
    ck_assert_msg(few > 20 && few < 500 && many > few && many < 20000, "%f %f", few, many);
    json_decref(glibc);
    json_decref(pleat_row);
}
END_TEST

/* PyTorch is measured if its wheel is installed. Otherwise the output gives the reason. */
START_TEST(pytorch_itself_is_measured_where_it_is_found)
{
    run("bench pairs --through torch,torch-created,pleat --rounds 1 --runs 1 --pairs 50 "
        "--no-callgrind hot streams:2");
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
    if (strstr(child.err, "left out: torch: ")) {
        return;
    }
    const char *row = strstr(child.out, "  torch ");
    ck_assert_ptr_nonnull(row);
    double ns = 0;
    double ratio = 0;
    ck_assert_int_eq(sscanf(row, "  torch %lf %lf", &ns, &ratio), 2);
    ck_assert(ns > 0 && ratio > 0.999 && ratio < 1.001);
    ck_assert_ptr_nonnull(strstr(child.out, "; PyTorch "));
    ck_assert_str_eq(child.err, "");
}
END_TEST

static TCase *with_tests(const char *name, const TTest *const *tests, size_t n)
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    for (size_t i = 0; i < n; i++) {
        tcase_add_test(tcase, tests[i]);
    }
    return tcase;
}

SUITE(bench_pairs)
{
    const TTest *const scenarios[] = {
        names_of_scenarios_are_read,
        bad_numbers_in_names_are_refused_with_the_bounds,
        threads_keep_to_their_own_blocks_and_a_seed_repeats_its_requests,
        hot_pairs_take_the_size_that_they_give_back,
    };
    const TTest *const cells[] = {
        all_rows_are_asked_for_the_same_and_each_free_is_followed_by_an_allocation,
        the_events_of_a_work_come_in_their_order_and_the_rest_is_freed,
        a_row_on_the_legacy_stream_is_left_out_where_there_are_several,
        a_request_that_fails_is_told_with_its_row,
        a_row_that_crashes_is_told_by_name,
        an_unknown_work_is_told_by_name,
        rows_of_pleat_tell_driver_calls_and_holds,
        threads_share_the_work_of_a_round,
    };
    const TTest *const command[] = {
        the_command_prints_an_object_for_each_row,
        bad_usage_makes_the_status_2_and_names_the_culprit,
        rows_that_cannot_be_had_are_left_out_with_one_line,
        instructions_are_counted_row_by_row,
        pytorch_itself_is_measured_where_it_is_found,
    };
    suite_add_tcase(suite, with_tests("scenarios", scenarios, 4));
    suite_add_tcase(suite, with_tests("cells", cells, 8));
    suite_add_tcase(suite, with_tests("command", command, 5));
}
