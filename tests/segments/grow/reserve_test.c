/* reserve_test.c - the memory left to other processes, and when pleat uses this reserve. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>

#include "segments/pleat/space/options.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_captures.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20, N_GRANULES = 1024, N_RESERVED = 16, N_FILLED = 1000 };
enum { WALK_EVERY = 101 }; /* of some hundred thousand calls */

#define SIM "capacity:2G,depth:1048576"

static pleat_devptr ptrs[N_GRANULES];

/* Ample: without a reserve, all of the device is created before anything is taken. */
static void open_with(uint64_t reserve_bytes, pl_cross_stream cross_stream)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    SET_OWN(pleat, &options, growth, PL_GROWTH_AMPLE);
    SET_OWN(pleat, &options, chunks, PL_CHUNKS_GRANULE);
    SET_OWN(pleat, &options, cross_stream, cross_stream);
    SET_OWN(pleat, &options, reserve_bytes, reserve_bytes);
    pleat_open(SIM, &options);
    pleat_walk_every(WALK_EVERY);
}

static void open_usual(void)
{
    open_with(512 * MIB, PL_CROSS_ORDER);
}

static void open_settled(void)
{
    open_with(512 * MIB, PL_CROSS_SETTLED);
}

static void open_none(void)
{
    open_with(0, PL_CROSS_ORDER);
}

static size_t resident(void)
{
    pleat_stats s;
    pleat.a->ops->stats(pleat.a, &s);
    return (size_t)(s.resident_bytes / GRANULE);
}

/* Free granules between live ones. A larger request finds no room without new memory. */
static void scatter(size_t n, unsigned stream)
{
    for (size_t i = 0; i < n; i++) {
        ptrs[i] = pleat_get_and_use(GRANULE, stream);
    }
    for (size_t i = 0; i < n; i += 2) {
        pleat_put(ptrs[i], stream);
    }
    ck_assert_uint_ge(resident(), n); /* or more: a segment's edge is rounded up */
}

START_TEST(own_free_memory_is_taken_first)
{
    scatter(N_FILLED, 0);
    pleat_get(30 * (size_t)GRANULE, 0);
    ck_assert_uint_eq(resident(), N_GRANULES - N_RESERVED);
}
END_TEST

START_TEST(nothing_is_reserved_if_so_told)
{
    scatter(N_FILLED, 0);
    pleat_get(30 * (size_t)GRANULE, 0);
    ck_assert_uint_eq(resident(), N_GRANULES);
    ck_assert_uint_eq(pleat_calls("cuMemGetInfo"), 0);
}
END_TEST

START_TEST(a_small_reserve_is_kept_as_told)
{
    open_with(10 * MIB, PL_CROSS_ORDER);
    scatter(N_FILLED, 0);
    pleat_get(30 * (size_t)GRANULE, 0);
    ck_assert_uint_eq(resident(), N_GRANULES - 5);
    pleat_close();
}
END_TEST

