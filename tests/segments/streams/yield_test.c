/* yield_test.c - a thread that looks for memory, or for a good moment, yields the processor: other
 * threads may have to make the missing step.
 *
 * Here the other threads run only inside sched_yield. So a served request proves a pl_lock_yield.
 * The proof with many threads is tests/api/capture_churn_test.c. */
/* labels: unit */
/* alone: it replaces sched_yield */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "segments/pleat/space/space.h"
#include "segments/pleat/streams/context.h"
#include "segments/pleat/streams/settle.h"
#include "tests/support/segments/segments_captures.h"
#include "tests/support/segments/segments_pools.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20, SMALL = 512 };

#define SIM "capacity:128M,depth:1048576"

/* ---- the others ------------------------------------------------------------------------------ */

static void (*others)(void); /* what other threads run in a yield; NULL = nothing */
static size_t n_yields;
static _Thread_local bool is_test; /* the test's own thread */

/* Replaces libc's function. */
int sched_yield(void)
{
    if (is_test) {
        void (*have_it)(void) = others;
        n_yields++;
        others = NULL; /* the function may yield, too */
        if (have_it != NULL) {
            have_it();
        }
    }
    return (int)syscall(SYS_sched_yield);
}

static void open_impatient(void)
{
    is_test = true;
    pools_open_with(SIM, PL_CROSS_SETTLED, 0);
}

static void open_plain(void)
{
    is_test = true;
    pleat_open(SIM, NULL);
}

/* On stream 2, and covered by a tick. */
static void leave_pending(size_t bytes)
{
    pleat_get(SMALL, 3);
    pleat_put(pleat_get_and_use(bytes, 2), 2);
    ck_assert_uint_gt(pleat_calls("cuEventRecord"), 0);
}

/* ---- settling -------------------------------------------------------------------------------- */

static void finish_work(void)
{
    pleat.sim.finish();
}

START_TEST(what_others_finish_meanwhile_serves_a_request_that_may_not_wait)
{
    leave_pending(100 * MIB);
    ck_assert_int_eq(pleat_refused(100 * MIB, 3), PLEAT_EPENDING);
    others = finish_work;
    pleat_get_and_use(100 * MIB, 3);
    ck_assert_uint_gt(n_yields, 0);
}
END_TEST

static void finish_and_trim(void)
{
    uint64_t released;
    pleat.sim.finish();
    (void)!pleat.a->ops->trim(pleat.a, 0, false, &released);
}

/* The pending memory was not over at the request's first look, and the request may not wait. */
START_TEST(what_others_give_back_meanwhile_serves_a_request_in_a_capture)
{
    leave_pending(100 * MIB);
    pl_keeper *pool = pools_open_one();
    captures_begin(1);
    ck_assert_int_eq(pools_refused(pool, 100 * MIB, 1), PLEAT_EPENDING);
    others = finish_and_trim;
    pleat_put(pools_get(pool, 100 * MIB, 1), 1);
    captures_end(1);
    pools_release(pool);
}
END_TEST

/* ---- very much of it ------------------------------------------------------------------------- */

enum { N_BLOCKS = 80 * 1024, ROUNDS = 64 };

static pleat_devptr blocks[N_BLOCKS];

/* Without a walk over everything, unlike pleat_get. */
static void get_blocks(pl_keeper *pool)
{
    const pl_allocator_ops *ops = pleat.a->ops;
    for (size_t i = 0; i < N_BLOCKS; i++) {
        pleat_status st = pool != NULL ? ops->alloc_asked(pleat.a, pool, SMALL, pleat.streams[1],
                                                          NULL, &blocks[i])
                                       : ops->alloc(pleat.a, SMALL, pleat.streams[1], &blocks[i]);
        ck_assert_int_eq(st, PLEAT_OK);
    }
}

/* Alternate blocks, so that no two merge. */
static void put_blocks(size_t first)
{
    for (size_t i = first; i < N_BLOCKS; i += 2) {
        ck_assert_int_eq(pleat.a->ops->free(pleat.a, blocks[i], pleat.streams[1]), PLEAT_OK);
    }
}

START_TEST(settling_very_much_yields_every_few_blocks)
{
    pleat_get(SMALL, 3);
    get_blocks(NULL);
    pleat_work(1, blocks[1], SMALL);
    put_blocks(0);
    pleat.sim.finish();
    n_yields = 0;
    (void)pleat_trim(0, true);
    ck_assert_uint_ge(n_yields, N_BLOCKS / 2 / PL_PIECES_A_HOLD);
    put_blocks(1);
}
END_TEST

/* What a capture freed in its pool is settled when the capture is over. */
START_TEST(what_a_capture_freed_settles_in_steps)
{
    pl_keeper *pool = pools_open_one();
    captures_begin(1);
    get_blocks(pool);
    put_blocks(0);
    cu_graph graph = captures_end_with_graph(1);
    uint64_t since = pleat_steps();
    captures_name_stream(1); /* makes the end of the capture known */
    ck_assert_uint_ge(pleat_steps() - since, N_BLOCKS / 2);
    put_blocks(1);
    captures_destroy(graph);
    pleat.a->ops->pools->release(pleat.a, pool);
}
END_TEST

/* It is left once the graph is gone, and is more than the rounds of settling look at. */
START_TEST(opening_what_a_pool_left_yields_every_few_blocks)
{
    pl_keeper *pool = pools_open_one();
    captures_begin(1);
    get_blocks(pool);
    cu_graph graph = captures_end_with_graph(1);
    pleat.a->ops->pools->release(pleat.a, pool);
    captures_destroy(graph);
    n_yields = 0;
    (void)pleat_trim(0, true);
    ck_assert_ptr_null(((pl_space *)pleat.a)->places.opening);
    ck_assert_uint_ge(n_yields, N_BLOCKS / PL_PIECES_A_HOLD);
    put_blocks(0);
    put_blocks(1);
}
END_TEST

