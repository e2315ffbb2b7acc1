/* fault_test.c - injected faults: the k-th call or all from the k-th on, of one entry point or of
 * any. */
/* labels: unit fault */
#include <string.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

START_TEST(the_k_th_call_of_an_entry_point_fails_and_does_nothing_else)
{
    cu_devptr at[4];
    pleat_sim_fail_at("cuMemAddressReserve", 2, CU_UNKNOWN);
    for (size_t i = 0; i < 4; i++) {
        int result = cuMemAddressReserve(&at[i], GRANULE, 0, 0, 0);
        ck_assert_int_eq(result, i == 2 ? CU_UNKNOWN : CU_SUCCESS);
    }
    ck_assert_uint_eq(world_counts().reservations, 3);
    ck_assert_uint_eq(pleat_sim_n_faults(), 1);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(cuMemAddressFree(at[i], GRANULE), i == 2 ? CU_INVALID_VALUE : CU_SUCCESS);
        at[2] = 0;
    }
}
END_TEST

START_TEST(every_call_from_the_k_th_on_fails_until_told_otherwise)
{
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle handle[4];
    pleat_sim_fail_from("cuMemCreate", 1, CU_OUT_OF_MEMORY);
    ck_ok(cuMemCreate(&handle[0], GRANULE, &prop, 0));
    for (size_t i = 0; i < 5; i++) {
        ck_assert_int_eq(cuMemCreate(&handle[1], GRANULE, &prop, 0), CU_OUT_OF_MEMORY);
    }
    ck_assert_uint_eq(pleat_sim_n_faults(), 5);
    pleat_sim_fail_never();
    ck_ok(cuMemCreate(&handle[1], GRANULE, &prop, 0));
    ck_ok(cuMemRelease(handle[0]));
    ck_ok(cuMemRelease(handle[1]));
}
END_TEST

START_TEST(any_call_means_those_that_change_the_driver_s_state)
{
    int count;
    size_t bytes;
    const char *name;
    cu_devptr at;
    cu_mem_prop prop = world_prop(0);
    cu_event event = world_event();
    pleat_sim_fail_at(NULL, 0, CU_UNKNOWN);
    ck_ok(cuDeviceGetCount(&count));
    ck_ok(cuGetErrorName(CU_UNKNOWN, &name));
    ck_ok(cuEventQuery(event));
    ck_ok(cuStreamQuery(NULL));
    ck_ok(cuMemGetInfo_v2(&bytes, &bytes));
    ck_ok(cuMemGetAllocationGranularity(&bytes, &prop, 0));
    ck_assert_int_eq(cuMemAddressReserve(&at, GRANULE, 0, 0, 0), CU_UNKNOWN);
    ck_ok(cuEventDestroy_v2(event));
}
END_TEST

START_TEST(a_named_query_can_fail_too)
{
    cu_event event = world_event();
    pleat_sim_fail_at("cuEventQuery", 0, CU_ILLEGAL_ADDRESS);
    ck_assert_int_eq(cuEventQuery(event), CU_ILLEGAL_ADDRESS);
    ck_ok(cuEventQuery(event));
    ck_ok(cuEventDestroy_v2(event));
}
END_TEST

START_TEST(versioned_and_plain_names_mean_the_same)
{
    cu_devptr at;
    pleat_sim_fail_at("cuMemAlloc", 0, CU_UNKNOWN);
    pleat_sim_fail_at("cuMemAlloc_v2", 1, CU_OUT_OF_MEMORY);
    ck_assert_int_eq(cuMemAlloc_v2(&at, 512), CU_UNKNOWN);
    ck_assert_int_eq(cuMemAlloc_v2(&at, 512), CU_OUT_OF_MEMORY);
    ck_assert_uint_eq(pleat_sim_n_calls("cuMemAlloc"), 2);
    ck_assert_uint_eq(pleat_sim_n_calls("cuMemAlloc_v2"), 2);
    ck_assert_uint_eq(pleat_sim_n_calls("cuMemOther"), 0);
}
END_TEST

