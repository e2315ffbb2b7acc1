/* torch_native_test.c - the block of each request, and the statistics. */
/* labels: unit */
#include <check.h>
#include <string.h>

#include "segments/classic/torch/torch_options.h"
#include "segments/pleat/space/options.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_cache.h"
#include "tests/support/suite.h"

static void open_unlimited(void)
{
    cache_open(&pl_torch_native_ops, "capacity:1T", NULL);
}

static uint64_t n_segments(void)
{
    return cache_stats().segment[PLEAT_SIZES_ALL].current;
}

/* ---- the vectors ----------------------------------------------------------------------------- */

typedef struct vector {
    size_t request, segment, block;
} vector;

/* A request into an empty cache: the driver call, the block, and the free rest of the segment. */
static void check_vector(const vector *v)
{
    cache_trim(0, true);
    ck_assert_uint_eq(cache_resident(), 0);
    uint64_t n_allocs = cache_stats().ops_alloc;
    pleat_devptr ptr = cache_get(v->request, 0);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.ops_alloc, n_allocs + 1);
    ck_assert_uint_eq(s.resident_bytes, v->segment);
    ck_assert_uint_eq(cache_info(ptr).base, ptr);
    ck_assert_uint_eq(cache_info(ptr).bytes, v->block);
    ck_assert_uint_eq(cache_info(ptr).requested_bytes, v->request);
    ck_assert_uint_eq(s.free_bytes, v->segment - v->block);
    ck_assert_uint_eq(s.inactive_split_bytes[PLEAT_SIZES_ALL].current, v->segment - v->block);
    cache_put(ptr);
}

START_TEST(every_vector_of_pytorch_holds)
{
    static const vector vectors[] = {
        { 1, 2 * MIB, 512 },
        { 511, 2 * MIB, 512 },
        { 512, 2 * MIB, 512 },
        { 513, 2 * MIB, 1024 },
        { 1200, 2 * MIB, 1536 },
        { MIB, 2 * MIB, MIB },
        { MIB + 1, 20 * MIB, MIB + 512 },
        { 10 * MIB - 512, 20 * MIB, 10 * MIB - 512 },
        { 10 * MIB, 10 * MIB, 10 * MIB },
        { 10 * MIB + 512, 12 * MIB, 10 * MIB + 512 },
        { 11 * MIB - 512, 12 * MIB, 11 * MIB - 512 },
        { 11 * MIB, 12 * MIB, 12 * MIB },
        { 11 * MIB + 1, 12 * MIB, 12 * MIB },
        { 11 * MIB + 512, 12 * MIB, 12 * MIB },
        { 84 * MIB, 84 * MIB, 84 * MIB },
        { 400 * MIB, 400 * MIB, 400 * MIB },
    };
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        check_vector(&vectors[i]);
    }
}
END_TEST

START_TEST(two_blocks_of_1_mib_share_a_segment_and_a_third_does_not)
{
    pleat_devptr first = cache_get(MIB, 0);
    pleat_devptr second = cache_get(MIB, 0);
    ck_assert_uint_eq(second, first + MIB);
    ck_assert_uint_eq(cache_resident(), 2 * MIB);
    cache_get(MIB, 0);
    ck_assert_uint_eq(cache_resident(), 4 * MIB);
}
END_TEST

START_TEST(two_blocks_below_10_mib_share_a_segment_and_a_third_does_not)
{
    cache_get(10 * MIB - 512, 0);
    cache_get(10 * MIB - 512, 0);
    ck_assert_uint_eq(n_segments(), 1);
    cache_get(10 * MIB - 512, 0);
    ck_assert_uint_eq(n_segments(), 2);
    ck_assert_uint_eq(cache_resident(), 40 * MIB);
}
END_TEST

static void check_divisions(unsigned index, unsigned divisions, const vector *v)
{
    pl_allocator_options options = cache_defaults();
    for (unsigned i = 0; i < 16; i++) {
        options.roundup_divisions[i] = index == 16 || index == i ? divisions : 0;
    }
    cache_open(&pl_torch_native_ops, "capacity:1T", &options);
    check_vector(v);
    cache_close();
}

