/* room_ops.h - rooms come, and tell of themselves: functions of pl_allocator_ops. */
#ifndef PLEAT_SEGMENTS_ROOM_OPS_H
#define PLEAT_SEGMENTS_ROOM_OPS_H

#include "segments/pleat/space/room.h"

pleat_status pl_pleat_room_open(pl_allocator *a, const char *tag, pl_private **out);
void pl_pleat_room_set_limit(pl_allocator *a, pl_private *room, uint64_t bytes);
void pl_pleat_room_read(pl_allocator *a, pl_private *room, pl_room_figures *out);

#endif
