/* turmoil_test.c - four threads do everything at once on one device, while calls of the driver and
 * of the host fail now and then. They use blocks, buffers, sleeping tags, private pools, captures,
 * checkpoints, short-lived streams, trims, limits and compactions.
 *
 * Any request may be refused, but without a fault no free may be. Every invariant holds. It is
 * checked now and then beside the calls, and often while all threads rest. Then the figures must
 * equal the threads' memory. At the end nothing is left, and the whole device serves again. */
/* labels: stress fault */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/calls/internal.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"
#include "vmm/base/lock.h"
#include "vmm/base/meta.h"
#include "vmm/driver.h"

/* Fewer steps in builds that walk everything, and under a thread sanitizer. */
#if PLEAT_DEBUG_LEVEL >= 2 || defined(__SANITIZE_THREAD__)
enum { N_STEPS = 40000 };
#else
enum { N_STEPS = 1000000 }; /* of all threads */
#endif
enum { N_THREADS = 4, N_PARTS = 2, STEPS_A_ROUND = 1000 };
enum { N_STREAMS = 3, N_BLOCKS = 24, N_BUFFERS = 16, N_TAGS = 2, N_REQUESTS = 5, N_PAGES = 12 };

static const uint64_t GRANULE = 256 << 10; /* small, as time goes by the bytes that are kept */
static const uint64_t N_GRANULES = 256;
static const char *const tags[N_TAGS + 1] = { "weights", "kv", NULL };

#define BIT(status) (UINT64_C(1) << (status))
/* Results allowed for any call after a fault in any thread. */
#define FAULT (BIT(PLEAT_ENOMEM_HOST) | BIT(PLEAT_EDRIVER))
static const uint64_t STRUCK = FAULT | BIT(PLEAT_EPOISONED) | BIT(PLEAT_ENOMEM_DEVICE) |
                               BIT(PLEAT_ENOSPACE_VA) | BIT(PLEAT_EPENDING);
static const uint64_t ASLEEP = BIT(PLEAT_EASLEEP);
static const uint64_t CAPTURE = BIT(PLEAT_ECAPTURE);

typedef struct block {
    pleat_devptr ptr; /* 0 = none */
    uint64_t bytes;
    unsigned stream;
    bool is_tagged;
} block;

/* A thread with its state. */
typedef struct guest {
    pthread_t thread;
    unsigned number;
    uint64_t random;
    cu_stream streams[N_STREAMS];
    cu_event event; /* orders a stream after another */
    block blocks[N_BLOCKS];
    uint64_t n_pools;
} guest;

static struct scene {
    pleat handle;
    pl_driver *drv;
    size_t n_rounds;
    bool is_compacting; /* in this round; changes only while all threads rest */
    pthread_barrier_t rest;
    pleat_devptr buffers[N_BUFFERS]; /* changed by all threads */
    guest guests[N_THREADS];
    _Atomic unsigned n_wrong;
    char why[640]; /* the first error */
} scene;

static size_t below(guest *g, size_t n)
{
    g->random = g->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(g->random >> 33) % n;
}

/* ---- what must not be ------------------------------------------------------------------------ */

static void note(const char *what, const char *text)
{
    if (atomic_fetch_add(&scene.n_wrong, 1) == 0) {
        (void)snprintf(scene.why, sizeof scene.why, "%s: %s", what, text);
    }
}

/* The call may also end in one of `allowed`. Returns whether it was served. */
static bool may(const char *what, pleat_status st, uint64_t allowed)
{
    if ((BIT(st) & (BIT(PLEAT_OK) | allowed)) == 0) {
        note(what, pleat_last_error()->text);
    }
    return st == PLEAT_OK;
}

static void drive(const char *what, int result)
{
    if (result != 0) {
        char text[32];
        (void)snprintf(text, sizeof text, "%d", result);
        note(what, text);
    }
}

