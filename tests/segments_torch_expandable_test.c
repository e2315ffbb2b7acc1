/* segments_torch_expandable_test.c - where torch-expandable puts a request and what it maps. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/segments_torch.h"
#include "vmm/driver.h"

static void open_conf(const char *sim_conf, const pl_allocator_options *options)
{
    torch_open_as(&pl_torch_expandable_ops, sim_conf, options);
}

static pl_allocator_options defaults(void)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    return options;
}

static pl_allocator_options pages_of_2_mib(void)
{
    pl_allocator_options options = defaults();
    options.expandable_large_page_bytes = 2 * MIB;
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

static uint64_t reserved(void)
{
    return torch_stats().reserved_bytes[PLEAT_POOL_ALL].current;
}

static uint64_t trim(void)
{
    uint64_t released = 0;
    ck_assert_int_eq(torch.a->ops->trim(torch.a, 0, true, &released), PLEAT_OK);
    torch_assert_sound();
    return released;
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
        uint64_t n_maps = torch_stats().ops_map;
        pleat_devptr ptr = torch_get(v->request, 0);
        pleat_stats s = torch_stats();
        ck_assert_uint_eq(s.ops_map, n_maps + 1);
        ck_assert_uint_eq(s.resident_bytes, v->mapped);
        ck_assert_uint_eq(torch_info(ptr).bytes, v->block);
        ck_assert_uint_eq(s.free_bytes, v->mapped - v->block);
        torch_put(ptr);
        ck_assert_uint_eq(trim(), v->mapped);
    }
}
END_TEST

START_TEST(one_handle_backs_one_page_and_one_set_access_a_run)
{
    torch_get(90 * MIB, 0);
    ck_assert_uint_eq(torch.sim.n_calls("cuMemCreate"), 5);
    ck_assert_uint_eq(torch.sim.n_calls("cuMemMap"), 5);
    ck_assert_uint_eq(torch.sim.n_calls("cuMemSetAccess"), 1);
    ck_assert_uint_eq(torch_stats().ops_map, 1);
    ck_assert_uint_eq(torch_stats().bytes_mapped, 100 * MIB);
}
END_TEST

START_TEST(a_segment_grows_in_place)
{
    pleat_devptr first = torch_get(20 * MIB, 0);
    ck_assert_uint_eq(torch_get(20 * MIB, 0), first + 20 * MIB);
    ck_assert_uint_eq(torch_get(30 * MIB, 0), first + 40 * MIB);
    ck_assert_uint_eq(torch_get(10 * MIB, 0), first + 70 * MIB);
    ck_assert_uint_eq(reserved(), 80 * MIB);
    ck_assert_uint_eq(torch.sim.n_calls("cuMemAddressReserve"), 1);
}
END_TEST

START_TEST(only_what_is_missing_behind_free_memory_is_mapped)
{
    pleat_devptr first = torch_get(20 * MIB, 0);
    torch_put(first);
    ck_assert_uint_eq(torch_get(50 * MIB, 0), first);
    ck_assert_uint_eq(torch_stats().bytes_mapped, 60 * MIB);
    ck_assert_uint_eq(torch_stats().ops_map, 2);
}
END_TEST

START_TEST(nine_eighths_of_the_device_are_reserved_in_whole_pages)
{
    open_conf("capacity:100M", NULL);
    torch_get(1, 0);
    ck_assert_uint_eq(torch_stats().address_bytes, 114 * MIB);
    torch_get(2 * MIB, 0);
    ck_assert_uint_eq(torch_stats().address_bytes, 234 * MIB);
    torch_get(2 * MIB, 1);
    ck_assert_uint_eq(torch_stats().address_bytes, 354 * MIB);
    torch_close();
}
END_TEST

START_TEST(a_remainder_of_one_quantum_is_split_off_large_blocks_too)
{
    pleat_devptr ptr = torch_get(20 * MIB - 512, 0);
    ck_assert_uint_eq(torch_info(ptr).bytes, 20 * MIB - 512);
    ck_assert_uint_eq(torch_stats().free_bytes, 512);
}
END_TEST

START_TEST(segments_and_inactive_splits_are_not_counted)
{
    torch_get(1, 0);
    torch_put(torch_get(3 * MIB, 0));
    torch_get(2 * MIB, 0);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.segment[PLEAT_POOL_ALL].allocated, 0);
    ck_assert_uint_eq(s.inactive_split[PLEAT_POOL_ALL].allocated, 0);
    ck_assert_uint_eq(s.inactive_split_bytes[PLEAT_POOL_ALL].allocated, 0);
    ck_assert_uint_eq(s.num_device_alloc, 2);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_POOL_SMALL].current, 2 * MIB);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_POOL_LARGE].current, 20 * MIB);
}
END_TEST

/* ---- the choice ------------------------------------------------------------------------------ */

