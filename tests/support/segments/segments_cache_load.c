/* segments_cache_load.c - see segments_cache_load.h. */
#include "tests/support/segments/segments_cache_load.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/segments/segments_random.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { N_STEPS = 400 };
#else
enum { N_STEPS = 2000 };
#endif
enum { N_THREADS = 4, N_OWN = 24 };

typedef struct owned {
    pleat_devptr ptr; /* 0 = none */
    size_t bytes;     /* as asked for */
    size_t occupied;
    uint64_t seed;
    unsigned stream;
} owned;

static atomic_uint n_errors;
static atomic_uint n_refused;
static atomic_uint n_at_work; /* threads that have steps left */

/* A thread that has done its steps goes on until all have: one after the other they would not fill
 * the device. */
static bool has_step(size_t step)
{
    if (step == N_STEPS + 1) {
        n_at_work--;
    }
    return step <= N_STEPS || atomic_load(&n_at_work) > 0;
}

static void expect(bool is_right)
{
    n_errors += is_right ? 0 : 1;
}

static unsigned draw_stream(random_source *r)
{
    return (unsigned)random_below(r, CACHE_N_STREAMS);
}

/* False: no memory for the block. */
static bool take(owned *o, size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 0;
    pleat_status st = cache_try(bytes, stream, &ptr);
    n_refused += st != PLEAT_OK;
    expect(st == PLEAT_OK || st == PLEAT_ENOMEM_DEVICE);
    *o = (owned){ .ptr = ptr, .bytes = bytes, .stream = stream };
    return st == PLEAT_OK;
}

static void run_threads(void *(*main)(void *argument))
{
    pthread_t threads[N_THREADS];
    random_source sources[N_THREADS];
    n_at_work = N_THREADS;
    for (uint64_t i = 0; i < N_THREADS; i++) {
        sources[i].state = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, main, &sources[i]), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(n_errors, 0);
    ck_assert_uint_gt(n_refused, 0);
    cache_assert_sound();
    cache_trim(0, true);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.active[PLEAT_SIZES_ALL].current, 0);
    ck_assert_uint_eq(s.resident_bytes, 0);
}

/* ---- contents -------------------------------------------------------------------------------- */

/* The contents are compared on the block's own stream, or on a stream that borrows the block.
 * Either of the two frees the block. */
static void give_up(owned *o, random_source *r)
{
    const pl_allocator_ops *ops = cache.a->ops;
    unsigned user = random_once_in(r, 3) ? draw_stream(r) : o->stream;
    unsigned last = o->stream;
    expect(user == o->stream || cache_follow(user, o->stream));
    expect(cache.sim.verify(cache.handles[user], o->ptr, o->bytes, o->seed) == CU_SUCCESS);
    if (random_once_in(r, 2)) {
        last = user;
    } else if (user != o->stream) {
        expect(ops->record_stream(cache.a, o->ptr, cache.streams[user]) == PLEAT_OK);
    }
    expect(ops->free(cache.a, o->ptr, cache.streams[last]) == PLEAT_OK);
    o->ptr = 0;
}

static void *fill_and_compare(void *argument)
{
    random_source *r = argument;
    owned own[N_OWN] = { { 0 } };
    expect(pl_device_enter(cache.dev) == PLEAT_OK);
    for (size_t step = 1; has_step(step); step++) {
        owned *o = &own[random_below(r, N_OWN)];
        if (o->ptr != 0) {
            give_up(o, r);
        } else if (take(o, random_spread(r, MIB), draw_stream(r))) {
            o->seed = random_next(r);
            cu_stream handle = cache.handles[o->stream];
            expect(cache.sim.fill(handle, o->ptr, o->bytes, o->seed) == CU_SUCCESS);
        }
        if (step % 512 == 0) {
            uint64_t released = 0;
            expect(cache.a->ops->check(cache.a) == 0);
            expect(cache.a->ops->trim(cache.a, 0, random_once_in(r, 2), &released) == PLEAT_OK);
        }
    }
    for (size_t i = 0; i < N_OWN; i++) {
        if (own[i].ptr != 0) {
            give_up(&own[i], r);
        }
    }
    pl_device_leave(cache.dev);
    return NULL;
}

