/* device_test.c - trimming, limits, figures and checks of a whole device. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20 };

/* True of all statistics: live <= resident, pools add up, and the driver agrees. */
static void check_honest(pleat instance)
{
    pleat_stats s = api_stats(instance, 0);
    const pleat_stat *const groups[] = { s.allocation,      s.active,       s.allocated_bytes,
                                         s.requested_bytes, s.active_bytes, s.segment };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        const pleat_stat *g = groups[i];
        ck_assert_uint_eq(g[PLEAT_SIZES_ALL].current,
                          g[PLEAT_SIZES_SMALL].current + g[PLEAT_SIZES_LARGE].current);
        for (int pool = 0; pool < PLEAT_N_SIZES; pool++) {
            ck_assert_uint_eq(g[pool].allocated - g[pool].freed, g[pool].current);
            ck_assert_uint_ge(g[pool].peak, g[pool].current);
        }
    }
    ck_assert_uint_le(s.requested_bytes[0].current, s.allocated_bytes[0].current);
    ck_assert_uint_le(s.allocated_bytes[0].current, s.resident_bytes);
    ck_assert_uint_eq(s.reserved_bytes[0].current, s.resident_bytes);
    ck_assert_uint_eq(s.resident_bytes, api_sim_counts().physical_bytes);
    api_check(instance);
}

START_TEST(statistics_agree_with_the_driver_after_every_step)
{
    enum { N = 60 };
    pleat instance = api_make(_i, "capacity:512M", "");
    pleat_devptr ptrs[N] = { 0 };
    unsigned seed = 7;
    for (int step = 0; step < 600; step++) {
        int at = rand_r(&seed) % N;
        if (ptrs[at] != 0) {
            api_free(instance, 0, ptrs[at], NULL);
            ptrs[at] = 0;
        } else {
            size_t bytes = (size_t)(rand_r(&seed) % (4 * MIB) + 1);
            ptrs[at] = api_alloc(instance, 0, rand_r(&seed) % 3 ? bytes : bytes >> 8 | 1, NULL);
        }
        check_honest(instance);
    }
    for (int i = 0; i < N; i++) {
        if (ptrs[i] != 0) {
            api_free(instance, 0, ptrs[i], NULL);
        }
    }
    check_honest(instance);
    api_unmake(instance);
}
END_TEST

START_TEST(peaks_can_be_reset)
{
    pleat instance = api_make(_i, "capacity:256M", "");
    pleat_devptr small = api_alloc(instance, 0, MIB, NULL);
    api_free(instance, 0, api_alloc(instance, 0, 40 * MIB, NULL), NULL);
    ck_assert_uint_ge(api_stats(instance, 0).allocated_bytes[0].peak, 41 * MIB);
    ck_assert_int_eq(pleat_device_reset_peaks(instance, 0), PLEAT_OK);
    pleat_stats s = api_stats(instance, 0);
    ck_assert_uint_eq(s.allocated_bytes[0].peak, s.allocated_bytes[0].current);
    ck_assert_uint_eq(s.allocated_bytes[0].current, MIB);
    ck_assert_uint_eq(s.allocation[0].allocated, 2);
    ck_assert_uint_eq(s.reserved_bytes[0].peak, s.reserved_bytes[0].current);
    api_free(instance, 0, small, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(trim_gives_free_memory_back_and_keeps_live_blocks)
{
    pleat instance = api_make(_i, "capacity:256M", "");
    uint64_t released = 77;
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, &released), PLEAT_OK);
    ck_assert_uint_eq(released, 0); /* nothing was ever used */
    pleat_devptr kept = api_alloc(instance, 0, 40 * MIB, NULL);
    api_free(instance, 0, api_alloc(instance, 0, 64 * MIB, NULL), NULL);
    uint64_t before = api_stats(instance, 0).resident_bytes;
    ck_assert_uint_ge(before, 104 * MIB);
    ck_assert_int_eq(pleat_device_trim(instance, 0, before, true, &released), PLEAT_OK);
    ck_assert_uint_eq(released, 0);
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, &released), PLEAT_OK);
    uint64_t after = api_stats(instance, 0).resident_bytes;
    ck_assert_uint_eq(released, before - after);
    ck_assert_uint_eq(after, 40 * MIB);
    ck_assert_uint_eq(api_sim_counts().physical_bytes, 40 * MIB);
    pleat_block_info info;
    ck_assert_int_eq(pleat_block_query(instance, 0, kept, &info), PLEAT_OK);
    check_honest(instance);
    api_free(instance, 0, kept, NULL);
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_OK);
    ck_assert_uint_eq(api_sim_counts().physical_bytes, 0);
    api_unmake(instance);
}
END_TEST

START_TEST(a_limit_is_never_exceeded_not_even_between_calls)
{
    static const char *const limits[] = { "limit:64M", "limit:0.25" };
    for (int l = 0; l < 2; l++) {
        pleat instance = api_make(_i, "capacity:256M", limits[l]);
        pleat_devptr ptrs[40];
        int n = 0;
        unsigned seed = 3;
        for (int step = 0; step < 400; step++) {
            pleat_devptr ptr;
            size_t bytes = (size_t)(rand_r(&seed) % (6 * MIB) + 1);
            if (n < 40 && pleat_block_alloc(instance, 0, bytes, NULL, &ptr) == PLEAT_OK) {
                ptrs[n++] = ptr;
            } else {
                int at = rand_r(&seed) % n;
                api_free(instance, 0, ptrs[at], NULL);
                ptrs[at] = ptrs[--n];
            }
        }
        ck_assert_uint_le(api_sim_counts().peak_physical_bytes, 64 * MIB);
        ck_assert_uint_gt(api_sim_counts().peak_physical_bytes, 48 * MIB);
        check_honest(instance);
        while (n > 0) {
            api_free(instance, 0, ptrs[--n], NULL);
        }
        api_unmake(instance);
    }
}
END_TEST

