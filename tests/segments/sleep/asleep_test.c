/* asleep_test.c - the figures of granules while a heap sleeps. They count only granules with
 * memory, for any mix of live, pending and free blocks at the sleep, and for frees during the
 * sleep. And what other threads see while the heap turns. */
/* labels: unit */
#include <check.h>
#include <pthread.h>
#include <unistd.h>

#include "segments/pleat/space/heap.h"
#include "segments/pleat/space/keeper.h"
#include "tests/support/segments/segments_captures.h"
#include "tests/support/suite.h"
#include "vmm/base/lock.h"
#include "vmm/driver_state.h"

enum { OWN = 1, OTHER = 2, N_AWAKE = 3, N_LONG = 200, N_PAGES = 150, N_SMALL = 64 };

#define GRANULE (2 * MIB)

static pl_keeper *heap;

static void open_room(void)
{
    pleat_open("capacity:4G,depth:1048576", NULL);
    ck_assert_int_eq(pleat.a->ops->tags->open(pleat.a, "weights", &heap), PLEAT_OK);
    (void)pleat_get(N_AWAKE * GRANULE, OWN); /* of no heap */
}

static pleat_devptr get(size_t bytes)
{
    pleat_devptr ptr = 0;
    ck_assert_int_eq(
        pleat.a->ops->alloc_asked(pleat.a, heap, bytes, pleat.streams[OWN], NULL, &ptr), PLEAT_OK);
    return ptr;
}

static void put(pleat_devptr ptr)
{
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[OWN]), PLEAT_OK);
}

static void rest(void)
{
    pl_sleep_how how = { .is_kept = false };
    pl_slept told;
    ck_assert_int_eq(pleat.a->ops->tags->sleep(pleat.a, heap, &how, &told), PLEAT_OK);
}

/* The next n granules, 0: all. */
static void wake(size_t n)
{
    pl_slept told;
    ck_assert_int_eq(pleat.a->ops->tags->wake(pleat.a, heap, n * GRANULE, &told), PLEAT_OK);
}

static void change(pleat_devptr base, pl_buffer_what what, uint64_t offset, uint64_t bytes)
{
    pl_buffer_change wanted = { what, base, offset, bytes };
    ck_assert_int_eq(pleat.a->ops->buffers->change(pleat.a, &wanted, pleat.streams[OWN]), PLEAT_OK);
}

/* The walkers count each granule anew. */
static void expect_granules(size_t n_live, size_t n_pinned)
{
    pleat_stats s;
    pleat.a->ops->stats(pleat.a, &s);
    ck_assert_uint_eq(s.live_granules, N_AWAKE + n_live);
    ck_assert_uint_eq(s.pinned_granules, n_pinned);
    pleat_assert_sound();
}

START_TEST(free_granules_under_a_room_that_sleeps_are_not_taken_off)
{
    pleat_devptr low = get(5 * GRANULE);
    pleat_devptr high = get(7 * GRANULE);
    put(low);
    expect_granules(7, 0);
    rest();
    expect_granules(0, 0);
    put(high);
    expect_granules(0, 0);
    wake(0);
    expect_granules(0, 0);
}
END_TEST

START_TEST(frees_while_it_sleeps_change_no_figure_of_granules)
{
    pleat_devptr small[N_SMALL];
    for (size_t i = 0; i < N_SMALL; i++) {
        small[i] = get(192 * KIB);
    }
    pleat_devptr across = get(GRANULE + GRANULE / 2); /* the blocks share granules */
    pleat_devptr beside = get(3 * GRANULE + GRANULE / 2);
    pleat_devptr alone = get(N_LONG * GRANULE);
    put(small[0]);
    rest();
    expect_granules(0, 0);
    put(alone);
    expect_granules(0, 0);
    put(across);
    for (size_t i = 1; i < N_SMALL; i += 3) {
        put(small[i]);
    }
    expect_granules(0, 0);
    put(beside);
    expect_granules(0, 0);
    wake(0);
    for (size_t i = 2; i < N_SMALL; i += 3) {
        put(small[i]);
    }
    for (size_t i = 3; i < N_SMALL; i += 3) {
        put(small[i]);
    }
    expect_granules(0, 0);
}
END_TEST

