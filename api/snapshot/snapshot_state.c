/* snapshot_state.c - copies a device's state.
 *
 * Takes the allocator's lock (rank 20) to count and to copy. Without a history to match, and if the
 * allocator can, each hold copies a few pieces; otherwise one hold copies everything, through
 * `visit`. Inside it takes the history's lock (rank 80). */
#include "api/snapshot/snapshot_state.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/streams/stream.h"

typedef struct census {
    size_t n_pieces;
    uint64_t active_bytes;
} census;

static void count_piece(void *context, const pl_piece *piece)
{
    census *c = context;
    c->n_pieces++;
    if (piece->kind == PL_PIECE_LIVE || piece->awaited_bytes > 0) {
        c->active_bytes += piece->bytes;
    }
}

static void visit_by_and_by(pl_gpu *gpu, void (*see)(void *context, const pl_piece *piece),
                            void *context)
{
    pleat_devptr from = 0;
    if (gpu->ops->visit_some == NULL) {
        gpu->ops->visit(gpu->allocator, see, context);
        return;
    }
    while (gpu->ops->visit_some(gpu->allocator, &from, see, context)) {
        (void)sched_yield();
    }
}

/* ---- copying, under the allocator's lock ---- */

typedef struct copier {
    pl_snapshot_state *out;
    size_t n_block_rooms;
    size_t n_entry_rooms;
    size_t n_pieces; /* seen */
    size_t n_needed; /* blocks, those without room included */
    size_t n_held;   /* entries in the ring */
    size_t n_pool_rooms;
    size_t n_named;  /* pools */
    bool is_apart;   /* the next piece begins a segment */
    bool is_at_once; /* everything in one hold, to match the history */
    const pl_keeper *private_in;
    uint16_t pool; /* private_in's */
} copier;

static pl_snapshot_use use_of(const pl_piece *piece)
{
    if (piece->kind == PL_PIECE_LIVE) {
        return PL_SNAPSHOT_ALLOCATED;
    }
    return piece->awaited_bytes > 0 ? PL_SNAPSHOT_PENDING : PL_SNAPSHOT_INACTIVE;
}

static void find_pool(copier *c, const pl_piece *piece)
{
    if (piece->private_in != c->private_in) {
        c->private_in = piece->private_in;
        c->pool = (uint16_t)pl_history_pool_index(&c->out->gpu->history, piece->private_in);
    }
}

/* True if the block continues the last one within the same segment. */
static bool is_next(const pl_snapshot_block *last, const pl_snapshot_block *block)
{
    return last->base + last->bytes == block->base && last->stream == block->stream &&
           last->pool == block->pool && last->is_small == block->is_small;
}

static void copy_block(copier *c, pl_snapshot_block block)
{
    pl_snapshot_state *out = c->out;
    pl_snapshot_block *last = out->n_blocks > 0 ? &out->blocks[out->n_blocks - 1] : NULL;
    block.is_first = c->is_apart || !last || !is_next(last, &block);
    c->is_apart = false;
    if (!block.is_first && block.use == PL_SNAPSHOT_INACTIVE && last->use == PL_SNAPSHOT_INACTIVE) {
        last->bytes += block.bytes;
        return;
    }
    c->n_needed++;
    if (out->n_blocks < c->n_block_rooms) {
        out->blocks[out->n_blocks++] = block;
    }
}

/* Copies the history and the pools' names, since a gone pool may leave its index to a new pool. */
static void copy_history(copier *c)
{
    pl_snapshot_state *out = c->out;
    pl_history *history = &out->gpu->history;
    pl_history_tell_looked_at(history);
    c->n_held = pl_history_copy(history, out->entries, c->n_entry_rooms, &out->n_told);
    c->n_named = pl_history_pool_ids(history, out->pools, c->n_pool_rooms);
}

