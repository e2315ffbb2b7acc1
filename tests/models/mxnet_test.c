/* mxnet_test.c - MXNet's pools: size classes, lists, reserve, retry, versions. */
/* labels: unit */
#include <check.h>

#include "segments/classic/mxnet_options.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_cache.h"
#include "tests/support/suite.h"

static const pl_allocator_ops *const all_ops[] = {
    &pl_mxnet_naive_ops,
    &pl_mxnet_round_ops,
    &pl_mxnet19_naive_ops,
    &pl_mxnet19_round_ops,
};

enum { N_OPS = sizeof all_ops / sizeof all_ops[0] };

static void open_naive(void)
{
    cache_open(&pl_mxnet_naive_ops, "capacity:1T,depth:100000", NULL);
}

static void open_round(void)
{
    cache_open(&pl_mxnet_round_ops, "capacity:1T,depth:100000", NULL);
}

/* ---- size classes ---------------------------------------------------------------------------- */

typedef struct vector {
    size_t request, naive, round, round_20;
} vector;

/* MXNet's own figures, for a page of 4,096, large sizes from 2 MiB, cutoffs 24 and 20. */
static const vector vectors[] = {
    { 1, 4096, 4096, 4096 },
    { 4096, 4096, 4096, 4096 },
    { 4097, 8192, 8192, 8192 },
    { 8193, 12288, 16384, 16384 },
    { 12289, 16384, 16384, 16384 },
    { 1048576, 1048576, 1048576, 1048576 },
    { 1048577, 1052672, 2097152, 2097152 },
    { 2093057, 2097152, 2097152, 2097152 },
    { 2097152, 2097152, 2097152, 2097152 },
    { 2097153, 4194304, 4194304, 3145728 },
    { 3145728, 4194304, 4194304, 3145728 },
    { 5242880, 6291456, 8388608, 5242880 },
    { 16777215, 16777216, 16777216, 16777216 },
    { 16777216, 16777216, 16777216, 16777216 },
    { 16777217, 18874368, 33554432, 17825792 },
    { 33554433, 35651584, 50331648, 34603008 },
    { 104857600, 104857600, 117440512, 104857600 },
    { 1073741825, 1075838976, 1090519040, 1074790400 },
    { 17179869184, 17179869184, 17179869184, 17179869184 },
};

enum { N_VECTORS = sizeof vectors / sizeof vectors[0] };

/* The pool asks the driver for just `class_bytes`, and the block occupies them. */
static void check_class(size_t request, size_t class_bytes)
{
    uint64_t before = cache_resident();
    pleat_devptr ptr = cache_get(request, 0);
    ck_assert_uint_eq(cache_resident() - before, class_bytes);
    ck_assert_uint_eq(cache_info(ptr).bytes, class_bytes);
    ck_assert_uint_eq(cache_info(ptr).requested_bytes, request);
}

START_TEST(naive_rounds_as_mxnet_does)
{
    open_naive();
    for (size_t i = 0; i < N_VECTORS; i++) {
        check_class(vectors[i].request, vectors[i].naive);
    }
    cache_close();
}
END_TEST

START_TEST(round_rounds_as_mxnet_does)
{
    open_round();
    for (size_t i = 0; i < N_VECTORS; i++) {
        check_class(vectors[i].request, vectors[i].round);
    }
    cache_close();
}
END_TEST

START_TEST(round_with_a_cutoff_of_20_rounds_as_mxnet_does)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(mxnet, &options, cutoff, 20);
    cache_open(&pl_mxnet_round_ops, "capacity:1T", &options);
    for (size_t i = 0; i < N_VECTORS; i++) {
        check_class(vectors[i].request, vectors[i].round_20);
    }
    cache_close();
}
END_TEST

START_TEST(the_versions_round_alike)
{
    cache_open(&pl_mxnet19_naive_ops, "capacity:1T", NULL);
    check_class(3145728, 4194304);
    cache_close();
    cache_open(&pl_mxnet19_round_ops, "capacity:1T", NULL);
    check_class(33554433, 50331648);
    cache_close();
}
END_TEST

