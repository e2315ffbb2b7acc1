/* private_test.c - a private pool's memory is reused only there, until the release. */
/* labels: unit fault */
#include <check.h>
#include <stdlib.h>

#include "tests/support/segments/segments_captures.h"
#include "tests/support/segments/segments_pools.h"
#include "tests/support/segments/segments_told.h"
#include "tests/support/suite.h"
#include "vmm/driver_state.h"

enum { GRANULE = 2 << 20, N_GRANULES = 64, N_CYCLES = 2000 };

#define SIM "capacity:128M,depth:1048576" /* work ends only when it is waited for */

static void open_plain(void)
{
    pools_open_with(SIM, PL_CROSS_ORDER, 1000);
}

static void open_impatient(void)
{
    pools_open_with(SIM, PL_CROSS_SETTLED, 0);
}

/* Make a call that only names the stream. */
static void name(unsigned stream)
{
    pleat_put(pleat_get(512, stream), stream);
}

/* ---- owners of memory ------------------------------------------------------------------------ */

START_TEST(a_pools_free_block_serves_the_pool_again_and_nobody_else)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr ptr = pools_get(pool, GRANULE, 1);
    pleat_put(ptr, 1);
    pleat_devptr other = pools_get_default(GRANULE, 1);
    ck_assert_uint_ne(other, ptr);
    ck_assert_uint_eq(pools_get(pool, GRANULE, 1), ptr);
    ck_assert_uint_eq(pools_reserved(pool), GRANULE);
    pleat_put(ptr, 1);
    pools_release(pool);
}
END_TEST

START_TEST(two_pools_share_nothing)
{
    pl_keeper *one = pools_open_one();
    pl_keeper *two = pools_open_one();
    pleat_devptr ptr = pools_get(one, GRANULE, 1);
    pleat_put(ptr, 1);
    pleat_devptr other = pools_get(two, GRANULE, 1);
    ck_assert_uint_ne(other, ptr);
    pleat_put(other, 1);
    pools_release(one);
    ck_assert_uint_eq(pools_get(two, GRANULE, 1), other);
    pools_release(two);
}
END_TEST

START_TEST(a_full_device_does_not_touch_a_pools_free_memory)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr ptr = pools_get(pool, (size_t)32 * GRANULE, 1);
    pleat_put(ptr, 1);
    pools_get_default((size_t)32 * GRANULE, 1);
    ck_assert_int_eq(pleat_refused(GRANULE, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_refused(GRANULE, 2), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(pleat_trim(0, true), 0);
    pleat_stats s;
    pleat.a->ops->stats(pleat.a, &s);
    ck_assert_uint_eq(s.pinned_granules, 32);
    ck_assert_uint_eq(pools_get(pool, (size_t)32 * GRANULE, 1), ptr);
    pleat_put(ptr, 1);
    pools_release(pool);
    pools_get_default((size_t)32 * GRANULE, 2);
}
END_TEST

START_TEST(a_pool_grows_into_what_the_default_pool_caches)
{
    pl_keeper *pool = pools_open_one();
    pleat_put(pools_get_default((size_t)N_GRANULES * GRANULE, 1), 1);
    pleat_put(pools_get(pool, (size_t)40 * GRANULE, 1), 1);
    pleat_put(pools_get(pool, (size_t)60 * GRANULE, 2), 2);
    ck_assert_uint_eq(pools_reserved(pool), (uint64_t)60 * GRANULE);
    pools_release(pool);
    ck_assert_uint_eq(pleat_trim(0, true), (uint64_t)N_GRANULES * GRANULE);
}
END_TEST

START_TEST(the_limit_counts_pools_in)
{
    pl_keeper *pool = pools_open_one();
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, (uint64_t)16 * GRANULE), PLEAT_OK);
    pleat_devptr ptr = pools_get(pool, (size_t)10 * GRANULE, 1);
    ck_assert_int_eq(pools_refused(pool, (size_t)10 * GRANULE, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_refused((size_t)10 * GRANULE, 1), PLEAT_ENOMEM_DEVICE);
    pleat_put(ptr, 1);
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, (uint64_t)9 * GRANULE), PLEAT_ENOMEM_DEVICE);
    pools_release(pool);
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, (uint64_t)9 * GRANULE), PLEAT_OK);
}
END_TEST

START_TEST(a_live_block_survives_its_pool)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr ptr = pools_get(pool, 3 * GRANULE, 1);
    pleat_devptr gone = pools_get(pool, 3 * GRANULE, 1);
    pleat_record(ptr, 2);
    pleat_put(gone, 1);
    pools_release(pool);
    ck_assert_uint_eq(pleat_info(ptr).base, ptr);
    ck_assert_uint_eq(pleat_trim(0, true), 3 * GRANULE);
    pleat_work_after(1, 1, ptr, 3 * GRANULE);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_trim(0, true), 3 * GRANULE);
}
END_TEST

