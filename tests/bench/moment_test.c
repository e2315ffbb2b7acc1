/* moment_test.c - the memory of an allocator after one event: the map, stranded memory, and the
 * blocks beside it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/command/parse_options.h"
#include "bench/run/replay.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/bench/bench_sim.h"
#include "tests/support/suite.h"

#define MIB (UINT64_C(1) << 20)

static bench_setup setup;
static bench_work work;
static bench_record record;
static bench_failure failure;
static bench_moment moment;

static void set_up(void)
{
    bench_sim_setup(&setup);
}

static void tear_down(void)
{
    bench_work_close(&work);
}

static void load(const char *text)
{
    const char *path = bench_child_file(".trace", text, strlen(text));
    ck_assert_msg(bench_work_open(path, &work, &failure), "%s", failure.text);
    unlink(path);
}

static void load_churn(void)
{
    static const char spec[] = "churn:iterations=80,allocations=60,least=2M,most=32M,streams=2";
    ck_assert_msg(bench_work_open(spec, &work, &failure), "%s", failure.text);
}

static void take(const char *allocator, uint64_t memory_bytes, uint64_t event)
{
    memset(&moment, 0, sizeof moment);
    moment.event = event;
    bench_replay_options options = {
        .setup = &setup,
        .allocator = allocator,
        .memory_bytes = memory_bytes,
        .loops = 1,
        .moment = &moment,
    };
    ck_assert_msg(bench_replay(&work, &options, &record, &failure), "%s", failure.text);
}

static uint64_t sum_of_charges(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < moment.n_holders; i++) {
        sum += moment.holders[i].charged_bytes;
    }
    return sum;
}

/* PyTorch serves each pair from a segment of 20 MiB. 4 MiB stay, 8 MiB go. */
static const char scattered[] = "a 1 8388608 0\na 2 4194304 0\na 3 8388608 0\na 4 4194304 0\n"
                                "f 1\nf 3\na 5 20971520 0\nf 2\nf 4\nf 5\n";

START_TEST(free_memory_is_charged_to_the_blocks_beside_it)
{
    load(scattered);
    take("torch-native", 0, 5);
    ck_assert(moment.is_reached && moment.has_map);
    ck_assert_uint_eq(moment.live_bytes, 8 * MIB);
    ck_assert_uint_eq(moment.resident_bytes, 40 * MIB);
    ck_assert_uint_eq(moment.free_bytes, 32 * MIB);
    ck_assert_uint_eq(moment.stranded_bytes, 32 * MIB);
    ck_assert_uint_eq(moment.n_holders, 1); /* the two blocks have equal size */
    ck_assert_uint_eq(moment.holders[0].bytes, 4 * MIB);
    ck_assert_uint_eq(moment.holders[0].n_blocks, 2);
    ck_assert_uint_eq(moment.holders[0].live_bytes, 8 * MIB);
    ck_assert_uint_eq(moment.holders[0].charged_bytes, 32 * MIB);
    ck_assert_uint_eq(moment.requested_bytes, 0); /* the event is a free */
    take("pleat", 0, 5);
    ck_assert_uint_eq(moment.pending_bytes, 0); /* the stream of both may have the memory at once */
    ck_assert_uint_ge(moment.free_bytes, 16 * MIB);
}
END_TEST

START_TEST(a_refused_request_is_the_moment)
{
    load(scattered);
    take("torch-native", 48 * MIB, 6);
    ck_assert(moment.has_failed);
    ck_assert_uint_eq(record.first_failure_event, 6);
    ck_assert_uint_eq(moment.requested_bytes, 20 * MIB);
    ck_assert_uint_eq(moment.stranded_bytes, 32 * MIB);
    take("pleat", 48 * MIB, 6);
    ck_assert(!moment.has_failed);
    ck_assert_uint_eq(moment.live_bytes, 28 * MIB);
    ck_assert_uint_eq(moment.stranded_bytes, 0);
}
END_TEST

START_TEST(a_moment_behind_the_end_is_not_reached)
{
    load(scattered);
    take("torch-native", 0, 10);
    ck_assert(!moment.is_reached);
}
END_TEST

