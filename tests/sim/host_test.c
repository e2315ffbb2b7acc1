/* host_test.c - pinned host memory of the simulator: owners and refusals. */
/* labels: unit */
#include <string.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

static const char memory[] = "backing:memory,host:8M,capacity:4M,depth:1048576";

static cu_mem_prop host_prop(int node)
{
    cu_mem_prop prop = world_prop(0);
    prop.location = (cu_mem_location){ .type = CU_LOCATION_HOST_NUMA, .id = node };
    return prop;
}

static cu_access_desc host_access(void)
{
    cu_mem_location location = { .type = CU_LOCATION_HOST_NUMA, .id = 0 };
    return (cu_access_desc){ location, CU_ACCESS_READ_WRITE };
}

static void with_memory(void)
{
    world_begin(memory);
}

static void without_memory(void)
{
    world_begin("host:8M");
}

START_TEST(memory_on_the_host_is_charged_to_the_host)
{
    cu_mem_prop prop = host_prop(0);
    cu_mem_handle handles[2];
    ck_ok(cuMemCreate(&handles[0], 3 * GRANULE, &prop, 0));
    ck_assert_uint_eq(world_counts().host_bytes, 3 * GRANULE);
    ck_assert_uint_eq(world_counts().physical_bytes, 0);
    ck_assert_int_eq(cuMemCreate(&handles[1], 2 * GRANULE, &prop, 0), CU_OUT_OF_MEMORY);
    ck_ok(cuMemCreate(&handles[1], GRANULE, &prop, 0));
    ck_ok(cuMemRelease(handles[0]));
    ck_ok(cuMemRelease(handles[1]));
    ck_assert_uint_eq(world_counts().host_bytes, 0);
}
END_TEST

START_TEST(the_host_and_devices_use_what_is_mapped)
{
    cu_mem_prop prop = host_prop(0);
    cu_mem_handle handle;
    cu_devptr at = world_reserve(1);
    cu_access_desc desc[] = { { { CU_LOCATION_DEVICE, 0 }, CU_ACCESS_READ_WRITE }, host_access() };
    int type = 0;
    ck_ok(cuMemCreate(&handle, GRANULE, &prop, 0));
    ck_ok(cuMemMap(at, GRANULE, 0, handle, 0));
    ck_ok(cuMemSetAccess(at, GRANULE, desc, 2));
    memset((void *)(uintptr_t)at, 3, GRANULE);
    cu_stream stream = world_stream();
    world_read(stream, at, GRANULE);
    ck_ok(cuPointerGetAttribute(&type, CU_POINTER_MEMORY_TYPE, at));
    ck_assert_int_eq(type, CU_MEMORY_OF_HOST);
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuMemRelease(handle));
    world_unmap(at, 1);
}
END_TEST

START_TEST(the_host_has_no_access_to_a_device)
{
    cu_devptr at = world_map(1);
    cu_access_desc desc = host_access();
    ck_assert_int_eq(cuMemSetAccess(at, GRANULE, &desc, 1), CU_INVALID_VALUE);
    world_unmap(at, 1);
}
END_TEST

START_TEST(what_a_host_cannot_be_is_refused)
{
    cu_mem_handle handle;
    cu_mem_prop prop = host_prop(1);
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_INVALID_VALUE);
    prop = host_prop(0);
    prop.handle_types = CU_HANDLE_POSIX_FD;
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_NOT_SUPPORTED);
    prop = host_prop(0);
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE + 1, &prop, 0), CU_INVALID_VALUE);
}
END_TEST

