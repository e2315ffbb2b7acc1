/* cuda_async_test.c - the driver's own pool as an allocator: orders, holds, limits. */
/* labels: unit */
#include <check.h>
#include <string.h>

#include "segments/classic/cuda_async.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_cache.h"
#include "tests/support/suite.h"

#define UNIT (32 * MIB) /* the pool grows in such segments */

static void open_with(const char *sim_conf, const pl_allocator_options *options)
{
    cache_open(&pl_cuda_async_ops, sim_conf, options);
}

static void open_patient(void)
{
    open_with("capacity:1G,depth:1048576", NULL);
}

static void open_small(void)
{
    open_with("capacity:100M,depth:1048576", NULL);
}

static uint64_t physical(void)
{
    return vmm_sim_counted(&cache.sim).physical_bytes;
}

/* Resident bytes by the statistics alone: an old driver does not report its pool's size. */
static uint64_t resident_as_told(void)
{
    pleat_stats stats;
    cache.a->ops->stats(cache.a, &stats);
    return stats.resident_bytes;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

START_TEST(statistics_are_of_blocks_and_reserved_is_the_pool_s)
{
    pleat_devptr small = cache_get(1000, 1);
    pleat_devptr large = cache_get(5 * MIB, 1);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_SIZES_SMALL].current, 1024);
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_SIZES_LARGE].current, 5 * MIB);
    ck_assert_uint_eq(s.requested_bytes[PLEAT_SIZES_ALL].current, 1000 + 5 * MIB);
    ck_assert_uint_eq(s.rounding_bytes, 24);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_ALL].current, UNIT);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_LARGE].current, UNIT);
    ck_assert_uint_eq(s.resident_bytes, UNIT);
    ck_assert_uint_eq(s.free_bytes, UNIT - 5 * MIB - 1024);
    ck_assert_uint_eq(s.num_device_alloc, 1);
    cache_put_on(small, 1);
    cache_put_on(large, 1);
    s = cache_stats();
    ck_assert_uint_eq(s.active_bytes[PLEAT_SIZES_ALL].current, 0);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_ALL].current, UNIT);
    ck_assert_uint_eq(cache_trim(0, true), UNIT);
    s = cache_stats();
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_ALL].current, 0);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_ALL].peak, UNIT);
    ck_assert_uint_eq(s.num_device_free, 1);
}
END_TEST

START_TEST(a_block_is_found_by_any_of_its_addresses)
{
    pleat_block_info info;
    pleat_devptr ptr = cache_get(3000001, 2);
    ck_assert_int_eq(cache.a->ops->query(cache.a, ptr + 3000000, &info), PLEAT_OK);
    ck_assert_uint_eq(info.base, ptr);
    ck_assert_uint_eq(info.requested_bytes, 3000001);
    ck_assert_ptr_eq(info.stream, cache.handles[2]);
    ck_assert_int_eq(cache.a->ops->query(cache.a, ptr + 4 * MIB, &info), PLEAT_EFOREIGN);
    ck_assert_int_eq(cache.a->ops->free(cache.a, ptr + 512, NULL), PLEAT_EFOREIGN);
    cache_put_on(ptr, 2);
    ck_assert_int_eq(cache.a->ops->query(cache.a, ptr, &info), PLEAT_EFOREIGN);
    ck_assert_int_eq(cache.a->ops->free(cache.a, ptr, NULL), PLEAT_EFOREIGN);
}
END_TEST

START_TEST(only_blocks_can_be_seen_and_those_that_touch_as_one)
{
    pleat_devptr ptrs[4];
    for (size_t i = 0; i < 4; i++) {
        ptrs[i] = cache_get(MIB, 1);
    }
    cache_put_on(ptrs[1], 1);
    cache_sight s = cache_seen();
    ck_assert_uint_eq(s.n, 3);
    for (size_t i = 0; i < s.n; i++) {
        ck_assert_int_eq(s.pieces[i].kind, PL_PIECE_LIVE);
        ck_assert_int_eq(s.pieces[i].is_first, i != 2);
    }
}
END_TEST

/* ---- streams --------------------------------------------------------------------------------- */

