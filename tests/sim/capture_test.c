/* capture_test.c - captures forbid the same calls as on the real driver; graphs repeat their
 * work. */
#include <pthread.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

static cu_devptr at; /* two accessible granules */
static cu_stream stream;
static cu_event event;

static void begin(void)
{
    world_begin("depth:1000000");
    at = world_map(2);
    stream = world_stream();
    event = world_event();
}

static void close_world(void)
{
    pleat_sim_finish();
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuEventDestroy_v2(event));
    world_unmap(at, 2);
}

static void end(void)
{
    close_world();
    world_end();
}

static int status_of(cu_stream it)
{
    int status;
    ck_ok(cuStreamIsCapturing(it, &status));
    return status;
}

static void assert_capture_ends_with(cu_stream it, int result)
{
    cu_graph graph = (cu_graph)(void *)it;
    ck_assert_int_eq(cuStreamEndCapture(it, &graph), result);
    if (result == CU_SUCCESS) {
        ck_ok(cuGraphDestroy(graph));
    } else {
        ck_assert_ptr_null(graph);
    }
    ck_assert_int_eq(status_of(it), CU_CAPTURE_NONE);
}

/* Begins a global capture, makes the call, and expects its code and a broken capture. */
#define ASSERT_BREAKS(call, code)                                                                  \
    do {                                                                                           \
        ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));                            \
        ck_assert_int_eq((call), (code));                                                          \
        ck_assert_int_eq(status_of(stream), CU_CAPTURE_STATUS_INVALIDATED);                        \
        assert_capture_ends_with(stream, CU_CAPTURE_INVALIDATED);                                  \
    } while (0)

static cu_graph_exec instantiate(cu_graph graph)
{
    cu_graph_exec exec;
    ck_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ck_ok(cuGraphDestroy(graph));
    return exec;
}

START_TEST(captured_work_runs_when_its_graph_is_launched)
{
    cu_graph graph;
    cu_stream other = world_stream();
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    ck_assert_int_eq(status_of(stream), CU_CAPTURE_ACTIVE);
    world_write(stream, at, 512);
    world_write(stream, at + GRANULE, 512);
    ck_assert_uint_eq(world_unfinished(), 0);
    ck_ok(cuStreamEndCapture(stream, &graph));
    ck_assert_int_eq(status_of(stream), CU_CAPTURE_NONE);
    cu_graph_exec exec = instantiate(graph);
    ck_ok(cuGraphLaunch(exec, other));
    ck_ok(cuGraphLaunch(exec, other));
    ck_assert_uint_eq(world_unfinished(), 4);
    ck_assert_uint_eq(world_counts().graphs, 1);
    ck_ok(cuGraphExecDestroy(exec));
    ck_assert_int_eq(cuGraphLaunch(exec, other), CU_INVALID_VALUE);
    ck_ok(cuStreamDestroy_v2(other));
}
END_TEST

START_TEST(a_graph_tells_its_nodes)
{
    cu_graph graph;
    cu_graph_node nodes[4] = { NULL };
    size_t n = 4;
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    ck_ok(cuMemsetD8Async(at, 1, 16, stream));
    ck_ok(cuMemsetD8Async(at, 2, 16, stream));
    ck_ok(cuStreamEndCapture(stream, &graph));
    ck_ok(cuGraphGetNodes(graph, nodes, &n));
    ck_assert_uint_eq(n, 2);
    ck_assert_ptr_ne(nodes[0], nodes[1]);
    ck_assert_ptr_null(nodes[3]);
    n = 1;
    ck_ok(cuGraphGetNodes(graph, nodes, &n));
    ck_assert_uint_eq(n, 1);
    ck_ok(cuGraphGetNodes(graph, NULL, &n));
    ck_assert_uint_eq(n, 2);
    ck_assert_int_eq(cuGraphGetNodes(graph, NULL, NULL), CU_INVALID_VALUE);
    ck_ok(cuGraphDestroy(graph));
    ck_assert_int_eq(cuGraphGetNodes(graph, NULL, &n), CU_INVALID_VALUE);
}
END_TEST