/* By loop index: with backing:memory, and without. */
START_TEST(whole_pieces_are_charged_and_freed_once)
{
    void *a = NULL;
    void *b = NULL;
    world_begin(_i == 0 ? memory : "host:8M");
    ck_assert_int_eq(cuMemHostAlloc(&a, 0, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemHostAlloc(&a, 1, 64), CU_INVALID_VALUE);
    ck_ok(cuMemHostAlloc(&a, 5000001, CU_HOST_PORTABLE | CU_HOST_MAPPED));
    memset(a, 1, 5000001);
    ck_assert_uint_eq(world_counts().host_bytes, 5000001);
    ck_assert_uint_eq(world_counts().physical_bytes, 0);
    ck_assert_int_eq(cuMemHostAlloc(&b, 4000000, 0), CU_OUT_OF_MEMORY);
    ck_assert_int_eq(cuMemFreeHost((char *)a + 512), CU_INVALID_VALUE);
    ck_assert_int_ne(cuMemFree_v2((uintptr_t)a), CU_SUCCESS);
    int type = 0;
    ck_ok(cuPointerGetAttribute(&type, CU_POINTER_MEMORY_TYPE, (uintptr_t)a + 4096));
    ck_assert_int_eq(type, CU_MEMORY_OF_HOST);
    ck_ok(cuMemFreeHost(a));
    ck_assert_int_eq(cuMemFreeHost(a), CU_INVALID_VALUE);
    ck_assert_uint_eq(world_counts().host_bytes, 0);
    world_end();
}
END_TEST

START_TEST(freeing_under_work_is_a_hazard)
{
    void *a = NULL;
    world_begin(memory);
    cu_stream stream = world_stream();
    ck_ok(cuMemHostAlloc(&a, GRANULE, 0));
    world_read(stream, (uintptr_t)a, GRANULE);
    ck_ok(cuMemFreeHost(a));
    ck_ok(cuStreamDestroy_v2(stream));
    world_end_with(PLEAT_SIM_UNMAP_IN_USE, 1);
}
END_TEST

START_TEST(made_up_addresses_are_none_of_the_hosts)
{
    cu_mem_prop prop = host_prop(0);
    cu_mem_handle handle;
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_NOT_SUPPORTED);
}
END_TEST

/* ---- managed and registered: by loop index with backing:memory, and without ---- */

static void begin_of(int index)
{
    world_begin(index == 0 ? memory : "host:8M,capacity:4M,depth:1048576");
}

static int ask(int attribute, const void *ptr)
{
    int value = -1;
    ck_ok(cuPointerGetAttribute(&value, attribute, (uintptr_t)ptr));
    return value;
}

static uint64_t ask_address(int attribute, const void *ptr)
{
    uint64_t value = 0;
    ck_ok(cuPointerGetAttribute(&value, attribute, (uintptr_t)ptr));
    return value;
}

