/* capture_test.c - memory of a captured stream, and memory kept by graphs. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/segments/segments_captures.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20, N_GRANULES = 64 };

static bool is_untold; /* the driver does not tell when a graph is gone */

static void open_plain(void)
{
    is_untold = false;
    pleat_open("capacity:128M,depth:1048576,dead_handles:error", NULL); /* recycled */
}

static void open_untold(void)
{
    is_untold = true;
    pleat_open("capacity:128M,depth:1048576,dead_handles:error,without:[cuUserObjectCreate]", NULL);
}

/* Destroy the graph. If the driver does not report this, the owner releases the capture. */
static void forget(cu_graph graph, unsigned stream)
{
    captures_destroy(graph);
    if (is_untold) {
        ck_assert_int_eq(captures_release(stream), PLEAT_OK);
    }
}

/* Allocate and free a block in a capture on this stream. The graph lives. */
static pleat_devptr capture_block(size_t bytes, unsigned stream, cu_graph *graph)
{
    captures_begin(stream);
    pleat_devptr ptr = pleat_get(bytes, stream);
    pleat_work(stream, ptr, bytes);
    pleat_put(ptr, stream);
    *graph = captures_end_with_graph(stream);
    return ptr;
}

/* ---- on the captured stream ---------------------------------------------------------------- */

START_TEST(a_captured_stream_sees_no_event_no_wait_and_no_take)
{
    pleat_devptr other = pleat_get_and_use(GRANULE, 2);
    for (int i = 0; i < 10; i++) {
        pleat_put(pleat_get_and_use(10 * MIB, 1), 1);
    }
    pleat_put(other, 2);
    uint64_t before = captures_n_forbidden();
    captures_begin(1);
    for (int i = 0; i < 50; i++) {
        pleat_devptr ptr = pleat_get(MIB, 1);
        pleat_work(1, ptr, MIB);
        pleat_put(ptr, 1);
    }
    ck_assert_uint_eq(captures_n_forbidden(), before);
    ck_assert_uint_eq(pleat_counted().n_taken_granules, 0);
    captures_end(1);
    ck_assert_int_eq(captures_release(1), PLEAT_OK);
}
END_TEST

START_TEST(a_captured_request_grows)
{
    captures_begin(1);
    pleat_devptr ptr = pleat_get(20 * MIB, 1);
    pleat_work(1, ptr, 20 * MIB);
    captures_end(1);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 20 * MIB);
    pleat_put(ptr, 1);
}
END_TEST

START_TEST(a_captured_request_uses_nothing_that_pends)
{
    pleat_get_and_use(GRANULE, 2);
    pleat_devptr ptr = pleat_get_and_use(20 * MIB, 1);
    pleat_put(ptr, 1);
    captures_begin(1);
    ck_assert_uint_ne(pleat_get(20 * MIB, 1), ptr);
    captures_end(1);
}
END_TEST

START_TEST(a_captured_request_uses_what_is_settled)
{
    pleat_get_and_use(GRANULE, 2);
    pleat_devptr ptr = pleat_get_and_use(20 * MIB, 1);
    pleat_put(ptr, 1);
    pleat.sim.finish();
    uint64_t released = 0;
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, 20 * MIB, true, &released), PLEAT_OK);
    pleat_devptr rest = ptr + released; /* the trim has settled the rest */
    captures_begin(1);
    ck_assert_uint_eq(pleat_get(20 * MIB - released, 1), rest);
    captures_end(1);
}
END_TEST

START_TEST(a_captured_request_that_needs_pending_memory_is_told_so)
{
    pleat_get_and_use(GRANULE, 2);
    pleat_put(pleat_get_and_use(100 * MIB, 3), 3);
    captures_begin(1);
    uint64_t before = captures_n_forbidden();
    ck_assert_int_eq(pleat_refused(100 * MIB, 1), PLEAT_EPENDING);
    ck_assert_uint_eq(captures_n_forbidden(), before);
    captures_end(1);
    pleat_get_and_use(100 * MIB, 1);
    ck_assert_uint_eq(pleat_counted().stream_waits, 1);
}
END_TEST

/* Nothing is free anywhere, so the end of the capture would help nobody. */
START_TEST(a_captured_request_on_a_device_that_is_in_use_is_out_of_memory)
{
    enum { N = 128 * MIB / GRANULE };
    captures_begin(1);
    pleat_get((size_t)N * GRANULE, 1);
    ck_assert_int_eq(pleat_refused(GRANULE, 1), PLEAT_ENOMEM_DEVICE);
    captures_end(1);
}
END_TEST