static void walk(const char *when)
{
    char text[32];
    int broken = -1;
    pleat_status st = pleat_check(scene.handle, &broken);
    if (st != PLEAT_OK || broken != 0) {
        (void)snprintf(text, sizeof text, "%d is broken", broken);
        note(when, text);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void order(guest *g, unsigned earlier, unsigned later)
{
    drive("record", pl_cu_event_record(scene.drv, g->event, g->streams[earlier]));
    drive("wait", pl_cu_stream_wait_event(scene.drv, g->streams[later], g->event, 0));
}

/* While memory may be compacted no work is submitted. */
static void work(guest *g, const block *b)
{
    if (scene.is_compacting) {
        return;
    }
    pleat_sim_access access = { .ptr = b->ptr, .bytes = b->bytes, .is_write = true };
    drive("work", sim.work(g->streams[b->stream], &access, 1));
}

static uint64_t size_of(guest *g, uint64_t large)
{
    return 512 + (below(g, 2) == 0 ? below(g, large) : below(g, GRANULE / 32));
}

static void take(guest *g, block *b)
{
    const char *tag = tags[below(g, N_TAGS + 1)];
    *b = (block){ .bytes = size_of(g, 7 * GRANULE / 2),
                  .stream = (unsigned)below(g, N_STREAMS),
                  .is_tagged = tag != NULL };
    cu_stream stream = g->streams[b->stream];
    pleat_status st = tag != NULL ? pleat_tag_alloc(scene.handle, 0, tag, b->bytes, stream, &b->ptr)
                                  : pleat_block_alloc(scene.handle, 0, b->bytes, stream, &b->ptr);
    if (!may("alloc", st, STRUCK | ASLEEP)) {
        b->ptr = 0;
    } else if (tag == NULL) { /* a tagged block may sleep at any time, so no work uses it */
        work(g, b);
    }
}

static void give_back(guest *g, block *b)
{
    if (b->ptr != 0 &&
        may("free", pleat_block_free(scene.handle, 0, b->ptr, g->streams[b->stream]), FAULT)) {
        b->ptr = 0;
    }
}

/* A second stream uses the block last, and may free it. */
static void lend(guest *g, block *b)
{
    block there = *b;
    there.stream = (unsigned)below(g, N_STREAMS);
    if (there.stream == b->stream || b->ptr == 0) {
        return;
    }
    pleat_status st = pleat_block_record_stream(scene.handle, 0, b->ptr, g->streams[there.stream]);
    if (may("record_stream", st, STRUCK)) {
        order(g, b->stream, there.stream);
        if (!b->is_tagged) {
            work(g, &there);
        }
        if (below(g, 2) == 0) {
            b->stream = there.stream;
        }
    }
}

static void take_or_free(guest *g)
{
    block *b = &g->blocks[below(g, N_BLOCKS)];
    if (b->ptr == 0) {
        take(g, b);
    } else {
        if (below(g, 4) == 0) {
            lend(g, b);
        }
        give_back(g, b);
    }
}

/* Another stream takes over the old stream's blocks. Every second time pleat is told. */
static void renew_stream(guest *g)
{
    unsigned i = (unsigned)below(g, N_STREAMS);
    unsigned heir = (i + 1) % N_STREAMS;
    order(g, i, heir);
    for (unsigned n = 0; n < N_BLOCKS; n++) {
        g->blocks[n].stream = g->blocks[n].stream == i ? heir : g->blocks[n].stream;
    }
    if (below(g, 2) == 0) {
        (void)may("retire", pleat_stream_retire(scene.handle, 0, g->streams[i]), STRUCK);
    }
    drive("destroy", pl_cu_stream_destroy(scene.drv, g->streams[i]));
    drive("stream", pl_cu_stream_create(scene.drv, &g->streams[i], CU_STREAM_NON_BLOCKING_FLAG));
}

/* ---- buffers --------------------------------------------------------------------------------- */

static void change_buffer(guest *g)
{
    pleat_devptr buffer = scene.buffers[below(g, N_BUFFERS)];
    cu_stream stream = g->streams[below(g, N_STREAMS)];
    uint64_t from = below(g, N_PAGES) * GRANULE;
    uint64_t bytes = (1 + below(g, 5)) * GRANULE;
    bytes = bytes < N_PAGES * GRANULE - from ? bytes : N_PAGES * GRANULE - from;
    size_t which = below(g, 12);
    if (which < 5) {
        pleat_status st = pleat_buffer_commit(scene.handle, 0, buffer, from, bytes, stream);
        (void)may("commit", st, STRUCK | ASLEEP);
    } else if (which < 9) {
        pleat_status st = pleat_buffer_decommit(scene.handle, 0, buffer, from, bytes, stream);
        (void)may("decommit", st, STRUCK);
    } else if (which < 11) {
        pleat_status st = pleat_buffer_resize(scene.handle, 0, buffer, from, stream);
        (void)may("resize", st, STRUCK | ASLEEP);
    } else {
        pleat_status st = pleat_buffer_record_stream(scene.handle, 0, buffer, stream);
        (void)may("record in a buffer", st, STRUCK);
    }
}

/* A buffer that comes and goes. */
static void pass_through(guest *g)
{
    pleat_devptr buffer;
    cu_stream stream = g->streams[below(g, N_STREAMS)];
    const char *tag = tags[below(g, N_TAGS + 1)];
    uint64_t bytes = (1 + below(g, N_PAGES)) * GRANULE;
    (void)may("push", pleat_tag_push(tag), 0);
    pleat_status st = pleat_buffer_create(scene.handle, 0, bytes, 0, &buffer);
    (void)may("pop", pleat_tag_pop(), 0);
    if (may("create", st, STRUCK | ASLEEP)) {
        st = pleat_buffer_resize(scene.handle, 0, buffer, 1 + below(g, bytes), stream);
        (void)may("resize", st, STRUCK | ASLEEP);
        do {
            st = pleat_buffer_destroy(scene.handle, 0, buffer, stream);
        } while (!may("destroy", st, FAULT) && atomic_load(&scene.n_wrong) == 0);
    }
}

/* ---- tags ------------------------------------------------------------------------------------ */

/* Most sleeps fail when all memory of the tag is already held. Then the tag opens again piece by
 * piece, while others use it. */
static void sleep_or_wake(guest *g)
{
    const char *tag = tags[below(g, N_TAGS)];
    size_t which = below(g, 12);
    pleat_sleep how = which == 0   ? PLEAT_SLEEP_DISCARD
                      : which == 1 ? PLEAT_SLEEP_HOST
                                   : PLEAT_SLEEP_FILE;
    const char *folder = how == PLEAT_SLEEP_FILE ? "/no such folder" : NULL;
    pleat_slept slept;
    if (which < 8) {
        pleat_status st = pleat_tag_sleep(scene.handle, 0, tag, how, folder, &slept);
        (void)may("sleep", st, STRUCK | ASLEEP | CAPTURE | BIT(PLEAT_EWRITE));
    } else {
        uint64_t most = which == 8 ? (1 + below(g, 8)) * GRANULE : 0;
        (void)may("wake", pleat_tag_wake(scene.handle, 0, tag, most, &slept), STRUCK | CAPTURE);
    }
}

/* ---- private pools --------------------------------------------------------------------------- */

static bool is_it(void *stream, void *context)
{
    return stream == context;
}

static bool restore(pleat_checkpoint saved)
{
    pleat_status st = pleat_checkpoint_restore(scene.handle, 0, saved, 0, NULL, NULL);
    bool is_done = may("restore", st, STRUCK | BIT(PLEAT_EBUSY));
    (void)may("forget", pleat_checkpoint_release(scene.handle, 0, saved), 0);
    return is_done;
}

static void request(guest *g, block *b)
{
    *b = (block){ .bytes = size_of(g, 5 * GRANULE / 2) };
    pleat_status st = pleat_block_alloc(scene.handle, 0, b->bytes, g->streams[0], &b->ptr);
    if (may("request", st, STRUCK | CAPTURE)) {
        work(g, b);
    } else {
        b->ptr = 0;
    }
    if (below(g, 3) == 0) {
        give_back(g, b);
    }
}

static void capture(guest *g, block *own)
{
    cu_graph graph = NULL;
    drive("begin", pl_cu_stream_begin_capture(scene.drv, g->streams[0], (int)below(g, 3)));
    for (unsigned n = 0; n < N_REQUESTS; n++) {
        request(g, &own[n]);
    }
    drive("end", pl_cu_stream_end_capture(scene.drv, g->streams[0], &graph));
    drive("graph", pl_cu_graph_destroy(scene.drv, graph));
}

/* Requests to a pool of its own, in a capture or not. What lives at the end goes with a restore of
 * nothing, or with frees. */
static void use_pool(guest *g)
{
    pleat_pool_id id = { g->number + 1, ++g->n_pools };
    block own[2 * N_REQUESTS] = { 0 };
    pleat_checkpoint empty = { 0 };
    pleat_status st = pleat_pool_begin(scene.handle, 0, id, is_it, NULL, g->streams[0]);
    if (!may("pool_begin", st, STRUCK)) {
        return;
    }
    bool is_saved = below(g, 2) == 0 &&
                    may("checkpoint", pleat_checkpoint_take(scene.handle, 0, id, &empty), STRUCK);
    for (unsigned n = 0; n < N_REQUESTS; n++) {
        request(g, &own[n]);
    }
    if (below(g, 2) == 0 && !scene.is_compacting) {
        capture(g, own + N_REQUESTS);
    }
    (void)may("pool_end", pleat_pool_end(scene.handle, 0, id), 0);
    bool is_gone = is_saved && restore(empty);
    for (unsigned n = 0; n < 2 * N_REQUESTS && !is_gone; n++) {
        while (own[n].ptr != 0 && atomic_load(&scene.n_wrong) == 0) {
            give_back(g, &own[n]);
        }
    }
    (void)may("pool_release", pleat_pool_release(scene.handle, 0, id), 0);
}

/* ---- the device ------------------------------------------------------------------------------ */

static void tidy(guest *g)
{
    pleat_compaction won;
    uint64_t limit = below(g, 3) == 0 ? (N_GRANULES / 4 + below(g, N_GRANULES)) * GRANULE : 0;
    switch (below(g, 4)) {
    case 0:
        (void)may(
            "trim",
            pleat_device_trim(scene.handle, 0, below(g, N_GRANULES) * GRANULE, below(g, 2), NULL),
            STRUCK);
        return;
    case 1:
        (void)may("limit", pleat_device_set_limit(scene.handle, 0, limit), STRUCK);
        return;
    case 2:
        if (scene.is_compacting) {
            (void)may("compact", pleat_device_compact(scene.handle, 0, &won), STRUCK | CAPTURE);
        }
        return;
    default:
        walk("beside the calls");
    }
}

static void arm(guest *g)
{
    static const char *const calls[] = { "cuMemCreate",  "cuMemMap",       "cuMemUnmap",
                                         "cuMemRelease", "cuMemSetAccess", "cuMemAddressReserve" };
    size_t which = below(g, sizeof calls / sizeof calls[0] + 1);
    if (below(g, 16) == 0) { /* cancels faults that have not struck yet */
        sim.fail_never();
        pl_meta_fail_never();
    }
    if (which < sizeof calls / sizeof calls[0]) {
        sim.fail_at(calls[which], below(g, 6), below(g, 2) == 0 ? 2 : 999);
    } else {
        pl_meta_fail_at(below(g, 12));
    }
}

/* ---- the threads ----------------------------------------------------------------------------- */

static void step(guest *g)
{
    size_t which = below(g, 1024);
    if (which < 440) {
        take_or_free(g);
    } else if (which < 900) {
        change_buffer(g);
    } else if (which < 920) {
        pass_through(g);
    } else if (which < 975) {
        sleep_or_wake(g);
    } else if (which < 985) {
        use_pool(g);
    } else if (which < 995) {
        renew_stream(g);
    } else if (which < 1005) {
        tidy(g);
    } else {
        arm(g);
    }
}

/* While nobody is inside of a call. */
static void look(void)
{
    pleat_stats s;
    pleat_sim_hazard hazard;
    uint64_t bytes = 0;
    walk("at rest");
    for (unsigned i = 0; i < N_THREADS * N_BLOCKS; i++) {
        const block *b = &scene.guests[i / N_BLOCKS].blocks[i % N_BLOCKS];
        bytes += b->ptr != 0 ? b->bytes : 0;
    }
    for (unsigned i = 0; i < N_BUFFERS; i++) {
        pleat_buffer_info info = { .committed_bytes = 0 };
        (void)may("query", pleat_buffer_query(scene.handle, 0, scene.buffers[i], &info), 0);
        bytes += info.committed_bytes;
    }
    if (may("stats", pleat_device_stats(scene.handle, 0, &s), 0) &&
        s.requested_bytes[PLEAT_SIZES_ALL].current != bytes) {
        note("at rest", "the figures of live memory are wrong");
    }
    if (sim.hazards(&hazard, 1) > 0) {
        note("a hazard", hazard.text);
    }
}

/* All threads rest together, and one thread checks. */
static void rest(const guest *g)
{
    (void)pthread_barrier_wait(&scene.rest);
    if (g->number == 0) {
        look();
        scene.is_compacting = !scene.is_compacting;
    }
    (void)pthread_barrier_wait(&scene.rest);
}

static void leave(guest *g)
{
    for (unsigned n = 0; n < N_BLOCKS; n++) {
        give_back(g, &g->blocks[n]);
    }
    for (unsigned i = 0; i < N_STREAMS; i++) {
        drive("destroy", pl_cu_stream_destroy(scene.drv, g->streams[i]));
    }
    drive("event", pl_cu_event_destroy(scene.drv, g->event));
}

/* Where something went wrong, the rest is not played. */
static void *live(void *arg)
{
    guest *g = arg;
    pl_device *dev = pleat_internal_device(scene.handle, 0);
    drive("enter", dev != NULL && pl_device_enter(dev) == PLEAT_OK ? 0 : -1);
    drive("event", pl_cu_event_create(scene.drv, &g->event, CU_EVENT_DISABLE_TIMING_FLAG));
    for (unsigned i = 0; i < N_STREAMS; i++) {
        drive("stream",
              pl_cu_stream_create(scene.drv, &g->streams[i], CU_STREAM_NON_BLOCKING_FLAG));
    }
    for (size_t round = 0; round < scene.n_rounds; round++) {
        for (unsigned n = 0; n < STEPS_A_ROUND && atomic_load(&scene.n_wrong) == 0; n++) {
            step(g);
        }
        rest(g);
    }
    if (g->number == 0) {
        sim.fail_never();
        pl_meta_fail_never();
    }
    rest(g);
    leave(g);
    pl_device_leave(dev);
    return NULL;
}

/* Where a thread drops the lock in the midst of something, the others come in, every few times. */
static void let_others_in(void)
{
    static _Thread_local unsigned n;
    struct timespec pause = { .tv_nsec = 20000 };
    if (++n % 4 == 0) {
        (void)nanosleep(&pause, NULL);
    } else {
        (void)sched_yield();
    }
}

/* ---- the scene ------------------------------------------------------------------------------- */

static void make_buffers(void)
{
    for (unsigned i = 0; i < N_BUFFERS; i++) {
        ck_assert_int_eq(pleat_tag_push(tags[i % (N_TAGS + 1)]), PLEAT_OK);
        pleat_status st = pleat_buffer_create(scene.handle, 0, N_PAGES * GRANULE, i % 2 * GRANULE,
                                              &scene.buffers[i]);
        ck_assert_int_eq(st, PLEAT_OK);
        ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    }
}

static void run_all(const char *conf)
{
    scene.n_rounds = suite_part(N_STEPS) / N_PARTS / N_THREADS / STEPS_A_ROUND + 1;
    scene.handle = api_make(API_PLEAT, "capacity:64M,granularity:256K,depth:16", conf);
    make_buffers();
    api_free(scene.handle, 0, api_alloc(scene.handle, 0, GRANULE, NULL),
             NULL); /* opens the device */
    scene.drv = pl_device_driver(pleat_internal_device(scene.handle, 0));
    pl_lock_breath = let_others_in;
    ck_assert_int_eq(pthread_barrier_init(&scene.rest, NULL, N_THREADS), 0);
    for (unsigned i = 0; i < N_THREADS; i++) {
        scene.guests[i].number = i;
        scene.guests[i].random = i * 7919 + 13;
        ck_assert_int_eq(pthread_create(&scene.guests[i].thread, NULL, live, &scene.guests[i]), 0);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(scene.guests[i].thread, NULL), 0);
    }
    (void)pthread_barrier_destroy(&scene.rest);
    pl_lock_breath = NULL;
    ck_assert_msg(atomic_load(&scene.n_wrong) == 0, "%s", scene.why);
}

/* Memory that could not be unmapped stays held. */
static uint64_t lost_bytes(void)
{
    ck_assert_int_eq(pleat_device_trim(scene.handle, 0, 0, true, NULL), PLEAT_OK);
    ck_assert_uint_eq(api_stats(scene.handle, 0).resident_bytes, 0);
    return api_sim_counts().physical_bytes;
}

/* No block lives, no freed memory is withheld, and a request gets nearly the whole device. */
static void check_end(void)
{
    sim.finish();
    ck_assert_int_eq(pleat_device_set_limit(scene.handle, 0, 0), PLEAT_OK);
    for (unsigned i = 0; i < N_TAGS; i++) {
        pleat_status st = pleat_tag_wake(scene.handle, 0, tags[i], 0, NULL);
        ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    }
    for (unsigned i = 0; i < N_BUFFERS; i++) {
        pleat_status st = pleat_buffer_destroy(scene.handle, 0, scene.buffers[i], NULL);
        ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    }
    sim.finish();
    uint64_t lost = lost_bytes();
    ck_assert_uint_lt(lost, N_GRANULES * GRANULE / 2);
    uint64_t most = (N_GRANULES - 4) * GRANULE - lost;
    api_free(scene.handle, 0, api_alloc(scene.handle, 0, most, NULL), NULL);
    ck_assert_uint_eq(lost_bytes(), lost);
    pleat_stats s = api_stats(scene.handle, 0);
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_SIZES_ALL].current, 0);
    ck_assert_uint_eq(s.pending_bytes, 0);
    ck_assert_uint_eq(s.pinned_granules, 0);
    api_check(scene.handle);
    api_unmake(scene.handle);
}

