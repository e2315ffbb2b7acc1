/* bounds_capture_test.c - how much one hold of the device lock touches with very many live graphs.
 * Counted as in tests/segments/bounds/bounds_test.c. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>

#include "segments/pleat/space/space.h"
#include "tests/support/release.h"
#include "tests/support/segments/segments_captures.h"
#include "tests/support/suite.h"
#include "vmm/base/lock.h"

enum { OWN = 1, OTHER = 2, N_GRAPHS = 6000 };

static cu_graph graphs[N_GRAPHS];

static void open_told(void)
{
    pleat_open("capacity:1G,depth:1048576", NULL);
}

static void open_untold(void)
{
    pleat_open("capacity:1G,depth:1048576,without:[cuUserObjectCreate]", NULL);
}

/* Allocates without a walk over everything. */
static pleat_devptr get(pl_keeper *pool, size_t bytes, unsigned stream)
{
    pl_allocator *a = pleat.a;
    pleat_devptr ptr = 0;
    pleat_status st = pool != NULL
                          ? a->ops->alloc_asked(a, pool, bytes, pleat.streams[stream], NULL, &ptr)
                          : a->ops->alloc(a, bytes, pleat.streams[stream], &ptr);
    ck_assert_int_eq(st, PLEAT_OK);
    return ptr;
}

static void put(pleat_devptr ptr, unsigned stream)
{
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[stream]), PLEAT_OK);
}

/* Capture graphs, each with a separate block, or all with the same block of the pool. */
static void capture_graphs(pl_keeper *pool)
{
    put(get(NULL, 512, OTHER), OTHER);
    for (size_t i = 0; i < N_GRAPHS; i++) {
        captures_begin(OWN);
        put(get(pool, 4 * KIB, OWN), OWN);
        graphs[i] = captures_end_with_graph(OWN);
    }
    put(get(NULL, 512, OWN), OWN);
    pl_lock_reset_touched();
}

static void destroy_from(size_t first)
{
    for (size_t i = first; i < N_GRAPHS; i++) {
        captures_destroy(graphs[i]);
    }
}

static void assert_bounded(void)
{
    ck_assert_uint_le(pl_lock_most_touched(), PL_LOCK_MOST_TOUCHED);
#if PLEAT_DEBUG_LEVEL >= 1
    ck_assert_uint_gt(pl_lock_most_touched(), 0);
#endif
    pleat_assert_sound();
}

static void add_awaited(void *context, const pl_piece *piece)
{
    *(size_t *)context += piece->awaited_bytes > 0 ? piece->bytes : 0;
}

static size_t kept_bytes(void)
{
    size_t bytes = 0;
    pleat.a->ops->visit(pleat.a, add_awaited, &bytes);
    return bytes;
}

static uint64_t resident_bytes(void)
{
    pleat_stats s;
    pleat.a->ops->stats(pleat.a, &s);
    return s.resident_bytes;
}

START_TEST(a_graph_that_goes_is_found_among_very_many)
{
    capture_graphs(NULL);
    size_t bytes = kept_bytes();
    captures_destroy(graphs[0]);
    for (int i = 0; i < 2 * N_GRAPHS / PL_PIECES_A_HOLD + 2;
         i++) { /* each miss looks at some graphs */
        (void)get(NULL, 2 * MIB, OTHER);
    }
    ck_assert_uint_eq(kept_bytes(), bytes - 4 * KIB);
    destroy_from(1);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(kept_bytes(), 0);
    assert_bounded();
}
END_TEST

START_TEST(a_pool_of_very_many_graphs_rests_and_goes)
{
    pl_keeper *pool;
    ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pool), PLEAT_OK);
    capture_graphs(pool);
    captures_begin(OWN);
    put(get(pool, 4 * KIB, OWN), OWN);
    captures_end(OWN);
    pleat.a->ops->pools->rest(pleat.a, pool);
    pleat.a->ops->pools->release(pleat.a, pool);
    ck_assert_uint_gt(resident_bytes(), 0);
    destroy_from(0);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(resident_bytes(), 0);
    assert_bounded();
}
END_TEST

/* The owner promises to launch them no more. So the pool goes after a tick of the context, and very
 * many captures forget it. */
START_TEST(a_pool_goes_before_its_very_many_graphs)
{
    pl_keeper *pool;
    ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pool), PLEAT_OK);
    capture_graphs(pool);
    pleat.a->ops->pools->release(pleat.a, pool);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(resident_bytes(), 0);
    destroy_from(0);
    assert_bounded();
}
END_TEST

