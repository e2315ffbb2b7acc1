/* front_crowd_test.c - many threads keep blocks in their fronts, while others look, trim and
 * record. Nothing is lost, and the figures add up. */
/* labels: stress */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/api/api_history.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/suite.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

#if PLEAT_DEBUG_LEVEL >= 2 || defined(__SANITIZE_THREAD__)
enum { SLOWER = 20 };
#else
enum { SLOWER = 1 };
#endif

/* Threads count errors; the test asserts. */
typedef struct crowd {
    pleat instance;
    void *streams[2];
    unsigned n_steps;
    _Atomic unsigned n_begun;
    _Atomic unsigned n_wrong;
    _Atomic int status; /* of the last that was wrong */
    _Atomic uint64_t n_allocs;
    _Atomic uint64_t n_bytes; /* requested bytes of these */
    _Atomic bool is_over;
} crowd;

static bool is_good(crowd *c, pleat_status st)
{
    if (st != PLEAT_OK) {
        atomic_store(&c->status, (int)st);
        atomic_fetch_add(&c->n_wrong, 1);
    }
    return st == PLEAT_OK;
}

static void expect_good(const crowd *c)
{
    ck_assert_msg(atomic_load(&c->n_wrong) == 0, "%u wrong, the last: %s", atomic_load(&c->n_wrong),
                  pleat_status_text((pleat_status)atomic_load(&c->status)));
}

typedef struct held {
    pleat_devptr ptr;
    void *stream;
} held;

/* Work on the block shows where two streams, or two threads, have it at once. */
static void take(crowd *c, held *h, random_source *r)
{
    static const size_t sizes[] = { 512, 700, 4096, 20000, 100 * KIB, 300 * KIB, 2 * MIB };
    size_t bytes = sizes[random_below(r, random_once_in(r, 20) ? 7 : 5)];
    h->stream = c->streams[random_below(r, 2)];
    if (is_good(c, pleat_block_alloc(c->instance, 0, bytes, h->stream, &h->ptr))) {
        atomic_fetch_add(&c->n_allocs, 1);
        atomic_fetch_add(&c->n_bytes, bytes);
        pleat_sim_access access = { .ptr = h->ptr, .bytes = bytes, .is_write = true };
        if (random_once_in(r, 8) && sim.work(h->stream, &access, 1) != 0) {
            atomic_fetch_add(&c->n_wrong, 1);
        }
    }
}

static void give(crowd *c, held *h)
{
    is_good(c, pleat_block_free(c->instance, 0, h->ptr, h->stream));
    h->ptr = 0;
}

static void *pair_at_random(void *arg)
{
    enum { N_PLACES = 6 };
    crowd *c = arg;
    held places[N_PLACES] = { { 0 } };
    random_source r = { atomic_fetch_add(&c->n_begun, 1) + 1 };
    for (unsigned i = 0; i < c->n_steps && atomic_load(&c->n_wrong) == 0; i++) {
        held *h = &places[random_below(&r, N_PLACES)];
        if (h->ptr == 0) {
            take(c, h, &r);
        } else {
            give(c, h);
        }
    }
    for (unsigned i = 0; i < N_PLACES; i++) {
        if (places[i].ptr != 0) {
            give(c, &places[i]);
        }
    }
    return NULL;
}

static bool swallow(void *context, const void *bytes, size_t n)
{
    (void)bytes;
    *(size_t *)context += n;
    return true;
}

/* Make every call that looks into fronts. */
static void *look_around(void *arg)
{
    crowd *c = arg;
    for (unsigned i = 0; !atomic_load(&c->is_over); i++) {
        pleat_stats s;
        int broken = 0;
        size_t n = 0;
        if (is_good(c, pleat_device_stats(c->instance, 0, &s))) {
            bool adds_up = s.allocation[0].allocated - s.allocation[0].freed ==
                               s.allocation[0].current &&
                           s.allocation[0].current <= s.allocation[0].peak &&
                           s.allocation[1].current + s.allocation[2].current ==
                               s.allocation[0].current;
            atomic_fetch_add(&c->n_wrong, !adds_up);
        }
        if (i % 4 == 1) {
            is_good(c, pleat_check(c->instance, &broken));
            atomic_fetch_add(&c->n_wrong, broken != 0);
        } else if (i % 4 == 2) {
            pleat_status st = pleat_device_trim(c->instance, 0, 8 * MIB, false, NULL);
            is_good(c, st == PLEAT_EPENDING ? PLEAT_OK : st);
        } else if (i % 4 == 3) {
            is_good(c, pleat_snapshot_write(c->instance, PLEAT_SNAPSHOT_JSON, swallow, &n));
            is_good(c, pleat_device_reset_peaks(c->instance, 0));
        }
        (void)usleep(200);
    }
    return NULL;
}

