/* capture_beside_test.c - other streams' memory while a stream is captured. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>

#include "tests/support/segments/segments_captures.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20 };

#define SIM "capacity:128M,depth:1048576"

static void open_plain(void)
{
    pleat_open(SIM ",dead_handles:error", NULL); /* handles are recycled */
}

/* ---- beside a capture ---------------------------------------------------------------------- */

START_TEST(other_streams_go_on_and_the_capture_does_not_notice)
{
    pleat_get(GRANULE, 3);
    captures_begin(1);
    for (int i = 0; i < 100; i++) {
        pleat_put(pleat_get_and_use((size_t)(1 + i % 30) * MIB, 2), 2);
    }
    pleat_trim(0, false);
    captures_end(1); /* the capture is intact: no unsafe call was made */
}
END_TEST

/* A free records no tick on the only stream, which has another block. */
static pleat_devptr free_without_tick(size_t bytes)
{
    uint64_t before = pleat_calls("cuEventRecord");
    pleat_get(512, 1);
    pleat_devptr ptr = pleat_get_and_use(bytes, 1);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_calls("cuEventRecord"), before);
    return ptr;
}

START_TEST(a_captured_streams_memory_is_pending_for_others_where_no_tick_covers_it)
{
    pleat_devptr ptr = free_without_tick(100 * MIB);
    captures_begin_announced(1);
    uint64_t before = captures_n_forbidden();
    ck_assert_int_eq(pleat_refused(100 * MIB, 2), PLEAT_EPENDING);
    ck_assert_uint_eq(captures_n_forbidden(), before);
    captures_end_announced(1);
    ck_assert_uint_eq(pleat_get_and_use(100 * MIB, 2), ptr);
}
END_TEST

START_TEST(what_a_stream_freed_before_its_capture_is_ordered_after)
{
    pleat_get(GRANULE, 2);
    pleat_devptr ptr = pleat_get_and_use(100 * MIB, 1);
    pleat_put(ptr, 1);
    captures_begin(1);
    ck_assert_uint_eq(pleat_get_and_use(100 * MIB, 2), ptr);
    ck_assert_uint_eq(pleat_counted().stream_waits, 1);
    captures_end(1); /* the capture is intact */
}
END_TEST

START_TEST(a_third_streams_memory_is_used_beside_a_capture)
{
    pleat_devptr captured = pleat_get_and_use(60 * MIB, 1);
    pleat_devptr third = pleat_get_and_use(40 * MIB, 3);
    pleat_put(captured, 1);
    pleat_put(third, 3);
    captures_begin(1);
    pleat_get_and_use(60 * MIB, 2); /* 28 MiB are new, the rest is stream 3's */
    captures_end(1);
}
END_TEST

START_TEST(blocks_that_others_used_are_had_beside_a_captured_use)
{
    pleat_devptr captured = pleat_get_and_use(60 * MIB, 1);
    pleat_devptr free = pleat_get_and_use(60 * MIB, 1);
    pleat.sim.finish();
    captures_begin(2);
    pleat_record(captured, 2);
    pleat_put(captured, 1);
    pleat_record(free, 4);
    pleat_work(4, free, 60 * MIB);
    pleat_put(free, 1);
    ck_assert_int_eq(pleat_refused(60 * MIB, 3), PLEAT_EPENDING); /* no tick covers the use yet */
    captures_name_stream(4);
    ck_assert_uint_eq(pleat_get_and_use(60 * MIB, 3), free);
    captures_end(2);
}
END_TEST

