/* rounding_test.c - enlarged requests: pleat's option roundup_power2_divisions, and torch's setting
 * of this name, which changes while memory is in use. */
/* labels: unit stress */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "api/adapters/pleat_torch.h"
#include "api/pleat_pool.h"
#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static pleat_block_info told(pleat instance, int device, pleat_devptr ptr)
{
    pleat_block_info info;
    ck_assert_int_eq(pleat_block_query(instance, device, ptr, &info), PLEAT_OK);
    return info;
}

/* A block of that size is made for the request. */
static pleat_devptr expect_block(pleat instance, int device, size_t requested, size_t bytes)
{
    pleat_devptr ptr = api_alloc(instance, device, requested, NULL);
    pleat_block_info info = told(instance, device, ptr);
    ck_assert_msg(info.bytes == bytes, "%zu bytes: %llu, not %zu", requested,
                  (unsigned long long)info.bytes, bytes);
    ck_assert_uint_eq(info.requested_bytes, requested);
    return ptr;
}

static void expect_size(pleat instance, int device, size_t requested, size_t bytes)
{
    api_free(instance, device, expect_block(instance, device, requested, bytes), NULL);
}

/* ---- the option ------------------------------------------------------------------------------ */

START_TEST(a_request_gets_a_block_of_the_next_step)
{
    static const struct {
        size_t requested;
        size_t bytes;
    } cases[] = {
        { 1, 512 },
        { 1200, 1536 },        /* a step would be shorter than 512 bytes */
        { 9 * KIB, 10 * KIB }, /* 8 KiB and a quarter of it */
        { 8 * KIB, 8 * KIB },  /* powers of two stay */
        { 8 * KIB + 1, 10 * KIB },
        { 84 * MIB, 96 * MIB },
        { 140 * MIB, 160 * MIB },
        { 300 * MIB, 384 * MIB }, /* from 256 MiB on in halves */
    };
    pleat instance = api_make(API_PLEAT, "capacity:2G", "roundup_power2_divisions:[128:4,>:2]");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pleat_stats before = api_stats(instance, 0);
        pleat_devptr ptr = expect_block(instance, 0, cases[i].requested, cases[i].bytes);
        pleat_stats s = api_stats(instance, 0);
        ck_assert_uint_eq(s.allocated_bytes[0].current, cases[i].bytes);
        ck_assert_uint_eq(s.active_bytes[0].current, cases[i].bytes);
        ck_assert_uint_eq(s.active_bytes[0].allocated,
                          before.active_bytes[0].allocated + cases[i].bytes);
        ck_assert_uint_eq(s.requested_bytes[0].current, cases[i].requested);
        ck_assert_uint_eq(s.rounding_bytes, cases[i].bytes - cases[i].requested);
        api_free(instance, 0, ptr, NULL);
    }
    api_unmake(instance);
}
END_TEST

START_TEST(other_allocators_keep_to_the_option)
{
    pleat instance = api_make(API_TORCH, "capacity:1G", "roundup_power2_divisions:4");
    expect_size(instance, 0, 84 * MIB, 96 * MIB);
    api_unmake(instance);
}
END_TEST

START_TEST(a_private_pool_makes_its_blocks_larger_too)
{
    pleat_pool_id id = { 7, 0 };
    pleat instance = api_make(API_PLEAT, "capacity:256M", "roundup_power2_divisions:2");
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
    pleat_devptr ptr = expect_block(instance, 0, 9 * MIB, 12 * MIB);
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
    api_free(instance, 0, ptr, NULL);
    ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
    api_unmake(instance);
}
END_TEST

/* ---- torch's setting ------------------------------------------------------------------------- */

/* The same division for all sizes. */
static pleat_status round_all(size_t division)
{
    size_t table[16];
    for (size_t i = 0; i < 16; i++) {
        table[i] = division;
    }
    return pleat_torch_set_roundup(table, 16);
}