START_TEST(a_limit_can_be_set_lifted_and_refused)
{
    pleat instance = api_make(_i, "capacity:256M", "");
    pleat_devptr ptr = 77;
    pleat_device_info info;
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, 32 * MIB), PLEAT_OK);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 33 * MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, 0), PLEAT_OK);
    ptr = api_alloc(instance, 0, 40 * MIB, NULL);
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, 32 * MIB), PLEAT_ENOMEM_DEVICE);
    api_expect(PLEAT_ENOMEM_DEVICE, "33554432", "live blocks need more");
    ck_assert_int_eq(pleat_device_query(instance, 0, &info), PLEAT_OK);
    ck_assert_uint_eq(info.limit_bytes, 0);
    pleat_devptr second = api_alloc(instance, 0, 60 * MIB, NULL);
    api_free(instance, 0, second, NULL);
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, 44 * MIB), PLEAT_OK);
    ck_assert_uint_le(api_sim_counts().physical_bytes, 44 * MIB);
    ck_assert_int_eq(pleat_device_query(instance, 0, &info), PLEAT_OK);
    ck_assert_uint_eq(info.limit_bytes, 44 * MIB);
    check_honest(instance);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(memory_info_is_what_the_driver_says)
{
    pleat instance = api_make(_i, "capacity:256M", "limit:64M");
    uint64_t free_bytes = 7;
    uint64_t total_bytes = 7;
    ck_assert_int_eq(pleat_device_memory_info(instance, 0, NULL, &total_bytes), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_device_memory_info(instance, 0, &free_bytes, NULL), PLEAT_EINVAL);
    ck_assert_uint_eq(free_bytes, 7);
    pleat_devptr ptr = api_alloc(instance, 0, 20 * MIB, NULL);
    ck_assert_int_eq(pleat_device_memory_info(instance, 0, &free_bytes, &total_bytes), PLEAT_OK);
    ck_assert_uint_eq(total_bytes, 256 * MIB);
    ck_assert_uint_eq(free_bytes, 256 * MIB - api_sim_counts().physical_bytes);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(null_results_are_invalid)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    ck_assert_int_eq(pleat_device_stats(instance, 0, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_check(instance, NULL), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "pleat_check", "broken");
    api_unmake(instance);
}
END_TEST

START_TEST(a_failing_driver_call_shows_with_its_name_and_result)
{
    static const char *const creators[] = { "cuMemAlloc", "cuMemCreate", "cuMemCreate" };
    pleat instance = api_make(_i, "capacity:256M", "");
    pleat_devptr ptr = 77;
    api_free(instance, 0, api_alloc(instance, 0, 512, NULL), NULL);
    sim.fail_from(creators[_i], 0, 999);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 50 * MIB, NULL, &ptr), PLEAT_EDRIVER);
    sim.fail_never();
    ck_assert_uint_eq(ptr, 77);
    api_expect(PLEAT_EDRIVER, creators[_i], "CUDA_ERROR_UNKNOWN", "device 0");
    ck_assert_int_eq(pleat_last_error()->driver_result, 999);
    ck_assert_str_eq(pleat_last_error()->driver_call, creators[_i]);
    ck_assert_int_eq(pleat_last_error()->verdict, PLEAT_VERDICT_NONE);
    ck_assert_int_eq(pleat_block_free(instance, 0, 0, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_last_error()->driver_result, 0);
    ck_assert_str_eq(pleat_last_error()->driver_call, "");
    api_free(instance, 0, api_alloc(instance, 0, 50 * MIB, NULL), NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(calls_are_timed_only_when_asked)
{
    pleat quiet = api_make(_i, "capacity:64M", "");
    api_free(quiet, 0, api_alloc(quiet, 0, MIB, NULL), NULL);
    pleat_stats s = api_stats(quiet, 0);
    ck_assert_uint_eq(s.driver_ns, 0);
    ck_assert_uint_gt(s.n_driver_calls, 0);
    api_unmake(quiet);
    pleat timed = api_make(_i, "capacity:64M", "time_calls:True");
    api_free(timed, 0, api_alloc(timed, 0, MIB, NULL), NULL);
    ck_assert_uint_gt(api_stats(timed, 0).driver_ns, 0);
    api_unmake(timed);
}
END_TEST

SUITE(api_device)
{
    TCase *each = tcase_create("each allocator");
    tcase_add_checked_fixture(each, api_sim_load, NULL);
    tcase_add_loop_test(each, statistics_agree_with_the_driver_after_every_step, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, peaks_can_be_reset, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, trim_gives_free_memory_back_and_keeps_live_blocks, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_limit_is_never_exceeded_not_even_between_calls, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_limit_can_be_set_lifted_and_refused, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, memory_info_is_what_the_driver_says, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, null_results_are_invalid, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_failing_driver_call_shows_with_its_name_and_result, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, calls_are_timed_only_when_asked, 0, N_API_ALLOCATORS);
    suite_add_tcase(suite, each);
}
