/* meta_test.c - host memory for metadata: counts, the state after a fault, leaks. */
/* labels: unit fault */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "vmm/base/meta.h"

#ifndef PLEAT_META_SYSTEM
#include <jemalloc/jemalloc.h>
#endif

static pl_meta meta;

static void open_domain(void)
{
    pl_meta_fail_never();
    ck_assert_int_eq(pl_meta_init(&meta), PLEAT_OK);
}

static void close_domain(void)
{
    pl_meta_fail_never();
    ck_assert_uint_eq(pl_meta_fini(&meta), 0);
}

/* ---- accounting ------------------------------------------------------------------------------ */

START_TEST(the_counter_covers_what_was_asked_and_returns_to_zero)
{
    enum { N = 1000 };
    void *p[N];
    size_t asked = 0;
    for (size_t i = 0; i < N; i++) {
        size_t bytes = 1 + i * 37 % 5000;
        p[i] = pl_meta_alloc(&meta, bytes);
        ck_assert_ptr_nonnull(p[i]);
        memset(p[i], 0x5a, bytes);
        asked += bytes;
        ck_assert_uint_ge(meta.bytes, asked);
    }
    ck_assert_uint_lt(meta.bytes, 2 * asked);
    for (size_t i = 0; i < N; i++) {
        pl_meta_free(&meta, p[i]);
    }
    ck_assert_uint_eq(meta.bytes, 0);
}
END_TEST

START_TEST(large_blocks_are_counted_too)
{
    size_t bytes = (size_t)64 << 20;
    char *p = pl_meta_alloc(&meta, bytes);
    ck_assert_ptr_nonnull(p);
    p[0] = 1;
    p[bytes - 1] = 2;
    ck_assert_uint_ge(meta.bytes, bytes);
    pl_meta_free(&meta, p);
    ck_assert_uint_eq(meta.bytes, 0);
}
END_TEST

START_TEST(of_a_reservation_only_what_is_used_counts)
{
    size_t bytes = (size_t)1 << 40;
    char *p = pl_meta_reserve(&meta, bytes);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(meta.bytes, 0);
    ck_assert_int_eq(p[bytes - 1], 0);
    p[bytes - 1] = 1;
    pl_meta_use(&meta, 4096);
    ck_assert_uint_eq(meta.bytes, 4096);
    pl_meta_unreserve(&meta, p, bytes, 4096);
    pl_meta_unreserve(&meta, NULL, bytes, 4096);
    ck_assert_uint_eq(meta.bytes, 0);
}
END_TEST

START_TEST(a_reservation_may_be_aligned_to_its_size)
{
    char *p[8];
    for (size_t i = 0; i < 8; i++) {
        size_t bytes = (size_t)4096 << 2 * i;
        p[i] = pl_meta_reserve_aligned(&meta, bytes);
        ck_assert_ptr_nonnull(p[i]);
        ck_assert_uint_eq((uintptr_t)p[i] % bytes, 0);
        p[i][0] = p[i][bytes - 1] = (char)i;
        pl_meta_merge_pages(p[i], bytes);
    }
    for (size_t i = 0; i < 8; i++) {
        size_t bytes = (size_t)4096 << 2 * i;
        ck_assert_int_eq(p[i][0] + p[i][bytes - 1], (int)(2 * i));
        pl_meta_unreserve(&meta, p[i], bytes, 0);
    }
    pl_meta_fail_at(0);
    ck_assert_ptr_null(pl_meta_reserve_aligned(&meta, 4096));
}
END_TEST

START_TEST(a_reservation_can_fail_and_one_that_is_left_is_reported)
{
    pl_meta_fail_at(0);
    ck_assert_ptr_null(pl_meta_reserve(&meta, 4096));
    ck_assert_ptr_null(pl_meta_reserve(&meta, SIZE_MAX / 2));
    char *p = pl_meta_reserve(&meta, 4096);
    pl_meta copy = meta;
    ck_assert_ptr_nonnull(p);
    pl_meta_unreserve(&meta, p, 4096, 0);
    ck_assert_uint_eq(copy.n_reserved, meta.n_reserved + 1);
}
END_TEST

START_TEST(calloc_gives_zeroes_where_old_bytes_lay)
{
    char *p = pl_meta_alloc(&meta, 4096);
    memset(p, 0xff, 4096);
    pl_meta_free(&meta, p);
    p = pl_meta_calloc(&meta, 64, 64);
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < 4096; i++) {
        ck_assert_int_eq(p[i], 0);
    }
    pl_meta_free(&meta, p);
}
END_TEST

START_TEST(calloc_refuses_a_product_that_overflows)
{
    ck_assert_ptr_null(pl_meta_calloc(&meta, SIZE_MAX / 2, 3));
    ck_assert_uint_eq(meta.bytes, 0);
}
END_TEST

