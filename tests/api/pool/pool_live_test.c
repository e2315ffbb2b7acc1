/* pool_live_test.c - private pools: users, live blocks, and blocks at given addresses. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>

#include "api/calls/internal.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"
#include "vmm/base/meta.h"

enum { GRANULE = 2 << 20 };

static const char patient[] = "capacity:256M,depth:1048576"; /* work ends only when waited for */
static const pleat_pool_id id = { 3, 9 };
static const pleat_pool_id other_id = { 3, 10 };

static pleat instance;
static void *streams[2];

static void open_pleat(void)
{
    api_sim_load();
    instance = api_make(API_PLEAT, patient, "wait_ms:0");
    streams[0] = api_stream(instance, 0);
    streams[1] = api_stream(instance, 0);
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
}

static void close_pleat(void)
{
    api_check(instance);
    sim.finish();
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    for (size_t i = 0; i < 2; i++) {
        api_stream_end(instance, 0, streams[i]);
    }
    if (pleat_pool_end(instance, 0, id) == PLEAT_OK) {
        ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
    }
    api_unmake(instance);
}

static void work(pleat_devptr ptr, size_t bytes, void *stream)
{
    pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
}

static pleat_devptr alloc(size_t bytes)
{
    return api_alloc(instance, 0, bytes, streams[0]);
}

static void give(pleat_devptr ptr)
{
    api_free(instance, 0, ptr, streams[0]);
}

static bool is_pool_just(const pleat_devptr *addresses, size_t n)
{
    bool is_same = false;
    ck_assert_int_eq(pleat_pool_compare(instance, 0, id, addresses, n, &is_same, NULL), PLEAT_OK);
    return is_same;
}

static unsigned users(pleat_pool_id of)
{
    unsigned n = 77;
    ck_assert_int_eq(pleat_pool_users(instance, 0, of, &n), PLEAT_OK);
    return n;
}

