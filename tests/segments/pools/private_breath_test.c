/* private_breath_test.c - areas of private pools get new owners during a call that drops the lock
 * (keeper.h). */
/* labels: unit */
#include <check.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "segments/pleat/space/space.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_pools.h"
#include "tests/support/segments/segments_told.h"
#include "tests/support/suite.h"

enum { POOLED = 1, BESIDE = 2, OWN = 3, LATE = 4, SMALL = 512, N_BLOCKS = 800 };

#define GRANULE (2 * MIB)

static void (*meanwhile)(void); /* runs once in the next call that drops the lock */
static pl_keeper *pool;
static pleat_devptr blocks[N_BLOCKS];

static pl_space *space_of_pleat(void)
{
    return (pl_space *)pleat.a;
}

/* Without a walk over everything, unlike pools_get. */
static pleat_devptr get(pl_keeper *in, size_t bytes, unsigned stream)
{
    const pl_allocator_ops *ops = pleat.a->ops;
    pl_stream *on = pleat.streams[stream];
    pleat_devptr ptr = 0;
    pleat_status st = in != NULL ? ops->alloc_asked(pleat.a, in, bytes, on, NULL, &ptr)
                                 : ops->alloc(pleat.a, bytes, on, &ptr);
    ck_assert_int_eq(st, PLEAT_OK);
    return ptr;
}

static void put(pleat_devptr ptr, unsigned stream)
{
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[stream]), PLEAT_OK);
}

static void get_granules(pl_keeper *in, size_t n, unsigned stream)
{
    for (size_t i = 0; i < n; i++) {
        blocks[i] = get(in, GRANULE, stream);
    }
}

static void put_every_second(size_t n, unsigned stream)
{
    for (size_t i = 0; i < n; i += 2) {
        put(blocks[i], stream);
    }
}

/* An error is allowed, since other work goes on. */
static void trim_at_once(uint64_t keep_bytes)
{
    uint64_t released;
    pleat_status st = pleat.a->ops->trim(pleat.a, keep_bytes, false, &released);
    ck_assert(st == PLEAT_OK || st == PLEAT_EPENDING);
}

static void settle(void)
{
    pl_keeper *any = pools_open_one();
    pleat.sim.finish();
    pools_rest(any);
    pools_release(any);
}

/* ---- a pool's memory becomes loose some at a time -------------------------------------------- */

static sem_t has_begun;
static sem_t may_go_on;
static pthread_t releaser;
static _Thread_local bool is_releaser;

static void *release_pool(void *unused)
{
    (void)unused;
    is_releaser = true;
    if (pl_device_enter(pleat.dev) == PLEAT_OK) {
        pleat.a->ops->pools->release(pleat.a, pool);
        pl_device_leave(pleat.dev);
    }
    if (is_releaser) {
        (void)sem_post(&has_begun); /* nothing is opening: the test fails */
    }
    return NULL;
}

/* Half of the pool's areas are loose when this returns. */
static void begin_release(void)
{
    ck_assert_int_eq(pthread_create(&releaser, NULL, release_pool, NULL), 0);
    ck_assert_int_eq(sem_wait(&has_begun), 0);
    ck_assert_ptr_nonnull(space_of_pleat()->places.opening);
}

static void end_release(void)
{
    ck_assert_int_eq(sem_post(&may_go_on), 0);
    ck_assert_int_eq(pthread_join(releaser, NULL), 0);
}

/* The call that is under way has memory in flight. */
static void breathe_in_flight(void)
{
    void (*others)(void) = meanwhile;
    if (is_releaser) {
        (void)sem_post(&has_begun);
        (void)sem_wait(&may_go_on);
        is_releaser = false; /* from now on it goes on at once */
    } else if (others != NULL && space_of_pleat()->flights.first != NULL) {
        meanwhile = NULL;
        others();
    }
}

/* Give a pool two areas that an earlier pool left. The second area has a free block of six
 * granules. The first granule is in use, the next three are loose. The rest is not loose, since the
 * pool has used it. The first area becomes loose before the second. */
