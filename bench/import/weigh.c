/* weigh.c - see weigh.h. */
#include "bench/import/weigh.h"

#include <limits.h>
#include <string.h>

#include "bench/import/words.h"

typedef bench_pickle_value value;
typedef bench_pickle_node node;

/* No sum of sizes overflows. */
#define MOST_BYTES (UINT64_C(1) << 62)

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a + b < MOST_BYTES ? a + b : MOST_BYTES;
}

static bool take(bench_weights *weights)
{
    weights->n_left -= weights->n_left > 0;
    return weights->n_left > 0;
}

/* Its place among the devices, the smallest first; NULL for a device behind the last place. */
static bench_weight *place(bench_weights *weights, uint64_t device)
{
    unsigned at = 0;
    while (at < weights->n && weights->of[at].device < device) {
        at++;
    }
    if (at < weights->n && weights->of[at].device == device) {
        return &weights->of[at];
    }
    if (at == BENCH_MOST_WEIGHTS || device > INT_MAX) {
        return NULL;
    }
    unsigned n_moved = weights->n - at - (weights->n == BENCH_MOST_WEIGHTS);
    memmove(&weights->of[at + 1], &weights->of[at], n_moved * sizeof weights->of[0]);
    weights->n += weights->n < BENCH_MOST_WEIGHTS;
    weights->of[at] = (bench_weight){ .device = device };
    return &weights->of[at];
}

/* ---- blocks at the end ---- */

static void weigh_block(bench_weight *found, const bench_fold_block *block)
{
    bool is_live = block->state == BENCH_STATE_LIVE;
    if (block->state == BENCH_STATE_FREE) {
        return;
    }
    uint64_t *bytes = is_live ? &found->live_bytes : &found->pending_bytes;
    *bytes = sum(*bytes, block->requested_bytes);
    found->has_live = found->has_live || is_live;
}

static void weigh_segment(bench_weights *weights, const bench_folds *folds, const value *segment)
{
    const value *device = bench_pickle_get(segment, BENCH_WORD_DEVICE);
    const value *list = bench_pickle_get(segment, BENCH_WORD_BLOCKS);
    const node *blocks = list && list->kind == BENCH_PICKLE_LIST ? list->as.node : NULL;
    bench_weight found = { .device = 0 };
    if (device && device->kind == BENCH_PICKLE_INTEGER && device->as.integer >= 0) {
        found.device = (uint64_t)device->as.integer;
    }
    for (uint32_t i = 0; blocks && i < blocks->n; i++) {
        const value *run = &blocks->of.items[i];
        bool is_run = run->kind == BENCH_PICKLE_RUN && run->word == BENCH_FOLD_BLOCK;
        for (uint32_t k = 0; is_run && k < run->at && take(weights); k++) {
            weigh_block(&found, &folds->blocks[(uint64_t)run->as.integer + k]);
        }
    }
    bench_weight *into = found.has_live ? place(weights, found.device) : NULL;
    if (into) {
        into->live_bytes = sum(into->live_bytes, found.live_bytes);
        into->pending_bytes = sum(into->pending_bytes, found.pending_bytes);
        into->has_live = true;
    }
}

/* ---- events ---- */

/* The events of a trace, one after another. */
typedef struct walk {
    const node *list;
    const bench_snapshot_entry *entries;
    uint32_t item;  /* the next; from the end, one behind it */
    uint32_t place; /* within it, likewise */
} walk;

static uint32_t length_of(const value *item)
{
    bool is_run = item->kind == BENCH_PICKLE_RUN && item->word == BENCH_FOLD_EVENT;
    return is_run ? item->at : 0;
}

/* NULL at the end. What is malformed is passed over. */
static const bench_snapshot_entry *next(walk *w)
{
    while (w->item < w->list->n && w->place == length_of(&w->list->of.items[w->item])) {
        w->item++;
        w->place = 0;
    }
    return w->item < w->list->n
               ? &w->entries[(uint64_t)w->list->of.items[w->item].as.integer + w->place++]
               : NULL;
}

static const bench_snapshot_entry *previous(walk *w)
{
    while (w->place == 0 && w->item > 0) {
        w->item--;
        w->place = length_of(&w->list->of.items[w->item]);
    }
    return w->place > 0 ? &w->entries[(uint64_t)w->list->of.items[w->item].as.integer + --w->place]
                        : NULL;
}

static walk from_begin(const node *list, const bench_folds *folds)
{
    return (walk){ .list = list, .entries = folds->entries };
}

static walk from_end(const node *list, const bench_folds *folds)
{
    return (walk){ .list = list, .entries = folds->entries, .item = list->n };
}

/* The action that frees: of the two entries of a free a history may lack the first. */
static uint8_t find_free(const node *list, const bench_folds *folds)
{
    walk w = from_begin(list, folds);
    for (const bench_snapshot_entry *event; (event = next(&w)) != NULL;) {
        if (event->action == BENCH_SNAPSHOT_FREE_REQUESTED) {
            return BENCH_SNAPSHOT_FREE_REQUESTED;
        }
    }
    return BENCH_SNAPSHOT_FREE_COMPLETED;
}

