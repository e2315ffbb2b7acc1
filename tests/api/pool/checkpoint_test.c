/* checkpoint_test.c - checkpoints of private pools, and their restores. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "api/calls/internal.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/restores.h"
#include "tests/support/suite.h"
#include "vmm/base/lock.h"
#include "vmm/base/meta.h"

enum { KIB = 1 << 10, MIB = 1 << 20, GRANULE = 2 << 20 };

static const char patient[] = "capacity:256M,depth:1048576"; /* work ends only when waited for */
static const pleat_pool_id id = { 3, 9 };
static const pleat_pool_id other_id = { 3, 10 };

static pleat instance;
static void *streams[2];
static restores told;

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
    restores_clear(&told);
}

static pleat_checkpoint take(void)
{
    pleat_checkpoint checkpoint;
    pleat_status st = pleat_checkpoint_take(instance, 0, id, &checkpoint);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return checkpoint;
}

static void restore(pleat_checkpoint checkpoint, unsigned flags)
{
    restores_clear(&told);
    pleat_status st = pleat_checkpoint_restore(instance, 0, checkpoint, flags, restores_see, &told);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    api_check(instance);
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

static void expect_told(size_t n_freed, size_t n_kept, size_t n_made)
{
    ck_assert_uint_eq(told.n[PLEAT_RESTORED_FREED], n_freed);
    ck_assert_uint_eq(told.n[PLEAT_RESTORED_KEPT], n_kept);
    ck_assert_uint_eq(told.n[PLEAT_RESTORED_MADE], n_made);
}

static bool is_pool_just(const pleat_devptr *addresses, size_t n)
{
    bool is_same = false;
    ck_assert_int_eq(pleat_pool_compare(instance, 0, id, addresses, n, &is_same, NULL), PLEAT_OK);
    return is_same;
}

/* ---- what a restore does --------------------------------------------------------------------- */

START_TEST(blocks_live_again_at_their_addresses)
{
    pleat_devptr a = alloc(100 * KIB);
    pleat_devptr b = alloc(700);
    pleat_devptr c = alloc(5 * MIB);
    pleat_checkpoint checkpoint = take();
    pleat_stats before = api_stats(instance, 0);
    give(a);
    give(c);
    restore(checkpoint, 0);
    expect_told(0, 1, 2);
    ck_assert_uint_eq(restores_find(&told, PLEAT_RESTORED_MADE, a)->requested_bytes, 100 * KIB);
    ck_assert_uint_eq(restores_find(&told, PLEAT_RESTORED_KEPT, b)->requested_bytes, 700);
    ck_assert_uint_eq(restores_find(&told, PLEAT_RESTORED_KEPT, b)->bytes, 1024);
    ck_assert_ptr_eq(restores_find(&told, PLEAT_RESTORED_MADE, c)->stream, streams[0]);
    pleat_stats after = api_stats(instance, 0);
    ck_assert_uint_eq(after.allocated_bytes[0].current, before.allocated_bytes[0].current);
    ck_assert_uint_eq(after.requested_bytes[0].current, before.requested_bytes[0].current);
    ck_assert_uint_eq(after.allocation[0].current, 3);
    ck_assert_uint_eq(after.allocation[0].peak, 3);
    ck_assert_uint_eq(after.resident_bytes, before.resident_bytes);
    ck_assert(is_pool_just((pleat_devptr[]){ c, a, b }, 3));
    pleat_devptr d = alloc(100 * KIB);
    ck_assert(d >= a + 100 * KIB || d + 100 * KIB <= a);
    give(a);
    give(b);
    give(c);
    give(d);
}
END_TEST

START_TEST(what_the_checkpoint_lacks_is_freed)
{
    pleat_devptr a = alloc(2 * GRANULE);
    pleat_checkpoint checkpoint = take();
    give(a);
    pleat_devptr b = alloc(GRANULE); /* at a's address */
    pleat_devptr c = alloc(5 * GRANULE);
    pleat_devptr d = alloc(600);
    ck_assert_uint_eq(b, a);
    restore(checkpoint, 0);
    expect_told(3, 0, 1);
    ck_assert_ptr_nonnull(restores_find(&told, PLEAT_RESTORED_FREED, c));
    ck_assert_ptr_nonnull(restores_find(&told, PLEAT_RESTORED_FREED, d));
    ck_assert_uint_eq(restores_find(&told, PLEAT_RESTORED_FREED, b)->bytes, GRANULE);
    ck_assert(is_pool_just(&a, 1));
    ck_assert_int_ne(pleat_block_free(instance, 0, c, streams[0]), PLEAT_OK);
    give(a);
}
END_TEST

START_TEST(an_empty_checkpoint_frees_all)
{
    pleat_checkpoint checkpoint = take();
    restore(checkpoint, 0);
    expect_told(0, 0, 0);
    (void)alloc(10);
    (void)alloc(GRANULE);
    restore(checkpoint, 0);
    expect_told(2, 0, 0);
    ck_assert(is_pool_just(NULL, 0));
    ck_assert_uint_eq(api_stats(instance, 0).allocation[0].current, 0);
}
END_TEST

START_TEST(a_second_restore_keeps_all)
{
    pleat_devptr a[6];
    for (size_t i = 0; i < 6; i++) {
        a[i] = alloc((i + 1) * 100 * KIB);
    }
    give(a[3]);
    pleat_checkpoint checkpoint = take();
    give(a[0]);
    give(a[5]);
    restore(checkpoint, 0);
    expect_told(0, 3, 2);
    restore(checkpoint, 0);
    expect_told(0, 5, 0);
    ck_assert_int_eq(pleat_checkpoint_restore(instance, 0, checkpoint, 0, NULL, NULL), PLEAT_OK);
    ck_assert(is_pool_just((pleat_devptr[]){ a[0], a[1], a[2], a[4], a[5] }, 5));
    pleat_checkpoint empty = checkpoint;
    ck_assert_int_eq(pleat_checkpoint_release(instance, 0, checkpoint), PLEAT_OK);
    ck_assert_int_eq(pleat_checkpoint_release(instance, 0, empty), PLEAT_EINVAL);
    for (size_t i = 0; i < 6; i++) {
        if (i != 3) {
            give(a[i]);
        }
    }
}
END_TEST

/* A large block replaces many small ones, and the reverse. */
START_TEST(blocks_of_other_sizes_are_replaced)
{
    enum { N = 64 };
    pleat_devptr small[N];
    pleat_devptr large = alloc(N * 256 * KIB);
    pleat_checkpoint with_large = take();
    give(large);
    for (size_t i = 0; i < N; i++) {
        small[i] = alloc(256 * KIB);
    }
    pleat_checkpoint with_small = take();
    restore(with_large, 0);
    expect_told(N, 0, 1);
    ck_assert(is_pool_just(&large, 1));
    restore(with_small, 0);
    expect_told(1, 0, N);
    ck_assert(is_pool_just(small, N));
    for (size_t i = 0; i < N; i += 2) {
        give(small[i]);
    }
    restore(with_large, PLEAT_RESTORE_SETTLED);
    expect_told(N / 2, 0, 1);
    restore(with_small, PLEAT_RESTORE_SETTLED);
    for (size_t i = 0; i < N; i++) {
        give(small[i]);
    }
}
END_TEST

START_TEST(the_same_address_may_get_another_owner)
{
    pleat_devptr a = alloc(GRANULE);
    pleat_checkpoint checkpoint = take();
    give(a);
    sim.finish();
    pleat_devptr b = api_alloc(instance, 0, GRANULE, streams[1]);
    ck_assert_uint_eq(b, a);
    restore(checkpoint, 0);
    expect_told(1, 0, 1);
    ck_assert_ptr_eq(restores_find(&told, PLEAT_RESTORED_FREED, a)->stream, streams[1]);
    pleat_block_info info;
    ck_assert_int_eq(pleat_block_query(instance, 0, a, &info), PLEAT_OK);
    ck_assert_ptr_eq(info.stream, streams[0]);
    give(a);
}
END_TEST

START_TEST(requested_sizes_come_back)
{
    pleat_devptr a = alloc(513);
    pleat_checkpoint checkpoint = take();
    give(a);
    ck_assert_uint_eq(alloc(1024), a);
    restore(checkpoint, 0);
    expect_told(1, 0, 1);
    pleat_block_info info;
    ck_assert_int_eq(pleat_block_query(instance, 0, a, &info), PLEAT_OK);
    ck_assert_uint_eq(info.requested_bytes, 513);
    give(a);
}
END_TEST

/* ---- streams --------------------------------------------------------------------------------- */

/* Stream 1 still works on memory that a restore has given back to stream 0. When the block is
 * freed, a third stream has to wait for stream 1. */
START_TEST(what_another_stream_used_since_is_waited_for)
{
    pleat_devptr a = alloc(GRANULE);
    pleat_checkpoint checkpoint = take();
    give(a);
    sim.finish();
    ck_assert_uint_eq(api_alloc(instance, 0, GRANULE, streams[1]), a);
    work(a, GRANULE, streams[1]);
    api_free(instance, 0, a, streams[1]);
    restore(checkpoint, 0);
    expect_told(0, 0, 1);
    give(a);
    pleat_devptr b = alloc(GRANULE); /* on stream 0, which did not wait for stream 1 */
    ck_assert_uint_ne(b, a);
    work(b, GRANULE, streams[0]);
    sim.finish();
    give(b);
}
END_TEST

/* Half of what stream 1 may still use would be a block of the checkpoint's. */
START_TEST(part_of_what_other_streams_use_is_not_given)
{
    pleat_devptr a = alloc(GRANULE);
    pleat_devptr b = alloc(GRANULE);
    pleat_checkpoint checkpoint = take();
    give(a);
    give(b);
    pleat_devptr c = alloc(2 * GRANULE);
    ck_assert_uint_eq(c, a);
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, c, streams[1]), PLEAT_OK);
    work(c, GRANULE, streams[1]);
    for (int is_freed = 0; is_freed < 2; is_freed++) {
        pleat_devptr d = alloc(3 * GRANULE);
        pleat_status st = pleat_checkpoint_restore(instance, 0, checkpoint, 0, restores_see, &told);
        ck_assert_int_eq(st, PLEAT_EPENDING);
        api_expect(PLEAT_EPENDING, "(3, 9)", "synchronise");
        expect_told(0, 0, 0);
        ck_assert(is_pool_just(is_freed ? &d : (pleat_devptr[]){ c, d }, is_freed ? 1 : 2));
        api_check(instance);
        give(d);
        if (!is_freed) {
            give(c);
        }
    }
    sim.finish();
    api_free(instance, 0, api_alloc(instance, 0, 512, streams[1]), streams[1]); /* ticks */
    sim.finish();
    restore(checkpoint, 0);
    expect_told(0, 0, 2);
    give(a);
    give(b);
}
END_TEST