START_TEST(a_plain_free_is_one_call_in_the_order_of_its_stream)
{
    pleat_devptr ptr = cache_get(20 * MIB, 1);
    cache_work(1, ptr, 20 * MIB);
    cache_put_on(ptr, 1);
    pleat_devptr next = cache_get(20 * MIB, 1);
    ck_assert_uint_eq(next, ptr);
    cache_work(1, next, 20 * MIB);
    ck_assert_uint_eq(cache.sim.n_calls("cuEventCreate"), 0);
    ck_assert_uint_eq(cache_stats().stream_waits, 0);
    cache_put_on(next, 1);
}
END_TEST

START_TEST(a_block_of_several_streams_is_freed_behind_all_of_them)
{
    cache_work(3, 0, 0);
    pleat_devptr ptr = cache_get(20 * MIB, 1);
    cache_work(1, ptr, 20 * MIB);
    ck_assert(cache_follow(2, 1));
    cache_work(2, ptr, 20 * MIB);
    cache_record(ptr, 2);
    cache_record(ptr, 2);
    cache_put_on(ptr, 1);
    ck_assert_uint_eq(cache_stats().stream_waits, 2);
    ck_assert_uint_eq(cache_stats().host_syncs, 0);
    pleat_devptr other = cache_get(20 * MIB, 1);
    ck_assert_uint_ne(other, ptr);
    cache.sim.finish();
    pleat_devptr third = cache_get(20 * MIB, 3);
    ck_assert_uint_eq(third, ptr);
    cache_put_on(other, 1);
    cache_put_on(third, 3);
}
END_TEST

START_TEST(a_free_on_another_stream_waits_for_both)
{
    pleat_devptr ptr = cache_get(20 * MIB, 1);
    cache_work(1, ptr, 20 * MIB);
    ck_assert(cache_follow(2, 1));
    cache_work(2, ptr, 20 * MIB);
    cache_put_on(ptr, 2);
    pleat_devptr next = cache_get(20 * MIB, 2);
    cache_work(2, next, 20 * MIB);
    cache_put_on(next, 2);
}
END_TEST

START_TEST(a_block_of_a_destroyed_stream_waits_for_the_next_synchronisation)
{
    pleat_devptr ptr = cache_get(20 * MIB, 1);
    cache_work(1, ptr, 20 * MIB);
    cache_destroy_stream(1);
    cache_put_on(ptr, 1);
    cache_create_stream(1);
    ck_assert_uint_eq(cache_stats().pending_bytes, 20 * MIB);
    ck_assert_uint_eq(cache_stats().allocation[PLEAT_SIZES_ALL].current, 0);
    ck_assert_int_eq(cache.a->ops->free(cache.a, ptr, NULL), PLEAT_EDOUBLEFREE);
    pleat_devptr next = cache_get(20 * MIB, 1);
    ck_assert_uint_ne(next, ptr);
    cache_put_on(next, 1);
    cache_trim(0, true);
    ck_assert_uint_eq(cache_stats().pending_bytes, 0);
    ck_assert_uint_eq(cache_resident(), 0);
}
END_TEST

/* ---- captures -------------------------------------------------------------------------------- */

START_TEST(a_captured_stream_is_served_outside_of_its_graph)
{
    cache_begin_capture(1);
    pleat_devptr ptr = cache_get(MIB, 1);
    cache_work(1, ptr, MIB);
    cache_put_on(ptr, 1);
    ck_assert_uint_eq(cache_stats().pending_bytes, MIB);
    pleat_devptr next = cache_get(MIB, 1);
    ck_assert_uint_ne(next, ptr);
    cache_put_on(next, 1);
    ck_assert_int_eq(cache.a->ops->release_capture(cache.a, cache.streams[1]), PLEAT_ECAPTURE);
    cache_end_capture(1);
    ck_assert_uint_eq(cache_stats().pending_bytes, 2 * MIB);
    cache_release_capture(2);
    ck_assert_uint_eq(cache_stats().pending_bytes, 2 * MIB);
    cache_release_capture(1);
    ck_assert_uint_eq(cache_stats().pending_bytes, 0);
}
END_TEST

/* The graph has the block's address, wherever the block is freed. */
START_TEST(what_a_capture_allocated_is_held_until_its_release)
{
    cache_begin_capture(1);
    pleat_devptr early = cache_get(MIB, 1);
    pleat_devptr late = cache_get(MIB, 1);
    cache_end_capture(1);
    cache_put_on(early, 1);
    ck_assert_uint_eq(cache_stats().pending_bytes, MIB);
    cache_release_capture(1);
    ck_assert_uint_eq(cache_stats().pending_bytes, 0);
    cache_put_on(late, 1);
    ck_assert_uint_eq(cache_stats().pending_bytes, 0);
}
END_TEST

