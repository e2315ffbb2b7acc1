/* look_ops.c - the allocator's answers about itself. Nothing changes, except for peaks. */
#include "segments/pleat/ops/check.h"
#include "segments/pleat/ops/ops.h"
#include "segments/pleat/pools/checkpoint.h"
#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/space.h"

/* NULL: outside all segments. Mostly `ptr` is a block's own address. If not, walk the blocks of the
 * granule. */
static const pl_block *covering(const pl_space *space, pleat_devptr ptr)
{
    const pl_block *b = pl_ptrmap_find(&space->blocks.live, ptr);
    const pl_segment *seg = b == NULL ? pl_space_segment_at(space, ptr) : NULL;

    return seg != NULL ? pl_segment_find(seg, ptr) : b;
}

/* A block that a restore is about to free may stay live after all, so wait for the restore. */
static const pl_block *block_at(pl_space *space, pleat_devptr ptr)
{
    const pl_block *b = covering(space, ptr);

    if (b == NULL || b->state != PL_BLOCK_LIVE || !pl_block_is_claimed(b)) {
        return b;
    }
    (void)pl_checkpoint_await(space, b->base);
    return covering(space, ptr);
}

pleat_status pl_pleat_query(pl_allocator *a, pleat_devptr ptr, pleat_block_info *out)
{
    pl_space *space = pl_space_enter((pl_space *)a);
    pleat_status st = PLEAT_EFOREIGN;

    const pl_block *b = block_at(space, ptr);
    if (b != NULL && b->state == PL_BLOCK_LIVE && !b->is_claimed &&
        pl_ptrmap_find(&space->blocks.live, b->base) == b) {
        pl_stream *owner = pl_space_lane_at(space, b->lane)->stream;
        *out = (pleat_block_info){
            .base = b->base,
            .bytes = b->bytes,
            .requested_bytes = b->requested,
            .stream_id = pl_stream_id(owner),
            .stream = pl_stream_handle(owner),
            .device = pl_device_ordinal(space->dev),
            .tag = pl_keeper_tag(b->segment->area),
            .is_asleep = pl_keeper_is_asleep(b->segment->area),
        };
        st = PLEAT_OK;
    }
    pl_space_leave(space);
    return st;
}

int pl_pleat_check(pl_allocator *a)
{
    pl_space *space = pl_space_enter((pl_space *)a);
    int broken = pl_check_space(space);
    pl_space_leave(space);
    return broken;
}

void pl_pleat_stats(pl_allocator *a, pleat_stats *out)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    pl_figures_read(space, out);
    pl_space_leave(space);
}

enum { VISIT_SOME = 1024 };

static bool visit(pl_space *space, size_t most, pleat_devptr *from,
                  void (*see)(void *context, const pl_piece *piece), void *context)
{
    pl_space_enter(space);
    bool is_more = pl_visit_space(space, most, from, see, context);
    pl_lock_touch(most < SIZE_MAX ? most : 0); /* a whole visit is one long hold by design */
    pl_space_leave(space);
    return is_more;
}

void pl_pleat_visit(pl_allocator *a, void (*see)(void *context, const pl_piece *piece),
                    void *context)
{
    pleat_devptr from = 0;

    (void)visit((pl_space *)a, SIZE_MAX, &from, see, context);
}

bool pl_pleat_visit_some(pl_allocator *a, pleat_devptr *from,
                         void (*see)(void *context, const pl_piece *piece), void *context)
{
    return visit((pl_space *)a, VISIT_SOME, from, see, context);
}

void pl_pleat_reset_peaks(pl_allocator *a)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    pl_usages_reset_peaks(&space->blocks.usages);
    space->chunks.peak_held = space->chunks.n_held;
    space->chunks.peak_shown = space->chunks.n_pinned - space->chunks.n_flying;
    pl_space_leave(space);
}
