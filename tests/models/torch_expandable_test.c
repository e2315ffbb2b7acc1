/* torch_expandable_test.c - the places of requests under torch-expandable, and its mappings. */
/* labels: unit */
#include <check.h>

#include "segments/classic/torch/torch_options.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_cache.h"
#include "tests/support/suite.h"

static void open_conf(const char *sim_conf, const pl_allocator_options *options)
{
    cache_open(&pl_torch_expandable_ops, sim_conf, options);
}

static pl_allocator_options pages_of_2_mib(void)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, expandable_large_page_bytes, 2 * MIB);
    return options;
}

static void open_unlimited(void)
{
    open_conf("capacity:1T", NULL);
}

static void open_2_mib(void)
{
    pl_allocator_options options = pages_of_2_mib();
    open_conf("capacity:1T", &options);
}

/* ---- pages ----------------------------------------------------------------------------------- */

typedef struct vector {
    size_t request, mapped, block;
} vector;

START_TEST(every_vector_of_pytorch_holds)
{
    static const vector vectors[] = {
        { 1, 2 * MIB, 512 },
        { 513, 2 * MIB, 1024 },
        { MIB, 2 * MIB, MIB },
        { MIB + 1, 20 * MIB, MIB + 512 },
        { 10 * MIB - 512, 20 * MIB, 10 * MIB - 512 },
        { 10 * MIB, 20 * MIB, 10 * MIB },
        { 11 * MIB + 512, 20 * MIB, 11 * MIB + 512 },
        { 20 * MIB - 512, 20 * MIB, 20 * MIB - 512 },
        { 20 * MIB, 20 * MIB, 20 * MIB },
        { 20 * MIB + 1, 40 * MIB, 20 * MIB + 512 },
        { 84 * MIB, 100 * MIB, 84 * MIB },
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const vector *v = &vectors[i];
        uint64_t n_maps = cache_stats().ops_map;
        pleat_devptr ptr = cache_get(v->request, 0);
        pleat_stats s = cache_stats();
        ck_assert_uint_eq(s.ops_map, n_maps + 1);
        ck_assert_uint_eq(s.resident_bytes, v->mapped);
        ck_assert_uint_eq(cache_info(ptr).bytes, v->block);
        ck_assert_uint_eq(s.free_bytes, v->mapped - v->block);
        cache_put(ptr);
        ck_assert_uint_eq(cache_trim(0, true), v->mapped);
    }
}
END_TEST

START_TEST(one_handle_backs_one_page_and_one_set_access_a_run)
{
    cache_get(90 * MIB, 0);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemCreate"), 5);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemMap"), 5);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemSetAccess"), 1);
    ck_assert_uint_eq(cache_stats().ops_map, 1);
    ck_assert_uint_eq(cache_stats().bytes_mapped, 100 * MIB);
}
END_TEST

START_TEST(a_segment_grows_in_place)
{
    pleat_devptr first = cache_get(20 * MIB, 0);
    ck_assert_uint_eq(cache_get(20 * MIB, 0), first + 20 * MIB);
    ck_assert_uint_eq(cache_get(30 * MIB, 0), first + 40 * MIB);
    ck_assert_uint_eq(cache_get(10 * MIB, 0), first + 70 * MIB);
    ck_assert_uint_eq(cache_resident(), 80 * MIB);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemAddressReserve"), 1);
}
END_TEST

START_TEST(only_what_is_missing_behind_free_memory_is_mapped)
{
    pleat_devptr first = cache_get(20 * MIB, 0);
    cache_put(first);
    ck_assert_uint_eq(cache_get(50 * MIB, 0), first);
    ck_assert_uint_eq(cache_stats().bytes_mapped, 60 * MIB);
    ck_assert_uint_eq(cache_stats().ops_map, 2);
}
END_TEST

START_TEST(nine_eighths_of_the_device_are_reserved_in_whole_pages)
{
    open_conf("capacity:100M", NULL);
    cache_get(1, 0);
    ck_assert_uint_eq(cache_stats().address_bytes, 114 * MIB);
    cache_get(2 * MIB, 0);
    ck_assert_uint_eq(cache_stats().address_bytes, 234 * MIB);
    cache_get(2 * MIB, 1);
    ck_assert_uint_eq(cache_stats().address_bytes, 354 * MIB);
    cache_close();
}
END_TEST

