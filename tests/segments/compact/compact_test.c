/* compact_test.c - compaction: split chunks, untouched chunks, and the state after a failure. */
/* labels: unit fault */
#include <check.h>
#include <stdlib.h>

#include "segments/pleat/space/space.h"
#include "tests/support/segments/segments_captures.h"
#include "tests/support/segments/segments_chunks.h"
#include "tests/support/segments/segments_pools.h"
#include "tests/support/segments/segments_told.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20, N_FIRST = 31, N_LARGE = 32, MOST_CALLS = 500 };

#define SIM "capacity:2G,depth:1048576,backing:memory"

/* A chunk of 32 granules with one block per granule. All other chunks are granule-sized. */
static pleat_devptr blocks[N_LARGE];
static pleat_devptr first;

static void fill(pleat_devptr ptr)
{
    ck_assert_int_eq(pleat.sim.fill(pleat.handles[1], ptr, GRANULE, ptr), CU_SUCCESS);
}

static void verify(pleat_devptr ptr)
{
    ck_assert_int_eq(pleat.sim.verify(pleat.handles[1], ptr, GRANULE, ptr), CU_SUCCESS);
}

/* Get a block on granule-sized chunks, made earlier for other requests. */
static pleat_devptr get_of_granules(size_t n)
{
    pleat_devptr ptrs[N_FIRST];
    for (size_t i = 0; i < n; i++) {
        ptrs[i] = pleat_get(GRANULE, 1);
    }
    for (size_t i = 0; i < n; i++) {
        pleat_put(ptrs[i], 1);
    }
    return pleat_get(n * GRANULE, 1);
}

static void lay_out(void)
{
    first = get_of_granules(N_FIRST);
    pleat_devptr large = pleat_get((size_t)N_LARGE * GRANULE, 1);
    ck_assert_uint_eq(pleat_calls("cuMemCreate"), N_FIRST + 1);
    pleat_put(large, 1);
    for (unsigned i = 0; i < N_LARGE; i++) {
        blocks[i] = pleat_get(GRANULE, 1);
        ck_assert_uint_eq(blocks[i], large + (pleat_devptr)i * GRANULE);
        fill(blocks[i]);
    }
    ck_assert_uint_eq(pleat_calls("cuMemCreate"), N_FIRST + 1);
}

static void open_laid_out(void)
{
    chunks_open(SIM, PL_CHUNKS_MIXED);
    lay_out();
}

static void close_checked(void)
{
    told_assert_agrees(pleat.a);
    pleat_close();
}

/* Keep the blocks whose letters are capital. */
static void keep(const char *pattern)
{
    for (unsigned i = 0; i < N_LARGE; i++) {
        if (pattern[i] == '.') {
            pleat_put(blocks[i], 1);
            blocks[i] = 0;
        }
    }
}

static const char TWO_RUNS[] = "##....................#####.....";

static pleat_status compact(pleat_compaction *out)
{
    pleat_status st = pleat.a->ops->compact(pleat.a, 0, false, out);
    pleat_assert_sound();
    told_assert_agrees(pleat.a);
    for (unsigned i = 0; i < N_LARGE; i++) {
        if (blocks[i] != 0) {
            verify(blocks[i]);
        }
    }
    pleat.sim.finish();
    pleat_assert_sound();
    return st;
}

static pleat_compaction compacted(void)
{
    pleat_compaction out = { .n_split = 99 };
    ck_assert_int_eq(compact(&out), PLEAT_OK);
    return out;
}

static void assert_split(uint64_t n_split, uint64_t n_moved, uint64_t n_won)
{
    pleat_compaction out = compacted();
    ck_assert_uint_eq(out.n_split, n_split);
    ck_assert_uint_eq(out.moved_bytes, n_moved * GRANULE);
    ck_assert_uint_eq(out.won_bytes, n_won * GRANULE);
}

/* ---- what is split --------------------------------------------------------------------------- */

