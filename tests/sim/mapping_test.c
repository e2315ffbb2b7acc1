/* mapping_test.c - the rules of the virtual memory calls (reference/cuda-vmm.md, section 3). Each
 * test has the name of the rule that it checks. */
#include <string.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

static cu_access_desc allow(int device, int flags)
{
    return (cu_access_desc){ .location = { .type = CU_LOCATION_DEVICE, .id = device },
                             .flags = flags };
}

static unsigned long long access_of(cu_devptr at, int device)
{
    unsigned long long flags;
    cu_mem_location location = { .type = CU_LOCATION_DEVICE, .id = device };
    ck_ok(cuMemGetAccess(&flags, &location, at));
    return flags;
}

static void two_devices(void)
{
    world_begin("devices:2");
}

START_TEST(reserve_wants_whole_granules_and_a_power_of_two)
{
    cu_devptr at;
    ck_assert_int_eq(cuMemAddressReserve(&at, GRANULE + 4096, 0, 0, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAddressReserve(&at, 0, 0, 0, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAddressReserve(&at, GRANULE, 3 * GRANULE, 0, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAddressReserve(&at, GRANULE, 0, 0, 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAddressReserve(NULL, GRANULE, 0, 0, 0), CU_INVALID_VALUE);
    ck_ok(cuMemAddressReserve(&at, GRANULE, UINT64_C(1) << 30, 0, 0));
    ck_assert_uint_eq(at % (UINT64_C(1) << 30), 0);
    ck_ok(cuMemAddressFree(at, GRANULE));
}
END_TEST

START_TEST(a_hint_is_aligned_and_may_be_ignored)
{
    cu_devptr at;
    cu_devptr other;
    ck_assert_int_eq(cuMemAddressReserve(&at, GRANULE, 0, 4096, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAddressReserve(&at, GRANULE, 4 * GRANULE, GRANULE, 0), CU_INVALID_VALUE);
    cu_devptr hint = UINT64_C(0x700000000000);
    ck_ok(cuMemAddressReserve(&at, GRANULE, 0, hint, 0));
    ck_assert_uint_eq(at, hint);
    ck_ok(cuMemAddressReserve(&other, GRANULE, 0, hint, 0));
    ck_assert_uint_ne(other, hint);
    ck_ok(cuMemAddressFree(at, GRANULE));
    ck_ok(cuMemAddressFree(other, GRANULE));
}
END_TEST

START_TEST(reservations_never_overlap)
{
    enum { N = 300 };
    cu_devptr at[N];
    for (size_t i = 0; i < N; i++) {
        ck_ok(cuMemAddressReserve(&at[i], (i % 7 + 1) * GRANULE, 0, 0, 0));
        for (size_t k = 0; k < i; k++) {
            ck_assert(at[k] + (k % 7 + 1) * GRANULE <= at[i] ||
                      at[i] + (i % 7 + 1) * GRANULE <= at[k]);
        }
    }
    for (size_t i = 0; i < N; i++) {
        ck_ok(cuMemAddressFree(at[i], (i % 7 + 1) * GRANULE));
    }
}
END_TEST

START_TEST(made_up_addresses_are_no_host_addresses)
{
    cu_devptr at = world_reserve(1);
    ck_assert_uint_ge(at, UINT64_C(1) << 47);
    ck_assert_uint_lt(at, UINT64_C(1) << 48);
    ck_ok(cuMemAddressFree(at, GRANULE));
}
END_TEST

START_TEST(the_address_space_has_an_end)
{
    cu_devptr at;
    cu_devptr rest;
    world_end();
    world_begin("va_bits:30");
    ck_assert_int_eq(cuMemAddressReserve(&at, UINT64_C(1) << 30, 0, 0, 0), CU_OUT_OF_MEMORY);
    ck_ok(cuMemAddressReserve(&at, UINT64_C(1) << 29, 0, 0, 0));
    ck_assert_int_eq(cuMemAddressReserve(&rest, UINT64_C(1) << 29, 0, 0, 0), CU_OUT_OF_MEMORY);
    ck_ok(cuMemAddressReserve(&rest, (UINT64_C(1) << 29) - GRANULE, 0, 0, 0));
    ck_ok(cuMemAddressFree(at, UINT64_C(1) << 29));
    ck_ok(cuMemAddressReserve(&at, UINT64_C(1) << 29, 0, 0, 0));
    ck_ok(cuMemAddressFree(at, UINT64_C(1) << 29));
    ck_ok(cuMemAddressFree(rest, (UINT64_C(1) << 29) - GRANULE));
}
END_TEST

START_TEST(address_free_takes_exactly_one_reservation)
{
    cu_devptr at = world_reserve(4);
    cu_devptr next;
    ck_ok(cuMemAddressReserve(&next, GRANULE, 0, at + 4 * GRANULE, 0));
    ck_assert_uint_eq(next, at + 4 * GRANULE);
    ck_assert_int_eq(cuMemAddressFree(at, GRANULE), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAddressFree(at + GRANULE, 3 * GRANULE), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAddressFree(at, 5 * GRANULE), CU_INVALID_VALUE);
    ck_ok(cuMemAddressFree(at, 4 * GRANULE));
    ck_assert_int_eq(cuMemAddressFree(at, 4 * GRANULE), CU_INVALID_VALUE);
    ck_ok(cuMemAddressFree(next, GRANULE));
}
END_TEST

START_TEST(address_free_refuses_mapped_addresses)
{
    cu_devptr at = world_map(1);
    ck_assert_int_eq(cuMemAddressFree(at, GRANULE), CU_INVALID_VALUE);
    world_unmap(at, 1);
}
END_TEST

START_TEST(create_wants_whole_granules_and_known_properties)
{
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle handle;
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE / 2, &prop, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemCreate(&handle, 0, &prop, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, NULL, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemCreate(NULL, GRANULE, &prop, 0), CU_INVALID_VALUE);
    prop.location.id = 1;
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_INVALID_DEVICE);
    prop = world_prop(0);
    prop.type = 0;
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_INVALID_VALUE);
    prop = world_prop(0);
    prop.location.type = 2;
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_INVALID_VALUE);
    prop = world_prop(0);
    prop.flags.reserved[3] = 1;
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_INVALID_VALUE);
}
END_TEST

START_TEST(the_sum_of_handles_never_exceeds_the_capacity)
{
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle handle[3];
    size_t free_bytes;
    size_t total_bytes;
    world_end();
    world_begin("capacity:5M");
    ck_ok(cuMemCreate(&handle[0], GRANULE, &prop, 0));
    ck_ok(cuMemCreate(&handle[1], GRANULE, &prop, 0));
    ck_assert_int_eq(cuMemCreate(&handle[2], GRANULE, &prop, 0), CU_OUT_OF_MEMORY);
    ck_ok(cuMemGetInfo_v2(&free_bytes, &total_bytes));
    ck_assert_uint_eq(free_bytes, 1 << 20);
    ck_assert_uint_eq(total_bytes, 5 << 20);
    ck_ok(cuMemRelease(handle[0]));
    ck_ok(cuMemCreate(&handle[2], GRANULE, &prop, 0));
    ck_ok(cuMemRelease(handle[1]));
    ck_ok(cuMemRelease(handle[2]));
    ck_assert_uint_eq(world_counts().peak_physical_bytes, 4 << 20);
}
END_TEST

START_TEST(map_wants_offset_zero_and_the_whole_handle)
{
    cu_devptr at = world_reserve(4);
    cu_mem_handle handle = world_create(2);
    ck_assert_int_eq(cuMemMap(at, GRANULE, GRANULE, handle, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemMap(at, 2 * GRANULE, GRANULE, handle, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemMap(at, GRANULE, 0, handle, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemMap(at, 4 * GRANULE, 0, handle, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemMap(at, 2 * GRANULE, 0, handle, 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemMap(at + 4096, 2 * GRANULE, 0, handle, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemMap(at, 2 * GRANULE, 0, handle + 1, 0), CU_INVALID_VALUE);
    ck_assert_uint_eq(world_counts().mappings, 0);
    ck_ok(cuMemMap(at + GRANULE, 2 * GRANULE, 0, handle, 0));
    ck_ok(cuMemUnmap(at + GRANULE, 2 * GRANULE));
    ck_ok(cuMemRelease(handle));
    ck_ok(cuMemAddressFree(at, 4 * GRANULE));
}
END_TEST

START_TEST(map_wants_a_reserved_and_unmapped_target)
{
    cu_devptr at = world_reserve(2);
    cu_mem_handle one = world_create(1);
    cu_mem_handle two = world_create(2);
    ck_assert_int_eq(cuMemMap(at + 2 * GRANULE, GRANULE, 0, one, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemMap(at + GRANULE, 2 * GRANULE, 0, two, 0), CU_INVALID_VALUE);
    ck_ok(cuMemMap(at + GRANULE, GRANULE, 0, one, 0));
    ck_assert_int_eq(cuMemMap(at + GRANULE, GRANULE, 0, one, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemMap(at, 2 * GRANULE, 0, two, 0), CU_INVALID_VALUE);
    ck_ok(cuMemUnmap(at + GRANULE, GRANULE));
    ck_ok(cuMemMap(at, 2 * GRANULE, 0, two, 0));
    ck_ok(cuMemUnmap(at, 2 * GRANULE));
    ck_ok(cuMemRelease(one));
    ck_ok(cuMemRelease(two));
    ck_ok(cuMemAddressFree(at, 2 * GRANULE));
}
END_TEST

START_TEST(a_new_mapping_has_no_access)
{
    cu_devptr at = world_reserve(1);
    cu_mem_handle handle = world_create(1);
    ck_ok(cuMemMap(at, GRANULE, 0, handle, 0));
    ck_assert_uint_eq(access_of(at, 0), CU_ACCESS_NONE);
    world_allow(at, 1, 0, CU_ACCESS_READ_WRITE);
    ck_assert_uint_eq(access_of(at, 0), CU_ACCESS_READ_WRITE);
    ck_ok(cuMemUnmap(at, GRANULE));
    ck_ok(cuMemMap(at, GRANULE, 0, handle, 0));
    ck_assert_uint_eq(access_of(at, 0), CU_ACCESS_NONE);
    world_unmap(at, 1);
    ck_ok(cuMemRelease(handle));
}
END_TEST

START_TEST(aliases_have_access_of_their_own)
{
    cu_devptr at = world_reserve(3);
    cu_mem_handle handle = world_create(1);
    for (size_t i = 0; i < 3; i++) {
        ck_ok(cuMemMap(at + i * GRANULE, GRANULE, 0, handle, 0));
    }
    world_allow(at + GRANULE, 1, 0, CU_ACCESS_READ);
    ck_assert_uint_eq(access_of(at, 0), CU_ACCESS_NONE);
    ck_assert_uint_eq(access_of(at + GRANULE, 0), CU_ACCESS_READ);
    ck_assert_uint_eq(access_of(at + 2 * GRANULE, 0), CU_ACCESS_NONE);
    ck_assert_uint_eq(world_counts().physical_bytes, GRANULE);
    ck_assert_uint_eq(world_counts().mapped_bytes, 3 * GRANULE);
    world_unmap(at, 3);
    ck_ok(cuMemRelease(handle));
}
END_TEST

START_TEST(set_access_covers_whole_mappings_without_holes)
{
    cu_devptr at = world_reserve(5);
    cu_mem_handle two = world_create(2);
    cu_mem_handle one = world_create(1);
    cu_access_desc desc = allow(0, CU_ACCESS_READ_WRITE);
    ck_ok(cuMemMap(at, 2 * GRANULE, 0, two, 0));
    ck_ok(cuMemMap(at + 2 * GRANULE, GRANULE, 0, one, 0));
    ck_ok(cuMemMap(at + 4 * GRANULE, GRANULE, 0, one, 0));
    ck_assert_int_eq(cuMemSetAccess(at, GRANULE, &desc, 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemSetAccess(at + GRANULE, 2 * GRANULE, &desc, 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemSetAccess(at, 4 * GRANULE, &desc, 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemSetAccess(at, 5 * GRANULE, &desc, 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemSetAccess(at, 6 * GRANULE, &desc, 1), CU_INVALID_VALUE);
    ck_assert_uint_eq(access_of(at, 0), CU_ACCESS_NONE);
    ck_ok(cuMemSetAccess(at, 3 * GRANULE, &desc, 1));
    ck_assert_uint_eq(access_of(at + GRANULE, 0), CU_ACCESS_READ_WRITE);
    ck_assert_uint_eq(access_of(at + 2 * GRANULE, 0), CU_ACCESS_READ_WRITE);
    ck_assert_uint_eq(access_of(at + 4 * GRANULE, 0), CU_ACCESS_NONE);
    ck_ok(cuMemUnmap(at, 3 * GRANULE));
    ck_ok(cuMemUnmap(at + 4 * GRANULE, GRANULE));
    ck_ok(cuMemRelease(one));
    ck_ok(cuMemRelease(two));
    ck_ok(cuMemAddressFree(at, 5 * GRANULE));
}
END_TEST

START_TEST(set_access_refuses_count_zero_and_bad_descriptors)
{
    cu_devptr at = world_map(1);
    cu_access_desc desc = allow(0, CU_ACCESS_NONE);
    ck_assert_int_eq(cuMemSetAccess(at, GRANULE, &desc, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemSetAccess(at, GRANULE, NULL, 1), CU_INVALID_VALUE);
    desc = allow(1, CU_ACCESS_READ);
    ck_assert_int_eq(cuMemSetAccess(at, GRANULE, &desc, 1), CU_INVALID_DEVICE);
    desc = allow(0, 2);
    ck_assert_int_eq(cuMemSetAccess(at, GRANULE, &desc, 1), CU_INVALID_VALUE);
    ck_assert_uint_eq(access_of(at, 0), CU_ACCESS_READ_WRITE);
    world_unmap(at, 1);
}
END_TEST

START_TEST(each_peer_must_be_listed)
{
    cu_devptr at = world_map(1);
    cu_access_desc both[2] = { allow(0, CU_ACCESS_READ), allow(1, CU_ACCESS_READ_WRITE) };
    ck_assert_uint_eq(access_of(at, 0), CU_ACCESS_READ_WRITE);
    ck_assert_uint_eq(access_of(at, 1), CU_ACCESS_NONE);
    ck_ok(cuMemSetAccess(at, GRANULE, both, 2));
    ck_assert_uint_eq(access_of(at, 0), CU_ACCESS_READ);
    ck_assert_uint_eq(access_of(at, 1), CU_ACCESS_READ_WRITE);
    ck_ok(cuMemSetAccess(at, GRANULE, both, 1));
    ck_assert_uint_eq(access_of(at, 1), CU_ACCESS_READ_WRITE);
    world_unmap(at, 1);
}
END_TEST

START_TEST(unmap_takes_several_whole_mappings_in_one_call)
{
    cu_devptr at = world_map(5);
    ck_ok(cuMemUnmap(at + GRANULE, 3 * GRANULE));
    ck_assert_uint_eq(world_counts().mappings, 2);
    ck_assert_uint_eq(world_counts().physical_bytes, 2 * GRANULE);
    ck_ok(cuMemUnmap(at, GRANULE));
    ck_ok(cuMemUnmap(at + 4 * GRANULE, GRANULE));
    ck_ok(cuMemAddressFree(at, 5 * GRANULE));
}
END_TEST

START_TEST(unmap_refuses_holes_and_parts_and_changes_nothing)
{
    cu_devptr at = world_reserve(6);
    cu_mem_handle two = world_create(2);
    cu_mem_handle one = world_create(1);
    ck_ok(cuMemMap(at, 2 * GRANULE, 0, two, 0));
    ck_ok(cuMemMap(at + 3 * GRANULE, GRANULE, 0, one, 0));
    ck_assert_int_eq(cuMemUnmap(at, GRANULE), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemUnmap(at + GRANULE, GRANULE), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemUnmap(at, 4 * GRANULE), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemUnmap(at + 3 * GRANULE, 2 * GRANULE), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemUnmap(at + 4 * GRANULE, GRANULE), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemUnmap(at, 4096), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemUnmap(at, 0), CU_INVALID_VALUE);
    ck_assert_uint_eq(world_counts().mappings, 2);
    ck_ok(cuMemUnmap(at, 2 * GRANULE));
    ck_ok(cuMemUnmap(at + 3 * GRANULE, GRANULE));
    ck_ok(cuMemRelease(one));
    ck_ok(cuMemRelease(two));
    ck_ok(cuMemAddressFree(at, 6 * GRANULE));
}
END_TEST

START_TEST(release_is_legal_while_mapped_and_memory_goes_with_the_last_mapping)
{
    cu_devptr at = world_reserve(2);
    cu_mem_handle handle = world_create(1);
    ck_ok(cuMemMap(at, GRANULE, 0, handle, 0));
    ck_ok(cuMemMap(at + GRANULE, GRANULE, 0, handle, 0));
    ck_ok(cuMemRelease(handle));
    ck_assert_uint_eq(world_counts().physical_bytes, GRANULE);
    ck_assert_int_eq(cuMemRelease(handle), CU_INVALID_VALUE);
    ck_ok(cuMemUnmap(at, GRANULE));
    ck_assert_uint_eq(world_counts().physical_bytes, GRANULE);
    ck_ok(cuMemUnmap(at + GRANULE, GRANULE));
    ck_assert_uint_eq(world_counts().physical_bytes, 0);
    ck_assert_uint_eq(world_counts().handles, 0);
    ck_ok(cuMemAddressFree(at, 2 * GRANULE));
}
END_TEST

START_TEST(a_released_handle_cannot_be_mapped_again)
{
    cu_devptr at = world_reserve(2);
    cu_mem_handle handle = world_create(1);
    ck_ok(cuMemMap(at, GRANULE, 0, handle, 0));
    ck_ok(cuMemRelease(handle));
    ck_assert_int_eq(cuMemMap(at + GRANULE, GRANULE, 0, handle, 0), CU_INVALID_VALUE);
    ck_ok(cuMemUnmap(at, GRANULE));
    cu_mem_handle next = world_create(1);
    ck_assert_uint_ne(next, handle);
    ck_assert_int_eq(cuMemMap(at, GRANULE, 0, handle, 0), CU_INVALID_VALUE);
    ck_ok(cuMemRelease(next));
    ck_ok(cuMemAddressFree(at, 2 * GRANULE));
}
END_TEST

START_TEST(retain_returns_the_same_handle_and_each_retain_needs_a_release)
{
    cu_devptr at = world_reserve(2);
    cu_mem_handle handle = world_create(2);
    cu_mem_handle again;
    ck_ok(cuMemMap(at, 2 * GRANULE, 0, handle, 0));
    ck_ok(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + GRANULE + 12345)));
    ck_assert_uint_eq(again, handle);
    ck_ok(cuMemRelease(handle));
    ck_ok(cuMemUnmap(at, 2 * GRANULE));
    ck_assert_uint_eq(world_counts().handles, 1);
    ck_ok(cuMemRelease(again));
    ck_assert_uint_eq(world_counts().handles, 0);
    ck_assert_int_eq(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at), CU_INVALID_VALUE);
    ck_ok(cuMemAddressFree(at, 2 * GRANULE));
}
END_TEST

START_TEST(retain_brings_a_released_handle_back)
{
    cu_devptr at = world_map(1);
    cu_mem_handle handle;
    ck_ok(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at));
    ck_ok(cuMemUnmap(at, GRANULE));
    ck_ok(cuMemMap(at, GRANULE, 0, handle, 0));
    ck_ok(cuMemRelease(handle));
    world_unmap(at, 1);
}
END_TEST

START_TEST(no_virtual_memory_call_needs_a_context)
{
    cu_context context;
    ck_ok(cuCtxPopCurrent_v2(&context));
    cu_devptr at = world_map(2);
    ck_assert_uint_eq(access_of(at, 0), CU_ACCESS_READ_WRITE);
    cu_mem_handle handle;
    ck_ok(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at));
    cu_mem_prop prop;
    ck_ok(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    ck_ok(cuMemRelease(handle));
    world_unmap(at, 2);
    ck_ok(cuCtxPushCurrent_v2(context));
}
END_TEST

START_TEST(an_address_range_is_one_mapping)
{
    cu_devptr at = world_map(3);
    cu_devptr base;
    size_t bytes;
    ck_ok(cuMemGetAddressRange_v2(&base, &bytes, at + GRANULE + 5));
    ck_assert_uint_eq(base, at + GRANULE);
    ck_assert_uint_eq(bytes, GRANULE);
    ck_ok(cuMemGetAddressRange_v2(NULL, NULL, at));
    ck_assert_int_eq(cuMemGetAddressRange_v2(&base, &bytes, at + 3 * GRANULE), CU_NOT_FOUND);
    ck_assert_int_eq(cuMemGetAddressRange_v2(&base, &bytes, 0), CU_NOT_FOUND);
    ck_assert_int_eq(cuMemGetAddressRange_v2(&base, &bytes, UINT64_MAX), CU_NOT_FOUND);
    world_unmap(at, 3);
}
END_TEST

START_TEST(compression_is_a_hint_that_is_read_back)
{
    cu_mem_prop prop = world_prop(0);
    cu_mem_prop read;
    cu_mem_handle handle;
    prop.flags.compression_type = 1;
    prop.flags.rdma_capable = 1;
    ck_ok(cuMemCreate(&handle, GRANULE, &prop, 0));
    ck_ok(cuMemGetAllocationPropertiesFromHandle(&read, handle));
    ck_assert_int_eq(read.flags.compression_type, 0);
    ck_assert_int_eq(read.flags.rdma_capable, 1);
    ck_assert_int_eq(read.location.id, 0);
    ck_ok(cuMemRelease(handle));
}
END_TEST

START_TEST(mappings_are_told_in_address_order)
{
    pleat_sim_mapping list[4];
    cu_devptr at = world_reserve(4);
    cu_mem_handle handle = world_create(1);
    cu_mem_handle other = world_create(2);
    ck_ok(cuMemMap(at + 3 * GRANULE, GRANULE, 0, handle, 0));
    ck_ok(cuMemMap(at + GRANULE, 2 * GRANULE, 0, other, 0));
    ck_ok(cuMemMap(at, GRANULE, 0, handle, 0));
    world_allow(at, 1, 0, CU_ACCESS_READ);
    memset(list, 0, sizeof(list));
    ck_assert_uint_eq(pleat_sim_mappings(list, 2), 3);
    ck_assert_uint_eq(list[2].ptr, 0);
    ck_assert_uint_eq(pleat_sim_mappings(list, 4), 3);
    ck_assert_uint_eq(list[0].ptr, at);
    ck_assert_uint_eq(list[0].handle, handle);
    ck_assert_int_eq(list[0].access, CU_ACCESS_READ);
    ck_assert_uint_eq(list[1].ptr, at + GRANULE);
    ck_assert_uint_eq(list[1].bytes, 2 * GRANULE);
    ck_assert_int_eq(list[1].access, CU_ACCESS_NONE);
    ck_assert_uint_eq(list[2].handle, handle);
    world_unmap(at, 4);
    ck_ok(cuMemRelease(handle));
    ck_ok(cuMemRelease(other));
}
END_TEST

SUITE(sim_mapping)
{
    TCase *addresses = tcase_create("addresses");
    tcase_add_checked_fixture(addresses, world_default, world_end);
    tcase_add_test(addresses, reserve_wants_whole_granules_and_a_power_of_two);
    tcase_add_test(addresses, a_hint_is_aligned_and_may_be_ignored);
    tcase_add_test(addresses, reservations_never_overlap);
    tcase_add_test(addresses, made_up_addresses_are_no_host_addresses);
    tcase_add_test(addresses, the_address_space_has_an_end);
    tcase_add_test(addresses, address_free_takes_exactly_one_reservation);
    tcase_add_test(addresses, address_free_refuses_mapped_addresses);
    suite_add_tcase(suite, addresses);
    TCase *handles = tcase_create("handles");
    tcase_add_checked_fixture(handles, world_default, world_end);
    tcase_add_test(handles, create_wants_whole_granules_and_known_properties);
    tcase_add_test(handles, the_sum_of_handles_never_exceeds_the_capacity);
    tcase_add_test(handles, release_is_legal_while_mapped_and_memory_goes_with_the_last_mapping);
    tcase_add_test(handles, a_released_handle_cannot_be_mapped_again);
    tcase_add_test(handles, retain_returns_the_same_handle_and_each_retain_needs_a_release);
    tcase_add_test(handles, retain_brings_a_released_handle_back);
    tcase_add_test(handles, compression_is_a_hint_that_is_read_back);
    suite_add_tcase(suite, handles);
    TCase *mappings = tcase_create("mappings");
    tcase_add_checked_fixture(mappings, world_default, world_end);
    tcase_add_test(mappings, map_wants_offset_zero_and_the_whole_handle);
    tcase_add_test(mappings, map_wants_a_reserved_and_unmapped_target);
    tcase_add_test(mappings, a_new_mapping_has_no_access);
    tcase_add_test(mappings, aliases_have_access_of_their_own);
    tcase_add_test(mappings, set_access_covers_whole_mappings_without_holes);
    tcase_add_test(mappings, set_access_refuses_count_zero_and_bad_descriptors);
    tcase_add_test(mappings, unmap_takes_several_whole_mappings_in_one_call);
    tcase_add_test(mappings, unmap_refuses_holes_and_parts_and_changes_nothing);
    tcase_add_test(mappings, no_virtual_memory_call_needs_a_context);
    tcase_add_test(mappings, an_address_range_is_one_mapping);
    tcase_add_test(mappings, mappings_are_told_in_address_order);
    suite_add_tcase(suite, mappings);
    TCase *peers = tcase_create("peers");
    tcase_add_checked_fixture(peers, two_devices, world_end);
    tcase_add_test(peers, each_peer_must_be_listed);
    suite_add_tcase(suite, peers);
}
