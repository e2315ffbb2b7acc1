/* bounds_buffers_test.c - how much one hold of the device lock touches if a tag has very many
 * buffers or pages. The tag sleeps, wakes, is shared and serves requests. Counted as in
 * tests/segments/bounds/bounds_test.c. */
/* labels: unit */
#include <check.h>

#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"
#include "vmm/base/lock.h"

enum { OWN = 1, OTHER = 2, N_BUFFERS = 9000, N_PAGES = 18000, N_BLOCKS = 20000 };

#define GRANULE (2 * MIB)

static pleat_devptr buffers[N_BUFFERS];
static pl_keeper *heap;
static pl_shared_chunk chunks[N_PAGES];
static pl_shared_block named[N_BLOCKS];

static void open_room(void)
{
    pl_device_options options = { .handle_posix_fd = PL_DEMAND_FIRM };
    pleat_open_device("capacity:1T,depth:1048576", &options, NULL);
    pleat_walk_every(1000000);
    ck_assert_int_eq(pleat.a->ops->tags->open(pleat.a, "kv", &heap), PLEAT_OK);
}

static pleat_devptr make(uint64_t most_bytes, size_t page_bytes)
{
    pleat_devptr base = 0;
    ck_assert_int_eq(pleat.a->ops->buffers->open(pleat.a, heap, most_bytes, page_bytes, 0, &base),
                     PLEAT_OK);
    return base;
}

static void change(pleat_devptr base, pl_buffer_what what, uint64_t offset, uint64_t bytes)
{
    pl_buffer_change wanted = { what, base, offset, bytes };
    ck_assert_int_eq(pleat.a->ops->buffers->change(pleat.a, &wanted, pleat.streams[OWN]), PLEAT_OK);
}

static void make_buffers(void)
{
    for (size_t i = 0; i < N_BUFFERS; i++) {
        buffers[i] = make(16 * MIB, 0);
        change(buffers[i], PL_BUFFER_RESIZE, 0, GRANULE);
    }
    pl_lock_reset_touched();
}

/* Without the contents, which would be copied. */
static pleat_status rest(void)
{
    pl_sleep_how how = { .is_kept = false };
    pl_slept told;
    return pleat.a->ops->tags->sleep(pleat.a, heap, &how, &told);
}

static pleat_status wake(void)
{
    pl_slept told;
    return pleat.a->ops->tags->wake(pleat.a, heap, 0, &told);
}

static void assert_bounded(void)
{
    ck_assert_uint_le(pl_lock_most_touched(), PL_LOCK_MOST_TOUCHED);
    pleat_assert_sound();
}

START_TEST(very_many_buffers_sleep_and_wake)
{
    make_buffers();
    ck_assert_int_eq(rest(), PLEAT_OK);
    ck_assert_int_eq(wake(), PLEAT_OK);
    assert_bounded();
    ck_assert_int_eq(rest(), PLEAT_OK);
    for (size_t i = 0; i < N_BUFFERS; i += 2) { /* their pages will be holes */
        change(buffers[i], PL_BUFFER_CLOSE, 0, 0);
    }
    ck_assert_int_eq(wake(), PLEAT_OK);
    assert_bounded();
}
END_TEST

START_TEST(very_many_buffers_fail_to_sleep_and_to_wake)
{
    make_buffers();
    pleat.sim.fail_from("cuMemUnmap", N_BUFFERS / 2, CU_INVALID_VALUE);
    ck_assert_int_ne(rest(), PLEAT_OK);
    pleat.sim.fail_never();
    assert_bounded();
    ck_assert_int_eq(rest(), PLEAT_OK);
    for (size_t i = 0; i < N_BUFFERS; i += 2) {
        change(buffers[i], PL_BUFFER_CLOSE, 0, 0);
    }
    pleat.sim.fail_at("cuMemCreate", N_BUFFERS / 4, CU_INVALID_VALUE);
    ck_assert_int_ne(wake(), PLEAT_OK);
    pleat.sim.fail_at("cuMemMap", N_BUFFERS / 4, CU_INVALID_VALUE);
    ck_assert_int_ne(wake(), PLEAT_OK);
    ck_assert_int_eq(wake(), PLEAT_OK);
    assert_bounded();
}
END_TEST

/* Runs of live and of free pages alternate in one buffer. */
START_TEST(a_buffer_of_very_many_runs_sleeps_and_wakes)
{
    pleat_devptr base = make(N_PAGES * GRANULE, GRANULE);
    change(base, PL_BUFFER_RESIZE, 0, N_PAGES * GRANULE);
    pl_lock_reset_touched();
    ck_assert_int_eq(rest(), PLEAT_OK);
    for (size_t i = 0; i < N_PAGES; i += 2) {
        change(base, PL_BUFFER_DECOMMIT, i * GRANULE, GRANULE);
    }
    ck_assert_int_eq(wake(), PLEAT_OK);
    ck_assert_int_eq(rest(), PLEAT_OK);
    change(base, PL_BUFFER_RESIZE, 0, 0);
    ck_assert_int_eq(wake(), PLEAT_OK);
    assert_bounded();
}
END_TEST