START_TEST(what_is_in_use_gets_as_few_chunks_as_cover_it)
{
    keep(TWO_RUNS);
    uint64_t n_created = pleat_calls("cuMemCreate");
    uint64_t n_released = pleat_calls("cuMemRelease");
    assert_split(1, 7, N_LARGE - 7);
    ck_assert_uint_eq(chunks_granules_held(), N_FIRST + 7);
    ck_assert_uint_eq(pleat_calls("cuMemCreate") - n_created, 3); /* 2, 4 and 1 */
    ck_assert_uint_eq(pleat_calls("cuMemRelease") - n_released, 1);
    assert_split(0, 0, 0);
}
END_TEST

START_TEST(what_is_won_serves_other_places)
{
    keep(TWO_RUNS);
    chunks_limit_to_held();
    ck_assert_int_eq(pleat_refused((size_t)25 * GRANULE, 1), PLEAT_ENOMEM_DEVICE);
    assert_split(0, 0, 0); /* no room: nothing is free */
    pleat_put(first, 1);
    assert_split(1, 7, N_LARGE - 7);
    pleat_get((size_t)25 * GRANULE, 1);
    pleat_get((size_t)N_FIRST * GRANULE, 1);
}
END_TEST

START_TEST(holes_serve_again_in_their_places)
{
    keep(TWO_RUNS);
    compacted();
    pleat_devptr ptr = pleat_get((size_t)20 * GRANULE, 1);
    ck_assert_uint_eq(ptr, blocks[1] + GRANULE);
    pleat_put(ptr, 1);
    compacted();
}
END_TEST

START_TEST(chunks_in_full_use_and_free_ones_stay)
{
    assert_split(0, 0, 0);
    keep("................................");
    assert_split(0, 0, 0);
    ck_assert_uint_eq(chunks_granules_held(), N_FIRST + N_LARGE);
}
END_TEST

START_TEST(with_nothing_to_do_only_the_device_is_waited_for)
{
    keep("................................");
    (void)compacted();
    uint64_t n_copies = pleat_calls("cuMemcpyDtoDAsync");
    uint64_t n_reserved = pleat_calls("cuMemAddressReserve");
    (void)compacted();
    ck_assert_uint_eq(pleat_calls("cuMemcpyDtoDAsync"), n_copies);
    ck_assert_uint_eq(pleat_calls("cuMemAddressReserve"), n_reserved);
}
END_TEST

START_TEST(work_submitted_before_is_waited_for)
{
    pleat_work_after(2, 1, blocks[0], GRANULE);
    keep("#..............................#");
    pleat_compaction out;
    blocks[0] = 0; /* the block's pattern is overwritten */
    ck_assert_int_eq(compact(&out), PLEAT_OK);
    ck_assert_uint_eq(out.n_split, 1);
}
END_TEST

START_TEST(chunks_that_keep_less_come_first_and_make_room_for_others)
{
    pleat_devptr other = pleat_get((size_t)N_LARGE * GRANULE, 1);
    ck_assert_uint_gt(other, blocks[31]);
    keep("################................"); /* keeps 16 */
    chunks_limit_to_held();
    assert_split(0, 0, 0);
    pleat_put(first, 1);
    pleat_get((size_t)(N_FIRST - 1) * GRANULE, 1); /* leaves one granule of room */
    assert_split(0, 0, 0);
    for (unsigned i = 1; i < 16; i++) {
        pleat_put(blocks[i], 1);
        blocks[i] = 0;
    }
    assert_split(1, 1, N_LARGE - 1);
}
END_TEST