START_TEST(a_release_that_cannot_ask_leaves_the_captured_what_it_holds)
{
    pleat_devptr ptr = cache_get(MIB, 2);
    cache_record(ptr, 1);
    cache_begin_capture(1);
    cache_put_on(ptr, 2);
    cache.sim.fail_at("cuStreamIsCapturing", 0, CACHE_UNKNOWN);
    ck_assert_int_eq(cache.a->ops->release_capture(cache.a, cache.streams[1]), PLEAT_EDRIVER);
    ck_assert_int_eq(cache.a->ops->release_capture(cache.a, cache.streams[1]), PLEAT_ECAPTURE);
    ck_assert_uint_eq(cache_stats().pending_bytes, MIB);
    cache_end_capture(1);
    cache.sim.fail_at("cuStreamIsCapturing", 1, CACHE_UNKNOWN);
    ck_assert_int_eq(cache.a->ops->release_capture(cache.a, cache.streams[1]), PLEAT_EDRIVER);
    cache_trim(0, true);
    ck_assert_uint_eq(cache_stats().pending_bytes, MIB);
    cache_release_capture(1);
    ck_assert_uint_eq(cache_stats().pending_bytes, 0);
}
END_TEST

START_TEST(what_a_capture_frees_is_held_without_asking_twice)
{
    pleat_devptr ptr = cache_get(60 * MIB, 1);
    cache_begin_capture(1);
    cache.sim.fail_at("cuStreamIsCapturing", 1, CACHE_UNKNOWN);
    cache_put_on(ptr, 1);
    cache_end_capture(1);
    cache.sim.fail_never();
    cache_trim(0, true);
    ck_assert_uint_eq(cache_stats().pending_bytes, 60 * MIB);
    cache_release_capture(1);
    ck_assert_uint_eq(cache_stats().pending_bytes, 0);
}
END_TEST

START_TEST(what_two_captures_hold_waits_for_both)
{
    pleat_devptr ptr = cache_get(MIB, 3);
    cache_record(ptr, 1);
    cache_record(ptr, 2);
    cache_begin_capture(1);
    cache_begin_capture(2);
    cache_put_on(ptr, 3);
    cache_end_capture(1);
    cache_end_capture(2);
    cache_release_capture(1);
    ck_assert_uint_eq(cache_stats().pending_bytes, MIB);
    cache_release_capture(2);
    ck_assert_uint_eq(cache_stats().pending_bytes, 0);
}
END_TEST

START_TEST(beside_a_capture_nobody_waits)
{
    pleat_devptr ptr = cache_get(60 * MIB, 2);
    cache_work(2, ptr, 60 * MIB);
    cache_begin_capture(1);
    cache_put_on(ptr, 2);
    uint64_t n_syncs = cache_stats().host_syncs;
    ck_assert_int_eq(cache_refused(90 * MIB, 3), PLEAT_EPENDING);
    ck_assert_int_eq(cache_refused(110 * MIB, 3), PLEAT_ENOMEM_DEVICE); /* the device has 100 */
    ck_assert_uint_eq(cache_trim(0, true), 0);
    ck_assert_uint_eq(cache_stats().host_syncs, n_syncs);
    cache_end_capture(1);
    cache_put_on(cache_get(90 * MIB, 3), 3);
}
END_TEST

/* ---- pressure -------------------------------------------------------------------------------- */

START_TEST(before_it_fails_it_waits_trims_and_tries_again)
{
    pleat_devptr ptr = cache_get(60 * MIB, 1);
    cache_work(1, ptr, 60 * MIB);
    cache_put_on(ptr, 1);
    pleat_devptr next = cache_get(90 * MIB, 2);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.num_alloc_retries, 1);
    ck_assert_uint_eq(s.num_sync_all_streams, 1);
    ck_assert_uint_eq(s.host_syncs, 1);
    ck_assert_int_eq(cache_refused(20 * MIB, 2), PLEAT_ENOMEM_DEVICE);
    s = cache_stats();
    ck_assert_uint_eq(s.host_syncs, 2);
    cache_put_on(next, 2);
}
END_TEST

