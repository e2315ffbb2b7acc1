/* lock_test.c - ranked locks exclude, wait, and in debug builds report a wrong order. */
/* labels: unit stress */
#include <check.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/suite.h"
#include "vmm/base/lock.h"

enum { N_THREADS = 4, N_ROUNDS = 20000 };

typedef struct counter {
    pl_lock lock;
    pl_cond changed;
    long value;   /* lock */
    bool is_open; /* lock */
} counter;

static counter shared;

static void open_counter(void)
{
    shared.value = 0;
    shared.is_open = false;
    pl_lock_init(&shared.lock, PL_RANK_DEVICE);
}

static void close_counter(void)
{
    pl_lock_fini(&shared.lock);
}

static void *add_rounds(void *unused)
{
    (void)unused;
    for (int i = 0; i < N_ROUNDS; i++) {
        pl_lock_acquire(&shared.lock);
        pl_lock_assert(&shared.lock);
        shared.value++;
        pl_lock_release(&shared.lock);
        pl_lock_assert_none();
    }
    return NULL;
}

START_TEST(threads_that_hold_the_lock_exclude_each_other)
{
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_rounds, NULL), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_int_eq(shared.value, (long)N_THREADS * N_ROUNDS);
}
END_TEST

static void *wait_until_open(void *unused)
{
    (void)unused;
    pl_lock_acquire(&shared.lock);
    while (!shared.is_open) {
        pl_lock_wait(&shared.lock, &shared.changed);
    }
    pl_lock_assert(&shared.lock);
    shared.value++;
    pl_lock_release(&shared.lock);
    return NULL;
}

START_TEST(a_waiting_thread_gives_the_lock_up_and_holds_it_again_afterwards)
{
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, wait_until_open, NULL), 0);
    }
    pl_lock_acquire(&shared.lock);
    ck_assert_int_eq(shared.value, 0);
    shared.is_open = true;
    pl_cond_broadcast(&shared.changed);
    pl_lock_release(&shared.lock);
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_int_eq(shared.value, N_THREADS);
}
END_TEST

static void *wait_though_cancelled(void *unused)
{
    (void)wait_until_open(unused);
    pthread_testcancel(); /* cancelled here, with no lock held */
    return NULL;
}

static void *wait_with_a_cancellation_pending(void *unused)
{
    pthread_cancel(pthread_self());
    return wait_though_cancelled(unused);
}

static void open_for_all(void)
{
    pl_lock_acquire(&shared.lock);
    shared.is_open = true;
    pl_cond_broadcast(&shared.changed);
    pl_lock_release(&shared.lock);
}

START_TEST(a_wait_is_no_cancellation_point)
{
    pthread_t threads[2];
    ck_assert_int_eq(pthread_create(&threads[0], NULL, wait_with_a_cancellation_pending, NULL), 0);
    ck_assert_int_eq(pthread_create(&threads[1], NULL, wait_though_cancelled, NULL), 0);
    usleep(10000); /* waits by now, or is cancelled before its wait */
    ck_assert_int_eq(pthread_cancel(threads[1]), 0);
    usleep(10000);
    open_for_all();
    for (int i = 0; i < 2; i++) {
        void *result;
        ck_assert_int_eq(pthread_join(threads[i], &result), 0);
        ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    }
    pl_lock_acquire(&shared.lock);
    ck_assert_int_eq(shared.value, 2);
    pl_lock_release(&shared.lock);
}
END_TEST

START_TEST(rising_ranks_may_be_released_in_any_order)
{
    pl_lock inner;
    pl_lock_init(&inner, PL_RANK_VMM);
    pl_lock_acquire(&shared.lock);
    pl_lock_acquire(&inner);
    pl_lock_release(&shared.lock);
    pl_lock_assert(&inner);
    pl_lock_release(&inner);
    pl_lock_assert_none();
    pl_lock_acquire(&shared.lock);
    pl_lock_release(&shared.lock);
    pl_lock_fini(&inner);
}
END_TEST

/* ---- how much is done in one hold ---------------------------------------------------------- */