START_TEST(small_blocks_and_large_ones_across_granules_stay_where_they_are)
{
    keep("#..............................#");
    pleat_devptr across = pleat_get((size_t)GRANULE * 5 / 2, 1);
    pleat_devptr tiny = pleat_get((size_t)1536 << 10, 1);
    ck_assert_uint_eq(across, blocks[0] + GRANULE);
    assert_split(1, 6, N_LARGE - 6);
    ck_assert_uint_eq(pleat_info(across).bytes, (size_t)GRANULE * 5 / 2);
    pleat_put(across, 1);
    pleat_put(tiny, 1);
    pleat_put(blocks[0], 1);
    blocks[0] = 0;
    ck_assert_uint_eq(pleat_trim(0, true), (uint64_t)5 * GRANULE);
}
END_TEST

START_TEST(with_a_chunk_for_each_granule_nothing_is_stranded)
{
    pleat_close();
    chunks_open(SIM, PL_CHUNKS_GRANULE);
    pleat_get(GRANULE / 2 * 3, 1);
    for (unsigned i = 0; i < N_LARGE; i++) {
        blocks[i] = 0;
    }
    assert_split(0, 0, 0);
}
END_TEST

START_TEST(idle_chunks_are_used_before_new_ones)
{
    keep("#...............................");
    pleat.sim.fail_at("cuMemMap", 0, CU_UNKNOWN);
    ck_assert_int_eq(pleat_refused((size_t)3 * N_LARGE * GRANULE, 1), PLEAT_EDRIVER);
    uint64_t n_idle = pleat_counted_mixed().idle_bytes / GRANULE;
    ck_assert_uint_gt(n_idle, 0);
    uint64_t n_created = pleat_calls("cuMemCreate");
    assert_split(1, 1, N_LARGE - 1);
    ck_assert_uint_eq(pleat_calls("cuMemCreate"), n_created);
}
END_TEST

/* ---- what stays ------------------------------------------------------------------------------ */

START_TEST(a_capture_under_way_is_refused)
{
    pleat_compaction out = { .n_split = 99 };
    keep(TWO_RUNS);
    captures_begin(2);
    captures_name_stream(2);
    ck_assert_int_eq(pleat.a->ops->compact(pleat.a, 0, false, &out), PLEAT_ECAPTURE);
    ck_assert_uint_eq(out.n_split, 99);
    captures_end(2);
    captures_name_stream(2);
    assert_split(1, 7, N_LARGE - 7);
}
END_TEST

START_TEST(a_graphs_memory_moves_and_keeps_its_addresses)
{
    keep(TWO_RUNS);
    pleat_devptr kept = pleat_get((size_t)3 * GRANULE, 1);
    captures_begin(1);
    pleat_put(kept, 1);
    cu_graph graph = captures_end_with_graph(1);
    captures_name_stream(1);
    ck_assert_uint_eq(kept, blocks[26] + GRANULE);
    assert_split(1, 10, N_LARGE - 10);
    captures_destroy(graph);
}
END_TEST

/* If the pool keeps its memory, as from a checkpoint on. */
START_TEST(memory_of_a_private_pool_stays)
{
    pl_keeper *pool;
    pl_roster roster;
    pleat_devptr ptr;
    keep("................................");
    ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pool), PLEAT_OK);
    if (_i == 1) {
        ck_assert_int_eq(pleat.a->ops->pools->save(pleat.a, pool, &roster), PLEAT_OK);
        pleat.a->ops->pools->drop_roster(pleat.a, &roster);
    }
    ck_assert_int_eq(pleat.a->ops->alloc_asked(pleat.a, pool, (size_t)N_LARGE * GRANULE,
                                               pleat.streams[1], NULL, &ptr),
                     PLEAT_OK);
    pleat_put(ptr, 1);
    ck_assert_int_eq(
        pleat.a->ops->alloc_asked(pleat.a, pool, GRANULE, pleat.streams[1], NULL, &ptr), PLEAT_OK);
    if (_i == 1) {
        assert_split(0, 0, 0);
    } else {
        assert_split(1, 1, N_LARGE - 1);
    }
    pleat_put(ptr, 1);
    pleat.a->ops->pools->release(pleat.a, pool);
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