START_TEST(roundup_divisions_follow_the_size_of_the_request)
{
    check_divisions(16, 4, &(vector){ 84 * MIB, 96 * MIB, 96 * MIB });
    check_divisions(16, 8, &(vector){ 84 * MIB, 88 * MIB, 88 * MIB });
    check_divisions(8, 2, &(vector){ 400 * MIB, 512 * MIB, 512 * MIB });
    check_divisions(7, 2, &(vector){ 400 * MIB, 400 * MIB, 400 * MIB });
    check_divisions(16, 4, &(vector){ 1200, 2 * MIB, 1536 });
    check_divisions(0, 4, &(vector){ 9 * KIB, 2 * MIB, 10 * KIB });
    check_divisions(16, 4, &(vector){ 64 * MIB, 64 * MIB, 64 * MIB });
    check_divisions(15, 2, &(vector){ 80 * GIB, 96 * GIB, 96 * GIB });
}
END_TEST

/* ---- the choice ------------------------------------------------------------------------------ */

START_TEST(the_smallest_block_that_fits_is_taken)
{
    pleat_devptr big = cache_get(40 * MIB, 0);
    pleat_devptr middle = cache_get(30 * MIB, 0);
    pleat_devptr small = cache_get(24 * MIB, 0);
    cache_put(big);
    cache_put(small);
    cache_put(middle);
    ck_assert_uint_eq(cache_get(26 * MIB, 0), middle);
    ck_assert_uint_eq(cache_get(26 * MIB, 0), big);
    ck_assert_uint_eq(cache_get(24 * MIB, 0), small);
    ck_assert_uint_eq(n_segments(), 3);
}
END_TEST

START_TEST(of_equal_blocks_the_one_in_the_oldest_segment_is_taken)
{
    pleat_devptr first = cache_get(20 * MIB, 0);
    pleat_devptr second = cache_get(20 * MIB, 0);
    pleat_devptr third = cache_get(20 * MIB, 0);
    cache_put(second);
    cache_put(third);
    cache_put(first);
    ck_assert_uint_eq(cache_get(20 * MIB, 0), first);
    ck_assert_uint_eq(cache_get(20 * MIB, 0), second);
    ck_assert_uint_eq(cache_get(20 * MIB, 0), third);
}
END_TEST

START_TEST(of_equal_blocks_in_one_segment_the_lowest_is_taken)
{
    pleat_devptr p[4];
    for (size_t i = 0; i < 4; i++) {
        p[i] = cache_get(512 * KIB, 0);
    }
    cache_put(p[2]);
    cache_put(p[0]);
    ck_assert_uint_eq(cache_get(512 * KIB, 0), p[0]);
    ck_assert_uint_eq(cache_get(512 * KIB, 0), p[2]);
}
END_TEST

START_TEST(small_and_large_requests_do_not_share_segments)
{
    pleat_devptr large = cache_get(2 * MIB, 0);
    cache_put(large);
    cache_get(MIB, 0);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_SMALL].current, 2 * MIB);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_LARGE].current, 20 * MIB);
}
END_TEST

START_TEST(a_block_serves_its_own_stream_only)
{
    pleat_devptr own = cache_get(30 * MIB, 1);
    cache_put(own);
    pleat_devptr other = cache_get(30 * MIB, 2);
    ck_assert_uint_ne(other, own);
    ck_assert_uint_eq(n_segments(), 2);
    ck_assert_uint_eq(cache_get(30 * MIB, 1), own);
    ck_assert_uint_eq(n_segments(), 2);
}
END_TEST

START_TEST(a_large_remainder_of_1_mib_is_not_split_off_and_one_more_quantum_is)
{
    cache_put(cache_get(20 * MIB, 0));
    pleat_devptr whole = cache_get(19 * MIB, 0);
    ck_assert_uint_eq(cache_info(whole).bytes, 20 * MIB);
    cache_put(whole);
    pleat_devptr part = cache_get(19 * MIB - 512, 0);
    ck_assert_uint_eq(cache_info(part).bytes, 19 * MIB - 512);
}
END_TEST