START_TEST(a_setting_holds_on_all_devices_until_the_next)
{
    char conf[8192];
    size_t needed;
    pleat instance = api_torch_make(API_PLEAT, "capacity:256M,devices:2", "");
    expect_size(instance, 0, 9 * MIB, 9 * MIB);
    ck_assert_int_eq(round_all(4), PLEAT_OK);
    expect_size(instance, 0, 9 * MIB, 10 * MIB);
    expect_size(instance, 1, 9 * MIB, 10 * MIB); /* opened only now */
    ck_assert_int_eq(pleat_instance_conf(instance, conf, sizeof conf, &needed), PLEAT_OK);
    ck_assert_ptr_nonnull(strstr(conf, "roundup_power2_divisions:4,"));
    ck_assert_int_eq(round_all(0), PLEAT_OK);
    expect_size(instance, 0, 9 * MIB, 9 * MIB);
    expect_size(instance, 1, 9 * MIB, 9 * MIB);
    ck_assert_int_eq(pleat_instance_conf(instance, conf, sizeof conf, &needed), PLEAT_OK);
    ck_assert_ptr_nonnull(strstr(conf, "roundup_power2_divisions:0,"));
    api_unmake(instance);
}
END_TEST

START_TEST(a_setting_ends_the_one_of_the_configuration_on_devices_opened_later)
{
    pleat instance = api_torch_make(API_PLEAT, "capacity:256M", "roundup_power2_divisions:2");
    ck_assert_int_eq(round_all(0), PLEAT_OK);
    expect_size(instance, 0, 9 * MIB, 9 * MIB);
    api_unmake(instance);
}
END_TEST

START_TEST(what_was_freed_before_serves_no_larger_request)
{
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M", "");
    for (unsigned i = 0; i < 2; i++) {
        api_free(instance, 0, api_alloc(instance, 0, 9 * KIB, NULL), NULL);
    }
    ck_assert_int_eq(round_all(4), PLEAT_OK);
    expect_size(instance, 0, 9 * KIB, 10 * KIB);
    ck_assert_uint_eq(api_stats(instance, 0).allocation[0].current, 0);
    api_unmake(instance);
}
END_TEST

/* Enlarged blocks serve requests of their size. */
START_TEST(blocks_made_larger_outlive_the_setting)
{
    pleat_devptr large[8];
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M", "");
    ck_assert_int_eq(round_all(2), PLEAT_OK);
    for (unsigned i = 0; i < 8; i++) {
        large[i] = expect_block(instance, 0, 9 * KIB, 12 * KIB);
    }
    ck_assert_int_eq(round_all(1), PLEAT_OK);
    for (unsigned i = 0; i < 1000; i++) {
        expect_size(instance, 0, 9 * KIB, 9 * KIB);
    }
    for (unsigned i = 0; i < 8; i++) {
        ck_assert_uint_eq(told(instance, 0, large[i]).requested_bytes, 9 * KIB);
        api_free(instance, 0, large[i], NULL);
    }
    for (unsigned i = 0; i < 8; i++) {
        large[i] = expect_block(instance, 0, 12 * KIB - i, 12 * KIB);
    }
    ck_assert_uint_eq(api_stats(instance, 0).allocated_bytes[0].current, 96 * KIB);
    ck_assert_uint_eq(api_stats(instance, 0).requested_bytes[0].current, 96 * KIB - 28);
    for (unsigned i = 0; i < 8; i++) {
        api_free(instance, 0, large[i], NULL);
    }
    ck_assert_uint_eq(api_stats(instance, 0).requested_bytes[0].current, 0);
    api_unmake(instance);
}
END_TEST

