/* replay_test.c - small traces with known figures, through the whole stack. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/command/parse_options.h"
#include "bench/run/fit.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/bench/bench_sim.h"
#include "tests/support/suite.h"

#define MIB (UINT64_C(1) << 20)

static bench_setup setup;
static bench_work trace;
static bench_record record;
static bench_failure failure;

static void set_up(void)
{
    bench_sim_setup(&setup);
    ck_assert(bench_setup_is_sim(&setup));
    ck_assert_uint_eq(setup.granule_bytes, 2 * MIB);
}

/* bench_replay itself fails when the simulator still holds something after a run. */
static void tear_down(void)
{
    bench_work_close(&trace);
}

static void load(const char *text)
{
    const char *path = bench_child_file(".trace", text, strlen(text));
    ck_assert_msg(bench_work_open(path, &trace, &failure), "%s", failure.text);
    unlink(path);
}

static void replay(const char *allocator, uint64_t memory_bytes, unsigned loops)
{
    bench_replay_options options = {
        .setup = &setup, .allocator = allocator, .memory_bytes = memory_bytes, .loops = loops
    };
    ck_assert_msg(bench_replay(&trace, &options, &record, &failure), "%s", failure.text);
}

static void fit(const char *allocator)
{
    bench_replay_options options = { .setup = &setup, .allocator = allocator, .loops = 1 };
    ck_assert_msg(bench_fit(&trace, &options, &record, &failure), "%s", failure.text);
}

/* PyTorch takes 2 MiB for the first block, 20 MiB for the second and 20 MiB for the third; the
 * fourth goes into the second's place. */
static const char pytorch_text[] = "a 1 1000000 0\n"
                                   "a 2 2000000 0\n"
                                   "a 3 20000000 0\n"
                                   "f 2\n"
                                   "a 4 3000000 0\n"
                                   "f 3\n";

START_TEST(torch_native_reserves_what_pytorch_would)
{
    load(pytorch_text);
    replay("torch-native", 0, 1);
    ck_assert_str_eq(record.allocator, "torch-native");
    ck_assert_str_eq(record.driver, "sim");
    ck_assert_uint_eq(record.memory_bytes, UINT64_C(1) << 40);
    ck_assert_uint_eq(record.peak_live_bytes, 1000448 + 20000256 + 3000320);
    ck_assert_uint_eq(record.peak_reserved_bytes, 42 * MIB);
    ck_assert_uint_eq(record.n_events, 6);
    ck_assert_uint_eq(record.oom_count, 0);
    ck_assert_uint_eq(record.hazards, 0);
    ck_assert_uint_eq(record.ops_alloc, 3);
    ck_assert_uint_eq(bench_record_ops(&record), 3);
    ck_assert_uint_eq(record.calls[PL_CU_mem_alloc], 3);
    ck_assert_uint_eq(record.calls[PL_CU_mem_create], 0);
    ck_assert_uint_eq(record.calls[PL_CU_stream_create], 0);
    ck_assert_uint_eq(record.n_loops, 1);
    ck_assert_uint_eq(record.loop_ops[0], 3);
}
END_TEST

START_TEST(a_failed_allocation_is_counted_and_its_free_skipped)
{
    load(pytorch_text);
    replay("torch-native", 41 * MIB, 1);
    ck_assert_uint_eq(record.memory_bytes, 41 * MIB);
    ck_assert_uint_eq(record.oom_count, 1);
    ck_assert_uint_eq(record.n_events, 6);
    ck_assert_uint_eq(record.peak_reserved_bytes, 22 * MIB);
    ck_assert_uint_eq(record.hazards, 0);
    ck_assert_str_ne(record.first_failure, "");
    ck_assert(!bench_record_is_clean(&record));
}
END_TEST

START_TEST(loops_are_alike_and_what_lives_is_freed_between_them)
{
    load(pytorch_text);
    replay("torch-native", 0, 3);
    ck_assert_uint_eq(record.n_loops, 3);
    ck_assert_uint_eq(record.n_events, 18);
    ck_assert_uint_eq(record.loop_ops[0], 3);
    ck_assert_uint_eq(record.loop_ops[1], 0);
    ck_assert_uint_eq(record.loop_ops[2], 0);
    ck_assert_uint_eq(record.peak_reserved_bytes, 42 * MIB);
}
END_TEST

/* Layers of 40 MiB are read by a second stream and freed in turn. The host is far ahead of this
 * stream. */
static void load_far_ahead(void)
{
    enum { N = 20 };
    char text[64 * N];
    size_t n = 0;
    for (unsigned i = 0; i < N; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "a %u 41943040 0\nu %u %u 1\nf %u\n", i, i,
                              i, i);
    }
    for (unsigned i = 0; i < N; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "e %u\n", i);
    }
    load(text);
}

