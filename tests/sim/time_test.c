/* time_test.c - when work finishes: depth, order, events, synchronisation, default streams. */
#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

static cu_devptr at;

static void depth_of(const char *conf)
{
    world_begin(conf);
    at = world_map(4);
}

static void depth_four(void)
{
    depth_of("depth:4");
}

static void never(void)
{
    depth_of("depth:1000000");
}

static void end(void)
{
    pleat_sim_finish();
    world_unmap(at, 4);
    world_end();
}

START_TEST(work_finishes_when_depth_later_ones_have_been_submitted)
{
    cu_stream stream = world_stream();
    for (size_t i = 1; i <= 20; i++) {
        world_write(stream, at, 512);
        ck_assert_uint_eq(world_unfinished(), i < 4 ? i : 4);
    }
    ck_ok(cuStreamDestroy_v2(stream));
}
END_TEST

START_TEST(depth_counts_all_streams_of_the_device_together)
{
    cu_stream a = world_stream();
    cu_stream b = world_stream();
    world_write(a, at, 512);
    for (size_t i = 0; i < 3; i++) {
        world_write(b, at + GRANULE, 512);
        ck_assert_int_eq(cuStreamQuery(a), CU_NOT_READY);
    }
    world_write(b, at + GRANULE, 512);
    ck_ok(cuStreamQuery(a));
    ck_assert_int_eq(cuStreamQuery(b), CU_NOT_READY);
    ck_ok(cuStreamDestroy_v2(a));
    ck_ok(cuStreamDestroy_v2(b));
}
END_TEST

/* What ends by its age alone is compared with nothing later; told once two streams have worked. */
START_TEST(it_is_told_whether_all_work_was_compared)
{
    cu_stream a = world_stream();
    cu_stream b = world_stream();
    bool is_second = _i % 2 != 0;
    size_t n = (size_t)_i / 2; /* 0 to 9 pieces behind the first; depth is 4 */
    world_write(a, at, 512);
    for (size_t i = 0; i < n; i++) {
        world_write(is_second ? b : a, at + GRANULE, 512);
    }
    ck_assert_uint_eq(pleat_sim_compared(), is_second && n >= 4 ? 4 : UINT64_MAX);
    world_write(b, at + 2 * GRANULE, 512);
    ck_assert_uint_eq(pleat_sim_compared(), n + 1 >= 4 ? 4 : UINT64_MAX);
    ck_ok(cuStreamDestroy_v2(a));
    ck_ok(cuStreamDestroy_v2(b));
    end();
    depth_four(); /* a reset; and now somebody waits each time */
    a = world_stream();
    b = world_stream();
    for (size_t i = 0; i < n; i++) {
        world_write(a, at, 512);
        ck_ok(cuStreamSynchronize(a));
        world_write(b, at + GRANULE, 512);
        ck_ok(cuStreamSynchronize(b));
    }
    ck_assert_uint_eq(pleat_sim_compared(), UINT64_MAX);
    ck_ok(cuStreamDestroy_v2(a));
    ck_ok(cuStreamDestroy_v2(b));
}
END_TEST

START_TEST(depth_zero_finishes_at_once)
{
    end();
    depth_of("depth:0");
    cu_stream stream = world_stream();
    world_write(stream, at, 512);
    ck_ok(cuStreamQuery(stream));
    ck_assert_uint_eq(world_unfinished(), 0);
    ck_ok(cuStreamDestroy_v2(stream));
}
END_TEST

START_TEST(devices_have_depths_of_their_own)
{
    cu_context other;
    end();
    depth_of("depth:4,devices:2");
    cu_stream stream = world_stream();
    world_write(stream, at, 512);
    ck_ok(cuDevicePrimaryCtxRetain(&other, 1));
    ck_ok(cuCtxPushCurrent_v2(other));
    cu_stream far = world_stream();
    for (size_t i = 0; i < 10; i++) {
        ck_ok(pleat_sim_work(far, NULL, 0));
    }
    ck_assert_int_eq(cuStreamQuery(stream), CU_NOT_READY);
    ck_ok(cuStreamDestroy_v2(far));
    ck_ok(cuCtxPopCurrent_v2(NULL));
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
    ck_ok(cuStreamDestroy_v2(stream));
}
END_TEST

