/* fence_test.c - fences: passing, waits, orders, captures, streams out of reach, faults. */
/* labels: unit fault */
#include <check.h>
#include <pthread.h>

#include "tests/support/suite.h"
#include "tests/support/vmm/vmm_sim.h"
#include "vmm/streams/stream.h"

enum { N_MANY = 70 };

static vmm_sim sim;
static pl_device *dev;
static cu_stream handles[2];
static pl_stream *streams[2];

static void open_all(void)
{
    vmm_sim_open(&sim, "devices:2,capacity:1G");
    dev = vmm_sim_device(&sim, NULL);
    for (int i = 0; i < 2; i++) {
        handles[i] = vmm_sim_stream(dev, true);
        ck_assert_int_eq(pl_stream_get(dev, handles[i], &streams[i]), PLEAT_OK);
    }
}

static void close_all(void)
{
    sim.fail_never();
    for (int i = 0; i < 2; i++) {
        if (handles[i] != NULL) {
            vmm_sim_destroy_stream(dev, handles[i]);
        }
    }
    vmm_sim_close_device(dev);
    vmm_sim_close(&sim);
}

/* Returns a fence behind unfinished work. */
static pl_fence *fence_behind_work(int i)
{
    pl_fence *fence = NULL;
    vmm_sim_submit(&sim, dev, handles[i]);
    ck_assert_int_eq(pl_fence_record(streams[i], &fence), PLEAT_OK);
    return fence;
}

static bool query(pl_fence *fence)
{
    bool passed = false;
    ck_assert_int_eq(pl_fence_query(fence, &passed), PLEAT_OK);
    return passed;
}

/* ---- pass ------------------------------------------------------------------------------------ */

START_TEST(a_fence_passes_when_the_work_before_it_is_over)
{
    pl_fence *fence = fence_behind_work(0);
    ck_assert_ptr_eq(pl_fence_stream(fence), streams[0]);
    ck_assert(!query(fence));
    ck_assert(!query(fence));
    sim.finish();
    ck_assert(query(fence));
    pl_fence_return(fence);
}
END_TEST

START_TEST(a_passed_fence_is_not_asked_again)
{
    pl_fence *fence = fence_behind_work(0);
    sim.finish();
    ck_assert(query(fence));
    uint64_t n_calls = vmm_sim_counted(&sim).calls;
    ck_assert(query(fence));
    ck_assert_int_eq(pl_fence_wait(fence, UINT32_MAX), PLEAT_OK);
    ck_assert_int_eq(pl_fence_order(streams[1], fence), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).calls, n_calls);
    ck_assert_uint_eq(pl_device_counted(dev).host_syncs, 0);
    ck_assert_uint_eq(pl_device_counted(dev).stream_waits, 0);
    pl_fence_return(fence);
}
END_TEST

START_TEST(events_are_created_once_and_used_again)
{
    for (int i = 0; i < 10; i++) {
        pl_fence *a = fence_behind_work(0);
        pl_fence *b = fence_behind_work(1);
        ck_assert(!query(a));
        pl_fence_return(a); /* returned before it has passed */
        pl_fence_return(b);
    }
    pl_fence_return(NULL);
    ck_assert_uint_eq(sim.n_calls("cuEventCreate"), 2);
    ck_assert_uint_eq(vmm_sim_counted(&sim).events, 2);
    sim.finish();
}
END_TEST

START_TEST(a_shared_fence_is_out_until_its_last_return)
{
    pl_fence *fence = fence_behind_work(0);
    pl_fence_share(fence, 2);
    pl_fence_return(fence);
    pl_fence_return(fence);
    pl_fence *other = fence_behind_work(1);
    ck_assert_ptr_ne(other, fence);
    ck_assert(!query(fence));
    sim.finish();
    ck_assert(query(fence));
    pl_fence_return(fence);
    ck_assert_ptr_eq(fence_behind_work(1), fence);
    pl_fence_return(fence);
    pl_fence_return(other);
}
END_TEST

