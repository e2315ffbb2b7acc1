/* host_test.c - host memory for metadata: counts, the state after a fault, leaks. */
/* labels: unit fault */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "vmm/base/host.h"

#ifndef PLEAT_HOST_SYSTEM
#include <jemalloc/jemalloc.h>
#endif

static pl_host host;

static void open_host(void)
{
    pl_host_fail_never();
    ck_assert_int_eq(pl_host_init(&host), PLEAT_OK);
}

static void close_host(void)
{
    pl_host_fail_never();
    ck_assert_uint_eq(pl_host_fini(&host), 0);
}

/* ---- accounting ------------------------------------------------------------------------------ */

START_TEST(the_counter_covers_what_was_asked_and_returns_to_zero)
{
    enum { N = 1000 };
    void *p[N];
    size_t asked = 0;
    for (size_t i = 0; i < N; i++) {
        size_t bytes = 1 + i * 37 % 5000;
        p[i] = pl_host_alloc(&host, bytes);
        ck_assert_ptr_nonnull(p[i]);
        memset(p[i], 0x5a, bytes);
        asked += bytes;
        ck_assert_uint_ge(host.bytes, asked);
    }
    ck_assert_uint_lt(host.bytes, 2 * asked);
    for (size_t i = 0; i < N; i++) {
        pl_host_free(&host, p[i]);
    }
    ck_assert_uint_eq(host.bytes, 0);
}
END_TEST

START_TEST(large_blocks_are_counted_too)
{
    size_t bytes = (size_t)64 << 20;
    char *p = pl_host_alloc(&host, bytes);
    ck_assert_ptr_nonnull(p);
    p[0] = 1;
    p[bytes - 1] = 2;
    ck_assert_uint_ge(host.bytes, bytes);
    pl_host_free(&host, p);
    ck_assert_uint_eq(host.bytes, 0);
}
END_TEST

START_TEST(of_a_reservation_only_what_is_used_counts)
{
    size_t bytes = (size_t)1 << 40;
    char *p = pl_host_reserve(&host, bytes);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(host.bytes, 0);
    ck_assert_int_eq(p[bytes - 1], 0);
    p[bytes - 1] = 1;
    pl_host_use(&host, 4096);
    ck_assert_uint_eq(host.bytes, 4096);
    pl_host_unreserve(&host, p, bytes, 4096);
    pl_host_unreserve(&host, NULL, bytes, 4096);
    ck_assert_uint_eq(host.bytes, 0);
}
END_TEST

START_TEST(a_reservation_may_be_aligned_to_its_size)
{
    char *p[8];
    for (size_t i = 0; i < 8; i++) {
        size_t bytes = (size_t)4096 << 2 * i;
        p[i] = pl_host_reserve_aligned(&host, bytes);
        ck_assert_ptr_nonnull(p[i]);
        ck_assert_uint_eq((uintptr_t)p[i] % bytes, 0);
        p[i][0] = p[i][bytes - 1] = (char)i;
        pl_host_merge_pages(p[i], bytes);
    }
    for (size_t i = 0; i < 8; i++) {
        size_t bytes = (size_t)4096 << 2 * i;
        ck_assert_int_eq(p[i][0] + p[i][bytes - 1], (int)(2 * i));
        pl_host_unreserve(&host, p[i], bytes, 0);
    }
    pl_host_fail_at(0);
    ck_assert_ptr_null(pl_host_reserve_aligned(&host, 4096));
}
END_TEST

START_TEST(a_reservation_can_fail_and_one_that_is_left_is_reported)
{
    pl_host_fail_at(0);
    ck_assert_ptr_null(pl_host_reserve(&host, 4096));
    ck_assert_ptr_null(pl_host_reserve(&host, SIZE_MAX / 2));
    char *p = pl_host_reserve(&host, 4096);
    pl_host copy = host;
    ck_assert_ptr_nonnull(p);
    pl_host_unreserve(&host, p, 4096, 0);
    ck_assert_uint_eq(copy.n_reserved, host.n_reserved + 1);
}
END_TEST