START_TEST(a_setting_that_is_none_changes_nothing)
{
    size_t table[16] = { 0 };
    pleat instance = api_torch_make(API_PLEAT, "capacity:256M", "");
    ck_assert_int_eq(round_all(2), PLEAT_OK);
    table[5] = 3;
    ck_assert_int_eq(pleat_torch_set_roundup(table, 16), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "roundup_power2_divisions: 3 is neither 0 nor a power of two");
    table[5] = (size_t)1 << 40;
    ck_assert_int_eq(pleat_torch_set_roundup(table, 16), PLEAT_EINVAL);
    table[5] = 4;
    ck_assert_int_eq(pleat_torch_set_roundup(table, 15), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "15 entries, not 16");
    ck_assert_int_eq(pleat_torch_set_roundup(NULL, 16), PLEAT_EINVAL);
    expect_size(instance, 0, 9 * MIB, 12 * MIB);
    api_unmake(instance);
}
END_TEST

START_TEST(an_allocator_that_takes_none_says_so)
{
    pleat instance = api_torch_make(API_TORCH, "capacity:256M", "");
    ck_assert_int_eq(round_all(4), PLEAT_ENOTSUP);
    api_expect(PLEAT_ENOTSUP, "torch-native");
    expect_size(instance, 0, 9 * MIB, 9 * MIB);
    api_unmake(instance);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct worker {
    pleat instance;
    pthread_t thread;
    bool is_odd; /* a block had a size that neither setting gives */
} worker;

static void *work(void *context)
{
    enum { N = 4000 };
    worker *w = context;
    pleat_devptr ptr;
    for (unsigned i = 0; i < N; i++) {
        pleat_block_info info = { 0 };
        if (pleat_block_alloc(w->instance, 0, 9 * KIB, NULL, &ptr) != PLEAT_OK ||
            pleat_block_query(w->instance, 0, ptr, &info) != PLEAT_OK ||
            (info.bytes != 9 * KIB && info.bytes != 10 * KIB) || info.requested_bytes != 9 * KIB ||
            pleat_block_free(w->instance, 0, ptr, NULL) != PLEAT_OK) {
            w->is_odd = true;
        }
    }
    return NULL;
}

START_TEST(settings_change_beside_threads_that_allocate)
{
    enum { N_WORKERS = 3, N_CHANGES = 200 };
    worker workers[N_WORKERS];
    int broken;
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M", "");
    for (unsigned i = 0; i < N_WORKERS; i++) {
        workers[i] = (worker){ .instance = instance };
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    bool is_refused = false;
    for (unsigned i = 0; i < N_CHANGES; i++) {
        is_refused = round_all(i % 2 ? 0 : 4) != PLEAT_OK || is_refused;
    }
    for (unsigned i = 0; i < N_WORKERS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
        ck_assert(!workers[i].is_odd);
    }
    ck_assert(!is_refused);
    pleat_stats s = api_stats(instance, 0);
    ck_assert_uint_eq(s.allocated_bytes[0].current, 0);
    ck_assert_uint_eq(s.requested_bytes[0].current, 0);
    ck_assert_int_eq(pleat_check(instance, &broken), PLEAT_OK);
    ck_assert_int_eq(broken, 0);
    api_unmake(instance);
}
END_TEST

SUITE(api_rounding)
{
    TCase *option = suite_case(suite, "option", api_sim_load, NULL);
    tcase_add_test(option, a_request_gets_a_block_of_the_next_step);
    tcase_add_test(option, other_allocators_keep_to_the_option);
    tcase_add_test(option, a_private_pool_makes_its_blocks_larger_too);
    TCase *setting = suite_case(suite, "setting", api_sim_load, NULL);
    tcase_add_test(setting, a_setting_holds_on_all_devices_until_the_next);
    tcase_add_test(setting, a_setting_ends_the_one_of_the_configuration_on_devices_opened_later);
    tcase_add_test(setting, what_was_freed_before_serves_no_larger_request);
    tcase_add_test(setting, blocks_made_larger_outlive_the_setting);
    tcase_add_test(setting, a_setting_that_is_none_changes_nothing);
    tcase_add_test(setting, an_allocator_that_takes_none_says_so);
    TCase *threads = suite_case(suite, "threads", api_sim_load, NULL);
    tcase_add_test(threads, settings_change_beside_threads_that_allocate);
}