START_TEST(users_are_counted)
{
    ck_assert_uint_eq(users(id), 1);
    ck_assert_uint_eq(users(other_id), 0);
    ck_assert_int_eq(pleat_pool_hold(instance, 0, other_id), PLEAT_OK);
    ck_assert_uint_eq(users(other_id), 1);
    ck_assert_int_eq(pleat_pool_begin(instance, 0, other_id, NULL, NULL, NULL), PLEAT_OK);
    ck_assert_uint_eq(users(other_id), 2);
    ck_assert_int_eq(pleat_pool_end(instance, 0, other_id), PLEAT_OK);
    ck_assert_uint_eq(users(other_id), 2);
    ck_assert_int_eq(pleat_pool_release(instance, 0, other_id), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_hold(instance, 0, other_id), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(instance, 0, other_id), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(instance, 0, other_id), PLEAT_OK);
    ck_assert_uint_eq(users(other_id), 0);
    ck_assert_int_eq(pleat_pool_users(instance, 0, id, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_pool_hold(instance, 0, (pleat_pool_id){ 0, 0 }), PLEAT_EINVAL);
    unsigned n;
    ck_assert_int_eq(pleat_pool_users(instance, 9, id, &n), PLEAT_EDEVICE);
}
END_TEST

static uint64_t held(pleat_pool_id of)
{
    uint64_t bytes = 77;
    ck_assert_int_eq(pleat_pool_held(instance, 0, of, &bytes), PLEAT_OK);
    return bytes;
}

START_TEST(what_one_pool_holds_is_told)
{
    uint64_t bytes;
    pleat_stat all[PLEAT_N_SIZES];
    pleat_pool_id first;
    ck_assert_int_eq(pleat_pool_stats(instance, 0, 0, &first, all), PLEAT_OK);
    ck_assert_uint_eq(held(first), all[PLEAT_SIZES_ALL].current);
    ck_assert_uint_eq(held(other_id), 0);
    ck_assert_int_eq(pleat_pool_hold(instance, 0, other_id), PLEAT_OK);
    ck_assert_uint_eq(held(other_id), 0);
    ck_assert_int_eq(pleat_pool_begin(instance, 0, other_id, NULL, NULL, NULL), PLEAT_OK);
    pleat_devptr ptr = api_alloc(instance, 0, 32 << 20, NULL);
    ck_assert_uint_eq(held(other_id), 32 << 20);
    api_free(instance, 0, ptr, NULL);
    ck_assert_uint_eq(held(other_id), 32 << 20);
    ck_assert_int_eq(pleat_pool_end(instance, 0, other_id), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(instance, 0, other_id), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(instance, 0, other_id), PLEAT_OK);
    ck_assert_uint_eq(held(other_id), 0);
    ck_assert_int_eq(pleat_pool_held(instance, 0, id, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_pool_held(instance, 9, id, &bytes), PLEAT_EDEVICE);
}
END_TEST

START_TEST(live_blocks_are_compared)
{
    bool is_same;
    pleat_devptr odd;
    pleat_devptr a = alloc(512);
    pleat_devptr b = alloc(GRANULE);
    pleat_devptr c = alloc(512);
    give(c);
    pleat_devptr low = a < b ? a : b;
    pleat_devptr high = a < b ? b : a;
    pleat_devptr twice[] = { b, a, b, a, a };
    ck_assert_int_eq(pleat_pool_compare(instance, 0, id, twice, 5, &is_same, &odd), PLEAT_OK);
    ck_assert(is_same);
    ck_assert_uint_eq(odd, 0);
    ck_assert_int_eq(pleat_pool_compare(instance, 0, id, &low, 1, &is_same, &odd), PLEAT_OK);
    ck_assert(!is_same);
    ck_assert_uint_eq(odd, high);
    ck_assert_int_eq(pleat_pool_compare(instance, 0, id, &high, 1, &is_same, &odd), PLEAT_OK);
    ck_assert_uint_eq(odd, low);
    pleat_devptr more[] = { a, b, c };
    ck_assert_int_eq(pleat_pool_compare(instance, 0, id, more, 3, &is_same, &odd), PLEAT_OK);
    ck_assert(!is_same);
    ck_assert_uint_eq(odd, c);
    ck_assert(!is_pool_just((pleat_devptr[]){ 0, a, b }, 3));
    ck_assert_int_eq(pleat_pool_compare(instance, 0, other_id, more, 3, &is_same, &odd),
                     PLEAT_EPOOL);
    ck_assert_int_eq(pleat_pool_compare(instance, 0, id, NULL, 3, &is_same, &odd), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_pool_compare(instance, 0, id, more, 3, NULL, &odd), PLEAT_EINVAL);
    give(a);
    give(b);
}
END_TEST

static pleat_status alloc_at(pleat_devptr ptr, size_t bytes, void *stream)
{
    pleat_status st = pleat_pool_alloc_at(instance, 0, id, ptr, bytes, stream);
    api_check(instance);
    return st;
}

START_TEST(a_block_may_be_had_at_its_address)
{
    pleat_devptr a = alloc(4 * GRANULE);
    ck_assert_int_eq(alloc_at(a, 512, streams[0]), PLEAT_EBUSY);
    ck_assert_int_eq(alloc_at(a + GRANULE, 512, streams[0]), PLEAT_EBUSY);
    /* the block is live already */
    ck_assert_int_eq(alloc_at(a, 4 * GRANULE, streams[0]), PLEAT_EBUSY);
    work(a, 4 * GRANULE, streams[0]);
    give(a);
    ck_assert_int_eq(alloc_at(a + GRANULE, 1000, streams[1]), PLEAT_EPENDING);
    ck_assert_int_eq(alloc_at(a + GRANULE, 1000, streams[0]), PLEAT_OK);
    work(a + GRANULE, 1000, streams[0]);
    pleat_block_info info;
    ck_assert_int_eq(pleat_block_query(instance, 0, a + GRANULE + 900, &info), PLEAT_OK);
    ck_assert_uint_eq(info.base, a + GRANULE);
    ck_assert_uint_eq(info.bytes, 1024);
    ck_assert_uint_eq(info.requested_bytes, 1000);
    ck_assert_int_eq(alloc_at(a, 2 * GRANULE, streams[0]), PLEAT_EBUSY);
    ck_assert_int_eq(alloc_at(a, GRANULE, streams[0]), PLEAT_OK);
    ck_assert_int_eq(alloc_at(a + GRANULE + 1024, 3 * GRANULE - 1024, streams[0]), PLEAT_OK);
    pleat_devptr all[] = { a, a + GRANULE, a + GRANULE + 1024 };
    ck_assert(is_pool_just(all, 3));
    sim.finish();
    for (size_t i = 0; i < 3; i++) {
        give(all[i]);
    }
    api_free(instance, 0, api_alloc(instance, 0, 512, streams[1]), streams[1]); /* ticks */
    give(alloc(512));
    sim.finish();
    ck_assert_int_eq(alloc_at(a + 512, 4 * GRANULE - 512, streams[0]), PLEAT_OK);
    give(a + 512);
}
END_TEST

/* The memory there was freed in pieces. Some are settled; some are pending on the stream. */
START_TEST(a_block_may_be_had_of_pieces)
{
    pleat_devptr a[4];
    pleat_devptr whole = alloc(4 * GRANULE);
    give(whole);
    for (size_t i = 0; i < 4; i++) {
        a[i] = alloc(GRANULE);
        ck_assert_uint_eq(a[i], whole + i * GRANULE);
        work(a[i], GRANULE, streams[0]);
    }
    for (size_t i = 0; i < 4; i += 2) {
        give(a[i]);
    }
    sim.finish();
    api_free(instance, 0, api_alloc(instance, 0, 512, streams[1]), streams[1]);
    ck_assert_int_eq(alloc_at(a[0], 4 * GRANULE, streams[0]), PLEAT_EBUSY);
    give(a[1]);
    give(a[3]);
    ck_assert_int_eq(alloc_at(a[0] + 512, 4 * GRANULE - 1024, streams[0]), PLEAT_OK);
    ck_assert(is_pool_just((pleat_devptr[]){ a[0] + 512 }, 1));
    give(a[0] + 512);
}
END_TEST

START_TEST(addresses_without_memory_are_refused)
{
    pleat_devptr a = alloc(GRANULE);
    ck_assert_int_eq(alloc_at(0, 512, streams[0]), PLEAT_EINVAL);
    ck_assert_int_eq(alloc_at(a + 1, 512, streams[0]), PLEAT_EINVAL);
    ck_assert_int_eq(alloc_at(a, 0, streams[0]), PLEAT_EINVAL);
    ck_assert_int_eq(alloc_at(a, SIZE_MAX, streams[0]), PLEAT_ESIZE);
    ck_assert_int_eq(alloc_at(1 << 20, 512, streams[0]), PLEAT_EFOREIGN);
    ck_assert_int_eq(alloc_at(a + GRANULE, 64 * GRANULE, streams[0]), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "(3, 9)", "no free memory");
    give(a);
    ck_assert_int_eq(alloc_at(a, 64 * GRANULE, streams[0]), PLEAT_EFOREIGN);
    ck_assert_int_eq(pleat_pool_alloc_at(instance, 0, other_id, a, 512, streams[0]), PLEAT_EPOOL);
    for (uint64_t k = 0;; k++) {
        pl_meta_fail_at(k);
        pleat_status st = pleat_pool_alloc_at(instance, 0, id, a, 512, streams[0]);
        pl_meta_fail_never();
        api_check(instance);
        if (st == PLEAT_OK) {
            break;
        }
        ck_assert_int_eq(st, PLEAT_ENOMEM_HOST);
        ck_assert(is_pool_just(NULL, 0));
    }
    give(a);
}
END_TEST

/* The pool has unused memory: the first granules of an area left behind by an earlier pool. A
 * refusal leaves this memory as movable as before. */
START_TEST(a_refusal_pins_nothing)
{
    pleat_devptr a = alloc(8 * GRANULE);
    give(a);
    sim.finish();
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
    pleat_stats before;
    for (int round = 0; round < 2; round++) { /* the memory drains, and other streams' ticks pass */
        api_free(instance, 0, api_alloc(instance, 0, 512, streams[1]), streams[1]);
        give(alloc(512));
        uint64_t released;
        (void)!pleat_device_trim(instance, 0, 64 * GRANULE, true, &released);
        sim.finish();
    }
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
    pleat_devptr b = alloc(GRANULE + 512);
    ck_assert(b >= a && b < a + 4 * GRANULE);
    before = api_stats(instance, 0);
    ck_assert_int_eq(alloc_at(b + 2 * GRANULE + 512, 16 * GRANULE, streams[0]), PLEAT_EFOREIGN);
    ck_assert_int_eq(alloc_at(b + GRANULE + 512, 16 * GRANULE, streams[0]), PLEAT_EFOREIGN);
    pleat_stats after = api_stats(instance, 0);
    ck_assert_uint_eq(after.pinned_granules, before.pinned_granules);
    uint64_t released;
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, &released), PLEAT_OK);
    ck_assert_uint_ge(released, 5 * GRANULE);
    give(b);
}
END_TEST

