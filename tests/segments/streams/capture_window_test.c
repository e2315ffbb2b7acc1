/* capture_window_test.c - broken captures, and captures on streams that no call has named yet. */
/* labels: unit */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segments/pleat/space/space.h"
#include "segments/pleat/streams/capture.h"
#include "tests/support/segments/segments_captures.h"
#include "tests/support/suite.h"
#include "vmm/base/lock.h"
#include "vmm/driver_state.h"

static void open_plain(void)
{
    pleat_open("capacity:128M,depth:1048576", NULL);
}

static void open_large(void)
{
    pleat_open("capacity:512M,depth:1048576", NULL);
}

/* ---- captures that break ----------------------------------------------------------------------
 */

static __typeof__(((pl_driver_table *)NULL)->user_object_create) plain_create;

/* Breaks the capture as another thread might, just after pleat has asked for the stream's state. */
static cu_result break_and_create(cu_user_object *object, void *ptr, cu_host_fn destroy, unsigned n,
                                  unsigned flags)
{
    (void)pl_cu_ctx_synchronize(pleat.sim.drv);
    return plain_create(object, ptr, destroy, n, flags);
}

static void end_broken(unsigned stream)
{
    cu_graph graph = NULL;
    ck_assert_int_eq(pl_cu_stream_end_capture(pleat.sim.drv, pleat.handles[stream], &graph),
                     CU_CAPTURE_INVALIDATED);
}

START_TEST(a_capture_that_breaks_before_its_graph_is_watched_keeps_nothing)
{
    pl_driver_table *table = &pleat.sim.drv->table;
    plain_create = table->user_object_create;
    table->user_object_create = break_and_create;
    captures_begin(1);
    pleat_devptr ptr = pleat_get(20 * MIB, 1);
    table->user_object_create = plain_create;
    end_broken(1);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_trim(0, true), 20 * MIB);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 0);
}
END_TEST

enum { N_CALLS = 10000 };

static size_t n_parts(void)
{
    const pl_space *space = (pl_space *)pleat.a;
    const pl_capture *capture;
    size_t n = 0;
    LIST_FOREACH(capture, &space->captures.all, all)
    {
        for (const pl_part *part = capture->parts; part != NULL; part = part->next) {
            n++;
        }
    }
    return n;
}

/* A program may go on for long before it ends the capture. */
START_TEST(calls_in_a_broken_capture_add_nothing)
{
    captures_begin(1);
    pleat_devptr ptr = pleat_get(MIB, 1);
    (void)pl_cu_ctx_synchronize(pleat.sim.drv);
    for (int i = 0; i < N_CALLS; i++) {
        captures_name_stream(1);
    }
    ck_assert_uint_le(n_parts(), 1);
    ck_assert_uint_le(((pl_space *)pleat.a)->captures.n, 2);
    end_broken(1);
    pleat_put(ptr, 1);
}
END_TEST

/* The route of a pool ends within its capture, which counts as ended then. */
START_TEST(calls_in_a_capture_that_counts_as_ended_add_nothing)
{
    pl_keeper *pool;
    pleat_devptr ptr;
    ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pool), PLEAT_OK);
    captures_begin(1);
    ck_assert_int_eq(pleat.a->ops->alloc_asked(pleat.a, pool, MIB, pleat.streams[1], NULL, &ptr),
                     PLEAT_OK);
    pleat.a->ops->pools->rest(pleat.a, pool);
    for (int i = 0; i < N_CALLS; i++) {
        (void)pleat.a->ops->record_stream(pleat.a, ptr, pleat.streams[1]);
    }
    ck_assert_uint_eq(n_parts(), 1);
    pl_lock_reset_touched();
    captures_end(1);
    (void)pleat_trim(0, false);
    ck_assert_uint_le(pl_lock_most_touched(), PL_LOCK_MOST_TOUCHED);
    pleat_put(ptr, 1);
    pleat.a->ops->pools->release(pleat.a, pool);
}
END_TEST

/* The stream that was named is retired, and its fellow, which no call has named, goes on. */
START_TEST(calls_in_a_capture_whose_stream_is_retired_add_nothing)
{
    cu_event fork = NULL;
    pl_driver *drv = pleat.sim.drv;
    ck_assert_int_eq(pl_cu_event_create(drv, &fork, 2), CU_SUCCESS);
    captures_begin(2);
    ck_assert_int_eq(pl_cu_event_record(drv, fork, pleat.handles[2]), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_stream_wait_event(drv, pleat.handles[1], fork, 0), CU_SUCCESS);
    captures_name_stream(1);
    pleat.a->ops->retire_stream(pleat.a, pleat.streams[1]);
    for (int i = 0; i < N_CALLS; i++) {
        captures_name_stream(2);
    }
    ck_assert_uint_eq(n_parts(), 2);
    ck_assert_int_eq(pl_cu_event_destroy(drv, fork), CU_SUCCESS);
    captures_end(2);
}
END_TEST

/* The stream's capture has ended, and no call has named the stream since: the last tick stands
 * behind what the stream freed before. */