/* Each allocation of host memory fails once, among them the note that the graph uses the block. */
START_TEST(a_captured_request_without_host_memory_leaves_no_trace)
{
    enum { MOST_ALLOCS = 16 };
    size_t n_failed = 0;
    pleat_put(pleat_get(20 * MIB, 1), 1);
    for (uint64_t k = 0; k < MOST_ALLOCS; k++) {
        pleat_devptr ptr = 0;
        captures_begin(1);
        pl_meta_fail_at(k);
        pleat_status st = pleat.a->ops->alloc(pleat.a, GRANULE, pleat.streams[1], &ptr);
        pl_meta_fail_never();
        pleat_assert_sound();
        ck_assert_msg(st == PLEAT_OK || st == PLEAT_ENOMEM_HOST, "status %d", (int)st);
        if (st == PLEAT_OK) {
            pleat_put(ptr, 1);
        }
        n_failed += st != PLEAT_OK;
        captures_end(1);
    }
    ck_assert_uint_gt(n_failed, 1);
    ck_assert_uint_eq(pleat_counted().allocation[PLEAT_SIZES_ALL].current, 0);
}
END_TEST

/* ---- what is freed meanwhile --------------------------------------------------------------- */

START_TEST(blocks_freed_during_a_capture_are_kept_until_its_graph_is_gone)
{
    pleat_devptr ptr = pleat_get(20 * MIB, 1);
    captures_begin(1);
    pleat_work(1, ptr, 20 * MIB);
    pleat_put(ptr, 1);
    ck_assert_uint_ne(pleat_get(20 * MIB, 1), ptr);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.pinned_granules, 10);
    ck_assert_uint_eq(s.allocation[PLEAT_SIZES_ALL].current, 1);
    ck_assert_int_eq(captures_release(1), PLEAT_ECAPTURE);
    cu_graph graph = captures_end_with_graph(1);
    ck_assert_uint_ne(pleat_get(20 * MIB, 1), ptr);
    ck_assert_int_eq(captures_release(2), PLEAT_OK); /* stream 2 has made no capture */
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    forget(graph, 1);
    ck_assert_uint_eq(pleat_get(20 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 0);
}
END_TEST

START_TEST(blocks_born_in_a_capture_are_kept_when_they_are_freed_later)
{
    captures_begin(1);
    pleat_devptr ptr = pleat_get(20 * MIB, 1);
    pleat_work(1, ptr, 20 * MIB);
    cu_graph graph = captures_end_with_graph(1);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    ck_assert_uint_ne(pleat_get(20 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_trim(0, true), 0);
    forget(graph, 1);
    ck_assert_uint_eq(pleat_trim(0, true), 20 * MIB);
}
END_TEST

/* No tick covers the block's last use before the capture yet. */
START_TEST(a_trim_waits_for_what_a_graph_has_left)
{
    pleat_devptr ptr = pleat_get_and_use(20 * MIB, 1);
    captures_begin(1);
    pleat_put(ptr, 1);
    forget(captures_end_with_graph(1), 1);
    ck_assert_uint_eq(pleat_trim(0, true), 20 * MIB);
}
END_TEST

/* The owner's word is noted, and acted on once the driver has told that the graph is gone. */
START_TEST(a_release_does_not_give_away_what_a_living_graph_uses)
{
    cu_graph graph;
    pleat_devptr ptr = capture_block(100 * MIB, 1, &graph);
    ck_assert_int_eq(pleat_refused(100 * MIB, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(captures_release(1), PLEAT_OK);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 50);
    ck_assert_int_eq(pleat_refused(100 * MIB, 1), PLEAT_EPENDING);
    ck_assert_uint_eq(pleat_trim(0, true), 0);
    captures_destroy(graph);
    ck_assert_uint_eq(pleat_get_and_use(100 * MIB, 1), ptr);
}
END_TEST

START_TEST(of_two_graphs_of_a_stream_the_first_that_goes_frees_only_its_memory)
{
    cu_graph graphs[2];
    pleat_devptr one = capture_block(20 * MIB, 1, &graphs[0]);
    pleat_devptr two = capture_block(20 * MIB, 1, &graphs[1]);
    ck_assert_uint_ne(one, two);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 20);
    captures_name_stream(1); /* the stream is seen at rest */
    forget(graphs[0], 1);
    ck_assert_uint_eq(pleat_get_and_use(20 * MIB, 1), one);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    ck_assert_uint_ne(pleat_get_and_use(20 * MIB, 1), two);
    forget(graphs[1], 1);
    pleat.sim.finish();
    ck_assert_uint_eq(pleat_get_and_use(20 * MIB, 1), two);
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

/* A forked stream is part of its origin's capture. They end together, and are released together. */
START_TEST(a_forked_streams_memory_goes_with_the_graph_of_its_origin)
{
    captures_begin(1);
    follow(2, 1);
    pleat_devptr one = pleat_get(20 * MIB, 1);
    pleat_devptr two = pleat_get(20 * MIB, 2);
    pleat_work(1, one, 20 * MIB);
    pleat_work(2, two, 20 * MIB);
    pleat_put(one, 1);
    pleat_put(two, 2);
    ck_assert_int_eq(captures_release(2), PLEAT_ECAPTURE);
    follow(1, 2);
    cu_graph graph = captures_end_with_graph(1);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 20);
    ck_assert_uint_ne(pleat_get(20 * MIB, 2), two);
    forget(graph, 1);
    ck_assert_uint_eq(pleat_get(20 * MIB, 1), one);
    ck_assert_uint_eq(pleat_get(20 * MIB, 2), two);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 0);
}
END_TEST

