/* block_test.c - blocks: the results of requests, and the errors of every bad input. */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20 };

START_TEST(a_block_is_aligned_found_from_any_address_inside_and_freed_once)
{
    static const size_t sizes[] = { 1, 512, 513, 100000, MIB, 3 * MIB + 7, 20 * MIB };
    pleat instance = api_make(_i, "capacity:256M", "");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pleat_devptr ptr = api_alloc(instance, 0, sizes[i], NULL);
        const pleat_devptr inside[] = { ptr, ptr + sizes[i] / 2, ptr + sizes[i] - 1 };
        for (int at = 0; at < 3; at++) {
            pleat_block_info info;
            ck_assert_int_eq(pleat_block_query(instance, 0, inside[at], &info), PLEAT_OK);
            ck_assert_uint_eq(info.base, ptr);
            ck_assert_uint_eq(info.requested_bytes, sizes[i]);
            ck_assert_uint_ge(info.bytes, sizes[i]);
            ck_assert_int_eq(info.device, 0);
        }
        api_free(instance, 0, ptr, NULL);
        pleat_block_info info;
        ck_assert_int_eq(pleat_block_query(instance, 0, ptr, &info), PLEAT_EFOREIGN);
        pleat_status st = pleat_block_free(instance, 0, ptr, NULL);
        ck_assert(st == PLEAT_EFOREIGN || st == PLEAT_EDOUBLEFREE);
        ck_assert_int_eq(pleat_last_error()->status, st);
        api_check(instance);
    }
    api_unmake(instance);
}
END_TEST

START_TEST(bad_sizes_are_refused_before_anything_happens)
{
    static const struct {
        size_t bytes;
        pleat_status status;
        const char *part;
    } cases[] = {
        { 0, PLEAT_EINVAL, "zero bytes" },
        { ((size_t)1 << 60) + 1, PLEAT_ESIZE, "2^60" },
        { SIZE_MAX, PLEAT_ESIZE, "18446744073709551615" },
        { SIZE_MAX - 511, PLEAT_ESIZE, "2^60" },
        { (size_t)1 << 63, PLEAT_ESIZE, "2^60" },
    };
    pleat instance = api_make(_i, "capacity:64M", "");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pleat_devptr ptr = 77;
        ck_assert_int_eq(pleat_block_alloc(instance, 0, cases[i].bytes, NULL, &ptr),
                         cases[i].status);
        api_expect(cases[i].status, cases[i].part);
        ck_assert_uint_eq(pleat_last_error()->bytes, cases[i].bytes);
        ck_assert_uint_eq(ptr, 77);
    }
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 512, NULL, NULL), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "`out`");
    ck_assert_uint_eq(api_sim_counts().contexts, 0);
    api_unmake(instance);
}
END_TEST