START_TEST(calloc_gives_zeroes_where_old_bytes_lay)
{
    char *p = pl_host_alloc(&host, 4096);
    memset(p, 0xff, 4096);
    pl_host_free(&host, p);
    p = pl_host_calloc(&host, 64, 64);
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < 4096; i++) {
        ck_assert_int_eq(p[i], 0);
    }
    pl_host_free(&host, p);
}
END_TEST

START_TEST(calloc_refuses_a_product_that_overflows)
{
    ck_assert_ptr_null(pl_host_calloc(&host, SIZE_MAX / 2, 3));
    ck_assert_uint_eq(host.bytes, 0);
}
END_TEST

START_TEST(an_absurd_size_is_refused_and_counts_nothing)
{
    ck_assert_ptr_null(pl_host_alloc(&host, (size_t)1 << 60));
    ck_assert_uint_eq(host.bytes, 0);
}
END_TEST

START_TEST(realloc_keeps_the_bytes_and_the_count_follows)
{
    char *p = pl_host_realloc(&host, NULL, 100);
    ck_assert_ptr_nonnull(p);
    memset(p, 7, 100);
    size_t small_bytes = host.bytes;
    p = pl_host_realloc(&host, p, 100000);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_ge(host.bytes, 100000);
    for (size_t i = 0; i < 100; i++) {
        ck_assert_int_eq(p[i], 7);
    }
    p = pl_host_realloc(&host, p, 100);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(host.bytes, small_bytes);
    pl_host_free(&host, p);
}
END_TEST

START_TEST(freeing_null_does_nothing)
{
    pl_host_free(&host, NULL);
    ck_assert_uint_eq(host.bytes, 0);
}
END_TEST

START_TEST(two_hosts_count_apart)
{
    pl_host other;
    ck_assert_int_eq(pl_host_init(&other), PLEAT_OK);
    void *p = pl_host_alloc(&other, 1000);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(host.bytes, 0);
    ck_assert_uint_ge(other.bytes, 1000);
    pl_host_free(&other, p);
    ck_assert_uint_eq(pl_host_fini(&other), 0);
}
END_TEST

START_TEST(fini_reports_the_bytes_still_held)
{
    pl_host other;
    ck_assert_int_eq(pl_host_init(&other), PLEAT_OK);
    void *p = pl_host_alloc(&other, 1000);
    ck_assert_ptr_nonnull(p);
    size_t held = other.bytes;
    ck_assert_uint_ge(held, 1000);
    ck_assert_uint_eq(pl_host_fini(&other), held);
#ifdef PLEAT_HOST_SYSTEM
    free(p); /* only an arena would have taken the block along */
#endif
}
END_TEST

