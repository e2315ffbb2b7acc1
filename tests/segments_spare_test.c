/* segments_spare_test.c - two streams, one of which passes memory on to the other again and again:
 * its free memory is left to it, and its uses by the other cost few ticks. */
/* labels: unit model */
#include <check.h>
#include <stdlib.h>

#include "tests/support/segments_sim.h"
#include "tests/support/suite.h"

enum { BUSY_EVENTS = 64, STAYING_FREES = 32, YOUNG_FREES = 256, FREES_PER_TICK = 32 };
enum { MAIN = 1, SIDE = 2 };

static const size_t GATHERED = 64 * MIB;
static pleat_devptr gathered;

static void open_large(void)
{
    pleat_open("capacity:4G", NULL);
}

static void open_small(void)
{
    pleat_open("capacity:640M", NULL);
}

/* The main stream holds 512 MiB, and is there to stay. */
static void settle_in(void)
{
    for (int i = 0; i < 8; i++) {
        pleat_get_and_use(64 * MIB, MAIN);
    }
    for (int i = 0; i < YOUNG_FREES; i++) {
        pleat_put(pleat_get_and_use(2 * MIB, MAIN), MAIN);
    }
}

/* What the other stream has gathered is free, for any stream. */
static void gather(void)
{
    gathered = pleat_get_and_use(GATHERED, SIDE);
    pleat_put(gathered, SIDE);
    pleat.sim.finish();
}

static bool lies_there(pleat_devptr ptr)
{
    return ptr >= gathered && ptr < gathered + GATHERED;
}

/* ---- whose memory is left to it -------------------------------------------------------------- */

START_TEST(a_stream_that_has_just_asked_keeps_its_free_memory)
{
    settle_in();
    gather();
    for (int i = 0; i < 4; i++) {
        ck_assert(!lies_there(pleat_get_and_use(6 * MIB, MAIN)));
    }
    ck_assert_uint_eq(pleat_get(GATHERED, SIDE), gathered);
}
END_TEST

START_TEST(but_not_for_ever)
{
    settle_in();
    gather();
    pleat_get_and_use(2 * MIB, MAIN);
    for (int i = 0; i < BUSY_EVENTS; i++) {
        pleat_put(pleat_get(512, MAIN), MAIN);
    }
    ck_assert(lies_there(pleat_get_and_use(6 * MIB, MAIN)));
}
END_TEST

START_TEST(nor_from_a_large_request)
{
    settle_in();
    gather();
    ck_assert(lies_there(pleat_get_and_use(32 * MIB, MAIN)));
}
END_TEST

START_TEST(nor_from_a_stream_that_may_not_stay)
{
    for (int i = 0; i < 8; i++) {
        pleat_get_and_use(64 * MIB, MAIN);
    }
    gather();
    ck_assert(lies_there(pleat_get_and_use(6 * MIB, MAIN)));
}
END_TEST

START_TEST(nor_where_memory_is_not_plentiful)
{
    settle_in(); /* of 640 MiB */
    gather();
    ck_assert(lies_there(pleat_get_and_use(6 * MIB, MAIN)));
}
END_TEST

/* The other stream asks for more each time, and smaller blocks of the main one stay. */
START_TEST(what_is_spared_is_bounded_by_what_is_needed)
{
    settle_in();
    for (int i = 0; i < 200; i++) {
        gather();
        pleat_put(pleat_get_and_use(6 * MIB, MAIN), MAIN);
    }
    pleat_stats s = pleat_counted_mixed();
    ck_assert_uint_le(s.reserved_bytes[PLEAT_POOL_ALL].peak,
                      s.allocated_bytes[PLEAT_POOL_ALL].peak / 100 * 112);
}
END_TEST

/* ---- what the other stream uses -------------------------------------------------------------- */

static void pass_on(size_t bytes)
{
    pleat_devptr ptr = pleat_get_and_use(bytes, MAIN);
    pleat_record(ptr, SIDE);
    pleat_work_after(SIDE, MAIN, ptr, bytes);
    pleat_put(ptr, MAIN);
}

START_TEST(small_uses_share_a_tick)
{
    settle_in();
    for (int i = 0; i < YOUNG_FREES; i++) {
        pass_on(4096);
    }
    uint64_t recorded = pleat_calls("cuEventRecord");
    for (int i = 0; i < 10 * FREES_PER_TICK; i++) {
        pass_on(4096);
    }
    uint64_t n = pleat_calls("cuEventRecord") - recorded - 10 * FREES_PER_TICK; /* the test's own */
    ck_assert_uint_ge(n, 10);
    ck_assert_uint_le(n, 60);
}
END_TEST

START_TEST(what_is_much_gets_one_at_once)
{
    settle_in();
    for (int i = 0; i < YOUNG_FREES + 50; i++) {
        pass_on(8 * MIB);
        pleat.sim.finish();
    }
    ck_assert_uint_le(pleat_counted_mixed().reserved_bytes[PLEAT_POOL_ALL].peak, 545 * MIB);
}
END_TEST

/* No call names the other stream any more: it may be gone. */
START_TEST(what_is_left_without_a_tick_comes_back)
{
    enum { N = 20 };
    settle_in();
    for (int i = 0; i < YOUNG_FREES + N; i++) {
        pass_on(4096);
    }
    pleat.sim.finish();
    pleat_trim(0, true);
    pleat_stats s = pleat_counted_mixed();
    ck_assert_uint_eq(s.active_bytes[PLEAT_POOL_ALL].current,
                      s.allocated_bytes[PLEAT_POOL_ALL].current);
}
END_TEST

START_TEST(a_block_is_found_by_its_address_among_thousands)
{
    enum { N = 4000 };
    pleat_devptr some = 0;
    pleat_walk_every(N);
    for (int i = 0; i < N; i++) {
        pleat_devptr ptr = pleat_get(512, MAIN);
        some = i == N / 3 ? ptr : some;
    }
    pl_lock_reset_touched();
    ck_assert_uint_eq(pleat_info(some).base, some);
    ck_assert_uint_le(pl_lock_most_touched(), 8); /* 0 in a release build */
    ck_assert_uint_eq(pleat_info(some + 100).base, some);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("segments_spare");
    TCase *large = suite_case(suite, "large", open_large, pleat_close);
    tcase_add_test(large, a_stream_that_has_just_asked_keeps_its_free_memory);
    tcase_add_test(large, but_not_for_ever);
    tcase_add_test(large, nor_from_a_large_request);
    tcase_add_test(large, nor_from_a_stream_that_may_not_stay);
    tcase_add_test(large, what_is_spared_is_bounded_by_what_is_needed);
    tcase_add_test(large, small_uses_share_a_tick);
    tcase_add_test(large, what_is_much_gets_one_at_once);
    tcase_add_test(large, what_is_left_without_a_tick_comes_back);
    tcase_add_test(large, a_block_is_found_by_its_address_among_thousands);
    TCase *small = suite_case(suite, "small", open_small, pleat_close);
    tcase_add_test(small, nor_where_memory_is_not_plentiful);
    return suite_run(suite);
}
