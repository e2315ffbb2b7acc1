/* segments_waiter_test.c - a classic cache's request that runs out of memory while others free. */
/* labels: stress */
#include <check.h>
#include <pthread.h>
#include <semaphore.h>

#include "tests/support/segments_cache.h"
#include "tests/support/suite.h"
#include "vmm/device_state.h"

static const pl_allocator_ops *const all_ops[] = {
    &pl_torch_native_ops,
    &pl_tf_bfc_ops,
    &pl_mxnet_naive_ops,
    &pl_mxnet_round_ops,
};

enum { N_OPS = sizeof all_ops / sizeof all_ops[0] };

/* Stops a request between its choice of what goes back to the driver and the driver. */
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

/* The cached block is not enough. The live one is freed once it is too late to give it back with
 * the other: the device's lock keeps the driver waiting meanwhile. */
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
    pthread_mutex_lock(&cache.dev->lock.mutex);
    sem_post(&at.may_go_on);
    pleat_status freed = cache.a->ops->free(cache.a, live, NULL);
    pthread_mutex_unlock(&cache.dev->lock.mutex);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(freed, PLEAT_OK);
    ck_assert_int_eq(at.answer, PLEAT_OK);
    ck_assert_int_eq(pl_device_mfree(cache.dev, elsewhere), PLEAT_OK);
    ck_assert_uint_eq(cache_stats().num_ooms, 0);
    cache_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("segments_waiter");
    TCase *crowd = suite_case(suite, "crowd", NULL, NULL);
    tcase_add_loop_test(crowd, what_is_cached_after_the_cache_went_is_given_back_as_well, 0, N_OPS);
    return suite_run(suite);
}
