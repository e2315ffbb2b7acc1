/* user_object_test.c - graphs, executable graphs and launches keep user objects alive. */
#include <limits.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

static cu_stream stream;
static cu_devptr at;
static int n_destroyed;
static int inner_result;

static void begin_with(const char *conf)
{
    world_begin(conf);
    at = world_map(1);
    stream = world_stream();
    n_destroyed = 0;
}

static void begin(void)
{
    begin_with("depth:1000000");
}

static void close_world(void)
{
    pleat_sim_finish();
    ck_assert_uint_eq(world_counts().user_objects, 0);
    ck_ok(cuStreamDestroy_v2(stream));
    world_unmap(at, 1);
}

static void end(void)
{
    close_world();
    world_end();
}

static void count_it(void *ptr)
{
    ++*(int *)ptr;
}

static cu_user_object object_with(unsigned n)
{
    cu_user_object object;
    ck_ok(cuUserObjectCreate(&object, &n_destroyed, count_it, n, CU_OBJECT_UNSYNCED));
    return object;
}

static cu_graph captured_graph(void)
{
    int status;
    cu_graph graph;
    unsigned long long id;
    ck_ok(cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, NULL, NULL));
    ck_assert_int_eq(status, CU_CAPTURE_ACTIVE);
    return graph;
}

/* A graph of a captured write. The graph holds the only reference of a new object. */
static cu_graph holding_graph(void)
{
    cu_graph graph;
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    world_write(stream, at, 512);
    ck_ok(cuGraphRetainUserObject(captured_graph(), object_with(1), 1, CU_OBJECT_MOVE));
    ck_ok(cuStreamEndCapture(stream, &graph));
    return graph;
}

