/* stress_test.c - many threads make, use and destroy instances at once. */
/* labels: stress */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20, N_THREADS = 4 };

/* What the threads of a test share. Threads count errors; the test asserts. */
typedef struct crowd {
    pleat instance;
    int allocator;
    _Atomic int n_wrong;
    _Atomic int n_ok;
    _Atomic int n_gone;
    _Atomic bool is_started;
    _Atomic bool is_over;
    pleat_devptr block;
} crowd;

static void start(pthread_t *threads, int n, void *(*body)(void *), crowd *c)
{
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, body, c), 0);
    }
}

static void join(pthread_t *threads, int n)
{
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
}

/* Allocate and free until the instance is gone. */
static void *use_until_gone(void *arg)
{
    crowd *c = arg;
    for (;;) {
        pleat_devptr ptr;
        pleat_status st = pleat_block_alloc(c->instance, 0, 3000, NULL, &ptr);
        if (st == PLEAT_OK) {
            atomic_fetch_add(&c->n_ok, 1);
            st = pleat_block_free(c->instance, 0, ptr, NULL);
        }
        if (st == PLEAT_EGONE) {
            return NULL;
        }
        if (st != PLEAT_OK) {
            atomic_fetch_add(&c->n_wrong, 1);
            return NULL;
        }
    }
}

