/* created_context_test.c - contexts of cuCtxCreate beside the primary ones, the current context,
 * and the objects that end with a context. */
/* labels: unit */
#include <pthread.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"
#include "vmm/tools/sim/entries/entry.h"

static void two_devices(void)
{
    world_begin("devices:2,depth:1000000,context:30M,capacity:100M");
}

static cu_context current(void)
{
    cu_context context;
    ck_ok(cuCtxGetCurrent(&context));
    return context;
}

static cu_context create(int device)
{
    cu_context context;
    ck_ok(cuCtxCreate_v2(&context, 0, device));
    ck_assert_ptr_eq(current(), context);
    return context;
}

START_TEST(setting_replaces_the_top_of_the_stack)
{
    cu_context first = current();
    cu_context second;
    cu_context popped;
    ck_ok(cuDevicePrimaryCtxRetain(&second, 1));
    ck_ok(cuCtxSetCurrent(second));
    ck_assert_ptr_eq(current(), second);
    ck_ok(cuCtxPopCurrent_v2(&popped));
    ck_assert_ptr_eq(popped, second);
    ck_assert_ptr_null(current()); /* first was replaced, not covered */
    ck_ok(cuCtxSetCurrent(NULL));
    ck_assert_ptr_null(current());
    ck_ok(cuCtxSetCurrent(first));
    ck_assert_ptr_eq(current(), first);
    ck_ok(cuCtxPushCurrent_v2(second));
    ck_ok(cuCtxSetCurrent(NULL)); /* as a pop */
    ck_assert_ptr_eq(current(), first);
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
}
END_TEST

START_TEST(only_a_live_context_can_be_set)
{
    cu_context first = current();
    cu_context gone;
    ck_ok(cuDevicePrimaryCtxRetain(&gone, 1));
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
    ck_assert_int_eq(cuCtxSetCurrent(gone), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuCtxSetCurrent((cu_context)(void *)&gone), CU_INVALID_CONTEXT);
    ck_assert_ptr_eq(current(), first);
    pleat_sim_fail_at("cuCtxSetCurrent", 0, CU_DEINITIALIZED);
    ck_assert_int_eq(cuCtxSetCurrent(NULL), CU_DEINITIALIZED);
    ck_assert_ptr_eq(current(), first);
}
END_TEST

START_TEST(a_created_context_is_current_and_of_its_device)
{
    cu_context first = current();
    cu_context made = create(1);
    cu_context primary;
    cu_device device;
    ck_ok(cuCtxGetDevice(&device));
    ck_assert_int_eq(device, 1);
    ck_assert_uint_eq(world_counts().contexts, 2);
    ck_ok(cuDevicePrimaryCtxRetain(&primary, 1));
    ck_assert_ptr_ne(primary, made);
    ck_assert_uint_eq(world_counts().physical_bytes, 90 << 20);
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
    ck_ok(cuCtxDestroy_v2(made));
    ck_assert_ptr_eq(current(), first);
    ck_assert_uint_eq(world_counts().contexts, 1);
    ck_assert_uint_eq(world_counts().physical_bytes, 30 << 20);
}
END_TEST

START_TEST(streams_and_ids_are_a_context_s_own)
{
    cu_stream in_first = world_stream();
    unsigned long long id;
    unsigned long long other;
    ck_ok(cuStreamGetId(CU_STREAM_PER_THREAD, &id));
    cu_context made = create(0);
    cu_event event = world_event();
    cu_context owner;
    ck_assert_int_eq(cuEventRecord(event, in_first), CU_INVALID_HANDLE);
    ck_ok(cuStreamGetCtx(NULL, &owner));
    ck_assert_ptr_eq(owner, made);
    ck_ok(cuStreamGetId(CU_STREAM_PER_THREAD, &other));
    ck_assert_uint_ne(other, id);
    ck_ok(cuStreamGetId(CU_STREAM_PER_THREAD, &id));
    ck_assert_uint_eq(other, id);
    ck_ok(cuEventRecord(event, CU_STREAM_PER_THREAD));
    ck_ok(cuEventDestroy_v2(event));
    ck_ok(cuCtxDestroy_v2(made));
    ck_ok(cuStreamDestroy_v2(in_first));
}
END_TEST

static void *ask_id(void *made)
{
    unsigned long long id = 0;
    bool is_good = cuCtxSetCurrent(made) == CU_SUCCESS &&
                   cuStreamGetId(CU_STREAM_PER_THREAD, &id) == CU_SUCCESS;
    return is_good ? (void *)(uintptr_t)id : NULL;
}

