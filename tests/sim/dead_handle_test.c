/* dead_handle_test.c - a call with a destroyed stream or event is refused. If the configuration
 * says so, it is also reported as a hazard. */
#include <string.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

enum { QUARANTINE = 4096 };

static void begin(void)
{
    world_begin("dead_handles:hazard");
}

static void end(void)
{
    world_end();
}

static cu_stream dead_stream(void)
{
    cu_stream stream = world_stream();
    ck_ok(cuStreamDestroy_v2(stream));
    return stream;
}

static cu_event dead_event(void)
{
    cu_event event = world_event();
    ck_ok(cuEventDestroy_v2(event));
    return event;
}

/* The call is refused, and the next hazard names the call and the handle. */
#define ASSERT_TOLD(call, name, handle)                                                            \
    do {                                                                                           \
        size_t n_before = world_hazards();                                                         \
        ck_assert_int_eq((call), CU_INVALID_HANDLE);                                               \
        assert_last_hazard(n_before, (name), (handle));                                            \
    } while (0)

static void assert_last_hazard(size_t n_before, const char *name, const void *handle)
{
    pleat_sim_hazard found[64];
    ck_assert_uint_eq(pleat_sim_hazards(found, 64), n_before + 1);
    const pleat_sim_hazard *last = &found[n_before];
    ck_assert_int_eq(last->kind, PLEAT_SIM_DEAD_HANDLE);
    ck_assert_uint_eq(last->ptr, (uint64_t)(uintptr_t)handle);
    ck_assert_msg(strncmp(last->text, name, strlen(name)) == 0, "%s", last->text);
}

START_TEST(every_call_with_a_dead_stream_is_told)
{
    int status;
    cu_context context;
    unsigned long long id;
    cu_graph graph;
    cu_event event = world_event();
    cu_stream dead = dead_stream();
    int priority;
    unsigned flags;
    ASSERT_TOLD(cuStreamQuery(dead), "cuStreamQuery", dead);
    ASSERT_TOLD(cuStreamGetFlags(dead, &flags), "cuStreamGetFlags", dead);
    ASSERT_TOLD(cuStreamGetPriority(dead, &priority), "cuStreamGetPriority", dead);
    ASSERT_TOLD(cuStreamSynchronize(dead), "cuStreamSynchronize", dead);
    ASSERT_TOLD(cuStreamGetId(dead, &id), "cuStreamGetId", dead);
    ASSERT_TOLD(cuStreamGetCtx(dead, &context), "cuStreamGetCtx", dead);
    ASSERT_TOLD(cuStreamIsCapturing(dead, &status), "cuStreamIsCapturing", dead);
    ASSERT_TOLD(cuStreamGetCaptureInfo_v2(dead, &status, &id, NULL, NULL, NULL),
                "cuStreamGetCaptureInfo", dead);
    ASSERT_TOLD(cuStreamBeginCapture_v2(dead, 0), "cuStreamBeginCapture", dead);
    ASSERT_TOLD(cuStreamEndCapture(dead, &graph), "cuStreamEndCapture", dead);
    ASSERT_TOLD(cuStreamWaitEvent(dead, event, 0), "cuStreamWaitEvent", dead);
    ASSERT_TOLD(cuEventRecord(event, dead), "cuEventRecord", dead);
    ASSERT_TOLD(cuStreamDestroy_v2(dead), "cuStreamDestroy", dead);
    ASSERT_TOLD(pleat_sim_work(dead, NULL, 0), "pleat_sim_work", dead);
    ck_ok(cuEventDestroy_v2(event));
    ck_assert_int_eq(pleat_sim_reset(NULL), 0);
    begin();
}
END_TEST

START_TEST(every_call_with_a_dead_event_is_told)
{
    float milliseconds;
    cu_context context;
    ck_ok(cuCtxGetCurrent(&context));
    cu_event dead = dead_event();
    ASSERT_TOLD(cuEventQuery(dead), "cuEventQuery", dead);
    ASSERT_TOLD(cuEventSynchronize(dead), "cuEventSynchronize", dead);
    ASSERT_TOLD(cuEventRecord(dead, NULL), "cuEventRecord", dead);
    ASSERT_TOLD(cuCtxRecordEvent(context, dead), "cuCtxRecordEvent", dead);
    ASSERT_TOLD(cuStreamWaitEvent(NULL, dead, 0), "cuStreamWaitEvent", dead);
    ASSERT_TOLD(cuEventElapsedTime(&milliseconds, dead, NULL), "cuEventElapsedTime", dead);
    ASSERT_TOLD(cuEventDestroy_v2(dead), "cuEventDestroy", dead);
    ck_assert_int_eq(pleat_sim_reset(NULL), 0);
    begin();
}
END_TEST

START_TEST(what_never_was_a_handle_is_refused_without_a_hazard)
{
    int value;
    ck_assert_int_eq(cuStreamQuery((cu_stream)(void *)&value), CU_INVALID_HANDLE);
    ck_assert_int_eq(cuEventQuery((cu_event)(void *)&value), CU_INVALID_HANDLE);
    ck_assert_int_eq(cuEventQuery(NULL), CU_INVALID_HANDLE);
}
END_TEST

START_TEST(a_handle_stays_dead_until_thousands_were_destroyed)
{
    cu_stream stream = dead_stream();
    cu_event event = dead_event();
    for (int i = 0; i < QUARANTINE; i++) {
        ck_assert_ptr_ne(dead_stream(), stream);
        ck_assert_ptr_ne(dead_event(), event);
    }
    cu_stream next_stream = world_stream();
    cu_event next_event = world_event();
    ck_assert_ptr_eq(next_stream, stream);
    ck_assert_ptr_eq(next_event, event);
    ck_ok(cuStreamQuery(next_stream));
    ck_ok(cuStreamDestroy_v2(next_stream));
    ck_ok(cuEventDestroy_v2(next_event));
}
END_TEST

START_TEST(by_default_the_next_one_gets_the_handle_and_nothing_is_told)
{
    world_end();
    world_begin(NULL);
    cu_stream stream = dead_stream();
    cu_event event = dead_event();
    ck_assert_int_eq(cuStreamQuery(stream), CU_INVALID_HANDLE);
    ck_assert_int_eq(cuEventQuery(event), CU_INVALID_HANDLE);
    ck_assert_ptr_eq(dead_stream(), stream);
    ck_assert_ptr_eq(dead_event(), event);
}
END_TEST

SUITE(sim_dead_handle)
{
    TCase *dead = tcase_create("dead handles");
    tcase_add_checked_fixture(dead, begin, end);
    tcase_add_test(dead, every_call_with_a_dead_stream_is_told);
    tcase_add_test(dead, every_call_with_a_dead_event_is_told);
    tcase_add_test(dead, what_never_was_a_handle_is_refused_without_a_hazard);
    tcase_add_test(dead, a_handle_stays_dead_until_thousands_were_destroyed);
    tcase_add_test(dead, by_default_the_next_one_gets_the_handle_and_nothing_is_told);
    suite_add_tcase(suite, dead);
}
