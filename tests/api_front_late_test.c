/* api_front_late_test.c - blocks that a thread has freed, and that become free memory in its next
 * request (segments/base/front.h): nobody takes them for live. */
/* labels: unit */
#include <check.h>

#include "api/front.h"
#include "tests/support/api_figures.h"
#include "tests/support/api_hands.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20 };

/* A walk behind the lock empties all fronts. */
#if PLEAT_DEBUG_LEVEL >= 2
enum { IS_WALKED = 1 };
#else
enum { IS_WALKED = 0 };
#endif

static unsigned late_here(void)
{
    unsigned n = 0;
    for (unsigned i = 0; pl_fronts_self && i < PL_FRONTS_OF_THREAD; i++) {
        n += atomic_load(&pl_fronts_self->front[i].n_late);
    }
    return n;
}

/* What is freed late is free for everybody who asks, and for the thread's own next request. */
START_TEST(large_blocks_are_freed_late_and_once)
{
    pleat_devptr ptrs[PL_FRONT_LATE + 2];
    size_t n = sizeof ptrs / sizeof ptrs[0];
    pleat instance = api_make(API_PLEAT, "capacity:256M", "");
    for (size_t i = 0; i < n; i++) {
        ptrs[i] = api_alloc(instance, 0, (i + 1) * MIB, NULL);
    }
    pleat_stats before = api_stats(instance, 0);
    for (size_t i = 0; i < n; i++) {
        api_free(instance, 0, ptrs[i], NULL);
        if (!IS_WALKED) { /* with the one that finds no place, all of them become free memory */
            ck_assert_uint_eq(late_here(), i < PL_FRONT_LATE ? i + 1 : i - PL_FRONT_LATE);
        }
    }
    ck_assert_int_eq(pleat_block_free(instance, 0, ptrs[n - 1], NULL), PLEAT_EDOUBLEFREE);
    pleat_stats after = api_stats(instance, 0);
    ck_assert_uint_eq(late_here(), 0);
    ck_assert_uint_eq(after.allocation[0].freed, before.allocation[0].freed + n);
    ck_assert_uint_eq(after.allocated_bytes[0].current, 0);
    ck_assert_uint_eq(after.allocated_bytes[0].peak, before.allocated_bytes[0].peak);
    ck_assert_uint_eq(api_alloc(instance, 0, n * (n + 1) / 2 * MIB, NULL), ptrs[0]);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
}
END_TEST

/* The thread that freed it late does nothing more. */
START_TEST(a_request_in_need_gets_what_another_thread_has_freed_late)
{
    api_hand hand;
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    api_hand_open(&hand);
    pleat_devptr small = api_hand_alloc(&hand, instance, 3000, NULL);
    pleat_devptr large = api_hand_alloc(&hand, instance, 40 * MIB, NULL);
    api_hand_free(&hand, instance, large, NULL);
    pleat_devptr mine = api_alloc(instance, 0, 40 * MIB, NULL);
    api_free(instance, 0, mine, NULL);
    api_hand_free(&hand, instance, small, NULL);
    api_hand_close(&hand);
    api_unmake(instance);
}
END_TEST

/* A late block counts as freed before a later request can lift the peak. */
START_TEST(late_blocks_lift_no_peak)
{
    api_hand hand;
    pleat instance = api_make(API_PLEAT, "capacity:256M", "");
    pleat_devptr small = api_alloc(instance, 0, 3000, NULL);
    pleat_devptr large = api_alloc(instance, 0, 32 * MIB, NULL);
    pleat_devptr spare = api_alloc(instance, 0, 24 * MIB, NULL);
    pleat_devptr wall = api_alloc(instance, 0, 3 * MIB, NULL);
    api_free(instance, 0, spare, NULL); /* resident: who asks for it needs nothing else */
    ck_assert_int_eq(pleat_device_reset_peaks(instance, 0), PLEAT_OK);
    uint64_t peak = api_stats(instance, 0).allocated_bytes[0].peak;
    api_free(instance, 0, large, NULL);
    api_hand_open(&hand);
    ck_assert_uint_eq(api_hand_alloc(&hand, instance, 24 * MIB, NULL), spare);
    ck_assert_uint_eq(late_here(), IS_WALKED ? 0 : 1);
    api_hand_close(&hand);
    ck_assert_uint_eq(api_stats(instance, 0).allocated_bytes[0].peak, peak);
    api_free(instance, 0, spare, NULL);
    api_free(instance, 0, wall, NULL);
    api_free(instance, 0, small, NULL);
    api_unmake(instance);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api_front_late");
    TCase *late = suite_case(suite, "late", api_sim_load, NULL);
    tcase_add_test(late, large_blocks_are_freed_late_and_once);
    tcase_add_test(late, a_request_in_need_gets_what_another_thread_has_freed_late);
    tcase_add_test(late, late_blocks_lift_no_peak);
    return suite_run(suite);
}
