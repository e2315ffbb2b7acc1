/* segments_torch_stream_test.c - torch-native with uses on several streams, captures, threads. */
/* labels: unit stress */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/support/segments_torch.h"
#include "vmm/driver.h"

static void open_plain(void)
{
    torch_open("capacity:1G,depth:100000", NULL);
}

static void record(pleat_devptr ptr, unsigned stream)
{
    ck_assert_int_eq(torch.a->ops->record_stream(torch.a, ptr, torch.streams[stream]), PLEAT_OK);
}

static uint64_t pending(void)
{
    return torch_stats().pending_bytes;
}

/* ---- recorded uses --------------------------------------------------------------------------- */

START_TEST(a_recorded_block_comes_back_only_after_its_use)
{
    pleat_devptr ptr = torch_get(30 * MIB, 1);
    torch_work(2, ptr, 30 * MIB);
    record(ptr, 2);
    torch_put(ptr);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.allocation[PLEAT_POOL_ALL].current, 0);
    ck_assert_uint_eq(s.active[PLEAT_POOL_ALL].current, 1);
    ck_assert_uint_eq(s.active_bytes[PLEAT_POOL_ALL].current, 30 * MIB);
    ck_assert_uint_eq(s.requested_bytes[PLEAT_POOL_ALL].current, 30 * MIB);
    ck_assert_uint_eq(s.pending_bytes, 30 * MIB);
    ck_assert_uint_ne(torch_get(30 * MIB, 1), ptr);
    torch.sim.finish();
    ck_assert_uint_eq(torch_get(30 * MIB, 1), ptr);
    ck_assert_uint_eq(pending(), 0);
    ck_assert_uint_eq(torch_stats().host_syncs, 0);
}
END_TEST

START_TEST(a_use_on_the_owner_stream_needs_no_event)
{
    pleat_devptr ptr = torch_get(30 * MIB, 1);
    record(ptr, 1);
    torch_work(1, ptr, 30 * MIB);
    torch_put(ptr);
    ck_assert_uint_eq(torch_get(30 * MIB, 1), ptr);
    ck_assert_uint_eq(torch.sim.n_calls("cuEventRecord"), 0);
}
END_TEST

START_TEST(a_stream_recorded_twice_is_one_use)
{
    pleat_devptr ptr = torch_get(30 * MIB, 1);
    record(ptr, 2);
    record(ptr, 2);
    record(ptr, 3);
    torch_put(ptr);
    ck_assert_uint_eq(torch.sim.n_calls("cuEventRecord"), 2);
}
END_TEST

START_TEST(all_streams_must_be_over)
{
    pleat_devptr ptr = torch_get(30 * MIB, 1);
    torch_work(3, ptr, 30 * MIB);
    record(ptr, 2);
    record(ptr, 3);
    torch_put(ptr);
    torch_get(MIB, 1);
    ck_assert_uint_eq(pending(), 30 * MIB);
    torch.sim.finish();
    torch_get(MIB, 1);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

START_TEST(freeing_on_another_stream_is_a_use_there)
{
    pleat_devptr ptr = torch_get(30 * MIB, 1);
    torch_work(2, ptr, 30 * MIB);
    ck_assert_int_eq(torch.a->ops->free(torch.a, ptr, torch.streams[2]), PLEAT_OK);
    ck_assert_uint_eq(pending(), 30 * MIB);
    ck_assert_uint_ne(torch_get(30 * MIB, 1), ptr);
    torch.sim.finish();
    ck_assert_uint_eq(torch_get(30 * MIB, 1), ptr);
}
END_TEST

START_TEST(a_pending_block_does_not_merge_until_it_is_over)
{
    pleat_devptr a = torch_get(9 * MIB, 1);
    pleat_devptr b = torch_get(9 * MIB, 1);
    torch_work(2, a, 9 * MIB);
    record(a, 2);
    torch_put(a);
    torch_put(b);
    ck_assert_uint_eq(torch_stats().inactive_split_bytes[PLEAT_POOL_ALL].current, 11 * MIB);
    ck_assert_int_eq(torch.a->ops->free(torch.a, a, NULL), PLEAT_EDOUBLEFREE);
    torch.sim.finish();
    ck_assert_uint_eq(torch_get(20 * MIB, 1), a);
}
END_TEST

START_TEST(the_release_pass_waits_for_pending_uses)
{
    pleat_devptr ptr = torch_get(900 * MIB, 1);
    torch_work(2, ptr, 30 * MIB);
    record(ptr, 2);
    torch_put(ptr);
    torch_get(800 * MIB, 3);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.num_alloc_retries, 1);
    ck_assert_uint_eq(s.num_sync_all_streams, 1);
    ck_assert_uint_ge(s.host_syncs, 1);
    ck_assert_uint_eq(s.resident_bytes, 800 * MIB);
}
END_TEST