/* A stream's oldest graph goes first, whatever graphs other streams have. */
START_TEST(owners_say_one_after_the_other_that_very_many_are_gone)
{
    size_t bytes;
    captures_begin(OTHER);
    put(get(NULL, 4 * KIB, OTHER), OTHER);
    cu_graph other = captures_end_with_graph(OTHER);
    capture_graphs(NULL);
    bytes = kept_bytes();
    for (size_t i = 0; i < N_GRAPHS; i++) {
        captures_destroy(graphs[i]);
        ck_assert_int_eq(release_capture(pleat.a, pleat.streams[OWN]), PLEAT_OK);
    }
    pleat.sim.finish();
    put(get(NULL, 2 * MIB, OWN), OWN);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(bytes, (N_GRAPHS + 1) * 4 * KIB);
    ck_assert_uint_eq(kept_bytes(), 4 * KIB);
    captures_destroy(other);
    ck_assert_int_eq(captures_release(OTHER), PLEAT_OK);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(kept_bytes(), 0);
    assert_bounded();
}
END_TEST

static void record(pleat_devptr ptr, unsigned stream)
{
    ck_assert_int_eq(pleat.a->ops->record_stream(pleat.a, ptr, pleat.streams[stream]), PLEAT_OK);
}

START_TEST(very_many_graphs_of_several_blocks_go)
{
    enum { N_BLOCKS = 4 };
    pleat_devptr blocks[N_BLOCKS];
    put(get(NULL, 512, OTHER), OTHER);
    for (size_t i = 0; i < N_GRAPHS; i++) {
        captures_begin(OWN);
        for (size_t k = 0; k < N_BLOCKS; k++) {
            blocks[k] = get(NULL, (size_t)512 << k, OWN);
        }
        for (size_t k = 0; k < N_BLOCKS; k++) {
            put(blocks[k], OWN);
        }
        graphs[i] = captures_end_with_graph(OWN);
    }
    destroy_from(0);
    pl_lock_reset_touched();
    (void)get(NULL, 20 * MIB, OTHER);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(kept_bytes(), 0);
    assert_bounded();
}
END_TEST

/* A static input: each graph uses the block twice. Before the last graph a second stream uses
 * it. */
static pleat_devptr capture_input(void)
{
    pleat_devptr input = get(NULL, 4 * KIB, OTHER);
    put(get(NULL, 512, OWN), OWN);
    pl_lock_reset_touched();
    for (size_t i = 0; i < N_GRAPHS; i++) {
        captures_begin(OWN);
        record(input, OWN);
        record(input, OWN);
        graphs[i] = captures_end_with_graph(OWN);
        if (i + 2 == N_GRAPHS) {
            record(input, OWN);
        }
    }
    return input;
}

START_TEST(an_input_of_very_many_graphs_is_freed_before_they_go)
{
    pleat_devptr input = capture_input();
    put(input, OTHER);
    pleat_assert_sound();
    uint64_t since = pleat_steps();
    for (size_t i = N_GRAPHS - 1; i > 0; i--) {
        captures_destroy(graphs[i]);
    }
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(resident_bytes(), 2 * MIB); /* the first graph may still run */
    captures_destroy(graphs[0]);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(resident_bytes(), 0);
    /* of each graph: a look, the block goes on, and the block's two demands */
    ck_assert_uint_ge(pleat_steps() - since, 4 * (N_GRAPHS - 1));
    assert_bounded();
}
END_TEST

START_TEST(an_input_of_very_many_graphs_is_freed_after_they_went)
{
    pleat_devptr input = capture_input();
    destroy_from(0);
    pleat_work(OWN, input, 4 * KIB);
    put(input, OTHER);
    ck_assert_uint_ne(get(NULL, 4 * KIB, OTHER), input);
    (void)get(NULL, 2 * MIB, OWN); /* some of the uses are over */
    assert_bounded();
    pleat.sim.finish();
    for (int i = 0; i < N_GRAPHS / 256 + 4; i++) {
        put(get(NULL, 2 * MIB, OTHER), OTHER);
    }
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(pleat_counted().pending_bytes, 0);
    assert_bounded();
}
END_TEST

START_TEST(all_captures_let_go_by_and_by)
{
    capture_graphs(NULL);
    pleat.a->ops->let_captures_go(pleat.a);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(kept_bytes(), 0);
    destroy_from(0);
    assert_bounded();
}
END_TEST

/* ---- graphs of several streams, and of very many blocks ----------------------------------- */

enum { N_FORKED = 30, N_FORKED_GRAPHS = 500, N_KEPT = 120000 };

static cu_stream forked[N_FORKED];
static pl_stream *forked_streams[N_FORKED];

static void follow(cu_stream later, cu_stream before)
{
    cu_event event = NULL;
    pl_driver *drv = pleat.sim.drv;
    ck_assert_int_eq(pl_cu_event_create(drv, &event, CU_EVENT_DISABLE_TIMING_FLAG), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_record(drv, event, before), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_stream_wait_event(drv, later, event, 0), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_destroy(drv, event), CU_SUCCESS);
}

static void name_forked(void)
{
    for (unsigned k = 0; k < N_FORKED; k++) {
        pleat_devptr ptr = 0;
        ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, 512, forked_streams[k], &ptr), PLEAT_OK);
        ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, forked_streams[k]), PLEAT_OK);
    }
}

