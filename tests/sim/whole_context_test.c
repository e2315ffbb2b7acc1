/* whole_context_test.c - calls about all work of a context: an event, and a synchronisation. */
#include <pthread.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

static cu_devptr at; /* two accessible granules */
static cu_stream first;
static cu_stream second;
static cu_event event;
static cu_context context;

static void begin_with(const char *conf)
{
    world_begin(conf);
    at = world_map(2);
    first = world_stream();
    second = world_stream();
    event = world_event();
    ck_ok(cuCtxGetCurrent(&context));
}

static void begin(void)
{
    begin_with("depth:1000000,devices:2");
}

static void end(void)
{
    pleat_sim_finish();
    ck_ok(cuStreamDestroy_v2(first));
    ck_ok(cuStreamDestroy_v2(second));
    ck_ok(cuEventDestroy_v2(event));
    world_unmap(at, 2);
    world_end();
}

static int status_of(cu_stream stream)
{
    int status;
    ck_ok(cuStreamIsCapturing(stream, &status));
    return status;
}

static void end_broken(cu_stream stream)
{
    cu_graph graph;
    ck_assert_int_eq(status_of(stream), CU_CAPTURE_STATUS_INVALIDATED);
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CU_CAPTURE_INVALIDATED);
}

START_TEST(an_event_of_the_context_waits_for_all_its_streams)
{
    world_write(first, at, 512);
    world_write(second, at + GRANULE, 512);
    ck_ok(cuCtxRecordEvent(context, event));
    ck_assert_int_eq(cuEventQuery(event), CU_NOT_READY);
    ck_ok(cuStreamSynchronize(first));
    ck_assert_int_eq(cuEventQuery(event), CU_NOT_READY);
    ck_ok(cuStreamSynchronize(second));
    ck_ok(cuEventQuery(event));
}
END_TEST

START_TEST(an_event_of_the_context_waits_for_destroyed_streams_too)
{
    cu_stream gone = world_stream();
    world_write(gone, at, 512);
    ck_ok(cuStreamDestroy_v2(gone));
    ck_ok(cuCtxRecordEvent(context, event));
    ck_assert_int_eq(cuEventQuery(event), CU_NOT_READY);
    ck_ok(cuEventSynchronize(event));
    ck_assert_uint_eq(world_unfinished(), 0);
    ck_ok(cuEventQuery(event));
}
END_TEST

START_TEST(later_work_is_no_part_of_an_event_of_the_context)
{
    world_write(first, at, 512);
    ck_ok(cuCtxRecordEvent(context, event));
    world_write(first, at, 512);
    world_write(second, at + GRANULE, 512);
    ck_ok(cuEventSynchronize(event));
    ck_assert_uint_eq(world_unfinished(), 2);
    ck_ok(cuEventQuery(event));
}
END_TEST

START_TEST(a_stream_is_ordered_behind_an_event_of_the_context)
{
    world_write(first, at, 512);
    ck_ok(cuCtxRecordEvent(context, event));
    ck_ok(cuStreamWaitEvent(second, event, 0));
    world_write(second, at, 512);
    ck_assert_uint_eq(world_hazards(), 0);
    ck_ok(cuStreamSynchronize(second));
    ck_assert_uint_eq(world_unfinished(), 0);
}
END_TEST

START_TEST(an_event_of_an_idle_context_has_passed)
{
    cu_stream fresh;
    ck_ok(cuCtxRecordEvent(context, event));
    ck_ok(cuEventQuery(event));
    ck_ok(cuEventSynchronize(event));
    ck_ok(cuStreamCreate(&fresh, 0));
    ck_ok(cuStreamWaitEvent(fresh, event, 0));
    ck_ok(cuStreamDestroy_v2(fresh));
}
END_TEST

START_TEST(an_event_records_its_own_context_only)
{
    cu_context other;
    ck_ok(cuDevicePrimaryCtxRetain(&other, 1));
    ck_assert_int_eq(cuCtxRecordEvent(other, event), CU_INVALID_HANDLE);
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
    ck_assert_int_eq(cuCtxRecordEvent(other, event), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuCtxRecordEvent(NULL, event), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuCtxRecordEvent(context, NULL), CU_INVALID_HANDLE);
}
END_TEST

/* Make the call in relaxed mode, which allows a thread unsafe calls. */
static void *record_relaxed(void *result)
{
    int mode = CU_CAPTURE_MODE_RELAXED;
    cu_result made = cuCtxPushCurrent_v2(context);
    made = made == CU_SUCCESS ? cuThreadExchangeStreamCaptureMode(&mode) : made;
    *(int *)result = made == CU_SUCCESS ? cuCtxRecordEvent(context, event) : -1;
    return NULL;
}

