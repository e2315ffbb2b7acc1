/* buffer_page_test.c - the chunks of a buffer's pages: a page of 2^k granules is one chunk, also
 * beside blocks and near the device's end. Pages that come and go hold hardly more memory than is
 * committed, and what they give up serves everybody. */
/* labels: unit model */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "segments/pleat/space/space.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"

enum { OWN = 1 };

#define GRANULE (2 * MIB)

static random_source draws;

static pleat_devptr make(size_t most_bytes, size_t page_bytes)
{
    pleat_devptr base = 0;
    ck_assert_int_eq(pleat.a->ops->buffers->open(pleat.a, NULL, most_bytes, page_bytes, 0, &base),
                     PLEAT_OK);
    return base;
}

static pleat_status change(pleat_devptr base, pl_buffer_what what, size_t offset, size_t bytes,
                           unsigned stream)
{
    pl_buffer_change wanted = { what, base, offset, bytes };
    return pleat.a->ops->buffers->change(pleat.a, &wanted, pleat.streams[stream]);
}

static void commit(pleat_devptr base, size_t offset, size_t bytes)
{
    ck_assert_int_eq(change(base, PL_BUFFER_COMMIT, offset, bytes, OWN), PLEAT_OK);
}

static void decommit(pleat_devptr base, size_t offset, size_t bytes)
{
    ck_assert_int_eq(change(base, PL_BUFFER_DECOMMIT, offset, bytes, OWN), PLEAT_OK);
}

static void end(pleat_devptr base)
{
    ck_assert_int_eq(change(base, PL_BUFFER_CLOSE, 0, 0, OWN), PLEAT_OK);
}

static const pl_space *space(void)
{
    return (const pl_space *)pleat.a;
}

static uint64_t n_tied(void)
{
    return space()->blocks.store.tally.n_tied_granules;
}

static void open_on(const char *sim_conf)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.wait_ms = 10000;
    SET_OWN(pleat, &options, reserve_bytes, 0);
    pleat_open(sim_conf, &options);
}

/* ---- a page ---------------------------------------------------------------------------------- */

static size_t fewest_chunks(size_t n_granules)
{
    size_t n_largest = n_granules >> PL_MOST_ORDER;
    return n_largest + (size_t)__builtin_popcountll(n_granules - (n_largest << PL_MOST_ORDER));
}

/* A block leaves hardly more than the pages: no request of blocks would create a large chunk. */
START_TEST(a_page_gets_the_fewest_chunks_however_little_is_left)
{
    static const size_t pages[] = { 1, 2, 3, 8, 32, 56, 128, 160 }; /* granules */
    size_t n = pages[_i];
    open_on("capacity:2G,depth:4");
    pleat_devptr block = pleat_get(2 * GIB - 2 * n * GRANULE, OWN);
    pleat_devptr base = make(4 * n * GRANULE, n * GRANULE);
    for (size_t i = 0; i < 2; i++) {
        uint64_t n_before = pleat_calls("cuMemCreate");
        commit(base, 2 * i * n * GRANULE, 1);
        ck_assert_uint_eq(pleat_calls("cuMemCreate") - n_before, fewest_chunks(n));
    }
    pleat_assert_sound();
    end(base);
    pleat_put(block, OWN);
    pleat_close();
}
END_TEST

START_TEST(what_is_committed_at_once_is_taken_for_a_page)
{
    open_on("capacity:1G,depth:4");
    pleat_devptr block = pleat_get(800 * MIB, OWN);
    pleat_devptr base = make(4 * GIB, 0);
    uint64_t n = pleat_calls("cuMemCreate");
    commit(base, 0, 64 * MIB);
    commit(base, 1 * GIB, 128 * MIB);
    ck_assert_uint_eq(pleat_calls("cuMemCreate") - n, 2);
    decommit(base, 1 * GIB, 128 * MIB);
    n = pleat_calls("cuMemMap");
    commit(base, 2 * GIB, 128 * MIB);
    ck_assert_uint_eq(pleat_calls("cuMemMap") - n, 1);
    end(base);
    pleat_put(block, OWN);
    pleat_close();
}
END_TEST

