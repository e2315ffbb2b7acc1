/* snapshot.c - extracts one device's events and blocks from a file's lists and dictionaries.
 *
 * The shape is known, so each level is a separate loop. Events and blocks were folded as the file
 * was read (fold.h). Memo references may repeat one object many times. To bound the time, no more
 * blocks are read than the file has bytes. */
#include "bench/import/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "bench/import/fold.h"
#include "bench/import/parts.h"
#include "bench/import/settings.h"
#include "bench/import/weigh.h"
#include "bench/import/words.h"

typedef bench_pickle_value value;
typedef bench_pickle_node node;

typedef struct reader {
    const char *path;
    bench_failure *failure;
    bench_folds *folds;
    const value *part; /* a dictionary, or a list of segments */
    bench_snapshot *out;
    size_t n_bytes;
    size_t n_seen; /* blocks and segments */
    size_t live_capacity;
    size_t piece_capacity;
    size_t private_capacity;
    bool is_chosen; /* the device is named */
} reader;

#define complain(r, at, ...) bench_fold_complain((r)->folds, at, __VA_ARGS__)

/* The list under `key`, if the list kept all its items. */
static bool get_list(const reader *r, const value *from, const char *what, unsigned key,
                     const node **out)
{
    const value *found = bench_pickle_get(from, key);
    const char *name = bench_words[key];
    if (!found) {
        return complain(r, from, "%s has no '%s'", what, name);
    }
    if (found->kind != BENCH_PICKLE_LIST) {
        return complain(r, found, "'%s' of %s is %s, not a list", name, what,
                        bench_pickle_kind_text(found));
    }
    if (found->as.node->has_dropped) {
        return complain(r, found, "'%s' of %s holds a dictionary with nothing of use", name, what);
    }
    *out = found->as.node;
    return true;
}

static bool out_of_memory(const reader *r)
{
    return bench_fail(r->failure, "%s: out of host memory", r->path);
}

/* ---- events ---- */

/* The first item that is no event is told. */
static bool complain_of_event(reader *r, const value *item)
{
    node empty = { .n = 0 }; /* what was folded as something else */
    value dict = { .kind = BENCH_PICKLE_DICT, .as.node = &empty };
    bench_snapshot_entry entry;
    return bench_fold_read_entry(r->folds, item->kind == BENCH_PICKLE_RUN ? &dict : item, &entry);
}

/* The trace's events become the snapshot's. They mostly lie one behind the other already. */
static bool read_entries(reader *r, const value *trace)
{
    const node *list = trace->as.node;
    bench_folds *folds = r->folds;
    if (list->has_dropped) {
        return complain(r, trace, "an event has no 'action'");
    }
    uint64_t n = 0;
    uint64_t last = 0;
    bool is_ascending = true;
    for (uint32_t i = 0; i < list->n; i++) {
        const value *run = &list->of.items[i];
        if (run->kind != BENCH_PICKLE_RUN || run->word != BENCH_FOLD_EVENT) {
            return complain_of_event(r, run);
        }
        is_ascending = is_ascending && (uint64_t)run->as.integer >= last;
        last = (uint64_t)run->as.integer + run->at;
        n += run->at;
    }
    bench_snapshot_entry *out = is_ascending ? folds->entries
                                             : calloc(n + 1, sizeof *folds->entries);
    if (n > 0 && !out) {
        return out_of_memory(r);
    }
    size_t at = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const value *run = &list->of.items[i];
        memmove(out + at, folds->entries + run->as.integer, run->at * sizeof *out);
        at += run->at;
    }
    if (is_ascending) {
        folds->entries = NULL;
        folds->n_entries = 0;
        bench_snapshot_entry *cut = realloc(out, (at + 1) * sizeof *out);
        out = cut ? cut : out;
    }
    r->out->entries = out;
    r->out->n_entries = at;
    for (size_t i = 0; i < at; i++) {
        bool is_mapping = out[i].action == BENCH_SNAPSHOT_SEGMENT_MAP;
        r->out->has_mappings = r->out->has_mappings || is_mapping;
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
        const value *trace = &traces->of.items[i];
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
    bool is_there = device < traces->n &&
                    bench_weigh_has_events(&traces->of.items[device], r->folds);
    *out = is_there ? &traces->of.items[device] : NULL;
    return true;
}

/* ---- blocks ---- */

/* Room for one more; NULL and a message when there is none. */
static void *grow(const reader *r, void *of, size_t n, size_t *capacity, size_t bytes)
{
    if (n < *capacity) {
        return of;
    }
    size_t more = *capacity ? 2 * *capacity : 256;
    void *grown = realloc(of, more * bytes);
    if (grown) {
        *capacity = more;
    } else {
        out_of_memory(r);
    }
    return grown;
}

static bool add_live(reader *r, const bench_snapshot_entry *block)
{
    bench_snapshot *out = r->out;
    bench_snapshot_entry *live = grow(r, out->live, out->n_live, &r->live_capacity, sizeof *live);
    if (live) {
        out->live = live;
        live[out->n_live++] = *block;
    }
    return live != NULL;
}

