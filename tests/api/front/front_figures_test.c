/* front_figures_test.c - statistics are exact, peaks included, whatever threads keep in front
 * of the lock. The calls of several threads are made in an order that the test chooses. */
/* labels: unit model */
#include <check.h>
#include <stdlib.h>

#include "tests/support/api/api_figures.h"
#include "tests/support/api/api_hands.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/suite.h"

enum { KIB = 1 << 10, MIB = 1 << 20, N_HANDS = 3 };

static api_hand hands[N_HANDS];
static pleat instance;
static api_figures figures;

static void open_all(void)
{
    api_sim_load();
    instance = api_make(API_PLEAT, "capacity:4G", "");
    figures = (api_figures){ .n = { { 0 } } };
    for (unsigned i = 0; i < N_HANDS; i++) {
        api_hand_open(&hands[i]);
    }
}

static void close_all(void)
{
    for (unsigned i = 0; i < N_HANDS; i++) {
        api_hand_close(&hands[i]);
    }
    api_check(instance);
    api_unmake(instance);
}

static pleat_devptr take(api_hand *hand, size_t bytes)
{
    pleat_devptr ptr = api_hand_alloc(hand, instance, bytes, NULL);
    api_figures_begin(&figures, bytes);
    return ptr;
}

static void give(api_hand *hand, pleat_devptr ptr, size_t bytes)
{
    api_hand_free(hand, instance, ptr, NULL);
    api_figures_end(&figures, bytes);
}

static void expect(uint64_t when)
{
    pleat_stats s = api_stats(instance, 0);
    api_figures_expect(&figures, &s, when);
}

static void reset_peaks(void)
{
    ck_assert_int_eq(pleat_device_reset_peaks(instance, 0), PLEAT_OK);
    api_figures_reset_peaks(&figures);
}

/* Give the hand a front that keeps no block. */
static void warm(api_hand *hand)
{
    pleat_devptr ptr = take(hand, 3000);
    give(hand, ptr, 3000);
}

/* ---- chosen orders --------------------------------------------------------------------------- */

START_TEST(a_kept_block_counts_as_free_and_a_hit_as_an_allocation)
{
    pleat_devptr ptr = take(NULL, 5000);
    give(NULL, ptr, 5000);
    for (unsigned i = 0; i < 100; i++) {
        ck_assert_uint_eq(take(NULL, 5000), ptr);
        if (i % 10 == 0) {
            expect(i);
        }
        give(NULL, ptr, 5000);
        if (i % 7 == 0) {
            expect(i);
        }
    }
    expect(100);
}
END_TEST

/* The front of a thread has room for bytes, but for no further block. */
START_TEST(room_for_bytes_alone_of_a_front_that_keeps_nothing_is_counted)
{
    warm(NULL);
    pleat_devptr large = take(NULL, 200 * KIB); /* small by its pool, too large for a front */
    pleat_devptr other = take(NULL, 3000);
    reset_peaks();
    give(NULL, large, 200 * KIB);          /* its room goes to the only front */
    pleat_devptr little = take(NULL, 512); /* takes a part of it */
    give(&hands[1], other, 3000);
    other = take(&hands[0], 3000); /* there are two fronts from now on */
    expect(1);
    give(NULL, little, 512);
    give(NULL, other, 3000);
    expect(2);
}
END_TEST

/* A part of what the request needs is in the front already. */
START_TEST(a_kept_block_uses_the_room_of_its_own_front_first)
{
    pleat_devptr kept = take(NULL, 8192);
    reset_peaks();
    give(NULL, kept, 8192);
    pleat_devptr little = take(NULL, 512); /* takes a part of the front's room */
    kept = take(NULL, 8192);
    expect(1);
    give(NULL, kept, 8192);
    give(NULL, little, 512);
    expect(2);
}
END_TEST

/* All pools together have room under the peak, the small pool's is in another thread's front. */
START_TEST(the_small_pools_peak_is_not_lifted_while_others_have_its_room)
{
    warm(&hands[0]);
    warm(&hands[1]);
    pleat_devptr large = take(NULL, 3 * MIB);
    pleat_devptr a = take(&hands[0], 4096);
    pleat_devptr b = take(&hands[1], 4096);
    reset_peaks();
    give(&hands[0], a, 4096);
    give(&hands[1], b, 4096);
    pleat_devptr c = take(NULL, 4096); /* collects the room of both fronts and uses it up */
    pleat_devptr d = take(NULL, 4096);
    give(NULL, large, 3 * MIB);
    give(NULL, c, 4096); /* this thread's front has the small pool's room for the next request */
    a = take(&hands[0], 4096);
    expect(1);
    give(NULL, d, 4096);
    give(&hands[0], a, 4096);
    expect(2);
}
END_TEST

