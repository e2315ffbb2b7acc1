/* context_test.c - contexts, stream handles and ids, events, and what a fork leaves. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

static void two_devices(void)
{
    world_begin("devices:2,depth:1000000");
}

static unsigned long long id_of(cu_stream stream)
{
    unsigned long long id;
    ck_ok(cuStreamGetId(stream, &id));
    return id;
}

/* Make the context of device 1 current too. */
static void enter_other(cu_context *context)
{
    ck_ok(cuDevicePrimaryCtxRetain(context, 1));
    ck_ok(cuCtxPushCurrent_v2(*context));
}

static void leave_other(void)
{
    ck_ok(cuCtxPopCurrent_v2(NULL));
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
}

START_TEST(streams_and_events_need_a_current_context)
{
    cu_context context;
    cu_stream made;
    cu_event event = world_event();
    cu_stream stream = world_stream();
    unsigned long long id;
    int status;
    ck_ok(cuCtxPopCurrent_v2(&context));
    ck_assert_int_eq(cuStreamCreate(&made, 0), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuStreamGetId(stream, &id), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuStreamQuery(stream), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuStreamSynchronize(stream), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuStreamIsCapturing(stream, &status), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuEventRecord(event, stream), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuEventQuery(event), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuStreamWaitEvent(stream, event, 0), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuStreamDestroy_v2(stream), CU_INVALID_CONTEXT);
    ck_ok(cuCtxPushCurrent_v2(context));
    ck_ok(cuEventDestroy_v2(event));
    ck_ok(cuStreamDestroy_v2(stream));
}
END_TEST

START_TEST(contexts_stack_and_pop_in_order)
{
    cu_context first;
    cu_context second;
    cu_context popped;
    cu_context now;
    cu_device device;
    ck_ok(cuCtxGetCurrent(&first));
    enter_other(&second);
    ck_assert_ptr_ne(first, second);
    ck_ok(cuCtxGetCurrent(&now));
    ck_assert_ptr_eq(now, second);
    ck_ok(cuCtxGetDevice(&device));
    ck_assert_int_eq(device, 1);
    ck_ok(cuCtxPopCurrent_v2(&popped));
    ck_assert_ptr_eq(popped, second);
    ck_ok(cuCtxGetDevice(&device));
    ck_assert_int_eq(device, 0);
    ck_ok(cuCtxGetCurrent(&now));
    ck_assert_ptr_eq(now, first);
    ck_ok(cuCtxPopCurrent_v2(&popped));
    ck_ok(cuCtxGetCurrent(&now));
    ck_assert_ptr_null(now);
    ck_assert_int_eq(cuCtxGetDevice(&device), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuCtxPopCurrent_v2(&popped), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuCtxPushCurrent_v2(NULL), CU_INVALID_CONTEXT);
    ck_ok(cuCtxPushCurrent_v2(first));
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
    ck_assert_int_eq(cuCtxPushCurrent_v2(second), CU_INVALID_CONTEXT);
}
END_TEST

START_TEST(a_primary_context_lives_as_long_as_it_is_retained)
{
    cu_context context;
    enter_other(&context);
    ck_ok(cuDevicePrimaryCtxRetain(&context, 1));
    cu_stream stream = world_stream();
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
    ck_ok(cuStreamQuery(stream));
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
    ck_assert_int_eq(cuStreamCreate(&stream, 0), CU_CONTEXT_IS_DESTROYED);
    ck_assert_int_eq(cuDevicePrimaryCtxRelease_v2(1), CU_INVALID_CONTEXT);
    ck_ok(cuDevicePrimaryCtxRetain(&context, 1));
    ck_assert_int_eq(cuStreamCreate(&stream, 0), CU_CONTEXT_IS_DESTROYED);
    leave_other();
}
END_TEST

