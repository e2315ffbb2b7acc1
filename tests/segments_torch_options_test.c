/* segments_torch_options_test.c - large segments, memory fractions, collection by age, and what a
 * visitor of torch-native sees. */
/* labels: unit */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "tests/support/segments_torch.h"

static pl_allocator_options defaults(void)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    return options;
}

static uint64_t reserved(void)
{
    return torch_stats().reserved_bytes[PLEAT_POOL_ALL].current;
}

static pleat_status try_get(size_t bytes)
{
    pleat_devptr ptr;
    return torch.a->ops->alloc(torch.a, bytes, torch.streams[0], &ptr);
}

/* ---- large segments -------------------------------------------------------------------------- */

START_TEST(requests_below_10_mib_share_segments_of_the_size_that_is_set)
{
    pl_allocator_options options = defaults();
    options.large_segment_bytes = 64 * MIB;
    torch_open("capacity:1G", &options);
    torch_get(MIB + 1, 0);
    ck_assert_uint_eq(reserved(), 64 * MIB);
    torch_get(10 * MIB - 512, 0);
    ck_assert_uint_eq(reserved(), 64 * MIB);
    torch_close();
    torch_open("capacity:1G", &options);
    torch_get(10 * MIB, 0);
    ck_assert_uint_eq(reserved(), 10 * MIB);
    torch_get(MIB, 0);
    ck_assert_uint_eq(reserved(), 12 * MIB);
    torch_close();
}
END_TEST

START_TEST(the_slack_of_oversize_blocks_is_a_large_segment_unless_it_is_set)
{
    pl_allocator_options options = defaults();
    options.large_segment_bytes = 32 * MIB;
    options.max_split_bytes = 40 * MIB;
    torch_open("capacity:1G", &options);
    pleat_devptr block = torch_get(80 * MIB, 0);
    torch_put(block);
    ck_assert_uint_eq(torch_get(48 * MIB + 512, 0), block);
    torch_put(block);
    ck_assert_uint_ne(torch_get(48 * MIB, 0), block);
    torch_close();
}
END_TEST

static void check_refused(const pl_allocator_options *options)
{
    pl_allocator *a = NULL;
    ck_assert_int_eq(pl_torch_native_ops.create(torch.dev, options, &a), PLEAT_ECONF);
    ck_assert_ptr_null(a);
}

START_TEST(large_segments_bound_the_other_sizes)
{
    torch_open("capacity:100M", NULL);
    pl_allocator_options options = defaults();
    options.large_segment_bytes = 10 * MIB;
    check_refused(&options);
    options.large_segment_bytes = 64 * MIB;
    options.max_split_bytes = 63 * MIB;
    check_refused(&options);
    options.max_split_bytes = 0;
    options.max_non_split_rounding_bytes = 63 * MIB;
    check_refused(&options);
    torch_close();
}
END_TEST

/* ---- the fraction ---------------------------------------------------------------------------- */

START_TEST(fractions_outside_of_0_to_1_are_refused)
{
    torch_open("capacity:100M", NULL);
    static const double bad[] = { -0.1, 1.1, NAN, INFINITY };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pl_allocator_options options = defaults();
        options.per_process_memory_fraction = bad[i];
        check_refused(&options);
    }
    torch_close();
}
END_TEST

START_TEST(no_more_than_the_fraction_of_the_device_is_taken)
{
    pl_allocator_options options = defaults();
    options.per_process_memory_fraction = 0.5;
    torch_open("capacity:200M", &options);
    ck_assert_int_eq(try_get(101 * MIB), PLEAT_ENOMEM_DEVICE);
    torch_get(100 * MIB, 0);
    ck_assert_int_eq(try_get(1), PLEAT_ENOMEM_DEVICE);
    torch_close();
}
END_TEST