/* ---- a good moment --------------------------------------------------------------------------- */

enum { BEGINS, IS_OUTSIDE, COMES, IS_DONE };

/* A thread that has made a capture. Outside of a call it may be beginning the next capture. */
static _Atomic int stage;
static size_t n_held; /* yields while a thread is kept inside */

static pl_space *space_of(void)
{
    return (pl_space *)pleat.a;
}

static void wait_for_stage(int wanted)
{
    while (atomic_load(&stage) < wanted) {
        (void)syscall(SYS_sched_yield);
    }
}

static void *capture_and_call(void *arg)
{
    bool *is_fine = arg;
    cu_graph graph = NULL;
    pleat_devptr ptr[2] = { 0, 0 };
    const pl_allocator_ops *ops = pleat.a->ops;
    *is_fine = pl_device_enter(pleat.dev) == PLEAT_OK &&
               pl_cu_stream_begin_capture(pleat.sim.drv, pleat.handles[1],
                                          CU_CAPTURE_MODE_GLOBAL) == CU_SUCCESS &&
               ops->alloc(pleat.a, SMALL, pleat.streams[1], &ptr[0]) == PLEAT_OK &&
               pl_cu_stream_end_capture(pleat.sim.drv, pleat.handles[1], &graph) == CU_SUCCESS &&
               pl_cu_graph_destroy(pleat.sim.drv, graph) == CU_SUCCESS &&
               ops->free(pleat.a, ptr[0], pleat.streams[1]) == PLEAT_OK;
    atomic_store(&stage, IS_OUTSIDE);
    wait_for_stage(COMES);
    *is_fine = ops->alloc(pleat.a, SMALL, pleat.streams[1], &ptr[1]) == PLEAT_OK && *is_fine;
    pl_device_leave(pleat.dev);
    return NULL;
}

static bool is_inside(void)
{
    pl_space *space = space_of();
    pl_lock_acquire(&space->lock);
    bool is = space->captures.n_capturers == 1 && space->captures.capturers[0].is_inside;
    pl_lock_release(&space->lock);
    return is;
}

/* Wait until the thread is wanted, then let it come in. */
static void let_it_come(void)
{
    if (space_of()->streams.context.phase != PL_CONTEXT_HOLDING) {
        others = let_it_come;
        return;
    }
    n_held++;
    atomic_store(&stage, COMES);
    while (!is_inside()) {
        (void)syscall(SYS_sched_yield);
    }
}

/* Leave memory that only a tick of the context covers: its stream was the only one, and had a
 * block. */
static void leave_uncovered(void)
{
    pleat_get(SMALL, 2);
    pleat_put(pleat_get_and_use(40 * MIB, 2), 2);
    ck_assert_uint_eq(pleat_calls("cuEventRecord"), 0);
    pleat_renew_stream(2);
}

START_TEST(who_may_be_beginning_a_capture_is_given_the_processor)
{
    pthread_t thread;
    bool is_fine = false;
    leave_uncovered();
    stage = BEGINS;
    ck_assert_int_eq(pthread_create(&thread, NULL, capture_and_call, &is_fine), 0);
    wait_for_stage(IS_OUTSIDE);
    others = let_it_come;
    pleat_get_and_use(120 * MIB, 3);
    others = NULL;
    atomic_store(&stage, COMES);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(is_fine);
    ck_assert_uint_eq(n_held, 1);
}
END_TEST

static pleat_status record_context(unsigned *n_missed)
{
    pl_space *space = space_of();
    pl_lock_acquire(&space->lock);
    pleat_status st = pl_context_tick_record(space, PL_CARE_NOW, 0);
    *n_missed = space->streams.context.n_missed;
    pl_lock_release(&space->lock);
    return st;
}

/* Each miss in a row doubles the calls before the next try. */
START_TEST(a_tick_that_finds_no_moment_is_put_off_until_it_finds_one)
{
    pthread_t thread;
    unsigned n_missed;
    bool is_fine = false;
    stage = BEGINS;
    ck_assert_int_eq(pthread_create(&thread, NULL, capture_and_call, &is_fine), 0);
    wait_for_stage(IS_OUTSIDE);
    ck_assert_int_eq(record_context(&n_missed), PLEAT_ECAPTURE);
    ck_assert_uint_eq(n_missed, 1);
    atomic_store(&stage, COMES);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(is_fine);
    ck_assert_int_eq(record_context(&n_missed), PLEAT_OK);
    ck_assert_uint_eq(n_missed, 0);
}
END_TEST

SUITE(segments_yield)
{
    TCase *settling = suite_case(suite, "settling", open_impatient, pools_close);
    suite_one_thread(settling);
    tcase_add_test(settling, what_others_finish_meanwhile_serves_a_request_that_may_not_wait);
    tcase_add_test(settling, what_others_give_back_meanwhile_serves_a_request_in_a_capture);
    TCase *plain = suite_case(suite, "plain", open_plain, pleat_close);
    tcase_add_test(plain, settling_very_much_yields_every_few_blocks);
    tcase_add_test(plain, what_a_capture_freed_settles_in_steps);
    tcase_add_test(plain, opening_what_a_pool_left_yields_every_few_blocks);
    suite_one_thread(plain);
    TCase *beside = suite_case(suite, "beside", open_plain, pleat_close);
    tcase_add_test(beside, a_tick_that_finds_no_moment_is_put_off_until_it_finds_one);
    tcase_add_test(beside, who_may_be_beginning_a_capture_is_given_the_processor);
}