START_TEST(one_block_of_very_many_granules_sleeps_and_wakes)
{
    pleat_devptr ptr = 0;
    ck_assert_int_eq(
        pleat.a->ops->alloc_asked(pleat.a, heap, N_PAGES * GRANULE, pleat.streams[OWN], NULL, &ptr),
        PLEAT_OK);
    pl_lock_reset_touched();
    ck_assert_int_eq(rest(), PLEAT_OK);
    ck_assert_int_eq(wake(), PLEAT_OK);
    ck_assert_int_eq(rest(), PLEAT_OK);
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[OWN]), PLEAT_OK);
    ck_assert_int_eq(wake(), PLEAT_OK);
    assert_bounded();
}
END_TEST

/* Free granules, all loose, are held and let go. */
START_TEST(very_many_free_granules_sleep_and_wake)
{
    pleat_devptr ptr = 0;
    ck_assert_int_eq(
        pleat.a->ops->alloc_asked(pleat.a, heap, N_PAGES * GRANULE, pleat.streams[OWN], NULL, &ptr),
        PLEAT_OK);
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[OWN]), PLEAT_OK);
    pleat.sim.finish();
    pl_lock_reset_touched();
    ck_assert_int_eq(rest(), PLEAT_OK);
    ck_assert_int_eq(wake(), PLEAT_OK);
    assert_bounded();
}
END_TEST

START_TEST(very_many_buffers_are_named_and_beside_them_requests_served)
{
    make_buffers();
    pl_share_list list = { .is_look = true };
    ck_assert_int_eq(pleat.a->ops->tags->share(pleat.a, heap, &list), PLEAT_OK);
    ck_assert_uint_eq(list.n_blocks, N_BUFFERS);
    for (unsigned stream = OWN; stream <= OTHER; stream++) {
        pleat_devptr ptr = 0;
        ck_assert_int_eq(
            pleat.a->ops->alloc_asked(pleat.a, heap, 1 * MIB, pleat.streams[stream], NULL, &ptr),
            PLEAT_OK);
    }
    assert_bounded();
    pl_lock_reset_touched();
    for (size_t i = 0; i < N_BUFFERS; i++) {
        change(buffers[i], PL_BUFFER_CLOSE, 0, 0);
    }
    (void)pleat_trim(0, true);
    assert_bounded();
}
END_TEST

/* Each chunk gets a number in a growing table. */
START_TEST(very_many_buffers_are_exported)
{
    pl_share_list list = {
        .chunks = chunks, .blocks = named, .most_chunks = N_PAGES, .most_blocks = N_BLOCKS
    };
    make_buffers();
    ck_assert_int_eq(pleat.a->ops->tags->share(pleat.a, heap, &list), PLEAT_OK);
    ck_assert_uint_eq(list.n_chunks, N_BUFFERS);
    ck_assert_uint_eq(list.n_blocks, N_BUFFERS);
    assert_bounded();
}
END_TEST

/* Thousands begin in each granule. */
START_TEST(very_many_small_blocks_sleep_wake_and_are_exported)
{
    static pleat_devptr ptrs[N_BLOCKS];
    pl_share_list list = {
        .chunks = chunks, .blocks = named, .most_chunks = N_PAGES, .most_blocks = N_BLOCKS
    };
    for (size_t i = 0; i < N_BLOCKS; i++) {
        ck_assert_int_eq(
            pleat.a->ops->alloc_asked(pleat.a, heap, 512, pleat.streams[OWN], NULL, &ptrs[i]),
            PLEAT_OK);
    }
    pl_lock_reset_touched();
    ck_assert_int_eq(rest(), PLEAT_OK);
    for (size_t i = 0; i < N_BLOCKS; i += 2) {
        ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptrs[i], pleat.streams[OWN]), PLEAT_OK);
    }
    ck_assert_int_eq(wake(), PLEAT_OK);
    assert_bounded();
    ck_assert_uint_eq(pleat_counted().pending_bytes, 0);
    ck_assert_int_eq(pleat.a->ops->tags->share(pleat.a, heap, &list), PLEAT_OK);
    ck_assert_uint_eq(list.n_blocks, N_BLOCKS / 2);
    for (size_t i = 0; i < N_BLOCKS / 2; i++) {
        ck_assert_uint_eq(named[i].base, ptrs[2 * i + 1]);
    }
    assert_bounded();
}
END_TEST

SUITE(segments_bounds_buffers)
{
    TCase *tcase = tcase_create("heap");
    tcase_add_checked_fixture(tcase, open_room, pleat_close);
    tcase_add_test(tcase, very_many_buffers_sleep_and_wake);
    tcase_add_test(tcase, very_many_buffers_fail_to_sleep_and_to_wake);
    tcase_add_test(tcase, a_buffer_of_very_many_runs_sleeps_and_wakes);
    tcase_add_test(tcase, one_block_of_very_many_granules_sleeps_and_wakes);
    tcase_add_test(tcase, very_many_free_granules_sleep_and_wake);
    tcase_add_test(tcase, very_many_buffers_are_named_and_beside_them_requests_served);
    tcase_add_test(tcase, very_many_buffers_are_exported);
    tcase_add_test(tcase, very_many_small_blocks_sleep_wake_and_are_exported);
    suite_add_tcase(suite, tcase);
}
