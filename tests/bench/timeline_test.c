/* timeline_test.c - the timeline of a replay agrees with the figures at its end. */
#include <check.h>
#include <string.h>
#include <unistd.h>

#include "bench/command/parse_options.h"
#include "bench/run/replay.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/bench/bench_sim.h"
#include "tests/support/suite.h"

#define MIB (UINT64_C(1) << 20)

static bench_setup setup;
static bench_work work;
static bench_record record;
static bench_failure failure;
static bench_timeline timeline;

static void set_up(void)
{
    bench_sim_setup(&setup);
}

static void tear_down(void)
{
    bench_work_close(&work);
}

static void load(const char *text)
{
    const char *path = bench_child_file(".trace", text, strlen(text));
    ck_assert_msg(bench_work_open(path, &work, &failure), "%s", failure.text);
    unlink(path);
}

/* A run of 80 iterations of large blocks on two streams. */
static void load_churn(void)
{
    static const char spec[] = "churn:iterations=80,allocations=60,least=2M,most=32M,streams=2";
    ck_assert_msg(bench_work_open(spec, &work, &failure), "%s", failure.text);
}

static void replay(const char *allocator, uint64_t memory_bytes, unsigned loops,
                   bench_timeline *into)
{
    bench_replay_options options = {
        .setup = &setup,
        .allocator = allocator,
        .memory_bytes = memory_bytes,
        .loops = loops,
        .timeline = into,
    };
    ck_assert_msg(bench_replay(&work, &options, &record, &failure), "%s", failure.text);
}

static bench_bucket sum(void)
{
    bench_bucket total = { .event = 0 };
    for (unsigned i = 0; i < timeline.n_buckets; i++) {
        const bench_bucket *b = &timeline.buckets[i];
        total.ops += b->ops;
        total.failures += b->failures;
        total.syncs += b->syncs;
        total.host_ns += b->host_ns;
        total.driver_us += b->driver_us;
        total.live_bytes = b->live_bytes > total.live_bytes ? b->live_bytes : total.live_bytes;
        if (b->resident_bytes > total.resident_bytes) {
            total.resident_bytes = b->resident_bytes;
        }
    }
    return total;
}

START_TEST(sums_of_the_buckets_are_the_totals_of_the_replay)
{
    const char *allocator = pl_allocator_name((unsigned)_i);
    load_churn();
    uint64_t tight = work.peak_live_bytes / 100 * 97 / MIB * MIB;
    const uint64_t memories[] = { 0, tight };
    for (int i = 0; i < 2; i++) {
        replay(allocator, memories[i], 2, &timeline);
        bench_bucket total = sum();
        ck_assert_uint_eq(timeline.n_events, record.n_events);
        ck_assert_uint_eq(timeline.n_iterations, 160);
        ck_assert_uint_eq(total.ops, bench_record_ops(&record));
        ck_assert_uint_eq(total.failures, record.oom_count);
        ck_assert_uint_eq(total.syncs, record.host_syncs);
        ck_assert_double_eq_tol(total.driver_us, record.driver_us, 1e-6 * record.driver_us);
        ck_assert_uint_le(total.resident_bytes, record.peak_reserved_bytes);
        if (record.oom_count == 0) {
            ck_assert_uint_eq(total.live_bytes, work.peak_live_bytes);
        }
        ck_assert_uint_eq(record.oom_count == 0, i == 0);
    }
}
END_TEST

START_TEST(there_are_at_most_600_buckets_in_order)
{
    load_churn();
    replay("torch-native", 0, 1, &timeline);
    ck_assert_uint_gt(timeline.n_buckets, 300);
    ck_assert_uint_le(timeline.n_buckets, 600);
    ck_assert_uint_eq(timeline.buckets[0].event, 0);
    for (unsigned i = 1; i < timeline.n_buckets; i++) {
        const bench_bucket *before = &timeline.buckets[i - 1];
        ck_assert_uint_eq(timeline.buckets[i].event - before->event, timeline.buckets[1].event);
        ck_assert_uint_ge(timeline.buckets[i].iteration, before->iteration);
    }
    const bench_bucket *last = &timeline.buckets[timeline.n_buckets - 1];
    ck_assert_uint_lt(last->event, timeline.n_events);
    ck_assert_uint_eq(last->iteration, 80);
}
END_TEST

