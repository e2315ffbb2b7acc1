/* compact.c - compaction at a safe point: which chunks are split, and in which order.
 *
 * The caller promises that no work runs on the device, and that none is submitted, until the call
 * returns. Then live memory can be copied elsewhere and mapped at its old addresses. pleat first
 * waits for all work of the device, so only work submitted during the call can break the promise.
 * After that wait everything freed is settled, and no stale mapping is left.
 *
 * Chunks with the fewest granules in use come first, as they win most for what is copied. A chunk
 * needs room for its granules in use before its own memory goes, and memory that one chunk wins is
 * room for the next. So if one chunk finds no room, no later chunk does.
 *
 * A compaction for a request moves nothing if all chunks together win less than the request lacks,
 * as the request fails in any case. Else it splits all of them. One that stops at what the request
 * lacks leaves a full device: the next has no room for its first chunk, and each waits for all work
 * of the device again (docs/experiments/compaction.md).
 *
 * Guarded by the device lock, which is dropped for every driver call. Other threads may allocate
 * and free meanwhile. */
#include "segments/pleat/compact/compact.h"
#include "segments/pleat/compact/split.h"
#include "segments/pleat/compact/still.h"
#include "segments/pleat/grow/policy.h"
#include "segments/pleat/grow/trim.h"
#include "segments/pleat/space/back.h"
#include "segments/pleat/streams/capturers.h"
#include "vmm/base/deadline.h"

/* ---- which chunks ---------------------------------------------------------------------------- */

/* A chunk worth splitting. */
typedef struct candidate {
    pleat_devptr at;
    size_t n_kept; /* granules */
} candidate;

typedef struct candidates {
    candidate *entries;
    size_t n;
    size_t capacity;
    size_t n_to_win; /* granules, of all */
    unsigned most_order;
} candidates;

static pleat_status add(pl_space *space, candidates *c, pleat_devptr at, size_t n_kept)
{
    pleat_status st = pl_space_reserve_entries(space, &c->entries, sizeof(*c->entries),
                                               &c->capacity, c->n);
    if (st == PLEAT_OK) {
        c->entries[c->n++] = (candidate){ .at = at, .n_kept = n_kept };
    }
    return st;
}

/* The first granule from `from` on that is vacant, but not loose; SIZE_MAX: none. Granules in
 * flight are never vacant, so no flight changes the tables of the granule. */
static size_t next_tied(const pl_segment *seg, size_t from)
{
    for (size_t i = from / PL_WORD; i < seg->capacity / PL_WORD; i++) {
        uint64_t word = seg->vacant[i] & ~seg->loose[i];
        word &= i == from / PL_WORD ? UINT64_MAX << (from % PL_WORD) : UINT64_MAX;
        pl_lock_touch(1);
        if (word != 0) {
            return i * PL_WORD + (size_t)__builtin_ctzll(word);
        }
    }
    return SIZE_MAX;
}

static pleat_status look_through(pl_space *space, pl_segment *seg, pl_pace *pace, candidates *c)
{
    pleat_status st = PLEAT_OK;
    size_t g = seg->is_private || !seg->has_large ? SIZE_MAX : next_tied(seg, 0);

    while (g != SIZE_MAX && st == PLEAT_OK) {
        size_t n_kept;
        pleat_devptr at = pl_segment_address(seg, pl_segment_chunk_from(seg, g));
        unsigned order = seg->orders[g];
        size_t next = pl_segment_chunk_to(seg, g);
        if (pl_split_is_worth_it(space, at, &n_kept)) {
            st = add(space, c, at, n_kept);
            c->n_to_win += ((size_t)1 << order) - n_kept;
            c->most_order = order > c->most_order ? order : c->most_order;
        }
        pl_pace_count(space, pace, next - g);
        g = next_tied(seg, next);
    }
    return st;
}

static pleat_status collect(pl_space *space, candidates *c)
{
    pl_pace pace;
    pleat_status st = PLEAT_OK;

    pl_pace_begin(space, &pace, false);
    pl_segment *seg = pl_space_lowest(space);
    for (; seg != NULL && st == PLEAT_OK; seg = pl_segment_above(seg)) {
        st = look_through(space, seg, &pace, c);
        pl_pace_step(space, &pace, 1);
    }
    return st;
}

/* ---- what is tied ---------------------------------------------------------------------------- */

enum { FRUGAL_ORDERS = 2 }; /* chunks of a quarter of the size: policy.c */

/* Vacant granules of [g, end) that would be tied in chunks of the order. */
static size_t tied_by(const pl_segment *seg, size_t g, size_t end, unsigned order)
{
    size_t n_tied = 0;
    size_t step = (size_t)1 << order;

    for (; g < end; g += step) {
        size_t n_vacant = 0;
        for (size_t i = g; i < g + step; i++) {
            n_vacant += pl_granule_is_set(seg->vacant, i);
        }
        n_tied += n_vacant < step ? n_vacant : 0;
    }
    return n_tied;
}