START_TEST(a_reused_fence_has_forgotten_its_past)
{
    pl_fence *fence = fence_behind_work(0);
    sim.finish();
    ck_assert(query(fence));
    pl_fence_return(fence);
    pl_fence *again = fence_behind_work(1);
    ck_assert_ptr_eq(again, fence);
    ck_assert_ptr_eq(pl_fence_stream(again), streams[1]);
    ck_assert(!query(again));
    pl_fence_return(again);
    sim.finish();
}
END_TEST

START_TEST(many_fences_are_asked_for_the_price_of_one_entry)
{
    pl_fence *fences[N_MANY];
    bool passed[N_MANY];
    for (int i = 0; i < N_MANY; i++) {
        fences[i] = fence_behind_work(i % 2);
    }
    ck_assert_int_eq(pl_stream_synchronize(streams[1]), PLEAT_OK);
    uint64_t n_pushes = sim.n_calls("cuCtxPushCurrent");
    ck_assert_int_eq(pl_fence_query_many(fences, N_MANY, passed), PLEAT_OK);
    ck_assert_uint_eq(sim.n_calls("cuCtxPushCurrent"), n_pushes + 1);
    for (int i = 0; i < N_MANY; i++) {
        ck_assert_int_eq(passed[i], i % 2 == 1);
    }
    sim.finish();
    ck_assert_int_eq(pl_fence_query_many(fences, N_MANY, passed), PLEAT_OK);
    uint64_t n_calls = vmm_sim_counted(&sim).calls;
    ck_assert_int_eq(pl_fence_query_many(fences, N_MANY, passed), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).calls, n_calls);
    for (int i = 0; i < N_MANY; i++) {
        ck_assert(passed[i]);
        pl_fence_return(fences[i]);
    }
}
END_TEST

START_TEST(fences_work_with_any_context_current)
{
    pl_device *other = NULL;
    cu_context before = NULL;
    cu_context after = NULL;
    ck_assert_int_eq(pl_device_open(sim.drv, 1, NULL, &other), PLEAT_OK);
    ck_assert_int_eq(pl_device_enter(other), PLEAT_OK);
    ck_assert_int_eq(pl_cu_ctx_get_current(sim.drv, &before), CU_SUCCESS);
    pl_fence *fence = fence_behind_work(0);
    ck_assert(!query(fence));
    ck_assert_int_eq(pl_fence_order(streams[1], fence), PLEAT_OK);
    ck_assert_int_eq(pl_fence_wait(fence, UINT32_MAX), PLEAT_OK);
    pl_fence_return(fence);
    ck_assert_int_eq(pl_cu_ctx_get_current(sim.drv, &after), CU_SUCCESS);
    ck_assert_ptr_eq(after, before);
    pl_device_leave(other);
    vmm_sim_close_device(other);
}
END_TEST

/* ---- wait and order -------------------------------------------------------------------------- */

START_TEST(a_wait_of_no_time_is_one_query)
{
    pl_fence *fence = fence_behind_work(0);
    ck_assert_int_eq(pl_fence_wait(fence, 0), PLEAT_EPENDING);
    ck_assert_uint_eq(pl_device_counted(dev).host_syncs, 0);
    ck_assert_uint_eq(sim.n_calls("cuEventSynchronize"), 0);
    sim.finish();
    ck_assert_int_eq(pl_fence_wait(fence, 0), PLEAT_OK);
    pl_fence_return(fence);
}
END_TEST

START_TEST(a_wait_blocks_until_the_fence_passes_and_is_counted)
{
    static const uint32_t waits[] = { 1, 1000, UINT32_MAX };
    for (int i = 0; i < 3; i++) {
        pl_fence *fence = fence_behind_work(0);
        ck_assert_int_eq(pl_fence_wait(fence, waits[i]), PLEAT_OK);
        ck_assert(query(fence));
        ck_assert_uint_eq(pl_device_counted(dev).host_syncs, (uint64_t)i + 1);
        pl_fence_return(fence);
    }
    ck_assert_uint_eq(vmm_sim_counted(&sim).unfinished_work, 0);
}
END_TEST

