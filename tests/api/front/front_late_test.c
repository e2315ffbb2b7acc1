/* front_late_test.c - "late" blocks: freed by a thread, and turned into free memory in the thread's
 * next request (segments/base/fronts.h). No caller takes a late block for live. */
/* labels: unit */
#include <check.h>

#include "api/calls/internal.h"
#include "api/instance/front.h"
#include "tests/support/api/api_figures.h"
#include "tests/support/api/api_hands.h"
#include "tests/support/suite.h"
#include "vmm/driver.h"

enum { MIB = 1 << 20 };

/* A walk behind the lock empties all fronts. */
#if PLEAT_DEBUG_LEVEL >= 2
enum { IS_WALKED = 1 };
#else
enum { IS_WALKED = 0 };
#endif

static unsigned late_here(void)
{
    unsigned n = 0;
    for (unsigned i = 0; pl_fronts_self && i < PL_FRONTS_OF_THREAD; i++) {
        n += atomic_load(&pl_fronts_self->front[i].n_late);
    }
    return n;
}

/* A late block is free for every caller, and for the thread's own next request. */
START_TEST(large_blocks_are_freed_late_and_once)
{
    pleat_devptr ptrs[PL_FRONT_LATE + 2];
    size_t n = sizeof ptrs / sizeof ptrs[0];
    pleat instance = api_make(API_PLEAT, "capacity:256M", "");
    for (size_t i = 0; i < n; i++) {
        ptrs[i] = api_alloc(instance, 0, (i + 1) * MIB, NULL);
    }
    pleat_stats before = api_stats(instance, 0);
    for (size_t i = 0; i < n; i++) {
        api_free(instance, 0, ptrs[i], NULL);
        if (!IS_WALKED) { /* when a block finds no place, all late blocks become free memory */
            ck_assert_uint_eq(late_here(), i < PL_FRONT_LATE ? i + 1 : i - PL_FRONT_LATE);
        }
    }
    ck_assert_int_eq(pleat_block_free(instance, 0, ptrs[n - 1], NULL), PLEAT_EDOUBLEFREE);
    pleat_stats after = api_stats(instance, 0);
    ck_assert_uint_eq(late_here(), 0);
    ck_assert_uint_eq(after.allocation[0].freed, before.allocation[0].freed + n);
    ck_assert_uint_eq(after.allocated_bytes[0].current, 0);
    ck_assert_uint_eq(after.allocated_bytes[0].peak, before.allocated_bytes[0].peak);
    ck_assert_uint_eq(api_alloc(instance, 0, n * (n + 1) / 2 * MIB, NULL), ptrs[0]);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
}
END_TEST

/* The thread that freed the block late makes no further call. */
START_TEST(a_request_in_need_gets_what_another_thread_has_freed_late)
{
    api_hand hand;
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    api_hand_open(&hand);
    pleat_devptr small = api_hand_alloc(&hand, instance, 3000, NULL);
    pleat_devptr large = api_hand_alloc(&hand, instance, 40 * MIB, NULL);
    api_hand_free(&hand, instance, large, NULL);
    pleat_devptr mine = api_alloc(instance, 0, 40 * MIB, NULL);
    api_free(instance, 0, mine, NULL);
    api_hand_free(&hand, instance, small, NULL);
    api_hand_close(&hand);
    api_unmake(instance);
}
END_TEST