START_TEST(a_block_that_could_grow_counts_as_big_as_it_could_become)
{
    torch_get(4 * MIB, 0);
    pleat_devptr big = torch_get(8 * MIB, 0);
    torch_get(2 * MIB, 0);
    pleat_devptr last = torch_get(4 * MIB, 0);
    torch_put(big);
    torch_put(last);
    ck_assert_uint_eq(torch_get(4 * MIB, 0), big);
    ck_assert_uint_eq(torch_get(4 * MIB, 0), big + 4 * MIB);
    ck_assert_uint_eq(torch_get(4 * MIB, 0), last);
}
END_TEST

START_TEST(the_search_stops_at_the_first_that_is_not_smaller)
{
    pleat_devptr four = torch_get(4 * MIB, 0);
    torch_get(2 * MIB, 0);
    pleat_devptr six = torch_get(6 * MIB, 0);
    torch_get(2 * MIB, 0);
    torch_put(four);
    torch_put(six);
    ck_assert_uint_eq(torch_get(3 * MIB, 0), four);
}
END_TEST

/* p[0..3] of 20 MiB side by side. */
static void get_four(pleat_devptr p[4])
{
    for (size_t i = 0; i < 4; i++) {
        p[i] = torch_get(20 * MIB, 0);
    }
}

START_TEST(the_lowest_hole_that_is_big_enough_is_mapped)
{
    pleat_devptr p[4];
    get_four(p);
    torch_put(p[0]);
    torch_put(p[2]);
    ck_assert_uint_eq(trim(), 40 * MIB);
    ck_assert_uint_eq(torch_get(30 * MIB, 0), p[3] + 20 * MIB);
    ck_assert_uint_eq(torch_get(20 * MIB, 0), p[0]);
    ck_assert_uint_eq(torch_get(20 * MIB, 0), p[2]);
}
END_TEST

START_TEST(a_place_spans_free_and_unmapped_neighbours)
{
    pleat_devptr p[4];
    get_four(p);
    torch_put(p[1]);
    trim();
    torch_put(p[0]);
    torch_put(p[2]);
    ck_assert_uint_eq(torch_get(60 * MIB, 0), p[0]);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.ops_map, 5);
    ck_assert_uint_eq(s.bytes_mapped, 100 * MIB);
    ck_assert_uint_eq(reserved(), 80 * MIB);
}
END_TEST

START_TEST(a_place_with_two_holes_takes_two_operations)
{
    pleat_devptr p[4];
    get_four(p);
    torch_put(p[1]);
    torch_put(p[3]);
    trim();
    torch_put(p[2]);
    ck_assert_uint_eq(torch_get(70 * MIB, 0), p[1]);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.ops_map, 6);
    ck_assert_uint_eq(s.num_device_alloc, 6);
    ck_assert_uint_eq(reserved(), 100 * MIB);
    ck_assert_uint_eq(s.free_bytes, 10 * MIB);
}
END_TEST

START_TEST(streams_have_segments_of_their_own)
{
    torch_put(torch_get(20 * MIB, 1));
    torch_get(20 * MIB, 2);
    ck_assert_uint_eq(reserved(), 40 * MIB);
    ck_assert_uint_eq(torch.sim.n_calls("cuMemAddressReserve"), 2);
}
END_TEST

/* ---- giving back ----------------------------------------------------------------------------- */

START_TEST(only_whole_pages_go_and_the_ends_stay_free)
{
    torch_get(3 * MIB, 0);
    pleat_devptr middle = torch_get(30 * MIB, 0);
    torch_get(3 * MIB, 0);
    torch_put(middle);
    ck_assert_uint_eq(trim(), 28 * MIB);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.resident_bytes, 8 * MIB);
    ck_assert_uint_eq(s.free_bytes, 2 * MIB);
    ck_assert_uint_eq(s.ops_unmap, 1);
    ck_assert_uint_eq(trim(), 0);
    ck_assert_uint_eq(torch_get(30 * MIB, 0), middle);
    ck_assert_uint_eq(torch_stats().resident_bytes, 36 * MIB);
}
END_TEST

START_TEST(each_unmapped_block_waits_for_its_stream_once)
{
    pleat_devptr p[6];
    for (unsigned i = 0; i < 6; i++) {
        p[i] = torch_get(4 * MIB, i / 3);
    }
    torch_put(torch_get(1, 0));
    torch_work(0, p[0], 4 * MIB);
    torch_put(p[0]);
    torch_put(p[2]);
    torch_put(p[4]);
    ck_assert_uint_eq(trim(), 14 * MIB);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.ops_unmap, 4);
    ck_assert_uint_eq(s.host_syncs, 4);
    ck_assert_uint_eq(s.num_device_free, 4);
}
END_TEST