START_TEST(managed_memory_is_the_programs_and_the_devices)
{
    cu_devptr at = 0;
    void *pinned = NULL;
    begin_of(_i);
    ck_assert_int_eq(cuMemAllocManaged(&at, 0, CU_ATTACH_GLOBAL), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAllocManaged(&at, 1, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAllocManaged(&at, 1, 4), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAllocManaged(NULL, 1, CU_ATTACH_GLOBAL), CU_INVALID_VALUE);
    ck_ok(cuMemAllocManaged(&at, 5000001, CU_ATTACH_HOST)); /* more than the device has */
    char *ptr = (char *)(uintptr_t)at;
    ck_assert_uint_eq(world_counts().host_bytes, 5000001);
    ck_assert_uint_eq(world_counts().physical_bytes, 0);
    ck_assert_int_eq(ask(CU_POINTER_IS_MANAGED, ptr + 4096), 1);
    ck_assert_int_eq(ask(CU_POINTER_MEMORY_TYPE, ptr), CU_MEMORY_OF_DEVICE);
    ck_assert_uint_eq(ask_address(CU_POINTER_HOST_POINTER, ptr + 7), at + 7);
    ck_assert_uint_eq(ask_address(CU_POINTER_DEVICE_POINTER, ptr + 7), at + 7);
    ck_ok(cuMemHostAlloc(&pinned, 4096, 0));
    ck_assert_int_eq(ask(CU_POINTER_IS_MANAGED, pinned), 0);
    memset(ptr, 3, 5000001);
    ck_ok(cuMemcpyDtoH_v2(pinned, at + 100, 4096));
    ck_assert_int_eq(memcmp(pinned, ptr, 4096), 0);
    ck_assert_int_eq(cuMemFreeHost(ptr), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemFree_v2((uintptr_t)pinned), CU_INVALID_VALUE);
    ck_ok(cuMemFree_v2(at));
    ck_assert_int_eq(cuMemFree_v2(at), CU_INVALID_VALUE);
    ck_ok(cuMemFreeHost(pinned));
    world_end();
}
END_TEST

/* By loop index pinned, managed, registered. */
START_TEST(kernels_reach_host_memory_while_it_lives)
{
    static char own[8192];
    void *pinned = own;
    cu_devptr at = 0;
    world_begin("host:8M,capacity:4M,depth:1048576");
    if (_i == 0) {
        ck_ok(cuMemHostAlloc(&pinned, sizeof(own), 0));
        at = (uintptr_t)pinned;
    } else if (_i == 1) {
        ck_ok(cuMemAllocManaged(&at, sizeof(own), CU_ATTACH_GLOBAL));
    } else {
        ck_ok(cuMemHostRegister_v2(own, sizeof(own), 0));
        at = (uintptr_t)own;
    }
    cu_stream stream = world_stream();
    world_write(stream, at, sizeof(own));
    world_read(stream, at + 8191, 1);
    pleat_sim_finish();
    ck_assert_uint_eq(world_hazards(), 0);
    world_read(stream, at + 8191, 2);
    ck_assert_uint_eq(world_hazards(), 1);
    pleat_sim_finish();
    ck_ok(_i == 0 ? cuMemFreeHost(pinned) : _i == 1 ? cuMemFree_v2(at) : cuMemHostUnregister(own));
    world_read(stream, at, 1);
    pleat_sim_finish();
    ck_ok(cuStreamDestroy_v2(stream));
    world_end_with(PLEAT_SIM_UNMAPPED_ACCESS, 2);
}
END_TEST

START_TEST(what_is_registered_is_known_until_it_is_not)
{
    static char own[3 * 4096];
    cu_devptr at = 0;
    void *pinned = NULL;
    int type;
    begin_of(_i);
    ck_assert_int_eq(cuMemHostRegister_v2(NULL, 1, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemHostRegister_v2(own, 0, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemHostRegister_v2(own, 1, 16), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemHostGetDevicePointer_v2(&at, own, 0), CU_INVALID_VALUE);
    ck_ok(cuMemHostRegister_v2(own + 4096, 4096, CU_HOST_REGISTER_FLAGS));
    ck_assert_int_eq(cuMemHostRegister_v2(own, sizeof(own), 0), CU_HOST_ALREADY_REGISTERED);
    ck_assert_int_eq(cuMemHostRegister_v2(own + 8191, 1, 0), CU_HOST_ALREADY_REGISTERED);
    ck_ok(cuMemHostRegister_v2(own + 8192, 4096, 0));
    ck_ok(cuMemHostAlloc(&pinned, 4096, 0));
    ck_assert_int_eq(cuMemHostRegister_v2(pinned, 1, 0), CU_HOST_ALREADY_REGISTERED);
    ck_assert_int_eq(ask(CU_POINTER_MEMORY_TYPE, own + 8191), CU_MEMORY_OF_HOST);
    ck_assert_int_eq(cuPointerGetAttribute(&type, CU_POINTER_MEMORY_TYPE, (uintptr_t)own + 4095),
                     CU_INVALID_VALUE);
    ck_ok(cuMemHostGetDevicePointer_v2(&at, own + 5000, 0));
    ck_assert_uint_eq(at, (uintptr_t)own + 5000);
    ck_assert_int_eq(cuMemHostGetDevicePointer_v2(&at, own + 5000, 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemHostUnregister(own + 5000), CU_HOST_NOT_REGISTERED);
    ck_assert_int_eq(cuMemHostUnregister(pinned), CU_HOST_NOT_REGISTERED);
    ck_assert_int_eq(cuMemFreeHost(own + 4096), CU_INVALID_VALUE);
    ck_ok(cuMemHostUnregister(own + 4096));
    ck_ok(cuMemHostUnregister(own + 8192));
    ck_assert_int_eq(cuMemHostUnregister(own + 8192), CU_HOST_NOT_REGISTERED);
    ck_ok(cuMemFreeHost(pinned));
    world_end();
}
END_TEST

/* Any kind of host memory on either side of any copy: the bytes are there afterwards. */
START_TEST(commands_move_the_bytes_of_host_memory)
{
    static unsigned char own[4096];
    enum { N = 3 };
    cu_devptr managed = 0;
    void *pinned = NULL;
    begin_of(_i);
    ck_assert_int_eq(cuMemAllocHost_v2(&pinned, 0), CU_INVALID_VALUE);
    ck_ok(cuMemAllocHost_v2(&pinned, sizeof(own)));
    ck_ok(cuMemAllocManaged(&managed, sizeof(own), CU_ATTACH_GLOBAL));
    ck_ok(cuMemHostRegister_v2(own, sizeof(own), 0));
    void *const places[N] = { pinned, (void *)(uintptr_t)managed, own };
    for (int to = 0; to < N; to++) {
        for (int from = 0; from < N; from++) {
            if (to == from) {
                continue;
            }
            memset(places[to], 0, sizeof(own));
            ck_ok(cuMemsetD8Async((uintptr_t)places[from] + 1, 5, 1000, NULL));
            ck_ok(cuMemsetD8_v2((uintptr_t)places[from], 9, 1));
            ck_ok(cuMemcpyDtoDAsync_v2((uintptr_t)places[to], (uintptr_t)places[from], 1000, NULL));
            ck_ok(cuStreamSynchronize(NULL));
            const unsigned char *got = places[to];
            ck_assert_int_eq(got[0], 9);
            ck_assert_int_eq(got[1], 5);
            ck_assert_int_eq(got[999], 5);
            ck_assert_int_eq(got[1000], 0);
        }
    }
    ck_ok(cuMemHostUnregister(own));
    ck_ok(cuMemFreeHost(pinned));
    ck_ok(cuMemFree_v2(managed));
    world_end();
}
END_TEST

/* A device's bytes: with backing:memory as they are, without it zeros. */
START_TEST(copies_between_a_device_and_the_host_pass_its_memory)
{
    static unsigned char own[4096];
    cu_devptr at;
    begin_of(_i);
    ck_ok(cuMemAlloc_v2(&at, sizeof(own)));
    ck_ok(cuMemHostRegister_v2(own, sizeof(own), 0));
    memset(own, 7, sizeof(own));
    ck_ok(cuMemcpyDtoDAsync_v2(at, (uintptr_t)own, 2000, NULL));
    ck_ok(cuStreamSynchronize(NULL));
    memset(own, 1, sizeof(own));
    ck_ok(cuMemcpyDtoDAsync_v2((uintptr_t)own, at, 2000, NULL));
    ck_ok(cuStreamSynchronize(NULL));
    ck_assert_int_eq(own[0], _i == 0 ? 7 : 0);
    ck_assert_int_eq(own[1999], _i == 0 ? 7 : 0);
    ck_assert_int_eq(own[2000], 1);
    ck_ok(cuMemHostUnregister(own));
    ck_ok(cuMemFree_v2(at));
    world_end();
}
END_TEST

START_TEST(in_a_capture_host_memory_stays_as_it_is)
{
    static unsigned char own[8192];
    cu_graph graph;
    begin_of(_i);
    cu_stream stream = world_stream();
    ck_ok(cuMemHostRegister_v2(own, sizeof(own), 0));
    memset(own, 1, sizeof(own));
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_RELAXED));
    ck_ok(cuMemsetD8Async((uintptr_t)own, 5, 100, stream));
    ck_ok(cuMemcpyDtoDAsync_v2((uintptr_t)own, (uintptr_t)own + 4096, 100, stream));
    ck_ok(cuStreamEndCapture(stream, &graph));
    ck_assert_int_eq(own[0], 1);
    ck_ok(cuGraphDestroy(graph));
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuMemHostUnregister(own));
    world_end();
}
END_TEST

START_TEST(devices_say_that_they_know_the_hosts_memory)
{
    static const int attributes[] = { CU_ATTR_CAN_MAP_HOST, CU_ATTR_UNIFIED_ADDRESSING,
                                      CU_ATTR_MANAGED_MEMORY, CU_ATTR_HOST_REGISTER_SUPPORTED };
    world_begin("profile:no_vmm");
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
        int value = 0;
        ck_ok(cuDeviceGetAttribute(&value, attributes[i], 0));
        ck_assert_int_eq(value, 1);
    }
    world_end();
}
END_TEST

