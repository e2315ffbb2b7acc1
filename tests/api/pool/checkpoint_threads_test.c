/* checkpoint_threads_test.c - restores of a pool beside threads that use the pool. */
/* labels: stress */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/restores.h"
#include "tests/support/suite.h"
#include "vmm/base/cancel.h"

enum { KIB = 1 << 10, N_THREADS = 3, N_ROUNDS = 120, N_HELD = 12 };

static const pleat_pool_id id = { 0, 5 };

static pleat instance;
static pleat_checkpoint empty;
static _Atomic int n_wrong;
static _Atomic int n_ready;
static _Atomic bool is_over;

static void open_pleat(void)
{
    api_sim_load();
    instance = api_make(API_PLEAT, "capacity:256M,depth:8", "wait_ms:60000");
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_checkpoint_take(instance, 0, id, &empty), PLEAT_OK);
}

static void close_pleat(void)
{
    ck_assert_int_eq(pleat_checkpoint_restore(instance, 0, empty, 0, NULL, NULL), PLEAT_OK);
    ck_assert_uint_eq(api_stats(instance, 0).allocation[PLEAT_SIZES_ALL].current, 0);
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
    api_check(instance);
    api_unmake(instance);
}

/* A restore frees this thread's blocks, and another thread may get their memory. So a free may find
 * no block at the address, but never a part of a block. */
static void *come_and_go(void *arg)
{
    size_t own = (uintptr_t)arg + 1;
    pleat_devptr held[N_HELD] = { 0 };
    for (size_t n = 0; !atomic_load(&is_over); n++) {
        size_t i = n % N_HELD;
        pleat_status st = held[i] == 0 ? PLEAT_OK : pleat_block_free(instance, 0, held[i], NULL);
        bool is_good = st == PLEAT_OK || st == PLEAT_EFOREIGN || st == PLEAT_EDOUBLEFREE;
        st = pleat_block_alloc(instance, 0, own * (i + 1) * 20 * KIB, NULL, &held[i]);
        atomic_fetch_add(&n_wrong, !is_good || st != PLEAT_OK);
        if (n == N_HELD) {
            atomic_fetch_add(&n_ready, 1);
        }
    }
    return NULL;
}

START_TEST(requests_wait_for_restores)
{
    pthread_t threads[N_THREADS];
    pleat_checkpoint checkpoints[2];
    size_t n_told = 0;
    for (uintptr_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, (void *)i), 0);
    }
    while (atomic_load(&n_ready) < N_THREADS) {
        sched_yield();
    }
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(pleat_checkpoint_take(instance, 0, id, &checkpoints[i]), PLEAT_OK);
    }
    for (int round = 0; round < N_ROUNDS; round++) {
        restores told = { 0 };
        pleat_checkpoint of = checkpoints[round / 2 % 2];
        pleat_status st = pleat_checkpoint_restore(instance, 0, of, 0, restores_see, &told);
        ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
        n_told += told.n[PLEAT_RESTORED_MADE] + told.n[PLEAT_RESTORED_FREED];
        restores_clear(&told);
        if (round % 8 == 0) {
            ck_assert_int_eq(pleat_checkpoint_release(instance, 0, checkpoints[0]), PLEAT_OK);
            st = pleat_checkpoint_take(instance, 0, id, &checkpoints[0]);
            ck_assert_int_eq(st, PLEAT_OK);
            api_check(instance);
        }
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_int_eq(atomic_load(&n_wrong), 0);
    ck_assert_uint_gt(n_told, 0);
}
END_TEST

static void *restore_often(void *arg)
{
    const pleat_checkpoint *checkpoint = arg;
    for (int n = 0; n < N_ROUNDS; n++) {
        pleat_status st = pleat_checkpoint_restore(instance, 0, *checkpoint, 0, NULL, NULL);
        atomic_fetch_add(&n_wrong, st != PLEAT_OK);
    }
    return NULL;
}

