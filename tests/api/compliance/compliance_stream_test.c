/* compliance_stream_test.c - memory in use on streams, under every allocator.
 *
 * Declared work on the simulator does not finish by itself. So memory used too early is a hazard,
 * found by compliance_close. */
#include <stdlib.h>

#include "tests/support/api/api_compliance.h"
#include "tests/support/suite.h"

#define MIB ((size_t)1 << 20)

static const char patient[] = "capacity:1G,depth:1048576";

/* One of the next two blocks of this size is `ptr`. */
static void check_comes_back(compliance *c, pleat_devptr ptr, size_t bytes, void *stream)
{
    pleat_devptr a = compliance_alloc(c, bytes, stream);
    pleat_devptr b = compliance_alloc(c, bytes, stream);
    if (compliance_has(c, COMPLIANCE_CACHES)) {
        ck_assert(a == ptr || b == ptr);
    }
    compliance_free(c, a, stream);
    compliance_free(c, b, stream);
}

/* Make a call that names the stream. Some allocators learn only in such calls that a stream's work
 * is over. */
static void name(compliance *c, void *stream)
{
    compliance_free(c, compliance_alloc(c, 512, stream), stream);
}

/* The next block is used at once. `old` is allowed in two cases only: the host has waited for all
 * work on `old`, or the stream is ordered after this work. Else the simulator sees a race. */
static pleat_devptr reuse(compliance *c, pleat_devptr old, size_t bytes, void *stream)
{
    pleat_devptr ptr = compliance_alloc(c, bytes, stream);
    if (ptr == old && !compliance_has(c, COMPLIANCE_ORDERS_ON_REUSE)) {
        ck_assert(compliance_has(c, COMPLIANCE_WAITS_ON_REUSE) ||
                  !compliance_has(c, COMPLIANCE_CACHES));
        ck_assert_uint_eq(compliance_counts(c).unfinished_work, 0);
    }
    compliance_use(c, stream, ptr, bytes);
    return ptr;
}

/* PyTorch test_record_stream. */
START_TEST(a_block_used_elsewhere_is_not_reused_before_that_use_is_over)
{
    compliance c = compliance_open(_i, patient, "");
    pleat_devptr ptr = compliance_alloc(&c, 4 * MIB, c.streams[0]);
    compliance_use(&c, c.streams[1], ptr, 4 * MIB);
    compliance_record(&c, ptr, c.streams[1]);
    compliance_free(&c, ptr, c.streams[0]);
    pleat_devptr next = reuse(&c, ptr, 4 * MIB, c.streams[0]);
    name(&c, c.streams[1]);
    compliance_finish(&c);
    compliance_free(&c, next, c.streams[0]);
    check_comes_back(&c, ptr, 4 * MIB, c.streams[0]);
    compliance_close(&c);
}
END_TEST

/* PyTorch test_record_stream_on_shifted_view. Here only the start names a block. */
START_TEST(a_use_is_recorded_by_the_blocks_start_only)
{
    compliance c = compliance_open(_i, patient, "");
    pleat_devptr ptr = compliance_alloc(&c, 4 * MIB, c.streams[0]);
    ck_assert_int_eq(pleat_block_record_stream(c.instance, 0, ptr + 512, c.streams[1]),
                     PLEAT_EFOREIGN);
    pleat_block_info info = compliance_query(&c, ptr + 512);
    compliance_use(&c, c.streams[1], ptr, 4 * MIB);
    compliance_record(&c, info.base, c.streams[1]);
    compliance_free(&c, info.base, c.streams[0]);
    pleat_devptr next = reuse(&c, ptr, 4 * MIB, c.streams[0]);
    compliance_free(&c, next, c.streams[0]);
    compliance_close(&c);
}
END_TEST

