/* deadline_test.c - a call's deadline is set by the first wait and shared by all attempts. */
/* alone: it replaces clock_gettime */
#include <check.h>
#include <pthread.h>
#include <time.h>

#include "tests/support/suite.h"
#include "vmm/base/deadline.h"

static uint64_t now_ms = 1000;

/* Replaces libc's function, so that nobody waits in real time. */
int clock_gettime(clockid_t id, struct timespec *out)
{
    (void)id;
    *out = (struct timespec){ (time_t)(now_ms / 1000), (long)(now_ms % 1000 * 1000000) };
    return 0;
}

START_TEST(the_first_question_starts_the_time_and_an_attempt_forgets_it)
{
    pl_deadline_begin();
    now_ms += 500; /* time before the first wait does not count */
    ck_assert_uint_eq(pl_deadline_left(100), 100);
    now_ms += 70;
    ck_assert_uint_eq(pl_deadline_left(100), 30);
    now_ms += 70;
    ck_assert_uint_eq(pl_deadline_left(100), 0);
    pl_deadline_begin();
    ck_assert_uint_eq(pl_deadline_left(100), 100);
}
END_TEST

START_TEST(never_and_for_ever_are_themselves)
{
    pl_deadline_begin();
    ck_assert_uint_eq(pl_deadline_left(0), 0);
    ck_assert_uint_eq(pl_deadline_left(UINT32_MAX), UINT32_MAX);
    now_ms += 50;
    ck_assert_uint_eq(pl_deadline_left(100), 100);
}
END_TEST

START_TEST(a_held_one_outlasts_attempts)
{
    pl_deadline_begin();
    ck_assert_uint_eq(pl_deadline_left(100), 100);
    now_ms += 40;
    pl_deadline_hold(100);
    pl_deadline_begin();
    ck_assert_uint_eq(pl_deadline_left(100), 60);
    pl_deadline_let_go();
    ck_assert_uint_eq(pl_deadline_left(100), 100);
}
END_TEST

START_TEST(holding_starts_the_time)
{
    pl_deadline_begin();
    pl_deadline_hold(100);
    now_ms += 40;
    ck_assert_uint_eq(pl_deadline_left(100), 60);
    pl_deadline_let_go();
}
END_TEST

START_TEST(what_is_laid_aside_goes_on_when_it_is_taken_up)
{
    pl_deadline_begin();
    pl_deadline_hold(100);
    pl_deadline call = pl_deadline_lay_aside();
    pl_deadline_begin();
    now_ms += 40;
    ck_assert_uint_eq(pl_deadline_left(100), 100);
    now_ms += 30;
    pl_deadline_take_up(call);
    pl_deadline_begin(); /* the deadline is still held */
    ck_assert_uint_eq(pl_deadline_left(100), 30);
    pl_deadline_let_go();
}
END_TEST

static void *ask(void *left_ms)
{
    *(uint32_t *)left_ms = pl_deadline_left(100);
    return NULL;
}

START_TEST(each_thread_has_its_own)
{
    pthread_t thread;
    uint32_t left_ms = 0;
    pl_deadline_begin();
    pl_deadline_hold(100);
    now_ms += 40;
    ck_assert_int_eq(pthread_create(&thread, NULL, ask, &left_ms), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(left_ms, 100);
    pl_deadline_let_go();
}
END_TEST

SUITE(vmm_deadline)
{
    TCase *call = suite_case(suite, "call", NULL, NULL);
    tcase_add_test(call, the_first_question_starts_the_time_and_an_attempt_forgets_it);
    tcase_add_test(call, never_and_for_ever_are_themselves);
    tcase_add_test(call, a_held_one_outlasts_attempts);
    tcase_add_test(call, holding_starts_the_time);
    tcase_add_test(call, what_is_laid_aside_goes_on_when_it_is_taken_up);
    tcase_add_test(call, each_thread_has_its_own);
}
