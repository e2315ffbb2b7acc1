/* cancel_test.c - a thread that is cancelled inside a call still completes the call, and loses no
 * lock, use or block. Every call of the driver and of the application may be a cancellation point
 * here. */
/* labels: unit stress */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/calls/block.h"
#include "api/calls/internal.h"
#include "tests/support/api/api_calls.h"
#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"
#include "vmm/driver_state.h"

enum { MIB = 1 << 20, MOST_STATUSES = 64 };

/* ---- a driver whose calls are cancellation points ---- */

static pl_driver_table real;

#define CANCELLABLE(field, symbol, need, params, args)                                             \
    static cu_result cancellable_##field(PL_UNPAREN params)                                        \
    {                                                                                              \
        pthread_testcancel();                                                                      \
        return real.field args;                                                                    \
    }
PL_DRIVER_LIST(CANCELLABLE)
#undef CANCELLABLE

static const pl_driver_table cancellable = {
#define CANCELLABLE(field, symbol, need, params, args) .field = cancellable_##field,
    PL_DRIVER_LIST(CANCELLABLE)
#undef CANCELLABLE
};

static void make_cancellable(pleat instance)
{
    pl_driver *drv = pleat_internal_driver(instance);
    ck_assert_ptr_nonnull(drv);
    real = drv->table;
    drv->table = cancellable;
}

/* ---- one thread, cancelled ---- */

typedef struct work {
    pleat instance;
    void *captured; /* being captured; 80 of 128 MiB are pending on it */
    void *other;
    _Atomic bool is_inside; /* whether a callback runs */
    _Atomic bool may_leave;
    bool has_returned;
    unsigned n_callbacks;
    unsigned n_statuses;
    pleat_status statuses[MOST_STATUSES];
    char path[64];
} work;

static void note(work *w, pleat_status st)
{
    if (w->n_statuses < MOST_STATUSES) {
        w->statuses[w->n_statuses++] = st;
    }
}

static bool under_pressure(pleat instance, int device, size_t bytes, void *context)
{
    work *w = context;
    (void)instance;
    (void)device;
    (void)bytes;
    pthread_testcancel();
    w->n_callbacks++;
    return false;
}

static void out_of_memory(pleat instance, int device, size_t bytes, const char *text, void *context)
{
    (void)text;
    (void)under_pressure(instance, device, bytes, context);
}

static bool accept_all(void *stream, void *context)
{
    work *w = context;
    (void)stream;
    pthread_testcancel();
    w->n_callbacks++;
    return true;
}

static void forget(void *context)
{
    work *w = context;
    pthread_testcancel();
    w->n_callbacks++;
}

static bool write_nowhere(void *context, const void *bytes, size_t n)
{
    (void)context;
    (void)bytes;
    (void)n;
    pthread_testcancel();
    return true;
}

static void call_blocks(work *w)
{
    pleat_devptr ptrs[4];
    note(w, pleat_block_alloc(w->instance, 0, 3 * MIB, NULL, &ptrs[0]));
    note(w, pleat_block_alloc(w->instance, 0, 5 * MIB, w->other, &ptrs[1]));
    note(w, pleat_block_record_stream(w->instance, 0, ptrs[0], w->other));
    note(w, pleat_block_free(w->instance, 0, ptrs[0], NULL));
    note(w, pleat_block_free(w->instance, 0, ptrs[1], NULL));
    pleat_status st = pl_block_alloc_patiently(w->instance, 0, 100 * MIB, w->other, &ptrs[2]);
    note(w, st != PLEAT_OK ? PLEAT_OK : PLEAT_EINVAL); /* only the end of the capture would help */
}

static void call_pools(work *w)
{
    const pleat_pool_id id = { 7, 9 };
    pleat_devptr ptr;
    pleat_status st = pleat_pool_begin(w->instance, 0, id, accept_all, forget, w);
    if (st == PLEAT_ENOTSUP) {
        return;
    }
    note(w, st);
    note(w, pleat_block_alloc(w->instance, 0, MIB, w->other, &ptr));
    note(w, pleat_pool_end(w->instance, 0, id));
    note(w, pleat_block_free(w->instance, 0, ptr, w->other));
    note(w, pleat_pool_release(w->instance, 0, id));
    (void)!pleat_pool_begin(w->instance, 0, (pleat_pool_id){ 0, 0 }, accept_all, forget, w);
}