START_TEST(a_segment_without_memory_gives_its_addresses_back)
{
    pleat_devptr ptr = torch_get(20 * MIB, 0);
    torch_put(torch_get(20 * MIB, 0));
    trim();
    ck_assert_uint_gt(torch_stats().address_bytes, 0);
    torch_put(ptr);
    trim();
    ck_assert_uint_eq(torch_stats().address_bytes, 0);
    torch_get(20 * MIB, 0);
    ck_assert_uint_eq(torch.sim.n_calls("cuMemAddressReserve"), 2);
}
END_TEST

START_TEST(work_of_a_destroyed_stream_is_waited_for)
{
    pleat_devptr ptr = torch_get(20 * MIB, 1);
    torch_work(1, ptr, 20 * MIB);
    torch_put(ptr);
    ck_assert_int_eq(pl_device_enter(torch.dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_destroy(torch.drv, torch.handles[1]), CU_SUCCESS);
    ck_assert_int_eq(
        pl_cu_stream_create(torch.drv, (void *)&torch.handles[1], CU_STREAM_NON_BLOCKING_FLAG),
        CU_SUCCESS);
    pl_device_leave(torch.dev);
    ck_assert_uint_eq(trim(), 20 * MIB);
}
END_TEST

START_TEST(memory_of_a_captured_stream_stays)
{
    torch_put(torch_get(20 * MIB, 1));
    torch_put(torch_get(20 * MIB, 2));
    cu_graph graph = NULL;
    int mode = CU_CAPTURE_MODE_GLOBAL;
    ck_assert_int_eq(pl_device_enter(torch.dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_begin_capture(torch.drv, torch.handles[1], mode), CU_SUCCESS);
    ck_assert_uint_eq(trim(), 20 * MIB);
    ck_assert_int_eq(pl_cu_stream_end_capture(torch.drv, torch.handles[1], &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(torch.drv, graph), CU_SUCCESS);
    pl_device_leave(torch.dev);
    ck_assert_uint_eq(trim(), 20 * MIB);
}
END_TEST

START_TEST(an_address_without_memory_is_foreign_and_a_cached_one_was_freed)
{
    pleat_devptr p[4];
    get_four(p);
    torch_put(p[1]);
    const pl_allocator_ops *ops = torch.a->ops;
    ck_assert_int_eq(ops->free(torch.a, p[1], NULL), PLEAT_EDOUBLEFREE);
    trim();
    ck_assert_int_eq(ops->free(torch.a, p[1], NULL), PLEAT_EFOREIGN);
    ck_assert_int_eq(ops->free(torch.a, p[3] + 20 * MIB, NULL), PLEAT_EFOREIGN);
    pleat_block_info info;
    ck_assert_int_eq(ops->query(torch.a, p[1], &info), PLEAT_EFOREIGN);
    ck_assert_uint_eq(torch_info(p[2] + 1).base, p[2]);
}
END_TEST

enum { MOST_PIECES = 8 };

typedef struct sight {
    size_t n;
    pl_piece pieces[MOST_PIECES];
} sight;

static void see(void *context, const pl_piece *piece)
{
    sight *s = context;
    ck_assert_uint_lt(s->n, MOST_PIECES);
    s->pieces[s->n++] = *piece;
}

START_TEST(a_visitor_sees_holes_between_memory_and_none_after_it)
{
    static const pl_piece_kind kinds[] = { PL_PIECE_LIVE, PL_PIECE_HOLE, PL_PIECE_FREE,
                                           PL_PIECE_LIVE };
    pleat_devptr p[4];
    get_four(p);
    torch_put(p[1]);
    trim();
    torch_put(p[2]);
    sight s = { .n = 0 };
    torch.a->ops->visit(torch.a, see, &s);
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

static void check_refused(const pl_allocator_options *options, pleat_status status)
{
    pl_allocator *a = NULL;
    ck_assert_int_eq(pl_torch_expandable_ops.create(torch.dev, options, &a), status);
    ck_assert_ptr_null(a);
}

START_TEST(pages_are_whole_granules)
{
    open_conf("capacity:1G", NULL);
    pl_allocator_options options = defaults();
    options.expandable_large_page_bytes = 3 * MIB;
    check_refused(&options, PLEAT_ECONF);
    ck_assert_ptr_nonnull(strstr(pl_driver_last_error()->detail, "expandable_large_page_mb"));
    options = defaults();
    options.expandable_small_page_bytes = MIB;
    check_refused(&options, PLEAT_ECONF);
    ck_assert_ptr_nonnull(strstr(pl_driver_last_error()->detail, "expandable_small_page_mb"));
    torch_close();
}
END_TEST

START_TEST(the_usual_pages_become_granules_where_those_are_larger)
{
    open_conf("capacity:1G,granularity:8M", NULL);
    torch_get(1, 0);
    ck_assert_uint_eq(reserved(), 8 * MIB);
    torch_get(2 * MIB, 0);
    ck_assert_uint_eq(reserved(), 32 * MIB);
    torch_close();
}
END_TEST

START_TEST(large_pages_follow_large_segments_unless_they_are_set)
{
    pl_allocator_options options = defaults();
    options.large_segment_bytes = 64 * MIB;
    open_conf("capacity:1G", &options);
    torch_get(2 * MIB, 0);
    ck_assert_uint_eq(reserved(), 64 * MIB);
    torch_close();
    options.expandable_large_page_bytes = 4 * MIB;
    options.expandable_small_page_bytes = 6 * MIB;
    open_conf("capacity:1G", &options);
    torch_get(5 * MIB, 0);
    ck_assert_uint_eq(reserved(), 8 * MIB);
    torch_get(1, 0);
    ck_assert_uint_eq(reserved(), 14 * MIB);
    torch_close();
}
END_TEST

START_TEST(without_virtual_memory_management_there_is_none)
{
    torch_open("capacity:1G,profile:no_vmm", NULL);
    pl_allocator_options options = defaults();
    check_refused(&options, PLEAT_ENOVMM);
    torch_close();
}
END_TEST

static TCase *make_case(const char *name, void (*open)(void))
{
    TCase *tcase = tcase_create(name);
    if (open) {
        tcase_add_checked_fixture(tcase, open, torch_close);
    }
    return tcase;
}

static void add_pages(Suite *suite)
{
    TCase *pages = make_case("pages", open_unlimited);
    tcase_add_test(pages, every_vector_of_pytorch_holds);
    tcase_add_test(pages, one_handle_backs_one_page_and_one_set_access_a_run);
    tcase_add_test(pages, a_segment_grows_in_place);
    tcase_add_test(pages, only_what_is_missing_behind_free_memory_is_mapped);
    tcase_add_test(pages, a_remainder_of_one_quantum_is_split_off_large_blocks_too);
    tcase_add_test(pages, segments_and_inactive_splits_are_not_counted);
    suite_add_tcase(suite, pages);
    TCase *addresses = make_case("addresses", NULL);
    tcase_add_test(addresses, nine_eighths_of_the_device_are_reserved_in_whole_pages);
    suite_add_tcase(suite, addresses);
}

static void add_choice(Suite *suite)
{
    TCase *fit = make_case("best fit", open_2_mib);
    tcase_add_test(fit, a_block_that_could_grow_counts_as_big_as_it_could_become);
    tcase_add_test(fit, the_search_stops_at_the_first_that_is_not_smaller);
    suite_add_tcase(suite, fit);
    TCase *place = make_case("first fit", open_unlimited);
    tcase_add_test(place, the_lowest_hole_that_is_big_enough_is_mapped);
    tcase_add_test(place, a_place_spans_free_and_unmapped_neighbours);
    tcase_add_test(place, a_place_with_two_holes_takes_two_operations);
    tcase_add_test(place, streams_have_segments_of_their_own);
    suite_add_tcase(suite, place);
}

static void add_release(Suite *suite)
{
    TCase *small = make_case("small pages", open_2_mib);
    tcase_add_test(small, only_whole_pages_go_and_the_ends_stay_free);
    tcase_add_test(small, each_unmapped_block_waits_for_its_stream_once);
    suite_add_tcase(suite, small);
    TCase *release = make_case("release", open_unlimited);
    tcase_add_test(release, a_segment_without_memory_gives_its_addresses_back);
    tcase_add_test(release, work_of_a_destroyed_stream_is_waited_for);
    tcase_add_test(release, memory_of_a_captured_stream_stays);
    tcase_add_test(release, an_address_without_memory_is_foreign_and_a_cached_one_was_freed);
    tcase_add_test(release, a_visitor_sees_holes_between_memory_and_none_after_it);
    suite_add_tcase(suite, release);
}

int main(void)
{
    Suite *suite = suite_create("segments_torch_expandable");
    add_pages(suite);
    add_choice(suite);
    add_release(suite);
    TCase *options = make_case("options", NULL);
    tcase_add_test(options, pages_are_whole_granules);
    tcase_add_test(options, the_usual_pages_become_granules_where_those_are_larger);
    tcase_add_test(options, large_pages_follow_large_segments_unless_they_are_set);
    tcase_add_test(options, without_virtual_memory_management_there_is_none);
    suite_add_tcase(suite, options);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