START_TEST(of_limit_and_fraction_the_smaller_counts)
{
    pl_allocator_options options = defaults();
    options.per_process_memory_fraction = 0.5;
    options.limit_bytes = 60 * MIB;
    torch_open("capacity:200M", &options);
    ck_assert_int_eq(try_get(62 * MIB), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(torch.a->ops->set_limit(torch.a, 150 * MIB), PLEAT_OK);
    ck_assert_int_eq(try_get(102 * MIB), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(torch.a->ops->set_limit(torch.a, 0), PLEAT_OK);
    ck_assert_int_eq(try_get(102 * MIB), PLEAT_ENOMEM_DEVICE);
    torch_get(100 * MIB, 0);
    torch_close();
}
END_TEST

/* ---- collection by age ----------------------------------------------------------------------- */

enum { N_ROUNDS = 10 };

/* Blocks of 20 MiB and 24 MiB are freed and grow old, one of 32 MiB is in use again and again. */
static void age(void)
{
    pleat_devptr first = torch_get(20 * MIB, 0);
    pleat_devptr second = torch_get(24 * MIB, 0);
    torch_get(32 * MIB, 0);
    torch_put(first);
    torch_put(second);
    for (size_t i = 0; i < N_ROUNDS; i++) {
        torch_put(torch_get(28 * MIB, 0));
    }
}

START_TEST(a_fraction_of_the_device_enables_collection)
{
    pl_allocator_options options = defaults();
    options.per_process_memory_fraction = 0.5;
    options.garbage_collection_threshold = 0.5;
    torch_open("capacity:400M", &options);
    age();
    ck_assert_uint_eq(reserved(), 104 * MIB);
    torch_get(40 * MIB, 0);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.num_device_free, 2); /* both old ones, though one would do */
    ck_assert_uint_eq(s.num_alloc_retries, 0);
    ck_assert_uint_eq(s.num_sync_all_streams, 0);
    ck_assert_uint_eq(reserved(), 100 * MIB);
    torch_close();
}
END_TEST

START_TEST(without_a_limit_nothing_is_collected)
{
    pl_allocator_options options = defaults();
    options.garbage_collection_threshold = 0.1;
    torch_open("capacity:400M", &options);
    age();
    torch_get(40 * MIB, 0);
    ck_assert_uint_eq(torch_stats().num_device_free, 0);
    torch_close();
}
END_TEST

START_TEST(up_to_the_threshold_nothing_is_collected)
{
    pl_allocator_options options = defaults();
    options.limit_bytes = 208 * MIB;
    options.garbage_collection_threshold = 0.5;
    torch_open("capacity:1G", &options);
    age();
    ck_assert_uint_eq(reserved(), 104 * MIB);
    torch_get(40 * MIB, 0);
    ck_assert_uint_eq(torch_stats().num_device_free, 0);
    torch_get(36 * MIB, 0);
    ck_assert_uint_eq(torch_stats().num_device_free, 2);
    torch_close();
}
END_TEST

START_TEST(split_segments_are_not_collected)
{
    pl_allocator_options options = defaults();
    options.limit_bytes = 200 * MIB;
    options.garbage_collection_threshold = 0.1;
    torch_open("capacity:1G", &options);
    pleat_devptr part = torch_get(9 * MIB, 0);
    torch_get(9 * MIB, 0);
    torch_put(part);
    torch_get(30 * MIB, 0);
    torch_get(30 * MIB, 0);
    ck_assert_uint_eq(torch_stats().num_device_free, 0);
    ck_assert_uint_eq(torch_get(9 * MIB, 0), part);
    torch_close();
}
END_TEST

/* ---- visits ---------------------------------------------------------------------------------- */

enum { MOST_PIECES = 16 };

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

static const pl_piece *find_piece(const sight *s, pleat_devptr base)
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
    torch_open("capacity:1G,depth:1000", NULL);
    pleat_devptr live = torch_get(4 * MIB + 1, 1);
    pleat_devptr pending = torch_get(6 * MIB, 1);
    torch_get(100, 2);
    torch_work(2, pending, MIB);
    ck_assert_int_eq(torch.a->ops->record_stream(torch.a, pending, torch.streams[2]), PLEAT_OK);
    torch_put(pending);
    sight s = { .n = 0 };
    torch.a->ops->visit(torch.a, see, &s);
    ck_assert_uint_eq(s.n, 5);
    uint64_t bytes = 0;
    size_t n_first = 0;
    for (size_t i = 0; i < s.n; i++) {
        bytes += s.pieces[i].bytes;
        n_first += s.pieces[i].is_first;
        ck_assert(s.pieces[i].is_first ||
                  s.pieces[i].base == s.pieces[i - 1].base + s.pieces[i - 1].bytes);
    }
    ck_assert_uint_eq(bytes, reserved());
    ck_assert_uint_eq(n_first, 2);
    const pl_piece *piece = find_piece(&s, live);
    ck_assert(piece->is_first && piece->kind == PL_PIECE_LIVE);
    ck_assert_uint_eq(piece->requested_bytes, 4 * MIB + 1);
    ck_assert_ptr_eq(piece->stream, torch.streams[1]);
    ck_assert_int_eq(find_piece(&s, pending)->kind, PL_PIECE_PENDING);
    ck_assert_uint_eq(find_piece(&s, pending)->requested_bytes, 0);
    ck_assert_int_eq(find_piece(&s, pending + 6 * MIB)->kind, PL_PIECE_FREE);
    torch_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("segments_torch_options");
    TCase *segments = tcase_create("large segments");
    tcase_add_test(segments, requests_below_10_mib_share_segments_of_the_size_that_is_set);
    tcase_add_test(segments, the_slack_of_oversize_blocks_is_a_large_segment_unless_it_is_set);
    tcase_add_test(segments, large_segments_bound_the_other_sizes);
    suite_add_tcase(suite, segments);
    TCase *fraction = tcase_create("fraction");
    tcase_add_test(fraction, fractions_outside_of_0_to_1_are_refused);
    tcase_add_test(fraction, no_more_than_the_fraction_of_the_device_is_taken);
    tcase_add_test(fraction, of_limit_and_fraction_the_smaller_counts);
    suite_add_tcase(suite, fraction);
    TCase *collection = tcase_create("collection");
    tcase_add_test(collection, a_fraction_of_the_device_enables_collection);
    tcase_add_test(collection, without_a_limit_nothing_is_collected);
    tcase_add_test(collection, up_to_the_threshold_nothing_is_collected);
    tcase_add_test(collection, split_segments_are_not_collected);
    suite_add_tcase(suite, collection);
    TCase *visits = tcase_create("visits");
    tcase_add_test(visits, a_visitor_sees_live_free_and_pending_pieces_segment_by_segment);
    suite_add_tcase(suite, visits);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