START_TEST(several_faults_are_in_force_together)
{
    cu_devptr at;
    cu_mem_handle handle;
    cu_mem_prop prop = world_prop(0);
    pleat_sim_fail_at("cuMemCreate", 1, CU_OUT_OF_MEMORY);
    pleat_sim_fail_at("cuMemAddressReserve", 0, CU_UNKNOWN);
    ck_assert_int_eq(cuMemAddressReserve(&at, GRANULE, 0, 0, 0), CU_UNKNOWN);
    ck_ok(cuMemCreate(&handle, GRANULE, &prop, 0));
    ck_ok(cuMemRelease(handle));
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_OUT_OF_MEMORY);
}
END_TEST

/* A mapping takes two calls, map and access, and either may fail. Returns whether all calls
 * succeeded. After a failure everything is undone. */
static bool try_map(cu_devptr at)
{
    cu_mem_prop prop = world_prop(0);
    cu_access_desc desc = { prop.location, CU_ACCESS_READ_WRITE };
    cu_mem_handle handle;
    if (cuMemCreate(&handle, GRANULE, &prop, 0) != CU_SUCCESS) {
        return false;
    }
    bool is_mapped = cuMemMap(at, GRANULE, 0, handle, 0) == CU_SUCCESS;
    bool is_allowed = is_mapped && cuMemSetAccess(at, GRANULE, &desc, 1) == CU_SUCCESS;
    if (is_mapped && !is_allowed) {
        ck_ok(cuMemUnmap(at, GRANULE));
    }
    if (cuMemRelease(handle) != CU_SUCCESS) {
        ck_ok(cuMemRelease(handle));
    }
    return is_allowed;
}

START_TEST(failing_each_call_in_turn_reaches_success)
{
    size_t k = 0;
    cu_devptr at = world_reserve(1);
    for (;; k++) {
        pleat_sim_fail_at(NULL, k, CU_OUT_OF_MEMORY);
        bool is_good = try_map(at);
        pleat_sim_fail_never();
        if (is_good) {
            break;
        }
        ck_assert_uint_eq(world_counts().mappings + world_counts().handles, 0);
    }
    ck_assert_uint_eq(k, 3);
    world_unmap(at, 1);
}
END_TEST

START_TEST(a_fault_comes_before_everything_else)
{
    pleat_sim_fail_at("cuMemRelease", 0, CU_UNKNOWN);
    ck_assert_int_eq(cuMemRelease(12345), CU_UNKNOWN);
    ck_assert_int_eq(cuMemRelease(12345), CU_INVALID_VALUE);
}
END_TEST

START_TEST(a_fault_for_no_entry_point_is_said)
{
    pleat_sim_fail_at("cuMemCrate", 0, CU_UNKNOWN);
    ck_assert(strstr(pleat_sim_error(), "cuMemCrate") != NULL);
}
END_TEST

SUITE(sim_fault)
{
    TCase *faults = tcase_create("faults");
    tcase_add_checked_fixture(faults, world_default, world_end);
    tcase_add_test(faults, the_k_th_call_of_an_entry_point_fails_and_does_nothing_else);
    tcase_add_test(faults, every_call_from_the_k_th_on_fails_until_told_otherwise);
    tcase_add_test(faults, any_call_means_those_that_change_the_driver_s_state);
    tcase_add_test(faults, a_named_query_can_fail_too);
    tcase_add_test(faults, versioned_and_plain_names_mean_the_same);
    tcase_add_test(faults, several_faults_are_in_force_together);
    tcase_add_test(faults, failing_each_call_in_turn_reaches_success);
    tcase_add_test(faults, a_fault_comes_before_everything_else);
    tcase_add_test(faults, a_fault_for_no_entry_point_is_said);
    suite_add_tcase(suite, faults);
}
