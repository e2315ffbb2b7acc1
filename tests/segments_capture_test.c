/* segments_capture_test.c - memory and streams while a stream is captured, and what graphs keep. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/segments_sim.h"

enum { GRANULE = 2 << 20, N_GRANULES = 64 };

static bool is_untold; /* the driver does not tell when a graph is gone */

static void open_plain(void)
{
    is_untold = false;
    pleat_open("capacity:128M,depth:1048576", NULL);
}

static void open_untold(void)
{
    is_untold = true;
    pleat_open("capacity:128M,depth:1048576,without:[cuUserObjectCreate]", NULL);
}

static void begin(unsigned stream)
{
    ck_assert_int_eq(
        pl_cu_stream_begin_capture(pleat.sim.drv, pleat.handles[stream], CU_CAPTURE_MODE_GLOBAL),
        CU_SUCCESS);
}

/* The capture went well to its end. */
static cu_graph end_with_graph(unsigned stream)
{
    cu_graph graph = NULL;
    ck_assert_int_eq(pl_cu_stream_end_capture(pleat.sim.drv, pleat.handles[stream], &graph),
                     CU_SUCCESS);
    ck_assert_ptr_nonnull(graph);
    return graph;
}

static void destroy(cu_graph graph)
{
    ck_assert_int_eq(pl_cu_graph_destroy(pleat.sim.drv, graph), CU_SUCCESS);
}

/* Its graph is forgotten at once. */
static void end(unsigned stream)
{
    destroy(end_with_graph(stream));
}

/* A capture that pleat may not see: it is announced. */
static void begin_announced(unsigned stream)
{
    pleat.a->ops->expect_captures(pleat.a, true);
    begin(stream);
}

static void end_announced(unsigned stream)
{
    end(stream);
    pleat.a->ops->expect_captures(pleat.a, false);
}

static pleat_status release(unsigned stream)
{
    pleat_status st = pleat.a->ops->release_capture(pleat.a, pleat.streams[stream]);
    pleat_assert_sound();
    return st;
}

/* The graph is gone, and its owner says so where the driver does not. */
static void forget(cu_graph graph, unsigned stream)
{
    destroy(graph);
    if (is_untold) {
        ck_assert_int_eq(release(stream), PLEAT_OK);
    }
}

/* Memory that came and went in a capture on that stream, whose graph lives. */
static pleat_devptr capture_block(size_t bytes, unsigned stream, cu_graph *graph)
{
    begin(stream);
    pleat_devptr ptr = pleat_get(bytes, stream);
    pleat_work(stream, ptr, bytes);
    pleat_put(ptr, stream);
    *graph = end_with_graph(stream);
    return ptr;
}

/* A call that names the stream, and does nothing else. */
static void name(unsigned stream)
{
    pleat_put(pleat_get(512, stream), stream);
}

static pleat_devptr get_and_use(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = pleat_get(bytes, stream);
    pleat_work(stream, ptr, bytes);
    pleat_assert_sound();
    return ptr;
}

/* Calls that a captured stream must not see, or that would break a capture elsewhere. */
static uint64_t forbidden(void)
{
    static const char *const calls[] = { "cuEventRecord",       "cuEventQuery",
                                         "cuEventSynchronize",  "cuStreamWaitEvent",
                                         "cuStreamSynchronize", "cuMemUnmap",
                                         "cuCtxRecordEvent" };
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        n += pleat_calls(calls[i]);
    }
    return n;
}

/* ---- on the captured stream ---------------------------------------------------------------- */

START_TEST(a_captured_stream_sees_no_event_no_wait_and_no_take)
{
    pleat_devptr other = get_and_use(GRANULE, 2);
    for (int i = 0; i < 10; i++) {
        pleat_put(get_and_use(10 * MIB, 1), 1);
    }
    pleat_put(other, 2);
    uint64_t before = forbidden();
    begin(1);
    for (int i = 0; i < 50; i++) {
        pleat_devptr ptr = pleat_get(MIB, 1);
        pleat_work(1, ptr, MIB);
        pleat_put(ptr, 1);
    }
    ck_assert_uint_eq(forbidden(), before);
    ck_assert_uint_eq(pleat_counted().n_taken_granules, 0);
    end(1);
    ck_assert_int_eq(release(1), PLEAT_OK);
}
END_TEST

