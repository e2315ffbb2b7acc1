/* green_test.c - streams of green contexts, and handle 0 while one is current: no memory that they
 * used is given out before their work is over. */
/* labels: unit */
#include <check.h>
#include <stdio.h>

#include "api/adapters/pleat_torch.h"
#include "api/calls/internal.h"
#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"
#include "tests/support/vmm/vmm_green.h"
#include "vmm/driver.h"

enum { MIB = 1 << 20, MOST = 24 * MIB, SMALL = 4096 };

static pleat instance;
static pl_driver *drv;
static vmm_green green;
static void *own;

/* A device with room for one block of MOST bytes. */
static void begin_with(const char *more)
{
    char conf[128];
    snprintf(conf, sizeof conf, "capacity:32M,depth:1000000%s", more);
    instance = api_torch_make(API_PLEAT, conf, "");
    own = api_stream(instance, 0);
    drv = pl_device_driver(pleat_internal_device(instance, 0));
    vmm_green_make(drv, &green);
}

static void end_green(void)
{
    api_stream_end(instance, 0, green.stream);
    vmm_green_end(&green);
}

static void end(void)
{
    api_check(instance);
    api_stream_end(instance, 0, own);
    api_unmake(instance);
}

static void work(void *on, pleat_devptr ptr, size_t bytes)
{
    pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
    ck_assert_int_eq(sim.work(on, &access, 1), 0);
}

/* A block that is written, and freed in a call that names the stream. */
static pleat_devptr use(void *on, size_t bytes)
{
    pleat_devptr ptr = api_alloc(instance, 0, bytes, on);
    work(on, ptr, bytes);
    api_free(instance, 0, ptr, on);
    return ptr;
}

static void expect_no_hazard(void)
{
    pleat_sim_hazard hazard;
    if (sim.hazards(&hazard, 1) != 0) {
        ck_abort_msg("hazard: %s", hazard.text);
    }
}

static const char *const drivers[] = { "", ",unkind:[green_events]" };
enum { N_DRIVERS = sizeof drivers / sizeof drivers[0] };

/* ---- their streams --------------------------------------------------------------------------- */

START_TEST(what_a_green_stream_used_is_given_on_after_its_work)
{
    begin_with(drivers[_i]);
    for (unsigned n = 0; n < 20; n++) {
        use(green.stream, MOST);
        use(own, MOST);
        use(NULL, MOST);
    }
    expect_no_hazard();
    end_green();
    end();
}
END_TEST

/* Small blocks of several streams, so that settled memory is used again and nothing is short. */
START_TEST(small_blocks_of_a_green_stream_meet_no_hazard)
{
    begin_with(drivers[_i]);
    for (unsigned n = 0; n < 3000; n++) {
        size_t bytes = SMALL << n % 6;
        pleat_devptr ptr = api_alloc(instance, 0, bytes, n % 3 == 0 ? green.stream : own);
        work(n % 3 == 0 ? (void *)green.stream : own, ptr, bytes);
        ck_assert_int_eq(pleat_block_record_stream(instance, 0, ptr, green.stream), PLEAT_OK);
        work(green.stream, ptr, 0);
        api_free(instance, 0, ptr, n % 3 == 0 ? green.stream : own);
        if (n % 500 == 499) {
            sim.finish();
        }
    }
    expect_no_hazard();
    end_green();
    end();
}
END_TEST

/* No event of such a stream can be asked, so what it frees is over behind an event of the context,
 * which is recorded once that is worth it, and before memory is short. */
START_TEST(what_a_green_stream_frees_asks_for_an_event_of_the_context)
{
    enum { N_CALLS = 4096 };
    begin_with(drivers[N_DRIVERS - 1]);
    pleat_devptr held = api_alloc(instance, 0, MOST - 4 * MIB, own);
    for (int i = 0; i < N_CALLS; i += 4) {
        use(own, SMALL);
        use(green.stream, SMALL);
    }
    ck_assert_uint_gt(sim.n_calls("cuCtxRecordEvent"), 0);
    api_free(instance, 0, held, own);
    expect_no_hazard();
    end_green();
    end();
}
END_TEST

START_TEST(a_green_context_ends_while_its_work_goes_on)
{
    begin_with(drivers[_i]);
    use(green.stream, MOST);
    end_green();
    use(own, MOST);
    expect_no_hazard();
    end();
}
END_TEST

/* The call names a stream that can only be destroyed any more. */
START_TEST(a_block_is_freed_on_a_detached_stream)
{
    begin_with(drivers[_i]);
    pleat_devptr ptr = api_alloc(instance, 0, MOST, green.stream);
    work(green.stream, ptr, MOST);
    vmm_green_end(&green);
    ck_assert_int_eq(pleat_block_free(instance, 0, ptr, green.stream), PLEAT_ESTREAM);
    ck_assert_int_eq(pleat_block_free(instance, 0, ptr, own), PLEAT_OK);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, SMALL, green.stream, &ptr), PLEAT_EDRIVER);
    api_stream_end(instance, 0, green.stream);
    use(own, MOST);
    expect_no_hazard();
    end();
}
END_TEST

START_TEST(a_green_stream_is_captured)
{
    cu_graph graph;
    begin_with(drivers[_i]);
    use(green.stream, SMALL);
    ck_assert_int_eq(pl_device_enter(pleat_internal_device(instance, 0)), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_begin_capture(drv, green.stream, CU_CAPTURE_MODE_RELAXED), 0);
    use(green.stream, 10 * MIB);
    pleat_devptr ptr;
    pleat_status st = pleat_block_alloc(instance, 0, MOST, own, &ptr);
    ck_assert(st == PLEAT_ENOMEM_DEVICE || st == PLEAT_EPENDING);
    ck_assert_int_eq(pl_cu_stream_end_capture(drv, green.stream, &graph), 0);
    ck_assert_int_eq(pl_cu_graph_destroy(drv, graph), 0);
    pl_device_leave(pleat_internal_device(instance, 0));
    use(green.stream, SMALL);
    use(own, MOST);
    expect_no_hazard();
    end_green();
    end();
}
END_TEST

