/* observer_test.c - an allocator's events, replayed from empty, give the state of its visits.
 *
 * Every allocator, by loop index. */
/* labels: model */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "segments/classic/torch/torch_options.h"
#include "tests/support/own.h"
#include "tests/support/release.h"
#include "tests/support/segments/segments_cache.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/segments/segments_replay.h"
#include "tests/support/suite.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWER = 10 };
#else
enum { SLOWER = 1 };
#endif

enum {
    N_SEEDS = 4,
    N_POOLS = 3,
    N_BLOCKS = 48,
    N_TURNS = 2500 / SLOWER,
    N_THREADS = 3,
    N_COMPARED = 500 / SLOWER
};

typedef struct owned {
    pleat_devptr ptr; /* 0 = none */
    unsigned stream;
} owned;

static replay said;
static pl_keeper *pools[N_POOLS]; /* NULL = none; used by a single thread */

static void open_watched(const pl_allocator_ops *ops, const char *sim_conf,
                         pl_allocator_options *options)
{
    replay_init(&said);
    memset(pools, 0, sizeof pools);
    options->observer = &said.observer;
    cache_open(ops, sim_conf, options);
}

static void compare(const char *name)
{
    replay_compare(&said, cache.a, true);
    replay_assert_good(&said, name);
}

/* Closes the cache: destroying tells no event. */
static void close_watched(const char *name)
{
    compare(name);
    uint64_t n = 0;
    for (unsigned i = 0; i < PL_N_ACTIONS; i++) {
        n += said.n_events[i];
    }
    cache_close();
    for (unsigned i = 0; i < PL_N_ACTIONS; i++) {
        n -= said.n_events[i];
    }
    ck_assert_uint_eq(n, 0);
}

/* The driver may have refused to take something back, which is counted. */
static void close_after_faults(const char *name)
{
    size_t n_live = 0;
    size_t n_leaked = 0;
    compare(name);
    ck_assert_int_eq(cache.a->ops->destroy(cache.a, true, &n_live, &n_leaked), PLEAT_OK);
    ck_assert_uint_eq(n_leaked, 0);
    for (unsigned i = 1; i < CACHE_N_STREAMS; i++) {
        ck_assert_int_eq(pl_cu_stream_destroy(cache.sim.drv, cache.handles[i]), CU_SUCCESS);
    }
    pl_device_leave(cache.dev);
    bool is_all_back = pl_device_counted(cache.dev).n_undo_failures == 0;
    ck_assert(pl_device_close(cache.dev) == 0 || !is_all_back);
    pleat_sim_counts left = vmm_sim_counted(&cache.sim);
    ck_assert_uint_eq(left.allocations + left.mappings + left.handles, 0);
    pl_driver_close(cache.sim.drv);
}

static const pl_allocator_ops *ops_of(int index)
{
    return pl_allocator_find(pl_allocator_name((unsigned)index));
}

/* ---- random work ----------------------------------------------------------------------------- */

static size_t request(random_source *r)
{
    return random_spread(r, random_once_in(r, 8) ? 48 * MIB : 2 * MIB);
}

static void take(owned *o, random_source *r)
{
    pl_keeper *pool = random_once_in(r, 2) ? pools[random_below(r, N_POOLS)] : NULL;
    size_t bytes = request(r);
    o->stream = (unsigned)random_below(r, CACHE_N_STREAMS);
    pleat_status st = pool ? cache.a->ops->alloc_asked(cache.a, pool, bytes,
                                                       cache.streams[o->stream], NULL, &o->ptr)
                           : cache_try(bytes, o->stream, &o->ptr);
    o->ptr = st == PLEAT_OK ? o->ptr : 0;
}

/* Work on the block's stream, sometimes record a second stream, and free on either. Faults may
 * strike. */
static void give_up(owned *o, random_source *r)
{
    unsigned other = (unsigned)random_below(r, CACHE_N_STREAMS);
    cache_work(o->stream, o->ptr, 1);
    if (random_once_in(r, 3)) {
        (void)!cache.a->ops->record_stream(cache.a, o->ptr, cache.streams[other]);
    }
    pl_stream *on = random_once_in(r, 4) ? cache.streams[other] : cache.streams[o->stream];
    if (cache.a->ops->free(cache.a, o->ptr, on) == PLEAT_OK) {
        o->ptr = 0;
    }
}

