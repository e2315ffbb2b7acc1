/* load_test.c - stress of every classic cache, by loop index: failing calls, crowds, real contents,
 * random calls. */
/* labels: unit fault model stress */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "segments/classic/torch/torch_options.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_cache_load.h"
#include "tests/support/segments/segments_faults.h"
#include "tests/support/suite.h"

static const pl_allocator_ops *const all_ops[] = {
    &pl_torch_native_ops, &pl_torch_expandable_ops, &pl_mxnet_naive_ops,
    &pl_mxnet_round_ops,  &pl_mxnet19_naive_ops,    &pl_mxnet19_round_ops,
    &pl_tf_bfc_ops,       &pl_unpooled_ops,         &pl_cuda_async_ops,
};

enum { N_OPS = sizeof all_ops / sizeof all_ops[0] };

/* Page sizes of torch-expandable, the only cache with pages. Small pages make it map often. */
static pl_allocator_options pages(size_t small, size_t large)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, expandable_small_page_bytes, small);
    SET_OWN(torch, &options, expandable_large_page_bytes, large);
    return options;
}

/* ---- failing calls --------------------------------------------------------------------------- */

START_TEST(any_driver_call_may_fail)
{
    static const int codes[] = { CACHE_UNKNOWN, CACHE_OUT_OF_MEMORY };
    pl_allocator_options options = pages(2 * MIB, 2 * MIB);
    fault_scenario scenario = { .ops = all_ops[_i], .options = &options };
    for (size_t i = 0; i < 2; i++) {
        ck_assert_uint_gt(fault_driver(&scenario, NULL, false, codes[i]), 40);
        ck_assert_uint_gt(fault_driver(&scenario, NULL, true, codes[i]), 40);
    }
}
END_TEST

static bool is_mxnet(const pl_allocator_ops *ops)
{
    return strncmp(ops->name, "mxnet", 5) == 0;
}

START_TEST(any_question_to_the_driver_may_fail)
{
    pl_allocator_options options = pages(2 * MIB, 2 * MIB);
    fault_scenario scenario = { .ops = all_ops[_i], .options = &options };
    for (int ever_after = 0; ever_after < 2; ever_after++) {
        bool asks_for_events = scenario.ops != &pl_cuda_async_ops;
        ck_assert_uint_gt(fault_driver(&scenario, "cuStreamIsCapturing", ever_after, CACHE_UNKNOWN),
                          0);
        ck_assert_int_eq(fault_driver(&scenario, "cuEventQuery", ever_after, CACHE_UNKNOWN) > 0,
                         asks_for_events);
        ck_assert_int_eq(fault_driver(&scenario, "cuMemGetInfo", ever_after, CACHE_UNKNOWN) > 0,
                         is_mxnet(scenario.ops));
    }
}
END_TEST

START_TEST(any_host_allocation_may_fail)
{
    pl_allocator_options options = pages(2 * MIB, 2 * MIB);
    fault_scenario scenario = { .ops = all_ops[_i], .options = &options };
    uint64_t least = scenario.ops == &pl_cuda_async_ops ? 8 : 12;
    ck_assert_uint_ge(fault_host(&scenario, false), least);
    ck_assert_uint_ge(fault_host(&scenario, true), least);
}
END_TEST

START_TEST(a_failed_creation_leaves_nothing)
{
    fault_creation(all_ops[_i]);
}
END_TEST

/* ---- load ------------------------------------------------------------------------------------ */

START_TEST(contents_survive_threads_and_streams)
{
    if (!suite_is_turn(_i)) {
        return;
    }
    pl_allocator_options options = pages(64 * KIB, 256 * KIB);
    pleat_stats s = cache_load_contents(all_ops[_i], &options);
    if (all_ops[_i] == &pl_torch_expandable_ops) {
        ck_assert_uint_gt(s.num_alloc_retries, 20);
        ck_assert_uint_gt(s.ops_unmap, 20);
    }
}
END_TEST