START_TEST(destroy_waits_for_those_inside_and_turns_away_the_rest)
{
    for (int round = 0; round < 20; round++) {
        crowd c = { .instance = api_make(_i, "capacity:64M", "") };
        pthread_t threads[N_THREADS];
        start(threads, N_THREADS, use_until_gone, &c);
        while (atomic_load(&c.n_ok) < 100 && atomic_load(&c.n_wrong) == 0) {
            sched_yield();
        }
        ck_assert_int_eq(pleat_destroy(c.instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
        join(threads, N_THREADS);
        ck_assert_int_eq(atomic_load(&c.n_wrong), 0);
        api_sim_check_empty();
    }
}
END_TEST

static void *destroy_once(void *arg)
{
    crowd *c = arg;
    while (!atomic_load(&c->is_started)) {
        sched_yield();
    }
    pleat_status st = pleat_destroy(c->instance, 0);
    atomic_fetch_add(&c->n_ok, st == PLEAT_OK);
    atomic_fetch_add(&c->n_gone, st == PLEAT_EGONE);
    return NULL;
}

START_TEST(of_many_that_destroy_one_succeeds)
{
    for (int round = 0; round < 20; round++) {
        crowd c = { .instance = api_make(_i, "capacity:64M", "") };
        pthread_t threads[N_THREADS];
        api_free(c.instance, 0, api_alloc(c.instance, 0, MIB, NULL), NULL);
        start(threads, N_THREADS, destroy_once, &c);
        atomic_store(&c.is_started, true);
        join(threads, N_THREADS);
        ck_assert_int_eq(atomic_load(&c.n_ok), 1);
        ck_assert_int_eq(atomic_load(&c.n_gone), N_THREADS - 1);
        api_sim_check_empty();
    }
}
END_TEST

/* Make, use and destroy instances of this thread alone. */
static void *come_and_go(void *arg)
{
    crowd *c = arg;
    char conf[64] = "driver:sim,allocator:";
    for (int i = 0; api_allocators[c->allocator][i] != '\0'; i++) {
        conf[21 + i] = api_allocators[c->allocator][i];
    }
    for (int i = 0; i < 15; i++) {
        pleat own;
        pleat_devptr ptr;
        bool is_good = pleat_create(conf, &own) == PLEAT_OK &&
                       pleat_block_alloc(own, 0, MIB, NULL, &ptr) == PLEAT_OK &&
                       pleat_destroy(own, 0) == PLEAT_EBUSY &&
                       pleat_block_free(own, 0, ptr, NULL) == PLEAT_OK &&
                       pleat_destroy(own, 0) == PLEAT_OK &&
                       pleat_block_alloc(own, 0, MIB, NULL, &ptr) == PLEAT_EGONE;
        atomic_fetch_add(&c->n_wrong, !is_good);
    }
    return NULL;
}

START_TEST(instances_come_and_go_in_many_threads)
{
    crowd c = { .allocator = _i };
    pthread_t threads[N_THREADS];
    start(threads, N_THREADS, come_and_go, &c);
    join(threads, N_THREADS);
    ck_assert_int_eq(atomic_load(&c.n_wrong), 0);
    api_sim_check_empty();
}
END_TEST

static void *use_first(void *arg)
{
    crowd *c = arg;
    while (!atomic_load(&c->is_started)) {
        sched_yield();
    }
    for (int i = 0; i < 20; i++) {
        pleat_devptr ptr;
        bool is_good = pleat_block_alloc(c->instance, i % 2, MIB, NULL, &ptr) == PLEAT_OK &&
                       pleat_block_free(c->instance, i % 2, ptr, NULL) == PLEAT_OK;
        atomic_fetch_add(&c->n_wrong, !is_good);
    }
    return NULL;
}

START_TEST(a_device_is_opened_once_however_many_come_first)
{
    for (int round = 0; round < 20; round++) {
        crowd c = { .instance = api_make(_i, "capacity:64M,devices:2", "") };
        pthread_t threads[N_THREADS];
        start(threads, N_THREADS, use_first, &c);
        atomic_store(&c.is_started, true);
        join(threads, N_THREADS);
        ck_assert_int_eq(atomic_load(&c.n_wrong), 0);
        ck_assert_uint_eq(api_sim_counts().contexts, 2);
        api_unmake(c.instance);
    }
}
END_TEST

static void *use_the_pair(void *arg)
{
    crowd *c = arg;
    while (!atomic_load(&c->is_started)) {
        sched_yield();
    }
    for (int i = 0; i < 50; i++) {
        void *block = pleat_malloc(2000, 0, NULL);
        atomic_fetch_add(&c->n_wrong, block == NULL);
        pleat_free(block, 2000, 0, NULL);
    }
    return NULL;
}

START_TEST(the_default_instance_is_made_once_however_many_come_first)
{
    pleat standard;
    crowd c = { .n_ok = 0 };
    pthread_t threads[N_THREADS];
    start(threads, N_THREADS, use_the_pair, &c);
    atomic_store(&c.is_started, true);
    join(threads, N_THREADS);
    ck_assert_int_eq(atomic_load(&c.n_wrong), 0);
    ck_assert_uint_eq(api_sim_counts().contexts, 1);
    ck_assert_int_eq(pleat_default(&standard), PLEAT_OK);
    pleat_stats s = api_stats(standard, 0);
    ck_assert_uint_eq(s.allocation[PLEAT_SIZES_ALL].allocated, N_THREADS * 50);
    api_unmake(standard);
}
END_TEST

/* Random calls of every kind on a shared instance. */
static void *call_at_random(void *arg)
{
    crowd *c = arg;
    pleat_devptr ptrs[8] = { 0 };
    unsigned seed = (unsigned)atomic_fetch_add(&c->n_ok, 1) + 1;
    for (int i = 0; i < 3000; i++) {
        int at = rand_r(&seed) % 8;
        pleat_status st = PLEAT_OK;
        pleat_stats stats;
        pleat_block_info info;
        int broken = 0;
        if (i % 50 == 0) {
            st = pleat_device_stats(c->instance, 0, &stats);
        } else if (i % 499 == 0) {
            st = pleat_check(c->instance, &broken);
        } else if (i % 199 == 0) {
            st = pleat_device_trim(c->instance, 0, 0, false, NULL);
        } else if (ptrs[at] == 0) {
            size_t bytes = (size_t)(rand_r(&seed) % (i % 7 ? 5000 : 2 * MIB) + 1);
            st = pleat_block_alloc(c->instance, 0, bytes, NULL, &ptrs[at]);
        } else if (pleat_block_query(c->instance, 0, ptrs[at] + 1, &info) != PLEAT_OK ||
                   info.base != ptrs[at]) {
            st = PLEAT_EFOREIGN;
        } else {
            st = pleat_block_free(c->instance, 0, ptrs[at], NULL);
            ptrs[at] = 0;
        }
        atomic_fetch_add(&c->n_wrong, st != PLEAT_OK || broken != 0);
    }
    for (int at = 0; at < 8; at++) {
        if (ptrs[at] != 0) {
            atomic_fetch_add(&c->n_wrong,
                             pleat_block_free(c->instance, 0, ptrs[at], NULL) != PLEAT_OK);
        }
    }
    return NULL;
}

START_TEST(threads_share_an_instance_and_the_figures_add_up)
{
    crowd c = { .instance = api_make(_i, "capacity:512M", "") };
    pthread_t threads[N_THREADS];
    start(threads, N_THREADS, call_at_random, &c);
    join(threads, N_THREADS);
    ck_assert_int_eq(atomic_load(&c.n_wrong), 0);
    pleat_stats s = api_stats(c.instance, 0);
    ck_assert_uint_eq(s.allocation[0].current, 0);
    ck_assert_uint_eq(s.allocated_bytes[0].current, 0);
    ck_assert_uint_eq(s.allocation[0].allocated, s.allocation[0].freed);
    ck_assert_uint_eq(s.resident_bytes, api_sim_counts().physical_bytes);
    api_check(c.instance);
    api_unmake(c.instance);
}
END_TEST

static void *destroy_by_force(void *arg)
{
    crowd *c = arg;
    atomic_fetch_add(&c->n_ok, pleat_destroy(c->instance, PLEAT_DESTROY_FORCE) == PLEAT_OK);
    return NULL;
}

/* Under pressure another thread destroys the instance. Calls from outside are refused from then on,
 * but the callback still frees a block, and the request is served. */
static bool free_while_destroyed(pleat instance, int device, size_t bytes, void *context)
{
    crowd *c = context;
    pthread_t destroyer;
    (void)bytes;
    if (atomic_exchange(&c->is_started, true) ||
        pthread_create(&destroyer, NULL, destroy_by_force, c) != 0) {
        return false;
    }
    pthread_detach(destroyer);
    while (!atomic_load(&c->is_over)) { /* another thread's call is refused */
        sched_yield();
    }
    atomic_fetch_add(&c->n_wrong, pleat_block_free(instance, device, c->block, NULL) != PLEAT_OK);
    return true;
}

static void *call_until_turned_away(void *arg)
{
    crowd *c = arg;
    int broken;
    while (!atomic_load(&c->is_started)) {
        sched_yield();
    }
    while (pleat_check(c->instance, &broken) == PLEAT_OK) {
        sched_yield();
    }
    atomic_store(&c->is_over, true);
    return NULL;
}

START_TEST(a_callback_works_on_while_another_thread_destroys)
{
    crowd c = { .instance = api_make(_i, "capacity:64M", "") };
    pthread_t outsider;
    pleat_devptr ptr = 0;
    c.block = api_alloc(c.instance, 0, 40 * MIB, NULL);
    ck_assert_int_eq(pleat_set_pressure_callback(c.instance, free_while_destroyed, &c), PLEAT_OK);
    start(&outsider, 1, call_until_turned_away, &c);
    pleat_status st = pleat_block_alloc(c.instance, 0, 60 * MIB, NULL, &ptr);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    join(&outsider, 1);
    while (atomic_load(&c.n_ok) == 0) { /* until the destroyer is done */
        sched_yield();
    }
    ck_assert_int_eq(atomic_load(&c.n_wrong), 0);
    ck_assert_int_eq(pleat_block_free(c.instance, 0, ptr, NULL), PLEAT_EGONE);
    api_sim_check_empty();
}
END_TEST

SUITE(api_stress)
{
    TCase *each = tcase_create("each allocator");
    tcase_add_checked_fixture(each, api_sim_load, NULL);
    tcase_add_loop_test(each, destroy_waits_for_those_inside_and_turns_away_the_rest, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, of_many_that_destroy_one_succeeds, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, instances_come_and_go_in_many_threads, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_device_is_opened_once_however_many_come_first, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, threads_share_an_instance_and_the_figures_add_up, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_callback_works_on_while_another_thread_destroys, 0,
                        N_API_ALLOCATORS);
    suite_add_tcase(suite, each);
    TCase *pair = tcase_create("the malloc-like pair");
    tcase_add_checked_fixture(pair, api_sim_load, NULL);
    tcase_add_test(pair, the_default_instance_is_made_once_however_many_come_first);
    suite_add_tcase(suite, pair);
}
