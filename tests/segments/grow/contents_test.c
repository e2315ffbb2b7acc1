/* contents_test.c - live blocks keep their bytes while memory moves under other blocks.
 *
 * Several threads allocate, use, lend, free and trim on several streams of a small device with real
 * memory. Every block is filled with a unique pattern when it is allocated. The pattern is compared
 * on the GPU's clock now and then and before the free, on the block's stream or on a borrowing
 * stream. A chunk taken too early, mapped in the wrong place or not waited for shows as a hazard:
 * wrong contents, a race, or unmapped bytes. */
/* labels: stress */
#include <check.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/support/own.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"

enum { N_THREADS = 4, N_OWN = 128, CHECK_EVERY = 1 << 15 };

/* Enough operations that some are refused, some trim, and some lend. */
enum { LEAST_OPS = 20000 };
/* A request waits for the whole context a few times. If other threads take what the waits make
 * free, the request is refused with PLEAT_EPENDING, and the layer above repeats it. */
enum { MOST_TRIES = 1000 };

/* One kind of device and load. */
typedef struct scene {
    const char *sim_conf;
    uint64_t capacity_bytes;
    uint64_t n_ops;
    size_t large_bytes; /* the largest block; at most one in eight has this size */
    size_t stride;      /* a piece of the pattern begins at every such step... */
    size_t piece;       /* ...and has at most so many bytes */
} scene;

typedef struct owned {
    pleat_devptr ptr; /* 0 = none */
    size_t bytes;
    uint64_t seed;
    unsigned stream;
} owned;

/* The threads' counts; the test asserts. */
typedef struct tally {
    atomic_uint_fast64_t n_wrong; /* statuses that no operation may return */
    atomic_int wrong_line;        /* where the last was seen */
    atomic_uint_fast64_t n_refused;
    atomic_uint_fast64_t n_lent;
    atomic_uint_fast64_t n_trimmed;
    atomic_uint n_at_work; /* workers with operations left */
} tally;

typedef struct worker {
    pthread_t thread;
    const scene *scene;
    tally *tally;
    uint64_t random;
    uint64_t n_ops;
    owned own[N_OWN];
} worker;

static uint64_t random_next(worker *w)
{
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return w->random >> 17;
}

static size_t random_below(worker *w, size_t n)
{
    return (size_t)(random_next(w) % n);
}

static void expect_at(worker *w, bool is_right, int line)
{
    if (!is_right) {
        atomic_fetch_add(&w->tally->n_wrong, 1);
        atomic_store(&w->tally->wrong_line, line);
    }
}

#define expect(w, is_right) expect_at(w, is_right, __LINE__)

/* ---- the pattern --------------------------------------------------------------------------- */

typedef int (*pattern_call)(void *stream, uint64_t ptr, uint64_t bytes, uint64_t seed);

/* Fill or compare every piece of the block on that stream. */
static void pattern(worker *w, pattern_call call, const owned *o, unsigned stream)
{
    for (size_t at = 0; at < o->bytes; at += w->scene->stride) {
        size_t left = o->bytes - at;
        size_t bytes = left < w->scene->piece ? left : w->scene->piece;
        expect(w, call(pleat.handles[stream], o->ptr + at, bytes, o->seed + at) == CU_SUCCESS);
    }
}

static void compare(worker *w, const owned *o)
{
    pattern(w, pleat.sim.verify, o, o->stream);
}

/* Order `later` behind `earlier`, as a program does before using a block on a second stream. */
static void follow(worker *w, unsigned later, unsigned earlier)
{
    pl_driver *drv = pleat.sim.drv;
    cu_event event = NULL;
    expect(w, pl_cu_event_create(drv, &event, CU_EVENT_DISABLE_TIMING_FLAG) == CU_SUCCESS);
    expect(w, pl_cu_event_record(drv, event, pleat.handles[earlier]) == CU_SUCCESS);
    expect(w, pl_cu_stream_wait_event(drv, pleat.handles[later], event, 0) == CU_SUCCESS);
    expect(w, pl_cu_event_destroy(drv, event) == CU_SUCCESS);
}

/* ---- operations ---------------------------------------------------------------------------- */

static void give_up(worker *w, owned *o, unsigned stream)
{
    pl_stream *on = pleat.streams[stream];
    expect(w, pleat.a->ops->free(pleat.a, o->ptr, on) == PLEAT_OK);
    o->ptr = 0;
}