/* Figures that stay the same if a compaction fails before its first split. */
static void assert_same(const pleat_stats *before)
{
    pleat_stats now = pleat_counted_mixed();
    ck_assert_uint_eq(now.resident_bytes, before->resident_bytes);
    ck_assert_uint_eq(now.idle_bytes, before->idle_bytes);
    ck_assert_uint_eq(now.free_bytes, before->free_bytes);
    ck_assert_uint_eq(now.pinned_granules, before->pinned_granules);
    ck_assert_uint_eq(now.address_bytes, before->address_bytes);
}

/* The k-th driver call fails once. Then the state is as before, or all is done, and the next
 * compaction does the rest. */
static bool fail_at(uint64_t k)
{
    bool has_hit;
    open_laid_out();
    keep(TWO_RUNS);
    (void)pleat.a->ops->trim(pleat.a, UINT64_MAX, true, &(uint64_t){ 0 });
    pleat_stats before = pleat_counted_mixed();
    pleat_status st = chunks_compact_failing_at(k, &has_hit);
    if (st != PLEAT_OK) {
        assert_same(&before);
    }
    assert_split(st != PLEAT_OK, st != PLEAT_OK ? 7 : 0, st != PLEAT_OK ? N_LARGE - 7 : 0);
    ck_assert_uint_eq(chunks_granules_held(), N_FIRST + 7);
    pleat.has_failed_undo = pl_device_counted(pleat.dev).n_undo_failures > 0;
    close_checked();
    return has_hit;
}

START_TEST(after_each_failing_call_all_is_as_before)
{
    uint64_t k = 0;
    while (fail_at(k)) {
        k++;
        ck_assert_uint_lt(k, MOST_CALLS);
    }
    ck_assert_uint_gt(k, 15);
}
END_TEST

/* The first four maps are at the scratch addresses: the old chunk and three new ones. */
START_TEST(memory_that_cannot_be_mapped_again_is_mended_by_the_next_compaction)
{
    pleat_devptr ptr;
    keep(TWO_RUNS);
    ck_assert_int_eq(chunks_compact_failing_from("cuMemMap", 4), PLEAT_EPOISONED);
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, 512, pleat.streams[1], &ptr), PLEAT_EPOISONED);
    assert_split(1, 7, N_LARGE - 7);
    ck_assert_uint_ne(pleat_get(512, 1), 0);
}
END_TEST

/* The driver refuses two mappings in a row, and no more. */
static void forgive(pl_entry entry, int failure, uint64_t bytes, void *context)
{
    unsigned *n = context;
    (void)bytes;
    if (entry == PL_CU_mem_map && failure != 0 && ++*n == 2) {
        pleat.sim.fail_never();
    }
}

/* The new mapping is refused, then its undo once. A second try restores the memory. */
START_TEST(an_undo_that_is_refused_once_is_tried_again)
{
    unsigned n = 0;
    pleat_compaction out;
    keep(TWO_RUNS);
    pl_driver_time_calls(pleat.sim.drv, true);
    pl_driver_watch(pleat.sim.drv, forgive, &n);
    pleat.sim.fail_from("cuMemMap", 4, CU_UNKNOWN);
    pleat_status st = pleat.a->ops->compact(pleat.a, 0, false, &out);
    pl_driver_watch(pleat.sim.drv, NULL, NULL);
    ck_assert_uint_eq(n, 2);
    ck_assert_int_eq(st, PLEAT_EDRIVER);
    ck_assert_uint_ne(pleat_get(512, 1), 0);
    compacted();
}
END_TEST

