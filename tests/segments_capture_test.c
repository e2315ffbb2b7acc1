/* segments_capture_test.c - memory and streams while a stream is captured. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/segments_sim.h"

enum { GRANULE = 2 << 20, N_GRANULES = 64 };

static void open_plain(void)
{
    pleat_open("capacity:128M,depth:1048576", NULL);
}

static void begin(unsigned stream)
{
    ck_assert_int_eq(
        pl_cu_stream_begin_capture(pleat.sim.drv, pleat.handles[stream], CU_CAPTURE_MODE_GLOBAL),
        CU_SUCCESS);
}

/* The capture went well to its end; its graph is forgotten at once. */
static void end(unsigned stream)
{
    cu_graph graph = NULL;
    ck_assert_int_eq(pl_cu_stream_end_capture(pleat.sim.drv, pleat.handles[stream], &graph),
                     CU_SUCCESS);
    ck_assert_ptr_nonnull(graph);
    ck_assert_int_eq(pl_cu_graph_destroy(pleat.sim.drv, graph), CU_SUCCESS);
}

static pleat_status release(unsigned stream)
{
    pleat_status st = pleat.a->ops->release_capture(pleat.a, pleat.streams[stream]);
    pleat_assert_sound();
    return st;
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
                                         "cuStreamSynchronize", "cuMemUnmap" };
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

START_TEST(blocks_freed_during_a_capture_are_kept_until_it_is_released)
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
    end(1);
    ck_assert_uint_ne(pleat_get(20 * MIB, 1), ptr);
    ck_assert_int_eq(release(2), PLEAT_OK); /* another stream's capture */
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    ck_assert_int_eq(release(1), PLEAT_OK);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 0);
    ck_assert_uint_eq(pleat_get(20 * MIB, 1), ptr);
}
END_TEST

START_TEST(blocks_born_in_a_capture_are_kept_when_they_are_freed_later)
{
    begin(1);
    pleat_devptr ptr = pleat_get(20 * MIB, 1);
    pleat_work(1, ptr, 20 * MIB);
    end(1);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 10);
    ck_assert_uint_ne(pleat_get(20 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_trim(0, true), 0);
    ck_assert_int_eq(release(1), PLEAT_OK);
    ck_assert_uint_eq(pleat_trim(0, true), 20 * MIB);
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
    end(1);
    ck_assert_int_eq(pleat_refused(40 * MIB, 2), PLEAT_ENOMEM_DEVICE);
    get_and_use(28 * MIB, 2);
    ck_assert_int_eq(release(1), PLEAT_OK);
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
    end(1);
    ck_assert_int_eq(release(1), PLEAT_OK);
    ck_assert_uint_eq(pleat_counted().pending_bytes, 20 * MIB);
    ck_assert_uint_ne(get_and_use(20 * MIB, 1), ptr);
    pleat.sim.finish();
    ck_assert_uint_eq(get_and_use(20 * MIB, 1), ptr);
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

START_TEST(a_captured_streams_memory_is_pending_for_others)
{
    pleat_get(GRANULE, 2);
    pleat_put(get_and_use(100 * MIB, 1), 1);
    begin(1);
    ck_assert_int_eq(pleat_refused(100 * MIB, 2), PLEAT_EPENDING);
    end(1);
    get_and_use(100 * MIB, 2);
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
    end(2);
    ck_assert_int_eq(pleat_refused(100 * MIB, 3), PLEAT_EPENDING); /* the graph lives */
    ck_assert_int_eq(release(2), PLEAT_OK);
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
    pleat_devptr ptr = get_and_use(100 * MIB, 1);
    pleat_get(GRANULE, 2);
    pleat_put(ptr, 1);
    begin(1);
    ck_assert_int_eq(pleat_refused(100 * MIB, 2), PLEAT_EPENDING);
    end(1);
    ck_assert_int_eq(pleat_refused(100 * MIB, 2), PLEAT_EPENDING);
    pleat.sim.finish();
    ck_assert_uint_eq(get_and_use(100 * MIB, 2), ptr);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

START_TEST(a_trim_beside_a_capture_gives_back_what_it_can)
{
    pleat_devptr captured = get_and_use(20 * MIB, 1);
    pleat_devptr other = get_and_use(20 * MIB, 2);
    pleat_put(captured, 1);
    pleat_put(other, 2);
    begin(1);
    uint64_t released = 4711;
    pleat_status st = pleat.a->ops->trim(pleat.a, 0, true, &released);
    ck_assert_int_eq(st, PLEAT_EPENDING); /* stream 1 cannot be waited for now */
    ck_assert_uint_eq(pleat_counted().resident_bytes, 20 * MIB);
    end(1);
    ck_assert_uint_eq(pleat_trim(0, true), 20 * MIB);
}
END_TEST

START_TEST(a_limit_that_needs_a_captured_streams_memory_is_refused)
{
    pleat_devptr captured = get_and_use(20 * MIB, 1);
    pleat_get(GRANULE, 2);
    pleat_put(captured, 1);
    begin(1);
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, 10 * MIB), PLEAT_EPENDING);
    end(1);
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
    tcase_add_test(kept, blocks_freed_during_a_capture_are_kept_until_it_is_released);
    tcase_add_test(kept, blocks_born_in_a_capture_are_kept_when_they_are_freed_later);
    tcase_add_test(kept, a_second_free_of_a_kept_block_is_named);
    tcase_add_test(kept, kept_memory_is_never_taken);
    tcase_add_test(kept, a_kept_block_that_others_use_waits_for_them_too);
    tcase_add_test(kept, releasing_what_was_never_captured_is_fine);
    tcase_add_test(kept, destruction_takes_kept_blocks_along);
    TCase *beside = add_case(suite, "beside", open_plain);
    tcase_add_test(beside, other_streams_go_on_and_the_capture_does_not_notice);
    tcase_add_test(beside, a_captured_streams_memory_is_pending_for_others);
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
