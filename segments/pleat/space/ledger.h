/* ledger.h - whatever counts a block is moved here, in one function for each thing that happens.
 *
 *   turned      the block has another state: blocks and bytes by state, users of its granules
 *               (pl_segment_become; between live and free also pl_turn_live and pl_turn_free)
 *   born        a program has the block: its lane and area, the map, figures, keeper, observer
 *   freed       the program gives the block back: the same, but for the area
 *   completed   nobody uses the block any more: its area, observer
 *   pends       bytes of the block wait for the lane's work, or do so no more
 *
 * Callers say what happens, and never count. A walk recomputes the counts (ops/check.c), so a count
 * that a further way forgets is found by the first check. The short ways (ops/quick.h) use the
 * inner parts, as no block there is a page or of a keeper, and tell the observer themselves.
 *
 * Guarded by the space's lock. Nothing here fails or drops the lock. */
#ifndef PLEAT_SEGMENTS_LEDGER_H
#define PLEAT_SEGMENTS_LEDGER_H

#include "segments/pleat/space/space.h"

/* ---- the inner parts ------------------------------------------------------------------------- */

/* `pool`: of the figures. b has its size, as rounded and as requested. */
static inline void pl_ledger_count_born(pl_space *space, pl_lane *lane, const pl_block *b,
                                        unsigned pool)
{
    lane->n_live++;
    b->segment->area->n_used++;
    pl_usages_begin(&space->blocks.usages, pool, b->bytes, b->requested);
}

static inline void pl_ledger_count_freed(pl_space *space, pl_lane *lane, const pl_block *b,
                                         unsigned pool)
{
    space->n_calls++;
    lane->n_live--;
    pl_usages_end(&space->blocks.usages, pool, b->bytes, b->requested);
}

/* ---- what happens ---------------------------------------------------------------------------- */

/* b, in state live, is a program's from now on. The map has room. The caller has counted the
 * call. */
void pl_ledger_born(pl_space *space, pl_lane *lane, pl_block *b, size_t requested);
/* The program gives b back. b keeps its state; the observer hears of the request. */
void pl_ledger_freed(pl_space *space, pl_block *b);
/* Nobody uses b, which was freed, any more. The caller makes b free, or puts b in flight. */
static inline void pl_ledger_completed(const pl_space *space, const pl_block *b)
{
    pl_area *area = b->segment->area;

    pl_space_tell_block(space, PL_ACTION_FREE_COMPLETED, b);
    if (--area->n_used == 0 && __builtin_expect(area->rests_in != NULL, false)) {
        LIST_INSERT_HEAD(area->rests_in, area, rest);
        area->rests_in = NULL;
    }
}

/* The live pages of a buffer have become one block more, or one less, with as many bytes. `lane`:
 * the owner's. The caller tells the observer. */
void pl_ledger_divided(pl_space *space, pl_lane *lane, const pl_block *b);
void pl_ledger_united(pl_space *space, pl_lane *lane, const pl_block *b);

static inline void pl_ledger_pends(pl_space *space, pl_lane *lane, bool is_private, size_t bytes)
{
    lane->clock.lines[is_private ? PL_LINE_PRIVATE : PL_LINE_PENDING].bytes += bytes;
    *(is_private ? &space->streams.n_private_pending_bytes
                 : &space->streams.n_pending_bytes) += bytes;
}

static inline void pl_ledger_pends_not(pl_space *space, pl_lane *lane, bool is_private,
                                       size_t bytes)
{
    lane->clock.lines[is_private ? PL_LINE_PRIVATE : PL_LINE_PENDING].bytes -= bytes;
    *(is_private ? &space->streams.n_private_pending_bytes
                 : &space->streams.n_pending_bytes) -= bytes;
}

#endif
