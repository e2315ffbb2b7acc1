/* buffer_again_test.c - the addresses of closed buffers serve the next buffers. The number of
 * reserved ranges is at most the largest number of buffers at once, those with pages in use
 * included, whatever else is waiting. */
/* labels: unit */
#include <check.h>
#include <pthread.h>
#include <unistd.h>

#include "segments/pleat/space/space.h"
#include "tests/support/segments/segments_captures.h"
#include "tests/support/suite.h"
#include "vmm/base/lock.h"

enum { OWN = 1, OTHER = 2, IN_FLIGHT = 12, N_CYCLES = 400, N_HELD = 30, N_MANY = 200, N_FEW = 8 };

#define MOST (8 * GIB)
#define PAGES (4 * MIB)

static void open_device(void)
{
    pleat_open("capacity:1G,depth:12", NULL);
    pleat_walk_every(64);
}

static pleat_devptr make_of(uint64_t most_bytes)
{
    pleat_devptr base = 0;
    ck_assert_int_eq(pleat.a->ops->buffers->open(pleat.a, NULL, most_bytes, 0, 0, &base), PLEAT_OK);
    return base;
}

static pleat_devptr make(void)
{
    return make_of(MOST);
}

static void change(pleat_devptr base, pl_buffer_what what, uint64_t bytes, unsigned stream)
{
    pl_buffer_change wanted = { what, base, 0, bytes };
    ck_assert_int_eq(pleat.a->ops->buffers->change(pleat.a, &wanted, pleat.streams[stream]),
                     PLEAT_OK);
}

/* A buffer's usual life: made, used on its stream or on a second one, and destroyed during the
 * use. */
static void come_and_go(unsigned user)
{
    pleat_devptr base = make();
    change(base, PL_BUFFER_RESIZE, PAGES, OWN);
    if (user != OWN) {
        change(base, PL_BUFFER_RECORD, 0, user);
        pleat_work_after(user, OWN, base, PAGES);
    } else {
        pleat_work(OWN, base, PAGES);
    }
    change(base, PL_BUFFER_CLOSE, 0, OWN);
}

static size_t n_reserved(void)
{
    return (size_t)(pl_device_counted(pleat.dev).address_bytes / MOST);
}

START_TEST(those_in_flight_are_no_more_than_the_most_at_once)
{
    for (unsigned i = 0; i < N_CYCLES; i++) {
        come_and_go(OTHER);
    }
    ck_assert_uint_le(n_reserved(), IN_FLIGHT + 1);
    for (unsigned i = 0; i < N_CYCLES; i++) {
        come_and_go(i % 3 == 0 ? OTHER : OWN);
    }
    ck_assert_uint_le(n_reserved(), IN_FLIGHT + 1);
    pleat_assert_sound();
}
END_TEST

/* Nobody asked whether the work is over until the next ones are made. */
START_TEST(what_is_over_is_found_when_addresses_are_needed)
{
    static pleat_devptr bases[N_HELD];
    for (unsigned round = 0; round < 8; round++) {
        for (unsigned i = 0; i < N_HELD; i++) {
            bases[i] = make();
            change(bases[i], PL_BUFFER_RESIZE, PAGES, OWN);
            change(bases[i], PL_BUFFER_RECORD, 0, OTHER);
            pleat_work(OTHER, bases[i], PAGES);
        }
        for (unsigned i = 0; i < N_HELD; i++) {
            change(bases[i], PL_BUFFER_CLOSE, 0, OTHER);
        }
        pleat.sim.finish();
    }
    ck_assert_uint_le(n_reserved(), N_HELD);
    pleat_assert_sound();
}
END_TEST

