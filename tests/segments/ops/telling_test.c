/* telling_test.c - pleat's reported events agree with its state. */
/* labels: unit fault model */
#include <check.h>
#include <stdlib.h>

#include "tests/support/release.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/segments/segments_told.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20, N_BLOCKS = 96, N_STEPS = 4000, N_FAULTS = 18 };

static pleat_devptr ptrs[N_BLOCKS];

static void open_on(const char *sim)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.observer = told_open();
    pleat_open(sim, &options);
}

static void setup(void)
{
    open_on("capacity:64M,depth:1048576");
}

static void setup_wide(void)
{
    open_on("capacity:256M,depth:16");
}

static void teardown(void)
{
    if (pleat.a != NULL) {
        told_assert_agrees(pleat.a);
    }
    pleat_close();
}

/* ---- single cases ---------------------------------------------------------------------------- */

START_TEST(a_block_is_told_after_its_memory)
{
    pleat_devptr ptr = pleat_get(1000, 1);
    ck_assert_uint_eq(told_count(PL_ACTION_SEGMENT_MAP), 1);
    ck_assert_uint_eq(told_count(PL_ACTION_ALLOC), 1);
    told_assert_agrees(pleat.a);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(told_count(PL_ACTION_FREE_REQUESTED), 1);
    ck_assert_uint_eq(told_count(PL_ACTION_FREE_COMPLETED), 1);
}
END_TEST

START_TEST(a_free_with_recorded_uses_completes_when_they_are_over)
{
    pleat_devptr ptr = pleat_get(GRANULE, 1);
    pleat_work_after(2, 1, ptr, GRANULE);
    pleat_record(ptr, 2);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(told_count(PL_ACTION_FREE_REQUESTED), 1);
    ck_assert_uint_eq(told_count(PL_ACTION_FREE_COMPLETED), 0);
    told_assert_agrees(pleat.a);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(told_count(PL_ACTION_FREE_COMPLETED), 1);
    ck_assert_uint_eq(told_count(PL_ACTION_SEGMENT_UNMAP), 1);
}
END_TEST

