/* torch_pressure_test.c - torch-expandable with little memory, limits and faults. */
/* labels: unit fault */
#include <check.h>

#include "segments/classic/torch/torch_options.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_cache.h"
#include "tests/support/segments/segments_faults.h"
#include "tests/support/suite.h"

static void open_conf(const char *sim_conf, const pl_allocator_options *options)
{
    cache_open(&pl_torch_expandable_ops, sim_conf, options);
}

static pl_allocator_options pages_of_2_mib(void)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, expandable_large_page_bytes, 2 * MIB);
    return options;
}

static void open_100_mib(void)
{
    open_conf("capacity:100M,depth:100000", NULL);
}

/* ---- short of memory ------------------------------------------------------------------------- */

/* Stream 1: 20 MiB live, a hole, 20 MiB free, then nothing but addresses; 40 MiB on stream 2. */
static pleat_devptr set_up_two_holes(void)
{
    cache_get(20 * MIB, 1);
    pleat_devptr hole = cache_get(20 * MIB, 1);
    pleat_devptr free = cache_get(20 * MIB, 1);
    cache_put(hole);
    cache_trim(0, true);
    cache_get(40 * MIB, 2);
    cache_put(free);
    return hole;
}

/* During a capture there is no retry, since a retry gives everything back. */
START_TEST(what_was_mapped_before_a_later_part_failed_stays_as_free_memory)
{
    pleat_devptr hole = set_up_two_holes();
    pleat_stats before = cache_stats();
    cache_begin_capture(1);
    ck_assert_int_eq(cache_refused(60 * MIB, 1), PLEAT_ENOMEM_DEVICE);
    cache_end_capture(1);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.ops_map, before.ops_map + 1);
    ck_assert_uint_eq(s.num_device_alloc, before.num_device_alloc + 1);
    ck_assert_uint_eq(s.resident_bytes, 100 * MIB);
    ck_assert_uint_eq(s.free_bytes, 40 * MIB);
    ck_assert_uint_eq(cache_get(40 * MIB, 1), hole);
    ck_assert_uint_eq(cache_stats().ops_map, s.ops_map);
}
END_TEST

START_TEST(the_retry_gives_back_what_the_failed_part_mapped)
{
    pleat_devptr hole = set_up_two_holes();
    pleat_stats before = cache_stats();
    ck_assert_int_eq(cache_refused(80 * MIB, 1), PLEAT_ENOMEM_DEVICE);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.num_alloc_retries, 1);
    ck_assert_uint_eq(s.ops_map, before.ops_map + 1);
    ck_assert_uint_eq(s.ops_unmap, before.ops_unmap + 1);
    ck_assert_uint_eq(s.resident_bytes, 60 * MIB);
    ck_assert_uint_eq(cache_get(40 * MIB, 1), hole);
}
END_TEST

START_TEST(handles_created_for_a_run_that_cannot_be_completed_are_released)
{
    cache_get(60 * MIB, 0);
    uint64_t n_creates = cache.sim.n_calls("cuMemCreate");
    cache_begin_capture(1);
    ck_assert_int_eq(cache_refused(60 * MIB, 1), PLEAT_ENOMEM_DEVICE);
    cache_end_capture(1);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemCreate"), n_creates + 3);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemRelease"), 2);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemUnmap"), 0);
    ck_assert_uint_eq(cache_resident(), 60 * MIB);
}
END_TEST

START_TEST(everything_cached_on_all_streams_goes_before_the_one_retry)
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
    ck_assert_uint_eq(s.ops_unmap, 3);
    ck_assert_uint_eq(s.host_syncs, 3);
    ck_assert_uint_eq(s.resident_bytes, 100 * MIB);
}
END_TEST

