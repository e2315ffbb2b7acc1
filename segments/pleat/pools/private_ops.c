/* private_ops.c - operations on private pools (private.h). Guarded by the device lock. */
#include "segments/pleat/pools/pool_ops.h"
#include "segments/pleat/space/private.h"
#include "segments/pleat/streams/capture_see.h"
#include "segments/pleat/streams/context.h"
#include "segments/pleat/streams/drain.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/tick.h"

const pl_keeper_kind pl_private_kind = { .serves_captures = true };

/* ---- open and rest --------------------------------------------------------------------------- */

pleat_status pl_pleat_private_open(pl_allocator *a, pl_keeper **out)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    pl_private *pool = pl_keeper_make(space, &pl_private_kind, sizeof(*pool));
    if (pool != NULL) {
        pool->base.is_told = true;
        *out = &pool->base;
    }
    pl_space_leave(space);
    return pool != NULL ? PLEAT_OK : PLEAT_ENOMEM_HOST;
}

/* Uses that could not be timed during the capture are timed once a call names their streams. */
void pl_pleat_private_rest(pl_allocator *a, pl_keeper *pool)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    pl_capture_end_of_pool(space, pl_private_of(pool));
    (void)pl_tick_poll(space, PL_TICK_QUERIES);
    (void)pl_settle_some(space);
    pl_space_leave(space);
}

uint64_t pl_pleat_private_gone(pl_allocator *a, pl_keeper *keeper)
{
    pl_space *space = pl_space_enter((pl_space *)a);
    const pl_private *pool = pl_private_of(keeper);

    (void)pl_capture_look(space);
    uint64_t n = pool->n_graphs == 0 && !pool->is_unwatched ? pool->n_captures : 0;
    pl_space_leave(space);
    return n;
}

void pl_pleat_private_reserved(pl_allocator *a, pl_keeper *pool, pleat_stat out[PLEAT_N_SIZES])
{
    pl_space *space = pl_space_enter((pl_space *)a);

    out[PLEAT_SIZES_ALL] = pool->reserved;
    out[PLEAT_SIZES_LARGE] = pool->reserved;
    out[PLEAT_SIZES_SMALL] = (pleat_stat){ 0 };
    pl_space_leave(space);
}

/* ---- release --------------------------------------------------------------------------------- */

/* Only a pool with graphs that the driver does not watch asks for a tick of the context. */
static void start_draining(pl_space *space, pl_private *pool)
{
    pl_drain_begin(space, pool);
    if (pool->is_unwatched) {
        pl_context_tick_want(space, pool->base.reserved.current);
    }
}

void pl_pleat_private_release(pl_allocator *a, pl_keeper *keeper)
{
    pl_space *space = pl_space_enter((pl_space *)a);
    pl_private *pool = pl_private_of(keeper);

    LIST_REMOVE(keeper, link);
    pl_capture_end_of_pool(space, pool);
    if (keeper->areas == NULL && LIST_EMPTY(&pool->graphs)) {
        pl_meta_free(&space->meta, pool);
    } else {
        start_draining(space, pool);
        (void)pl_tick_poll(space, PL_TICK_QUERIES);
        (void)pl_capture_look(space);
        (void)pl_settle_some(space); /* settled memory serves a later pool */
        while (pl_drain_some(space)) {
            pl_space_breathe(space);
        }
        pl_settle_want_worthy_ticks(space, NULL, PL_LANE_LOOKS); /* captures use no other */
    }
    pl_space_leave(space);
}