/* The block belongs to the graph, not to the stream. A capture on the recycled handle is a
 * different one. */
START_TEST(a_capture_outlives_its_stream)
{
    cu_graph graphs[2];
    cu_stream old = pleat.handles[1];
    pleat_devptr one = capture_block(20 * MIB, 1, &graphs[0]);
    pleat_renew_stream(1);
    ck_assert_ptr_eq(pleat.handles[1], old); /* else the test shows less */
    ck_assert_uint_ne(pleat_get_and_use(20 * MIB, 1), one);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    pleat.sim.finish();
    pleat_devptr two = capture_block(20 * MIB, 1, &graphs[1]);
    ck_assert_uint_ne(two, one);
    captures_name_stream(1); /* the new stream is seen at rest */
    forget(graphs[0], 1);
    ck_assert_uint_eq(pleat_get_and_use(20 * MIB, 3), one);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    pleat.sim.finish();
    forget(graphs[1], 1);
    ck_assert_uint_eq(pleat_get_and_use(20 * MIB, 3), two);
}
END_TEST

START_TEST(a_block_that_outlives_its_graph_is_freed_as_any_other)
{
    captures_begin(1);
    pleat_devptr ptr = pleat_get(20 * MIB, 1);
    pleat_work(1, ptr, 20 * MIB);
    forget(captures_end_with_graph(1), 1);
    ck_assert_uint_eq(pleat_info(ptr).base, ptr);
    ck_assert_uint_ne(pleat_get_and_use(20 * MIB, 1), ptr);
    pleat_work(1, ptr, 20 * MIB);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 0);
    ck_assert_uint_eq(pleat_get_and_use(20 * MIB, 1), ptr);
}
END_TEST

/* _i: whether the owner reports the graph's end, or only the driver. */
START_TEST(a_graph_that_goes_while_it_runs_keeps_its_memory_until_then)
{
    cu_graph graph;
    cu_graph_exec exec = NULL;
    pl_driver *drv = pleat.sim.drv;
    pleat_devptr ptr = capture_block(60 * MIB, 1, &graph);
    ck_assert_int_eq(pl_cu_graph_instantiate(drv, &exec, graph, 0), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_launch(drv, exec, pleat.handles[3]), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_exec_destroy(drv, exec), CU_SUCCESS);
    captures_destroy(graph);
    if (_i == 1) {
        ck_assert_int_eq(captures_release(1), PLEAT_OK);
    }
    ck_assert_uint_ne(pleat_get_and_use(60 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_trim(0, false), 0);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 120 * MIB);
    pleat.sim.finish();
    ck_assert_uint_eq(pleat_get_and_use(60 * MIB, 2), ptr);
}
END_TEST

