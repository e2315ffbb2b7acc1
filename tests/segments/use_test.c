/* use_test.c - one stream passes memory on to others again and again: few ticks are
 * recorded for it, and yet little of it waits. */
/* labels: unit model */
#include <check.h>

#include "tests/support/segments_sim.h"
#include "tests/support/suite.h"

enum { YOUNG_FREES = 256, FREES_PER_TICK = 32 };
enum { MAIN = 1, SIDE = 2 };

static void open_large(void)
{
    pleat_open("capacity:4G", NULL);
}

static void open_full(void)
{
    pleat_open_with("capacity:1G,depth:1048576", PL_CROSS_ORDER, 0);
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

static void pass_to(unsigned stream, size_t bytes)
{
    pleat_devptr ptr = pleat_get_and_use(bytes, MAIN);
    pleat_record(ptr, stream);
    pleat_work_after(stream, MAIN, ptr, bytes);
    pleat_put(ptr, MAIN);
}

static void pass_on(size_t bytes)
{
    pass_to(SIDE, bytes);
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

/* 2 MiB each on every lane would be little by itself. */
START_TEST(nor_does_much_wait_on_many_lanes_together)
{
    enum { FIRST = 2, N = PLEAT_N_STREAMS - FIRST };
    settle_in();
    for (int i = 0; i < N * (YOUNG_FREES + 50); i++) {
        pass_to(FIRST + (unsigned)i % N, 512 * KIB);
        pleat.sim.finish();
    }
    ck_assert_uint_le(pleat_counted_mixed().reserved_bytes[PLEAT_POOL_ALL].peak, 534 * MIB);
}
END_TEST

/* Until nothing is left, and until the shortage is long over. Returns one of the blocks. */
static pleat_devptr fill(void)
{
    enum { SHORT_EVENTS = 4096 };
    pleat_devptr ptr = 0;
    pleat_devptr last = 0;
    while (pleat.a->ops->alloc(pleat.a, MIB, pleat.streams[MAIN], &ptr) == PLEAT_OK) {
        last = ptr;
    }
    for (int i = 0; i < SHORT_EVENTS; i++) {
        pleat_put(pleat_get(512, MAIN), MAIN);
    }
    return last;
}

/* The block waits for a stream that goes on working; only a tick right behind the use frees it. */
START_TEST(where_memory_is_tight_each_use_gets_a_tick)
{
    pleat_walk_every(1000);
    settle_in();
    for (int i = 0; i < YOUNG_FREES + 1; i++) {
        pass_on(4096);
    }
    pleat_devptr kept = pleat_get_and_use(4096, SIDE);
    pleat_devptr named = pleat_get_and_use(4096, MAIN);
    pleat_devptr last = fill();
    pleat.sim.finish();
    pleat_record(last, SIDE);
    pleat_work(SIDE, last, MIB);
    pleat_put(last, MAIN);
    pleat_record(named, SIDE);
    pleat.sim.finish();
    pleat_work(SIDE, kept, 4096); /* it goes on */
    pleat_get(MIB, MAIN);
}
END_TEST

/* Allocated on one stream, used and freed on the other. */
static void consume(int n)
{
    for (int i = 0; i < n; i++) {
        pleat_devptr ptr = pleat_get_and_use(4096, SIDE);
        pleat_work_after(MAIN, SIDE, ptr, 4096);
        pleat_put(ptr, MAIN);
        pleat.sim.finish();
    }
}

/* A third stream dies unseen: such frees look at other lanes, as any do. */
START_TEST(frees_by_users_look_around)
{
    enum { THIRD = 3 };
    settle_in();
    for (int i = 0; i < YOUNG_FREES; i++) {
        pleat_put(pleat_get_and_use(4096, THIRD), THIRD);
    }
    consume(YOUNG_FREES);
    pleat_devptr left = pleat_get_and_use(24 * MIB, THIRD);
    pleat_put(left, THIRD);
    pleat_renew_stream(THIRD);
    consume(4096);
    ck_assert_uint_ge(pleat_calls("cuCtxRecordEvent"), 1); /* before anybody is short of it */
    ck_assert_uint_eq(pleat_get_and_use(24 * MIB, MAIN), left);
    ck_assert_uint_eq(pleat_counted_mixed().host_syncs, 0);
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

SUITE(segments_use)
{
    TCase *large = suite_case(suite, "large", open_large, pleat_close);
    tcase_add_test(large, small_uses_share_a_tick);
    tcase_add_test(large, what_is_much_gets_one_at_once);
    tcase_add_test(large, nor_does_much_wait_on_many_lanes_together);
    tcase_add_test(large, what_is_left_without_a_tick_comes_back);
    tcase_add_test(large, frees_by_users_look_around);
    tcase_add_test(large, a_block_is_found_by_its_address_among_thousands);
    TCase *full = suite_case(suite, "full", open_full, pleat_close);
    tcase_add_test(full, where_memory_is_tight_each_use_gets_a_tick);
}
