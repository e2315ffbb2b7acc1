/* torch_stats_test.c - the statistics of torch.cuda.memory_stats: keys, order, values. */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/adapters/pleat_torch.h"
#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20, N_KEYS = 123, MOST_KEYS = 4096, KEY_BYTES = 128 };

static const char *const groups[] = { "allocation",      "segment",
                                      "active",          "inactive_split",
                                      "allocated_bytes", "reserved_bytes",
                                      "active_bytes",    "inactive_split_bytes",
                                      "requested_bytes" };
static const char *const singles[] = { "oversize_allocations", "oversize_segments" };
static const char *const scalars[] = { "num_alloc_retries", "num_ooms",
                                       "max_split_size",    "num_sync_all_streams",
                                       "num_device_alloc",  "num_device_free",
                                       "num_oom_rejections" };
static const char *const pools[] = { "all", "small_pool", "large_pool" };
static const char *const metrics[] = { "current", "peak", "allocated", "freed" };

#define N_OF(array) (sizeof(array) / sizeof(array)[0])

typedef struct told {
    size_t n;
    char keys[MOST_KEYS][KEY_BYTES];
    int64_t values[MOST_KEYS];
} told;

static void see(void *context, const char *key, int64_t value)
{
    told *t = context;
    ck_assert_uint_lt(t->n, MOST_KEYS);
    ck_assert_uint_lt(strlen(key), KEY_BYTES);
    memcpy(t->keys[t->n], key, strlen(key) + 1);
    t->values[t->n++] = value;
}

static const told *tell(int device)
{
    static told t;
    t.n = 0;
    ck_assert_int_eq(pleat_torch_stats(device, see, &t), PLEAT_OK);
    return &t;
}

static int64_t value_of(const told *t, const char *key)
{
    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(t->keys[i], key) == 0) {
            return t->values[i];
        }
    }
    ck_abort_msg("no key %s", key);
    return 0;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(a, b);
}

__attribute__((format(printf, 2, 3))) static void add_key(told *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = vsnprintf(t->keys[t->n++], KEY_BYTES, format, list);
    va_end(list);
    ck_assert_int_lt(n, KEY_BYTES);
}

static void add_metrics(told *t, const char *name)
{
    for (size_t m = 0; m < N_OF(metrics); m++) {
        add_key(t, "%s.%s", name, metrics[m]);
    }
}

static void add_group(told *t, const char *name)
{
    for (size_t p = 0; p < N_OF(pools); p++) {
        char prefix[KEY_BYTES / 2];
        ck_assert_int_lt(snprintf(prefix, sizeof prefix, "%s.%s", name, pools[p]), KEY_BYTES / 2);
        add_metrics(t, prefix);
    }
}

/* PyTorch's keys without private pools, sorted as by Python. */
static void expect_keys(told *t)
{
    t->n = 0;
    for (size_t i = 0; i < N_OF(groups); i++) {
        add_group(t, groups[i]);
    }
    for (size_t i = 0; i < N_OF(singles); i++) {
        add_metrics(t, singles[i]);
    }
    for (size_t i = 0; i < N_OF(scalars); i++) {
        add_key(t, "%s", scalars[i]);
    }
}

static void sort_keys(told *t)
{
    qsort(t->keys, t->n, KEY_BYTES, compare_keys);
}

static void check_keys(const told *t, const told *expected)
{
    ck_assert_uint_eq(t->n, expected->n);
    for (size_t i = 0; i < t->n; i++) {
        ck_assert_str_eq(t->keys[i], expected->keys[i]);
    }
}

START_TEST(the_keys_are_pytorchs_123_in_pythons_order)
{
    static told expected;
    pleat instance = api_torch_make(_i, "capacity:64M", "");
    expect_keys(&expected);
    sort_keys(&expected);
    ck_assert_uint_eq(expected.n, N_KEYS);
    check_keys(tell(0), &expected);
    pleat_torch_free(pleat_torch_malloc(MIB, 0, NULL), MIB, 0, NULL);
    check_keys(tell(0), &expected);
    api_unmake(instance);
}
END_TEST

static void check_stat(const told *t, const char *name, const pleat_stat *stat)
{
    const uint64_t values[] = { stat->current, stat->peak, stat->allocated, stat->freed };
    for (size_t m = 0; m < N_OF(metrics); m++) {
        char key[KEY_BYTES];
        ck_assert_int_lt(snprintf(key, sizeof key, "%s.%s", name, metrics[m]), KEY_BYTES);
        ck_assert_msg(value_of(t, key) == (int64_t)values[m], "%s: %lld", key,
                      (long long)value_of(t, key));
    }
}

static void check_group(const told *t, const char *name, const pleat_stat group[PLEAT_N_SIZES])
{
    static const unsigned index[] = { PLEAT_SIZES_ALL, PLEAT_SIZES_SMALL, PLEAT_SIZES_LARGE };
    for (size_t p = 0; p < N_OF(pools); p++) {
        char key[KEY_BYTES / 2];
        ck_assert_int_lt(snprintf(key, sizeof key, "%s.%s", name, pools[p]), KEY_BYTES / 2);
        check_stat(t, key, &group[index[p]]);
    }
}

