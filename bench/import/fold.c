/* fold.c - see fold.h. */
#include "bench/import/fold.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/import/words.h"

typedef bench_pickle_value value;

bool bench_folds_init(bench_folds *folds, const char *path, bench_failure *failure)
{
    *folds = (bench_folds){ .path = path, .failure = failure };
    return bench_stacks_init(&folds->stacks) || bench_fail(failure, "%s: out of host memory", path);
}

void bench_folds_fini(bench_folds *folds)
{
    bench_stacks_fini(&folds->stacks);
    free(folds->entries);
    free(folds->blocks);
    *folds = (bench_folds){ .n_entries = 0 };
}

bool bench_fold_complain(const bench_folds *folds, const value *at, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return bench_fail(folds->failure, "%s: byte %lu: %s", folds->path, (unsigned long)at->at, text);
}

/* ---- numbers ---- */

/* An integer in [0, 2^63). */
static bool is_number(const value *v)
{
    return v->kind == BENCH_PICKLE_INTEGER && v->as.integer >= 0;
}

bool bench_fold_number(const bench_folds *folds, const value *from, const char *what, unsigned key,
                       uint64_t *out)
{
    const value *found = bench_pickle_get(from, key);
    if (!found) {
        return bench_fold_complain(folds, from, "%s has no '%s'", what, bench_words[key]);
    }
    if (found->kind != BENCH_PICKLE_INTEGER) {
        return bench_fold_complain(folds, found, "'%s' of %s is %s, not an integer",
                                   bench_words[key], what, bench_pickle_kind_text(found));
    }
    if (found->as.integer < 0) {
        return bench_fold_complain(folds, found, "'%s' of %s is negative: %lld", bench_words[key],
                                   what, (long long)found->as.integer);
    }
    *out = (uint64_t)found->as.integer;
    return true;
}

bool bench_fold_number_or(const bench_folds *folds, const value *from, const char *what,
                          unsigned key, uint64_t otherwise, uint64_t *out)
{
    if (!bench_pickle_get(from, key)) {
        *out = otherwise;
        return true;
    }
    return bench_fold_number(folds, from, what, key, out);
}

/* ---- events ---- */

/* The words of actions are the first ones. */
static uint8_t action_of(const value *action)
{
    return (uint8_t)(action->word > 0 && action->word <= BENCH_SNAPSHOT_OTHER
                         ? action->word - 1
                         : BENCH_SNAPSHOT_OTHER);
}

static bool has_no_place(uint8_t action)
{
    return action == BENCH_SNAPSHOT_TAKEN || action == BENCH_SNAPSHOT_OTHER;
}

bool bench_fold_read_entry(bench_folds *folds, const value *from, bench_snapshot_entry *out)
{
    static const char what[] = "an event";
    if (from->kind != BENCH_PICKLE_DICT) {
        return bench_fold_complain(folds, from, "an event is %s, not a dictionary",
                                   bench_pickle_kind_text(from));
    }
    const value *action = bench_pickle_get(from, BENCH_WORD_ACTION);
    if (!action) {
        return bench_fold_complain(folds, from, "an event has no 'action'");
    }
    if (action->kind != BENCH_PICKLE_TEXT) {
        return bench_fold_complain(folds, action, "'action' of an event is %s, not a string",
                                   bench_pickle_kind_text(action));
    }
    *out = (bench_snapshot_entry){ .at = from->at, .action = action_of(action) };
    if (has_no_place(out->action)) {
        return true;
    }
    bool is_oom = out->action == BENCH_SNAPSHOT_OOM;
    return (is_oom
                ? bench_fold_number_or(folds, from, what, BENCH_WORD_DEVICE_FREE, 0, &out->address)
                : bench_fold_number(folds, from, what, BENCH_WORD_ADDR, &out->address)) &&
           bench_fold_number(folds, from, what, BENCH_WORD_SIZE, &out->bytes) &&
           bench_fold_number_or(folds, from, what, BENCH_WORD_STREAM, 0, &out->stream);
}

static bool is_whole_event(const value *dict)
{
    const value *action = bench_pickle_get(dict, BENCH_WORD_ACTION);
    if (!action || action->kind != BENCH_PICKLE_TEXT) {
        return false;
    }
    uint8_t kind = action_of(action);
    const value *at = bench_pickle_get(dict, kind == BENCH_SNAPSHOT_OOM ? BENCH_WORD_DEVICE_FREE
                                                                        : BENCH_WORD_ADDR);
    const value *size = bench_pickle_get(dict, BENCH_WORD_SIZE);
    const value *stream = bench_pickle_get(dict, BENCH_WORD_STREAM);
    bool has_place = at ? is_number(at) : kind == BENCH_SNAPSHOT_OOM;
    return has_no_place(kind) ||
           (has_place && size && is_number(size) && (!stream || is_number(stream)));
}

/* ---- blocks ---- */

/* Live and pending blocks still occupy their places. A pending block is freed, but waits for other
 * streams. */