static void start(pthread_t *threads, unsigned n, void *(*body)(void *), crowd *c)
{
    for (unsigned i = 0; i < n; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, body, c), 0);
    }
}

static void join(pthread_t *threads, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
}

static void make(crowd *c, bool has_streams, unsigned n_steps)
{
    *c = (crowd){ .n_steps = n_steps };
    c->instance = api_make(API_PLEAT, "capacity:8G", "stream_identity:handle,capture:told");
    c->streams[0] = has_streams ? api_stream(c->instance, 0) : NULL;
    c->streams[1] = has_streams ? api_stream(c->instance, 0) : NULL;
}

static void unmake(crowd *c)
{
    sim.finish();
    if (c->streams[0] != NULL) {
        api_stream_end(c->instance, 0, c->streams[0]);
        api_stream_end(c->instance, 0, c->streams[1]);
    }
    api_unmake(c->instance);
}

static void expect_exact(crowd *c)
{
    pleat_stats s = api_stats(c->instance, 0);
    expect_good(c);
    ck_assert_uint_eq(s.allocation[0].current, 0);
    ck_assert_uint_eq(s.allocation[0].allocated, atomic_load(&c->n_allocs));
    ck_assert_uint_eq(s.allocation[0].freed, atomic_load(&c->n_allocs));
    ck_assert_uint_eq(s.requested_bytes[0].allocated, atomic_load(&c->n_bytes));
    ck_assert_uint_eq(s.requested_bytes[0].current, 0);
    ck_assert_uint_eq(s.allocated_bytes[0].current, 0);
    ck_assert_uint_eq(s.live_granules, 0);
    api_check(c->instance);
}

/* More threads than an allocator binds fronts (32). */
START_TEST(more_threads_than_fronts_pair_beside_one_that_looks)
{
    enum { N_THREADS = 40 };
    crowd c;
    pthread_t threads[N_THREADS];
    pthread_t observer;
    make(&c, _i == 1, 20000 / SLOWER);
    start(&observer, 1, look_around, &c);
    start(threads, N_THREADS, pair_at_random, &c);
    join(threads, N_THREADS);
    atomic_store(&c.is_over, true);
    join(&observer, 1);
    expect_exact(&c);
    unmake(&c);
}
END_TEST

/* ---- threads that come and go ---------------------------------------------------------------- */

static void *pair_and_end(void *arg)
{
    (void)pair_at_random(arg);
    pthread_exit(NULL);
}

START_TEST(threads_come_and_go_with_what_they_keep)
{
    enum { N_AT_ONCE = 8, N_ROUNDS = 40 };
    crowd c;
    pthread_t threads[N_AT_ONCE];
    pthread_t observer;
    make(&c, true, 60);
    start(&observer, 1, look_around, &c);
    for (unsigned round = 0; round < N_ROUNDS; round++) {
        start(threads, N_AT_ONCE, pair_and_end, &c);
        join(threads, N_AT_ONCE);
    }
    atomic_store(&c.is_over, true);
    join(&observer, 1);
    expect_exact(&c);
    unmake(&c);
}
END_TEST

/* ---- instances that go ----------------------------------------------------------------------- */

static void *pair_until_gone(void *arg)
{
    crowd *c = arg;
    pleat_status st = PLEAT_OK;
    for (unsigned i = 0; st == PLEAT_OK; i++) {
        pleat_devptr ptr = 0;
        st = pleat_block_alloc(c->instance, 0, 3000 + i % 2, NULL, &ptr);
        if (st == PLEAT_OK) {
            atomic_fetch_add(&c->n_allocs, 1);
            st = pleat_block_free(c->instance, 0, ptr, NULL);
        }
    }
    is_good(c, st == PLEAT_EGONE ? PLEAT_OK : st);
    return NULL;
}

