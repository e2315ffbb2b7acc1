/* torch_memory_test.c - what torch-native asks the driver for and gives back. */
/* labels: unit */
#include <check.h>

#include "segments/classic/torch/torch_options.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_cache.h"
#include "tests/support/suite.h"

static void open_100_mib(void)
{
    cache_open(&pl_torch_native_ops, "capacity:100M", NULL);
}

/* ---- the retry ------------------------------------------------------------------------------- */

START_TEST(everything_unsplit_goes_back_before_the_one_retry)
{
    pleat_devptr a = cache_get(30 * MIB, 0);
    pleat_devptr b = cache_get(30 * MIB, 1);
    pleat_devptr c = cache_get(MIB, 0);
    cache_put(a);
    cache_put(b);
    cache_put(c);
    cache_get(90 * MIB, 0);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.num_alloc_retries, 1);
    ck_assert_uint_eq(s.num_sync_all_streams, 1);
    ck_assert_uint_eq(s.num_device_alloc, 4);
    ck_assert_uint_eq(s.num_device_free, 3);
    ck_assert_uint_eq(s.ops_free, 3);
    ck_assert_uint_eq(s.resident_bytes, 90 * MIB);
    ck_assert_uint_eq(s.segment[PLEAT_SIZES_SMALL].current, 0);
}
END_TEST

START_TEST(a_split_segment_stays_whatever_is_free_in_it)
{
    pleat_devptr a = cache_get(2 * MIB, 0);
    cache_get(2 * MIB, 0);
    cache_put(a);
    cache_put(cache_get(50 * MIB, 0));
    cache_get(70 * MIB, 0);
    ck_assert_uint_eq(cache_stats().num_device_free, 1);
    ck_assert_uint_eq(cache_resident(), 90 * MIB);
    ck_assert_uint_eq(cache_get(2 * MIB, 0), a);
}
END_TEST

START_TEST(out_of_memory_leaves_everything_as_it_was)
{
    pleat_devptr a = cache_get(60 * MIB, 0);
    cache_put(cache_get(20 * MIB, 0));
    ck_assert_int_eq(cache_refused(50 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.num_alloc_retries, 1);
    ck_assert_uint_eq(s.num_device_free, 1);
    ck_assert_uint_eq(cache_info(a).bytes, 60 * MIB);
    cache_get(40 * MIB, 0);
}
END_TEST

START_TEST(a_segment_goes_back_only_after_the_work_on_it)
{
    pleat_devptr a = cache_get(60 * MIB, 1);
    cache_work(1, a, 60 * MIB);
    cache_put(a);
    cache_get(90 * MIB, 2);
    ck_assert_uint_eq(cache_stats().host_syncs, 1);
}
END_TEST

/* ---- limit ----------------------------------------------------------------------------------- */

START_TEST(over_the_limit_the_driver_is_not_asked)
{
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, 50 * MIB), PLEAT_OK);
    cache_get(20 * MIB, 0);
    uint64_t n_calls = cache.sim.n_calls("cuMemAlloc");
    ck_assert_int_eq(cache_refused(40 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemAlloc"), n_calls);
    cache_get(30 * MIB, 0);
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, 0), PLEAT_OK);
    cache_get(50 * MIB, 0);
}
END_TEST

/* ---- trim ------------------------------------------------------------------------------------ */

START_TEST(trim_keeps_what_it_is_told_to)
{
    pleat_devptr p[3];
    for (size_t i = 0; i < 3; i++) {
        p[i] = cache_get((i + 1) * 10 * MIB, 0);
    }
    for (size_t i = 0; i < 3; i++) {
        cache_put(p[i]);
    }
    ck_assert_uint_eq(cache_trim(60 * MIB, true), 0);
    ck_assert_uint_eq(cache_trim(59 * MIB, true), 10 * MIB);
    ck_assert_uint_eq(cache_trim(30 * MIB, true), 20 * MIB);
    ck_assert_uint_eq(cache_trim(0, true), 30 * MIB);
    ck_assert_uint_eq(cache_resident(), 0);
}
END_TEST

/* ---- split limit and collection -------------------------------------------------------------- */

