/* capture_churn_test.c - threads with streams that come and go. The threads capture graphs in
 * private pools, launch and drop graphs, and trim now and then. No request may be refused.
 *
 * The last frees of a gone stream, and the memory of a released pool, wait for a point behind all
 * work of the device. This point is recorded only while nobody captures. So requests depend on the
 * progress of other threads, and requests in captures depend on nothing else. Without the yields of
 * pl_lock_yield a percent of such requests is refused once the device has been full. */
/* labels: stress */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "api/calls/internal.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"
#include "vmm/driver.h"

/* Fewer steps in builds that walk everything, and under a thread sanitizer. */
#if PLEAT_DEBUG_LEVEL >= 2
enum { N_STEPS = 400 };
#elif defined(__SANITIZE_THREAD__)
enum { N_STEPS = 3000 };
#else
enum { N_STEPS = 100000 };
#endif
enum {
    N_THREADS = 4,
    N_STREAMS = 4,
    N_BLOCKS = 32,
    N_GRAPHS = 16, /* of each thread */
    MOST_REQUESTS = 7,
    KIB = 1024,
};

typedef struct block {
    pleat_devptr ptr; /* 0 = none */
    size_t bytes;
    unsigned stream;
} block;

/* A graph keeps the blocks that its capture left unfreed. */
typedef struct graph {
    cu_graph graph; /* NULL = gone early */
    cu_graph_exec exec;
    cu_event launched; /* the last launch; NULL = never launched */
    pleat_pool_id pool;
    pleat_devptr kept[MOST_REQUESTS];
    bool is_there;
} graph;

/* A thread with its streams, blocks and graphs. */
typedef struct guest {
    pthread_t thread;
    uint64_t random;
    cu_stream streams[N_STREAMS];
    cu_event event; /* orders a stream after another */
    block blocks[N_BLOCKS];
    graph graphs[N_GRAPHS];
    unsigned n_refused;
    unsigned n_wrong;
    char why[256]; /* the first error */
} guest;

static struct scene {
    pleat handle;
    pl_driver *drv;
    unsigned n_steps; /* of each thread */
    _Atomic uint64_t n_pools;
    guest guests[N_THREADS];
} scene;

static size_t below(guest *g, size_t n)
{
    g->random = g->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(g->random >> 33) % n;
}

/* ---- what must not fail ---------------------------------------------------------------------- */

static void note(guest *g, const char *what, const char *text)
{
    if (g->why[0] == '\0') {
        (void)snprintf(g->why, sizeof g->why, "%s: %s", what, text);
    }
}

static void must(guest *g, const char *what, pleat_status st)
{
    if (st != PLEAT_OK) {
        g->n_wrong++;
        note(g, what, pleat_last_error()->text);
    }
}

static void drive(guest *g, const char *what, int result)
{
    if (result != 0) {
        char text[32];
        (void)snprintf(text, sizeof text, "%d", result);
        g->n_wrong++;
        note(g, what, text);
    }
}

static pleat_devptr ask(guest *g, size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 0;
    pleat_sim_access access = { .bytes = bytes, .is_write = true };
    if (pleat_block_alloc(scene.handle, 0, bytes, g->streams[stream], &ptr) != PLEAT_OK) {
        g->n_refused++;
        note(g, "refused", pleat_last_error()->text);
        return 0;
    }
    access.ptr = ptr;
    drive(g, "work", sim.work(g->streams[stream], &access, 1));
    return ptr;
}

static void give_back(guest *g, pleat_devptr ptr, unsigned stream)
{
    if (ptr != 0) {
        must(g, "free", pleat_block_free(scene.handle, 0, ptr, g->streams[stream]));
    }
}

static void order(guest *g, unsigned earlier, unsigned later)
{
    drive(g, "record", pl_cu_event_record(scene.drv, g->event, g->streams[earlier]));
    drive(g, "wait", pl_cu_stream_wait_event(scene.drv, g->streams[later], g->event, 0));
}

static cu_event make_event(guest *g)
{
    cu_event event = NULL;
    drive(g, "event", pl_cu_event_create(scene.drv, &event, CU_EVENT_DISABLE_TIMING_FLAG));
    return event;
}

/* ---- streams and blocks outside of captures -------------------------------------------------- */

static void make_stream(guest *g, unsigned i)
{
    drive(g, "stream", pl_cu_stream_create(scene.drv, &g->streams[i], CU_STREAM_NON_BLOCKING_FLAG));
}

/* Another stream takes over the old stream's blocks. Every second time pleat is told. */
static void renew_stream(guest *g, unsigned i)
{
    unsigned heir = (i + 1) % N_STREAMS;
    order(g, i, heir);
    for (unsigned n = 0; n < N_BLOCKS; n++) {
        g->blocks[n].stream = g->blocks[n].stream == i ? heir : g->blocks[n].stream;
    }
    if (below(g, 2) == 0) {
        must(g, "retire", pleat_stream_retire(scene.handle, 0, g->streams[i]));
    }
    drive(g, "destroy", pl_cu_stream_destroy(scene.drv, g->streams[i]));
    make_stream(g, i);
}