START_TEST(uses_are_repeated_and_who_waits_needs_no_room_for_them)
{
    static const char *const names[] = { "torch-native", "torch-expandable", "pleat" };
    load_far_ahead();
    ck_assert_uint_eq(trace.peak_live_bytes, 40 * MIB);
    ck_assert_uint_eq(trace.peak_pending_bytes, 800 * MIB);
    for (unsigned i = 0; i < 3; i++) {
        replay(names[i], 0, 2);
        ck_assert_msg(bench_record_is_clean(&record), "%s", names[i]);
        ck_assert_uint_ge(record.peak_reserved_bytes, 800 * MIB);
        replay(names[i], 100 * MIB, 2);
        ck_assert_msg(bench_record_is_clean(&record), "%s: %s", names[i], record.first_failure);
    }
}
END_TEST

START_TEST(a_use_that_is_over_keeps_nothing)
{
    load("a 1 41943040 0\nu 1 1 1\nf 1\ne 1\na 2 41943040 0\n"
         "u 1 2 1\ne 1\nf 2\na 3 41943040 0\n");
    replay("torch-native", 0, 1);
    ck_assert(bench_record_is_clean(&record));
    ck_assert_uint_eq(record.peak_reserved_bytes, 40 * MIB);
}
END_TEST

START_TEST(fit_finds_the_bytes_that_pytorch_needs)
{
    load(pytorch_text);
    fit("torch-native");
    ck_assert(record.is_fit);
    ck_assert_uint_eq(record.least_memory_bytes, 42 * MIB);
    ck_assert_uint_eq(record.memory_bytes, 42 * MIB);
    ck_assert_uint_eq(record.oom_count, 0);
    ck_assert_double_eq_tol(record.ratio, 42.0 * (double)MIB / 24001024.0, 1e-9);
}
END_TEST

/* Two separate gaps, of 2 MiB and of 4 MiB, serve a block of 6 MiB. */
static const char granules_text[] = "a 1 2097152 0\n"
                                    "a 2 8388608 0\n"
                                    "a 3 4194304 0\n"
                                    "a 4 8388608 0\n"
                                    "f 1\n"
                                    "f 3\n"
                                    "a 5 6291456 0\n";

START_TEST(pleat_needs_no_more_than_the_granules_that_live)
{
    load(granules_text);
    ck_assert_uint_eq(trace.peak_live_bytes, 22 * MIB);
    fit("pleat");
    ck_assert_uint_eq(record.least_memory_bytes, 22 * MIB);
    ck_assert_uint_eq(record.hazards, 0);
    ck_assert_uint_eq(record.host_syncs, 0);
    ck_assert_double_eq_tol(record.ratio, 1.0, 1e-9);
}
END_TEST

START_TEST(fit_of_work_larger_than_any_device_finds_nothing)
{
    load("a 1 140737488355328 0\n");
    fit("pleat");
    ck_assert_uint_eq(record.least_memory_bytes, 0);
    ck_assert_uint_eq(record.oom_count, 1);
}
END_TEST

/* On the default costs a MiB of cuMemAlloc, and of cuMemFree, takes 7.8 microseconds. */
#define US_PER_BYTE (7.8 / 1048576)

START_TEST(the_drivers_time_is_told_of_the_first_pass_and_of_later_ones)
{
    double each_us = 2 * 26e6 * US_PER_BYTE;
    load(pytorch_text);
    replay("torch-native", 0, 3);
    ck_assert_double_eq_tol(record.first_driver_us, 42 * 7.8, 1e-6);
    ck_assert_double_eq_tol(record.later_driver_us, 0, 1e-6);
    ck_assert_double_eq_tol(record.longest_driver_us, 20 * 7.8, 1e-6);
    ck_assert_uint_eq(record.n_later, 2);
    replay("unpooled", 0, 3);
    ck_assert_double_eq_tol(record.first_driver_us, each_us, 1e-6);
    ck_assert_double_eq_tol(record.later_driver_us, each_us, 1e-6);
    ck_assert_double_eq_tol(record.driver_us, 3 * each_us, 1e-6);
    ck_assert_double_eq_tol(record.longest_driver_us, 20e6 * US_PER_BYTE, 1e-6);
    replay("unpooled", 0, 1);
    ck_assert_uint_eq(record.n_later, 0);
    ck_assert_double_eq(record.later_driver_us, 0);
}
END_TEST

