/* left_test.c - what an undo cannot give back is tried again, and told at the end. */
/* labels: unit fault */
#include <check.h>

#include "tests/support/suite.h"
#include "tests/support/vmm/vmm_sim.h"
#include "vmm/left.h"
#include "vmm/range.h"
#include "vmm/streams/graph_watch.h"

enum { GRANULE = 2 << 20, N_KINDS = PL_LEFT_STREAM + 1 };

static vmm_sim sim;
static pl_device *dev;
static pl_range range;
static cu_mem_handle memory; /* 0 = none, or the test gives it back */
static cu_graph graph;
static const cu_mem_prop prop = { .type = CU_ALLOCATION_PINNED,
                                  .location = { .type = CU_LOCATION_DEVICE, .id = 0 } };

static const char *const calls[] = { "cuMemUnmap",        "cuMemRelease",
                                     "cuMemAddressFree",  "cuUserObjectRelease",
                                     "cuEventDestroy_v2", "cuStreamDestroy_v2" };

static void destroyed(void *context)
{
    (void)context;
}

static void open_sim(void)
{
    vmm_sim_open(&sim, "capacity:64M");
    dev = vmm_sim_device(&sim, NULL);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
}

static void make_range(void)
{
    ck_assert_int_eq(pl_range_reserve(dev, GRANULE, GRANULE, &range), PLEAT_OK);
}

static void make_memory(void)
{
    ck_assert_int_eq(pl_cu_mem_create(sim.drv, &memory, GRANULE, &prop, 0), CU_SUCCESS);
}

/* Make a thing of the kind, and undo it. */
static void make_and_undo(pl_left_kind kind)
{
    cu_event event;
    cu_stream stream;
    cu_user_object object;
    switch (kind) {
    case PL_LEFT_MAPPING:
        make_range();
        make_memory();
        ck_assert_int_eq(pl_cu_mem_map(sim.drv, range.base, GRANULE, 0, memory, 0), CU_SUCCESS);
        pl_left_undo(dev, kind, range.base, GRANULE);
        pl_left_undo(dev, PL_LEFT_HANDLE, memory, 0);
        pl_left_undo(dev, PL_LEFT_RANGE, range.base, GRANULE);
        return;
    case PL_LEFT_HANDLE:
        make_memory();
        pl_left_undo(dev, kind, memory, 0);
        return;
    case PL_LEFT_RANGE:
        make_range();
        pl_left_undo(dev, kind, range.base, GRANULE);
        return;
    case PL_LEFT_OBJECT:
        ck_assert_int_eq(
            pl_cu_user_object_create(sim.drv, &object, &graph, destroyed, 1, CU_OBJECT_UNSYNCED),
            CU_SUCCESS);
        pl_left_undo(dev, kind, (uintptr_t)object, 0);
        return;
    case PL_LEFT_EVENT:
        ck_assert_int_eq(pl_cu_event_create(sim.drv, &event, CU_EVENT_DISABLE_TIMING_FLAG),
                         CU_SUCCESS);
        pl_left_undo(dev, kind, (uintptr_t)event, 0);
        return;
    default:
        ck_assert_int_eq(pl_cu_stream_create(sim.drv, &stream, CU_STREAM_NON_BLOCKING_FLAG),
                         CU_SUCCESS);
        pl_left_undo(dev, kind, (uintptr_t)stream, 0);
    }
}

static uint64_t n_objects(void)
{
    pleat_sim_counts n = vmm_sim_counted(&sim);
    return n.reservations + n.handles + n.mappings + n.events + n.streams + n.user_objects;
}

static void close_sim(size_t n_held)
{
    pl_device_leave(dev);
    ck_assert_uint_eq(pl_device_close(dev), n_held);
    sim.fail_never();
    pl_driver_close(sim.drv);
}

START_TEST(one_refusal_leaves_nothing)
{
    open_sim();
    sim.fail_at(calls[_i], 0, CU_UNKNOWN);
    make_and_undo((pl_left_kind)_i);
    ck_assert_uint_eq(n_objects(), 0);
    ck_assert_uint_eq(pl_device_counted(dev).n_undo_failures, 0);
    close_sim(0);
}
END_TEST

START_TEST(what_is_refused_is_tried_again)
{
    open_sim();
    sim.fail_from(calls[_i], 0, CU_UNKNOWN);
    make_and_undo((pl_left_kind)_i);
    uint64_t n_left = n_objects();
    ck_assert_uint_ge(n_left, 1);
    ck_assert_uint_ge(pl_device_counted(dev).n_undo_failures, 1);
    pl_left_retry(dev);
    ck_assert_uint_eq(n_objects(), n_left);
    sim.fail_never();
    pl_left_retry(dev);
    ck_assert_uint_eq(n_objects(), 0);
    ck_assert_uint_eq(pl_device_counted(dev).address_bytes, 0);
    close_sim(0);
}
END_TEST

START_TEST(the_end_tries_again)
{
    open_sim();
    sim.fail_from(calls[_i], 0, CU_UNKNOWN);
    make_and_undo((pl_left_kind)_i);
    sim.fail_never();
    close_sim(0);
}
END_TEST

START_TEST(the_end_tells_what_is_left)
{
    open_sim();
    sim.fail_from(calls[_i], 0, CU_UNKNOWN);
    make_and_undo((pl_left_kind)_i);
    close_sim(_i == PL_LEFT_MAPPING ? 2 : 1); /* addresses stay with their mapping */
}
END_TEST

/* A refused creation ends where it began, a refused attachment at its undo. */
START_TEST(a_watch_that_is_not_attached_leaves_no_object)
{
    pl_graph_watch *watch = NULL;
    open_sim();
    cu_stream stream = vmm_sim_stream(dev, false);
    ck_assert_int_eq(pl_cu_stream_begin_capture(sim.drv, stream, CU_CAPTURE_MODE_RELAXED),
                     CU_SUCCESS);
    ck_assert_int_eq(pl_cu_stream_end_capture(sim.drv, stream, &graph), CU_SUCCESS);
    vmm_sim_destroy_stream(dev, stream);
    sim.fail_at("cuGraphRetainUserObject", 0, CU_UNKNOWN);
    sim.fail_from("cuUserObjectRelease", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_graph_watch_begin(dev, graph, &watch), PLEAT_EDRIVER);
    ck_assert_uint_eq(vmm_sim_counted(&sim).user_objects, 1);
    sim.fail_never();
    pl_left_retry(dev);
    ck_assert_uint_eq(vmm_sim_counted(&sim).user_objects, 0);
    ck_assert_int_eq(pl_cu_graph_destroy(sim.drv, graph), CU_SUCCESS);
    close_sim(0);
}
END_TEST

SUITE(vmm_left)
{
    TCase *kinds = suite_case(suite, "kinds", NULL, NULL);
    tcase_add_loop_test(kinds, one_refusal_leaves_nothing, 0, N_KINDS);
    tcase_add_loop_test(kinds, what_is_refused_is_tried_again, 0, N_KINDS);
    tcase_add_loop_test(kinds, the_end_tries_again, 0, N_KINDS);
    tcase_add_loop_test(kinds, the_end_tells_what_is_left, 0, N_KINDS);
    tcase_add_test(kinds, a_watch_that_is_not_attached_leaves_no_object);
}
