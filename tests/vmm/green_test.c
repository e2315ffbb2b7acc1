/* green_test.c - streams of green contexts: whose they count as, and what fences they get. */
/* labels: unit */
#include <check.h>

#include "tests/support/suite.h"
#include "tests/support/vmm/vmm_green.h"
#include "tests/support/vmm/vmm_sim.h"
#include "vmm/device_state.h"

static vmm_sim sim;
static pl_device *dev;
static vmm_green green;

static void open_on(const char *conf)
{
    vmm_sim_open(&sim, conf);
    dev = vmm_sim_device(&sim, NULL);
    vmm_green_make(sim.drv, &green);
}

static void close_all(void)
{
    vmm_sim_destroy_stream(dev, green.stream);
    vmm_green_end(&green);
    vmm_sim_close_device(dev);
    vmm_sim_close(&sim);
}

static pl_stream *get(void *handle)
{
    pl_stream *stream = NULL;
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_OK);
    return stream;
}

static bool has_passed(pl_fence *fence)
{
    bool passed = false;
    ck_assert_int_eq(pl_fence_query(fence, &passed), PLEAT_OK);
    return passed;
}

/* The fence behind work on the stream passes when that is over. */
static void expect_fence(pl_stream *stream, bool is_whole_device)
{
    pl_fence *fence = NULL;
    vmm_sim_submit(&sim, dev, green.stream);
    ck_assert_int_eq(pl_fence_record(stream, &fence), PLEAT_OK);
    ck_assert_int_eq(pl_fence_is_whole_device(fence), is_whole_device);
    ck_assert(!has_passed(fence));
    ck_assert_int_eq(pl_device_synchronize(dev), PLEAT_OK);
    ck_assert(has_passed(fence));
    ck_assert(!pl_fence_is_spoiled(fence));
    pl_fence_return(fence);
}

START_TEST(a_green_stream_has_fences_like_any)
{
    open_on("capacity:1G,depth:1000000");
    expect_fence(get(green.stream), false);
    close_all();
}
END_TEST

START_TEST(where_no_event_can_be_recorded_its_fences_are_of_the_device)
{
    open_on("capacity:1G,depth:1000000,unkind:[green_events]");
    expect_fence(get(green.stream), true);
    expect_fence(get(green.stream), true);
    close_all();
}
END_TEST

/* Drivers may not tell the context of such a stream in the older call. */
START_TEST(the_context_is_found_by_one_of_two_calls)
{
    open_on("capacity:1G");
    sim.fail_at("cuStreamGetCtx", 0, CU_NOT_SUPPORTED);
    expect_fence(get(green.stream), false);
    ck_assert_uint_eq(sim.n_faults(), 1);
    close_all();
    pl_stream *stream;
    open_on("capacity:1G,without:[cuStreamGetCtx_v2]");
    ck_assert_int_eq(pl_stream_get(dev, green.stream, &stream), PLEAT_ESTREAM);
    close_all();
}
END_TEST

START_TEST(handle_0_is_another_stream_while_a_green_context_is_current)
{
    open_on("capacity:1G,depth:1000000");
    pl_stream *legacy = get(NULL);
    ck_assert(!pl_green_notices(dev));
    vmm_green_push(&green);
    ck_assert(pl_green_notices(dev));
    pl_stream *zero = get(NULL);
    ck_assert_ptr_ne(zero, legacy);
    ck_assert_ptr_eq(zero, get(NULL));
    ck_assert(!pl_stream_is_legacy(zero) && !pl_stream_is_legacy(legacy));
    vmm_green_pop(&green);
    ck_assert(pl_stream_is_legacy(get(NULL)));
    ck_assert_ptr_eq(get(NULL), get(CU_STREAM_LEGACY));
    expect_fence(zero, true);
    expect_fence(legacy, true);
    close_all();
}
END_TEST

/* What a thread did on handle 2 under a green context is of no stream of the primary context. */
START_TEST(handle_2_is_another_stream_while_a_green_context_is_current)
{
    open_on("capacity:1G,depth:1000000");
    pl_stream *own = get(CU_STREAM_PER_THREAD);
    vmm_green_push(&green);
    pl_stream *other = get(CU_STREAM_PER_THREAD);
    ck_assert_ptr_ne(other, own);
    ck_assert_ptr_ne(other, get(NULL));
    ck_assert_ptr_eq(other, get(CU_STREAM_PER_THREAD));
    vmm_green_pop(&green);
    ck_assert_ptr_eq(own, get(CU_STREAM_PER_THREAD));
    expect_fence(other, true);
    close_all();
}
END_TEST