START_TEST(a_captured_request_grows)
{
    begin(1);
    pleat_devptr ptr = pleat_get(20 * MIB, 1);
    pleat_work(1, ptr, 20 * MIB);
    end(1);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 20 * MIB);
    pleat_put(ptr, 1);
}
END_TEST

START_TEST(a_captured_request_uses_nothing_that_pends)
{
    get_and_use(GRANULE, 2);
    pleat_devptr ptr = get_and_use(20 * MIB, 1);
    pleat_put(ptr, 1);
    begin(1);
    ck_assert_uint_ne(pleat_get(20 * MIB, 1), ptr);
    end(1);
}
END_TEST

START_TEST(a_captured_request_uses_what_is_settled)
{
    get_and_use(GRANULE, 2);
    pleat_devptr ptr = get_and_use(20 * MIB, 1);
    pleat_put(ptr, 1);
    pleat.sim.finish();
    uint64_t released = 0;
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, 20 * MIB, true, &released), PLEAT_OK);
    pleat_devptr rest = ptr + released; /* a trim settles what it leaves */
    begin(1);
    ck_assert_uint_eq(pleat_get(20 * MIB - released, 1), rest);
    end(1);
}
END_TEST

START_TEST(a_captured_request_that_needs_pending_memory_is_told_so)
{
    get_and_use(GRANULE, 2);
    pleat_put(get_and_use(100 * MIB, 3), 3);
    begin(1);
    uint64_t before = forbidden();
    ck_assert_int_eq(pleat_refused(100 * MIB, 1), PLEAT_EPENDING);
    ck_assert_uint_eq(forbidden(), before);
    end(1);
    get_and_use(100 * MIB, 1);
    ck_assert_uint_eq(pleat_counted().stream_waits, 1);
}
END_TEST

/* ---- what is freed meanwhile --------------------------------------------------------------- */

START_TEST(blocks_freed_during_a_capture_are_kept_until_its_graph_is_gone)
{
    pleat_devptr ptr = pleat_get(20 * MIB, 1);
    begin(1);
    pleat_work(1, ptr, 20 * MIB);
    pleat_put(ptr, 1);
    ck_assert_uint_ne(pleat_get(20 * MIB, 1), ptr);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.pinned_granules, 10);
    ck_assert_uint_eq(s.allocation[PLEAT_POOL_ALL].current, 1);
    ck_assert_int_eq(release(1), PLEAT_ECAPTURE);
    cu_graph graph = end_with_graph(1);
    ck_assert_uint_ne(pleat_get(20 * MIB, 1), ptr);
    ck_assert_int_eq(release(2), PLEAT_OK); /* another stream's capture */
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    forget(graph, 1);
    ck_assert_uint_eq(pleat_get(20 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 0);
}
END_TEST

START_TEST(blocks_born_in_a_capture_are_kept_when_they_are_freed_later)
{
    begin(1);
    pleat_devptr ptr = pleat_get(20 * MIB, 1);
    pleat_work(1, ptr, 20 * MIB);
    cu_graph graph = end_with_graph(1);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    ck_assert_uint_ne(pleat_get(20 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_trim(0, true), 0);
    forget(graph, 1);
    ck_assert_uint_eq(pleat_trim(0, true), 20 * MIB);
}
END_TEST

/* Nothing covers its last use before the capture yet. */
START_TEST(a_trim_waits_for_what_a_graph_has_left)
{
    pleat_devptr ptr = get_and_use(20 * MIB, 1);
    begin(1);
    pleat_put(ptr, 1);
    forget(end_with_graph(1), 1);
    ck_assert_uint_eq(pleat_trim(0, true), 20 * MIB);
}
END_TEST

/* The owner's word is noted, and taken when the driver says the same. */
START_TEST(a_release_does_not_give_away_what_a_living_graph_uses)
{
    cu_graph graph;
    pleat_devptr ptr = capture_block(100 * MIB, 1, &graph);
    ck_assert_int_eq(pleat_refused(100 * MIB, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(release(1), PLEAT_OK);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 50);
    ck_assert_int_eq(pleat_refused(100 * MIB, 1), PLEAT_EPENDING);
    ck_assert_uint_eq(pleat_trim(0, true), 0);
    destroy(graph);
    ck_assert_uint_eq(get_and_use(100 * MIB, 1), ptr);
}
END_TEST

START_TEST(of_two_graphs_of_a_stream_the_first_that_goes_frees_only_its_memory)
{
    cu_graph graphs[2];
    pleat_devptr one = capture_block(20 * MIB, 1, &graphs[0]);
    pleat_devptr two = capture_block(20 * MIB, 1, &graphs[1]);
    ck_assert_uint_ne(one, two);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 20);
    name(1); /* it is seen at rest */
    forget(graphs[0], 1);
    ck_assert_uint_eq(get_and_use(20 * MIB, 1), one);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    ck_assert_uint_ne(get_and_use(20 * MIB, 1), two);
    forget(graphs[1], 1);
    pleat.sim.finish();
    ck_assert_uint_eq(get_and_use(20 * MIB, 1), two);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 0);
}
END_TEST

