/* use_test.c - a stream passes memory on to others again and again. Few ticks are recorded for the
 * stream, and yet little memory waits. */
/* labels: unit model */
#include <check.h>

#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"

enum { YOUNG_FREES = 256, FREES_PER_TICK = 32 };
enum { MAIN = 1, SIDE = 2 };

static void open_large(void)
{
    pleat_open("capacity:4G", NULL);
}

/* Streams keep their handles. Work ends only when the host waits for it. */
static void open_told(void)
{
    pl_device_options options = { .stream_identity = PL_STREAM_IS_HANDLE };
    pleat_open_device("capacity:4G,depth:1048576", &options, NULL);
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
    ck_assert_uint_le(pleat_counted_mixed().reserved_bytes[PLEAT_SIZES_ALL].peak, 545 * MIB);
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
    ck_assert_uint_le(pleat_counted_mixed().reserved_bytes[PLEAT_SIZES_ALL].peak, 534 * MIB);
}
END_TEST

/* ---- the program waits itself ---- */

enum { STEPS = YOUNG_FREES + 50 };

/* A block of `owner`, used by n other streams one after another. */
static pleat_devptr use_on_many(size_t bytes, unsigned owner, unsigned n)
{
    pleat_devptr ptr = pleat_get_and_use(bytes, owner);
    unsigned before = owner;
    for (unsigned user = MAIN; n > 0; user++) {
        if (user != owner) {
            pleat_record(ptr, user);
            pleat_work_after(user, before, ptr, bytes);
            before = user;
            n--;
        }
    }
    pleat_put(ptr, owner);
    return ptr;
}

/* No call names the users between their work and the next request. */
START_TEST(what_the_program_has_waited_for_is_used_again)
{
    pleat_devptr first = use_on_many(8 * MIB, MAIN, (unsigned)_i);
    for (int i = 0; i < STEPS; i++) {
        pleat.sim.finish();
        ck_assert_uint_eq(use_on_many(8 * MIB, MAIN, (unsigned)_i), first);
    }
    pleat_stats s = pleat_counted_mixed();
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_ALL].peak, 8 * MIB);
    ck_assert_uint_eq(s.host_syncs + s.stream_waits, 0);
    ck_assert_uint_eq(pleat_calls("cuCtxRecordEvent"), 0);
}
END_TEST

START_TEST(so_it_is_by_a_stream_that_used_it)
{
    pleat_devptr first = 0;
    for (int i = 0; i < STEPS; i++) {
        pleat_devptr ptr = use_on_many(8 * MIB, i % 2 == 0 ? MAIN : SIDE, 2);
        first = i == 0 ? ptr : first;
        ck_assert_uint_eq(ptr, first);
        pleat.sim.finish();
    }
    ck_assert_uint_eq(pleat_counted_mixed().host_syncs, 0);
}
END_TEST

/* No work is over, and a block waits for one user at a time. So a request asks for at most one
 * tick, which the stream's next call would ask for as well. */
START_TEST(a_busy_device_is_asked_little)
{
    enum { N = 100, USERS = 3 };
    for (uint64_t i = 0; i < N; i++) {
        uint64_t n_recorded = pleat_calls("cuEventRecord");
        pleat_devptr next = pleat_get(8 * MIB, MAIN);
        ck_assert_uint_le(pleat_calls("cuEventRecord") - n_recorded, 1);
        ck_assert_uint_le(pleat_calls("cuEventQuery"), (USERS + 1) * (i + 1));
        pleat_put(next, MAIN);
        (void)use_on_many(8 * MIB, MAIN, USERS);
    }
    ck_assert_uint_ge(pleat_counted_mixed().reserved_bytes[PLEAT_SIZES_ALL].peak, N * 8 * MIB);
    pleat.sim.finish();
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

/* The block waits for a stream that goes on working. Only a tick right behind the use frees the
 * block. */
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
    pleat_work(SIDE, kept, 4096); /* the stream goes on working */
    pleat_get(MIB, MAIN);
}
END_TEST

/* Allocate on one stream, use and free on the other. */
static void consume(int n)
{
    for (int i = 0; i < n; i++) {
        pleat_devptr ptr = pleat_get_and_use(4096, SIDE);
        pleat_work_after(MAIN, SIDE, ptr, 4096);
        pleat_put(ptr, MAIN);
        pleat.sim.finish();
    }
}

/* A third stream dies unseen. Frees by a user look at other lanes, like all frees. */
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

/* No call names the other stream any more. It may be gone. */
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
    ck_assert_uint_eq(s.active_bytes[PLEAT_SIZES_ALL].current,
                      s.allocated_bytes[PLEAT_SIZES_ALL].current);
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
    TCase *told = suite_case(suite, "told", open_told, pleat_close);
    tcase_add_loop_test(told, what_the_program_has_waited_for_is_used_again, 1,
                        PLEAT_N_STREAMS - SIDE);
    tcase_add_test(told, so_it_is_by_a_stream_that_used_it);
    tcase_add_test(told, a_busy_device_is_asked_little);
    TCase *full = suite_case(suite, "full", open_full, pleat_close);
    tcase_add_test(full, where_memory_is_tight_each_use_gets_a_tick);
}
