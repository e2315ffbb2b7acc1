/* tf_bfc_test.c - TensorFlow's BFC: fit, split, merge, regions, streams. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>

#include "segments/classic/tf_bfc.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_cache.h"
#include "tests/support/suite.h"

static const pl_allocator_ops *const ops = &pl_tf_bfc_ops;

/* One region of 1 GiB, as in TensorFlow's tests. */
static void open_pool(void)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(bfc, &options, allow_growth, false);
    cache_open(ops, "capacity:1G,depth:100000", &options);
}

static void open_growing(void)
{
    cache_open(ops, "capacity:1T,depth:100000", NULL);
}

static void open_100_mib(void)
{
    cache_open(ops, "capacity:100M,depth:100000", NULL);
}

static uint64_t n_regions(void)
{
    return cache_stats().segment[PLEAT_SIZES_ALL].current;
}

static uint64_t in_use(void)
{
    return cache_stats().allocated_bytes[PLEAT_SIZES_ALL].current;
}

/* ---- TensorFlow's own tests ------------------------------------------------------------------ */

typedef struct piece {
    pleat_devptr ptr;
    size_t bytes;
} piece;

static int by_address(const void *a, const void *b)
{
    const piece *x = a;
    const piece *y = b;
    return (x->ptr > y->ptr) - (x->ptr < y->ptr);
}

static void assert_disjoint(piece *pieces, size_t n)
{
    qsort(pieces, n, sizeof *pieces, by_address);
    for (size_t i = 1; i < n; i++) {
        ck_assert_uint_le(pieces[i - 1].ptr + pieces[i - 1].bytes, pieces[i].ptr);
    }
}

START_TEST(no_dups)
{
    enum { N = 1023 };
    static piece p[N];
    for (size_t i = 0; i < N; i++) {
        p[i] = (piece){ cache_get(i + 1, 0), i + 1 };
    }
    assert_disjoint(p, N);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.allocation[PLEAT_SIZES_ALL].allocated, 1023);
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_SIZES_ALL].current, 654336);
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_SIZES_ALL].peak, 654336);
    for (size_t i = 0; i < N; i++) {
        cache_put(p[i].ptr);
    }
    ck_assert_uint_eq(in_use(), 0);
    ck_assert_uint_eq(cache_stats().inactive_split[PLEAT_SIZES_ALL].current, 0);
}
END_TEST

START_TEST(allocations_and_deallocations)
{
    enum { N = 255 };
    static piece p[2 * N];
    uint64_t seed = 17;
    for (size_t i = 0; i < N; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        p[i].bytes = 100 + (size_t)(seed >> 33) % (MIB - 99);
        p[i].ptr = cache_get(p[i].bytes, 0);
    }
    size_t n = 0;
    for (size_t i = 0; i < N; i++) {
        if (i % 2 == 1) {
            cache_put(p[i].ptr);
        } else {
            p[n++] = p[i];
        }
    }
    for (size_t i = 0; i < N; i++, n++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        p[n].bytes = 100 + (size_t)(seed >> 33) % (MIB - 99);
        p[n].ptr = cache_get(p[n].bytes, 0);
    }
    assert_disjoint(p, n);
    for (size_t i = 0; i < n; i++) {
        cache_put(p[i].ptr);
    }
    ck_assert_uint_eq(cache_stats().inactive_split[PLEAT_SIZES_ALL].current, 0);
}
END_TEST

START_TEST(exercise_coalescing)
{
    pleat_devptr first = cache_get(4 * KIB, 0);
    cache_put(first);
    for (int i = 0; i < 1024; i++) {
        pleat_devptr a = cache_get(4 * KIB, 0);
        pleat_devptr b = cache_get(8 * MIB, 0);
        pleat_devptr c = cache_get(16 * KIB, 0);
        pleat_devptr d = cache_get(40 * MIB, 0);
        cache_put(a);
        cache_put(b);
        cache_put(c);
        cache_put(d);
    }
    ck_assert_uint_eq(cache_stats().allocation[PLEAT_SIZES_ALL].allocated, 4097);
    ck_assert_uint_eq(cache_get(4 * KIB, 0), first);
    ck_assert_uint_eq(n_regions(), 1);
}
END_TEST