START_TEST(with_a_split_limit_one_oversize_block_goes_before_everything_does)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, max_split_bytes, 20 * MIB);
    cache_open(&pl_torch_native_ops, "capacity:100M", &options);
    pleat_devptr small = cache_get(10 * MIB, 0);
    pleat_devptr large = cache_get(80 * MIB, 0);
    cache_put(small);
    cache_put(large);
    cache_get(40 * MIB, 0);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.num_device_free, 1);
    ck_assert_uint_eq(s.num_alloc_retries, 0);
    ck_assert_uint_eq(s.resident_bytes, 50 * MIB);
    cache_close();
}
END_TEST

START_TEST(with_a_split_limit_the_largest_blocks_go_until_they_suffice)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, max_split_bytes, 20 * MIB);
    cache_open(&pl_torch_native_ops, "capacity:100M", &options);
    pleat_devptr p[3];
    for (size_t i = 0; i < 3; i++) {
        p[i] = cache_get((20 + i * 10) * MIB, 0);
    }
    for (size_t i = 0; i < 3; i++) {
        cache_put(p[i]);
    }
    cache_get(60 * MIB, 0);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.num_device_free, 2);
    ck_assert_uint_eq(s.num_alloc_retries, 0);
    ck_assert_uint_eq(s.resident_bytes, 80 * MIB);
    cache_close();
}
END_TEST

START_TEST(old_blocks_are_collected_above_the_threshold)
{
    pl_allocator_options options = cache_defaults();
    options.limit_bytes = 100 * MIB;
    SET_OWN(torch, &options, garbage_collection_threshold, 0.5);
    cache_open(&pl_torch_native_ops, "capacity:1G", &options);
    pleat_devptr old = cache_get(20 * MIB, 0);
    pleat_devptr live = cache_get(32 * MIB, 0);
    cache_put(old);
    for (size_t i = 0; i < 10; i++) {
        cache_put(live);
        live = cache_get(32 * MIB, 0);
    }
    cache_put(live);
    cache_get(40 * MIB, 0);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.num_device_free, 1);
    ck_assert_uint_eq(s.num_alloc_retries, 0);
    ck_assert_uint_eq(s.resident_bytes, 72 * MIB);
    ck_assert_uint_eq(cache_get(32 * MIB, 0), live);
    cache_close();
}
END_TEST

START_TEST(settings_that_pytorch_refuses_are_refused)
{
    cache_open(&pl_torch_native_ops, "capacity:100M", NULL);
    pl_allocator_options bad[] = { cache_defaults(), cache_defaults(), cache_defaults(),
                                   cache_defaults() };
    SET_OWN(torch, &bad[0], max_split_bytes, 20 * MIB - 1);
    SET_OWN(torch, &bad[1], max_non_split_rounding_bytes, MIB);
    SET_OWN(torch, &bad[2], garbage_collection_threshold, 1);
    bad[3].roundup_divisions[3] = 6;
    for (size_t i = 0; i < 4; i++) {
        cache_refuses(&pl_torch_native_ops, &bad[i], "");
    }
    cache_close();
}
END_TEST

SUITE(models_torch_memory)
{
    TCase *memory = suite_case(suite, "memory", open_100_mib, cache_close);
    tcase_add_test(memory, everything_unsplit_goes_back_before_the_one_retry);
    tcase_add_test(memory, a_split_segment_stays_whatever_is_free_in_it);
    tcase_add_test(memory, out_of_memory_leaves_everything_as_it_was);
    tcase_add_test(memory, a_segment_goes_back_only_after_the_work_on_it);
    tcase_add_test(memory, over_the_limit_the_driver_is_not_asked);
    tcase_add_test(memory, trim_keeps_what_it_is_told_to);
    TCase *settings = suite_case(suite, "settings", NULL, NULL);
    tcase_add_test(settings, with_a_split_limit_one_oversize_block_goes_before_everything_does);
    tcase_add_test(settings, with_a_split_limit_the_largest_blocks_go_until_they_suffice);
    tcase_add_test(settings, old_blocks_are_collected_above_the_threshold);
    tcase_add_test(settings, settings_that_pytorch_refuses_are_refused);
}
