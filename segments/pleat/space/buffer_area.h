/* buffer_area.h - an area's record of its buffer (buffer.h), and a note when the addresses of a
 * closed buffer have become one hole (buffer.h). Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_BUFFER_AREA_H
#define PLEAT_SEGMENTS_BUFFER_AREA_H

#include "segments/pleat/space/space.h"

/* I1  committed_bytes is the sum of its live blocks, which are whole granules; n_runs their number
 * I2  no two of these are neighbours, unless their owners differ, or both have uses
 * I3  bytes <= most_bytes <= the segment's bytes; no page at or above `bytes` is committed
 * I4  a closed one with no page in use is in `closed`, of its heap or the space; others that are
 *     closed will be (area->rests_in)                                                          */
typedef struct pl_buffer {
    pl_area *area; /* const */
    uint64_t most_bytes;
    uint64_t page_bytes; /* granules */
    uint64_t bytes;
    uint64_t committed_bytes;
    size_t n_runs;
    bool is_open;
    bool is_paged; /* page_bytes was given: pages go singly */
    bool is_busy;  /* a thread changes the buffer; further threads wait */
} pl_buffer;

static inline bool pl_hollow_is(const pl_area *area)
{
    const pl_block *first = area->segments->first;

    return area->buffer != NULL && !area->buffer->is_open && first->state == PL_BLOCK_HOLE &&
           first->next == NULL;
}

/* The area has a new hole, or its buffer was closed. */
static inline void pl_hollow_note(pl_space *space, pl_area *area)
{
    if (area->buffer != NULL && !area->is_noted && pl_hollow_is(area)) {
        area->is_noted = true;
        area->next_noted = space->places.noted;
        space->places.noted = area;
        space->places.n_noted++;
    }
}

#endif
