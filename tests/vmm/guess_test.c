/* guess_test.c - the guess that a handle still names the stream last seen under this handle. */
/* labels: unit */
#include <check.h>

#include "tests/support/suite.h"
#include "tests/support/vmm/vmm_sim.h"
#include "vmm/streams/stream.h"

static vmm_sim sim;
static pl_device *dev;

static void open_sim(void)
{
    vmm_sim_open(&sim, "capacity:1G");
    dev = vmm_sim_device(&sim, NULL);
}

static void close_sim(void)
{
    vmm_sim_close_device(dev);
    vmm_sim_close(&sim);
}

static pl_stream *get(void *handle)
{
    pl_stream *stream = NULL;
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_OK);
    return stream;
}

static pl_stream *guess(void *handle)
{
    pl_stream *stream = NULL;
    ck_assert_int_eq(pl_stream_guess(dev, handle, &stream), PLEAT_OK);
    return stream;
}

START_TEST(a_guess_costs_no_call_until_the_handle_is_known_to_be_anothers)
{
    cu_stream handle = vmm_sim_stream(dev, false);
    pl_stream *first = guess(handle); /* a new handle, so the driver is asked */
    ck_assert_uint_ne(pl_stream_id(first), (uintptr_t)handle);
    vmm_sim_destroy_stream(dev, handle);
    ck_assert_ptr_eq(vmm_sim_stream(dev, false), handle);
    uint64_t n_calls = vmm_sim_counted(&sim).calls;
    ck_assert_ptr_eq(guess(handle), first);
    ck_assert_uint_eq(vmm_sim_counted(&sim).calls, n_calls);
    pl_stream *second = get(handle);
    ck_assert_ptr_ne(second, first);
    n_calls = vmm_sim_counted(&sim).calls;
    ck_assert_ptr_eq(guess(handle), second);
    ck_assert_uint_eq(vmm_sim_counted(&sim).calls, n_calls);
    vmm_sim_destroy_stream(dev, handle);
}
END_TEST

/* A failed fence has found out. */
START_TEST(no_guess_is_a_stream_that_is_known_to_be_gone)
{
    cu_stream handle = vmm_sim_stream(dev, false);
    pl_stream *first = get(handle);
    pl_fence *fence = NULL;
    vmm_sim_destroy_stream(dev, handle);
    ck_assert_ptr_eq(vmm_sim_stream(dev, false), handle);
    ck_assert_ptr_eq(guess(handle), first);
    ck_assert_int_eq(pl_fence_record(first, &fence), PLEAT_OK);
    ck_assert(pl_fence_is_whole_device(fence));
    pl_fence_return(fence);
    ck_assert_ptr_ne(guess(handle), first);
    vmm_sim_destroy_stream(dev, handle);
}
END_TEST

static void begin_capture(cu_stream handle)
{
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_begin_capture(sim.drv, handle, CU_CAPTURE_MODE_GLOBAL), 0);
    pl_device_leave(dev);
}

static void end_capture(cu_stream handle)
{
    cu_graph graph = NULL;
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_end_capture(sim.drv, handle, &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(sim.drv, graph), CU_SUCCESS);
    pl_device_leave(dev);
}

/* For streams with an id, and for streams without one yet. */
START_TEST(after_a_capture_nothing_is_guessed)
{
    cu_stream handle = vmm_sim_stream(dev, false);
    pl_capture_info info = { .is_asked = false };
    pl_stream *stream = _i == 0 ? get(handle) : NULL;
    pl_stream *seen = NULL;
    begin_capture(handle);
    ck_assert_int_eq(pl_stream_get_asked(dev, handle, &info, &seen), PLEAT_OK);
    ck_assert(info.is_asked && info.is_capturing && info.id != 0 && info.graph != NULL);
    ck_assert(stream == NULL || seen == stream);
    ck_assert_ptr_eq(guess(handle), seen);
    end_capture(handle);
    vmm_sim_destroy_stream(dev, handle);
    ck_assert_ptr_eq(vmm_sim_stream(dev, false), handle);
    pl_stream *next = guess(handle);
    ck_assert(_i == 1 || next != seen); /* without an id the stream counts as the same */
    ck_assert_uint_ne(pl_stream_id(next), (uintptr_t)handle);
    uint64_t n_calls = vmm_sim_counted(&sim).calls;
    ck_assert_ptr_eq(guess(handle), next);
    ck_assert_uint_eq(vmm_sim_counted(&sim).calls, n_calls);
    ck_assert_int_eq(pl_stream_get_asked(dev, NULL, &info, &seen), PLEAT_OK);
    ck_assert(!info.is_asked);
    vmm_sim_destroy_stream(dev, handle);
}
END_TEST

START_TEST(where_memory_is_open_to_peers_nothing_is_guessed)
{
    static const pl_device_options options = { .peers = true };
    vmm_sim_close_device(dev);
    vmm_sim_close(&sim);
    vmm_sim_open(&sim, "devices:2,capacity:1G");
    dev = vmm_sim_device(&sim, &options);
    cu_stream handle = vmm_sim_stream(dev, false);
    pl_stream *first = get(handle);
    vmm_sim_destroy_stream(dev, handle);
    ck_assert_ptr_eq(vmm_sim_stream(dev, false), handle);
    ck_assert_ptr_ne(guess(handle), first);
    vmm_sim_destroy_stream(dev, handle);
}
END_TEST

SUITE(vmm_guess)
{
    TCase *tests = suite_case(suite, "guess", open_sim, close_sim);
    tcase_add_test(tests, a_guess_costs_no_call_until_the_handle_is_known_to_be_anothers);
    tcase_add_test(tests, no_guess_is_a_stream_that_is_known_to_be_gone);
    tcase_add_loop_test(tests, after_a_capture_nothing_is_guessed, 0, 2);
    tcase_add_test(tests, where_memory_is_open_to_peers_nothing_is_guessed);
}