/* A request that needs the memory waits for the launch. */
START_TEST(a_request_waits_for_a_graph_that_was_released_while_it_ran)
{
    cu_graph graph;
    cu_graph_exec exec = NULL;
    pl_driver *drv = pleat.sim.drv;
    pleat_devptr ptr = capture_block(100 * MIB, 1, &graph);
    ck_assert_int_eq(pl_cu_graph_instantiate(drv, &exec, graph, 0), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_launch(drv, exec, pleat.handles[3]), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_exec_destroy(drv, exec), CU_SUCCESS);
    captures_destroy(graph);
    ck_assert_int_eq(captures_release(1), PLEAT_OK);
    ck_assert_uint_eq(pleat_get_and_use(100 * MIB, 2), ptr);
    ck_assert_uint_ge(pleat_counted().host_syncs, 1);
}
END_TEST

/* Makes two graphs that have the block's address. */
static pleat_devptr share_block(unsigned first, unsigned second, cu_graph graphs[2])
{
    captures_begin(first);
    pleat_devptr ptr = pleat_get(20 * MIB, first);
    pleat_work(first, ptr, 20 * MIB);
    graphs[0] = captures_end_with_graph(first);
    captures_begin(second);
    pleat_work(second, ptr, 20 * MIB);
    pleat_put(ptr, second);
    graphs[1] = captures_end_with_graph(second);
    return ptr;
}

START_TEST(a_block_of_one_graph_that_is_freed_in_another_is_kept_for_both)
{
    cu_graph graphs[2];
    unsigned later = (unsigned)_i;
    pleat_devptr ptr = share_block(1, 2, graphs);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    captures_name_stream(1); /* both streams are seen at rest */
    captures_name_stream(2);
    forget(graphs[1 - later], 2 - later);
    ck_assert_uint_ne(pleat_get_and_use(20 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    pleat.sim.finish();
    forget(graphs[later], 1 + later);
    captures_name_stream(1); /* gives ticks to the owner and to stream 2, which freed the block */
    captures_name_stream(2);
    ck_assert_uint_eq(pleat_get_and_use(20 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 0);
}
END_TEST

START_TEST(of_two_captures_of_a_stream_the_older_one_is_released_first)
{
    cu_graph graphs[2];
    pleat_devptr both = share_block(1, 1, graphs);
    pleat_devptr last = capture_block(20 * MIB, 1, &graphs[0]);
    ck_assert_int_eq(captures_release(1), PLEAT_OK); /* the block is still the other graph's */
    ck_assert_uint_eq(pleat_counted().pinned_granules, 20);
    ck_assert_uint_ne(pleat_get_and_use(20 * MIB, 1), both);
    pleat.sim.finish();
    ck_assert_int_eq(captures_release(1), PLEAT_OK);
    ck_assert_uint_eq(pleat_get_and_use(20 * MIB, 1), both);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    pleat.sim.finish();
    ck_assert_int_eq(captures_release(1), PLEAT_OK);
    ck_assert_uint_eq(pleat_get_and_use(20 * MIB, 1), last);
    ck_assert_int_eq(captures_release(1), PLEAT_OK);
}
END_TEST

START_TEST(a_second_free_of_a_kept_block_is_named)
{
    captures_begin(1);
    pleat_devptr ptr = pleat_get(20 * MIB, 1);
    pleat_put(ptr, 1);
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[1]), PLEAT_EDOUBLEFREE);
    captures_end(1);
}
END_TEST

START_TEST(kept_memory_is_never_taken)
{
    captures_begin(1);
    pleat_devptr ptr = pleat_get(100 * MIB, 1);
    pleat_put(ptr, 1);
    cu_graph graph = captures_end_with_graph(1);
    ck_assert_int_eq(pleat_refused(40 * MIB, 2), PLEAT_ENOMEM_DEVICE);
    pleat_get_and_use(28 * MIB, 2);
    forget(graph, 1);
    pleat_get_and_use(100 * MIB, 2);
}
END_TEST

START_TEST(a_kept_block_that_others_use_waits_for_them_too)
{
    pleat_devptr ptr = pleat_get_and_use(20 * MIB, 1);
    pleat_record(ptr, 2);
    pleat_work_after(2, 1, ptr, 20 * MIB);
    captures_begin(1);
    pleat_put(ptr, 1);
    cu_graph graph = captures_end_with_graph(1);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    forget(graph, 1);
    ck_assert_uint_ne(pleat_get_and_use(20 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_counted().pending_bytes, 20 * MIB);
    captures_name_stream(2); /* records the missing tick, which allows an order */
    uint64_t before = pleat_counted().stream_waits;
    if (is_untold) { /* launches on any stream must be over */
        ck_assert_uint_ne(pleat_get_and_use(20 * MIB, 1), ptr);
        pleat.sim.finish();
    }
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, pleat_counted().resident_bytes), PLEAT_OK);
    ck_assert_uint_eq(pleat_get_and_use(20 * MIB, 1), ptr); /* nothing can be created instead */
    ck_assert(is_untold || pleat_counted().stream_waits == before + 1);
}
END_TEST

