/* mxnet_stream_test.c - MXNet's pools and unpooled with several streams and captures. */
/* labels: unit */
#include <check.h>

#include "tests/support/segments/segments_cache.h"
#include "tests/support/suite.h"

static void open_naive(void)
{
    cache_open(&pl_mxnet_naive_ops, "capacity:1G,depth:100000", NULL);
}

static void open_unpooled(void)
{
    cache_open(&pl_unpooled_ops, "capacity:1G,depth:100000", NULL);
}

static uint64_t host_syncs(void)
{
    return cache_stats().host_syncs;
}

/* ---- other streams --------------------------------------------------------------------------- */

START_TEST(another_stream_gets_a_block_after_a_wait_on_the_host)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_work(1, ptr, 30 * MIB);
    cache_put(ptr);
    ck_assert_uint_eq(cache_get(30 * MIB, 2), ptr);
    cache_work(2, ptr, 30 * MIB);
    ck_assert_uint_eq(host_syncs(), 1);
    ck_assert_uint_eq(cache_stats().num_device_alloc, 1);
}
END_TEST

START_TEST(one_wait_covers_all_that_was_freed_before_it)
{
    pleat_devptr p[4];
    for (size_t i = 0; i < 4; i++) {
        p[i] = cache_get(30 * MIB, 1);
        cache_work(1, p[i], 30 * MIB);
    }
    for (size_t i = 0; i < 4; i++) {
        cache_put(p[i]);
    }
    cache_get(30 * MIB, 2);
    uint64_t n_calls = cache_n_calls();
    cache_get(30 * MIB, 2);
    cache_get(30 * MIB, 3);
    ck_assert_uint_eq(cache_n_calls(), n_calls);
    cache_work(1, cache_get(30 * MIB, 1), 30 * MIB);
    ck_assert_uint_eq(host_syncs(), 1);
}
END_TEST

START_TEST(work_that_is_over_is_not_waited_for)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_work(1, ptr, 30 * MIB);
    cache_put(ptr);
    cache.sim.finish();
    ck_assert_uint_eq(cache_get(30 * MIB, 2), ptr);
    ck_assert_uint_eq(host_syncs(), 0);
}
END_TEST

START_TEST(the_own_stream_gets_a_block_after_its_other_users)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_work(2, ptr, 30 * MIB);
    cache_record(ptr, 2);
    cache_record(ptr, 1);
    cache_put(ptr);
    ck_assert_uint_eq(cache_stats().pending_bytes, 30 * MIB);
    ck_assert_uint_eq(cache_get(30 * MIB, 1), ptr);
    cache_work(1, ptr, 30 * MIB);
    ck_assert_uint_eq(host_syncs(), 1);
    ck_assert_uint_eq(cache_stats().pending_bytes, 0);
}
END_TEST

START_TEST(a_stream_that_shared_a_block_does_not_wait_for_itself)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_work(2, ptr, 30 * MIB);
    cache_record(ptr, 2);
    cache_put(ptr);
    ck_assert_uint_eq(cache_get(30 * MIB, 2), ptr);
    ck_assert_uint_eq(host_syncs(), 0);
}
END_TEST

START_TEST(freeing_on_another_stream_is_a_use_there)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_work(2, ptr, 30 * MIB);
    cache_put_on(ptr, 2);
    ck_assert_uint_eq(cache_get(30 * MIB, 1), ptr);
    cache_work(1, ptr, 30 * MIB);
    ck_assert_uint_eq(host_syncs(), 1);
}
END_TEST

START_TEST(a_new_owner_has_nothing_to_do_with_the_earlier_ones)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    pleat_devptr busy = cache_get(MIB, 1);
    cache_put(ptr);
    ck_assert_uint_eq(cache_get(30 * MIB, 2), ptr);
    cache_work(1, busy, MIB);
    cache_put(ptr);
    ck_assert_uint_eq(cache_get(30 * MIB, 2), ptr);
    ck_assert_uint_eq(host_syncs(), 0);
}
END_TEST

START_TEST(a_stream_that_is_gone_is_waited_for_with_the_device)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_work(1, ptr, 30 * MIB);
    cache_put(ptr);
    cache_destroy_stream(1);
    ck_assert_uint_eq(cache_get(30 * MIB, 2), ptr);
    cache_work(2, ptr, 30 * MIB);
    ck_assert_uint_eq(host_syncs(), 1);
}
END_TEST

