/* chunks_test.c - chunks of several sizes: the choice of size, takes, and giving back. */
/* labels: unit fault */
#include <check.h>

#include "segments/pleat/space/space.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_chunks.h"
#include "tests/support/segments/segments_pools.h"
#include "tests/support/segments/segments_told.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20, N_FIRST = 31, N_LARGE = 32 };

#define SIM "capacity:2G,depth:1048576" /* 1024 granules */

static void open_mixed(void)
{
    chunks_open(SIM, PL_CHUNKS_MIXED);
}

static pleat_devptr get(size_t n_granules)
{
    return pleat_get(n_granules * GRANULE, 1);
}

static void put(pleat_devptr ptr)
{
    pleat_put(ptr, 1);
}

/* How many calls the request makes. */
typedef struct cost {
    uint64_t n_create, n_map, n_release, n_unmap;
} cost;

static cost calls(void)
{
    return (cost){ .n_create = pleat_calls("cuMemCreate"),
                   .n_map = pleat_calls("cuMemMap"),
                   .n_release = pleat_calls("cuMemRelease"),
                   .n_unmap = pleat_calls("cuMemUnmap") };
}

static void assert_cost(cost before, uint64_t n_create, uint64_t n_map)
{
    cost now = calls();
    ck_assert_uint_eq(now.n_create - before.n_create, n_create);
    ck_assert_uint_eq(now.n_map - before.n_map, n_map);
}

/* Make a request that creates and maps n_chunks chunks. */
static pleat_devptr get_in(size_t n_granules, uint64_t n_chunks)
{
    cost before = calls();
    pleat_devptr ptr = get(n_granules);
    assert_cost(before, n_chunks, n_chunks);
    return ptr;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static void open_with(const char *sim, unsigned share, pl_growth growth, pl_short when_short)
{
    pl_allocator_options options;
    pleat_close();
    pl_allocator_options_init(&options);
    SET_OWN(pleat, &options, growth, growth);
    SET_OWN(pleat, &options, when_short, when_short);
    if (share > 0) {
        SET_OWN(pleat, &options, chunk_share, share);
    }
    pleat_open(sim, &options);
}

static void leave_room(size_t n_granules)
{
    uint64_t limit = (chunks_granules_held() + n_granules) * GRANULE;
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, limit), PLEAT_OK);
}

/* A chunk is at most a 32nd of what may still be created, for small requests. */
START_TEST(the_fuller_the_device_the_smaller_the_chunks)
{
    open_with(SIM, 32, PL_GROWTH_BALANCED, PL_SHORT_REFUSE);
    get_in(64, 2); /* room 1024: 32 */
    leave_room(256);
    get_in(16, 2); /* 8 */
    leave_room(64);
    get_in(4, 2); /* 2 */
    leave_room(16);
    get_in(1, 1);
}
END_TEST

/* Twelve times the share of the request, and at most twice what an empty device would get. */
START_TEST(the_larger_the_request_the_larger_its_chunks)
{
    open_with(SIM, 128, PL_GROWTH_BALANCED, PL_SHORT_REFUSE);
    get_in(768, 48); /* 16, twice what an empty device gives */
    get_in(96, 12);  /* 8, where the room is 256 */
}
END_TEST

START_TEST(what_a_large_chunk_leaves_over_is_filled_with_smaller_ones)
{
    get(N_FIRST);
    get_in(63, 6); /* 32 + 16 + 8 + 4 + 2 + 1 */
    ck_assert_uint_eq(chunks_granules_held(), N_FIRST + 63);
}
END_TEST