START_TEST(an_absurd_size_is_refused_and_counts_nothing)
{
    ck_assert_ptr_null(pl_meta_alloc(&meta, (size_t)1 << 60));
    ck_assert_uint_eq(meta.bytes, 0);
}
END_TEST

START_TEST(realloc_keeps_the_bytes_and_the_count_follows)
{
    char *p = pl_meta_realloc(&meta, NULL, 100);
    ck_assert_ptr_nonnull(p);
    memset(p, 7, 100);
    size_t small_bytes = meta.bytes;
    p = pl_meta_realloc(&meta, p, 100000);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_ge(meta.bytes, 100000);
    for (size_t i = 0; i < 100; i++) {
        ck_assert_int_eq(p[i], 7);
    }
    p = pl_meta_realloc(&meta, p, 100);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(meta.bytes, small_bytes);
    pl_meta_free(&meta, p);
}
END_TEST

START_TEST(freeing_null_does_nothing)
{
    pl_meta_free(&meta, NULL);
    ck_assert_uint_eq(meta.bytes, 0);
}
END_TEST

START_TEST(two_domains_count_apart)
{
    pl_meta other;
    ck_assert_int_eq(pl_meta_init(&other), PLEAT_OK);
    void *p = pl_meta_alloc(&other, 1000);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(meta.bytes, 0);
    ck_assert_uint_ge(other.bytes, 1000);
    pl_meta_free(&other, p);
    ck_assert_uint_eq(pl_meta_fini(&other), 0);
}
END_TEST

START_TEST(fini_reports_the_bytes_still_held)
{
    pl_meta other;
    ck_assert_int_eq(pl_meta_init(&other), PLEAT_OK);
    void *p = pl_meta_alloc(&other, 1000);
    ck_assert_ptr_nonnull(p);
    size_t held = other.bytes;
    ck_assert_uint_ge(held, 1000);
    ck_assert_uint_eq(pl_meta_fini(&other), held);
#ifdef PLEAT_META_SYSTEM
    free(p); /* only an arena would have taken the block along */
#endif
}
END_TEST

START_TEST(a_second_fini_does_nothing)
{
    pl_meta other;
    ck_assert_int_eq(pl_meta_init(&other), PLEAT_OK);
    ck_assert_uint_eq(pl_meta_fini(&other), 0);
    ck_assert_uint_eq(pl_meta_fini(&other), 0);
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

START_TEST(the_kth_allocation_fails_and_the_others_do_not)
{
    for (uint64_t k = 0; k < 8; k++) {
        pl_meta_fail_at(k);
        for (uint64_t i = 0; i < 8; i++) {
            void *p = pl_meta_alloc(&meta, 32);
            ck_assert_int_eq(p == NULL, i == k);
            pl_meta_free(&meta, p);
        }
    }
}
END_TEST

START_TEST(every_allocation_from_the_kth_on_fails_until_faults_end)
{
    pl_meta_fail_from(3);
    for (uint64_t i = 0; i < 10; i++) {
        void *p = pl_meta_calloc(&meta, 1, 32);
        ck_assert_int_eq(p == NULL, i >= 3);
        pl_meta_free(&meta, p);
    }
    pl_meta_fail_never();
    void *p = pl_meta_alloc(&meta, 32);
    ck_assert_ptr_nonnull(p);
    pl_meta_free(&meta, p);
}
END_TEST

START_TEST(a_failed_realloc_leaves_the_block_as_it_was)
{
    char *p = pl_meta_alloc(&meta, 100);
    memset(p, 9, 100);
    size_t bytes = meta.bytes;
    pl_meta_fail_at(0);
    ck_assert_ptr_null(pl_meta_realloc(&meta, p, 1000));
    ck_assert_uint_eq(meta.bytes, bytes);
    for (size_t i = 0; i < 100; i++) {
        ck_assert_int_eq(p[i], 9);
    }
    pl_meta_free(&meta, p);
}
END_TEST

START_TEST(opening_a_domain_is_an_allocation_that_can_fail)
{
    pl_meta other;
    pl_meta_fail_at(0);
    ck_assert_int_eq(pl_meta_init(&other), PLEAT_ENOMEM_HOST);
    ck_assert_uint_eq(pl_meta_fini(&other), 0);
}
END_TEST

START_TEST(a_new_fault_replaces_the_old_one)
{
    pl_meta_fail_from(0);
    pl_meta_fail_at(1);
    void *p = pl_meta_alloc(&meta, 8);
    ck_assert_ptr_nonnull(p);
    ck_assert_ptr_null(pl_meta_alloc(&meta, 8));
    pl_meta_free(&meta, p);
}
END_TEST

START_TEST(requests_are_counted_whether_they_succeed_or_not)
{
    uint64_t before = pl_meta_n_allocs();
    void *p = pl_meta_alloc(&meta, 8);
    pl_meta_fail_at(0);
    ck_assert_ptr_null(pl_meta_alloc(&meta, 8));
    ck_assert_uint_eq(pl_meta_n_allocs() - before, 2);
    pl_meta_free(&meta, p);
}
END_TEST

#ifndef PLEAT_META_SYSTEM

/* Two at once, with memory of all sizes. Some memory is still held at the end. */
static void come_and_go(void)
{
    enum { N = 12 };
    pl_meta pair[2];
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(pl_meta_init(&pair[i]), PLEAT_OK);
    }
    for (unsigned i = 0; i < 2 * N; i++) {
        size_t bytes = (size_t)64 << i % N;
        void *p = pl_meta_alloc(&pair[i % 2], bytes);
        ck_assert_ptr_nonnull(p);
        memset(p, 0x5a, bytes);
        if (i % 3 != 0) {
            pl_meta_free(&pair[i % 2], p);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_gt(pl_meta_fini(&pair[i]), 0);
    }
}

/* This process's addresses and memory. */
typedef struct pages {
    long mapped;
    long resident;
} pages;

static pages count_pages(void)
{
    pages n;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%ld %ld", &n.mapped, &n.resident), 2);
    (void)fclose(file);
    return n;
}

START_TEST(domains_come_and_go_and_nothing_stays)
{
    enum { FIRST = 100, ALL = 5000, MOST_PAGES = 256 };
    pages before = { 0, 0 };
    for (unsigned i = 0; i < ALL; i++) {
        come_and_go();
        before = i == FIRST ? count_pages() : before;
    }
    pages after = count_pages();
    ck_assert_int_le(after.mapped, before.mapped + MOST_PAGES);
    ck_assert_int_le(after.resident, before.resident + MOST_PAGES);
}
END_TEST

START_TEST(a_closed_domain_leaves_no_memory_behind)
{
    enum { BYTES = 64 << 20, MOST_PAGES = 256 };
    pl_meta other;
    come_and_go();
    pages before = count_pages();
    ck_assert_int_eq(pl_meta_init(&other), PLEAT_OK);
    char *p = pl_meta_alloc(&other, BYTES);
    ck_assert_ptr_nonnull(p);
    memset(p, 1, BYTES);
    pl_meta_free(&other, p);
    ck_assert_uint_eq(pl_meta_fini(&other), 0);
    ck_assert_int_le(count_pages().resident, before.resident + MOST_PAGES);
}
END_TEST

/* By default jemalloc gives freed blocks of 8 MiB back at once, which takes milliseconds. */
START_TEST(no_size_goes_back_to_the_system_at_once)
{
    size_t threshold = 1;
    size_t n = sizeof threshold;
    ck_assert_int_eq(je_mallctl("opt.oversize_threshold", &threshold, &n, NULL, 0), 0);
    ck_assert_uint_eq(threshold, 0);
}
END_TEST

#endif

static TCase *make_case(const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open_domain, close_domain);
    return tcase;
}