START_TEST(what_a_capture_keeps_is_completed_at_its_release)
{
    ck_assert_int_eq(
        pl_cu_stream_begin_capture(pleat.sim.drv, pleat.handles[1], CU_CAPTURE_MODE_GLOBAL),
        CU_SUCCESS);
    pleat_devptr ptr = pleat_get(GRANULE, 1);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(told_count(PL_ACTION_FREE_COMPLETED), 0);
    told_assert_agrees(pleat.a);
    cu_graph graph = NULL;
    ck_assert_int_eq(pl_cu_stream_end_capture(pleat.sim.drv, pleat.handles[1], &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(pleat.sim.drv, graph), CU_SUCCESS);
    ck_assert_int_eq(release_capture(pleat.a, pleat.streams[1]), PLEAT_OK);
    ck_assert_uint_eq(told_count(PL_ACTION_FREE_COMPLETED), 1);
}
END_TEST

START_TEST(a_taken_chunk_leaves_its_place_when_it_is_taken)
{
    for (int i = 0; i < 32; i++) {
        ptrs[i] = pleat_get(GRANULE, 1);
    }
    for (int i = 0; i < 32; i += 2) {
        pleat_put(ptrs[i], 1);
    }
    pleat_devptr big = pleat_get((size_t)16 * GRANULE, 1);
    ck_assert_uint_eq(told_count(PL_ACTION_SEGMENT_UNMAP), 16);
    told_assert_agrees(pleat.a);
    pleat_put(big, 1);
}
END_TEST

START_TEST(a_request_that_fails_leaves_nothing_told)
{
    ptrs[0] = pleat_get((size_t)30 * GRANULE, 1);
    size_t n_mapped = told_count(PL_ACTION_SEGMENT_MAP);
    ck_assert_int_eq(pleat_refused((size_t)4 * GRANULE, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(told_count(PL_ACTION_SEGMENT_MAP), n_mapped);
    ck_assert_uint_eq(told_count(PL_ACTION_SEGMENT_UNMAP), 0);
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

/* A request takes chunks while the k-th of its mapping calls fails. With `also_later` all later
 * calls fail, and so does the undo. */
static void take_with_fault(int k, bool also_later)
{
    for (int i = 0; i < 32; i++) {
        ptrs[i] = pleat_get(GRANULE, 1);
    }
    for (int i = 0; i < 32; i += 2) {
        pleat_put(ptrs[i], 1);
    }
    pleat_devptr big = 0;
    (also_later ? pleat.sim.fail_from : pleat.sim.fail_at)(NULL, (uint64_t)k, 999);
    pleat_status st = pleat.a->ops->alloc(pleat.a, (size_t)16 * GRANULE, pleat.streams[1], &big);
    pleat.sim.fail_never();
    told_assert_agrees(pleat.a);
    ck_assert_int_eq(pleat.a->ops->check(pleat.a), 0);
    uint64_t released;
    (void)pleat.a->ops->trim(pleat.a, 0, true, &released);
    told_assert_agrees(pleat.a);
    if (st == PLEAT_OK) {
        ck_assert_int_eq(pleat.a->ops->free(pleat.a, big, pleat.streams[1]), PLEAT_OK);
    }
    told_assert_agrees(pleat.a);
    pleat.has_failed_undo = pl_device_counted(pleat.dev).n_undo_failures > 0;
}

START_TEST(one_driver_call_fails)
{
    take_with_fault(_i, false);
}
END_TEST

START_TEST(every_driver_call_fails_from_one_on)
{
    take_with_fault(_i, true);
}
END_TEST

/* A request maps the holes on both sides of a free block. If the second hole cannot be mapped and
 * the first cannot be unmapped again, the first is lost, and no request gets it. */
START_TEST(a_hole_that_stays_mapped_is_no_hole_any_more)
{
    for (int i = 0; i < 4; i++) {
        ptrs[i] = pleat_get(GRANULE, 1);
    }
    pleat_put(ptrs[0], 1);
    pleat_put(ptrs[2], 1);
    (void)pleat_trim(0, true);
    pleat_put(ptrs[1], 1);
    pleat_devptr big = 0;
    pleat.sim.fail_from(NULL, (uint64_t)_i, 999);
    pleat_status st = pleat.a->ops->alloc(pleat.a, (size_t)3 * GRANULE, pleat.streams[1], &big);
    pleat.sim.fail_never();
    told_assert_agrees(pleat.a);
    ck_assert_int_eq(pleat.a->ops->check(pleat.a), 0);
    ck_assert_uint_eq(st == PLEAT_OK ? big : ptrs[0], ptrs[0]);
    if (st != PLEAT_OK) {
        pleat_get((size_t)3 * GRANULE, 1);
    }
    told_assert_agrees(pleat.a);
    pleat.has_failed_undo = pl_device_counted(pleat.dev).n_undo_failures > 0;
}
END_TEST

/* ---- at random ------------------------------------------------------------------------------- */

static void step(random_source *r)
{
    pleat_devptr *ptr = &ptrs[random_below(r, N_BLOCKS)];
    pl_stream *stream = pleat.streams[random_below(r, 4)];
    size_t bytes = random_spread(r, 24 * MIB);
    uint64_t released;
    pl_allocator *a = pleat.a;

    if (*ptr == 0) {
        *ptr = a->ops->alloc(a, bytes, stream, ptr) == PLEAT_OK ? *ptr : 0;
        return;
    }
    size_t what = random_below(r, 64);
    if (what == 0) {
        (void)a->ops->trim(a, 4 * bytes, random_once_in(r, 2), &released);
    } else if (what == 1) {
        (void)a->ops->set_limit(a, 128 * MIB + 4 * bytes);
    } else if (what == 2) {
        (void)a->ops->set_limit(a, 0);
    } else if (what < 10) {
        ck_assert_int_eq(a->ops->record_stream(a, *ptr, stream), PLEAT_OK);
    } else {
        ck_assert_int_eq(a->ops->free(a, *ptr, stream), PLEAT_OK);
        *ptr = 0;
    }
}

START_TEST(any_order_of_calls_is_told_truly)
{
    random_source r = { 77 + (uint64_t)_i };
    for (int n = 0; n < N_STEPS; n++) {
        if (random_once_in(&r, 50)) {
            pleat.sim.fail_at(NULL, random_below(&r, 6), 2);
        }
        step(&r);
        pleat.sim.fail_never();
        told_assert_agrees(pleat.a);
    }
    ck_assert_uint_gt(told_count(PL_ACTION_SEGMENT_UNMAP), 10);
    pleat.has_failed_undo = pl_device_counted(pleat.dev).n_undo_failures > 0;
}
END_TEST

START_TEST(what_is_off_hears_nothing)
{
    pl_observer *observer = told_open();
    observer->is_on = false;
    pleat_devptr ptr = pleat_get(1000, 1);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(told_count(PL_ACTION_ALLOC) + told_count(PL_ACTION_SEGMENT_MAP), 0);
    (void)pleat_trim(0, true);
}
END_TEST

SUITE(segments_telling)
{
    TCase *cases = tcase_create("single cases");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, a_block_is_told_after_its_memory);
    tcase_add_test(cases, a_free_with_recorded_uses_completes_when_they_are_over);
    tcase_add_test(cases, what_a_capture_keeps_is_completed_at_its_release);
    tcase_add_test(cases, a_taken_chunk_leaves_its_place_when_it_is_taken);
    tcase_add_test(cases, a_request_that_fails_leaves_nothing_told);
    tcase_add_test(cases, what_is_off_hears_nothing);
    suite_add_tcase(suite, cases);

    TCase *faults = tcase_create("faults");
    tcase_add_checked_fixture(faults, setup, teardown);
    tcase_add_loop_test(faults, one_driver_call_fails, 0, N_FAULTS);
    tcase_add_loop_test(faults, every_driver_call_fails_from_one_on, 0, N_FAULTS);
    tcase_add_loop_test(faults, a_hole_that_stays_mapped_is_no_hole_any_more, 0, N_FAULTS);
    suite_add_tcase(suite, faults);

    TCase *random = tcase_create("at random");
    tcase_add_checked_fixture(random, setup_wide, teardown);
    tcase_add_loop_test(random, any_order_of_calls_is_told_truly, 0, 4);
    suite_add_tcase(suite, random);
}