static const size_t counts = PLEAT_DEBUG_LEVEL >= 1; /* a release build counts nothing */

START_TEST(what_is_touched_counts_from_one_acquisition_to_its_release)
{
    pl_lock_reset_touched();
    pl_lock_acquire(&shared.lock);
    pl_lock_touch(3);
    pl_lock_touch(4);
    ck_assert_uint_eq(pl_lock_touched(), 7 * counts);
    pl_lock_release(&shared.lock);
    pl_lock_acquire(&shared.lock);
    ck_assert_uint_eq(pl_lock_touched(), 0);
    pl_lock_touch(5);
    pl_lock_release(&shared.lock);
    ck_assert_uint_eq(pl_lock_most_touched(), 7 * counts);
    pl_lock_reset_touched();
    ck_assert_uint_eq(pl_lock_most_touched(), 0);
}
END_TEST

START_TEST(locks_of_other_ranks_neither_end_nor_begin_the_count)
{
    pl_lock inner;
    pl_lock_init(&inner, PL_RANK_VMM);
    pl_lock_reset_touched();
    pl_lock_acquire(&shared.lock);
    pl_lock_touch(3);
    pl_lock_acquire(&inner);
    pl_lock_touch(4);
    pl_lock_release(&inner);
    ck_assert_uint_eq(pl_lock_most_touched(), 0);
    ck_assert_uint_eq(pl_lock_touched(), 7 * counts);
    pl_lock_release(&shared.lock);
    ck_assert_uint_eq(pl_lock_most_touched(), 7 * counts);
    pl_lock_fini(&inner);
}
END_TEST

static void *touch_and_wait(void *unused)
{
    (void)unused;
    pl_lock_acquire(&shared.lock);
    pl_lock_touch(10);
    while (!shared.is_open) {
        pl_lock_wait(&shared.lock, &shared.changed);
        shared.value = (long)pl_lock_touched();
    }
    pl_lock_touch(2);
    pl_lock_release(&shared.lock);
    return NULL;
}

START_TEST(a_wait_begins_a_new_hold)
{
    pthread_t thread;
    pl_lock_reset_touched();
    shared.value = -1;
    ck_assert_int_eq(pthread_create(&thread, NULL, touch_and_wait, NULL), 0);
    while (counts > 0 && pl_lock_most_touched() == 0) {
        sched_yield();
    }
    pl_lock_acquire(&shared.lock);
    shared.is_open = true;
    pl_cond_broadcast(&shared.changed);
    pl_lock_release(&shared.lock);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_le(shared.value, 0); /* -1: the thread was too late to wait */
    ck_assert_uint_eq(pl_lock_most_touched(), 10 * counts);
}
END_TEST

enum { WANTED = 2 };

static void *want(void *unused)
{
    (void)unused;
    pl_lock_acquire(&shared.lock);
    shared.value = 1;
    pl_lock_release(&shared.lock);
    return NULL;
}

START_TEST(who_wants_the_lock_has_it_while_its_holder_breathes)
{
    pthread_t thread;
    pl_lock_acquire(&shared.lock);
    shared.value = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, want, NULL), 0);
    while (atomic_load(&shared.lock.state) != WANTED) {
        sched_yield();
    }
    while (shared.value == 0) { /* if the value never comes, the test's time limit ends this loop */
        pl_lock_breathe(&shared.lock);
    }
    pl_lock_release(&shared.lock);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

static void hold_for(pl_lock *lock, long ns)
{
    struct timespec pause = { .tv_nsec = ns };
    pl_lock_acquire(lock);
    nanosleep(&pause, NULL);
    pl_lock_release(lock);
}

START_TEST(the_longest_hold_of_a_device_lock_is_timed_while_that_is_on)
{
    enum { NS = 2000000 };
    pl_lock leaf;
    pl_lock_init(&leaf, PL_RANK_HISTORY);
    hold_for(&shared.lock, NS);
    ck_assert_uint_eq(pl_lock_longest_ns(), 0);
    pl_lock_time_holds(true);
    hold_for(&leaf, NS);
    ck_assert_uint_eq(pl_lock_longest_ns(), 0);
    hold_for(&shared.lock, NS);
    hold_for(&shared.lock, 1);
    ck_assert_uint_ge(pl_lock_longest_ns(), NS);
    ck_assert_uint_eq(pl_lock_longest_ns(), 0);
    pl_lock_time_holds(false);
    hold_for(&shared.lock, NS);
    ck_assert_uint_eq(pl_lock_longest_ns(), 0);
    pl_lock_fini(&leaf);
}
END_TEST

