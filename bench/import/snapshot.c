/* snapshot.c - extracts one device's events from a pickle's lists and dictionaries.
 *
 * The shape is known, so each level is a separate loop. Memo references may repeat one object many
 * times. To bound the time, no more blocks are read than the file has bytes. */
#include "bench/import/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "bench/import/settings.h"
#include "bench/import/stacks.h"
#include "bench/import/weigh.h"

typedef bench_pickle_value value;
typedef bench_pickle_node node;

static const char *const wanted[] = { "segments",
                                      "device_traces",
                                      "allocator_settings",
                                      "PYTORCH_CUDA_ALLOC_CONF",
                                      "PYTORCH_ALLOC_CONF",
                                      "expandable_segments",
                                      "is_expandable",
                                      "device",
                                      "address",
                                      "addr",
                                      "device_free",
                                      "size",
                                      "stream",
                                      "action",
                                      "state",
                                      "blocks",
                                      "requested_size",
                                      "total_size",
                                      "segment_pool_id",
                                      "pleat_allocator",
                                      "trace_alloc_max_entries",
                                      "trace_alloc_overflowed",
                                      "frames",
                                      "filename",
                                      "line",
                                      "name",
                                      NULL };

typedef struct reader {
    const char *path;
    bench_failure *failure;
    const value *root;
    bench_snapshot *out;
    size_t n_bytes;
    bench_stacks stacks;
    size_t n_seen; /* blocks and segments */
    size_t capacity;
    size_t private_capacity;
    bool is_chosen; /* the device is named */
} reader;

static __attribute__((format(printf, 3, 4))) bool complain(const reader *r, const value *at,
                                                           const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return bench_fail(r->failure, "%s: byte %lu: %s", r->path, (unsigned long)at->at, text);
}

/* The list under `key`, if the list kept all its items. */
static bool get_list(const reader *r, const value *from, const char *what, const char *key,
                     const node **out)
{
    const value *found = bench_pickle_get(from, key);
    if (!found) {
        return complain(r, from, "%s has no '%s'", what, key);
    }
    if (found->kind != BENCH_PICKLE_LIST) {
        return complain(r, found, "'%s' of %s is %s, not a list", key, what,
                        bench_pickle_kind_text(found));
    }
    if (found->as.node->has_dropped) {
        return complain(r, found, "'%s' of %s holds a dictionary with nothing of use", key, what);
    }
    *out = found->as.node;
    return true;
}

/* An integer in [0, 2^63). */
static bool get_number(const reader *r, const value *from, const char *what, const char *key,
                       uint64_t *out)
{
    const value *found = bench_pickle_get(from, key);
    if (!found) {
        return complain(r, from, "%s has no '%s'", what, key);
    }
    if (found->kind != BENCH_PICKLE_INTEGER) {
        return complain(r, found, "'%s' of %s is %s, not an integer", key, what,
                        bench_pickle_kind_text(found));
    }
    if (found->as.integer < 0) {
        return complain(r, found, "'%s' of %s is negative: %lld", key, what,
                        (long long)found->as.integer);
    }
    *out = (uint64_t)found->as.integer;
    return true;
}

/* Absent = `otherwise`. */
static bool get_number_or(const reader *r, const value *from, const char *what, const char *key,
                          uint64_t otherwise, uint64_t *out)
{
    if (!bench_pickle_get(from, key)) {
        *out = otherwise;
        return true;
    }
    return get_number(r, from, what, key, out);
}

static bool get_action(const reader *r, const value *from, uint8_t *out)
{
    static const char *const names[BENCH_SNAPSHOT_OTHER] = {
        [BENCH_SNAPSHOT_ALLOC] = "alloc",
        [BENCH_SNAPSHOT_FREE_REQUESTED] = "free_requested",
        [BENCH_SNAPSHOT_FREE_COMPLETED] = "free_completed",
        [BENCH_SNAPSHOT_SEGMENT_ALLOC] = "segment_alloc",
        [BENCH_SNAPSHOT_SEGMENT_FREE] = "segment_free",
        [BENCH_SNAPSHOT_SEGMENT_MAP] = "segment_map",
        [BENCH_SNAPSHOT_SEGMENT_UNMAP] = "segment_unmap",
        [BENCH_SNAPSHOT_OOM] = "oom",
    };
    const value *action = bench_pickle_get(from, "action");
    if (!action) {
        return complain(r, from, "an event has no 'action'");
    }
    if (action->kind != BENCH_PICKLE_TEXT) {
        return complain(r, action, "'action' of an event is %s, not a string",
                        bench_pickle_kind_text(action));
    }
    unsigned i = 0;
    while (i < BENCH_SNAPSHOT_OTHER && !bench_pickle_is_text(action, names[i])) {
        i++;
    }
    *out = (uint8_t)i;
    return true;
}