START_TEST(restores_come_one_after_the_other)
{
    pthread_t threads[N_THREADS];
    pleat_checkpoint checkpoints[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++) {
        (void)api_alloc(instance, 0, (i + 1) * 300 * KIB, NULL);
        ck_assert_int_eq(pleat_checkpoint_take(instance, 0, id, &checkpoints[i]), PLEAT_OK);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, restore_often, &checkpoints[i]), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_int_eq(atomic_load(&n_wrong), 0);
    size_t n_live = api_stats(instance, 0).allocation[PLEAT_SIZES_ALL].current;
    ck_assert(n_live >= 1 && n_live <= N_THREADS);
}
END_TEST

/* ---- beside flights of others ---------------------------------------------------------------- */

enum { MIB = 1 << 20, N_FIRST = 8, DELAY_US = 200000 };

static void *trim_all(void *arg)
{
    uint64_t released;
    (void)arg;
    atomic_fetch_add(&n_wrong, pleat_device_trim(instance, 0, 0, false, &released) != PLEAT_OK);
    return NULL;
}

/* Fill a pool and release it. The next pool gets its area with loose memory. */
static void leave_an_area(pleat_pool_id pool)
{
    pleat_devptr ptrs[N_FIRST];
    uint64_t released;
    ck_assert_int_eq(pleat_pool_begin(instance, 0, pool, NULL, NULL, NULL), PLEAT_OK);
    for (int i = 0; i < N_FIRST; i++) {
        ptrs[i] = api_alloc(instance, 0, 16 * MIB, NULL);
    }
    ck_assert_int_eq(pleat_pool_end(instance, 0, pool), PLEAT_OK);
    for (int i = 0; i < N_FIRST; i++) {
        api_free(instance, 0, ptrs[i], NULL);
    }
    ck_assert_int_eq(pleat_pool_release(instance, 0, pool), PLEAT_OK);
    sim.finish();
    ck_assert_int_eq(pleat_device_trim(instance, 0, UINT64_C(1) << 40, true, &released), PLEAT_OK);
    for (int i = 0; i < 4; i++) {
        api_free(instance, 0, api_alloc(instance, 0, 4 * MIB, NULL), NULL);
        sim.finish();
        ck_assert_int_eq(pleat_device_trim(instance, 0, 120 * MIB, true, &released), PLEAT_OK);
    }
}

START_TEST(a_restore_leaves_what_others_unmap_alone)
{
    pleat_pool_id second = { 0, 2 };
    pleat_checkpoint checkpoint;
    pthread_t thread;
    api_sim_load();
    instance = api_make(API_PLEAT, "capacity:1G", "");
    leave_an_area((pleat_pool_id){ 0, 1 });
    ck_assert_int_eq(pleat_pool_begin(instance, 0, second, NULL, NULL, NULL), PLEAT_OK);
    pleat_devptr ptr = api_alloc(instance, 0, 4 * MIB, NULL);
    ck_assert_int_eq(pleat_pool_end(instance, 0, second), PLEAT_OK);
    ck_assert_int_eq(pleat_checkpoint_take(instance, 0, second, &checkpoint), PLEAT_OK);
    api_free(instance, 0, ptr, NULL);
    sim.delay("cuMemUnmap", DELAY_US);
    ck_assert_int_eq(pthread_create(&thread, NULL, trim_all, NULL), 0);
    pl_sleep_ns(DELAY_US / 2 * 1000); /* by then it is in cuMemUnmap */
    ck_assert_int_eq(pleat_checkpoint_restore(instance, 0, checkpoint, 0, NULL, NULL), PLEAT_OK);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    sim.delay(NULL, 0);
    ck_assert_int_eq(atomic_load(&n_wrong), 0);
    api_check(instance);
    api_free(instance, 0, ptr, NULL);
    ck_assert_int_eq(pleat_pool_release(instance, 0, second), PLEAT_OK);
    sim.finish();
    api_unmake(instance);
}
END_TEST

SUITE(api_checkpoint_threads)
{
    TCase *tcase = tcase_create("threads");
    tcase_add_checked_fixture(tcase, open_pleat, close_pleat);
    tcase_add_test(tcase, requests_wait_for_restores);
    tcase_add_test(tcase, restores_come_one_after_the_other);
    suite_add_tcase(suite, tcase);
    TCase *flights = tcase_create("beside flights");
    tcase_add_test(flights, a_restore_leaves_what_others_unmap_alone);
    suite_add_tcase(suite, flights);
}
