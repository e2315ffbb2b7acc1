/* compact_beside_test.c - compactions beside threads that allocate and free.
 *
 * The threads submit no work, as a compaction demands, but change the vacant memory under the
 * compaction. */
/* labels: stress */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "tests/support/own.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"

enum { N_THREADS = 3, N_OWN = 64, N_COMPACTIONS = 150 };

/* A chunk whose free part was used since the compaction has waited for the device is not split. On
 * a machine where each thread has a processor, threads that never rest use every chunk meanwhile.
 * So a thread rests between its bursts, and no run of compactions misses all chunks. */
enum { BURST = 16, REST_NS = 500 * 1000, MOST_TIMES = 20 };

typedef struct worker {
    pthread_t thread;
    unsigned stream;
    uint64_t seed;
    pleat_devptr own[N_OWN];
} worker;

static atomic_bool is_over;
static atomic_uint_fast64_t n_wrong;
static atomic_uint_fast64_t n_done;

static size_t random_below(worker *w, size_t n)
{
    w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(w->seed >> 33) % n;
}

static void step(worker *w)
{
    pleat_devptr *ptr = &w->own[random_below(w, N_OWN)];
    pl_stream *stream = pleat.streams[w->stream];
    pleat_status st;
    if (*ptr != 0) {
        st = pleat.a->ops->free(pleat.a, *ptr, stream);
        *ptr = 0;
    } else {
        size_t most = random_below(w, 8) == 0 ? 512 * KIB : 48 * KIB;
        st = pleat.a->ops->alloc(pleat.a, 1 + random_below(w, most), stream, ptr);
    }
    atomic_fetch_add(&n_wrong, st != PLEAT_OK && st != PLEAT_ENOMEM_DEVICE);
    atomic_fetch_add(&n_done, 1);
}

static void *work(void *arg)
{
    worker *w = arg;
    atomic_fetch_add(&n_wrong, pl_device_enter(pleat.dev) != PLEAT_OK);
    while (!atomic_load(&is_over)) {
        for (unsigned i = 0; i < BURST; i++) {
            step(w);
        }
        (void)nanosleep(&(struct timespec){ .tv_nsec = REST_NS }, NULL);
    }
    pl_device_leave(pleat.dev);
    return NULL;
}

/* Compact while the threads work, which do something between two compactions. Where chunks are to
 * be split, compactions go on until one was. */
static uint64_t compact_beside(bool is_to_split)
{
    uint64_t n_split = 0;
    uint64_t n = suite_part(N_COMPACTIONS);
    for (uint64_t i = 0; i < n || (is_to_split && n_split == 0 && i < MOST_TIMES * n); i++) {
        pleat_compaction out;
        uint64_t before = atomic_load(&n_done);
        ck_assert_int_eq(pleat.a->ops->compact(pleat.a, 0, false, &out), PLEAT_OK);
        n_split += out.n_split;
        while (atomic_load(&n_done) < before + 100) {
        }
        if (i % 16 == 0) {
            ck_assert_int_eq(pleat.a->ops->check(pleat.a), 0);
        }
    }
    return n_split;
}

static void play(pl_chunks chunks)
{
    static worker workers[N_THREADS];
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    SET_OWN(pleat, &options, chunks, chunks);
    SET_OWN(pleat, &options, chunk_share, 1);
    pleat_open("granularity:64K,capacity:64M,depth:8", &options);
    for (unsigned i = 0; i < N_THREADS; i++) {
        workers[i] = (worker){ .stream = i + 1, .seed = i + 7 };
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    uint64_t n_split = compact_beside(chunks == PL_CHUNKS_MIXED);
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
    }
    ck_assert_uint_eq(n_wrong, 0);
    ck_assert_int_eq(n_split > 0, chunks == PL_CHUNKS_MIXED);
    pleat_assert_sound();
    pleat_close();
}

START_TEST(large_chunks_are_split_beside_others)
{
    play(PL_CHUNKS_MIXED);
}
END_TEST

START_TEST(granules_stay_sound_beside_others)
{
    play(PL_CHUNKS_GRANULE);
}
END_TEST

static void *compact_only(void *arg)
{
    pleat_compaction out;
    (void)arg;
    for (unsigned i = 0; i < 50; i++) {
        atomic_fetch_add(&n_wrong, pleat.a->ops->compact(pleat.a, 0, false, &out) != PLEAT_OK);
    }
    return NULL;
}

START_TEST(compactions_take_turns)
{
    pthread_t threads[N_THREADS];
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    SET_OWN(pleat, &options, chunks, PL_CHUNKS_MIXED);
    SET_OWN(pleat, &options, chunk_share, 1);
    pleat_open("granularity:64K,capacity:64M,depth:8", &options);
    pleat_devptr kept = pleat_get(64 * KIB, 1);
    for (unsigned i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, compact_only, NULL), 0);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(n_wrong, 0);
    pleat_put(kept, 1);
    pleat_close();
}
END_TEST

SUITE(segments_compact_beside)
{
    TCase *beside = suite_case(suite, "beside", NULL, NULL);
    tcase_add_test(beside, large_chunks_are_split_beside_others);
    tcase_add_test(beside, granules_stay_sound_beside_others);
    tcase_add_test(beside, compactions_take_turns);
}