START_TEST(frees_that_others_used_outlive_the_pool)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr ptr = pools_get(pool, 3 * GRANULE, 1);
    pleat_work_after(2, 1, ptr, 3 * GRANULE);
    pleat_record(ptr, 2);
    pleat_put(ptr, 1);
    pools_release(pool);
    ck_assert_uint_eq(pleat_trim(0, true), 3 * GRANULE);
}
END_TEST

START_TEST(other_streams_of_the_pool_get_what_is_settled)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr ptr = pools_get(pool, (size_t)N_GRANULES * GRANULE, 1);
    pleat_put(ptr, 1);
    pleat.sim.finish();
    ck_assert_uint_eq(pools_get(pool, (size_t)N_GRANULES * GRANULE, 2), ptr);
    pleat_put(ptr, 2);
    ck_assert_int_eq(pleat_refused(GRANULE, 1), PLEAT_ENOMEM_DEVICE);
    pools_release(pool);
}
END_TEST

START_TEST(what_another_stream_is_done_with_serves_before_the_pool_grows)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr ptr = pools_get(pool, GRANULE, 1);
    pleat_record(ptr, 2);
    pleat_put(ptr, 1);
    name(2); /* records the tick that the free wished for */
    pleat.sim.finish();
    ck_assert_uint_eq(pools_get(pool, GRANULE, 1), ptr);
    ck_assert_uint_eq(pools_reserved(pool), GRANULE);
    pools_release(pool);
}
END_TEST

/* A default request that is refused is not "pending" because memory pends in a pool. */
START_TEST(a_pools_pending_memory_is_not_waited_for_by_others)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr ptr = pools_get(pool, (size_t)N_GRANULES * GRANULE, 1);
    pleat_put(ptr, 1);
    ck_assert_int_eq(pleat_refused(GRANULE, 2), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pools_refused(pool, GRANULE, 2), PLEAT_EPENDING);
    pools_release(pool);
}
END_TEST

START_TEST(destruction_takes_open_pools_along)
{
    pl_keeper *pool = pools_open_one();
    pleat_put(pools_get(pool, 3 * GRANULE, 1), 1);
    (void)pools_get(pools_open_one(), 3 * GRANULE, 2);
}
END_TEST

/* ---- captures -------------------------------------------------------------------------------- */

START_TEST(a_capture_reuses_what_it_freed_itself)
{
    pl_keeper *pool = pools_open_one();
    pools_begin_capture(1);
    pleat_devptr ptr = pools_get(pool, GRANULE, 1);
    for (int i = 0; i < 100; i++) {
        pleat_put(ptr, 1);
        ck_assert_uint_eq(pools_get(pool, GRANULE, 1), ptr);
    }
    pleat_put(ptr, 1);
    cu_graph_exec exec = pools_end_capture(1);
    ck_assert_uint_eq(pools_reserved(pool), GRANULE);
    pools_rest(pool);
    for (unsigned i = 0; i < 3; i++) {
        pools_launch(exec, 3);
        (void)pools_get_default(GRANULE, 2);
    }
    pools_forget(exec);
    pools_release(pool);
}
END_TEST

START_TEST(another_stream_of_the_capture_does_not_get_it)
{
    pl_keeper *pool = pools_open_one();
    cu_event fork = NULL;
    cu_event join = NULL;
    pl_driver *drv = pleat.sim.drv;
    ck_assert_int_eq(pl_cu_event_create(drv, &fork, CU_EVENT_DISABLE_TIMING_FLAG), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_create(drv, &join, CU_EVENT_DISABLE_TIMING_FLAG), CU_SUCCESS);
    pools_begin_capture(1);
    ck_assert_int_eq(pl_cu_event_record(drv, fork, pleat.handles[1]), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_stream_wait_event(drv, pleat.handles[2], fork, 0), CU_SUCCESS);
    pleat_devptr one = pools_get(pool, GRANULE, 1);
    pleat_put(one, 1);
    pleat_devptr two = pools_get(pool, GRANULE, 2);
    ck_assert_uint_ne(one, two);
    pleat_record(two, 1);
    pleat_put(two, 2);
    ck_assert_uint_ne(pools_get(pool, GRANULE, 2), two); /* stream 1 used the block */
    ck_assert_uint_eq(pools_get(pool, GRANULE, 1), one);
    ck_assert_int_eq(pl_cu_event_record(drv, join, pleat.handles[2]), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_stream_wait_event(drv, pleat.handles[1], join, 0), CU_SUCCESS);
    cu_graph_exec exec = pools_end_capture(1);
    pools_rest(pool);
    ck_assert_uint_eq(told_count(PL_ACTION_FREE_COMPLETED), 1);
    name(1); /* finds stream 1 at rest, so its uses are timed */
    pools_rest(pool);
    ck_assert_uint_eq(told_count(PL_ACTION_FREE_COMPLETED), 3);
    pools_launch(exec, 3);
    pools_forget(exec);
    ck_assert_int_eq(pl_cu_event_destroy(drv, fork), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_destroy(drv, join), CU_SUCCESS);
    pools_release(pool);
}
END_TEST