START_TEST(those_of_living_graphs_hide_no_other)
{
    cu_graph graph;
    captures_begin(OTHER);
    for (unsigned i = 0; i < N_HELD; i++) {
        pleat_devptr base = make();
        change(base, PL_BUFFER_RESIZE, 2 * MIB, OWN);
        change(base, PL_BUFFER_RECORD, 0, OTHER);
        change(base, PL_BUFFER_CLOSE, 0, OWN);
    }
    graph = captures_end_with_graph(OTHER);
    for (unsigned i = 0; i < N_CYCLES; i++) {
        come_and_go(OTHER);
    }
    ck_assert_uint_le(n_reserved(), N_HELD + IN_FLIGHT + 1);
    captures_destroy(graph);
    pleat.sim.finish();
    (void)pleat_trim(0, true);
    size_t n = n_reserved();
    for (unsigned i = 0; i < n; i++) {
        (void)make();
    }
    ck_assert_uint_eq(n_reserved(), n);
    pleat_assert_sound();
}
END_TEST

/* ---- without memory -------------------------------------------------------------------------- */

static size_t metadata_bytes(void)
{
    pleat_stats stats = { 0 };
    pleat.a->ops->stats(pleat.a, &stats);
    return (size_t)stats.metadata_bytes;
}

static pleat_devptr bases[N_MANY];
static pleat_devptr few[N_FEW];

static void make_many(pl_keeper *heap, uint64_t bytes)
{
    for (unsigned i = 0; i < N_MANY; i++) {
        pleat_status st = pleat.a->ops->buffers->open(pleat.a, heap, 64 * MIB, 0, 0, &bases[i]);
        ck_assert_int_eq(st, PLEAT_OK);
        change(bases[i], PL_BUFFER_RESIZE, bytes, OWN);
    }
}

static void close_many(void)
{
    for (unsigned i = 0; i < N_MANY; i++) {
        change(bases[i], PL_BUFFER_CLOSE, 0, OWN);
    }
}

static uint64_t n_ranges(void)
{
    return vmm_sim_counted(&pleat.sim).reservations;
}

START_TEST(a_trim_lets_those_without_memory_go)
{
    pl_keeper *heap = NULL;
    ck_assert_int_eq(pleat.a->ops->tags->open(pleat.a, "kv", &heap), PLEAT_OK);
    make_many(NULL, 2 * MIB); /* slabs of blocks stay */
    close_many();
    (void)pleat_trim(0, true);
    size_t before = metadata_bytes();
    uint64_t n_before = n_ranges();
    for (unsigned i = 0; i < 2; i++) {
        make_many(i == 0 ? NULL : heap, 2 * MIB);
        close_many();
        pleat_assert_sound();
        ck_assert_uint_ge(n_ranges(), n_before + N_MANY);
        (void)pleat_trim(0, true);
        pleat_assert_sound();
        ck_assert_uint_eq(n_ranges(), n_before);
        ck_assert_uint_le(metadata_bytes(), before + 8 * KIB);
    }
}
END_TEST

START_TEST(no_more_stay_than_are_open_and_some)
{
    make_many(NULL, 0);
    ck_assert_uint_ge(n_ranges(), N_MANY);
    close_many();
    ck_assert_uint_le(n_ranges(), 65);
    uint64_t n = pleat_calls("cuMemAddressReserve");
    for (unsigned i = 0; i < N_CYCLES; i++) {
        change(make_of(64 * MIB), PL_BUFFER_CLOSE, 0, OWN);
    }
    ck_assert_uint_eq(pleat_calls("cuMemAddressReserve"), n);
    pleat_assert_sound();
}
END_TEST

START_TEST(what_the_driver_does_not_take_back_serves_the_next)
{
    make_many(NULL, 0);
    uint64_t n = n_ranges();
    pleat.sim.fail_from("cuMemAddressFree", 0, CU_INVALID_VALUE);
    close_many();
    (void)pleat_trim(0, true);
    pleat.sim.fail_never();
    ck_assert_uint_eq(n_ranges(), n);
    pleat_assert_sound();
    make_many(NULL, 2 * MIB);
    ck_assert_uint_eq(n_ranges(), n);
    close_many();
}
END_TEST