static void call_others(work *w)
{
    uint64_t released;
    for (unsigned i = 0; i < n_api_calls; i++) {
        bool is_told_apart = strcmp(api_calls[i].name, "pleat_device_trim") == 0 ||
                             strcmp(api_calls[i].name, "pleat_destroy") == 0;
        if (!is_told_apart) { /* the answer does not matter */
            (void)api_calls[i].call(w->instance, 0);
        }
    }
    note(w, pleat_device_trim(w->instance, 0, 0, false, &released));
    note(w, pleat_snapshot_write(w->instance, PLEAT_SNAPSHOT_JSON, write_nowhere, NULL));
    note(w, pleat_snapshot_dump(w->instance, w->path));
    pleat second;
    note(w, pleat_create("driver:sim", &second));
    note(w, pleat_destroy(second, 0));
}

static void *call_everything(void *arg)
{
    work *w = arg;
    pthread_cancel(pthread_self());
    call_blocks(w);
    call_pools(w);
    call_others(w);
    w->has_returned = true;
    pthread_testcancel();
    return NULL;
}

/* The memory becomes usable only at the end of the capture. The caches keep memory of the captured
 * stream from other streams. An order after the owner would be possible for pleat, but not after
 * the captured stream's use. */
static void pend_behind_a_capture(work *w, void *owner)
{
    pleat_devptr ptr = api_alloc(w->instance, 0, 80 * MIB, owner);

    api_torch_work(w->instance, 0, w->captured, (void *)(uintptr_t)ptr, 80 * MIB);
    ck_assert_int_eq(pleat_block_record_stream(w->instance, 0, ptr, w->captured), PLEAT_OK);
    api_free(w->instance, 0, ptr, owner);
    api_torch_begin_capture(w->instance, 0, w->captured);
    api_free(w->instance, 0, api_alloc(w->instance, 0, MIB, w->captured), w->captured);
}

