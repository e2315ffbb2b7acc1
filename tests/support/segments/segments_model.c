/* segments_model.c - see segments_model.h. Naive on purpose: everything is found by counting. */
#include "tests/support/segments/segments_model.h"

#include <stdlib.h>
#include <string.h>

void model_init(model *m, size_t granule_bytes)
{
    *m = (model){ .granule_bytes = granule_bytes, .step = granule_bytes };
}

void model_fini(model *m)
{
    model_spans_clear(&m->live);
    model_spans_clear(&m->large);
}

static uint64_t end_of(const model_span *span)
{
    return span->base + span->bytes;
}

/* ---- spans -------------------------------------------------------------------------------- */

/* The number of spans that start below `at`. */
static size_t rank_of(const model_spans *spans, pleat_devptr at)
{
    size_t low = 0;
    size_t high = spans->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (spans->span[middle].base < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool model_spans_add(model_spans *spans, model_span span)
{
    size_t i = rank_of(spans, span.base);
    if ((i > 0 && end_of(&spans->span[i - 1]) > span.base) ||
        (i < spans->n && end_of(&span) > spans->span[i].base)) {
        return false;
    }
    if (spans->n == spans->room) {
        spans->room = 2 * spans->room + 64;
        spans->span = realloc(spans->span, spans->room * sizeof(span));
    }
    memmove(&spans->span[i + 1], &spans->span[i], (spans->n - i) * sizeof(span));
    spans->span[i] = span;
    spans->n++;
    return true;
}

void model_spans_clear(model_spans *spans)
{
    free(spans->span);
    *spans = (model_spans){ 0 };
}

const char *model_add(model *m, pleat_devptr base, uint64_t bytes)
{
    model_span span = { .base = base, .bytes = model_round(bytes) };
    if (base == 0 || base % MODEL_QUANTUM != 0) {
        return "an address is not aligned";
    }
    if (!model_spans_add(&m->live, span)) {
        return "a block overlaps a live one";
    }
    m->live_bytes += span.bytes;
    m->peak_bytes = m->live_bytes > m->peak_bytes ? m->live_bytes : m->peak_bytes;
    return NULL;
}

const char *model_remove(model *m, pleat_devptr base)
{
    size_t i = rank_of(&m->live, base);
    if (i == m->live.n || m->live.span[i].base != base) {
        return "a block that is freed is not live";
    }
    m->live_bytes -= m->live.span[i].bytes;
    m->live.n--;
    memmove(&m->live.span[i], &m->live.span[i + 1], (m->live.n - i) * sizeof(m->live.span[i]));
    return NULL;
}

/* ---- granules ------------------------------------------------------------------------------ */

/* Counts the occupied granules of a range, with prefix sums. A granule is occupied if it holds
 * bytes of a live block or a held span, or if its large chunk does. */
typedef struct tally {
    model_span range;
    const model_spans *large; /* NULL: none */
    size_t granule_bytes;
    size_t n;
    uint32_t *below; /* n + 1 entries */
} tally;

static void tally_mark(tally *t, const model_span *span)
{
    pleat_devptr low = span->base > t->range.base ? span->base : t->range.base;
    pleat_devptr high = end_of(span) < end_of(&t->range) ? end_of(span) : end_of(&t->range);
    if (low >= high) {
        return;
    }
    size_t first = (size_t)((low - t->range.base) / t->granule_bytes);
    size_t last = (size_t)((high - 1 - t->range.base) / t->granule_bytes);
    for (size_t g = first; g <= last; g++) {
        t->below[g + 1] = 1;
    }
}

static bool is_marked(const tally *t, const model_span *chunk)
{
    size_t g = (size_t)((chunk->base - t->range.base) / t->granule_bytes);
    size_t end = g + (size_t)(chunk->bytes / t->granule_bytes);
    while (g < end && t->below[g + 1] == 0) {
        g++;
    }
    return g < end;
}

/* An occupied granule marks its whole large chunk. */
static void tally_spread(tally *t)
{
    size_t i = t->large != NULL ? rank_of(t->large, t->range.base) : 0;
    for (; t->large != NULL && i < t->large->n; i++) {
        const model_span *chunk = &t->large->span[i];
        if (chunk->base >= end_of(&t->range)) {
            break;
        }
        if (is_marked(t, chunk)) {
            tally_mark(t, chunk);
        }
    }
}

static void tally_init(tally *t, const model *m, const model_spans *blocked, model_span range,
                       bool with_large)
{
    *t = (tally){ .range = range,
                  .large = with_large ? &m->large : NULL,
                  .granule_bytes = m->granule_bytes };
    t->n = (size_t)(range.bytes / m->granule_bytes);
    t->below = calloc(t->n + 1, sizeof(*t->below));
    for (size_t i = 0; i < m->live.n; i++) {
        tally_mark(t, &m->live.span[i]);
    }
    for (size_t i = 0; i < blocked->n; i++) {
        if (blocked->span[i].is_held) {
            tally_mark(t, &blocked->span[i]);
        }
    }
    tally_spread(t);
    for (size_t g = 0; g < t->n; g++) {
        t->below[g + 1] += t->below[g];
    }
}

/* The large chunk at the address, or NULL. */
static const model_span *large_at(const tally *t, pleat_devptr at)
{
    size_t i = t->large != NULL ? rank_of(t->large, at + 1) : 0;
    return i > 0 && end_of(&t->large->span[i - 1]) > at ? &t->large->span[i - 1] : NULL;
}

/* The number of further granules for [at, at + bytes): unoccupied granules that the bytes touch,
 * alone or by a large chunk. */
static size_t tally_further(const tally *t, pleat_devptr at, uint64_t bytes)
{
    const model_span *low = large_at(t, at);
    const model_span *high = large_at(t, at + bytes - 1);
    pleat_devptr from = low != NULL ? low->base : at;
    pleat_devptr last = high != NULL ? end_of(high) - 1 : at + bytes - 1;
    size_t first = (size_t)((from - t->range.base) / t->granule_bytes);
    size_t end = (size_t)((last - t->range.base) / t->granule_bytes) + 1;
    return end - first - (t->below[end] - t->below[first]);
}

static size_t count_granules(const model *m, const model_spans *ranges, const model_spans *blocked,
                             bool with_large)
{
    size_t n = 0;
    for (size_t i = 0; i < ranges->n; i++) {
        tally t;
        tally_init(&t, m, blocked, ranges->span[i], with_large);
        n += t.below[t.n];
        free(t.below);
    }
    return n;
}

size_t model_live_granules(const model *m, const model_spans *ranges)
{
    static const model_spans nothing;
    return count_granules(m, ranges, &nothing, false);
}

size_t model_held_granules(const model *m, const model_spans *ranges, const model_spans *blocked)
{
    return count_granules(m, ranges, blocked, false);
}

size_t model_used_granules(const model *m, const model_spans *ranges, const model_spans *blocked)
{
    return count_granules(m, ranges, blocked, true);
}

/* ---- places --------------------------------------------------------------------------------- */

static void least(size_t *best, size_t n)
{
    *best = n < *best ? n : *best;
}

/* Try these starts in the gap: first, last, and all multiples of the step. */
static void try_gap(const tally *t, pleat_devptr base, pleat_devptr end, uint64_t bytes,
                    uint64_t step, size_t *best)
{
    if (end < base + bytes) {
        return;
    }
    least(best, tally_further(t, base, bytes));
    least(best, tally_further(t, end - bytes, bytes));
    pleat_devptr below = base - (base - t->range.base) % step;
    for (pleat_devptr at = below + step; at + bytes <= end; at += step) {
        least(best, tally_further(t, at, bytes));
    }
}

static void try_range(const model *m, const model_spans *blocked, model_span range, uint64_t bytes,
                      size_t *best)
{
    tally t;
    size_t i = rank_of(&m->live, range.base);
    size_t k = rank_of(blocked, range.base);
    pleat_devptr at = range.base;

    tally_init(&t, m, blocked, range, true);
    for (;;) {
        const model_span *live = i < m->live.n ? &m->live.span[i] : NULL;
        const model_span *next = k < blocked->n ? &blocked->span[k] : NULL;
        if (next == NULL || (live != NULL && live->base < next->base)) {
            next = live;
        }
        if (next == NULL || next->base >= end_of(&range)) {
            break;
        }
        try_gap(&t, at, next->base, bytes, m->step, best);
        at = end_of(next);
        i += next == live;
        k += next != live;
    }
    try_gap(&t, at, end_of(&range), bytes, m->step, best);
    free(t.below);
}

size_t model_least_further(const model *m, const model_spans *ranges, const model_spans *blocked,
                           uint64_t bytes)
{
    bytes = model_round(bytes);
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < ranges->n; i++) {
        try_range(m, blocked, ranges->span[i], bytes, &best);
    }
    return best;
}