/* Each new instance gets the slot of the previous one. */
START_TEST(instances_go_while_their_fronts_are_used)
{
    enum { N_THREADS = 4, N_ROUNDS = 60 };
    for (unsigned round = 0; round < N_ROUNDS; round++) {
        crowd c;
        pthread_t threads[N_THREADS];
        make(&c, false, 0);
        start(threads, N_THREADS, pair_until_gone, &c);
        while (atomic_load(&c.n_allocs) < 500 && atomic_load(&c.n_wrong) == 0) {
            sched_yield();
        }
        pleat_status st = pleat_destroy(c.instance, 0);
        ck_assert(st == PLEAT_OK || st == PLEAT_EBUSY);
        if (st == PLEAT_EBUSY) {
            ck_assert_int_eq(pleat_destroy(c.instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
        }
        join(threads, N_THREADS);
        expect_good(&c);
        api_sim_check_empty();
    }
}
END_TEST

/* ---- producers and consumers ----------------------------------------------------------------- */

enum { N_ROOMS = 16 };

static struct belt {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pleat_devptr rooms[N_ROOMS];
    unsigned n_put;
    unsigned n_got;
    unsigned n_all;
} belt = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void *produce(void *arg)
{
    crowd *c = arg;
    for (unsigned i = 0; i < belt.n_all; i++) {
        pleat_devptr ptr = 0;
        is_good(c, pleat_block_alloc(c->instance, 0, 1000 + i % 3 * 1000, NULL, &ptr));
        atomic_fetch_add(&c->n_allocs, 1);
        atomic_fetch_add(&c->n_bytes, 1000 + i % 3 * 1000);
        pthread_mutex_lock(&belt.mutex);
        while (belt.n_put - belt.n_got == N_ROOMS) {
            pthread_cond_wait(&belt.changed, &belt.mutex);
        }
        belt.rooms[belt.n_put++ % N_ROOMS] = ptr;
        pthread_cond_broadcast(&belt.changed);
        pthread_mutex_unlock(&belt.mutex);
    }
    return NULL;
}

static void *consume(void *arg)
{
    crowd *c = arg;
    for (unsigned i = 0; i < belt.n_all; i++) {
        pthread_mutex_lock(&belt.mutex);
        while (belt.n_put == belt.n_got) {
            pthread_cond_wait(&belt.changed, &belt.mutex);
        }
        pleat_devptr ptr = belt.rooms[belt.n_got++ % N_ROOMS];
        pthread_cond_broadcast(&belt.changed);
        pthread_mutex_unlock(&belt.mutex);
        is_good(c, pleat_block_free(c->instance, 0, ptr, NULL));
        if (i % 10 == 0) { /* this thread's front holds its freed block */
            pleat_devptr own = 0;
            is_good(c, pleat_block_alloc(c->instance, 0, 1000, NULL, &own));
            is_good(c, pleat_block_free(c->instance, 0, own, NULL));
            atomic_fetch_add(&c->n_allocs, 1);
            atomic_fetch_add(&c->n_bytes, 1000);
        }
    }
    return NULL;
}

START_TEST(what_one_thread_allocates_another_frees)
{
    crowd c;
    pthread_t threads[2];
    make(&c, false, 0);
    belt.n_all = 20000 / SLOWER;
    start(&threads[0], 1, produce, &c);
    start(&threads[1], 1, consume, &c);
    join(threads, 2);
    expect_exact(&c);
    ck_assert_uint_le(api_stats(c.instance, 0).resident_bytes, 4 * MIB);
    unmake(&c);
}
END_TEST

/* ---- histories ------------------------------------------------------------------------------- */

typedef struct told {
    pleat_devptr base;
    unsigned last; /* action */
} told;

/* The reports about an address must alternate. The first may be any of them. */
static void expect_alternation(size_t n)
{
    static told seen[HISTORY_MOST];
    size_t n_seen = 0;
    for (size_t i = 0; i < n; i++) {
        const pl_history_entry *e = &history_entries[i];
        if (e->action > PL_ACTION_FREE_COMPLETED) {
            continue;
        }
        size_t k = 0;
        while (k < n_seen && seen[k].base != e->base) {
            k++;
        }
        if (k == n_seen) {
            seen[n_seen++] = (told){ e->base, e->action };
            continue;
        }
        unsigned wanted = e->action == PL_ACTION_ALLOC ? PL_ACTION_FREE_COMPLETED
                                                       : (unsigned)e->action - 1;
        ck_assert_msg(seen[k].last == wanted, "entry %zu: action %u of 0x%llx after %u", i,
                      e->action, (unsigned long long)e->base, seen[k].last);
        seen[k].last = e->action;
    }
}

START_TEST(a_history_that_begins_does_not_tell_of_what_was_kept)
{
    enum { N_KEPT = 5 };
    pleat_devptr kept[N_KEPT];
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    for (unsigned round = 0; round < 4; round++) {
        pleat_devptr live = api_alloc(instance, 0, 3000, NULL);
        for (unsigned i = 0; i < N_KEPT; i++) {
            kept[i] = api_alloc(instance, 0, 3000, NULL);
        }
        for (unsigned i = 0; i < N_KEPT; i++) {
            api_free(instance, 0, kept[i], NULL);
        }
        history_record(instance, 1000, 0);
        for (unsigned i = 0; i < 20; i++) {
            api_free(instance, 0, api_alloc(instance, 0, 3000, NULL), NULL);
        }
        (void)api_stats(instance, 0);
        api_free(instance, 0, live, NULL);
        size_t n = history_copy(instance, 0);
        ck_assert_uint_ge(n, 20 * 2 + 1);
        expect_alternation(n);
        for (size_t i = 0; i < n; i++) { /* the first report about any block except the live one */
            const pl_history_entry *e = &history_entries[i];
            bool is_first = e->base != live && e->action <= PL_ACTION_FREE_COMPLETED;
            for (size_t k = 0; k < i; k++) {
                is_first = is_first && history_entries[k].base != e->base;
            }
            ck_assert_msg(!is_first || e->action == PL_ACTION_ALLOC,
                          "entry %zu: action %u of 0x%llx, which nobody had", i, e->action,
                          (unsigned long long)e->base);
        }
        history_record(instance, 0, 0);
        pleat_devptr again = api_alloc(instance, 0, 3000, NULL);
        api_free(instance, 0, again, NULL);
        ck_assert_uint_eq(history_copy(instance, 0), n);
    }
    api_unmake(instance);
}
END_TEST

static void *pair_until_over(void *arg)
{
    crowd *c = arg;
    while (!atomic_load(&c->is_over)) {
        pleat_devptr ptr = 0;
        is_good(c, pleat_block_alloc(c->instance, 0, 3000, NULL, &ptr));
        is_good(c, pleat_block_free(c->instance, 0, ptr, NULL));
    }
    return NULL;
}

START_TEST(a_history_that_begins_beside_fronts_is_consistent)
{
    enum { N_THREADS = 4 };
    crowd c;
    pthread_t threads[N_THREADS];
    make(&c, false, 0);
    start(threads, N_THREADS, pair_until_over, &c);
    for (unsigned round = 0; round < 60; round++) {
        (void)usleep(500);
        history_record(c.instance, HISTORY_MOST, 0);
        (void)usleep(100);
        pl_history *history = history_of(c.instance, 0);
        size_t n = pl_history_copy(history, history_entries, HISTORY_MOST);
        expect_alternation(n < HISTORY_MOST ? n : HISTORY_MOST);
        history_record(c.instance, 0, 0);
    }
    atomic_store(&c.is_over, true);
    join(threads, N_THREADS);
    expect_good(&c);
    ck_assert_uint_eq(api_stats(c.instance, 0).allocation[0].current, 0);
    api_check(c.instance);
    unmake(&c);
}
END_TEST

SUITE(api_front_crowd)
{
    TCase *threads = suite_case(suite, "threads", api_sim_load, NULL);
    tcase_add_loop_test(threads, more_threads_than_fronts_pair_beside_one_that_looks, 0, 2);
    tcase_add_test(threads, threads_come_and_go_with_what_they_keep);
    tcase_add_test(threads, instances_go_while_their_fronts_are_used);
    tcase_add_test(threads, what_one_thread_allocates_another_frees);
    TCase *histories = suite_case(suite, "histories", api_sim_load, NULL);
    tcase_add_test(histories, a_history_that_begins_does_not_tell_of_what_was_kept);
    tcase_add_test(histories, a_history_that_begins_beside_fronts_is_consistent);
}
