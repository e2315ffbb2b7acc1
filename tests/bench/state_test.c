/* state_test.c - what a snapshot shows of its own moment: live, stranded, returnable, and whom free
 * memory lies beside. */
/* labels: model */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "bench/base/random.h"
#include "bench/run/state.h"
#include "tests/support/suite.h"

enum { MOST_PIECES = 400 };

static bench_state_piece pieces[MOST_PIECES];
static bench_origin origin;
static bench_moment moment;
static bench_state_figures figures;

static void take(void)
{
    bench_failure failure;
    memset(&moment, 0, sizeof moment);
    ck_assert_msg(bench_state_take(&origin, &moment, &figures, &failure), "%s", failure.text);
}

/* Segments of blocks of random kinds and sizes in units of 512 bytes; of expandable ones whole
 * pages. */
static void draw(bench_random *random, bool is_expandable, uint64_t page)
{
    size_t n = 0;
    uint64_t at = UINT64_C(1) << 40;
    size_t n_segments = bench_random_between(random, 1, 12);
    for (size_t s = 0; s < n_segments && n + 24 < MOST_PIECES; s++) {
        uint64_t left = page * bench_random_between(random, 1, 8);
        bool is_first = true;
        while (left > 0) {
            uint64_t bytes = 512 * bench_random_between(random, 1, left / 512);
            bytes = bench_random_between(random, 0, 5) == 0 || n + 24 >= MOST_PIECES ? left : bytes;
            uint8_t kind = (uint8_t)bench_random_between(random, 0, 2);
            pieces[n++] = (bench_state_piece){
                .base = at,
                .bytes = bytes,
                .asked_bytes = kind == BENCH_STATE_LIVE
                                   ? bytes - bench_random_between(random, 0, 511)
                                   : 0,
                .kind = kind,
                .stack = kind == BENCH_STATE_FREE ? 0
                                                  : (uint32_t)bench_random_between(random, 0, 3),
                .is_first = is_first,
                .is_small = page == UINT64_C(2) << 20,
                .is_expandable = is_expandable,
            };
            is_first = false;
            left -= bytes;
            at += bytes;
        }
        at += UINT64_C(1) << 30;
    }
    origin.state = (bench_state){ .pieces = pieces, .n_pieces = n };
}

/* Does a block in use lie in [begin, end) of the segment of piece `i`? */
static bool is_used(size_t i, uint64_t begin, uint64_t end)
{
    while (!pieces[i].is_first) {
        i--;
    }
    for (size_t k = i; k < origin.state.n_pieces && (k == i || !pieces[k].is_first); k++) {
        if (pieces[k].kind != BENCH_STATE_FREE && pieces[k].base < end &&
            pieces[k].base + pieces[k].bytes > begin) {
            return true;
        }
    }
    return false;
}

/* Byte by byte in units of 512: free, and a block in use holds its unit of giving back. */
static uint64_t stranded_by_hand(uint64_t page)
{
    uint64_t sum = 0;
    uint64_t first = 0;
    for (size_t i = 0; i < origin.state.n_pieces; i++) {
        const bench_state_piece *p = &pieces[i];
        first = p->is_first ? p->base : first;
        for (uint64_t at = p->base; p->kind == BENCH_STATE_FREE && at < p->base + p->bytes;) {
            uint64_t begin = page ? first + (at - first) / page * page : 0;
            uint64_t end = page ? begin + page : UINT64_MAX;
            uint64_t upto = end < p->base + p->bytes ? end : p->base + p->bytes;
            sum += is_used(i, begin, end) ? upto - at : 0;
            at = upto;
        }
    }
    return sum;
}

static uint64_t sum_of(uint8_t kind)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < origin.state.n_pieces; i++) {
        sum += pieces[i].kind == kind ? pieces[i].bytes : 0;
    }
    return sum;
}

