/* sim_share_test.c - shareable handles, and what the profiles take away. */
#include <fcntl.h>
#include <unistd.h>

#include "support/sim_world.h"

static cu_mem_handle create_shareable(void)
{
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle handle;
    prop.handle_types = CU_HANDLE_POSIX_FD;
    ck_ok(cuMemCreate(&handle, GRANULE, &prop, 0));
    return handle;
}

static int attribute(int number)
{
    int value;
    ck_ok(cuDeviceGetAttribute(&value, number, 0));
    return value;
}

START_TEST(handle_types_are_fixed_at_creation)
{
    int fd = -1;
    cu_mem_handle plain = world_create(1);
    cu_mem_handle shareable = create_shareable();
    ck_assert_int_eq(cuMemExportToShareableHandle(&fd, plain, CU_HANDLE_POSIX_FD, 0),
                     CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemExportToShareableHandle(&fd, shareable, CU_HANDLE_FABRIC, 0),
                     CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemExportToShareableHandle(&fd, shareable, CU_HANDLE_POSIX_FD, 1),
                     CU_INVALID_VALUE);
    ck_assert_int_eq(fd, -1);
    ck_ok(cuMemExportToShareableHandle(&fd, shareable, CU_HANDLE_POSIX_FD, 0));
    ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
    close(fd);
    ck_ok(cuMemRelease(plain));
    ck_ok(cuMemRelease(shareable));
}
END_TEST

START_TEST(an_import_is_one_more_reference_to_the_same_memory)
{
    int fd;
    cu_mem_handle handle = create_shareable();
    cu_mem_handle imported;
    ck_ok(cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_POSIX_FD, 0));
    ck_ok(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD));
    close(fd);
    ck_assert_uint_eq(world_counts().physical_bytes, GRANULE);
    ck_ok(cuMemRelease(handle));
    ck_assert_uint_eq(world_counts().physical_bytes, GRANULE);
    cu_devptr at = world_reserve(1);
    ck_ok(cuMemMap(at, GRANULE, 0, imported, 0));
    world_unmap(at, 1);
    ck_ok(cuMemRelease(imported));
    ck_assert_uint_eq(world_counts().physical_bytes, 0);
}
END_TEST

START_TEST(an_import_of_something_else_is_refused)
{
    int ends[2];
    int fd;
    cu_mem_handle imported;
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(
        cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)ends[0], CU_HANDLE_POSIX_FD),
        CU_INVALID_VALUE);
    ck_assert_int_eq(
        cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)-1, CU_HANDLE_POSIX_FD),
        CU_INVALID_VALUE);
    cu_mem_handle handle = create_shareable();
    ck_ok(cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_POSIX_FD, 0));
    ck_assert_int_eq(
        cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, CU_HANDLE_FABRIC),
        CU_INVALID_VALUE);
    ck_ok(cuMemRelease(handle));
    ck_assert_int_eq(
        cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD),
        CU_INVALID_VALUE);
    close(fd);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

START_TEST(fabric_handles_are_not_permitted_without_a_channel)
{
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle handle;
    prop.handle_types = CU_HANDLE_FABRIC;
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_NOT_PERMITTED);
    prop.handle_types = 64;
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(attribute(CU_ATTR_FABRIC_SUPPORTED), 0);
}
END_TEST

START_TEST(the_full_profile_has_everything)
{
    int version;
    ck_ok(cuDriverGetVersion(&version));
    ck_assert_int_ge(version, 12000);
    ck_assert_int_eq(attribute(CU_ATTR_VMM_SUPPORTED), 1);
    ck_assert_int_eq(attribute(CU_ATTR_POSIX_FD_SUPPORTED), 1);
    ck_assert_int_eq(attribute(CU_ATTR_RDMA_WITH_VMM_SUPPORTED), 1);
    ck_assert_int_eq(attribute(CU_ATTR_64_BIT_STREAM_MEM_OPS), 1);
    ck_assert_int_eq(attribute(CU_ATTR_COMPUTE_MAJOR), 8);
    ck_assert_int_eq(attribute(CU_ATTR_INTEGRATED), 0);
}
END_TEST

