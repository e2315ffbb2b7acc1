/* delay_test.c - calls sleep where they are told to, and hold up nobody meanwhile. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

enum { DELAY_US = 20000 };

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static uint64_t count_us(void)
{
    int count;
    uint64_t start = now_us();
    ck_ok(cuDeviceGetCount(&count));
    return now_us() - start;
}

START_TEST(a_delayed_call_takes_as_long_as_it_is_told)
{
    double cost = pleat_sim_cost_us();
    pleat_sim_delay("cuDeviceGetCount", DELAY_US);
    ck_assert_uint_ge(count_us(), DELAY_US);
    pleat_sim_delay_after("cuDeviceGetCount", DELAY_US);
    ck_assert_uint_ge(count_us(), 2 * DELAY_US);
    pleat_sim_delay(NULL, 0);
    ck_assert_uint_ge(count_us(), DELAY_US);
    pleat_sim_delay_after(NULL, PLEAT_SIM_YIELD);
    (void)count_us();
    ck_assert(pleat_sim_cost_us() == cost);
}
END_TEST

START_TEST(the_configuration_sets_delays_and_a_reset_takes_them_away)
{
    world_end();
    world_begin("delay:[cuDeviceGetCount=20000;cuEventQuery=yield],"
                "delay_after:cuDeviceGetCount=20000");
    ck_assert_uint_ge(count_us(), 2 * DELAY_US);
    world_end();
    world_begin(NULL);
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 100; i++) {
        uint64_t us = count_us();
        least = us < least ? us : least;
    }
    ck_assert_uint_lt(least, DELAY_US);
}
END_TEST

START_TEST(a_delay_of_nothing_known_is_said)
{
    pleat_sim_delay("cuMemCrate", 1);
    ck_assert(strstr(pleat_sim_error(), "cuMemCrate") != NULL);
    ck_assert_int_eq(pleat_sim_reset("delay:cuMemCrate=1"), -1);
    ck_assert_int_eq(pleat_sim_reset("delay:cuMemMap"), -1);
    ck_assert_int_eq(pleat_sim_reset("delay:cuMemMap=soon"), -1);
    ck_assert_int_eq(pleat_sim_reset("delay:cuMemMap=10000001"), -1);
    ck_assert_int_eq(pleat_sim_reset("delay_after:[cuMemMap=1;]"), -1);
}
END_TEST

typedef struct visit {
    cu_event event;
    _Atomic bool has_begun;
    _Atomic bool is_over;
    cu_context context;
    int result;
} visit;

static void *record_elsewhere(void *argument)
{
    visit *it = argument;
    it->result = cuCtxPushCurrent_v2(it->context);
    it->has_begun = true;
    if (it->result == CU_SUCCESS) {
        it->result = cuEventRecord(it->event, NULL);
    }
    it->is_over = true;
    return NULL;
}

/* Returns whether a call of this thread ran during the other thread's sleep in a call. n_counted:
 * the other's calls counted by then. */
static bool overlaps(visit *it, uint64_t *n_counted)
{
    pthread_t thread;
    it->has_begun = false;
    it->is_over = false;
    ck_assert_int_eq(pthread_create(&thread, NULL, record_elsewhere, it), 0);
    while (!it->has_begun) {
    }
    ck_ok(cuStreamQuery(CU_STREAM_PER_THREAD));
    *n_counted = pleat_sim_n_calls("cuEventRecord");
    bool was_in_time = !it->is_over;
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_ok(it->result);
    return was_in_time;
}

START_TEST(others_go_on_while_a_call_sleeps_before_it_takes_effect)
{
    visit it = { .event = world_event() };
    uint64_t n_counted = 0;
    uint64_t n_before;
    ck_ok(cuCtxGetCurrent(&it.context));
    pleat_sim_delay("cuEventRecord", DELAY_US);
    do { /* on a busy machine it may be missed */
        n_before = pleat_sim_n_calls("cuEventRecord");
    } while (!overlaps(&it, &n_counted));
    ck_assert_uint_eq(n_counted, n_before);
    ck_ok(cuEventDestroy_v2(it.event));
}
END_TEST

START_TEST(others_see_the_effect_while_a_call_sleeps_behind_it)
{
    visit it = { .event = world_event() };
    uint64_t n_counted = 0;
    uint64_t n_before;
    ck_ok(cuCtxGetCurrent(&it.context));
    pleat_sim_delay_after("cuEventRecord", DELAY_US);
    do {
        n_before = pleat_sim_n_calls("cuEventRecord");
    } while (!overlaps(&it, &n_counted) || n_counted == n_before);
    ck_assert_uint_eq(n_counted, n_before + 1);
    ck_ok(cuEventDestroy_v2(it.event));
}
END_TEST

SUITE(sim_delay)
{
    TCase *delays = tcase_create("delays");
    tcase_add_checked_fixture(delays, world_default, world_end);
    tcase_add_test(delays, a_delayed_call_takes_as_long_as_it_is_told);
    tcase_add_test(delays, the_configuration_sets_delays_and_a_reset_takes_them_away);
    tcase_add_test(delays, a_delay_of_nothing_known_is_said);
    tcase_add_test(delays, others_go_on_while_a_call_sleeps_before_it_takes_effect);
    tcase_add_test(delays, others_see_the_effect_while_a_call_sleeps_behind_it);
    suite_add_tcase(suite, delays);
}