static bool read_entry(reader *r, const value *from, bench_snapshot_entry *out)
{
    if (from->kind != BENCH_PICKLE_DICT) {
        return complain(r, from, "an event is %s, not a dictionary", bench_pickle_kind_text(from));
    }
    *out = (bench_snapshot_entry){ .at = from->at };
    if (!get_action(r, from, &out->action)) {
        return false;
    }
    if (out->action == BENCH_SNAPSHOT_OTHER) {
        return true;
    }
    out->stack = bench_stacks_add(&r->stacks, bench_pickle_get(from, "frames"));
    bool is_oom = out->action == BENCH_SNAPSHOT_OOM;
    return (is_oom ? get_number_or(r, from, "an event", "device_free", 0, &out->address)
                   : get_number(r, from, "an event", "addr", &out->address)) &&
           get_number(r, from, "an event", "size", &out->bytes) &&
           get_number_or(r, from, "an event", "stream", 0, &out->stream);
}

static bool read_entries(reader *r, const value *trace)
{
    const node *list = trace->as.node;
    bench_snapshot *out = r->out;
    if (list->has_dropped) {
        return complain(r, trace, "an event has no 'action'");
    }
    out->entries = calloc(list->n + 1u, sizeof *out->entries);
    if (!out->entries) {
        return bench_fail(r->failure, "%s: out of host memory", r->path);
    }
    for (uint32_t i = 0; i < list->n; i++) {
        bench_snapshot_entry *entry = &out->entries[out->n_entries];
        if (!read_entry(r, &list->items[i], entry)) {
            return false;
        }
        out->n_entries++;
        out->has_mappings = out->has_mappings || entry->action == BENCH_SNAPSHOT_SEGMENT_MAP;
    }
    return true;
}

/* "0, 2, 3": the devices with events. */
static const char *list_devices(const bench_weights *weights, char *out, size_t n)
{
    size_t used = 0;
    snprintf(out, n, "none");
    for (unsigned i = 0; i < weights->n && used < n; i++) {
        if (weights->of[i].has_events) {
            used += (size_t)snprintf(out + used, n - used, "%s%lu", used ? ", " : "",
                                     (unsigned long)weights->of[i].device);
        }
    }
    return out;
}

/* Without events and without blocks. */
static bool refuse_empty(const reader *r, const bench_weights *weights)
{
    char devices[96];
    if (r->is_chosen) {
        return bench_fail(r->failure, "%s: no events of device %d; devices with events: %s",
                          r->path, r->out->device, list_devices(weights, devices, sizeof devices));
    }
    return bench_fail(r->failure,
                      "%s: no events were recorded, and no block is live; call "
                      "torch.cuda.memory._record_memory_history() before the run",
                      r->path);
}

/* The events of `device`, or, for BENCH_ANY_DEVICE, of the device to be judged. *out is NULL when
 * there are none. False and a message if an item is no list. */
static bool choose_trace(reader *r, const node *traces, const bench_weights *weights,
                         const value **out)
{
    *out = NULL;
    for (uint32_t i = 0; i < traces->n; i++) {
        const value *trace = &traces->items[i];
        if (trace->kind != BENCH_PICKLE_LIST) {
            return complain(r, trace, "an item of 'device_traces' is %s, not a list",
                            bench_pickle_kind_text(trace));
        }
    }
    const bench_weight *heaviest = bench_weights_heaviest(weights);
    if (r->out->device < 0 && heaviest) {
        r->out->device = (int)heaviest->device;
    }
    uint64_t device = (uint64_t)r->out->device;
    bench_weights_others(weights, device, &r->out->devices);
    bool is_there = device < traces->n && bench_weigh_has_events(&traces->items[device]);
    *out = is_there ? &traces->items[device] : NULL;
    return true;
}