START_TEST(a_stream_that_was_ordered_runs_after_the_fence)
{
    cu_devptr ptr = 0;
    ck_assert_int_eq(pl_device_malloc(dev, 4096, (pleat_devptr *)&ptr), PLEAT_OK);
    pleat_sim_access access = { .ptr = ptr, .bytes = 4096, .is_write = true };
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(sim.work(handles[0], &access, 1), CU_SUCCESS);
    pl_fence *fence = NULL;
    ck_assert_int_eq(pl_fence_record(streams[0], &fence), PLEAT_OK);
    ck_assert_int_eq(pl_fence_order(streams[1], fence), PLEAT_OK);
    ck_assert_int_eq(sim.work(handles[1], &access, 1),
                     CU_SUCCESS); /* without this order the uses race */
    pl_device_leave(dev);
    ck_assert_uint_eq(pl_device_counted(dev).stream_waits, 1);
    pl_fence_return(fence);
    ck_assert_int_eq(pl_stream_synchronize(streams[1]), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).unfinished_work, 0);
    ck_assert_int_eq(pl_device_mfree(dev, ptr), PLEAT_OK);
}
END_TEST

START_TEST(a_stream_is_in_order_with_itself_without_a_call)
{
    pl_fence *fence = fence_behind_work(0);
    ck_assert_int_eq(pl_fence_order(streams[0], fence), PLEAT_OK);
    ck_assert_uint_eq(sim.n_calls("cuStreamWaitEvent"), 0);
    ck_assert_uint_eq(pl_device_counted(dev).stream_waits, 0);
    pl_fence_return(fence);
    sim.finish();
}
END_TEST

/* ---- captures -------------------------------------------------------------------------------- */

static void begin_capture(int i)
{
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_begin_capture(sim.drv, handles[i], CU_CAPTURE_MODE_GLOBAL),
                     CU_SUCCESS);
    pl_device_leave(dev);
}

/* Ends the capture, which must be intact. */
static void end_capture(int i)
{
    cu_graph graph = NULL;
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_end_capture(sim.drv, handles[i], &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(sim.drv, graph), CU_SUCCESS);
    pl_device_leave(dev);
}

START_TEST(a_captured_stream_takes_no_fence_and_no_order)
{
    pl_fence *fence = fence_behind_work(1);
    pl_fence *none = NULL;
    begin_capture(0);
    ck_assert_int_eq(pl_fence_record(streams[0], &none), PLEAT_ECAPTURE);
    ck_assert_ptr_null(none);
    ck_assert_int_eq(pl_fence_order(streams[0], fence), PLEAT_ECAPTURE);
    end_capture(0);
    pl_fence_return(fence);
    sim.finish();
}
END_TEST

START_TEST(the_legacy_stream_takes_no_fence_while_that_would_break_a_capture)
{
    pl_stream *legacy = NULL;
    pl_fence *fence = NULL;
    ck_assert_int_eq(pl_stream_get(dev, NULL, &legacy), PLEAT_OK);
    begin_capture(0);
    ck_assert_int_eq(pl_fence_record(legacy, &fence), PLEAT_ECAPTURE);
    end_capture(0);
    ck_assert_int_eq(pl_fence_record(legacy, &fence), PLEAT_OK);
    pl_fence_return(fence);
}
END_TEST

START_TEST(a_fence_of_the_context_is_behind_every_stream)
{
    pl_fence *fence = NULL;
    vmm_sim_submit(&sim, dev, handles[0]);
    vmm_sim_submit(&sim, dev, handles[1]);
    ck_assert_int_eq(pl_fence_record_context(dev, &fence), PLEAT_OK);
    ck_assert_int_eq(pl_stream_synchronize(streams[0]), PLEAT_OK);
    ck_assert(!query(fence));
    ck_assert_int_eq(pl_stream_synchronize(streams[1]), PLEAT_OK);
    ck_assert(query(fence));
    pl_fence_return(fence);
}
END_TEST

/* The legacy stream reports this capture. So no call needs to name the captured stream before. */
START_TEST(a_fence_of_the_context_leaves_the_capture_of_a_blocking_stream_alone)
{
    pl_fence *fence = NULL;
    begin_capture(0);
    ck_assert_int_eq(pl_fence_record_context(dev, &fence), PLEAT_ECAPTURE);
    ck_assert_uint_eq(sim.n_calls("cuCtxRecordEvent"), 0);
    end_capture(0);
    ck_assert_int_eq(pl_fence_record_context(dev, &fence), PLEAT_OK);
    pl_fence_return(fence);
}
END_TEST

