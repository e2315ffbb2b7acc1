/* offer_test.c - driver calls that pleat does not make: entry points by name, copies that wait,
 * writes of values, and calls for missing features. */
/* labels: unit */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"
#include "vmm/tools/sim/entries/entry.h"

enum { BYTES = 1000, VERSION = 13000 };

static void with_contents(void)
{
    world_begin("capacity:64M,backing:memory");
}

/* ---- copies ---------------------------------------------------------------------------------- */

START_TEST(a_plain_copy_is_over_when_it_returns)
{
    unsigned char out[BYTES];
    unsigned char in[BYTES];
    cu_devptr a;
    cu_devptr b;
    memset(in, 5, sizeof(in));
    ck_ok(cuMemAlloc_v2(&a, BYTES));
    ck_ok(cuMemAlloc_v2(&b, BYTES));
    ck_ok(cuMemcpyHtoD_v2(a, in, BYTES));
    ck_assert_uint_eq(world_unfinished(), 0);
    memset(in, 6, sizeof(in)); /* too late to matter */
    ck_ok(cuMemcpyDtoD_v2(b, a, BYTES));
    ck_ok(cuMemsetD8_v2(a, 7, BYTES / 2));
    ck_ok(cuMemcpyDtoH_v2(out, b, BYTES));
    ck_assert_uint_eq(world_unfinished(), 0);
    ck_assert_uint_eq(out[0], 5);
    ck_assert_uint_eq(out[BYTES - 1], 5);
    ck_ok(cuMemcpyDtoH_v2(out, a, BYTES));
    ck_assert_uint_eq(out[BYTES / 2 - 1], 7);
    ck_assert_uint_eq(out[BYTES / 2], 5);
    ck_ok(cuMemFree_v2(a));
    ck_ok(cuMemFree_v2(b));
}
END_TEST

/* Plain copies are commands of the legacy default stream, which waits for blocking streams. */
START_TEST(a_plain_copy_comes_after_blocking_streams)
{
    unsigned char out[BYTES];
    cu_devptr at;
    cu_stream stream;
    ck_ok(cuMemAlloc_v2(&at, BYTES));
    ck_ok(cuStreamCreate(&stream, CU_STREAM_DEFAULT_FLAG));
    ck_ok(cuMemsetD8Async(at, 3, BYTES, stream));
    ck_ok(cuMemcpyDtoH_v2(out, at, BYTES));
    ck_assert_uint_eq(out[17], 3);
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuMemFree_v2(at));
}
END_TEST

START_TEST(bad_copies_are_refused)
{
    unsigned char host[BYTES] = { 0 };
    cu_devptr at;
    cu_context context;
    ck_ok(cuMemAlloc_v2(&at, BYTES));
    ck_assert_int_eq(cuMemcpyHtoD_v2(at, NULL, BYTES), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemcpyDtoH_v2(NULL, at, BYTES), CU_INVALID_VALUE);
    ck_ok(cuMemcpyHtoD_v2(at, host, 0));
    ck_ok(cuMemcpyDtoH_v2(host, at, 0));
    ck_ok(cuCtxPopCurrent_v2(&context));
    ck_assert_int_eq(cuMemcpyHtoD_v2(at, host, BYTES), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuMemcpyDtoH_v2(host, at, BYTES), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuMemcpyDtoD_v2(at, at, BYTES), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuMemsetD8_v2(at, 1, BYTES), CU_INVALID_CONTEXT);
    ck_ok(cuCtxPushCurrent_v2(context));
    ck_ok(cuMemFree_v2(at));
    ck_assert_uint_eq(world_hazards(), 0);
    ck_assert_int_eq(cuMemcpyHtoD_v2(at, host, BYTES), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemcpyDtoH_v2(host, at, BYTES), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemsetD8_v2(at, 1, BYTES), CU_INVALID_VALUE);
    world_end_with(PLEAT_SIM_UNMAPPED_ACCESS, 3);
    world_begin("waits:refuse");
    ck_ok(cuMemAlloc_v2(&at, BYTES));
    ck_assert_int_eq(cuMemcpyHtoD_v2(at, host, BYTES), CU_NOT_READY);
    ck_assert_uint_eq(world_unfinished(), 0);
    ck_ok(cuMemFree_v2(at));
}
END_TEST

START_TEST(a_plain_copy_invalidates_a_capture)
{
    unsigned char host[BYTES] = { 0 };
    cu_devptr at;
    cu_graph graph;
    cu_stream stream = world_stream();
    ck_ok(cuMemAlloc_v2(&at, BYTES));
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    ck_assert_int_eq(cuMemcpyHtoD_v2(at, host, BYTES), CU_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CU_CAPTURE_INVALIDATED);
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuMemFree_v2(at));
}
END_TEST