START_TEST(a_driver_whose_events_leave_green_contexts_out_gets_no_such_stream)
{
    pleat_devptr ptr;
    begin_with(",unkind:[green_apart]");
    ck_assert_int_eq(pleat_block_alloc(instance, 0, MIB, green.stream, &ptr), PLEAT_ESTREAM);
    vmm_green_push(&green);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, MIB, NULL, &ptr), PLEAT_ESTREAM);
    vmm_green_pop(&green);
    use(NULL, MOST);
    use(own, MOST);
    expect_no_hazard();
    end_green();
    end();
}
END_TEST

/* ---- handle 0 -------------------------------------------------------------------------------- */

/* The first call with handle 0 is made under the green context. */
START_TEST(handle_0_is_the_current_context_s_stream)
{
    begin_with(drivers[_i]);
    for (unsigned n = 0; n < 20; n++) {
        vmm_green_push(&green);
        use(NULL, SMALL << n % 4);
        use(NULL, MOST);
        vmm_green_pop(&green);
        use(NULL, SMALL << n % 4);
        use(NULL, MOST);
    }
    expect_no_hazard();
    end_green();
    end();
}
END_TEST

/* A block of one of the two streams is freed on the other. */
START_TEST(a_block_goes_from_one_default_stream_to_the_other)
{
    begin_with("");
    vmm_green_push(&green);
    pleat_devptr ptr = api_alloc(instance, 0, MOST, NULL);
    work(NULL, ptr, MOST);
    vmm_green_pop(&green);
    sim.finish();
    work(NULL, ptr, MOST);
    api_free(instance, 0, ptr, NULL);
    vmm_green_push(&green);
    use(NULL, MOST);
    vmm_green_pop(&green);
    expect_no_hazard();
    end_green();
    end();
}
END_TEST

START_TEST(the_context_of_handle_0_ends_while_its_work_goes_on)
{
    begin_with(drivers[_i]);
    vmm_green_push(&green);
    use(NULL, MOST);
    vmm_green_pop(&green);
    end_green();
    use(NULL, MOST);
    expect_no_hazard();
    end();
}
END_TEST

/* Many frees under the green context are noticed at the latest where a tick is recorded. */
START_TEST(a_green_context_is_noticed_where_a_tick_is_recorded)
{
    begin_with("");
    for (unsigned n = 0; n < 100; n++) {
        use(NULL, SMALL);
    }
    sim.finish();
    use(own, SMALL);
    vmm_green_push(&green);
    for (unsigned n = 0; n < 200; n++) {
        use(NULL, MIB);
    }
    vmm_green_pop(&green);
    for (unsigned n = 0; n < 200; n++) {
        use(n % 2 == 0 ? NULL : own, MIB);
    }
    expect_no_hazard();
    end_green();
    end();
}
END_TEST

/* PyTorch's binding looks in each call. */
START_TEST(pytorch_s_calls_notice_at_once)
{
    begin_with("");
    for (unsigned n = 0; n < 100; n++) {
        void *ptr = pleat_torch_malloc(SMALL, 0, NULL);
        work(NULL, (pleat_devptr)(uintptr_t)ptr, SMALL);
        pleat_torch_delete(ptr);
    }
    vmm_green_push(&green);
    void *ptr = pleat_torch_malloc(SMALL, 0, NULL);
    work(NULL, (pleat_devptr)(uintptr_t)ptr, SMALL);
    pleat_torch_delete(ptr);
    vmm_green_pop(&green);
    ptr = pleat_torch_malloc(SMALL, 0, NULL);
    work(NULL, (pleat_devptr)(uintptr_t)ptr, SMALL);
    pleat_torch_delete(ptr);
    expect_no_hazard();
    end_green();
    end();
}
END_TEST

SUITE(api_green)
{
    TCase *streams = suite_case(suite, "streams", api_sim_load, NULL);
    tcase_add_loop_test(streams, what_a_green_stream_used_is_given_on_after_its_work, 0, N_DRIVERS);
    tcase_add_loop_test(streams, small_blocks_of_a_green_stream_meet_no_hazard, 0, N_DRIVERS);
    tcase_add_test(streams, what_a_green_stream_frees_asks_for_an_event_of_the_context);
    tcase_add_loop_test(streams, a_green_context_ends_while_its_work_goes_on, 0, N_DRIVERS);
    tcase_add_loop_test(streams, a_block_is_freed_on_a_detached_stream, 0, N_DRIVERS);
    tcase_add_loop_test(streams, a_green_stream_is_captured, 0, N_DRIVERS);
    tcase_add_test(streams, a_driver_whose_events_leave_green_contexts_out_gets_no_such_stream);
    TCase *zero = suite_case(suite, "zero", api_sim_load, NULL);
    tcase_add_loop_test(zero, handle_0_is_the_current_context_s_stream, 0, N_DRIVERS);
    tcase_add_test(zero, a_block_goes_from_one_default_stream_to_the_other);
    tcase_add_loop_test(zero, the_context_of_handle_0_ends_while_its_work_goes_on, 0, N_DRIVERS);
    tcase_add_test(zero, a_green_context_is_noticed_where_a_tick_is_recorded);
    tcase_add_test(zero, pytorch_s_calls_notice_at_once);
}