/* Parts of it may go. */
START_TEST(a_growing_buffer_is_no_large_request)
{
    pl_buffer_change grow = { .what = PL_BUFFER_RESIZE, .bytes = 96 * (uint64_t)GRANULE };
    open_with(SIM, 128, PL_GROWTH_BALANCED, PL_SHORT_REFUSE);
    get(864);
    ck_assert_int_eq(pleat.a->ops->buffers->open(pleat.a, NULL, grow.bytes, 0, 0, &grow.base),
                     PLEAT_OK);
    cost before = calls();
    ck_assert_int_eq(pleat.a->ops->buffers->change(pleat.a, &grow, pleat.streams[1]), PLEAT_OK);
    assert_cost(before, 96, 96);
}
END_TEST

/* Its blocks go one by one. */
START_TEST(a_wake_is_no_large_request)
{
    pl_sleep_how how = { .is_kept = false };
    pl_slept told;
    pl_keeper *heap;
    pleat_devptr ptr;
    open_with(SIM, 128, PL_GROWTH_BALANCED, PL_SHORT_REFUSE);
    get(864);
    ck_assert_int_eq(pleat.a->ops->tags->open(pleat.a, "weights", &heap), PLEAT_OK);
    for (size_t i = 0; i < 24; i++) {
        ck_assert_int_eq(pleat.a->ops->alloc_asked(pleat.a, heap, 4 * (size_t)GRANULE,
                                                   pleat.streams[1], NULL, &ptr),
                         PLEAT_OK);
    }
    ck_assert_int_eq(pleat.a->ops->tags->sleep(pleat.a, heap, &how, &told), PLEAT_OK);
    cost before = calls();
    ck_assert_int_eq(pleat.a->ops->tags->wake(pleat.a, heap, 0, &told), PLEAT_OK);
    ck_assert_uint_ge(calls().n_create - before.n_create, 96); /* 1, where the room is 160 */
}
END_TEST

START_TEST(a_limit_makes_the_device_as_small)
{
    open_with(SIM, 32, PL_GROWTH_BALANCED, PL_SHORT_REFUSE);
    leave_room(256);
    get_in(16, 2); /* 8 */
}
END_TEST

/* With nothing held, a chunk of a small request is at most 1/1500 of the device by default; frugal
 * 1/6000, ample 1/750. A third of these numbers where live memory may move, but for frugal. */
START_TEST(the_smaller_the_device_the_smaller_the_chunks)
{
    static const struct {
        const char *sim;
        pl_growth growth;
        pl_short when_short;
        uint64_t n_chunks;
    } devices[] = {
        { SIM, PL_GROWTH_BALANCED, PL_SHORT_REFUSE, 64 },
        { "capacity:16G", PL_GROWTH_BALANCED, PL_SHORT_REFUSE, 16 },
        { "capacity:16G", PL_GROWTH_FRUGAL, PL_SHORT_REFUSE, 64 },
        { "capacity:16G", PL_GROWTH_AMPLE, PL_SHORT_REFUSE, 8 },
        { "capacity:512G", PL_GROWTH_BALANCED, PL_SHORT_REFUSE, 2 },
        { "capacity:16G", PL_GROWTH_BALANCED, PL_SHORT_COMPACT, 4 },
        { "capacity:16G", PL_GROWTH_FRUGAL, PL_SHORT_COMPACT, 64 },
        { "capacity:16G", PL_GROWTH_AMPLE, PL_SHORT_COMPACT, 2 },
    };
    open_with(devices[_i].sim, 0, devices[_i].growth, devices[_i].when_short);
    get_in(64, devices[_i].n_chunks);
}
END_TEST

START_TEST(on_request_every_chunk_is_a_granule)
{
    pleat_close();
    pleat_open_granules(SIM);
    get_in(N_FIRST, N_FIRST);
    get_in(64, 64);
    get_in(200, 200);
}
END_TEST

START_TEST(a_driver_that_refuses_a_large_chunk_is_asked_for_smaller_ones)
{
    get(N_FIRST);
    cost before = calls();
    pleat.sim.fail_at("cuMemCreate", 0, CU_OUT_OF_MEMORY);
    get(N_LARGE);
    assert_cost(before, 3, 2); /* 32 refused, 16 and 16 */
    ck_assert_uint_eq(pleat.sim.n_faults(), 1);
    get_in(N_LARGE, 1);
}
END_TEST

