/* compliance_crowd_test.c - long random runs, threads, devices, neighbours and forks. */
/* labels: unit stress */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segments/base/allocator.h"
#include "tests/support/api/api_compliance.h"
#include "tests/support/suite.h"

#define MIB ((size_t)1 << 20)

enum { EDGE = 4096 }; /* written and compared bytes at each end of a block */

typedef struct written {
    pleat_devptr ptr;
    size_t bytes;
    void *stream;
    uint64_t seed;
} written;

static pleat_devptr tail_of(const written *w)
{
    return w->ptr + w->bytes - EDGE;
}

static void fill(compliance *c, const written *w)
{
    ck_assert_int_eq(c->sim_fill(w->stream, w->ptr, EDGE, w->seed), 0);
    ck_assert_int_eq(c->sim_fill(w->stream, tail_of(w), EDGE, w->seed + 1), 0);
}

static void verify(compliance *c, const written *w, void *stream)
{
    ck_assert_int_eq(c->sim_verify(stream, w->ptr, EDGE, w->seed), 0);
    ck_assert_int_eq(c->sim_verify(stream, tail_of(w), EDGE, w->seed + 1), 0);
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 33;
}

/* PyTorch test_allocator_fuzz. */
START_TEST(ten_thousand_random_steps_keep_all_contents)
{
    enum { N = 24, N_STEPS = 10000 };
    written live[N];
    size_t n = 0;
    size_t total = 0;
    uint64_t random = 1;
    compliance c = compliance_open(_i, "capacity:1G,backing:memory,depth:64", "");
    for (int step = 0; step < N_STEPS; step++) {
        uint64_t what = draw(&random) % 100;
        if (what < 55 && n < N && total < 200 * MIB) {
            size_t bytes = 2 * MIB + (size_t)(draw(&random) % (18 * MIB));
            live[n] = (written){ .bytes = bytes, .stream = c.streams[0], .seed = draw(&random) };
            live[n].ptr = compliance_alloc(&c, bytes, c.streams[0]);
            fill(&c, &live[n]);
            total += live[n++].bytes;
        } else if (what < 99 && n > 0) {
            size_t at = (size_t)draw(&random) % n;
            verify(&c, &live[at], live[at].stream);
            compliance_free(&c, live[at].ptr, live[at].stream);
            total -= live[at].bytes;
            live[at] = live[--n];
        } else if (what == 99) {
            compliance_trim(&c);
        }
    }
    while (n > 0) {
        n--;
        verify(&c, &live[n], live[n].stream);
        compliance_free(&c, live[n].ptr, live[n].stream);
    }
    compliance_close(&c);
}
END_TEST

/* Free the block in one of three ways. Its users: only its own stream, another stream with a
 * recorded use, or the stream that frees it. */
static void use_and_free(compliance *c, const written *w, uint64_t *random)
{
    void *other = c->streams[draw(random) % COMPLIANCE_STREAMS];
    uint64_t way = draw(random) % 3;
    if (way == 0) {
        verify(c, w, w->stream);
        compliance_free(c, w->ptr, w->stream);
        return;
    }
    compliance_order(c, w->stream, other);
    verify(c, w, other);
    if (way == 1) {
        compliance_record(c, w->ptr, other);
    }
    compliance_free(c, w->ptr, way == 1 ? w->stream : other);
}

/* Paddle's and XLA's asynchronous tests, at random: a wrong order shows as wrong bytes. */
START_TEST(random_uses_on_many_streams_keep_all_contents_close_to_the_limit)
{
    enum { N = 40, N_STEPS = 6000 };
    written live[N];
    size_t n = 0;
    uint64_t random = 2;
    unsigned n_given = 0;
    compliance c = compliance_open(_i, "capacity:128M,backing:memory,depth:40", "");
    for (int step = 0; step < N_STEPS; step++) {
        bool is_full = n == N;
        if (!is_full && draw(&random) % 100 < 60) {
            size_t bytes = 2 * EDGE + (size_t)(draw(&random) % (8 * MIB));
            written *w = &live[n];
            *w = (written){ .bytes = bytes, .seed = draw(&random) };
            w->stream = c.streams[draw(&random) % COMPLIANCE_STREAMS];
            pleat_status st = compliance_try(&c, bytes, w->stream, &w->ptr);
            ck_assert_msg(st == PLEAT_OK || st == PLEAT_ENOMEM_DEVICE, "%s",
                          pleat_last_error()->text);
            if (st == PLEAT_OK) {
                fill(&c, w);
                n++;
                n_given++;
                continue;
            }
            is_full = true;
        }
        if (n > 0) {
            size_t at = (size_t)draw(&random) % n;
            use_and_free(&c, &live[at], &random);
            live[at] = live[--n];
        }
    }
    ck_assert_uint_gt(n_given, N_STEPS / 4);
    while (n > 0) {
        use_and_free(&c, &live[--n], &random);
    }
    compliance_close(&c);
}
END_TEST