START_TEST(memory_of_which_only_some_is_mapped_is_mended_too)
{
    pleat_devptr ptr;
    keep(TWO_RUNS);
    pleat.sim.fail_from("cuMemMap", 5, CU_UNKNOWN);
    pleat.sim.fail_from("cuMemUnmap", 1, CU_UNKNOWN);
    pleat_compaction out;
    pleat_status st = pleat.a->ops->compact(pleat.a, 0, false, &out);
    pleat.sim.fail_never();
    ck_assert_int_eq(st, PLEAT_EPOISONED);
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, 512, pleat.streams[1], &ptr), PLEAT_EPOISONED);
    compacted();
    ck_assert_uint_eq(chunks_granules_held(), N_FIRST + 7 + N_LARGE); /* the old one is idle */
    ck_assert_uint_ne(pleat_get(512, 1), 0);
    pleat.has_failed_undo = pl_device_counted(pleat.dev).n_undo_failures > 0;
}
END_TEST

/* An undo that is refused at first, and then leaves an unknown state, ends. */
START_TEST(an_undo_that_is_refused_and_then_torn_ends)
{
    pleat_compaction out;
    keep("#####....................##.....");
    pleat.sim.fail_from("cuMemMap", 6, CU_UNKNOWN);
    pleat.sim.fail_from("cuMemUnmap", 1, CU_UNKNOWN);
    pleat.sim.fail_from("cuMemRetainAllocationHandle", (uint64_t)_i, CU_UNKNOWN);
    pleat_status st = pleat.a->ops->compact(pleat.a, 0, false, &out);
    pleat.sim.fail_never();
    ck_assert_int_eq(st, PLEAT_EPOISONED);
    compacted();
    pleat.has_failed_undo = pl_device_counted(pleat.dev).n_undo_failures > 0;
}
END_TEST

static void open_partial(void)
{
    chunks_open(SIM ",unkind:[partial_unmap]", PL_CHUNKS_MIXED);
    lay_out();
}

/* The first place gets two chunks, the second none, and one of the two cannot be unmapped. */
START_TEST(a_place_of_which_only_some_is_mapped_is_mended_too)
{
    pleat_devptr ptr;
    pleat_compaction out;
    keep("#####....................##.....");
    pleat.sim.fail_from("cuMemMap", 6, CU_UNKNOWN);
    pleat.sim.fail_from("cuMemUnmap", 1, CU_UNKNOWN);
    pleat_status st = pleat.a->ops->compact(pleat.a, 0, false, &out);
    pleat.sim.fail_never();
    ck_assert_int_eq(st, PLEAT_EPOISONED);
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, 512, pleat.streams[1], &ptr), PLEAT_EPOISONED);
    compacted();
    ck_assert_uint_eq(chunks_granules_held(), N_FIRST + 7 + N_LARGE); /* the old one is idle */
    pleat.has_failed_undo = pl_device_counted(pleat.dev).n_undo_failures > 0;
}
END_TEST

START_TEST(scratch_addresses_that_stay_mapped_are_unmapped_later)
{
    keep(TWO_RUNS);
    ck_assert_int_eq(chunks_compact_failing_from("cuMemUnmap", 0), PLEAT_EPOISONED);
    assert_split(1, 7, N_LARGE - 7);
}
END_TEST

/* The first _i maps succeed, and these maps cannot be undone. While the driver maps a part, all new
 * chunks stay, and count. The old chunk is as before. */
