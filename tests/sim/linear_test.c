/* linear_test.c - cuMemAlloc: counted to the byte, kept apart, owned by a context. */
#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

static void small_device(void)
{
    world_begin("capacity:5000000");
}

START_TEST(cumemalloc_charges_exactly_the_bytes_asked)
{
    cu_devptr a;
    cu_devptr b;
    cu_devptr c;
    ck_ok(cuMemAlloc_v2(&a, 4999998));
    ck_ok(cuMemAlloc_v2(&b, 1));
    ck_assert_uint_eq(world_counts().physical_bytes, 4999999);
    ck_assert_int_eq(cuMemAlloc_v2(&c, 2), CU_OUT_OF_MEMORY);
    ck_ok(cuMemAlloc_v2(&c, 1));
    ck_assert_uint_eq(world_counts().allocations, 3);
    ck_ok(cuMemFree_v2(a));
    ck_ok(cuMemFree_v2(b));
    ck_ok(cuMemFree_v2(c));
    ck_assert_uint_eq(world_counts().physical_bytes, 0);
    ck_assert_uint_eq(world_counts().peak_physical_bytes, 5000000);
}
END_TEST

START_TEST(addresses_are_aligned_and_apart)
{
    cu_devptr at[64];
    for (size_t i = 0; i < 64; i++) {
        ck_ok(cuMemAlloc_v2(&at[i], 1 + i * 777));
        ck_assert_uint_eq(at[i] % 512, 0);
        for (size_t k = 0; k < i; k++) {
            ck_assert(at[k] + 1 + k * 777 <= at[i] || at[i] + 1 + i * 777 <= at[k]);
        }
    }
    for (size_t i = 0; i < 64; i++) {
        ck_ok(cuMemFree_v2(at[i]));
    }
}
END_TEST

START_TEST(free_takes_an_allocation_once_or_null)
{
    cu_devptr at;
    ck_ok(cuMemAlloc_v2(&at, 10000));
    ck_assert_int_eq(cuMemFree_v2(at + 512), CU_INVALID_VALUE);
    ck_ok(cuMemFree_v2(0));
    ck_ok(cuMemFree_v2(at));
    ck_assert_int_eq(cuMemFree_v2(at), CU_INVALID_VALUE);
}
END_TEST

START_TEST(an_allocation_is_no_reservation_handle_or_mapping)
{
    cu_devptr at;
    cu_mem_handle handle;
    cu_access_desc desc = { .location = { .type = CU_LOCATION_DEVICE }, .flags = CU_ACCESS_READ };
    ck_ok(cuMemAlloc_v2(&at, GRANULE));
    pleat_sim_counts counts = world_counts();
    ck_assert_uint_eq(counts.reservations + counts.handles + counts.mappings, 0);
    ck_assert_int_eq(cuMemUnmap(at, GRANULE), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAddressFree(at, GRANULE), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemSetAccess(at, GRANULE, &desc, 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at), CU_INVALID_VALUE);
    ck_assert_uint_eq(pleat_sim_mappings(NULL, 0), 0);
    ck_ok(cuMemFree_v2(at));
}
END_TEST

START_TEST(its_address_range_is_the_allocation_to_the_byte)
{
    cu_devptr at;
    cu_devptr base;
    size_t bytes;
    ck_ok(cuMemAlloc_v2(&at, 3000001));
    ck_ok(cuMemGetAddressRange_v2(&base, &bytes, at + 3000000));
    ck_assert_uint_eq(base, at);
    ck_assert_uint_eq(bytes, 3000001);
    ck_assert_int_eq(cuMemGetAddressRange_v2(&base, &bytes, at + 3000001), CU_NOT_FOUND);
    ck_ok(cuMemFree_v2(at));
}
END_TEST

START_TEST(work_beyond_its_last_byte_is_a_hazard)
{
    cu_devptr at;
    cu_stream stream = world_stream();
    ck_ok(cuMemAlloc_v2(&at, 3000001));
    world_write(stream, at, 3000001);
    ck_assert_uint_eq(world_hazards(), 0);
    world_write(stream, at + 3000000, 2);
    ck_assert_uint_eq(world_hazards(), 1);
    world_read(stream, at, 5 << 20);
    ck_assert_uint_eq(world_hazards(), 2);
    pleat_sim_finish();
    ck_ok(cuMemFree_v2(at));
    ck_ok(cuStreamDestroy_v2(stream));
    world_end_with(PLEAT_SIM_UNMAPPED_ACCESS, 2);
    small_device();
}
END_TEST

START_TEST(cumemalloc_needs_a_context)
{
    cu_devptr at;
    cu_context context;
    size_t bytes;
    ck_ok(cuCtxPopCurrent_v2(&context));
    ck_assert_int_eq(cuMemAlloc_v2(&at, 512), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuMemGetInfo_v2(&bytes, &bytes), CU_INVALID_CONTEXT);
    ck_ok(cuCtxPushCurrent_v2(context));
    ck_assert_int_eq(cuMemAlloc_v2(&at, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAlloc_v2(NULL, 512), CU_INVALID_VALUE);
}
END_TEST

START_TEST(memory_of_all_kinds_shares_the_capacity)
{
    cu_devptr at;
    size_t free_bytes;
    size_t total_bytes;
    cu_mem_handle handle = world_create(1);
    ck_assert_int_eq(cuMemAlloc_v2(&at, 5000000 - GRANULE + 1), CU_OUT_OF_MEMORY);
    ck_ok(cuMemAlloc_v2(&at, 5000000 - GRANULE));
    ck_ok(cuMemGetInfo_v2(&free_bytes, &total_bytes));
    ck_assert_uint_eq(free_bytes, 0);
    ck_assert_uint_eq(total_bytes, 5000000);
    ck_ok(cuMemFree_v2(at));
    ck_ok(cuMemRelease(handle));
}
END_TEST

START_TEST(an_asynchronous_free_waits_for_its_stream)
{
    cu_devptr at;
    cu_stream stream = world_stream();
    ck_ok(cuMemAllocAsync(&at, 4096, stream));
    world_write(stream, at, 4096);
    ck_ok(cuMemFreeAsync(at, stream));
    ck_assert_uint_eq(world_counts().allocations, 1);
    ck_ok(cuStreamSynchronize(stream));
    ck_assert_uint_eq(world_counts().allocations, 0);
    ck_assert_int_eq(cuMemFreeAsync(at, stream), CU_INVALID_VALUE);
    ck_ok(cuStreamDestroy_v2(stream));
}
END_TEST

SUITE(sim_linear)
{
    TCase *memory = tcase_create("cuMemAlloc");
    tcase_add_checked_fixture(memory, small_device, world_end);
    tcase_add_test(memory, cumemalloc_charges_exactly_the_bytes_asked);
    tcase_add_test(memory, addresses_are_aligned_and_apart);
    tcase_add_test(memory, free_takes_an_allocation_once_or_null);
    tcase_add_test(memory, an_allocation_is_no_reservation_handle_or_mapping);
    tcase_add_test(memory, its_address_range_is_the_allocation_to_the_byte);
    tcase_add_test(memory, work_beyond_its_last_byte_is_a_hazard);
    tcase_add_test(memory, cumemalloc_needs_a_context);
    tcase_add_test(memory, memory_of_all_kinds_shares_the_capacity);
    tcase_add_test(memory, an_asynchronous_free_waits_for_its_stream);
    suite_add_tcase(suite, memory);
}