START_TEST(a_small_remainder_of_one_quantum_is_split_off)
{
    cache_get(MIB, 0);
    cache_get(MIB - 512, 0);
    ck_assert_uint_eq(cache_stats().inactive_split_bytes[PLEAT_SIZES_SMALL].current, 512);
    cache_get(1, 0);
    ck_assert_uint_eq(cache_stats().inactive_split_bytes[PLEAT_SIZES_SMALL].current, 0);
    ck_assert_uint_eq(n_segments(), 1);
}
END_TEST

START_TEST(freed_neighbours_merge_on_both_sides)
{
    pleat_devptr p[3];
    for (size_t i = 0; i < 3; i++) {
        p[i] = cache_get(4 * MIB, 0);
    }
    cache_put(p[0]);
    cache_put(p[2]);
    ck_assert_uint_eq(cache_stats().inactive_split[PLEAT_SIZES_LARGE].current, 2);
    ck_assert_uint_eq(cache_stats().inactive_split_bytes[PLEAT_SIZES_LARGE].current, 16 * MIB);
    cache_put(p[1]);
    ck_assert_uint_eq(cache_stats().inactive_split[PLEAT_SIZES_LARGE].current, 0);
    ck_assert_uint_eq(cache_stats().inactive_split_bytes[PLEAT_SIZES_LARGE].current, 0);
    ck_assert_uint_eq(cache_get(20 * MIB, 0), p[0]);
    ck_assert_uint_eq(n_segments(), 1);
}
END_TEST

/* ---- split limit ----------------------------------------------------------------------------- */

static void open_split_limit(void)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, max_split_bytes, 40 * MIB);
    cache_open(&pl_torch_native_ops, "capacity:1T", &options);
}

START_TEST(a_block_as_big_as_the_split_limit_is_neither_split_nor_used_for_less)
{
    cache_put(cache_get(40 * MIB, 0));
    pleat_devptr less = cache_get(40 * MIB - 512, 0);
    ck_assert_uint_eq(n_segments(), 2);
    ck_assert_uint_eq(cache_info(less).bytes, 40 * MIB);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.oversize_segments.current, 2);
    ck_assert_uint_eq(s.oversize_allocations.current, 1);
    cache_put(less);
    ck_assert_uint_eq(cache_stats().oversize_allocations.current, 0);
    cache_trim(0, true);
    ck_assert_uint_eq(cache_stats().oversize_segments.current, 0);
    ck_assert_uint_eq(cache_stats().oversize_segments.peak, 2);
}
END_TEST

START_TEST(an_oversize_request_accepts_a_block_with_less_slack_than_the_rounding_limit)
{
    pleat_devptr block = cache_get(80 * MIB, 0);
    cache_put(block);
    pleat_devptr near = cache_get(60 * MIB + 512, 0);
    ck_assert_uint_eq(near, block);
    ck_assert_uint_eq(cache_info(near).bytes, 80 * MIB);
    cache_put(near);
    ck_assert_uint_ne(cache_get(60 * MIB, 0), block);
}
END_TEST

START_TEST(below_the_split_limit_blocks_split_as_ever)
{
    cache_put(cache_get(38 * MIB, 0));
    pleat_devptr part = cache_get(20 * MIB, 0);
    ck_assert_uint_eq(cache_info(part).bytes, 20 * MIB);
    ck_assert_uint_eq(n_segments(), 1);
}
END_TEST

/* ---- statistics ------------------------------------------------------------------------------ */

static void check_stat(const pleat_stat *s, uint64_t current, uint64_t peak, uint64_t allocated)
{
    ck_assert_uint_eq(s->current, current);
    ck_assert_uint_eq(s->peak, peak);
    ck_assert_uint_eq(s->allocated, allocated);
    ck_assert_uint_eq(s->freed, allocated - current);
}

