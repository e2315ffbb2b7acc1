/* survey.c - see survey.h. Guarded by the device lock. */
#include "segments/pleat/pools/survey.h"

#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/capture.h"
#include "segments/pleat/streams/shared.h"

static bool is_same(const pl_block *b, const pl_roster_block *wanted)
{
    return b->base == wanted->base && b->bytes == wanted->bytes &&
           b->requested == wanted->requested && b->lane == wanted->lane;
}

static pleat_status tell_live(pl_restore *r, const pl_roster_block *wanted, bool is_made)
{
    pl_roster_block *told = pl_roster_add(&r->out->live, &r->space->meta);

    if (told == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    *told = *wanted;
    told->is_made = is_made;
    return PLEAT_OK;
}

/* Claim a live block missing in the roster. */
static pleat_status claim(pl_restore *r, pl_block *b)
{
    pl_roster_block *told = pl_roster_add(&r->out->freed, &r->space->meta);

    if (told == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    *told = (pl_roster_block){
        .base = b->base,
        .bytes = b->bytes,
        .requested = b->requested,
        .stream = pl_stream_handle(pl_space_lane_at(r->space, b->lane)->stream),
        .lane = b->lane,
    };
    b->is_claimed = true;
    return PLEAT_OK;
}

enum { MOST_INHERITED = 64 };

/* Streams besides the owner use b, or used b, so the roster's block on top has to wait, too. A
 * block can wait if the block gets all of b, and no wait is for a lasting capture or a tick of the
 * context. */
static bool may_inherit(const pl_space *space, const pl_block *b, pleat_devptr from,
                        pleat_devptr to)
{
    const pl_block_uses *uses = b->uses;
    bool may = from == b->base && to == pl_block_end(b) && uses->n <= MOST_INHERITED;

    for (uint32_t i = 0; may && i < uses->n; i++) {
        const pl_block_use *use = &uses->use[i];
        may = (use->capture == NULL || pl_capture_is_over(use->capture, true)) &&
              (use->lane != PL_LANE_CONTEXT || pl_shared_is_met(space, use));
    }
    return may;
}

/* The new owner uses the memory at once. So the memory must be settled, or pend on the same
 * stream. */
static pleat_status may_add(const pl_space *space, const pl_block *b, uint32_t owner)
{
    switch ((pl_block_state)b->state) {
    case PL_BLOCK_FREE:
        return b->lane == PL_LANE_SETTLED || b->lane == owner ||
                       (!pl_space_lane_at(space, b->lane)->is_capture &&
                        pl_lane_has_passed(space, pl_space_lane_at(space, b->lane), b->stamp))
                   ? PLEAT_OK
                   : PLEAT_EPENDING;
    case PL_BLOCK_LIVE:
        return PLEAT_EBUSY;
    case PL_BLOCK_SHARED:
    case PL_BLOCK_CAPTURED:
    case PL_BLOCK_FLIGHT:
        return PLEAT_EPENDING;
    default:
        return PLEAT_EFOREIGN;
    }
}

/* Free memory that the pool does not own may be loose: it is pinned from now on. */
static pleat_status take_free(pl_restore *r, pl_block **b, pleat_devptr from, pleat_devptr to)
{
    pleat_status st = pl_block_store_reserve(&r->space->blocks.store, 2);

    if (st == PLEAT_OK) {
        *b = pl_carve_out(r->space, *b, from, to);
        pl_space_pin(r->space, 0);
        pl_piece_join_lane(r->space, *b);
    }
    return st;
}

/* The roster's present block needs [from, to) of b. *b: the block of that range afterwards. */
static pleat_status take_piece(pl_restore *r, pl_block **b, pleat_devptr from, pleat_devptr to,
                               uint32_t owner)
{
    pleat_status st = PLEAT_OK;
    bool is_used = (*b)->state == PL_BLOCK_LIVE || (*b)->state == PL_BLOCK_SHARED;

    if (r->is_adding) {
        st = may_add(r->space, *b, owner);
        if (st != PLEAT_OK) {
            return st;
        }
    }
    if (is_used && (*b)->uses != NULL) {
        if (!may_inherit(r->space, *b, from, to)) {
            return PLEAT_EPENDING;
        }
        r->n_foreign += (*b)->uses->n;
    }
    switch ((pl_block_state)(*b)->state) {
    case PL_BLOCK_LIVE:
        st = pl_block_is_claimed(*b) ? PLEAT_OK : claim(r, *b);
        if (st == PLEAT_OK) { /* a block for each end of [from, to) inside *b */
            size_t n_cuts = (size_t)(from > (*b)->base) + (size_t)(to < pl_block_end(*b));
            st = pl_block_store_set_aside(&r->space->blocks.store, n_cuts, &r->spares);
        }
        break;
    case PL_BLOCK_FREE:
        st = take_free(r, b, from, to);
        break;
    case PL_BLOCK_SHARED: /* refers to its owner already */
        pl_shared_leave_line(r->space, *b);
        pl_segment_become((*b)->segment, &r->space->blocks.store, *b, PL_BLOCK_FLIGHT);
        (*b)->was = PL_BLOCK_SHARED;
        (*b)->is_claimed = true;
        break;
    case PL_BLOCK_CAPTURED:
    case PL_BLOCK_FLIGHT:
        return PLEAT_EPENDING;
    default: /* memory of a pool never goes: only a failed undo leads to this state */
        return PLEAT_EPOISONED;
    }
    r->n_foreign += st == PLEAT_OK && pl_piece_is_foreign((*b)->lane, owner);
    return st;
}

/* All memory of the block was found: reserve host memory to make the block. */
static pleat_status prepare(pl_restore *r, const pl_segment *seg, const pl_roster_block *wanted)
{
    pl_meta *meta = &r->space->meta;
    pl_block_uses *uses = NULL;
    pleat_status st = pl_area_reserve_index(meta, seg->area, pl_lane_plain(wanted->lane));

    st = st == PLEAT_OK ? pl_area_reserve_index(meta, seg->area, wanted->lane) : st;
    st = st == PLEAT_OK ? tell_live(r, wanted, true) : st;
    if (st == PLEAT_OK && r->n_foreign > 0) {
        uses = pl_meta_alloc(meta, sizeof *uses + r->n_foreign * sizeof(pl_block_use));
        if (uses == NULL) {
            return PLEAT_ENOMEM_HOST;
        }
        *uses = (pl_block_uses){ .room = r->n_foreign };
        r->out->live.last->block[r->out->live.last->n - 1].waits = uses;
    }
    r->n_foreign = 0;
    return st;
}

/* The roster's present block begins in b or reaches into b. All below walk->at is done. */
static pleat_status survey_piece(pl_restore *r, pl_walk *walk, pl_block *b,
                                 const pl_roster_block *wanted)
{
    pleat_devptr end = wanted->base + wanted->bytes;
    pleat_devptr from = walk->at > wanted->base ? walk->at : wanted->base;
    pleat_devptr to = end < pl_block_end(b) ? end : pl_block_end(b);

    r->out->odd = from;
    if (!r->is_adding && b->state == PL_BLOCK_LIVE && is_same(b, wanted)) {
        pleat_status st = tell_live(r, wanted, false);
        pl_roster_next(&r->next);
        pl_walk_on(walk, to, b->next);
        return st;
    }
    pleat_status st = take_piece(r, &b, from, to, wanted->lane);
    if (st == PLEAT_OK && to == end) {
        st = prepare(r, walk->seg, wanted);
        pl_roster_next(&r->next);
    }
    if (st == PLEAT_OK) {
        pl_walk_on(walk, to, pl_block_end(b) > to ? b : b->next);
    }
    return st;
}

pleat_status pl_survey(pl_restore *r)
{
    pleat_status st = PLEAT_OK;
    pl_walk walk;

    walk = pl_walk_of(r->space, r->pool, PL_WALK_BY_ADDRESS);
    walk.at = r->is_adding ? pl_roster_at(&r->next)->base : 0;
    for (pl_block *b; st == PLEAT_OK && (b = pl_walk_block(&walk)) != NULL;) {
        const pl_roster_block *wanted = pl_roster_at(&r->next);
        if (wanted == NULL && r->is_adding) {
            break;
        }
        if (wanted != NULL && wanted->base < pl_block_end(b)) {
            st = survey_piece(r, &walk, b, wanted);
            continue;
        }
        bool is_lacking = b->state == PL_BLOCK_LIVE && !pl_block_is_claimed(b);
        st = is_lacking ? claim(r, b) : PLEAT_OK;
        pl_walk_on(&walk, pl_block_end(b), b->next);
    }
    bool is_left = st == PLEAT_OK && pl_roster_at(&r->next) != NULL;
    return is_left ? PLEAT_EPOOL : st;
}

static void undo_piece(pl_space *space, pl_block *piece)
{
    if (piece->was == PL_BLOCK_SHARED) {
        piece->is_claimed = false;
        (void)pl_shared_go_on(space, piece);
    } else {
        pl_piece_put_back(space, piece);
    }
}

void pl_survey_undo(pl_restore *r)
{
    pl_walk walk;

    walk = pl_walk_of(r->space, r->pool, PL_WALK_BY_ADDRESS);
    for (pl_block *b; (b = pl_walk_block(&walk)) != NULL;) {
        pleat_devptr end = pl_block_end(b);
        pl_block *next = b->next;
        if (b->state == PL_BLOCK_LIVE && pl_block_is_claimed(b)) {
            b->is_claimed = false;
        } else if (pl_piece_is_own(b)) {
            undo_piece(r->space, b);
            next = NULL;
        }
        pl_walk_on(&walk, end, next);
    }
}