static size_t size_of(guest *g, size_t large)
{
    return 512 + (below(g, 3) == 0 ? below(g, large) : below(g, 40 * KIB));
}

/* A second stream uses the block, and may become the stream that frees it. */
static void lend(guest *g, block *b, unsigned to)
{
    pleat_sim_access access = { .ptr = b->ptr, .bytes = b->bytes, .is_write = true };
    order(g, b->stream, to);
    drive(g, "work", sim.work(g->streams[to], &access, 1));
    must(g, "record_stream", pleat_block_record_stream(scene.handle, 0, b->ptr, g->streams[to]));
    b->stream = below(g, 2) == 0 ? to : b->stream;
}

static void take_or_free(guest *g)
{
    block *b = &g->blocks[below(g, N_BLOCKS)];
    unsigned i = (unsigned)below(g, N_STREAMS);
    if (b->ptr == 0) {
        b->bytes = size_of(g, 6000 * KIB);
        b->stream = i;
        b->ptr = ask(g, b->bytes, i);
        return;
    }
    if (i != b->stream && below(g, 3) == 0) {
        lend(g, b, i);
    }
    give_back(g, b->ptr, b->stream);
    b->ptr = 0;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static bool is_of_the_two(void *stream, void *context)
{
    void *const *two = context;
    return stream == two[0] || stream == two[1];
}

/* A request of the capture, on stream i or on its fork. A fork then joins stream i. */
static void request_in_capture(guest *g, graph *made, unsigned n, unsigned i, unsigned fork)
{
    unsigned on = fork != i && below(g, 3) == 0 ? fork : i;
    size_t bytes = size_of(g, 8000 * KIB);
    pleat_devptr ptr = ask(g, bytes, on);
    if (on != i) {
        order(g, on, i);
    }
    if (below(g, 2) == 0) {
        give_back(g, ptr, on);
        ptr = 0;
    }
    made->kept[n] = ptr;
}

/* Free a block from before the capture. The capture may be its last user. */
static void free_in_capture(guest *g, unsigned i)
{
    block *b = &g->blocks[below(g, N_BLOCKS)];
    if (b->ptr != 0 && b->stream == i) {
        give_back(g, b->ptr, i);
        b->ptr = 0;
    }
}

static void fill(guest *g, graph *made, unsigned i, unsigned fork)
{
    if (fork != i) {
        order(g, i, fork);
    }
    for (unsigned n = (unsigned)below(g, MOST_REQUESTS) + 1; n > 0; n--) {
        request_in_capture(g, made, n - 1, i, fork);
    }
    if (below(g, 3) == 0) {
        free_in_capture(g, i);
    }
    if (fork != i) {
        order(g, fork, i);
    }
}

static void capture(guest *g, graph *made)
{
    unsigned i = (unsigned)below(g, N_STREAMS);
    unsigned fork = below(g, 2) == 0 ? i : (i + 1) % N_STREAMS;
    void *two[] = { g->streams[i], g->streams[fork] };
    pleat_pool_id id = { 1, atomic_fetch_add(&scene.n_pools, 1) };
    *made = (graph){ .is_there = true, .pool = id };
    must(g, "pool_begin", pleat_pool_begin(scene.handle, 0, id, is_of_the_two, NULL, two));
    drive(g, "begin", pl_cu_stream_begin_capture(scene.drv, g->streams[i], (int)below(g, 3)));
    fill(g, made, i, fork);
    drive(g, "end", pl_cu_stream_end_capture(scene.drv, g->streams[i], &made->graph));
    must(g, "pool_end", pleat_pool_end(scene.handle, 0, id));
    drive(g, "instantiate", pl_cu_graph_instantiate(scene.drv, &made->exec, made->graph, 0));
    for (unsigned n = 0; n < MOST_REQUESTS; n++) {
        if (below(g, 2) == 0) {
            give_back(g, made->kept[n], i);
            made->kept[n] = 0;
        }
    }
    if (below(g, 2) == 0) {
        drive(g, "graph", pl_cu_graph_destroy(scene.drv, made->graph));
        made->graph = NULL;
    }
    if (below(g, 3) == 0) {
        renew_stream(g, i);
    }
}

/* Launches come one by one, on random streams. */
static void launch(guest *g, graph *known)
{
    cu_stream stream = g->streams[below(g, N_STREAMS)];
    if (known->launched == NULL) {
        known->launched = make_event(g);
    } else {
        drive(g, "wait", pl_cu_stream_wait_event(scene.drv, stream, known->launched, 0));
    }
    drive(g, "launch", pl_cu_graph_launch(scene.drv, known->exec, stream));
    drive(g, "record", pl_cu_event_record(scene.drv, known->launched, stream));
}

static void destroy_graph(guest *g, graph *known)
{
    if (known->graph != NULL) {
        drive(g, "graph", pl_cu_graph_destroy(scene.drv, known->graph));
    }
    drive(g, "exec", pl_cu_graph_exec_destroy(scene.drv, known->exec));
    if (known->launched != NULL) {
        drive(g, "event", pl_cu_event_destroy(scene.drv, known->launched));
    }
}

/* The pool goes before or after its graph, and launches may still run. */
static void drop(guest *g, graph *known)
{
    bool is_first = below(g, 2) == 0;
    for (unsigned n = 0; n < MOST_REQUESTS; n++) {
        give_back(g, known->kept[n], (unsigned)below(g, N_STREAMS));
    }
    if (!is_first) {
        destroy_graph(g, known);
    }
    must(g, "pool_release", pleat_pool_release(scene.handle, 0, known->pool));
    if (is_first) {
        destroy_graph(g, known);
    }
    known->is_there = false;
}

/* ---- the threads ----------------------------------------------------------------------------- */

/* Beside a capture a trim gives back less. */
static void trim(guest *g)
{
    pleat_status st = pleat_device_trim(scene.handle, 0, 0, false, NULL);
    must(g, "trim", st == PLEAT_EPENDING ? PLEAT_OK : st);
}

static void step(guest *g)
{
    graph *any = &g->graphs[below(g, N_GRAPHS)];
    size_t which = below(g, 128);
    if (which < 2) {
        trim(g);
    } else if (which < 8) {
        renew_stream(g, (unsigned)below(g, N_STREAMS));
    } else if (which < 72) {
        take_or_free(g);
    } else if (!any->is_there) {
        capture(g, any);
    } else if (which < 112) {
        launch(g, any);
    } else {
        drop(g, any);
    }
}

static void leave(guest *g)
{
    for (unsigned n = 0; n < N_GRAPHS; n++) {
        if (g->graphs[n].is_there) {
            drop(g, &g->graphs[n]);
        }
    }
    for (unsigned n = 0; n < N_BLOCKS; n++) {
        give_back(g, g->blocks[n].ptr, g->blocks[n].stream);
    }
    for (unsigned i = 0; i < N_STREAMS; i++) {
        drive(g, "destroy", pl_cu_stream_destroy(scene.drv, g->streams[i]));
    }
    drive(g, "event", pl_cu_event_destroy(scene.drv, g->event));
}

/* A thread with a refused request goes on, since other threads may need it. */
static void *live(void *arg)
{
    guest *g = arg;
    pl_device *dev = pleat_internal_device(scene.handle, 0);
    if (dev == NULL || pl_device_enter(dev) != PLEAT_OK) {
        g->n_wrong++;
        return NULL;
    }
    g->event = make_event(g);
    for (unsigned i = 0; i < N_STREAMS; i++) {
        make_stream(g, i);
    }
    for (unsigned n = 0; n < scene.n_steps && g->n_wrong == 0; n++) {
        step(g);
    }
    leave(g);
    pl_device_leave(dev);
    return NULL;
}

static void run_all(const char *sim_conf, unsigned n_steps)
{
    scene.n_steps = n_steps;
    scene.handle = api_make(API_PLEAT, sim_conf, "");
    api_free(scene.handle, 0, api_alloc(scene.handle, 0, KIB, NULL), NULL); /* opens the device */
    scene.drv = pl_device_driver(pleat_internal_device(scene.handle, 0));
    for (unsigned i = 0; i < N_THREADS; i++) {
        guest *g = &scene.guests[i];
        g->random = i * 7919 + 13;
        ck_assert_int_eq(pthread_create(&g->thread, NULL, live, g), 0);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(scene.guests[i].thread, NULL), 0);
    }
}