/* The graph may be launched while earlier work of the stream still runs. */
START_TEST(a_capture_does_not_use_what_pends_from_before)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr before = pools_get(pool, GRANULE, 1);
    pleat_put(before, 1);
    pools_begin_capture(1);
    ck_assert_uint_ne(pools_get(pool, GRANULE, 1), before);
    cu_graph_exec exec = pools_end_capture(1);
    pools_launch(exec, 2);
    pools_forget(exec);
    pools_release(pool);
}
END_TEST

/* Memory used and freed in one capture serves the next at once, even on a different stream. */
START_TEST(two_graphs_share_a_pool)
{
    pl_keeper *pool = pools_open_one();
    pools_begin_capture(1);
    pleat_devptr ptr = pools_get(pool, 4 * GRANULE, 1);
    pleat_put(ptr, 1);
    cu_graph_exec one = pools_end_capture(1);
    pools_rest(pool);
    pools_begin_capture(2);
    ck_assert_uint_eq(pools_get(pool, 4 * GRANULE, 2), ptr);
    pleat_put(ptr, 2);
    cu_graph_exec two = pools_end_capture(2);
    pools_rest(pool);
    pools_launch(one, 3); /* in the order of the captures, as PyTorch demands */
    pools_launch(two, 3);
    ck_assert_uint_eq(pools_reserved(pool), 4 * GRANULE);
    pools_forget(one);
    pools_forget(two);
    pools_release(pool);
}
END_TEST

/* The output of a first graph, which has run, and which the stream itself then used, outside of any
 * graph's order. */
static pleat_devptr run_for_output(pl_keeper *pool, cu_graph_exec *exec)
{
    pools_begin_capture(1);
    pleat_devptr output = pools_get(pool, GRANULE, 1);
    *exec = pools_end_capture(1);
    pools_rest(pool);
    pools_launch(*exec, 1);
    pleat_work(1, output, GRANULE);
    return output;
}

/* The stream's own use, outside of all captures, goes on when a second capture begins. Its graph
 * may be launched on another stream, so the capture gets other memory. */
START_TEST(what_is_freed_between_two_captures_waits_for_the_stream_s_own_use)
{
    pl_keeper *pool = pools_open_one();
    pools_begin_capture(1);
    pleat_devptr ptr = pools_get(pool, GRANULE, 1);
    cu_graph_exec first = pools_end_capture(1);
    captures_name_stream(1);
    pleat_record(ptr, 2);
    pleat_work_after(2, 1, ptr, GRANULE / 2);
    pleat_work(1, ptr + GRANULE / 2, GRANULE / 2); /* goes on after the second stream's use */
    pleat_put(ptr, 1);
    pleat_put(pleat_get(512, 2), 2); /* names the stream, which gets the tick */
    ck_assert_int_eq(pleat.sim.drv->table.stream_synchronize(pleat.handles[2]), CU_SUCCESS);
    pools_begin_capture(1);
    (void)pools_get(pool, GRANULE, 1);
    (void)pleat_get((size_t)2 * GRANULE, 3); /* sees that the second stream's use is over */
    ck_assert_uint_ne(pools_get(pool, GRANULE, 1), ptr);
    cu_graph_exec second = pools_end_capture(1);
    pleat.sim.finish();
    pools_forget(first);
    pools_forget(second);
    pools_release(pool);
}
END_TEST

/* The block was freed in a second capture, which ends here: it waits for the stream's own use. */
static void end_with_output(pl_keeper *pool, pleat_devptr output, cu_graph_exec one)
{
    cu_graph_exec two = pools_end_capture(1);
    pools_rest(pool);
    name(1); /* finds the stream at rest */
    ck_assert_uint_ne(pools_get(pool, GRANULE, 2), output);
    pleat.sim.finish();
    ck_assert_uint_eq(pools_get(pool, GRANULE, 2), output);
    pools_forget(one);
    pools_forget(two);
    pools_release(pool);
}

START_TEST(an_output_that_a_later_capture_frees_waits_for_its_last_use)
{
    cu_graph_exec one;
    pl_keeper *pool = pools_open_one();
    pleat_devptr output = run_for_output(pool, &one);
    pools_begin_capture(1);
    pleat_put(pools_get(pool, 2 * GRANULE, 1), 1);
    pleat_put(output, 1);
    end_with_output(pool, output, one);
}
END_TEST

/* A second stream, which is idle by now, used the block, too. */
START_TEST(an_output_that_others_are_done_with_waits_for_its_own_stream)
{
    cu_graph_exec one;
    pl_keeper *pool = pools_open_one();
    pleat_devptr output = run_for_output(pool, &one);
    pleat_record(output, 2);
    pools_begin_capture(1);
    pleat_put(output, 1);
    name(2);
    (void)pools_get_default(GRANULE, 3); /* polls */
    end_with_output(pool, output, one);
}
END_TEST

enum { N_SMALL = 600 };

static bool is_among(pleat_devptr ptr, const pleat_devptr *all, size_t n)
{
    size_t i = 0;
    while (i < n && all[i] != ptr) {
        i++;
    }
    return i < n;
}