SUITE(sim_host)
{
    TCase *tcase = tcase_create("mapped");
    tcase_add_checked_fixture(tcase, with_memory, world_end);
    tcase_add_test(tcase, memory_on_the_host_is_charged_to_the_host);
    tcase_add_test(tcase, the_host_and_devices_use_what_is_mapped);
    tcase_add_test(tcase, the_host_has_no_access_to_a_device);
    tcase_add_test(tcase, what_a_host_cannot_be_is_refused);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("made up");
    tcase_add_checked_fixture(tcase, without_memory, world_end);
    tcase_add_test(tcase, made_up_addresses_are_none_of_the_hosts);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("whole");
    tcase_add_loop_test(tcase, whole_pieces_are_charged_and_freed_once, 0, 2);
    tcase_add_loop_test(tcase, kernels_reach_host_memory_while_it_lives, 0, 3);
    tcase_add_loop_test(tcase, managed_memory_is_the_programs_and_the_devices, 0, 2);
    tcase_add_loop_test(tcase, what_is_registered_is_known_until_it_is_not, 0, 2);
    tcase_add_loop_test(tcase, commands_move_the_bytes_of_host_memory, 0, 2);
    tcase_add_loop_test(tcase, copies_between_a_device_and_the_host_pass_its_memory, 0, 2);
    tcase_add_loop_test(tcase, in_a_capture_host_memory_stays_as_it_is, 0, 2);
    tcase_add_test(tcase, devices_say_that_they_know_the_hosts_memory);
    tcase_add_test(tcase, freeing_under_work_is_a_hazard);
    suite_add_tcase(suite, tcase);
}