START_TEST(the_retry_waits_for_pending_uses)
{
    pleat_devptr ptr = cache_get(60 * MIB, 1);
    cache_work(2, ptr, 30 * MIB);
    cache_record(ptr, 2);
    cache_put(ptr);
    ck_assert_uint_eq(cache_stats().pending_bytes, 60 * MIB);
    cache_get(60 * MIB, 3);
    ck_assert_uint_eq(cache_resident(), 60 * MIB);
}
END_TEST

START_TEST(requests_beyond_a_whole_segment_do_not_reserve_one)
{
    ck_assert_int_eq(cache_refused(130 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(cache_refused((size_t)1 << 60, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemAddressReserve"), 0);
}
END_TEST

START_TEST(without_addresses_for_another_segment_the_answer_says_so)
{
    open_conf("capacity:1T,va_bits:41", NULL);
    cache_get(1, 0);
    ck_assert_int_eq(cache_refused(1, 1), PLEAT_ENOSPACE_VA);
    cache_get(MIB, 0);
    cache_close();
}
END_TEST

/* ---- limits ---------------------------------------------------------------------------------- */

static void set_limit(uint64_t bytes)
{
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, bytes), PLEAT_OK);
}

START_TEST(a_limit_counts_the_segment_that_torch_native_would_need)
{
    pl_allocator_options options = pages_of_2_mib();
    open_conf("capacity:100M", &options);
    set_limit(19 * MIB);
    uint64_t n_calls = cache.sim.n_calls("cuMemCreate");
    ck_assert_int_eq(cache_refused(2 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemCreate"), n_calls);
    cache_get(MIB, 0);
    cache_get(16 * MIB, 0);
    ck_assert_uint_eq(cache_resident(), 18 * MIB);
    cache_close();
}
END_TEST

START_TEST(a_limit_may_be_exceeded_by_less_than_a_page)
{
    set_limit(10 * MIB);
    cache_get(10 * MIB, 0);
    ck_assert_uint_eq(cache_resident(), 20 * MIB);
    ck_assert_int_eq(cache_refused(1, 0), PLEAT_ENOMEM_DEVICE);
}
END_TEST

START_TEST(neither_collection_nor_the_split_limit_unmaps)
{
    pl_allocator_options options = pages_of_2_mib();
    options.limit_bytes = 200 * MIB;
    SET_OWN(torch, &options, garbage_collection_threshold, 0.1);
    SET_OWN(torch, &options, max_split_bytes, 40 * MIB);
    open_conf("capacity:1G", &options);
    pleat_devptr old = cache_get(60 * MIB, 0);
    cache_get(2 * MIB, 0);
    cache_put(old);
    for (size_t i = 0; i < 10; i++) {
        cache_put(cache_get(30 * MIB, 0));
    }
    ck_assert_uint_eq(cache_stats().num_device_free, 0);
    cache_get(120 * MIB, 0);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.num_alloc_retries, 1); /* released by the retry, not by the collector */
    ck_assert_uint_eq(s.num_device_free, 2);
    cache_close();
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

/* Grow, split, make holes, map a place of two, use on another stream, retry on a full device. */
/* clang-format off */
static const fault_step holes[] = {
    { FAULT_GET, 0, 0, 1000 },
    { FAULT_GET, 1, 0, 19 * MIB },
    { FAULT_GET, 2, 0, 8 * MIB },
    { FAULT_GET, 3, 0, 11 * MIB },
    { FAULT_PUT, 2, 0, 0 },
    { FAULT_TRIM, 0, 0, 0 }, /* its first and last page stay mapped */
    { FAULT_GET, 2, 0, 8 * MIB },
    { FAULT_PUT, 1, 0, 0 },
    { FAULT_TRIM, 0, 0, 0 },
    { FAULT_PUT, 2, 0, 0 },
    { FAULT_GET, 1, 0, 25 * MIB },
    { FAULT_GET, 4, 1, 38 * MIB },
    { FAULT_PUT, 3, 2, 0 },
    { FAULT_PUT, 4, 1, 0 },
    { FAULT_GET, 5, 2, 60 * MIB },
    { FAULT_PUT, 1, 0, 0 },
    { FAULT_TRIM, 0, 0, 0 },
};
/* clang-format on */

START_TEST(any_call_may_fail_where_there_are_holes)
{
    pl_allocator_options options = pages_of_2_mib();
    fault_scenario scenario = {
        .ops = &pl_torch_expandable_ops,
        .options = &options,
        .steps = holes,
        .n_steps = sizeof holes / sizeof holes[0],
    };
    ck_assert_uint_gt(fault_driver(&scenario, NULL, false, CACHE_UNKNOWN), 100);
    ck_assert_uint_gt(fault_driver(&scenario, NULL, false, CACHE_OUT_OF_MEMORY), 100);
    ck_assert_uint_gt(fault_driver(&scenario, NULL, true, CACHE_UNKNOWN), 100);
    ck_assert_uint_gt(fault_driver(&scenario, NULL, true, CACHE_OUT_OF_MEMORY), 100);
    ck_assert_uint_gt(fault_host(&scenario, false), 20);
    ck_assert_uint_gt(fault_host(&scenario, true), 20);
}
END_TEST

START_TEST(memory_that_the_driver_does_not_take_is_told_and_offered_again)
{
    cache_put(cache_get(40 * MIB, 0));
    cache.sim.fail_from("cuMemRelease", 0, CACHE_UNKNOWN);
    uint64_t released = 0;
    ck_assert_int_eq(cache.a->ops->trim(cache.a, 0, true, &released), PLEAT_EDRIVER);
    cache.sim.fail_never();
    cache_assert_sound();
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.resident_bytes, 40 * MIB);
    ck_assert_uint_eq(s.idle_bytes, 40 * MIB);
    ck_assert_uint_eq(s.free_bytes, 0);
    ck_assert_uint_eq(cache_trim(0, true), 40 * MIB);
    ck_assert_uint_eq(cache_resident(), 0);
    cache_close_after_failed_undo();
}
END_TEST

static void add_shortage(Suite *suite)
{
    TCase *shortage = suite_case(suite, "shortage", open_100_mib, cache_close);
    tcase_add_test(shortage, what_was_mapped_before_a_later_part_failed_stays_as_free_memory);
    tcase_add_test(shortage, the_retry_gives_back_what_the_failed_part_mapped);
    tcase_add_test(shortage, handles_created_for_a_run_that_cannot_be_completed_are_released);
    tcase_add_test(shortage, everything_cached_on_all_streams_goes_before_the_one_retry);
    tcase_add_test(shortage, the_retry_waits_for_pending_uses);
    tcase_add_test(shortage, requests_beyond_a_whole_segment_do_not_reserve_one);
    TCase *addresses = suite_case(suite, "addresses", NULL, NULL);
    tcase_add_test(addresses, without_addresses_for_another_segment_the_answer_says_so);
}

static void add_limits(Suite *suite)
{
    TCase *limits = suite_case(suite, "limits", open_100_mib, cache_close);
    tcase_add_test(limits, a_limit_may_be_exceeded_by_less_than_a_page);
    TCase *options = suite_case(suite, "options", NULL, NULL);
    tcase_add_test(options, a_limit_counts_the_segment_that_torch_native_would_need);
    tcase_add_test(options, neither_collection_nor_the_split_limit_unmaps);
}

static void add_faults(Suite *suite)
{
    TCase *faults = suite_case(suite, "faults", NULL, NULL);
    tcase_add_test(faults, any_call_may_fail_where_there_are_holes);
    TCase *refusals = suite_case(suite, "refusals", open_100_mib, NULL);
    tcase_add_test(refusals, memory_that_the_driver_does_not_take_is_told_and_offered_again);
}

SUITE(models_torch_pressure)
{
    add_shortage(suite);
    add_limits(suite);
    add_faults(suite);
}