START_TEST(sizes_no_device_has_are_out_of_memory_not_a_crash)
{
    static const unsigned shifts[] = { 30, 40, 47, 48, 59, 60 };
    pleat instance = api_make(_i, "capacity:64M", "");
    pleat_devptr kept = api_alloc(instance, 0, MIB, NULL);
    for (size_t i = 0; i < sizeof shifts / sizeof shifts[0]; i++) {
        pleat_devptr ptr = 77;
        pleat_status st = pleat_block_alloc(instance, 0, (size_t)1 << shifts[i], NULL, &ptr);
        ck_assert_msg(st == PLEAT_ENOMEM_DEVICE || st == PLEAT_ENOSPACE_VA, "2^%u: %s", shifts[i],
                      pleat_status_text(st));
        ck_assert_uint_eq(ptr, 77);
        api_check(instance);
        ck_assert_uint_eq(api_stats(instance, 0).allocation[PLEAT_SIZES_ALL].current, 1);
    }
    api_free(instance, 0, kept, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(foreign_pointers_are_named)
{
    pleat instance = api_make(_i, "capacity:64M,devices:2", "");
    pleat_block_info info;
    ck_assert_int_eq(pleat_block_free(instance, 0, 0xdead00, NULL), PLEAT_EFOREIGN);
    ck_assert_uint_eq(api_sim_counts().contexts, 0); /* a wrong pointer opens no device */
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    pleat_devptr other = api_alloc(instance, 1, 2 * MIB, NULL);
    const pleat_devptr wrong[] = { 1, 0xdead00, ptr + 512, ptr + 1, ptr - 512, UINT64_MAX };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_int_eq(pleat_block_free(instance, 0, wrong[i], NULL), PLEAT_EFOREIGN);
        ck_assert_int_eq(pleat_block_record_stream(instance, 0, wrong[i], NULL), PLEAT_EFOREIGN);
    }
    ck_assert_int_eq(pleat_block_free(instance, 0, 0xdead00, NULL), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "0xdead00", "device 0");
    ck_assert_int_eq(pleat_block_free(instance, 0, ptr + 512, NULL), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "lies inside the block");
    ck_assert_int_eq(pleat_block_free(instance, 0, other, NULL), PLEAT_EFOREIGN);
    if (other != ptr) {
        api_expect(PLEAT_EFOREIGN, "belongs to device 1");
    }
    ck_assert_int_eq(pleat_block_query(instance, 0, 0xdead00, &info), PLEAT_EFOREIGN);
    ck_assert_uint_eq(api_stats(instance, 0).allocation[PLEAT_SIZES_ALL].current, 1);
    api_free(instance, 0, ptr, NULL);
    api_free(instance, 1, other, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(null_pointers_are_invalid)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    pleat_block_info info;
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(pleat_block_free(instance, 0, 0, NULL), PLEAT_EINVAL);
        api_expect(PLEAT_EINVAL, "NULL");
        ck_assert_int_eq(pleat_block_record_stream(instance, 0, 0, NULL), PLEAT_EINVAL);
        ck_assert_int_eq(pleat_block_query(instance, 0, 0, &info), PLEAT_EINVAL);
        ck_assert_int_eq(pleat_block_query(instance, 0, 512, NULL), PLEAT_EINVAL);
        api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL); /* again, device open */
    }
    api_unmake(instance);
}
END_TEST

START_TEST(what_is_no_stream_is_refused_and_nothing_is_lost)
{
    int not_a_stream = 0;
    pleat instance = api_make(_i, "capacity:64M", "");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    pleat_devptr out = 77;
    pleat_status st = pleat_block_alloc(instance, 0, MIB, &not_a_stream, &out);
    ck_assert(st == PLEAT_EDRIVER || st == PLEAT_ESTREAM);
    api_expect(st, "stream");
    ck_assert_uint_eq(out, 77);
    ck_assert_int_ne(pleat_block_free(instance, 0, ptr, &not_a_stream), PLEAT_OK);
    ck_assert_int_ne(pleat_block_record_stream(instance, 0, ptr, &not_a_stream), PLEAT_OK);
    ck_assert_uint_eq(api_stats(instance, 0).allocation[PLEAT_SIZES_ALL].current, 1);
    api_check(instance);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(a_stream_of_another_device_is_refused)
{
    pleat instance = api_make(_i, "capacity:64M,devices:2", "");
    pleat_devptr out = 77;
    void *stream = api_stream(instance, 1);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, MIB, stream, &out), PLEAT_ESTREAM);
    api_expect(PLEAT_ESTREAM, "device 0", "another context or device");
    ck_assert_uint_eq(out, 77);
    api_free(instance, 1, api_alloc(instance, 1, MIB, stream), stream);
    api_stream_end(instance, 1, stream);
    api_unmake(instance);
}
END_TEST

START_TEST(a_block_knows_its_stream_and_may_be_recorded_on_another)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    void *a = api_stream(instance, 0);
    void *b = api_stream(instance, 0);
    pleat_devptr ptr = api_alloc(instance, 0, MIB, a);
    pleat_block_info info;
    ck_assert_int_eq(pleat_block_query(instance, 0, ptr, &info), PLEAT_OK);
    ck_assert_ptr_eq(info.stream, a);
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, ptr, b), PLEAT_OK);
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, ptr, a), PLEAT_OK);
    api_check(instance);
    api_free(instance, 0, ptr, a);
    ptr = api_alloc(instance, 0, MIB, b);
    api_free(instance, 0, ptr, b);
    api_check(instance);
    sim.finish();
    api_stream_end(instance, 0, a);
    api_stream_end(instance, 0, b);
    api_unmake(instance);
}
END_TEST

/* ---- the malloc-like pair ---- */

