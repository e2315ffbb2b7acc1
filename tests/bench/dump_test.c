/* dump_test.c - snapshots of replays, read back with the reader of PyTorch's snapshots. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/command/parse_options.h"
#include "bench/import/snapshot.h"
#include "bench/run/replay.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/bench/bench_sim.h"
#include "tests/support/suite.h"

static bench_setup setup;
static bench_work work;
static bench_record record;
static bench_failure failure;
static char path[64];

static void set_up(void)
{
    bench_sim_setup(&setup);
    static const char spec[] = "churn:iterations=60,allocations=50,least=2M,most=32M,streams=3";
    ck_assert_msg(bench_work_open(spec, &work, &failure), "%s", failure.text);
    snprintf(path, sizeof path, "%s", bench_child_file(".pickle", "", 0));
}

static void tear_down(void)
{
    unlink(path);
    bench_work_close(&work);
}

static bench_dump replay(const char *allocator, uint64_t memory_bytes, bench_dump_at at)
{
    bench_dump dump = { .path = path, .at = at };
    bench_replay_options options = {
        .setup = &setup,
        .allocator = allocator,
        .memory_bytes = memory_bytes,
        .loops = 1,
        .dump = &dump,
    };
    ck_assert_msg(bench_replay(&work, &options, &record, &failure), "%s", failure.text);
    return dump;
}

static bench_snapshot read_back(void)
{
    bench_snapshot snapshot;
    ck_assert_msg(bench_snapshot_read(path, NULL, NULL, BENCH_ANY_DEVICE, &snapshot, &failure),
                  "%s", failure.text);
    return snapshot;
}

static uint64_t live_bytes(const bench_snapshot *snapshot)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < snapshot->n_live; i++) {
        sum += (snapshot->live[i].bytes + BENCH_BLOCK_UNIT - 1) / BENCH_BLOCK_UNIT *
               BENCH_BLOCK_UNIT;
    }
    return sum;
}

/* All events of one pass, except marks. */
static size_t read_events(const bench_work *from, bench_event *out, size_t most)
{
    bench_cursor cursor;
    const bench_event *entries;
    size_t n_all = 0;
    ck_assert(bench_cursor_open(from, &cursor, &failure));
    for (size_t n; (n = bench_cursor_next(&cursor, &entries, &failure)) != 0;) {
        ck_assert_msg(n != SIZE_MAX, "%s", failure.text);
        for (size_t i = 0; i < n; i++) {
            if (entries[i].slot != BENCH_MARK) {
                ck_assert_uint_lt(n_all, most);
                out[n_all++] = entries[i];
            }
        }
    }
    bench_cursor_close(&cursor);
    return n_all;
}

START_TEST(a_replay_is_read_back_as_the_same_run)
{
    enum { MOST = 20000 };
    bench_work again;
    bench_dump dump = replay(pl_allocator_name((unsigned)_i), 0, BENCH_DUMP_END);
    ck_assert_str_eq(dump.taken, "at the end");
    ck_assert_msg(bench_work_open(path, &again, &failure), "%s", failure.text);
    ck_assert_uint_eq(again.n_events, work.n_events);
    ck_assert_uint_eq(again.n_streams, work.n_streams);
    ck_assert_uint_eq(again.n_slots, work.n_slots);
    ck_assert_uint_eq(again.peak_live_bytes, work.peak_live_bytes);
    bench_event *first = calloc(MOST, sizeof *first);
    bench_event *second = calloc(MOST, sizeof *second);
    ck_assert(first && second);
    size_t n = read_events(&work, first, MOST);
    ck_assert_uint_eq(read_events(&again, second, MOST), n);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(first[i].bytes, second[i].bytes);
        ck_assert_uint_eq(first[i].slot, second[i].slot);
        ck_assert(first[i].bytes == 0 || first[i].stream == second[i].stream);
    }
    free(first);
    free(second);
    bench_work_close(&again);
}
END_TEST

START_TEST(at_the_peak_the_live_blocks_are_the_peak)
{
    bench_dump dump = replay(pl_allocator_name((unsigned)_i), 0, BENCH_DUMP_NATURAL);
    ck_assert_str_eq(dump.taken, "at the peak of live bytes");
    bench_snapshot snapshot = read_back();
    ck_assert_uint_eq(live_bytes(&snapshot), work.peak_live_bytes);
    ck_assert_int_eq(snapshot.entries[snapshot.n_entries - 1].action, BENCH_SNAPSHOT_TAKEN);
    ck_assert_int_eq(snapshot.entries[snapshot.n_entries - 2].action, BENCH_SNAPSHOT_ALLOC);
    bench_snapshot_free(&snapshot);
}
END_TEST