START_TEST(a_page_s_chunk_serves_the_next_page)
{
    open_on("capacity:1G,depth:4");
    pleat_devptr base = make(4 * GIB, 64 * MIB);
    commit(base, 0, 64 * MIB);
    uint64_t n_creates = pleat_calls("cuMemCreate");
    uint64_t n_maps = pleat_calls("cuMemMap");
    for (size_t i = 1; i < 60; i++) {
        pleat_work(OWN, base + (i - 1) * 64 * MIB, 64 * MIB);
        decommit(base, (i - 1) * 64 * MIB, 64 * MIB);
        commit(base, i * 64 * MIB, 64 * MIB);
    }
    ck_assert_uint_eq(pleat_calls("cuMemCreate"), n_creates);
    ck_assert_uint_eq(pleat_calls("cuMemMap"), n_maps + 59);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 64 * MIB);
    end(base);
    pleat_close();
}
END_TEST

/* A page moves on for ever. If each move bought slack, more and more would be held. */
START_TEST(moves_of_pages_buy_no_slack)
{
    enum { N_MOVES = 1500 };
    open_on("capacity:4G,depth:4");
    pleat_devptr base = make(4 * GIB, GRANULE);
    commit(base, 0, GRANULE);
    for (size_t i = 1; i < N_MOVES; i++) {
        decommit(base, (i - 1) * GRANULE, GRANULE);
        commit(base, i * GRANULE, GRANULE);
    }
    ck_assert_uint_eq(space()->chunks.n_held, 1);
    end(base);
    pleat_close();
}
END_TEST

/* The free memory is in granules, or small chunks. */
START_TEST(small_chunks_are_made_one)
{
    enum { N = 128 };
    pleat_devptr blocks[N];
    open_on("capacity:1G,depth:1");
    pleat_devptr wide = pleat_get(760 * MIB, OWN);
    for (size_t i = 0; i < N; i++) {
        blocks[i] = pleat_get_and_use(2 * MIB, OWN);
    }
    for (size_t i = 0; i < N; i++) {
        pleat_put(blocks[i], OWN);
    }
    pleat.sim.finish();
    size_t n_held = space()->chunks.n_held;
    pleat_devptr base = make(1 * GIB, 64 * MIB);
    for (size_t i = 0; i < 4; i++) {
        uint64_t n = pleat_calls("cuMemMap");
        commit(base, 2 * i * 64 * MIB, 64 * MIB);
        ck_assert_uint_eq(pleat_calls("cuMemMap") - n, 1);
        ck_assert_uint_le(space()->chunks.n_held, n_held);
    }
    end(base);
    pleat_put(wide, OWN);
    pleat_close();
}
END_TEST

/* With little left, blocks get small chunks. A page's chunk under a block would be tied as soon as
 * a part of the block is free. */
START_TEST(blocks_tie_no_chunk_of_a_page)
{
    enum { N = 3 };
    pleat_devptr blocks[N];
    open_on("capacity:256M,depth:1");
    pleat_devptr base = make(1 * GIB, 64 * MIB);
    commit(base, 0, 256 * MIB);
    decommit(base, 64 * MIB, 64 * MIB);
    pleat.sim.finish();
    for (size_t i = 0; i < N; i++) {
        blocks[i] = pleat_get((6 + 4 * i) * MIB, OWN);
        ck_assert_uint_eq(n_tied(), 0);
    }
    pleat_put(blocks[1], OWN);
    ck_assert_uint_eq(n_tied(), 0);
    pleat_put(blocks[0], OWN);
    pleat_put(blocks[2], OWN);
    commit(base, 64 * MIB, 64 * MIB);
    end(base);
    pleat_close();
}
END_TEST

/* The page's addresses still have a mapping, as work runs on them. Chunks are not what is
 * lacking. */
