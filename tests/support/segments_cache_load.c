/* segments_cache_load.c - see segments_cache_load.h. */
#include "tests/support/segments_cache_load.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>

/* ---- faults ---------------------------------------------------------------------------------- */

enum { N_SLOTS = 6 };

typedef struct scenario {
    pleat_devptr p[N_SLOTS];
    unsigned n_failures;
} scenario;

static void note(scenario *s, pleat_status st, const pleat_stats *before)
{
    if (st != PLEAT_OK) {
        s->n_failures++;
        cache_assert_same(before);
    }
    cache_assert_sound();
}

static void step_get(scenario *s, size_t slot, size_t bytes, unsigned stream)
{
    if (!s->p[slot]) {
        pleat_stats before = cache_stats();
        note(s, cache_try(bytes, stream, &s->p[slot]), &before);
    }
}

static void step_put(scenario *s, size_t slot, unsigned stream)
{
    if (!s->p[slot]) {
        return;
    }
    pleat_stats before = cache_stats();
    pleat_status st = cache.a->ops->free(cache.a, s->p[slot], cache.streams[stream]);
    note(s, st, &before);
    if (st == PLEAT_OK) {
        s->p[slot] = 0;
    }
}

static void step_record(scenario *s, size_t slot, unsigned stream)
{
    if (s->p[slot]) {
        pleat_stats before = cache_stats();
        note(s, cache.a->ops->record_stream(cache.a, s->p[slot], cache.streams[stream]), &before);
    }
}

static void step_trim(scenario *s)
{
    uint64_t released = 0;
    pleat_stats before = cache_stats();
    note(s, cache.a->ops->trim(cache.a, 0, true, &released), &before);
}

/* Grow, use on two streams, free across streams, use again, retry with a full device, trim. */
static void run_scenario(scenario *s)
{
    *s = (scenario){ .n_failures = 0 };
    step_get(s, 0, 1000, 0);
    step_get(s, 1, 4 * MIB, 0);
    step_get(s, 2, 4 * MIB, 0);
    step_record(s, 1, 1);
    step_record(s, 1, 2);
    step_put(s, 1, 0);
    step_get(s, 1, 4 * MIB, 3);
    step_get(s, 3, 30 * MIB, 1);
    step_put(s, 3, 2);
    step_get(s, 4, 48 * MIB, 2);
    step_put(s, 2, 0);
    step_get(s, 5, 24 * MIB, 0);
    step_put(s, 4, 2);
    step_trim(s);
    for (size_t slot = 0; slot < N_SLOTS; slot++) {
        step_put(s, slot, 0);
    }
}

/* After a fault the same works, and the rest is freed. */
static void recover(scenario *s)
{
    cache_put(cache_get(512, 0));
    for (size_t slot = 0; slot < N_SLOTS; slot++) {
        if (s->p[slot]) {
            cache_put(s->p[slot]);
        }
    }
    cache_trim(0, true);
    ck_assert_uint_eq(cache_stats().resident_bytes, 0);
    cache_get(96 * MIB, 0);
    ck_assert_uint_ge(cache_stats().resident_bytes, 96 * MIB);
}

/* A driver that takes nothing back may keep events, if that is told. */
static void close_after_failed_undo(void)
{
    size_t n_live = 0;
    size_t n_leaked = 0;
    ck_assert_int_eq(cache.a->ops->destroy(cache.a, true, &n_live, &n_leaked), PLEAT_OK);
    ck_assert_uint_eq(n_leaked, 0);
    for (unsigned i = 1; i < CACHE_N_STREAMS; i++) {
        ck_assert_int_eq(pl_cu_stream_destroy(cache.sim.drv, cache.handles[i]), CU_SUCCESS);
    }
    pl_device_leave(cache.dev);
    size_t n_lost = pl_device_close(cache.dev);
    pleat_sim_counts counts = vmm_sim_counted(&cache.sim);
    ck_assert_uint_le(counts.events, n_lost);
    ck_assert_uint_eq(counts.allocations, 0);
    ck_assert_uint_eq(counts.hazards, 0);
    pl_driver_close(cache.sim.drv);
}