static bool add_live(reader *r, const bench_snapshot_entry *block)
{
    bench_snapshot *out = r->out;
    if (out->n_live == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 256;
        bench_snapshot_entry *live = realloc(out->live, capacity * sizeof *live);
        if (!live) {
            return bench_fail(r->failure, "%s: out of host memory", r->path);
        }
        out->live = live;
        r->capacity = capacity;
    }
    out->live[out->n_live++] = *block;
    return true;
}

/* Refuses when memo references repeat objects more often than a written file could. */
static bool count_one(reader *r, const value *from)
{
    return ++r->n_seen <= r->n_bytes || complain(r, from, "more blocks than the file has bytes");
}

/* Live and pending blocks still occupy their places. A pending block is freed, but waits for other
 * streams. */
bool bench_snapshot_occupies(const value *block, uint8_t *action)
{
    static const char *const live[] = { "active_allocated", "active" };
    static const char *const pending[] = { "active_pending_free", "active_awaiting_free" };
    const value *state = bench_pickle_get(block, "state");
    bool is_text = state && state->kind == BENCH_PICKLE_TEXT;
    for (unsigned i = 0; is_text && i < 2; i++) {
        if (bench_pickle_is_text(state, live[i])) {
            *action = BENCH_SNAPSHOT_ALLOC;
            return true;
        }
        if (bench_pickle_is_text(state, pending[i])) {
            *action = BENCH_SNAPSHOT_FREE_COMPLETED;
            return true;
        }
    }
    return false;
}

static bool read_block(reader *r, const value *from, uint64_t stream, uint64_t *next_address)
{
    static const char what[] = "a block";
    if (from->kind != BENCH_PICKLE_DICT) {
        return complain(r, from, "a block is %s, not a dictionary", bench_pickle_kind_text(from));
    }
    bench_snapshot_entry block = { .stream = stream, .at = from->at };
    uint64_t size;
    if (!count_one(r, from) || !get_number(r, from, what, "size", &size) ||
        !get_number_or(r, from, what, "address", *next_address, &block.address) ||
        !get_number_or(r, from, what, "requested_size", size, &block.bytes)) {
        return false;
    }
    *next_address = block.address + size;
    if (!bench_snapshot_occupies(from, &block.action)) {
        return true;
    }
    block.stack = bench_stacks_add(&r->stacks, bench_pickle_get(from, "frames"));
    return add_live(r, &block);
}

/* The default pool is (0, 0). */
static bool add_private(reader *r, const value *segment, uint64_t address, uint64_t bytes)
{
    bench_snapshot *out = r->out;
    const value *pool = bench_pickle_get(segment, "segment_pool_id");
    if (!pool || pool->kind != BENCH_PICKLE_TUPLE || pool->as.integer == 0) {
        return true;
    }
    if (out->n_private == r->private_capacity) {
        size_t capacity = r->private_capacity ? 2 * r->private_capacity : 16;
        bench_snapshot_private *privates = realloc(out->privates, capacity * sizeof *privates);
        if (!privates) {
            return bench_fail(r->failure, "%s: out of host memory", r->path);
        }
        out->privates = privates;
        r->private_capacity = capacity;
    }
    out->privates[out->n_private++] = (bench_snapshot_private){
        .address = address, .bytes = bytes, .pool = (uint64_t)pool->as.integer
    };
    return true;
}

static bool read_segment(reader *r, const value *from)
{
    static const char what[] = "a segment";
    if (from->kind != BENCH_PICKLE_DICT) {
        return complain(r, from, "a segment is %s, not a dictionary", bench_pickle_kind_text(from));
    }
    uint64_t device;
    uint64_t address;
    uint64_t stream;
    uint64_t total;
    const node *blocks;
    if (!count_one(r, from) || !get_number_or(r, from, what, "device", 0, &device) ||
        !get_number(r, from, what, "address", &address) ||
        !get_number_or(r, from, what, "stream", 0, &stream) ||
        !get_number_or(r, from, what, "total_size", 0, &total) ||
        !get_list(r, from, what, "blocks", &blocks)) {
        return false;
    }
    r->n_seen += blocks->n; /* memo references may repeat the list, too */
    if (device != (uint64_t)r->out->device) {
        return true;
    }
    r->out->held_bytes += total;
    if (!add_private(r, from, address, total)) {
        return false;
    }
    const value *expandable = bench_pickle_get(from, "is_expandable");
    r->out->has_expandable = r->out->has_expandable ||
                             (expandable && expandable->kind == BENCH_PICKLE_BOOL &&
                              expandable->as.integer);
    for (uint32_t i = 0; i < blocks->n; i++) {
        if (!read_block(r, &blocks->items[i], stream, &address)) {
            return false;
        }
    }
    return true;
}