/* More blocks than one hold settles, which live ones keep apart. */
START_TEST(what_came_and_went_in_a_capture_waits_for_nothing)
{
    static pleat_devptr gone[N_SMALL];
    pl_keeper *pool = pools_open_one();
    pools_begin_capture(1);
    for (size_t i = 0; i < N_SMALL; i++) {
        gone[i] = pools_get(pool, 4096, 1);
        (void)pools_get(pool, 4096, 1);
    }
    for (size_t i = 0; i < N_SMALL; i++) {
        pleat_put(gone[i], 1);
    }
    cu_graph_exec exec = pools_end_capture(1);
    pools_rest(pool);
    name(1); /* finds the stream at rest, where work goes on */
    for (size_t i = 0; i < N_SMALL; i++) {
        ck_assert(is_among(pools_get(pool, 4096, 2), gone, N_SMALL));
    }
    pools_forget(exec);
    pools_release(pool);
}
END_TEST

START_TEST(an_output_that_is_freed_later_goes_back_to_the_pool)
{
    pl_keeper *pool = pools_open_one();
    pools_begin_capture(1);
    pleat_devptr output = pools_get(pool, GRANULE, 1);
    cu_graph_exec exec = pools_end_capture(1);
    pools_rest(pool);
    pools_launch(exec, 1);
    pleat_put(output, 1);
    ck_assert_uint_ne(pools_get_default(GRANULE, 1), output);
    ck_assert_uint_eq(pools_get(pool, GRANULE, 1), output);
    pools_forget(exec);
    pools_release(pool);
}
END_TEST

START_TEST(a_capture_grows_into_settled_memory_of_the_default_pool)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr keep = pools_get_default(GRANULE, 3);
    pleat_put(pools_get_default((size_t)60 * GRANULE, 1), 1);
    pools_begin_capture(2);
    pleat_put(pools_get(pool, (size_t)50 * GRANULE, 2), 2);
    cu_graph_exec exec = pools_end_capture(2);
    pools_launch(exec, 3);
    pools_forget(exec);
    pleat_put(keep, 3);
    pools_release(pool);
}
END_TEST

/* Free blocks of stream 1 that a second stream has used in its capture. */
static void free_captured(const pleat_devptr *ptr, unsigned n, unsigned user)
{
    for (unsigned i = 0; i < n; i++) {
        pleat_record(ptr[i], user);
        pleat_put(ptr[i], 1);
    }
}

static void get_many(pl_keeper *pool, pleat_devptr *ptr, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        ptr[i] = pools_get(pool, GRANULE, 1);
    }
}

START_TEST(what_a_capture_used_comes_back_when_it_ends)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr ptr[N_GRANULES];
    get_many(pool, ptr, N_GRANULES);
    pools_begin_capture(2);
    free_captured(ptr, N_GRANULES, 2);
    ck_assert_int_eq(pools_refused(pool, GRANULE, 1), PLEAT_EPENDING);
    pools_forget(pools_end_capture(2));
    pleat_put(pools_get(pool, (size_t)N_GRANULES * GRANULE, 1), 1);
    pools_release(pool);
}
END_TEST

/* Blocks of the pool wait for the end of a capture, all others for its graph. Whatever the order of
 * the frees, nobody waits behind the others. */
START_TEST(the_pools_blocks_do_not_wait_for_the_graph)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr ptr[3];
    pleat_devptr before = pools_get_default(GRANULE, 1);
    pleat_devptr between = pools_get_default(GRANULE, 1);
    get_many(pool, ptr, 3);
    pools_begin_capture(2);
    free_captured(ptr, 1, 2);
    free_captured(&before, 1, 2);
    free_captured(ptr + 1, 1, 2);
    free_captured(&between, 1, 2);
    free_captured(ptr + 2, 1, 2);
    cu_graph_exec exec = pools_end_capture(2);
    uint64_t n_ticks = pleat_calls("cuEventRecord");
    pleat_record(pools_get_default(GRANULE, 1), 2); /* finds stream 2 at rest, and covers its use */
    ck_assert_uint_gt(pleat_calls("cuEventRecord"), n_ticks);
    pools_rest(pool);
    ck_assert_uint_eq(pools_reserved(pool), (size_t)3 * GRANULE);
    pleat_put(pools_get(pool, (size_t)3 * GRANULE, 1), 1);
    ck_assert_uint_eq(pools_reserved(pool), (size_t)3 * GRANULE);
    pools_launch(exec, 3);
    pools_forget(exec);
    pools_release(pool);
}
END_TEST

