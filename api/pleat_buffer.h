/* pleat_buffer.h - buffers that grow and shrink in place: what lies in them stays where it is.
 *
 * Part of pleat.h, which includes it and says what every call may return.
 *
 *   base                          base + bytes                        base + most_bytes
 *   |## page ##|## page ##|.......|## page ##|. . . . . . . . . . . . . . . . . .|
 *    committed  committed  decommitted         addresses for what may come: no memory
 *
 *   pleat_buffer_create(..., most_bytes, ...)       addresses only
 *   pleat_buffer_resize(..., bytes, stream)         pages come or go at the end
 *   pleat_buffer_commit / _decommit(..., offset, bytes, stream)           in the middle
 *   pleat_buffer_destroy(..., stream)
 *
 * Nothing is ever copied, and no address changes. Memory comes from the chunks that the instance
 * has for blocks, and goes back to them: what a buffer gives up serves blocks and other buffers,
 * and the other way round. Limits, pressure callbacks and the text of a refusal are those of
 * blocks; statistics count each run of committed pages as a live block.
 *
 * Streams, as with blocks. A committed page may be used by work on the call's stream at once, on
 * other streams when they are ordered after it and pleat_buffer_record_stream has named them.
 * Pages that are decommitted, or given up by a resize or with the buffer, keep their memory until
 * the work submitted so far on the stream that committed them, on those recorded and on the call's
 * stream is over; no call waits for that. Work that is submitted later must not touch them. What a
 * page holds after it was decommitted and committed again is undefined.
 *
 * A buffer that is made in a scope of a tag (pleat_tag.h) carries it for its life, whatever scopes
 * later calls are in: its pages are counted and limited as blocks of the tag, and sleep and wake
 * with it. While the tag sleeps pages may go, and the buffer too; none come (PLEAT_EASLEEP).
 *
 * A buffer is not a block: its address cannot be freed, queried or recorded as one. */
#ifndef PLEAT_BUFFER_H
#define PLEAT_BUFFER_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Make a buffer: reserve addresses for the most that may come. It has no memory yet.
 *
 *  Units    bytes, in [1, 2^60].
 *  Params   most_bytes  rounded up to pages.
 *           page_bytes  the unit in which pages are decommitted in the middle, rounded up to
 *                       granules: such a page goes by itself, as all its memory is in chunks of one
 *                       granule. 0: the buffer changes at its end mostly; it has the fewest chunks
 *                       that serve, and a page that shares its chunk with others is free for what
 *                       fits there, but goes elsewhere only with them.
 *           out [out]   where the buffer begins: its name in the other calls.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_ESIZE; PLEAT_EDEVICE; PLEAT_ENOTSUP (allocator:pleat has
 *           buffers); PLEAT_EASLEEP (the scope's tag sleeps); PLEAT_ENOSPACE_VA;
 *           PLEAT_ENOMEM_HOST; PLEAT_EDRIVER.
 *  Failure  as before.
 *  Owner    the caller, until pleat_buffer_destroy. An instance with buffers is destroyed by force
 *           only.
 *  Threads  any.
 *  Blocks   on reserve, unless a buffer of that size in powers of two was destroyed before. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_buffer_create(pleat instance, int device,
                                                          uint64_t most_bytes, uint64_t page_bytes,
                                                          pleat_devptr *out);

/** Let the buffer end at `bytes`. Pages at its end come or go; those in the middle that were
 *  decommitted stay so.
 *
 *  Params   buffer  what pleat_buffer_create gave.
 *           stream  NULL = the legacy default stream.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (more than most_bytes); PLEAT_EFOREIGN; PLEAT_ENOMEM_DEVICE;
 *           PLEAT_EPENDING (as pleat_block_alloc; or work, or a graph, may still use the addresses
 *           from before they were decommitted); PLEAT_EDEVICE; PLEAT_ESTREAM; PLEAT_ECAPTURE (the
 *           stream is being captured); PLEAT_EASLEEP (pages would come, and the buffer's tag
 *           sleeps); PLEAT_ENOMEM_HOST; PLEAT_EPOISONED; PLEAT_EDRIVER.
 *  Failure  size, pages and contents are as before.
 *  Threads  any. Changes of one buffer wait for each other.
 *  Blocks   to grow, as pleat_block_alloc; to shrink, never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_buffer_resize(pleat instance, int device,
                                                          pleat_devptr buffer, uint64_t bytes,
                                                          void *stream);

/** Have memory for all pages that [offset, offset + bytes) touches. Those that have some keep it.
 *  If the buffer ended before, it ends at offset + bytes now.
 *
 *  Returns  as pleat_buffer_resize.
 *  Failure  size, pages and contents are as before.
 *  Threads  any. Changes of one buffer wait for each other.
 *  Blocks   as pleat_block_alloc. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_buffer_commit(pleat instance, int device,
                                                          pleat_devptr buffer, uint64_t offset,
                                                          uint64_t bytes, void *stream);

/** Give up the memory of all pages that lie in [offset, offset + bytes), what is beyond the
 *  buffer's end included. The buffer's size stays.
 *
 *  Returns  as pleat_buffer_resize, but no shortage of memory, nor PLEAT_EASLEEP.
 *  Failure  pages and contents are as before.
 *  Threads  any. Changes of one buffer wait for each other.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_buffer_decommit(pleat instance, int device,
                                                            pleat_devptr buffer, uint64_t offset,
                                                            uint64_t bytes, void *stream);

/** Note that `stream`, too, uses the pages that are committed now: once they are decommitted, their
 *  memory waits for it. On a stream that is being captured: for the graph's end.
 *
 *  Returns  PLEAT_OK; PLEAT_EFOREIGN; PLEAT_EDEVICE; PLEAT_ESTREAM; PLEAT_ENOMEM_HOST;
 *           PLEAT_EDRIVER.
 *  Failure  some of the pages may wait for the stream.
 *  Threads  any. Changes of one buffer wait for each other.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_buffer_record_stream(pleat instance, int device,
                                                                 pleat_devptr buffer, void *stream);

/** Decommit all pages and give up the addresses, which the next buffer may get.
 *
 *  Returns  as pleat_buffer_decommit.
 *  Failure  the buffer is as before.
 *  Threads  any; no other call may name the buffer from now on.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_buffer_destroy(pleat instance, int device,
                                                           pleat_devptr buffer, void *stream);

/** Tell of the buffer that has the address, with memory there or without. `out_bytes`: the size of
 *  the struct that `out` points to; pleat_buffer_query passes it on.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EFOREIGN; PLEAT_EDEVICE.
 *  Threads  any.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_buffer_query_sized(pleat instance, int device,
                                                               pleat_devptr ptr, size_t out_bytes,
                                                               pleat_buffer_info *out);

PLEAT_MUST_USE static inline pleat_status pleat_buffer_query(pleat instance, int device,
                                                             pleat_devptr ptr,
                                                             pleat_buffer_info *out)
{
    return pleat_buffer_query_sized(instance, device, ptr, sizeof *out, out);
}

#ifdef __cplusplus
}
#endif

#endif
