/* buffer.h - buffers: addresses for the most that may come, of which pages get memory and lose it.
 *
 *   base                                    base + bytes                   base + most_bytes
 *   |#### live ####|... hole ...|-- free --|#### live ####|......... hole .........|
 *    committed      decommitted pages       committed      pages yet to come
 *
 * A buffer is a segment with an area of its own, of PL_CLASS_BUFFER: no request looks there, so its
 * addresses are its own. Its committed pages are live blocks of whole granules, which are in no map
 * of live blocks, as nobody frees them by their address. Decommitted pages are freed like blocks:
 * they pend, settle and become loose; then their chunks serve any request, of other buffers or of
 * none, and go back to the driver like others. Until that happens they are resident, and committed
 * again without a driver call.
 *
 * A closed buffer keeps its addresses for the next one of its size, once all uses of its pages are
 * over. So buffers that come and go use no more addresses than the most that there
 * were at once, those with pages in use included. Sizes in addresses are powers of two.
 *
 * A buffer with a tag is in the tag's room (room.h), and stays there when it is closed: its area is
 * one of the room's, so it is counted, limited, and sleeps with it. While the room sleeps pages may
 * go; none come, as no request is served.
 *
 * Changes of one buffer are made one after the other: `is_busy`. */
#ifndef PLEAT_SEGMENTS_BUFFER_H
#define PLEAT_SEGMENTS_BUFFER_H

#include "segments/pleat/space/buffer_area.h"
#include "segments/pleat/space/private.h"

static inline pl_segment *pl_buffer_segment(const pl_buffer *buffer)
{
    return buffer->area->segments;
}

/* The open buffer in whose addresses ptr lies, or NULL. */
pl_buffer *pl_buffer_at(const pl_space *space, pleat_devptr ptr);
/* What the buffer's room has, NULL where it is in none. */
static inline struct pl_room *pl_buffer_room(const pl_buffer *buffer)
{
    return buffer->area->pool != NULL ? buffer->area->pool->room : NULL;
}

/* A closed buffer of the room, or of none, with so many granules of addresses and no page in use,
 * made open; NULL: there is none. */
pl_buffer *pl_buffer_reopen(pl_space *space, const pl_private *room, size_t n_granules);
/* A new one, open, in the range and the room. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_buffer_create(pl_space *space, pl_private *room, pl_range range, pl_buffer **out);
/* It has no live block: keep it for the next one, once no page is in use. */
void pl_buffer_close(pl_space *space, pl_buffer *buffer);
void pl_buffer_rest(pl_space *space, pl_buffer *buffer); /* it is closed already, and in no list */
/* It is in no list: free it, its area and its segment, without their blocks. */
void pl_buffer_free_closed(pl_space *space, pl_buffer *buffer);
void pl_buffer_destroy_all(pl_space *space); /* with their areas, before other segments go */

/* b has become live: count and tell it. */
void pl_buffer_enter(pl_space *space, pl_buffer *buffer, pl_block *b, pl_lane *lane);
/* Join the live block at `at`, if one begins there, with its neighbours where they are alike. */
void pl_buffer_join(pl_space *space, pl_buffer *buffer, pleat_devptr at);
/* Let `at`, in a live block, be the start of one. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_buffer_cut(pl_space *space, pl_buffer *buffer, pleat_devptr at);
/* Free a live block, in a call that named the stream of `plain`. May drop the lock. */
void pl_buffer_free(pl_space *space, pl_buffer *buffer, pl_block *b, pl_lane *plain);
/* 0, or the number of the first broken invariant. */
int pl_buffer_check(const pl_space *space, const pl_buffer *buffer);

#endif
