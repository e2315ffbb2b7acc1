/* torch_options_test.c - large segments, memory fractions, collection by age, and what a
 * visitor of torch-native sees. */
/* labels: unit */
#include <check.h>
#include <math.h>

#include "segments/classic/torch/torch_options.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_cache.h"
#include "tests/support/suite.h"

/* ---- large segments -------------------------------------------------------------------------- */

START_TEST(requests_below_10_mib_share_segments_of_the_size_that_is_set)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, large_segment_bytes, 64 * MIB);
    cache_open(&pl_torch_native_ops, "capacity:1G", &options);
    cache_get(MIB + 1, 0);
    ck_assert_uint_eq(cache_resident(), 64 * MIB);
    cache_get(10 * MIB - 512, 0);
    ck_assert_uint_eq(cache_resident(), 64 * MIB);
    cache_close();
    cache_open(&pl_torch_native_ops, "capacity:1G", &options);
    cache_get(10 * MIB, 0);
    ck_assert_uint_eq(cache_resident(), 10 * MIB);
    cache_get(MIB, 0);
    ck_assert_uint_eq(cache_resident(), 12 * MIB);
    cache_close();
}
END_TEST

START_TEST(the_slack_of_oversize_blocks_is_a_large_segment_unless_it_is_set)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, large_segment_bytes, 32 * MIB);
    SET_OWN(torch, &options, max_split_bytes, 40 * MIB);
    cache_open(&pl_torch_native_ops, "capacity:1G", &options);
    pleat_devptr block = cache_get(80 * MIB, 0);
    cache_put(block);
    ck_assert_uint_eq(cache_get(48 * MIB + 512, 0), block);
    cache_put(block);
    ck_assert_uint_ne(cache_get(48 * MIB, 0), block);
    cache_close();
}
END_TEST

START_TEST(large_segments_bound_the_other_sizes)
{
    cache_open(&pl_torch_native_ops, "capacity:100M", NULL);
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, large_segment_bytes, 10 * MIB);
    cache_refuses(&pl_torch_native_ops, &options, "");
    SET_OWN(torch, &options, large_segment_bytes, 64 * MIB);
    SET_OWN(torch, &options, max_split_bytes, 63 * MIB);
    cache_refuses(&pl_torch_native_ops, &options, "");
    SET_OWN(torch, &options, max_split_bytes, 0);
    SET_OWN(torch, &options, max_non_split_rounding_bytes, 63 * MIB);
    cache_refuses(&pl_torch_native_ops, &options, "");
    cache_close();
}
END_TEST

/* ---- the fraction ---------------------------------------------------------------------------- */

START_TEST(fractions_outside_of_0_to_1_are_refused)
{
    cache_open(&pl_torch_native_ops, "capacity:100M", NULL);
    static const double bad[] = { -0.1, 1.1, NAN, INFINITY };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pl_allocator_options options = cache_defaults();
        SET_OWN(torch, &options, per_process_memory_fraction, bad[i]);
        cache_refuses(&pl_torch_native_ops, &options, "");
    }
    cache_close();
}
END_TEST

START_TEST(no_more_than_the_fraction_of_the_device_is_taken)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, per_process_memory_fraction, 0.5);
    cache_open(&pl_torch_native_ops, "capacity:200M", &options);
    ck_assert_int_eq(cache_refused(101 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    cache_get(100 * MIB, 0);
    ck_assert_int_eq(cache_refused(1, 0), PLEAT_ENOMEM_DEVICE);
    cache_close();
}
END_TEST

START_TEST(of_limit_and_fraction_the_smaller_counts)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, per_process_memory_fraction, 0.5);
    options.limit_bytes = 60 * MIB;
    cache_open(&pl_torch_native_ops, "capacity:200M", &options);
    ck_assert_int_eq(cache_refused(62 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, 150 * MIB), PLEAT_OK);
    ck_assert_int_eq(cache_refused(102 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, 0), PLEAT_OK);
    ck_assert_int_eq(cache_refused(102 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    cache_get(100 * MIB, 0);
    cache_close();
}
END_TEST

/* ---- collection by age ----------------------------------------------------------------------- */

enum { N_ROUNDS = 10 };

/* Blocks of 20 MiB and 24 MiB are freed and grow old, while a block of 32 MiB is used again and
 * again. */
static void age(void)
{
    pleat_devptr first = cache_get(20 * MIB, 0);
    pleat_devptr second = cache_get(24 * MIB, 0);
    cache_get(32 * MIB, 0);
    cache_put(first);
    cache_put(second);
    for (size_t i = 0; i < N_ROUNDS; i++) {
        cache_put(cache_get(28 * MIB, 0));
    }
}

START_TEST(a_fraction_of_the_device_enables_collection)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, per_process_memory_fraction, 0.5);
    SET_OWN(torch, &options, garbage_collection_threshold, 0.5);
    cache_open(&pl_torch_native_ops, "capacity:400M", &options);
    age();
    ck_assert_uint_eq(cache_resident(), 104 * MIB);
    cache_get(40 * MIB, 0);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.num_device_free, 2); /* both old segments, though the first suffices */
    ck_assert_uint_eq(s.num_alloc_retries, 0);
    ck_assert_uint_eq(s.num_sync_all_streams, 0);
    ck_assert_uint_eq(cache_resident(), 100 * MIB);
    cache_close();
}
END_TEST