START_TEST(trim_that_may_not_wait_leaves_pending_blocks)
{
    pleat_devptr ptr = torch_get(30 * MIB, 1);
    torch_work(2, ptr, 30 * MIB);
    record(ptr, 2);
    torch_put(ptr);
    uint64_t released = 7;
    ck_assert_int_eq(torch.a->ops->trim(torch.a, 0, false, &released), PLEAT_OK);
    ck_assert_uint_eq(released, 0);
    ck_assert_int_eq(torch.a->ops->trim(torch.a, 0, true, &released), PLEAT_OK);
    ck_assert_uint_eq(released, 30 * MIB);
}
END_TEST

START_TEST(work_of_a_destroyed_stream_is_waited_for)
{
    pleat_devptr ptr = torch_get(30 * MIB, 1);
    uint64_t released = 0;
    torch_work(1, ptr, 30 * MIB);
    torch_put(ptr);
    ck_assert_int_eq(pl_device_enter(torch.dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_destroy(torch.drv, torch.handles[1]), CU_SUCCESS);
    ck_assert_int_eq(
        pl_cu_stream_create(torch.drv, (void *)&torch.handles[1], CU_STREAM_NON_BLOCKING_FLAG),
        CU_SUCCESS);
    pl_device_leave(torch.dev);
    ck_assert_int_eq(torch.a->ops->trim(torch.a, 0, true, &released), PLEAT_OK);
    ck_assert_uint_eq(released, 30 * MIB);
}
END_TEST

START_TEST(a_block_live_at_the_end_takes_its_uses_along)
{
    pleat_devptr ptr = torch_get(30 * MIB, 1);
    record(ptr, 2);
    ptr = torch_get(20 * MIB, 1);
    torch_work(3, ptr, 20 * MIB);
    record(ptr, 3);
    torch_put(ptr);
}
END_TEST

/* ---- captures -------------------------------------------------------------------------------- */

static void begin_capture(unsigned stream)
{
    int mode = CU_CAPTURE_MODE_GLOBAL;
    ck_assert_int_eq(pl_device_enter(torch.dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_begin_capture(torch.drv, torch.handles[stream], mode),
                     CU_SUCCESS);
    pl_device_leave(torch.dev);
}

static void end_capture(unsigned stream)
{
    cu_graph graph = NULL;
    ck_assert_int_eq(pl_device_enter(torch.dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_end_capture(torch.drv, torch.handles[stream], &graph),
                     CU_SUCCESS);
    ck_assert_ptr_nonnull(graph);
    ck_assert_int_eq(pl_cu_graph_destroy(torch.drv, graph), CU_SUCCESS);
    pl_device_leave(torch.dev);
}

START_TEST(a_use_by_a_captured_stream_is_held_until_the_capture_is_released)
{
    pleat_devptr ptr = torch_get(30 * MIB, 1);
    record(ptr, 2);
    begin_capture(2);
    torch_put(ptr);
    ck_assert_uint_eq(pending(), 30 * MIB);
    ck_assert_int_eq(torch.a->ops->release_capture(torch.a, torch.streams[2]), PLEAT_ECAPTURE);
    end_capture(2);
    torch.sim.finish();
    torch_get(MIB, 1);
    ck_assert_uint_eq(pending(), 30 * MIB);
    ck_assert_int_eq(torch.a->ops->release_capture(torch.a, torch.streams[3]), PLEAT_OK);
    ck_assert_uint_eq(pending(), 30 * MIB);
    ck_assert_int_eq(torch.a->ops->release_capture(torch.a, torch.streams[2]), PLEAT_OK);
    ck_assert_uint_eq(torch_get(30 * MIB, 1), ptr);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

START_TEST(during_a_capture_nothing_goes_back_to_the_driver)
{
    torch_put(torch_get(900 * MIB, 1));
    begin_capture(1);
    pleat_devptr ptr;
    ck_assert_int_eq(torch.a->ops->alloc(torch.a, 950 * MIB, torch.streams[1], &ptr),
                     PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(torch_stats().num_device_free, 0);
    ck_assert_uint_eq(torch_stats().num_alloc_retries, 0);
    uint64_t released = 0;
    ck_assert_int_eq(torch.a->ops->trim(torch.a, 0, true, &released), PLEAT_OK);
    ck_assert_uint_eq(released, 0);
    torch_assert_sound();
    end_capture(1);
    ck_assert_int_eq(torch.a->ops->trim(torch.a, 0, true, &released), PLEAT_OK);
    ck_assert_uint_eq(released, 900 * MIB);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

enum { N_THREADS = 4, N_STEPS = 3000, N_OWN = 24 };

static atomic_uint n_errors;
static atomic_uint n_refused;

static void thread_step(pleat_devptr *own, uint64_t seed)
{
    const pl_allocator_ops *ops = torch.a->ops;
    pl_stream *stream = torch.streams[(seed >> 8) % TORCH_N_STREAMS];
    pleat_devptr *slot = &own[(seed >> 33) % N_OWN];
    if (*slot) {
        if (seed % 4 == 0) {
            n_errors += ops->record_stream(torch.a, *slot, stream) != PLEAT_OK;
        }
        n_errors += ops->free(torch.a, *slot, seed % 3 == 0 ? stream : NULL) != PLEAT_OK;
        *slot = 0;
        return;
    }
    size_t bytes = 1 + (size_t)(seed >> 16) % ((size_t)1 << (12 + (seed >> 60)));
    pleat_status st = ops->alloc(torch.a, bytes, stream, slot);
    n_refused += st == PLEAT_ENOMEM_DEVICE;
    n_errors += st != PLEAT_OK && st != PLEAT_ENOMEM_DEVICE;
}

static void *thread_main(void *argument)
{
    uint64_t seed = 77 + *(const uint64_t *)argument;
    pleat_devptr own[N_OWN] = { 0 };
    for (size_t step = 0; step < N_STEPS; step++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        thread_step(own, seed);
        if (step % 256 == 0) {
            uint64_t released = 0;
            pleat_stats stats;
            torch.a->ops->stats(torch.a, &stats);
            n_errors += torch.a->ops->check(torch.a) != 0;
            n_errors += torch.a->ops->trim(torch.a, 64 * MIB, true, &released) != PLEAT_OK;
        }
    }
    for (size_t i = 0; i < N_OWN; i++) {
        n_errors += own[i] && torch.a->ops->free(torch.a, own[i], NULL) != PLEAT_OK;
    }
    return NULL;
}

START_TEST(threads_share_a_full_device)
{
    pthread_t threads[N_THREADS];
    uint64_t numbers[N_THREADS];
    for (uint64_t i = 0; i < N_THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, thread_main, &numbers[i]), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(n_errors, 0);
    ck_assert_uint_gt(n_refused, 0);
    torch_assert_sound();
    uint64_t released = 0;
    ck_assert_int_eq(torch.a->ops->trim(torch.a, 0, true, &released), PLEAT_OK);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.active[PLEAT_POOL_ALL].current, 0);
    ck_assert_uint_eq(s.resident_bytes, 0);
}
END_TEST

static void open_tight(void)
{
    torch_open("capacity:200M,depth:16", NULL);
}

static TCase *make_case(const char *name, void (*open)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open, torch_close);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("segments_torch_stream");
    TCase *uses = make_case("uses", open_plain);
    tcase_add_test(uses, a_recorded_block_comes_back_only_after_its_use);
    tcase_add_test(uses, a_use_on_the_owner_stream_needs_no_event);
    tcase_add_test(uses, a_stream_recorded_twice_is_one_use);
    tcase_add_test(uses, all_streams_must_be_over);
    tcase_add_test(uses, freeing_on_another_stream_is_a_use_there);
    tcase_add_test(uses, a_pending_block_does_not_merge_until_it_is_over);
    tcase_add_test(uses, the_release_pass_waits_for_pending_uses);
    tcase_add_test(uses, trim_that_may_not_wait_leaves_pending_blocks);
    tcase_add_test(uses, a_block_live_at_the_end_takes_its_uses_along);
    tcase_add_test(uses, work_of_a_destroyed_stream_is_waited_for);
    suite_add_tcase(suite, uses);
    TCase *captures = make_case("captures", open_plain);
    tcase_add_test(captures, a_use_by_a_captured_stream_is_held_until_the_capture_is_released);
    tcase_add_test(captures, during_a_capture_nothing_goes_back_to_the_driver);
    suite_add_tcase(suite, captures);
    TCase *threads = make_case("threads", open_tight);
    tcase_add_test(threads, threads_share_a_full_device);
    suite_add_tcase(suite, threads);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
