/* checkpoint.c - see checkpoint.h. Guarded by the device lock. */
#include "segments/pleat/pools/checkpoint.h"

#include "segments/pleat/pools/pool_ops.h"
#include "segments/pleat/space/live.h"

pl_block *pl_checkpoint_await(pl_space *space, pleat_devptr ptr)
{
    pl_block *b = pl_ptrmap_find(&space->blocks.live, ptr);

    while (b != NULL && pl_block_is_claimed(b)) {
        pl_space_wait_for_flights(space);
        b = pl_ptrmap_find(&space->blocks.live, ptr);
    }
    return b;
}

/* ---- saving ---------------------------------------------------------------------------------- */

static bool save_block(pl_space *space, pl_roster *roster, const pl_block *b)
{
    pl_roster_block *saved = pl_roster_add(roster, &space->meta);
    pl_lane *lane = pl_space_lane_at(space, b->lane);

    if (saved == NULL) {
        return false;
    }
    *saved = (pl_roster_block){
        .base = b->base,
        .bytes = b->bytes,
        .requested = b->requested,
        .stream = pl_stream_handle(lane->stream),
        .stamp = lane->is_capture ? b->stamp : 0,
        .lane = b->lane,
    };
    lane->n_refs++;
    return true;
}

void pl_roster_forget(pl_space *space, pl_roster *roster)
{
    while (roster->first != NULL) {
        const pl_roster_page *page = roster->first;
        for (size_t i = 0; i < page->n && roster->is_holding; i++) {
            pl_space_lane_at(space, page->block[i].lane)->n_refs--;
        }
        for (size_t i = 0; i < page->n; i++) {
            pl_meta_free(&space->meta, page->block[i].waits);
        }
        pl_lock_touch(page->n);
        (void)pl_roster_drop_page(roster, &space->meta);
        pl_space_breathe(space);
    }
}

pleat_status pl_pleat_private_save(pl_allocator *a, pl_keeper *pool, pl_roster *out)
{
    pl_space *space = (pl_space *)a;
    pl_roster roster = { .pool = pool->number, .is_holding = true };
    pleat_status st = PLEAT_OK;
    pl_walk walk;

    pl_space_enter(space);
    pl_keeper_keep(pool);
    walk = pl_walk_of(space, pool, PL_WALK_BY_ADDRESS);
    for (pl_block *b; st == PLEAT_OK && (b = pl_walk_block(&walk)) != NULL;) {
        bool is_saved = b->state != PL_BLOCK_LIVE || b->base < walk.at ||
                        save_block(space, &roster, b);
        st = is_saved ? PLEAT_OK : PLEAT_ENOMEM_HOST;
        pl_walk_on(&walk, pl_block_end(b), b->next);
    }
    if (st != PLEAT_OK) {
        pl_roster_forget(space, &roster);
    }
    pl_space_leave(space);
    *out = st == PLEAT_OK ? roster : *out;
    return st;
}

void pl_pleat_roster_drop(pl_allocator *a, pl_roster *roster)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    pl_roster_forget(space, roster);
    pl_space_leave(space);
}
