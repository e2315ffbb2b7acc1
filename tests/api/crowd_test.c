/* crowd_test.c - very many streams with pending memory. A request learns of the one whose memory
 * may help, though the others are more than it looks at. And holds of the lock stay short. */
/* labels: unit */
#include <check.h>

#include "api/pleat_checkpoint.h"
#include "api/pleat_pool.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"
#include "vmm/base/lock.h"

enum { N_POOLS = 200, STEP = 8, N_STREAMS = 5000, MIB = 1 << 20 };

static pleat instance;
static void *streams[N_STREAMS];
static pleat_checkpoint checkpoints[N_POOLS];

static void use(void *stream, pleat_devptr ptr, size_t bytes)
{
    pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
}

/* Frees a block while work on its stream goes on for ever. */
static void leave_pending(void *stream, size_t bytes)
{
    pleat_devptr ptr = api_alloc(instance, 0, bytes, stream);
    use(stream, ptr, bytes);
    api_free(instance, 0, ptr, stream);
}

/* A pool with a checkpoint keeps its memory. */
static void leave_pending_in_pool(unsigned i)
{
    pleat_pool_id id = { 1, i };
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_checkpoint_take(instance, 0, id, &checkpoints[i]), PLEAT_OK);
    leave_pending(streams[i], 64 << 10);
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
}

static void open_with(unsigned n_streams)
{
    instance = api_make(API_PLEAT, "capacity:1G,depth:1048576", "wait_ms:0,cross_stream:settled");
    for (unsigned i = 0; i < n_streams; i++) {
        streams[i] = api_stream(instance, 0);
    }
}

static void close_with(unsigned n_streams)
{
    for (unsigned i = 0; i < n_streams; i++) {
        api_stream_end(instance, 0, streams[i]);
    }
    api_check(instance);
    api_unmake(instance);
}

START_TEST(memory_of_one_stream_among_many_pools_pends)
{
    pleat_devptr ptr;
    unsigned at = (unsigned)_i * STEP;
    open_with(N_POOLS + 2);
    for (unsigned i = 0; i < N_POOLS; i++) {
        if (i == at) {
            leave_pending(streams[N_POOLS], 400 * MIB);
        }
        leave_pending_in_pool(i);
    }
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 400 * MIB, streams[N_POOLS + 1], &ptr),
                     PLEAT_EPENDING);
    sim.finish();
    for (unsigned i = 0; i < N_POOLS; i++) {
        ck_assert_int_eq(pleat_checkpoint_release(instance, 0, checkpoints[i]), PLEAT_OK);
        ck_assert_int_eq(pleat_pool_release(instance, 0, (pleat_pool_id){ 1, i }), PLEAT_OK);
    }
    close_with(N_POOLS + 2);
}
END_TEST

START_TEST(a_trim_looks_at_some_of_very_many_streams)
{
    open_with(N_STREAMS);
    for (unsigned i = 0; i < N_STREAMS; i++) {
        leave_pending(streams[i], 512);
    }
    pl_lock_reset_touched();
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, false, NULL), PLEAT_OK);
    ck_assert_uint_le(pl_lock_most_touched(), PL_LOCK_MOST_TOUCHED);
    sim.finish();
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_OK);
    close_with(N_STREAMS);
}
END_TEST

SUITE(api_crowd)
{
    TCase *crowd = suite_case(suite, "crowd", api_sim_load, NULL);
    tcase_add_loop_test(crowd, memory_of_one_stream_among_many_pools_pends, 0, N_POOLS / STEP);
    tcase_add_test(crowd, a_trim_looks_at_some_of_very_many_streams);
}