START_TEST(queries_and_events_do_not_advance_time)
{
    cu_stream stream = world_stream();
    cu_event event = world_event();
    world_write(stream, at, 512);
    for (size_t i = 0; i < 20; i++) {
        ck_ok(cuEventRecord(event, stream));
        ck_assert_int_eq(cuEventQuery(event), CU_NOT_READY);
        ck_assert_int_eq(cuStreamQuery(stream), CU_NOT_READY);
        ck_ok(cuStreamWaitEvent(stream, event, 0));
        ck_ok(cuStreamWriteValue64_v2(stream, at + 1024, i, 0));
    }
    ck_assert_uint_eq(world_unfinished(), 21);
    pleat_sim_advance(0, 4);
    ck_assert_uint_eq(world_unfinished(), 0);
    ck_ok(cuEventDestroy_v2(event));
    ck_ok(cuStreamDestroy_v2(stream));
}
END_TEST

START_TEST(a_use_lasts_until_it_is_ended_and_comes_after_the_other_stream)
{
    cu_stream own = world_stream();
    cu_stream side = world_stream();
    uint64_t first = 0;
    uint64_t second = 0;
    world_write(own, at, 512);
    ck_ok(pleat_sim_use(side, own, at, 512, &first));
    ck_ok(pleat_sim_use(side, own, at + 512, 512, &second));
    ck_ok(pleat_sim_work(side, NULL, 0));
    pleat_sim_advance(0, 1000);
    ck_ok(cuStreamQuery(own));
    ck_assert_uint_eq(world_unfinished(), 3);
    ck_ok(pleat_sim_use_end(side, first));
    ck_assert_uint_eq(world_unfinished(), 2);
    ck_ok(pleat_sim_use_end(side, first));
    ck_ok(pleat_sim_use_end(side, second));
    ck_assert_uint_eq(world_unfinished(), 0);
    ck_assert_uint_eq(pleat_sim_hazards(NULL, 0), 0);
    ck_assert_int_eq(pleat_sim_use_end(side, second + 1), CU_SUCCESS); /* the work behind the use */
    ck_assert_int_eq(pleat_sim_use_end(side, second + 2), CU_INVALID_VALUE);
    ck_assert_int_eq(pleat_sim_use_end(side, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(pleat_sim_use(side, own, at, 512, NULL), CU_INVALID_VALUE);
    ck_ok(cuStreamDestroy_v2(own));
    ck_ok(cuStreamDestroy_v2(side));
}
END_TEST

START_TEST(who_waits_for_a_use_ends_it)
{
    cu_stream own = world_stream();
    cu_stream side = world_stream();
    cu_event event = world_event();
    uint64_t use = 0;
    ck_ok(pleat_sim_use(side, own, at, 512, &use));
    ck_ok(cuEventRecord(event, side));
    ck_ok(cuStreamWaitEvent(own, event, 0));
    world_write(own, at, 512);
    pleat_sim_advance(0, 1000);
    ck_assert_int_eq(cuEventQuery(event), CU_NOT_READY);
    ck_assert_int_eq(cuStreamQuery(own), CU_NOT_READY);
    ck_ok(cuEventSynchronize(event));
    ck_ok(cuEventQuery(event));
    ck_ok(cuStreamQuery(own));
    ck_ok(cuEventDestroy_v2(event));
    ck_ok(cuStreamDestroy_v2(own));
    ck_ok(cuStreamDestroy_v2(side));
}
END_TEST

START_TEST(a_stream_write_is_over_with_the_work_before_it)
{
    cu_stream stream = world_stream();
    ck_ok(cuStreamWriteValue64_v2(stream, at, 1, 0));
    ck_ok(cuStreamQuery(stream));
    ck_assert_int_eq(cuStreamWriteValue64_v2(stream, at + 4, 1, 0), CU_INVALID_VALUE);
    ck_ok(cuStreamDestroy_v2(stream));
}
END_TEST

START_TEST(an_event_stands_for_the_work_before_its_record)
{
    cu_stream stream = world_stream();
    cu_event event = world_event();
    ck_ok(cuEventQuery(event));
    ck_ok(cuEventSynchronize(event));
    ck_ok(cuEventRecord(event, stream));
    ck_ok(cuEventQuery(event));
    world_write(stream, at, 512);
    ck_ok(cuEventQuery(event));
    ck_ok(cuEventRecord(event, stream));
    world_write(stream, at, 512);
    ck_assert_int_eq(cuEventQuery(event), CU_NOT_READY);
    ck_ok(cuEventSynchronize(event));
    ck_ok(cuEventQuery(event));
    ck_assert_uint_eq(world_unfinished(), 1);
    ck_ok(cuEventDestroy_v2(event));
    ck_ok(cuStreamDestroy_v2(stream));
}
END_TEST

START_TEST(an_event_is_complete_only_when_what_its_stream_waited_for_is)
{
    cu_stream a = world_stream();
    cu_stream b = world_stream();
    cu_event event = world_event();
    world_write(a, at, 512);
    world_order(a, b);
    ck_ok(cuEventRecord(event, b));
    ck_assert_int_eq(cuEventQuery(event), CU_NOT_READY);
    ck_assert_int_eq(cuStreamQuery(b), CU_NOT_READY);
    ck_ok(cuStreamSynchronize(a));
    ck_ok(cuEventQuery(event));
    ck_ok(cuStreamQuery(b));
    ck_ok(cuEventDestroy_v2(event));
    ck_ok(cuStreamDestroy_v2(a));
    ck_ok(cuStreamDestroy_v2(b));
}
END_TEST

START_TEST(a_wait_uses_the_record_at_the_time_of_the_call)
{
    cu_stream a = world_stream();
    cu_stream b = world_stream();
    cu_event event = world_event();
    world_write(a, at, 512);
    ck_ok(cuEventRecord(event, a));
    ck_ok(cuStreamWaitEvent(b, event, 0));
    world_write(a, at, 512);
    ck_ok(cuEventRecord(event, a));
    ck_ok(cuEventDestroy_v2(event));
    world_write(b, at + GRANULE, 512);
    ck_ok(cuStreamSynchronize(b));
    ck_assert_uint_eq(world_unfinished(), 1);
    ck_assert_int_eq(cuStreamQuery(a), CU_NOT_READY);
    ck_ok(cuStreamDestroy_v2(a));
    ck_ok(cuStreamDestroy_v2(b));
}
END_TEST

START_TEST(a_synchronisation_finishes_what_it_waits_for_and_no_more)
{
    cu_stream stream[4];
    for (size_t i = 0; i < 4; i++) {
        stream[i] = world_stream();
    }
    for (size_t i = 0; i < 3; i++) {
        world_write(stream[i], at + i * GRANULE, 512);
        world_order(stream[i], stream[i + 1]);
        world_write(stream[i], at + i * GRANULE, 512);
    }
    world_write(stream[3], at + 3 * GRANULE, 512);
    ck_ok(cuStreamSynchronize(stream[3]));
    ck_assert_uint_eq(world_unfinished(), 3);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(cuStreamQuery(stream[i]), CU_NOT_READY);
    }
    ck_ok(cuStreamQuery(stream[3]));
    for (size_t i = 0; i < 4; i++) {
        ck_ok(cuStreamDestroy_v2(stream[i]));
    }
}
END_TEST

START_TEST(work_waits_for_another_device_however_much_follows)
{
    cu_context other;
    end();
    depth_of("depth:2,devices:2");
    cu_stream near = world_stream();
    ck_ok(cuDevicePrimaryCtxRetain(&other, 1));
    ck_ok(cuCtxPushCurrent_v2(other));
    cu_stream far = world_stream();
    cu_event event = world_event();
    ck_ok(pleat_sim_work(far, NULL, 0));
    ck_ok(cuEventRecord(event, far));
    ck_ok(cuCtxPopCurrent_v2(NULL));
    ck_ok(cuStreamWaitEvent(near, event, 0));
    cu_stream free_stream = world_stream();
    for (size_t i = 0; i < 100; i++) {
        world_write(near, at, 512);
        world_write(free_stream, at + GRANULE, 512);
    }
    ck_assert_uint_eq(world_unfinished(), 102);
    pleat_sim_advance(1, 2);
    ck_assert_uint_eq(world_unfinished(), 2);
    ck_ok(cuEventDestroy_v2(event));
    ck_ok(cuStreamDestroy_v2(near));
    ck_ok(cuStreamDestroy_v2(free_stream));
    ck_ok(cuStreamDestroy_v2(far));
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
}
END_TEST

static cu_stream blocking_stream(void)
{
    cu_stream stream;
    ck_ok(cuStreamCreate(&stream, CU_STREAM_DEFAULT_FLAG));
    return stream;
}

START_TEST(the_legacy_stream_waits_for_blocking_streams)
{
    cu_stream blocking = blocking_stream();
    cu_stream exempt = world_stream();
    world_write(exempt, at + GRANULE, 512);
    world_write(blocking, at, 512);
    world_write(NULL, at, 512);
    ck_ok(cuStreamSynchronize(CU_STREAM_LEGACY));
    ck_ok(cuStreamQuery(blocking));
    ck_assert_int_eq(cuStreamQuery(exempt), CU_NOT_READY);
    ck_ok(cuStreamDestroy_v2(blocking));
    ck_ok(cuStreamDestroy_v2(exempt));
}
END_TEST

START_TEST(blocking_streams_wait_for_the_legacy_stream)
{
    cu_stream blocking = blocking_stream();
    cu_stream exempt = world_stream();
    world_write(NULL, at, 512);
    world_write(blocking, at, 512);
    world_write(exempt, at + GRANULE, 512);
    ck_ok(cuStreamSynchronize(exempt));
    ck_assert_int_eq(cuStreamQuery(NULL), CU_NOT_READY);
    ck_ok(cuStreamSynchronize(blocking));
    ck_ok(cuStreamQuery(NULL));
    ck_ok(cuStreamDestroy_v2(blocking));
    ck_ok(cuStreamDestroy_v2(exempt));
}
END_TEST

START_TEST(blocking_streams_are_ordered_through_the_legacy_stream)
{
    cu_stream a = blocking_stream();
    cu_stream b = blocking_stream();
    world_write(a, at, 512);
    world_write(NULL, at, 512);
    world_write(b, at, 512);
    ck_assert_uint_eq(world_hazards(), 0);
    ck_ok(cuStreamSynchronize(b));
    ck_assert_uint_eq(world_unfinished(), 0);
    ck_ok(cuStreamDestroy_v2(a));
    ck_ok(cuStreamDestroy_v2(b));
}
END_TEST

START_TEST(per_thread_streams_are_blocking_ones)
{
    world_write(CU_STREAM_PER_THREAD, at, 512);
    world_write(NULL, at, 512);
    ck_assert_uint_eq(world_hazards(), 0);
    ck_ok(cuStreamSynchronize(NULL));
    ck_ok(cuStreamQuery(CU_STREAM_PER_THREAD));
}
END_TEST

START_TEST(work_without_a_context_goes_to_the_only_device)
{
    cu_context context;
    ck_ok(cuCtxPopCurrent_v2(&context));
    world_write(NULL, at, 512);
    ck_assert_uint_eq(world_unfinished(), 1);
    ck_ok(cuCtxPushCurrent_v2(context));
    ck_assert_int_eq(cuStreamQuery(NULL), CU_NOT_READY);
}
END_TEST

/* Calls that need not wait succeed. After pleat_sim_finish the refused calls succeed, too. */
START_TEST(waits_refuse_synchronisations_that_would_have_to_wait)
{
    cu_event event;
    end();
    depth_of("depth:1000000,waits:refuse");
    cu_stream idle = world_stream();
    cu_stream stream = world_stream();
    ck_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING_FLAG));
    ck_ok(cuCtxSynchronize());
    world_write(stream, at, 512);
    ck_ok(cuEventRecord(event, stream));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cuEventSynchronize(event), CU_NOT_READY);
        ck_assert_int_eq(cuStreamSynchronize(stream), CU_NOT_READY);
        ck_assert_int_eq(cuCtxSynchronize(), CU_NOT_READY);
        ck_ok(cuStreamSynchronize(idle));
        ck_assert_uint_eq(world_unfinished(), 1);
    }
    pleat_sim_finish();
    ck_ok(cuEventSynchronize(event));
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuCtxSynchronize());
    ck_ok(cuEventDestroy_v2(event));
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuStreamDestroy_v2(idle));
}
END_TEST