START_TEST(every_call_returns_though_a_cancellation_pends)
{
    pthread_t thread;
    void *result;
    work w = { .path = "/tmp/pleat-cancel-XXXXXX" };
    int file = mkstemp(w.path);
    ck_assert_int_ge(file, 0);
    close(file);
    w.instance = api_make(_i, "capacity:128M,depth:4096,backing:memory", "wait_ms:20");
    make_cancellable(w.instance);
    w.captured = api_stream(w.instance, 0);
    w.other = api_stream(w.instance, 0);
    pend_behind_a_capture(&w, _i == API_PLEAT ? w.other : w.captured);
    ck_assert_int_eq(pleat_set_pressure_callback(w.instance, under_pressure, &w), PLEAT_OK);
    ck_assert_int_eq(pleat_set_oom_callback(w.instance, out_of_memory, &w), PLEAT_OK);

    ck_assert_int_eq(pthread_create(&thread, NULL, call_everything, &w), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    ck_assert_msg(w.has_returned, "it ended after %u calls", w.n_statuses);
    ck_assert_uint_ge(w.n_callbacks, _i == API_PLEAT ? 4 : 1);
    for (unsigned i = 0; i < w.n_statuses; i++) {
        ck_assert_msg(w.statuses[i] == PLEAT_OK, "call %u: %s", i,
                      pleat_status_text(w.statuses[i]));
    }
    api_torch_end_capture(w.instance, 0, w.captured);
    api_stream_end(w.instance, 0, w.captured);
    api_stream_end(w.instance, 0, w.other);
    ck_assert_int_eq(unlink(w.path), 0);
    api_check(w.instance);
    sim.finish();
    ck_assert_int_eq(pleat_destroy(w.instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    api_sim_check_empty();
}
END_TEST

static void *destroy_it(void *arg)
{
    work *w = arg;
    pthread_cancel(pthread_self());
    note(w, pleat_destroy(w->instance, PLEAT_DESTROY_FORCE));
    pthread_testcancel();
    return NULL;
}

static void *be_inside_until_told(void *arg)
{
    work *w = arg;
    pleat_devptr ptr;
    (void)!pleat_block_alloc(w->instance, 0, 65 * MIB, NULL, &ptr);
    return NULL;
}

static bool wait_inside(pleat instance, int device, size_t bytes, void *context)
{
    work *w = context;
    (void)instance;
    (void)device;
    (void)bytes;
    atomic_store(&w->is_inside, true);
    while (!atomic_load(&w->may_leave)) {
        usleep(1000);
    }
    return false;
}

/* pleat_destroy waits for the other calls to return and for the last uses of memory. */
START_TEST(a_cancelled_destruction_destroys)
{
    pthread_t threads[2];
    void *result;
    pleat_devptr ptr;
    work w = { .instance = api_make(_i, "capacity:64M,depth:4096", "") };
    make_cancellable(w.instance);
    ptr = api_alloc(w.instance, 0, 4 * MIB, NULL);
    api_torch_work(w.instance, 0, NULL, (void *)(uintptr_t)ptr, 4 * MIB);
    ck_assert_int_eq(pleat_set_pressure_callback(w.instance, wait_inside, &w), PLEAT_OK);
    ck_assert_int_eq(pthread_create(&threads[0], NULL, be_inside_until_told, &w), 0);
    while (!atomic_load(&w.is_inside)) {
        usleep(1000);
    }
    ck_assert_int_eq(pthread_create(&threads[1], NULL, destroy_it, &w), 0);
    usleep(5000);
    atomic_store(&w.may_leave, true);
    ck_assert_int_eq(pthread_join(threads[0], NULL), 0);
    ck_assert_int_eq(pthread_join(threads[1], &result), 0);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    ck_assert_uint_eq(w.n_statuses, 1);
    ck_assert_int_eq(w.statuses[0], PLEAT_OK);
    api_sim_check_empty();
}
END_TEST

/* The callback waits, so the cancellation certainly comes while the call is inside. */
START_TEST(a_thread_cancelled_within_a_callback_ends_after_the_call)
{
    pthread_t thread;
    void *result;
    work w = { .instance = api_make(_i, "capacity:64M", "") };
    ck_assert_int_eq(pleat_set_pressure_callback(w.instance, wait_inside, &w), PLEAT_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, be_inside_until_told, &w), 0);
    while (!atomic_load(&w.is_inside)) {
        usleep(1000);
    }
    ck_assert_int_eq(pthread_cancel(thread), 0);
    usleep(5000);
    atomic_store(&w.may_leave, true);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_null(result); /* the thread's function returned: no cancellation after the call */
    ck_assert_uint_eq(api_stats(w.instance, 0).num_ooms, 1);
    api_free(w.instance, 0, api_alloc(w.instance, 0, 4 * MIB, NULL), NULL);
    api_check(w.instance);
    api_unmake(w.instance);
}
END_TEST

static void *trim_for_ever(void *arg)
{
    work *w = arg;
    for (;;) {
        uint64_t released;
        note(w, pleat_device_trim(w->instance, 0, 0, true, &released));
        atomic_store(&w->is_inside, true);
    }
    return NULL;
}

START_TEST(a_trim_that_waits_can_be_cancelled_before_it_begins)
{
    pthread_t thread;
    void *result;
    work w = { .instance = api_make(_i, "capacity:64M", "") };
    api_free(w.instance, 0, api_alloc(w.instance, 0, 4 * MIB, NULL), NULL);
    ck_assert_int_eq(pthread_create(&thread, NULL, trim_for_ever, &w), 0);
    while (!atomic_load(&w.is_inside)) {
        usleep(1000);
    }
    ck_assert_int_eq(pthread_cancel(thread), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    for (unsigned i = 0; i < w.n_statuses; i++) {
        ck_assert_int_eq(w.statuses[i], PLEAT_OK);
    }
    api_check(w.instance);
    api_unmake(w.instance);
}
END_TEST

/* ---- threads cancelled at random ---- */

enum { N_THREADS = 3, N_ROUNDS = 150, N_OWN = 16 };

typedef struct loser {
    pthread_t thread;
    pleat instance;
    void *stream;
    unsigned seed;
    _Atomic unsigned n_calls;
    /* Blocks of the thread at its cancellation. The test frees them. */
    pleat_devptr own[N_OWN];
} loser;

static unsigned draw(loser *l)
{
    l->seed = l->seed * 1664525 + 1013904223;
    return l->seed >> 8;
}

static void *use_until_cancelled(void *arg)
{
    loser *l = arg;
    for (;;) {
        pleat_devptr *own = &l->own[draw(l) % N_OWN];
        pleat_devptr ptr = *own;
        uint64_t released;
        if (ptr != 0) {
            *own = pleat_block_free(l->instance, 0, ptr, l->stream) == PLEAT_OK ? 0 : ptr;
        } else if (pleat_block_alloc(l->instance, 0, 1 + draw(l) % (6 * MIB), l->stream, &ptr) ==
                   PLEAT_OK) {
            *own = ptr;
        } else {
            (void)!pleat_device_trim(l->instance, 0, 0, draw(l) % 2, &released);
        }
        atomic_fetch_add(&l->n_calls, 1);
        pthread_testcancel();
    }
    return NULL;
}

/* The device is too small for all threads. So calls wait for each other and for the GPU. */
START_TEST(threads_cancelled_at_random_leave_the_instance_whole)
{
    loser losers[N_THREADS] = { 0 };
    pleat instance = api_make(_i, "capacity:64M,depth:64", "wait_ms:20");
    make_cancellable(instance);
    for (unsigned i = 0; i < N_THREADS; i++) {
        losers[i] = (loser){ .instance = instance, .seed = 7 + i };
        losers[i].stream = i == 0 ? NULL : api_stream(instance, 0);
    }
    for (unsigned round = 0; round < N_ROUNDS; round++) {
        for (unsigned i = 0; i < N_THREADS; i++) {
            atomic_store(&losers[i].n_calls, 0);
            ck_assert_int_eq(
                pthread_create(&losers[i].thread, NULL, use_until_cancelled, &losers[i]), 0);
        }
        for (unsigned i = 0; i < N_THREADS; i++) {
            while (atomic_load(&losers[i].n_calls) < (round * 7 + i) % 60) {
                sched_yield();
            }
            ck_assert_int_eq(pthread_cancel(losers[i].thread), 0);
        }
        for (unsigned i = 0; i < N_THREADS; i++) {
            void *result;
            ck_assert_int_eq(pthread_join(losers[i].thread, &result), 0);
            ck_assert_ptr_eq(result, PTHREAD_CANCELED);
        }
        api_check(instance);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        for (unsigned k = 0; k < N_OWN; k++) {
            if (losers[i].own[k] != 0) {
                api_free(instance, 0, losers[i].own[k], losers[i].stream);
            }
        }
    }
    ck_assert_uint_eq(api_stats(instance, 0).allocation[PLEAT_SIZES_ALL].current, 0);
    sim.finish();
    for (unsigned i = 1; i < N_THREADS; i++) {
        api_stream_end(instance, 0, losers[i].stream);
    }
    api_unmake(instance);
}
END_TEST

#if defined(__SANITIZE_ADDRESS__)
enum { IS_SKIPPED = 1 };
#else
enum { IS_SKIPPED = 0 };
#endif

SUITE(api_cancel)
{
    if (IS_SKIPPED) {
        suite_skip("AddressSanitizer of gcc 12 reports an underflow when a cancelled thread's "
                   "stack is unwound");
        return;
    }
    TCase *one = suite_case(suite, "one thread", api_sim_load, NULL);
    tcase_add_loop_test(one, every_call_returns_though_a_cancellation_pends, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(one, a_cancelled_destruction_destroys, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(one, a_thread_cancelled_within_a_callback_ends_after_the_call, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(one, a_trim_that_waits_can_be_cancelled_before_it_begins, 0,
                        N_API_ALLOCATORS);
    TCase *crowd = suite_case(suite, "many threads", api_sim_load, NULL);
    tcase_add_loop_test(crowd, threads_cancelled_at_random_leave_the_instance_whole, 0,
                        N_API_ALLOCATORS);
}