START_TEST(the_pair_works_on_one_default_instance)
{
    pleat first;
    pleat second;
    ck_assert_int_eq(pleat_default(NULL), PLEAT_EINVAL);
    void *blocks[1000];
    for (int i = 0; i < 1000; i++) {
        blocks[i] = pleat_malloc((size_t)(i % 100 + 1) * 700, 0, NULL);
        ck_assert_msg(blocks[i] != NULL, "%s", pleat_last_error()->text);
    }
    ck_assert_int_eq(pleat_default(&first), PLEAT_OK);
    ck_assert_uint_eq(api_stats(first, 0).allocation[PLEAT_SIZES_ALL].current, 1000);
    for (int i = 0; i < 1000; i++) {
        pleat_free(blocks[i], (size_t)(i % 100 + 1) * 700, 0, NULL);
    }
    ck_assert_uint_eq(api_stats(first, 0).allocation[PLEAT_SIZES_ALL].current, 0);
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_EINVAL); /* the error of the first line */
    ck_assert_int_eq(pleat_default(&second), PLEAT_OK);
    ck_assert_uint_eq(first.slot, second.slot);
    ck_assert_uint_eq(first.generation, second.generation);
    api_unmake(first);
}
END_TEST

START_TEST(the_pair_reports_through_the_last_error)
{
    pleat instance;
    pleat_free(NULL, 0, 0, NULL);
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_OK);
    pleat_free((void *)0x1000, 1, 0, NULL);
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_EGONE);
    ck_assert_ptr_null(pleat_malloc(0, 0, NULL));
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_EINVAL);
    ck_assert_ptr_null(pleat_malloc(SIZE_MAX, 0, NULL));
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_ESIZE);
    ck_assert_ptr_null(pleat_malloc(512, 99, NULL));
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_EDEVICE);
    pleat_free((void *)0x1000, 1, 0, NULL);
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_EFOREIGN);
    ck_assert_int_eq(pleat_default(&instance), PLEAT_OK);
    api_unmake(instance);
}
END_TEST

START_TEST(a_bad_environment_shows_in_the_pair_and_can_be_mended)
{
    pleat instance;
    ck_assert_int_eq(setenv("PLEAT_CONF", "driver:sim,growth:wild", 1), 0);
    ck_assert_ptr_null(pleat_malloc(512, 0, NULL));
    api_expect(PLEAT_ECONF, "PLEAT_CONF", "'wild'");
    ck_assert_int_eq(setenv("PLEAT_CONF", "driver:sim", 1), 0);
    void *block = pleat_malloc(512, 0, NULL);
    ck_assert_ptr_nonnull(block);
    pleat_free(block, 512, 0, NULL);
    ck_assert_int_eq(pleat_default(&instance), PLEAT_OK);
    api_unmake(instance);
}
END_TEST

START_TEST(a_default_instance_that_was_destroyed_is_made_anew)
{
    pleat first;
    pleat second;
    ck_assert_int_eq(pleat_default(&first), PLEAT_OK);
    ck_assert_int_eq(pleat_destroy(first, 0), PLEAT_OK);
    void *block = pleat_malloc(512, 0, NULL);
    ck_assert_ptr_nonnull(block);
    ck_assert_int_eq(pleat_default(&second), PLEAT_OK);
    ck_assert_uint_ne(first.generation, second.generation);
    pleat_free(block, 512, 0, NULL);
    api_unmake(second);
}
END_TEST

SUITE(api_block)
{
    TCase *each = tcase_create("each allocator");
    tcase_add_checked_fixture(each, api_sim_load, NULL);
    tcase_add_loop_test(each, a_block_is_aligned_found_from_any_address_inside_and_freed_once, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, bad_sizes_are_refused_before_anything_happens, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, sizes_no_device_has_are_out_of_memory_not_a_crash, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, foreign_pointers_are_named, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, null_pointers_are_invalid, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, what_is_no_stream_is_refused_and_nothing_is_lost, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_stream_of_another_device_is_refused, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_block_knows_its_stream_and_may_be_recorded_on_another, 0,
                        N_API_ALLOCATORS);
    suite_add_tcase(suite, each);
    TCase *pair = tcase_create("the malloc-like pair");
    tcase_add_checked_fixture(pair, api_sim_load, NULL);
    tcase_add_test(pair, the_pair_works_on_one_default_instance);
    tcase_add_test(pair, the_pair_reports_through_the_last_error);
    tcase_add_test(pair, a_bad_environment_shows_in_the_pair_and_can_be_mended);
    tcase_add_test(pair, a_default_instance_that_was_destroyed_is_made_anew);
    suite_add_tcase(suite, pair);
}
