/* compact_test.c - pleat_device_compact for users: the effect, and the places of valid calls. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "segments/base/allocator.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20, N_FIRST = 31, N_LARGE = 32 };

#define MIXED "chunks:mixed,chunk_share:1"

/* The layout: 31 free granules, and a chunk of 32 granules with only the first and the last in
 * use. */
static pleat instance;
static pleat_devptr low;
static pleat_devptr high;

static void lay_out(void)
{
    instance = api_make(API_PLEAT, "capacity:2G,backing:memory", MIXED);
    pleat_devptr first = api_alloc(instance, 0, (size_t)N_FIRST * GRANULE, NULL);
    pleat_devptr large = api_alloc(instance, 0, (size_t)N_LARGE * GRANULE, NULL);
    api_free(instance, 0, large, NULL);
    low = api_alloc(instance, 0, GRANULE, NULL);
    pleat_devptr middle = api_alloc(instance, 0, (size_t)(N_LARGE - 2) * GRANULE, NULL);
    high = api_alloc(instance, 0, GRANULE, NULL);
    ck_assert_uint_eq(low, large);
    ck_assert_uint_eq(high, large + (pleat_devptr)(N_LARGE - 1) * GRANULE);
    api_free(instance, 0, middle, NULL);
    api_free(instance, 0, first, NULL);
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, (uint64_t)(N_FIRST + N_LARGE) * GRANULE),
                     PLEAT_OK);
}

static void clear(void)
{
    api_check(instance);
    api_free(instance, 0, low, NULL);
    api_free(instance, 0, high, NULL);
    api_unmake(instance);
}

START_TEST(what_is_won_is_told)
{
    pleat_compaction out;
    ck_assert_int_eq(pleat_device_compact(instance, 0, &out), PLEAT_OK);
    ck_assert_uint_eq(out.n_split, 1);
    ck_assert_uint_eq(out.moved_bytes, 2 * GRANULE);
    ck_assert_uint_eq(out.won_bytes, (uint64_t)(N_LARGE - 2) * GRANULE);
    /* free memory is given back, too */
    ck_assert_uint_eq(api_stats(instance, 0).resident_bytes, 2 * (uint64_t)GRANULE);
}
END_TEST

START_TEST(bad_arguments_are_refused)
{
    pleat_compaction out = { .n_split = 99 };
    ck_assert_int_eq(pleat_device_compact(instance, 0, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_device_compact(instance, 7, &out), PLEAT_EDEVICE);
    ck_assert_int_eq(pleat_device_compact_sized(instance, 0, 8, &out), PLEAT_EINVAL);
    ck_assert_uint_eq(out.n_split, 99);
}
END_TEST

static pleat_status in_callback;
static unsigned n_asked;

static bool compact_now(pleat asked, int device, size_t bytes, void *context)
{
    pleat_compaction out = { .n_split = 0 };
    (void)bytes;
    (void)context;
    n_asked++;
    in_callback = pleat_device_compact(asked, device, &out);
    return out.won_bytes > 0;
}

START_TEST(the_pressure_callback_may_compact)
{
    pleat_devptr ptr;
    size_t bytes = (size_t)50 * GRANULE;
    ck_assert_int_eq(pleat_block_alloc(instance, 0, bytes, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_set_pressure_callback(instance, compact_now, NULL), PLEAT_OK);
    ptr = api_alloc(instance, 0, bytes, NULL);
    ck_assert_int_eq(in_callback, PLEAT_OK);
    ck_assert_uint_eq(n_asked, 1);
    api_free(instance, 0, ptr, NULL);
    n_asked = 0;
    bytes = (size_t)(N_FIRST + N_LARGE) * GRANULE;
    ck_assert_int_eq(pleat_block_alloc(instance, 0, bytes, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(in_callback, PLEAT_OK); /* and had nothing to win */
    ck_assert_uint_eq(n_asked, 1);
}
END_TEST

START_TEST(a_device_never_used_is_not_opened)
{
    pleat_compaction out = { .n_split = 99 };
    pleat made = api_make(API_PLEAT, "", MIXED);
    ck_assert_int_eq(pleat_device_compact(made, 0, &out), PLEAT_OK);
    ck_assert_uint_eq(out.n_split, 0);
    ck_assert_uint_eq(api_sim_counts().contexts, 0);
    api_unmake(made);
}
END_TEST

START_TEST(classic_caches_cannot)
{
    const char *name = pl_allocator_name((unsigned)_i);
    char conf[64] = "driver:sim,allocator:";
    pleat made;
    pleat_compaction out;
    if (name == NULL || strcmp(name, "pleat") == 0) {
        return;
    }
    strncat(conf, name, sizeof conf - strlen(conf) - 1);
    ck_assert_int_eq(sim.reset(""), 0);
    ck_assert_int_eq(pleat_create(conf, &made), PLEAT_OK);
    pleat_devptr ptr = api_alloc(made, 0, 512, NULL);
    ck_assert_int_eq(pleat_device_compact(made, 0, &out), PLEAT_ENOTSUP);
    api_expect(PLEAT_ENOTSUP, name);
    api_free(made, 0, ptr, NULL);
    api_unmake(made);
}
END_TEST

enum { N_ALLOCATORS = 16 };

SUITE(api_compact)
{
    TCase *laid_out = suite_case(suite, "laid out", api_sim_load, NULL);
    tcase_add_checked_fixture(laid_out, lay_out, clear);
    tcase_add_test(laid_out, what_is_won_is_told);
    tcase_add_test(laid_out, bad_arguments_are_refused);
    tcase_add_test(laid_out, the_pressure_callback_may_compact);
    TCase *whom = suite_case(suite, "whom it serves", api_sim_load, NULL);
    tcase_add_test(whom, a_device_never_used_is_not_opened);
    tcase_add_loop_test(whom, classic_caches_cannot, 0, N_ALLOCATORS);
}