START_TEST(a_remainder_of_one_quantum_is_split_off_large_blocks_too)
{
    pleat_devptr ptr = cache_get(20 * MIB - 512, 0);
    ck_assert_uint_eq(cache_info(ptr).bytes, 20 * MIB - 512);
    ck_assert_uint_eq(cache_stats().free_bytes, 512);
}
END_TEST

START_TEST(segments_and_inactive_splits_are_not_counted)
{
    cache_get(1, 0);
    cache_put(cache_get(3 * MIB, 0));
    cache_get(2 * MIB, 0);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.segment[PLEAT_SIZES_ALL].allocated, 0);
    ck_assert_uint_eq(s.inactive_split[PLEAT_SIZES_ALL].allocated, 0);
    ck_assert_uint_eq(s.inactive_split_bytes[PLEAT_SIZES_ALL].allocated, 0);
    ck_assert_uint_eq(s.num_device_alloc, 2);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_SMALL].current, 2 * MIB);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_LARGE].current, 20 * MIB);
}
END_TEST

/* ---- the choice ------------------------------------------------------------------------------ */

START_TEST(a_block_that_could_grow_counts_as_big_as_it_could_become)
{
    cache_get(4 * MIB, 0);
    pleat_devptr big = cache_get(8 * MIB, 0);
    cache_get(2 * MIB, 0);
    pleat_devptr last = cache_get(4 * MIB, 0);
    cache_put(big);
    cache_put(last);
    ck_assert_uint_eq(cache_get(4 * MIB, 0), big);
    ck_assert_uint_eq(cache_get(4 * MIB, 0), big + 4 * MIB);
    ck_assert_uint_eq(cache_get(4 * MIB, 0), last);
}
END_TEST

START_TEST(the_search_stops_at_the_first_that_is_not_smaller)
{
    pleat_devptr four = cache_get(4 * MIB, 0);
    cache_get(2 * MIB, 0);
    pleat_devptr six = cache_get(6 * MIB, 0);
    cache_get(2 * MIB, 0);
    cache_put(four);
    cache_put(six);
    ck_assert_uint_eq(cache_get(3 * MIB, 0), four);
}
END_TEST

/* Four blocks of 20 MiB side by side. */
static void get_four(pleat_devptr p[4])
{
    for (size_t i = 0; i < 4; i++) {
        p[i] = cache_get(20 * MIB, 0);
    }
}

START_TEST(the_lowest_hole_that_is_big_enough_is_mapped)
{
    pleat_devptr p[4];
    get_four(p);
    cache_put(p[0]);
    cache_put(p[2]);
    ck_assert_uint_eq(cache_trim(0, true), 40 * MIB);
    ck_assert_uint_eq(cache_get(30 * MIB, 0), p[3] + 20 * MIB);
    ck_assert_uint_eq(cache_get(20 * MIB, 0), p[0]);
    ck_assert_uint_eq(cache_get(20 * MIB, 0), p[2]);
}
END_TEST

START_TEST(a_place_spans_free_and_unmapped_neighbours)
{
    pleat_devptr p[4];
    get_four(p);
    cache_put(p[1]);
    cache_trim(0, true);
    cache_put(p[0]);
    cache_put(p[2]);
    ck_assert_uint_eq(cache_get(60 * MIB, 0), p[0]);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.ops_map, 5);
    ck_assert_uint_eq(s.bytes_mapped, 100 * MIB);
    ck_assert_uint_eq(cache_resident(), 80 * MIB);
}
END_TEST

START_TEST(a_place_with_two_holes_takes_two_operations)
{
    pleat_devptr p[4];
    get_four(p);
    cache_put(p[1]);
    cache_put(p[3]);
    cache_trim(0, true);
    cache_put(p[2]);
    ck_assert_uint_eq(cache_get(70 * MIB, 0), p[1]);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.ops_map, 6);
    ck_assert_uint_eq(s.num_device_alloc, 6);
    ck_assert_uint_eq(cache_resident(), 100 * MIB);
    ck_assert_uint_eq(s.free_bytes, 10 * MIB);
}
END_TEST

START_TEST(streams_have_segments_of_their_own)
{
    cache_put(cache_get(20 * MIB, 1));
    cache_get(20 * MIB, 2);
    ck_assert_uint_eq(cache_resident(), 40 * MIB);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemAddressReserve"), 2);
}
END_TEST

/* ---- giving back ----------------------------------------------------------------------------- */