/* ---- threads ---- */

enum { N_THREADS = 4, N_OWN = 16, N_TURNS = 1500 };

typedef struct crowd {
    compliance *c;
    _Atomic unsigned n_wrong;
    _Atomic unsigned n_started;
    _Atomic uint64_t handed[N_THREADS]; /* a block on its way to the next thread, or 0 */
} crowd;

static void swap_blocks(crowd *w, unsigned number, pleat_devptr ptr)
{
    void *stream = w->c->streams[number];
    pleat_devptr old = atomic_exchange(&w->handed[number], ptr);
    if (old != 0) {
        w->n_wrong += pleat_block_free(w->c->instance, 0, old, stream) != PLEAT_OK;
    }
    unsigned next = (number + 1) % N_THREADS;
    old = atomic_exchange(&w->handed[next], 0);
    if (old != 0) { /* the block belongs to another thread's stream */
        w->n_wrong += pleat_block_free(w->c->instance, 0, old, stream) != PLEAT_OK;
    }
}

static void *live_a_life(void *arg)
{
    crowd *w = arg;
    unsigned number = atomic_fetch_add(&w->n_started, 1);
    void *stream = w->c->streams[number];
    uint64_t random = number + 7;
    pleat_devptr own[N_OWN] = { 0 };
    for (int turn = 0; turn < N_TURNS; turn++) {
        pleat_devptr *at = &own[draw(&random) % N_OWN];
        if (*at == 0) {
            size_t bytes = (size_t)1 << draw(&random) % 24;
            w->n_wrong += pleat_block_alloc(w->c->instance, 0, bytes, stream, at) != PLEAT_OK;
        } else if (draw(&random) % 8 == 0) {
            swap_blocks(w, number, *at);
            *at = 0;
        } else {
            w->n_wrong += pleat_block_free(w->c->instance, 0, *at, stream) != PLEAT_OK;
            *at = 0;
        }
        if (turn % 200 == 0) {
            pleat_status st = pleat_device_trim(w->c->instance, 0, 0, turn % 400 == 0, NULL);
            w->n_wrong += st != PLEAT_OK && st != PLEAT_EPENDING;
        }
    }
    for (int i = 0; i < N_OWN; i++) {
        w->n_wrong += own[i] && pleat_block_free(w->c->instance, 0, own[i], stream) != PLEAT_OK;
    }
    return NULL;
}

/* BFC SpatialUnderContention, TensorFlow's threaded benchmarks, PyTorch's ctx_multithread. */
START_TEST(threads_allocate_free_and_hand_over_at_once)
{
    pthread_t threads[N_THREADS];
    compliance c = compliance_open(_i, "capacity:4G", "");
    crowd w = { .c = &c };
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, live_a_life, &w), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        if (w.handed[i] != 0) {
            compliance_free(&c, w.handed[i], c.streams[i]);
        }
    }
    ck_assert_uint_eq(w.n_wrong, 0);
    compliance_finish(&c);
    compliance_trim(&c); /* learns of finished work that no call has named */
    pleat_stats s = compliance_stats(&c);
    ck_assert_uint_eq(s.allocation[0].current, 0);
    ck_assert_uint_eq(s.active_bytes[0].current, 0);
    ck_assert_uint_eq(s.resident_bytes, 0);
    compliance_close(&c);
}
END_TEST

/* One block at a time, of changing sizes, so that caches have to make room. Another thread's block
 * may pin a region of BFC. Then the refused request is made again. */
static void *press(void *arg)
{
    crowd *w = arg;
    unsigned number = atomic_fetch_add(&w->n_started, 1);
    void *stream = w->c->streams[number];
    bool comes_again = compliance_has(w->c, COMPLIANCE_DOUBLES);
    for (unsigned turn = 0; turn < N_TURNS; turn++) {
        pleat_devptr ptr = 0;
        pleat_status st;
        size_t bytes = (turn + number) % 3 == 0 ? 40 * MIB : 60 * MIB;
        while ((st = pleat_block_alloc(w->c->instance, 0, bytes, stream, &ptr)) != PLEAT_OK &&
               comes_again && st == PLEAT_ENOMEM_DEVICE) {
            sched_yield();
        }
        w->n_wrong += st != PLEAT_OK ||
                      pleat_block_free(w->c->instance, 0, ptr, stream) != PLEAT_OK;
    }
    return NULL;
}

/* Paddle StreamSafeRetriesWhenFreeBlockAppearsBeforeRemap. */
START_TEST(threads_that_fill_the_device_together_are_all_served)
{
    pthread_t threads[N_THREADS];
    compliance c = compliance_open(_i, "capacity:256M", "");
    crowd w = { .c = &c };
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, press, &w), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(w.n_wrong, 0);
    compliance_close(&c);
}
END_TEST