static void follow(unsigned later, unsigned earlier)
{
    pl_driver *drv = pleat.sim.drv;
    cu_event event = NULL;
    ck_assert_int_eq(pl_cu_event_create(drv, &event, CU_EVENT_DISABLE_TIMING_FLAG), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_record(drv, event, pleat.handles[earlier]), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_stream_wait_event(drv, pleat.handles[later], event, 0), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_destroy(drv, event), CU_SUCCESS);
}

/* What the origin forked is the same capture: it ends with it, and one release is for both. */
START_TEST(a_forked_streams_memory_goes_with_the_graph_of_its_origin)
{
    begin(1);
    follow(2, 1);
    pleat_devptr one = pleat_get(20 * MIB, 1);
    pleat_devptr two = pleat_get(20 * MIB, 2);
    pleat_work(1, one, 20 * MIB);
    pleat_work(2, two, 20 * MIB);
    pleat_put(one, 1);
    pleat_put(two, 2);
    ck_assert_int_eq(release(2), PLEAT_ECAPTURE);
    follow(1, 2);
    cu_graph graph = end_with_graph(1);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 20);
    ck_assert_uint_ne(pleat_get(20 * MIB, 2), two);
    forget(graph, 1);
    ck_assert_uint_eq(pleat_get(20 * MIB, 1), one);
    ck_assert_uint_eq(pleat_get(20 * MIB, 2), two);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 0);
}
END_TEST

/* Its memory is the graph's, not the stream's: another capture on the handle is a later one. */
START_TEST(a_capture_outlives_its_stream)
{
    cu_graph graphs[2];
    cu_stream old = pleat.handles[1];
    pleat_devptr one = capture_block(20 * MIB, 1, &graphs[0]);
    pleat_renew_stream(1);
    ck_assert_ptr_eq(pleat.handles[1], old); /* or the test shows less */
    ck_assert_uint_ne(get_and_use(20 * MIB, 1), one);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    pleat.sim.finish();
    pleat_devptr two = capture_block(20 * MIB, 1, &graphs[1]);
    ck_assert_uint_ne(two, one);
    name(1); /* it is seen at rest */
    forget(graphs[0], 1);
    ck_assert_uint_eq(get_and_use(20 * MIB, 3), one);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    pleat.sim.finish();
    forget(graphs[1], 1);
    ck_assert_uint_eq(get_and_use(20 * MIB, 3), two);
}
END_TEST

START_TEST(a_block_that_outlives_its_graph_is_freed_as_any_other)
{
    begin(1);
    pleat_devptr ptr = pleat_get(20 * MIB, 1);
    pleat_work(1, ptr, 20 * MIB);
    forget(end_with_graph(1), 1);
    ck_assert_uint_eq(pleat_info(ptr).base, ptr);
    ck_assert_uint_ne(get_and_use(20 * MIB, 1), ptr);
    pleat_work(1, ptr, 20 * MIB);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 0);
    ck_assert_uint_ne(get_and_use(20 * MIB, 2), ptr); /* its last use still runs */
    ck_assert_uint_eq(get_and_use(20 * MIB, 1), ptr);
}
END_TEST