START_TEST(a_limit_is_kept_changed_and_lifted)
{
    pl_allocator_options options = cache_defaults();
    options.limit_bytes = 2 * UNIT;
    open_with("capacity:1G", &options);
    pleat_devptr ptr = cache_get(40 * MIB, 1);
    ck_assert_int_eq(cache_refused(40 * MIB, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, 3 * UNIT), PLEAT_OK);
    pleat_devptr next = cache_get(30 * MIB, 1);
    ck_assert_int_eq(cache_refused(UNIT, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_le(physical(), 3 * UNIT);
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, UNIT), PLEAT_ENOMEM_DEVICE);
    cache_put_on(ptr, 1);
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, UNIT), PLEAT_OK);
    ck_assert_uint_eq(physical(), UNIT);
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, 0), PLEAT_OK);
    cache_put_on(cache_get(200 * MIB, 1), 1);
    cache_put_on(next, 1);
    cache_close();
}
END_TEST

START_TEST(the_threshold_lets_memory_go_at_synchronisations)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(async, &options, release_threshold_bytes, UNIT);
    open_with("capacity:1G", &options);
    cache_put_on(cache_get(3 * UNIT, 1), 1);
    cache_put_on(cache_get(3 * UNIT, 1), 1);
    ck_assert_uint_eq(physical(), 3 * UNIT);
    cache_put_on(cache_get(UNIT, 1), 1);
    cache.sim.finish();
    ck_assert_uint_eq(physical(), 3 * UNIT); /* whole segments, down to the threshold */
    pleat_devptr other = cache_get(4 * UNIT, 1);
    cache_put_on(other, 1);
    cache.sim.finish();
    ck_assert_uint_eq(physical(), 3 * UNIT);
    cache_close();
}
END_TEST

START_TEST(a_device_without_pools_is_refused_with_a_reason)
{
    pl_allocator *none = NULL;
    pl_allocator_options options = cache_defaults();
    cache_open(&pl_unpooled_ops, "profile:no_vmm", NULL);
    ck_assert_int_eq(pl_cuda_async_ops.create(cache.dev, &options, &none), PLEAT_ENOVMM);
    ck_assert_ptr_null(none);
    ck_assert_ptr_nonnull(strstr(pl_driver_last_error()->detail, "no memory pools"));
    cache_close();
}
END_TEST

START_TEST(an_old_driver_s_pool_does)
{
    open_with("capacity:1G,profile:old_driver", NULL);
    pleat_devptr ptr = cache_get(MIB + 7, 1);
    ck_assert_uint_eq(resident_as_told(), MIB + 7);
    cache_put_on(ptr, 2);
    ck_assert_uint_eq(resident_as_told(), 0);
    cache_close();
}
END_TEST

static void add_plain(Suite *suite)
{
    TCase *plain = suite_case(suite, "blocks, streams, captures", open_patient, cache_close);
    tcase_add_test(plain, statistics_are_of_blocks_and_reserved_is_the_pool_s);
    tcase_add_test(plain, a_block_is_found_by_any_of_its_addresses);
    tcase_add_test(plain, only_blocks_can_be_seen_and_those_that_touch_as_one);
    tcase_add_test(plain, a_plain_free_is_one_call_in_the_order_of_its_stream);
    tcase_add_test(plain, a_block_of_several_streams_is_freed_behind_all_of_them);
    tcase_add_test(plain, a_free_on_another_stream_waits_for_both);
    tcase_add_test(plain, a_block_of_a_destroyed_stream_waits_for_the_next_synchronisation);
    tcase_add_test(plain, a_captured_stream_is_served_outside_of_its_graph);
    tcase_add_test(plain, what_a_capture_allocated_is_held_until_its_release);
    tcase_add_test(plain, what_two_captures_hold_waits_for_both);
    tcase_add_test(plain, a_release_that_cannot_ask_leaves_the_captured_what_it_holds);
    tcase_add_test(plain, what_a_capture_frees_is_held_without_asking_twice);
}

static void add_pressure(Suite *suite)
{
    TCase *small = suite_case(suite, "small device", open_small, cache_close);
    tcase_add_test(small, beside_a_capture_nobody_waits);
    tcase_add_test(small, before_it_fails_it_waits_trims_and_tries_again);
    TCase *own = suite_case(suite, "limits, drivers", NULL, NULL);
    tcase_add_test(own, a_limit_is_kept_changed_and_lifted);
    tcase_add_test(own, the_threshold_lets_memory_go_at_synchronisations);
    tcase_add_test(own, a_device_without_pools_is_refused_with_a_reason);
    tcase_add_test(own, an_old_driver_s_pool_does);
}

SUITE(models_cuda_async)
{
    add_plain(suite);
    add_pressure(suite);
}
