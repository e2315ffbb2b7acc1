/* bounds_test.c - how much one hold of the device lock touches after any frees of a program.
 * Counted in debug builds (vmm/base/lock.h); other builds only run the scenes. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>

#include "tests/support/segments/segments_sim.h"
#include "tests/support/segments/segments_told.h"
#include "tests/support/suite.h"
#include "vmm/base/lock.h"
#include "vmm/driver_state.h"

enum { N = 20000, BUSY = 1, OTHER = 2 };

static pleat_devptr blocks[N];
static uint64_t random_state = 88172645463325252u;

static size_t random_below(size_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(random_state >> 33) % n;
}

static void open_device(void)
{
    pleat_open("capacity:16G,depth:1048576", NULL);
}

static void open_granules(void)
{
    pleat_open_granules("capacity:16G,depth:1048576");
}

/* Allocates without a walk over everything, unlike pleat_get. */
static pleat_devptr get(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 0;
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, bytes, pleat.streams[stream], &ptr), PLEAT_OK);
    return ptr;
}

static void put(pleat_devptr ptr, unsigned stream)
{
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[stream]), PLEAT_OK);
}

static void get_all(size_t bytes)
{
    put(get(512, OTHER), OTHER);
    for (size_t i = 0; i < N; i++) {
        blocks[i] = get(bytes != 0 ? bytes : (1 + random_below(64)) * 512, BUSY);
    }
    pl_lock_reset_touched();
}

static void assert_bounded(void)
{
    ck_assert_uint_le(pl_lock_most_touched(), PL_LOCK_MOST_TOUCHED);
#if PLEAT_DEBUG_LEVEL >= 1
    ck_assert_uint_gt(pl_lock_most_touched(), 0); /* else nothing is counted */
#endif
    pleat_assert_sound();
}

START_TEST(settled_and_pending_pieces_side_by_side)
{
    get_all(4 * KIB);
    for (size_t i = 0; i < N; i += 2) {
        put(blocks[i], BUSY);
    }
    pleat.sim.finish();
    for (int i = 0; i < 100; i++) {
        put(get(512, BUSY), BUSY);
    }
    pleat_work(BUSY, blocks[1], 4 * KIB);
    for (size_t i = 1; i < N; i += 2) {
        put(blocks[i], BUSY);
    }
    (void)get(20 * MIB, BUSY);
    (void)get(20 * MIB, OTHER);
    pleat.sim.finish();
    (void)get(60 * MIB, OTHER);
    assert_bounded();
}
END_TEST

START_TEST(pieces_freed_in_any_order_behind_work)
{
    get_all(0);
    for (size_t i = N - 1; i > 0; i--) {
        size_t j = random_below(i + 1);
        pleat_devptr swapped = blocks[i];
        blocks[i] = blocks[j];
        blocks[j] = swapped;
    }
    for (size_t i = 0; i < N / 2; i++) {
        put(blocks[i], BUSY);
    }
    pleat.sim.finish();
    pleat_work(BUSY, blocks[N - 1], 512);
    for (size_t i = N / 2; i < N; i++) {
        put(blocks[i], BUSY);
    }
    pleat.sim.finish();
    (void)get(30 * MIB, OTHER);
    assert_bounded();
}
END_TEST

/* Pieces between live blocks do not merge. */
START_TEST(a_queue_of_single_pieces_settles_by_and_by)
{
    get_all(4 * KIB);
    pleat_work(BUSY, blocks[1], 4 * KIB);
    for (size_t i = 0; i < N; i += 2) {
        put(blocks[i], BUSY);
    }
    pleat.sim.finish();
    (void)get(8 * MIB, OTHER);
    ck_assert_uint_lt(pleat_counted().pending_bytes, N / 2 * 4 * KIB);
    assert_bounded();
}
END_TEST

START_TEST(uses_on_another_stream_pass_by_and_by)
{
    get_all(4 * KIB);
    pleat_work(OTHER, blocks[0], 4 * KIB);
    for (size_t i = 0; i < N; i++) {
        ck_assert_int_eq(pleat.a->ops->record_stream(pleat.a, blocks[i], pleat.streams[OTHER]),
                         PLEAT_OK);
        put(blocks[i], BUSY);
    }
    for (int i = 0; i < 100; i++) {
        (void)get(4 * MIB, BUSY);
    }
    pleat_devptr last = get(512, OTHER); /* names the stream, which gets the tick */
    pleat.sim.finish();
    put(last, OTHER);
    (void)get(8 * MIB, BUSY);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(pleat_counted().pending_bytes, 0);
    assert_bounded();
}
END_TEST

