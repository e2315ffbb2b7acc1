/* give_back_test.c - shrinking caches: memory that cannot go does not block memory that can. */
/* labels: unit fault */
#include <check.h>
#include <stdlib.h>

#include "tests/support/release.h"
#include "tests/support/segments/segments_cache.h"
#include "tests/support/suite.h"

/* Bit 0 chooses the block that cannot go. */
enum { N_ORDERS = 2 };

static const char *const names[] = { "mxnet-naive", "mxnet-round",  "mxnet19-naive",
                                     "tf-bfc",      "torch-native", "torch-expandable" };
enum { N_NAMES = sizeof names / sizeof names[0], N_SHARED = 4 };

static const size_t sizes[] = { 64 * MIB, 128 * MIB };

static uint64_t resident[2]; /* resident bytes of each block */

/* Two blocks, owned by stream 1 and stream 2. */
static void open_with_two(int i, pleat_devptr ptrs[2])
{
    cache_open(pl_allocator_find(names[i / N_ORDERS]), "capacity:1G,depth:1048576", NULL);
    ptrs[0] = cache_get(sizes[0], 1);
    resident[0] = cache_stats().resident_bytes;
    ptrs[1] = cache_get(sizes[1], 2);
    resident[1] = cache_stats().resident_bytes - resident[0];
}

START_TEST(what_is_in_use_is_passed_over_for_what_can_go)
{
    pleat_devptr ptrs[2];
    unsigned busy = (unsigned)_i % N_ORDERS;
    open_with_two(_i, ptrs);
    cache_work(1 + busy, ptrs[busy], sizes[busy]);
    cache_put(ptrs[0]);
    cache_put(ptrs[1]);
    ck_assert_uint_eq(cache_trim(cache_stats().resident_bytes - 1, false), sizes[1 - busy]);
    ck_assert_uint_eq(cache_trim(cache_stats().resident_bytes - 1, false), 0);
    ck_assert_uint_eq(cache_trim(0, true), sizes[busy]);
    cache_close();
}
END_TEST

START_TEST(a_limit_beside_a_capture_is_kept_by_what_can_go)
{
    pleat_devptr ptrs[2];
    unsigned captured = (unsigned)_i % N_ORDERS;
    open_with_two(_i, ptrs);
    cache_put(ptrs[0]);
    cache_put(ptrs[1]);
    cache_begin_capture(1 + captured);
    uint64_t limit = cache_stats().resident_bytes - 1;
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, limit), PLEAT_OK);
    ck_assert_uint_eq(cache_stats().resident_bytes, resident[captured]);
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, resident[captured] - 1), PLEAT_ENOMEM_DEVICE);
    cache_end_capture(1 + captured);
    ck_assert_int_eq(cache.a->ops->set_limit(cache.a, resident[captured] - 1), PLEAT_OK);
    cache_close();
}
END_TEST

START_TEST(what_the_driver_does_not_take_is_made_up_for_by_other_memory)
{
    pleat_devptr ptrs[2];
    uint64_t released = 7;
    open_with_two(_i * N_ORDERS, ptrs);
    cache_put(ptrs[0]);
    cache_put(ptrs[1]);
    uint64_t keep_bytes = cache_stats().resident_bytes - 1;
    cache.sim.fail_at("cuMemFree", 0, CACHE_UNKNOWN);
    cache.sim.fail_at("cuMemFree", 1, CACHE_UNKNOWN); /* a failed free is tried once more */
    ck_assert_int_eq(cache.a->ops->trim(cache.a, keep_bytes, true, &released), PLEAT_EDRIVER);
    ck_assert_uint_eq(released, 7);
    ck_assert_uint_le(cache_stats().resident_bytes, keep_bytes);
    cache_close();
}
END_TEST

START_TEST(what_a_capture_held_is_released_when_its_stream_is_gone)
{
    pleat_devptr ptrs[2];
    pl_stream *gone;
    open_with_two(_i * N_ORDERS, ptrs);
    cache_record(ptrs[0], 3);
    cache_begin_capture(3);
    cache_put(ptrs[0]);
    cache_put(ptrs[1]);
    cache_end_capture(3);
    gone = cache.streams[3];
    ck_assert_int_eq(pl_cu_stream_destroy(cache.sim.drv, cache.handles[3]), CU_SUCCESS);
    ck_assert_int_eq(
        pl_cu_stream_create(cache.sim.drv, &cache.handles[3], CU_STREAM_NON_BLOCKING_FLAG),
        CU_SUCCESS);
    ck_assert_int_eq(pl_stream_get(cache.dev, cache.handles[3], &cache.streams[3]), PLEAT_OK);
    (void)cache_trim(0, true);
    ck_assert_uint_eq(cache_stats().resident_bytes, resident[0]);
    cache_begin_capture(3); /* of a new stream with the recycled handle */
    ck_assert_int_eq(release_capture(cache.a, gone), PLEAT_OK);
    cache_end_capture(3);
    (void)cache_trim(0, true);
    ck_assert_uint_eq(cache_stats().resident_bytes, 0);
    cache_close();
}
END_TEST

SUITE(segments_give_back)
{
    TCase *tcase = tcase_create("two blocks");
    tcase_add_loop_test(tcase, what_is_in_use_is_passed_over_for_what_can_go, 0,
                        N_SHARED * N_ORDERS);
    tcase_add_loop_test(tcase, a_limit_beside_a_capture_is_kept_by_what_can_go, 0,
                        N_NAMES * N_ORDERS);
    tcase_add_loop_test(tcase, what_the_driver_does_not_take_is_made_up_for_by_other_memory, 0,
                        N_SHARED + 1);
    tcase_add_loop_test(tcase, what_a_capture_held_is_released_when_its_stream_is_gone, 0, N_NAMES);
    suite_add_tcase(suite, tcase);
}