START_TEST(a_page_need_neither_be_a_power_of_two_nor_divide_a_large_size)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(mxnet, &options, page_bytes, 3000);
    SET_OWN(mxnet, &options, large_bytes, 100000);
    cache_open(&pl_mxnet_naive_ops, "capacity:1T", &options);
    check_class(1, 3000);
    check_class(99001, 200000);
    check_class(99000, 99000);
    check_class(200001, 300000);
    cache_close();
}
END_TEST

START_TEST(a_large_size_of_1_turns_its_rounding_off)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(mxnet, &options, large_bytes, 1);
    cache_open(&pl_mxnet_naive_ops, "capacity:1T", &options);
    check_class(5242881, 5246976);
    cache_close();
}
END_TEST

START_TEST(above_16_gib_round_goes_on_in_the_same_way)
{
    open_round();
    check_class(16 * GIB + 1, 16 * GIB + 16 * MIB);
    check_class(80 * GIB - 5 * MIB, 80 * GIB);
    pleat_devptr ptr = cache_get(40 * GIB + 1, 0);
    cache_put(ptr);
    ck_assert_uint_eq(cache_get(40 * GIB + 16 * MIB, 0), ptr);
    cache_close();
}
END_TEST

/* ---- lists ----------------------------------------------------------------------------------- */

START_TEST(the_block_freed_last_is_used_first)
{
    pleat_devptr p[3];
    for (size_t i = 0; i < 3; i++) {
        p[i] = cache_get(8192, 0);
    }
    cache_put(p[1]);
    cache_put(p[0]);
    cache_put(p[2]);
    ck_assert_uint_eq(cache_get(8000, 0), p[2]);
    ck_assert_uint_eq(cache_get(5000, 0), p[0]);
    ck_assert_uint_eq(cache_get(8192, 0), p[1]);
    ck_assert_uint_eq(cache_stats().num_device_alloc, 3);
}
END_TEST

START_TEST(a_block_serves_its_own_class_only)
{
    pleat_devptr large = cache_get(40 * MIB, 0);
    cache_put(large);
    ck_assert_uint_ne(cache_get(40 * MIB - 2 * MIB, 0), large);
    ck_assert_uint_ne(cache_get(4096, 0), large);
    ck_assert_uint_ne(cache_get(40 * MIB + 1, 0), large);
    ck_assert_uint_eq(cache_get(38 * MIB + 1, 0), large);
}
END_TEST

START_TEST(mxnets_own_test_of_its_round_pool_passes)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(mxnet, &options, cutoff, 20);
    cache_open(&pl_mxnet_round_ops, "capacity:1T", &options);
    pleat_devptr small = cache_get(32, 0);
    pleat_devptr large = cache_get(2097153, 0);
    cache_put(small);
    cache_put(large);
    ck_assert_uint_eq(cache_get(4095, 0), small);
    ck_assert_uint_eq(cache_get(3145728, 0), large);
    cache_close();
}
END_TEST

START_TEST(statistics_follow_pytorch_through_a_life)
{
    pleat_devptr small = cache_get(1000, 0);
    pleat_devptr large = cache_get(3 * MIB + 1, 0);
    cache_put(small);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.allocation[PLEAT_SIZES_ALL].current, 1);
    ck_assert_uint_eq(s.allocation[PLEAT_SIZES_SMALL].freed, 1);
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_SIZES_ALL].peak, 4 * MIB + 4096);
    ck_assert_uint_eq(s.requested_bytes[PLEAT_SIZES_LARGE].current, 3 * MIB + 1);
    ck_assert_uint_eq(s.segment[PLEAT_SIZES_SMALL].current, 1);
    ck_assert_uint_eq(s.segment[PLEAT_SIZES_LARGE].current, 1);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_SMALL].current, 4096);
    ck_assert_uint_eq(s.rounding_bytes, MIB - 1);
    ck_assert_uint_eq(s.free_bytes, 4096);
    ck_assert_uint_eq(s.inactive_split[PLEAT_SIZES_ALL].allocated, 0);
    ck_assert_uint_eq(s.num_device_alloc, 2);
    cache_put(large);
    cache_trim(0, true);
    s = cache_stats();
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_ALL].current, 0);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_ALL].peak, 4 * MIB + 4096);
    ck_assert_uint_eq(s.num_device_free, 2);
    cache.a->ops->reset_peaks(cache.a);
    ck_assert_uint_eq(cache_stats().reserved_bytes[PLEAT_SIZES_ALL].peak, 0);
}
END_TEST

