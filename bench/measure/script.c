/* script.c - makes scripts from patterns and from works. */
#include "bench/measure/script.h"

#include <stdlib.h>
#include <string.h>

#include "bench/base/random.h"
#include "bench/works/work.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

enum { RUNNING = 1 << 20, PIECE = 4096, MOST_GRANULES = 1 << 15 };

static void add(bench_script *s, bench_step_kind kind, uint32_t block, uint32_t stream,
                uint64_t bytes)
{
    if (s->n_steps == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 1024;
        bench_step *grown = realloc(s->steps, capacity * sizeof *grown);
        if (!grown) {
            s->is_short = true;
            return;
        }
        s->steps = grown;
        s->capacity = capacity;
    }
    s->steps[s->n_steps++] = (bench_step){
        .bytes = bytes, .block = block, .stream = stream, .kind = kind
    };
    s->n_blocks = block < s->n_blocks ? s->n_blocks : block + 1;
    s->n_streams = stream < s->n_streams ? s->n_streams : stream + 1;
}

/* Add the allocation of a new block, and return its number. */
static uint32_t add_alloc(bench_script *s, uint32_t stream, uint64_t bytes)
{
    uint32_t block = s->n_blocks;
    add(s, BENCH_STEP_ALLOC, block, stream, bytes);
    return block;
}

static void add_free(bench_script *s, uint32_t block, uint32_t stream)
{
    add(s, BENCH_STEP_FREE, block, stream, 0);
}

static void add_other(bench_script *s, bench_step_kind kind)
{
    add(s, kind, 0, 0, 0);
}

/* Adds calls that let the allocator notice finished work. */
static void add_pairs(bench_script *s, unsigned n)
{
    uint32_t block = s->n_blocks;
    for (unsigned i = 0; i < n; i++) {
        add(s, BENCH_STEP_ALLOC, block, 0, 512);
        add_free(s, block, 0);
    }
}

/* Add unfinished work on the stream from this step on. */
static void add_running(bench_script *s, uint32_t stream, uint32_t block)
{
    s->depth = RUNNING;
    add(s, BENCH_STEP_WORK, block, stream, 0);
}

/* Adds allocations of up to 32 KiB; returns the first. */
static uint32_t add_small(bench_script *s, unsigned n, bench_random *random)
{
    uint32_t first = s->n_blocks;
    for (unsigned i = 0; i < n; i++) {
        (void)add_alloc(s, 0, 512 * bench_random_between(random, 1, 64));
    }
    return first;
}

/* The numbers from..from + n - 1 in random order, or NULL. */
static uint32_t *shuffled(bench_script *s, uint32_t from, unsigned n, bench_random *random)
{
    uint32_t *order = calloc(n, sizeof *order);
    s->is_short = s->is_short || !order;
    for (unsigned i = 0; order && i < n; i++) {
        unsigned k = (unsigned)bench_random_between(random, 0, i);
        order[i] = order[k];
        order[k] = from + i;
    }
    return order;
}

/* ---- patterns -------------------------------------------------------------------------------- */

static void write_alternating(bench_script *s, unsigned n)
{
    s->memory_bytes = 64 * GIB;
    (void)add_alloc(s, 1, 512);
    uint32_t first = s->n_blocks;
    for (unsigned i = 0; i < n; i++) {
        (void)add_alloc(s, 0, PIECE);
    }
    for (unsigned i = 0; i < n; i += 2) {
        add_free(s, first + i, 0);
    }
    add_other(s, BENCH_STEP_FINISH);
    add_pairs(s, 200);
    add_running(s, 0, first + 1);
    for (unsigned i = 1; i < n; i += 2) {
        add_free(s, first + i, 0);
    }
    for (unsigned i = 0; i < n / 32; i++) {
        (void)add_alloc(s, 0, 2 * PIECE);
    }
    add_other(s, BENCH_STEP_FINISH);
    (void)add_alloc(s, 1, 200 * MIB);
}

static void write_runs(bench_script *s, unsigned n)
{
    bench_random random = { 1 };
    s->memory_bytes = 64 * GIB;
    add_free(s, add_alloc(s, 1, 1000), 1);
    uint32_t first = add_small(s, n, &random);
    uint32_t *order = shuffled(s, first, n, &random);
    for (unsigned i = 0; order && i < n; i++) {
        if (i == n / 2) {
            add_other(s, BENCH_STEP_FINISH);
            add_pairs(s, 70);
            add_running(s, 0, order[n - 1]);
        }
        add_free(s, order[i], 0);
    }
    free(order);
    add_other(s, BENCH_STEP_FINISH);
    (void)add_alloc(s, 1, 3 * MIB);
}

static void write_places(bench_script *s, unsigned n)
{
    n = n < MOST_GRANULES ? n : MOST_GRANULES;
    s->memory_bytes = (2 * (uint64_t)n + 2) * MIB;
    uint32_t first = s->n_blocks;
    for (unsigned i = 0; i < n; i++) {
        (void)add_alloc(s, 0, 2 * MIB);
    }
    for (unsigned i = 0; i < n; i += 2) {
        add_free(s, first + i, 0);
    }
    add_free(s, add_alloc(s, 0, n / 2 * 2 * MIB), 0);
    add_other(s, BENCH_STEP_FINISH);
    add_free(s, add_alloc(s, 0, (n / 2 + 1) * 2 * MIB), 0);
    for (unsigned i = 1; i < n; i += 2) {
        add_free(s, first + i, 0);
    }
    for (unsigned k = 3; k < 6; k++) {
        add_free(s, add_alloc(s, 0, (n / 2 + k) * 2 * MIB), 0);
    }
}