START_TEST(without_a_limit_nothing_is_collected)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, garbage_collection_threshold, 0.1);
    cache_open(&pl_torch_native_ops, "capacity:400M", &options);
    age();
    cache_get(40 * MIB, 0);
    ck_assert_uint_eq(cache_stats().num_device_free, 0);
    cache_close();
}
END_TEST

START_TEST(up_to_the_threshold_nothing_is_collected)
{
    pl_allocator_options options = cache_defaults();
    options.limit_bytes = 208 * MIB;
    SET_OWN(torch, &options, garbage_collection_threshold, 0.5);
    cache_open(&pl_torch_native_ops, "capacity:1G", &options);
    age();
    ck_assert_uint_eq(cache_resident(), 104 * MIB);
    cache_get(40 * MIB, 0);
    ck_assert_uint_eq(cache_stats().num_device_free, 0);
    cache_get(36 * MIB, 0);
    ck_assert_uint_eq(cache_stats().num_device_free, 2);
    cache_close();
}
END_TEST

START_TEST(split_segments_are_not_collected)
{
    pl_allocator_options options = cache_defaults();
    options.limit_bytes = 200 * MIB;
    SET_OWN(torch, &options, garbage_collection_threshold, 0.1);
    cache_open(&pl_torch_native_ops, "capacity:1G", &options);
    pleat_devptr part = cache_get(9 * MIB, 0);
    cache_get(9 * MIB, 0);
    cache_put(part);
    cache_get(30 * MIB, 0);
    cache_get(30 * MIB, 0);
    ck_assert_uint_eq(cache_stats().num_device_free, 0);
    ck_assert_uint_eq(cache_get(9 * MIB, 0), part);
    cache_close();
}
END_TEST

/* ---- visits ---------------------------------------------------------------------------------- */

static const pl_piece *find_piece(const cache_sight *s, pleat_devptr base)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->pieces[i].base == base) {
            return &s->pieces[i];
        }
    }
    ck_abort_msg("no piece at that address");
}

START_TEST(a_visitor_sees_live_free_and_pending_pieces_segment_by_segment)
{
    cache_open(&pl_torch_native_ops, "capacity:1G,depth:1000", NULL);
    pleat_devptr live = cache_get(4 * MIB + 1, 1);
    pleat_devptr pending = cache_get(6 * MIB, 1);
    cache_get(100, 2);
    cache_work(2, pending, MIB);
    cache_record(pending, 2);
    cache_put(pending);
    cache_sight s = cache_seen();
    ck_assert_uint_eq(s.n, 5);
    uint64_t bytes = 0;
    size_t n_first = 0;
    for (size_t i = 0; i < s.n; i++) {
        bytes += s.pieces[i].bytes;
        n_first += s.pieces[i].is_first;
        ck_assert(s.pieces[i].is_first ||
                  s.pieces[i].base == s.pieces[i - 1].base + s.pieces[i - 1].bytes);
    }
    ck_assert_uint_eq(bytes, cache_resident());
    ck_assert_uint_eq(n_first, 2);
    const pl_piece *piece = find_piece(&s, live);
    ck_assert(piece->is_first && piece->kind == PL_PIECE_LIVE);
    ck_assert_uint_eq(piece->requested_bytes, 4 * MIB + 1);
    ck_assert_ptr_eq(piece->stream, cache.streams[1]);
    ck_assert_int_eq(find_piece(&s, pending)->kind, PL_PIECE_PENDING);
    ck_assert_uint_eq(find_piece(&s, pending)->requested_bytes, 0);
    ck_assert_int_eq(find_piece(&s, pending + 6 * MIB)->kind, PL_PIECE_FREE);
    cache_close();
}
END_TEST

SUITE(models_torch_options)
{
    TCase *segments = suite_case(suite, "large segments", NULL, NULL);
    tcase_add_test(segments, requests_below_10_mib_share_segments_of_the_size_that_is_set);
    tcase_add_test(segments, the_slack_of_oversize_blocks_is_a_large_segment_unless_it_is_set);
    tcase_add_test(segments, large_segments_bound_the_other_sizes);
    TCase *fraction = suite_case(suite, "fraction", NULL, NULL);
    tcase_add_test(fraction, fractions_outside_of_0_to_1_are_refused);
    tcase_add_test(fraction, no_more_than_the_fraction_of_the_device_is_taken);
    tcase_add_test(fraction, of_limit_and_fraction_the_smaller_counts);
    TCase *collection = suite_case(suite, "collection", NULL, NULL);
    tcase_add_test(collection, a_fraction_of_the_device_enables_collection);
    tcase_add_test(collection, without_a_limit_nothing_is_collected);
    tcase_add_test(collection, up_to_the_threshold_nothing_is_collected);
    tcase_add_test(collection, split_segments_are_not_collected);
    TCase *visits = suite_case(suite, "visits", NULL, NULL);
    tcase_add_test(visits, a_visitor_sees_live_free_and_pending_pieces_segment_by_segment);
}