START_TEST(only_whole_pages_go_and_the_ends_stay_free)
{
    cache_get(3 * MIB, 0);
    pleat_devptr middle = cache_get(30 * MIB, 0);
    cache_get(3 * MIB, 0);
    cache_put(middle);
    ck_assert_uint_eq(cache_trim(0, true), 28 * MIB);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.resident_bytes, 8 * MIB);
    ck_assert_uint_eq(s.free_bytes, 2 * MIB);
    ck_assert_uint_eq(s.ops_unmap, 1);
    ck_assert_uint_eq(cache_trim(0, true), 0);
    ck_assert_uint_eq(cache_get(30 * MIB, 0), middle);
    ck_assert_uint_eq(cache_resident(), 36 * MIB);
}
END_TEST

START_TEST(each_unmapped_block_waits_for_its_stream_once)
{
    pleat_devptr p[6];
    for (unsigned i = 0; i < 6; i++) {
        p[i] = cache_get(4 * MIB, i / 3);
    }
    cache_put(cache_get(1, 0));
    cache_work(0, p[0], 4 * MIB);
    cache_put(p[0]);
    cache_put(p[2]);
    cache_put(p[4]);
    ck_assert_uint_eq(cache_trim(0, true), 14 * MIB);
    pleat_stats s = cache_stats();
    ck_assert_uint_eq(s.ops_unmap, 4);
    ck_assert_uint_eq(s.host_syncs, 4);
    ck_assert_uint_eq(s.num_device_free, 4);
}
END_TEST

START_TEST(a_segment_without_memory_gives_its_addresses_back)
{
    pleat_devptr ptr = cache_get(20 * MIB, 0);
    cache_put(cache_get(20 * MIB, 0));
    cache_trim(0, true);
    ck_assert_uint_gt(cache_stats().address_bytes, 0);
    cache_put(ptr);
    cache_trim(0, true);
    ck_assert_uint_eq(cache_stats().address_bytes, 0);
    cache_get(20 * MIB, 0);
    ck_assert_uint_eq(cache.sim.n_calls("cuMemAddressReserve"), 2);
}
END_TEST

START_TEST(memory_of_a_captured_stream_stays)
{
    cache_put(cache_get(20 * MIB, 1));
    cache_put(cache_get(20 * MIB, 2));
    cache_begin_capture(1);
    ck_assert_uint_eq(cache_trim(0, true), 20 * MIB);
    cache_end_capture(1);
    ck_assert_uint_eq(cache_trim(0, true), 20 * MIB);
}
END_TEST

START_TEST(an_address_without_memory_is_foreign_and_a_cached_one_was_freed)
{
    pleat_devptr p[4];
    get_four(p);
    cache_put(p[1]);
    const pl_allocator_ops *ops = cache.a->ops;
    ck_assert_int_eq(ops->free(cache.a, p[1], NULL), PLEAT_EDOUBLEFREE);
    cache_trim(0, true);
    ck_assert_int_eq(ops->free(cache.a, p[1], NULL), PLEAT_EFOREIGN);
    ck_assert_int_eq(ops->free(cache.a, p[3] + 20 * MIB, NULL), PLEAT_EFOREIGN);
    pleat_block_info info;
    ck_assert_int_eq(ops->query(cache.a, p[1], &info), PLEAT_EFOREIGN);
    ck_assert_uint_eq(cache_info(p[2] + 1).base, p[2]);
}
END_TEST

START_TEST(a_visitor_sees_holes_between_memory_and_none_after_it)
{
    static const pl_piece_kind kinds[] = { PL_PIECE_LIVE, PL_PIECE_HOLE, PL_PIECE_FREE,
                                           PL_PIECE_LIVE };
    pleat_devptr p[4];
    get_four(p);
    cache_put(p[1]);
    cache_trim(0, true);
    cache_put(p[2]);
    cache_sight s = cache_seen();
    ck_assert_uint_eq(s.n, 4);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(s.pieces[i].base, p[i]);
        ck_assert_uint_eq(s.pieces[i].bytes, 20 * MIB);
        ck_assert_int_eq(s.pieces[i].kind, kinds[i]);
        ck_assert_int_eq(s.pieces[i].is_first, i == 0);
    }
}
END_TEST

/* ---- options --------------------------------------------------------------------------------- */

START_TEST(pages_are_whole_granules)
{
    open_conf("capacity:1G", NULL);
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, expandable_large_page_bytes, 3 * MIB);
    cache_refuses(&pl_torch_expandable_ops, &options, "expandable_large_page_mb");
    options = cache_defaults();
    SET_OWN(torch, &options, expandable_small_page_bytes, MIB);
    cache_refuses(&pl_torch_expandable_ops, &options, "expandable_small_page_mb");
    cache_close();
}
END_TEST

