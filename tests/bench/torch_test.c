/* torch_test.c - PyTorch's caches on all bundled traces. The figures equal those of an independent
 * simulator. Recordings from real GPUs confirmed this simulator.
 *
 * The published figures are rounded; all else must be equal. */
/* labels: model figures */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/base/size.h"
#include "bench/works/work.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { N_TRACES = 8, N_CACHES = 3, MOST_STREAMS = 4, DIGITS = 1000 };

/* The figures on a device of a certain size; ops 0 = the device is too small. */
typedef struct tight {
    unsigned ops, retries, gib; /* device operations; cache flushes; all GiB taken */
} tight;

typedef struct figures {
    double reserved; /* peak reserved / peak live; unlimited */
    double ops;      /* per 1,000 events; unlimited */
    double least;    /* least capacity / peak live */
    tight at_102, at_105;
} figures;

typedef struct cache {
    int allocator;
    const char *more;
    figures of[N_TRACES];
} cache;

static const char *const traces[N_TRACES] = {
    "gpt2l_amp_var",  "gpt2s_tiny",    "llama3b_ckpt_accum_var", "llama8b_fsdp16_var",
    "moe16_top2_var", "resnet50_rect", "serve3b_catcache",       "serve_two_streams",
};

/* clang-format off */
static const cache caches[N_CACHES] = {
    { API_TORCH, "", {
        { 1.223, 1.679, 1.128, { 0, 0, 0 },      { 0, 0, 0 } },
        { 1.134, 3.818, 1.062, { 0, 0, 0 },      { 0, 0, 0 } },
        { 1.370, 1.043, 1.072, { 0, 0, 0 },      { 0, 0, 0 } },
        { 1.905, 0.496, 1.085, { 0, 0, 0 },      { 0, 0, 0 } },
        { 1.567, 3.552, 1.087, { 0, 0, 0 },      { 0, 0, 0 } },
        { 1.968, 1.258, 1.010, { 1085, 8, 89 },  { 1041, 6, 89 } },
        { 1.093, 0.626, 1.054, { 0, 0, 0 },      { 0, 0, 0 } },
        { 1.690, 0.246, 1.109, { 0, 0, 0 },      { 0, 0, 0 } } } },
    { API_TORCH_EXPANDABLE, "", {
        { 1.015, 1.386, 1.014, { 696, 0, 30 },   { 696, 0, 30 } },
        { 1.020, 3.620, 1.020, { 110, 0, 6 },    { 110, 0, 6 } },
        { 1.064, 1.151, 1.042, { 0, 0, 0 },      { 813, 1, 32 } },
        { 1.138, 0.538, 1.008, { 382, 6, 92 },   { 353, 4, 79 } },
        { 1.037, 2.967, 1.005, { 1502, 2, 33 },  { 1390, 0, 32 } },
        { 1.003, 1.889, 1.003, { 335, 0, 20 },   { 335, 0, 20 } },
        { 1.062, 0.567, 1.026, { 0, 0, 0 },      { 491, 2, 7 } },
        { 1.357, 0.240, 1.030, { 0, 0, 0 },      { 786, 9, 31 } } } },
    { API_TORCH_EXPANDABLE, "expandable_large_page_mb:2", {
        { 1.014, 1.807, 1.007, { 907, 0, 30 },   { 907, 0, 30 } },
        { 1.017, 5.693, 1.008, { 173, 0, 6 },    { 173, 0, 6 } },
        { 1.063, 1.210, 1.004, { 1097, 3, 34 },  { 949, 1, 33 } },
        { 1.138, 0.622, 1.002, { 458, 6, 93 },   { 360, 3, 56 } },
        { 1.037, 6.528, 1.002, { 3174, 2, 33 },  { 3058, 0, 32 } },
        { 1.003, 2.115, 1.001, { 375, 0, 20 },   { 375, 0, 20 } },
        { 1.061, 0.971, 1.023, { 0, 0, 0 },      { 834, 2, 7 } },
        { 1.355, 0.384, 1.005, { 1786, 19, 46 }, { 1116, 8, 31 } } } },
};
/* clang-format on */

/* ---- playing --------------------------------------------------------------------------------- */

/* One run of a trace on a device of a certain size. */
typedef struct run {
    const bench_work *work;
    pleat instance;
    void *streams[MOST_STREAMS];
    pleat_devptr *ptrs; /* by slot; 0 = not live */
    uint32_t *owners;
    uint64_t n_errors;
} run;

/* Returns false when an allocation failed: then the run is over. Asserts nothing, since Check
 * writes to a file for every assertion. */
static bool play_event(run *r, const bench_event *event)
{
    pleat_devptr *ptr = &r->ptrs[event->slot];
    if (event->bytes == 0) {
        void *stream = r->streams[r->owners[event->slot]];
        r->n_errors += pleat_block_free(r->instance, 0, *ptr, stream) != PLEAT_OK;
        *ptr = 0;
        return true;
    }
    r->owners[event->slot] = event->stream;
    return pleat_block_alloc(r->instance, 0, event->bytes, r->streams[event->stream], ptr) ==
           PLEAT_OK;
}

static bool is_mark(const bench_event *event)
{
    return event->slot == BENCH_MARK;
}

