/* compact_merge_test.c - granules that share memory: which do, what becomes of them. */
/* labels: unit fault */
#include <check.h>
#include <stdlib.h>

#include "segments/pleat/space.h"
#include "tests/support/own.h"
#include "tests/support/segments_captures.h"
#include "tests/support/segments_chunks.h"
#include "tests/support/segments_told.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20, HALF = 1 << 20, N_HALVES = 12, MOST_CALLS = 200 };

#define SIM "capacity:64M,depth:1048576,backing:memory"

/* Blocks of half a granule: those with even numbers begin a granule. */
static pleat_devptr halves[N_HALVES];

static void fill(pleat_devptr ptr)
{
    ck_assert_int_eq(pleat.sim.fill(pleat.handles[1], ptr, HALF, ptr), CU_SUCCESS);
}

static void lay_out(void)
{
    for (unsigned i = 0; i < N_HALVES; i++) {
        halves[i] = pleat_get(HALF, 1);
        ck_assert_uint_eq(halves[i], halves[0] + (pleat_devptr)i * HALF);
        fill(halves[i]);
    }
}

static void open_laid_out(void)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.observer = told_open();
    SET_OWN(pleat, &options, chunks, PL_CHUNKS_GRANULE);
    SET_OWN(pleat, &options, merge, PL_MERGE_ALWAYS);
    pleat_open(SIM, &options);
    lay_out();
}

static void verify_all(void)
{
    for (unsigned i = 0; i < N_HALVES; i++) {
        if (halves[i] != 0) {
            ck_assert_int_eq(pleat.sim.verify(pleat.handles[1], halves[i], HALF, halves[i]),
                             CU_SUCCESS);
        }
    }
    pleat.sim.finish();
    pleat_assert_sound();
    told_assert_agrees(pleat.a);
}

static void close_checked(void)
{
    verify_all();
    pleat_close();
}

static void put(unsigned i)
{
    pleat_put(halves[i], 1);
    halves[i] = 0;
}

/* '#': the half stays. */
static void keep(const char *pattern)
{
    for (unsigned i = 0; i < N_HALVES; i++) {
        if (pattern[i] == '.') {
            put(i);
        }
    }
}

static void assert_merged(uint64_t n_merged)
{
    pleat_compaction out;
    uint64_t held = pleat_counted_mixed().resident_bytes;
    ck_assert_int_eq(pleat.a->ops->compact(pleat.a, &out), PLEAT_OK);
    ck_assert_uint_eq(out.n_split, 0);
    ck_assert_uint_eq(out.n_merged, n_merged);
    ck_assert_uint_eq(out.moved_bytes, n_merged * HALF);
    ck_assert_uint_eq(out.won_bytes, n_merged * GRANULE);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.resident_bytes, held - n_merged * GRANULE);
    verify_all();
}

/* ---- which are merged ------------------------------------------------------------------------ */

START_TEST(granules_whose_bytes_do_not_collide_share_one)
{
    keep("#..#########");
    assert_merged(1);
    ck_assert_uint_eq(chunks_granules_held(), 5);
    ck_assert_uint_eq(pleat_counted().live_granules, 5);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 0);
    assert_merged(0);
}
END_TEST

/* With room, merging would only make free memory hard to use. */
START_TEST(by_default_granules_are_merged_on_a_full_device_only)
{
    pl_allocator_options options;
    pleat_compaction out;
    pleat_close();
    pl_allocator_options_init(&options);
    options.observer = told_open();
    SET_OWN(pleat, &options, chunks, PL_CHUNKS_GRANULE);
    pleat_open(SIM, &options);
    lay_out();
    keep("#..#########");
    ck_assert_int_eq(pleat.a->ops->compact(pleat.a, &out), PLEAT_OK);
    ck_assert_uint_eq(out.n_merged, 0);
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, (N_HALVES / 2 + 1) * (uint64_t)GRANULE),
                     PLEAT_OK);
    ck_assert_int_eq(pleat.a->ops->compact(pleat.a, &out), PLEAT_OK);
    ck_assert_uint_eq(out.n_merged, 0); /* a granule may still be created */
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, N_HALVES / 2 * (uint64_t)GRANULE), PLEAT_OK);
    assert_merged(1);
}
END_TEST

