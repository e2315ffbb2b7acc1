/* survey.h - a restore's look at its pool, with every step that can fail: see restore.c.
 *
 * The survey goes through the pool in address order, beside the roster. Free memory under blocks of
 * the roster goes in flight, in pieces. Live blocks that the roster lacks are claimed, and host
 * memory is reserved. The survey may drop the lock at intervals. */
#ifndef PLEAT_SEGMENTS_SURVEY_H
#define PLEAT_SEGMENTS_SURVEY_H

#include "segments/pleat/pools/checkpoint.h"
#include "segments/pleat/space/run.h"

typedef struct pl_restore {
    pl_space *space;
    pl_keeper *pool;
    pl_restored *out;
    pl_roster_cursor next; /* the roster's first block not done yet */
    bool is_adding;        /* the roster adds to the live blocks: see restore.c */
    pl_block *spares;      /* for cuts in freed blocks */
    uint32_t n_foreign;    /* pieces under the present block with other owners */
    size_t n_made;         /* blocks made live again */
    unsigned n_promised;   /* blocks still to be entered into the map */
} pl_restore;

/* A piece that the survey took. Other threads may have pieces of the pool in flight, too. Memory
 * that the pool does not own may be loose, and trims, takes and compactions go through all
 * segments. */
static inline bool pl_piece_is_own(const pl_block *b)
{
    return b->state == PL_BLOCK_FLIGHT && b->is_claimed;
}

/* A piece in flight keeps the lane and the tick of the free block, and refers to the lane. */
static inline void pl_piece_join_lane(const pl_space *space, pl_block *piece)
{
    piece->is_claimed = true;
    if (piece->lane != PL_LANE_SETTLED) {
        pl_space_lane_at(space, piece->lane)->n_refs++;
    }
}

static inline void pl_piece_leave_lane(const pl_space *space, pl_block *piece)
{
    piece->is_claimed = false;
    if (piece->lane != PL_LANE_SETTLED) {
        pl_space_lane_at(space, piece->lane)->n_refs--;
    }
}

static inline bool pl_piece_is_foreign(uint32_t lane, uint32_t owner)
{
    return lane != PL_LANE_SETTLED && pl_lane_plain(lane) != pl_lane_plain(owner);
}

/* The piece is free again. */
static inline void pl_piece_put_back(pl_space *space, pl_block *piece)
{
    pl_piece_leave_lane(space, piece);
    pl_carve_put_back(space, piece);
}

/* PLEAT_OK. EPENDING, EPOISONED or ENOMEM_HOST: then undo the survey. */
pleat_status pl_survey(pl_restore *r);
void pl_survey_undo(pl_restore *r);

#endif