static pleat_devptr have_a_pool_with_loose_granules(void)
{
    pl_keeper *earlier = pools_open_one();
    pleat_devptr low = get(earlier, GRANULE, POOLED);
    pleat_devptr middle = get(earlier, 3 * GRANULE, POOLED);
    pleat_devptr high = get(earlier, 2 * GRANULE, POOLED);
    pleat_devptr beside = get(earlier, GRANULE, BESIDE);
    ck_assert(middle == low + GRANULE && high == low + 4 * GRANULE);
    put(low, POOLED);
    put(high, POOLED);
    put(beside, BESIDE);
    settle();
    pleat_work(POOLED, middle, 3 * GRANULE);
    put(middle, POOLED);
    pools_release(earlier);
    pool = pools_open_one();
    (void)get(pool, GRANULE, BESIDE);
    ck_assert_uint_eq(get(pool, GRANULE, POOLED), low);
    /* What pends on POOLED is not for BESIDE. */
    ck_assert_uint_eq(get(pool, 2 * GRANULE, BESIDE), high);
    put(high, BESIDE);
    settle();
    const pl_segment *seg = pl_space_segment_at(space_of_pleat(), low);
    ck_assert_uint_eq(pl_segment_loose_run(seg, pl_segment_granule(seg, middle), 5), 3);
    return low;
}

/* In the order of addresses: many single granules of a stream with unfinished work, the pool's
 * memory, and eight more granules. The rest of the device is in use. */
static void fill_device(void)
{
    get_granules(NULL, N_BLOCKS, OWN);
    pleat_devptr pooled = have_a_pool_with_loose_granules();
    pleat_devptr late = get(NULL, 8 * GRANULE, LATE);
    const pl_space *space = space_of_pleat();
    (void)get(NULL, (space->chunks.total_granules - space->chunks.n_held) * GRANULE, LATE);
    ck_assert(blocks[N_BLOCKS - 1] < pooled && pooled < late);
    put(late, LATE);
    settle();
    pleat_work(OWN, blocks[1], GRANULE);
    put_every_second(N_BLOCKS, OWN);
    ck_assert_uint_ge(space->chunks.n_loose, N_BLOCKS / 2 + 3 + 8);
    meanwhile = begin_release;
    pl_lock_breath = breathe_in_flight;
}

static void check_end(void)
{
    ck_assert_ptr_null(meanwhile);
    end_release();
    pleat_assert_sound();
}

START_TEST(a_trim_meets_a_pool_that_is_becoming_loose)
{
    fill_device();
    trim_at_once(0);
    check_end();
}
END_TEST

START_TEST(a_take_meets_a_pool_that_is_becoming_loose)
{
    fill_device();
    (void)get(NULL, space_of_pleat()->chunks.n_loose * GRANULE, OWN);
    check_end();
}
END_TEST

/* ---- an area goes to a new pool -------------------------------------------------------------- */

static unsigned n_breaths; /* breaths until the others come */

static void breathe(void)
{
    void (*others)(void) = meanwhile;
    if (others != NULL && n_breaths-- == 0) {
        meanwhile = NULL;
        others();
    }
}

/* The pool gets the first released area and uses the area's smallest block. */
static void begin_pool(void)
{
    (void)get(pool, SMALL, BESIDE);
}

/* Two released areas. The first has 20 free granules before a hole, and memory pending on another
 * stream. The second has very many holes of one granule. */
static void leave_two_areas(void)
{
    pl_keeper *low = pools_open_one();
    pl_keeper *high = pools_open_one();
    get_granules(low, N_BLOCKS, BESIDE);
    pleat_devptr smallest = get(high, GRANULE, POOLED);
    pleat_devptr pending = get(high, GRANULE, POOLED);
    pleat_devptr large = get(high, 20 * GRANULE, POOLED);
    ck_assert(smallest < pending && pending < large);
    put_every_second(N_BLOCKS, BESIDE);
    put(smallest, POOLED);
    put(large, POOLED);
    settle();
    pleat_work(POOLED, pending, GRANULE);
    put(pending, POOLED);
    pools_release(high);
    pools_release(low);
    trim_at_once((N_BLOCKS / 2 + 22) * GRANULE); /* the lowest addresses */
    ck_assert_uint_eq(pleat_counted().free_bytes, 21 * GRANULE);
}

