/* restore.c - making a private pool's live blocks equal to a roster again. Guarded by the device
 * lock.
 *
 * First the pool is surveyed in address order, with every step that can fail. Free memory under
 * blocks of the roster goes in flight, live blocks that the roster lacks are claimed, and all host
 * memory is reserved. A failure undoes the survey. Then the claimed blocks are freed, and the
 * pieces in flight become live. The lock is dropped at intervals throughout. Meanwhile the caller
 * lets nobody allocate in the pool.
 *
 * An allocation at a given address works likewise, for a roster of one block. But nothing is
 * claimed, and memory that pends elsewhere is not taken.
 *
 *   roster    |#### a ####|######## b ########|
 *   found     |#### a ####|-- free --|## c ##|-- free --|      a is kept, c is claimed
 *   surveyed  |#### a ####|~~flight~~|## c ##|~~~|-free-|
 *   freed     |#### a ####|~~flight~~|~flight|~~~|-free-|
 *   made      |#### a ####|######## b ########|--free---|
 *
 * A piece in flight keeps the lane and the tick of the free block. If the lane is of another
 * stream, the new live block gets a use by that stream (shared.h). Once freed, the block waits for
 * the stream.
 *
 * The pieces refer to their lanes (n_refs). The whole restore is a flight. n_flights also counts
 * the blocks that the restore will enter into the map of live blocks. So a thread that reserves
 * slots in the map leaves these slots free. */

#include "segments/pleat/pools/pool_ops.h"
#include "segments/pleat/pools/survey.h"
#include "segments/pleat/space/ledger.h"
#include "segments/pleat/space/live.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/space/space.h"
#include "segments/pleat/streams/capture_see.h"
#include "segments/pleat/streams/capturers.h"
#include "segments/pleat/streams/context.h"
#include "segments/pleat/streams/lanes.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/shared.h"
#include "segments/pleat/streams/tick.h"

/* ---- what the roster lacks is freed ---------------------------------------------------------- */

/* A tick is recorded only in calls that name the stream, so leave a wish. */
static void note_free(pl_space *space, pl_lane *plain, size_t bytes)
{
    pl_lane_note_free(plain, bytes, space->n_calls);
    pl_tick_wish(space, plain, bytes);
}

/* Free a claimed block as its own stream would, outside of captures. is_wanted: the roster has a
 * block at these addresses, so the block goes in flight. */
static void free_claimed(pl_space *space, pl_block *b, bool is_wanted)
{
    pl_lane *plain = pl_space_lane_at(space, pl_lane_plain(b->lane));
    size_t bytes = b->bytes;

    b->is_claimed = false;
    pl_ledger_freed(space, b);
    if (b->uses != NULL && !is_wanted) {
        pl_shared_free(space, b, NULL);
        note_free(space, plain, bytes);
        return;
    }
    pl_ledger_completed(space, b);
    if (is_wanted) {
        pl_segment_become(b->segment, &space->blocks.store, b, PL_BLOCK_FLIGHT);
        b->was = PL_BLOCK_FREE;
        b->lane = plain->number;
        b->stamp = pl_lane_stamp(space, plain);
        pl_piece_join_lane(space, b);
    } else {
        pl_run_free(space, b, plain->number, pl_lane_stamp(space, plain));
    }
    note_free(space, plain, bytes);
}

/* The first block of the roster with an end above `at`; NULL: none. */
static pl_roster_block *wanted_from(pl_roster_cursor *cursor, pleat_devptr at)
{
    pl_roster_block *wanted = pl_roster_at(cursor);

    while (wanted != NULL && wanted->base + wanted->bytes <= at) {
        pl_roster_next(cursor);
        wanted = pl_roster_at(cursor);
    }
    return wanted;
}

static void free_all(pl_restore *r)
{
    pl_roster_cursor cursor = pl_roster_begin(&r->out->live);
    pl_walk walk;

    walk = pl_walk_of(r->space, r->pool, PL_WALK_BY_ADDRESS);
    for (pl_block *b; (b = pl_walk_block(&walk)) != NULL;) {
        pleat_devptr end = pl_block_end(b);
        const pl_roster_block *wanted = wanted_from(&cursor, b->base);
        bool is_claimed = b->state == PL_BLOCK_LIVE && pl_block_is_claimed(b);
        pl_block *next = is_claimed ? NULL : b->next;
        if (is_claimed) {
            free_claimed(r->space, b, wanted != NULL && wanted->base < end);
        }
        pl_walk_on(&walk, end, next);
    }
}