static pl_keeper *open_room(void)
{
    pl_keeper *heap = NULL;
    ck_assert_int_eq(pleat.a->ops->tags->open(pleat.a, "kv", &heap), PLEAT_OK);
    return heap;
}

static void rest_and_wake(pl_keeper *heap, bool is_kept)
{
    pl_sleep_how how = { .is_kept = is_kept };
    pl_slept told;
    ck_assert_int_eq(pleat.a->ops->tags->sleep(pleat.a, heap, &how, &told), PLEAT_OK);
    for (unsigned i = 0; i < N_FEW / 2; i++) {
        change(few[i], PL_BUFFER_CLOSE, 0, OWN);
    }
    (void)pleat_trim(0, true);
    ck_assert_int_eq(pleat.a->ops->tags->wake(pleat.a, heap, 0, &told), PLEAT_OK);
    (void)pleat_trim(0, true);
    pleat_assert_sound();
}

static void make_few(pl_keeper *heap)
{
    for (unsigned i = 0; i < N_FEW; i++) {
        pleat_status st = pleat.a->ops->buffers->open(pleat.a, heap, 64 * MIB, 0, 0, &few[i]);
        ck_assert_int_eq(st, PLEAT_OK);
        change(few[i], PL_BUFFER_RESIZE, i % 2 * 2 * MIB, OWN);
    }
}

START_TEST(those_of_a_room_that_was_asleep_go)
{
    pl_keeper *heap = open_room();
    make_few(heap);
    uint64_t n = n_ranges();
    rest_and_wake(heap, false);
    ck_assert_uint_eq(n_ranges(), n - N_FEW / 2);
}
END_TEST

START_TEST(those_of_a_room_that_retains_stay)
{
    pl_keeper *heap = open_room();
    pleat.a->ops->tags->retain(pleat.a, heap, true);
    make_few(heap);
    rest_and_wake(heap, true);
    uint64_t n = n_ranges();
    for (unsigned i = N_FEW / 2; i < N_FEW; i++) {
        change(few[i], PL_BUFFER_CLOSE, 0, OWN);
    }
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(n_ranges(), n);
    pleat.a->ops->tags->retain(pleat.a, heap, false);
    (void)pleat_trim(0, true);
    ck_assert_uint_le(n_ranges(), n - N_FEW / 2);
    pleat_assert_sound();
}
END_TEST

START_TEST(those_of_another_size_go_before_addresses_are_refused)
{
    pleat_close();
    pleat_open_device("capacity:1G", &(pl_device_options){ .address_budget_bytes = 20 * GIB },
                      NULL);
    pleat_devptr first = make_of(8 * GIB);
    pleat_devptr second = make_of(4 * GIB);
    change(first, PL_BUFFER_CLOSE, 0, OWN);
    change(second, PL_BUFFER_CLOSE, 0, OWN);
    change(make_of(16 * GIB), PL_BUFFER_RESIZE, PAGES, OWN);
    ck_assert_uint_eq(pl_device_counted(pleat.dev).address_bytes / GIB, 16);
    pleat_assert_sound();
}
END_TEST

START_TEST(they_go_before_a_block_is_refused_for_want_of_addresses)
{
    pleat_close();
    pleat_open_device("capacity:1G", &(pl_device_options){ .address_budget_bytes = 2 * GIB }, NULL);
    pleat_devptr all = make_of(2 * GIB);
    change(all, PL_BUFFER_CLOSE, 0, OWN);
    ck_assert_uint_eq(pl_device_counted(pleat.dev).address_bytes, 2 * GIB);
    pleat_devptr ptr = pleat_get(PAGES, OWN);
    pleat_put(ptr, OWN);
    ck_assert_uint_lt(pl_device_counted(pleat.dev).address_bytes, 2 * GIB);
    pleat_assert_sound();
}
END_TEST