START_TEST(fences_of_other_streams_go_on_during_a_global_capture)
{
    pl_fence *fence = fence_behind_work(1);
    begin_capture(0);
    ck_assert(!query(fence));
    ck_assert_int_eq(pl_fence_wait(fence, UINT32_MAX), PLEAT_OK);
    pl_fence_return(fence);
    fence = fence_behind_work(1);
    ck_assert(!query(fence));
    end_capture(0);
    pl_fence_return(fence);
    sim.finish();
}
END_TEST

/* ---- streams out of a thread's reach --------------------------------------------------------- */

static void destroy_first(void)
{
    vmm_sim_destroy_stream(dev, handles[0]);
    handles[0] = NULL;
}

START_TEST(a_fence_outlives_its_stream)
{
    pl_fence *fence = fence_behind_work(0);
    destroy_first();
    ck_assert(!query(fence));
    sim.finish();
    ck_assert(query(fence));
    pl_fence_return(fence);
}
END_TEST

START_TEST(a_destroyed_streams_new_fence_passes_with_the_whole_device)
{
    pl_fence *fence = NULL;
    vmm_sim_submit(&sim, dev, handles[0]);
    destroy_first();
    ck_assert_int_eq(pl_fence_record(streams[0], &fence), PLEAT_OK);
    ck_assert_uint_eq(sim.n_calls("cuEventRecord"), 0);
    ck_assert(!query(fence));
    ck_assert_int_eq(pl_fence_wait(fence, 0), PLEAT_EPENDING);
    ck_assert_int_eq(pl_fence_order(streams[1], fence), PLEAT_ESTREAM);
    ck_assert_int_eq(pl_fence_wait(fence, 10), PLEAT_OK);
    ck_assert(query(fence));
    ck_assert_uint_eq(vmm_sim_counted(&sim).unfinished_work, 0);
    ck_assert_uint_eq(pl_device_counted(dev).host_syncs, 1);
    pl_fence_return(fence);
}
END_TEST

START_TEST(a_recycled_handle_is_not_taken_for_the_destroyed_stream)
{
    pl_fence *fence = NULL;
    cu_stream old = handles[0];
    vmm_sim_submit(&sim, dev, handles[0]);
    destroy_first();
    handles[0] = vmm_sim_stream(dev, true);
    ck_assert_ptr_eq(handles[0], old);
    ck_assert_int_eq(pl_fence_record(streams[0], &fence), PLEAT_OK);
    ck_assert_uint_eq(sim.n_calls("cuEventRecord"), 0);
    ck_assert(!query(fence));
    ck_assert_int_eq(pl_device_synchronize(dev), PLEAT_OK);
    ck_assert(query(fence));
    pl_fence_return(fence);
}
END_TEST

START_TEST(only_a_later_synchronisation_passes_a_whole_device_fence)
{
    pl_fence *fence = NULL;
    ck_assert_int_eq(pl_device_synchronize(dev), PLEAT_OK);
    destroy_first();
    ck_assert_int_eq(pl_fence_record(streams[0], &fence), PLEAT_OK);
    ck_assert(!query(fence));
    ck_assert_int_eq(pl_device_synchronize(dev), PLEAT_OK);
    ck_assert(query(fence));
    pl_fence_return(fence);
    ck_assert_int_eq(pl_fence_record(streams[0], &fence), PLEAT_OK);
    ck_assert(!query(fence));
    pl_fence_return(fence);
    fence = fence_behind_work(1); /* the same object as an ordinary fence */
    ck_assert(!query(fence));
    sim.finish();
    ck_assert(query(fence));
    pl_fence_return(fence);
}
END_TEST

typedef struct visitor {
    pl_stream *owners; /* the main thread's per-thread stream */
    pleat_status recorded;
    pleat_status waited;
    bool was_pending;
} visitor;