START_TEST(elapsed_time_counts_operations_between_events)
{
    float milliseconds;
    cu_event start;
    cu_event stop;
    cu_stream stream = world_stream();
    ck_ok(cuEventCreate(&start, CU_EVENT_DEFAULT_FLAG));
    ck_ok(cuEventCreate(&stop, CU_EVENT_DEFAULT_FLAG));
    ck_ok(cuEventRecord(start, stream));
    ck_assert_int_eq(cuEventElapsedTime(&milliseconds, start, stop), CU_INVALID_HANDLE);
    for (size_t i = 0; i < 5; i++) {
        world_write(stream, at, 512);
    }
    ck_ok(cuEventRecord(stop, stream));
    ck_assert_int_eq(cuEventElapsedTime(&milliseconds, start, stop), CU_NOT_READY);
    ck_ok(cuEventSynchronize(stop));
    ck_ok(cuEventElapsedTime(&milliseconds, start, stop));
    ck_assert_float_eq_tol(milliseconds, 0.005F, 0.0001F);
    cu_event untimed = world_event();
    ck_ok(cuEventRecord(untimed, stream));
    ck_assert_int_eq(cuEventElapsedTime(&milliseconds, start, untimed), CU_INVALID_HANDLE);
    ck_ok(cuEventDestroy_v2(untimed));
    ck_ok(cuEventDestroy_v2(start));
    ck_ok(cuEventDestroy_v2(stop));
    ck_ok(cuStreamDestroy_v2(stream));
}
END_TEST