START_TEST(a_page_whose_addresses_are_in_use_releases_nothing)
{
    open_on("capacity:1G,depth:1048576");
    pleat_devptr base = make(1 * GIB, 64 * MIB);
    commit(base, 0, 64 * MIB);
    pleat_work(OWN, base, 64 * MIB);
    decommit(base, 0, 64 * MIB);
    commit(base, 512 * MIB, 64 * MIB); /* takes the chunk */
    decommit(base, 512 * MIB, 64 * MIB);
    uint64_t n = pleat_calls("cuMemCreate") + pleat_calls("cuMemRelease");
    commit(base, 0, 64 * MIB);
    ck_assert_uint_eq(pleat_calls("cuMemCreate") + pleat_calls("cuMemRelease"), n);
    pleat_work(OWN, base, 64 * MIB);
    end(base);
    pleat_close();
}
END_TEST

/* A stream uses the pages; then one of them goes. So the block is divided, and both parts are the
 * stream's. */
START_TEST(what_another_stream_uses_is_its_after_a_part_has_gone)
{
    enum { OTHER = 2 };
    pleat_open_with("capacity:96M,depth:1048576", PL_CROSS_SETTLED, 0);
    pleat_devptr base = make(96 * MIB, GRANULE);
    commit(base, 0, 96 * MIB);
    ck_assert_int_eq(change(base, PL_BUFFER_RECORD, 0, 0, OTHER), PLEAT_OK);
    pleat_work(OTHER, base, 96 * MIB);
    decommit(base, 40 * MIB, GRANULE);
    decommit(base, 0, 96 * MIB);
    ck_assert_int_eq(pleat_refused(30 * MIB, OWN), PLEAT_EPENDING);
    end(base);
    pleat_close();
}
END_TEST

/* The page between two blocks that a stream uses comes, and joins one of them. The uses of neither
 * are lost. */
START_TEST(a_page_between_two_used_blocks_joins_one_of_them)
{
    enum { OTHER = 2 };
    pleat_open_with("capacity:96M,depth:1048576", PL_CROSS_SETTLED, 0);
    pleat_devptr base = make(96 * MIB, GRANULE);
    commit(base, 0, 40 * MIB);
    commit(base, 42 * MIB, 54 * MIB);
    ck_assert_int_eq(change(base, PL_BUFFER_RECORD, 0, 0, OTHER), PLEAT_OK);
    commit(base, 40 * MIB, GRANULE);
    ck_assert_uint_eq(pleat_counted().allocation[PLEAT_SIZES_ALL].current, 2);
    pleat_work(OTHER, base + 42 * MIB, 54 * MIB);
    decommit(base, 42 * MIB, 54 * MIB);
    ck_assert_int_eq(pleat_refused(30 * MIB, OWN), PLEAT_EPENDING);
    end(base);
    pleat_close();
}
END_TEST

/* ---- churn ----------------------------------------------------------------------------------- */

enum { N_SEEDS = 60, N_TURNS = 3000, N_BUFFERS = 4, N_BLOCKS = 200, MOST_PAGES = 4096 };

/* Pages come and go one by one, in random order, beside blocks or without, on a device with room
 * or nearly full. */
typedef struct churn {
    size_t n_page;     /* granules */
    size_t n_pages;    /* of each buffer */
    size_t n_target;   /* pages committed in all */
    size_t block_most; /* bytes of all blocks; 0: none */
    bool is_paged;
    pleat_devptr base[N_BUFFERS];
    bool is_committed[N_BUFFERS * MOST_PAGES];
    size_t n_committed;
    pleat_devptr blocks[N_BLOCKS];
    size_t block_bytes[N_BLOCKS];
    size_t block_sum;
    uint64_t n_commits;
    uint64_t n_maps;
} churn;

static churn c;