static void fail_driver(const pl_allocator_ops *ops, const char *call, bool ever_after, int code,
                        uint64_t least)
{
    for (uint64_t k = 0;; k++) {
        cache_open(ops, "capacity:100M", NULL);
        (ever_after ? cache.sim.fail_from : cache.sim.fail_at)(call, k, code);
        scenario s;
        run_scenario(&s);
        bool is_over = cache.sim.n_faults() == 0;
        ck_assert(!is_over || s.n_failures == 0);
        cache.sim.fail_never();
        recover(&s);
        (ever_after ? close_after_failed_undo : cache_close)();
        if (is_over) {
            ck_assert_uint_gt(k, least);
            return;
        }
    }
}

void cache_load_driver_faults(const pl_allocator_ops *ops, bool ever_after, int code)
{
    fail_driver(ops, NULL, ever_after, code, 15);
}

void cache_load_faults_of(const pl_allocator_ops *ops, const char *call)
{
    fail_driver(ops, call, false, CACHE_UNKNOWN, 0);
    fail_driver(ops, call, true, CACHE_UNKNOWN, 0);
}

void cache_load_host_faults(const pl_allocator_ops *ops, bool ever_after)
{
    for (uint64_t k = 0;; k++) {
        cache_open(ops, "capacity:100M", NULL);
        uint64_t n_before = pl_host_n_allocs();
        (ever_after ? pl_host_fail_from : pl_host_fail_at)(k);
        scenario s;
        run_scenario(&s);
        bool is_over = pl_host_n_allocs() - n_before <= k;
        ck_assert(!is_over || s.n_failures == 0);
        pl_host_fail_never();
        recover(&s);
        cache_close();
        if (is_over) {
            ck_assert_uint_gt(k, 8);
            return;
        }
    }
}

void cache_load_failed_creation(const pl_allocator_ops *ops)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    cache_open(ops, "capacity:100M", NULL);
    for (uint64_t k = 0;; k++) {
        pl_allocator *a = NULL;
        pl_host_fail_at(k);
        pleat_status st = ops->create(cache.dev, &options, &a);
        pl_host_fail_never();
        if (st == PLEAT_OK) {
            size_t n;
            ck_assert_int_eq(a->ops->destroy(a, false, &n, &n), PLEAT_OK);
            ck_assert_uint_gt(k, 0);
            break;
        }
        ck_assert_int_eq(st, PLEAT_ENOMEM_HOST);
        ck_assert_ptr_null(a);
    }
    cache_close();
}

/* ---- contents -------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { N_STEPS = 400 };
#else
enum { N_STEPS = 4000 };
#endif
enum { N_THREADS = 3, N_OWN = 24 };

typedef struct owned {
    pleat_devptr ptr; /* 0 = none */
    size_t bytes;
    uint64_t seed;
    unsigned stream;
} owned;

static atomic_uint n_errors;
static atomic_uint n_refused;

static void expect(bool is_right)
{
    n_errors += is_right ? 0 : 1;
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 20;
}

/* What a program does before it uses a block on another stream than its own. */
static void follow(unsigned later, unsigned earlier)
{
    cu_event event = NULL;
    pl_driver *drv = cache.sim.drv;
    expect(pl_cu_event_create(drv, &event, CU_EVENT_DISABLE_TIMING_FLAG) == CU_SUCCESS);
    expect(pl_cu_event_record(drv, event, cache.handles[earlier]) == CU_SUCCESS);
    expect(pl_cu_stream_wait_event(drv, cache.handles[later], event, 0) == CU_SUCCESS);
    expect(pl_cu_event_destroy(drv, event) == CU_SUCCESS);
}

/* Compared on its own stream, or lent: compared on another one, and freed here or there. */
static void give_up(owned *o, uint64_t random)
{
    const pl_allocator_ops *ops = cache.a->ops;
    unsigned user = (unsigned)(random >> 8) % CACHE_N_STREAMS;
    unsigned last = o->stream;
    if (random % 3 == 0 && user != o->stream) {
        follow(user, o->stream);
        expect(cache.sim.verify(cache.handles[user], o->ptr, o->bytes, o->seed) == CU_SUCCESS);
        if (random % 2 == 0) {
            expect(ops->record_stream(cache.a, o->ptr, cache.streams[user]) == PLEAT_OK);
        } else {
            last = user;
        }
    } else {
        expect(cache.sim.verify(cache.handles[last], o->ptr, o->bytes, o->seed) == CU_SUCCESS);
    }
    expect(ops->free(cache.a, o->ptr, cache.streams[last]) == PLEAT_OK);
    o->ptr = 0;
}