START_TEST(the_usual_pages_become_granules_where_those_are_larger)
{
    open_conf("capacity:1G,granularity:8M", NULL);
    cache_get(1, 0);
    ck_assert_uint_eq(cache_resident(), 8 * MIB);
    cache_get(2 * MIB, 0);
    ck_assert_uint_eq(cache_resident(), 32 * MIB);
    cache_close();
}
END_TEST

START_TEST(large_pages_follow_large_segments_unless_they_are_set)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(torch, &options, large_segment_bytes, 64 * MIB);
    open_conf("capacity:1G", &options);
    cache_get(2 * MIB, 0);
    ck_assert_uint_eq(cache_resident(), 64 * MIB);
    cache_close();
    SET_OWN(torch, &options, expandable_large_page_bytes, 4 * MIB);
    SET_OWN(torch, &options, expandable_small_page_bytes, 6 * MIB);
    open_conf("capacity:1G", &options);
    cache_get(5 * MIB, 0);
    ck_assert_uint_eq(cache_resident(), 8 * MIB);
    cache_get(1, 0);
    ck_assert_uint_eq(cache_resident(), 14 * MIB);
    cache_close();
}
END_TEST

START_TEST(without_virtual_memory_management_there_is_none)
{
    cache_open(&pl_torch_native_ops, "capacity:1G,profile:no_vmm", NULL);
    pl_allocator_options options = cache_defaults();
    pl_allocator *a = NULL;
    ck_assert_int_eq(pl_torch_expandable_ops.create(cache.dev, &options, &a), PLEAT_ENOVMM);
    ck_assert_ptr_null(a);
    cache_close();
}
END_TEST

static void add_pages(Suite *suite)
{
    TCase *pages = suite_case(suite, "pages", open_unlimited, cache_close);
    tcase_add_test(pages, every_vector_of_pytorch_holds);
    tcase_add_test(pages, one_handle_backs_one_page_and_one_set_access_a_run);
    tcase_add_test(pages, a_segment_grows_in_place);
    tcase_add_test(pages, only_what_is_missing_behind_free_memory_is_mapped);
    tcase_add_test(pages, a_remainder_of_one_quantum_is_split_off_large_blocks_too);
    tcase_add_test(pages, segments_and_inactive_splits_are_not_counted);
    TCase *addresses = suite_case(suite, "addresses", NULL, NULL);
    tcase_add_test(addresses, nine_eighths_of_the_device_are_reserved_in_whole_pages);
}

static void add_choice(Suite *suite)
{
    TCase *fit = suite_case(suite, "best fit", open_2_mib, cache_close);
    tcase_add_test(fit, a_block_that_could_grow_counts_as_big_as_it_could_become);
    tcase_add_test(fit, the_search_stops_at_the_first_that_is_not_smaller);
    TCase *place = suite_case(suite, "first fit", open_unlimited, cache_close);
    tcase_add_test(place, the_lowest_hole_that_is_big_enough_is_mapped);
    tcase_add_test(place, a_place_spans_free_and_unmapped_neighbours);
    tcase_add_test(place, a_place_with_two_holes_takes_two_operations);
    tcase_add_test(place, streams_have_segments_of_their_own);
}

static void add_release(Suite *suite)
{
    TCase *small = suite_case(suite, "small pages", open_2_mib, cache_close);
    tcase_add_test(small, only_whole_pages_go_and_the_ends_stay_free);
    tcase_add_test(small, each_unmapped_block_waits_for_its_stream_once);
    TCase *release = suite_case(suite, "release", open_unlimited, cache_close);
    tcase_add_test(release, a_segment_without_memory_gives_its_addresses_back);
    tcase_add_test(release, memory_of_a_captured_stream_stays);
    tcase_add_test(release, an_address_without_memory_is_foreign_and_a_cached_one_was_freed);
    tcase_add_test(release, a_visitor_sees_holes_between_memory_and_none_after_it);
}

SUITE(models_torch_expandable)
{
    add_pages(suite);
    add_choice(suite);
    add_release(suite);
    TCase *options = suite_case(suite, "options", NULL, NULL);
    tcase_add_test(options, pages_are_whole_granules);
    tcase_add_test(options, the_usual_pages_become_granules_where_those_are_larger);
    tcase_add_test(options, large_pages_follow_large_segments_unless_they_are_set);
    tcase_add_test(options, without_virtual_memory_management_there_is_none);
}