static bool add_piece(reader *r, const bench_state_piece *piece)
{
    bench_state *state = &r->out->state;
    bench_state_piece *pieces = grow(r, state->pieces, state->n_pieces, &r->piece_capacity,
                                     sizeof *pieces);
    if (pieces) {
        state->pieces = pieces;
        pieces[state->n_pieces++] = *piece;
    }
    return pieces != NULL;
}

/* Refuses when memo references repeat objects more often than a written file could. */
static bool count_one(reader *r, const value *from)
{
    return ++r->n_seen <= r->n_bytes || complain(r, from, "more blocks than the file has bytes");
}

/* `like` is of the segment: its base is the next block's. */
static bool add_block(reader *r, const bench_fold_block *block, bench_state_piece *like)
{
    bool is_free = block->state == BENCH_STATE_FREE;
    like->base = block->address != BENCH_NO_ADDRESS ? block->address : like->base;
    like->bytes = block->bytes;
    like->kind = block->state;
    like->stack = is_free ? 0 : block->stack;
    like->asked_bytes = block->state == BENCH_STATE_LIVE ? block->requested_bytes : 0;
    bench_snapshot_entry live = {
        .address = like->base,
        .bytes = block->requested_bytes,
        .stream = like->stream,
        .at = block->at,
        .stack = block->stack,
        .action = block->state == BENCH_STATE_LIVE ? BENCH_SNAPSHOT_ALLOC
                                                   : BENCH_SNAPSHOT_FREE_COMPLETED,
    };
    bool ok = add_piece(r, like) && (is_free || add_live(r, &live));
    like->base += block->bytes;
    like->is_first = false;
    return ok;
}

static bool read_blocks(reader *r, const node *blocks, bench_state_piece *like)
{
    for (uint32_t i = 0; i < blocks->n; i++) {
        const value *item = &blocks->of.items[i];
        bench_fold_block block;
        bool is_run = item->kind == BENCH_PICKLE_RUN && item->word == BENCH_FOLD_BLOCK;
        if (!is_run && (!count_one(r, item) || !bench_fold_read_block(r->folds, item, &block) ||
                        !add_block(r, &block, like))) {
            return false;
        }
        for (uint32_t k = 0; is_run && k < item->at; k++) {
            const bench_fold_block *of = &r->folds->blocks[(uint64_t)item->as.integer + k];
            if (!count_one(r, item) || !add_block(r, of, like)) {
                return false;
            }
        }
    }
    return true;
}

/* The default pool is (0, 0). */
static bool add_private(reader *r, const value *segment, uint64_t address, uint64_t bytes)
{
    bench_snapshot *out = r->out;
    const value *pool = bench_pickle_get(segment, BENCH_WORD_SEGMENT_POOL_ID);
    if (!pool || pool->kind != BENCH_PICKLE_TUPLE || pool->as.integer == 0) {
        return true;
    }
    bench_snapshot_private *privates = grow(r, out->privates, out->n_private, &r->private_capacity,
                                            sizeof *privates);
    if (privates) {
        out->privates = privates;
        privates[out->n_private++] = (bench_snapshot_private){ .address = address,
                                                               .bytes = bytes,
                                                               .pool = (uint64_t)pool->as.integer };
    }
    return privates != NULL;
}

static bool is_true(const value *dict, unsigned key)
{
    const value *found = bench_pickle_get(dict, key);
    return found && found->kind == BENCH_PICKLE_BOOL && found->as.integer;
}

static bool is_small(const value *segment)
{
    const value *type = bench_pickle_get(segment, BENCH_WORD_SEGMENT_TYPE);
    return type && bench_pickle_is_word(type, BENCH_WORD_SMALL);
}

static bool read_segment(reader *r, const value *from)
{
    static const char what[] = "a segment";
    if (from->kind != BENCH_PICKLE_DICT) {
        return complain(r, from, "a segment is %s, not a dictionary", bench_pickle_kind_text(from));
    }
    const bench_folds *folds = r->folds;
    uint64_t device;
    uint64_t total;
    const node *blocks;
    bench_state_piece like = { .is_first = true, .is_small = is_small(from) };
    if (!count_one(r, from) ||
        !bench_fold_number_or(folds, from, what, BENCH_WORD_DEVICE, 0, &device) ||
        !bench_fold_number(folds, from, what, BENCH_WORD_ADDRESS, &like.base) ||
        !bench_fold_number_or(folds, from, what, BENCH_WORD_STREAM, 0, &like.stream) ||
        !bench_fold_number_or(folds, from, what, BENCH_WORD_TOTAL_SIZE, 0, &total) ||
        !get_list(r, from, what, BENCH_WORD_BLOCKS, &blocks)) {
        return false;
    }
    r->n_seen += blocks->n; /* memo references may repeat the list, too */
    if (device != (uint64_t)r->out->device) {
        return true;
    }
    r->out->held_bytes += total;
    like.is_expandable = is_true(from, BENCH_WORD_IS_EXPANDABLE);
    r->out->has_expandable = r->out->has_expandable || like.is_expandable;
    return add_private(r, from, like.base, total) && read_blocks(r, blocks, &like);
}