START_TEST(of_later_passes_nothing_counts_but_the_drivers_time)
{
    load("a 1 20000000 0\na 2 20000000 0\nf 1\nf 2\n"); /* the second fails */
    bench_record alone;
    replay("unpooled", 32 * MIB, 1);
    alone = record;
    ck_assert_uint_eq(alone.oom_count, 1);
    bench_replay_options options = {
        .setup = &setup,
        .allocator = "unpooled",
        .memory_bytes = 32 * MIB,
        .loops = 1,
        .later_passes = 2,
    };
    ck_assert_msg(bench_replay(&trace, &options, &record, &failure), "%s", failure.text);
    ck_assert_uint_eq(record.n_later, 2);
    ck_assert_double_eq_tol(record.later_driver_us, alone.first_driver_us, 1e-6);
    record.later_driver_us = 0;
    record.n_later = 0;
    ck_assert_mem_eq(&record, &alone, sizeof record);
}
END_TEST

START_TEST(every_stream_of_the_trace_is_a_stream_of_its_own)
{
    load("a 1 4194304 0\na 2 4194304 5\nf 1\na 3 4194304 5\nf 2\nf 3\n");
    replay("pleat", 0, 2);
    ck_assert_uint_eq(record.oom_count, 0);
    ck_assert_uint_eq(record.hazards, 0);
    ck_assert_uint_eq(record.calls[PL_CU_memset_async], 0);
    ck_assert(record.driver_us > 0.0);
}
END_TEST

static bool init_with(const char *conf, const char *sim)
{
    bench_options options;
    bench_options_init(&options);
    options.target.has_driver = true;
    options.target.driver = PL_DRIVER_SIM;
    options.target.conf = conf;
    options.target.sim = sim;
    bench_setup other;
    return bench_setup_init(&other, &options.target, &failure);
}

START_TEST(bad_configurations_are_refused_with_their_key)
{
    static const struct {
        const char *conf;
        const char *sim;
        const char *culprit;
    } bad[] = {
        { "groth:frugal", "", "groth" },         { "growth:fast", "", "growth" },
        { "", "capacity:1G", "--memory" },       { "", "depth:3", "--depth" },
        { "", "granularity:3M", "granularity" }, { "", "colour:red", "colour" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!init_with(bad[i].conf, bad[i].sim), "accepted: %s %s", bad[i].conf,
                      bad[i].sim);
        ck_assert_msg(strstr(failure.text, bad[i].culprit) != NULL, "'%s' is not in '%s'",
                      bad[i].culprit, failure.text);
    }
}
END_TEST

START_TEST(sources_of_the_simulators_configuration_lie_on_top_of_each_other)
{
    ck_assert_int_eq(setenv("PLEAT_SIM", "granularity:1M,name:first,capacity:3G", 1), 0);
    ck_assert_int_eq(setenv("PLEAT_CONF", "sim:[name:second]", 1), 0);
    bench_options options;
    bench_options_init(&options);
    options.target.has_driver = true;
    options.target.driver = PL_DRIVER_SIM;
    ck_assert_msg(bench_setup_init(&setup, &options.target, &failure), "%s", failure.text);
    ck_assert_str_eq(setup.gpu, "second");
    ck_assert_uint_eq(setup.granule_bytes, MIB);
    ck_assert_uint_eq(setup.total_bytes, UINT64_C(1) << 40);
    options.target.sim = "name:third";
    ck_assert_msg(bench_setup_init(&setup, &options.target, &failure), "%s", failure.text);
    ck_assert_str_eq(setup.gpu, "third");
}
END_TEST

SUITE(bench_replay)
{
    TCase *replays = tcase_create("replay");
    tcase_add_checked_fixture(replays, set_up, tear_down);
    tcase_add_test(replays, torch_native_reserves_what_pytorch_would);
    tcase_add_test(replays, a_failed_allocation_is_counted_and_its_free_skipped);
    tcase_add_test(replays, loops_are_alike_and_what_lives_is_freed_between_them);
    tcase_add_test(replays, of_later_passes_nothing_counts_but_the_drivers_time);
    tcase_add_test(replays, the_drivers_time_is_told_of_the_first_pass_and_of_later_ones);
    tcase_add_test(replays, every_stream_of_the_trace_is_a_stream_of_its_own);
    suite_add_tcase(suite, replays);
    TCase *fits = tcase_create("fit");
    tcase_add_checked_fixture(fits, set_up, tear_down);
    tcase_add_test(fits, uses_are_repeated_and_who_waits_needs_no_room_for_them);
    tcase_add_test(fits, a_use_that_is_over_keeps_nothing);
    tcase_add_test(fits, fit_finds_the_bytes_that_pytorch_needs);
    tcase_add_test(fits, pleat_needs_no_more_than_the_granules_that_live);
    tcase_add_test(fits, fit_of_work_larger_than_any_device_finds_nothing);
    suite_add_tcase(suite, fits);
    TCase *setups = tcase_create("setup");
    tcase_add_test(setups, bad_configurations_are_refused_with_their_key);
    tcase_add_test(setups, sources_of_the_simulators_configuration_lie_on_top_of_each_other);
    suite_add_tcase(suite, setups);
}