static void copy_piece(void *context, const pl_piece *piece)
{
    copier *c = context;
    if (c->n_pieces++ == 0) {
        copy_history(c);
    }
    if (piece->kind == PL_PIECE_HOLE) {
        c->is_apart = true;
        return;
    }
    c->is_apart = c->is_apart || piece->is_first;
    find_pool(c, piece);
    copy_block(c,
               (pl_snapshot_block){
                   .base = piece->base,
                   .bytes = piece->bytes,
                   .requested_bytes = piece->requested_bytes + piece->awaited_bytes,
                   .stream = piece->segment_stream ? pl_stream_handle(piece->segment_stream) : NULL,
                   .tag = piece->tag,
                   .pool = c->pool,
                   .use = (uint8_t)use_of(piece),
                   .is_small = piece->is_small,
                   .is_asleep = piece->is_asleep,
               });
}

/* Copies as much as fits. False if not everything fit, or if something happened meanwhile and the
 * allocator holds nothing. */
static bool copy_once(copier *c)
{
    pl_snapshot_state *out = c->out;
    pl_gpu *gpu = out->gpu;
    uint64_t n_told = pl_history_n_told(&gpu->history);
    out->n_blocks = 0;
    if (c->is_at_once) {
        gpu->ops->visit(gpu->allocator, copy_piece, c);
    } else {
        visit_by_and_by(gpu, copy_piece, c);
        copy_history(c); /* pools may have been made meanwhile */
    }
    bool is_sure = c->is_at_once ? c->n_pieces > 0 : c->n_held == 0;
    if (!is_sure && c->is_at_once) {
        copy_history(c);
        is_sure = n_told == pl_history_n_told(&gpu->history);
    }
    out->n_entries = c->n_held < c->n_entry_rooms ? c->n_held : c->n_entry_rooms;
    out->n_pools = c->n_named < c->n_pool_rooms ? c->n_named : c->n_pool_rooms;
    return is_sure && c->n_needed <= c->n_block_rooms && c->n_held <= c->n_entry_rooms &&
           c->n_named <= c->n_pool_rooms;
}

/* ---- room ---- */

/* Touches the memory, so that copying does not wait for the system's pages. */
static void *make_room(pl_meta *meta, size_t n, size_t bytes_each)
{
    void *room = n <= SIZE_MAX / 2 / bytes_each ? pl_meta_alloc(meta, n * bytes_each) : NULL;
    if (room) {
        memset(room, 0, n * bytes_each);
    }
    return room;
}

/* Room for `n` and some more, since the lock is dropped before the copy. */
static size_t with_slack(size_t n, unsigned attempt)
{
    return n + (n / 16 + 256) * ((size_t)1 << (attempt < 16 ? attempt : 16));
}

static int by_address(const void *a, const void *b)
{
    const pl_snapshot_block *x = a;
    const pl_snapshot_block *y = b;
    return (x->base > y->base) - (x->base < y->base);
}

pl_snapshot_block *pl_snapshot_find(const pl_snapshot_state *state, pleat_devptr base)
{
    size_t first = 0;
    size_t end = state->n_blocks;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (state->blocks[middle].base < base) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    bool is_found = first < state->n_blocks && state->blocks[first].base == base;
    return is_found ? &state->blocks[first] : NULL;
}

static void learn(pl_snapshot_block *block, const pl_history_entry *entry)
{
    switch (entry->action) {
    case PL_ACTION_ALLOC:
        block->frames = block->use != PL_SNAPSHOT_INACTIVE ? entry->frames : 0;
        break;
    case PL_ACTION_SEGMENT_ALLOC:
    case PL_ACTION_SEGMENT_MAP:
        block->segment_frames = entry->frames;
        block->is_told_first = entry->action == PL_ACTION_SEGMENT_ALLOC;
        break;
    case PL_ACTION_SEGMENT_FREE:
        block->is_told_first = false;
        break;
    default:
        break;
    }
}