START_TEST(scratch_addresses_that_are_mapped_in_part_are_unmapped_later)
{
    pleat_compaction out;
    pleat_stats now;
    keep(TWO_RUNS);
    pleat_stats before = pleat_counted_mixed();
    pleat.sim.fail_at("cuMemMap", (uint64_t)_i, CU_UNKNOWN);
    pleat.sim.fail_from("cuMemUnmap", 0, CU_UNKNOWN);
    pleat_status st = pleat.a->ops->compact(pleat.a, 0, false, &out);
    ck_assert_int_eq(pleat.a->ops->check(pleat.a), 0);
    ck_assert_int_eq(st, _i == 0 ? PLEAT_EDRIVER : PLEAT_EPOISONED);
    pleat.a->ops->stats(pleat.a, &now);
    uint64_t n_aside = _i == 0 ? 0 : 7;
    ck_assert_uint_eq(now.pinned_granules, before.pinned_granules + n_aside);
    ck_assert_uint_eq(now.resident_bytes,
                      before.resident_bytes + n_aside * now.granule_bytes + now.idle_bytes);
    ck_assert_uint_eq(now.resident_bytes, vmm_sim_counted(&pleat.sim).physical_bytes);
    if (_i > 0) { /* as long as the driver does not unmap, nothing is compacted */
        ck_assert_int_eq(pleat.a->ops->compact(pleat.a, 0, false, &out), PLEAT_EPOISONED);
    }
    pleat_devptr ptr;
    pleat.sim.fail_never();
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, 512, pleat.streams[1], &ptr), PLEAT_OK);
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[1]), PLEAT_OK);
    assert_split(1, 7, N_LARGE - 7);
    ck_assert_uint_eq(chunks_granules_held(), N_FIRST + 7 + 1); /* and the request's granule */
    assert_split(0, 0, 0);
    pleat.has_failed_undo = pl_device_counted(pleat.dev).n_undo_failures > 0;
}
END_TEST

/* The refusal was undone but for the old chunk's second mapping. A trim unmaps that first: the
 * driver would keep the chunk's memory, and no count would have it. While the driver refuses, the
 * memory is held and counted. */
START_TEST(a_chunk_that_is_still_mapped_elsewhere_is_not_released)
{
    pleat_compaction out;
    uint64_t released;
    keep(TWO_RUNS);
    pleat.sim.fail_at("cuMemMap", (uint64_t)_i, CU_UNKNOWN);
    pleat.sim.fail_from("cuMemUnmap", 0, CU_UNKNOWN);
    ck_assert_int_eq(pleat.a->ops->compact(pleat.a, 0, false, &out), PLEAT_EPOISONED);
    pleat.sim.fail_never();
    for (unsigned i = 0; i < N_LARGE; i++) {
        if (blocks[i] != 0) {
            pleat_put(blocks[i], 1);
        }
    }
    pleat_put(first, 1);
    pleat_stats now;
    pleat.sim.fail_at("cuMemUnmap", 0, CU_UNKNOWN); /* of the scratch addresses alone */
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, 0, true, &released), PLEAT_EDRIVER);
    pleat.sim.fail_never();
    pleat_assert_sound();
    pleat.a->ops->stats(pleat.a, &now);
    ck_assert_uint_eq(now.resident_bytes, vmm_sim_counted(&pleat.sim).physical_bytes);
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, 0, true, &released), PLEAT_OK);
    pleat_assert_sound();
    ck_assert_uint_eq(vmm_sim_counted(&pleat.sim).physical_bytes, 0);
    pleat.has_failed_undo = pl_device_counted(pleat.dev).n_undo_failures > 0;
}
END_TEST

/* Copies may still run. Their memory is neither unmapped nor given to any request. The old chunk is
 * in its place again. */
START_TEST(copies_that_cannot_be_waited_for_forbid_requests)
{
    pleat_devptr ptr;
    pleat_compaction out;
    keep(TWO_RUNS);
    uint64_t n_unmaps = pleat_calls("cuMemUnmap");
    pleat.sim.fail_from("cuStreamSynchronize", 0, CU_UNKNOWN);
    pleat.sim.fail_from("cuCtxSynchronize", 0, CU_UNKNOWN);
    ck_assert_int_eq(pleat.a->ops->compact(pleat.a, 0, false, &out), PLEAT_EPOISONED);
    pleat.sim.fail_never();
    ck_assert_uint_eq(pleat_calls("cuMemUnmap"), n_unmaps + 1); /* of the blocks' addresses */
    ck_assert_int_eq(pleat.a->ops->check(pleat.a), 0);
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, 512, pleat.streams[1], &ptr), PLEAT_EPOISONED);
    assert_split(1, 7, N_LARGE - 7);
    pleat_put(pleat_get(512, 1), 1);
}
END_TEST

