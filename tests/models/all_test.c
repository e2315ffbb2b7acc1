/* all_test.c - the common behaviour of all classic caches, by loop index. */
/* labels: unit */
#include <check.h>

#include "segments/classic/torch/torch_options.h"
#include "tests/support/own.h"
#include "tests/support/release.h"
#include "tests/support/segments/segments_cache.h"
#include "tests/support/suite.h"

/* unpooled, which caches nothing, comes last. */
static const pl_allocator_ops *const all_ops[] = {
    &pl_torch_native_ops,  &pl_torch_expandable_ops, &pl_mxnet_naive_ops, &pl_mxnet_round_ops,
    &pl_mxnet19_naive_ops, &pl_mxnet19_round_ops,    &pl_tf_bfc_ops,      &pl_unpooled_ops,
};

enum { N_OPS = sizeof all_ops / sizeof all_ops[0], N_CACHES = N_OPS - 1 };

static void open_of(int index)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, expandable_large_page_bytes, 2 * MIB);
    cache_open(all_ops[index], "capacity:1G,depth:100000", &options);
}

/* ---- arguments ------------------------------------------------------------------------------- */

START_TEST(absurd_sizes_are_refused_at_once)
{
    open_of(_i);
    pleat_devptr ptr = 7;
    ck_assert_int_eq(cache_try(0, 0, &ptr), PLEAT_EINVAL);
    ck_assert_int_eq(cache.a->ops->alloc(cache.a, 1, NULL, &ptr), PLEAT_EINVAL);
    ck_assert_int_eq(cache_try(((size_t)1 << 60) + 1, 0, &ptr), PLEAT_ESIZE);
    ck_assert_int_eq(cache_try(SIZE_MAX, 0, &ptr), PLEAT_ESIZE);
    ck_assert_int_eq(cache_try((size_t)1 << 60, 0, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(ptr, 7);
    cache_close();
}
END_TEST

START_TEST(foreign_addresses_and_second_frees_are_told_apart_and_change_nothing)
{
    open_of(_i);
    const pl_allocator_ops *ops = cache.a->ops;
    pleat_block_info info;
    pleat_devptr keep = cache_get(4 * MIB, 0);
    pleat_devptr gone = cache_get(4 * MIB, 0);
    cache_put(gone);
    pleat_stats before = cache_stats();
    ck_assert_int_eq(ops->free(cache.a, gone, NULL), PLEAT_EDOUBLEFREE);
    ck_assert_int_eq(ops->free(cache.a, keep + 512, NULL), PLEAT_EFOREIGN);
    ck_assert_int_eq(ops->free(cache.a, 0, NULL), PLEAT_EFOREIGN);
    ck_assert_int_eq(ops->free(cache.a, 12345, NULL), PLEAT_EFOREIGN);
    ck_assert_int_eq(ops->free(cache.a, UINT64_MAX, NULL), PLEAT_EFOREIGN);
    ck_assert_int_eq(ops->record_stream(cache.a, gone, cache.streams[1]), PLEAT_EFOREIGN);
    ck_assert_int_eq(ops->record_stream(cache.a, keep + 1, cache.streams[1]), PLEAT_EFOREIGN);
    ck_assert_int_eq(ops->record_stream(cache.a, keep, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(ops->query(cache.a, gone, &info), PLEAT_EFOREIGN);
    ck_assert_int_eq(ops->query(cache.a, keep + 4 * MIB, &info), PLEAT_EFOREIGN);
    ck_assert_uint_eq(cache_info(keep + 4 * MIB - 1).base, keep);
    pleat_stats after = cache_stats();
    ck_assert_mem_eq(&before, &after, sizeof before);
    cache_put(keep);
    ck_assert_int_eq(ops->free(cache.a, keep, NULL), PLEAT_EDOUBLEFREE);
    cache_trim(0, true);
    ck_assert_int_eq(ops->free(cache.a, keep, NULL), PLEAT_EFOREIGN);
    ck_assert_int_eq(ops->free(cache.a, gone, NULL), PLEAT_EFOREIGN);
    cache_close();
}
END_TEST

/* ---- memory ---------------------------------------------------------------------------------- */

START_TEST(a_hit_on_one_stream_calls_no_driver)
{
    open_of(_i);
    for (unsigned stream = 0; stream < 2; stream++) {
        pleat_devptr ptr = cache_get(30 * MIB, stream);
        uint64_t n_calls = cache_n_calls();
        for (int i = 0; i < 10; i++) {
            cache_put_on(ptr, stream);
            ck_assert_uint_eq(cache_get(30 * MIB, stream), ptr);
            cache_record(ptr, stream);
        }
        ck_assert_uint_eq(cache_n_calls(), n_calls);
    }
    cache_close();
}
END_TEST

START_TEST(the_cache_gives_way_to_a_new_limit_and_live_blocks_do_not)
{
    open_of(_i);
    cache_get(64 * MIB, 0);
    cache_put(cache_get(64 * MIB, 0));
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, 127 * MIB), PLEAT_OK);
    ck_assert_uint_eq(cache_resident(), 64 * MIB);
    pleat_stats before = cache_stats();
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, 63 * MIB), PLEAT_ENOMEM_DEVICE);
    cache_assert_same(&before);
    cache_get(48 * MIB, 0);
    ck_assert_int_eq(cache_refused(16 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, 0), PLEAT_OK);
    cache_get(500 * MIB, 0);
    cache_close();
}
END_TEST