/* _i: the owner says that the graph is gone, or nothing where the driver does. */
START_TEST(a_graph_that_goes_while_it_runs_keeps_its_memory_until_then)
{
    cu_graph graph;
    cu_graph_exec exec = NULL;
    pl_driver *drv = pleat.sim.drv;
    pleat_devptr ptr = capture_block(60 * MIB, 1, &graph);
    ck_assert_int_eq(pl_cu_graph_instantiate(drv, &exec, graph, 0), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_launch(drv, exec, pleat.handles[3]), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_exec_destroy(drv, exec), CU_SUCCESS);
    destroy(graph);
    if (_i == 1) {
        ck_assert_int_eq(release(1), PLEAT_OK);
    }
    ck_assert_uint_ne(get_and_use(60 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_trim(0, false), 0);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 120 * MIB);
    pleat.sim.finish();
    ck_assert_uint_eq(get_and_use(60 * MIB, 2), ptr);
}
END_TEST

/* Who needs it waits for the launch. */
START_TEST(a_request_waits_for_a_graph_that_was_released_while_it_ran)
{
    cu_graph graph;
    cu_graph_exec exec = NULL;
    pl_driver *drv = pleat.sim.drv;
    pleat_devptr ptr = capture_block(100 * MIB, 1, &graph);
    ck_assert_int_eq(pl_cu_graph_instantiate(drv, &exec, graph, 0), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_launch(drv, exec, pleat.handles[3]), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_exec_destroy(drv, exec), CU_SUCCESS);
    destroy(graph);
    ck_assert_int_eq(release(1), PLEAT_OK);
    ck_assert_uint_eq(get_and_use(100 * MIB, 2), ptr);
    ck_assert_uint_ge(pleat_counted().host_syncs, 1);
}
END_TEST

/* Both graphs have the address. */
static pleat_devptr share_block(unsigned first, unsigned second, cu_graph graphs[2])
{
    begin(first);
    pleat_devptr ptr = pleat_get(20 * MIB, first);
    pleat_work(first, ptr, 20 * MIB);
    graphs[0] = end_with_graph(first);
    begin(second);
    pleat_work(second, ptr, 20 * MIB);
    pleat_put(ptr, second);
    graphs[1] = end_with_graph(second);
    return ptr;
}

