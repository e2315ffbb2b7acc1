/* buffer.h - buffers: addresses for the most pages that may come; pages get memory and lose memory.
 *
 *   base                                    base + bytes                   base + most_bytes
 *   |#### live ####|... hole ...|-- free --|#### live ####|......... hole .........|
 *    committed      decommitted pages       committed      pages yet to come
 *
 * A buffer is a segment with an area of its own, of PL_CLASS_BUFFER. No request looks in such an
 * area, so no request gets the buffer's addresses. Committed pages are live blocks of whole
 * granules. These blocks are in no map of live blocks, as nobody frees them by address. Decommitted
 * pages are freed like blocks: the pages pend, settle and become loose. Then their chunks serve any
 * request, or go back to the driver. Until then the pages are resident, and can be committed again
 * without a driver call.
 *
 * A closed buffer keeps its addresses for the next buffer of its size, once all uses of its pages
 * are over. So buffers use no more addresses than the most buffers at once, counting buffers with
 * pages in use. Sizes in addresses are powers of two.
 *
 * A buffer with a tag is in the tag's heap (heap.h), also when closed. The buffer's area is one of
 * the heap's areas, so the heap counts, limits and puts to sleep the buffer's memory. While the
 * heap sleeps pages may go. No pages come, as the heap serves no request.
 *
 * Changes of a buffer come one after the other: `is_busy`. */
#ifndef PLEAT_SEGMENTS_BUFFER_H
#define PLEAT_SEGMENTS_BUFFER_H

#include "segments/pleat/space/buffer_area.h"
#include "segments/pleat/space/keeper.h"

static inline pl_segment *pl_buffer_segment(const pl_buffer *buffer)
{
    return buffer->area->segments;
}

/* The open buffer at the address ptr, or NULL. */
pl_buffer *pl_buffer_at(const pl_space *space, pleat_devptr ptr);

/* The addresses of a buffer. */
typedef struct pl_buffer_room {
    size_t n_want;  /* granules, a power of two */
    size_t n_least; /* where addresses are scarce */
    size_t n_align; /* the base is a multiple of so many, a power of two */
} pl_buffer_room;

/* Open a closed buffer with such addresses and no page in use. heap: the buffer's heap, NULL = in
 * no heap. Returns NULL if there is none among those closed last. */
pl_buffer *pl_buffer_reopen(pl_space *space, pl_keeper *heap, const pl_buffer_room *room);
/* Create an open buffer in the heap. Drops the lock. PLEAT_OK; ENOSPACE_VA; ENOMEM_HOST;
 * EDRIVER. */
pleat_status pl_buffer_create(pl_space *space, pl_keeper *heap, const pl_buffer_room *room,
                              pl_buffer **out);
/* The buffer has no live block: keep the buffer for reuse, once no page is in use. */
void pl_buffer_close(pl_space *space, pl_buffer *buffer);
void pl_buffer_rest(pl_space *space, pl_buffer *buffer); /* closed already, in no list */
/* Free a buffer that is in no list, with its area and segment, but without their blocks. */
void pl_buffer_free_closed(pl_space *space, pl_buffer *buffer);
void pl_buffer_destroy_all(pl_space *space); /* with areas; before segments go */

/* b has become live: count b and report b to the observer. */
void pl_buffer_enter(pl_space *space, pl_buffer *buffer, pl_block *b, pl_lane *lane);
/* If a live block begins at `at`, join the block with each neighbour that is alike. */
void pl_buffer_join(pl_space *space, pl_buffer *buffer, pleat_devptr at);
/* Cut the live block around `at`, so that a block starts at `at`. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_buffer_cut(pl_space *space, pl_buffer *buffer, pleat_devptr at);
/* Free a live block, in a call that named the stream of `plain`. May drop the lock. */
void pl_buffer_free(pl_space *space, pl_buffer *buffer, pl_block *b, pl_lane *plain);
/* 0, or the number of the first broken invariant. */
int pl_buffer_check(const pl_space *space, const pl_buffer *buffer);

/* ---- hollow buffers ----
 *
 * Closed buffers without memory: their addresses and metadata go.
 *
 *   open      |## live ##|... hole ...|## live ##|......... hole .........|
 *   closed    |-- free --|... hole ...|~ stale ~ |......... hole .........|   for the next buffer
 *   hollow    |............................ hole .........................|   for it, or to go
 *
 * A closed buffer is noted when its addresses become one hole: then only lists refer to the buffer.
 * For buffers that come and go, hollow ones stay: PL_HOLLOW_KEPT more than buffers are open. A
 * trim, or a lack of addresses, lets all go. No buffer goes while a thread walks over segments and
 * may drop the lock: in a flight, a compaction, a sleep or a wake, or in a walk counted by
 * space.places.n_walking. No buffer goes while its heap retains beds.
 *
 * Guarded by the device lock. */

enum { PL_HOLLOW_SOME = 32, PL_HOLLOW_KEPT = 64 };

/* Let at most `most` noted buffers go, until `keep` are left. Drops the lock for the driver. */
void pl_hollow_let_go(pl_space *space, size_t keep, size_t most);

#endif
