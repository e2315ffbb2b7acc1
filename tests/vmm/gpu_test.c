/* gpu_test.c - the assumptions of vmm on a real GPU. Skipped (77) without a GPU. */
/* labels: gpu */
/* alone: a context of a real driver does not survive Check's forks */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/chunk.h"
#include "vmm/driver.h"
#include "vmm/mapping.h"
#include "vmm/range.h"
#include "vmm/streams/stream.h"
#include "vmm/tools/measure/measure.h"

#define GIB ((size_t)1 << 30)

enum { N_CHUNKS = 8 };

static pl_driver *drv;
static pl_device *dev;

static void open_device(void)
{
    ck_assert_int_eq(pl_device_open(drv, 0, NULL, &dev), PLEAT_OK);
}

static void close_device(void)
{
    ck_assert_uint_eq(pl_device_counted(dev).n_undo_failures, 0);
    ck_assert_uint_eq(pl_device_close(dev), 0);
}

static cu_stream create_stream(void)
{
    cu_stream stream = NULL;
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_create(drv, &stream, CU_STREAM_NON_BLOCKING_FLAG), CU_SUCCESS);
    pl_device_leave(dev);
    return stream;
}

static void destroy_stream(cu_stream stream)
{
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_destroy(drv, stream), CU_SUCCESS);
    pl_device_leave(dev);
}

START_TEST(the_probe_agrees_with_the_device)
{
    char why[200];
    pleat_status st = pl_device_probe(dev, why, sizeof(why));
    ck_assert_msg((st == PLEAT_OK) == pl_device_has_vmm(dev), "%s", why);
    ck_assert_uint_ge(pl_device_granule_bytes(dev), 4096);
    ck_assert_uint_gt(pl_device_total_bytes(dev), 0);
}
END_TEST

START_TEST(a_run_over_several_chunks_can_be_written_and_read)
{
    pl_range range;
    pl_chunk chunks[N_CHUNKS];
    unsigned char seen[2] = { 0, 0 };
    size_t bytes = pl_device_chunk_bytes(dev);
    pl_stream *stream = NULL;
    cu_stream handle = create_stream();
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_OK);
    ck_assert_int_eq(pl_range_reserve(dev, 64 * GIB, N_CHUNKS * bytes, &range), PLEAT_OK);
    for (int i = 0; i < N_CHUNKS; i++) {
        ck_assert_int_eq(pl_chunk_create(dev, &chunks[i]), PLEAT_OK);
    }
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, N_CHUNKS), PLEAT_OK);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_memset_async(drv, range.base, 0xA5, N_CHUNKS * bytes, handle),
                     CU_SUCCESS);
    ck_assert_int_eq(pl_cu_memcpy_dtoh_async(drv, seen, range.base + bytes - 1, 2, handle),
                     CU_SUCCESS);
    pl_device_leave(dev);
    ck_assert_int_eq(pl_stream_synchronize(stream), PLEAT_OK);
    ck_assert_uint_eq(seen[0], 0xA5);
    ck_assert_uint_eq(seen[1], 0xA5);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, N_CHUNKS * bytes), PLEAT_OK);
    for (int i = 0; i < N_CHUNKS; i++) {
        ck_assert_int_eq(pl_chunk_release(dev, chunks[i]), PLEAT_OK);
    }
    ck_assert_int_eq(pl_range_release(dev, range), PLEAT_OK);
    destroy_stream(handle);
}
END_TEST

START_TEST(more_addresses_than_there_are_is_no_lack_of_memory)
{
    pl_range range;
    pl_device *wide = NULL;
    pl_device_options options = { .address_budget_bytes = UINT64_MAX };
    ck_assert_int_eq(pl_device_open(drv, 0, &options, &wide), PLEAT_OK);
    ck_assert_int_eq(pl_range_reserve(wide, GIB << 20, GIB << 20, &range), PLEAT_ENOSPACE_VA);
    ck_assert_int_eq(pl_range_reserve(wide, GIB << 20, GIB, &range), PLEAT_OK);
    ck_assert_uint_lt(range.bytes, GIB << 20);
    ck_assert_int_eq(pl_range_release(wide, range), PLEAT_OK);
    ck_assert_uint_eq(pl_device_close(wide), 0);
}
END_TEST

START_TEST(streams_keep_their_identity_and_fences_pass)
{
    pl_stream *stream = NULL;
    pl_stream *again = NULL;
    pl_stream *legacy = NULL;
    pl_stream *own = NULL;
    pl_fence *fence = NULL;
    cu_stream handle = create_stream();
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_OK);
    ck_assert_int_eq(pl_stream_get(dev, handle, &again), PLEAT_OK);
    ck_assert_int_eq(pl_stream_get(dev, NULL, &legacy), PLEAT_OK);
    ck_assert_int_eq(pl_stream_get(dev, CU_STREAM_PER_THREAD, &own), PLEAT_OK);
    ck_assert_ptr_eq(stream, again);
    ck_assert_uint_eq(pl_stream_count(dev), 3);
    pl_stream *streams[] = { stream, legacy, own };
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pl_fence_record(streams[i], &fence), PLEAT_OK);
        ck_assert_int_eq(pl_fence_order(streams[(i + 1) % 3], fence), PLEAT_OK);
        ck_assert_int_eq(pl_fence_wait(fence, i == 0 ? 10000 : UINT32_MAX), PLEAT_OK);
        pl_fence_return(fence);
    }
    destroy_stream(handle);
}
END_TEST

static void *get_in_another_thread(void *handle)
{
    pl_stream *stream = NULL;
    return pl_stream_get(dev, handle, &stream) == PLEAT_OK ? stream : NULL;
}

