/* weigh.c - see weigh.h. */
#include "bench/import/weigh.h"

#include <limits.h>
#include <string.h>

typedef bench_pickle_value value;
typedef bench_pickle_node node;

/* No sum of sizes overflows. */
#define MOST_BYTES (UINT64_C(1) << 62)

static uint64_t number_of(const value *from, const char *key, uint64_t otherwise)
{
    const value *found = bench_pickle_get(from, key);
    bool is_number = found && found->kind == BENCH_PICKLE_INTEGER && found->as.integer >= 0;
    return is_number ? (uint64_t)found->as.integer : otherwise;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a + b < MOST_BYTES ? a + b : MOST_BYTES;
}

static const node *list_of(const value *from, const char *key)
{
    const value *found = bench_pickle_get(from, key);
    return found && found->kind == BENCH_PICKLE_LIST ? found->as.node : NULL;
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

static void weigh_segment(bench_weights *weights, const value *segment)
{
    const node *blocks = list_of(segment, "blocks");
    bench_weight found = { .device = number_of(segment, "device", 0) };
    for (uint32_t i = 0; blocks && i < blocks->n && take(weights); i++) {
        const value *block = &blocks->items[i];
        uint8_t action;
        if (block->kind != BENCH_PICKLE_DICT || !bench_snapshot_occupies(block, &action)) {
            continue;
        }
        bool is_live = action == BENCH_SNAPSHOT_ALLOC;
        uint64_t *bytes = is_live ? &found.live_bytes : &found.pending_bytes;
        *bytes = sum(*bytes, number_of(block, "requested_size", number_of(block, "size", 0)));
        found.has_live = found.has_live || is_live;
    }
    bench_weight *into = found.has_live ? place(weights, found.device) : NULL;
    if (into) {
        into->live_bytes = sum(into->live_bytes, found.live_bytes);
        into->pending_bytes = sum(into->pending_bytes, found.pending_bytes);
        into->has_live = true;
    }
}

/* ---- events ---- */

static bool is_action(const value *event, const char *action)
{
    const value *found = event->kind == BENCH_PICKLE_DICT ? bench_pickle_get(event, "action")
                                                          : NULL;
    return found && bench_pickle_is_text(found, action);
}

/* The action that frees: of the two entries of a free a history may lack the first. */
static const char *find_free(const node *list)
{
    for (uint32_t i = 0; i < list->n; i++) {
        if (is_action(&list->items[i], "free_requested")) {
            return "free_requested";
        }
    }
    return "free_completed";
}

/* Back from the blocks at the end, which include those from before the history. False if the events
 * do not lead to these blocks, so that the level would be wrong. */
static bool walk_back(const node *list, const char *free_action, uint64_t live, uint64_t *most)
{
    bool goes_on = false;
    *most = live;
    for (uint32_t i = list->n; i-- > 0;) {
        const value *event = &list->items[i];
        uint64_t bytes = number_of(event, "size", 0);
        if (is_action(event, "alloc")) {
            if (bytes > live) {
                return false;
            }
            live -= bytes;
            goes_on = true;
        } else if (is_action(event, "oom") && !goes_on && sum(live, bytes) > *most) {
            *most = sum(live, bytes);
        } else if (is_action(event, free_action)) {
            live = sum(live, bytes);
        }
        *most = live > *most ? live : *most;
    }
    return true;
}

static uint64_t walk_on(const node *list, const char *free_action)
{
    uint64_t live = 0;
    uint64_t most = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const value *event = &list->items[i];
        uint64_t bytes = number_of(event, "size", 0);
        if (is_action(event, "alloc")) {
            live = sum(live, bytes);
        } else if (is_action(event, free_action)) {
            live -= bytes < live ? bytes : live;
        }
        most = live > most ? live : most;
    }
    return most;
}

static void weigh_trace(const node *list, bench_weight *out)
{
    const char *free_action = find_free(list);
    bool has_ends = strcmp(free_action, "free_completed") == 0;
    uint64_t live = sum(out->live_bytes, has_ends ? out->pending_bytes : 0);
    uint64_t most;
    if (!walk_back(list, free_action, live, &most)) {
        uint64_t here = walk_on(list, free_action);
        most = here > live ? here : live;
    }
    out->need_bytes = most;
    for (uint32_t i = 0; i < list->n; i++) {
        bool is_refused = is_action(&list->items[i], "oom");
        out->has_failed = is_refused || (out->has_failed && !is_action(&list->items[i], "alloc"));
    }
}

bool bench_weigh_has_events(const value *trace)
{
    const node *list = trace->kind == BENCH_PICKLE_LIST ? trace->as.node : NULL;
    for (uint32_t i = 0; list && i < list->n; i++) {
        if (!is_action(&list->items[i], "snapshot")) {
            return true;
        }
    }
    return list && list->has_dropped;
}

void bench_weigh(const value *root, size_t n_most, bench_weights *out)
{
    *out = (bench_weights){ .n_left = n_most };
    const node *segments = list_of(root, "segments");
    for (uint32_t i = 0; segments && i < segments->n && take(out); i++) {
        if (segments->items[i].kind == BENCH_PICKLE_DICT) {
            weigh_segment(out, &segments->items[i]);
        }
    }
    for (unsigned i = 0; i < out->n; i++) {
        out->of[i].need_bytes = out->of[i].live_bytes;
    }
    const node *traces = list_of(root, "device_traces");
    out->n_left = n_most;
    for (uint32_t i = 0; traces && i < traces->n && out->n_left > 0; i++) {
        const value *trace = &traces->items[i];
        bench_weight *into = bench_weigh_has_events(trace) ? place(out, i) : NULL;
        if (into) {
            const node *list = trace->as.node;
            out->n_left -= list->n < out->n_left ? list->n : out->n_left;
            into->has_events = true;
            weigh_trace(list, into);
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
