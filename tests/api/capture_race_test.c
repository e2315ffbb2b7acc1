/* capture_race_test.c - threads capture graphs beside threads that are short of memory.
 *
 * A capture begins at any moment, also between two driver calls of a thread that records a tick on
 * the captured stream. Every driver call yields to other threads, so that captures begin there
 * often. No capture may break, no other stream may be captured, and nothing may be used twice. */
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

enum {
    N_CAPTURES = 1000000, /* under each pair of options */
    N_PAIRS = 4,
    N_CAPTURERS = 2,
    N_SHORT = 2,
    N_HANDED = 4, /* blocks of a capturer that another thread frees */
    KIB = 1024,
    MIB = 1024 * KIB,
    GRANULE = 2 * MIB,
};

static const char *const pairs[N_PAIRS] = {
    "stream_identity:id,capture:ask",
    "stream_identity:id,capture:told",
    "stream_identity:handle,capture:ask",
    "stream_identity:handle,capture:told",
};

typedef struct guest {
    pthread_t thread;
    uint64_t random;
    cu_stream stream;
    cu_stream fork;
    uint64_t n_served;
    bool has_pool; /* of its captures */
    _Atomic pleat_devptr handed[N_HANDED];
    unsigned n_wrong;
    char why[512]; /* the first error */
} guest;

static struct scene {
    pleat handle;
    pl_driver *drv;
    uint64_t n_captures; /* of each capturer */
    _Atomic unsigned n_capturing;
    guest capturers[N_CAPTURERS];
    guest shorts[N_SHORT];
} scene;

static size_t below(guest *g, size_t n)
{
    g->random = g->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(g->random >> 33) % n;
}

/* ---- what must not fail ---------------------------------------------------------------------- */

static void note(guest *g, const char *what, int code)
{
    if (g->n_wrong++ == 0) {
        (void)snprintf(g->why, sizeof g->why, "%s: %d, %s", what, code, pleat_last_error()->text);
    }
}

static void must(guest *g, const char *what, int code)
{
    if (code != 0) {
        note(g, what, code);
    }
}

/* A request may find all memory in use, and nothing else. */
static pleat_devptr ask(guest *g, size_t bytes, cu_stream stream)
{
    pleat_devptr ptr = 0;
    pleat_status st = pleat_block_alloc(scene.handle, 0, bytes, stream, &ptr);
    if (st == PLEAT_OK) {
        pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
        must(g, "work", sim.work(stream, &access, 1));
        g->n_served++;
    } else if (st != PLEAT_EPENDING && st != PLEAT_ENOMEM_DEVICE) {
        note(g, "request", st);
    }
    return ptr;
}

static void give_back(guest *g, pleat_devptr ptr, cu_stream stream)
{
    if (ptr != 0) {
        must(g, "free", pleat_block_free(scene.handle, 0, ptr, stream));
    }
}

static void order(guest *g, cu_stream earlier, cu_stream later)
{
    cu_event event = NULL;
    must(g, "event", pl_cu_event_create(scene.drv, &event, CU_EVENT_DISABLE_TIMING_FLAG));
    must(g, "record", pl_cu_event_record(scene.drv, event, earlier));
    must(g, "wait", pl_cu_stream_wait_event(scene.drv, later, event, 0));
    must(g, "event", pl_cu_event_destroy(scene.drv, event));
}

/* ---- the threads that capture ---------------------------------------------------------------- */

static bool is_of_the_guest(void *stream, void *context)
{
    const guest *g = context;
    return stream == g->stream || stream == g->fork;
}

static void fill(guest *g)
{
    pleat_devptr kept = ask(g, 512 + below(g, 64 * KIB), g->stream);
    if (below(g, 4) == 0) {
        order(g, g->stream, g->fork);
        give_back(g, ask(g, 512 + below(g, 64 * KIB), g->fork), g->fork);
        order(g, g->fork, g->stream);
    }
    give_back(g, kept, g->stream);
}

static void capture(guest *g)
{
    pleat_pool_id id = { 1, (uint64_t)(g - scene.capturers) };
    cu_graph graph = NULL;
    must(g, "pool_begin", pleat_pool_begin(scene.handle, 0, id, is_of_the_guest, NULL, g));
    must(g, "begin", pl_cu_stream_begin_capture(scene.drv, g->stream, (int)below(g, 3)));
    if (below(g, 8) != 0) {
        fill(g);
    }
    must(g, "end", pl_cu_stream_end_capture(scene.drv, g->stream, &graph));
    if (graph != NULL) {
        must(g, "graph", pl_cu_graph_destroy(scene.drv, graph));
    }
    must(g, "pool_end", pleat_pool_end(scene.handle, 0, id));
    if (g->has_pool) { /* each begin holds the pool once more */
        must(g, "pool_release", pleat_pool_release(scene.handle, 0, id));
    }
    g->has_pool = true;
}

/* Memory that pends on the stream when the next capture begins. Another thread may free it. */
static void leave_pending(guest *g)
{
    pleat_devptr ptr = ask(g, below(g, 2) == 0 ? GRANULE : 512 + below(g, MIB), g->stream);
    if (below(g, 2) == 0) {
        ptr = atomic_exchange(&g->handed[below(g, N_HANDED)], ptr);
    }
    give_back(g, ptr, g->stream);
}

static void *live_capturing(void *arg)
{
    guest *g = arg;
    pl_device *dev = pleat_internal_device(scene.handle, 0);
    must(g, "enter", pl_device_enter(dev));
    for (uint64_t n = 0; n < scene.n_captures && g->n_wrong == 0; n++) {
        leave_pending(g);
        capture(g);
    }
    pl_device_leave(dev);
    atomic_fetch_sub(&scene.n_capturing, 1);
    return NULL;
}