START_TEST(a_large_chunk_made_for_a_request_that_is_refused_serves_the_next)
{
    get(N_FIRST);
    pleat.sim.fail_from("cuMemCreate", 1, CU_OUT_OF_MEMORY);
    ck_assert_int_eq(pleat_refused((size_t)2 * N_LARGE * GRANULE, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_gt(pleat.sim.n_faults(), 5); /* down to a granule */
    ck_assert_uint_eq(pleat_counted_mixed().idle_bytes, (uint64_t)N_LARGE * GRANULE);
    cost before = calls();
    get(N_LARGE);
    assert_cost(before, 0, 1);
    pleat.sim.fail_never();
}
END_TEST

/* No granule is loose, so nothing can be taken. */
START_TEST(an_idle_chunk_that_fits_nowhere_is_given_back_and_made_anew)
{
    get(N_FIRST);
    pleat.sim.fail_at("cuMemMap", 0, CU_UNKNOWN);
    ck_assert_int_eq(pleat_refused((size_t)N_LARGE * GRANULE, 1), PLEAT_EDRIVER);
    ck_assert_uint_eq(pleat_counted().idle_bytes, (uint64_t)N_LARGE * GRANULE);
    chunks_limit_to_held();
    cost before = calls();
    get_in(18, 18); /* granules, once something was gathered */
    ck_assert_uint_eq(calls().n_release - before.n_release, 1);
    get(N_LARGE - 18);
    ck_assert_int_eq(pleat_refused(512, 1), PLEAT_ENOMEM_DEVICE);
}
END_TEST

/* ---- takes ----------------------------------------------------------------------------------- */

/* Granule-sized chunks, the first on stream 2, so that frees get ticks. Then three large chunks on
 * stream 1. */
static pleat_devptr low;
static pleat_devptr middle;
static pleat_devptr high;

static void lay_out(void)
{
    pleat_get(GRANULE, 2);
    get(N_FIRST - 1);
    low = get_in(N_LARGE, 1);
    middle = get_in(N_LARGE, 1);
    high = get_in(N_LARGE, 1);
    ck_assert_uint_eq(middle, low + (uint64_t)N_LARGE * GRANULE);
    ck_assert_uint_eq(high, middle + (uint64_t)N_LARGE * GRANULE);
    chunks_limit_to_held();
}

static void open_laid_out(void)
{
    open_mixed();
    lay_out();
}

/* Afterwards the chunk has one live granule; the rest is free. */
static pleat_devptr leave_one(pleat_devptr ptr)
{
    put(ptr);
    pleat_devptr one = get(1);
    pleat_devptr rest = get(N_LARGE - 1);
    ck_assert_uint_eq(one < rest ? one : rest, ptr);
    put(rest);
    return one;
}

START_TEST(a_free_chunk_is_taken_whole_with_one_map)
{
    put(low);
    put(high);
    cost before = calls();
    uint64_t created = pl_device_counted(pleat.dev).bytes_created;
    ck_assert_uint_eq(get(2 * (size_t)N_LARGE), high);
    assert_cost(before, 0, 1);
    pleat_stats s = pleat_counted_mixed();
    ck_assert_uint_eq(s.n_taken_granules, N_LARGE);
    ck_assert_uint_eq(pl_device_counted(pleat.dev).bytes_created, created);
    ck_assert_uint_eq(s.resident_bytes, (N_FIRST + 3 * (uint64_t)N_LARGE) * GRANULE);
    ck_assert_int_eq(pleat_refused(512, 2), PLEAT_ENOMEM_DEVICE);
}
END_TEST

/* This many granules are neither live nor loose. None is kept for a graph. */
static void assert_tied(uint64_t n_granules)
{
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.tied_granules, n_granules);
    ck_assert_uint_eq(s.pinned_granules, 0);
}

START_TEST(a_chunk_with_a_live_block_stays_and_serves_what_fits_in_it)
{
    (void)leave_one(low);
    pleat_devptr held = get(N_LARGE - 1); /* keeps the next block out of this place */
    (void)leave_one(high);
    put(held);
    assert_tied(2 * (N_LARGE - 1));
    cost before = calls();
    ck_assert_int_eq(pleat_refused((size_t)40 * GRANULE, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(pleat_counted_mixed().n_taken_granules, 0);
    for (size_t i = 0; i < 2 * (N_LARGE - 1); i++) {
        get(1);
        assert_tied(2 * (N_LARGE - 1) - 1 - i);
    }
    assert_cost(before, 0, 0);
    ck_assert_int_eq(pleat_refused(GRANULE, 1), PLEAT_ENOMEM_DEVICE);
}
END_TEST

START_TEST(granules_with_as_much_free_memory_are_taken)
{
    pleat_close();
    chunks_open(SIM, PL_CHUNKS_GRANULE);
    get(N_FIRST);
    low = get(N_LARGE);
    middle = get(N_LARGE);
    high = get(N_LARGE);
    chunks_limit_to_held();
    (void)leave_one(low);
    pleat_devptr held = get(N_LARGE - 1);
    (void)leave_one(high);
    put(held);
    cost before = calls();
    get(40); /* refused in the test above */
    assert_cost(before, 0, 9);
    ck_assert_uint_eq(pleat_counted_mixed().n_taken_granules, 9);
}
END_TEST

START_TEST(a_chunk_can_be_taken_once_its_last_block_is_free)
{
    pleat_devptr one = leave_one(low);
    put(high);
    assert_tied(N_LARGE - 1);
    put(one);
    assert_tied(0);
    cost before = calls();
    get(2 * (size_t)N_LARGE);
    assert_cost(before, 0, 1);
    ck_assert_uint_eq(pleat_counted_mixed().n_taken_granules, N_LARGE);
}
END_TEST

/* ---- taking ---------------------------------------------------------------------------------- */

START_TEST(a_place_is_rounded_up_where_all_chunks_are_larger_than_what_is_missing)
{
    put(low);
    put(high);
    cost before = calls();
    ck_assert_uint_eq(get(N_LARGE + 12), high);
    assert_cost(before, 0, 1);
    pleat_stats s = pleat_counted_mixed();
    ck_assert_uint_eq(s.n_taken_granules, N_LARGE);
    ck_assert_uint_eq(s.host_syncs, 0);
    ck_assert_uint_eq(s.free_bytes, (uint64_t)(N_LARGE - 12) * GRANULE);
    ck_assert_uint_eq(get(N_LARGE - 12), high + (uint64_t)(N_LARGE + 12) * GRANULE);
    assert_cost(before, 0, 1);
}
END_TEST

/* The place is a hole of 12 granules and the free granules behind it, so a chunk of 32 does not
 * fit. */
START_TEST(memory_in_a_chunk_that_fits_nowhere_is_given_back_and_made_anew)
{
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, 0), PLEAT_OK);
    pleat_devptr hole = get(12);
    pleat_devptr chunk = get_in(N_LARGE, 1);
    put(chunk);
    ck_assert_uint_eq(get(N_LARGE - 1), chunk);
    get(1);
    put(chunk);
    put(hole);
    ck_assert_uint_eq(pleat_trim(0, true), (uint64_t)12 * GRANULE);
    put(low);
    chunks_limit_to_held();
    cost before = calls();
    ck_assert_uint_eq(get(12 + N_LARGE - 1), hole);
    assert_cost(before, 12, 12); /* granules, once something was gathered */
    ck_assert_uint_eq(calls().n_release - before.n_release, 1);
    ck_assert_uint_eq(pleat_counted_mixed().n_taken_granules, 0);
    ck_assert_uint_eq(pleat_counted_mixed().host_syncs, 0);
}
END_TEST

/* The work on the block ends only when the host waits for it. */
static void put_used(pleat_devptr ptr)
{
    pleat_work(1, ptr, GRANULE);
    put(ptr);
}

START_TEST(what_pends_in_large_chunks_is_ordered_after_and_not_waited_for)
{
    put_used(low);
    put_used(high);
    cost before = calls();
    ck_assert_uint_eq(pleat_get_and_use(2 * (size_t)N_LARGE * GRANULE, 2), high);
    pleat_stats s = pleat_counted_mixed();
    ck_assert_uint_eq(s.host_syncs, 0);
    ck_assert_uint_eq(s.stream_waits, 1);
    ck_assert_uint_eq(s.n_taken_granules, N_LARGE);
    assert_cost(before, 0, 1);
}
END_TEST

/* The first order comes early. */
START_TEST(no_wait_comes_before_the_order_of_one_stream_after_another)
{
    put_used(low);
    ck_assert_uint_eq(pleat_get_and_use(N_LARGE * (size_t)GRANULE, 2), low);
    put_used(middle);
    put_used(high);
    cost before = calls();
    ck_assert_uint_eq(pleat_get_and_use(2 * (size_t)N_LARGE * GRANULE, 2), middle);
    assert_cost(before, 0, 0);
    ck_assert_uint_eq(pleat_counted_mixed().stream_waits, 2);
    ck_assert_uint_eq(pleat_counted_mixed().host_syncs, 0);
}
END_TEST

START_TEST(what_pends_beside_a_live_block_of_its_chunk_is_ordered_after)
{
    put_used(low);
    get(1);
    pleat_get_and_use((size_t)(N_LARGE - 1) * GRANULE, 2);
    ck_assert_uint_eq(pleat_counted_mixed().stream_waits, 1);
    ck_assert_uint_eq(pleat_counted_mixed().host_syncs, 0);
}
END_TEST

START_TEST(a_failing_map_leaves_taken_chunks_where_they_are)
{
    put(low);
    put(high);
    cost before = calls();
    pleat.sim.fail_at("cuMemMap", 0, CU_UNKNOWN);
    ck_assert_int_eq(pleat_refused(2 * (size_t)N_LARGE * GRANULE, 1), PLEAT_EDRIVER);
    ck_assert_uint_eq(pleat_counted_mixed().idle_bytes, 0);
    ck_assert_uint_eq(pleat_counted_mixed().free_bytes, 2 * (uint64_t)N_LARGE * GRANULE);
    pleat.sim.fail_at("cuMemSetAccess", 0, CU_UNKNOWN);
    ck_assert_int_eq(pleat_refused(2 * (size_t)N_LARGE * GRANULE, 1), PLEAT_EDRIVER);
    ck_assert_uint_eq(pleat_counted_mixed().n_taken_granules, 0);
    ck_assert_uint_eq(get(N_LARGE), low);
    put(low);
    assert_cost(before, 0, 2);
    ck_assert_uint_eq(get(2 * (size_t)N_LARGE), high);
    assert_cost(before, 0, 3);
}
END_TEST

START_TEST(a_failing_map_leaves_a_new_chunk_idle_for_the_next_request)
{
    get(N_FIRST);
    pleat.sim.fail_at("cuMemMap", 1, CU_UNKNOWN);
    ck_assert_int_eq(pleat_refused((size_t)48 * GRANULE, 1), PLEAT_EDRIVER);
    ck_assert_uint_eq(pleat_counted_mixed().idle_bytes, (uint64_t)48 * GRANULE);
    get_in(1, 1); /* smaller than all of them */
    cost before = calls();
    get(N_LARGE + 3);
    assert_cost(before, 2, 3); /* 32 exist, and 16 do not fit into 3 */
    ck_assert_uint_eq(pleat_counted_mixed().idle_bytes, (uint64_t)16 * GRANULE);
    before = calls();
    get(16);
    assert_cost(before, 0, 1);
    ck_assert_uint_eq(pleat_counted_mixed().idle_bytes, 0);
}
END_TEST

/* ---- given back ------------------------------------------------------------------------------ */

START_TEST(a_trim_gives_back_whole_chunks)
{
    put(low);
    put(high);
    uint64_t held = pleat_counted_mixed().resident_bytes;
    cost before = calls();
    ck_assert_uint_eq(pleat_trim(held - (uint64_t)10 * GRANULE, true), (uint64_t)N_LARGE * GRANULE);
    cost after = calls();
    ck_assert_uint_eq(after.n_release - before.n_release, 1);
    ck_assert_uint_eq(after.n_unmap - before.n_unmap, 1);
    ck_assert_uint_eq(get(N_LARGE), high); /* the one above was not touched */
    assert_cost(before, 0, 0);
}
END_TEST

START_TEST(a_trim_leaves_chunks_in_which_a_block_lives)
{
    pleat_devptr one = leave_one(low);
    ck_assert_uint_eq(pleat_trim(0, true), 0);
    ck_assert_uint_eq(chunks_granules_held(), N_FIRST + 3 * N_LARGE);
    put(one);
    put(middle);
    ck_assert_uint_eq(pleat_trim(0, true), 2 * (uint64_t)N_LARGE * GRANULE);
}
END_TEST

START_TEST(a_trim_of_a_device_without_blocks_leaves_nothing)
{
    pleat_close();
    open_mixed();
    pleat_devptr all[3] = { get(N_FIRST), get(63), get(40) };
    for (unsigned i = 0; i < 3; i++) {
        put(all[i]);
    }
    ck_assert_uint_eq(pleat_trim(0, true), (uint64_t)(N_FIRST + 63 + 40) * GRANULE);
    ck_assert_uint_eq(pleat_counted_mixed().resident_bytes, 0);
    ck_assert_uint_eq(calls().n_release, calls().n_create);
}
END_TEST

START_TEST(a_release_that_fails_leaves_a_large_chunk_idle)
{
    pleat.has_failed_undo = true;
    put(low);
    pleat.sim.fail_from("cuMemRelease", 0, CU_UNKNOWN);
    uint64_t released = 0;
    ck_assert_int_ne(pleat.a->ops->trim(pleat.a, 0, true, &released), PLEAT_OK);
    pleat.sim.fail_never();
    pleat_assert_sound();
    ck_assert_uint_eq(pleat_counted_mixed().idle_bytes, (uint64_t)N_LARGE * GRANULE);
    cost before = calls();
    get(N_LARGE);
    assert_cost(before, 0, 1);
}
END_TEST

/* A request in a capture may not take memory. Large chunks are released for the request, and others
 * created. */
START_TEST(a_captured_request_gets_what_is_in_large_chunks_of_the_default_pool)
{
    pl_keeper *pool = pools_open_one();
    put_used(low);
    put_used(high);
    pools_begin_capture(2);
    uint64_t n_released = calls().n_release;
    pleat_put(pools_get(pool, (size_t)40 * GRANULE, 2), 2);
    ck_assert_uint_eq(calls().n_release - n_released, 2);
    cu_graph_exec exec = pools_end_capture(2);
    ck_assert_uint_eq(pools_reserved(pool), (uint64_t)40 * GRANULE);
    ck_assert_uint_le(chunks_granules_held(), N_FIRST + 3 * N_LARGE);
    ck_assert_uint_eq(pleat_counted_mixed().n_taken_granules, 0);
    pools_launch(exec, 3);
    pools_forget(exec);
    pools_release(pool);
}
END_TEST

/* Memory that a pool has touched is pinned. After the pool's end it is tied, if a live block is
 * beside it. */
START_TEST(what_a_private_pool_has_freed_is_tied_only_after_the_pool)
{
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, 0), PLEAT_OK);
    pl_keeper *pool = pools_open_one();
    pleat_devptr all = pools_get(pool, (size_t)N_LARGE * GRANULE, 1);
    pleat_put(all, 1);
    pleat_devptr one = pools_get(pool, GRANULE, 1);
    pleat_stats s;
    pleat.a->ops->stats(pleat.a, &s);
    ck_assert_uint_eq(s.tied_granules, 0);
    ck_assert_uint_eq(s.pinned_granules, N_LARGE - 1);
    pools_release(pool);
    pleat_trim(UINT64_MAX, true);
    assert_tied(N_LARGE - 1);
    pleat_put(one, 1);
    assert_tied(0);
}
END_TEST