START_TEST(a_peak_is_lifted_by_exactly_what_exceeds_it)
{
    enum { N = 6 };
    pleat_devptr ptrs[2 * N];
    for (unsigned round = 0; round < 5; round++) {
        for (unsigned i = 0; i < N; i++) {
            ptrs[i] = take(i % 2 ? &hands[0] : NULL, 7000);
        }
        for (unsigned i = 0; i < N; i++) {
            give(i % 3 ? &hands[0] : NULL, ptrs[i], 7000);
        }
        for (unsigned i = 0; i < N + round; i++) {
            ptrs[i] = take(i % 2 ? &hands[1] : &hands[0], i % 2 ? 7000 : 7001);
        }
        expect(round);
        for (unsigned i = 0; i < N + round; i++) {
            give(&hands[i % 3], ptrs[i], i % 2 ? 7000 : 7001);
        }
    }
    expect(5);
}
END_TEST

/* ---- random orders --------------------------------------------------------------------------- */

typedef struct held {
    pleat_devptr ptr;
    size_t bytes;
} held;

/* A size on either side of a boundary. There are few sizes, so requests hit magazines. */
static size_t draw_bytes(random_source *r)
{
    static const size_t sizes[] = {
        1,         512,       600,        4096,
        4097,      20000,     100 * KIB,  128 * KIB - 512,
        128 * KIB, 200 * KIB, 1024 * KIB, 1024 * KIB + 1,
        3 * MIB,
    };
    enum { N_SIZES = sizeof sizes / sizeof sizes[0], N_SMALL = 8 };
    bool any = random_once_in(r, 6);
    return sizes[random_below(r, any ? N_SIZES : N_SMALL)];
}

/* The number of live blocks goes up and down around a third of the places. */
static void walk(uint64_t seed, unsigned n_hands, unsigned n_steps)
{
    enum { N_PLACES = 60, MOST_PAUSE = 40, RESET_ONCE_IN = 300 };
    held places[N_PLACES] = { { 0 } };
    random_source r = { seed };
    unsigned pause = 1;
    size_t bias = 3;
    for (unsigned i = 0; i < n_steps; i++) {
        size_t who = random_below(&r, n_hands + 1);
        api_hand *hand = who == n_hands ? NULL : &hands[who];
        held *h = &places[random_below(&r, N_PLACES)];
        bias = random_once_in(&r, 50) ? random_between(&r, 2, 4) : bias;
        if (h->ptr != 0) {
            give(hand, h->ptr, h->bytes);
            h->ptr = 0;
        } else if (random_once_in(&r, bias)) {
            h->bytes = draw_bytes(&r);
            h->ptr = take(hand, h->bytes);
        }
        if (--pause == 0) {
            expect(seed << 32 | i);
            pause = (unsigned)random_between(&r, 1, MOST_PAUSE);
        }
        if (random_once_in(&r, RESET_ONCE_IN)) {
            reset_peaks();
        }
    }
    for (unsigned i = 0; i < N_PLACES; i++) {
        if (places[i].ptr != 0) {
            give(NULL, places[i].ptr, places[i].bytes);
        }
    }
    expect(seed << 32);
}

#if PLEAT_DEBUG_LEVEL >= 2
enum { N_STEPS = 1000 };
#else
enum { N_STEPS = 6000 };
#endif

START_TEST(one_threads_walk_agrees_with_a_count)
{
    walk((uint64_t)_i + 1, 0, N_STEPS * 4);
}
END_TEST

START_TEST(walks_of_several_threads_agree_with_a_count)
{
    walk((uint64_t)_i + 100, 1 + (unsigned)_i % N_HANDS, N_STEPS);
}
END_TEST

SUITE(api_front_figures)
{
    TCase *chosen = suite_case(suite, "chosen orders", open_all, close_all);
    tcase_add_test(chosen, a_kept_block_counts_as_free_and_a_hit_as_an_allocation);
    tcase_add_test(chosen, room_for_bytes_alone_of_a_front_that_keeps_nothing_is_counted);
    tcase_add_test(chosen, a_kept_block_uses_the_room_of_its_own_front_first);
    tcase_add_test(chosen, the_small_pools_peak_is_not_lifted_while_others_have_its_room);
    tcase_add_test(chosen, a_peak_is_lifted_by_exactly_what_exceeds_it);
    TCase *model = suite_case(suite, "random orders", open_all, close_all);
    tcase_add_loop_test(model, one_threads_walk_agrees_with_a_count, 0, 6);
    tcase_add_loop_test(model, walks_of_several_threads_agree_with_a_count, 0, 12);
}