/* Open a private pool, end a capture's use of a pool, or release a pool. */
static void change_pool(random_source *r)
{
    const pl_allocator_ops *ops = cache.a->ops;
    pl_keeper **pool = &pools[random_below(r, N_POOLS)];
    if (!ops->pools) {
        return;
    }
    if (!*pool) {
        (void)!ops->pools->open(cache.a, pool);
    } else if (random_once_in(r, 3)) {
        ops->pools->rest(cache.a, *pool);
    } else {
        ops->pools->release(cache.a, *pool);
        replay_release(&said, *pool);
        *pool = NULL;
    }
}

static void change_limit(random_source *r)
{
    uint64_t most[] = { 0, 40 * MIB, 80 * MIB };
    (void)!cache.a->ops->set_limit(cache.a, most[random_below(r, 3)]);
}

static void trim(random_source *r)
{
    uint64_t released = 0;
    (void)!cache.a->ops->trim(cache.a, random_below(r, 64 * MIB), random_once_in(r, 2), &released);
}

static void turn(owned *own, random_source *r)
{
    owned *o = &own[random_below(r, N_BLOCKS)];
    size_t what = random_below(r, 64);
    if (what == 0) {
        trim(r);
    } else if (what == 1) {
        change_limit(r);
    } else if (what == 2) {
        cache.sim.finish();
    } else if (what < 5) {
        change_pool(r);
    } else if (o->ptr) {
        give_up(o, r);
    } else {
        take(o, r);
    }
}

static void play(const pl_allocator_ops *ops, uint64_t seed, bool has_faults)
{
    random_source r = { .state = seed };
    owned own[N_BLOCKS] = { { 0 } };
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    SET_OWN(torch, &options, max_split_bytes, random_once_in(&r, 2) ? 24 * MIB : 0);
    SET_OWN(torch, &options, garbage_collection_threshold, random_once_in(&r, 3) ? 0.5 : 0);
    open_watched(ops, random_once_in(&r, 2) ? "capacity:100M,depth:4" : "capacity:160M,depth:16",
                 &options);
    for (size_t i = 0; i < N_TURNS; i++) {
        if (has_faults && random_once_in(&r, 4)) {
            cache.sim.fail_at(NULL, random_below(&r, 6),
                              random_once_in(&r, 2) ? CACHE_OUT_OF_MEMORY : CACHE_UNKNOWN);
        }
        if (has_faults && random_once_in(&r, 4)) {
            pl_meta_fail_at(random_below(&r, 6));
        }
        turn(own, &r);
        cache.sim.fail_never();
        pl_meta_fail_never();
        if (random_once_in(&r, 4)) {
            compare(ops->name);
        }
    }
    (has_faults ? close_after_faults : close_watched)(ops->name);
}

START_TEST(replayed_events_are_what_a_visit_shows)
{
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        play(ops_of(_i), seed, false);
        ck_assert_uint_gt(said.n_events[PL_ACTION_ALLOC], N_TURNS / 5);
        ck_assert_uint_gt(said.n_compared, N_TURNS / 8);
        ck_assert_int_eq(said.n_private > 0, ops_of(_i)->pools != NULL);
    }
}
END_TEST

START_TEST(they_are_when_the_driver_and_host_memory_fail)
{
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        play(ops_of(_i), seed, true);
    }
}
END_TEST

/* ---- what each action says ------------------------------------------------------------------- */

static uint64_t count(pl_action action)
{
    return said.n_events[action];
}

START_TEST(a_block_of_one_stream_is_freed_at_once)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    open_watched(ops_of(_i), "capacity:256M,depth:1000", &options);
    pleat_devptr p = cache_get(1000, 1);
    ck_assert_uint_eq(count(PL_ACTION_ALLOC), 1);
    ck_assert_uint_eq(said.told.blocks[0].base, p);
    ck_assert_uint_eq(said.told.blocks[0].bytes, 1000);
    ck_assert_ptr_eq(said.told.blocks[0].stream, cache.streams[1]);
    cache_work(1, p, 1000);
    cache_put_on(p, 1);
    ck_assert_uint_eq(count(PL_ACTION_FREE_REQUESTED), 1);
    ck_assert_uint_eq(count(PL_ACTION_FREE_COMPLETED), 1);
    ck_assert_uint_eq(said.told.n_blocks, 0);
    close_watched(ops_of(_i)->name);
}
END_TEST

START_TEST(all_that_a_trim_gives_back_is_told)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    open_watched(ops_of(_i), "capacity:256M,depth:1", &options);
    for (unsigned i = 0; i < 8; i++) {
        unsigned stream = i % CACHE_N_STREAMS;
        cache_put_on(cache_get((i + 1) * 3 * MIB, stream), stream);
    }
    cache.sim.finish();
    cache_trim(0, true);
    compare(ops_of(_i)->name);
    ck_assert_uint_eq(said.told.n_ranges, 0);
    ck_assert_uint_gt(count(PL_ACTION_SEGMENT_FREE) + count(PL_ACTION_SEGMENT_UNMAP), 0);
    close_watched(ops_of(_i)->name);
}
END_TEST