/* M1 */
static void check_sum(uint64_t live_pieces)
{
    ck_assert_int_eq((int64_t)moment.live_bytes + moment.rounding_bytes, (int64_t)live_pieces);
    uint64_t shown = live_pieces + moment.pending_bytes + moment.free_bytes;
    if (moment.has_free) {
        ck_assert_uint_eq(shown, moment.resident_bytes);
    } else {
        ck_assert_uint_lt(shown, moment.resident_bytes);
    }
}

START_TEST(only_a_driver_that_keeps_its_pool_to_itself_leaves_free_memory_unknown)
{
    for (unsigned i = 0; pl_allocator_name(i); i++) {
        load(scattered);
        take(pl_allocator_name(i), 0, 5);
        ck_assert_int_eq(moment.has_free, strcmp(pl_allocator_name(i), "cuda-async") != 0);
        bench_work_close(&work);
    }
    work = (bench_work){ .n_events = 0 };
}
END_TEST

START_TEST(the_map_tiles_the_segments_of_the_allocator)
{
    const char *allocator = pl_allocator_name((unsigned)_i);
    load_churn();
    uint64_t tight = work.peak_live_bytes / 100 * 97 / MIB * MIB;
    const uint64_t memories[] = { 0, tight };
    for (int k = 0; k < 2; k++) {
        take(allocator, memories[k], work.peak_event);
        ck_assert(moment.is_reached);
        ck_assert_uint_gt(moment.n_pieces, 0);
        ck_assert_uint_eq(moment.n_merged, 0);
        ck_assert(moment.pieces[0].is_first);
        uint64_t sums[PL_PIECE_HOLE + 1] = { 0 };
        for (unsigned i = 0; i < moment.n_pieces; i++) {
            const bench_map_piece *p = &moment.pieces[i];
            ck_assert_uint_le(p->kind, PL_PIECE_HOLE);
            ck_assert_int_lt(p->stream, (int)work.n_streams);
            ck_assert(p->is_first || p[-1].base + p[-1].bytes == p->base);
            /* exactly live pieces have blocks */
            ck_assert_int_eq(p->kind == PL_PIECE_LIVE, p->born > 0);
            ck_assert_uint_le(p->born, work.peak_event + 1);
            sums[p->kind] += p->bytes;
        }
        /* Live bytes are counted in units of 512; an allocator may round less. */
        ck_assert_uint_ge(sums[PL_PIECE_LIVE] + 512 * moment.n_pieces, moment.live_bytes);
        ck_assert_uint_le(sums[PL_PIECE_LIVE] + sums[PL_PIECE_PENDING] + sums[PL_PIECE_FREE],
                          moment.resident_bytes);
        ck_assert_uint_ge(moment.free_bytes, sums[PL_PIECE_FREE]); /* idle chunks, too */
        ck_assert_uint_eq(sums[PL_PIECE_PENDING], moment.pending_bytes);
        check_sum(sums[PL_PIECE_LIVE]);
        ck_assert_uint_le(moment.stranded_bytes, moment.free_bytes);
        ck_assert_uint_eq(sum_of_charges(), moment.stranded_bytes);
        ck_assert_uint_eq(moment.n_other_holders, 0);
        if (k == 0) {
            ck_assert_uint_eq(moment.live_bytes, work.peak_live_bytes);
        }
    }
}
END_TEST

/* ---- charges ---- */

#define LIVE(at, n)                                                                                \
    {                                                                                              \
        .base = (at), .bytes = (n), .kind = PL_PIECE_LIVE                                          \
    }
#define FREE(at, n)                                                                                \
    {                                                                                              \
        .base = (at), .bytes = (n), .kind = PL_PIECE_FREE                                          \
    }
#define HOLE(at, n)                                                                                \
    {                                                                                              \
        .base = (at), .bytes = (n), .kind = PL_PIECE_HOLE                                          \
    }
#define FIRST_LIVE(at, n)                                                                          \
    {                                                                                              \
        .base = (at), .bytes = (n), .kind = PL_PIECE_LIVE, .is_first = true                        \
    }