START_TEST(a_launched_graph_is_checked_like_any_work)
{
    cu_graph graph;
    cu_stream other = world_stream();
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_RELAXED));
    world_write(stream, at, 512);
    ck_ok(cuStreamEndCapture(stream, &graph));
    cu_graph_exec exec = instantiate(graph);
    ck_ok(cuGraphLaunch(exec, stream));
    world_write(other, at, 512);
    ck_assert_uint_eq(world_hazards(), 1);
    pleat_sim_finish();
    ck_ok(cuGraphExecDestroy(exec));
    ck_ok(cuStreamDestroy_v2(other));
    close_world();
    world_end_with(PLEAT_SIM_RACE, 1);
    begin();
}
END_TEST

START_TEST(memory_under_an_idle_graph_may_be_swapped)
{
    cu_graph graph;
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    world_write(stream, at, 512);
    ck_ok(cuStreamEndCapture(stream, &graph));
    cu_graph_exec exec = instantiate(graph);
    ck_ok(cuGraphLaunch(exec, stream));
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuMemUnmap(at, GRANULE));
    cu_mem_handle handle = world_create(1);
    ck_ok(cuMemMap(at, GRANULE, 0, handle, 0));
    ck_ok(cuMemRelease(handle));
    world_allow(at, 1, 0, CU_ACCESS_READ_WRITE);
    ck_ok(cuGraphLaunch(exec, stream));
    ck_ok(cuGraphExecDestroy(exec));
}
END_TEST

START_TEST(virtual_memory_calls_do_not_disturb_a_capture)
{
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    cu_devptr grown = world_map(3);
    world_write(stream, grown, GRANULE);
    cu_mem_handle handle;
    ck_ok(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)grown));
    ck_ok(cuMemRelease(handle));
    world_unmap(grown, 3);
    ck_assert_int_eq(status_of(stream), CU_CAPTURE_ACTIVE);
    assert_capture_ends_with(stream, CU_SUCCESS);
}
END_TEST

START_TEST(unsafe_calls_break_a_global_capture)
{
    cu_devptr block;
    unsigned long long id;
    cu_context context;
    cu_stream other = world_stream();
    ASSERT_BREAKS(cuMemAlloc_v2(&block, 512), CU_CAPTURE_UNSUPPORTED);
    ASSERT_BREAKS(cuMemFree_v2(0), CU_CAPTURE_UNSUPPORTED);
    ASSERT_BREAKS(cuEventQuery(event), CU_CAPTURE_UNSUPPORTED);
    ASSERT_BREAKS(cuEventSynchronize(event), CU_CAPTURE_UNSUPPORTED);
    ASSERT_BREAKS(cuStreamQuery(other), CU_CAPTURE_UNSUPPORTED);
    ASSERT_BREAKS(cuStreamSynchronize(other), CU_CAPTURE_UNSUPPORTED);
    ASSERT_BREAKS(cuStreamSynchronize(stream), CU_CAPTURE_UNSUPPORTED);
    ASSERT_BREAKS(cuStreamGetId(other, &id), CU_CAPTURE_UNSUPPORTED);
    ASSERT_BREAKS(cuStreamGetCtx(other, &context), CU_CAPTURE_UNSUPPORTED);
    ck_ok(cuStreamDestroy_v2(other));
}
END_TEST

START_TEST(a_relaxed_thread_may_make_unsafe_calls)
{
    cu_devptr block;
    unsigned long long id;
    int mode = CU_CAPTURE_MODE_RELAXED;
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    ck_ok(cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, CU_CAPTURE_MODE_GLOBAL);
    ck_ok(cuEventQuery(event));
    ck_ok(cuStreamGetId(CU_STREAM_PER_THREAD, &id));
    ck_ok(cuMemAlloc_v2(&block, 512));
    ck_ok(cuMemFree_v2(block));
    ck_ok(cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, CU_CAPTURE_MODE_RELAXED);
    mode = 3;
    ck_assert_int_eq(cuThreadExchangeStreamCaptureMode(&mode), CU_INVALID_VALUE);
    assert_capture_ends_with(stream, CU_SUCCESS);
}
END_TEST

