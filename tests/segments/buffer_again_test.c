/* buffer_again_test.c - the addresses of buffers that were closed serve the next ones: as many are
 * reserved as there were buffers at once, those with pages in use included, whatever else waits. */
/* labels: unit */
#include <check.h>

#include "tests/support/segments_captures.h"
#include "tests/support/suite.h"

enum { OWN = 1, OTHER = 2, IN_FLIGHT = 12, N_CYCLES = 400, N_HELD = 30 };

#define MOST (8 * GIB)
#define PAGES (4 * MIB)

static void open_device(void)
{
    pleat_open("capacity:1G,depth:12", NULL);
    pleat_walk_every(64);
}

static pleat_devptr make(void)
{
    pleat_devptr base = 0;
    ck_assert_int_eq(pleat.a->ops->buffer_open(pleat.a, NULL, MOST, 0, &base), PLEAT_OK);
    return base;
}

static void change(pleat_devptr base, pl_buffer_what what, uint64_t bytes, unsigned stream)
{
    pl_buffer_change wanted = { what, base, 0, bytes };
    ck_assert_int_eq(pleat.a->ops->buffer_change(pleat.a, &wanted, pleat.streams[stream]),
                     PLEAT_OK);
}

/* As a program has it: made, used on its stream or on another one, and destroyed under that. */
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

SUITE(segments_buffer_again)
{
    TCase *tcase = tcase_create("again");
    tcase_add_checked_fixture(tcase, open_device, pleat_close);
    tcase_add_test(tcase, those_in_flight_are_no_more_than_the_most_at_once);
    tcase_add_test(tcase, what_is_over_is_found_when_addresses_are_needed);
    tcase_add_test(tcase, those_of_living_graphs_hide_no_other);
    suite_add_tcase(suite, tcase);
}
