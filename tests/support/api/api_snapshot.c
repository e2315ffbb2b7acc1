/* api_snapshot.c - see api_snapshot.h. Asserts nothing, since threads besides the test's use it. */
#include "tests/support/api/api_snapshot.h"

#include <stdlib.h>

/* Sorted by address; 0 = no block. An entry keeps its place. */
typedef struct seen {
    pleat_devptr base;
    uint64_t bytes;
    enum { SEEN_GONE, SEEN_LIVE, SEEN_PENDING } is;
} seen;

typedef struct player {
    seen *at;
    size_t capacity; /* a power of two */
    size_t n_blocks;
    uint64_t resident_bytes;
} player;

static seen *find(const player *p, pleat_devptr base)
{
    size_t i = (size_t)(base * 0x9E3779B97F4A7C15U >> 20) & (p->capacity - 1);
    while (p->at[i].base != 0 && p->at[i].base != base) {
        i = (i + 1) & (p->capacity - 1);
    }
    return &p->at[i];
}

static const char *play_block(player *p, const pl_history_entry *entry)
{
    seen *block = find(p, entry->base);
    if (entry->action == PL_ACTION_ALLOC) {
        if (block->is != SEEN_GONE) {
            return "a block is allocated where one lives";
        }
        *block = (seen){ .base = entry->base, .bytes = entry->bytes, .is = SEEN_LIVE };
        p->n_blocks++;
        return NULL;
    }
    bool is_request = entry->action == PL_ACTION_FREE_REQUESTED;
    if (block->is != (is_request ? SEEN_LIVE : SEEN_PENDING)) {
        return is_request ? "a free of no live block" : "a free is completed that was not asked";
    }
    if (block->bytes != entry->bytes) {
        return "a free of another size";
    }
    block->is = is_request ? SEEN_PENDING : SEEN_GONE;
    p->n_blocks -= !is_request;
    return NULL;
}

static const char *play(player *p, const pl_history_entry *entry)
{
    switch (entry->action) {
    case PL_ACTION_ALLOC:
    case PL_ACTION_FREE_REQUESTED:
    case PL_ACTION_FREE_COMPLETED:
        return play_block(p, entry);
    case PL_ACTION_SEGMENT_ALLOC:
    case PL_ACTION_SEGMENT_MAP:
        p->resident_bytes += entry->bytes;
        return NULL;
    case PL_ACTION_SEGMENT_FREE:
    case PL_ACTION_SEGMENT_UNMAP:
        p->resident_bytes -= entry->bytes;
        return NULL;
    default:
        return entry->action < PL_N_HISTORY_ACTIONS ? NULL : "an action that there is not";
    }
}

static const char *compare(const player *p, const pl_snapshot_state *state)
{
    uint64_t total_bytes = 0;
    size_t n_active = 0;
    for (size_t i = 0; i < state->n_blocks; i++) {
        const pl_snapshot_block *block = &state->blocks[i];
        total_bytes += block->bytes;
        if (block->use == PL_SNAPSHOT_INACTIVE) {
            continue;
        }
        const seen *known = find(p, block->base);
        n_active++;
        if (known->is == SEEN_GONE || known->bytes != block->requested_bytes) {
            return "a block of the state was never allocated";
        }
        if ((known->is == SEEN_PENDING) != (block->use == PL_SNAPSHOT_PENDING)) {
            return "the state and the history differ about a block's free";
        }
    }
    if (n_active != p->n_blocks) {
        return "a block of the history is not in the state";
    }
    return total_bytes == p->resident_bytes ? NULL : "other bytes are resident than were mapped";
}

const char *api_snapshot_replay(const pl_snapshot_state *state)
{
    player p = { .capacity = 64 };
    const char *wrong = NULL;
    while (p.capacity < 2 * (state->n_entries + state->n_blocks)) {
        p.capacity *= 2;
    }
    p.at = calloc(p.capacity, sizeof *p.at);
    if (!p.at) {
        return "out of host memory";
    }
    for (size_t i = 0; i < state->n_entries && !wrong; i++) {
        wrong = play(&p, &state->entries[i]);
    }
    wrong = wrong ? wrong : compare(&p, state);
    free(p.at);
    return wrong;
}

api_snapshot_sums api_snapshot_sum(const pl_snapshot_state *state)
{
    api_snapshot_sums sums = { 0 };
    for (size_t i = 0; i < state->n_blocks; i++) {
        const pl_snapshot_block *block = &state->blocks[i];
        sums.total_bytes += block->bytes;
        sums.n_pending += block->use == PL_SNAPSHOT_PENDING;
        sums.awaited_bytes += block->use == PL_SNAPSHOT_PENDING ? block->requested_bytes : 0;
        if (block->use == PL_SNAPSHOT_ALLOCATED) {
            sums.n_allocated++;
            sums.allocated_bytes += block->bytes;
            sums.requested_bytes += block->requested_bytes;
        }
    }
    return sums;
}