START_TEST(a_use_by_a_captured_stream_is_not_over_before_its_end)
{
    pleat_devptr ptr = pleat_get_and_use(20 * MIB, 1);
    pleat.sim.finish();
    captures_begin(2);
    pleat_record(ptr, 2);
    pleat_work(2, ptr, 20 * MIB); /* in the capture, so the work is part of the graph */
    pleat_put(ptr, 1);
    ck_assert_uint_ne(pleat_get_and_use(20 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_counted().pending_bytes, 20 * MIB);
    captures_end(2);
}
END_TEST

START_TEST(what_only_a_captured_use_keeps_is_pending)
{
    pleat_devptr ptr = pleat_get_and_use(100 * MIB, 1);
    pleat.sim.finish();
    captures_begin(2);
    pleat_record(ptr, 2);
    pleat_put(ptr, 1);
    ck_assert_int_eq(pleat_refused(100 * MIB, 3), PLEAT_EPENDING);
    captures_end(2);
}
END_TEST

/* A new stream has the same handle, and only this new stream is captured. */
START_TEST(a_use_by_a_destroyed_stream_is_none_of_a_capture)
{
    cu_stream old = pleat.handles[2];
    pleat_devptr ptr = pleat_get_and_use(100 * MIB, 1);
    pleat_record(ptr, 2);
    pleat_renew_stream(2);
    ck_assert_ptr_eq(pleat.handles[2], old); /* else the test shows nothing */
    captures_begin(2);
    pleat_put(ptr, 1);
    captures_end(2);
    ck_assert_uint_eq(pleat_get_and_use(100 * MIB, 3), ptr);
}
END_TEST

static void open_settled(void)
{
    pleat_open_with(SIM, PL_CROSS_SETTLED, 1000);
}

START_TEST(waiting_for_a_captured_use_is_pending_too)
{
    pleat_devptr ptr = pleat_get_and_use(100 * MIB, 1);
    pleat.sim.finish();
    captures_begin(2);
    pleat_record(ptr, 2);
    pleat_put(ptr, 1);
    ck_assert_int_eq(pleat_refused(100 * MIB, 3), PLEAT_EPENDING);
    cu_graph graph = captures_end_with_graph(2);
    ck_assert_int_eq(pleat_refused(100 * MIB, 3), PLEAT_EPENDING); /* the graph lives */
    ck_assert_int_eq(captures_release(2), PLEAT_OK);
    ck_assert_int_eq(pleat_refused(100 * MIB, 3), PLEAT_EPENDING); /* the owner says otherwise */
    captures_destroy(graph);
    pleat_get_and_use(100 * MIB, 3);
}
END_TEST

START_TEST(uses_that_can_be_waited_for_are_beside_a_captured_one)
{
    pleat_devptr captured = pleat_get_and_use(60 * MIB, 1);
    pleat_devptr free = pleat_get_and_use(60 * MIB, 1);
    pleat.sim.finish();
    captures_begin(2);
    pleat_record(captured, 2);
    pleat_put(captured, 1);
    pleat_record(free, 4);
    pleat_work(4, free, 60 * MIB);
    pleat_put(free, 1);
    ck_assert_int_eq(pleat_refused(60 * MIB, 3), PLEAT_EPENDING); /* no tick covers the use yet */
    captures_name_stream(4);
    ck_assert_uint_eq(pleat_get_and_use(60 * MIB, 3), free);
    ck_assert_uint_eq(pleat_counted().stream_waits, 0);
    captures_end(2);
}
END_TEST

static void open_impatient(void)
{
    pleat_open_with(SIM, PL_CROSS_SETTLED, 0);
}

START_TEST(a_tick_that_a_capture_forbade_is_recorded_after_it)
{
    pleat_devptr ptr = free_without_tick(100 * MIB);
    captures_begin_announced(1);
    uint64_t before = captures_n_forbidden();
    uint64_t n_recorded = pleat_calls("cuEventRecord");
    ck_assert_int_eq(pleat_refused(100 * MIB, 2), PLEAT_EPENDING);
    captures_name_stream(1);
    ck_assert_uint_eq(captures_n_forbidden(), before);
    captures_end_announced(1);
    pleat_get(512, 1);
    ck_assert_uint_eq(pleat_calls("cuEventRecord"), n_recorded + 1);
    ck_assert_int_eq(pleat_refused(100 * MIB, 2), PLEAT_EPENDING);
    pleat.sim.finish();
    ck_assert_uint_eq(pleat_get_and_use(100 * MIB, 2), ptr);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

START_TEST(a_trim_beside_a_capture_gives_back_what_it_can)
{
    free_without_tick(20 * MIB);
    pleat_put(pleat_get_and_use(20 * MIB, 2), 2);
    uint64_t shared = pleat_counted().resident_bytes - 40 * MIB; /* resident beside a live block */
    captures_begin_announced(1);
    uint64_t released = 4711;
    pleat_status st = pleat.a->ops->trim(pleat.a, 0, true, &released);
    ck_assert_int_eq(st, PLEAT_EPENDING); /* a captured stream cannot be waited for */
    ck_assert_uint_eq(pleat_counted().resident_bytes, 20 * MIB + shared);
    captures_end_announced(1);
    ck_assert_uint_eq(pleat_trim(0, true), 20 * MIB);
}
END_TEST

START_TEST(a_limit_that_needs_a_captured_streams_memory_is_refused)
{
    free_without_tick(20 * MIB);
    pleat_get(GRANULE, 2);
    captures_begin_announced(1);
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, 10 * MIB), PLEAT_EPENDING);
    captures_end_announced(1);
    pleat_get_and_use(50 * MIB, 2); /* no limit is set, as before */
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, 60 * MIB), PLEAT_OK);
}
END_TEST

SUITE(segments_capture_beside)
{
    TCase *beside = suite_case(suite, "beside", open_plain, pleat_close);
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
    TCase *settled = suite_case(suite, "settled only", open_settled, pleat_close);
    tcase_add_test(settled, waiting_for_a_captured_use_is_pending_too);
    tcase_add_test(settled, uses_that_can_be_waited_for_are_beside_a_captured_one);
    TCase *impatient = suite_case(suite, "no waiting", open_impatient, pleat_close);
    tcase_add_test(impatient, a_tick_that_a_capture_forbade_is_recorded_after_it);
}
