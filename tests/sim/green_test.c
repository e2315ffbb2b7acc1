/* green_test.c - green contexts, their streams, events and end. An event of the whole primary
 * context covers the work of its green contexts since CUDA 13. */
/* labels: unit */
#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

static cu_devptr at; /* two accessible granules */
static cu_stream own;
static cu_event event;
static cu_context primary;
static cu_green_ctx green;
static cu_context as_context;
static cu_stream stream;

static cu_dev_resource whole(void)
{
    cu_dev_resource resource;
    ck_ok(cuDeviceGetDevResource(0, &resource, 1));
    return resource;
}

static cu_green_ctx make(void)
{
    cu_dev_resource all = whole();
    cu_dev_resource part;
    cu_dev_resource rest;
    cu_dev_resource_desc desc;
    cu_green_ctx made;
    unsigned n = 1;
    ck_ok(cuDevSmResourceSplitByCount(&part, &n, &all, &rest, 0, 16));
    ck_ok(cuDevResourceGenerateDesc(&desc, &part, 1));
    ck_ok(cuGreenCtxCreate(&made, desc, 0, 1));
    return made;
}

static void begin_with(const char *conf)
{
    world_begin(conf);
    at = world_map(2);
    own = world_stream();
    event = world_event();
    ck_ok(cuCtxGetCurrent(&primary));
    green = make();
    ck_ok(cuCtxFromGreenCtx(&as_context, green));
    ck_ok(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING_FLAG, 0));
}

static void begin(void)
{
    begin_with("depth:1000000");
}

static void end_without_green(void)
{
    pleat_sim_finish();
    ck_ok(cuStreamDestroy_v2(own));
    ck_ok(cuEventDestroy_v2(event));
    world_unmap(at, 2);
    world_end();
}

static void end(void)
{
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuGreenCtxDestroy(green));
    end_without_green();
}

static void push(void)
{
    ck_ok(cuCtxPushCurrent_v2(as_context));
}

static void pop(void)
{
    cu_context popped;
    ck_ok(cuCtxPopCurrent_v2(&popped));
    ck_assert_ptr_eq(popped, as_context);
}

START_TEST(a_device_is_split_into_groups)
{
    cu_dev_resource all = whole();
    cu_dev_resource groups[3];
    cu_dev_resource rest;
    unsigned n = 0;
    ck_ok(cuDevSmResourceSplitByCount(NULL, &n, &all, NULL, 0, 31));
    ck_assert_uint_eq(n, 3);
    n = 9;
    ck_ok(cuDevSmResourceSplitByCount(groups, &n, &all, &rest, 0, 31));
    ck_assert_uint_eq(n, 3);
    ck_assert_uint_eq(groups[2].n_multiprocessors, 32);
    ck_assert_uint_eq(rest.n_multiprocessors, 12);
    ck_assert_int_eq(cuDevSmResourceSplitByCount(groups, &n, &all, &rest, 0, 200), 915);
    ck_ok(cuGreenCtxGetDevResource(green, &rest, 1));
    ck_assert_uint_eq(rest.n_multiprocessors, 16);
}
END_TEST

START_TEST(a_green_context_is_no_context_until_it_is_made_one)
{
    cu_device device;
    ck_assert_int_eq(cuCtxSetCurrent((cu_context)(void *)green), CU_INVALID_CONTEXT);
    ck_assert_ptr_ne(as_context, primary);
    push();
    ck_ok(cuCtxGetDevice(&device));
    ck_assert_int_eq(device, 0);
    ck_assert_int_eq(cuCtxDestroy_v2(as_context), CU_INVALID_CONTEXT);
    pop();
    ck_assert_int_eq(cuCtxFromGreenCtx(&as_context, (cu_green_ctx)(void *)primary),
                     CU_INVALID_CONTEXT);
}
END_TEST

START_TEST(a_stream_tells_both_of_its_contexts)
{
    cu_context context;
    cu_green_ctx found;
    ck_ok(cuStreamGetCtx(stream, &context));
    ck_assert_ptr_eq(context, as_context);
    ck_ok(cuStreamGetCtx_v2(stream, &context, &found));
    ck_assert_ptr_eq(context, primary);
    ck_assert_ptr_eq(found, green);
    ck_ok(cuStreamGetCtx_v2(own, &context, &found));
    ck_assert_ptr_eq(context, primary);
    ck_assert_ptr_null(found);
    push();
    ck_ok(cuStreamGetCtx_v2(CU_STREAM_LEGACY, &context, &found));
    ck_assert_ptr_eq(context, primary);
    ck_assert_ptr_eq(found, green);
    ck_ok(cuStreamGetGreenCtx(NULL, &found));
    ck_assert_ptr_eq(found, green);
    pop();
    ck_ok(cuStreamGetGreenCtx(NULL, &found));
    ck_assert_ptr_null(found);
}
END_TEST

START_TEST(its_default_streams_are_its_own_and_ordered_with_no_other)
{
    unsigned long long ids[2];
    unsigned long long of_thread[2];
    cu_stream blocking;
    cu_graph graph;
    ck_ok(cuStreamGetId(NULL, &ids[0]));
    ck_ok(cuStreamGetId(CU_STREAM_PER_THREAD, &of_thread[0]));
    ck_ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT_FLAG));
    world_write(blocking, at, 512);
    push();
    ck_ok(cuStreamGetId(NULL, &ids[1]));
    ck_assert_uint_ne(ids[0], ids[1]);
    ck_ok(cuStreamGetId(CU_STREAM_PER_THREAD, &of_thread[1]));
    ck_assert_uint_ne(of_thread[0], of_thread[1]);
    ck_assert_int_eq(cuStreamCreate(&blocking, CU_STREAM_DEFAULT_FLAG), CU_INVALID_VALUE);
    ck_ok(cuStreamSynchronize(NULL));
    ck_ok(cuStreamBeginCapture_v2(NULL, CU_CAPTURE_MODE_RELAXED));
    ck_ok(cuStreamEndCapture(NULL, &graph));
    ck_ok(cuGraphDestroy(graph));
    pop();
    ck_assert_uint_eq(world_unfinished(), 1);
    ck_ok(cuStreamSynchronize(NULL));
    ck_assert_uint_eq(world_unfinished(), 0);
    ck_ok(cuStreamDestroy_v2(blocking));
}
END_TEST