static void expect_sums(void)
{
    ck_assert_uint_eq(figures.live_bytes, sum_of(BENCH_STATE_LIVE));
    ck_assert_uint_eq(figures.pending_bytes, sum_of(BENCH_STATE_PENDING));
    ck_assert_uint_eq(figures.held_bytes, figures.live_bytes + figures.pending_bytes +
                                              figures.stranded_bytes + figures.returnable_bytes);
    ck_assert_uint_eq(moment.resident_bytes, moment.live_bytes + moment.pending_bytes +
                                                 moment.free_bytes +
                                                 (uint64_t)moment.rounding_bytes);
    uint64_t charged = 0;
    uint64_t n_blocks = 0;
    for (unsigned i = 0; i < moment.n_holders; i++) {
        charged += moment.holders[i].charged_bytes;
        n_blocks += moment.holders[i].n_blocks;
    }
    ck_assert_uint_eq(charged, figures.stranded_bytes);
    uint64_t n_in_use = 0;
    for (size_t i = 0; i < origin.state.n_pieces; i++) {
        n_in_use += pieces[i].kind != BENCH_STATE_FREE;
    }
    ck_assert_uint_eq(n_blocks, n_in_use);
}

START_TEST(whole_segments_go_back_and_no_others)
{
    bench_random random = { .state = 11 };
    origin = (bench_origin){ .allocator = "torch-native" };
    for (unsigned round = 0; round < 10 * suite_part(100); round++) {
        draw(&random, false, UINT64_C(2) << 20);
        take();
        ck_assert_uint_eq(figures.stranded_bytes, stranded_by_hand(0));
        expect_sums();
        uint64_t n_free = 0;
        uint64_t n_segments = 0;
        for (size_t i = 0; i < origin.state.n_pieces; i++) {
            n_segments += pieces[i].is_first;
            n_free += pieces[i].is_first && !is_used(i, 0, UINT64_MAX);
        }
        ck_assert_uint_eq(figures.n_segments, n_segments);
        ck_assert_uint_eq(figures.n_free_segments, n_free);
    }
}
END_TEST

START_TEST(of_expandable_segments_whole_pages_go_back)
{
    static const struct {
        const char *allocator;
        uint64_t page;
    } kinds[] = { { "torch-expandable", UINT64_C(20) << 20 },
                  { "torch-expandable", UINT64_C(2) << 20 },
                  { "pleat", UINT64_C(2) << 20 } };
    bench_random random = { .state = 12 };
    for (unsigned round = 0; round < 10 * suite_part(60); round++) {
        unsigned k = round % 3;
        origin = (bench_origin){ .n_stacks = 0 };
        snprintf(origin.allocator, sizeof origin.allocator, "%s", kinds[k].allocator);
        draw(&random, true, kinds[k].page);
        take();
        ck_assert_uint_eq(figures.stranded_bytes, stranded_by_hand(kinds[k].page));
        expect_sums();
    }
}
END_TEST

/* No history, a history of fewer entries than blocks, or one that ends out of memory. */
START_TEST(a_snapshot_that_tells_more_than_its_history_is_shown)
{
    origin = (bench_origin){ .n_stacks = 0 };
    ck_assert(!bench_state_matters(&origin));
    pieces[0] = (bench_state_piece){ .bytes = 512, .kind = BENCH_STATE_LIVE, .is_first = true };
    pieces[1] = (bench_state_piece){ .bytes = 512, .kind = BENCH_STATE_FREE };
    origin.state = (bench_state){ .pieces = pieces, .n_pieces = 2 };
    ck_assert(bench_state_matters(&origin));
    origin.told.n_entries = 1;
    ck_assert(bench_state_matters(&origin));
    origin.told.n_entries = 1000;
    ck_assert(!bench_state_matters(&origin));
    origin.told.ends_failed = true;
    ck_assert(bench_state_matters(&origin));
}
END_TEST

SUITE(bench_state)
{
    TCase *all = suite_case(suite, "all", NULL, NULL);
    tcase_add_test(all, whole_segments_go_back_and_no_others);
    tcase_add_test(all, of_expandable_segments_whole_pages_go_back);
    tcase_add_test(all, a_snapshot_that_tells_more_than_its_history_is_shown);
}