START_TEST(releasing_what_was_never_captured_is_fine)
{
    ck_assert_int_eq(captures_release(1), PLEAT_OK);
    pleat_get_and_use(MIB, 1);
    ck_assert_int_eq(captures_release(1), PLEAT_OK);
    ck_assert_int_eq(captures_release(0), PLEAT_OK);
}
END_TEST

/* A recorded use counts for the stream even if it was recorded in a capture. */
START_TEST(a_use_recorded_in_a_capture_is_one_of_the_stream_too)
{
    pleat_devptr ptr = pleat_get_and_use(20 * MIB, 1);
    pleat.sim.finish();
    captures_begin(2);
    pleat_record(ptr, 2);
    cu_graph graph = captures_end_with_graph(2);
    captures_name_stream(2);
    pleat_work(2, ptr, 20 * MIB);
    pleat_put(ptr, 1);
    forget(graph, 2);
    ck_assert_uint_ne(pleat_get_and_use(20 * MIB, 1), ptr);
    captures_name_stream(2);
    pleat.sim.finish();
    pleat_put(pleat_get_and_use(100 * MIB, 1), 1);
    ck_assert_uint_eq(pleat_counted().pending_bytes, 100 * MIB);
}
END_TEST

START_TEST(a_use_before_a_capture_is_not_over_with_its_graph)
{
    pleat_devptr ptr = pleat_get_and_use(20 * MIB, 1);
    pleat.sim.finish();
    pleat_record(ptr, 2);
    pleat_work(2, ptr, 20 * MIB);
    captures_begin(2);
    captures_name_stream(2);
    pleat_put(ptr, 1);
    forget(captures_end_with_graph(2), 2);
    ck_assert_uint_ne(pleat_get_and_use(20 * MIB, 1), ptr); /* no tick covers the use yet */
    captures_name_stream(2);
    pleat_get_and_use(100 * MIB, 1); /* this needs the memory of `ptr` */
}
END_TEST

START_TEST(destruction_takes_kept_blocks_along)
{
    captures_begin(1);
    pleat_put(pleat_get(20 * MIB, 1), 1);
    captures_end(1);
    size_t n_live = 9;
    size_t n_leaked = 9;
    ck_assert_int_eq(pleat.a->ops->destroy(pleat.a, false, &n_live, &n_leaked), PLEAT_OK);
    pleat.a = NULL;
    ck_assert_uint_eq(n_live + n_leaked, 0);
}
END_TEST

/* Tests for both ways of learning a graph's end: from the driver, or from the owner. */
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

SUITE(segments_capture)
{
    TCase *captured = suite_case(suite, "on the captured stream", open_plain, pleat_close);
    tcase_add_test(captured, a_captured_stream_sees_no_event_no_wait_and_no_take);
    tcase_add_test(captured, a_captured_request_grows);
    tcase_add_test(captured, a_captured_request_uses_nothing_that_pends);
    tcase_add_test(captured, a_captured_request_uses_what_is_settled);
    tcase_add_test(captured, a_captured_request_that_needs_pending_memory_is_told_so);
    tcase_add_test(captured, a_captured_request_without_host_memory_leaves_no_trace);
    tcase_add_test(captured, a_captured_request_on_a_device_that_is_in_use_is_out_of_memory);
    TCase *kept = suite_case(suite, "kept", open_plain, pleat_close);
    add_kept_tests(kept);
    tcase_add_test(kept, a_release_does_not_give_away_what_a_living_graph_uses);
    tcase_add_loop_test(kept, a_graph_that_goes_while_it_runs_keeps_its_memory_until_then, 0, 2);
    tcase_add_test(kept, a_second_free_of_a_kept_block_is_named);
    tcase_add_test(kept, releasing_what_was_never_captured_is_fine);
    tcase_add_test(kept, destruction_takes_kept_blocks_along);
    TCase *untold = suite_case(suite, "kept, without user objects", open_untold, pleat_close);
    add_kept_tests(untold);
    tcase_add_loop_test(untold, a_graph_that_goes_while_it_runs_keeps_its_memory_until_then, 1, 2);
    tcase_add_test(untold, of_two_captures_of_a_stream_the_older_one_is_released_first);
}