START_TEST(a_stream_that_is_retired_after_its_capture_leaves_a_tick)
{
    enum { OLD = 1000 };
    (void)pleat_get(512, 2);
    for (int i = 0; i < OLD; i++) {
        captures_name_stream(1); /* a young stream leaves a tick for each granule */
    }
    pleat_devptr freed = pleat_get_and_use(4 * MIB, 1);
    pleat_put(freed, 1);
    captures_begin(1);
    captures_name_stream(1);
    cu_graph graph = captures_end_with_graph(1);
    pleat.a->ops->retire_stream(pleat.a, pleat.streams[1]);
    pleat_get_and_use(512 * MIB - 6 * MIB, 2); /* 2 MiB have the small blocks */
    pleat_get_and_use(4 * MIB, 2);
    pleat_stats s = { 0 };
    pleat.a->ops->stats(pleat.a, &s);
    ck_assert_uint_eq(s.host_syncs, 0);
    ck_assert_uint_eq(s.stream_waits, 1);
    captures_destroy(graph);
}
END_TEST

/* ---- captures that no call has named yet -------------------------------------------------------
 */

enum { BEGINS, HAS_BEGUN, GOES_ON };

/* A thread that makes two captures on stream 1. In the second one no early call names the
 * stream. */
typedef struct maker {
    pthread_t thread;
    _Atomic int stage;   /* atomic: how far the second capture is */
    _Atomic bool is_met; /* atomic: a request looks for a moment to record a tick */
    bool is_broken;      /* owner, then the test */
} maker;

static bool name_stream(void)
{
    pleat_devptr ptr = 0;
    const pl_allocator_ops *ops = pleat.a->ops;
    return ops->alloc(pleat.a, 512, pleat.streams[1], &ptr) == PLEAT_OK &&
           ops->free(pleat.a, ptr, pleat.streams[1]) == PLEAT_OK;
}

static bool begin_capture(void)
{
    return pl_cu_stream_begin_capture(pleat.sim.drv, pleat.handles[1], CU_CAPTURE_MODE_GLOBAL) ==
           CU_SUCCESS;
}

static bool end_capture(void)
{
    cu_graph graph = NULL;
    return pl_cu_stream_end_capture(pleat.sim.drv, pleat.handles[1], &graph) == CU_SUCCESS &&
           pl_cu_graph_destroy(pleat.sim.drv, graph) == CU_SUCCESS;
}

static bool make_known_capture(void)
{
    return begin_capture() && name_stream() && end_capture() && name_stream();
}

static void wait_for_stage(const maker *m, int stage)
{
    while (atomic_load(&m->stage) != stage) {
        sched_yield();
    }
}

static bool is_somebody_looking(void)
{
    pl_space *space = (pl_space *)pleat.a;
    pl_lock_acquire(&space->lock);
    bool is_looking = space->streams.context.phase == PL_CONTEXT_GATHERING ||
                      space->streams.context.phase == PL_CONTEXT_HOLDING;
    pl_lock_release(&space->lock);
    return is_looking;
}

/* The second capture lasts until the test ends it or a request looks for a moment for a tick. */
static void *make_captures(void *arg)
{
    maker *m = arg;
    bool is_fine = pl_device_enter(pleat.dev) == PLEAT_OK && make_known_capture();
    is_fine = is_fine && begin_capture();
    atomic_store(&m->stage, HAS_BEGUN);
    while (atomic_load(&m->stage) != GOES_ON && !atomic_load(&m->is_met)) {
        atomic_store(&m->is_met, is_somebody_looking());
        sched_yield();
    }
    is_fine = is_fine && name_stream() && end_capture() && name_stream();
    m->is_broken = !is_fine;
    pl_device_leave(pleat.dev);
    return NULL;
}

/* Leave memory that only a tick of the context covers: its stream is alone and has a block. */
static void leave_memory(void)
{
    pleat_get(512, 2);
    pleat_put(pleat_get_and_use(40 * MIB, 2), 2);
    ck_assert_uint_eq(pleat_calls("cuEventRecord"), 0);
    pleat_renew_stream(2);
}

static void start_maker(maker *m)
{
    *m = (maker){ .stage = BEGINS };
    ck_assert_int_eq(pthread_create(&m->thread, NULL, make_captures, m), 0);
    wait_for_stage(m, HAS_BEGUN);
}

static void join_maker(maker *m)
{
    atomic_store(&m->stage, GOES_ON);
    ck_assert_int_eq(pthread_join(m->thread, NULL), 0);
}

START_TEST(a_trim_that_does_not_wait_spares_a_capture_that_has_just_begun)
{
    maker m;
    leave_memory();
    start_maker(&m);
    uint64_t released;
    (void)!pleat.a->ops->trim(pleat.a, 0, false, &released);
    join_maker(&m);
    ck_assert(!m.is_broken);
    ck_assert_uint_ge(pleat_trim(0, true), 38 * MIB);
}
END_TEST

