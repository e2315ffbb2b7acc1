/* survey.h - what a restore finds in its pool, and all of it that can fail: see restore.c.
 *
 * The survey goes through the pool in address order, beside the roster. What the roster's blocks
 * need of free memory goes in flight, in pieces; live blocks that it lacks are claimed; host memory
 * is reserved. It may drop the lock at intervals. */
#ifndef PLEAT_SEGMENTS_SURVEY_H
#define PLEAT_SEGMENTS_SURVEY_H

#include "segments/pleat/pools/checkpoint.h"
#include "segments/pleat/space/carve.h"

typedef struct pl_restore {
    pl_space *space;
    pl_private *pool;
    pl_restored *out;
    pl_roster_cursor next; /* the roster's first block that is not done */
    bool is_adding;        /* the roster's blocks come to those that live: see restore.h */
    pl_block *spares;      /* for cuts in blocks that are freed */
    uint32_t n_foreign;    /* pieces under the present block that pend elsewhere */
    size_t n_made;         /* blocks that are live again */
    unsigned n_promised;   /* blocks that are still to be entered into the map */
} pl_restore;

/* A piece that the survey took: others' pieces may be in flight in the pool, too, since memory of
 * it that was never used may be loose, and trims, takes and compactions go through all segments. */
static inline bool pl_piece_is_own(const pl_block *b)
{
    return b->state == PL_BLOCK_FLIGHT && b->kept_in == PL_BLOCK_CLAIM;
}

/* A piece in flight keeps the lane and the tick with which it was free, and refers to the lane. */
static inline void pl_piece_join_lane(const pl_space *space, pl_block *piece)
{
    piece->kept_in = PL_BLOCK_CLAIM;
    if (piece->lane != PL_LANE_SETTLED) {
        pl_space_lane_at(space, piece->lane)->n_refs++;
    }
}

static inline void pl_piece_leave_lane(const pl_space *space, pl_block *piece)
{
    piece->kept_in = NULL;
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

/* PLEAT_OK; EPENDING, EPOISONED or ENOMEM_HOST: then undo it. */
pleat_status pl_survey(pl_restore *r);
void pl_survey_undo(pl_restore *r);

#endif