pleat_stats cache_load_contents(const pl_allocator_ops *ops, const pl_allocator_options *options)
{
    cache_open(ops, "capacity:6M,backing:memory,granularity:64K,depth:64", options);
    run_threads(fill_and_compare);
    cache.sim.finish();
    pleat_stats s = cache_stats();
    cache_close();
    return s;
}

/* ---- crowd ----------------------------------------------------------------------------------- */

static void *ask_for_much(void *argument)
{
    random_source *r = argument;
    const pl_allocator_ops *ops = cache.a->ops;
    owned own[N_OWN] = { { 0 } };
    for (size_t step = 1; has_step(step); step++) {
        owned *o = &own[random_below(r, N_OWN)];
        pl_stream *stream = cache.streams[draw_stream(r)];
        if (o->ptr == 0) {
            (void)take(o, random_spread(r, 128 * MIB), draw_stream(r));
        } else {
            expect(!random_once_in(r, 4) ||
                   ops->record_stream(cache.a, o->ptr, stream) == PLEAT_OK);
            expect(ops->free(cache.a, o->ptr, random_once_in(r, 3) ? stream : NULL) == PLEAT_OK);
            o->ptr = 0;
        }
        if (step % 256 == 0) {
            uint64_t released = 0;
            pleat_stats stats;
            ops->stats(cache.a, &stats);
            expect(ops->check(cache.a) == 0);
            expect(ops->trim(cache.a, 64 * MIB, true, &released) == PLEAT_OK);
        }
    }
    for (size_t i = 0; i < N_OWN; i++) {
        expect(own[i].ptr == 0 || ops->free(cache.a, own[i].ptr, NULL) == PLEAT_OK);
    }
    return NULL;
}

void cache_load_crowd(const pl_allocator_ops *ops, const pl_allocator_options *options)
{
    cache_open(ops, "capacity:160M,depth:16", options);
    run_threads(ask_for_much);
    cache_close();
}

/* ---- random ---------------------------------------------------------------------------------- */

static void assert_disjoint(const owned *own, size_t n, const owned *o)
{
    for (size_t i = 0; i < n; i++) {
        ck_assert(own[i].ptr == 0 || &own[i] == o || own[i].ptr + own[i].occupied <= o->ptr ||
                  o->ptr + o->occupied <= own[i].ptr);
    }
}

void cache_load_random(const pl_allocator_ops *ops, const pl_allocator_options *options)
{
    enum { N = 64, N_TURNS = 2000 };
    owned own[N] = { { 0 } };
    random_source r = { 2026 };
    uint64_t live_bytes = 0;
    cache_open(ops, "capacity:1G,depth:32", options);
    for (size_t turn = 0; turn < N_TURNS; turn++) {
        owned *o = &own[random_below(&r, N)];
        if (o->ptr != 0) {
            cache_work(o->stream, o->ptr, o->bytes);
            cache_put(o->ptr);
            live_bytes -= o->occupied;
            o->ptr = 0;
        } else if (take(o, random_spread(&r, 16 * MIB), draw_stream(&r))) {
            o->occupied = cache_info(o->ptr).bytes;
            ck_assert_uint_ge(o->occupied, o->bytes);
            assert_disjoint(own, N, o);
            cache_work(o->stream, o->ptr, o->bytes);
            live_bytes += o->occupied;
        }
        ck_assert_uint_eq(cache_stats().allocated_bytes[PLEAT_SIZES_ALL].current, live_bytes);
        cache_assert_sound();
    }
    ck_assert_uint_eq(n_errors, 0);
    cache_close();
}