/* Are there no hazards where `own` goes on with what the green stream wrote, behind the event? */
static bool is_behind(void)
{
    ck_ok(cuStreamWaitEvent(own, event, 0));
    world_write(own, at, 512);
    return world_hazards() == 0;
}

START_TEST(an_event_of_the_primary_context_covers_it)
{
    world_write(stream, at, 512);
    ck_ok(cuCtxRecordEvent(primary, event));
    ck_assert_int_eq(cuEventQuery(event), CU_NOT_READY);
    ck_assert(is_behind());
    ck_ok(cuCtxSynchronize());
    ck_assert_uint_eq(world_unfinished(), 0);
}
END_TEST

START_TEST(its_own_events_cover_nothing_else)
{
    world_write(own, at + GRANULE, 512);
    ck_ok(cuCtxRecordEvent(as_context, event));
    ck_ok(cuEventQuery(event));
    world_write(stream, at, 512);
    ck_ok(cuGreenCtxRecordEvent(green, event));
    ck_assert_int_eq(cuEventQuery(event), CU_NOT_READY);
    push();
    ck_ok(cuCtxSynchronize());
    pop();
    ck_ok(cuEventQuery(event));
    ck_assert_uint_eq(world_unfinished(), 1);
}
END_TEST

START_TEST(a_capture_on_its_stream_is_broken_by_an_event_of_the_primary_context)
{
    cu_graph graph;
    ck_ok(cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_RELAXED));
    ck_assert_int_eq(cuCtxRecordEvent(primary, event), CU_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CU_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(an_event_of_the_primary_context_is_recorded_on_its_stream)
{
    world_write(stream, at, 512);
    ck_ok(cuEventRecord(event, stream));
    ck_assert(is_behind());
}
END_TEST

START_TEST(its_streams_outlive_it_detached)
{
    int status;
    world_write(stream, at, 512);
    ck_ok(cuGreenCtxDestroy(green));
    ck_assert_int_eq(cuGreenCtxDestroy(green), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuCtxPushCurrent_v2(as_context), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuStreamIsCapturing(stream, &status), CU_STREAM_DETACHED);
    ck_assert_int_eq(cuEventRecord(event, stream), CU_STREAM_DETACHED);
    ck_assert_uint_eq(world_unfinished(), 1);
    ck_ok(cuCtxRecordEvent(primary, event));
    ck_assert(is_behind());
    ck_ok(cuStreamDestroy_v2(stream));
    end_without_green();
}
END_TEST

START_TEST(before_cuda_13_the_primary_context_s_events_leave_it_out)
{
    int version;
    begin_with("depth:1000000,unkind:[green_apart]");
    ck_ok(cuDriverGetVersion(&version));
    ck_assert_int_lt(version, 13000);
    world_write(stream, at, 512);
    ck_ok(cuCtxRecordEvent(primary, event));
    ck_ok(cuEventQuery(event));
    ck_ok(cuCtxSynchronize());
    ck_assert_uint_eq(world_unfinished(), 1);
    end();
}
END_TEST

START_TEST(a_strict_driver_records_only_events_of_the_same_green_context)
{
    cu_event of_green;
    begin_with("depth:1000000,unkind:[green_events]");
    push();
    of_green = world_event();
    pop();
    ck_assert_int_eq(cuEventRecord(event, stream), CU_INVALID_HANDLE);
    ck_assert_int_eq(cuEventRecord(of_green, own), CU_INVALID_HANDLE);
    ck_ok(cuEventRecord(of_green, stream));
    ck_ok(cuGreenCtxRecordEvent(green, event));
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuGreenCtxDestroy(green));
    ck_assert_int_eq(cuEventQuery(of_green), CU_INVALID_HANDLE);
    ck_assert_uint_eq(world_counts().lost_objects, 1);
    pleat_sim_reset(NULL);
}
END_TEST

SUITE(sim_green)
{
    TCase *alive = suite_case(suite, "alive", begin, end);
    tcase_add_test(alive, a_device_is_split_into_groups);
    tcase_add_test(alive, a_green_context_is_no_context_until_it_is_made_one);
    tcase_add_test(alive, a_stream_tells_both_of_its_contexts);
    tcase_add_test(alive, its_default_streams_are_its_own_and_ordered_with_no_other);
    tcase_add_test(alive, an_event_of_the_primary_context_covers_it);
    tcase_add_test(alive, its_own_events_cover_nothing_else);
    tcase_add_test(alive, a_capture_on_its_stream_is_broken_by_an_event_of_the_primary_context);
    tcase_add_test(alive, an_event_of_the_primary_context_is_recorded_on_its_stream);
    TCase *gone = suite_case(suite, "gone", begin, NULL);
    tcase_add_test(gone, its_streams_outlive_it_detached);
    TCase *unkind = suite_case(suite, "unkind", NULL, NULL);
    tcase_add_test(unkind, before_cuda_13_the_primary_context_s_events_leave_it_out);
    tcase_add_test(unkind, a_strict_driver_records_only_events_of_the_same_green_context);
}