/* A late block counts as freed before a later request can lift the peak. */
START_TEST(late_blocks_lift_no_peak)
{
    api_hand hand;
    pleat instance = api_make(API_PLEAT, "capacity:256M", "");
    pleat_devptr small = api_alloc(instance, 0, 3000, NULL);
    pleat_devptr large = api_alloc(instance, 0, 32 * MIB, NULL);
    pleat_devptr spare = api_alloc(instance, 0, 24 * MIB, NULL);
    pleat_devptr wall = api_alloc(instance, 0, 3 * MIB, NULL);
    api_free(instance, 0, spare, NULL); /* resident, so it serves a request alone */
    ck_assert_int_eq(pleat_device_reset_peaks(instance, 0), PLEAT_OK);
    uint64_t peak = api_stats(instance, 0).allocated_bytes[0].peak;
    api_free(instance, 0, large, NULL);
    api_hand_open(&hand);
    ck_assert_uint_eq(api_hand_alloc(&hand, instance, 24 * MIB, NULL), spare);
    ck_assert_uint_eq(late_here(), IS_WALKED ? 0 : 1);
    api_hand_close(&hand);
    ck_assert_uint_eq(api_stats(instance, 0).allocated_bytes[0].peak, peak);
    api_free(instance, 0, spare, NULL);
    api_free(instance, 0, wall, NULL);
    api_free(instance, 0, small, NULL);
    api_unmake(instance);
}
END_TEST

/* The block and all late ones are freed on the device and stream named in the call. */
START_TEST(what_finds_no_place_in_a_front_goes_where_the_call_says)
{
    enum { DEVICE = 1, N = PL_FRONT_LATE + 2 };
    pleat_devptr ptrs[N];
    pleat instance = api_make(API_PLEAT, "capacity:256M,devices:2",
                              "stream_identity:handle,capture:told");
    void *stream = api_stream(instance, DEVICE);
    for (size_t i = 0; i < N; i++) {
        ptrs[i] = api_alloc(instance, DEVICE, (i + 1) * MIB, stream);
    }
    int wrong = DEVICE + (1 << 15);
    ck_assert_int_eq(pleat_block_free(instance, wrong, ptrs[0], stream), PLEAT_EDEVICE);
    for (size_t i = 0; i < N; i++) {
        api_free(instance, DEVICE, ptrs[i], stream);
    }
    ck_assert_int_eq(pleat_block_free(instance, wrong, ptrs[0], stream), PLEAT_EDEVICE);
    pleat_stats stats = api_stats(instance, DEVICE);
    ck_assert_uint_eq(stats.allocated_bytes[0].current, 0);
    ck_assert_uint_eq(stats.active_bytes[0].current, 0); /* no second stream has used them */
    pleat_devptr all = api_alloc(instance, DEVICE, (size_t)N * (N + 1) / 2 * MIB, stream);
    ck_assert_uint_eq(all, ptrs[0]);
    api_free(instance, DEVICE, all, stream);
    api_stream_end(instance, DEVICE, stream);
    api_unmake(instance);
}
END_TEST