/* The running capture uses so many blocks that a request looks at only some of them. */
START_TEST(a_capture_that_goes_on_does_not_hide_one_that_ended)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr ptr[N_GRANULES - 1];
    pleat_devptr other = pleat_get(512, 2);
    get_many(pool, ptr, N_GRANULES - 1);
    pools_begin_capture(2);
    pools_begin_capture(3);
    free_captured(ptr, N_GRANULES - 5, 3);
    free_captured(ptr + N_GRANULES - 5, 4, 2);
    pools_forget(pools_end_capture(2));
    ck_assert_int_eq(pools_refused(pool, GRANULE, 1), PLEAT_EPENDING); /* no call named stream 2 */
    pleat_record(other, 2);
    ck_assert_uint_ge(pools_get(pool, GRANULE, 1), ptr[N_GRANULES - 5]);
    pools_forget(pools_end_capture(3));
    pools_release(pool);
}
END_TEST

START_TEST(a_capture_is_told_when_what_it_needs_pends)
{
    pl_keeper *pool = pools_open_one();
    pleat_put(pools_get_default((size_t)60 * GRANULE, 1), 1);
    pools_begin_capture(2);
    ck_assert_int_eq(pools_refused(pool, (size_t)50 * GRANULE, 2), PLEAT_EPENDING);
    cu_graph_exec exec = pools_end_capture(2);
    pools_forget(exec);
    pools_release(pool);
}
END_TEST

/* The graph still runs when its pool is released. Nobody gets the memory before the graph's end. */
START_TEST(released_memory_waits_for_the_last_launch)
{
    pl_keeper *pool = pools_open_one();
    pools_begin_capture(1);
    pleat_put(pools_get(pool, (size_t)N_GRANULES * GRANULE, 1), 1);
    cu_graph_exec exec = pools_end_capture(1);
    pools_launch(exec, 3);
    pools_forget(exec);
    pools_release(pool);
    (void)pools_get_default((size_t)N_GRANULES * GRANULE, 2);
}
END_TEST

/* The graph uses and frees a block of the pool, but allocates nothing there. */
START_TEST(released_memory_waits_for_a_graph_that_only_freed_some)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr ptr = pools_get(pool, (size_t)60 * GRANULE, 1);
    pools_begin_capture(1);
    pleat_work(1, ptr, (size_t)60 * GRANULE);
    pleat_put(ptr, 1);
    cu_graph_exec exec = pools_end_capture(1);
    pleat.sim.finish(); /* the first write */
    name(1);
    pools_launch(exec, 3);
    pools_forget(exec);
    pools_release(pool);
    (void)pools_get_default((size_t)60 * GRANULE, 2);
}
END_TEST

/* No graph has the memory. So it is pending in the usual way, in any number of pieces. */
START_TEST(a_release_of_a_pool_that_no_graph_used_records_nothing)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr ptr[N_GRANULES];
    get_many(pool, ptr, N_GRANULES);
    for (unsigned i = 0; i < N_GRANULES; i += 2) {
        pleat_put(ptr[i], 1);
    }
    uint64_t before = pleat_calls("cuEventRecord");
    uint64_t n_of_context = pleat_calls("cuCtxRecordEvent");
    pleat.a->ops->pools->release(pleat.a, pool);
    ck_assert_uint_eq(pleat_calls("cuEventRecord"), before);
    ck_assert_uint_eq(pleat_calls("cuCtxRecordEvent"), n_of_context);
    pleat_assert_sound();
    (void)pools_get_default(GRANULE, 2);
}
END_TEST

/* The driver tells when the graphs are gone; until then nobody gets the memory. */
START_TEST(a_release_of_a_pool_whose_graphs_are_watched_records_nothing)
{
    pl_keeper *pool = pools_open_one();
    pools_begin_capture(1);
    pleat_devptr ptr = pools_get(pool, (size_t)60 * GRANULE, 1);
    pleat_put(ptr, 1);
    cu_graph_exec exec = pools_end_capture(1);
    uint64_t before = pleat_calls("cuEventRecord") + pleat_calls("cuCtxRecordEvent");
    pools_release(pool);
    ck_assert_uint_eq(pleat_calls("cuEventRecord") + pleat_calls("cuCtxRecordEvent"), before);
    pools_launch(exec, 3);
    pleat_devptr beside = pools_get_default((size_t)4 * GRANULE, 2);
    ck_assert_uint_eq(pleat_trim(0, false), 0);
    pleat_put(beside, 2);
    pools_forget(exec);
    (void)pools_get_default((size_t)60 * GRANULE, 2);
}
END_TEST

/* A capture that breaks has no graph that would have to be waited for. */
START_TEST(a_release_of_a_pool_whose_capture_broke_records_nothing)
{
    cu_graph graph = NULL;
    pl_keeper *pool = pools_open_one();
    pools_begin_capture(1);
    pleat_put(pools_get(pool, (size_t)60 * GRANULE, 1), 1);
    (void)pl_cu_ctx_synchronize(pleat.sim.drv); /* forbidden in a capture, which breaks */
    pleat_put(pleat_get(512, 1), 1);
    ck_assert_int_eq(pl_cu_stream_end_capture(pleat.sim.drv, pleat.handles[1], &graph),
                     CU_CAPTURE_INVALIDATED);
    pleat.a->ops->expect_captures(pleat.a, false);
    name(1);
    uint64_t before = pleat_calls("cuEventRecord") + pleat_calls("cuCtxRecordEvent");
    pools_release(pool);
    ck_assert_uint_eq(pleat_calls("cuEventRecord") + pleat_calls("cuCtxRecordEvent"), before);
    (void)pools_get_default((size_t)60 * GRANULE, 1);
}
END_TEST