/* No block lives, and no freed memory is withheld. */
static void check_end(void)
{
    for (unsigned i = 0; i < N_THREADS; i++) {
        guest *g = &scene.guests[i];
        ck_assert_msg(g->n_wrong == 0 && g->n_refused == 0, "%u refused, %u went wrong: %s",
                      g->n_refused, g->n_wrong, g->why);
    }
    sim.finish();
    ck_assert_int_eq(pleat_device_trim(scene.handle, 0, 0, true, NULL), PLEAT_OK);
    pleat_stats s = api_stats(scene.handle, 0);
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_SIZES_ALL].current, 0);
    ck_assert_uint_eq(s.pending_bytes, 0);
    ck_assert_uint_eq(s.pinned_granules, 0);
    ck_assert_uint_eq(s.resident_bytes, 0);
    api_check(scene.handle);
    api_unmake(scene.handle);
}

/* Live blocks and graphs take half of the device. All the rest is pending. */
START_TEST(nobody_is_refused_on_a_device_that_is_nearly_full)
{
    run_all("capacity:1600M,depth:64", N_STEPS);
    check_end();
}
END_TEST

START_TEST(nobody_is_refused_where_there_is_plenty)
{
    run_all("capacity:16G,depth:64", N_STEPS / 2);
    check_end();
}
END_TEST

SUITE(api_capture_churn)
{
    TCase *churn = suite_case(suite, "churn", api_sim_load, NULL);
    tcase_add_test(churn, nobody_is_refused_on_a_device_that_is_nearly_full);
    tcase_add_test(churn, nobody_is_refused_where_there_is_plenty);
}