START_TEST(a_relaxed_capture_of_this_thread_allows_unsafe_calls)
{
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_RELAXED));
    ck_ok(cuEventQuery(event));
    assert_capture_ends_with(stream, CU_SUCCESS);
}
END_TEST

START_TEST(relaxed_mode_does_not_allow_what_conflicts_with_the_capture_itself)
{
    unsigned long long id;
    cu_context context;
    int mode = CU_CAPTURE_MODE_RELAXED;
    ck_ok(cuThreadExchangeStreamCaptureMode(&mode));
    ASSERT_BREAKS(cuStreamSynchronize(stream), CU_CAPTURE_UNSUPPORTED);
    ASSERT_BREAKS(cuStreamQuery(stream), CU_CAPTURE_UNSUPPORTED);
    ASSERT_BREAKS(cuStreamGetId(stream, &id), CU_CAPTURE_UNSUPPORTED);
    ASSERT_BREAKS(cuStreamGetCtx(stream, &context), CU_CAPTURE_UNSUPPORTED);
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_RELAXED));
    ck_ok(cuEventRecord(event, stream));
    ck_assert_int_eq(cuEventQuery(event), CU_CAPTURED_EVENT);
    ck_assert_int_eq(status_of(stream), CU_CAPTURE_STATUS_INVALIDATED);
    assert_capture_ends_with(stream, CU_CAPTURE_INVALIDATED);
    ck_assert_int_eq(cuEventSynchronize(event), CU_CAPTURED_EVENT);
    ck_ok(cuEventRecord(event, stream));
    ck_ok(cuEventQuery(event));
}
END_TEST

typedef struct visit {
    int mode;
    int result;
} visit;

/* In a second thread: make an unsafe call in the given capture mode. */
static void *query_elsewhere(void *argument)
{
    visit *it = argument;
    cu_context context;
    cu_result result = cuDevicePrimaryCtxRetain(&context, 0);
    if (result == CU_SUCCESS) {
        result = cuCtxPushCurrent_v2(context);
    }
    if (result == CU_SUCCESS) {
        result = cuThreadExchangeStreamCaptureMode(&it->mode);
    }
    it->result = result == CU_SUCCESS ? cuEventQuery(event) : -1;
    (void)cuDevicePrimaryCtxRelease_v2(0);
    return NULL;
}

