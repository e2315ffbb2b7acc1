/* torch_stream_test.c - torch-native with uses on several streams. */
/* labels: unit */
#include <check.h>

#include "tests/support/segments/segments_cache.h"
#include "tests/support/suite.h"

static void open_plain(void)
{
    cache_open(&pl_torch_native_ops, "capacity:1G,depth:100000", NULL);
}

static uint64_t pending(void)
{
    return cache_stats().pending_bytes;
}

START_TEST(a_recorded_block_comes_back_only_after_its_use)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_work(2, ptr, 30 * MIB);
    cache_record(ptr, 2);
    cache_put(ptr);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.allocation[PLEAT_SIZES_ALL].current, 0);
    ck_assert_uint_eq(s.active[PLEAT_SIZES_ALL].current, 1);
    ck_assert_uint_eq(s.active_bytes[PLEAT_SIZES_ALL].current, 30 * MIB);
    ck_assert_uint_eq(s.requested_bytes[PLEAT_SIZES_ALL].current, 30 * MIB);
    ck_assert_uint_eq(s.pending_bytes, 30 * MIB);
    ck_assert_uint_ne(cache_get(30 * MIB, 1), ptr);
    cache.sim.finish();
    ck_assert_uint_eq(cache_get(30 * MIB, 1), ptr);
    ck_assert_uint_eq(pending(), 0);
    ck_assert_uint_eq(cache_stats().host_syncs, 0);
}
END_TEST

START_TEST(a_use_on_the_owner_stream_needs_no_event)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_record(ptr, 1);
    cache_work(1, ptr, 30 * MIB);
    cache_put(ptr);
    ck_assert_uint_eq(cache_get(30 * MIB, 1), ptr);
    ck_assert_uint_eq(cache.sim.n_calls("cuEventRecord"), 0);
}
END_TEST

START_TEST(a_stream_recorded_twice_is_one_use)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_record(ptr, 2);
    cache_record(ptr, 2);
    cache_record(ptr, 3);
    cache_put(ptr);
    ck_assert_uint_eq(cache.sim.n_calls("cuEventRecord"), 2);
}
END_TEST

START_TEST(all_streams_must_be_over)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_work(3, ptr, 30 * MIB);
    cache_record(ptr, 2);
    cache_record(ptr, 3);
    cache_put(ptr);
    cache_get(MIB, 1);
    ck_assert_uint_eq(pending(), 30 * MIB);
    cache.sim.finish();
    cache_get(MIB, 1);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

START_TEST(freeing_on_another_stream_is_a_use_there)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_work(2, ptr, 30 * MIB);
    cache_put_on(ptr, 2);
    ck_assert_uint_eq(pending(), 30 * MIB);
    ck_assert_uint_ne(cache_get(30 * MIB, 1), ptr);
    cache.sim.finish();
    ck_assert_uint_eq(cache_get(30 * MIB, 1), ptr);
}
END_TEST

START_TEST(a_pending_block_does_not_merge_until_it_is_over)
{
    pleat_devptr a = cache_get(9 * MIB, 1);
    pleat_devptr b = cache_get(9 * MIB, 1);
    cache_work(2, a, 9 * MIB);
    cache_record(a, 2);
    cache_put(a);
    cache_put(b);
    ck_assert_uint_eq(cache_stats().inactive_split_bytes[PLEAT_SIZES_ALL].current, 11 * MIB);
    ck_assert_int_eq(cache.a->ops->free(cache.a, a, NULL), PLEAT_EDOUBLEFREE);
    cache.sim.finish();
    ck_assert_uint_eq(cache_get(20 * MIB, 1), a);
}
END_TEST

START_TEST(the_release_pass_waits_for_pending_uses)
{
    pleat_devptr ptr = cache_get(900 * MIB, 1);
    cache_work(2, ptr, 30 * MIB);
    cache_record(ptr, 2);
    cache_put(ptr);
    cache_get(800 * MIB, 3);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.num_alloc_retries, 1);
    ck_assert_uint_eq(s.num_sync_all_streams, 1);
    ck_assert_uint_ge(s.host_syncs, 1);
    ck_assert_uint_eq(s.resident_bytes, 800 * MIB);
}
END_TEST

START_TEST(trim_that_may_not_wait_leaves_pending_blocks)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_work(2, ptr, 30 * MIB);
    cache_record(ptr, 2);
    cache_put(ptr);
    ck_assert_uint_eq(cache_trim(0, false), 0);
    ck_assert_uint_eq(cache_trim(0, true), 30 * MIB);
}
END_TEST

START_TEST(a_block_live_at_the_end_takes_its_uses_along)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_record(ptr, 2);
    ptr = cache_get(20 * MIB, 1);
    cache_work(3, ptr, 20 * MIB);
    cache_record(ptr, 3);
    cache_put(ptr);
}
END_TEST

SUITE(models_torch_stream)
{
    TCase *uses = suite_case(suite, "uses", open_plain, cache_close);
    tcase_add_test(uses, a_recorded_block_comes_back_only_after_its_use);
    tcase_add_test(uses, a_use_on_the_owner_stream_needs_no_event);
    tcase_add_test(uses, a_stream_recorded_twice_is_one_use);
    tcase_add_test(uses, all_streams_must_be_over);
    tcase_add_test(uses, freeing_on_another_stream_is_a_use_there);
    tcase_add_test(uses, a_pending_block_does_not_merge_until_it_is_over);
    tcase_add_test(uses, the_release_pass_waits_for_pending_uses);
    tcase_add_test(uses, trim_that_may_not_wait_leaves_pending_blocks);
    tcase_add_test(uses, a_block_live_at_the_end_takes_its_uses_along);
}
