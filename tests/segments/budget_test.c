/* budget_test.c - driver time, steady programs, ordered waits, stamps. */
/* labels: unit */
#include <check.h>

#include "segments/pleat/budget.h"
#include "tests/support/suite.h"

static pl_budget budget;

enum { MS = 1000000 };

static void open_budget(void)
{
    pl_budget_init(&budget, 2, 100, 50000);
    (void)pl_budget_left_ns(&budget, 1);
}

/* ---- driver time --------------------------------------------------------------------------- */

START_TEST(what_is_saved_up_starts_full)
{
    ck_assert_uint_eq(pl_budget_left_ns(&budget, 1), 100 * MS);
}
END_TEST

START_TEST(no_more_is_saved_up_than_was_set)
{
    ck_assert_uint_eq(pl_budget_left_ns(&budget, UINT64_MAX), 100 * MS);
    pl_budget_spend_ns(&budget, 1);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, UINT64_MAX), 100 * MS - 1);
}
END_TEST

START_TEST(the_time_that_passes_earns_its_share)
{
    pl_budget_spend_ns(&budget, 100 * MS);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, 1), 0);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, 1 + 500 * (uint64_t)MS), 1 * MS);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, 1 + 1500 * (uint64_t)MS), 3 * MS);
}
END_TEST

START_TEST(nothing_is_lost_however_often_one_asks)
{
    pl_budget_spend_ns(&budget, 100 * MS);
    for (uint64_t now = 1; now < 1000000; now += 7) {
        ck_assert_uint_le(pl_budget_left_ns(&budget, now), now / 500);
    }
    ck_assert_uint_eq(pl_budget_left_ns(&budget, 1000001), 2000);
}
END_TEST

START_TEST(what_creating_took_is_there_besides_and_is_spent_first)
{
    pl_budget_earn_ns(&budget, 30 * MS);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, 1), 130 * MS);
    pl_budget_spend_ns(&budget, 40 * MS);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, 1), 90 * MS);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, UINT64_MAX), 100 * MS); /* and not 130 */
}
END_TEST

START_TEST(where_nothing_is_saved_up_creating_earns_nothing)
{
    pl_budget_init(&budget, 0, 0, 50000);
    pl_budget_earn_ns(&budget, 30 * MS);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, 1), 0);
}
END_TEST

START_TEST(what_was_earned_is_gone_when_growing_is_over)
{
    pl_budget_earn_ns(&budget, 30 * MS);
    budget.n_events = 10000;
    pl_budget_changed(&budget);
    budget.n_events = 19999;
    ck_assert_uint_eq(pl_budget_left_ns(&budget, 1), 130 * MS);
    budget.n_events = 20000;
    ck_assert_uint_eq(pl_budget_left_ns(&budget, 1), 100 * MS);
}
END_TEST

START_TEST(the_clock_before_the_first_question_earns_nothing)
{
    pl_budget_init(&budget, 2, 100, 50000);
    pl_budget_spend_ns(&budget, 100 * MS);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, UINT64_C(1) << 60), 0);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, (UINT64_C(1) << 60) + 500000), 1000);
}
END_TEST

START_TEST(one_can_spend_more_than_there_is_but_owes_nothing)
{
    pl_budget_spend_ns(&budget, 5000 * (uint64_t)MS);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, 1), 0);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, 500001), 1000);
}
END_TEST

/* What was earned besides does not count. */
START_TEST(it_is_ample_while_more_than_seven_tenths_of_what_may_be_saved_are_left)
{
    ck_assert(pl_budget_is_ample(&budget));
    pl_budget_spend_ns(&budget, 30 * MS - 1);
    ck_assert(pl_budget_is_ample(&budget));
    pl_budget_spend_ns(&budget, 1);
    pl_budget_earn_ns(&budget, 50 * MS);
    ck_assert(!pl_budget_is_ample(&budget));
    pl_budget_init(&budget, 2, 0, 50000);
    ck_assert(!pl_budget_is_ample(&budget));
}
END_TEST

START_TEST(without_a_share_nothing_is_earned)
{
    pl_budget_init(&budget, 0, 3, 50000);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, 1), 3 * MS);
    pl_budget_spend_ns(&budget, 3 * MS);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, UINT64_C(1) << 60), 0);
}
END_TEST

START_TEST(without_room_nothing_is_saved_up)
{
    pl_budget_init(&budget, 1000, 0, 50000);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, 1), 0);
    ck_assert_uint_eq(pl_budget_left_ns(&budget, UINT64_C(1) << 60), 0);
}
END_TEST

/* ---- steady programs ----------------------------------------------------------------------- */

static void assert_steady_after(uint64_t changed_at, uint64_t n)
{
    budget.n_events = changed_at;
    pl_budget_changed(&budget);
    budget.n_events = changed_at + n - 1;
    ck_assert(!pl_budget_is_steady(&budget));
    budget.n_events = changed_at + n;
    ck_assert(pl_budget_is_steady(&budget));
}

START_TEST(a_program_is_steady_four_times_as_long_after_its_last_change)
{
    assert_steady_after(10000, 40000);
    assert_steady_after(90000, 360000);
}
END_TEST