START_TEST(a_context_holds_its_share_of_its_device)
{
    cu_context context;
    cu_devptr at;
    world_end();
    world_begin("devices:2,capacity:100M,context:30M");
    ck_assert_uint_eq(world_counts().physical_bytes, 30 << 20);
    ck_assert_int_eq(cuMemAlloc_v2(&at, 71 << 20), CU_OUT_OF_MEMORY);
    enter_other(&context);
    ck_assert_uint_eq(world_counts().physical_bytes, 60 << 20);
    ck_ok(cuMemAlloc_v2(&at, 70 << 20));
    ck_ok(cuMemFree_v2(at));
    leave_other();
    ck_assert_uint_eq(world_counts().physical_bytes, 30 << 20);
    world_end();
    ck_assert_int_eq(pleat_sim_reset("capacity:100M,context:101M"), 0);
    ck_ok(cuInit(0));
    ck_assert_int_eq(cuDevicePrimaryCtxRetain(&context, 0), CU_OUT_OF_MEMORY);
    world_begin(NULL);
}
END_TEST

START_TEST(what_a_context_takes_with_it_is_counted_as_lost)
{
    cu_context context;
    cu_devptr at;
    enter_other(&context);
    cu_stream stream = world_stream();
    world_event();
    ck_ok(cuMemAlloc_v2(&at, 512));
    leave_other();
    pleat_sim_counts counts = world_counts();
    ck_assert_uint_eq(counts.lost_objects, 3);
    ck_assert_uint_eq(counts.streams + counts.events + counts.allocations, 0);
    ck_assert_int_eq(cuStreamQuery(stream), CU_INVALID_HANDLE);
    ck_assert_int_eq(pleat_sim_reset(NULL), 0);
    world_begin(NULL);
}
END_TEST

static void *look_at_context(void *out)
{
    int result = cuCtxGetCurrent(out);
    return (void *)(intptr_t)result;
}