SUITE(sim_time)
{
    TCase *depth = tcase_create("depth");
    tcase_add_checked_fixture(depth, depth_four, end);
    tcase_add_test(depth, work_finishes_when_depth_later_ones_have_been_submitted);
    tcase_add_test(depth, depth_counts_all_streams_of_the_device_together);
    tcase_add_loop_test(depth, it_is_told_whether_all_work_was_compared, 0, 20);
    tcase_add_test(depth, depth_zero_finishes_at_once);
    tcase_add_test(depth, devices_have_depths_of_their_own);
    tcase_add_test(depth, queries_and_events_do_not_advance_time);
    tcase_add_test(depth, a_use_lasts_until_it_is_ended_and_comes_after_the_other_stream);
    tcase_add_test(depth, who_waits_for_a_use_ends_it);
    tcase_add_test(depth, a_stream_write_is_over_with_the_work_before_it);
    tcase_add_test(depth, work_waits_for_another_device_however_much_follows);
    suite_add_tcase(suite, depth);
    TCase *order = tcase_create("order");
    tcase_add_checked_fixture(order, never, end);
    tcase_add_test(order, an_event_stands_for_the_work_before_its_record);
    tcase_add_test(order, an_event_is_complete_only_when_what_its_stream_waited_for_is);
    tcase_add_test(order, a_wait_uses_the_record_at_the_time_of_the_call);
    tcase_add_test(order, a_synchronisation_finishes_what_it_waits_for_and_no_more);
    tcase_add_test(order, waits_refuse_synchronisations_that_would_have_to_wait);
    tcase_add_test(order, elapsed_time_counts_operations_between_events);
    suite_add_tcase(suite, order);
    TCase *legacy = tcase_create("default streams");
    tcase_add_checked_fixture(legacy, never, end);
    tcase_add_test(legacy, the_legacy_stream_waits_for_blocking_streams);
    tcase_add_test(legacy, blocking_streams_wait_for_the_legacy_stream);
    tcase_add_test(legacy, blocking_streams_are_ordered_through_the_legacy_stream);
    tcase_add_test(legacy, per_thread_streams_are_blocking_ones);
    tcase_add_test(legacy, work_without_a_context_goes_to_the_only_device);
    suite_add_tcase(suite, legacy);
}
