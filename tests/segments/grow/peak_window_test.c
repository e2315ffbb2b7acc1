/* peak_window_test.c - the peak of live granules counts granted memory only. While a request that
 * grows is in the driver, another thread allocates resident memory. Then the driver refuses. */
/* labels: unit */
#include <check.h>
#include <pthread.h>

#include "segments/base/rounding.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"

enum { GRANULE = 128 << 10 };
#define SIM "granularity:128K,capacity:128M,depth:1048576"

static pthread_t grower;
static pleat_devptr beside; /* block of the other thread */

static void *run(void *arg)
{
    (void)arg;
    if (pl_device_enter(pleat.dev) == PLEAT_OK) {
        (void)!pleat.a->ops->alloc(pleat.a, 1024, pleat.streams[1], &beside);
        pl_device_leave(pleat.dev);
    }
    return NULL;
}

/* The first failed call of the grower. */
static void act_after(pl_entry entry, int failure, uint64_t bytes, void *context)
{
    pthread_t thread;

    (void)entry;
    (void)bytes;
    (void)context;
    if (pthread_equal(pthread_self(), grower) && beside == 0 && failure != 0) {
        ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
}

/* Requests that are rounded up take the general way, as do those with an observer. */
START_TEST(a_flight_that_fails_lifts_no_peak)
{
    unsigned divisions[PL_N_DIVISIONS];
    pleat_devptr big;
    pleat_open(SIM, NULL);
    (void)pleat_get(1024, 1);
    for (unsigned i = 0; i < PL_N_DIVISIONS; i++) {
        divisions[i] = 4;
    }
    pleat.a->ops->set_rounding(pleat.a, divisions);
    uint64_t before = pleat_counted().peak_live_granules;
    grower = pthread_self();
    pl_driver_time_calls(pleat.sim.drv, true);
    pl_driver_watch(pleat.sim.drv, act_after, NULL);
    pleat.sim.fail_from("cuMemCreate", 0, 2);
    ck_assert_int_ne(pleat.a->ops->alloc(pleat.a, 64 * GRANULE, pleat.streams[1], &big), PLEAT_OK);
    pleat.sim.fail_never();
    pl_driver_watch(pleat.sim.drv, NULL, NULL);
    ck_assert_uint_ne(beside, 0);
    ck_assert_uint_eq(pleat_counted().peak_live_granules, before);
    pleat_close();
}
END_TEST

/* The statistics in the window of a request that grows: after each of its calls. */
static pleat_stats last;

static void look_after(pl_entry entry, int failure, uint64_t bytes, void *context)
{
    pleat_stats s;

    (void)entry;
    (void)failure;
    (void)bytes;
    (void)context;
    pleat.a->ops->stats(pleat.a, &s);
    const pleat_stat *reserved = &s.reserved_bytes[PLEAT_SIZES_ALL];
    ck_assert_uint_le(s.live_granules, s.peak_live_granules);
    ck_assert_uint_eq(reserved->allocated - reserved->freed, s.resident_bytes);
    ck_assert_uint_ge(reserved->allocated, last.reserved_bytes[PLEAT_SIZES_ALL].allocated);
    ck_assert_uint_ge(reserved->freed, last.reserved_bytes[PLEAT_SIZES_ALL].freed);
    ck_assert_uint_ge(s.peak_live_granules, last.peak_live_granules);
    last = s;
}

START_TEST(no_figure_goes_back_while_requests_fly)
{
    pleat_devptr big = 0;
    pleat_open(SIM, NULL);
    pl_driver_time_calls(pleat.sim.drv, true);
    pl_driver_watch(pleat.sim.drv, look_after, NULL);
    for (unsigned i = 0; i < 4; i++) {
        if (i % 2 == 1) {
            pleat.sim.fail_at("cuMemSetAccess", 0, CU_UNKNOWN);
        }
        if (pleat.a->ops->alloc(pleat.a, (20 + i) * GRANULE, pleat.streams[1], &big) == PLEAT_OK) {
            pleat_put(big, 1);
        }
        pleat.sim.finish();
        (void)pleat_trim(i * GRANULE, true);
    }
    pl_driver_watch(pleat.sim.drv, NULL, NULL);
    ck_assert_uint_gt(last.reserved_bytes[PLEAT_SIZES_ALL].freed, 0);
    pleat_close();
}
END_TEST

SUITE(segments_peak_window)
{
    TCase *window = suite_case(suite, "window", NULL, NULL);
    tcase_add_test(window, a_flight_that_fails_lifts_no_peak);
    tcase_add_test(window, no_figure_goes_back_while_requests_fly);
}
