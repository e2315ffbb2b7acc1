/* room.c - see room.h. Guarded by the device lock. */
#include "segments/pleat/space/room.h"

pleat_status pl_room_promise(pl_room *room, uint64_t bytes)
{
    uint64_t have = room->allocated_bytes.current + room->promised_bytes;

    if (room->limit_bytes != 0 && (have >= room->limit_bytes || bytes > room->limit_bytes - have)) {
        return PLEAT_ENOMEM_DEVICE;
    }
    room->promised_bytes += bytes;
    return PLEAT_OK;
}

void pl_room_count_begin(pl_room *room, const pl_block *b)
{
    room->n_births++;
    pl_stat_add(&room->blocks, 1);
    pl_stat_add(&room->allocated_bytes, b->bytes);
    pl_stat_add(&room->requested_bytes, b->requested);
}

void pl_room_count_end(pl_room *room, const pl_block *b)
{
    pl_stat_sub(&room->blocks, 1);
    pl_stat_sub(&room->allocated_bytes, b->bytes);
    pl_stat_sub(&room->requested_bytes, b->requested);
}
