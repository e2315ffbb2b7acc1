/* bounds_granules_test.c - how much one hold of the device lock touches for a request of very many
 * granules, or a place of very many pieces. Counted as in bounds_test.c. */
/* labels: unit */
#include <check.h>
#include <sched.h>
#include <stdlib.h>

#include "tests/support/own.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"
#include "vmm/base/lock.h"

enum { OWN = 1, OTHER = 2, N_GRANULES = 20000 };

#define GRANULE (2 * MIB)

static pleat_devptr blocks[N_GRANULES];

static void open_device(void)
{
    pleat_open_granules("capacity:96G,depth:1048576");
}

/* With large chunks, and so with fewer pieces. */
static void open_mixed(void)
{
    pleat_open("capacity:96G,depth:1048576", NULL);
}

/* The device has room for exactly N_GRANULES, and all are meant to be used. */
static void open_full(void)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    SET_OWN(pleat, &options, chunks, PL_CHUNKS_GRANULE);
    SET_OWN(pleat, &options, reserve_bytes, 0);
    SET_OWN(pleat, &options, growth, PL_GROWTH_AMPLE); /* memory is created before any is taken */
    pleat_open("capacity:40000M,depth:1048576", &options);
}

/* Allocates without a walk over everything, unlike pleat_get. */
static pleat_status try_get(size_t bytes, unsigned stream, pleat_devptr *out)
{
    return pleat.a->ops->alloc(pleat.a, bytes, pleat.streams[stream], out);
}

static pleat_devptr get(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 0;
    ck_assert_int_eq(try_get(bytes, stream, &ptr), PLEAT_OK);
    return ptr;
}

static void put(pleat_devptr ptr, unsigned stream)
{
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[stream]), PLEAT_OK);
}

static void assert_bounded(void)
{
    ck_assert_uint_le(pl_lock_most_touched(), PL_LOCK_MOST_TOUCHED);
    pleat_assert_sound();
}

/* Fills the device with live blocks of one granule. */
static void get_granules(void)
{
    for (size_t i = 0; i < N_GRANULES; i++) {
        blocks[i] = get(GRANULE, OWN);
    }
}

static void put_every_second(size_t first)
{
    for (size_t i = first; i < N_GRANULES; i += 2) {
        put(blocks[i], OWN);
    }
    pleat.sim.finish();
}

START_TEST(a_block_of_80_gib_comes_and_goes)
{
    pl_lock_reset_touched();
    put(get(80 * GIB, OWN), OWN);
    pleat.sim.finish();
    put(get(70 * GIB, OTHER), OTHER);
    put(get(40 * GIB, OTHER), OTHER);
    pleat.sim.finish();
    ck_assert_uint_gt(pleat_trim(20 * GIB, true), 0);
    put(get(80 * GIB, OWN), OWN);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 0);
    assert_bounded();
}
END_TEST

START_TEST(very_many_chunks_go_idle_and_are_used_again)
{
    pleat_devptr ptr;
    pl_lock_reset_touched();
    uint64_t since = pleat_steps();
    pleat.sim.fail_at("cuMemSetAccess", 0, CU_INVALID_VALUE);
    ck_assert_int_ne(try_get(80 * GIB, OWN, &ptr), PLEAT_OK);
    /* each chunk is a step as it is created, and as it goes idle */
    ck_assert_uint_ge(pleat_steps() - since, 2 * pleat_calls("cuMemCreate"));
    ck_assert_uint_eq(pleat_counted().idle_bytes, 80 * GIB);
    put(get(60 * GIB, OWN), OWN);
    assert_bounded();
}
END_TEST

/* Holes and free granules alternate, and form one place. */
START_TEST(a_place_of_very_many_pieces)
{
    get_granules();
    put_every_second(0);
    (void)pleat_trim(N_GRANULES / 2 * GRANULE, true);
    put_every_second(1);
    pl_lock_reset_touched();
    pleat_devptr ptr = get(N_GRANULES * GRANULE, OWN);
    ck_assert_uint_eq(ptr, blocks[0]);
    assert_bounded();
}
END_TEST