START_TEST(statistics_follow_pytorch_through_a_life)
{
    pleat_devptr small = cache_get(1000, 0);
    pleat_devptr large = cache_get(3 * MIB + 1, 0);
    cache_put(small);
    pleat_stats s = cache_stats();
    check_stat(&s.allocation[PLEAT_SIZES_ALL], 1, 2, 2);
    check_stat(&s.allocation[PLEAT_SIZES_SMALL], 0, 1, 1);
    check_stat(&s.allocated_bytes[PLEAT_SIZES_ALL], 3 * MIB + 512, 3 * MIB + 1536, 3 * MIB + 1536);
    check_stat(&s.requested_bytes[PLEAT_SIZES_LARGE], 3 * MIB + 1, 3 * MIB + 1, 3 * MIB + 1);
    check_stat(&s.segment[PLEAT_SIZES_SMALL], 1, 1, 1);
    check_stat(&s.segment[PLEAT_SIZES_LARGE], 1, 1, 1);
    check_stat(&s.reserved_bytes[PLEAT_SIZES_ALL], 22 * MIB, 22 * MIB, 22 * MIB);
    check_stat(&s.inactive_split[PLEAT_SIZES_SMALL], 0, 1, 1);
    check_stat(&s.inactive_split[PLEAT_SIZES_LARGE], 1, 1, 1);
    ck_assert_uint_eq(s.inactive_split_bytes[PLEAT_SIZES_LARGE].current, 17 * MIB - 512);
    ck_assert_uint_eq(s.rounding_bytes, 511);
    ck_assert_uint_eq(s.free_bytes, 22 * MIB - (3 * MIB + 512));
    ck_assert_uint_eq(s.pending_bytes, 0);
    ck_assert_uint_eq(s.num_device_alloc, 2);
    cache_put(large);
    cache_trim(0, true);
    s = cache_stats();
    check_stat(&s.active[PLEAT_SIZES_ALL], 0, 2, 2);
    check_stat(&s.active_bytes[PLEAT_SIZES_ALL], 0, 3 * MIB + 1536, 3 * MIB + 1536);
    check_stat(&s.reserved_bytes[PLEAT_SIZES_ALL], 0, 22 * MIB, 22 * MIB);
    ck_assert_uint_eq(s.num_device_free, 2);
    ck_assert_uint_eq(s.num_sync_all_streams, 1);
    ck_assert_uint_eq(s.ops_alloc, 2);
    ck_assert_uint_eq(s.ops_free, 2);
    ck_assert_uint_eq(s.rounding_bytes, 0);
}
END_TEST

START_TEST(resetting_peaks_sets_them_to_what_is_current)
{
    cache_put(cache_get(30 * MIB, 0));
    cache_get(2 * MIB, 0);
    cache.a->ops->reset_peaks(cache.a);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_SIZES_ALL].peak, 2 * MIB);
    ck_assert_uint_eq(s.allocation[PLEAT_SIZES_LARGE].peak, 1);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_ALL].peak, 30 * MIB);
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_SIZES_ALL].allocated, 32 * MIB);
}
END_TEST

/* ---- addresses ------------------------------------------------------------------------------- */

START_TEST(any_address_inside_a_live_block_finds_it)
{
    cache_get(4 * MIB, 2);
    pleat_devptr ptr = cache_get(4 * MIB, 2);
    pleat_devptr inside[] = { ptr, ptr + 1, ptr + 2 * MIB, ptr + 4 * MIB - 1 };
    for (size_t i = 0; i < 4; i++) {
        pleat_block_info info = cache_info(inside[i]);
        ck_assert_uint_eq(info.base, ptr);
        ck_assert_uint_eq(info.bytes, 4 * MIB);
        ck_assert_uint_eq(info.stream_id, pl_stream_id(cache.streams[2]));
        ck_assert_ptr_eq(info.stream, cache.handles[2]);
        ck_assert_int_eq(info.device, 0);
    }
    pleat_block_info info;
    ck_assert_int_eq(cache.a->ops->query(cache.a, ptr + 4 * MIB, &info), PLEAT_EFOREIGN);
    ck_assert_int_eq(cache.a->ops->query(cache.a, 0, &info), PLEAT_EFOREIGN);
    ck_assert_int_eq(cache.a->ops->query(cache.a, UINT64_MAX, &info), PLEAT_EFOREIGN);
    cache_put(ptr);
    ck_assert_int_eq(cache.a->ops->query(cache.a, ptr, &info), PLEAT_EFOREIGN);
}
END_TEST