SUITE(vmm_meta)
{
    TCase *accounting = make_case("accounting");
    tcase_add_test(accounting, the_counter_covers_what_was_asked_and_returns_to_zero);
    tcase_add_test(accounting, large_blocks_are_counted_too);
    tcase_add_test(accounting, of_a_reservation_only_what_is_used_counts);
    tcase_add_test(accounting, a_reservation_can_fail_and_one_that_is_left_is_reported);
    tcase_add_test(accounting, a_reservation_may_be_aligned_to_its_size);
    tcase_add_test(accounting, calloc_gives_zeroes_where_old_bytes_lay);
    tcase_add_test(accounting, calloc_refuses_a_product_that_overflows);
    tcase_add_test(accounting, an_absurd_size_is_refused_and_counts_nothing);
    tcase_add_test(accounting, realloc_keeps_the_bytes_and_the_count_follows);
    tcase_add_test(accounting, freeing_null_does_nothing);
    tcase_add_test(accounting, two_domains_count_apart);
    tcase_add_test(accounting, fini_reports_the_bytes_still_held);
    tcase_add_test(accounting, a_second_fini_does_nothing);
#ifndef PLEAT_META_SYSTEM
    tcase_add_test(accounting, domains_come_and_go_and_nothing_stays);
    tcase_add_test(accounting, a_closed_domain_leaves_no_memory_behind);
    tcase_add_test(accounting, no_size_goes_back_to_the_system_at_once);
#endif
    suite_add_tcase(suite, accounting);

    TCase *faults = make_case("faults");
    tcase_add_test(faults, the_kth_allocation_fails_and_the_others_do_not);
    tcase_add_test(faults, every_allocation_from_the_kth_on_fails_until_faults_end);
    tcase_add_test(faults, a_failed_realloc_leaves_the_block_as_it_was);
    tcase_add_test(faults, opening_a_domain_is_an_allocation_that_can_fail);
    tcase_add_test(faults, a_new_fault_replaces_the_old_one);
    tcase_add_test(faults, requests_are_counted_whether_they_succeed_or_not);
    suite_add_tcase(suite, faults);
}