/* All uses are over, and a request takes the memory, rather than create more. */
START_TEST(uses_on_all_streams_pass_before_a_request_grows)
{
    enum { BYTES = 24 * KIB };
    get_all(BYTES);
    for (size_t i = 0; i < N; i++) {
        for (unsigned k = 0; k < PLEAT_N_STREAMS; k++) {
            ck_assert_int_eq(pleat.a->ops->record_stream(pleat.a, blocks[i], pleat.streams[k]),
                             PLEAT_OK);
        }
        put(blocks[i], BUSY);
    }
    for (unsigned k = 0; k < PLEAT_N_STREAMS; k++) {
        put(get(512, k), k); /* names the stream, which gets the tick */
    }
    pleat.sim.finish();
    uint64_t resident = pleat_counted().resident_bytes;
    (void)get((size_t)N * BYTES, BUSY);
    ck_assert_uint_le(pleat_counted().resident_bytes, resident + 8 * MIB);
    assert_bounded();
}
END_TEST

static void put_shared(size_t i)
{
    put(blocks[i], i % 2 == 0 ? BUSY : OTHER);
}

/* Pieces of two streams by turns do not merge. Whether a granule is free as a whole must not be a
 * look at all of its pieces, of which there are more, the more of its middle is free. */
START_TEST(granules_of_two_streams_are_freed_from_the_middle)
{
    enum { THIRD = 3, N_HALF = 3 * 2048, PIECE = 512 };
    get_all(PIECE);
    for (size_t i = 0; i < N; i++) {
        put(blocks[i], BUSY);
    }
    pleat.sim.finish();
    (void)get(8 * MIB, OTHER); /* what is freed has settled */
    for (size_t i = 0; i < 2 * N_HALF; i++) {
        blocks[i] = get(PIECE, i % 2 == 0 ? BUSY : OTHER);
        ck_assert_int_eq(pleat.a->ops->record_stream(pleat.a, blocks[i], pleat.streams[THIRD]),
                         PLEAT_OK);
    }
    for (unsigned i = BUSY; i <= THIRD; i++) {
        pleat_work(i, blocks[i], PIECE);
    }
    for (size_t i = 0; i < N_HALF; i++) {
        put_shared(N_HALF + i);
        put_shared(N_HALF - 1 - i);
    }
    put(get(PIECE, THIRD), THIRD); /* names the stream, which gets the tick */
    ck_assert_int_eq(pleat.sim.drv->table.stream_synchronize(pleat.handles[THIRD]), CU_SUCCESS);
    pl_lock_reset_touched();
    (void)get(8 * MIB, BUSY);
    ck_assert_uint_gt(pleat_counted().pending_bytes, N_HALF * PIECE);
    assert_bounded();
}
END_TEST

START_TEST(a_gap_of_alternating_granules)
{
    enum { N_GRANULES = 6000 };
    put(get(512, OTHER), OTHER);
    for (size_t i = 0; i < N_GRANULES; i++) {
        blocks[i] = get(2 * MIB, BUSY);
    }
    for (size_t i = 0; i < N_GRANULES; i += 2) {
        put(blocks[i], BUSY);
    }
    pleat.sim.finish();
    (void)pleat_trim(N_GRANULES / 2 * 2 * MIB, true); /* leaves holes between live granules */
    for (size_t i = 1; i < N_GRANULES; i += 2) {
        put(blocks[i], BUSY);
    }
    pl_lock_reset_touched();
    (void)get(64 * MIB, BUSY);
    assert_bounded();
}
END_TEST

START_TEST(a_private_pool_of_many_pieces_opens_by_and_by)
{
    pl_keeper *pool;
    ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pool), PLEAT_OK);
    put(get(512, OTHER), OTHER);
    for (size_t i = 0; i < N; i++) {
        ck_assert_int_eq(pleat.a->ops->alloc_asked(pleat.a, pool, 4 * KIB, pleat.streams[BUSY],
                                                   NULL, &blocks[i]),
                         PLEAT_OK);
    }
    for (size_t i = 0; i < N; i += 2) {
        put(blocks[i], BUSY);
    }
    pl_lock_reset_touched();
    pleat.a->ops->pools->release(pleat.a, pool);
    for (size_t i = 1; i < N; i += 2) {
        put(blocks[i], BUSY);
    }
    pleat.sim.finish();
    ck_assert_uint_gt(pleat_trim(0, true), 0);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 0);
    assert_bounded();
}
END_TEST

