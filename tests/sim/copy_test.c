/* copy_test.c - copies between device addresses and to the host; the device of an address. */
#include <string.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

START_TEST(a_copy_moves_the_bytes_in_the_order_of_its_stream)
{
    enum { BYTES = 1000 };
    unsigned char out[BYTES];
    world_begin("capacity:64M,backing:memory");
    cu_devptr a;
    cu_devptr b;
    ck_ok(cuMemAlloc_v2(&a, BYTES));
    ck_ok(cuMemAlloc_v2(&b, BYTES));
    ck_ok(cuMemsetD8Async(a, 7, BYTES, NULL));
    ck_ok(cuMemcpyDtoDAsync_v2(b, a, BYTES, NULL));
    ck_ok(cuMemsetD8Async(a, 9, BYTES, NULL));
    ck_ok(cuMemcpyDtoHAsync_v2(out, b, BYTES, NULL));
    ck_ok(cuStreamSynchronize(NULL));
    for (size_t i = 0; i < BYTES; i++) {
        ck_assert_uint_eq(out[i], 7);
    }
    ck_ok(cuMemFree_v2(a));
    ck_ok(cuMemFree_v2(b));
    world_end();
}
END_TEST

START_TEST(a_copy_from_nowhere_is_refused)
{
    cu_devptr a;
    world_begin("capacity:64M");
    ck_ok(cuMemAlloc_v2(&a, 1000));
    ck_assert_int_eq(cuMemcpyDtoDAsync_v2(a, a + GRANULE, 1000, NULL), CU_INVALID_VALUE);
    ck_ok(cuMemFree_v2(a));
    world_end_with(PLEAT_SIM_UNMAPPED_ACCESS, 1);
}
END_TEST

START_TEST(a_copy_reaches_another_device)
{
    unsigned char out[100] = { 0 };
    world_begin("devices:2,capacity:64M,backing:memory");
    cu_context second;
    cu_devptr a;
    cu_devptr b;
    int device = -1;
    ck_ok(cuMemAlloc_v2(&a, sizeof(out)));
    ck_ok(cuMemsetD8Async(a, 5, sizeof(out), NULL));
    ck_ok(cuDevicePrimaryCtxRetain(&second, 1));
    ck_ok(cuCtxPushCurrent_v2(second));
    ck_ok(cuMemAlloc_v2(&b, sizeof(out)));
    ck_ok(cuPointerGetAttribute(&device, CU_POINTER_DEVICE_ORDINAL, b + 50));
    ck_assert_int_eq(device, 1);
    ck_ok(cuCtxPopCurrent_v2(NULL));
    ck_ok(cuMemcpyDtoDAsync_v2(b, a, sizeof(out), NULL));
    ck_ok(cuStreamSynchronize(NULL));
    ck_ok(cuCtxPushCurrent_v2(second));
    ck_ok(cuMemcpyDtoHAsync_v2(out, b, sizeof(out), NULL));
    ck_ok(cuStreamSynchronize(NULL));
    ck_assert_uint_eq(out[99], 5);
    ck_ok(cuMemFree_v2(b));
    ck_ok(cuCtxPopCurrent_v2(NULL));
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
    ck_ok(cuMemFree_v2(a));
    world_end();
}
END_TEST

START_TEST(without_memory_what_comes_to_the_host_is_zeros)
{
    unsigned char out[100];
    cu_devptr a;
    world_begin("capacity:64M");
    memset(out, 1, sizeof(out));
    ck_ok(cuMemAlloc_v2(&a, sizeof(out)));
    ck_ok(cuMemcpyDtoHAsync_v2(out, a, sizeof(out), NULL));
    ck_ok(cuStreamSynchronize(NULL));
    for (size_t i = 0; i < sizeof(out); i++) {
        ck_assert_uint_eq(out[i], 0);
    }
    ck_ok(cuMemFree_v2(a));
    world_end();
}
END_TEST

START_TEST(an_address_is_known_while_it_is_mapped)
{
    int value = -1;
    cu_devptr a;
    world_begin("capacity:64M");
    ck_ok(cuMemAlloc_v2(&a, 1000));
    ck_ok(cuPointerGetAttribute(&value, CU_POINTER_MEMORY_TYPE, a));
    ck_assert_int_eq(value, CU_MEMORY_OF_DEVICE);
    ck_ok(cuPointerGetAttribute(&value, CU_POINTER_DEVICE_ORDINAL, a + 999));
    ck_assert_int_eq(value, 0);
    ck_assert_int_eq(cuPointerGetAttribute(&value, 77, a), CU_INVALID_VALUE);
    ck_ok(cuMemFree_v2(a));
    ck_assert_int_eq(cuPointerGetAttribute(&value, CU_POINTER_MEMORY_TYPE, a), CU_INVALID_VALUE);
    world_end();
}
END_TEST

START_TEST(the_compute_capability_is_the_configuration_s)
{
    int major = 0;
    int minor = 0;
    world_begin("compute:9.3");
    ck_ok(cuDeviceGetAttribute(&major, CU_ATTR_COMPUTE_MAJOR, 0));
    ck_ok(cuDeviceGetAttribute(&minor, CU_ATTR_COMPUTE_MINOR, 0));
    ck_assert_int_eq(major, 9);
    ck_assert_int_eq(minor, 3);
    world_end();
    ck_assert_int_ne(pleat_sim_reset("compute:9"), 0);
    ck_assert_int_ne(pleat_sim_reset("compute:2.0"), 0);
    ck_assert_int_ne(pleat_sim_reset("compute:9.10"), 0);
}
END_TEST

SUITE(sim_copy)
{
    TCase *copies = tcase_create("copies and addresses");
    tcase_add_test(copies, a_copy_moves_the_bytes_in_the_order_of_its_stream);
    tcase_add_test(copies, a_copy_from_nowhere_is_refused);
    tcase_add_test(copies, a_copy_reaches_another_device);
    tcase_add_test(copies, without_memory_what_comes_to_the_host_is_zeros);
    tcase_add_test(copies, an_address_is_known_while_it_is_mapped);
    tcase_add_test(copies, the_compute_capability_is_the_configuration_s);
    suite_add_tcase(suite, copies);
}