START_TEST(it_is_given_up_before_a_request_fails)
{
    for (size_t i = 0; i < N_GRANULES; i++) {
        ptrs[i] = pleat_get(GRANULE, 0);
    }
    ck_assert_uint_eq(resident(), N_GRANULES);
    ck_assert_int_eq(pleat_refused(512, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
    for (size_t i = 0; i < N_GRANULES; i++) {
        pleat_put(ptrs[i], 0);
    }
    pleat_trim(0, true);
    scatter(N_FILLED, 0); /* trimmed memory is reserved again */
    pleat_get(30 * (size_t)GRANULE, 0);
    ck_assert_uint_eq(resident(), N_GRANULES - N_RESERVED);
}
END_TEST

START_TEST(no_more_of_it_is_given_than_is_missing)
{
    pleat_get((N_GRANULES - N_RESERVED) * (size_t)GRANULE, 0);
    pleat_get(3 * (size_t)GRANULE, 0);
    ck_assert_uint_eq(resident(), N_GRANULES - N_RESERVED + 3);
}
END_TEST

START_TEST(what_others_hold_already_is_not_of_it)
{
    enum { N_THEIRS = 100 };
    pl_device *other = vmm_sim_device(&pleat.sim, NULL);
    pleat_devptr theirs;
    ck_assert_int_eq(pl_device_malloc(other, N_THEIRS * (size_t)GRANULE, &theirs), PLEAT_OK);
    scatter(N_FILLED - N_THEIRS, 0);
    pleat_get(30 * (size_t)GRANULE, 0);
    ck_assert_uint_eq(resident(), N_GRANULES - N_THEIRS - N_RESERVED);
    ck_assert_uint_le(pleat_calls("cuMemGetInfo"), 16);
    ck_assert_int_eq(pl_device_mfree(other, theirs), PLEAT_OK);
    vmm_sim_close_device(other);
}
END_TEST

START_TEST(it_is_given_up_before_the_host_waits)
{
    scatter(N_FILLED, 1); /* the free half pends on stream 1 */
    pleat_get(16 * (size_t)GRANULE, 2);
    ck_assert_uint_gt(resident(), N_GRANULES - N_RESERVED);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
    pleat_get(20 * (size_t)GRANULE, 2);
    ck_assert_uint_gt(pleat_counted().host_syncs, 0);
}
END_TEST

START_TEST(in_a_capture_it_is_open_at_once)
{
    pl_stream *stream = pleat.streams[1];
    pleat_devptr ptr;
    scatter(N_FILLED, 0);
    captures_begin(1);
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, 20 * (size_t)GRANULE, stream, &ptr), PLEAT_OK);
    captures_end(1);
    ck_assert_uint_gt(resident(), N_GRANULES - N_RESERVED);
}
END_TEST

/* The driver may refuse to tell: then all but the reserve counts as free. */
START_TEST(a_driver_that_does_not_tell_is_believed_to_have_all)
{
    pleat.sim.fail_from("cuMemGetInfo", 1, CU_UNKNOWN);
    scatter(N_FILLED, 0);
    pleat_get(30 * (size_t)GRANULE, 0);
    ck_assert_uint_eq(resident(), N_GRANULES - N_RESERVED);
    pleat.sim.fail_never();
}
END_TEST

/* The held bytes of a balanced program that lives on 900 granules and moves them about. */
static size_t held_on(const char *sim_conf)
{
    pleat_open(sim_conf, NULL);
    pleat_walk_every(WALK_EVERY);
    for (int step = 0; step < 20; step++) {
        scatter(900, 0);
        pleat_devptr large = pleat_get((100 + (size_t)step) * GRANULE, 0);
        for (size_t i = 1; i < 900; i += 2) {
            pleat_put(ptrs[i], 0);
        }
        pleat_put(large, 0);
    }
    pleat_stats s;
    pleat.a->ops->stats(pleat.a, &s);
    pleat_close();
    return (size_t)(s.reserved_bytes[0].peak / GRANULE);
}

START_TEST(a_smaller_device_makes_nobody_hold_more)
{
    size_t on_large = held_on("capacity:4G");
    ck_assert_uint_le(held_on("capacity:2G"), on_large);
    ck_assert_uint_le(held_on("capacity:1936M"), on_large); /* the most pinned is 15/16 of it */
    ck_assert_uint_le(held_on("capacity:1840M"), on_large);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name, void (*open)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open, open != NULL ? pleat_close : NULL);
    suite_add_tcase(suite, tcase);
    return tcase;
}

SUITE(segments_reserve)
{
    TCase *usual = add_case(suite, "usual", open_usual);
    tcase_add_test(usual, own_free_memory_is_taken_first);
    tcase_add_test(usual, it_is_given_up_before_a_request_fails);
    tcase_add_test(usual, no_more_of_it_is_given_than_is_missing);
    tcase_add_test(usual, what_others_hold_already_is_not_of_it);
    tcase_add_test(usual, in_a_capture_it_is_open_at_once);
    tcase_add_test(usual, a_driver_that_does_not_tell_is_believed_to_have_all);
    tcase_add_test(add_case(suite, "settled", open_settled), it_is_given_up_before_the_host_waits);
    tcase_add_test(add_case(suite, "none", open_none), nothing_is_reserved_if_so_told);
    TCase *own = add_case(suite, "of their own", NULL);
    tcase_add_test(own, a_small_reserve_is_kept_as_told);
    tcase_add_test(own, a_smaller_device_makes_nobody_hold_more);
}