/* The whole block is restored, also several times, and its free waits for stream 1. */
START_TEST(what_other_streams_use_is_given_with_its_waits)
{
    pleat_devptr a = alloc(GRANULE);
    pleat_checkpoint checkpoint = take();
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, a, streams[1]), PLEAT_OK);
    work(a, GRANULE, streams[1]);
    for (int round = 0; round < 3; round++) {
        give(a);
        restore(checkpoint, 0);
        expect_told(0, 0, 1);
    }
    give(a);
    pleat_devptr b = alloc(GRANULE);
    ck_assert_uint_ne(b, a);
    give(b);
    sim.finish();
    api_free(instance, 0, api_alloc(instance, 0, 512, streams[1]), streams[1]); /* ticks */
    sim.finish();
    restore(checkpoint, 0);
    give(a);
    b = alloc(GRANULE);
    pleat_devptr c = alloc(GRANULE);
    ck_assert(b == a || c == a);
    give(b);
    give(c);
}
END_TEST

/* A block with a recorded use is missing in the checkpoint. So the restore frees it. */
START_TEST(a_freed_block_waits_for_its_recorded_uses)
{
    pleat_checkpoint checkpoint = take();
    pleat_devptr a = alloc(GRANULE);
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, a, streams[1]), PLEAT_OK);
    work(a, GRANULE, streams[1]);
    restore(checkpoint, PLEAT_RESTORE_SETTLED);
    expect_told(1, 0, 0);
    pleat_devptr b = alloc(GRANULE);
    ck_assert_uint_ne(b, a);
    give(b);
}
END_TEST