static void *visit(void *arg)
{
    visitor *v = arg;
    pl_fence *fence = NULL;
    v->recorded = pl_fence_record(v->owners, &fence);
    if (v->recorded == PLEAT_OK) {
        bool passed = true;
        v->waited = pl_fence_query(fence, &passed);
        v->was_pending = !passed;
        v->waited = v->waited == PLEAT_OK ? pl_fence_wait(fence, 10) : v->waited;
        pl_fence_return(fence);
    }
    return NULL;
}

START_TEST(another_threads_default_stream_is_fenced_by_the_whole_device)
{
    visitor v = { .owners = NULL };
    pthread_t thread;
    ck_assert_int_eq(pl_stream_get(dev, CU_STREAM_PER_THREAD, &v.owners), PLEAT_OK);
    vmm_sim_submit(&sim, dev, CU_STREAM_PER_THREAD);
    ck_assert_int_eq(pthread_create(&thread, NULL, visit, &v), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(v.recorded, PLEAT_OK);
    ck_assert(v.was_pending);
    ck_assert_int_eq(v.waited, PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).unfinished_work, 0);
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

/* Records, queries, orders and waits. */
static pleat_status play(void)
{
    pl_fence *fence = NULL;
    bool passed = false;
    pleat_status st = pl_fence_record(streams[0], &fence);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_fence_query(fence, &passed);
    if (st == PLEAT_OK) {
        st = pl_fence_order(streams[1], fence);
    }
    if (st == PLEAT_OK) {
        st = pl_fence_wait(fence, UINT32_MAX);
    }
    pl_fence_return(fence);
    return st;
}

START_TEST(any_single_fault_costs_that_call_only)
{
    uint64_t n_hit;
    uint64_t k = 0;
    unsigned n_failed = 0;
    do {
        vmm_sim_submit(&sim, dev, handles[0]);
        uint64_t before = sim.n_faults();
        sim.fail_at(NULL, k++, CU_UNKNOWN);
        n_failed += play() != PLEAT_OK ? 1 : 0;
        n_hit = sim.n_faults() - before;
        sim.fail_never();
        cu_context current = NULL;
        ck_assert_int_eq(pl_cu_ctx_get_current(sim.drv, &current), CU_SUCCESS);
        ck_assert_ptr_null(current);
        ck_assert_int_eq(play(), PLEAT_OK);
    } while (n_hit > 0);
    ck_assert_uint_ge(n_failed, 5);
    ck_assert_uint_le(vmm_sim_counted(&sim).events, 1);
    sim.finish();
}
END_TEST

START_TEST(each_call_of_a_fence_can_fail_and_says_so)
{
    static const char *const calls[] = { "cuCtxPushCurrent",  "cuThreadExchangeStreamCaptureMode",
                                         "cuStreamGetId",     "cuStreamIsCapturing",
                                         "cuEventRecord",     "cuEventQuery",
                                         "cuStreamWaitEvent", "cuEventSynchronize" };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        vmm_sim_submit(&sim, dev, handles[0]);
        sim.fail_at(calls[i], 0, CU_OUT_OF_MEMORY);
        ck_assert_msg(play() == PLEAT_EDRIVER, "%s", calls[i]);
        sim.fail_never();
        ck_assert_int_eq(play(), PLEAT_OK);
    }
    sim.finish();
}
END_TEST

START_TEST(an_event_that_failed_is_not_used_again)
{
    bool passed = false;
    pl_fence *fence = fence_behind_work(0);
    sim.fail_at("cuEventQuery", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_fence_query(fence, &passed), PLEAT_EDRIVER);
    sim.fail_never();
    uint64_t n_calls = sim.n_calls("cuEventDestroy");
    pl_fence_return(fence); /* may be in a hold of a lock: the driver is called later */
    ck_assert_uint_eq(sim.n_calls("cuEventDestroy"), n_calls);
    fence = fence_behind_work(0);
    ck_assert_uint_eq(sim.n_calls("cuEventCreate"), 2);
    ck_assert_uint_eq(vmm_sim_counted(&sim).events, 1);
    pl_fence_return(fence);
    sim.finish();
}
END_TEST