START_TEST(a_block_of_one_graph_that_is_freed_in_another_is_kept_for_both)
{
    cu_graph graphs[2];
    unsigned later = (unsigned)_i;
    pleat_devptr ptr = share_block(1, 2, graphs);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    name(1); /* they are seen at rest */
    name(2);
    forget(graphs[1 - later], 2 - later);
    ck_assert_uint_ne(get_and_use(20 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    pleat.sim.finish();
    forget(graphs[later], 1 + later);
    name(1); /* the free was a use of stream 2 and of the owner */
    name(2);
    ck_assert_uint_eq(get_and_use(20 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 0);
}
END_TEST

START_TEST(of_two_captures_of_a_stream_the_older_one_is_released_first)
{
    cu_graph graphs[2];
    pleat_devptr both = share_block(1, 1, graphs);
    pleat_devptr last = capture_block(20 * MIB, 1, &graphs[0]);
    ck_assert_int_eq(release(1), PLEAT_OK); /* it keeps nothing alone */
    ck_assert_uint_eq(pleat_counted().pinned_granules, 20);
    ck_assert_uint_ne(get_and_use(20 * MIB, 1), both);
    pleat.sim.finish();
    ck_assert_int_eq(release(1), PLEAT_OK);
    ck_assert_uint_eq(get_and_use(20 * MIB, 1), both);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    pleat.sim.finish();
    ck_assert_int_eq(release(1), PLEAT_OK);
    ck_assert_uint_eq(get_and_use(20 * MIB, 1), last);
    ck_assert_int_eq(release(1), PLEAT_OK);
}
END_TEST

START_TEST(a_second_free_of_a_kept_block_is_named)
{
    begin(1);
    pleat_devptr ptr = pleat_get(20 * MIB, 1);
    pleat_put(ptr, 1);
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[1]), PLEAT_EDOUBLEFREE);
    end(1);
}
END_TEST

START_TEST(kept_memory_is_never_taken)
{
    begin(1);
    pleat_devptr ptr = pleat_get(100 * MIB, 1);
    pleat_put(ptr, 1);
    cu_graph graph = end_with_graph(1);
    ck_assert_int_eq(pleat_refused(40 * MIB, 2), PLEAT_ENOMEM_DEVICE);
    get_and_use(28 * MIB, 2);
    forget(graph, 1);
    get_and_use(100 * MIB, 2);
}
END_TEST

START_TEST(a_kept_block_that_others_use_waits_for_them_too)
{
    pleat_devptr ptr = get_and_use(20 * MIB, 1);
    pleat_record(ptr, 2);
    pleat_work_after(2, 1, ptr, 20 * MIB);
    begin(1);
    pleat_put(ptr, 1);
    cu_graph graph = end_with_graph(1);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    forget(graph, 1);
    ck_assert_uint_ne(get_and_use(20 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_counted().pending_bytes, 20 * MIB);
    name(2); /* whose tick was wished for: now it can be ordered after */
    uint64_t before = pleat_counted().stream_waits;
    if (is_untold) { /* launches may be under way on any stream: all must be over */
        ck_assert_uint_ne(get_and_use(20 * MIB, 1), ptr);
        pleat.sim.finish();
    }
    ck_assert_uint_eq(get_and_use(20 * MIB, 1), ptr);
    ck_assert(is_untold || pleat_counted().stream_waits == before + 1);
}
END_TEST

START_TEST(releasing_what_was_never_captured_is_fine)
{
    ck_assert_int_eq(release(1), PLEAT_OK);
    get_and_use(MIB, 1);
    ck_assert_int_eq(release(1), PLEAT_OK);
    ck_assert_int_eq(release(0), PLEAT_OK);
}
END_TEST

START_TEST(destruction_takes_kept_blocks_along)
{
    begin(1);
    pleat_put(pleat_get(20 * MIB, 1), 1);
    end(1);
    size_t n_live = 9;
    size_t n_leaked = 9;
    ck_assert_int_eq(pleat.a->ops->destroy(pleat.a, false, &n_live, &n_leaked), PLEAT_OK);
    pleat.a = NULL;
    ck_assert_uint_eq(n_live + n_leaked, 0);
}
END_TEST

/* ---- beside a capture ---------------------------------------------------------------------- */

START_TEST(other_streams_go_on_and_the_capture_does_not_notice)
{
    pleat_get(GRANULE, 3);
    begin(1);
    for (int i = 0; i < 100; i++) {
        pleat_put(get_and_use((size_t)(1 + i % 30) * MIB, 2), 2);
    }
    pleat_trim(0, false);
    end(1); /* succeeds: nothing unsafe was called in it */
}
END_TEST

/* Freed while its stream is the only one, and has a block yet: no tick is recorded for that. */
static pleat_devptr free_without_tick(size_t bytes)
{
    uint64_t before = pleat_calls("cuEventRecord");
    pleat_get(512, 1);
    pleat_devptr ptr = get_and_use(bytes, 1);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_calls("cuEventRecord"), before);
    return ptr;
}

START_TEST(a_captured_streams_memory_is_pending_for_others_where_no_tick_covers_it)
{
    pleat_devptr ptr = free_without_tick(100 * MIB);
    begin_announced(1);
    uint64_t before = forbidden();
    ck_assert_int_eq(pleat_refused(100 * MIB, 2), PLEAT_EPENDING);
    ck_assert_uint_eq(forbidden(), before);
    end_announced(1);
    ck_assert_uint_eq(get_and_use(100 * MIB, 2), ptr);
}
END_TEST

START_TEST(what_a_stream_freed_before_its_capture_is_ordered_after)
{
    pleat_get(GRANULE, 2);
    pleat_devptr ptr = get_and_use(100 * MIB, 1);
    pleat_put(ptr, 1);
    begin(1);
    ck_assert_uint_eq(get_and_use(100 * MIB, 2), ptr);
    ck_assert_uint_eq(pleat_counted().stream_waits, 1);
    end(1); /* it did not notice */
}
END_TEST

START_TEST(a_third_streams_memory_is_used_beside_a_capture)
{
    pleat_devptr captured = get_and_use(60 * MIB, 1);
    pleat_devptr third = get_and_use(40 * MIB, 3);
    pleat_put(captured, 1);
    pleat_put(third, 3);
    begin(1);
    get_and_use(60 * MIB, 2); /* 28 MiB are new, stream 3 has the rest */
    end(1);
}
END_TEST

START_TEST(blocks_that_others_used_are_had_beside_a_captured_use)
{
    pleat_devptr captured = get_and_use(60 * MIB, 1);
    pleat_devptr free = get_and_use(60 * MIB, 1);
    pleat.sim.finish();
    begin(2);
    pleat_record(captured, 2);
    pleat_put(captured, 1);
    pleat_record(free, 4);
    pleat_work(4, free, 60 * MIB);
    pleat_put(free, 1);
    ck_assert_int_eq(pleat_refused(60 * MIB, 3), PLEAT_EPENDING); /* nothing covers the use yet */
    name(4);
    ck_assert_uint_eq(get_and_use(60 * MIB, 3), free);
    end(2);
}
END_TEST

START_TEST(a_use_by_a_captured_stream_is_not_over_before_its_end)
{
    pleat_devptr ptr = get_and_use(20 * MIB, 1);
    pleat.sim.finish();
    begin(2);
    pleat_record(ptr, 2);
    pleat_work(2, ptr, 20 * MIB); /* into the graph */
    pleat_put(ptr, 1);
    ck_assert_uint_ne(get_and_use(20 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_counted().pending_bytes, 20 * MIB);
    end(2);
}
END_TEST

/* A use is recorded once, wherever the program is then. */
START_TEST(a_use_recorded_in_a_capture_is_one_of_the_stream_too)
{
    pleat_devptr ptr = get_and_use(20 * MIB, 1);
    pleat.sim.finish();
    begin(2);
    pleat_record(ptr, 2);
    cu_graph graph = end_with_graph(2);
    name(2);
    pleat_work(2, ptr, 20 * MIB);
    pleat_put(ptr, 1);
    forget(graph, 2);
    ck_assert_uint_ne(get_and_use(20 * MIB, 1), ptr);
    name(2);
    pleat.sim.finish();
    pleat_put(get_and_use(100 * MIB, 1), 1);
    ck_assert_uint_eq(pleat_counted().pending_bytes, 100 * MIB);
}
END_TEST

START_TEST(a_use_before_a_capture_is_not_over_with_its_graph)
{
    pleat_devptr ptr = get_and_use(20 * MIB, 1);
    pleat.sim.finish();
    pleat_record(ptr, 2);
    pleat_work(2, ptr, 20 * MIB);
    begin(2);
    name(2);
    pleat_put(ptr, 1);
    forget(end_with_graph(2), 2);
    ck_assert_uint_ne(get_and_use(20 * MIB, 1), ptr); /* nothing covers it yet */
    name(2);
    get_and_use(100 * MIB, 1); /* part of it lay there */
}
END_TEST

START_TEST(what_only_a_captured_use_keeps_is_pending)
{
    pleat_devptr ptr = get_and_use(100 * MIB, 1);
    pleat.sim.finish();
    begin(2);
    pleat_record(ptr, 2);
    pleat_put(ptr, 1);
    ck_assert_int_eq(pleat_refused(100 * MIB, 3), PLEAT_EPENDING);
    end(2);
}
END_TEST

/* Who has the handle now is another stream, and only that one is captured. */
START_TEST(a_use_by_a_destroyed_stream_is_none_of_a_capture)
{
    cu_stream old = pleat.handles[2];
    pleat_devptr ptr = get_and_use(100 * MIB, 1);
    pleat_record(ptr, 2);
    pleat_renew_stream(2);
    ck_assert_ptr_eq(pleat.handles[2], old); /* or the test shows nothing */
    begin(2);
    pleat_put(ptr, 1);
    end(2);
    ck_assert_uint_eq(get_and_use(100 * MIB, 3), ptr);
}
END_TEST

static void open_settled(void)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.cross_stream = PL_CROSS_SETTLED;
    pleat_open("capacity:128M,depth:1048576", &options);
}

START_TEST(waiting_for_a_captured_use_is_pending_too)
{
    pleat_devptr ptr = get_and_use(100 * MIB, 1);
    pleat.sim.finish();
    begin(2);
    pleat_record(ptr, 2);
    pleat_put(ptr, 1);
    ck_assert_int_eq(pleat_refused(100 * MIB, 3), PLEAT_EPENDING);
    cu_graph graph = end_with_graph(2);
    ck_assert_int_eq(pleat_refused(100 * MIB, 3), PLEAT_EPENDING); /* the graph lives */
    ck_assert_int_eq(release(2), PLEAT_OK);
    ck_assert_int_eq(pleat_refused(100 * MIB, 3), PLEAT_EPENDING); /* whatever its owner says */
    destroy(graph);
    get_and_use(100 * MIB, 3);
}
END_TEST

START_TEST(uses_that_can_be_waited_for_are_beside_a_captured_one)
{
    pleat_devptr captured = get_and_use(60 * MIB, 1);
    pleat_devptr free = get_and_use(60 * MIB, 1);
    pleat.sim.finish();
    begin(2);
    pleat_record(captured, 2);
    pleat_put(captured, 1);
    pleat_record(free, 4);
    pleat_work(4, free, 60 * MIB);
    pleat_put(free, 1);
    ck_assert_int_eq(pleat_refused(60 * MIB, 3), PLEAT_EPENDING); /* nothing covers the use yet */
    name(4);
    ck_assert_uint_eq(get_and_use(60 * MIB, 3), free);
    ck_assert_uint_eq(pleat_counted().stream_waits, 0);
    end(2);
}
END_TEST

static void open_impatient(void)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.cross_stream = PL_CROSS_SETTLED;
    options.wait_ms = 0;
    pleat_open("capacity:128M,depth:1048576", &options);
}