START_TEST(a_trim_waits_until_a_capture_that_has_just_begun_is_over)
{
    maker m;
    leave_memory();
    start_maker(&m);
    uint64_t released = 0;
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, 0, true, &released), PLEAT_OK);
    ck_assert_uint_ge(released, 38 * MIB);
    join_maker(&m);
    ck_assert(atomic_load(&m.is_met));
    ck_assert(!m.is_broken);
}
END_TEST

START_TEST(a_request_waits_until_a_capture_that_has_just_begun_is_over)
{
    maker m;
    leave_memory();
    start_maker(&m);
    pleat_devptr ptr = 0;
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, 120 * MIB, pleat.streams[3], &ptr), PLEAT_OK);
    join_maker(&m);
    ck_assert(atomic_load(&m.is_met));
    ck_assert(!m.is_broken);
}
END_TEST

static void *make_one_and_rest(void *arg)
{
    maker *m = arg;
    bool is_fine = pl_device_enter(pleat.dev) == PLEAT_OK && make_known_capture();
    m->is_broken = !is_fine;
    pl_device_leave(pleat.dev);
    atomic_store(&m->stage, HAS_BEGUN);
    wait_for_stage(m, GOES_ON);
    return NULL;
}

START_TEST(who_made_captures_and_rests_is_not_waited_for_for_long)
{
    maker m = { .stage = BEGINS };
    leave_memory();
    ck_assert_int_eq(pthread_create(&m.thread, NULL, make_one_and_rest, &m), 0);
    wait_for_stage(&m, HAS_BEGUN);
    ck_assert_uint_ge(pleat_trim(0, true), 38 * MIB);
    join_maker(&m);
    ck_assert(!m.is_broken);
}
END_TEST

/* ---- captures of whose end nobody tells --------------------------------------------------------
 */

static void assert_named(const void *handle)
{
    char name[32];
    const char *detail = pl_driver_last_error()->detail;
    (void)snprintf(name, sizeof name, "the stream %p", handle);
    ck_assert_msg(strstr(detail, name) != NULL, "%s", detail);
    ck_assert_msg(strstr(detail, "destroy the graph") != NULL, "cut off: %s", detail);
}

START_TEST(who_is_refused_for_a_capture_that_may_last_learns_whose_it_is)
{
    leave_memory();
    captures_begin(1);
    pleat_get(512, 1);
    cu_graph graph = captures_end_with_graph(1);
    ck_assert_int_eq(pleat_refused(120 * MIB, 3), PLEAT_EPENDING);
    assert_named(pleat.handles[1]);
    pl_driver_clear_error();
    uint64_t released;
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, 0, true, &released), PLEAT_EPENDING);
    assert_named(pleat.handles[1]);
    captures_name_stream(1);
    pleat_get(120 * MIB, 3);
    captures_destroy(graph);
}
END_TEST

/* The driver refuses to wait for all work, and pleat knows of no capture. */
START_TEST(who_is_refused_for_a_capture_that_nobody_named_learns_where_the_memory_is)
{
    leave_memory();
    captures_begin(1);
    ck_assert_int_eq(pleat_refused(120 * MIB, 3), PLEAT_EPENDING);
    const char *detail = pl_driver_last_error()->detail;
    ck_assert_msg(strstr(detail, "pends on the stream") != NULL, "%s", detail);
    cu_graph graph = NULL;
    (void)pl_cu_stream_end_capture(pleat.sim.drv, pleat.handles[1], &graph);
    if (graph != NULL) {
        captures_destroy(graph);
    }
}
END_TEST

SUITE(segments_capture_window)
{
    TCase *broken = suite_case(suite, "broken", open_plain, pleat_close);
    tcase_add_test(broken, calls_in_a_broken_capture_add_nothing);
    tcase_add_test(broken, calls_in_a_capture_that_counts_as_ended_add_nothing);
    tcase_add_test(broken, calls_in_a_capture_whose_stream_is_retired_add_nothing);
    tcase_add_test(broken, a_capture_that_breaks_before_its_graph_is_watched_keeps_nothing);
    TCase *large = suite_case(suite, "retired", open_large, pleat_close);
    tcase_add_test(large, a_stream_that_is_retired_after_its_capture_leaves_a_tick);
    TCase *unnamed = suite_case(suite, "not named yet", open_plain, pleat_close);
    tcase_add_test(unnamed, a_trim_that_does_not_wait_spares_a_capture_that_has_just_begun);
    tcase_add_test(unnamed, a_trim_waits_until_a_capture_that_has_just_begun_is_over);
    tcase_add_test(unnamed, a_request_waits_until_a_capture_that_has_just_begun_is_over);
    tcase_add_test(unnamed, who_made_captures_and_rests_is_not_waited_for_for_long);
    TCase *lasting = suite_case(suite, "may last", open_plain, pleat_close);
    tcase_add_test(lasting, who_is_refused_for_a_capture_that_may_last_learns_whose_it_is);
    tcase_add_test(lasting,
                   who_is_refused_for_a_capture_that_nobody_named_learns_where_the_memory_is);
}
