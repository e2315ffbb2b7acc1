/* own_policy_test.c - rules of growth of somebody's own: they are asked, told, and bounded. */
/* labels: unit */
#include <check.h>

#include "segments/pleat/grow/policy.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_chunks.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20, N_DEVICE = 256 };

#define SIM "capacity:512M"

static uint64_t answer;
static uint64_t n_asked;
static uint64_t last_own;
static pleat_policy_view last;

static uint64_t say(const pleat_policy_view *now, uint64_t own)
{
    n_asked++;
    last_own = own;
    last = *now;
    return answer;
}

static const pl_policy_calls order_alone = { .order = say };
static const pl_policy_calls slack_alone = { .slack = say };

static void open_with(const pl_policy_calls *calls, pl_chunks chunks)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    SET_OWN(pleat, &options, reserve_bytes, 0);
    SET_OWN(pleat, &options, chunks, chunks);
    SET_OWN(pleat, &options, policy, calls);
    n_asked = 0;
    pleat_open(SIM, &options);
}

static pleat_devptr get(size_t n_granules)
{
    return pleat_get(n_granules * GRANULE, 1);
}

START_TEST(chunks_are_as_large_as_the_rule_says)
{
    static const struct {
        uint64_t answer;
        uint64_t n_chunks;
    } rows[] = { { 0, 64 }, { 2, 16 }, { 5, 2 }, { 6, 2 }, { UINT64_MAX, 2 } }; /* 64 MiB at most */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_with(&order_alone, PL_CHUNKS_MIXED);
        answer = rows[i].answer;
        uint64_t before = pleat_calls("cuMemCreate");
        pleat_devptr ptr = get(64);
        ck_assert_uint_eq(pleat_calls("cuMemCreate") - before, rows[i].n_chunks);
        ck_assert_uint_gt(n_asked, 0);
        ck_assert_uint_eq(last.total, N_DEVICE);
        ck_assert_uint_eq(last.granule_bytes, GRANULE);
        ck_assert_uint_eq(last_own, 0); /* pleat's own: a share of a small device */
        pleat_put(ptr, 1);
        pleat_close();
    }
}
END_TEST

START_TEST(with_single_granules_there_is_no_choice)
{
    open_with(&order_alone, PL_CHUNKS_GRANULE);
    answer = 5;
    uint64_t before = pleat_calls("cuMemCreate");
    pleat_devptr ptr = get(8);
    ck_assert_uint_eq(pleat_calls("cuMemCreate") - before, 8);
    ck_assert_uint_eq(n_asked, 0);
    pleat_put(ptr, 1);
    pleat_close();
}
END_TEST

/* Two holes of 32 granules, then a request of 64: taking holds no more, creating does. */
static uint64_t held_after_a_request_of_two_holes(uint64_t slack)
{
    pleat_devptr blocks[5];
    open_with(&slack_alone, PL_CHUNKS_GRANULE);
    answer = 0;
    for (int i = 0; i < 5; i++) {
        blocks[i] = get(32);
    }
    pleat_put(blocks[1], 1);
    pleat_put(blocks[3], 1);
    answer = slack;
    pleat_devptr large = get(64);
    uint64_t held = pleat_counted().resident_bytes / GRANULE;
    ck_assert_uint_ge(last.held, 160);
    ck_assert_uint_eq(last.cap, N_DEVICE);
    answer = 0;
    pleat_put(large, 1);
    for (int i = 0; i < 5; i += 2) {
        pleat_put(blocks[i], 1);
    }
    pleat_close();
    return held;
}

START_TEST(the_rule_decides_between_taking_and_creating_within_the_device)
{
    ck_assert_uint_eq(held_after_a_request_of_two_holes(0), 160);
    ck_assert_uint_gt(held_after_a_request_of_two_holes(64), 160);
    uint64_t most = held_after_a_request_of_two_holes(UINT64_MAX);
    ck_assert_uint_gt(most, 160);
    ck_assert_uint_le(most, N_DEVICE);
}
END_TEST

SUITE(segments_own_policy)
{
    TCase *all = suite_case(suite, "all", NULL, NULL);
    tcase_add_test(all, chunks_are_as_large_as_the_rule_says);
    tcase_add_test(all, with_single_granules_there_is_no_choice);
    tcase_add_test(all, the_rule_decides_between_taking_and_creating_within_the_device);
}