START_TEST(a_failed_allocation_is_the_last_that_its_snapshot_tells)
{
    for (int is_natural = 0; is_natural < 2; is_natural++) {
        bench_dump dump = replay(pl_allocator_name((unsigned)_i), work.peak_live_bytes / 10 * 9,
                                 is_natural ? BENCH_DUMP_NATURAL : BENCH_DUMP_FAILURE);
        ck_assert_uint_gt(record.oom_count, 1);
        ck_assert_str_eq(dump.taken, "at the first failed allocation");
        bench_snapshot snapshot = read_back();
        size_t n_failed = 0;
        for (size_t i = 0; i < snapshot.n_entries; i++) {
            n_failed += snapshot.entries[i].action == BENCH_SNAPSHOT_OOM;
        }
        ck_assert_uint_eq(n_failed, 1);
        ck_assert_int_eq(snapshot.entries[snapshot.n_entries - 2].action, BENCH_SNAPSHOT_OOM);
        bench_snapshot_free(&snapshot);
    }
}
END_TEST

START_TEST(without_a_failure_none_is_written)
{
    bench_dump dump = replay("pleat", 0, BENCH_DUMP_FAILURE);
    ck_assert_ptr_null(dump.taken);
    ck_assert(
        !bench_snapshot_read(path, NULL, NULL, BENCH_ANY_DEVICE, &(bench_snapshot){ 0 }, &failure));
}
END_TEST

START_TEST(a_peak_that_never_comes_is_replaced_by_the_end)
{
    bench_dump dump = replay("pleat", work.peak_live_bytes / 2, BENCH_DUMP_PEAK);
    ck_assert_uint_gt(record.oom_count, 0);
    ck_assert_str_eq(dump.taken, "at the end");
}
END_TEST

START_TEST(a_snapshot_changes_nothing_that_is_counted)
{
    replay("pleat", 0, BENCH_DUMP_END);
    bench_record with = record;
    bench_replay_options options = { .setup = &setup, .allocator = "pleat", .loops = 1 };
    ck_assert(bench_replay(&work, &options, &record, &failure));
    ck_assert_uint_eq(bench_record_ops(&with), bench_record_ops(&record));
    ck_assert_uint_eq(with.peak_reserved_bytes, record.peak_reserved_bytes);
    ck_assert_mem_eq(with.calls, record.calls, sizeof with.calls);
}
END_TEST

static void expect_usage(const char *line, const char *said)
{
    static bench_child child;
    bench_child_run(&child, line);
    ck_assert_int_ne(child.status, 0);
    ck_assert_msg(strstr(child.err, said), "%s: %s", line, child.err);
}

START_TEST(what_one_file_cannot_hold_is_refused)
{
    expect_usage("replay churn moe --snapshot s.pickle", "one WORK and one --allocator");
    expect_usage("replay churn --allocator pleat,torch-native --snapshot s.pickle", "one WORK");
    expect_usage("replay churn --snapshot-at peak", "both are needed");
    expect_usage("replay churn --snapshot s.pickle --snapshot-at noon", "'noon' is not peak");
    expect_usage("replay pytorch#35901 --driver sim --snapshot /no/folder/s.pickle", "/no/folder");
    ck_assert_int_ne(access("s.pickle", F_OK), 0);
}
END_TEST

SUITE(bench_dump)
{
    int n_allocators = 0;
    while (pl_allocator_name((unsigned)n_allocators)) {
        n_allocators++;
    }
    TCase *tcase = tcase_create("dump");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_replay_is_read_back_as_the_same_run, 0, n_allocators);
    tcase_add_loop_test(tcase, at_the_peak_the_live_blocks_are_the_peak, 0, n_allocators);
    tcase_add_loop_test(tcase, a_failed_allocation_is_the_last_that_its_snapshot_tells, 0,
                        n_allocators);
    tcase_add_test(tcase, without_a_failure_none_is_written);
    tcase_add_test(tcase, a_peak_that_never_comes_is_replaced_by_the_end);
    tcase_add_test(tcase, a_snapshot_changes_nothing_that_is_counted);
    tcase_add_test(tcase, what_one_file_cannot_hold_is_refused);
    suite_add_tcase(suite, tcase);
}