START_TEST(a_tick_that_a_capture_forbade_is_recorded_after_it)
{
    pleat_devptr ptr = free_without_tick(100 * MIB);
    begin_announced(1);
    uint64_t before = forbidden();
    uint64_t n_recorded = pleat_calls("cuEventRecord");
    ck_assert_int_eq(pleat_refused(100 * MIB, 2), PLEAT_EPENDING);
    name(1);
    ck_assert_uint_eq(forbidden(), before);
    end_announced(1);
    pleat_get(512, 1);
    ck_assert_uint_eq(pleat_calls("cuEventRecord"), n_recorded + 1);
    ck_assert_int_eq(pleat_refused(100 * MIB, 2), PLEAT_EPENDING);
    pleat.sim.finish();
    ck_assert_uint_eq(get_and_use(100 * MIB, 2), ptr);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

START_TEST(a_trim_beside_a_capture_gives_back_what_it_can)
{
    free_without_tick(20 * MIB);
    pleat_put(get_and_use(20 * MIB, 2), 2);
    uint64_t shared = pleat_counted().resident_bytes - 40 * MIB; /* of a block that lives */
    begin_announced(1);
    uint64_t released = 4711;
    pleat_status st = pleat.a->ops->trim(pleat.a, 0, true, &released);
    ck_assert_int_eq(st, PLEAT_EPENDING); /* stream 1 cannot be waited for now */
    ck_assert_uint_eq(pleat_counted().resident_bytes, 20 * MIB + shared);
    end_announced(1);
    ck_assert_uint_eq(pleat_trim(0, true), 20 * MIB);
}
END_TEST

START_TEST(a_limit_that_needs_a_captured_streams_memory_is_refused)
{
    free_without_tick(20 * MIB);
    pleat_get(GRANULE, 2);
    begin_announced(1);
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, 10 * MIB), PLEAT_EPENDING);
    end_announced(1);
    get_and_use(50 * MIB, 2); /* the limit is as before: none */
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, 60 * MIB), PLEAT_OK);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name, void (*open)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open, pleat_close);
    suite_add_tcase(suite, tcase);
    return tcase;
}