/* The release needs an event, which would break the capture. So the event is recorded later. */
START_TEST(a_release_beside_a_capture_waits_for_its_end)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr ptr[4];
    get_many(pool, ptr, 4);
    pleat_put(ptr[0], 1);
    pleat_put(ptr[2], 1);
    pools_begin_capture(3);
    pools_release(pool);
    pleat.sim.finish();
    uint64_t released = 0;
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, 0, true, &released), PLEAT_EPENDING);
    ck_assert_uint_eq(released, 0);
    pools_forget(pools_end_capture(3));
    ck_assert_uint_eq(pleat_trim(0, true), 2 * GRANULE);
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

/* A pool's life, while the k-th allocation of host memory fails, or all from the k-th on. If it is
 * captured, stream 1 is being captured meanwhile. */
static bool live_through(uint64_t k, bool is_lasting, bool is_captured)
{
    pl_allocator *a = pleat.a;
    pl_keeper *pool = NULL;
    pleat_devptr ptr[3] = { 0 };
    if (is_captured) {
        pools_begin_capture(1);
    }
    uint64_t before = pl_meta_n_allocs();

    (is_lasting ? pl_meta_fail_from : pl_meta_fail_at)(k);
    pleat_status st = a->ops->pools->open(a, &pool);
    for (unsigned i = 0; st == PLEAT_OK && i < 3; i++) {
        pl_stream *stream = pleat.streams[1 + i % 2];
        st = a->ops->alloc_asked(a, pool, (i + 1) * MIB, stream, NULL, &ptr[i]);
        ck_assert(st == PLEAT_OK || st == PLEAT_ENOMEM_HOST);
        ck_assert_int_eq(a->ops->check(a), 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        if (ptr[i] != 0) { /* no second stream's use: the free needs no host memory */
            ck_assert_int_eq(a->ops->free(a, ptr[i], pleat.streams[1 + i % 2]), PLEAT_OK);
        }
    }
    if (pool != NULL) {
        a->ops->pools->release(a, pool);
    }
    bool is_hit = pl_meta_n_allocs() - before > k;
    pl_meta_fail_never();
    if (is_captured) {
        pools_forget(pools_end_capture(1));
    }
    pleat_assert_sound();
    told_assert_agrees(a);
    return is_hit;
}

START_TEST(host_memory_that_fails_leaves_nothing_behind)
{
    uint64_t k = 0;
    while (live_through(k, _i % 2 == 1, _i / 2 == 1)) {
        k++;
        ck_assert_uint_lt(k, 500);
    }
    ck_assert_uint_gt(k, 5);
    pleat_trim(0, true);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 0);
}
END_TEST

/* ---- many pools ------------------------------------------------------------------------------ */

START_TEST(thousands_of_pools_leave_nothing_behind)
{
    uint64_t address = 0;
    uint64_t metadata = 0;
    pleat_devptr first = 0;

    for (int i = 0; i < N_CYCLES; i++) {
        pl_keeper *pool = NULL;
        pleat_devptr ptr = 0;
        ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pool), PLEAT_OK);
        pools_begin_capture(1 + (unsigned)i % 2);
        pl_stream *stream = pleat.streams[1 + i % 2];
        ck_assert_int_eq(pleat.a->ops->alloc_asked(pleat.a, pool, 3 * GRANULE, stream, NULL, &ptr),
                         PLEAT_OK);
        ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, stream), PLEAT_OK);
        pools_forget(pools_end_capture(1 + (unsigned)i % 2));
        pleat.a->ops->pools->release(pleat.a, pool);
        pleat_stats s;
        pleat.a->ops->stats(pleat.a, &s);
        first = i == 0 ? ptr : first;
        ck_assert_uint_eq(ptr, first);
        address = i < 3 ? s.address_bytes : address;
        metadata = i < 3 ? s.metadata_bytes : metadata;
        ck_assert_uint_le(s.address_bytes, address);
        ck_assert_uint_le(s.metadata_bytes, metadata);
        ck_assert_uint_eq(s.resident_bytes, 3 * GRANULE);
    }
    pleat_assert_sound();
}
END_TEST

START_TEST(thousands_of_pools_are_open_at_once)
{
    pl_keeper *pools[N_CYCLES];
    uint64_t address = 0;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N_CYCLES; i++) {
            pleat_devptr ptr;
            pools[i] = pools_open_one();
            if (i % 40 == 0) {
                ck_assert_int_eq(pleat.a->ops->alloc_asked(pleat.a, pools[i], 1000,
                                                           pleat.streams[1], NULL, &ptr),
                                 PLEAT_OK);
                ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[1]), PLEAT_OK);
            }
        }
        pleat_assert_sound();
        pleat_stats s;
        pleat.a->ops->stats(pleat.a, &s);
        ck_assert_uint_eq(s.pinned_granules, N_CYCLES / 40);
        for (int i = 0; i < N_CYCLES; i++) {
            pleat.a->ops->pools->release(pleat.a, pools[i]);
        }
        address = round == 0 ? s.address_bytes : address;
        ck_assert_uint_eq(s.address_bytes, address);
    }
    ck_assert_uint_eq(pleat_trim(0, true), (uint64_t)N_CYCLES / 40 * GRANULE);
}
END_TEST