START_TEST(a_program_is_neither_steady_at_once_nor_after_ages_only)
{
    assert_steady_after(0, PL_BUDGET_STEADY_LEAST);
    assert_steady_after(100, PL_BUDGET_STEADY_LEAST);
    assert_steady_after(UINT64_C(1) << 40, PL_BUDGET_STEADY_MOST);
}
END_TEST

/* ---- ordered waits --------------------------------------------------------------------------- */

START_TEST(the_first_ordered_wait_is_free_and_the_next_is_earned)
{
    ck_assert(pl_budget_may_order(&budget));
    pl_budget_ordered(&budget);
    ck_assert(!pl_budget_may_order(&budget));
    budget.n_events = 49999;
    ck_assert(!pl_budget_may_order(&budget));
    budget.n_events = 50000;
    ck_assert(pl_budget_may_order(&budget));
}
END_TEST

START_TEST(ordered_waits_are_not_saved_up)
{
    budget.n_events = 10 * 50000;
    for (int i = 0; i < PL_BUDGET_ORDERS; i++) {
        ck_assert(pl_budget_may_order(&budget));
        pl_budget_ordered(&budget);
    }
    ck_assert(!pl_budget_may_order(&budget));
}
END_TEST

START_TEST(asking_costs_nothing)
{
    pl_budget_ordered(&budget);
    for (budget.n_events = 0; budget.n_events < 50000; budget.n_events++) {
        ck_assert(!pl_budget_may_order(&budget));
    }
    ck_assert(pl_budget_may_order(&budget));
    ck_assert(pl_budget_may_order(&budget));
}
END_TEST

/* ---- stamps -------------------------------------------------------------------------------- */

START_TEST(a_stamp_is_never_zero)
{
    static const uint64_t moments[] = { 0, 15, 16, UINT64_C(1) << 35, UINT64_MAX };
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        budget.n_events = moments[i];
        ck_assert_uint_ne(pl_budget_stamp(&budget), 0);
    }
}
END_TEST

START_TEST(a_stamp_tells_its_age_to_sixteen_events)
{
    static const uint64_t ages[] = { 0, 1, 100, 131072, UINT64_C(1) << 34 };
    for (uint64_t start = 0; start < 5000000000; start += 999999937) {
        for (size_t i = 0; i < sizeof ages / sizeof ages[0]; i++) {
            budget.n_events = start;
            uint32_t stamp = pl_budget_stamp(&budget);
            budget.n_events = start + ages[i];
            uint64_t since = pl_budget_since(&budget, stamp);
            ck_assert_uint_le(since, ages[i] + 15);
            ck_assert_uint_ge(since + 15, ages[i]);
        }
    }
}
END_TEST

START_TEST(a_stamp_tells_its_age_when_the_counter_has_wrapped)
{
    budget.n_events = (UINT64_C(1) << 35) - 160;
    uint32_t stamp = pl_budget_stamp(&budget);
    budget.n_events += 1600;
    ck_assert_uint_eq(pl_budget_since(&budget, stamp), 1600);
}
END_TEST

SUITE(segments_budget)
{
    TCase *time = tcase_create("driver time");
    tcase_add_checked_fixture(time, open_budget, NULL);
    tcase_add_test(time, what_is_saved_up_starts_full);
    tcase_add_test(time, no_more_is_saved_up_than_was_set);
    tcase_add_test(time, the_time_that_passes_earns_its_share);
    tcase_add_test(time, nothing_is_lost_however_often_one_asks);
    tcase_add_test(time, what_creating_took_is_there_besides_and_is_spent_first);
    tcase_add_test(time, where_nothing_is_saved_up_creating_earns_nothing);
    tcase_add_test(time, what_was_earned_is_gone_when_growing_is_over);
    tcase_add_test(time, the_clock_before_the_first_question_earns_nothing);
    tcase_add_test(time, one_can_spend_more_than_there_is_but_owes_nothing);
    tcase_add_test(time, it_is_ample_while_more_than_seven_tenths_of_what_may_be_saved_are_left);
    tcase_add_test(time, without_a_share_nothing_is_earned);
    tcase_add_test(time, without_room_nothing_is_saved_up);
    tcase_add_test(time, a_program_is_steady_four_times_as_long_after_its_last_change);
    tcase_add_test(time, a_program_is_neither_steady_at_once_nor_after_ages_only);
    suite_add_tcase(suite, time);
    TCase *orders = tcase_create("orders");
    tcase_add_checked_fixture(orders, open_budget, NULL);
    tcase_add_test(orders, the_first_ordered_wait_is_free_and_the_next_is_earned);
    tcase_add_test(orders, ordered_waits_are_not_saved_up);
    tcase_add_test(orders, asking_costs_nothing);
    suite_add_tcase(suite, orders);
    TCase *stamps = tcase_create("stamps");
    tcase_add_checked_fixture(stamps, open_budget, NULL);
    tcase_add_test(stamps, a_stamp_is_never_zero);
    tcase_add_test(stamps, a_stamp_tells_its_age_to_sixteen_events);
    tcase_add_test(stamps, a_stamp_tells_its_age_when_the_counter_has_wrapped);
    suite_add_tcase(suite, stamps);
}