static bool has_frames(const pl_snapshot_state *state)
{
    size_t i = 0;
    while (i < state->n_entries && state->entries[i].frames == 0) {
        i++;
    }
    return i < state->n_entries;
}

/* Finds each block's allocating stack, and the starts of driver segments, in the last history entry
 * of each. Readers find a segment by its address, so two segments must not be joined. An allocator
 * that sees only blocks (cuda-async) shows touching blocks as one segment. */
static void learn_from_history(pl_snapshot_state *state)
{
    bool is_all = has_frames(state); /* without frames most entries can be skipped */
    for (size_t i = 0; i < state->n_entries; i++) {
        const pl_history_entry *entry = &state->entries[i];
        bool is_segment = entry->action == PL_ACTION_SEGMENT_ALLOC ||
                          entry->action == PL_ACTION_SEGMENT_FREE;
        pl_snapshot_block *block = is_all || is_segment ? pl_snapshot_find(state, entry->base)
                                                        : NULL;
        if (block) {
            learn(block, entry);
        }
    }
    for (size_t i = 0; i < state->n_blocks; i++) {
        state->blocks[i].is_first |= state->blocks[i].is_told_first;
    }
}

static bool is_sorted(const pl_snapshot_state *state)
{
    size_t i = 1;
    while (i < state->n_blocks && state->blocks[i - 1].base < state->blocks[i].base) {
        i++;
    }
    return i >= state->n_blocks;
}

/* Segments never overlap, so sorting by address keeps the blocks of each together. */
static void finish(pl_snapshot_state *state)
{
    if (!is_sorted(state)) {
        qsort(state->blocks, state->n_blocks, sizeof *state->blocks, by_address);
    }
    learn_from_history(state);
}

void pl_snapshot_forget(pl_meta *meta, pl_snapshot_state *state)
{
    pl_meta_free(meta, state->blocks);
    pl_meta_free(meta, state->entries);
    pl_meta_free(meta, state->pools);
    *state = (pl_snapshot_state){ .gpu = NULL };
}

/* Makes room for the counts of the last look. False: no host memory. */
static bool make_rooms(pl_meta *meta, copier *c)
{
    pl_snapshot_state *out = c->out;
    out->blocks = make_room(meta, c->n_block_rooms, sizeof *out->blocks);
    out->entries = make_room(meta, c->n_entry_rooms, sizeof *out->entries);
    out->pools = make_room(meta, c->n_pool_rooms, sizeof *out->pools);
    return out->blocks && out->entries && out->pools;
}

pleat_status pl_snapshot_copy(pl_gpu *gpu, pl_meta *meta, pl_snapshot_state *out)
{
    census c = { 0 };
    *out = (pl_snapshot_state){ .gpu = gpu };
    visit_by_and_by(gpu, count_piece, &c);
    pl_history_tell_snapshot(&gpu->history, c.active_bytes);
    size_t n_entries = pl_history_copy(&gpu->history, NULL, 0, NULL);
    size_t n_pools = pl_history_pool_ids(&gpu->history, NULL, 0);
    size_t n_blocks = c.n_pieces;
    for (unsigned attempt = 0;; attempt++) {
        copier once = {
            .out = out,
            .n_block_rooms = with_slack(n_blocks, attempt),
            .n_entry_rooms = with_slack(n_entries, attempt),
            .n_pool_rooms = with_slack(n_pools, attempt),
            .is_at_once = n_entries > 0 || pl_history_is_watched(&gpu->history) ||
                          gpu->ops->visit_some == NULL,
        };
        if (!make_rooms(meta, &once)) {
            pl_snapshot_forget(meta, out);
            return PLEAT_ENOMEM_HOST;
        }
        if (copy_once(&once)) {
            finish(out);
            return PLEAT_OK;
        }
        pl_snapshot_forget(meta, out);
        out->gpu = gpu;
        n_blocks = once.n_needed;
        n_entries = once.n_held;
        n_pools = once.n_named;
    }
}