static void turn_page(void)
{
    size_t i = random_below(&draws, N_BUFFERS * c.n_pages);
    pleat_devptr base = c.base[i / c.n_pages];
    size_t bytes = c.n_page * GRANULE;
    size_t offset = i % c.n_pages * bytes;
    if (c.is_committed[i] && c.n_committed >= c.n_target) {
        decommit(base, offset, bytes);
        c.is_committed[i] = false;
        c.n_committed--;
    } else if (!c.is_committed[i] && c.n_committed < c.n_target) {
        uint64_t n = pleat_calls("cuMemMap");
        commit(base, offset, bytes);
        pleat_work(OWN, base + offset, bytes);
        c.n_maps += pleat_calls("cuMemMap") - n;
        c.n_commits++;
        c.is_committed[i] = true;
        c.n_committed++;
    }
}

static void turn_block(void)
{
    size_t i = random_below(&draws, N_BLOCKS);
    if (c.blocks[i] != 0) {
        ck_assert_int_eq(pleat.a->ops->free(pleat.a, c.blocks[i], pleat.streams[OWN]), PLEAT_OK);
        c.block_sum -= c.block_bytes[i];
        c.blocks[i] = 0;
        return;
    }
    size_t bytes = random_spread(&draws, c.block_most / 16);
    if (c.block_sum + bytes <= c.block_most) {
        ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, bytes, pleat.streams[OWN], &c.blocks[i]),
                         PLEAT_OK);
        c.block_bytes[i] = bytes;
        c.block_sum += bytes;
    }
}

static void draw(uint64_t seed)
{
    static const size_t others[] = { 3, 6, 24, 56, 96 };
    memset(&c, 0, sizeof c);
    draws.state = seed;
    size_t capacity = random_between(&draws, 8, 24) * GIB;
    size_t page = random_below(&draws, 10);
    c.n_page = page < 8 ? (size_t)1 << page : others[random_below(&draws, 5)];
    bool is_full = random_below(&draws, 2) == 0;
    bool has_blocks = random_below(&draws, 3) > 0;
    c.is_paged = random_below(&draws, 3) > 0;
    c.block_most = has_blocks ? capacity / 100 * random_between(&draws, 10, 45) : 0;
    size_t in_pages = (capacity - c.block_most) / 100 * (is_full ? 92 : 50);
    c.n_target = in_pages / (c.n_page * GRANULE);
    c.n_target = c.n_target < MOST_PAGES ? c.n_target : MOST_PAGES;
    c.n_pages = c.n_target * 2 / N_BUFFERS + 1;
    char conf[64];
    snprintf(conf, sizeof conf, "capacity:%zuG,depth:%zu", capacity / GIB,
             random_between(&draws, 1, 64));
    open_on(conf);
    for (size_t i = 0; i < N_BUFFERS; i++) {
        c.base[i] = make(c.n_pages * c.n_page * GRANULE, c.is_paged ? c.n_page * GRANULE : 0);
    }
}

/* Blocks come and go in all sizes, so what is free of the most that was in use stays. */
START_TEST(pages_that_come_and_go_are_one_mapping_each_and_hold_no_more)
{
    draw((uint64_t)_i);
    while (c.n_committed < c.n_target) {
        turn_page();
    }
    for (size_t turn = 0; turn < N_TURNS; turn++) {
        turn_page();
        if (c.block_most > 0) {
            turn_block();
        }
    }
    pleat_assert_sound();
    size_t n_used = c.block_most > 0 ? space()->chunks.peak_pinned : c.n_committed * c.n_page;
    ck_assert_uint_le(space()->chunks.n_held * 10, n_used * 11);
    ck_assert_uint_le(c.n_maps * 5, c.n_commits * fewest_chunks(c.n_page) * 6);
    for (size_t i = 0; i < N_BUFFERS; i++) {
        end(c.base[i]);
    }
    for (size_t i = 0; i < N_BLOCKS; i++) {
        if (c.blocks[i] != 0) {
            pleat_put(c.blocks[i], OWN);
        }
    }
    pleat_close();
}
END_TEST