START_TEST(pages_that_go_while_a_buffer_sleeps_change_none_either)
{
    pleat_devptr base = 0;
    ck_assert_int_eq(
        pleat.a->ops->buffers->open(pleat.a, heap, 2 * N_PAGES * GRANULE, GRANULE, 0, &base),
        PLEAT_OK);
    change(base, PL_BUFFER_COMMIT, 0, N_PAGES * GRANULE);
    change(base, PL_BUFFER_DECOMMIT, 10 * GRANULE, 20 * GRANULE);
    expect_granules(N_PAGES - 20, 0);
    rest();
    expect_granules(0, 0);
    change(base, PL_BUFFER_DECOMMIT, 50 * GRANULE, 70 * GRANULE);
    change(base, PL_BUFFER_DECOMMIT, 130 * GRANULE, GRANULE);
    expect_granules(0, 0);
    wake(0);
    expect_granules(N_PAGES - 91, 0);
    rest();
    change(base, PL_BUFFER_CLOSE, 0, 0);
    expect_granules(0, 0);
    wake(0);
    expect_granules(0, 0);
}
END_TEST

START_TEST(a_room_that_wakes_in_parts_is_live_in_parts)
{
    pleat_devptr first = get(10 * GRANULE);
    pleat_devptr second = get(10 * GRANULE);
    rest();
    wake(4);
    expect_granules(4, 0);
    wake(8);
    expect_granules(12, 0);
    put(second); /* two granules of the block are awake: free, and the heap's own */
    expect_granules(10, 2);
    put(first);
    expect_granules(0, 12);
    wake(0);
    expect_granules(0, 0);
}
END_TEST

/* Freed blocks that a graph uses wait until the graph is gone. */
START_TEST(what_waits_under_a_room_that_sleeps_is_shown_nowhere)
{
    enum { N = 3, N_PINNED = 7 }; /* a pool with a checkpoint pins them */
    pleat_devptr waits[N] = { get(4 * GRANULE), get(GRANULE / 2), get(GRANULE) };
    pl_keeper *pool;
    pleat_devptr ptr = 0;
    pl_roster roster;
    ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pool), PLEAT_OK);
    ck_assert_int_eq(pleat.a->ops->pools->save(pleat.a, pool, &roster), PLEAT_OK);
    pleat.a->ops->pools->drop_roster(pleat.a, &roster);
    ck_assert_int_eq(pleat.a->ops->alloc_asked(pleat.a, pool, N_PINNED * GRANULE,
                                               pleat.streams[OWN], NULL, &ptr),
                     PLEAT_OK);
    put(ptr);
    pleat_devptr lives = get(GRANULE);
    captures_begin(OTHER);
    for (size_t i = 0; i < N; i++) {
        ck_assert_int_eq(pleat.a->ops->record_stream(pleat.a, waits[i], pleat.streams[OTHER]),
                         PLEAT_OK);
    }
    cu_graph graph = captures_end_with_graph(OTHER);
    captures_name_stream(OTHER); /* makes the end of the capture known */
    put(waits[0]);
    put(waits[1]);
    rest();
    expect_granules(0, N_PINNED);
    put(waits[2]);
    expect_granules(0, N_PINNED);
    captures_destroy(graph);
    (void)pleat_trim(0, true);
    expect_granules(0, N_PINNED);
    wake(0);
    put(lives);
    expect_granules(0, N_PINNED);
}
END_TEST

START_TEST(a_sleep_and_a_wake_that_fail_count_what_has_memory)
{
    pleat_devptr ptr = get(20 * GRANULE);
    pl_sleep_how how = { .is_kept = false };
    pl_slept told;
    pleat.sim.fail_from("cuMemUnmap", 0, CU_INVALID_VALUE);
    ck_assert_int_ne(pleat.a->ops->tags->sleep(pleat.a, heap, &how, &told), PLEAT_OK);
    pleat.sim.fail_never();
    expect_granules(20, 0);
    rest();
    pleat.sim.fail_from("cuMemMap", 0, CU_INVALID_VALUE);
    ck_assert_int_ne(pleat.a->ops->tags->wake(pleat.a, heap, 0, &told), PLEAT_OK);
    pleat.sim.fail_never();
    expect_granules(0, 0);
    wake(0);
    expect_granules(20, 0);
    put(ptr);
}
END_TEST

/* ---- windows ----------------------------------------------------------------------------------
 */

static __typeof__(((pl_driver_table *)NULL)->address_free) plain_free;
static bool has_turned;

static void *turn(void *arg)
{
    (void)arg;
    ck_assert_int_eq(pl_device_enter(pleat.dev), PLEAT_OK);
    if (heap->rest == PL_AWAKE) {
        rest();
    } else {
        wake(0);
    }
    pl_device_leave(pleat.dev);
    return NULL;
}