START_TEST(no_vmm_refuses_every_vmm_call_and_allocates)
{
    cu_devptr at;
    size_t bytes;
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle handle;
    world_end();
    world_begin("profile:no_vmm");
    ck_assert_int_eq(attribute(CU_ATTR_VMM_SUPPORTED), 0);
    ck_assert_int_eq(cuMemAddressReserve(&at, GRANULE, 0, 0, 0), CU_NOT_SUPPORTED);
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_NOT_SUPPORTED);
    ck_assert_int_eq(cuMemGetAllocationGranularity(&bytes, &prop, 0), CU_NOT_SUPPORTED);
    ck_ok(cuMemAlloc_v2(&at, 4096));
    ck_ok(cuMemFree_v2(at));
}
END_TEST

START_TEST(an_old_driver_has_vmm_but_not_what_came_later)
{
    int fd;
    int version;
    unsigned long long id;
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle handle;
    world_end();
    world_begin("profile:old_driver");
    ck_ok(cuDriverGetVersion(&version));
    ck_assert_int_eq(version, 11020);
    ck_assert_int_eq(attribute(CU_ATTR_VMM_SUPPORTED), 1);
    ck_assert_int_eq(attribute(CU_ATTR_POSIX_FD_SUPPORTED), 0);
    ck_assert_int_eq(cuDeviceGetAttribute(&fd, CU_ATTR_FABRIC_SUPPORTED, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuStreamGetId(NULL, &id), CU_NOT_FOUND);
    ck_assert_int_eq(cuStreamWriteValue64_v2(NULL, 0, 0, 0), CU_NOT_FOUND);
    ck_ok(cuStreamGetCaptureInfo_v2(NULL, &fd, &id, NULL, NULL, NULL));
    prop.handle_types = CU_HANDLE_POSIX_FD;
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_NOT_SUPPORTED);
    cu_devptr at = world_map(1);
    world_unmap(at, 1);
}
END_TEST

START_TEST(devices_have_names_attributes_and_an_end)
{
    int device;
    int value;
    char name[8];
    ck_ok(cuDeviceGet(&device, 0));
    ck_assert_int_eq(cuDeviceGet(&device, 1), CU_INVALID_DEVICE);
    ck_assert_int_eq(cuDeviceGet(&device, -1), CU_INVALID_DEVICE);
    ck_assert_int_eq(cuDeviceGetAttribute(&value, CU_ATTR_VMM_SUPPORTED, 1), CU_INVALID_DEVICE);
    ck_assert_int_eq(cuDeviceGetAttribute(&value, -5, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuDeviceGetName(name, 0, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuDeviceGetName(name, 8, 3), CU_INVALID_DEVICE);
}
END_TEST

START_TEST(result_codes_have_names_and_texts)
{
    const char *text;
    ck_ok(cuGetErrorName(CU_OUT_OF_MEMORY, &text));
    ck_assert_str_eq(text, "CUDA_ERROR_OUT_OF_MEMORY");
    ck_ok(cuGetErrorString(CU_OUT_OF_MEMORY, &text));
    ck_assert_str_eq(text, "out of memory");
    ck_assert_int_eq(cuGetErrorName(12345, &text), CU_INVALID_VALUE);
    ck_assert_ptr_null(text);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("sim share");
    TCase *share = tcase_create("share");
    tcase_add_checked_fixture(share, world_default, world_end);
    tcase_add_test(share, handle_types_are_fixed_at_creation);
    tcase_add_test(share, an_import_is_one_more_reference_to_the_same_memory);
    tcase_add_test(share, an_import_of_something_else_is_refused);
    tcase_add_test(share, fabric_handles_are_not_permitted_without_a_channel);
    suite_add_tcase(suite, share);
    TCase *profiles = tcase_create("profiles");
    tcase_add_checked_fixture(profiles, world_default, world_end);
    tcase_add_test(profiles, the_full_profile_has_everything);
    tcase_add_test(profiles, no_vmm_refuses_every_vmm_call_and_allocates);
    tcase_add_test(profiles, an_old_driver_has_vmm_but_not_what_came_later);
    tcase_add_test(profiles, devices_have_names_attributes_and_an_end);
    tcase_add_test(profiles, result_codes_have_names_and_texts);
    suite_add_tcase(suite, profiles);
    return suite;
}

int main(void)
{
    return world_run(make_suite());
}