static bool play_all(run *r)
{
    bench_failure failure;
    bench_cursor cursor;
    bool is_ok = true;
    ck_assert_msg(bench_cursor_open(r->work, &cursor, &failure), "%s", failure.text);
    const bench_event *events;
    for (size_t n; is_ok && (n = bench_cursor_next(&cursor, &events, &failure)) > 0;) {
        ck_assert_uint_ne(n, SIZE_MAX);
        for (size_t i = 0; is_ok && i < n; i++) {
            is_ok = is_mark(&events[i]) || play_event(r, &events[i]);
        }
    }
    bench_cursor_close(&cursor);
    return is_ok;
}

static void free_all(run *r)
{
    for (uint32_t i = 0; i < r->work->n_slots; i++) {
        if (r->ptrs[i]) {
            api_free(r->instance, 0, r->ptrs[i], r->streams[r->owners[i]]);
        }
    }
}

/* Returns false when the device is too small; then *out is not set. */
static bool play(const bench_work *work, const cache *c, uint64_t capacity, pleat_stats *out)
{
    char conf[64];
    run r = { .work = work };
    snprintf(conf, sizeof conf, "capacity:%llu", (unsigned long long)capacity);
    r.instance = api_make(c->allocator, conf, c->more);
    r.ptrs = calloc(work->n_slots, sizeof *r.ptrs);
    r.owners = calloc(work->n_slots, sizeof *r.owners);
    ck_assert(r.ptrs && r.owners && work->n_streams <= MOST_STREAMS);
    for (uint32_t i = 1; i < work->n_streams; i++) {
        r.streams[i] = api_stream(r.instance, 0);
    }
    bool is_ok = play_all(&r);
    ck_assert_uint_eq(r.n_errors, 0);
    *out = api_stats(r.instance, 0);
    api_check(r.instance);
    free_all(&r);
    for (uint32_t i = 1; i < work->n_streams; i++) {
        api_stream_end(r.instance, 0, r.streams[i]);
    }
    api_unmake(r.instance);
    free(r.ptrs);
    free(r.owners);
    return is_ok;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static uint64_t n_ops(const pleat_stats *s)
{
    return s->ops_map + s->ops_unmap + s->ops_alloc + s->ops_free;
}

/* Equal in the digits that were published. */
static void assert_same(const bench_work *work, const char *what, double is, double want)
{
    ck_assert_msg(fabs(is - want) <= 0.5 / DIGITS + 1e-9, "%s: %s is %.4f, want %.3f", work->name,
                  what, is, want);
}

/* The bytes of a device that is `times` as big as peak live. */
static uint64_t capacity_of(const bench_work *work, double times)
{
    bench_memory memory = { .kind = BENCH_MEMORY_RATIO, .ratio = times };
    return bench_memory_bytes(&memory, work->peak_live_bytes, (size_t)2 << 20);
}

static void check_unlimited(const bench_work *work, const cache *c, const figures *want)
{
    pleat_stats s;
    ck_assert(play(work, c, BENCH_UNLIMITED_BYTES, &s));
    double live = (double)work->peak_live_bytes;
    assert_same(work, "reserved", (double)s.reserved_bytes[0].peak / live, want->reserved);
    assert_same(work, "operations", 1000.0 * (double)n_ops(&s) / (double)work->n_events, want->ops);
    ck_assert_uint_eq(s.num_alloc_retries, 0);
}

static void check_tight(const bench_work *work, const cache *c, double times, const tight *want)
{
    pleat_stats s;
    bool is_ok = play(work, c, capacity_of(work, times), &s);
    ck_assert_msg(is_ok == (want->ops != 0), "%s at %.2f x", work->name, times);
    if (is_ok) {
        double taken = (double)s.reserved_bytes[0].allocated / (double)(UINT64_C(1) << 30);
        ck_assert_uint_eq(n_ops(&s), want->ops);
        ck_assert_uint_eq(s.num_alloc_retries, want->retries);
        ck_assert_uint_eq((unsigned)lround(taken), want->gib);
    }
}

/* A device of 0.1 % more is enough, and one of 0.15 % less is too small. */
static void check_least(const bench_work *work, const cache *c, double least)
{
    pleat_stats s;
    ck_assert_msg(play(work, c, capacity_of(work, least + 0.001), &s), "%s", work->name);
    ck_assert_msg(!play(work, c, capacity_of(work, fmax(least - 0.0015, 0.999)), &s), "%s",
                  work->name);
}

START_TEST(every_figure_of_the_reference_is_met)
{
    if (!suite_is_turn(_i)) {
        return;
    }
    bench_work work;
    bench_failure failure;
    const cache *c = &caches[_i / N_TRACES];
    const figures *want = &c->of[_i % N_TRACES];
    ck_assert_int_eq(setenv("PLEAT_TRACES", PLEAT_SOURCE_DIR "/bench/traces", 1), 0);
    ck_assert_msg(bench_work_open(traces[_i % N_TRACES], &work, &failure), "%s", failure.text);
    check_unlimited(&work, c, want);
    check_tight(&work, c, 1.02, &want->at_102);
    check_tight(&work, c, 1.05, &want->at_105);
    check_least(&work, c, want->least);
    bench_work_close(&work);
}
END_TEST

SUITE(bench_torch)
{
    TCase *figures_case = tcase_create("bundled traces");
    tcase_add_checked_fixture(figures_case, api_sim_load, NULL);
    tcase_add_loop_test(figures_case, every_figure_of_the_reference_is_met, 0, N_CACHES * N_TRACES);
    suite_add_tcase(suite, figures_case);
}
