/* sleep_test.c - a tag sleeps and wakes many times, while four threads work on other memory.
 *
 * Among 10,000 other blocks lie 10,000 tagged ones. There are fewer where many calls walk all of
 * them. Contents are kept, no call fails, no granule holds blocks of both kinds, and at least 99 %
 * of the tag's own granules go back each time. PLEAT_SLEEP_ROUNDS sets the number of rounds and
 * prints the figures. The full test is PLEAT_SLEEP_ROUNDS=1000.
 *
 * A limit is also set while a tag wakes. */
/* labels: stress */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/suite.h"

enum { N_TAGGED = PLEAT_DEBUG_LEVEL >= 2 ? 500 : 10000, N_OTHERS = N_TAGGED, N_WORKERS = 4 };
enum { A_WORKERS = N_OTHERS / N_WORKERS, ROUNDS = 12, REFILLED = 16, LEAST_PERMILLE = 990 };

typedef struct block {
    pleat_devptr ptr;
    size_t bytes;
    uint64_t seed;
} block;

static pleat instance;
static block tagged[N_TAGGED];
static _Atomic bool is_over;

static unsigned n_rounds(void)
{
    const char *text = getenv("PLEAT_SLEEP_ROUNDS");
    return text ? (unsigned)strtoul(text, NULL, 10) : ROUNDS;
}

static uint64_t draw(uint64_t *state)
{
    random_source r = { *state };
    uint64_t n = random_next(&r);
    *state = r.state;
    return n;
}

static size_t draw_bytes(uint64_t *state)
{
    return 512 + draw(state) % 15 * 512 + draw(state) % 512;
}

/* ---- work on other memory ---- */

typedef struct worker {
    pthread_t thread;
    void *stream;
    uint64_t state;
    uint64_t n_done;
    block blocks[A_WORKERS];
    char failure[512];
} worker;

static bool note(worker *w, const char *what)
{
    snprintf(w->failure, sizeof w->failure, "%s: %s", what, pleat_last_error()->text);
    return false;
}

static bool renew(worker *w, block *b)
{
    if (b->ptr != 0) {
        if (sim.verify(w->stream, b->ptr, b->bytes, b->seed) != 0 ||
            pleat_block_free(instance, 0, b->ptr, w->stream) != PLEAT_OK) {
            return note(w, "a free fails");
        }
        b->ptr = 0;
    }
    *b = (block){ .bytes = draw_bytes(&w->state), .seed = draw(&w->state) };
    if (pleat_block_alloc(instance, 0, b->bytes, w->stream, &b->ptr) != PLEAT_OK) {
        return note(w, "an allocation fails");
    }
    return sim.fill(w->stream, b->ptr, b->bytes, b->seed) == 0 || note(w, "no work");
}

static void *work(void *argument)
{
    worker *w = argument;
    bool is_well = true;
    for (size_t i = 0; i < A_WORKERS && is_well; i++) {
        is_well = renew(w, &w->blocks[i]);
    }
    do { /* at least once, even if the thread starts late */
        is_well = is_well && renew(w, &w->blocks[draw(&w->state) % A_WORKERS]);
        w->n_done++;
    } while (is_well && !atomic_load(&is_over));
    for (size_t i = 0; i < A_WORKERS && is_well; i++) {
        is_well = w->blocks[i].ptr == 0 ||
                  pleat_block_free(instance, 0, w->blocks[i].ptr, w->stream) == PLEAT_OK;
    }
    return NULL;
}

/* ---- the tag ---- */

static void fill(block *b, uint64_t *state, void *stream)
{
    b->seed = draw(state);
    ck_assert_int_eq(sim.fill(stream, b->ptr, b->bytes, b->seed), 0);
}

static void make_tagged(uint64_t *state, void *stream)
{
    for (size_t i = 0; i < N_TAGGED; i++) {
        block *b = &tagged[i];
        b->bytes = draw_bytes(state);
        pleat_status st = pleat_tag_alloc(instance, 0, "weights", b->bytes, stream, &b->ptr);
        ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
        fill(b, state, stream);
    }
}