/* Each graph uses the input on very many streams, each of which takes part in the capture. */
START_TEST(very_many_graphs_of_many_streams_go)
{
    pleat_devptr input = get(NULL, 4 * KIB, OTHER);
    for (unsigned k = 0; k < N_FORKED; k++) {
        ck_assert_int_eq(
            pl_cu_stream_create(pleat.sim.drv, &forked[k], CU_STREAM_NON_BLOCKING_FLAG),
            CU_SUCCESS);
        ck_assert_int_eq(pl_stream_get(pleat.dev, forked[k], &forked_streams[k]), PLEAT_OK);
    }
    for (size_t i = 0; i < N_FORKED_GRAPHS; i++) {
        captures_begin(OWN);
        for (unsigned k = 0; k < N_FORKED; k++) {
            follow(forked[k], pleat.handles[OWN]);
            ck_assert_int_eq(pleat.a->ops->record_stream(pleat.a, input, forked_streams[k]),
                             PLEAT_OK);
            follow(pleat.handles[OWN], forked[k]);
        }
        graphs[i] = captures_end_with_graph(OWN);
    }
    name_forked();
    captures_name_stream(OWN);
    pl_lock_reset_touched();
    for (size_t i = 0; i < N_FORKED_GRAPHS; i++) {
        captures_destroy(graphs[i]);
    }
    (void)get(NULL, 20 * MIB, OTHER);
    assert_bounded();
    put(input, OTHER);
    (void)pleat_trim(0, true);
    assert_bounded();
    for (unsigned k = 0; k < N_FORKED; k++) {
        ck_assert_int_eq(pl_cu_stream_destroy(pleat.sim.drv, forked[k]), CU_SUCCESS);
    }
}
END_TEST

static pleat_devptr kept[N_KEPT];

/* The device is full of what the graph keeps. A request needs nearly all of it at once. */
START_TEST(a_graph_of_very_many_blocks_goes_for_one_request)
{
    enum { BYTES = 7 * KIB };
    captures_begin(OWN);
    for (size_t i = 0; i < N_KEPT; i++) {
        kept[i] = get(NULL, BYTES, OWN);
    }
    for (size_t i = 0; i < N_KEPT; i++) {
        put(kept[i], OWN);
    }
    cu_graph graph = captures_end_with_graph(OWN);
    captures_name_stream(OWN);
    captures_destroy(graph);
    pl_lock_reset_touched();
    (void)get(NULL, (size_t)N_KEPT * BYTES, OTHER);
    ck_assert_uint_eq(kept_bytes(), 0);
    assert_bounded();
}
END_TEST

/* The capture has ended, and its graph lives. What was used on a second stream waits for the end
 * only, and no call comes back for one capture alone. */
START_TEST(very_many_blocks_of_a_pool_go_on_when_their_capture_ends)
{
    enum { N_USED = 3000 };
    pl_keeper *pool;
    ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pool), PLEAT_OK);
    captures_begin(OWN);
    follow(pleat.handles[OTHER], pleat.handles[OWN]);
    for (size_t i = 0; i < N_USED; i++) {
        kept[i] = get(pool, 4 * KIB, OWN);
        record(kept[i], OTHER);
    }
    for (size_t i = 0; i < N_USED; i++) {
        put(kept[i], OWN);
    }
    follow(pleat.handles[OWN], pleat.handles[OTHER]);
    cu_graph graph = captures_end_with_graph(OWN);
    captures_name_stream(OWN);
    captures_name_stream(OTHER);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(kept_bytes(), 0);
    captures_destroy(graph);
    pleat.a->ops->pools->release(pleat.a, pool);
    assert_bounded();
}
END_TEST

SUITE(segments_bounds_capture)
{
    TCase *told = tcase_create("told");
    tcase_add_checked_fixture(told, open_told, pleat_close);
    tcase_add_test(told, a_graph_that_goes_is_found_among_very_many);
    tcase_add_test(told, a_pool_of_very_many_graphs_rests_and_goes);
    tcase_add_test(told, a_pool_goes_before_its_very_many_graphs);
    tcase_add_test(told, all_captures_let_go_by_and_by);
    tcase_add_test(told, very_many_graphs_of_many_streams_go);
    tcase_add_test(told, a_graph_of_very_many_blocks_goes_for_one_request);
    tcase_add_test(told, very_many_blocks_of_a_pool_go_on_when_their_capture_ends);
    tcase_add_test(told, very_many_graphs_of_several_blocks_go);
    tcase_add_test(told, an_input_of_very_many_graphs_is_freed_before_they_go);
    tcase_add_test(told, an_input_of_very_many_graphs_is_freed_after_they_went);
    suite_add_tcase(suite, told);
    TCase *untold = tcase_create("untold");
    tcase_add_checked_fixture(untold, open_untold, pleat_close);
    tcase_add_test(untold, owners_say_one_after_the_other_that_very_many_are_gone);
    suite_add_tcase(suite, untold);
}