START_TEST(an_old_chunk_that_cannot_be_released_is_idle)
{
    keep(TWO_RUNS);
    ck_assert_int_eq(chunks_compact_failing_from("cuMemRelease", 0), PLEAT_EDRIVER);
    ck_assert_uint_eq(pleat_counted_mixed().idle_bytes, (uint64_t)N_LARGE * GRANULE);
    ck_assert_uint_eq(pleat_trim(0, true), (uint64_t)N_LARGE * GRANULE);
    assert_split(0, 0, 0);
    pleat.has_failed_undo = true;
}
END_TEST

START_TEST(without_memory_of_the_driver_what_is_free_makes_room)
{
    keep(TWO_RUNS);
    pleat.sim.fail_from("cuMemCreate", 0, CU_OUT_OF_MEMORY);
    assert_split(0, 0, 0);
    pleat_put(first, 1);
    assert_split(1, 7, N_LARGE - 7);
    pleat.sim.fail_never();
}
END_TEST

SUITE(segments_compact)
{
    TCase *split = suite_case(suite, "split", open_laid_out, close_checked);
    tcase_add_test(split, what_is_in_use_gets_as_few_chunks_as_cover_it);
    tcase_add_test(split, what_is_won_serves_other_places);
    tcase_add_test(split, holes_serve_again_in_their_places);
    tcase_add_test(split, chunks_in_full_use_and_free_ones_stay);
    tcase_add_test(split, with_nothing_to_do_only_the_device_is_waited_for);
    tcase_add_test(split, work_submitted_before_is_waited_for);
    tcase_add_test(split, chunks_that_keep_less_come_first_and_make_room_for_others);
    tcase_add_test(split, small_blocks_and_large_ones_across_granules_stay_where_they_are);
    tcase_add_test(split, with_a_chunk_for_each_granule_nothing_is_stranded);
    tcase_add_test(split, idle_chunks_are_used_before_new_ones);

    TCase *stays = suite_case(suite, "stays", open_laid_out, close_checked);
    tcase_add_test(stays, a_capture_under_way_is_refused);
    tcase_add_test(stays, a_graphs_memory_moves_and_keeps_its_addresses);
    tcase_add_loop_test(stays, memory_of_a_private_pool_stays, 0, 2);

    TCase *faults = suite_case(suite, "faults", open_laid_out, close_checked);
    tcase_add_test(faults, memory_that_cannot_be_mapped_again_is_mended_by_the_next_compaction);
    tcase_add_test(faults, memory_of_which_only_some_is_mapped_is_mended_too);
    tcase_add_test(faults, scratch_addresses_that_stay_mapped_are_unmapped_later);
    tcase_add_loop_test(faults, scratch_addresses_that_are_mapped_in_part_are_unmapped_later, 0, 3);
    tcase_add_loop_test(faults, a_chunk_that_is_still_mapped_elsewhere_is_not_released, 1, 4);
    tcase_add_test(faults, copies_that_cannot_be_waited_for_forbid_requests);
    tcase_add_test(faults, an_old_chunk_that_cannot_be_released_is_idle);
    tcase_add_test(faults, without_memory_of_the_driver_what_is_free_makes_room);
    tcase_add_test(faults, an_undo_that_is_refused_once_is_tried_again);
    tcase_add_loop_test(faults, an_undo_that_is_refused_and_then_torn_ends, 0, 6);
    TCase *partial = suite_case(suite, "partial", open_partial, close_checked);
    tcase_add_test(partial, a_place_of_which_only_some_is_mapped_is_mended_too);
    TCase *each = suite_case(suite, "each call", NULL, NULL);
    tcase_add_test(each, after_each_failing_call_all_is_as_before);
}