/* Whoever says that a graph is gone. */
static void add_kept_tests(TCase *kept)
{
    tcase_add_test(kept, blocks_freed_during_a_capture_are_kept_until_its_graph_is_gone);
    tcase_add_test(kept, blocks_born_in_a_capture_are_kept_when_they_are_freed_later);
    tcase_add_test(kept, a_trim_waits_for_what_a_graph_has_left);
    tcase_add_test(kept, of_two_graphs_of_a_stream_the_first_that_goes_frees_only_its_memory);
    tcase_add_test(kept, a_forked_streams_memory_goes_with_the_graph_of_its_origin);
    tcase_add_test(kept, a_capture_outlives_its_stream);
    tcase_add_test(kept, a_block_that_outlives_its_graph_is_freed_as_any_other);
    tcase_add_test(kept, a_request_waits_for_a_graph_that_was_released_while_it_ran);
    tcase_add_loop_test(kept, a_block_of_one_graph_that_is_freed_in_another_is_kept_for_both, 0, 2);
    tcase_add_test(kept, kept_memory_is_never_taken);
    tcase_add_test(kept, a_kept_block_that_others_use_waits_for_them_too);
    tcase_add_test(kept, a_use_recorded_in_a_capture_is_one_of_the_stream_too);
    tcase_add_test(kept, a_use_before_a_capture_is_not_over_with_its_graph);
}