START_TEST(nothing_is_told_while_it_is_off)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    open_watched(ops_of(_i), "capacity:256M,depth:1", &options);
    said.observer.is_on = false;
    cache_put_on(cache_get(3 * MIB, 1), 1);
    cache_trim(0, true);
    for (unsigned i = 0; i < PL_N_ACTIONS; i++) {
        ck_assert_uint_eq(said.n_events[i], 0);
    }
    cache_close();
}
END_TEST

/* ---- captures -------------------------------------------------------------------------------- */

START_TEST(blocks_that_a_capture_holds_wait_for_its_release)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    open_watched(ops_of(_i), "capacity:256M,depth:1", &options);
    const char *name = ops_of(_i)->name;
    pleat_devptr p = cache_get(3 * MIB, 1);
    cache_begin_capture(2);
    pleat_devptr q = cache_get(MIB, 2);
    compare(name);
    cache_record(p, 2);
    cache_put_on(p, 1);
    cache_put_on(q, 2);
    compare(name);
    cache_end_capture(2);
    compare(name);
    ck_assert_uint_eq(count(PL_ACTION_FREE_REQUESTED), count(PL_ACTION_ALLOC));
    ck_assert_uint_ge(count(PL_ACTION_ALLOC), 2);
    (void)!release_capture(cache.a, cache.streams[2]);
    cache.sim.finish();
    cache_put_on(cache_get(MIB, 1), 1);
    cache_trim(0, true);
    compare(name);
    ck_assert_uint_eq(said.told.n_blocks, 0);
    ck_assert_uint_eq(count(PL_ACTION_FREE_COMPLETED), count(PL_ACTION_ALLOC));
    close_watched(name);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

static atomic_bool is_enough;

static void *work(void *argument)
{
    random_source r = { .state = *(const uint64_t *)argument };
    owned own[N_BLOCKS / 2] = { { 0 } };
    (void)!pl_device_enter(cache.dev);
    while (!atomic_load(&is_enough)) {
        owned *o = &own[random_below(&r, N_BLOCKS / 2)];
        if (random_once_in(&r, 64)) {
            trim(&r);
        } else if (o->ptr) {
            (void)!cache.a->ops->free(cache.a, o->ptr,
                                      cache.streams[random_below(&r, CACHE_N_STREAMS)]);
            o->ptr = 0;
        } else {
            take(o, &r);
        }
    }
    pl_device_leave(cache.dev);
    return NULL;
}

START_TEST(a_visit_beside_threads_shows_what_was_told_till_then)
{
    pthread_t threads[N_THREADS];
    uint64_t seeds[N_THREADS];
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    open_watched(ops_of(_i), "capacity:100M,depth:8", &options);
    for (uint64_t i = 0; i < N_THREADS; i++) {
        seeds[i] = i + 77;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &seeds[i]), 0);
    }
    while (said.n_compared < N_COMPARED) {
        replay_compare(&said, cache.a, false);
    }
    atomic_store(&is_enough, true);
    for (unsigned i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    close_watched(ops_of(_i)->name);
}
END_TEST

static int count_allocators(void)
{
    int n = 0;
    while (pl_allocator_name((unsigned)n)) {
        n++;
    }
    return n;
}

SUITE(segments_observer)
{
    TCase *tcase = tcase_create("every allocator");
    int n = count_allocators();
    tcase_add_loop_test(tcase, replayed_events_are_what_a_visit_shows, 0, n);
    tcase_add_loop_test(tcase, they_are_when_the_driver_and_host_memory_fail, 0, n);
    tcase_add_loop_test(tcase, a_block_of_one_stream_is_freed_at_once, 0, n);
    tcase_add_loop_test(tcase, all_that_a_trim_gives_back_is_told, 0, n);
    tcase_add_loop_test(tcase, nothing_is_told_while_it_is_off, 0, n);
    tcase_add_loop_test(tcase, blocks_that_a_capture_holds_wait_for_its_release, 0, n);
    suite_one_thread(tcase);
    suite_add_tcase(suite, tcase);
    TCase *beside = suite_case(suite, "beside threads", NULL, NULL);
    tcase_add_loop_test(beside, a_visit_beside_threads_shows_what_was_told_till_then, 0, n);
}
