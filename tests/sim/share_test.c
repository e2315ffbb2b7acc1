/* share_test.c - shareable handles, and what the profiles take away. */
/* alone: the test runs itself as the other process */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

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
    close(fd);
    ck_assert_int_eq(
        cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD),
        CU_INVALID_VALUE);
    fd = memfd_create("other", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, (off_t)GRANULE + 4096), 0);
    ck_assert_int_eq(
        cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD),
        CU_INVALID_VALUE);
    close(fd);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* The descriptor keeps the memory, which is nobody's then. */
START_TEST(a_descriptor_outlives_what_it_was_made_of)
{
    int fd;
    cu_mem_handle handle = create_shareable();
    cu_mem_handle imported;
    ck_ok(cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_POSIX_FD, 0));
    ck_ok(cuMemRelease(handle));
    ck_assert_uint_eq(world_counts().physical_bytes, 0);
    ck_ok(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD));
    close(fd);
    ck_assert_uint_ne(imported, handle);
    ck_assert_uint_eq(world_counts().physical_bytes, 0);
    ck_assert_uint_eq(world_counts().imported_bytes, GRANULE);
    ck_ok(cuMemRelease(imported));
    ck_assert_uint_eq(world_counts().imported_bytes, 0);
    ck_assert_int_eq(cuMemRelease(imported), CU_INVALID_VALUE);
}
END_TEST

START_TEST(without_descriptors_nothing_is_exported)
{
    int fds[64];
    int fd = -1;
    int n = 0;
    struct rlimit few = { .rlim_cur = 64, .rlim_max = 64 };
    cu_mem_handle handle = create_shareable();
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (n < 64 && (fds[n] = dup(STDERR_FILENO)) >= 0) {
        n++;
    }
    ck_assert_int_eq(cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_POSIX_FD, 0),
                     CU_OPERATING_SYSTEM);
    close(fds[--n]);
    ck_assert_int_eq(cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_POSIX_FD, 0),
                     CU_OPERATING_SYSTEM); /* the file has a handle, but none can be handed out */
    ck_assert_int_eq(fd, -1);
    while (n > 0) {
        close(fds[--n]);
    }
    ck_ok(cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_POSIX_FD, 0));
    close(fd);
    ck_ok(cuMemRelease(handle));
}
END_TEST

/* ---- two processes --------------------------------------------------------------------------- */

enum { FD_OF_CHILD = 100 }; /* descriptor number in the child */

/* For work of device 0, wherever the memory lies. */
static cu_devptr map_handle(cu_mem_handle handle)
{
    cu_devptr at = world_reserve(1);
    ck_ok(cuMemMap(at, GRANULE, 0, handle, 0));
    ck_ok(cuMemRelease(handle));
    world_allow(at, 1, 0, CU_ACCESS_READ_WRITE);
    return at;
}

static void wait_for(pid_t child)
{
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

/* The settings of the other process. */
static const char *child_conf;
static int child_device;

/* Check the memory behind the inherited descriptor. */
START_TEST(import_in_child)
{
    cu_mem_handle handle;
    cu_mem_prop prop;
    world_begin(child_conf);
    ck_ok(
        cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)FD_OF_CHILD, CU_HANDLE_POSIX_FD));
    ck_ok(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    ck_assert_int_eq(prop.location.id, child_device);
    ck_assert_int_eq(prop.handle_types, CU_HANDLE_POSIX_FD);
    ck_assert_uint_eq(world_counts().imported_bytes, GRANULE);
    ck_assert_uint_eq(world_counts().physical_bytes, 0);
    cu_devptr at = map_handle(handle);
    cu_stream stream = world_stream();
    ck_ok(pleat_sim_verify(stream, at, GRANULE, 7));
    ck_ok(pleat_sim_fill(stream, at, GRANULE, 8));
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuStreamDestroy_v2(stream));
    world_unmap(at, 1);
    world_end();
}
END_TEST

/* The fill is over before the child reads, and the child's before this process does. */
static void exchange(const char *conf, int device)
{
    int fd;
    cu_mem_prop prop = world_prop(device);
    prop.handle_types = CU_HANDLE_POSIX_FD;
    cu_mem_handle handle;
    world_begin(conf);
    ck_ok(cuMemCreate(&handle, GRANULE, &prop, 0));
    cu_devptr at = world_reserve(1);
    ck_ok(cuMemMap(at, GRANULE, 0, handle, 0));
    world_allow(at, 1, 0, CU_ACCESS_READ_WRITE);
    cu_stream stream = world_stream();
    ck_ok(pleat_sim_fill(stream, at, GRANULE, 7));
    ck_ok(cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_POSIX_FD, 0));
    ck_ok(cuStreamSynchronize(stream));
    ck_assert_int_eq(dup2(fd, FD_OF_CHILD), FD_OF_CHILD);
    close(fd);
    ck_ok(cuMemRelease(handle));
    char text[16];
    snprintf(text, sizeof(text), "%d", device);
    pid_t child = fork();
    if (child == 0) { /* a separate process, since a driver does not survive a fork */
        execl("/proc/self/exe", "sim_share", "child", conf, text, NULL);
        _exit(3);
    }
    wait_for(child);
    ck_ok(pleat_sim_verify(stream, at, GRANULE, 8));
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuStreamDestroy_v2(stream));
    world_unmap(at, 1);
    close(FD_OF_CHILD);
    world_end();
}