static void write_uses(bench_script *s, unsigned n)
{
    s->memory_bytes = 64 * GIB;
    add_free(s, add_alloc(s, 1, 1000), 1);
    uint32_t first = s->n_blocks;
    for (unsigned i = 0; i < n; i++) {
        (void)add_alloc(s, 0, PIECE);
    }
    add_running(s, 1, first);
    for (unsigned i = 0; i < n; i++) {
        add(s, BENCH_STEP_USE, first + i, 1, 0);
        add_free(s, first + i, 0);
    }
    for (unsigned i = 0; i < 100; i++) {
        (void)add_alloc(s, 0, 4 * MIB);
    }
    (void)add_alloc(s, 0, 70 * GIB); /* more than the device has */
    (void)add_alloc(s, 0, 62 * GIB);
    (void)add_alloc(s, 0, 2 * GIB);
}

static void write_pool(bench_script *s, unsigned n)
{
    s->memory_bytes = 64 * GIB;
    s->depth = RUNNING;
    unsigned n_streams = n / 64 < 1000 ? n / 64 : 1000;
    for (uint32_t i = 0; i < n_streams; i++) {
        uint32_t block = add_alloc(s, i, PIECE);
        add(s, BENCH_STEP_WORK, block, i, 0);
        add_free(s, block, i);
    }
    add_other(s, BENCH_STEP_POOL_BEGIN);
    uint32_t first = s->n_blocks;
    for (unsigned i = 0; i < n; i++) {
        (void)add_alloc(s, 0, 2 * PIECE);
    }
    add_other(s, BENCH_STEP_POOL_END);
    for (unsigned i = 0; i < n; i += 2) {
        add_free(s, first + i, 0);
    }
    add_other(s, BENCH_STEP_RELEASE);
    for (unsigned i = 0; i < 10; i++) {
        (void)add_alloc(s, 0, 4 * MIB);
    }
}

static void write_statistics(bench_script *s, unsigned n)
{
    bench_random random = { 2 };
    s->memory_bytes = 64 * GIB;
    (void)add_alloc(s, 1, 512);
    uint32_t first = add_small(s, n, &random);
    add_other(s, BENCH_STEP_STATISTICS);
    uint32_t *order = shuffled(s, first, n, &random);
    for (unsigned i = 0; order && i < n; i++) {
        if (i == n / 2) {
            add_other(s, BENCH_STEP_STATISTICS);
            add_running(s, 0, order[n - 1]);
        }
        add_free(s, order[i], 0);
    }
    free(order);
    add_other(s, BENCH_STEP_STATISTICS);
}

static const struct {
    const char *name;
    void (*write)(bench_script *s, unsigned n);
} patterns[] = {
    { "alternating", write_alternating },
    { "runs", write_runs },
    { "places", write_places },
    { "uses", write_uses },
    { "pool", write_pool },
    { "statistics", write_statistics },
};

enum { N_PATTERNS = sizeof patterns / sizeof patterns[0] };

const char *bench_script_pattern(unsigned index)
{
    return index < N_PATTERNS ? patterns[index].name : NULL;
}

/* ---- works ----------------------------------------------------------------------------------- */

/* Work on the block after its allocation and before its free, as in a replay. */
static void add_event(bench_script *s, const bench_event *event, uint32_t *streams)
{
    if (!bench_event_is_block(event)) {
        return;
    }
    if (event->bytes) {
        streams[event->slot] = event->stream;
        add(s, BENCH_STEP_ALLOC, event->slot, event->stream, event->bytes);
    }
    add(s, BENCH_STEP_WORK, event->slot, streams[event->slot], 0);
    if (!event->bytes) {
        add_free(s, event->slot, streams[event->slot]);
    }
}

static bool write_events(bench_script *s, const bench_work *work, uint32_t *streams,
                         bench_failure *failure)
{
    bench_cursor cursor;
    if (!bench_cursor_open(work, &cursor, failure)) {
        return false;
    }
    const bench_event *entries;
    size_t n;
    while ((n = bench_cursor_next(&cursor, &entries, failure)) > 0 && n != SIZE_MAX) {
        for (size_t i = 0; i < n; i++) {
            add_event(s, &entries[i], streams);
        }
    }
    bench_cursor_close(&cursor);
    return n == 0;
}

static bool write_work(bench_script *s, const char *spec, bench_failure *failure)
{
    bench_work work;
    if (!bench_work_open_device(spec, NULL, &work, failure)) {
        return false;
    }
    snprintf(s->name, sizeof s->name, "%s", work.name);
    uint32_t *streams = calloc(work.n_slots + 1, sizeof *streams);
    s->is_short = !streams;
    bool ok = !streams || write_events(s, &work, streams, failure);
    free(streams);
    bench_work_close(&work);
    return ok;
}

bool bench_script_open(const char *spec, unsigned n_blocks, bench_script *out,
                       bench_failure *failure)
{
    *out = (bench_script){ .n_blocks = 0 };
    bool ok = true;
    unsigned i = 0;
    while (i < N_PATTERNS && strcmp(patterns[i].name, spec) != 0) {
        i++;
    }
    if (i < N_PATTERNS) {
        snprintf(out->name, sizeof out->name, "%s", spec);
        patterns[i].write(out, n_blocks);
    } else {
        ok = write_work(out, spec, failure);
    }
    if (ok && out->is_short) {
        ok = bench_fail(failure, "%s: out of host memory", spec);
    }
    if (!ok) {
        bench_script_close(out);
    }
    return ok;
}

void bench_script_close(bench_script *script)
{
    free(script->steps);
    *script = (bench_script){ .n_blocks = 0 };
}
