/* waiter_test.c - a classic cache's request runs out of memory while others free. */
/* labels: stress */
#include <check.h>
#include <pthread.h>
#include <semaphore.h>

#include "segments/classic/waiter.h"
#include "tests/support/segments/segments_cache.h"
#include "tests/support/suite.h"
#include "vmm/device_state.h"

static const pl_allocator_ops *const all_ops[] = {
    &pl_torch_native_ops,
    &pl_tf_bfc_ops,
    &pl_mxnet_naive_ops,
    &pl_mxnet_round_ops,
};

enum { N_OPS = sizeof all_ops / sizeof all_ops[0] };

/* Stops a request between its choice of memory to give back and its driver call. */
typedef struct stop {
    pl_observer observer;
    sem_t has_chosen;
    sem_t may_go_on;
    size_t bytes;
    pleat_devptr ptr;
    pleat_status answer;
} stop;

static stop at;

static void stop_at_departure(pl_observer *self, const pl_event *event)
{
    if (event->action == PL_ACTION_SEGMENT_FREE) {
        atomic_store(&self->is_on, false);
        sem_post(&at.has_chosen);
        sem_wait(&at.may_go_on);
    }
}

static void *ask(void *arg)
{
    (void)arg;
    at.answer = cache.a->ops->alloc(cache.a, at.bytes, cache.streams[0], &at.ptr);
    return NULL;
}

/* A thread that holds the device's lock. The test's own thread may so take locks of lower rank. */
typedef struct keeper {
    pthread_t thread;
    sem_t holds, may_end;
} keeper;

static void *keep_device(void *arg)
{
    keeper *k = arg;
    pl_lock_acquire(&cache.dev->lock);
    sem_post(&k->holds);
    sem_wait(&k->may_end);
    pl_lock_release(&cache.dev->lock);
    return NULL;
}

static void begin_keeping(keeper *k)
{
    ck_assert_int_eq(sem_init(&k->holds, 0, 0) | sem_init(&k->may_end, 0, 0), 0);
    ck_assert_int_eq(pthread_create(&k->thread, NULL, keep_device, k), 0);
    sem_wait(&k->holds);
}

static void end_keeping(keeper *k)
{
    sem_post(&k->may_end);
    ck_assert_int_eq(pthread_join(k->thread, NULL), 0);
}

/* The cached block is not enough. The live block is freed too late to be given back with it: the
 * device's lock holds up the driver call meanwhile. */
START_TEST(what_is_cached_after_the_cache_went_is_given_back_as_well)
{
    pthread_t thread;
    pleat_devptr elsewhere = 0;
    pl_allocator_options options = cache_defaults();
    at = (stop){ .observer = { .tell = stop_at_departure }, .bytes = 160 * MIB };
    options.observer = &at.observer;
    ck_assert_int_eq(sem_init(&at.has_chosen, 0, 0) | sem_init(&at.may_go_on, 0, 0), 0);
    cache_open(all_ops[_i], "capacity:256M", &options);
    ck_assert_int_eq(pl_device_malloc(cache.dev, 64 * MIB, &elsewhere), PLEAT_OK);
    pleat_devptr live = cache_get(64 * MIB, 0);
    cache_put(cache_get(64 * MIB, 0));
    atomic_store(&at.observer.is_on, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, ask, NULL), 0);
    sem_wait(&at.has_chosen);
    keeper k;
    begin_keeping(&k);
    sem_post(&at.may_go_on);
    pleat_status freed = cache.a->ops->free(cache.a, live, NULL);
    end_keeping(&k);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(freed, PLEAT_OK);
    ck_assert_int_eq(at.answer, PLEAT_OK);
    ck_assert_int_eq(pl_device_mfree(cache.dev, elsewhere), PLEAT_OK);
    cache_close();
}
END_TEST

/* Others free in every round. In the second case they make a driver call every second round. */
START_TEST(only_a_few_rounds_are_for_what_others_free)
{
    pl_lock lock;
    pl_waiter waiter;
    uint64_t n_frees = 0;
    unsigned n_rounds[2] = { 0 };
    pl_lock_init(&lock, PL_RANK_DEVICE);
    pl_waiter_init(&waiter, &lock, &n_frees);
    pl_lock_acquire(&lock);
    for (int has_calls = 0; has_calls < 2; has_calls++) {
        pl_turn turn = pl_waiter_begin(&waiter);
        do {
            n_frees++;
            if (has_calls && n_rounds[has_calls] % 2 == 0 && n_rounds[has_calls] < 100) {
                pl_waiter_leave(&waiter);
                pl_waiter_return(&waiter, NULL);
            } else {
                pl_waiter_see(&waiter, &turn);
            }
            n_rounds[has_calls]++;
        } while (pl_waiter_may_try(&waiter, &turn, PLEAT_ENOMEM_DEVICE, true));
    }
    pl_lock_release(&lock);
    ck_assert_uint_ge(n_rounds[0], 2);
    ck_assert_uint_lt(n_rounds[0], 20);
    ck_assert_uint_gt(n_rounds[1], n_rounds[0]);
    ck_assert_uint_lt(n_rounds[1], 120);
    pl_lock_fini(&lock);
}
END_TEST

SUITE(models_waiter)
{
    TCase *crowd = suite_case(suite, "crowd", NULL, NULL);
    tcase_add_loop_test(crowd, what_is_cached_after_the_cache_went_is_given_back_as_well, 0, N_OPS);
    tcase_add_test(crowd, only_a_few_rounds_are_for_what_others_free);
}