/* ---- all ------------------------------------------------------------------------------------- */

static void add_sizes(Suite *suite)
{
    TCase *sizes = suite_case(suite, "sizes", open_mixed, pools_close);
    tcase_add_test(sizes, what_a_large_chunk_leaves_over_is_filled_with_smaller_ones);
    tcase_add_test(sizes, a_driver_that_refuses_a_large_chunk_is_asked_for_smaller_ones);
    tcase_add_test(sizes, a_large_chunk_made_for_a_request_that_is_refused_serves_the_next);
    tcase_add_test(sizes, a_failing_map_leaves_a_new_chunk_idle_for_the_next_request);
    tcase_add_test(sizes, an_idle_chunk_that_fits_nowhere_is_given_back_and_made_anew);
    TCase *shares = suite_case(suite, "shares", open_mixed, pleat_close);
    tcase_add_test(shares, the_fuller_the_device_the_smaller_the_chunks);
    tcase_add_test(shares, the_larger_the_request_the_larger_its_chunks);
    tcase_add_test(shares, a_wake_is_no_large_request);
    tcase_add_test(shares, a_growing_buffer_is_no_large_request);
    tcase_add_test(shares, a_limit_makes_the_device_as_small);
    tcase_add_loop_test(shares, the_smaller_the_device_the_smaller_the_chunks, 0, 8);
    tcase_add_test(shares, on_request_every_chunk_is_a_granule);
}