/* ---- the threads that are short -------------------------------------------------------------- */

static void see_at_rest(guest *g)
{
    int state = CU_CAPTURE_NONE;
    must(g, "ask", pl_cu_stream_is_capturing(scene.drv, g->stream, &state));
    must(g, "pulled into a capture", state);
}

/* A block of another thread, used on the own stream too, is freed in the other stream's name. */
static void free_anothers(guest *g)
{
    guest *other = &scene.capturers[below(g, N_CAPTURERS)];
    pleat_devptr ptr = atomic_exchange(&other->handed[below(g, N_HANDED)], 0);
    if (ptr != 0 && below(g, 2) == 0) {
        must(g, "use", pleat_block_record_stream(scene.handle, 0, ptr, g->stream));
    }
    give_back(g, ptr, other->stream);
}

static void *live_short(void *arg)
{
    guest *g = arg;
    pl_device *dev = pleat_internal_device(scene.handle, 0);
    must(g, "enter", pl_device_enter(dev));
    while (atomic_load(&scene.n_capturing) > 0 && g->n_wrong == 0) {
        pleat_devptr ptr = ask(g, GRANULE * (1 + below(g, 3)), g->stream);
        see_at_rest(g);
        free_anothers(g);
        give_back(g, ptr, g->stream);
    }
    pl_device_leave(dev);
    return NULL;
}

/* ---- all together ---------------------------------------------------------------------------- */

static void open_guest(guest *g, unsigned number)
{
    *g = (guest){ .random = number * 7919 + 13 };
    g->stream = api_stream(scene.handle, 0);
    g->fork = api_stream(scene.handle, 0);
}

static void close_guest(guest *g)
{
    for (unsigned i = 0; i < N_HANDED; i++) {
        give_back(g, atomic_load(&g->handed[i]), g->stream);
    }
    ck_assert_msg(g->n_wrong == 0, "%u went wrong: %s", g->n_wrong, g->why);
    sim.finish();
    cu_stream streams[] = { g->stream, g->fork };
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pleat_stream_retire(scene.handle, 0, streams[i]), PLEAT_OK);
        api_stream_end(scene.handle, 0, streams[i]);
    }
}

static void start(guest *g, void *(*live)(void *arg))
{
    ck_assert_int_eq(pthread_create(&g->thread, NULL, live, g), 0);
}

/* All graphs are gone, so no capture keeps memory. */
static void check_nothing_is_withheld(void)
{
    for (uint64_t i = 0; i < N_CAPTURERS; i++) {
        ck_assert_int_eq(pleat_pool_release(scene.handle, 0, (pleat_pool_id){ 1, i }), PLEAT_OK);
    }
    ck_assert_int_eq(pleat_device_trim(scene.handle, 0, 0, true, NULL), PLEAT_OK);
    pleat_stats s = api_stats(scene.handle, 0);
    ck_assert_uint_eq(s.pinned_granules, 0);
    ck_assert_uint_eq(s.resident_bytes, 0);
}

static void check_end(void)
{
    for (unsigned i = 0; i < N_CAPTURERS; i++) {
        ck_assert_int_eq(pthread_join(scene.capturers[i].thread, NULL), 0);
    }
    uint64_t n_served = 0;
    for (unsigned i = 0; i < N_SHORT; i++) {
        ck_assert_int_eq(pthread_join(scene.shorts[i].thread, NULL), 0);
        n_served += scene.shorts[i].n_served;
    }
    sim.delay(NULL, 0);
    ck_assert_uint_gt(n_served, 0);
    for (unsigned i = 0; i < N_CAPTURERS; i++) {
        close_guest(&scene.capturers[i]);
    }
    for (unsigned i = 0; i < N_SHORT; i++) {
        close_guest(&scene.shorts[i]);
    }
    ck_assert_uint_eq(api_sim_counts().hazards, 0);
    check_nothing_is_withheld();
    api_check(scene.handle);
    api_unmake(scene.handle);
}

/* A percent of the captures, and all of them with --long. */
START_TEST(no_capture_breaks_beside_threads_that_are_short)
{
    char more[160];
    (void)snprintf(more, sizeof more, "wait_ms:1,reserve_mb:0,%s", pairs[_i]);
    scene = (struct scene){ 0 };
    scene.handle = api_make(API_PLEAT, "capacity:24M,depth:8", more);
    api_free(scene.handle, 0, api_alloc(scene.handle, 0, KIB, NULL), NULL); /* opens the device */
    scene.drv = pl_device_driver(pleat_internal_device(scene.handle, 0));
    scene.n_captures = suite_part(suite_part(N_CAPTURES)) / N_CAPTURERS;
    scene.n_capturing = N_CAPTURERS;
    for (unsigned i = 0; i < N_CAPTURERS; i++) {
        open_guest(&scene.capturers[i], i);
    }
    for (unsigned i = 0; i < N_SHORT; i++) {
        open_guest(&scene.shorts[i], N_CAPTURERS + i);
    }
    sim.delay(NULL, PLEAT_SIM_YIELD);
    for (unsigned i = 0; i < N_CAPTURERS; i++) {
        start(&scene.capturers[i], live_capturing);
    }
    for (unsigned i = 0; i < N_SHORT; i++) {
        start(&scene.shorts[i], live_short);
    }
    check_end();
}
END_TEST

SUITE(api_capture_race)
{
    TCase *race = suite_case(suite, "race", api_sim_load, NULL);
    tcase_add_loop_test(race, no_capture_breaks_beside_threads_that_are_short, 0, N_PAIRS);
}