#define FIRST_FREE(at, n)                                                                          \
    {                                                                                              \
        .base = (at), .bytes = (n), .kind = PL_PIECE_FREE, .is_first = true                        \
    }

static uint64_t page_bytes(const void *context, const bench_map_piece *piece)
{
    (void)piece;
    return *(const uint64_t *)context;
}

static uint64_t charges[16];

static uint64_t charge(const bench_map_piece *pieces, size_t n, uint64_t page)
{
    memset(charges, 0, sizeof charges);
    return bench_moment_charge(pieces, n, page_bytes, &page, charges);
}

START_TEST(half_to_each_neighbour_and_all_to_a_single_one)
{
    static const bench_map_piece pieces[] = {
        FIRST_FREE(0, 10),   LIVE(10, 10),        FREE(20, 7), LIVE(27, 3),
        FREE(30, 70),        FIRST_FREE(200, 50), /* a segment without blocks can be given back */
        FIRST_LIVE(300, 10), LIVE(310, 10),
    };
    ck_assert_uint_eq(charge(pieces, 8, 0), 87);
    ck_assert_uint_eq(charges[1], 10 + 3);
    ck_assert_uint_eq(charges[3], 4 + 70);
    ck_assert_uint_eq(charges[6] + charges[7], 0);
}
END_TEST

START_TEST(whole_pages_are_not_stranded)
{
    static const bench_map_piece pieces[] = {
        FIRST_LIVE(1000, 15), FREE(1015, 30), LIVE(1045, 5),  FREE(1050, 3), LIVE(1053, 1),
        FREE(1054, 26),       HOLE(1080, 20), FREE(1100, 10), LIVE(1110, 1),
    };
    ck_assert_uint_eq(charge(pieces, 9, 10), 5 + 5 + 3 + 6);
    ck_assert_uint_eq(charges[0], 5);
    ck_assert_uint_eq(charges[2], 5); /* the next piece lies in the next page */
    ck_assert_uint_eq(charges[4], 3 + 6);
    ck_assert_uint_eq(charges[8], 0); /* the page beside it is whole */
}
END_TEST

START_TEST(free_pieces_side_by_side_are_one_run)
{
    static const bench_map_piece pieces[] = {
        FIRST_LIVE(0, 2), FREE(2, 4), FREE(6, 4), FREE(10, 2), LIVE(12, 8),
    };
    ck_assert_uint_eq(charge(pieces, 5, 0), 10);
    ck_assert_uint_eq(charges[0], 5);
    ck_assert_uint_eq(charge(pieces, 5, 10), 10);
    ck_assert_uint_eq(charges[0], 8); /* up to the end of its page */
    ck_assert_uint_eq(charges[4], 2);
}
END_TEST

static const bench_map_piece drawn[] = {
    { .base = 0, .bytes = 4096, .kind = PL_PIECE_LIVE, .stream = 0, .is_first = true },
    { .base = 4096, .bytes = 4096, .kind = PL_PIECE_LIVE, .stream = 0 },
    { .base = 8192, .bytes = 512, .kind = PL_PIECE_FREE, .stream = -1 },
    { .base = 8704, .bytes = 8192, .kind = PL_PIECE_LIVE, .stream = 1 },
    { .base = 16896, .bytes = 512, .kind = PL_PIECE_LIVE, .stream = 1, .is_first = true },
    { .base = 17408, .bytes = 65536, .kind = PL_PIECE_HOLE, .stream = -1 },
};
enum { N_DRAWN = sizeof drawn / sizeof drawn[0] };

START_TEST(pieces_that_touch_and_are_alike_become_one)
{
    bench_map_piece pieces[N_DRAWN];
    uint64_t n_joined;
    memcpy(pieces, drawn, sizeof drawn);
    ck_assert_uint_eq(bench_map_merge(pieces, N_DRAWN, N_DRAWN, &n_joined), N_DRAWN - 1);
    ck_assert_uint_eq(n_joined, 0);
    ck_assert_uint_eq(pieces[0].bytes, 8192);
    ck_assert_uint_eq(pieces[2].bytes, 8192); /* not merged across segments */
    ck_assert(pieces[3].is_first);
}
END_TEST