int main(void)
{
    Suite *suite = suite_create("segments_capture");
    TCase *captured = add_case(suite, "on the captured stream", open_plain);
    tcase_add_test(captured, a_captured_stream_sees_no_event_no_wait_and_no_take);
    tcase_add_test(captured, a_captured_request_grows);
    tcase_add_test(captured, a_captured_request_uses_nothing_that_pends);
    tcase_add_test(captured, a_captured_request_uses_what_is_settled);
    tcase_add_test(captured, a_captured_request_that_needs_pending_memory_is_told_so);
    TCase *kept = add_case(suite, "kept", open_plain);
    add_kept_tests(kept);
    tcase_add_test(kept, a_release_does_not_give_away_what_a_living_graph_uses);
    tcase_add_loop_test(kept, a_graph_that_goes_while_it_runs_keeps_its_memory_until_then, 0, 2);
    tcase_add_test(kept, a_second_free_of_a_kept_block_is_named);
    tcase_add_test(kept, releasing_what_was_never_captured_is_fine);
    tcase_add_test(kept, destruction_takes_kept_blocks_along);
    TCase *untold = add_case(suite, "kept, without user objects", open_untold);
    add_kept_tests(untold);
    tcase_add_loop_test(untold, a_graph_that_goes_while_it_runs_keeps_its_memory_until_then, 1, 2);
    tcase_add_test(untold, of_two_captures_of_a_stream_the_older_one_is_released_first);
    TCase *beside = add_case(suite, "beside", open_plain);
    tcase_add_test(beside, other_streams_go_on_and_the_capture_does_not_notice);
    tcase_add_test(beside, a_captured_streams_memory_is_pending_for_others_where_no_tick_covers_it);
    tcase_add_test(beside, what_a_stream_freed_before_its_capture_is_ordered_after);
    tcase_add_test(beside, a_third_streams_memory_is_used_beside_a_capture);
    tcase_add_test(beside, blocks_that_others_used_are_had_beside_a_captured_use);
    tcase_add_test(beside, a_use_by_a_captured_stream_is_not_over_before_its_end);
    tcase_add_test(beside, what_only_a_captured_use_keeps_is_pending);
    tcase_add_test(beside, a_use_by_a_destroyed_stream_is_none_of_a_capture);
    tcase_add_test(beside, a_trim_beside_a_capture_gives_back_what_it_can);
    tcase_add_test(beside, a_limit_that_needs_a_captured_streams_memory_is_refused);
    TCase *settled = add_case(suite, "beside, settled only", open_settled);
    tcase_add_test(settled, waiting_for_a_captured_use_is_pending_too);
    tcase_add_test(settled, uses_that_can_be_waited_for_are_beside_a_captured_one);
    TCase *impatient = add_case(suite, "beside, no waiting", open_impatient);
    tcase_add_test(impatient, a_tick_that_a_capture_forbade_is_recorded_after_it);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