START_TEST(everything_at_once)
{
    run_all("wait_ms:2,chunks:granule");
    check_end();
}
END_TEST

START_TEST(everything_at_once_in_large_chunks)
{
    run_all("wait_ms:2,chunks:mixed,chunk_share:1");
    check_end();
}
END_TEST

/* ---- former errors --------------------------------------------------------------------------- */

enum { DELAY_US = 200000, OUT_OF_MEMORY = 2 };

static void *ask(void *arg)
{
    pleat_devptr ptr;
    *(pleat_status *)arg = pleat_block_alloc(scene.handle, 0, GRANULE, NULL, &ptr);
    return NULL;
}

/* The mapping fails for lack of memory, so the new chunk is released. During the release a walk
 * finds no error. */
START_TEST(idle_chunks_that_go_are_in_flight)
{
    pthread_t asker;
    pleat_status st = PLEAT_EINVAL;
    scene.handle = api_make(API_PLEAT, "capacity:64M", "");
    api_free(scene.handle, 0, api_alloc(scene.handle, 0, GRANULE, NULL), NULL);
    ck_assert_int_eq(pleat_device_trim(scene.handle, 0, 0, true, NULL), PLEAT_OK);
    uint64_t before = sim.n_calls("cuMemRelease");
    sim.fail_at("cuMemMap", 0, OUT_OF_MEMORY);
    sim.fail_at("cuMemMap", 1, OUT_OF_MEMORY); /* after one failure the driver is asked again */
    sim.delay_after("cuMemRelease", DELAY_US);
    ck_assert_int_eq(pthread_create(&asker, NULL, ask, &st), 0);
    while (sim.n_calls("cuMemRelease") == before) {
        sched_yield();
    }
    api_check(scene.handle);
    ck_assert_int_eq(pthread_join(asker, NULL), 0);
    ck_assert_int_eq(st, PLEAT_ENOMEM_DEVICE); /* nothing else could be given back */
    api_free(scene.handle, 0, api_alloc(scene.handle, 0, GRANULE, NULL), NULL);
    api_unmake(scene.handle);
}
END_TEST

SUITE(api_turmoil)
{
    TCase *found = suite_case(suite, "found", api_sim_load, NULL);
    tcase_add_test(found, idle_chunks_that_go_are_in_flight);
    TCase *turmoil = suite_case(suite, "turmoil", api_sim_load, NULL);
    tcase_add_test(turmoil, everything_at_once);
    tcase_add_test(turmoil, everything_at_once_in_large_chunks);
}