static void *synchronize_relaxed(void *result)
{
    int mode = CU_CAPTURE_MODE_RELAXED;
    cu_result made = cuCtxPushCurrent_v2(context);
    made = made == CU_SUCCESS ? cuThreadExchangeStreamCaptureMode(&mode) : made;
    *(int *)result = made == CU_SUCCESS ? cuCtxSynchronize() : -1;
    return NULL;
}

static int result_elsewhere(void *(*body)(void *))
{
    int result = -1;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, body, &result), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return result;
}

START_TEST(no_capture_of_the_context_survives_either_call)
{
    for (int mode = CU_CAPTURE_MODE_GLOBAL; mode <= CU_CAPTURE_MODE_RELAXED; mode++) {
        ck_ok(cuStreamBeginCapture_v2(first, mode));
        ck_assert_int_eq(result_elsewhere(record_relaxed), CU_CAPTURE_UNSUPPORTED);
        end_broken(first);
        ck_ok(cuStreamBeginCapture_v2(first, mode));
        ck_assert_int_eq(result_elsewhere(synchronize_relaxed), CU_CAPTURE_UNSUPPORTED);
        end_broken(first);
        ck_ok(cuStreamBeginCapture_v2(first, mode));
        ck_assert_int_eq(cuCtxRecordEvent(context, event), CU_CAPTURE_UNSUPPORTED);
        end_broken(first);
        ck_ok(cuStreamBeginCapture_v2(first, mode));
        ck_assert_int_eq(cuCtxSynchronize(), CU_CAPTURE_UNSUPPORTED);
        end_broken(first);
    }
    ck_ok(cuCtxSynchronize());
}
END_TEST

START_TEST(a_synchronisation_finishes_the_work_of_its_context)
{
    cu_context other;
    ck_ok(cuDevicePrimaryCtxRetain(&other, 1));
    ck_ok(cuCtxPushCurrent_v2(other));
    cu_stream elsewhere = world_stream();
    ck_ok(pleat_sim_work(elsewhere, NULL, 0));
    ck_ok(cuCtxPopCurrent_v2(NULL));
    cu_stream gone = world_stream();
    world_write(first, at, 512);
    world_write(gone, at + GRANULE, 512);
    ck_ok(cuStreamDestroy_v2(gone));
    ck_ok(cuCtxSynchronize());
    ck_assert_uint_eq(world_unfinished(), 1);
    ck_ok(cuStreamDestroy_v2(elsewhere));
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
}
END_TEST

START_TEST(a_synchronisation_needs_a_context)
{
    ck_ok(cuCtxPopCurrent_v2(NULL));
    ck_assert_int_eq(cuCtxSynchronize(), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuCtxRecordEvent(context, event), CU_INVALID_CONTEXT);
    ck_ok(cuCtxPushCurrent_v2(context));
}
END_TEST

START_TEST(an_old_driver_cannot_record_a_context)
{
    end();
    begin_with("profile:old_driver");
    ck_assert_int_eq(cuCtxRecordEvent(context, event), CU_NOT_FOUND);
    ck_ok(cuCtxSynchronize());
}
END_TEST

SUITE(sim_whole_context)
{
    TCase *events = tcase_create("events");
    tcase_add_checked_fixture(events, begin, end);
    tcase_add_test(events, an_event_of_the_context_waits_for_all_its_streams);
    tcase_add_test(events, an_event_of_the_context_waits_for_destroyed_streams_too);
    tcase_add_test(events, later_work_is_no_part_of_an_event_of_the_context);
    tcase_add_test(events, a_stream_is_ordered_behind_an_event_of_the_context);
    tcase_add_test(events, an_event_of_an_idle_context_has_passed);
    tcase_add_test(events, an_event_records_its_own_context_only);
    tcase_add_test(events, an_old_driver_cannot_record_a_context);
    suite_add_tcase(suite, events);
    TCase *waits = tcase_create("synchronisation");
    tcase_add_checked_fixture(waits, begin, end);
    tcase_add_test(waits, no_capture_of_the_context_survives_either_call);
    tcase_add_test(waits, a_synchronisation_finishes_the_work_of_its_context);
    tcase_add_test(waits, a_synchronisation_needs_a_context);
    suite_add_tcase(suite, waits);
}