/* Two live blocks, and the longest free stretch between them. */
START_TEST(the_longest_free_stretch_is_measured)
{
    uint64_t bytes = 1;
    ck_assert_int_eq(pleat_device_largest_free(instance, 0, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_device_largest_free(instance, 33, &bytes), PLEAT_EDEVICE);
    give(alloc(GRANULE)); /* a private pool's memory does not count */
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
    ck_assert_int_eq(pleat_device_largest_free(instance, 0, &bytes), PLEAT_OK);
    ck_assert_uint_eq(bytes, 0);
    pleat_devptr low = alloc(3 * GRANULE);
    pleat_devptr gap = alloc(4 * GRANULE);
    pleat_devptr high = alloc(2 * GRANULE);
    ck_assert_int_eq(pleat_device_largest_free(instance, 0, &bytes), PLEAT_OK);
    ck_assert_uint_lt(bytes, 2 * GRANULE);
    give(gap);
    ck_assert_int_eq(pleat_device_largest_free(instance, 0, &bytes), PLEAT_OK);
    ck_assert_uint_eq(bytes, 4 * GRANULE);
    give(low);
    ck_assert_int_eq(pleat_device_largest_free(instance, 0, &bytes), PLEAT_OK);
    ck_assert_uint_eq(bytes, 7 * GRANULE);
    give(high);
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK); /* first of two users */
}
END_TEST

SUITE(api_pool_live)
{
    TCase *tcase = tcase_create("users and live blocks");
    tcase_add_checked_fixture(tcase, open_pleat, close_pleat);
    tcase_add_test(tcase, users_are_counted);
    tcase_add_test(tcase, what_one_pool_holds_is_told);
    tcase_add_test(tcase, live_blocks_are_compared);
    tcase_add_test(tcase, a_block_may_be_had_at_its_address);
    tcase_add_test(tcase, a_block_may_be_had_of_pieces);
    tcase_add_test(tcase, addresses_without_memory_are_refused);
    tcase_add_test(tcase, a_refusal_pins_nothing);
    tcase_add_test(tcase, the_longest_free_stretch_is_measured);
    suite_add_tcase(suite, tcase);
}