START_TEST(every_thread_has_a_default_stream_of_its_own_in_it)
{
    pthread_t thread;
    void *of_other;
    unsigned long long legacy;
    unsigned long long mine;
    cu_context made = create(0);
    ck_ok(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
    ck_ok(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
    ck_assert_int_eq(pthread_create(&thread, NULL, ask_id, made), 0);
    ck_assert_int_eq(pthread_join(thread, &of_other), 0);
    ck_assert_ptr_nonnull(of_other);
    ck_assert_uint_ne(legacy, mine);
    ck_assert_uint_ne(legacy, (uintptr_t)of_other);
    ck_assert_uint_ne(mine, (uintptr_t)of_other);
    ck_ok(cuCtxDestroy_v2(made));
}
END_TEST

START_TEST(a_destroyed_context_takes_what_was_made_in_it_and_no_more)
{
    cu_devptr mine;
    cu_devptr its;
    ck_ok(cuMemAlloc_v2(&mine, 1 << 20));
    cu_context made = create(0);
    cu_stream stream = world_stream();
    world_event();
    ck_ok(cuMemAlloc_v2(&its, 1 << 20));
    ck_ok(cuCtxDestroy_v2(made));
    pleat_sim_counts counts = world_counts();
    ck_assert_uint_eq(counts.lost_objects, 3);
    ck_assert_uint_eq(counts.allocations, 1);
    ck_assert_uint_eq(counts.streams + counts.events, 0);
    ck_assert_int_eq(cuStreamQuery(stream), CU_INVALID_HANDLE);
    ck_assert_int_eq(cuMemFree_v2(its), CU_INVALID_VALUE);
    ck_ok(cuMemFree_v2(mine));
    ck_assert_int_eq(pleat_sim_reset(NULL), 0);
    world_begin(NULL);
}
END_TEST

static void *use_destroyed(void *made)
{
    cu_stream stream;
    if (cuCtxSetCurrent(made) != CU_SUCCESS || cuCtxDestroy_v2(made) != CU_SUCCESS) {
        return NULL;
    }
    return cuCtxSetCurrent(made) == CU_INVALID_CONTEXT &&
                   cuStreamCreate(&stream, 0) == CU_INVALID_CONTEXT
               ? made
               : NULL;
}

START_TEST(a_context_that_another_thread_destroyed_stays_on_the_stack)
{
    pthread_t thread;
    void *result;
    cu_stream stream;
    cu_context popped;
    cu_context made = create(0);
    ck_assert_int_eq(pthread_create(&thread, NULL, use_destroyed, made), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, made);
    ck_assert_int_eq(cuStreamCreate(&stream, 0), CU_CONTEXT_IS_DESTROYED);
    ck_assert_int_eq(cuCtxDestroy_v2(made), CU_INVALID_CONTEXT);
    ck_ok(cuCtxPopCurrent_v2(&popped));
    cu_context again = create(0); /* in the same place, where stale handles stay stale */
    ck_ok(cuCtxDestroy_v2(again));
}
END_TEST

START_TEST(what_no_driver_creates_or_destroys_is_refused)
{
    cu_context context;
    cu_context first = current();
    ck_assert_int_eq(cuCtxCreate_v2(NULL, 0, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuCtxCreate_v2(&context, 1 << 8, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuCtxCreate_v2(&context, 0, 2), CU_INVALID_DEVICE);
    ck_assert_int_eq(cuCtxDestroy_v2(NULL), CU_INVALID_CONTEXT);
    ck_assert_int_eq(cuCtxDestroy_v2(first), CU_INVALID_CONTEXT); /* a primary context */
    cu_devptr at;
    ck_ok(cuMemAlloc_v2(&at, 50 << 20));
    ck_assert_int_eq(cuCtxCreate_v2(&context, 0, 0), CU_OUT_OF_MEMORY);
    ck_assert_ptr_eq(current(), first);
    ck_ok(cuMemFree_v2(at));
}
END_TEST

START_TEST(later_versions_take_no_restrictions)
{
    static const int restriction[2];
    const void *none[3] = { NULL };
    const void *affinity[3] = { restriction, NULL, NULL };
    const void *graphics[3] = { NULL, NULL, restriction };
    cu_context context;
    ck_ok(cuCtxCreate_v3(&context, NULL, 0, 0, 1));
    ck_ok(cuCtxDestroy_v2(context));
    ck_ok(cuCtxCreate_v4(&context, NULL, 0, 1));
    ck_ok(cuCtxDestroy_v2(context));
    ck_ok(cuCtxCreate_v4(&context, none, 0, 1));
    ck_ok(cuCtxDestroy_v2(context));
    ck_assert_int_eq(cuCtxCreate_v3(&context, restriction, 1, 0, 1), 224);
    ck_assert_int_eq(cuCtxCreate_v4(&context, affinity, 0, 1), 224);
    ck_assert_int_eq(cuCtxCreate_v4(&context, graphics, 0, 1), CU_NOT_SUPPORTED);
    ck_assert_uint_eq(world_counts().contexts, 1);
    world_end();
    world_begin("profile:old_driver");
    ck_ok(cuCtxCreate_v2(&context, 0, 0));
    ck_ok(cuCtxDestroy_v2(context));
    ck_assert_int_eq(cuCtxCreate_v3(&context, NULL, 0, 0, 0), CU_NOT_FOUND);
    ck_assert_int_eq(cuCtxCreate_v4(&context, NULL, 0, 0), CU_NOT_FOUND);
}
END_TEST

SUITE(sim_created_context)
{
    TCase *contexts = tcase_create("contexts");
    tcase_add_checked_fixture(contexts, two_devices, world_end);
    tcase_add_test(contexts, setting_replaces_the_top_of_the_stack);
    tcase_add_test(contexts, only_a_live_context_can_be_set);
    tcase_add_test(contexts, a_created_context_is_current_and_of_its_device);
    tcase_add_test(contexts, streams_and_ids_are_a_context_s_own);
    tcase_add_test(contexts, every_thread_has_a_default_stream_of_its_own_in_it);
    tcase_add_test(contexts, a_destroyed_context_takes_what_was_made_in_it_and_no_more);
    tcase_add_test(contexts, a_context_that_another_thread_destroyed_stays_on_the_stack);
    tcase_add_test(contexts, what_no_driver_creates_or_destroys_is_refused);
    tcase_add_test(contexts, later_versions_take_no_restrictions);
    suite_add_tcase(suite, contexts);
}