START_TEST(too_many_pieces_lose_the_smallest_first)
{
    bench_map_piece pieces[N_DRAWN];
    uint64_t n_joined;
    memcpy(pieces, drawn, sizeof drawn);
    ck_assert_uint_eq(bench_map_merge(pieces, N_DRAWN, 3, &n_joined), 3);
    ck_assert_uint_eq(n_joined, 2);
    ck_assert_uint_eq(pieces[0].bytes, 8192);
    ck_assert_uint_eq(pieces[1].bytes, 8704);
    ck_assert_uint_eq(pieces[1].kind, PL_PIECE_LIVE);
    ck_assert_int_eq(pieces[1].stream, 1);
    ck_assert_uint_eq(pieces[2].bytes, 66048);
    ck_assert_uint_eq(pieces[2].kind, PL_PIECE_HOLE);
    ck_assert(pieces[2].is_first);
    memcpy(pieces, drawn, sizeof drawn);
    ck_assert_uint_eq(bench_map_merge(pieces, N_DRAWN, 1, &n_joined), 1);
    ck_assert_uint_eq(pieces[0].bytes, 82944); /* all pieces, across segments */
}
END_TEST

/* 4,096 pieces of 1 KiB. Of each four, three are live and one is free. Segments have eight pieces,
 * or one. */
START_TEST(joined_pieces_keep_the_sums_of_each_kind)
{
    enum { N = 4096, MOST = 100 };
    static bench_map_piece pieces[N];
    for (unsigned i = 0; i < N; i++) {
        pieces[i] = (bench_map_piece){
            .base = 1024 * i,
            .bytes = 1024,
            .kind = i % 4 == 1 ? PL_PIECE_FREE : PL_PIECE_LIVE,
            .stream = (int32_t)(i % 2), /* so no two neighbours are alike */
            .is_first = _i ? i % 8 == 0 : i == 0,
        };
    }
    uint64_t n_joined;
    size_t n = bench_map_merge(pieces, N, MOST, &n_joined);
    ck_assert_uint_le(n, MOST);
    ck_assert_uint_ge(n, MOST / 2);
    ck_assert_uint_eq(n_joined, N - n);
    uint64_t sums[PL_PIECE_HOLE + 1] = { 0 };
    for (size_t i = 0; i < n; i++) {
        sums[pieces[i].kind] += pieces[i].bytes;
    }
    ck_assert_uint_eq(sums[PL_PIECE_LIVE] + sums[PL_PIECE_FREE], N * 1024);
    ck_assert_double_eq_tol((double)sums[PL_PIECE_FREE], N * 1024 / 4.0, N * 1024 / (double)n);
}
END_TEST

SUITE(bench_moment)
{
    int n_allocators = 0;
    while (pl_allocator_name((unsigned)n_allocators)) {
        n_allocators++;
    }
    TCase *moments = tcase_create("moments");
    tcase_add_checked_fixture(moments, set_up, tear_down);
    tcase_add_test(moments, free_memory_is_charged_to_the_blocks_beside_it);
    tcase_add_test(moments, a_refused_request_is_the_moment);
    tcase_add_test(moments, a_moment_behind_the_end_is_not_reached);
    tcase_add_test(moments, only_a_driver_that_keeps_its_pool_to_itself_leaves_free_memory_unknown);
    tcase_add_loop_test(moments, the_map_tiles_the_segments_of_the_allocator, 0, n_allocators);
    suite_add_tcase(suite, moments);
    TCase *charging = tcase_create("charges");
    tcase_add_test(charging, half_to_each_neighbour_and_all_to_a_single_one);
    tcase_add_test(charging, whole_pages_are_not_stranded);
    tcase_add_test(charging, free_pieces_side_by_side_are_one_run);
    suite_add_tcase(suite, charging);
    TCase *merging = tcase_create("merging");
    tcase_add_test(merging, pieces_that_touch_and_are_alike_become_one);
    tcase_add_test(merging, too_many_pieces_lose_the_smallest_first);
    tcase_add_loop_test(merging, joined_pieces_keep_the_sums_of_each_kind, 0, 2);
    suite_add_tcase(suite, merging);
}