/* Back from the blocks at the end, which include those from before the history. False if the events
 * do not lead to these blocks, so that the level would be wrong. */
static bool walk_back(walk w, uint8_t free_action, uint64_t live, uint64_t *most)
{
    bool goes_on = false;
    *most = live;
    for (const bench_snapshot_entry *event; (event = previous(&w)) != NULL;) {
        if (event->action == BENCH_SNAPSHOT_ALLOC) {
            if (event->bytes > live) {
                return false;
            }
            live -= event->bytes;
            goes_on = true;
        } else if (event->action == BENCH_SNAPSHOT_OOM && !goes_on &&
                   sum(live, event->bytes) > *most) {
            *most = sum(live, event->bytes);
        } else if (event->action == free_action) {
            live = sum(live, event->bytes);
        }
        *most = live > *most ? live : *most;
    }
    return true;
}

static uint64_t walk_on(walk w, uint8_t free_action)
{
    uint64_t live = 0;
    uint64_t most = 0;
    for (const bench_snapshot_entry *event; (event = next(&w)) != NULL;) {
        if (event->action == BENCH_SNAPSHOT_ALLOC) {
            live = sum(live, event->bytes);
        } else if (event->action == free_action) {
            live -= event->bytes < live ? event->bytes : live;
        }
        most = live > most ? live : most;
    }
    return most;
}

static void weigh_trace(const node *list, const bench_folds *folds, bench_weight *out)
{
    uint8_t free_action = find_free(list, folds);
    bool has_ends = free_action == BENCH_SNAPSHOT_FREE_COMPLETED;
    uint64_t live = sum(out->live_bytes, has_ends ? out->pending_bytes : 0);
    uint64_t most;
    if (!walk_back(from_end(list, folds), free_action, live, &most)) {
        uint64_t here = walk_on(from_begin(list, folds), free_action);
        most = here > live ? here : live;
    }
    out->need_bytes = most;
    walk w = from_begin(list, folds);
    for (const bench_snapshot_entry *event; (event = next(&w)) != NULL;) {
        bool is_refused = event->action == BENCH_SNAPSHOT_OOM;
        bool goes_on = event->action == BENCH_SNAPSHOT_ALLOC;
        out->has_failed = is_refused || (out->has_failed && !goes_on);
    }
}

static const node *trace_of(const value *trace)
{
    return trace->kind == BENCH_PICKLE_LIST && !trace->as.node->folded ? trace->as.node : NULL;
}

bool bench_weigh_has_events(const value *trace, const bench_folds *folds)
{
    const node *list = trace_of(trace);
    bool has_other = list && list->has_dropped;
    for (uint32_t i = 0; list && i < list->n; i++) {
        has_other = has_other || length_of(&list->of.items[i]) == 0;
    }
    if (!list || has_other) {
        return has_other;
    }
    walk w = from_begin(list, folds);
    for (const bench_snapshot_entry *event; (event = next(&w)) != NULL;) {
        if (event->action != BENCH_SNAPSHOT_TAKEN) {
            return true;
        }
    }
    return false;
}

static uint64_t n_events(const node *list)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        n += length_of(&list->of.items[i]) + 1;
    }
    return n;
}

void bench_weigh(const node *segments, const node *traces, const bench_folds *folds, size_t n_most,
                 bench_weights *out)
{
    *out = (bench_weights){ .n_left = n_most };
    for (uint32_t i = 0; i < segments->n && take(out); i++) {
        if (segments->of.items[i].kind == BENCH_PICKLE_DICT) {
            weigh_segment(out, folds, &segments->of.items[i]);
        }
    }
    for (unsigned i = 0; i < out->n; i++) {
        out->of[i].need_bytes = out->of[i].live_bytes;
    }
    out->n_left = n_most;
    for (uint32_t i = 0; i < traces->n && out->n_left > 0; i++) {
        const value *trace = &traces->of.items[i];
        bool has_events = bench_weigh_has_events(trace, folds);
        bench_weight *into = has_events ? place(out, i) : NULL;
        if (into) {
            uint64_t n = n_events(trace_of(trace));
            out->n_left -= n < out->n_left ? n : out->n_left;
            into->has_events = true;
            weigh_trace(trace_of(trace), folds, into);
        }
    }
}

const bench_weight *bench_weights_heaviest(const bench_weights *weights)
{
    const bench_weight *best = NULL;
    for (unsigned i = 0; i < weights->n; i++) {
        const bench_weight *w = &weights->of[i];
        if (!best || w->has_failed > best->has_failed ||
            (w->has_failed == best->has_failed && w->need_bytes > best->need_bytes)) {
            best = w;
        }
    }
    return best;
}

void bench_weights_others(const bench_weights *weights, uint64_t device, bench_devices *out)
{
    for (unsigned i = 0; i < weights->n; i++) {
        const bench_weight *w = &weights->of[i];
        if (w->device == device) {
            out->has_failed = w->has_failed;
        } else if (out->n_others < BENCH_MOST_OTHERS) {
            out->needs[out->n_others] = w->need_bytes;
            out->have_failed[out->n_others] = w->has_failed;
            out->others[out->n_others++] = (int)w->device;
        }
    }
}