/* Make every countable figure differ from 0 and from all others. */
static void be_busy(pleat instance, void **kept)
{
    static const size_t sizes[] = { 1000, 600000, MIB + 1, 5 * MIB, 12 * MIB, 30 * MIB };
    for (size_t i = 0; i < N_OF(sizes); i++) {
        kept[i] = pleat_torch_malloc(sizes[i], 0, NULL);
        ck_assert_ptr_nonnull(kept[i]);
    }
    for (size_t i = 1; i < N_OF(sizes); i += 2) {
        pleat_torch_free(kept[i], sizes[i], 0, NULL);
        kept[i] = NULL;
    }
    ck_assert_ptr_null(pleat_torch_malloc(200 * MIB, 0, NULL));
    pleat_torch_reset();
    api_check(instance);
}

static void rest(void **kept)
{
    for (size_t i = 0; i < 6; i++) {
        pleat_torch_free(kept[i], 0, 0, NULL);
    }
}

START_TEST(the_values_are_those_of_pleat_device_stats)
{
    void *kept[6];
    pleat instance = api_torch_make(_i, "capacity:128M", "");
    be_busy(instance, kept);
    pleat_stats s = api_stats(instance, 0);
    const told *t = tell(0);
    check_group(t, "allocation", s.allocation);
    check_group(t, "segment", s.segment);
    check_group(t, "active", s.active);
    check_group(t, "inactive_split", s.inactive_split);
    check_group(t, "allocated_bytes", s.allocated_bytes);
    check_group(t, "reserved_bytes", s.reserved_bytes);
    check_group(t, "active_bytes", s.active_bytes);
    check_group(t, "inactive_split_bytes", s.inactive_split_bytes);
    check_group(t, "requested_bytes", s.requested_bytes);
    check_stat(t, "oversize_allocations", &s.oversize_allocations);
    check_stat(t, "oversize_segments", &s.oversize_segments);
    ck_assert_int_eq(value_of(t, "num_alloc_retries"), (int64_t)s.num_alloc_retries);
    ck_assert_int_eq(value_of(t, "num_ooms"), 1);
    ck_assert_int_eq(value_of(t, "num_sync_all_streams"), (int64_t)s.num_sync_all_streams);
    ck_assert_int_eq(value_of(t, "num_device_alloc"), (int64_t)s.num_device_alloc);
    ck_assert_int_eq(value_of(t, "num_device_free"), (int64_t)s.num_device_free);
    ck_assert_int_eq(value_of(t, "num_oom_rejections"), 0);
    ck_assert_uint_gt(s.num_device_free, 0);
    rest(kept);
    api_unmake(instance);
}
END_TEST

START_TEST(the_split_bound_is_minus_1_where_there_is_none)
{
    pleat instance = api_torch_make(_i, "capacity:64M", "");
    ck_assert_int_eq(value_of(tell(0), "max_split_size"), -1);
    api_unmake(instance);
    instance = api_torch_make(_i, "capacity:64M", "max_split_size_mb:40");
    int64_t bound = _i == API_PLEAT ? -1 : 40 * MIB; /* pleat ignores the key */
    ck_assert_int_eq(value_of(tell(0), "max_split_size"), bound);
    api_unmake(instance);
}
END_TEST

START_TEST(after_the_reset_sums_count_from_zero_and_the_rest_stays)
{
    void *kept[6];
    pleat instance = api_torch_make(_i, "capacity:128M,devices:2", "");
    be_busy(instance, kept);
    int64_t current = value_of(tell(0), "allocated_bytes.all.current");
    int64_t peak = value_of(tell(0), "allocated_bytes.all.peak");
    void *other = pleat_torch_malloc(MIB, 1, NULL);
    ck_assert_int_eq(pleat_torch_reset_accumulated(0), PLEAT_OK);
    const told *t = tell(0);
    for (size_t i = 0; i < t->n; i++) {
        const char *last = strrchr(t->keys[i], '.');
        bool is_sum = last && (strcmp(last, ".allocated") == 0 || strcmp(last, ".freed") == 0);
        bool is_counter = strncmp(t->keys[i], "num_", 4) == 0;
        ck_assert_msg((!is_sum && !is_counter) || t->values[i] == 0, "%s", t->keys[i]);
    }
    ck_assert_int_eq(value_of(t, "allocated_bytes.all.current"), current);
    ck_assert_int_eq(value_of(t, "allocated_bytes.all.peak"), peak);
    ck_assert_int_eq(value_of(tell(1), "allocation.all.allocated"), 1);
    ck_assert_uint_eq(api_stats(instance, 0).allocation[PLEAT_SIZES_ALL].allocated, 6);
    rest(kept);
    ck_assert_int_eq(value_of(tell(0), "allocated_bytes.all.freed"), current);
    ck_assert_int_eq(value_of(tell(0), "allocation.all.allocated"), 0);
    ck_assert_int_eq(value_of(tell(0), "allocation.all.freed"), 3);
    pleat_torch_free(other, MIB, 1, NULL);
    api_unmake(instance);
    instance = api_torch_make(_i, "capacity:128M", ""); /* a new instance counts from zero */
    pleat_torch_free(pleat_torch_malloc(MIB, 0, NULL), MIB, 0, NULL);
    ck_assert_int_eq(value_of(tell(0), "allocation.all.allocated"), 1);
    api_unmake(instance);
}
END_TEST