START_TEST(a_kept_block_keeps_its_recorded_uses)
{
    pleat_devptr a = alloc(GRANULE);
    pleat_checkpoint checkpoint = take();
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, a, streams[1]), PLEAT_OK);
    work(a, GRANULE, streams[1]);
    restore(checkpoint, 0);
    expect_told(0, 1, 0);
    give(a);
    pleat_devptr b = alloc(GRANULE);
    ck_assert_uint_ne(b, a);
    give(b);
}
END_TEST

START_TEST(settled_memory_serves_any_stream_at_once)
{
    pleat_checkpoint checkpoint = take();
    pleat_devptr a = alloc(GRANULE);
    restore(checkpoint, 0);
    pleat_devptr b = api_alloc(instance, 0, GRANULE, streams[1]);
    ck_assert_uint_ne(b, a); /* pends on stream 0 */
    restore(checkpoint, PLEAT_RESTORE_SETTLED);
    pleat_devptr c = api_alloc(instance, 0, GRANULE, streams[1]);
    ck_assert(c == a || c == b);
    api_free(instance, 0, c, streams[1]);
}
END_TEST

/* The blocks were freed after the checkpoint. Their uses are over, but no tick says so. Some are
 * settled, some pending, and one waits for a second stream. A restore makes all of them live again,
 * or changes nothing. */