START_TEST(a_free_that_fails_is_no_use)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    pleat_devptr busy = cache_get(MIB, 2);
    cache_work(2, busy, MIB);
    cache.sim.fail_at("cuStreamIsCapturing", 0, CACHE_UNKNOWN);
    pleat_stats before = cache_stats();
    ck_assert_int_eq(cache.a->ops->free(cache.a, ptr, cache.streams[2]), PLEAT_EDRIVER);
    cache_assert_same(&before);
    cache_put(ptr);
    ck_assert_uint_eq(cache_get(30 * MIB, 1), ptr);
    ck_assert_uint_eq(host_syncs(), 0);
}
END_TEST

START_TEST(a_wait_that_fails_leaves_the_block_where_it_was)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_work(1, ptr, 30 * MIB);
    cache_put(ptr);
    cache.sim.fail_at("cuEventRecord", 0, CACHE_UNKNOWN);
    ck_assert_int_eq(cache_refused(30 * MIB, 2), PLEAT_EDRIVER);
    ck_assert_uint_eq(cache_get(30 * MIB, 1), ptr);
}
END_TEST

enum { N_CROWD = 70 };

START_TEST(streams_beyond_the_63rd_are_safe_together)
{
    static cu_stream handles[N_CROWD];
    static pl_stream *streams[N_CROWD];
    const pl_allocator_ops *ops = cache.a->ops;
    for (size_t i = 0; i < N_CROWD; i++) {
        ck_assert_int_eq(
            pl_cu_stream_create(cache.sim.drv, &handles[i], CU_STREAM_NON_BLOCKING_FLAG),
            CU_SUCCESS);
        ck_assert_int_eq(pl_stream_get(cache.dev, handles[i], &streams[i]), PLEAT_OK);
    }
    for (size_t i = 0; i < N_CROWD; i++) {
        pleat_devptr ptr = 0;
        ck_assert_int_eq(ops->alloc(cache.a, 30 * MIB, streams[i], &ptr), PLEAT_OK);
        pleat_sim_access access = { .ptr = ptr, .bytes = 30 * MIB, .is_write = true };
        ck_assert_int_eq(cache.sim.work(handles[i], &access, 1), CU_SUCCESS);
        ck_assert_int_eq(ops->free(cache.a, ptr, streams[i]), PLEAT_OK);
    }
    ck_assert_uint_eq(cache_stats().num_device_alloc, 1);
    ck_assert_uint_ge(host_syncs(), N_CROWD - 1);
    cache_assert_sound();
    for (size_t i = 0; i < N_CROWD; i++) {
        ck_assert_int_eq(pl_cu_stream_destroy(cache.sim.drv, handles[i]), CU_SUCCESS);
    }
}
END_TEST

/* ---- captures -------------------------------------------------------------------------------- */

START_TEST(what_a_graph_did_until_it_was_released_is_a_use)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    pleat_devptr later = cache_get(MIB, 2);
    cache_record(ptr, 2);
    cache_begin_capture(2);
    cache_put(ptr);
    cache_end_capture(2);
    cache_put(later);
    cache_get(MIB, 3);
    cache_work(2, ptr, 30 * MIB);
    cache_release_capture(2);
    ck_assert_uint_eq(cache_get(30 * MIB, 1), ptr);
    cache_work(1, ptr, 30 * MIB);
    ck_assert_uint_eq(host_syncs(), 1);
}
END_TEST

START_TEST(a_capturing_request_passes_over_what_it_would_wait_for)
{
    pleat_devptr own = cache_get(30 * MIB, 1);
    pleat_devptr other = cache_get(30 * MIB, 2);
    cache_work(2, other, 30 * MIB);
    cache_put(own);
    cache_put(other);
    cache_begin_capture(1);
    ck_assert_uint_eq(cache_get(30 * MIB, 1), own);
    pleat_devptr fresh = cache_get(30 * MIB, 1);
    ck_assert(fresh != own && fresh != other);
    ck_assert_uint_eq(host_syncs(), 0);
    cache_end_capture(1);
    ck_assert_uint_eq(cache_get(30 * MIB, 1), other);
    ck_assert_uint_eq(host_syncs(), 1);
}
END_TEST

START_TEST(what_a_captured_stream_freed_does_not_reach_others_meanwhile)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_put(ptr);
    cache_begin_capture(1);
    ck_assert_uint_ne(cache_get(30 * MIB, 2), ptr);
    cache_end_capture(1);
    ck_assert_uint_eq(cache_get(30 * MIB, 2), ptr);
}
END_TEST

/* ---- unpooled -------------------------------------------------------------------------------- */