/* A small pool does not pin all memory of an earlier large one. */
START_TEST(a_later_pool_pins_only_what_it_touches)
{
    pl_keeper *pool = pools_open_one();
    pleat_put(pools_get(pool, (size_t)60 * GRANULE, 1), 1);
    pleat.sim.finish();
    pools_release(pool);
    pool = pools_open_one();
    pleat_devptr ptr = pools_get(pool, GRANULE, 1);
    pleat_stats s;
    pleat.a->ops->stats(pleat.a, &s);
    ck_assert_uint_eq(s.pinned_granules + s.live_granules, 1);
    pleat_devptr big = pools_get_default((size_t)60 * GRANULE, 2);
    pleat_put(big, 2);
    pleat_put(ptr, 1);
    pools_release(pool);
}
END_TEST

static uint64_t pinned_or_live(void)
{
    pleat_stats s;

    pleat.a->ops->stats(pleat.a, &s);
    return s.pinned_granules + s.live_granules;
}

/* The first pool's memory is pending when the second pool gets its area. */
START_TEST(a_later_pool_does_not_pin_what_pends)
{
    name(2);
    pl_keeper *pool = pools_open_one();
    pleat_put(pools_get(pool, (size_t)60 * GRANULE, 1), 1);
    pools_release(pool);
    pool = pools_open_one();
    pleat_devptr ptr = pools_get(pool, GRANULE, 1);
    ck_assert_uint_eq(pinned_or_live(), 1);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pinned_or_live(), 1);
    pleat_devptr big = pools_get_default((size_t)62 * GRANULE, 2); /* behind the work of stream 1 */
    ck_assert_uint_eq(pinned_or_live(), 63);
    pleat_put(big, 2);
    pools_release(pool);
}
END_TEST

/* Memory freed by two lanes in the first pool lies side by side in the second. */
START_TEST(a_request_of_a_pool_that_is_refused_pins_nothing)
{
    pl_keeper *pool = pools_open_one();
    pleat_devptr ptr[4] = { 0 };
    for (unsigned i = 0; i < 4; i++) {
        ptr[i] = pools_get(pool, (size_t)(10 * GRANULE + 4711), 1 + i % 2);
    }
    for (unsigned i = 0; i < 4; i++) {
        pleat_put(ptr[i], 1 + i % 2);
    }
    pools_release(pool);
    pool = pools_open_one();
    ptr[0] = pools_get(pool, GRANULE, 1);
    uint64_t before = pinned_or_live();
    for (uint64_t k = 0; k < 4; k++) {
        pleat.sim.fail_from("cuMemCreate", k, 2);
        ck_assert_int_eq(pools_refused(pool, (size_t)50 * GRANULE, 1), PLEAT_ENOMEM_DEVICE);
        pleat.sim.fail_never();
        ck_assert_uint_eq(pinned_or_live(), before);
    }
    pleat_put(ptr[0], 1);
    pools_release(pool);
    (void)pools_get_default((size_t)N_GRANULES * GRANULE, 3);
}
END_TEST

/* A tick covers the pool's block. No tick covers the block freed later. */
START_TEST(what_pends_waits_for_no_later_tick_in_the_next_pool)
{
    pleat_stats s;

    name(2);
    pleat_devptr live = pools_get_default(512, 1);
    pleat_devptr late = pools_get_default(512, 1);
    pl_keeper *pool = pools_open_one();
    pleat_put(pools_get(pool, 10 * GRANULE, 1), 1);
    pools_release(pool);
    pleat_put(late, 1);
    pool = pools_open_one();
    pleat_devptr ptr = pools_get(pool, GRANULE, 2);
    pleat.sim.finish();
    pools_rest(pool);
    pleat.a->ops->stats(pleat.a, &s);
    ck_assert_uint_eq(s.pending_bytes, 512);
    pleat_put(live, 1);
    pleat_put(ptr, 2);
    pools_release(pool);
}
END_TEST

/* Each pool has the area of an earlier pool, with pending memory. The memory must not wait anew
 * each time. The GPU ends the work of a cycle some cycles later. */