START_TEST(granules_whose_bytes_collide_do_not)
{
    keep("#.#.#.######");
    assert_merged(0);
}
END_TEST

START_TEST(each_has_one_partner)
{
    keep("#..##..#.#.#"); /* 0 with 1, 2 with 3, and two with the same half */
    assert_merged(2);
    ck_assert_uint_eq(chunks_granules_held(), 4);
}
END_TEST

START_TEST(blocks_across_granules_are_merged_where_they_end)
{
    keep(".....#######");
    pleat_devptr across = pleat_get((size_t)3 * HALF, 1);
    ck_assert_uint_eq(across, halves[5] - 5 * (pleat_devptr)HALF);
    assert_merged(1); /* half of granule 1, and the upper half of granule 2 */
    ck_assert_uint_eq(pleat_info(across).bytes, (size_t)3 * HALF);
    pleat_put(across, 1);
}
END_TEST

START_TEST(kept_and_shared_blocks_count_as_used)
{
    pleat_devptr kept = halves[3];
    keep("#..#########");
    halves[3] = 0;
    captures_begin(1);
    pleat_put(kept, 1);
    cu_graph graph = captures_end_with_graph(1);
    captures_name_stream(1);
    pleat_compaction out;
    ck_assert_int_eq(pleat.a->ops->compact(pleat.a, &out), PLEAT_OK);
    ck_assert_uint_eq(out.n_merged, 1);
    verify_all();
    captures_destroy(graph);
    captures_name_stream(1);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(chunks_granules_held(), 5);
    put(0);
    ck_assert_uint_eq(pleat_trim(0, true), GRANULE);
}
END_TEST

/* ---- what becomes of them -------------------------------------------------------------------- */

START_TEST(what_is_freed_serves_again_at_its_own_address)
{
    keep("#..#########");
    assert_merged(1);
    pleat_devptr ptr = halves[0];
    put(0);
    halves[0] = pleat_get(HALF, 1);
    ck_assert_uint_eq(halves[0], ptr);
    fill(halves[0]);
    verify_all();
    ptr = halves[3];
    put(3);
    halves[3] = pleat_get(HALF, 1);
    ck_assert_uint_eq(halves[3], ptr);
    fill(halves[3]);
    verify_all();
    assert_merged(0);
}
END_TEST

START_TEST(veiled_bytes_are_never_given_out)
{
    keep("#..#########");
    assert_merged(1);
    uint64_t n = chunks_granules_held();
    ck_assert_uint_eq(pleat_counted_mixed().free_bytes, 0);
    pleat_devptr ptr = pleat_get(HALF, 1);
    ck_assert_uint_eq(chunks_granules_held(), n + 1);
    pleat_put(ptr, 1);
}
END_TEST

START_TEST(a_side_without_live_bytes_lets_go_at_a_trim)
{
    keep("#..#########");
    assert_merged(1);
    put(3);
    ck_assert_uint_eq(pleat_trim(0, true), 0);
    ck_assert_uint_eq(pleat_counted_mixed().free_bytes, HALF);
    uint64_t n = chunks_granules_held();
    halves[1] = pleat_get(HALF, 1);
    ck_assert_uint_eq(halves[1], halves[0] + HALF);
    ck_assert_uint_eq(chunks_granules_held(), n);
    fill(halves[1]);
}
END_TEST

START_TEST(either_side_may_be_the_one_that_is_left)
{
    keep("#..#########");
    assert_merged(1);
    put(0);
    ck_assert_uint_eq(pleat_trim(0, true), 0);
    uint64_t n = chunks_granules_held();
    halves[2] = pleat_get(HALF, 1);
    ck_assert_uint_eq(halves[2], halves[3] - HALF);
    ck_assert_uint_eq(chunks_granules_held(), n);
    fill(halves[2]);
}
END_TEST

START_TEST(a_request_that_grows_dissolves_them_first)
{
    keep("#..#########");
    assert_merged(1);
    put(3);
    uint64_t n = chunks_granules_held();
    halves[1] = pleat_get(HALF, 1); /* its own half would serve, too: at 3 */
    fill(halves[1]);
    ck_assert_uint_eq(chunks_granules_held(), n);
    pleat_devptr ptr = pleat_get((size_t)2 * GRANULE, 1);
    pleat_put(ptr, 1);
    verify_all();
}
END_TEST