/* ---- the roster's blocks are made ------------------------------------------------------------ */

/* Cut a piece in flight with a block struct set aside before. Returns the high part. */
static pl_block *cut(pl_restore *r, pl_block *piece, pleat_devptr at)
{
    pl_block_store_put_back(&r->space->blocks.store, 1, &r->spares);
    pl_block *high = pl_segment_split(piece->segment, &r->space->blocks.store, piece, at);
    pl_piece_join_lane(r->space, high);
    return high;
}

/* Slots to move from the map's old table with each new entry. With so many moves the old table is
 * empty before the new table is full, perhaps at a quarter of its slots. */
enum { MOVES = 4 };

static void make_live(pl_restore *r, pl_block *b, const pl_roster_block *wanted)
{
    pl_space *space = r->space;

    b->queue_next = NULL;
    b->stamp = wanted->stamp;
    pl_segment_become(b->segment, &space->blocks.store, b, PL_BLOCK_LIVE);
    pl_ptrmap_move(&space->blocks.live, &space->meta, MOVES);
    space->n_calls++;
    space->flights.n--;
    r->n_promised--;
    r->n_made++;
    pl_ledger_born(space, pl_space_lane_at(space, wanted->lane), b, wanted->requested);
}

/* Note that the block waits for the stream of the piece. The list of uses has room for all
 * notes. */
static void inherit_wait(pl_space *space, pl_block *b, uint32_t lane, uint64_t stamp,
                         const pl_roster_block *wanted)
{
    if (!pl_piece_is_foreign(lane, wanted->lane)) {
        return;
    }
    pl_lane *plain = pl_space_lane_at(space, pl_lane_plain(lane));
    if (lane != plain->number || !pl_lane_has_passed(space, plain, stamp)) {
        (void)!pl_uses_add(space, b, plain, NULL, false);
    }
}

/* As inherit_wait, for users of the piece besides its owner. Uses of a live piece are no demands
 * yet, and have no stamps. */
static void inherit_uses(pl_space *space, pl_block *b, pl_block_uses *uses, bool was_shared,
                         const pl_roster_block *wanted)
{
    for (uint32_t i = 0; uses != NULL && i < uses->n; i++) {
        const pl_block_use *use = &uses->use[i];
        bool is_over = was_shared && use->capture == NULL && pl_shared_is_met(space, use);
        if (!is_over && pl_piece_is_foreign(use->lane, wanted->lane)) {
            (void)!pl_uses_add(space, b, pl_space_lane_at(space, use->lane), NULL, false);
        }
        pl_uses_drop(space, use);
    }
    pl_meta_free(&space->meta, uses);
}

/* The piece lies within the roster's block. The piece is the first, or joins the pieces below. */
static pl_block *join(pl_restore *r, pl_block *piece, pl_roster_block *wanted)
{
    pl_space *space = r->space;
    uint32_t lane = piece->lane;
    pl_block_uses *uses = piece->uses;
    bool was_shared = piece->was == PL_BLOCK_SHARED;
    uint64_t stamp = was_shared ? uses->owner_stamp : piece->stamp;
    pl_block *b = piece;

    if (was_shared) {
        pl_ledger_completed(space, piece);
    }
    pl_piece_leave_lane(space, piece);
    piece->uses = NULL;
    if (piece->base == wanted->base) {
        piece->uses = wanted->waits;
        wanted->waits = NULL;
    } else {
        b = piece->prev;
        b->is_strange = b->is_strange || piece->is_strange;
        pl_segment_absorb(b->segment, &space->blocks.store, b, piece);
    }
    inherit_wait(space, b, lane, stamp, wanted);
    inherit_uses(space, b, uses, was_shared, wanted);
    b->lane = PL_LANE_SETTLED; /* refers to no lane any more */
    if (pl_block_end(b) == wanted->base + wanted->bytes) {
        if (b->uses != NULL && b->uses->n == 0) {
            pl_uses_drop_all(space, b);
        }
        make_live(r, b, wanted);
    }
    return b;
}