START_TEST(destroy_refuses_while_blocks_live_and_tells_what_the_driver_keeps)
{
    size_t n_live = 0;
    size_t n_leaked = 0;
    open_of(_i);
    cache_put(cache_get(MIB, 0));
    cache_get(30 * MIB, 1);
    ck_assert_int_eq(cache.a->ops->destroy(cache.a, false, &n_live, &n_leaked), PLEAT_EBUSY);
    ck_assert_uint_eq(n_live, 1);
    cache_put(cache_get(MIB, 0));
    cache.sim.fail_from("cuMemFree", 0, CACHE_UNKNOWN);
    cache.sim.fail_from("cuMemAddressFree", 0, CACHE_UNKNOWN);
    ck_assert_int_eq(cache.a->ops->destroy(cache.a, true, &n_live, &n_leaked), PLEAT_OK);
    cache.sim.fail_never();
    pleat_sim_counts left = vmm_sim_counted(&cache.sim);
    ck_assert_uint_eq(n_live, 1);
    ck_assert_uint_eq(n_leaked, all_ops[_i] == &pl_unpooled_ops ? 1 : 2);
    ck_assert_uint_eq(left.allocations + left.reservations, n_leaked);
    ck_assert_uint_eq(left.handles, 0);
}
END_TEST

/* ---- streams --------------------------------------------------------------------------------- */

START_TEST(work_of_a_destroyed_stream_is_waited_for)
{
    open_of(_i);
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    uint64_t resident = cache_resident();
    cache_work(1, ptr, 30 * MIB);
    cache_put(ptr);
    cache_destroy_stream(1);
    cache_create_stream(1);
    ck_assert_uint_eq(cache_trim(0, true), resident);
    cache_close();
}
END_TEST

START_TEST(a_use_by_a_captured_stream_is_held_until_the_capture_is_released)
{
    open_of(_i);
    const pl_allocator_ops *ops = cache.a->ops;
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    uint64_t bytes = cache_info(ptr).bytes;
    cache_record(ptr, 2);
    cache_begin_capture(2);
    cache_put(ptr);
    ck_assert_uint_eq(cache_stats().pending_bytes, bytes);
    ck_assert_uint_eq(cache_stats().active_bytes[PLEAT_SIZES_ALL].current, bytes);
    ck_assert_int_eq(release_capture(cache.a, cache.streams[2]), PLEAT_ECAPTURE);
    ck_assert_int_eq(ops->free(cache.a, ptr, NULL), PLEAT_EDOUBLEFREE);
    cache_end_capture(2);
    cache.sim.finish();
    ck_assert_uint_ne(cache_get(30 * MIB, 1), ptr);
    ck_assert_uint_eq(cache_trim(0, true), 0);
    cache_release_capture(3);
    ck_assert_uint_eq(cache_stats().pending_bytes, bytes);
    cache_release_capture(2);
    ck_assert_uint_eq(cache_get(30 * MIB, 1), ptr);
    ck_assert_uint_eq(cache_stats().pending_bytes, 0);
    cache_close();
}
END_TEST

START_TEST(a_capturing_request_gives_nothing_back)
{
    open_of(_i);
    cache_put(cache_get(900 * MIB, 2));
    cache_begin_capture(1);
    ck_assert_int_eq(cache_refused(950 * MIB, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(cache_stats().num_device_free, 0);
    ck_assert_uint_eq(cache_stats().num_alloc_retries, 0);
    cache_end_capture(1);
    cache_get(950 * MIB, 1);
    cache_close();
}
END_TEST

START_TEST(during_a_capture_nothing_of_it_goes_back_to_the_driver)
{
    open_of(_i);
    cache_put(cache_get(500 * MIB, 1));
    uint64_t resident = cache_resident();
    cache_begin_capture(1);
    if (all_ops[_i] != &pl_torch_expandable_ops) { /* this cache grows in place instead */
        ck_assert_int_eq(cache_refused(700 * MIB, 1), PLEAT_ENOMEM_DEVICE);
    }
    ck_assert_int_eq(cache_refused(700 * MIB, 2), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(cache_stats().num_device_free, 0);
    ck_assert_uint_eq(cache_trim(0, true), 0);
    cache_end_capture(1);
    ck_assert_uint_eq(cache_trim(0, true), resident);
    cache_get(700 * MIB, 2);
    cache_close();
}
END_TEST

SUITE(models_all)
{
    TCase *arguments = suite_case(suite, "arguments", NULL, NULL);
    tcase_add_loop_test(arguments, absurd_sizes_are_refused_at_once, 0, N_OPS);
    tcase_add_loop_test(arguments,
                        foreign_addresses_and_second_frees_are_told_apart_and_change_nothing, 0,
                        N_CACHES);
    TCase *memory = suite_case(suite, "memory", NULL, NULL);
    tcase_add_loop_test(memory, a_hit_on_one_stream_calls_no_driver, 0, N_CACHES);
    tcase_add_loop_test(memory, the_cache_gives_way_to_a_new_limit_and_live_blocks_do_not, 0,
                        N_OPS);
    tcase_add_loop_test(memory, destroy_refuses_while_blocks_live_and_tells_what_the_driver_keeps,
                        0, N_OPS);
    TCase *streams = suite_case(suite, "streams and captures", NULL, NULL);
    tcase_add_loop_test(streams, work_of_a_destroyed_stream_is_waited_for, 0, N_CACHES);
    tcase_add_loop_test(streams, a_use_by_a_captured_stream_is_held_until_the_capture_is_released,
                        0, N_CACHES);
    tcase_add_loop_test(streams, a_capturing_request_gives_nothing_back, 0, N_CACHES);
    tcase_add_loop_test(streams, during_a_capture_nothing_of_it_goes_back_to_the_driver, 0,
                        N_CACHES);
}