/* ---- alignment ------------------------------------------------------------------------------- */

static pleat_devptr make_aligned(size_t most_bytes, size_t align_bytes)
{
    pleat_devptr base = 0;
    pleat_status st = pleat.a->ops->buffers->open(pleat.a, NULL, most_bytes, 0, align_bytes, &base);
    ck_assert_int_eq(st, PLEAT_OK);
    ck_assert_uint_eq(base & (align_bytes > 0 ? align_bytes - 1 : 0), 0);
    return base;
}

START_TEST(a_buffer_begins_where_it_is_told_to)
{
    enum { N = 40 };
    pleat_devptr bases[N];
    size_t most[N];
    draws.state = (uint64_t)_i;
    open_on("capacity:1G,depth:4");
    for (unsigned round = 0; round < 6; round++) {
        for (size_t i = 0; i < N; i++) {
            most[i] = random_spread(&draws, 4 * GIB);
            bases[i] = make_aligned(most[i], (size_t)1 << random_below(&draws, 35));
            ck_assert_int_eq(change(bases[i], PL_BUFFER_RESIZE, 0, 1, OWN), PLEAT_OK);
            pleat_work(OWN, bases[i], 1);
            commit(bases[i], most[i] - 1, 1);
            pleat_work(OWN, bases[i] + most[i] - 1, 1);
        }
        pleat_assert_sound();
        for (size_t i = 0; i < N; i++) {
            end(bases[i]);
        }
        if (round % 2 == 1) {
            (void)pleat_trim(0, true);
        }
    }
    pleat_close();
}
END_TEST

START_TEST(aligned_buffers_that_come_and_go_use_the_same_addresses)
{
    open_on("capacity:1G,depth:4");
    pleat_devptr odd = make_aligned(64 * MIB, 0);
    pleat_devptr even = make_aligned(64 * MIB, 1 * GIB);
    uint64_t bytes = pl_device_counted(pleat.dev).address_bytes;
    for (unsigned i = 0; i < 300; i++) {
        end(i % 2 == 0 ? odd : even);
        end(i % 2 == 0 ? even : odd);
        even = make_aligned(64 * MIB, 1 * GIB);
        odd = make_aligned(64 * MIB, 0);
    }
    ck_assert_uint_eq(pl_device_counted(pleat.dev).address_bytes, bytes);
    end(odd);
    end(even);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(pl_device_counted(pleat.dev).address_bytes, 0);
    pleat_close();
}
END_TEST

SUITE(segments_buffer_page)
{
    TCase *tcase = suite_case(suite, "a page", NULL, NULL);
    tcase_add_loop_test(tcase, a_page_gets_the_fewest_chunks_however_little_is_left, 0, 8);
    tcase_add_test(tcase, what_is_committed_at_once_is_taken_for_a_page);
    tcase_add_test(tcase, a_page_s_chunk_serves_the_next_page);
    tcase_add_test(tcase, moves_of_pages_buy_no_slack);
    tcase_add_test(tcase, small_chunks_are_made_one);
    tcase_add_test(tcase, blocks_tie_no_chunk_of_a_page);
    tcase_add_test(tcase, a_page_whose_addresses_are_in_use_releases_nothing);
    tcase_add_test(tcase, what_another_stream_uses_is_its_after_a_part_has_gone);
    tcase_add_test(tcase, a_page_between_two_used_blocks_joins_one_of_them);
    tcase = suite_case(suite, "churn", NULL, NULL);
    tcase_add_loop_test(tcase, pages_that_come_and_go_are_one_mapping_each_and_hold_no_more, 1,
                        1 + (int)suite_part(N_SEEDS));
    tcase = suite_case(suite, "alignment", NULL, NULL);
    tcase_add_loop_test(tcase, a_buffer_begins_where_it_is_told_to, 1, 4);
    tcase_add_test(tcase, aligned_buffers_that_come_and_go_use_the_same_addresses);
}