/* Some blocks are freed while the tag sleeps, and made again when it is awake. */
static void free_some(size_t round, void *stream)
{
    for (size_t i = round % 97; i < N_TAGGED; i += 97) {
        api_free(instance, 0, tagged[i].ptr, stream);
        tagged[i].ptr = 0;
    }
}

static void make_again(uint64_t *state, void *stream)
{
    for (size_t i = 0; i < N_TAGGED; i++) {
        block *b = &tagged[i];
        if (b->ptr == 0) {
            ck_assert_int_eq(pleat_tag_alloc(instance, 0, "weights", b->bytes, stream, &b->ptr),
                             PLEAT_OK);
            fill(b, state, stream);
        }
    }
}

/* Totals of all rounds. */
static struct {
    uint64_t least_permille;
    uint64_t bytes;
    uint64_t shared_bytes; /* in use by other processes, too */
} told = { .least_permille = 1000 };

static void sleep_and_wake(size_t round, uint64_t *state, void *stream)
{
    pleat_tag_info before;
    pleat_tag_info after;
    pleat_slept slept;
    for (size_t i = round % REFILLED; i < N_TAGGED; i += REFILLED) {
        fill(&tagged[i], state, stream);
    }
    ck_assert_int_eq(pleat_tag_query(instance, 0, "weights", &before), PLEAT_OK);
    pleat_status st = pleat_tag_sleep(instance, 0, "weights", PLEAT_SLEEP_HOST, NULL, &slept);
    ck_assert_msg(st == PLEAT_OK, "round %zu: %s", round, pleat_last_error()->text);
    ck_assert_int_eq(pleat_tag_query(instance, 0, "weights", &after), PLEAT_OK);
    uint64_t own = before.resident_bytes - slept.shared_bytes;
    ck_assert_uint_ge(slept.bytes * 1000, own * LEAST_PERMILLE);
    ck_assert_uint_le(after.resident_bytes, slept.shared_bytes);
    ck_assert_uint_eq(before.resident_bytes - after.resident_bytes, slept.bytes);
    uint64_t permille = slept.bytes * 1000 / own;
    told.least_permille = permille < told.least_permille ? permille : told.least_permille;
    told.bytes += slept.bytes;
    told.shared_bytes += slept.shared_bytes;
    free_some(round, stream);
    st = pleat_tag_wake(instance, 0, "weights", 0, &slept);
    ck_assert_msg(st == PLEAT_OK, "round %zu: %s", round, pleat_last_error()->text);
    make_again(state, stream);
    for (size_t i = (round + 1) % REFILLED; i < N_TAGGED; i += REFILLED) {
        ck_assert_int_eq(sim.verify(stream, tagged[i].ptr, tagged[i].bytes, tagged[i].seed), 0);
    }
}

/* ---- who shares granules ---- */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Count blocks of other threads in granules with tagged blocks. *n_own: granules with tagged
 * blocks. */
static size_t count_mixed(const worker *workers, size_t *n_own)
{
    uint64_t granule = api_stats(instance, 0).granule_bytes;
    uint64_t *own = calloc(2 * N_TAGGED, sizeof *own);
    size_t n = 0;
    size_t n_mixed = 0;
    ck_assert_ptr_nonnull(own);
    for (size_t i = 0; i < N_TAGGED; i++) {
        own[n++] = tagged[i].ptr / granule;
        own[n++] = (tagged[i].ptr + tagged[i].bytes - 1) / granule;
    }
    qsort(own, n, sizeof *own, compare);
    *n_own = 0;
    for (size_t i = 0; i < n; i++) {
        bool is_new = i == 0 || own[i] != own[i - 1];
        *n_own += is_new;
    }
    for (size_t i = 0; i < (size_t)N_WORKERS * A_WORKERS; i++) {
        const block *b = &workers[i / A_WORKERS].blocks[i % A_WORKERS];
        uint64_t first = b->ptr / granule;
        uint64_t last = (b->ptr + b->bytes - 1) / granule;
        n_mixed += bsearch(&first, own, n, sizeof *own, compare) != NULL ||
                   bsearch(&last, own, n, sizeof *own, compare) != NULL;
    }
    free(own);
    return n_mixed;
}