/* The other threads come at one of the first eight breaths. At one of these the search has found
 * the place in the first area, and goes on in the second area. */
START_TEST(a_place_is_not_used_when_a_pool_has_got_its_area)
{
    leave_two_areas();
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, (N_BLOCKS / 2 + 22 + 4) * GRANULE), PLEAT_OK);
    pool = pools_open_one();
    n_breaths = (unsigned)_i;
    meanwhile = begin_pool;
    pl_lock_breath = breathe;
    pleat_devptr ptr = pleat_get(24 * GRANULE, OWN);
    ck_assert_ptr_null(pl_space_segment_at(space_of_pleat(), ptr)->area->keeper);
    meanwhile = NULL;
    pleat_put(ptr, OWN);
    pools_release(pool);
}
END_TEST

/* ---- a block of a heap changes while the heap is named --------------------------------------- */

enum { N_FIRST = 100 };

static pleat_devptr long_block;

static void free_the_long_block(void)
{
    put(long_block, OWN);
}

/* The walk stands in the middle of the second of the new blocks. */
static void divide_the_long_block(void)
{
    free_the_long_block();
    ck_assert_uint_eq(get(pool, N_FIRST * GRANULE, OWN), long_block);
    ck_assert_uint_eq(get(pool, (N_BLOCKS - N_FIRST) * GRANULE, OWN),
                      long_block + N_FIRST * GRANULE);
}

/* The block has more chunks than are listed in one hold. What was listed of it goes again. */
START_TEST(a_block_that_changes_while_its_heap_is_named_is_named_as_it_is)
{
    static pl_shared_chunk chunks[N_BLOCKS + 3];
    pl_shared_block found[3];
    pl_share_list list = { chunks, found, N_BLOCKS + 3, 3, 0, 0, true };
    size_t n_before = _i == 0 ? 0 : N_BLOCKS;
    ck_assert_int_eq(pleat.a->ops->tags->open(pleat.a, "weights", &pool), PLEAT_OK);
    long_block = get(pool, N_BLOCKS * GRANULE, OWN);
    pleat_devptr last = get(pool, 3 * GRANULE, OWN);
    n_breaths = 0;
    meanwhile = _i == 0 ? free_the_long_block : divide_the_long_block;
    pl_lock_breath = breathe;
    ck_assert_int_eq(pleat.a->ops->tags->share(pleat.a, pool, &list), PLEAT_OK);
    ck_assert_ptr_null(meanwhile);
    ck_assert_uint_eq(list.n_chunks, n_before + 3);
    ck_assert_uint_eq(list.n_blocks, n_before > 0 ? 3 : 1);
    ck_assert_uint_eq(found[list.n_blocks - 1].base, last);
    ck_assert_uint_eq(found[list.n_blocks - 1].offset, n_before * GRANULE);
    if (n_before > 0) {
        ck_assert_uint_eq(found[0].bytes, N_FIRST * GRANULE);
        ck_assert_uint_eq(found[1].offset, N_FIRST * GRANULE);
    }
}
END_TEST

static void open_device(void)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.observer = told_open();
    SET_OWN(pleat, &options, chunks, PL_CHUNKS_GRANULE); /* so that single granules can be taken */
    pleat_open("capacity:2000M,depth:1048576", &options);
    ck_assert_int_eq(sem_init(&has_begun, 0, 0), 0);
    ck_assert_int_eq(sem_init(&may_go_on, 0, 0), 0);
}

static void close_device(void)
{
    pl_lock_breath = NULL;
    pools_close();
}

SUITE(segments_private_breath)
{
    TCase *tcase = suite_case(suite, "breath", open_device, close_device);
    tcase_add_test(tcase, a_trim_meets_a_pool_that_is_becoming_loose);
    tcase_add_test(tcase, a_take_meets_a_pool_that_is_becoming_loose);
    tcase_add_loop_test(tcase, a_place_is_not_used_when_a_pool_has_got_its_area, 0, 8);
    tcase_add_loop_test(tcase, a_block_that_changes_while_its_heap_is_named_is_named_as_it_is, 0,
                        2);
}