/* The driver refuses the last set-access. */
START_TEST(a_place_of_very_many_pieces_is_given_back)
{
    pleat_devptr ptr;
    get_granules();
    put_every_second(0);
    (void)pleat_trim(N_GRANULES / 2 * GRANULE, true);
    put_every_second(1);
    pl_lock_reset_touched();
    pleat.sim.fail_at("cuMemSetAccess", N_GRANULES / 2 - 1, CU_INVALID_VALUE);
    ck_assert_int_ne(try_get(N_GRANULES * GRANULE, OWN, &ptr), PLEAT_OK);
    ck_assert_uint_eq(pleat_counted().allocated_bytes[PLEAT_SIZES_ALL].current, 0);
    assert_bounded();
}
END_TEST

/* Takes the chunk of every second granule for a place elsewhere. */
START_TEST(chunks_are_taken_from_very_many_pieces)
{
    get_granules();
    put_every_second(0);
    pl_lock_reset_touched();
    pleat_devptr ptr = get(N_GRANULES / 2 * GRANULE, OWN);
    ck_assert_uint_eq(pleat_counted().n_taken_granules, N_GRANULES / 2);
    put(ptr, OWN);
    put_every_second(1);
    (void)get(N_GRANULES / 2 * GRANULE, OTHER); /* unmaps the stale mappings */
    assert_bounded();
}
END_TEST

static void commit_pages(pleat_devptr base, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        pl_buffer_change commit = { PL_BUFFER_COMMIT, base, i * GRANULE, GRANULE };
        ck_assert_int_eq(pleat.a->ops->buffers->change(pleat.a, &commit, pleat.streams[OWN]),
                         PLEAT_OK);
    }
}

static void use_and_put(pleat_devptr ptr, size_t bytes)
{
    pleat_work(OWN, ptr, bytes);
    put(ptr, OWN);
}

/* A buffer's pages take their granules one by one, from beside one another. The stale address that
 * is looked at first has very many below it. */
START_TEST(very_many_neighbours_are_stale)
{
    enum { N_STALE = 6000 };
    pleat_devptr base = 0;
    pleat_devptr low = get(N_STALE * GRANULE, OWN);
    pleat_devptr high = get((N_GRANULES - N_STALE) * GRANULE, OWN);
    ck_assert_uint_eq(high, low + N_STALE * GRANULE); /* else they are no neighbours */
    ck_assert_int_eq(
        pleat.a->ops->buffers->open(pleat.a, NULL, (N_STALE + 1) * GRANULE, 0, 0, &base), PLEAT_OK);
    use_and_put(high, (N_GRANULES - N_STALE) * GRANULE);
    commit_pages(base, 0, 1);
    use_and_put(low, N_STALE * GRANULE);
    commit_pages(base, 1, N_STALE + 1);
    ck_assert_uint_eq(pleat_counted().stale_bytes, (N_STALE + 1) * GRANULE);
    pleat.sim.finish();
    pl_lock_reset_touched();
    put(get((N_GRANULES - N_STALE - 1) * GRANULE, OTHER), OTHER); /* unmaps the stale mappings */
    ck_assert_uint_eq(pleat_counted().stale_bytes, 0);
    assert_bounded();
}
END_TEST

/* All the pieces are looked at and given back. */
START_TEST(very_many_pieces_that_pend_elsewhere_are_passed_over)
{
    pleat_close();
    pleat_open_with("capacity:40000M,depth:1048576", PL_CROSS_SETTLED, 0);
    pleat_devptr ptr;
    get_granules();
    put_every_second(0);
    pleat_work(OWN, blocks[1], GRANULE);
    for (size_t i = 1; i < N_GRANULES; i += 2) {
        put(blocks[i], OWN);
    }
    pl_lock_reset_touched();
    ck_assert_int_eq(try_get((N_GRANULES / 2 + 1) * GRANULE, OTHER, &ptr), PLEAT_EPENDING);
    ck_assert_uint_eq(pleat_counted().n_taken_granules, 0);
    assert_bounded();
}
END_TEST

/* In two streams' areas every hole is a granule between live blocks. So no hole is long enough. */
START_TEST(very_many_gaps_are_searched_in_vain)
{
    get_granules();
    put_every_second(0);
    (void)pleat_trim(N_GRANULES / 2 * GRANULE, true);
    pl_lock_reset_touched();
    (void)get(GRANULE + 512, OWN);
    (void)get(2 * GRANULE, OTHER);
    pleat_devptr ptr;
    ck_assert_int_eq(try_get(N_GRANULES / 2 * GRANULE, OTHER, &ptr), PLEAT_ENOMEM_DEVICE);
    assert_bounded();
}
END_TEST