START_TEST(the_last_reference_runs_the_destructor_once)
{
    cu_user_object object = object_with(2);
    ck_ok(cuUserObjectRetain(object, 3));
    ck_ok(cuUserObjectRelease(object, 4));
    ck_assert_int_eq(n_destroyed, 0);
    ck_assert_uint_eq(world_counts().user_objects, 1);
    ck_ok(cuUserObjectRelease(object, 1));
    ck_assert_int_eq(n_destroyed, 1);
    ck_assert_int_eq(cuUserObjectRelease(object, 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuUserObjectRetain(object, 1), CU_INVALID_VALUE);
}
END_TEST

START_TEST(what_the_reference_excludes_is_refused)
{
    cu_user_object object;
    void *ptr = &n_destroyed;
    ck_assert_int_eq(cuUserObjectCreate(NULL, ptr, count_it, 1, 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuUserObjectCreate(&object, ptr, NULL, 1, 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuUserObjectCreate(&object, ptr, count_it, 0, 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuUserObjectCreate(&object, ptr, count_it, 1, 0), CU_INVALID_VALUE);
    object = object_with(1);
    ck_assert_int_eq(cuUserObjectRetain(object, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuUserObjectRetain(object, (unsigned)INT_MAX + 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuUserObjectRelease(object, 2), CU_INVALID_VALUE);
    ck_assert_int_eq(cuGraphRetainUserObject(NULL, object, 1, 0), CU_INVALID_VALUE);
    cu_graph graph = holding_graph();
    ck_assert_int_eq(cuGraphRetainUserObject(graph, object, 1, 2), CU_INVALID_VALUE);
    ck_assert_int_eq(cuGraphRetainUserObject(graph, object, 2, CU_OBJECT_MOVE), CU_INVALID_VALUE);
    ck_assert_int_eq(cuGraphReleaseUserObject(graph, object, 1), CU_INVALID_VALUE);
    ck_ok(cuUserObjectRelease(object, 1));
    ck_ok(cuGraphDestroy(graph));
}
END_TEST

START_TEST(a_captured_graph_has_a_handle_from_the_beginning)
{
    cu_graph graph;
    cu_graph_exec exec;
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    cu_graph growing = captured_graph();
    ck_assert_ptr_nonnull(growing);
    ck_assert_uint_eq(world_counts().graphs, 0);
    ck_assert_int_eq(cuGraphDestroy(growing), CU_INVALID_VALUE);
    ck_assert_int_eq(cuGraphInstantiateWithFlags(&exec, growing, 0), CU_INVALID_VALUE);
    ck_ok(cuStreamEndCapture(stream, &graph));
    ck_assert_ptr_eq(graph, growing);
    ck_assert_uint_eq(world_counts().graphs, 1);
    ck_ok(cuGraphDestroy(graph));
}
END_TEST

START_TEST(a_graph_holds_its_own_references_or_the_caller_s)
{
    cu_graph graph = holding_graph();
    cu_user_object object = object_with(1);
    ck_ok(cuGraphRetainUserObject(graph, object, 2, 0));
    ck_ok(cuUserObjectRelease(object, 1));
    ck_assert_int_eq(n_destroyed, 0);
    ck_ok(cuGraphReleaseUserObject(graph, object, 1));
    ck_assert_int_eq(n_destroyed, 0);
    ck_ok(cuGraphReleaseUserObject(graph, object, 1));
    ck_assert_int_eq(n_destroyed, 1);
    ck_ok(cuGraphDestroy(graph));
    ck_assert_int_eq(n_destroyed, 2);
}
END_TEST

START_TEST(an_executable_graph_holds_references_of_its_own)
{
    cu_graph_exec first;
    cu_graph_exec second;
    cu_graph graph = holding_graph();
    ck_ok(cuGraphInstantiateWithFlags(&first, graph, 0));
    ck_ok(cuGraphInstantiateWithFlags(&second, graph, 0));
    ck_ok(cuGraphDestroy(graph));
    ck_ok(cuGraphExecDestroy(first));
    ck_assert_int_eq(n_destroyed, 0);
    ck_ok(cuGraphExecDestroy(second));
    ck_assert_int_eq(n_destroyed, 1);
}
END_TEST

START_TEST(a_launch_in_flight_keeps_what_its_graph_held)
{
    cu_graph_exec exec;
    cu_graph graph = holding_graph();
    ck_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ck_ok(cuGraphDestroy(graph));
    ck_ok(cuGraphLaunch(exec, stream));
    ck_ok(cuGraphLaunch(exec, stream));
    ck_ok(cuGraphExecDestroy(exec));
    pleat_sim_advance(0, 10);
    ck_assert_int_eq(n_destroyed, 0);
    ck_ok(cuStreamSynchronize(stream));
    ck_assert_int_eq(n_destroyed, 1);
    ck_assert_uint_eq(world_unfinished(), 0);
}
END_TEST

START_TEST(a_launch_that_ends_in_time_lets_go_in_that_call)
{
    cu_graph_exec exec;
    end();
    begin_with("depth:2");
    cu_graph graph = holding_graph();
    ck_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ck_ok(cuGraphDestroy(graph));
    ck_ok(cuGraphLaunch(exec, stream));
    ck_ok(cuGraphExecDestroy(exec));
    pleat_sim_advance(0, 1);
    ck_assert_int_eq(n_destroyed, 0);
    pleat_sim_advance(0, 1);
    ck_assert_int_eq(n_destroyed, 1);
}
END_TEST

START_TEST(a_capture_without_a_graph_gives_up_what_it_held)
{
    cu_graph graph;
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
    cu_graph growing = captured_graph();
    ck_ok(cuGraphRetainUserObject(growing, object_with(1), 1, CU_OBJECT_MOVE));
    ck_assert_int_eq(cuStreamQuery(stream), CU_CAPTURE_UNSUPPORTED);
    cu_user_object late = object_with(1);
    ck_assert_int_eq(cuGraphRetainUserObject(growing, late, 1, 0), CU_INVALID_VALUE);
    ck_ok(cuUserObjectRelease(late, 1));
    ck_assert_int_eq(n_destroyed, 1);
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CU_CAPTURE_INVALIDATED);
    ck_assert_int_eq(n_destroyed, 2);
    cu_stream other = world_stream();
    ck_ok(cuStreamBeginCapture_v2(other, CU_CAPTURE_MODE_GLOBAL));
    int status;
    ck_ok(cuStreamGetCaptureInfo_v2(other, &status, NULL, &growing, NULL, NULL));
    ck_ok(cuGraphRetainUserObject(growing, object_with(1), 1, CU_OBJECT_MOVE));
    ck_ok(cuStreamDestroy_v2(other));
    ck_assert_int_eq(n_destroyed, 3);
}
END_TEST

static void call_the_driver(void *ptr)
{
    int count;
    const char *name;
    inner_result = cuDeviceGetCount(&count);
    ck_ok(cuGetErrorName(inner_result, &name));
    ++*(int *)ptr;
}

START_TEST(a_destructor_that_calls_the_driver_is_refused_and_told)
{
    cu_user_object object;
    ck_ok(cuUserObjectCreate(&object, &n_destroyed, call_the_driver, 1, CU_OBJECT_UNSYNCED));
    ck_ok(cuUserObjectRelease(object, 1));
    ck_assert_int_eq(n_destroyed, 1);
    ck_assert_int_eq(inner_result, CU_NOT_PERMITTED);
    close_world();
    world_end_with(PLEAT_SIM_CALL_IN_DESTRUCTOR, 1);
    begin();
}
END_TEST

START_TEST(a_reset_forgets_objects_without_calling_anybody)
{
    cu_graph_exec exec;
    (void)object_with(1);
    cu_graph graph = holding_graph();
    ck_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ck_ok(cuGraphLaunch(exec, stream));
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_RELAXED));
    ck_ok(cuGraphRetainUserObject(captured_graph(), object_with(1), 1, CU_OBJECT_MOVE));
    ck_assert_int_eq(pleat_sim_reset(NULL), 0);
    ck_assert_int_eq(n_destroyed, 0);
    begin();
    ck_assert_uint_eq(world_counts().user_objects, 0);
}
END_TEST

SUITE(sim_user_object)
{
    TCase *own = tcase_create("references");
    tcase_add_checked_fixture(own, begin, end);
    tcase_add_test(own, the_last_reference_runs_the_destructor_once);
    tcase_add_test(own, what_the_reference_excludes_is_refused);
    tcase_add_test(own, a_destructor_that_calls_the_driver_is_refused_and_told);
    tcase_add_test(own, a_reset_forgets_objects_without_calling_anybody);
    suite_add_tcase(suite, own);
    TCase *graphs = tcase_create("graphs");
    tcase_add_checked_fixture(graphs, begin, end);
    tcase_add_test(graphs, a_captured_graph_has_a_handle_from_the_beginning);
    tcase_add_test(graphs, a_graph_holds_its_own_references_or_the_caller_s);
    tcase_add_test(graphs, an_executable_graph_holds_references_of_its_own);
    tcase_add_test(graphs, a_launch_in_flight_keeps_what_its_graph_held);
    tcase_add_test(graphs, a_launch_that_ends_in_time_lets_go_in_that_call);
    tcase_add_test(graphs, a_capture_without_a_graph_gives_up_what_it_held);
    suite_add_tcase(suite, graphs);
}
