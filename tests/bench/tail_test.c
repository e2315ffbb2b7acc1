/* tail_test.c - scripts of single calls, and the figures of the longest calls. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/command/parse_options.h"
#include "bench/measure/tail.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/bench/bench_sim.h"
#include "tests/support/suite.h"

enum { N_BLOCKS = 128, N_PATTERNS = 6 };

static bench_setup setup;
static bench_script script;
static bench_tail_result result;
static bench_failure failure;

static void set_up(void)
{
    bench_sim_setup(&setup);
}

static void tear_down(void)
{
    bench_script_close(&script);
}

static void open_script(const char *spec)
{
    bench_script_close(&script);
    ck_assert_msg(bench_script_open(spec, N_BLOCKS, &script, &failure), "%s", failure.text);
}

static void measure(const char *allocator)
{
    bench_tail_options options = {
        .setup = &setup, .allocator = allocator, .script = &script, .n_rounds = 2
    };
    ck_assert_msg(bench_tail(&options, &result, &failure), "%s", failure.text);
}

static uint64_t count(bench_step_kind kind)
{
    uint64_t n = 0;
    for (size_t i = 0; i < script.n_steps; i++) {
        n += script.steps[i].kind == kind;
    }
    return n;
}

/* A step uses a block that is allocated and not freed yet, and no block is allocated twice. */
static void assert_sound(void)
{
    bool *is_live = calloc(script.n_blocks, sizeof *is_live);
    ck_assert_ptr_nonnull(is_live);
    for (size_t i = 0; i < script.n_steps; i++) {
        const bench_step *step = &script.steps[i];
        ck_assert_uint_lt(step->block, script.n_blocks);
        ck_assert_uint_lt(step->stream, script.n_streams);
        bool is_on_block = step->kind == BENCH_STEP_FREE || step->kind == BENCH_STEP_USE ||
                           step->kind == BENCH_STEP_WORK;
        ck_assert(!is_on_block || is_live[step->block]);
        ck_assert(step->kind != BENCH_STEP_ALLOC || !is_live[step->block]);
        is_live[step->block] = step->kind == BENCH_STEP_ALLOC ||
                               (is_live[step->block] && step->kind != BENCH_STEP_FREE);
    }
    free(is_live);
}

START_TEST(every_pattern_is_sound_and_has_about_as_many_blocks_as_asked_for)
{
    ck_assert_ptr_null(bench_script_pattern(N_PATTERNS));
    open_script(bench_script_pattern((unsigned)_i));
    ck_assert_str_eq(script.name, bench_script_pattern((unsigned)_i));
    assert_sound();
    ck_assert_uint_ge(count(BENCH_STEP_ALLOC), N_BLOCKS);
    ck_assert_uint_le(count(BENCH_STEP_ALLOC), 3 * N_BLOCKS);
}
END_TEST

START_TEST(every_call_of_a_pattern_is_measured)
{
    open_script(bench_script_pattern((unsigned)_i));
    measure("pleat");
    for (unsigned kind = 0; kind < BENCH_N_MEASURED; kind++) {
        const bench_tail_figures *f = &result.of[kind];
        uint64_t n = count((bench_step_kind)kind);
        ck_assert_uint_le(f->n_calls, n); /* blocks that were refused are not freed */
        ck_assert_uint_ge(f->n_calls + result.of[BENCH_STEP_ALLOC].n_failed, n);
        ck_assert(f->p50 <= f->p99 && f->p99 <= f->p99_9 && f->p99_9 <= f->most);
        if (n > 0) {
            ck_assert_uint_eq(script.steps[f->worst_step].kind, kind);
            ck_assert(f->most > 0 && f->longest_hold > 0);
        }
    }
    const bench_tail_figures *alloc = &result.of[BENCH_STEP_ALLOC];
    ck_assert_uint_eq(alloc->n_calls, count(BENCH_STEP_ALLOC));
    ck_assert(alloc->most_driver > 0);
}
END_TEST