START_TEST(what_was_freed_since_comes_back_though_all_is_settled)
{
    pleat_devptr a[4];
    for (size_t i = 0; i < 4; i++) {
        a[i] = alloc(GRANULE);
    }
    pleat_checkpoint checkpoint = take();
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, a[2], streams[1]), PLEAT_OK);
    work(a[2], GRANULE, streams[1]);
    for (int is_split = 0; is_split < 2; is_split++) {
        for (size_t i = 0; i < 4; i++) {
            give(a[i]);
        }
        sim.finish();
        restore(checkpoint, PLEAT_RESTORE_SETTLED);
        expect_told(0, 0, 4);
        ck_assert(is_pool_just(a, 4));
        ck_assert_uint_eq(api_stats(instance, 0).allocation[0].current, 4);
    }
    for (size_t i = 0; i < 4; i++) {
        give(a[i]);
    }
    sim.finish();
    pleat_devptr whole = alloc(3 * GRANULE); /* covers the last and reaches beyond it */
    ck_assert_uint_eq(whole, a[3]);
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, whole, streams[1]), PLEAT_OK);
    work(whole, 3 * GRANULE, streams[1]);
    give(whole);
    pleat_stats before = api_stats(instance, 0);
    restores_clear(&told);
    pleat_status st = pleat_checkpoint_restore(instance, 0, checkpoint, PLEAT_RESTORE_SETTLED,
                                               restores_see, &told);
    ck_assert_int_eq(st, PLEAT_EPENDING);
    pleat_stats after = api_stats(instance, 0);
    expect_told(0, 0, 0);
    ck_assert(is_pool_just(NULL, 0));
    ck_assert_uint_eq(after.pinned_granules, before.pinned_granules);
    ck_assert_uint_eq(after.allocation[0].current, 0);
    sim.finish(); /* no call names the other stream, so its end stays unseen */
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK); /* no capture is announced */
    restore(checkpoint, PLEAT_RESTORE_SETTLED);
    ck_assert(is_pool_just(a, 4));
    for (size_t i = 0; i < 4; i++) {
        give(a[i]);
    }
    ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
}
END_TEST