static void free_own(worker *w, owned *o)
{
    unsigned other = (unsigned)random_below(w, PLEAT_N_STREAMS);
    if (random_below(w, 16) > 0 || other == o->stream) {
        compare(w, o);
        give_up(w, o, o->stream);
        return;
    }
    follow(w, other, o->stream);
    pattern(w, pleat.sim.verify, o, other);
    give_up(w, o, other); /* the free counts as a use there */
}

static void lend(worker *w, const owned *o)
{
    unsigned other = (unsigned)random_below(w, PLEAT_N_STREAMS);
    follow(w, other, o->stream);
    pattern(w, pleat.sim.verify, o, other);
    expect(w, pleat.a->ops->record_stream(pleat.a, o->ptr, pleat.streams[other]) == PLEAT_OK);
    atomic_fetch_add(&w->tally->n_lent, 1);
}

static void trim(worker *w)
{
    uint64_t released = 0;
    uint64_t keep = random_below(w, (size_t)w->scene->capacity_bytes / 2);
    bool wait = random_below(w, 8) == 0;
    expect(w, pleat.a->ops->trim(pleat.a, keep, wait, &released) == PLEAT_OK);
    atomic_fetch_add(&w->tally->n_trimmed, released > 0);
}

static size_t random_size(worker *w)
{
    switch (random_below(w, 8)) {
    case 0:
        return 1 + random_below(w, w->scene->large_bytes);
    case 1:
    case 2:
        return 1 + random_below(w, 48 * KIB);
    default:
        return 1 + random_below(w, 8 * KIB);
    }
}

static void allocate(worker *w, owned *o)
{
    *o = (owned){ .bytes = random_size(w),
                  .seed = random_next(w),
                  .stream = (unsigned)random_below(w, PLEAT_N_STREAMS) };
    pl_stream *on = pleat.streams[o->stream];
    pleat_status st = PLEAT_EPENDING;
    for (unsigned n = 0; st == PLEAT_EPENDING && n < MOST_TRIES; n++) { /* as pleat_block_alloc */
        st = pleat.a->ops->alloc(pleat.a, o->bytes, on, &o->ptr);
    }
    if (st == PLEAT_OK) {
        pattern(w, pleat.sim.fill, o, o->stream);
        return;
    }
    o->ptr = 0;
    expect(w, st == PLEAT_ENOMEM_DEVICE);
    atomic_fetch_add(&w->tally->n_refused, 1);
    owned *victim = &w->own[random_below(w, N_OWN)];
    if (victim->ptr != 0) {
        free_own(w, victim);
    }
}

static void operate(worker *w)
{
    owned *o = &w->own[random_below(w, N_OWN)];
    uint64_t kind = random_below(w, 4096);
    if (kind < 16) {
        trim(w);
    } else if (o->ptr == 0) {
        allocate(w, o);
    } else if (kind < 400) {
        compare(w, o);
    } else if (kind < 600) {
        lend(w, o);
    } else {
        free_own(w, o);
    }
}

/* A thread that has done its operations goes on until all have: one after the other they would not
 * fill the device. */
static bool has_step(worker *w, uint64_t i)
{
    if (i == w->n_ops + 1) {
        atomic_fetch_sub(&w->tally->n_at_work, 1);
    }
    return i <= w->n_ops || atomic_load(&w->tally->n_at_work) > 0;
}

static void *work(void *arg)
{
    worker *w = arg;
    expect(w, pl_device_enter(pleat.dev) == PLEAT_OK);
    for (uint64_t i = 1; has_step(w, i) && atomic_load(&w->tally->n_wrong) == 0; i++) {
        operate(w);
        if (i % CHECK_EVERY == 0) {
            expect(w, pleat.a->ops->check(pleat.a) == 0);
        }
    }
    for (size_t i = 0; i < N_OWN; i++) {
        if (w->own[i].ptr != 0) {
            compare(w, &w->own[i]);
            give_up(w, &w->own[i], w->own[i].stream);
        }
    }
    pl_device_leave(pleat.dev);
    return NULL;
}

/* ---- the scenes ---------------------------------------------------------------------------- */