static bool read_segments(reader *r)
{
    const node *segments;
    if (!get_list(r, r->root, "the snapshot", "segments", &segments)) {
        return false;
    }
    for (uint32_t i = 0; i < segments->n; i++) {
        if (!read_segment(r, &segments->items[i])) {
            return false;
        }
    }
    return true;
}

static bool read_all(reader *r)
{
    if (r->root->kind != BENCH_PICKLE_DICT) {
        return complain(r, r->root,
                        "the pickle is %s, not a snapshot with 'segments' and 'device_traces'",
                        bench_pickle_kind_text(r->root));
    }
    const node *traces;
    if (!get_list(r, r->root, "the snapshot", "device_traces", &traces)) {
        return false;
    }
    bench_weights weights;
    bench_weigh(r->root, r->n_bytes, &weights);
    const value *trace;
    bool has_trace = choose_trace(r, traces, &weights, &trace);
    bool ok = has_trace && (!trace || read_entries(r, trace)) && read_segments(r) &&
              bench_snapshot_settings(r->path, r->root, r->out, r->failure);
    return ok && (r->out->n_entries > 0 || r->out->n_live > 0 || refuse_empty(r, &weights));
}

bool bench_snapshot_read(const char *path, const bench_limits *limits, int device,
                         bench_snapshot *out, bench_failure *failure)
{
    bench_pickle pickle;
    if (!bench_pickle_read(path, limits, wanted, &pickle, failure)) {
        return false;
    }
    bench_snapshot snapshot = { .device = device, .devices.is_asked = device >= 0 };
    reader r = {
        .path = path,
        .failure = failure,
        .root = &pickle.root,
        .out = &snapshot,
        .is_chosen = device >= 0,
        .n_bytes = pickle.bytes.n,
    };
    bool ok = (bench_stacks_init(&r.stacks) ||
               bench_fail(failure, "%s: out of host memory", path)) &&
              read_all(&r);
    snapshot.devices.judged = snapshot.device;
    if (ok) {
        snapshot.stacks = r.stacks.texts;
        snapshot.n_stacks = r.stacks.n;
        r.stacks.texts = NULL;
    }
    bench_stacks_fini(&r.stacks);
    bench_pickle_free(&pickle);
    if (ok) {
        *out = snapshot;
    } else {
        bench_snapshot_free(&snapshot);
    }
    return ok;
}

bench_snapshot_held bench_snapshot_read_held(const bench_snapshot *s)
{
    uint64_t held = s->held_bytes;
    uint64_t most = held;
    bool is_consistent = true;
    for (size_t i = s->n_entries; i-- > 0;) {
        const bench_snapshot_entry *entry = &s->entries[i];
        switch ((bench_snapshot_action)entry->action) {
        case BENCH_SNAPSHOT_SEGMENT_ALLOC:
        case BENCH_SNAPSHOT_SEGMENT_MAP:
            is_consistent = is_consistent && entry->bytes <= held;
            held -= entry->bytes < held ? entry->bytes : held;
            break;
        case BENCH_SNAPSHOT_SEGMENT_FREE:
        case BENCH_SNAPSHOT_SEGMENT_UNMAP:
            held += entry->bytes;
            break;
        default:
            break;
        }
        most = held > most ? held : most;
    }
    return (bench_snapshot_held){ .most_bytes = most,
                                  .before_bytes = held,
                                  .is_consistent = is_consistent };
}

void bench_snapshot_free(bench_snapshot *snapshot)
{
    for (uint32_t i = 0; i < snapshot->n_stacks; i++) {
        free(snapshot->stacks[i]);
    }
    free(snapshot->stacks);
    free(snapshot->entries);
    free(snapshot->live);
    free(snapshot->privates);
    *snapshot = (bench_snapshot){ .device = BENCH_ANY_DEVICE };
}
