/* unpooled_test.c - one driver allocation per block.
 *
 * Tests with several streams and captures are in tests/models/mxnet_stream_test.c. */
/* labels: unit */
#include <check.h>

#include "tests/support/segments/segments_cache.h"
#include "tests/support/suite.h"

static void open_100_mib(void)
{
    cache_open(&pl_unpooled_ops, "capacity:100M,depth:100000", NULL);
}

START_TEST(a_block_is_as_large_as_asked_and_gone_when_freed)
{
    static const size_t sizes[] = { 1, 511, 4097, 3 * MIB + 7 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pleat_devptr ptr = cache_get(sizes[i], 0);
        ck_assert_uint_eq(cache_info(ptr).bytes, sizes[i]);
        ck_assert_uint_eq(cache_resident(), sizes[i]);
        ck_assert_uint_eq(cache_stats().rounding_bytes, 0);
        cache_put(ptr);
        ck_assert_uint_eq(cache_resident(), 0);
        ck_assert_int_eq(cache.a->ops->free(cache.a, ptr, NULL), PLEAT_EFOREIGN);
    }
    ck_assert_uint_eq(cache_stats().ops_alloc, 4);
    ck_assert_uint_eq(cache_stats().ops_free, 4);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemGetInfo"), 0);
}
END_TEST

START_TEST(a_free_waits_for_the_work_on_the_block)
{
    pleat_devptr ptr = cache_get(MIB, 1);
    cache_work(1, ptr, MIB);
    cache_put(ptr);
    ck_assert_uint_eq(cache_stats().host_syncs, 1);
    ck_assert_uint_eq(cache_resident(), 0);
}
END_TEST

START_TEST(a_refused_request_is_not_tried_again)
{
    cache_get(60 * MIB, 0);
    uint64_t n_calls = cache.sim.n_calls("cuMemAlloc");
    ck_assert_int_eq(cache_refused(50 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemAlloc"), n_calls + 1);
    ck_assert_uint_eq(cache_stats().num_alloc_retries, 0);
    cache_get(40 * MIB, 0);
}
END_TEST

START_TEST(sizes_that_were_freed_leave_nothing_behind)
{
    cache_put(cache_get(MIB, 0));
    uint64_t metadata_bytes = cache_stats().metadata_bytes;
    for (size_t bytes = 1; bytes <= 1000; bytes++) {
        cache_put(cache_get(bytes, 0));
    }
    ck_assert_uint_eq(cache_stats().metadata_bytes, metadata_bytes);
}
END_TEST

START_TEST(a_limit_is_kept)
{
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, 50 * MIB), PLEAT_OK);
    cache_get(30 * MIB, 0);
    ck_assert_int_eq(cache_refused(20 * MIB + 1, 0), PLEAT_ENOMEM_DEVICE);
    cache_get(20 * MIB, 0);
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, 50 * MIB - 1), PLEAT_ENOMEM_DEVICE);
}
END_TEST

START_TEST(a_block_that_the_driver_does_not_take_back_goes_later)
{
    pleat_devptr ptr = cache_get(60 * MIB, 0);
    cache.sim.fail_from("cuMemFree", 0, CACHE_UNKNOWN);
    cache_put(ptr);
    cache.sim.fail_never();
    ck_assert_uint_eq(cache_stats().free_bytes, 60 * MIB);
    ck_assert_int_eq(cache.a->ops->free(cache.a, ptr, NULL), PLEAT_EDOUBLEFREE);
    cache_get(90 * MIB, 0);
    ck_assert_uint_eq(cache_resident(), 90 * MIB);
}
END_TEST

SUITE(models_unpooled)
{
    TCase *blocks = suite_case(suite, "blocks", open_100_mib, cache_close);
    tcase_add_test(blocks, a_block_is_as_large_as_asked_and_gone_when_freed);
    tcase_add_test(blocks, a_free_waits_for_the_work_on_the_block);
    tcase_add_test(blocks, a_refused_request_is_not_tried_again);
    tcase_add_test(blocks, sizes_that_were_freed_leave_nothing_behind);
    tcase_add_test(blocks, a_limit_is_kept);
    tcase_add_test(blocks, a_block_that_the_driver_does_not_take_back_goes_later);
}