START_TEST(a_hold_that_outlasts_the_timing_is_not_mistaken_for_a_later_one)
{
    pl_lock_time_holds(true);
    pl_lock_acquire(&shared.lock);
    pl_lock_time_holds(false);
    pl_lock_release(&shared.lock);
    (void)pl_lock_longest_ns();
    pl_lock_acquire(&shared.lock);
    pl_lock_time_holds(true);
    pl_lock_release(&shared.lock); /* this hold began before the timing */
    ck_assert_uint_eq(pl_lock_longest_ns(), 0);
    pl_lock_time_holds(false);
}
END_TEST

#if PLEAT_DEBUG_LEVEL >= 1

START_TEST(a_falling_rank_breaks_an_assertion)
{
    pl_lock outer;
    pl_lock_init(&outer, PL_RANK_API);
    pl_lock_acquire(&shared.lock);
    pl_lock_acquire(&outer);
}
END_TEST

START_TEST(an_equal_rank_breaks_an_assertion)
{
    pl_lock second;
    pl_lock_init(&second, PL_RANK_DEVICE);
    pl_lock_acquire(&shared.lock);
    pl_lock_acquire(&second);
}
END_TEST

START_TEST(asserting_a_lock_that_is_not_held_breaks)
{
    pl_lock_assert(&shared.lock);
}
END_TEST

START_TEST(asserting_no_lock_while_one_is_held_breaks)
{
    pl_lock_acquire(&shared.lock);
    pl_lock_assert_none();
}
END_TEST

static void add_broken_assertions(Suite *suite)
{
    TCase *tcase = tcase_create("broken assertions");
    tcase_add_checked_fixture(tcase, open_counter, close_counter);
    tcase_add_test_raise_signal(tcase, a_falling_rank_breaks_an_assertion, SIGABRT);
    tcase_add_test_raise_signal(tcase, an_equal_rank_breaks_an_assertion, SIGABRT);
    tcase_add_test_raise_signal(tcase, asserting_a_lock_that_is_not_held_breaks, SIGABRT);
    tcase_add_test_raise_signal(tcase, asserting_no_lock_while_one_is_held_breaks, SIGABRT);
    suite_add_tcase(suite, tcase);
}

#endif

SUITE(vmm_lock)
{
    TCase *tcase = tcase_create("exclusion");
    tcase_add_checked_fixture(tcase, open_counter, close_counter);
    tcase_add_test(tcase, threads_that_hold_the_lock_exclude_each_other);
    tcase_add_test(tcase, a_waiting_thread_gives_the_lock_up_and_holds_it_again_afterwards);
    tcase_add_test(tcase, a_wait_is_no_cancellation_point);
    tcase_add_test(tcase, rising_ranks_may_be_released_in_any_order);
    suite_add_tcase(suite, tcase);
    TCase *hold = tcase_create("one hold");
    tcase_add_checked_fixture(hold, open_counter, close_counter);
    tcase_add_test(hold, who_wants_the_lock_has_it_while_its_holder_breathes);
    tcase_add_test(hold, what_is_touched_counts_from_one_acquisition_to_its_release);
    tcase_add_test(hold, locks_of_other_ranks_neither_end_nor_begin_the_count);
    tcase_add_test(hold, a_wait_begins_a_new_hold);
    tcase_add_test(hold, the_longest_hold_of_a_device_lock_is_timed_while_that_is_on);
    tcase_add_test(hold, a_hold_that_outlasts_the_timing_is_not_mistaken_for_a_later_one);
    suite_add_tcase(suite, hold);
#if PLEAT_DEBUG_LEVEL >= 1
    add_broken_assertions(suite);
#endif
}