static void count_in(pl_space *space, pl_segment *seg, pl_pace *pace, size_t *to_win,
                     size_t *frugal)
{
    size_t g = seg->has_large ? next_tied(seg, 0) : SIZE_MAX;

    while (g != SIZE_MAX) {
        size_t n_kept;
        size_t from = pl_segment_chunk_from(seg, g);
        size_t next = pl_segment_chunk_to(seg, g);
        unsigned order = seg->orders[g];
        *to_win += pl_split_is_worth_it(space, pl_segment_address(seg, from), &n_kept)
                       ? next - from - n_kept
                       : 0;
        *frugal += tied_by(seg, from, next, order > FRUGAL_ORDERS ? order - FRUGAL_ORDERS : 0);
        pl_pace_step(space, pace, next - from);
        g = next_tied(seg, next);
    }
}

void pl_pleat_count_tied(pl_allocator *a, pl_tied *out)
{
    pl_space *space = pl_space_enter((pl_space *)a);
    size_t to_win = 0;
    size_t frugal = 0;
    pl_pace pace;

    space->places.n_walking++;
    pl_pace_begin(space, &pace, false);
    for (pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = pl_segment_above(seg)) {
        count_in(space, seg, &pace, &to_win, &frugal);
        pl_pace_step(space, &pace, 1);
    }
    space->places.n_walking--;
    *out = (pl_tied){ .to_win = (uint64_t)to_win << space->granule_log2,
                      .frugal = (uint64_t)frugal << space->granule_log2 };
    pl_space_leave(space);
}

/* ---- the safe point -------------------------------------------------------------------------- */

/* The fewest granules in use first, then the lowest address, in which order candidates were
 * collected. Once a chunk finds no room, no later chunk does. */
static pleat_status split_all(pl_space *space, const candidates *c, pleat_compaction *told)
{
    pleat_status st = PLEAT_OK;
    pl_pace pace;

    pl_pace_begin(space, &pace, false);
    for (size_t n_kept = 1; n_kept >> c->most_order == 0 && st == PLEAT_OK; n_kept++) {
        for (size_t i = 0; i < c->n && st == PLEAT_OK; i++) {
            pl_pace_step(space, &pace, 1);
            if (c->entries[i].n_kept == n_kept) {
                st = pl_split_chunk(space, c->entries[i].at, told);
                pl_space_breathe(space);
            }
        }
    }
    return st == PLEAT_ENOMEM_DEVICE ? PLEAT_OK : st;
}

static pleat_status split_chunks(pl_space *space, size_t n_lacking, pleat_compaction *told)
{
    candidates c = { .n = 0 };
    pleat_status st = collect(space, &c);

    if (st == PLEAT_OK && c.n_to_win < n_lacking) {
        st = PLEAT_ENOMEM_DEVICE;
    }

    if (st == PLEAT_OK && c.n > 0) {
        st = pl_scratch_open(space, c.most_order);
        st = st == PLEAT_OK ? split_all(space, &c, told) : st;
        pleat_status failed = pl_scratch_close(space);
        st = failed == PLEAT_OK ? st : failed;
    }
    pl_meta_free(&space->meta, c.entries);
    return st;
}

/* Granules that have to be won for the request, else nothing is moved; 0 without a request. */
static size_t lacking(const pl_space *space, size_t request)
{
    size_t n = (request + space->granule_bytes - 1) >> space->granule_log2;

    return n > 0 ? pl_policy_lacks(space, n) : 0;
}

/* The device is at rest. */
static pleat_status compact_still(pl_space *space, size_t n_lacking, pleat_compaction *told)
{
    size_t n_held = space->chunks.n_held;
    pleat_status st = split_chunks(space, n_lacking, told);
    size_t n_won = (size_t)(told->won_bytes >> space->granule_log2);
    size_t keep = n_held > n_won ? n_held - n_won : 0;
    pleat_status failed = pl_trim_idle_to(space, keep); /* chunks made for nothing */

    return st == PLEAT_OK ? failed : st;
}

/* For a request it looks before it waits: a compaction that wins too little would hold up the
 * program for nothing. Memory freed meanwhile may then do without a move. */
static pleat_status compact(pl_space *space, size_t request, pleat_compaction *told)
{
    size_t n_lacking = lacking(space, request);

    if (request > 0 && n_lacking == 0) {
        return PLEAT_OK;
    }
    if (space->blocks.store.tally.n_tied_granules < n_lacking) {
        return PLEAT_ENOMEM_DEVICE;
    }
    pleat_status st = pl_still_wait(space);
    st = st == PLEAT_OK ? pl_still_settle(space) : st;
    n_lacking = lacking(space, request);
    bool is_to_move = st == PLEAT_OK && (request == 0 || n_lacking > 0);
    return is_to_move ? compact_still(space, n_lacking, told) : st;
}

pleat_status pl_pleat_compact(pl_allocator *a, size_t request, bool is_observed,
                              pleat_compaction *out)
{
    pl_space *space = (pl_space *)a;
    pleat_compaction told = { .n_split = 0 };

    pl_deadline_begin();
    pl_space_enter(space);
    bool is_inside = pl_capturers_enter(space, false);
    pl_still_begin(space); /* one compaction at a time: the space has one scratch range */
    pleat_status st = is_observed ? PLEAT_EBUSY : compact(space, request, &told);
    space->chunks.n_unmoved = space->blocks.store.tally.n_tied_granules;
    pl_still_end(space);
    pl_capturers_leave(space, is_inside);
    pl_space_leave(space);
    *out = st == PLEAT_OK ? told : *out;
    return st;
}