static void take(owned *o, uint64_t random)
{
    o->stream = (unsigned)random % CACHE_N_STREAMS;
    o->bytes = 1 + (size_t)(random >> 8) % ((size_t)1 << (9 + (random >> 4) % 11));
    pleat_status st = cache_try(o->bytes, o->stream, &o->ptr);
    if (st != PLEAT_OK) {
        o->ptr = 0;
        n_refused++;
        expect(st == PLEAT_ENOMEM_DEVICE);
        return;
    }
    o->seed = random;
    expect(cache.sim.fill(cache.handles[o->stream], o->ptr, o->bytes, o->seed) == CU_SUCCESS);
}

static void *worker(void *argument)
{
    uint64_t state = 1 + *(const uint64_t *)argument;
    owned own[N_OWN] = { { 0 } };
    expect(pl_device_enter(cache.dev) == PLEAT_OK);
    for (size_t step = 0; step < N_STEPS; step++) {
        uint64_t random = next_random(&state);
        owned *o = &own[next_random(&state) % N_OWN];
        if (o->ptr) {
            give_up(o, random);
        } else {
            take(o, random);
        }
        if (step % 512 == 511) {
            uint64_t released = 0;
            expect(cache.a->ops->check(cache.a) == 0);
            expect(cache.a->ops->trim(cache.a, 0, random % 2 == 0, &released) == PLEAT_OK);
        }
    }
    for (size_t i = 0; i < N_OWN; i++) {
        if (own[i].ptr) {
            give_up(&own[i], 1);
        }
    }
    pl_device_leave(cache.dev);
    return NULL;
}

void cache_load_contents(const pl_allocator_ops *ops)
{
    pthread_t threads[N_THREADS];
    uint64_t numbers[N_THREADS];
    cache_open(ops, "capacity:16M,backing:memory,granularity:64K,depth:64", NULL);
    for (uint64_t i = 0; i < N_THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, worker, &numbers[i]), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    cache.sim.finish();
    ck_assert_uint_eq(n_errors, 0);
    cache_assert_sound();
    cache_trim(0, true);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.active[PLEAT_POOL_ALL].current, 0);
    ck_assert_uint_eq(s.resident_bytes, 0);
    cache_close();
}

/* ---- random ---------------------------------------------------------------------------------- */

static void assert_disjoint(const owned *own, size_t n, const owned *o)
{
    for (size_t i = 0; i < n; i++) {
        ck_assert(own[i].ptr == 0 || &own[i] == o || own[i].ptr + own[i].bytes <= o->ptr ||
                  o->ptr + o->bytes <= own[i].ptr);
    }
}

void cache_load_random(const pl_allocator_ops *ops, const pl_allocator_options *options)
{
    enum { N = 64, N_TURNS = 3000 };
    owned own[N] = { { 0 } };
    uint64_t state = 2026;
    cache_open(ops, "capacity:1G,depth:32", options);
    for (size_t turn = 0; turn < N_TURNS; turn++) {
        uint64_t random = next_random(&state);
        owned *o = &own[next_random(&state) % N];
        if (o->ptr) {
            cache_work(o->stream, o->ptr, o->bytes);
            cache_put(o->ptr);
            o->ptr = 0;
            continue;
        }
        size_t request = 1 + (size_t)(random >> 8) % ((size_t)1 << (9 + (random >> 3) % 16));
        o->stream = (unsigned)random % CACHE_N_STREAMS;
        if (cache_try(request, o->stream, &o->ptr) != PLEAT_OK) {
            o->ptr = 0;
            continue;
        }
        o->bytes = cache_info(o->ptr).bytes;
        ck_assert_uint_ge(o->bytes, request);
        assert_disjoint(own, N, o);
        cache_work(o->stream, o->ptr, o->bytes);
        cache_assert_sound();
    }
    cache_close();
}