static cu_result turn_and_refuse(cu_devptr ptr, size_t bytes)
{
    (void)ptr;
    (void)bytes;
    if (!has_turned) {
        pthread_t thread;
        has_turned = true;
        ck_assert_int_eq(pthread_create(&thread, NULL, turn, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    return 999;
}

/* The driver refuses to take a closed buffer's addresses back, and meanwhile its heap falls asleep,
 * or wakes. The buffer that comes back is as the heap is now. */
START_TEST(addresses_that_stay_are_as_private_as_their_heap)
{
    pl_driver_table *table = &pleat.sim.drv->table;
    pleat_devptr base = 0;
    uint64_t won;
    pleat_devptr ptr = get(GRANULE);
    ck_assert_int_eq(pleat.a->ops->buffers->open(pleat.a, heap, 64 * MIB, 0, 0, &base), PLEAT_OK);
    change(base, PL_BUFFER_CLOSE, 0, 0);
    if (_i == 1) {
        rest();
    }
    plain_free = table->address_free;
    table->address_free = turn_and_refuse;
    (void)pleat.a->ops->trim(pleat.a, 0, false, &won);
    table->address_free = plain_free;
    ck_assert(has_turned);
    ck_assert_int_eq(pleat.a->ops->check(pleat.a), 0);
    ck_assert_int_eq(heap->rest, _i == 1 ? PL_AWAKE : PL_ASLEEP);
    if (_i == 0) {
        wake(0);
    }
    put(ptr);
}
END_TEST

static unsigned n_breaths;

static void check_at_breath(void)
{
    void (*own)(void) = pl_lock_breath;
    pl_lock_breath = NULL;
    n_breaths++;
    ck_assert_int_eq(pleat.a->ops->check(pleat.a), 0);
    pl_lock_breath = own;
}

/* A wake opens one segment after the other, and lets other threads in between. */
START_TEST(a_heap_that_wakes_is_whole_at_each_moment)
{
    enum { N_BUFFERS = 40 };
    for (unsigned i = 0; i < N_BUFFERS; i++) {
        pleat_devptr base = 0;
        ck_assert_int_eq(pleat.a->ops->buffers->open(pleat.a, heap, 2 * GRANULE, 0, 0, &base),
                         PLEAT_OK);
        change(base, PL_BUFFER_RESIZE, 0, GRANULE);
    }
    rest();
    pl_lock_breath = check_at_breath;
    wake(0);
    pl_lock_breath = NULL;
    ck_assert_uint_gt(n_breaths, 0);
}
END_TEST

/* ---- retained memory ------------------------------------------------------------------------ */

enum { PAGE = 16 * KIB, N_KEPT = 2000 };

static void open_small_granules(void)
{
    pleat_open("capacity:1G,granularity:16K,backing:memory,depth:1048576", NULL);
    ck_assert_int_eq(pleat.a->ops->tags->open(pleat.a, "weights", &heap), PLEAT_OK);
}

static void keep(void)
{
    pl_sleep_how how = { .is_kept = true };
    pl_slept told;
    ck_assert_int_eq(pleat.a->ops->tags->sleep(pleat.a, heap, &how, &told), PLEAT_OK);
}

static uint64_t steps_of_a_second_sleep(bool is_retained)
{
    pleat_devptr stays = get(N_KEPT * PAGE);
    pleat_devptr goes = get(PAGE);
    pleat_devptr comes = 0;
    pleat.a->ops->tags->retain(pleat.a, heap, is_retained);
    keep();
    wake(0);
    put(goes);
    ck_assert_int_eq(pleat.a->ops->buffers->open(pleat.a, heap, 64 * PAGE, PAGE, 0, &comes),
                     PLEAT_OK);
    change(comes, PL_BUFFER_COMMIT, 0, PAGE);
    uint64_t since = pleat_steps();
    keep();
    uint64_t n = pleat_steps() - since;
    wake(0);
    put(stays);
    change(comes, PL_BUFFER_CLOSE, 0, 0);
    return n;
}

/* To match retained memory with what sleeps now is two walks over both lists. Each step counts, so
 * that other threads get in between. */
START_TEST(a_sleep_that_reuses_retained_memory_counts_its_steps)
{
    uint64_t n_plain = steps_of_a_second_sleep(false);
    uint64_t n_again = steps_of_a_second_sleep(true);
    ck_assert_uint_ge(n_again - n_plain, (uint64_t)4 * N_KEPT);
}
END_TEST

static uint64_t steps_to_find(pleat_devptr ptr, size_t bytes)
{
    uint64_t since = pleat_steps();
    void *at = NULL;
    ck_assert_int_eq(pleat.a->ops->tags->kept(pleat.a, ptr, bytes, NULL, &at), PLEAT_OK);
    ck_assert_ptr_nonnull(at);
    return pleat_steps() - since;
}

/* What lies behind other segments, behind other granules of a segment, or in very many granules. */
START_TEST(what_is_kept_is_found_in_steps)
{
    pleat_devptr ptr = get(N_KEPT * PAGE);
    pleat_devptr last = 0;
    ck_assert_int_eq(pleat.a->ops->buffers->open(pleat.a, heap, 64 * PAGE, PAGE, 0, &last),
                     PLEAT_OK);
    change(last, PL_BUFFER_COMMIT, 0, PAGE);
    keep();
    ck_assert_uint_ge(steps_to_find(last, PAGE), N_KEPT);
    ck_assert_uint_ge(steps_to_find(ptr + (N_KEPT - 1) * PAGE, PAGE), N_KEPT - 1);
    ck_assert_uint_ge(steps_to_find(ptr, N_KEPT * PAGE), N_KEPT - 1);
    wake(0);
    put(ptr);
    change(last, PL_BUFFER_CLOSE, 0, 0);
}
END_TEST

static pthread_t dropper;
static _Atomic bool has_dropped;

static void *drop(void *arg)
{
    (void)arg;
    pleat.a->ops->tags->retain(pleat.a, heap, false);
    has_dropped = true;
    return NULL;
}

/* The first breath comes before the sleep looks at the list, and later ones while it does. */
static void drop_at_breath(void)
{
    void (*own)(void) = pl_lock_breath;
    pl_lock_breath = NULL;
    if (n_breaths++ == 0) {
        ck_assert_int_eq(pthread_create(&dropper, NULL, drop, NULL), 0);
        for (unsigned i = 0; i < 20 && !has_dropped; i++) {
            usleep(1000);
        }
    }
    ck_assert(!has_dropped);
    pl_lock_breath = own;
}

/* Else the sleep would read the list that the other thread frees. */
START_TEST(retained_memory_stays_while_a_sleep_matches_it)
{
    pleat_devptr ptr = get(N_KEPT * PAGE);
    pleat.a->ops->tags->retain(pleat.a, heap, true);
    keep();
    wake(0);
    n_breaths = 0;
    pl_lock_breath = drop_at_breath;
    keep();
    pl_lock_breath = NULL;
    ck_assert_uint_gt(n_breaths, 2 * N_KEPT / PL_PIECES_A_HOLD);
    ck_assert_int_eq(pthread_join(dropper, NULL), 0);
    ck_assert(has_dropped);
    wake(0);
    ck_assert_ptr_null(pl_heap_of(heap)->retained);
    put(ptr);
}
END_TEST

SUITE(segments_asleep)
{
    TCase *tcase = suite_case(suite, "figures", open_room, pleat_close);
    tcase_add_test(tcase, free_granules_under_a_room_that_sleeps_are_not_taken_off);
    tcase_add_test(tcase, frees_while_it_sleeps_change_no_figure_of_granules);
    tcase_add_test(tcase, pages_that_go_while_a_buffer_sleeps_change_none_either);
    tcase_add_test(tcase, a_room_that_wakes_in_parts_is_live_in_parts);
    tcase_add_test(tcase, what_waits_under_a_room_that_sleeps_is_shown_nowhere);
    tcase_add_test(tcase, a_sleep_and_a_wake_that_fail_count_what_has_memory);
    TCase *windows = suite_case(suite, "windows", open_room, pleat_close);
    tcase_add_loop_test(windows, addresses_that_stay_are_as_private_as_their_heap, 0, 2);
    tcase_add_test(windows, a_heap_that_wakes_is_whole_at_each_moment);
    TCase *retained = suite_case(suite, "retained", open_small_granules, pleat_close);
    tcase_add_test(retained, a_sleep_that_reuses_retained_memory_counts_its_steps);
    tcase_add_test(retained, what_is_kept_is_found_in_steps);
    tcase_add_test(retained, retained_memory_stays_while_a_sleep_matches_it);
}
