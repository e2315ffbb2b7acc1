/* room_ops.c - rooms come, and tell of themselves. */

#include "segments/pleat/sleep/sleep.h"
#include "segments/pleat/space/ops.h"
#include "segments/pleat/space/room.h"

pleat_status pl_pleat_room_open(pl_allocator *a, const char *tag, pl_private **out)
{
    pl_space *space = (pl_space *)a;

    pl_lock_acquire(&space->lock);
    pl_room *room = pl_host_calloc(&space->host, 1, sizeof(*room));
    pl_private *pool = room != NULL ? pl_private_make(space) : NULL;
    if (pool != NULL) {
        room->tag = tag;
        pool->room = room;
        *out = pool;
    } else {
        pl_host_free(&space->host, room);
    }
    pl_lock_release(&space->lock);
    return pool != NULL ? PLEAT_OK : PLEAT_ENOMEM_HOST;
}

void pl_pleat_room_set_limit(pl_allocator *a, pl_private *room, uint64_t bytes)
{
    pl_space *space = (pl_space *)a;

    pl_lock_acquire(&space->lock);
    room->room->limit_bytes = bytes;
    pl_lock_release(&space->lock);
}

void pl_pleat_room_read(pl_allocator *a, pl_private *pool, pl_room_figures *out)
{
    pl_space *space = (pl_space *)a;
    const pl_room *room = pool->room;

    pl_lock_acquire(&space->lock);
    const pl_slumber *slumber = room->slumber;
    const pl_slumber *kept = slumber != NULL ? slumber : room->retained;
    uint64_t asleep = slumber != NULL ? (uint64_t)slumber->n_gone << space->granule_log2 : 0;
    *out = (pl_room_figures){
        .blocks = room->blocks,
        .allocated_bytes = room->allocated_bytes,
        .requested_bytes = room->requested_bytes,
        .resident_bytes = pool->reserved.current - asleep,
        .asleep_bytes = asleep,
        .kept_bytes = kept != NULL ? (uint64_t)kept->n_kept << space->granule_log2 : 0,
        .limit_bytes = room->limit_bytes,
        .n_sleeps = room->n_sleeps,
        .is_asleep = slumber != NULL,
    };
    pl_lock_release(&space->lock);
}