static int query_in_another_thread(int mode)
{
    pthread_t thread;
    visit it = { mode, 0 };
    ck_assert_int_eq(pthread_create(&thread, NULL, query_elsewhere, &it), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return it.result;
}

START_TEST(unsafe_calls_of_other_threads_break_global_captures_only)
{
    static const struct {
        int capture_mode;
        int thread_mode;
        int result;
    } cases[] = {
        { CU_CAPTURE_MODE_GLOBAL, CU_CAPTURE_MODE_GLOBAL, CU_CAPTURE_UNSUPPORTED },
        { CU_CAPTURE_MODE_GLOBAL, CU_CAPTURE_MODE_THREAD_LOCAL, CU_SUCCESS },
        { CU_CAPTURE_MODE_GLOBAL, CU_CAPTURE_MODE_RELAXED, CU_SUCCESS },
        { CU_CAPTURE_MODE_THREAD_LOCAL, CU_CAPTURE_MODE_GLOBAL, CU_SUCCESS },
        { CU_CAPTURE_MODE_RELAXED, CU_CAPTURE_MODE_GLOBAL, CU_SUCCESS },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_ok(cuStreamBeginCapture_v2(stream, cases[i].capture_mode));
        ck_assert_int_eq(query_in_another_thread(cases[i].thread_mode), cases[i].result);
        assert_capture_ends_with(stream, cases[i].result == CU_SUCCESS ? CU_SUCCESS
                                                                       : CU_CAPTURE_INVALIDATED);
    }
}
END_TEST

START_TEST(a_wait_on_a_captured_event_joins_the_capture)
{
    int status;
    unsigned long long id;
    unsigned long long other_id;
    cu_graph graph;
    cu_stream other = world_stream();
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    world_write(stream, at, 512);
    world_order(stream, other);
    ck_ok(cuStreamGetCaptureInfo_v2(stream, &status, &id, NULL, NULL, NULL));
    ck_ok(cuStreamGetCaptureInfo_v2(other, &status, &other_id, NULL, NULL, NULL));
    ck_assert_int_eq(status, CU_CAPTURE_ACTIVE);
    ck_assert_uint_eq(id, other_id);
    ck_assert_uint_gt(id, 0);
    world_write(other, at, 512);
    world_order(other, stream);
    world_write(stream, at, 512);
    ck_assert_uint_eq(world_unfinished(), 0);
    ck_ok(cuStreamEndCapture(stream, &graph));
    ck_assert_int_eq(status_of(other), CU_CAPTURE_NONE);
    cu_graph_exec exec = instantiate(graph);
    ck_ok(cuGraphLaunch(exec, other));
    ck_assert_uint_eq(world_unfinished(), 3);
    ck_ok(cuGraphExecDestroy(exec));
    ck_ok(cuStreamDestroy_v2(other));
}
END_TEST

START_TEST(an_invalid_capture_tells_its_status_only)
{
    int status;
    unsigned long long id;
    unsigned long long next_id;
    cu_graph graph;
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    ck_ok(cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, NULL, NULL));
    ck_assert_ptr_nonnull(graph);
    ck_assert_int_eq(cuEventQuery(event), CU_CAPTURE_UNSUPPORTED);
    ck_ok(cuStreamGetCaptureInfo_v2(stream, &status, &next_id, &graph, NULL, NULL));
    ck_assert_int_eq(status, CU_CAPTURE_STATUS_INVALIDATED);
    ck_assert_ptr_null(graph);
    assert_capture_ends_with(stream, CU_CAPTURE_INVALIDATED);
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    ck_ok(cuStreamGetCaptureInfo_v2(stream, &status, &next_id, NULL, NULL, NULL));
    ck_assert_uint_ne(id, next_id);
    assert_capture_ends_with(stream, CU_SUCCESS);
}
END_TEST

START_TEST(branches_of_a_capture_race_like_streams)
{
    cu_stream other = world_stream();
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    world_order(stream, other);
    world_write(other, at, 512);
    world_write(stream, at + 512, 512);
    ck_assert_uint_eq(world_hazards(), 0);
    world_read(stream, at, 512);
    ck_assert_uint_eq(world_hazards(), 1);
    world_order(other, stream);
    world_write(stream, at, 512);
    ck_assert_uint_eq(world_hazards(), 1);
    assert_capture_ends_with(stream, CU_SUCCESS);
    ck_ok(cuStreamDestroy_v2(other));
    close_world();
    world_end_with(PLEAT_SIM_RACE, 1);
    begin();
}
END_TEST

START_TEST(unjoined_work_is_refused_at_the_end)
{
    cu_stream other = world_stream();
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    world_order(stream, other);
    world_write(other, at, 512);
    assert_capture_ends_with(stream, CU_CAPTURE_UNJOINED);
    ck_assert_int_eq(status_of(other), CU_CAPTURE_NONE);
    ck_ok(cuStreamDestroy_v2(other));
}
END_TEST

START_TEST(a_capture_depends_on_nothing_outside_it)
{
    cu_stream other = world_stream();
    world_write(other, at, 512);
    ck_ok(cuEventRecord(event, other));
    ASSERT_BREAKS(cuStreamWaitEvent(stream, event, 0), CU_CAPTURE_ISOLATION);
    ck_ok(cuStreamDestroy_v2(other));
}
END_TEST