/* PyTorch: a block's own stream needs no event; XLA BackToBackMappedAllocationsReuse... */
START_TEST(a_stream_reuses_its_own_block_at_once_and_nobody_waits)
{
    static const size_t sizes[] = { 512, 600000, 4 * MIB, 40 * MIB };
    compliance c = compliance_open(_i, patient, "");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pleat_devptr ptr = compliance_alloc(&c, sizes[i], c.streams[0]);
        compliance_record(&c, ptr, c.streams[0]);
        compliance_use(&c, c.streams[0], ptr, sizes[i]);
        uint64_t syncs = compliance_stats(&c).host_syncs;
        compliance_free(&c, ptr, c.streams[0]);
        pleat_devptr next = compliance_alloc(&c, sizes[i], c.streams[0]);
        compliance_use(&c, c.streams[0], next, sizes[i]);
        if (compliance_has(&c, COMPLIANCE_CACHES)) {
            ck_assert_uint_eq(next, ptr);
            ck_assert_uint_eq(compliance_stats(&c).host_syncs, syncs);
            ck_assert_uint_ge(compliance_counts(&c).unfinished_work, 2);
        } else {
            ck_assert_uint_eq(compliance_stats(&c).host_syncs, syncs + 1);
        }
        compliance_free(&c, next, c.streams[0]);
        compliance_finish(&c);
    }
    compliance_close(&c);
}
END_TEST

/* PyTorch's contract of free: the last use was on the block's stream or on a recorded stream. */
START_TEST(a_free_on_another_stream_counts_as_a_use_there)
{
    compliance c = compliance_open(_i, patient, "");
    pleat_devptr ptr = compliance_alloc(&c, 4 * MIB, c.streams[0]);
    compliance_use(&c, c.streams[2], ptr, 4 * MIB);
    compliance_free(&c, ptr, c.streams[2]);
    pleat_devptr next = reuse(&c, ptr, 4 * MIB, c.streams[0]);
    compliance_free(&c, next, c.streams[0]);
    compliance_finish(&c);
    check_comes_back(&c, ptr, 4 * MIB, c.streams[0]);
    compliance_close(&c);
}
END_TEST

START_TEST(all_recorded_uses_must_be_over)
{
    compliance c = compliance_open(_i, patient, "");
    pleat_devptr ptr = compliance_alloc(&c, 4 * MIB, c.streams[0]);
    pleat_devptr other = compliance_alloc(&c, MIB, c.streams[0]);
    for (int i = 1; i < COMPLIANCE_STREAMS; i++) {
        /* the test orders the streams, so the uses do not race */
        compliance_order(&c, c.streams[i - 1], c.streams[i]);
        compliance_use(&c, c.streams[i], ptr, 4 * MIB);
        compliance_record(&c, ptr, c.streams[i]);
        compliance_record(&c, ptr, c.streams[i]);
    }
    compliance_free(&c, ptr, c.streams[0]);
    ck_assert_int_eq(pl_cu_stream_synchronize(c.work.drv, c.streams[1]), 0);
    pleat_devptr next = reuse(&c, ptr, 4 * MIB, c.streams[0]);
    ck_assert_int_eq(pl_cu_stream_synchronize(c.work.drv, c.streams[2]), 0);
    pleat_devptr third = reuse(&c, ptr, 4 * MIB, c.streams[0]);
    compliance_free(&c, next, c.streams[0]);
    compliance_free(&c, third, c.streams[0]);
    compliance_free(&c, other, c.streams[0]);
    compliance_close(&c);
}
END_TEST

/* PyTorch test_caching_allocator_record_stream_oom. */
START_TEST(a_hundred_delayed_frees_do_not_run_out_of_memory)
{
    compliance c = compliance_open(_i, patient, "");
    for (int i = 0; i < 100; i++) {
        pleat_devptr ptr = compliance_alloc(&c, 160 * MIB, c.streams[0]);
        compliance_use(&c, c.streams[0], ptr, 160 * MIB);
        compliance_order(&c, c.streams[0], c.streams[1]);
        compliance_use(&c, c.streams[1], ptr, 160 * MIB);
        compliance_record(&c, ptr, c.streams[1]);
        compliance_free(&c, ptr, c.streams[0]);
    }
    ck_assert_uint_eq(compliance_stats(&c).num_ooms, 0);
    ck_assert_uint_eq(compliance_stats(&c).allocation[0].allocated, 100);
    compliance_close(&c);
}
END_TEST