/* ---- reserve --------------------------------------------------------------------------------- */

/* Whether a request on a device of 320 MiB, 32 of them cached, gives the cache back first. */
static bool gives_back(const pl_allocator_ops *ops, unsigned percent, size_t request)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(mxnet, &options, reserve_percent, percent);
    cache_open(ops, "capacity:320M", &options);
    cache_put(cache_get(32 * MIB, 0));
    cache_get(request, 0);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.num_alloc_retries, 0);
    ck_assert_uint_eq(s.num_sync_all_streams, s.num_device_free);
    cache_close();
    return s.num_device_free != 0;
}

START_TEST(the_cache_goes_when_less_than_the_reserve_would_stay_free)
{
    for (size_t i = 0; i < N_OPS; i++) {
        ck_assert(!gives_back(all_ops[i], 5, 256 * MIB));
        ck_assert(!gives_back(all_ops[i], 5, 272 * MIB));
        ck_assert(gives_back(all_ops[i], 5, 272 * MIB + 1));
        ck_assert(gives_back(all_ops[i], 25, 224 * MIB));
        ck_assert(!gives_back(all_ops[i], 25, 208 * MIB));
        ck_assert(gives_back(all_ops[i], 100, 16 * MIB));
    }
}
END_TEST

START_TEST(with_nothing_to_stay_free_only_mxnet_2_gives_back_for_the_last_byte)
{
    ck_assert(gives_back(&pl_mxnet_naive_ops, 0, 288 * MIB));
    ck_assert(gives_back(&pl_mxnet_round_ops, 0, 288 * MIB));
    ck_assert(!gives_back(&pl_mxnet19_naive_ops, 0, 288 * MIB));
    ck_assert(!gives_back(&pl_mxnet19_round_ops, 0, 288 * MIB));
    ck_assert(!gives_back(&pl_mxnet_naive_ops, 0, 286 * MIB));
}
END_TEST

START_TEST(the_reserve_refuses_nothing)
{
    cache_open(&pl_mxnet_naive_ops, "capacity:200M", NULL);
    cache_get(200 * MIB, 0);
    ck_assert_uint_eq(cache_stats().num_alloc_retries, 0);
    cache_close();
}
END_TEST

START_TEST(every_miss_asks_what_is_free_and_no_hit_does)
{
    cache_open(&pl_mxnet_naive_ops, "capacity:200M", NULL);
    pleat_devptr ptr = cache_get(MIB, 0);
    cache_get(2 * MIB, 0);
    cache_put(ptr);
    cache_get(MIB, 0);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemGetInfo"), 2);
    cache_close();
}
END_TEST

/* ---- retry ----------------------------------------------------------------------------------- */

/* Make a request while 40 MiB are cached. The driver refuses the request once with this code. */
static pleat_status refused_once(const pl_allocator_ops *ops, int code, uint64_t *n_released)
{
    pleat_devptr ptr = 0;
    cache_open(ops, "capacity:1G", NULL);
    cache_put(cache_get(40 * MIB, 0));
    cache.sim.fail_at("cuMemAlloc", 0, code);
    pleat_stats before = cache_stats();
    pleat_status st = cache_try(64 * MIB, 0, &ptr);
    if (st != PLEAT_OK) {
        cache_assert_same(&before);
    }
    pleat_stats s = cache_stats();
    *n_released = s.num_device_free;
    ck_assert_uint_eq(s.num_alloc_retries, *n_released);
    cache_close();
    return st;
}

START_TEST(mxnet_2_tries_again_after_any_refusal_and_1_x_after_one_for_memory)
{
    for (size_t i = 0; i < N_OPS; i++) {
        bool is_v2 = i < 2;
        uint64_t n_released = 0;
        ck_assert_int_eq(refused_once(all_ops[i], CACHE_OUT_OF_MEMORY, &n_released), PLEAT_OK);
        ck_assert_uint_eq(n_released, 1);
        ck_assert_int_eq(refused_once(all_ops[i], CACHE_UNKNOWN, &n_released),
                         is_v2 ? PLEAT_OK : PLEAT_EDRIVER);
        ck_assert_uint_eq(n_released, is_v2 ? 1 : 0);
    }
}
END_TEST

