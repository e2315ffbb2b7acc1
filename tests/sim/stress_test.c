/* stress_test.c - many threads with separate streams and memory, and one event. */
/* labels: stress */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

enum { N_THREADS = 4, N_ROUNDS = 2000 };

static cu_event shared_event;
static atomic_int n_failures;

static void expect(bool is_good)
{
    if (!is_good) {
        atomic_fetch_add(&n_failures, 1);
    }
}

/* Reserves, creates, maps, sets access, works, orders, waits, unmaps, releases and frees. */
static void one_round(cu_stream stream, cu_event event, size_t n_granules)
{
    cu_devptr at;
    cu_mem_handle handle;
    size_t bytes = n_granules * GRANULE;
    cu_mem_prop prop = world_prop(0);
    cu_access_desc desc = { prop.location, CU_ACCESS_READ_WRITE };
    expect(cuMemAddressReserve(&at, bytes, 0, 0, 0) == CU_SUCCESS);
    expect(cuMemCreate(&handle, bytes, &prop, 0) == CU_SUCCESS);
    expect(cuMemMap(at, bytes, 0, handle, 0) == CU_SUCCESS);
    expect(cuMemSetAccess(at, bytes, &desc, 1) == CU_SUCCESS);
    pleat_sim_access access = { at, bytes, true };
    for (int i = 0; i < 5; i++) {
        expect(pleat_sim_work(stream, &access, 1) == CU_SUCCESS);
    }
    expect(cuEventRecord(shared_event, stream) == CU_SUCCESS);
    expect(cuStreamWaitEvent(stream, shared_event, 0) == CU_SUCCESS);
    cu_result result = cuEventQuery(shared_event);
    expect(result == CU_SUCCESS || result == CU_NOT_READY);
    expect(cuEventRecord(event, stream) == CU_SUCCESS);
    expect(cuEventSynchronize(event) == CU_SUCCESS);
    expect(cuMemUnmap(at, bytes) == CU_SUCCESS);
    expect(cuMemRelease(handle) == CU_SUCCESS);
    expect(cuMemAddressFree(at, bytes) == CU_SUCCESS);
}

static void *run_rounds(void *unused)
{
    cu_context context;
    cu_stream stream;
    cu_event event;
    (void)unused;
    expect(cuDevicePrimaryCtxRetain(&context, 0) == CU_SUCCESS);
    expect(cuCtxPushCurrent_v2(context) == CU_SUCCESS);
    expect(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING_FLAG) == CU_SUCCESS);
    expect(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING_FLAG) == CU_SUCCESS);
    for (size_t i = 0; i < N_ROUNDS; i++) {
        one_round(stream, event, 1 + i % 3);
        pleat_sim_counts counts;
        expect(pleat_sim_count(-1, &counts) == 0 && counts.streams >= 1);
    }
    expect(cuEventDestroy_v2(event) == CU_SUCCESS);
    expect(cuStreamDestroy_v2(stream) == CU_SUCCESS);
    expect(cuCtxPopCurrent_v2(NULL) == CU_SUCCESS);
    expect(cuDevicePrimaryCtxRelease_v2(0) == CU_SUCCESS);
    return NULL;
}

START_TEST(threads_use_one_device_together)
{
    pthread_t threads[N_THREADS];
    shared_event = world_event();
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_rounds, NULL), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_int_eq(atomic_load(&n_failures), 0);
    ck_ok(cuEventDestroy_v2(shared_event));
}
END_TEST

SUITE(sim_stress)
{
    TCase *stress = tcase_create("threads");
    tcase_add_checked_fixture(stress, world_default, world_end);
    tcase_add_test(stress, threads_use_one_device_together);
    suite_add_tcase(suite, stress);
}