START_TEST(when_both_sides_are_free_the_granule_goes)
{
    keep("#..#########");
    assert_merged(1);
    put(0);
    put(3);
    ck_assert_uint_eq(pleat_trim(0, true), GRANULE);
    ck_assert_uint_eq(chunks_granules_held(), 4);
}
END_TEST

START_TEST(a_later_compaction_finds_another_partner)
{
    keep("#..##.######");
    assert_merged(1);
    put(3);
    put(0);
    put(7);
    assert_merged(0);
    (void)pleat_trim(0, true);
    put(8);
    assert_merged(1); /* 4 with 9, or 6 with 9 */
}
END_TEST

START_TEST(memory_that_pends_on_another_stream_is_waited_for)
{
    keep("#..#########");
    assert_merged(1);
    pleat_work(1, halves[3], HALF);
    put(3);
    pleat_devptr ptr = pleat_get((size_t)3 * GRANULE, 2); /* dissolves, but may not unmap yet */
    pleat_work(2, ptr, (size_t)3 * GRANULE);
    pleat_put(ptr, 2);
    (void)pleat_trim(0, true);
    verify_all();
}
END_TEST

START_TEST(live_twins_are_destroyed)
{
    keep("#..##..#.##.");
    assert_merged(3);
}
END_TEST

/* ---- many ------------------------------------------------------------------------------------ */

enum { N_MANY = 20000, MANY_GRANULE = 64 << 10, MANY_HALF = MANY_GRANULE / 2 };

/* Every granule keeps one half: the upper one of even granules, the lower one of odd ones. Where
 * chunks have several sizes, only those of one granule have partners. */
START_TEST(many_granules_find_partners_in_bounded_holds)
{
    static pleat_devptr many[2 * N_MANY];
    pleat_compaction out;
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    SET_OWN(pleat, &options, chunks, _i == 0 ? PL_CHUNKS_GRANULE : PL_CHUNKS_MIXED);
    SET_OWN(pleat, &options, merge, PL_MERGE_ALWAYS);
    pleat_open("granularity:64K,capacity:4G", &options);
    pl_lock_reset_touched();
    for (unsigned i = 0; i < 2 * N_MANY; i++) {
        ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, MANY_HALF, pleat.streams[1], &many[i]),
                         PLEAT_OK);
    }
    for (unsigned i = 0; i < 2 * N_MANY; i++) {
        if ((i % 2 == 0) == (i / 2 % 2 == 0)) {
            ck_assert_int_eq(pleat.a->ops->free(pleat.a, many[i], pleat.streams[1]), PLEAT_OK);
            many[i] = 0;
        }
    }
    ck_assert_int_eq(pleat.a->ops->compact(pleat.a, &out), PLEAT_OK);
    if (_i == 0) {
        ck_assert_uint_eq(out.n_merged, N_MANY / 2);
    }
    ck_assert_uint_le(pl_lock_most_touched(), PL_LOCK_MOST_TOUCHED);
    for (unsigned i = 0; i < 2 * N_MANY; i++) {
        ck_assert(many[i] == 0 || pleat.a->ops->free(pleat.a, many[i], pleat.streams[1]) == 0);
    }
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 0);
    ck_assert_uint_le(pl_lock_most_touched(), PL_LOCK_MOST_TOUCHED);
    pleat_close();
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

static bool fail_at(uint64_t k)
{
    bool has_hit;
    open_laid_out();
    keep("#..##..#####");
    (void)chunks_compact_failing_at(k, &has_hit);
    verify_all();
    uint64_t n_left = chunks_granules_held() - 4;
    assert_merged(n_left);
    ck_assert_uint_eq(chunks_granules_held(), 4);
    pleat.has_failed_undo = pl_device_counted(pleat.dev).n_undo_failures > 0;
    close_checked();
    return has_hit;
}

START_TEST(after_each_failing_call_the_next_compaction_does_the_rest)
{
    uint64_t k = 0;
    while (fail_at(k)) {
        k++;
        ck_assert_uint_lt(k, MOST_CALLS);
    }
    ck_assert_uint_gt(k, 10);
}
END_TEST