/* PyTorch test_mempool ..._reclaim_2_streams: the cache of one stream makes way for a second. */
START_TEST(memory_freed_on_one_stream_reaches_another_before_anything_fails)
{
    compliance c = compliance_open(_i, patient, "");
    for (int i = 0; i < 8; i++) {
        void *stream = c.streams[i % COMPLIANCE_STREAMS];
        pleat_devptr ptr = compliance_alloc(&c, 700 * MIB, stream);
        compliance_use(&c, stream, ptr, 700 * MIB);
        compliance_free(&c, ptr, stream);
    }
    ck_assert_uint_eq(compliance_stats(&c).num_ooms, 0);
    compliance_close(&c);
}
END_TEST

/* MXNet and BFC have a common cache for all streams. PyTorch has a cache per stream. */
START_TEST(only_shared_caches_hand_settled_memory_to_other_streams_first)
{
    compliance c = compliance_open(_i, patient, "");
    pleat_devptr ptr = compliance_alloc(&c, 30 * MIB, c.streams[0]);
    compliance_free(&c, ptr, c.streams[0]);
    compliance_finish(&c);
    uint64_t resident = compliance_stats(&c).resident_bytes;
    pleat_devptr next = compliance_alloc(&c, 30 * MIB, c.streams[1]);
    if (compliance_has(&c, COMPLIANCE_SHARES_STREAMS)) {
        ck_assert_uint_eq(next, ptr);
    } else if (compliance_has(&c, COMPLIANCE_CACHES)) {
        ck_assert_uint_ne(next, ptr);
        ck_assert_uint_gt(compliance_stats(&c).resident_bytes, resident);
    }
    compliance_free(&c, next, c.streams[1]);
    compliance_close(&c);
}
END_TEST

/* PyTorch test_expandable_segments_empty_cache_wrong_device; Paddle ReleaseWaitsBefore...;
 * XLA SynchronizePendingOperationsDrainsQueue. */
START_TEST(memory_goes_back_to_the_driver_only_after_its_last_use)
{
    compliance c = compliance_open(_i, patient, "");
    pleat_devptr own = compliance_alloc(&c, 40 * MIB, c.streams[0]);
    pleat_devptr shared = compliance_alloc(&c, 40 * MIB, c.streams[0]);
    compliance_use(&c, c.streams[0], own, 40 * MIB);
    compliance_use(&c, c.streams[1], shared, 40 * MIB);
    compliance_record(&c, shared, c.streams[1]);
    compliance_free(&c, own, c.streams[0]);
    compliance_free(&c, shared, c.streams[0]);
    uint64_t released = 0;
    pleat_status st = pleat_device_trim(c.instance, 0, 0, false, &released);
    ck_assert(st == PLEAT_OK || st == PLEAT_EPENDING);
    compliance_check(&c);
    compliance_trim(&c);
    ck_assert_uint_eq(compliance_counts(&c).physical_bytes, 0);
    compliance_close(&c);
}
END_TEST

/* XLA DeferredDeallocationSafeWhileGpuWritesData, DestructorWithPendingDeallocations... */
START_TEST(destroying_waits_for_the_last_use)
{
    compliance c = compliance_open(_i, patient, "");
    for (int i = 0; i < 65; i++) {
        void *stream = c.streams[i % COMPLIANCE_STREAMS];
        pleat_devptr ptr = compliance_alloc(&c, 3 * MIB + (size_t)i, stream);
        compliance_use(&c, stream, ptr, 3 * MIB);
        compliance_free(&c, ptr, stream);
    }
    ck_assert_int_eq(pleat_destroy(c.instance, 0), PLEAT_OK);
    ck_assert_uint_eq(pl_work_n_objects(&c.work), 0);
    ck_assert_uint_eq(pl_work_n_hazards(&c.work), 0);
    for (int i = 0; i < COMPLIANCE_STREAMS; i++) {
        ck_assert_int_eq(pl_work_stream_destroy(&c.work, c.streams[i]), PLEAT_OK);
    }
    pl_work_close(&c.work);
}
END_TEST

/* The legacy default stream is ordered with blocking streams only. These streams are
 * non-blocking. */