START_TEST(allocated_vs_requested)
{
    pleat_devptr ptr = cache_get(4, 0);
    ck_assert_uint_eq(cache_info(ptr).requested_bytes, 4);
    ck_assert_uint_eq(cache_info(ptr).bytes, 256);
    ck_assert_uint_eq(cache_stats().rounding_bytes, 252);
}
END_TEST

START_TEST(custom_memory_limit)
{
    pl_allocator_options options = cache_defaults();
    options.limit_bytes = MIB;
    cache_open(ops, "capacity:1G", &options);
    cache_get(256, 0);
    ck_assert_int_eq(cache_refused(4 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(cache_resident(), MIB);
    cache_close();
}
END_TEST

START_TEST(get_and_clear_memory_stats)
{
    cache_get(1024, 0);
    pleat_devptr ptr = cache_get(2048, 0);
    ck_assert_uint_eq(in_use(), 3072);
    cache_put(ptr);
    ck_assert_uint_eq(in_use(), 1024);
    ck_assert_uint_eq(cache_stats().allocated_bytes[PLEAT_SIZES_ALL].peak, 3072);
    cache.a->ops->reset_peaks(cache.a);
    ck_assert_uint_eq(cache_stats().allocated_bytes[PLEAT_SIZES_ALL].peak, 1024);
}
END_TEST

START_TEST(extend_terminates_when_the_driver_always_refuses)
{
    cache.sim.fail_from("cuMemAlloc", 0, CACHE_OUT_OF_MEMORY);
    ck_assert_int_eq(cache_refused(1, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemAlloc"), 79);
    cache.sim.fail_never();
    cache_get(1, 0);
}
END_TEST

/* ---- fit and split --------------------------------------------------------------------------- */

/* A hole of that size between live blocks. */
static pleat_devptr make_hole(size_t bytes)
{
    pleat_devptr hole = cache_get(bytes, 0);
    cache_get(256, 0);
    cache_put(hole);
    return hole;
}

static size_t taken_from_hole(pleat_devptr hole, size_t request)
{
    pleat_devptr ptr = cache_get(request, 0);
    ck_assert_uint_eq(ptr, hole);
    size_t bytes = cache_info(ptr).bytes;
    cache_put(ptr);
    return bytes;
}

START_TEST(a_chunk_of_twice_the_request_is_split_and_a_smaller_one_is_not)
{
    pleat_devptr hole = make_hole(8192);
    ck_assert_uint_eq(taken_from_hole(hole, 4096), 4096);
    ck_assert_uint_eq(taken_from_hole(hole, 4097), 8192);
    ck_assert_uint_eq(taken_from_hole(hole, 4096 - 255), 4096);
    ck_assert_uint_eq(taken_from_hole(hole, 8192), 8192);
}
END_TEST

START_TEST(a_chunk_that_leaves_128_mib_is_split)
{
    pleat_devptr hole = make_hole(300 * MIB);
    ck_assert_uint_eq(taken_from_hole(hole, 172 * MIB), 172 * MIB);
    ck_assert_uint_eq(taken_from_hole(hole, 172 * MIB + 1), 300 * MIB);
}
END_TEST

START_TEST(what_may_stay_unused_can_be_a_fraction_of_the_limit)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(bfc, &options, allow_growth, false);
    SET_OWN(bfc, &options, fragmentation_fraction, 0.125);
    options.limit_bytes = 512 * MIB;
    cache_open(ops, "capacity:1G", &options);
    pleat_devptr hole = make_hole(150 * MIB);
    ck_assert_uint_eq(taken_from_hole(hole, 86 * MIB), 86 * MIB);
    ck_assert_uint_eq(taken_from_hole(hole, 86 * MIB + 1), 150 * MIB);
    cache_close();
}
END_TEST

START_TEST(the_smallest_chunk_that_fits_is_taken_and_of_equal_ones_the_lowest)
{
    static const size_t sizes[] = { 40 * KIB, 24 * KIB, 24 * KIB, 20 * KIB };
    pleat_devptr p[4];
    for (size_t i = 0; i < 4; i++) {
        p[i] = cache_get(sizes[i], 0);
        cache_get(256, 0);
    }
    for (size_t i = 4; i-- > 0;) {
        cache_put(p[i]);
    }
    ck_assert_uint_eq(cache_get(22 * KIB, 0), p[1]);
    ck_assert_uint_eq(cache_get(22 * KIB, 0), p[2]);
    ck_assert_uint_eq(cache_get(22 * KIB, 0), p[0]);
    ck_assert_uint_eq(cache_get(20 * KIB, 0), p[3]);
}
END_TEST

START_TEST(freed_neighbours_merge_on_both_sides)
{
    pleat_devptr p[3];
    for (size_t i = 0; i < 3; i++) {
        p[i] = cache_get(MIB, 0);
    }
    cache_get(256, 0);
    cache_put(p[0]);
    cache_put(p[2]);
    ck_assert_uint_eq(cache_stats().inactive_split[PLEAT_SIZES_ALL].current, 3);
    cache_put(p[1]);
    ck_assert_uint_eq(cache_stats().inactive_split[PLEAT_SIZES_ALL].current, 2);
    ck_assert_uint_eq(cache_get(3 * MIB, 0), p[0]);
}
END_TEST

/* ---- regions --------------------------------------------------------------------------------- */

START_TEST(regions_double_from_2_mib)
{
    static const uint64_t after[] = { 2, 6, 6, 14, 14, 14, 14, 30 };
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) {
        cache_get(2 * MIB, 0);
        ck_assert_uint_eq(cache_resident(), after[i] * MIB);
    }
}
END_TEST

START_TEST(a_region_doubled_for_a_request_is_not_doubled_again)
{
    cache_get(20 * MIB, 0);
    ck_assert_uint_eq(cache_resident(), 32 * MIB);
    ck_assert_uint_eq(in_use(), 32 * MIB);
    cache_get(20 * MIB, 0);
    ck_assert_uint_eq(cache_resident(), 64 * MIB);
    cache_get(20 * MIB, 0);
    ck_assert_uint_eq(cache_resident(), 128 * MIB);
}
END_TEST

START_TEST(without_growth_there_is_one_region_of_the_whole_limit)
{
    cache_get(1, 0);
    ck_assert_uint_eq(cache_resident(), GIB);
    cache_get(500 * MIB, 0);
    ck_assert_int_eq(cache_refused(525 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(n_regions(), 1);
}
END_TEST

START_TEST(the_last_region_is_what_is_left_of_the_memory)
{
    cache_get(60 * MIB, 0);
    ck_assert_uint_eq(cache_resident(), 64 * MIB);
    cache_get(30 * MIB, 0);
    ck_assert_uint_eq(cache_resident(), 100 * MIB);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemAlloc"), 2);
}
END_TEST

START_TEST(a_refused_region_is_asked_for_a_tenth_smaller_until_it_is_there)
{
    pl_allocator_options options = cache_defaults();
    options.limit_bytes = 100 * MIB;
    cache_open(ops, "capacity:50M", &options);
    cache_get(30 * MIB, 0);
    cache_get(10 * MIB, 0);
    ck_assert_uint_eq(cache_resident(), 32 * MIB + 17832960);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemAlloc"), 8);
    cache_close();
}
END_TEST

START_TEST(another_failure_than_for_memory_is_returned_at_once)
{
    cache.sim.fail_at("cuMemAlloc", 0, CACHE_UNKNOWN);
    ck_assert_int_eq(cache_refused(1, 0), PLEAT_EDRIVER);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemAlloc"), 1);
}
END_TEST

START_TEST(regions_do_not_merge)
{
    pleat_devptr p[2] = { cache_get(2 * MIB, 0), cache_get(4 * MIB, 0) };
    cache_put(p[0]);
    cache_put(p[1]);
    ck_assert_uint_eq(cache_stats().inactive_split[PLEAT_SIZES_ALL].current, 0);
    cache_get(5 * MIB, 0);
    ck_assert_uint_eq(n_regions(), 3);
}
END_TEST

/* ---- collection ------------------------------------------------------------------------------ */

START_TEST(wholly_free_regions_go_back_before_a_request_fails)
{
    pleat_devptr p[2] = { cache_get(60 * MIB, 0), cache_get(30 * MIB, 1) };
    cache_work(1, p[1], 30 * MIB);
    cache_put(p[0]);
    cache_put(p[1]);
    cache_get(90 * MIB, 0);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.num_device_free, 2);
    ck_assert_uint_eq(s.num_alloc_retries, 1);
    ck_assert_uint_eq(s.host_syncs, 1);
    ck_assert_uint_eq(s.resident_bytes, 100 * MIB);
}
END_TEST

START_TEST(one_live_block_keeps_its_region_and_no_region_goes_in_vain)
{
    pleat_devptr p = cache_get(MIB, 0);
    cache_get(256, 0);
    cache_put(p);
    cache_put(cache_get(60 * MIB, 0));
    ck_assert_uint_eq(cache_resident(), 66 * MIB);
    ck_assert_int_eq(cache_refused(98 * MIB + 1, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(cache_stats().num_device_free, 0);
    cache_get(98 * MIB, 0);
    ck_assert_uint_eq(cache_stats().num_device_free, 1);
}
END_TEST

START_TEST(collection_can_be_turned_off)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(bfc, &options, garbage_collection, false);
    cache_open(ops, "capacity:100M", &options);
    cache_put(cache_get(60 * MIB, 0));
    ck_assert_int_eq(cache_refused(90 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(cache_stats().num_device_free, 0);
    ck_assert_uint_eq(cache_trim(0, true), 64 * MIB);
    cache_close();
}
END_TEST

START_TEST(trim_gives_back_wholly_free_regions_only)
{
    pleat_devptr p[3] = { cache_get(2 * MIB, 0), cache_get(4 * MIB, 0), cache_get(256, 0) };
    cache_put(p[0]);
    cache_put(p[1]);
    ck_assert_uint_eq(cache_resident(), 14 * MIB);
    ck_assert_uint_eq(cache_trim(14 * MIB, true), 0);
    ck_assert_uint_eq(cache_trim(0, true), 6 * MIB);
    ck_assert_uint_eq(cache_resident(), 8 * MIB);
}
END_TEST

START_TEST(fractions_outside_of_0_to_1_are_refused)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(bfc, &options, fragmentation_fraction, 1);
    cache_refuses(ops, &options, "bfc_fragmentation_fraction");
    SET_OWN(bfc, &options, fragmentation_fraction, -0.1);
    cache_refuses(ops, &options, "bfc_fragmentation_fraction");
}
END_TEST

/* ---- streams --------------------------------------------------------------------------------- */

START_TEST(another_stream_is_ordered_once_after_all_that_was_freed_before)
{
    pleat_devptr p[2] = { cache_get(2 * MIB, 1), cache_get(4 * MIB, 1) };
    cache_work(1, p[0], 2 * MIB);
    cache_work(1, p[1], 4 * MIB);
    cache_put(p[0]);
    cache_put(p[1]);
    ck_assert_uint_eq(cache_get(2 * MIB, 2), p[0]);
    cache_work(2, p[0], 2 * MIB);
    uint64_t n_calls = cache_n_calls();
    ck_assert_uint_eq(cache_get(4 * MIB, 2), p[1]);
    cache_work(2, p[1], 4 * MIB);
    ck_assert_uint_eq(cache.sim.n_calls("cuStreamWaitEvent"), 1);
    ck_assert_uint_eq(cache_n_calls(), n_calls);
    ck_assert_uint_eq(cache_stats().stream_waits, 1);
    ck_assert_uint_eq(cache_stats().host_syncs, 0);
}
END_TEST

START_TEST(a_merged_chunk_knows_the_users_of_all_its_parts)
{
    pleat_devptr p[2] = { cache_get(MIB, 1), cache_get(MIB, 2) };
    cache_work(1, p[0], MIB);
    cache_work(2, p[1], MIB);
    cache_put(p[0]);
    cache_put(p[1]);
    ck_assert_uint_eq(cache_stats().pending_bytes, 2 * MIB);
    ck_assert_uint_eq(cache_get(2 * MIB, 3), p[0]);
    cache_work(3, p[0], 2 * MIB);
    ck_assert_uint_eq(cache_stats().stream_waits, 2);
}
END_TEST

/* Stream 3 waits already for what stream 1 did before it freed the one part, but not the other. */
START_TEST(a_merged_chunk_waits_for_the_newer_use_of_its_parts)
{
    pleat_devptr p[2] = { cache_get(MIB, 1), cache_get(MIB, 1) };
    (void)cache_get(MIB, 2); /* lives beside them */
    pleat_devptr other = cache_get(256 * KIB, 1);
    (void)cache_get(MIB, 2);
    cache_work(1, p[0], MIB);
    cache_work(1, other, 256 * KIB);
    cache_put(p[0]);
    cache_put(other);
    ck_assert_uint_eq(cache_get(256 * KIB, 3), other);
    cache_work(3, other, 256 * KIB);
    ck_assert_uint_eq(cache_stats().stream_waits, 1);
    cache_work(1, p[1], MIB);
    cache_put(p[1]);
    ck_assert_uint_eq(cache_get(2 * MIB, 3), p[0]);
    cache_work(3, p[0], 2 * MIB);
    ck_assert_uint_eq(cache_stats().stream_waits, 2);
}
END_TEST

START_TEST(the_rest_of_a_split_chunk_still_knows_its_users)
{
    pleat_devptr ptr = cache_get(2 * MIB, 1);
    cache_work(1, ptr, 2 * MIB);
    cache_put(ptr);
    ck_assert_uint_eq(cache_get(512 * KIB, 2), ptr);
    cache_work(2, ptr, 512 * KIB);
    pleat_devptr rest = cache_get(MIB + 512 * KIB, 3);
    ck_assert_uint_eq(rest, ptr + 512 * KIB);
    cache_work(3, rest, MIB + 512 * KIB);
    ck_assert_uint_eq(cache_stats().stream_waits, 2);
}
END_TEST

START_TEST(recorded_uses_and_frees_on_other_streams_are_ordered_too)
{
    pleat_devptr ptr = cache_get(2 * MIB, 1);
    cache_work(2, ptr, MIB);
    cache_work(3, ptr + MIB, MIB);
    cache_record(ptr, 2);
    cache_put_on(ptr, 3);
    ck_assert_uint_eq(cache_get(2 * MIB, 1), ptr);
    cache_work(1, ptr, 2 * MIB);
    ck_assert_uint_eq(cache_stats().stream_waits, 2);
}
END_TEST

enum { N_CROWD = 66 };

/* Streams beyond the 63rd share a lane of the order, but each is ordered by itself. */
START_TEST(streams_beyond_the_63rd_are_ordered_each)
{
    static cu_stream handles[N_CROWD];
    static pl_stream *streams[N_CROWD];
    pleat_devptr p[2] = { cache_get(2 * MIB, 1), cache_get(4 * MIB, 1) };
    for (size_t i = 0; i < N_CROWD; i++) {
        handles[i] = vmm_sim_stream(cache.dev, false);
        ck_assert_int_eq(pl_stream_get(cache.dev, handles[i], &streams[i]), PLEAT_OK);
    }
    for (size_t i = 0; i < 2; i++) {
        cache_work(1, p[i], (i + 1) * 2 * MIB);
    }
    cache_put(p[0]);
    cache_put(p[1]);
    for (size_t i = 0; i < 2; i++) {
        pleat_devptr ptr = 0;
        pleat_sim_access access = { .ptr = p[i], .bytes = (i + 1) * 2 * MIB, .is_write = true };
        ck_assert_int_eq(ops->alloc(cache.a, access.bytes, streams[N_CROWD - 1 - i], &ptr),
                         PLEAT_OK);
        ck_assert_uint_eq(ptr, p[i]);
        ck_assert_int_eq(cache.sim.work(handles[N_CROWD - 1 - i], &access, 1), CU_SUCCESS);
    }
    ck_assert_uint_eq(cache_stats().stream_waits, 2);
    for (size_t i = 0; i < N_CROWD; i++) {
        vmm_sim_destroy_stream(cache.dev, handles[i]);
    }
}
END_TEST

START_TEST(a_stream_that_is_gone_is_waited_for_on_the_host)
{
    pleat_devptr ptr = cache_get(2 * MIB, 1);
    cache_work(1, ptr, 2 * MIB);
    cache_put(ptr);
    cache_destroy_stream(1);
    ck_assert_uint_eq(cache_get(2 * MIB, 2), ptr);
    cache_work(2, ptr, 2 * MIB);
    ck_assert_uint_eq(cache_stats().host_syncs, 1);
}
END_TEST

START_TEST(a_capturing_request_takes_the_best_chunk_that_needs_no_order)
{
    pleat_devptr other = cache_get(2 * MIB, 2);
    pleat_devptr own = cache_get(4 * MIB, 1);
    cache_work(2, other, 2 * MIB);
    cache_put(other);
    cache_put(own);
    cache_begin_capture(1);
    ck_assert_uint_eq(cache_get(2 * MIB, 1), own);
    ck_assert_uint_eq(cache_get(2 * MIB, 1), own + 2 * MIB);
    ck_assert_uint_ne(cache_get(2 * MIB, 1), other);
    cache_end_capture(1);
    ck_assert_uint_eq(cache_get(2 * MIB, 1), other);
    ck_assert_uint_eq(cache_stats().stream_waits, 1);
}
END_TEST

START_TEST(what_a_graph_did_until_it_was_released_is_a_use)
{
    pleat_devptr ptr = cache_get(2 * MIB, 1);
    pleat_devptr later = cache_get(4 * MIB, 2);
    cache_record(ptr, 2);
    cache_begin_capture(2);
    cache_put(ptr);
    cache_end_capture(2);
    cache_put(later);
    ck_assert_uint_eq(cache_get(4 * MIB, 1), later);
    cache_work(2, ptr, 2 * MIB);
    cache_release_capture(2);
    ck_assert_uint_eq(cache_get(2 * MIB, 1), ptr);
    cache_work(1, ptr, 2 * MIB);
    ck_assert_uint_eq(cache_stats().stream_waits, 2);
}
END_TEST

static void add_pool(Suite *suite)
{
    TCase *pool = suite_case(suite, "pool", open_pool, cache_close);
    tcase_add_test(pool, no_dups);
    tcase_add_test(pool, allocations_and_deallocations);
    tcase_add_test(pool, exercise_coalescing);
    tcase_add_test(pool, allocated_vs_requested);
    tcase_add_test(pool, get_and_clear_memory_stats);
    tcase_add_test(pool, a_chunk_of_twice_the_request_is_split_and_a_smaller_one_is_not);
    tcase_add_test(pool, a_chunk_that_leaves_128_mib_is_split);
    tcase_add_test(pool, the_smallest_chunk_that_fits_is_taken_and_of_equal_ones_the_lowest);
    tcase_add_test(pool, freed_neighbours_merge_on_both_sides);
    tcase_add_test(pool, without_growth_there_is_one_region_of_the_whole_limit);
    TCase *options = suite_case(suite, "options", NULL, NULL);
    tcase_add_test(options, custom_memory_limit);
    tcase_add_test(options, what_may_stay_unused_can_be_a_fraction_of_the_limit);
    tcase_add_test(options, a_refused_region_is_asked_for_a_tenth_smaller_until_it_is_there);
    tcase_add_test(options, collection_can_be_turned_off);
}

static void add_regions(Suite *suite)
{
    TCase *regions = suite_case(suite, "regions", open_growing, cache_close);
    tcase_add_test(regions, extend_terminates_when_the_driver_always_refuses);
    tcase_add_test(regions, regions_double_from_2_mib);
    tcase_add_test(regions, a_region_doubled_for_a_request_is_not_doubled_again);
    tcase_add_test(regions, another_failure_than_for_memory_is_returned_at_once);
    tcase_add_test(regions, regions_do_not_merge);
    tcase_add_test(regions, trim_gives_back_wholly_free_regions_only);
    tcase_add_test(regions, fractions_outside_of_0_to_1_are_refused);
    TCase *full = suite_case(suite, "full", open_100_mib, cache_close);
    tcase_add_test(full, the_last_region_is_what_is_left_of_the_memory);
    tcase_add_test(full, wholly_free_regions_go_back_before_a_request_fails);
    tcase_add_test(full, one_live_block_keeps_its_region_and_no_region_goes_in_vain);
}

static void add_streams(Suite *suite)
{
    TCase *streams = suite_case(suite, "streams", open_growing, cache_close);
    tcase_add_test(streams, another_stream_is_ordered_once_after_all_that_was_freed_before);
    tcase_add_test(streams, a_merged_chunk_knows_the_users_of_all_its_parts);
    tcase_add_test(streams, a_merged_chunk_waits_for_the_newer_use_of_its_parts);
    tcase_add_test(streams, the_rest_of_a_split_chunk_still_knows_its_users);
    tcase_add_test(streams, recorded_uses_and_frees_on_other_streams_are_ordered_too);
    tcase_add_test(streams, streams_beyond_the_63rd_are_ordered_each);
    tcase_add_test(streams, a_stream_that_is_gone_is_waited_for_on_the_host);
    tcase_add_test(streams, a_capturing_request_takes_the_best_chunk_that_needs_no_order);
    tcase_add_test(streams, what_a_graph_did_until_it_was_released_is_a_use);
}

SUITE(models_tf_bfc)
{
    add_pool(suite);
    add_regions(suite);
    add_streams(suite);
}
