/* retire_test.c - a stream is retired during a call that named it. */
/* labels: unit */
#include <check.h>
#include <pthread.h>
#include <sched.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20, RECORDING_US = 200000 };

typedef struct freeing {
    pleat instance;
    void *stream;
    pleat_devptr ptr;
    pleat_status st;
} freeing;

static void *free_slowly(void *arg)
{
    freeing *f = arg;
    f->st = pleat_block_free(f->instance, 0, f->ptr, f->stream);
    return NULL;
}

/* A thread that has never requested memory on the stream would leave the tick to one that has. */
static void *ask_and_free_slowly(void *arg)
{
    freeing *f = arg;
    f->st = pleat_block_alloc(f->instance, 0, 16 * MIB, f->stream, &f->ptr);
    return f->st == PLEAT_OK ? free_slowly(f) : NULL;
}

/* The free is still recording a tick when the stream is retired. The last tick comes behind this
 * tick. So no free on the stream needs a tick of the whole context. */
START_TEST(a_tick_that_is_being_recorded_is_not_the_last_one)
{
    pthread_t thread;
    freeing f = { .instance = api_make(API_PLEAT, "capacity:64M,depth:1048576", "wait_ms:0") };
    void *other = api_stream(f.instance, 0);
    f.stream = api_stream(f.instance, 0);
    pleat_devptr small = api_alloc(f.instance, 0, 512, other);
    pleat_devptr last = api_alloc(f.instance, 0, 16 * MIB, f.stream);
    uint64_t n_recorded = sim.n_calls("cuEventRecord");
    sim.delay_after("cuEventRecord", RECORDING_US);
    ck_assert_int_eq(pthread_create(&thread, NULL, ask_and_free_slowly, &f), 0);
    while (sim.n_calls("cuEventRecord") == n_recorded) {
        (void)sched_yield();
    }
    sim.delay_after("cuEventRecord", 0);
    ck_assert_int_eq(pleat_stream_retire(f.instance, 0, f.stream), PLEAT_OK);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(f.st, PLEAT_OK);
    ck_assert_uint_eq(sim.n_calls("cuEventRecord"), n_recorded + 2);
    sim.finish();
    api_stream_end(f.instance, 0, f.stream);
    uint64_t n_contexts = sim.n_calls("cuCtxRecordEvent");
    api_free(f.instance, 0, last, other);
    pleat_devptr large = api_alloc(f.instance, 0, 32 * MIB, other);
    ck_assert_uint_eq(sim.n_calls("cuCtxRecordEvent"), n_contexts);
    api_free(f.instance, 0, large, other);
    api_free(f.instance, 0, small, other);
    api_check(f.instance);
    api_stream_end(f.instance, 0, other);
    api_unmake(f.instance);
}
END_TEST

/* With stream_identity:handle a free on a second stream records the tick. The stream counts as
 * alive until it is retired. */
START_TEST(nor_is_one_that_another_streams_call_records)
{
    pthread_t thread;
    pleat instance = api_make(API_PLEAT, "capacity:64M,depth:1048576",
                              "wait_ms:0,stream_identity:handle");
    void *user = api_stream(instance, 0);
    freeing f = { .instance = instance, .stream = api_stream(instance, 0) };
    f.ptr = api_alloc(instance, 0, 16 * MIB, f.stream);
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, f.ptr, user), PLEAT_OK);
    uint64_t n_recorded = sim.n_calls("cuEventRecord");
    sim.delay_after("cuEventRecord", RECORDING_US);
    ck_assert_int_eq(pthread_create(&thread, NULL, free_slowly, &f), 0);
    while (sim.n_calls("cuEventRecord") == n_recorded) {
        (void)sched_yield();
    }
    sim.delay_after("cuEventRecord", 0);
    ck_assert_int_eq(pleat_stream_retire(instance, 0, user), PLEAT_OK);
    api_stream_end(instance, 0, user);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(f.st, PLEAT_OK);
    ck_assert_uint_eq(sim.n_calls("cuEventRecord"), n_recorded + 3); /* the user's two, its own */
    pleat_devptr next = api_alloc(instance, 0, 16 * MIB, f.stream);
    ck_assert_uint_eq(next, f.ptr);
    api_free(instance, 0, next, f.stream);
    api_check(instance);
    api_stream_end(instance, 0, f.stream);
    api_unmake(instance);
}
END_TEST

SUITE(api_retire)
{
    TCase *tcase = suite_case(suite, "recording", api_sim_load, NULL);
    tcase_add_test(tcase, a_tick_that_is_being_recorded_is_not_the_last_one);
    tcase_add_test(tcase, nor_is_one_that_another_streams_call_records);
}