/* On some drivers, found by CCCL, a query for the id of a captured stream breaks the capture. */
START_TEST(a_capture_survives_being_asked_who_its_stream_is)
{
    pl_stream *streams[3] = { NULL };
    void *seen = NULL;
    pthread_t thread;
    cu_graph graph = NULL;
    cu_stream handles[3] = { create_stream(), create_stream(), create_stream() };
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    for (int is_known = 0; is_known < 2; is_known++) {
        ck_assert_int_eq(pl_cu_stream_begin_capture(drv, handles[0], CU_CAPTURE_MODE_GLOBAL),
                         CU_SUCCESS);
        ck_assert_int_eq(pl_stream_get(dev, handles[0], &streams[0]), PLEAT_OK);
        ck_assert_int_eq(pl_stream_get(dev, handles[1], &streams[1]), PLEAT_OK);
        ck_assert_int_eq(pthread_create(&thread, NULL, get_in_another_thread, handles[2]), 0);
        ck_assert_int_eq(pthread_join(thread, &seen), 0);
        ck_assert_ptr_nonnull(seen);
        ck_assert_int_eq(pl_cu_stream_end_capture(drv, handles[0], &graph), CU_SUCCESS);
        ck_assert_int_eq(pl_cu_graph_destroy(drv, graph), CU_SUCCESS);
        ck_assert_int_eq(pl_stream_get(dev, handles[0], &streams[2]), PLEAT_OK);
        ck_assert_ptr_eq(streams[2], streams[0]);
        ck_assert_uint_eq(pl_stream_count(dev), 3);
    }
    pl_device_leave(dev);
    for (int i = 0; i < 3; i++) {
        destroy_stream(handles[i]);
    }
}
END_TEST

START_TEST(a_capture_elsewhere_is_not_harmed)
{
    pl_stream *captured = NULL;
    pl_stream *other = NULL;
    pl_fence *fence = NULL;
    pleat_devptr ptr;
    cu_graph graph = NULL;
    bool passed = false;
    bool is_capturing = false;
    cu_stream handles[2] = { create_stream(), create_stream() };
    ck_assert_int_eq(pl_stream_get(dev, handles[0], &captured), PLEAT_OK);
    ck_assert_int_eq(pl_stream_get(dev, handles[1], &other), PLEAT_OK);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_begin_capture(drv, handles[0], CU_CAPTURE_MODE_GLOBAL),
                     CU_SUCCESS);
    ck_assert_int_eq(pl_stream_is_capturing(captured, &is_capturing), PLEAT_OK);
    ck_assert(is_capturing);
    ck_assert_int_eq(pl_fence_record(captured, &fence), PLEAT_ECAPTURE);
    ck_assert_int_eq(pl_fence_record(other, &fence), PLEAT_OK);
    ck_assert_int_eq(pl_fence_query(fence, &passed), PLEAT_OK);
    ck_assert_int_eq(pl_fence_order(captured, fence),
                     passed ? PLEAT_OK : PLEAT_ECAPTURE); /* what has passed needs no order */
    ck_assert_int_eq(pl_device_malloc(dev, 4096, &ptr), PLEAT_OK);
    ck_assert_int_eq(pl_device_mfree(dev, ptr), PLEAT_OK);
    pl_fence_return(fence);
    ck_assert_int_eq(pl_cu_stream_end_capture(drv, handles[0], &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(drv, graph), CU_SUCCESS);
    pl_device_leave(dev);
    destroy_stream(handles[0]);
    destroy_stream(handles[1]);
}
END_TEST

START_TEST(measuring_ends_in_time_with_coherent_aliases)
{
    static pl_measure_report report;
    pl_measure_options options = { .most_bytes = 2 * GIB, .most_seconds = 60 };
    pleat_status st = pl_measure_run(dev, &options, &report);
    ck_assert_msg(st == PLEAT_OK, "%s", report.note);
    ck_assert_double_lt(report.elapsed_s, 120.0);
    ck_assert_uint_gt(report.n_rows, 50);
    ck_assert_int_eq(report.aliases_coherent, PL_MEASURE_YES);
}
END_TEST

static Suite *gpu_suite(void)
{
    Suite *suite = suite_create("gpu");
    TCase *memory = tcase_create("memory");
    tcase_add_checked_fixture(memory, open_device, close_device);
    tcase_add_test(memory, the_probe_agrees_with_the_device);
    tcase_add_test(memory, a_run_over_several_chunks_can_be_written_and_read);
    tcase_add_test(memory, more_addresses_than_there_are_is_no_lack_of_memory);
    suite_add_tcase(suite, memory);
    TCase *streams = tcase_create("streams");
    tcase_add_checked_fixture(streams, open_device, close_device);
    tcase_add_test(streams, streams_keep_their_identity_and_fences_pass);
    tcase_add_test(streams, a_capture_survives_being_asked_who_its_stream_is);
    tcase_add_test(streams, a_capture_elsewhere_is_not_harmed);
    suite_add_tcase(suite, streams);
    TCase *measuring = tcase_create("measuring");
    tcase_add_checked_fixture(measuring, open_device, close_device);
    tcase_add_test(measuring, measuring_ends_in_time_with_coherent_aliases);
    suite_add_tcase(suite, measuring);
    return suite;
}

int main(void)
{
    int count = 0;
    if (pl_driver_open(PL_DRIVER_CUDA, NULL, &drv) != PLEAT_OK ||
        pl_cu_device_count(drv, &count) != CU_SUCCESS || count == 0) {
        pl_driver_close(drv);
        return 77;
    }
    SRunner *runner = srunner_create(gpu_suite());
    srunner_set_fork_status(runner, CK_NOFORK); /* a context does not survive fork */
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    pl_driver_close(drv);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