static void tell(const worker *workers)
{
    size_t n_own;
    size_t n_mixed = count_mixed(workers, &n_own);
    uint64_t n_done = 0;
    for (size_t i = 0; i < N_WORKERS; i++) {
        n_done += workers[i].n_done;
    }
    ck_assert_uint_gt(n_own, 0);
    ck_assert_uint_eq(n_mixed, 0);
    if (getenv("PLEAT_SLEEP_ROUNDS")) {
        printf("%u sleeps and wakes of %d blocks in %zu granules among %d, beside %llu frees and "
               "allocations: %.1f GiB gone and come, at least %.1f %% of the tag's; "
               "granules shared: %zu with other blocks, %llu bytes with processes\n",
               n_rounds(), (int)N_TAGGED, n_own, (int)N_OTHERS, (unsigned long long)n_done,
               (double)told.bytes / (1 << 30), (double)told.least_permille / 10, n_mixed,
               (unsigned long long)told.shared_bytes);
    }
}

static void check_no_hazard(void)
{
    pleat_sim_hazard hazard;
    sim.finish();
    if (sim.hazards(&hazard, 1) != 0) {
        ck_abort_msg("hazard: %s", hazard.text);
    }
}

static void start(worker *workers)
{
    atomic_store(&is_over, false);
    for (size_t i = 0; i < N_WORKERS; i++) {
        workers[i].stream = api_stream(instance, 0);
        workers[i].state = i + 1;
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
}

static void stop(worker *workers)
{
    atomic_store(&is_over, true);
    for (size_t i = 0; i < N_WORKERS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
        ck_assert_msg(workers[i].failure[0] == '\0', "%s", workers[i].failure);
        ck_assert_uint_gt(workers[i].n_done, 0);
        api_stream_end(instance, 0, workers[i].stream);
    }
}

START_TEST(many_sleeps_beside_work_on_four_streams)
{
    uint64_t state = 77;
    worker *workers = calloc(N_WORKERS, sizeof *workers);
    ck_assert_ptr_nonnull(workers);
    instance = api_make(API_PLEAT, "capacity:1G,backing:memory,depth:64", "");
    void *stream = api_stream(instance, 0);
    start(workers);
    make_tagged(&state, stream);
    for (size_t round = 0; round < n_rounds(); round++) {
        sleep_and_wake(round, &state, stream);
    }
    stop(workers);
    tell(workers);
    for (size_t i = 0; i < N_TAGGED; i++) {
        ck_assert_int_eq(sim.verify(stream, tagged[i].ptr, tagged[i].bytes, tagged[i].seed), 0);
        api_free(instance, 0, tagged[i].ptr, stream);
    }
    check_no_hazard();
    api_check(instance);
    api_stream_end(instance, 0, stream);
    api_unmake(instance);
    free(workers);
}
END_TEST

/* ---- races ---- */

/* Free this thread's tagged blocks, and allocate again when possible. */
static void *churn(void *argument)
{
    worker *w = argument;
    bool is_well = true;
    do {
        block *b = &w->blocks[draw(&w->state) % 64];
        if (b->ptr != 0) {
            is_well = pleat_block_free(instance, 0, b->ptr, w->stream) == PLEAT_OK ||
                      note(w, "a free fails");
            b->ptr = 0;
        } else {
            pleat_status st = pleat_tag_alloc(instance, 0, "weights", draw_bytes(&w->state) * 40,
                                              w->stream, &b->ptr);
            is_well = st == PLEAT_OK || st == PLEAT_EASLEEP || note(w, "an allocation fails");
        }
        w->n_done++;
    } while (is_well && !atomic_load(&is_over));
    for (size_t i = 0; i < 64 && is_well; i++) {
        is_well = w->blocks[i].ptr == 0 ||
                  pleat_block_free(instance, 0, w->blocks[i].ptr, w->stream) == PLEAT_OK;
    }
    return NULL;
}

static void *sleep_often(void *argument)
{
    worker *w = argument;
    do {
        pleat_status st = w->n_done % 2 == 0
                              ? pleat_tag_sleep(instance, 0, "weights", PLEAT_SLEEP_HOST, NULL,
                                                NULL)
                              : pleat_tag_wake(instance, 0, "weights", w->n_done % 3 << 20, NULL);
        if (st != PLEAT_OK && st != PLEAT_EASLEEP) {
            note(w, "a sleep fails");
            break;
        }
        w->n_done++;
    } while (!atomic_load(&is_over));
    return NULL;
}

START_TEST(frees_and_sleeps_race)
{
    worker *workers = calloc(N_WORKERS, sizeof *workers);
    ck_assert_ptr_nonnull(workers);
    instance = api_make(API_PLEAT, "capacity:1G,depth:8", "");
    ck_assert_int_eq(pleat_tag_push("weights"), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    atomic_store(&is_over, false);
    for (size_t i = 0; i < N_WORKERS; i++) {
        workers[i].stream = api_stream(instance, 0);
        workers[i].state = i + 1;
        ck_assert_int_eq(
            pthread_create(&workers[i].thread, NULL, i < 2 ? churn : sleep_often, &workers[i]), 0);
    }
    for (unsigned i = 0; i < n_rounds() * 4; i++) {
        uint64_t released;
        pleat_compaction done;
        pleat_status st = pleat_device_trim(instance, 0, 0, true, &released);
        ck_assert(st == PLEAT_OK || st == PLEAT_EPENDING);
        st = i % 4 == 0 ? pleat_device_compact(instance, 0, &done) : PLEAT_OK;
        ck_assert(st == PLEAT_OK || st == PLEAT_EPENDING);
        api_check(instance);
    }
    stop(workers);
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "weights", 0, NULL), PLEAT_OK);
    check_no_hazard();
    api_check(instance);
    api_unmake(instance);
    free(workers);
}
END_TEST