START_TEST(no_host_memory_for_a_fence_is_told_apart)
{
    pl_fence *fence = NULL;
    pl_meta_fail_at(0);
    ck_assert_int_eq(pl_fence_record(streams[0], &fence), PLEAT_ENOMEM_HOST);
    pl_meta_fail_never();
    ck_assert_ptr_null(fence);
    ck_assert_int_eq(pl_fence_record(streams[0], &fence), PLEAT_OK);
    pl_fence_return(fence);
}
END_TEST

START_TEST(events_that_cannot_be_destroyed_are_reported_at_close)
{
    pl_fence_return(fence_behind_work(0));
    sim.finish();
    for (int i = 0; i < 2; i++) {
        vmm_sim_destroy_stream(dev, handles[i]);
        handles[i] = NULL;
    }
    sim.fail_from("cuEventDestroy", 0, CU_UNKNOWN);
    ck_assert_uint_eq(pl_device_close(dev), 1);
    sim.fail_never();
    ck_assert_int_eq(sim.reset("devices:1"), 0);
    ck_assert_int_eq(pl_cu_init(sim.drv, 0), CU_SUCCESS);
    dev = vmm_sim_device(&sim, NULL);
}
END_TEST

SUITE(vmm_fence)
{
    TCase *pass = tcase_create("pass");
    tcase_add_checked_fixture(pass, open_all, close_all);
    tcase_add_test(pass, a_fence_passes_when_the_work_before_it_is_over);
    tcase_add_test(pass, a_passed_fence_is_not_asked_again);
    tcase_add_test(pass, events_are_created_once_and_used_again);
    tcase_add_test(pass, a_shared_fence_is_out_until_its_last_return);
    tcase_add_test(pass, a_reused_fence_has_forgotten_its_past);
    tcase_add_test(pass, many_fences_are_asked_for_the_price_of_one_entry);
    tcase_add_test(pass, fences_work_with_any_context_current);
    suite_add_tcase(suite, pass);
    TCase *wait = tcase_create("wait and order");
    tcase_add_checked_fixture(wait, open_all, close_all);
    tcase_add_test(wait, a_wait_of_no_time_is_one_query);
    tcase_add_test(wait, a_wait_blocks_until_the_fence_passes_and_is_counted);
    tcase_add_test(wait, a_stream_that_was_ordered_runs_after_the_fence);
    tcase_add_test(wait, a_stream_is_in_order_with_itself_without_a_call);
    suite_add_tcase(suite, wait);
    TCase *captures = tcase_create("captures");
    tcase_add_checked_fixture(captures, open_all, close_all);
    tcase_add_test(captures, a_captured_stream_takes_no_fence_and_no_order);
    tcase_add_test(captures, the_legacy_stream_takes_no_fence_while_that_would_break_a_capture);
    tcase_add_test(captures, a_fence_of_the_context_is_behind_every_stream);
    tcase_add_test(captures, a_fence_of_the_context_leaves_the_capture_of_a_blocking_stream_alone);
    tcase_add_test(captures, fences_of_other_streams_go_on_during_a_global_capture);
    suite_add_tcase(suite, captures);
    TCase *reach = tcase_create("out of reach");
    tcase_add_checked_fixture(reach, open_all, close_all);
    tcase_add_test(reach, a_fence_outlives_its_stream);
    tcase_add_test(reach, a_destroyed_streams_new_fence_passes_with_the_whole_device);
    tcase_add_test(reach, a_recycled_handle_is_not_taken_for_the_destroyed_stream);
    tcase_add_test(reach, only_a_later_synchronisation_passes_a_whole_device_fence);
    tcase_add_test(reach, another_threads_default_stream_is_fenced_by_the_whole_device);
    suite_add_tcase(suite, reach);
    TCase *faults = tcase_create("faults");
    tcase_add_checked_fixture(faults, open_all, close_all);
    tcase_add_test(faults, any_single_fault_costs_that_call_only);
    tcase_add_test(faults, each_call_of_a_fence_can_fail_and_says_so);
    tcase_add_test(faults, an_event_that_failed_is_not_used_again);
    tcase_add_test(faults, no_host_memory_for_a_fence_is_told_apart);
    tcase_add_test(faults, events_that_cannot_be_destroyed_are_reported_at_close);
    suite_add_tcase(suite, faults);
}