/* ---- devices and neighbours ---- */

/* XLA AllocateOnBothDevices, AllocationOnOneDeviceDoesNotAffectOther, UnknownDeviceOrdinal... */
START_TEST(devices_do_not_affect_each_other)
{
    pleat_stats s;
    pleat_devptr there = 0;
    compliance c = compliance_open(_i, "capacity:128M,devices:2", "");
    pleat_devptr here = compliance_alloc(&c, 100 * MIB, NULL);
    ck_assert_int_eq(pleat_device_stats(c.instance, 1, &s), PLEAT_OK);
    ck_assert_uint_eq(s.resident_bytes, 0);
    ck_assert_int_eq(pleat_block_alloc(c.instance, 1, 100 * MIB, NULL, &there), PLEAT_OK);
    compliance_free(&c, here, NULL);
    ck_assert_int_eq(pleat_device_stats(c.instance, 1, &s), PLEAT_OK);
    ck_assert_uint_eq(s.allocation[0].current, 1);
    ck_assert_int_eq(pleat_device_trim(c.instance, 0, 0, true, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_block_free(c.instance, 1, there, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_device_trim(c.instance, 1, 0, true, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_block_alloc(c.instance, 2, MIB, NULL, &there), PLEAT_EDEVICE);
    compliance_close(&c);
}
END_TEST

/* Instances side by side, as in an A/B comparison, each beside a different allocator. */
START_TEST(instances_on_one_device_keep_apart_and_leave_each_other_room)
{
    char conf[256];
    pleat neighbour;
    pleat_devptr theirs = 0;
    const char *name = pl_allocator_name((unsigned)_i + 1);
    compliance c = compliance_open(_i, "capacity:256M,dead_handles:error", "");
    snprintf(conf, sizeof conf, "driver:sim,sim:[capacity:256M,dead_handles:error],allocator:%s",
             name ? name : pl_allocator_name(0));
    ck_assert_int_eq(pleat_create(conf, &neighbour), PLEAT_OK);
    pleat_devptr mine = compliance_alloc(&c, 90 * MIB, NULL);
    ck_assert_int_eq(pleat_block_alloc(neighbour, 0, 90 * MIB, NULL, &theirs), PLEAT_OK);
    ck_assert(mine + 90 * MIB <= theirs || theirs + 90 * MIB <= mine);
    ck_assert_int_eq(pleat_block_free(neighbour, 0, mine, NULL), PLEAT_EFOREIGN);
    ck_assert_int_eq(pleat_block_free(c.instance, 0, theirs, NULL), PLEAT_EFOREIGN);
    compliance_free(&c, mine, NULL);
    ck_assert_int_eq(pleat_block_free(neighbour, 0, theirs, NULL), PLEAT_OK);
    compliance_trim(&c);
    ck_assert_int_eq(pleat_block_alloc(neighbour, 0, 120 * MIB, NULL, &theirs), PLEAT_OK);
    ck_assert_int_eq(pleat_block_free(neighbour, 0, theirs, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_destroy(neighbour, 0), PLEAT_OK);
    compliance_close(&c);
}
END_TEST

/* PyTorch: "Cannot re-initialize CUDA in forked subprocess". */
START_TEST(a_forked_child_is_refused_and_the_parent_goes_on)
{
    enum { GOOD = 42 };
    compliance c = compliance_open(_i, "capacity:256M", "");
    pleat_devptr ptr = compliance_alloc(&c, 3 * MIB, NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        pleat_devptr other;
        bool is_good = pleat_block_free(c.instance, 0, ptr, NULL) == PLEAT_EFORKED &&
                       pleat_block_alloc(c.instance, 0, 1, NULL, &other) == PLEAT_EFORKED &&
                       pleat_destroy(c.instance, PLEAT_DESTROY_FORCE) == PLEAT_EFORKED;
        _exit(is_good ? GOOD : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), GOOD);
    compliance_free(&c, ptr, NULL);
    compliance_free(&c, compliance_alloc(&c, 30 * MIB, NULL), NULL);
    compliance_close(&c);
}
END_TEST

SUITE(api_compliance_crowd)
{
    static const TTest *const *const tests[] = {
        &ten_thousand_random_steps_keep_all_contents,
        &random_uses_on_many_streams_keep_all_contents_close_to_the_limit,
        &devices_do_not_affect_each_other,
        &instances_on_one_device_keep_apart_and_leave_each_other_room,
        &a_forked_child_is_refused_and_the_parent_goes_on,
    };
    static const TTest *const *const threads[] = {
        &threads_allocate_free_and_hand_over_at_once,
        &threads_that_fill_the_device_together_are_all_served,
    };
    compliance_add(suite, tests, sizeof tests / sizeof tests[0]);
    compliance_add_threads(suite, threads, sizeof threads / sizeof threads[0]);
}