static void *land_later(void *flying)
{
    pl_space *space = (pl_space *)pleat.a;
    (void)usleep(20000);
    pl_lock_acquire(&space->lock);
    pl_space_land(space, flying);
    pl_lock_release(&space->lock);
    return NULL;
}

/* A flight may refer to the segments. So they are freed after its landing. */
START_TEST(they_go_after_the_flight_of_another)
{
    pthread_t thread;
    pl_flying flying;
    pleat_close();
    pleat_open_device("capacity:1G", &(pl_device_options){ .address_budget_bytes = 2 * GIB }, NULL);
    pl_space *space = (pl_space *)pleat.a;
    change(make_of(2 * GIB), PL_BUFFER_CLOSE, 0, OWN);
    pl_lock_acquire(&space->lock);
    pl_space_take_off(space, &flying);
    pl_lock_release(&space->lock);
    ck_assert_int_eq(pthread_create(&thread, NULL, land_later, &flying), 0);
    pleat_devptr ptr = pleat_get(PAGES, OWN);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    pleat_put(ptr, OWN);
    pleat_assert_sound();
}
END_TEST

/* An open one's addresses are its own. */
START_TEST(those_that_may_not_go_let_a_block_be_refused)
{
    pleat_close();
    pleat_open_device("capacity:1G", &(pl_device_options){ .address_budget_bytes = 2 * GIB }, NULL);
    pleat_devptr all = make_of(2 * GIB);
    ck_assert_int_eq(pleat_refused(PAGES, OWN), PLEAT_ENOSPACE_VA);
    change(all, PL_BUFFER_CLOSE, 0, OWN);
    pleat_put(pleat_get(PAGES, OWN), OWN);
    pleat_assert_sound();
}
END_TEST

static uint64_t n_seen; /* ranges, after a trim in the midst of a walk */

static void trim_meanwhile(void)
{
    uint64_t released;
    pl_lock_breath = NULL;
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, 0, true, &released), PLEAT_OK);
    n_seen = n_ranges();
}

START_TEST(none_goes_under_a_walk)
{
    pl_keeper *heap = open_room();
    make_many(heap, 2 * MIB);
    make_many(heap, 2 * MIB);
    uint64_t n = n_ranges();
    close_many();
    pl_share_list list = { .is_look = true };
    pl_lock_breath = trim_meanwhile;
    ck_assert_int_eq(pleat.a->ops->tags->share(pleat.a, heap, &list), PLEAT_OK);
    ck_assert_uint_eq(n_seen, n);
    ck_assert_uint_eq(list.n_blocks, N_MANY);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(n_ranges(), n - N_MANY);
}
END_TEST

SUITE(segments_buffer_again)
{
    TCase *tcase = tcase_create("again");
    tcase_add_checked_fixture(tcase, open_device, pleat_close);
    tcase_add_test(tcase, those_in_flight_are_no_more_than_the_most_at_once);
    tcase_add_test(tcase, what_is_over_is_found_when_addresses_are_needed);
    tcase_add_test(tcase, those_of_living_graphs_hide_no_other);
    tcase_add_test(tcase, a_trim_lets_those_without_memory_go);
    tcase_add_test(tcase, no_more_stay_than_are_open_and_some);
    tcase_add_test(tcase, what_the_driver_does_not_take_back_serves_the_next);
    tcase_add_test(tcase, those_of_a_room_that_was_asleep_go);
    tcase_add_test(tcase, those_of_a_room_that_retains_stay);
    tcase_add_test(tcase, none_goes_under_a_walk);
    tcase_add_test(tcase, those_of_another_size_go_before_addresses_are_refused);
    tcase_add_test(tcase, they_go_before_a_block_is_refused_for_want_of_addresses);
    tcase_add_test(tcase, they_go_after_the_flight_of_another);
    tcase_add_test(tcase, those_that_may_not_go_let_a_block_be_refused);
    suite_add_tcase(suite, tcase);
}