START_TEST(memory_that_goes_from_pool_to_pool_settles)
{
    enum { LIVE = 4, CYCLES = 300, FEW = 12 };
    struct {
        pl_keeper *pool;
        cu_graph_exec exec;
        pleat_devptr ptr;
    } graphs[LIVE] = { 0 };

    for (unsigned i = 0; i < CYCLES; i++) {
        unsigned k = i % LIVE;
        if (graphs[k].pool != NULL) {
            pools_forget(graphs[k].exec);
            pleat_put(graphs[k].ptr, 1);
            pools_release(graphs[k].pool);
        }
        graphs[k].pool = pools_open_one();
        pools_begin_capture(1);
        graphs[k].ptr = pools_get(graphs[k].pool, 3 * GRANULE / 2, 1);
        graphs[k].exec = pools_end_capture(1);
        pools_launch(graphs[k].exec, 1);
        pleat_stats s;
        pleat.a->ops->stats(pleat.a, &s);
        ck_assert_uint_le(s.resident_bytes, (uint64_t)2 * (LIVE + FEW) * GRANULE);
    }
    for (unsigned k = 0; k < LIVE; k++) {
        pools_forget(graphs[k].exec);
        pleat_put(graphs[k].ptr, 1);
        pools_release(graphs[k].pool);
    }
}
END_TEST

static void open_busy(void)
{
    pools_open_with("capacity:8G,depth:8", PL_CROSS_ORDER, 1000);
}

static TCase *add_case(Suite *suite, const char *name, void (*open)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open, pools_close);
    suite_add_tcase(suite, tcase);
    return tcase;
}

SUITE(segments_private)
{
    TCase *whose = add_case(suite, "whose memory it is", open_plain);
    tcase_add_test(whose, what_is_freed_between_two_captures_waits_for_the_stream_s_own_use);
    tcase_add_test(whose, a_pools_free_block_serves_the_pool_again_and_nobody_else);
    tcase_add_test(whose, two_pools_share_nothing);
    tcase_add_test(whose, a_full_device_does_not_touch_a_pools_free_memory);
    tcase_add_test(whose, a_pool_grows_into_what_the_default_pool_caches);
    tcase_add_test(whose, the_limit_counts_pools_in);
    tcase_add_test(whose, a_live_block_survives_its_pool);
    tcase_add_test(whose, frees_that_others_used_outlive_the_pool);
    tcase_add_test(whose, other_streams_of_the_pool_get_what_is_settled);
    tcase_add_test(whose, what_another_stream_is_done_with_serves_before_the_pool_grows);
    tcase_add_test(whose, destruction_takes_open_pools_along);
    TCase *captures = add_case(suite, "captures", open_plain);
    tcase_add_test(captures, a_capture_reuses_what_it_freed_itself);
    tcase_add_test(captures, another_stream_of_the_capture_does_not_get_it);
    tcase_add_test(captures, a_capture_does_not_use_what_pends_from_before);
    tcase_add_test(captures, two_graphs_share_a_pool);
    tcase_add_test(captures, an_output_that_a_later_capture_frees_waits_for_its_last_use);
    tcase_add_test(captures, an_output_that_others_are_done_with_waits_for_its_own_stream);
    tcase_add_test(captures, what_came_and_went_in_a_capture_waits_for_nothing);
    tcase_add_test(captures, an_output_that_is_freed_later_goes_back_to_the_pool);
    tcase_add_test(captures, a_capture_grows_into_settled_memory_of_the_default_pool);
    tcase_add_test(captures, what_a_capture_used_comes_back_when_it_ends);
    tcase_add_test(captures, the_pools_blocks_do_not_wait_for_the_graph);
    tcase_add_test(captures, a_capture_that_goes_on_does_not_hide_one_that_ended);
    tcase_add_test(captures, released_memory_waits_for_the_last_launch);
    tcase_add_test(captures, released_memory_waits_for_a_graph_that_only_freed_some);
    tcase_add_test(captures, a_release_of_a_pool_that_no_graph_used_records_nothing);
    tcase_add_test(captures, a_release_of_a_pool_whose_graphs_are_watched_records_nothing);
    tcase_add_test(captures, a_release_of_a_pool_whose_capture_broke_records_nothing);
    tcase_add_test(captures, a_release_beside_a_capture_waits_for_its_end);
    TCase *faults = add_case(suite, "faults", open_plain);
    tcase_add_loop_test(faults, host_memory_that_fails_leaves_nothing_behind, 0, 4);
    TCase *impatient = add_case(suite, "no waiting", open_impatient);
    tcase_add_test(impatient, a_pools_pending_memory_is_not_waited_for_by_others);
    tcase_add_test(impatient, a_capture_is_told_when_what_it_needs_pends);
    TCase *many = add_case(suite, "many pools", open_plain);
    tcase_add_test(many, thousands_of_pools_leave_nothing_behind);
    tcase_add_test(many, thousands_of_pools_are_open_at_once);
    tcase_add_test(many, a_later_pool_pins_only_what_it_touches);
    tcase_add_test(many, a_later_pool_does_not_pin_what_pends);
    tcase_add_test(many, a_request_of_a_pool_that_is_refused_pins_nothing);
    tcase_add_test(many, what_pends_waits_for_no_later_tick_in_the_next_pool);
    TCase *busy = add_case(suite, "a busy GPU", open_busy);
    tcase_add_test(busy, memory_that_goes_from_pool_to_pool_settles);
}