/* ---- beside a limit ---- */

enum { ASLEEP = 20, FREE = 14, LIMIT = 16, DELAY_US = 200000 }; /* granules, of 32 */
static const uint64_t GRANULE = 2 << 20;

static void *wake(void *arg)
{
    *(pleat_status *)arg = pleat_tag_wake(instance, 0, "weights", 0, NULL);
    return NULL;
}

/* The wake gives memory back first, while a limit is set. The first of the two is kept. */
START_TEST(a_wake_heeds_a_limit_that_comes_while_it_makes_way)
{
    pthread_t waker;
    pleat_devptr ptr;
    instance = api_make(API_PLEAT, "capacity:64M", "reserve_mb:0");
    ck_assert_int_eq(pleat_tag_push("weights"), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    pleat_status st = pleat_tag_alloc(instance, 0, "weights", ASLEEP * GRANULE, NULL, &ptr);
    ck_assert_int_eq(st, PLEAT_OK);
    st = pleat_tag_sleep(instance, 0, "weights", PLEAT_SLEEP_DISCARD, NULL, NULL);
    ck_assert_int_eq(st, PLEAT_OK);
    api_free(instance, 0, api_alloc(instance, 0, FREE * GRANULE, NULL), NULL);
    uint64_t before = sim.n_calls("cuMemUnmap");
    sim.delay_after("cuMemUnmap", DELAY_US);
    ck_assert_int_eq(pthread_create(&waker, NULL, wake, &st), 0);
    while (sim.n_calls("cuMemUnmap") == before) {
        sched_yield();
    }
    pleat_status limited = pleat_device_set_limit(instance, 0, LIMIT * GRANULE);
    ck_assert_int_eq(pthread_join(waker, NULL), 0);
    ck_assert_int_eq(limited == PLEAT_OK ? st : limited, PLEAT_ENOMEM_DEVICE);
    api_check(instance);
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, 0), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "weights", 0, NULL), PLEAT_OK);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

SUITE(api_sleep)
{
    TCase *limit = suite_case(suite, "limit", api_sim_load, NULL);
    tcase_add_test(limit, a_wake_heeds_a_limit_that_comes_while_it_makes_way);
    TCase *storm = suite_case(suite, "storm", api_sim_load, NULL);
    tcase_add_test(storm, many_sleeps_beside_work_on_four_streams);
    tcase_add_test(storm, frees_and_sleeps_race);
}