START_TEST(two_processes_see_the_same_bytes)
{
    exchange("backing:memory", 0);
}
END_TEST

START_TEST(the_memory_lies_on_the_device_of_its_number)
{
    exchange("backing:memory,devices:2", 1);
}
END_TEST

START_TEST(contents_move_to_the_exported_memory_with_all_mappings)
{
    int fd;
    world_begin("backing:memory");
    cu_mem_handle handle = create_shareable();
    cu_devptr at = world_reserve(2);
    for (unsigned i = 0; i < 2; i++) {
        ck_ok(cuMemMap(at + i * GRANULE, GRANULE, 0, handle, 0));
    }
    world_allow(at, 1, 0, CU_ACCESS_READ_WRITE);
    world_allow(at + GRANULE, 1, 0, CU_ACCESS_READ);
    cu_stream stream = world_stream();
    ck_ok(pleat_sim_fill(stream, at, GRANULE, 3));
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_POSIX_FD, 0));
    ck_ok(pleat_sim_verify(stream, at + GRANULE, GRANULE, 3));
    ck_ok(pleat_sim_fill(stream, at, GRANULE, 4));
    ck_ok(pleat_sim_verify(stream, at + GRANULE, GRANULE, 4));
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuMemRelease(handle));
    world_unmap(at, 2);
    cu_mem_handle again;
    ck_ok(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD));
    close(fd);
    at = map_handle(again);
    stream = world_stream();
    ck_ok(pleat_sim_verify(stream, at, GRANULE, 4));
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuStreamDestroy_v2(stream));
    world_unmap(at, 1);
    world_end();
}
END_TEST

START_TEST(memory_of_a_device_that_is_not_here_is_refused)
{
    int fd;
    cu_mem_prop prop = world_prop(1);
    cu_mem_handle handle;
    prop.handle_types = CU_HANDLE_POSIX_FD;
    world_begin("devices:2");
    ck_ok(cuMemCreate(&handle, GRANULE, &prop, 0));
    ck_ok(cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_POSIX_FD, 0));
    ck_ok(cuMemRelease(handle));
    world_end();
    world_begin("devices:1");
    ck_assert_int_eq(
        cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD),
        CU_INVALID_DEVICE);
    world_end();
    world_begin("devices:2,granularity:4M");
    ck_assert_int_eq(
        cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD),
        CU_INVALID_VALUE);
    world_end();
    close(fd);
}
END_TEST

START_TEST(work_on_unmapped_imports_is_a_hazard)
{
    int fd;
    cu_mem_handle handle = create_shareable();
    cu_mem_handle imported;
    ck_ok(cuMemExportToShareableHandle(&fd, handle, CU_HANDLE_POSIX_FD, 0));
    ck_ok(cuMemRelease(handle));
    ck_ok(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD));
    close(fd);
    cu_devptr at = map_handle(imported);
    cu_stream stream = world_stream();
    world_write(stream, at, GRANULE);
    world_unmap(at, 1);
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuStreamDestroy_v2(stream));
    world_end_with(PLEAT_SIM_UNMAP_IN_USE, 1);
    world_begin(NULL);
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
    tcase_add_test(share, a_descriptor_outlives_what_it_was_made_of);
    tcase_add_test(share, without_descriptors_nothing_is_exported);
    tcase_add_test(share, work_on_unmapped_imports_is_a_hazard);
    tcase_add_test(share, fabric_handles_are_not_permitted_without_a_channel);
    suite_add_tcase(suite, share);
    TCase *processes = tcase_create("processes");
    tcase_add_test(processes, two_processes_see_the_same_bytes);
    tcase_add_test(processes, the_memory_lies_on_the_device_of_its_number);
    tcase_add_test(processes, contents_move_to_the_exported_memory_with_all_mappings);
    tcase_add_test(processes, memory_of_a_device_that_is_not_here_is_refused);
    suite_add_tcase(suite, processes);
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

static int run_child(char **argv)
{
    Suite *suite = suite_create("sim share, the other process");
    TCase *child = tcase_create("child");
    child_conf = argv[2];
    child_device = atoi(argv[3]);
    tcase_add_test(child, import_in_child);
    suite_add_tcase(suite, child);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed;
}

/* With arguments: be the other process of exchange(). */
int main(int argc, char **argv)
{
    return argc == 4 && strcmp(argv[1], "child") == 0 ? run_child(argv) : suite_run(make_suite());
}