START_TEST(two_captures_do_not_merge)
{
    cu_stream other = world_stream();
    ck_ok(cuStreamBeginCapture_v2(other, CU_CAPTURE_MODE_RELAXED));
    ck_ok(cuEventRecord(event, other));
    ASSERT_BREAKS(cuStreamWaitEvent(stream, event, 0), CU_CAPTURE_MERGE);
    assert_capture_ends_with(other, CU_CAPTURE_INVALIDATED);
    ck_ok(cuStreamDestroy_v2(other));
}
END_TEST

START_TEST(an_event_of_a_capture_that_is_over_cannot_be_waited_for)
{
    cu_stream other = world_stream();
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    ck_ok(cuEventRecord(event, stream));
    assert_capture_ends_with(stream, CU_SUCCESS);
    ck_assert_int_eq(cuStreamWaitEvent(other, event, 0), CU_CAPTURED_EVENT);
    ck_ok(cuStreamDestroy_v2(other));
}
END_TEST

START_TEST(a_capture_ends_where_and_in_the_thread_in_which_it_began)
{
    cu_graph graph;
    cu_stream other = world_stream();
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CU_ILLEGAL_STATE);
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    ck_assert_int_eq(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL), CU_ILLEGAL_STATE);
    world_order(stream, other);
    ck_assert_int_eq(cuStreamEndCapture(other, &graph), CU_CAPTURE_UNMATCHED);
    assert_capture_ends_with(stream, CU_CAPTURE_INVALIDATED);
    ck_assert_int_eq(cuStreamBeginCapture_v2(stream, 3), CU_INVALID_VALUE);
    ck_assert_int_eq(cuStreamBeginCapture_v2(NULL, CU_CAPTURE_MODE_GLOBAL), CU_CAPTURE_UNSUPPORTED);
    ck_ok(cuStreamDestroy_v2(other));
}
END_TEST

static void *end_elsewhere(void *out)
{
    cu_context context;
    cu_graph graph;
    int *result = out;
    *result = cuDevicePrimaryCtxRetain(&context, 0);
    if (*result == CU_SUCCESS) {
        (void)cuCtxPushCurrent_v2(context);
        *result = cuStreamEndCapture(stream, &graph);
        (void)cuDevicePrimaryCtxRelease_v2(0);
    }
    return NULL;
}

START_TEST(another_thread_may_not_end_a_global_capture)
{
    pthread_t thread;
    int result;
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    ck_assert_int_eq(pthread_create(&thread, NULL, end_elsewhere, &result), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(result, CU_CAPTURE_WRONG_THREAD);
    assert_capture_ends_with(stream, CU_SUCCESS);
}
END_TEST

START_TEST(an_invalid_capture_refuses_work_until_it_is_ended)
{
    pleat_sim_access access = { at, 512, true };
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    ck_assert_int_eq(cuEventQuery(event), CU_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(pleat_sim_work(stream, &access, 1), CU_CAPTURE_INVALIDATED);
    ck_assert_int_eq(cuEventRecord(event, stream), CU_CAPTURE_INVALIDATED);
    assert_capture_ends_with(stream, CU_CAPTURE_INVALIDATED);
    world_write(stream, at, 512);
}
END_TEST

START_TEST(the_legacy_stream_is_unusable_while_a_blocking_stream_captures)
{
    int status;
    cu_stream blocking;
    pleat_sim_access access = { at, 512, true };
    ck_ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT_FLAG));
    ck_ok(cuStreamBeginCapture_v2(blocking, CU_CAPTURE_MODE_RELAXED));
    ck_assert_int_eq(cuStreamIsCapturing(NULL, &status), CU_CAPTURE_IMPLICIT);
    ck_assert_int_eq(status_of(blocking), CU_CAPTURE_ACTIVE);
    ck_assert_int_eq(pleat_sim_work(NULL, &access, 1), CU_CAPTURE_IMPLICIT);
    ck_assert_int_eq(status_of(blocking), CU_CAPTURE_STATUS_INVALIDATED);
    assert_capture_ends_with(blocking, CU_CAPTURE_INVALIDATED);
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    world_write(NULL, at, 512);
    ck_assert_int_eq(status_of(NULL), CU_CAPTURE_NONE);
    assert_capture_ends_with(stream, CU_SUCCESS);
    ck_ok(cuStreamDestroy_v2(blocking));
}
END_TEST