static void play(const scene *s)
{
    static worker workers[N_THREADS];
    tally t = { .n_at_work = N_THREADS };
    size_t n_ops = (size_t)suite_part(s->n_ops);
    n_ops = n_ops < LEAST_OPS ? LEAST_OPS : n_ops;
    memset(workers, 0, sizeof(workers));
    for (unsigned i = 0; i < N_THREADS; i++) {
        workers[i].scene = s;
        workers[i].tally = &t;
        workers[i].random = 1000003u * (i + 1);
        workers[i].n_ops = n_ops / N_THREADS;
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
    }
    pleat.sim.finish();
    pleat_sim_hazard hazard = { .text = "" };
    size_t n_hazards = pleat.sim.hazards(&hazard, 1);
    ck_assert_msg(n_hazards == 0, "%zu hazards, the first: %s", n_hazards, hazard.text);
    ck_assert_msg(t.n_wrong == 0, "%llu went wrong, one at line %d", (unsigned long long)t.n_wrong,
                  t.wrong_line);
    pleat_stats stats = pleat_counted_mixed();
    ck_assert_uint_eq(stats.allocation[PLEAT_SIZES_ALL].current, 0);
    ck_assert_uint_gt(stats.n_taken_granules, 0);
    ck_assert_uint_gt(stats.stream_waits, 0);
    ck_assert_uint_gt(stats.ops_unmap, 0);
    ck_assert_uint_gt(t.n_refused, 0);
    ck_assert_uint_gt(t.n_lent, 0);
    ck_assert_uint_gt(t.n_trimmed, 0);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 0);
}

static const scene small_granules = {
    .sim_conf = "backing:memory,granularity:64K,capacity:12M,depth:64",
    .capacity_bytes = 12 * MIB,
    .n_ops = 500000,
    .large_bytes = 512 * KIB,
    .stride = SIZE_MAX / 2,
    .piece = 512 * KIB,
};

static const scene real_granules = {
    .sim_conf = "backing:memory,capacity:96M,depth:64",
    .capacity_bytes = 96 * MIB,
    .n_ops = 100000,
    .large_bytes = 5 * MIB,
    .stride = 512 * KIB,
    .piece = 48 * KIB,
};

/* While little memory is held, chunks are as large as possible. So at least the last block gets a
 * large chunk. Whether concurrent threads would leave room for a large chunk depends on their
 * order. */
static void begin_with_a_large_chunk(void)
{
    static const size_t n_granules[] = { 1, 1, 2 };
    pleat_devptr ptrs[3];
    size_t granule_bytes = pleat_counted().granule_bytes;

    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(
            pleat.a->ops->alloc(pleat.a, n_granules[i] * granule_bytes, pleat.streams[0], &ptrs[i]),
            PLEAT_OK);
    }
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptrs[i], pleat.streams[0]), PLEAT_OK);
    }
}

/* mixed: chunks of several granules, as large as may be. */
static void play_on(const scene *s, pl_chunks chunks)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.wait_ms = 60000; /* on a busy machine, too, nothing is pending at the end of a wait */
    SET_OWN(pleat, &options, chunks, chunks);
    SET_OWN(pleat, &options, chunk_share, chunks == PL_CHUNKS_MIXED ? 1 : 64);
    pleat_open(s->sim_conf, &options);
    begin_with_a_large_chunk();
    play(s);
    pleat_stats stats = pleat_counted();
    uint64_t n_granules = stats.bytes_created / stats.granule_bytes;
    ck_assert_int_eq(pleat_calls("cuMemCreate") < n_granules, chunks == PL_CHUNKS_MIXED);
    pleat_close();
}

START_TEST(operations_on_small_granules_keep_every_pattern)
{
    play_on(&small_granules, PL_CHUNKS_GRANULE);
}
END_TEST

START_TEST(operations_on_granules_of_2_mib_keep_every_pattern)
{
    play_on(&real_granules, PL_CHUNKS_GRANULE);
}
END_TEST

START_TEST(operations_on_chunks_of_several_small_granules_keep_every_pattern)
{
    play_on(&small_granules, PL_CHUNKS_MIXED);
}
END_TEST

START_TEST(operations_on_chunks_of_several_granules_of_2_mib_keep_every_pattern)
{
    play_on(&real_granules, PL_CHUNKS_MIXED);
}
END_TEST

SUITE(segments_contents)
{
    TCase *contents = tcase_create("contents");
    tcase_add_test(contents, operations_on_small_granules_keep_every_pattern);
    tcase_add_test(contents, operations_on_granules_of_2_mib_keep_every_pattern);
    tcase_add_test(contents, operations_on_chunks_of_several_small_granules_keep_every_pattern);
    tcase_add_test(contents, operations_on_chunks_of_several_granules_of_2_mib_keep_every_pattern);
    suite_add_tcase(suite, contents);
}