/* ---- other threads meanwhile ----------------------------------------------------------------- */

static size_t n_breaths;      /* breaths since the others came */
static bool has_others;       /* the other threads take a granule, freed two breaths later */
static size_t others_for;     /* the other threads leave after this many breaths */
static pleat_devptr borrowed; /* block of the other threads; 0 = none */

/* Called whenever the lock is dropped for others. */
static void let_others(void)
{
    if (!has_others || n_breaths >= others_for) {
        return;
    }
    has_others = false;
    if (n_breaths % 3 == 0) {
        borrowed = get(GRANULE, OWN);
    } else if (n_breaths % 3 == 2) {
        put(borrowed, OWN);
        borrowed = 0;
    }
    n_breaths++;
    has_others = true;
}

static void have_others(size_t n)
{
    has_others = true;
    others_for = n;
    pl_lock_breath = let_others;
}

/* The other threads take the next free piece of a search over several holds of the lock. */
START_TEST(what_others_have_for_a_moment_is_not_missing)
{
    get_granules();
    put_every_second(0);
    pl_lock_reset_touched();
    have_others(99);
    (void)get(N_GRANULES / 2 * GRANULE, OWN);
    ck_assert_uint_eq(n_breaths, 99);
    assert_bounded();
}
END_TEST

/* The other threads never leave. In the end the request is served in one hold. */
START_TEST(others_that_go_on_foil_no_request_for_ever)
{
    get_granules();
    put_every_second(0);
    have_others(SIZE_MAX - SIZE_MAX % 3);
    (void)get((N_GRANULES / 2 - 1) * GRANULE, OWN);
    ck_assert_uint_gt(n_breaths, 500);
    has_others = false;
    pleat_assert_sound();
}
END_TEST

/* The others' block is in the middle of the place, which is given back and searched for anew. */
START_TEST(others_in_the_place_are_noticed)
{
    get_granules();
    put_every_second(0);
    (void)pleat_trim(N_GRANULES / 2 * GRANULE, true);
    put_every_second(1);
    pl_lock_reset_touched();
    have_others(1);
    pleat_devptr ptr = get(N_GRANULES * GRANULE, OWN);
    ck_assert_uint_ne(borrowed, 0);
    ck_assert(borrowed < ptr || borrowed >= ptr + N_GRANULES * GRANULE);
    put(borrowed, OWN);
    assert_bounded();
}
END_TEST

SUITE(segments_bounds_granules)
{
    TCase *large = tcase_create("large");
    tcase_add_checked_fixture(large, open_device, pleat_close);
    tcase_add_test(large, a_block_of_80_gib_comes_and_goes);
    tcase_add_test(large, very_many_chunks_go_idle_and_are_used_again);
    tcase_add_test(large, a_place_of_very_many_pieces);
    tcase_add_test(large, a_place_of_very_many_pieces_is_given_back);
    tcase_add_test(large, others_in_the_place_are_noticed);
    suite_add_tcase(suite, large);
    TCase *full = tcase_create("full");
    tcase_add_checked_fixture(full, open_full, pleat_close);
    tcase_add_test(full, chunks_are_taken_from_very_many_pieces);
    tcase_add_test(full, very_many_neighbours_are_stale);
    tcase_add_test(full, very_many_pieces_that_pend_elsewhere_are_passed_over);
    tcase_add_test(full, very_many_gaps_are_searched_in_vain);
    tcase_add_test(full, what_others_have_for_a_moment_is_not_missing);
    tcase_add_test(full, others_that_go_on_foil_no_request_for_ever);
    suite_add_tcase(suite, full);
    TCase *mixed = tcase_create("mixed");
    tcase_add_checked_fixture(mixed, open_mixed, pleat_close);
    tcase_add_test(mixed, a_block_of_80_gib_comes_and_goes);
    tcase_add_test(mixed, very_many_chunks_go_idle_and_are_used_again);
    tcase_add_test(mixed, a_place_of_very_many_pieces);
    tcase_add_test(mixed, others_in_the_place_are_noticed);
    suite_add_tcase(suite, mixed);
}