/* A history alone does not do: without segments nothing tells what lived before it. */
static bool read_segments(reader *r, const node *segments)
{
    const node *there;
    if (r->part->kind == BENCH_PICKLE_DICT &&
        !get_list(r, r->part, "the snapshot", BENCH_WORD_SEGMENTS, &there)) {
        return false;
    }
    for (uint32_t i = 0; i < segments->n; i++) {
        if (!read_segment(r, &segments->of.items[i])) {
            return false;
        }
    }
    return true;
}

/* A list of segments has no history and no settings; neither has a dictionary of segments alone. */
static bool find_lists(const reader *r, const node **segments, const node **traces)
{
    static const node none = { .n = 0 };
    *traces = &none;
    if (r->part->kind == BENCH_PICKLE_LIST) {
        *segments = r->part->as.node;
        return true;
    }
    *segments = &none;
    bool has_traces = bench_pickle_get(r->part, BENCH_WORD_DEVICE_TRACES) != NULL;
    bool has_segments = bench_pickle_get(r->part, BENCH_WORD_SEGMENTS) != NULL;
    return (!has_traces ||
            get_list(r, r->part, "the snapshot", BENCH_WORD_DEVICE_TRACES, traces)) &&
           (!has_segments || get_list(r, r->part, "the snapshot", BENCH_WORD_SEGMENTS, segments));
}

/* Without events there is an array all the same, in which none is found. */
static bool read_trace(reader *r, const value *trace)
{
    if (trace && !read_entries(r, trace)) {
        return false;
    }
    if (!r->out->entries) {
        r->out->entries = calloc(1, sizeof *r->out->entries);
    }
    return r->out->entries || out_of_memory(r);
}

static bool read_all(reader *r)
{
    const node *segments;
    const node *traces;
    if (!find_lists(r, &segments, &traces)) {
        return false;
    }
    bench_weights weights;
    bench_weigh(segments, traces, r->folds, r->n_bytes, &weights);
    const value *trace;
    bool has_trace = choose_trace(r, traces, &weights, &trace);
    bool ok = has_trace && read_trace(r, trace) && read_segments(r, segments) &&
              bench_snapshot_settings(r->path, r->part, r->out, r->failure);
    return ok && (r->out->n_entries > 0 || r->out->n_live > 0 || refuse_empty(r, &weights));
}

/* ---- files ---- */

typedef struct opened {
    bench_folds folds;
    bench_pickle pickle;
} opened;

static bool open_file(const char *path, const bench_limits *limits, opened *out,
                      bench_failure *failure)
{
    bench_pickle_wants wants = { .words = bench_words,
                                 .fold = bench_fold,
                                 .keeps = bench_parts_keeps,
                                 .context = &out->folds,
                                 .failure = failure };
    bool ok = bench_folds_init(&out->folds, path, failure) &&
              bench_pickle_read(path, limits, &wants, &out->pickle);
    if (!ok) {
        bench_folds_fini(&out->folds);
    }
    return ok;
}

static void close_file(opened *file)
{
    bench_folds_fini(&file->folds);
    bench_pickle_free(&file->pickle);
}

bool bench_snapshot_ranks(const char *path, const bench_limits *limits, bench_rank_name **names,
                          unsigned *n, bench_failure *failure)
{
    opened file;
    *n = 0;
    if (bench_pickle_begins_with_word(path, bench_words) ||
        !open_file(path, limits, &file, failure)) {
        return true; /* reading tells what is wrong */
    }
    bool ok = bench_parts_name(&file.pickle.root, names, n) ||
              bench_fail(failure, "%s: out of host memory", path);
    close_file(&file);
    return ok;
}

bool bench_snapshot_read(const char *path, const bench_limits *limits, const char *rank, int device,
                         bench_snapshot *out, bench_failure *failure)
{
    opened file;
    if (!open_file(path, limits, &file, failure)) {
        return false;
    }
    bench_snapshot snapshot = { .device = device, .devices.is_asked = device >= 0 };
    reader r = {
        .path = path,
        .failure = failure,
        .folds = &file.folds,
        .out = &snapshot,
        .is_chosen = device >= 0,
        .n_bytes = file.pickle.n_bytes,
    };
    bool ok = bench_parts_choose(path, &file.pickle.root, rank, &r.part, failure) && read_all(&r);
    snapshot.devices.judged = snapshot.device;
    if (ok) {
        snapshot.stacks = file.folds.stacks.texts;
        snapshot.n_stacks = file.folds.stacks.n;
        file.folds.stacks.texts = NULL;
    }
    close_file(&file);
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
    free(snapshot->state.pieces);
    *snapshot = (bench_snapshot){ .device = BENCH_ANY_DEVICE };
}