START_TEST(threads_share_a_full_device)
{
    if (!suite_is_turn(_i)) {
        return;
    }
    pl_allocator_options options = pages(2 * MIB, 2 * MIB);
    cache_load_crowd(all_ops[_i], &options);
}
END_TEST

enum { LIMITS_SET = 20, GROWING_BYTES = 24 << 20 };

static _Atomic unsigned n_grown;
static atomic_bool is_over;

/* Allocates and frees over and over, with trims. */
static void *grow_and_trim(void *context)
{
    pl_allocator *a = context;
    while (!is_over) {
        pleat_devptr ptr;
        uint64_t released;
        if (a->ops->alloc(a, GROWING_BYTES, cache.streams[0], &ptr) == PLEAT_OK) {
            (void)!a->ops->free(a, ptr, NULL);
        }
        (void)!a->ops->trim(a, 0, true, &released);
        n_grown++;
    }
    return NULL;
}

static void wait_for_rounds(unsigned n)
{
    unsigned first = n_grown;
    while (n_grown - first < n) {
        sched_yield();
    }
}

/* The limit is set at any point of a request. The request is served before, or refused. (cuda-async
 * learns the size of the driver's pool a little late, so its peaks are not checked.) */
START_TEST(a_limit_holds_against_a_request_under_way)
{
    pthread_t thread;
    unsigned n_set = 0;
    ck_assert_ptr_ne(all_ops[_i], &pl_cuda_async_ops);
    pl_allocator_options options = pages(64 * KIB, 64 * KIB); /* hundreds of calls per request */
    cache_open(all_ops[_i], "capacity:256M,granularity:64K", &options);
    ck_assert_int_eq(pthread_create(&thread, NULL, grow_and_trim, cache.a), 0);
    for (unsigned i = 0; n_set < suite_most(LIMITS_SET);
         i++) { /* it is refused while a block is live */
        uint64_t peak = 0;
        bool is_set = cache.a->ops->set_limit(cache.a, MIB) == PLEAT_OK;
        if (is_set) {
            pleat_stats s;
            cache.a->ops->reset_peaks(cache.a);
            wait_for_rounds(2);
            cache.a->ops->stats(cache.a, &s);
            peak = s.reserved_bytes[PLEAT_SIZES_ALL].peak;
            n_set++;
        }
        ck_assert_int_eq(cache.a->ops->set_limit(cache.a, 0), PLEAT_OK);
        ck_assert_msg(peak <= MIB, "round %u: %llu bytes", i, (unsigned long long)peak);
        wait_for_rounds(i % 2);
    }
    is_over = true;
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    cache_close();
}
END_TEST

START_TEST(random_blocks_are_disjoint_and_the_walkers_agree)
{
    cache_load_random(all_ops[_i], NULL);
}
END_TEST

SUITE(models_load)
{
    TCase *faults = suite_case(suite, "faults", NULL, NULL);
    suite_one_thread(faults);
    tcase_add_loop_test(faults, any_driver_call_may_fail, 0, N_OPS);
    tcase_add_loop_test(faults, any_question_to_the_driver_may_fail, 0, N_OPS);
    tcase_add_loop_test(faults, any_host_allocation_may_fail, 0, N_OPS);
    tcase_add_loop_test(faults, a_failed_creation_leaves_nothing, 0, N_OPS);
    TCase *load = suite_case(suite, "load", NULL, NULL);
    tcase_add_loop_test(load, contents_survive_threads_and_streams, 0, N_OPS);
    tcase_add_loop_test(load, threads_share_a_full_device, 0, N_OPS);
    tcase_add_loop_test(load, a_limit_holds_against_a_request_under_way, 0, N_OPS - 1);
    TCase *random = suite_case(suite, "random", NULL, NULL);
    suite_one_thread(random);
    tcase_add_loop_test(random, random_blocks_are_disjoint_and_the_walkers_agree, 0, N_OPS);
}