/* An invalid handle may equal the key of an unbound front. It must not lead to such a front. */
START_TEST(a_handle_of_no_stream_leads_to_no_front)
{
    void *none = (void *)UINTPTR_MAX;
    pleat_devptr ptr = 0;
    pleat instance = api_make(API_PLEAT, "capacity:64M", "front:off");
    pleat_devptr block = api_alloc(instance, 0, 3000, NULL);
    ck_assert_uint_eq(atomic_load(&pl_caller_self.front->key), 0);
    ck_assert_int_ne(pleat_block_alloc(instance, 0, 3000, none, &ptr), PLEAT_OK);
    ck_assert_int_ne(pleat_block_free(instance, 0, block, none), PLEAT_OK);
    ck_assert_uint_eq(ptr, 0);
    api_free(instance, 0, block, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- of other streams ------------------------------------------------------------------------ */

/* Large frees of a young stream record events. Between calls that name a stream, its thread may
 * destroy or capture the stream. So only the next call that names the stream may record an event on
 * it. */
START_TEST(a_late_free_records_no_event_in_a_call_for_another_stream)
{
    pleat instance = api_make(API_PLEAT, "capacity:256M,depth:1048576",
                              "stream_identity:handle,capture:told");
    enum { N_STREAMS = PL_FRONTS_OF_THREAD + 1 };
    void *streams[N_STREAMS];
    for (unsigned i = 0; i < N_STREAMS; i++) {
        streams[i] = api_stream(instance, 0);
    }
    for (unsigned i = 2; i < N_STREAMS; i++) { /* leaves no place for the second stream */
        api_free(instance, 0, api_alloc(instance, 0, 3000, streams[i]), streams[i]);
    }
    pleat_devptr live = api_alloc(instance, 0, 3000, streams[0]);
    pleat_devptr large = api_alloc(instance, 0, 8 * MIB, streams[0]);
    pleat_devptr small = api_alloc(instance, 0, 3000, streams[1]);
    api_free(instance, 0, large, streams[0]);
    ck_assert_uint_eq(late_here(), 1);
    uint64_t n_recorded = sim.n_calls("cuEventRecord");
    pleat_devptr other = api_alloc(instance, 0, 3000, streams[1]);
    ck_assert_uint_eq(late_here(), 0);
    ck_assert_uint_eq(sim.n_calls("cuEventRecord"), n_recorded);
    api_free(instance, 0, other, streams[1]);
    api_free(instance, 0, live, streams[0]);
    api_free(instance, 0, small, streams[1]);
    for (unsigned i = 0; i < N_STREAMS; i++) {
        ck_assert_int_eq(pleat_stream_retire(instance, 0, streams[i]), PLEAT_OK);
        api_stream_end(instance, 0, streams[i]);
    }
    api_unmake(instance);
}
END_TEST

/* The capture is of a stream that pleat does not know. */
START_TEST(a_late_free_breaks_no_capture)
{
    void *captured = NULL;
    cu_graph graph = NULL;
    pleat instance = api_make(API_PLEAT, "capacity:256M,depth:1048576", "");
    void *stream = api_stream(instance, 0);
    pl_device *dev = pleat_internal_device(instance, 0);
    pleat_devptr small = api_alloc(instance, 0, 3000, stream);
    pleat_devptr spare = api_alloc(instance, 0, 3000, stream);
    pleat_devptr large = api_alloc(instance, 0, 8 * MIB, NULL);
    api_free(instance, 0, spare, stream);
    api_free(instance, 0, large, NULL);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    pl_driver *drv = pl_device_driver(dev);
    ck_assert_int_eq(pl_cu_stream_create(drv, (void *)&captured, CU_STREAM_DEFAULT_FLAG), 0);
    ck_assert_int_eq(pl_cu_stream_begin_capture(drv, captured, CU_CAPTURE_MODE_RELAXED), 0);
    spare = api_alloc(instance, 0, 3000, stream);
    ck_assert_int_eq(pl_cu_stream_end_capture(drv, captured, &graph), 0);
    ck_assert_int_eq(pl_cu_graph_destroy(drv, graph), 0);
    ck_assert_int_eq(pl_cu_stream_destroy(drv, captured), 0);
    pl_device_leave(dev);
    ck_assert_uint_eq(late_here(), 0);
    api_free(instance, 0, spare, stream);
    api_free(instance, 0, small, stream);
    api_stream_end(instance, 0, stream);
    api_unmake(instance);
}
END_TEST

SUITE(api_front_late)
{
    TCase *late = suite_case(suite, "late", api_sim_load, NULL);
    tcase_add_test(late, large_blocks_are_freed_late_and_once);
    tcase_add_test(late, a_request_in_need_gets_what_another_thread_has_freed_late);
    tcase_add_test(late, late_blocks_lift_no_peak);
    tcase_add_test(late, what_finds_no_place_in_a_front_goes_where_the_call_says);
    tcase_add_test(late, a_handle_of_no_stream_leads_to_no_front);
    TCase *streams = suite_case(suite, "other streams", api_sim_load, NULL);
    tcase_add_test(streams, a_late_free_records_no_event_in_a_call_for_another_stream);
    tcase_add_test(streams, a_late_free_breaks_no_capture);
}