START_TEST(values_of_both_widths_are_written_in_order)
{
    uint32_t out[4] = { 0 };
    cu_devptr at;
    cu_stream stream = world_stream();
    ck_ok(cuMemAlloc_v2(&at, sizeof(out)));
    ck_ok(cuMemsetD8Async(at, 0xff, sizeof(out), stream));
    ck_ok(cuStreamWriteValue64_v2(stream, at + 8, 1ULL << 32 | 5, 1));
    ck_ok(cuStreamWriteValue32_v2(stream, at + 4, 77, 0));
    ck_assert_int_eq(cuStreamWriteValue32_v2(stream, at + 2, 1, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuStreamWriteValue64_v2(stream, at + 4, 1, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuStreamWriteValue32_v2(stream, at, 1, 2), CU_INVALID_VALUE);
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuMemcpyDtoH_v2(out, at, sizeof(out)));
    ck_assert_uint_eq(out[0], UINT32_MAX);
    ck_assert_uint_eq(out[1], 77);
    ck_assert_uint_eq(out[2], 5);
    ck_assert_uint_eq(out[3], 1);
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuMemFree_v2(at));
}
END_TEST

/* ---- missing features ------------------------------------------------------------------------ */

START_TEST(what_a_device_lacks_is_refused_after_its_arguments)
{
    enum { DMA_BUF = 1, ATTR_DMA_BUF = 124, ATTR_MULTICAST = 132 };
    cu_devptr at = world_map(1);
    cu_mem_handle handle = world_create(1);
    cu_mem_handle group = 0;
    size_t bytes;
    int fd;
    int value = 1;
    ck_ok(cuDeviceGetAttribute(&value, ATTR_DMA_BUF, 0));
    ck_assert_int_eq(value, 0);
    ck_assert_int_eq(cuMemGetHandleForAddressRange(&fd, at, GRANULE, DMA_BUF, 0), CU_NOT_SUPPORTED);
    ck_assert_int_eq(cuMemGetHandleForAddressRange(NULL, at, GRANULE, DMA_BUF, 0),
                     CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemGetHandleForAddressRange(&fd, at, GRANULE, 2, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemGetHandleForAddressRange(&fd, at + (1ULL << 40), GRANULE, DMA_BUF, 0),
                     CU_INVALID_VALUE);
    ck_ok(cuDeviceGetAttribute(&value, ATTR_MULTICAST, 0));
    ck_assert_int_eq(value, 0);
    ck_assert_int_eq(cuMulticastCreate(&group, &fd), CU_NOT_SUPPORTED);
    ck_assert_int_eq(cuMulticastCreate(NULL, &fd), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMulticastGetGranularity(&bytes, &fd, 0), CU_NOT_SUPPORTED);
    ck_assert_int_eq(cuMulticastGetGranularity(&bytes, &fd, 7), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMulticastAddDevice(group, 0), CU_NOT_SUPPORTED);
    ck_assert_int_eq(cuMulticastAddDevice(group, 1), CU_INVALID_DEVICE);
    ck_assert_int_eq(cuMulticastBindMem(group, 0, handle, 0, GRANULE, 0), CU_NOT_SUPPORTED);
    ck_assert_int_eq(cuMulticastBindMem(group, 0, 0, 0, GRANULE, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMulticastBindAddr(group, 0, at, GRANULE, 0), CU_NOT_SUPPORTED);
    ck_assert_int_eq(cuMulticastBindAddr(group, 0, at, 0, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMulticastUnbind(group, 0, 0, GRANULE), CU_NOT_SUPPORTED);
    ck_assert_int_eq(cuMulticastUnbind(group, -1, 0, GRANULE), CU_INVALID_DEVICE);
    ck_ok(cuMemRelease(handle));
    world_unmap(at, 1);
    world_end();
    world_begin("profile:old_driver");
    ck_assert_int_eq(cuMulticastCreate(&group, &fd), CU_NOT_FOUND);
}
END_TEST

START_TEST(no_stream_waits_for_a_value)
{
    int operations[48];
    cu_devptr at;
    ck_ok(cuMemAlloc_v2(&at, BYTES));
    ck_assert_int_eq(cuStreamWaitValue32_v2(NULL, at, 1, 0), CU_NOT_SUPPORTED);
    ck_assert_int_eq(cuStreamWaitValue32_v2(NULL, at + 1, 1, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuStreamWaitValue64_v2(NULL, at, 1, 0), CU_NOT_SUPPORTED);
    ck_assert_int_eq(cuStreamWaitValue64_v2(NULL, at + 4, 1, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuStreamBatchMemOp_v2(NULL, 1, operations, 0), CU_NOT_SUPPORTED);
    ck_assert_int_eq(cuStreamBatchMemOp_v2(NULL, 257, operations, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuStreamBatchMemOp_v2(NULL, 1, NULL, 0), CU_INVALID_VALUE);
    ck_ok(cuMemFree_v2(at));
}
END_TEST

/* ---- names ----------------------------------------------------------------------------------- */

static void *find(const char *name, int version, int expected)
{
    void *found = &found;
    int status = 77;
    cu_result result = cuGetProcAddress_v2(name, &found, version, 0, &status);
    ck_assert_int_eq(result, expected == 0 ? CU_SUCCESS : CU_NOT_FOUND);
    ck_assert_int_eq(status, expected);
    ck_assert_int_eq(found != NULL, expected == 0);
    return found;
}

START_TEST(every_entry_point_is_found_by_its_name)
{
    for (int i = 0; i < SIM_N_CU_ENTRIES; i++) {
        find(sim_entry_symbol((sim_entry)i), VERSION, 0);
    }
    void *found = find("cuMemCreate", VERSION, 0);
    cu_result (*made)(cu_mem_handle *, size_t, const cu_mem_prop *, unsigned long long);
    memcpy(&made, &found, sizeof(made));
    ck_assert(made == cuMemCreate);
    ck_ok(cuGetProcAddress("cuMemCreate", &found, VERSION, 0));
    ck_assert(memcmp(&made, &found, sizeof(made)) == 0);
}
END_TEST

START_TEST(the_version_that_a_program_knows_is_found)
{
    cu_result (*second)(cu_context *, unsigned, cu_device) = cuCtxCreate_v2;
    cu_result (*third)(cu_context *, const void *, int, unsigned, cu_device) = cuCtxCreate_v3;
    cu_result (*fourth)(cu_context *, const void *, unsigned, cu_device) = cuCtxCreate_v4;
    void *found = find("cuCtxCreate", 11020, 0);
    ck_assert(memcmp(&found, &second, sizeof(found)) == 0);
    found = find("cuCtxCreate", 12000, 0);
    ck_assert(memcmp(&found, &third, sizeof(found)) == 0);
    found = find("cuCtxCreate", VERSION, 0);
    ck_assert(memcmp(&found, &fourth, sizeof(found)) == 0);
}
END_TEST

START_TEST(a_name_without_an_entry_point_is_not_found)
{
    void *found;
    find("cuMemCreat", VERSION, 1);
    find("pleat_sim_work", VERSION, 1);
    find("cuMemCreate", 1000, 2);
    ck_assert_int_eq(cuGetProcAddress_v2(NULL, &found, VERSION, 0, NULL), CU_INVALID_VALUE);
    ck_assert_int_eq(cuGetProcAddress_v2("cuInit", NULL, VERSION, 0, NULL), CU_INVALID_VALUE);
    ck_assert_int_eq(cuGetProcAddress_v2("cuInit", &found, VERSION, 8, NULL), CU_INVALID_VALUE);
    world_end();
    world_begin("profile:old_driver,without:[cuMemCreate]");
    find("cuMemCreate", VERSION, 1);
    find("cuStreamGetId", VERSION, 1);
    find("cuMemMap", VERSION, 0);
}
END_TEST

/* The users' page names every entry point. */
START_TEST(the_page_lists_every_entry_point)
{
    enum { MOST = 1 << 16 };
    FILE *file = fopen(PLEAT_SOURCE_DIR "/docs/simulator.md", "r");
    ck_assert_ptr_nonnull(file);
    char *text = calloc(1, MOST);
    size_t n = fread(text, 1, MOST - 1, file);
    fclose(file);
    ck_assert_uint_lt(n, MOST - 1);
    for (int i = 0; i < SIM_N_CU_ENTRIES; i++) {
        char name[64];
        snprintf(name, sizeof(name), "`%s`", sim_entry_symbol((sim_entry)i));
        ck_assert_msg(strstr(text, name) != NULL, "docs/simulator.md does not name %s", name);
    }
    free(text);
}
END_TEST

SUITE(sim_offer)
{
    TCase *copies = tcase_create("copies");
    tcase_add_checked_fixture(copies, with_contents, world_end);
    tcase_add_test(copies, a_plain_copy_is_over_when_it_returns);
    tcase_add_test(copies, a_plain_copy_comes_after_blocking_streams);
    tcase_add_test(copies, bad_copies_are_refused);
    tcase_add_test(copies, a_plain_copy_invalidates_a_capture);
    tcase_add_test(copies, values_of_both_widths_are_written_in_order);
    suite_add_tcase(suite, copies);
    TCase *others = tcase_create("others");
    tcase_add_checked_fixture(others, world_default, world_end);
    tcase_add_test(others, what_a_device_lacks_is_refused_after_its_arguments);
    tcase_add_test(others, no_stream_waits_for_a_value);
    tcase_add_test(others, every_entry_point_is_found_by_its_name);
    tcase_add_test(others, the_version_that_a_program_knows_is_found);
    tcase_add_test(others, a_name_without_an_entry_point_is_not_found);
    tcase_add_test(others, the_page_lists_every_entry_point);
    suite_add_tcase(suite, others);
}