START_TEST(only_requests_beyond_the_device_are_refused)
{
    open_script(bench_script_pattern((unsigned)_i));
    measure("pleat");
    bool is_uses = strcmp(script.name, "uses") == 0;
    ck_assert_uint_eq(result.of[BENCH_STEP_ALLOC].n_failed, is_uses ? 2 : 0);
}
END_TEST

START_TEST(an_allocator_without_private_pools_is_left_out_of_that_pattern)
{
    open_script("pool");
    measure("torch-native");
    ck_assert(result.is_left_out);
    open_script("alternating");
    measure("torch-native");
    ck_assert(!result.is_left_out);
    ck_assert_uint_eq(result.of[BENCH_STEP_ALLOC].n_calls, count(BENCH_STEP_ALLOC));
}
END_TEST

START_TEST(the_events_of_a_work_are_steps_with_work_around_them)
{
    static const char text[] = "i 0\na 1 1000000 0\na 2 2000000 1\nf 1\na 3 3000000 0\nf 3\nf 2\n";
    static const char kinds[] = "AWAWWFAWWFWF";
    const char *path = bench_child_file(".trace", text, strlen(text));
    open_script(path);
    unlink(path);
    assert_sound();
    ck_assert_uint_eq(script.n_steps, strlen(kinds));
    for (size_t i = 0; i < script.n_steps; i++) {
        bench_step_kind kind = script.steps[i].kind;
        char letter = "AF?????"[kind];
        ck_assert_int_eq(kind == BENCH_STEP_WORK ? 'W' : letter, kinds[i]);
    }
    ck_assert_uint_eq(script.n_streams, 2);
    ck_assert_uint_eq(script.steps[script.n_steps - 1].stream, 1); /* the stream of its block */
    measure("pleat");
    ck_assert_uint_eq(result.of[BENCH_STEP_ALLOC].n_calls, 3);
    ck_assert_uint_eq(result.of[BENCH_STEP_FREE].n_calls, 3);
}
END_TEST

START_TEST(what_is_neither_pattern_nor_work_is_named)
{
    ck_assert(!bench_script_open("alternatin", N_BLOCKS, &script, &failure));
    ck_assert_ptr_nonnull(strstr(failure.text, "alternatin"));
}
END_TEST

START_TEST(the_command_prints_a_line_for_each_kind_of_call)
{
    static bench_child child;
    bench_child_run(&child, "bench tail --blocks 64 --rounds 1 --json statistics pool");
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
    ck_assert_ptr_nonnull(strstr(child.err, "pool is left out: torch-native"));
    size_t n_lines = 0;
    for (const char *at = child.out; (at = strchr(at, '\n')) != NULL; at++) {
        n_lines++;
    }
    ck_assert_uint_eq(n_lines, 3 + 3 + 3);
    static const char *const wanted[] = { "\"call\":\"statistics\"", "\"call\":\"release\"",
                                          "\"p99_9_ns\":", "\"longest_hold_ns\":" };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        ck_assert_msg(strstr(child.out, wanted[i]) != NULL, "%s", wanted[i]);
    }
    bench_child_run(&child, "bench tail --blocks 63");
    ck_assert_int_eq(child.status, 2);
    bench_child_run(&child, "bench tail nonsense");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "nonsense"));
    bench_child_run(&child, "bench tails");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "'tails' is not known"));
    ck_assert_ptr_nonnull(strstr(child.err, "bench tail "));
}
END_TEST

SUITE(bench_tail)
{
    TCase *tcase = tcase_create("tail");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, every_pattern_is_sound_and_has_about_as_many_blocks_as_asked_for, 0,
                        N_PATTERNS);
    tcase_add_loop_test(tcase, every_call_of_a_pattern_is_measured, 0, N_PATTERNS);
    tcase_add_loop_test(tcase, only_requests_beyond_the_device_are_refused, 0, N_PATTERNS);
    tcase_add_test(tcase, an_allocator_without_private_pools_is_left_out_of_that_pattern);
    tcase_add_test(tcase, the_events_of_a_work_are_steps_with_work_around_them);
    tcase_add_test(tcase, what_is_neither_pattern_nor_work_is_named);
    tcase_add_test(tcase, the_command_prints_a_line_for_each_kind_of_call);
    suite_add_tcase(suite, tcase);
}
