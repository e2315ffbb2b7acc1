/* segments_budget_test.c - the token bucket, the ordered waits and the stamps. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>

#include "segments/pleat/budget.h"

static pl_budget budget;

static void open_budget(void)
{
    pl_budget_init(&budget, 2, 200, 50000);
}

/* ---- tokens -------------------------------------------------------------------------------- */

START_TEST(the_bucket_starts_full)
{
    ck_assert_uint_eq(pl_budget_tokens(&budget), 200);
}
END_TEST

START_TEST(a_full_bucket_takes_no_more)
{
    budget.n_events = 1000000;
    ck_assert_uint_eq(pl_budget_tokens(&budget), 200);
    pl_budget_spend(&budget, 1);
    ck_assert_uint_eq(pl_budget_tokens(&budget), 199);
}
END_TEST

START_TEST(a_thousand_events_earn_what_was_set)
{
    pl_budget_spend(&budget, 200);
    ck_assert_uint_eq(pl_budget_tokens(&budget), 0);
    budget.n_events = 499;
    ck_assert_uint_eq(pl_budget_tokens(&budget), 0);
    budget.n_events = 500;
    ck_assert_uint_eq(pl_budget_tokens(&budget), 1);
    budget.n_events = 1000;
    ck_assert_uint_eq(pl_budget_tokens(&budget), 2);
    budget.n_events = 50000;
    ck_assert_uint_eq(pl_budget_tokens(&budget), 100);
}
END_TEST

START_TEST(fractions_of_a_token_are_kept_however_often_one_asks)
{
    pl_budget_spend(&budget, 200);
    for (budget.n_events = 0; budget.n_events < 1500; budget.n_events++) {
        ck_assert_uint_eq(pl_budget_tokens(&budget), budget.n_events / 500);
    }
}
END_TEST

START_TEST(one_can_spend_more_than_there_is_but_owes_nothing)
{
    pl_budget_spend(&budget, 5000);
    ck_assert_uint_eq(pl_budget_tokens(&budget), 0);
    budget.n_events = 500;
    ck_assert_uint_eq(pl_budget_tokens(&budget), 1);
}
END_TEST

START_TEST(without_refill_the_bucket_stays_empty)
{
    pl_budget_init(&budget, 0, 3, 50000);
    ck_assert_uint_eq(pl_budget_tokens(&budget), 3);
    pl_budget_spend(&budget, 3);
    budget.n_events = UINT64_C(1) << 40;
    ck_assert_uint_eq(pl_budget_tokens(&budget), 0);
}
END_TEST

START_TEST(a_bucket_of_no_size_has_no_tokens)
{
    pl_budget_init(&budget, 5, 0, 50000);
    budget.n_events = 1000000;
    ck_assert_uint_eq(pl_budget_tokens(&budget), 0);
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

int main(void)
{
    Suite *suite = suite_create("segments_budget");
    TCase *tokens = tcase_create("tokens");
    tcase_add_checked_fixture(tokens, open_budget, NULL);
    tcase_add_test(tokens, the_bucket_starts_full);
    tcase_add_test(tokens, a_full_bucket_takes_no_more);
    tcase_add_test(tokens, a_thousand_events_earn_what_was_set);
    tcase_add_test(tokens, fractions_of_a_token_are_kept_however_often_one_asks);
    tcase_add_test(tokens, one_can_spend_more_than_there_is_but_owes_nothing);
    tcase_add_test(tokens, without_refill_the_bucket_stays_empty);
    tcase_add_test(tokens, a_bucket_of_no_size_has_no_tokens);
    suite_add_tcase(suite, tokens);
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

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