/* A question about the id of a captured stream would break the capture. */
START_TEST(a_captured_default_stream_is_refused_unharmed)
{
    cu_graph graph;
    pl_stream *stream;
    open_on("capacity:1G");
    vmm_green_push(&green);
    ck_assert_int_eq(pl_cu_stream_begin_capture(sim.drv, CU_STREAM_LEGACY, CU_CAPTURE_MODE_GLOBAL),
                     CU_SUCCESS);
    ck_assert_int_eq(pl_stream_get(dev, NULL, &stream), PLEAT_ESTREAM);
    ck_assert_int_eq(pl_cu_stream_end_capture(sim.drv, CU_STREAM_LEGACY, &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(sim.drv, graph), CU_SUCCESS);
    get(NULL);
    vmm_green_pop(&green);
    close_all();
}
END_TEST

START_TEST(a_question_that_is_refused_leaves_no_error)
{
    open_on("capacity:1G");
    vmm_green_push(&green);
    pl_driver_clear_error();
    sim.fail_at("cuStreamGetCaptureInfo", 0, CU_CAPTURE_IMPLICIT);
    ck_assert(!pl_green_notices(dev));
    ck_assert_uint_eq(sim.n_faults(), 1);
    ck_assert_int_eq(pl_driver_last_error()->result, CU_SUCCESS);
    vmm_green_pop(&green);
    close_all();
}
END_TEST

/* Makes a context of device 0 current: the primary one or a green one. */
static cu_context push_other(bool is_green)
{
    cu_context context = green.context;
    if (!is_green) {
        ck_assert_int_eq(pl_cu_primary_retain(sim.drv, &context, 0), CU_SUCCESS);
    }
    ck_assert_int_eq(pl_cu_ctx_push(sim.drv, context), CU_SUCCESS);
    return context;
}

static void pop_other(cu_context context, bool is_green)
{
    cu_context popped;
    ck_assert_int_eq(pl_cu_ctx_pop(sim.drv, &popped), CU_SUCCESS);
    ck_assert_ptr_eq(popped, context);
    if (!is_green) {
        ck_assert_int_eq(pl_cu_primary_release(sim.drv, 0), CU_SUCCESS);
    }
}

static void begin_capture(void)
{
    ck_assert_int_eq(
        pl_cu_stream_begin_capture(sim.drv, CU_STREAM_PER_THREAD, CU_CAPTURE_MODE_GLOBAL),
        CU_SUCCESS);
}

static void end_capture(void)
{
    cu_graph graph;
    ck_assert_int_eq(pl_cu_stream_end_capture(sim.drv, CU_STREAM_PER_THREAD, &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(sim.drv, graph), CU_SUCCESS);
}

/* pleat's device is device 1, and device 0 captures on the thread's default stream. */
START_TEST(default_streams_are_the_own_device_s_while_another_one_captures)
{
    pl_capture_info capture;
    open_on("devices:2,capacity:1G");
    vmm_sim_close_device(dev);
    ck_assert_int_eq(pl_device_open(sim.drv, 1, NULL, &dev), PLEAT_OK);
    pl_stream *own = get(CU_STREAM_PER_THREAD);
    cu_context other = push_other(_i == 1);
    begin_capture();
    ck_assert_ptr_eq(get(CU_STREAM_PER_THREAD), own);
    ck_assert(pl_stream_is_legacy(get(NULL)));
    ck_assert(!pl_green_notices(dev) && !pl_green_is_asked_about(dev));
    ck_assert_int_eq(pl_stream_capture(own, &capture), PLEAT_OK);
    ck_assert(!capture.is_capturing);
    end_capture();
    pop_other(other, _i == 1);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    begin_capture();
    ck_assert_int_eq(pl_stream_capture(own, &capture), PLEAT_OK);
    ck_assert(capture.is_capturing);
    end_capture();
    pl_device_leave(dev);
    close_all();
}
END_TEST

SUITE(vmm_green)
{
    TCase *all = suite_case(suite, "all", NULL, NULL);
    tcase_add_test(all, a_green_stream_has_fences_like_any);
    tcase_add_test(all, where_no_event_can_be_recorded_its_fences_are_of_the_device);
    tcase_add_test(all, the_context_is_found_by_one_of_two_calls);
    tcase_add_test(all, handle_0_is_another_stream_while_a_green_context_is_current);
    tcase_add_test(all, handle_2_is_another_stream_while_a_green_context_is_current);
    tcase_add_test(all, a_captured_default_stream_is_refused_unharmed);
    tcase_add_test(all, a_question_that_is_refused_leaves_no_error);
    tcase_add_loop_test(all, default_streams_are_the_own_device_s_while_another_one_captures, 0, 2);
}