START_TEST(a_new_thread_has_no_context)
{
    pthread_t thread;
    cu_context context = (cu_context)(void *)&thread;
    void *result;
    ck_assert_int_eq(pthread_create(&thread, NULL, look_at_context, &context), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_int_eq((int)(intptr_t)result, CU_SUCCESS);
    ck_assert_ptr_null(context);
}
END_TEST

START_TEST(stream_handles_are_recycled_and_ids_never)
{
    cu_devptr at = world_map(1);
    cu_stream first = world_stream();
    unsigned long long first_id = id_of(first);
    world_write(first, at, 512);
    ck_ok(cuStreamDestroy_v2(first));
    ck_assert_int_eq(cuStreamQuery(first), CU_INVALID_HANDLE);
    cu_stream second = world_stream();
    ck_assert_ptr_eq(second, first);
    ck_assert_uint_ne(id_of(second), first_id);
    ck_ok(cuStreamQuery(second));
    ck_ok(cuStreamSynchronize(second));
    ck_assert_uint_eq(world_counts().unfinished_work, 1);
    ck_ok(cuStreamDestroy_v2(second));
    pleat_sim_finish();
    ck_assert_uint_eq(world_counts().unfinished_work, 0);
    world_unmap(at, 1);
}
END_TEST

START_TEST(an_event_outlives_its_stream)
{
    cu_devptr at = world_map(1);
    cu_stream stream = world_stream();
    cu_event event = world_event();
    world_write(stream, at, 512);
    ck_ok(cuEventRecord(event, stream));
    ck_ok(cuStreamDestroy_v2(stream));
    ck_assert_int_eq(cuEventQuery(event), CU_NOT_READY);
    cu_stream next = world_stream();
    ck_ok(cuStreamWaitEvent(next, event, 0));
    world_write(next, at, 512);
    ck_ok(cuStreamSynchronize(next));
    ck_ok(cuEventQuery(event));
    ck_ok(cuEventDestroy_v2(event));
    ck_ok(cuStreamDestroy_v2(next));
    world_unmap(at, 1);
}
END_TEST

START_TEST(default_streams_have_ids_by_context_and_thread)
{
    cu_context context;
    unsigned long long legacy = id_of(NULL);
    unsigned long long own = id_of(CU_STREAM_PER_THREAD);
    ck_assert_uint_eq(id_of(CU_STREAM_LEGACY), legacy);
    ck_assert_uint_eq(id_of(CU_STREAM_PER_THREAD), own);
    ck_assert_uint_ne(own, legacy);
    enter_other(&context);
    ck_assert_uint_ne(id_of(NULL), legacy);
    ck_assert_uint_ne(id_of(CU_STREAM_PER_THREAD), own);
    leave_other();
    ck_assert_uint_eq(world_counts().streams, 0);
}
END_TEST

START_TEST(work_and_records_refuse_streams_of_another_context)
{
    cu_context context;
    cu_context owner;
    cu_devptr at = world_map(1);
    cu_stream near = world_stream();
    cu_event event = world_event();
    pleat_sim_access access = { at, 512, true };
    enter_other(&context);
    cu_stream far = world_stream();
    ck_assert_int_eq(pleat_sim_work(near, &access, 1), CU_INVALID_HANDLE);
    ck_assert_int_eq(cuMemsetD8Async(at, 0, 512, near), CU_INVALID_VALUE);
    ck_assert_int_eq(cuEventRecord(event, far), CU_INVALID_HANDLE);
    ck_assert_int_eq(cuEventRecord(event, NULL), CU_INVALID_HANDLE);
    ck_ok(cuEventRecord(event, near));
    ck_ok(cuStreamWaitEvent(far, event, 0));
    ck_ok(cuStreamGetCtx(near, &owner));
    ck_assert_ptr_ne(owner, context);
    ck_ok(cuStreamGetCtx(NULL, &owner));
    ck_assert_ptr_eq(owner, context);
    ck_ok(cuStreamDestroy_v2(far));
    leave_other();
    ck_ok(cuEventDestroy_v2(event));
    ck_ok(cuStreamDestroy_v2(near));
    world_unmap(at, 1);
    world_end_with(PLEAT_SIM_UNMAPPED_ACCESS, 1); /* of the memset: device 1 has no access */
    two_devices();
}
END_TEST

START_TEST(handles_that_are_none_are_refused)
{
    cu_stream stream = world_stream();
    cu_event event = world_event();
    unsigned long long id;
    cu_stream wrong = (cu_stream)(void *)((char *)(void *)stream + 8);
    ck_assert_int_eq(cuStreamGetId(wrong, &id), CU_INVALID_HANDLE);
    ck_assert_int_eq(cuStreamDestroy_v2(NULL), CU_INVALID_HANDLE);
    ck_assert_int_eq(cuStreamDestroy_v2(CU_STREAM_PER_THREAD), CU_INVALID_HANDLE);
    ck_assert_int_eq(cuEventRecord(NULL, stream), CU_INVALID_HANDLE);
    ck_assert_int_eq(cuEventQuery((cu_event)(void *)stream), CU_INVALID_HANDLE);
    ck_assert_int_eq(cuStreamCreate(&stream, 2), CU_INVALID_VALUE);
    ck_assert_int_eq(cuEventCreate(&event, 128), CU_INVALID_VALUE);
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuEventDestroy_v2(event));
    ck_assert_int_eq(cuEventDestroy_v2(event), CU_INVALID_HANDLE);
    ck_assert_int_eq(cuStreamDestroy_v2(stream), CU_INVALID_HANDLE);
}
END_TEST

/* In a child: 0 if every kind of call answers NOT_INITIALIZED. */
static int check_child(void)
{
    int count;
    cu_devptr at;
    cu_context context;
    bool is_refused = cuInit(0) == CU_NOT_INITIALIZED &&
                      cuDeviceGetCount(&count) == CU_NOT_INITIALIZED &&
                      cuMemAddressReserve(&at, GRANULE, 0, 0, 0) == CU_NOT_INITIALIZED &&
                      cuCtxGetCurrent(&context) == CU_NOT_INITIALIZED &&
                      cuStreamQuery(NULL) == CU_NOT_INITIALIZED &&
                      pleat_sim_work(NULL, NULL, 0) == CU_NOT_INITIALIZED;
    return is_refused && pleat_sim_reset(NULL) == 0 && cuInit(0) == CU_NOT_INITIALIZED ? 0 : 1;
}