START_TEST(a_device_never_used_has_zeros_and_is_not_opened)
{
    api_torch_configure(API_PLEAT, "capacity:64M,devices:2", "");
    const told *t = tell(1);
    for (size_t i = 0; i < t->n; i++) {
        int64_t expected = strcmp(t->keys[i], "max_split_size") == 0 ? -1 : 0;
        ck_assert_int_eq(t->values[i], expected);
    }
    ck_assert_int_eq(pleat_torch_reset_accumulated(1), PLEAT_OK);
    ck_assert_uint_eq(api_sim_counts().contexts, 0);
}
END_TEST

static void come_and_go(pleat instance, uint64_t number)
{
    const pleat_pool_id id = { 3, number };
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
    pleat_torch_free(pleat_torch_malloc(MIB, 0, NULL), MIB, 0, NULL);
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
}

START_TEST(of_pools_the_present_and_the_last_16_gone_are_told)
{
    enum { N_GONE = 400, N_TOLD = 16, N_EACH = 12 };
    static const pleat_pool_id present = { 2, 7 };
    static told expected;
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M", "");
    expect_keys(&expected);
    ck_assert_int_eq(pleat_pool_begin(instance, 0, present, NULL, NULL, NULL), PLEAT_OK);
    void *kept = pleat_torch_malloc(5 * MIB, 0, NULL);
    ck_assert_int_eq(pleat_pool_end(instance, 0, present), PLEAT_OK);
    add_group(&expected, "reserved_bytes_by_private_pools.2_7");
    for (uint64_t i = 0; i < N_GONE; i++) {
        come_and_go(instance, i);
    }
    for (unsigned i = N_GONE - N_TOLD; i < N_GONE; i++) {
        char name[KEY_BYTES / 2];
        snprintf(name, sizeof name, "reserved_bytes_by_private_pools.3_%u", i);
        add_group(&expected, name);
    }
    sort_keys(&expected);
    const told *t = tell(0);
    check_keys(t, &expected);
    ck_assert_uint_eq(t->n, N_KEYS + (1 + N_TOLD) * N_EACH);
    ck_assert_int_ge(value_of(t, "reserved_bytes_by_private_pools.2_7.all.current"), 5 * MIB);
    ck_assert_int_eq(value_of(t, "reserved_bytes_by_private_pools.3_399.all.current"), 0);
    ck_assert_int_ge(value_of(t, "reserved_bytes_by_private_pools.3_399.all.peak"), MIB);
    pleat_torch_free(kept, 5 * MIB, 0, NULL);
    pleat_torch_release_pool(0, present);
    api_unmake(instance);
}
END_TEST

START_TEST(what_is_wrong_is_refused_and_nothing_is_told)
{
    static told t;
    api_torch_configure(API_PLEAT, "capacity:64M", "");
    ck_assert_int_eq(pleat_torch_stats(0, NULL, NULL), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "`see`");
    ck_assert_int_eq(pleat_torch_stats(1, see, &t), PLEAT_EDEVICE);
    ck_assert_int_eq(pleat_torch_stats(-1, see, &t), PLEAT_EDEVICE);
    ck_assert_int_eq(pleat_torch_reset_accumulated(1), PLEAT_EDEVICE);
    ck_assert_int_eq(pleat_torch_reset_accumulated(-1), PLEAT_EDEVICE);
    ck_assert_uint_eq(t.n, 0);
}
END_TEST

SUITE(api_torch_stats)
{
    TCase *each = tcase_create("each allocator");
    tcase_add_checked_fixture(each, api_sim_load, NULL);
    tcase_add_loop_test(each, the_keys_are_pytorchs_123_in_pythons_order, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, the_values_are_those_of_pleat_device_stats, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, the_split_bound_is_minus_1_where_there_is_none, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, after_the_reset_sums_count_from_zero_and_the_rest_stays, 0,
                        N_API_ALLOCATORS);
    suite_add_tcase(suite, each);
    TCase *edges = tcase_create("edges");
    tcase_add_checked_fixture(edges, api_sim_load, NULL);
    tcase_add_test(edges, a_device_never_used_has_zeros_and_is_not_opened);
    tcase_add_test(edges, of_pools_the_present_and_the_last_16_gone_are_told);
    tcase_add_test(edges, what_is_wrong_is_refused_and_nothing_is_told);
    suite_add_tcase(suite, edges);
}