static void add_takes(Suite *suite)
{
    TCase *takes = suite_case(suite, "takes", open_laid_out, pools_close);
    tcase_add_test(takes, a_free_chunk_is_taken_whole_with_one_map);
    tcase_add_test(takes, a_chunk_with_a_live_block_stays_and_serves_what_fits_in_it);
    tcase_add_test(takes, granules_with_as_much_free_memory_are_taken);
    tcase_add_test(takes, a_chunk_can_be_taken_once_its_last_block_is_free);
    tcase_add_test(takes, a_place_is_rounded_up_where_all_chunks_are_larger_than_what_is_missing);
    tcase_add_test(takes, memory_in_a_chunk_that_fits_nowhere_is_given_back_and_made_anew);
    tcase_add_test(takes, what_pends_in_large_chunks_is_ordered_after_and_not_waited_for);
    tcase_add_test(takes, no_wait_comes_before_the_order_of_one_stream_after_another);
    tcase_add_test(takes, what_pends_beside_a_live_block_of_its_chunk_is_ordered_after);
    tcase_add_test(takes, a_failing_map_leaves_taken_chunks_where_they_are);
    TCase *given_back = suite_case(suite, "given back", open_laid_out, pools_close);
    tcase_add_test(given_back, a_trim_gives_back_whole_chunks);
    tcase_add_test(given_back, a_trim_leaves_chunks_in_which_a_block_lives);
    tcase_add_test(given_back, a_trim_of_a_device_without_blocks_leaves_nothing);
    tcase_add_test(given_back, a_release_that_fails_leaves_a_large_chunk_idle);
    tcase_add_test(given_back, what_a_private_pool_has_freed_is_tied_only_after_the_pool);
    tcase_add_test(given_back, a_captured_request_gets_what_is_in_large_chunks_of_the_default_pool);
}

SUITE(segments_chunks)
{
    add_sizes(suite);
    add_takes(suite);
}