/* Make the wanted part of a piece in flight part of its block. Returns the block made so far. */
static pl_block *make_of(pl_restore *r, pl_block *piece, pl_roster_block *wanted)
{
    pleat_devptr end = pl_block_end(piece);

    if (wanted == NULL || wanted->base >= end) {
        pl_piece_put_back(r->space, piece);
        return NULL;
    }
    if (wanted->base > piece->base) {
        pl_block *high = cut(r, piece, wanted->base);
        pl_piece_put_back(r->space, piece);
        piece = high;
    }
    if (wanted->base + wanted->bytes < end) {
        (void)cut(r, piece, wanted->base + wanted->bytes);
    }
    return join(r, piece, wanted);
}

static void make_all(pl_restore *r)
{
    pl_roster_cursor cursor = pl_roster_begin(&r->out->live);
    pl_walk walk;

    walk = pl_walk_of(r->space, r->pool, PL_WALK_BY_ADDRESS);
    walk.at = r->is_adding ? pl_roster_at(&cursor)->base : 0;
    for (pl_block *b; (b = pl_walk_block(&walk)) != NULL;) {
        pleat_devptr end = pl_block_end(b);
        if (r->is_adding && r->n_made == r->out->live.n) {
            break;
        }
        if (pl_piece_is_own(b) && b->base >= walk.at) {
            pl_roster_block *wanted = wanted_from(&cursor, b->base);
            b = make_of(r, b, wanted);
            end = b != NULL ? pl_block_end(b) : end;
        }
        pl_walk_on(&walk, end, b != NULL ? b->next : NULL);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The caller says that all uses of the pool's free memory by the pool's blocks are over. The caller
 * cannot speak for strange memory: what was pending when the pool got the segment, or when its
 * chunk was taken from elsewhere. Strange memory stays strange until it is settled, since a block
 * of the pool that had it meanwhile need not have been used. Memory freed by a lasting capture
 * stays with the capture. */
static void settle_pool(pl_restore *r)
{
    pl_space *space = r->space;
    pl_walk walk;

    walk = pl_walk_of(space, r->pool, PL_WALK_BY_ADDRESS);
    for (pl_block *b; (b = pl_walk_block(&walk)) != NULL;) {
        pleat_devptr end = pl_block_end(b);
        pl_block *next = b->next;
        if (b->state == PL_BLOCK_FREE && b->lane != PL_LANE_SETTLED && !b->is_strange) {
            const pl_lane *lane = pl_space_lane_at(space, b->lane);
            if (!lane->is_capture || !pl_capture_is_lasting(space, lane)) {
                pl_run_move(space, b, PL_LANE_SETTLED, 0);
                next = NULL;
            }
        }
        pl_walk_on(&walk, end, next);
    }
}

/* Reserve slots in the map for all blocks to be made. A growing map empties its old table at once,
 * so the old table is emptied first, some slots at a time. */
static pleat_status promise(pl_restore *r, size_t n)
{
    pl_space *space = r->space;
    pleat_status st = n <= UINT32_MAX / 2 ? PLEAT_OK : PLEAT_ENOMEM_HOST;

    while (space->blocks.live.n_unmoved > 0) {
        pl_ptrmap_move(&space->blocks.live, &space->meta, PL_PIECES_A_HOLD);
        pl_space_breathe(space);
    }
    st = st == PLEAT_OK ? pl_ptrmap_reserve(&space->blocks.live, &space->meta, space->flights.n + n)
                        : st;
    if (st == PLEAT_OK) {
        r->n_promised = (unsigned)n;
        space->flights.n += r->n_promised;
    }
    return st;
}

static void drop_reserves(pl_restore *r)
{
    r->space->flights.n -= r->n_promised;
    pl_space_put_aside_back(r->space, &r->spares);
}

static pleat_status restore_locked(pl_restore *r, const pl_roster *saved, bool is_settled)
{
    pleat_status st = promise(r, saved->n);

    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_survey(r);
    if (st == PLEAT_OK) {
        if (!r->is_adding) {
            free_all(r);
        }
        make_all(r);
        if (is_settled) {
            settle_pool(r);
        }
    } else {
        pl_survey_undo(r);
    }
    drop_reserves(r);
    return st;
}

/* Runs under the lock, as does dropping the told lists. */
static pleat_status try_restore(pl_space *space, pl_keeper *pool, const pl_roster *saved,
                                bool is_settled, pl_restored *out)
{
    pl_restore r = { .space = space, .pool = pool, .out = out, .next = pl_roster_begin(saved) };
    pl_flying flying;

    *out = (pl_restored){ 0 };
    (void)pl_settle_all(space);
    pl_space_take_off(space, &flying);
    pleat_status st = restore_locked(&r, saved, is_settled);
    pl_space_land(space, &flying);
    if (st != PLEAT_OK) {
        pl_roster_forget(space, &out->freed);
        pl_roster_forget(space, &out->live);
    }
    return st;
}

/* Finished memory is in nobody's way. Perhaps only the next call of another stream would show that
 * memory is finished. Then a tick of the context shows the same, if one may be recorded now. */
pleat_status pl_pleat_private_restore(pl_allocator *a, pl_keeper *pool, const pl_roster *saved,
                                      bool is_settled, pl_restored *out)
{
    pl_space *space = (pl_space *)a;

    if (saved->pool != pool->number) {
        *out = (pl_restored){ 0 };
        return PLEAT_EPOOL;
    }
    pl_space_enter(space);
    bool is_inside = pl_capturers_enter(space, false);
    (void)pl_tick_poll(space, PL_TICK_QUERIES);
    pleat_status st = try_restore(space, pool, saved, is_settled, out);
    if (st == PLEAT_EPENDING && pl_context_tick_wait(space, PL_CARE_NOW, 0, 0) == PLEAT_OK) {
        st = try_restore(space, pool, saved, is_settled, out);
    }
    pl_capturers_leave(space, is_inside);
    pl_space_leave(space);
    return st;
}

/* ---- one block at its address ---------------------------------------------------------------- */

static pleat_status add_block(pl_restore *r, pl_roster *wanted, const pl_roster_block *block)
{
    const pl_segment *seg = pl_space_segment_at(r->space, block->base);
    bool is_inside = seg != NULL && seg->area->keeper == r->pool &&
                     seg->range.base + seg->range.bytes - block->base >= block->bytes;
    pl_roster_block *added = is_inside ? pl_roster_add(wanted, &r->space->meta) : NULL;

    if (added == NULL) {
        return is_inside ? PLEAT_ENOMEM_HOST : PLEAT_EFOREIGN;
    }
    *added = *block;
    r->next = pl_roster_begin(wanted);
    return restore_locked(r, wanted, false);
}

pleat_status pl_pleat_private_alloc_at(pl_allocator *a, pl_keeper *pool, pleat_devptr base,
                                       size_t bytes, pl_stream *stream)
{
    pl_space *space = (pl_space *)a;
    pl_roster wanted = { 0 };
    pl_restored told = { 0 };
    pl_restore r = { .space = space, .pool = pool, .out = &told, .is_adding = true };
    pl_roster_block block = {
        .base = base,
        .requested = bytes,
    };
    pl_capture_info info;
    pl_flying flying;
    pl_lane *lane;

    pleat_status st = pl_capture_ask_about(space, stream, NULL, &info);
    if (st != PLEAT_OK || info.is_capturing) {
        return st != PLEAT_OK ? st : PLEAT_ECAPTURE;
    }
    pl_space_enter(space);
    block.bytes = pl_space_round(space, bytes);
    st = pl_lanes_of(space, stream, false, &lane);
    if (st == PLEAT_OK) {
        lane->n_refs++;
        block.lane = lane->number;
        (void)pl_tick_poll(space, PL_TICK_QUERIES);
        (void)pl_settle_all(space);
        pl_space_take_off(space, &flying);
        st = add_block(&r, &wanted, &block);
        pl_space_land(space, &flying);
        pl_tick_record_if_wanted(space, lane);
        lane->n_refs--;
    }
    pl_space_leave(space);
    pl_pleat_roster_drop(a, &wanted);
    pl_pleat_roster_drop(a, &told.live);
    return st;
}