START_TEST(a_second_fini_does_nothing)
{
    pl_host other;
    ck_assert_int_eq(pl_host_init(&other), PLEAT_OK);
    ck_assert_uint_eq(pl_host_fini(&other), 0);
    ck_assert_uint_eq(pl_host_fini(&other), 0);
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

START_TEST(the_kth_allocation_fails_and_the_others_do_not)
{
    for (uint64_t k = 0; k < 8; k++) {
        pl_host_fail_at(k);
        for (uint64_t i = 0; i < 8; i++) {
            void *p = pl_host_alloc(&host, 32);
            ck_assert_int_eq(p == NULL, i == k);
            pl_host_free(&host, p);
        }
    }
}
END_TEST

START_TEST(every_allocation_from_the_kth_on_fails_until_faults_end)
{
    pl_host_fail_from(3);
    for (uint64_t i = 0; i < 10; i++) {
        void *p = pl_host_calloc(&host, 1, 32);
        ck_assert_int_eq(p == NULL, i >= 3);
        pl_host_free(&host, p);
    }
    pl_host_fail_never();
    void *p = pl_host_alloc(&host, 32);
    ck_assert_ptr_nonnull(p);
    pl_host_free(&host, p);
}
END_TEST

START_TEST(a_failed_realloc_leaves_the_block_as_it_was)
{
    char *p = pl_host_alloc(&host, 100);
    memset(p, 9, 100);
    size_t bytes = host.bytes;
    pl_host_fail_at(0);
    ck_assert_ptr_null(pl_host_realloc(&host, p, 1000));
    ck_assert_uint_eq(host.bytes, bytes);
    for (size_t i = 0; i < 100; i++) {
        ck_assert_int_eq(p[i], 9);
    }
    pl_host_free(&host, p);
}
END_TEST

START_TEST(opening_a_host_is_an_allocation_that_can_fail)
{
    pl_host other;
    pl_host_fail_at(0);
    ck_assert_int_eq(pl_host_init(&other), PLEAT_ENOMEM_HOST);
    ck_assert_uint_eq(pl_host_fini(&other), 0);
}
END_TEST

START_TEST(a_new_fault_replaces_the_old_one)
{
    pl_host_fail_from(0);
    pl_host_fail_at(1);
    void *p = pl_host_alloc(&host, 8);
    ck_assert_ptr_nonnull(p);
    ck_assert_ptr_null(pl_host_alloc(&host, 8));
    pl_host_free(&host, p);
}
END_TEST

START_TEST(requests_are_counted_whether_they_succeed_or_not)
{
    uint64_t before = pl_host_n_allocs();
    void *p = pl_host_alloc(&host, 8);
    pl_host_fail_at(0);
    ck_assert_ptr_null(pl_host_alloc(&host, 8));
    ck_assert_uint_eq(pl_host_n_allocs() - before, 2);
    pl_host_free(&host, p);
}
END_TEST

#ifndef PLEAT_HOST_SYSTEM

/* Two at once, with memory of all sizes. Some memory is still held at the end. */
static void come_and_go(void)
{
    enum { N = 12 };
    pl_host pair[2];
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(pl_host_init(&pair[i]), PLEAT_OK);
    }
    for (unsigned i = 0; i < 2 * N; i++) {
        size_t bytes = (size_t)64 << i % N;
        void *p = pl_host_alloc(&pair[i % 2], bytes);
        ck_assert_ptr_nonnull(p);
        memset(p, 0x5a, bytes);
        if (i % 3 != 0) {
            pl_host_free(&pair[i % 2], p);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_gt(pl_host_fini(&pair[i]), 0);
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

START_TEST(hosts_come_and_go_and_nothing_stays)
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

START_TEST(a_closed_host_leaves_no_memory_behind)
{
    enum { BYTES = 64 << 20, MOST_PAGES = 256 };
    pl_host other;
    come_and_go();
    pages before = count_pages();
    ck_assert_int_eq(pl_host_init(&other), PLEAT_OK);
    char *p = pl_host_alloc(&other, BYTES);
    ck_assert_ptr_nonnull(p);
    memset(p, 1, BYTES);
    pl_host_free(&other, p);
    ck_assert_uint_eq(pl_host_fini(&other), 0);
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
    tcase_add_checked_fixture(tcase, open_host, close_host);
    return tcase;
}

SUITE(vmm_host)
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
    tcase_add_test(accounting, two_hosts_count_apart);
    tcase_add_test(accounting, fini_reports_the_bytes_still_held);
    tcase_add_test(accounting, a_second_fini_does_nothing);
#ifndef PLEAT_HOST_SYSTEM
    tcase_add_test(accounting, hosts_come_and_go_and_nothing_stays);
    tcase_add_test(accounting, a_closed_host_leaves_no_memory_behind);
    tcase_add_test(accounting, no_size_goes_back_to_the_system_at_once);
#endif
    suite_add_tcase(suite, accounting);

    TCase *faults = make_case("faults");
    tcase_add_test(faults, the_kth_allocation_fails_and_the_others_do_not);
    tcase_add_test(faults, every_allocation_from_the_kth_on_fails_until_faults_end);
    tcase_add_test(faults, a_failed_realloc_leaves_the_block_as_it_was);
    tcase_add_test(faults, opening_a_host_is_an_allocation_that_can_fail);
    tcase_add_test(faults, a_new_fault_replaces_the_old_one);
    tcase_add_test(faults, requests_are_counted_whether_they_succeed_or_not);
    suite_add_tcase(suite, faults);
}