typedef struct seen {
    size_t n;
    pleat_devptr end; /* of the last piece */
    uint64_t live_bytes;
    bool is_ordered;
} seen;

static void see(void *context, const pl_piece *piece)
{
    seen *s = context;
    s->is_ordered = s->is_ordered && piece->base >= s->end;
    s->end = piece->base + piece->bytes;
    s->live_bytes += piece->kind == PL_PIECE_LIVE ? piece->bytes : 0;
    s->n++;
}

START_TEST(pieces_are_visited_by_and_by)
{
    seen all = { .is_ordered = true };
    seen some = { .is_ordered = true };
    pleat_devptr from = 0;
    size_t n_visits = 1;
    get_all(0);
    pleat.a->ops->visit(pleat.a, see, &all);
    for (; pleat.a->ops->visit_some(pleat.a, &from, see, &some); n_visits++) {
    }
    ck_assert_uint_gt(n_visits, N / 2048);
    ck_assert_uint_eq(some.n, all.n);
    ck_assert_uint_eq(some.live_bytes, all.live_bytes);
    ck_assert(some.is_ordered);
    assert_bounded();
}
END_TEST

/* Between two holds the blocks seen so far are freed, and a block is allocated across the seam. */
START_TEST(pieces_that_change_between_visits_do_not_overlap)
{
    seen s = { .is_ordered = true };
    pleat_devptr from = 0;
    get_all(4 * KIB);
    ck_assert(pleat.a->ops->visit_some(pleat.a, &from, see, &s));
    size_t n_seen = s.n;
    for (size_t i = 0; i < N / 2; i++) {
        put(blocks[i], BUSY);
    }
    pleat.sim.finish();
    (void)get(20 * MIB, BUSY);
    while (pleat.a->ops->visit_some(pleat.a, &from, see, &s)) {
    }
    ck_assert(s.is_ordered);
    ck_assert_uint_ge(s.n, n_seen + N / 2);
    assert_bounded();
}
END_TEST

/* An observer hears of each free, so none takes the short way of ops/quick.c. */
static void open_told(void)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.observer = told_open();
    pleat_open("capacity:16G,depth:1048576", &options);
}

/* A free loosens only the block's granules, not the whole free run around the block. */
START_TEST(frees_that_join_a_long_free_run)
{
    enum { N_LARGE = 4000 };
    for (size_t i = 0; i < N_LARGE; i++) {
        blocks[i] = get(2 * MIB, BUSY);
    }
    pl_lock_reset_touched();
    for (size_t i = 0; i < N_LARGE; i++) {
        put(blocks[i], BUSY);
    }
    ck_assert_uint_le(pl_lock_most_touched(), 16);
    pleat_assert_sound();
}
END_TEST

SUITE(segments_bounds)
{
    TCase *tcase = tcase_create("one hold");
    tcase_add_checked_fixture(tcase, open_device, pleat_close);
    tcase_add_test(tcase, settled_and_pending_pieces_side_by_side);
    tcase_add_test(tcase, pieces_freed_in_any_order_behind_work);
    tcase_add_test(tcase, a_queue_of_single_pieces_settles_by_and_by);
    tcase_add_test(tcase, uses_on_another_stream_pass_by_and_by);
    tcase_add_test(tcase, uses_on_all_streams_pass_before_a_request_grows);
    tcase_add_test(tcase, granules_of_two_streams_are_freed_from_the_middle);
    tcase_add_test(tcase, a_private_pool_of_many_pieces_opens_by_and_by);
    tcase_add_test(tcase, pieces_are_visited_by_and_by);
    tcase_add_test(tcase, pieces_that_change_between_visits_do_not_overlap);
    tcase_add_test(tcase, frees_that_join_a_long_free_run);
    suite_add_tcase(suite, tcase);
    TCase *told = suite_case(suite, "told", open_told, pleat_close);
    tcase_add_test(told, frees_that_join_a_long_free_run);
    TCase *granules = tcase_create("granules");
    tcase_add_checked_fixture(granules, open_granules, pleat_close);
    tcase_add_test(granules, a_gap_of_alternating_granules);
    suite_add_tcase(suite, granules);
}