/* The owner's stream and its handle are destroyed. The block still gets its owner back. */
START_TEST(a_checkpoint_outlives_a_stream)
{
    void *brief = api_stream(instance, 0);
    pleat_devptr a = api_alloc(instance, 0, GRANULE, brief);
    pleat_checkpoint checkpoint = take();
    api_free(instance, 0, a, brief);
    ck_assert_int_eq(pleat_stream_retire(instance, 0, brief), PLEAT_OK);
    api_stream_end(instance, 0, brief);
    for (int i = 0; i < 40; i++) {
        give(alloc(1000));
    }
    restore(checkpoint, 0);
    expect_told(0, 0, 1);
    give(a);
    ck_assert_int_eq(pleat_checkpoint_release(instance, 0, checkpoint), PLEAT_OK);
}
END_TEST

/* ---- refusals -------------------------------------------------------------------------------- */

START_TEST(what_is_no_checkpoint_is_refused)
{
    pleat_checkpoint checkpoint = take();
    pleat_checkpoint none = { 0 };
    pleat_checkpoint later = { checkpoint.number + 1 };
    ck_assert_int_eq(pleat_checkpoint_take(instance, 0, other_id, &none), PLEAT_EPOOL);
    ck_assert_int_eq(pleat_checkpoint_take(instance, 0, id, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_checkpoint_take(instance, 77, id, &none), PLEAT_EDEVICE);
    ck_assert_int_eq(pleat_checkpoint_restore(instance, 0, none, 0, NULL, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_checkpoint_restore(instance, 0, later, 0, NULL, NULL), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "no checkpoint");
    ck_assert_int_eq(pleat_checkpoint_restore(instance, 0, checkpoint, 6, NULL, NULL),
                     PLEAT_EINVAL);
    ck_assert_int_eq(pleat_checkpoint_restore(instance, 77, checkpoint, 0, NULL, NULL),
                     PLEAT_EDEVICE);
    ck_assert_int_eq(pleat_checkpoint_visit(instance, 0, checkpoint, NULL, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_checkpoint_release(instance, 0, later), PLEAT_EINVAL);
    pleat gone = { instance.slot, instance.generation + 1 };
    ck_assert_int_eq(pleat_checkpoint_release(gone, 0, checkpoint), PLEAT_EGONE);
    ck_assert_int_eq(pleat_checkpoint_restore(gone, 0, checkpoint, 0, NULL, NULL), PLEAT_EGONE);
}
END_TEST

START_TEST(a_pool_that_is_gone_is_not_restored)
{
    pleat_devptr a = alloc(GRANULE);
    pleat_checkpoint checkpoint = take();
    give(a);
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
    ck_assert_int_eq(pleat_checkpoint_restore(instance, 0, checkpoint, 0, NULL, NULL), PLEAT_EPOOL);
    pleat_checkpoint none;
    ck_assert_int_eq(pleat_checkpoint_take(instance, 0, id, &none), PLEAT_EPOOL);
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
    sim.finish();
    give(alloc(512)); /* in the addresses of the earlier pool */
    ck_assert_int_eq(pleat_checkpoint_restore(instance, 0, checkpoint, 0, NULL, NULL), PLEAT_EPOOL);
    api_expect(PLEAT_EPOOL, "(3, 9)", "since the checkpoint");
    restores seen = { 0 };
    ck_assert_int_eq(pleat_checkpoint_visit(instance, 0, checkpoint, restores_see_block, &seen),
                     PLEAT_OK);
    ck_assert_uint_eq(seen.n[PLEAT_RESTORED_KEPT], 1);
    restores_clear(&seen);
    ck_assert_int_eq(pleat_checkpoint_release(instance, 0, checkpoint), PLEAT_OK);
}
END_TEST

static void release_it(void *context, const pleat_pool_block *block)
{
    pleat_checkpoint *checkpoint = context;
    (void)block;
    ck_assert_int_eq(pleat_checkpoint_release(instance, 0, *checkpoint), PLEAT_EBUSY);
}

START_TEST(a_checkpoint_that_is_read_stays)
{
    pleat_devptr a = alloc(GRANULE);
    pleat_checkpoint checkpoint = take();
    ck_assert_int_eq(pleat_checkpoint_visit(instance, 0, checkpoint, release_it, &checkpoint),
                     PLEAT_OK);
    ck_assert_int_eq(pleat_checkpoint_release(instance, 0, checkpoint), PLEAT_OK);
    give(a);
}
END_TEST

static pleat_checkpoint for_callback;

static bool restore_inside(pleat in, int device, size_t bytes, void *context)
{
    pleat_status *st = context;
    (void)bytes;
    *st = pleat_checkpoint_restore(in, device, for_callback, 0, NULL, NULL);
    return false;
}

START_TEST(a_request_does_not_restore_its_own_pool)
{
    pleat_status st = PLEAT_OK;
    pleat_devptr a = alloc(GRANULE);
    pleat_devptr b;
    for_callback = take();
    ck_assert_int_eq(pleat_set_pressure_callback(instance, restore_inside, &st), PLEAT_OK);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 300 * MIB, streams[0], &b),
                     PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(st, PLEAT_EBUSY);
    ck_assert_int_eq(pleat_set_pressure_callback(instance, NULL, NULL), PLEAT_OK);
    restore(for_callback, 0);
    give(a);
}
END_TEST

START_TEST(host_memory_may_run_out_at_any_step)
{
    enum { N = 24 };
    pleat_devptr a[N];
    pleat_devptr now[N + 1];
    for (size_t i = 0; i < N; i++) {
        a[i] = alloc((i % 5 + 1) * 300 * KIB);
    }
    pleat_checkpoint checkpoint = take();
    for (size_t i = 0; i < N; i++) {
        give(a[i]);
    }
    sim.finish();
    for (size_t i = 0; i < N; i++) {
        now[i] = api_alloc(instance, 0, (i % 3 + 1) * 500 * KIB, streams[i % 2]);
    }
    pleat_status st = PLEAT_ENOMEM_HOST;
    for (uint64_t k = 0; st != PLEAT_OK; k++) {
        pleat_checkpoint extra = { 0 };
        ck_assert(is_pool_just(now, N));
        pl_meta_fail_at(k);
        st = pleat_checkpoint_take(instance, 0, id, &extra);
        st = st == PLEAT_OK ? pleat_checkpoint_restore(instance, 0, checkpoint, 0, NULL, NULL) : st;
        pl_meta_fail_never();
        ck_assert(st == PLEAT_OK || st == PLEAT_ENOMEM_HOST);
        api_check(instance);
        ck_assert_uint_eq(api_stats(instance, 0).allocation[0].current, N);
        for (size_t i = 0; i < N && st != PLEAT_OK; i++) {
            pleat_block_info info;
            ck_assert_int_eq(pleat_block_query(instance, 0, now[i], &info), PLEAT_OK);
        }
        (void)!pleat_checkpoint_release(instance, 0, extra);
    }
    ck_assert(is_pool_just(a, N));
    for (size_t i = 0; i < N; i++) {
        give(a[i]);
    }
}
END_TEST

/* ---- others ---------------------------------------------------------------------------------- */

START_TEST(a_checkpoint_goes_with_its_instance)
{
    api_sim_load();
    pleat brief = api_make(API_PLEAT, patient, "");
    pleat_checkpoint checkpoint;
    ck_assert_int_eq(pleat_pool_hold(brief, 0, id), PLEAT_OK);
    ck_assert_int_eq(pleat_checkpoint_take(brief, 0, id, &checkpoint), PLEAT_OK);
    api_unmake(brief);
    ck_assert_int_eq(pleat_checkpoint_release(brief, 0, checkpoint), PLEAT_EGONE);
    pleat next = api_make(API_PLEAT, patient, "");
    ck_assert_int_eq(pleat_pool_hold(next, 0, id), PLEAT_OK);
    ck_assert_int_eq(pleat_checkpoint_restore(next, 0, checkpoint, 0, NULL, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_checkpoint_release(next, 0, checkpoint), PLEAT_EINVAL);
    api_unmake(next);
}
END_TEST

START_TEST(classic_caches_have_no_checkpoints)
{
    api_sim_load();
    pleat torch = api_make(API_TORCH, patient, "");
    pleat_checkpoint checkpoint;
    bool is_same;
    api_free(torch, 0, api_alloc(torch, 0, 1, NULL), NULL);
    ck_assert_int_eq(pleat_checkpoint_take(torch, 0, id, &checkpoint), PLEAT_ENOTSUP);
    ck_assert_int_eq(pleat_pool_hold(torch, 0, id), PLEAT_ENOTSUP);
    ck_assert_int_eq(pleat_pool_compare(torch, 0, id, NULL, 0, &is_same, NULL), PLEAT_ENOTSUP);
    api_unmake(torch);
}
END_TEST

/* In counting builds, each hold of the device's lock touches a bounded number of blocks. */
START_TEST(a_hundred_thousand_blocks_are_restored_in_bounded_holds)
{
    enum { N = PLEAT_DEBUG_LEVEL >= 2 ? 3000 : 100000 };
    api_sim_load();
    pleat many = api_make(API_PLEAT, "capacity:2G,depth:4", "");
    pleat_devptr *a = calloc(N, sizeof *a);
    void *three[3] = { NULL, api_stream(many, 0), api_stream(many, 0) };
    pleat_checkpoint empty;
    pleat_checkpoint full;
    ck_assert_int_eq(pleat_pool_begin(many, 0, id, NULL, NULL, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_checkpoint_take(many, 0, id, &empty), PLEAT_OK);
    for (size_t i = 0; i < N; i++) {
        a[i] = api_alloc(many, 0, 512 * (i % 7 + 1), three[i * 7919 % N * 3 / N]);
    }
    ck_assert_int_eq(pleat_checkpoint_take(many, 0, id, &full), PLEAT_OK);
    for (size_t i = 0; i < N; i += 3) {
        api_free(many, 0, a[i], three[i * 7919 % N * 3 / N]);
    }
    pl_lock_reset_touched();
    ck_assert_int_eq(pleat_checkpoint_restore(many, 0, full, 0, restores_see, &told), PLEAT_OK);
    expect_told(0, N - (N + 2) / 3, (N + 2) / 3);
    restores_clear(&told);
    ck_assert_int_eq(pleat_checkpoint_restore(many, 0, empty, 0, restores_see, &told), PLEAT_OK);
    expect_told(N, 0, 0);
    restores_clear(&told);
    ck_assert_int_eq(
        pleat_checkpoint_restore(many, 0, full, PLEAT_RESTORE_SETTLED, restores_see, &told),
        PLEAT_OK);
    expect_told(0, 0, N);
    bool is_same = false;
    ck_assert_int_eq(pleat_pool_compare(many, 0, id, a, N, &is_same, NULL), PLEAT_OK);
    ck_assert(is_same);
    ck_assert_int_eq(pleat_checkpoint_restore(many, 0, empty, 0, NULL, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_checkpoint_release(many, 0, full), PLEAT_OK);
    if (PLEAT_DEBUG_LEVEL < 2) { /* other builds walk everything after some calls */
        ck_assert_uint_le(pl_lock_most_touched(), PL_LOCK_MOST_TOUCHED);
    }
    ck_assert_int_eq(pleat_pool_end(many, 0, id), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(many, 0, id), PLEAT_OK);
    api_check(many);
    sim.finish();
    api_stream_end(many, 0, three[1]);
    api_stream_end(many, 0, three[2]);
    api_unmake(many);
    restores_clear(&told);
    free(a);
}
END_TEST

/* Most checkpoints here are empty: a checkpoint with blocks takes a page. */
START_TEST(very_many_checkpoints_are_taken_and_released_in_few_steps_each)
{
    enum { N = PLEAT_DEBUG_LEVEL >= 2 ? 2000 : 20000, MOST_STEPS = 64, EVERY = 100 };
    static pleat_checkpoint taken[N];
    pleat_devptr ptr = 0;
    pl_lock_reset_touched();
    for (size_t i = 0; i < N; i++) {
        if (i % EVERY == 0) {
            ptr = alloc(512);
        }
        taken[i] = take(); /* holds the device's lock first, and then enters it into the table */
        ck_assert_uint_le(pl_lock_touched(), MOST_STEPS);
        if (i % EVERY == 0) {
            give(ptr);
        }
    }
    restore(taken[N / 2], 0);
    expect_told(0, 0, 1);
    restore(taken[N / 2 + 1], 0);
    expect_told(1, 0, 0);
    for (size_t i = 0; i < N; i += 2) {
        ck_assert_int_eq(pleat_checkpoint_release(instance, 0, taken[i]), PLEAT_OK);
    }
    if (PLEAT_DEBUG_LEVEL < 2) {
        ck_assert_uint_le(pl_lock_most_touched(), PL_LOCK_MOST_TOUCHED);
    }
    ck_assert_int_eq(pleat_checkpoint_release(instance, 0, taken[0]), PLEAT_EINVAL);
}
END_TEST

SUITE(api_checkpoint)
{
    TCase *tcase = tcase_create("checkpoints");
    tcase_add_checked_fixture(tcase, open_pleat, close_pleat);
    tcase_add_test(tcase, blocks_live_again_at_their_addresses);
    tcase_add_test(tcase, what_the_checkpoint_lacks_is_freed);
    tcase_add_test(tcase, an_empty_checkpoint_frees_all);
    tcase_add_test(tcase, a_second_restore_keeps_all);
    tcase_add_test(tcase, blocks_of_other_sizes_are_replaced);
    tcase_add_test(tcase, the_same_address_may_get_another_owner);
    tcase_add_test(tcase, requested_sizes_come_back);
    tcase_add_test(tcase, what_another_stream_used_since_is_waited_for);
    tcase_add_test(tcase, part_of_what_other_streams_use_is_not_given);
    tcase_add_test(tcase, what_other_streams_use_is_given_with_its_waits);
    tcase_add_test(tcase, a_freed_block_waits_for_its_recorded_uses);
    tcase_add_test(tcase, a_kept_block_keeps_its_recorded_uses);
    tcase_add_test(tcase, settled_memory_serves_any_stream_at_once);
    tcase_add_test(tcase, what_was_freed_since_comes_back_though_all_is_settled);
    tcase_add_test(tcase, a_checkpoint_outlives_a_stream);
    tcase_add_test(tcase, what_is_no_checkpoint_is_refused);
    tcase_add_test(tcase, a_pool_that_is_gone_is_not_restored);
    tcase_add_test(tcase, a_checkpoint_that_is_read_stays);
    tcase_add_test(tcase, a_request_does_not_restore_its_own_pool);
    tcase_add_test(tcase, host_memory_may_run_out_at_any_step);
    tcase_add_test(tcase, very_many_checkpoints_are_taken_and_released_in_few_steps_each);
    suite_add_tcase(suite, tcase);
    TCase *others = tcase_create("others");
    tcase_add_test(others, a_checkpoint_goes_with_its_instance);
    tcase_add_test(others, classic_caches_have_no_checkpoints);
    tcase_add_test(others, a_hundred_thousand_blocks_are_restored_in_bounded_holds);
    suite_add_tcase(suite, others);
}