/* ---- registry -------------------------------------------------------------------------------- */

START_TEST(allocators_are_found_by_the_names_that_are_listed)
{
    unsigned n = 0;
    for (const char *name; (name = pl_allocator_name(n)) != NULL; n++) {
        ck_assert_str_eq(pl_allocator_find(name)->name, name);
    }
    ck_assert_uint_ge(n, 2);
    ck_assert_ptr_eq(pl_allocator_find("torch-native"), &pl_torch_native_ops);
    ck_assert_ptr_eq(pl_allocator_find("pleat"), &pl_pleat_ops);
    ck_assert_ptr_null(pl_allocator_find("torch"));
    ck_assert_ptr_null(pl_allocator_find(""));
    ck_assert_ptr_null(pl_allocator_name(n + 1));
}
END_TEST

START_TEST(defaults_are_those_of_the_design)
{
    pl_allocator_options options;
    memset(&options, 0xff, sizeof(options));
    pl_allocator_options_init(&options);
    ck_assert_uint_eq(options.limit_bytes, 0);
    ck_assert_int_eq(pl_pleat_own(&options).growth, PL_GROWTH_BALANCED);
    ck_assert_int_eq(pl_pleat_own(&options).cross_stream, PL_CROSS_ORDER);
    ck_assert_uint_eq(options.wait_ms, 1000);
    ck_assert_uint_eq(pl_pleat_own(&options).chunk_share, 1500);
    ck_assert_uint_eq(pl_torch_own(&options).max_split_bytes, 0);
}
END_TEST

static void add_choice(Suite *suite)
{
    TCase *choice = suite_case(suite, "choice", open_unlimited, cache_close);
    tcase_add_test(choice, the_smallest_block_that_fits_is_taken);
    tcase_add_test(choice, of_equal_blocks_the_one_in_the_oldest_segment_is_taken);
    tcase_add_test(choice, of_equal_blocks_in_one_segment_the_lowest_is_taken);
    tcase_add_test(choice, small_and_large_requests_do_not_share_segments);
    tcase_add_test(choice, a_block_serves_its_own_stream_only);
    tcase_add_test(choice, a_large_remainder_of_1_mib_is_not_split_off_and_one_more_quantum_is);
    tcase_add_test(choice, a_small_remainder_of_one_quantum_is_split_off);
    tcase_add_test(choice, freed_neighbours_merge_on_both_sides);

    TCase *limit = suite_case(suite, "split limit", open_split_limit, cache_close);
    tcase_add_test(limit, a_block_as_big_as_the_split_limit_is_neither_split_nor_used_for_less);
    tcase_add_test(limit,
                   an_oversize_request_accepts_a_block_with_less_slack_than_the_rounding_limit);
    tcase_add_test(limit, below_the_split_limit_blocks_split_as_ever);
}

SUITE(models_torch_native)
{
    TCase *vectors = suite_case(suite, "vectors", open_unlimited, cache_close);
    tcase_add_test(vectors, every_vector_of_pytorch_holds);
    tcase_add_test(vectors, two_blocks_of_1_mib_share_a_segment_and_a_third_does_not);
    tcase_add_test(vectors, two_blocks_below_10_mib_share_a_segment_and_a_third_does_not);
    TCase *divisions = suite_case(suite, "divisions", NULL, NULL);
    tcase_add_test(divisions, roundup_divisions_follow_the_size_of_the_request);
    add_choice(suite);

    TCase *stats = suite_case(suite, "statistics", open_unlimited, cache_close);
    tcase_add_test(stats, statistics_follow_pytorch_through_a_life);
    tcase_add_test(stats, resetting_peaks_sets_them_to_what_is_current);
    TCase *addresses = suite_case(suite, "addresses", open_unlimited, cache_close);
    tcase_add_test(addresses, any_address_inside_a_live_block_finds_it);
    TCase *registry = suite_case(suite, "registry", NULL, NULL);
    tcase_add_test(registry, allocators_are_found_by_the_names_that_are_listed);
    tcase_add_test(registry, defaults_are_those_of_the_design);
}