START_TEST(unpooled_keeps_what_a_capture_uses_until_it_is_released)
{
    pleat_devptr own = cache_get(30 * MIB, 1);
    pleat_devptr lent = cache_get(20 * MIB, 2);
    cache_record(lent, 1);
    cache_begin_capture(1);
    cache_put(own);
    cache_put(lent);
    cache_end_capture(1);
    ck_assert_uint_eq(cache_trim(0, true), 0);
    ck_assert_uint_eq(cache_stats().pending_bytes, 50 * MIB);
    cache_release_capture(1);
    ck_assert_uint_eq(cache_resident(), 0);
}
END_TEST

START_TEST(unpooled_keeps_what_a_capture_allocated_until_it_is_released)
{
    cache_begin_capture(1);
    pleat_devptr early = cache_get(MIB, 1);
    pleat_devptr late = cache_get(MIB, 1);
    cache_end_capture(1);
    cache_put(early);
    ck_assert_uint_eq(cache_stats().resident_bytes, 2 * MIB);
    cache_release_capture(1);
    ck_assert_uint_eq(cache_stats().resident_bytes, MIB);
    cache_put(late);
    ck_assert_uint_eq(cache_stats().resident_bytes, 0);
}
END_TEST

START_TEST(unpooled_keeps_what_the_legacy_stream_used_while_a_capture_forbids_to_wait_for_it)
{
    cu_stream blocking = vmm_sim_stream(cache.dev, true);
    cu_graph graph = NULL;
    pleat_devptr ptr = cache_get(30 * MIB, 0);
    cache_work(0, ptr, 30 * MIB);
    ck_assert_int_eq(pl_cu_stream_begin_capture(cache.sim.drv, blocking, CU_CAPTURE_MODE_RELAXED),
                     CU_SUCCESS);
    cache_put(ptr);
    ck_assert_uint_eq(cache_resident(), 30 * MIB);
    ck_assert_int_eq(pl_cu_stream_end_capture(cache.sim.drv, blocking, &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(cache.sim.drv, graph), CU_SUCCESS);
    ck_assert_uint_eq(cache_trim(0, true), 30 * MIB);
    vmm_sim_destroy_stream(cache.dev, blocking);
}
END_TEST

START_TEST(unpooled_waits_for_all_users_of_a_block)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_work(1, ptr, 10 * MIB);
    cache_work(2, ptr + 10 * MIB, 10 * MIB);
    cache_work(3, ptr + 20 * MIB, 10 * MIB);
    cache_record(ptr, 2);
    cache_put_on(ptr, 3);
    ck_assert_uint_eq(cache_resident(), 0);
    ck_assert_uint_eq(host_syncs(), 3);
}
END_TEST

SUITE(models_mxnet_stream)
{
    TCase *streams = suite_case(suite, "streams", open_naive, cache_close);
    tcase_add_test(streams, another_stream_gets_a_block_after_a_wait_on_the_host);
    tcase_add_test(streams, one_wait_covers_all_that_was_freed_before_it);
    tcase_add_test(streams, work_that_is_over_is_not_waited_for);
    tcase_add_test(streams, the_own_stream_gets_a_block_after_its_other_users);
    tcase_add_test(streams, a_stream_that_shared_a_block_does_not_wait_for_itself);
    tcase_add_test(streams, freeing_on_another_stream_is_a_use_there);
    tcase_add_test(streams, a_new_owner_has_nothing_to_do_with_the_earlier_ones);
    tcase_add_test(streams, a_stream_that_is_gone_is_waited_for_with_the_device);
    tcase_add_test(streams, a_free_that_fails_is_no_use);
    tcase_add_test(streams, a_wait_that_fails_leaves_the_block_where_it_was);
    tcase_add_test(streams, streams_beyond_the_63rd_are_safe_together);
    TCase *captures = suite_case(suite, "captures", open_naive, cache_close);
    tcase_add_test(captures, what_a_graph_did_until_it_was_released_is_a_use);
    tcase_add_test(captures, a_capturing_request_passes_over_what_it_would_wait_for);
    tcase_add_test(captures, what_a_captured_stream_freed_does_not_reach_others_meanwhile);
    TCase *unpooled = suite_case(suite, "unpooled", open_unpooled, cache_close);
    tcase_add_test(unpooled, unpooled_keeps_what_a_capture_uses_until_it_is_released);
    tcase_add_test(unpooled, unpooled_keeps_what_a_capture_allocated_until_it_is_released);
    tcase_add_test(
        unpooled,
        unpooled_keeps_what_the_legacy_stream_used_while_a_capture_forbids_to_wait_for_it);
    tcase_add_test(unpooled, unpooled_waits_for_all_users_of_a_block);
}
