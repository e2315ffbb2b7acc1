/* pleat_buffer.h - buffers that grow and shrink in place: their contents never move.
 *
 * Part of pleat.h: see there for results that any call may return.
 *
 *   base                          base + bytes                        base + most_bytes
 *   |## page ##|## page ##|.......|## page ##|. . . . . . . . . . . . . . . . . .|
 *    committed  committed  decommitted         addresses for later pages: no memory
 *
 *   pleat_buffer_create(..., most_bytes, ...)       addresses only
 *   pleat_buffer_resize(..., bytes, stream)         pages come or go at the end
 *   pleat_buffer_commit / _decommit(..., offset, bytes, stream)           in the middle
 *   pleat_buffer_destroy(..., stream)
 *
 * No call copies contents or moves addresses. Buffers and blocks share the instance's chunks:
 * memory that a buffer gives up serves blocks and other buffers, and the other way round. Limits,
 * pressure callbacks and the text of a refusal are as for blocks. Statistics count each run of
 * committed pages as a live block.
 *
 * Streams, as with blocks: work on the call's stream may use a committed page at once. Work on
 * another stream may use the page if the program orders the stream after the call, and names the
 * stream in pleat_buffer_record_stream. Decommitted pages keep their memory until work submitted so
 * far is over, on the committing stream, on recorded streams and on the call's stream. Pages given
 * up by a resize or a destroy do the same. No call waits for the work. Later work must not touch
 * the pages. After decommit and commit the contents of a page are undefined.
 *
 * A buffer made in a scope of a tag (pleat_tag.h) carries the tag for its life, whatever scopes
 * later calls are in. Its pages count as blocks of the tag, for statistics and limit, and sleep and
 * wake with the tag. While the tag sleeps, pages and the buffer may go, but no page comes
 * (PLEAT_EASLEEP).
 *
 * A buffer is not a block: calls for blocks refuse its address. */
#ifndef PLEAT_BUFFER_H
#define PLEAT_BUFFER_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Make a buffer: reserve addresses for its largest size. The new buffer has no memory.
 *
 *  Units    bytes, in [1, 2^60].
 *  Params   most_bytes  the largest size; rounded up to pages.
 *           page_bytes  the unit in which memory comes and goes, rounded up to granules. A page of
 *                       2^k granules is one chunk of memory, at most 256 MiB, unless the device is
 *                       too full for that; other pages get the fewest chunks. A page goes alone.
 *                       0: pages are granules, and what is committed at once, up to 256 MiB, is
 *                       taken for a page. A page that shares its chunk with others goes elsewhere
 *                       only with them; requests that fit may use its memory.
 *           out [out]   where the buffer begins: its name in the other calls.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_ESIZE; PLEAT_EDEVICE; PLEAT_ENOTSUP (only allocator:pleat
 *           has buffers); PLEAT_EASLEEP (the scope's tag sleeps); PLEAT_ENOSPACE_VA;
 *           PLEAT_ENOMEM_HOST; PLEAT_EDRIVER.
 *  Failure  as before.
 *  Owner    the caller, until pleat_buffer_destroy. An instance with committed pages is destroyed
 *           by force only.
 *  Threads  any.
 *  Blocks   on reserve, unless an earlier buffer of this size, in powers of two, was destroyed. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_buffer_create(pleat instance, int device,
                                                          uint64_t most_bytes, uint64_t page_bytes,
                                                          pleat_devptr *out);

/** Make a buffer that begins at a multiple of align_bytes, else as pleat_buffer_create. Reserves up
 *  to align_bytes more addresses.
 *
 *  Params   align_bytes  a power of two, at most 2^60; 0: any. Every buffer begins at a granule.
 *  Returns  as pleat_buffer_create; PLEAT_EINVAL also for other alignments.
 *  Failure  as before.
 *  Owner    as pleat_buffer_create.
 *  Threads  any.
 *  Blocks   as pleat_buffer_create. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_buffer_create_aligned(pleat instance, int device,
                                                                  uint64_t most_bytes,
                                                                  uint64_t page_bytes,
                                                                  uint64_t align_bytes,
                                                                  pleat_devptr *out);

/** Set the size of the buffer: it then ends at `bytes`. Pages come or go at the end; decommitted
 *  pages in the middle stay decommitted.
 *
 *  Params   buffer  the address from pleat_buffer_create.
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

/** Commit all pages that [offset, offset + bytes) touches; committed pages keep their memory. A
 *  buffer that ended before offset + bytes now ends there.
 *
 *  Returns  as pleat_buffer_resize.
 *  Failure  size, pages and contents are as before.
 *  Threads  any. Changes of one buffer wait for each other.
 *  Blocks   as pleat_block_alloc. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_buffer_commit(pleat instance, int device,
                                                          pleat_devptr buffer, uint64_t offset,
                                                          uint64_t bytes, void *stream);

/** Give up the memory of all pages inside [offset, offset + bytes). The range may reach beyond the
 *  buffer's end; the buffer's size stays.
 *
 *  Returns  as pleat_buffer_resize, but no shortage of memory, nor PLEAT_EASLEEP.
 *  Failure  pages and contents are as before.
 *  Threads  any. Changes of one buffer wait for each other.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_buffer_decommit(pleat instance, int device,
                                                            pleat_devptr buffer, uint64_t offset,
                                                            uint64_t bytes, void *stream);

/** Note that `stream`, too, uses the pages committed now: once decommitted, their memory waits for
 *  the stream's work. If the stream is being captured, the memory waits for the end of the graph.
 *
 *  Returns  PLEAT_OK; PLEAT_EFOREIGN; PLEAT_EDEVICE; PLEAT_ESTREAM; PLEAT_ENOMEM_HOST;
 *           PLEAT_EDRIVER.
 *  Failure  some of the pages may wait for the stream.
 *  Threads  any. Changes of one buffer wait for each other.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_buffer_record_stream(pleat instance, int device,
                                                                 pleat_devptr buffer, void *stream);

/** Decommit all pages and give up the addresses: the next buffer may get them.
 *
 *  Returns  as pleat_buffer_decommit.
 *  Failure  the buffer is as before.
 *  Threads  any; no other call may name the buffer from now on.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_buffer_destroy(pleat instance, int device,
                                                           pleat_devptr buffer, void *stream);

/** Describe the buffer that contains an address, committed or not. `out_bytes` is the size of the
 *  struct behind `out`: pleat_buffer_query passes this size on.
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