/* PyTorch takes 2 MiB for the first block, 20 MiB for the second and 20 MiB for the third. */
static const char small_text[] = "i 0\na 1 1000000 0\na 2 2000000 0\ni 1\na 3 20000000 0\nf 2\n"
                                 "f 1\nf 3\n";

START_TEST(a_short_run_has_a_bucket_for_each_event)
{
    static const uint64_t live[] = { 1000448, 3000832, 23001088, 21000704, 20000256, 0 };
    static const uint64_t resident[] = { 2, 22, 42, 42, 42, 42 };
    static const uint64_t iteration[] = { 0, 1, 1, 2, 2, 2 };
    load(small_text);
    replay("torch-native", 0, 1, &timeline);
    ck_assert_uint_eq(timeline.n_buckets, 6);
    for (unsigned i = 0; i < 6; i++) {
        ck_assert_uint_eq(timeline.buckets[i].event, i);
        ck_assert_uint_eq(timeline.buckets[i].live_bytes, live[i]);
        ck_assert_uint_eq(timeline.buckets[i].resident_bytes, resident[i] * MIB);
        ck_assert_uint_eq(timeline.buckets[i].iteration, iteration[i]);
        ck_assert_uint_eq(timeline.buckets[i].ops, i < 3);
    }
    ck_assert(!timeline.is_timed);
    ck_assert_double_eq(sum().host_ns, 0.0);
}
END_TEST

START_TEST(a_timed_run_has_the_time_of_the_host)
{
    load_churn();
    bench_replay_options options = {
        .setup = &setup, .allocator = "pleat", .loops = 1, .timeline = &timeline, .is_timed = true
    };
    ck_assert_msg(bench_replay(&work, &options, &record, &failure), "%s", failure.text);
    ck_assert(timeline.is_timed);
    ck_assert_uint_eq(record.own.n_runs, 1);
    ck_assert_double_gt(record.own.least_ns, 0.0);
    ck_assert_double_ge(sum().host_ns, record.own.least_ns * (double)work.n_events * 0.999);
}
END_TEST

START_TEST(a_timeline_changes_nothing_that_is_counted)
{
    const char *allocator = pl_allocator_name((unsigned)_i);
    load_churn();
    replay(allocator, 0, 1, NULL);
    bench_record without = record;
    replay(allocator, 0, 1, &timeline);
    ck_assert_uint_eq(record.peak_reserved_bytes, without.peak_reserved_bytes);
    ck_assert_uint_eq(record.bytes_mapped, without.bytes_mapped);
    ck_assert_mem_eq(record.calls, without.calls, sizeof record.calls);
}
END_TEST

SUITE(bench_timeline)
{
    int n_allocators = 0;
    while (pl_allocator_name((unsigned)n_allocators)) {
        n_allocators++;
    }
    TCase *buckets = tcase_create("buckets");
    tcase_add_checked_fixture(buckets, set_up, tear_down);
    tcase_add_loop_test(buckets, sums_of_the_buckets_are_the_totals_of_the_replay, 0, n_allocators);
    tcase_add_loop_test(buckets, a_timeline_changes_nothing_that_is_counted, 0, n_allocators);
    tcase_add_test(buckets, there_are_at_most_600_buckets_in_order);
    tcase_add_test(buckets, a_short_run_has_a_bucket_for_each_event);
    tcase_add_test(buckets, a_timed_run_has_the_time_of_the_host);
    suite_add_tcase(suite, buckets);
}