START_TEST(a_driver_that_does_not_tell_what_is_free_fails_mxnet_2_only)
{
    cache_open(&pl_mxnet_naive_ops, "capacity:1G", NULL);
    cache_put(cache_get(40 * MIB, 0));
    cache.sim.fail_at("cuMemGetInfo", 0, CACHE_UNKNOWN);
    ck_assert_int_eq(cache_refused(64 * MIB, 0), PLEAT_EDRIVER);
    ck_assert_uint_eq(cache_stats().num_device_free, 0);
    cache_close();
    cache_open(&pl_mxnet19_naive_ops, "capacity:1G", NULL);
    cache_put(cache_get(40 * MIB, 0));
    cache.sim.fail_at("cuMemGetInfo", 0, CACHE_UNKNOWN);
    cache_get(64 * MIB, 0);
    ck_assert_uint_eq(cache_stats().num_device_free, 1);
    cache_close();
}
END_TEST

START_TEST(out_of_memory_leaves_everything_as_it_was)
{
    cache_open(&pl_mxnet_naive_ops, "capacity:100M", NULL);
    pleat_devptr live = cache_get(60 * MIB, 0);
    cache_put(cache_get(20 * MIB, 0));
    ck_assert_int_eq(cache_refused(50 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.num_device_free, 1);
    ck_assert_uint_eq(cache_info(live).bytes, 60 * MIB);
    cache_get(40 * MIB, 0);
    cache_close();
}
END_TEST

START_TEST(memory_goes_back_only_after_the_work_on_it)
{
    cache_open(&pl_mxnet_naive_ops, "capacity:100M,depth:100000", NULL);
    pleat_devptr p[2] = { cache_get(20 * MIB, 1), cache_get(40 * MIB, 1) };
    cache_work(1, p[0], 20 * MIB);
    cache_work(1, p[1], 40 * MIB);
    cache_put(p[0]);
    cache_put(p[1]);
    cache_get(90 * MIB, 2);
    ck_assert_uint_eq(cache_stats().num_device_free, 2);
    ck_assert_uint_eq(cache_stats().host_syncs, 1);
    cache_close();
}
END_TEST

/* ---- limit and trim -------------------------------------------------------------------------- */

START_TEST(a_limit_is_a_device_of_that_size)
{
    pl_allocator_options options = cache_defaults();
    options.limit_bytes = 200 * MIB;
    cache_open(&pl_mxnet_naive_ops, "capacity:1G", &options);
    cache_put(cache_get(40 * MIB, 0));
    cache_put(cache_get(150 * MIB, 0));
    ck_assert_uint_eq(cache_stats().num_device_free, 0);
    cache_get(52 * MIB, 0);
    ck_assert_uint_eq(cache_stats().num_device_free, 2);
    ck_assert_uint_eq(cache_stats().num_alloc_retries, 0);
    uint64_t n_calls = cache.sim.n_calls("cuMemAlloc");
    ck_assert_int_eq(cache_refused(150 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemAlloc"), n_calls);
    cache_get(148 * MIB, 0);
    cache_close();
}
END_TEST

START_TEST(trim_keeps_what_it_is_told_to)
{
    pleat_devptr p[3];
    for (size_t i = 0; i < 3; i++) {
        p[i] = cache_get(10 * MIB, 0);
    }
    for (size_t i = 0; i < 3; i++) {
        cache_put(p[i]);
    }
    ck_assert_uint_eq(cache_trim(30 * MIB, true), 0);
    ck_assert_uint_eq(cache_trim(29 * MIB, true), 10 * MIB);
    ck_assert_uint_eq(cache_trim(0, true), 20 * MIB);
    ck_assert_uint_eq(cache_resident(), 0);
}
END_TEST

START_TEST(trim_that_may_not_wait_leaves_what_is_in_use)
{
    pleat_devptr ptr = cache_get(30 * MIB, 1);
    cache_put(cache_get(20 * MIB, 2));
    cache_work(1, ptr, 30 * MIB);
    cache_put(ptr);
    ck_assert_uint_eq(cache_trim(0, false), 20 * MIB);
    ck_assert_uint_eq(cache_stats().host_syncs, 0);
    ck_assert_uint_eq(cache_trim(0, true), 30 * MIB);
    ck_assert_uint_eq(cache_stats().host_syncs, 1);
}
END_TEST

START_TEST(bad_options_are_refused_by_name)
{
    cache_open(&pl_mxnet_naive_ops, "capacity:1G", NULL);
    pl_allocator_options o = cache_defaults();
    SET_OWN(mxnet, &o, page_bytes, 31);
    cache_refuses(&pl_mxnet_naive_ops, &o, "mxnet_page_bytes");
    SET_OWN(mxnet, &o, page_bytes, 6144);
    cache_refuses(&pl_mxnet_round_ops, &o, "mxnet_page_bytes");
    cache_refuses(&pl_mxnet19_round_ops, &o, "mxnet_page_bytes");
    o = cache_defaults();
    SET_OWN(mxnet, &o, reserve_percent, 101);
    cache_refuses(&pl_mxnet_naive_ops, &o, "mxnet_reserve_percent");
    cache_refuses(&pl_mxnet_round_ops, &o, "mxnet_reserve_percent");
    o = cache_defaults();
    SET_OWN(mxnet, &o, large_bytes, 0);
    cache_refuses(&pl_mxnet19_naive_ops, &o, "mxnet_large_bytes");
    o = cache_defaults();
    SET_OWN(mxnet, &o, cutoff, 19);
    cache_refuses(&pl_mxnet_round_ops, &o, "mxnet_cutoff");
    SET_OWN(mxnet, &o, cutoff, 35);
    cache_refuses(&pl_mxnet_round_ops, &o, "mxnet_cutoff");
    SET_OWN(mxnet, &o, cutoff, 20);
    SET_OWN(mxnet, &o, page_bytes, 2 * MIB);
    cache_refuses(&pl_mxnet_round_ops, &o, "mxnet_cutoff");
    cache_close();
}
END_TEST

static void add_classes(Suite *suite)
{
    TCase *classes = suite_case(suite, "classes", NULL, NULL);
    tcase_add_test(classes, naive_rounds_as_mxnet_does);
    tcase_add_test(classes, round_rounds_as_mxnet_does);
    tcase_add_test(classes, round_with_a_cutoff_of_20_rounds_as_mxnet_does);
    tcase_add_test(classes, the_versions_round_alike);
    tcase_add_test(classes, a_page_need_neither_be_a_power_of_two_nor_divide_a_large_size);
    tcase_add_test(classes, a_large_size_of_1_turns_its_rounding_off);
    tcase_add_test(classes, above_16_gib_round_goes_on_in_the_same_way);
    tcase_add_test(classes, mxnets_own_test_of_its_round_pool_passes);
    tcase_add_test(classes, bad_options_are_refused_by_name);
    TCase *lists = suite_case(suite, "lists", open_naive, cache_close);
    tcase_add_test(lists, the_block_freed_last_is_used_first);
    tcase_add_test(lists, a_block_serves_its_own_class_only);
    tcase_add_test(lists, statistics_follow_pytorch_through_a_life);
    tcase_add_test(lists, trim_keeps_what_it_is_told_to);
    tcase_add_test(lists, trim_that_may_not_wait_leaves_what_is_in_use);
}

static void add_memory(Suite *suite)
{
    TCase *memory = suite_case(suite, "memory", NULL, NULL);
    tcase_add_test(memory, the_cache_goes_when_less_than_the_reserve_would_stay_free);
    tcase_add_test(memory, with_nothing_to_stay_free_only_mxnet_2_gives_back_for_the_last_byte);
    tcase_add_test(memory, the_reserve_refuses_nothing);
    tcase_add_test(memory, every_miss_asks_what_is_free_and_no_hit_does);
    tcase_add_test(memory, mxnet_2_tries_again_after_any_refusal_and_1_x_after_one_for_memory);
    tcase_add_test(memory, a_driver_that_does_not_tell_what_is_free_fails_mxnet_2_only);
    tcase_add_test(memory, out_of_memory_leaves_everything_as_it_was);
    tcase_add_test(memory, memory_goes_back_only_after_the_work_on_it);
    tcase_add_test(memory, a_limit_is_a_device_of_that_size);
}

SUITE(models_mxnet)
{
    add_classes(suite);
    add_memory(suite);
}