START_TEST(a_granule_that_cannot_be_mapped_again_is_mended)
{
    pleat_devptr ptr;
    keep("#..#########");
    ck_assert_int_eq(chunks_compact_failing_from("cuMemMap", 0), PLEAT_EPOISONED);
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, 512, pleat.streams[1], &ptr), PLEAT_EPOISONED);
    assert_merged(1);
    pleat_put(pleat_get(512, 1), 1);
}
END_TEST

START_TEST(copies_that_cannot_be_waited_for_forbid_requests)
{
    pleat_devptr ptr;
    pleat_compaction out;
    keep("#..#########");
    pleat.sim.fail_from("cuStreamSynchronize", 0, CU_UNKNOWN);
    pleat.sim.fail_from("cuCtxSynchronize", 1,
                        CU_UNKNOWN); /* before it, the device is waited for */
    ck_assert_int_eq(pleat.a->ops->compact(pleat.a, &out), PLEAT_EPOISONED);
    pleat.sim.fail_never();
    ck_assert_int_eq(pleat.a->ops->check(pleat.a), 0);
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, HALF, pleat.streams[1], &ptr), PLEAT_EPOISONED);
    assert_merged(1);
    pleat_put(pleat_get(512, 1), 1);
}
END_TEST

START_TEST(a_driver_that_does_not_copy_changes_nothing)
{
    keep("#..#########");
    ck_assert_int_eq(chunks_compact_failing_from("cuMemcpyDtoDAsync", 0), PLEAT_EDRIVER);
    assert_merged(1);
}
END_TEST

START_TEST(a_chunk_that_cannot_be_released_is_idle)
{
    keep("#..#########");
    ck_assert_int_eq(chunks_compact_failing_from("cuMemRelease", 0), PLEAT_EDRIVER);
    ck_assert_uint_eq(pleat_counted_mixed().idle_bytes, GRANULE);
    pleat.has_failed_undo = true;
}
END_TEST

SUITE(segments_compact_merge)
{
    TCase *which = suite_case(suite, "which", open_laid_out, close_checked);
    tcase_add_test(which, granules_whose_bytes_do_not_collide_share_one);
    tcase_add_test(which, by_default_granules_are_merged_on_a_full_device_only);
    tcase_add_test(which, granules_whose_bytes_collide_do_not);
    tcase_add_test(which, each_has_one_partner);
    tcase_add_test(which, blocks_across_granules_are_merged_where_they_end);
    tcase_add_test(which, kept_and_shared_blocks_count_as_used);

    TCase *later = suite_case(suite, "later", open_laid_out, close_checked);
    tcase_add_test(later, what_is_freed_serves_again_at_its_own_address);
    tcase_add_test(later, veiled_bytes_are_never_given_out);
    tcase_add_test(later, a_side_without_live_bytes_lets_go_at_a_trim);
    tcase_add_test(later, either_side_may_be_the_one_that_is_left);
    tcase_add_test(later, a_request_that_grows_dissolves_them_first);
    tcase_add_test(later, when_both_sides_are_free_the_granule_goes);
    tcase_add_test(later, a_later_compaction_finds_another_partner);
    tcase_add_test(later, memory_that_pends_on_another_stream_is_waited_for);
    tcase_add_test(later, live_twins_are_destroyed);

    TCase *many = suite_case(suite, "many", NULL, NULL);
    tcase_add_loop_test(many, many_granules_find_partners_in_bounded_holds, 0, 2);

    TCase *faults = suite_case(suite, "faults", open_laid_out, close_checked);
    tcase_add_test(faults, a_granule_that_cannot_be_mapped_again_is_mended);
    tcase_add_test(faults, copies_that_cannot_be_waited_for_forbid_requests);
    tcase_add_test(faults, a_driver_that_does_not_copy_changes_nothing);
    tcase_add_test(faults, a_chunk_that_cannot_be_released_is_idle);
    TCase *each = suite_case(suite, "each call", NULL, NULL);
    tcase_add_test(each, after_each_failing_call_the_next_compaction_does_the_rest);
}