START_TEST(after_fork_every_call_answers_not_initialized)
{
    int status;
    cu_devptr at = world_map(1);
    pid_t child = fork();
    if (child == 0) {
        _exit(check_child());
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    world_unmap(at, 1);
}
END_TEST

START_TEST(fork_is_harmless_before_cuinit_or_where_allowed)
{
    int status;
    world_end();
    world_begin("fork:allow");
    pid_t child = fork();
    if (child == 0) {
        int count;
        _exit(cuDeviceGetCount(&count) == CU_SUCCESS ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* ---- what streams say of themselves ---- */

START_TEST(streams_say_their_flags_and_priorities)
{
    int least = 1;
    int greatest = 1;
    int priority = 1;
    unsigned flags = 7;
    cu_stream stream;
    ck_ok(cuCtxGetStreamPriorityRange(&least, &greatest));
    ck_ok(cuCtxGetStreamPriorityRange(NULL, NULL));
    ck_assert(least == 0 && greatest < 0);
    for (int asked = greatest - 2; asked <= least + 2; asked++) {
        unsigned kind = (unsigned)asked & 1;
        ck_ok(cuStreamCreateWithPriority(&stream, kind, asked));
        ck_ok(cuStreamGetPriority(stream, &priority));
        ck_ok(cuStreamGetFlags(stream, &flags));
        ck_assert_int_eq(priority, asked > least ? least : asked < greatest ? greatest : asked);
        ck_assert_uint_eq(flags, kind);
        ck_ok(cuStreamDestroy_v2(stream));
    }
    ck_assert_int_eq(cuStreamCreateWithPriority(&stream, 2, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuStreamCreateWithPriority(NULL, 0, 0), CU_INVALID_VALUE);
    ck_ok(cuStreamCreate(&stream, CU_STREAM_DEFAULT_FLAG)); /* takes a place used before */
    ck_ok(cuStreamGetPriority(stream, &priority));
    ck_assert_int_eq(priority, 0);
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuStreamGetFlags(NULL, &flags));
    ck_assert_uint_eq(flags, CU_STREAM_DEFAULT_FLAG);
    ck_ok(cuStreamGetFlags(CU_STREAM_PER_THREAD, &flags));
    ck_assert_uint_eq(flags, CU_STREAM_DEFAULT_FLAG);
    ck_assert_int_eq(cuStreamGetFlags(NULL, NULL), CU_INVALID_VALUE);
    ck_assert_int_eq(cuStreamGetPriority(NULL, NULL), CU_INVALID_VALUE);
}
END_TEST

SUITE(sim_context)
{
    TCase *contexts = tcase_create("contexts");
    tcase_add_checked_fixture(contexts, two_devices, world_end);
    tcase_add_test(contexts, streams_and_events_need_a_current_context);
    tcase_add_test(contexts, contexts_stack_and_pop_in_order);
    tcase_add_test(contexts, a_primary_context_lives_as_long_as_it_is_retained);
    tcase_add_test(contexts, a_context_holds_its_share_of_its_device);
    tcase_add_test(contexts, what_a_context_takes_with_it_is_counted_as_lost);
    tcase_add_test(contexts, a_new_thread_has_no_context);
    suite_add_tcase(suite, contexts);
    TCase *streams = tcase_create("streams");
    tcase_add_checked_fixture(streams, two_devices, world_end);
    tcase_add_test(streams, stream_handles_are_recycled_and_ids_never);
    tcase_add_test(streams, streams_say_their_flags_and_priorities);
    tcase_add_test(streams, an_event_outlives_its_stream);
    tcase_add_test(streams, default_streams_have_ids_by_context_and_thread);
    tcase_add_test(streams, work_and_records_refuse_streams_of_another_context);
    tcase_add_test(streams, handles_that_are_none_are_refused);
    suite_add_tcase(suite, streams);
    TCase *forks = tcase_create("forks");
    tcase_add_checked_fixture(forks, two_devices, world_end);
    tcase_add_test(forks, after_fork_every_call_answers_not_initialized);
    tcase_add_test(forks, fork_is_harmless_before_cuinit_or_where_allowed);
    suite_add_tcase(suite, forks);
}