static uint8_t state_of(const value *dict)
{
    const value *state = bench_pickle_get(dict, BENCH_WORD_STATE);
    if (!state) {
        return BENCH_STATE_FREE;
    }
    bool is_live = bench_pickle_is_word(state, BENCH_WORD_ACTIVE_ALLOCATED) ||
                   bench_pickle_is_word(state, BENCH_WORD_ACTIVE);
    bool is_pending = bench_pickle_is_word(state, BENCH_WORD_ACTIVE_PENDING_FREE) ||
                      bench_pickle_is_word(state, BENCH_WORD_ACTIVE_AWAITING_FREE);
    return is_live ? BENCH_STATE_LIVE : is_pending ? BENCH_STATE_PENDING : BENCH_STATE_FREE;
}

bool bench_fold_read_block(bench_folds *folds, const value *from, bench_fold_block *out)
{
    static const char what[] = "a block";
    if (from->kind != BENCH_PICKLE_DICT) {
        return bench_fold_complain(folds, from, "a block is %s, not a dictionary",
                                   bench_pickle_kind_text(from));
    }
    *out = (bench_fold_block){ .at = from->at, .state = state_of(from) };
    return bench_fold_number(folds, from, what, BENCH_WORD_SIZE, &out->bytes) &&
           bench_fold_number_or(folds, from, what, BENCH_WORD_ADDRESS, BENCH_NO_ADDRESS,
                                &out->address) &&
           bench_fold_number_or(folds, from, what, BENCH_WORD_REQUESTED_SIZE, out->bytes,
                                &out->requested_bytes);
}

static bool is_whole_block(const value *dict)
{
    const value *size = bench_pickle_get(dict, BENCH_WORD_SIZE);
    const value *address = bench_pickle_get(dict, BENCH_WORD_ADDRESS);
    const value *requested = bench_pickle_get(dict, BENCH_WORD_REQUESTED_SIZE);
    return size && is_number(size) && (!address || is_number(address)) &&
           (!requested || is_number(requested));
}

/* ---- folding ---- */

/* A list of frames is folded, too: most events have one of their own. */
static uint32_t fold_stack(bench_folds *folds, struct bench_pickle_machine *m, const value *dict)
{
    const value *frames = bench_pickle_get(dict, BENCH_WORD_FRAMES);
    if (!frames || frames->kind != BENCH_PICKLE_LIST) {
        return 0;
    }
    bench_pickle_node *list = frames->as.node;
    if (list->folded == 0) {
        bench_pickle_fold(m, list, BENCH_FOLD_STACK, bench_stacks_add(&folds->stacks, list));
    }
    return list->folded == BENCH_FOLD_STACK ? (uint32_t)list->of.index : 0;
}

/* Room for one more. */
static bool make_room(bench_folds *folds, void **of, size_t n, size_t *capacity, size_t bytes)
{
    if (n < *capacity) {
        return true;
    }
    size_t more = *capacity ? 2 * *capacity : 256;
    void *grown = more < UINT32_MAX ? realloc(*of, more * bytes) : NULL;
    if (!grown) {
        return bench_fail(folds->failure, "%s: out of host memory", folds->path);
    }
    *of = grown;
    *capacity = more;
    return true;
}

static bool fold_event(bench_folds *folds, struct bench_pickle_machine *m, value *dict)
{
    void *entries = folds->entries;
    bench_snapshot_entry entry;
    bool ok = make_room(folds, &entries, folds->n_entries, &folds->entry_capacity, sizeof entry);
    folds->entries = entries;
    if (!ok || !bench_fold_read_entry(folds, dict, &entry)) {
        return false;
    }
    entry.stack = has_no_place(entry.action) ? 0 : fold_stack(folds, m, dict);
    bench_pickle_fold(m, dict->as.node, BENCH_FOLD_EVENT, (uint32_t)folds->n_entries);
    folds->entries[folds->n_entries++] = entry;
    return true;
}

static bool fold_block(bench_folds *folds, struct bench_pickle_machine *m, value *dict)
{
    void *blocks = folds->blocks;
    bench_fold_block block;
    bool ok = make_room(folds, &blocks, folds->n_blocks, &folds->block_capacity, sizeof block);
    folds->blocks = blocks;
    if (!ok || !bench_fold_read_block(folds, dict, &block)) {
        return false;
    }
    block.stack = fold_stack(folds, m, dict);
    bench_pickle_fold(m, dict->as.node, BENCH_FOLD_BLOCK, (uint32_t)folds->n_blocks);
    folds->blocks[folds->n_blocks++] = block;
    return true;
}

bool bench_fold(void *context, struct bench_pickle_machine *m, value *dict)
{
    bench_folds *folds = context;
    if (is_whole_event(dict)) {
        return fold_event(folds, m, dict);
    }
    if (bench_pickle_get(dict, BENCH_WORD_STATE) && is_whole_block(dict)) {
        return fold_block(folds, m, dict);
    }
    bool is_frame = bench_pickle_get(dict, BENCH_WORD_FILENAME) ||
                    bench_pickle_get(dict, BENCH_WORD_NAME);
    if (is_frame && !bench_pickle_get(dict, BENCH_WORD_SEGMENTS)) {
        uint32_t number = bench_stacks_frame(&folds->stacks, dict);
        bench_pickle_fold(m, dict->as.node, BENCH_FOLD_FRAME, number);
    }
    return true;
}