START_TEST(a_destroyed_stream_ends_or_breaks_its_capture)
{
    cu_stream origin = world_stream();
    ck_ok(cuStreamBeginCapture_v2(origin, CU_CAPTURE_MODE_GLOBAL));
    world_order(origin, stream);
    ck_assert_int_eq(status_of(stream), CU_CAPTURE_ACTIVE);
    ck_ok(cuStreamDestroy_v2(origin));
    ck_assert_int_eq(status_of(stream), CU_CAPTURE_NONE);
    cu_stream joined = world_stream();
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    world_order(stream, joined);
    ck_ok(cuStreamDestroy_v2(joined));
    assert_capture_ends_with(stream, CU_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(a_capture_left_open_is_cleaned_up_by_a_reset)
{
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    world_write(stream, at, 512);
    ck_assert_int_eq(pleat_sim_reset(NULL), 0);
    begin();
    ck_ok(cuEventQuery(event));
}
END_TEST

SUITE(sim_capture)
{
    TCase *graphs = tcase_create("graphs");
    tcase_add_checked_fixture(graphs, begin, end);
    tcase_add_test(graphs, captured_work_runs_when_its_graph_is_launched);
    tcase_add_test(graphs, a_graph_tells_its_nodes);
    tcase_add_test(graphs, a_launched_graph_is_checked_like_any_work);
    tcase_add_test(graphs, memory_under_an_idle_graph_may_be_swapped);
    tcase_add_test(graphs, virtual_memory_calls_do_not_disturb_a_capture);
    tcase_add_test(graphs, a_capture_left_open_is_cleaned_up_by_a_reset);
    suite_add_tcase(suite, graphs);
    TCase *unsafe = tcase_create("unsafe calls");
    tcase_add_checked_fixture(unsafe, begin, end);
    tcase_add_test(unsafe, unsafe_calls_break_a_global_capture);
    tcase_add_test(unsafe, a_relaxed_thread_may_make_unsafe_calls);
    tcase_add_test(unsafe, a_relaxed_capture_of_this_thread_allows_unsafe_calls);
    tcase_add_test(unsafe, relaxed_mode_does_not_allow_what_conflicts_with_the_capture_itself);
    tcase_add_test(unsafe, unsafe_calls_of_other_threads_break_global_captures_only);
    suite_add_tcase(suite, unsafe);
    TCase *branches = tcase_create("branches");
    tcase_add_checked_fixture(branches, begin, end);
    tcase_add_test(branches, a_wait_on_a_captured_event_joins_the_capture);
    tcase_add_test(branches, an_invalid_capture_tells_its_status_only);
    tcase_add_test(branches, branches_of_a_capture_race_like_streams);
    tcase_add_test(branches, unjoined_work_is_refused_at_the_end);
    tcase_add_test(branches, a_capture_depends_on_nothing_outside_it);
    tcase_add_test(branches, two_captures_do_not_merge);
    tcase_add_test(branches, an_event_of_a_capture_that_is_over_cannot_be_waited_for);
    suite_add_tcase(suite, branches);
    TCase *ends = tcase_create("ends");
    tcase_add_checked_fixture(ends, begin, end);
    tcase_add_test(ends, a_capture_ends_where_and_in_the_thread_in_which_it_began);
    tcase_add_test(ends, another_thread_may_not_end_a_global_capture);
    tcase_add_test(ends, an_invalid_capture_refuses_work_until_it_is_ended);
    tcase_add_test(ends, the_legacy_stream_is_unusable_while_a_blocking_stream_captures);
    tcase_add_test(ends, a_destroyed_stream_ends_or_breaks_its_capture);
    suite_add_tcase(suite, ends);
}