START_TEST(the_default_stream_is_a_stream_like_others)
{
    compliance c = compliance_open(_i, patient, "");
    pleat_devptr ptr = compliance_alloc(&c, 8 * MIB, NULL);
    compliance_use(&c, NULL, ptr, 8 * MIB);
    compliance_free(&c, ptr, NULL);
    pleat_devptr next = compliance_alloc(&c, 8 * MIB, c.streams[3]);
    compliance_use(&c, c.streams[3], next, 8 * MIB);
    compliance_record(&c, next, NULL);
    compliance_free(&c, next, c.streams[3]);
    ptr = compliance_alloc(&c, 8 * MIB, c.streams[3]);
    compliance_use(&c, c.streams[3], ptr, 8 * MIB);
    compliance_free(&c, ptr, c.streams[3]);
    compliance_close(&c);
}
END_TEST

/* The destroyed stream's work goes on. A new stream may get the handle. */
START_TEST(a_block_used_by_a_destroyed_stream_is_freed_and_goes_back)
{
    compliance c = compliance_open(_i, patient, "");
    void *gone = c.streams[3];
    pleat_devptr ptr = compliance_alloc(&c, 600 * MIB, c.streams[0]);
    compliance_use(&c, gone, ptr, 600 * MIB);
    compliance_record(&c, ptr, gone);
    ck_assert_int_eq(pl_work_stream_destroy(&c.work, gone), PLEAT_OK);
    compliance_free(&c, ptr, c.streams[0]);
    compliance_check(&c);
    pleat_devptr next = compliance_alloc(&c, 900 * MIB, c.streams[1]);
    compliance_use(&c, c.streams[1], next, 900 * MIB);
    compliance_free(&c, next, c.streams[1]);
    compliance_trim(&c);
    ck_assert_uint_eq(compliance_counts(&c).physical_bytes, 0);
    ck_assert_int_eq(pl_work_stream_create(&c.work, &c.streams[3]), PLEAT_OK);
    compliance_close(&c);
}
END_TEST

START_TEST(a_destroyed_stream_does_not_keep_others_from_waiting)
{
    compliance c = compliance_open(_i, patient, "");
    compliance_free(&c, compliance_alloc(&c, MIB, c.streams[3]), c.streams[3]);
    ck_assert_int_eq(pl_work_stream_destroy(&c.work, c.streams[3]), PLEAT_OK);
    pleat_devptr ptr = compliance_alloc(&c, 600 * MIB, c.streams[0]);
    compliance_use(&c, c.streams[0], ptr, 600 * MIB);
    compliance_free(&c, ptr, c.streams[0]);
    ptr = compliance_alloc(&c, 900 * MIB, c.streams[1]);
    compliance_free(&c, ptr, c.streams[1]);
    compliance_trim(&c);
    ck_assert_uint_eq(compliance_counts(&c).physical_bytes, 0);
    ck_assert_int_eq(pl_work_stream_create(&c.work, &c.streams[3]), PLEAT_OK);
    compliance_close(&c);
}
END_TEST

SUITE(api_compliance_stream)
{
    static const TTest *const *const tests[] = {
        &a_block_used_elsewhere_is_not_reused_before_that_use_is_over,
        &a_use_is_recorded_by_the_blocks_start_only,
        &a_stream_reuses_its_own_block_at_once_and_nobody_waits,
        &a_free_on_another_stream_counts_as_a_use_there,
        &all_recorded_uses_must_be_over,
        &a_hundred_delayed_frees_do_not_run_out_of_memory,
        &memory_freed_on_one_stream_reaches_another_before_anything_fails,
        &only_shared_caches_hand_settled_memory_to_other_streams_first,
        &memory_goes_back_to_the_driver_only_after_its_last_use,
        &destroying_waits_for_the_last_use,
        &the_default_stream_is_a_stream_like_others,
        &a_block_used_by_a_destroyed_stream_is_freed_and_goes_back,
        &a_destroyed_stream_does_not_keep_others_from_waiting,
    };
    compliance_add(suite, tests, sizeof tests / sizeof tests[0]);
}
