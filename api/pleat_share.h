/* pleat_share.h - memory shared with other processes of the same user.
 *
 * Part of pleat.h: see there for results that any call may return.
 *
 *   the process that has the block                 the process that wants it
 *   pleat_share_export(ptr) -> a name    ---->     pleat_share_open(name) -> an address
 *                                                  ... work on the same bytes ...
 *   pleat_block_free(ptr)                <----     pleat_share_close(address)
 *
 * Three calls make names:
 *   - pleat_share_export names a live block, or the part of a block behind an address.
 *   - pleat_share_export_range names any part of a block, or committed pages of a buffer.
 *   - pleat_share_export_tag names all live blocks of a tag, such as the weights of a model. All
 *     blocks then open as one piece.
 *
 * A name is a string of bytes that may travel in any way: a queue, a pipe, a file. The name says
 * which chunks hold the block, and where, but gives no access. File descriptors give access, one
 * for each chunk. With PLEAT_SHARE_SERVE a thread of the exporting process hands out descriptors on
 * a socket, to processes under the same effective user. Importers need neither the right to trace
 * processes nor a common parent. Without the flag the program sends descriptors itself
 * (SCM_RIGHTS): pleat_share_fds here, pleat_share_open_fds there. Both processes run on one machine
 * and, to find the socket, in one network namespace.
 *
 * Rules, the same as for torch.multiprocessing:
 *   - The block stays allocated until every process that opened the block has closed it, and no
 *     process will open it again. An early free crashes nothing. An importer keeps the physical
 *     memory, which may then serve other blocks of its owner, or nobody. Opening the name later
 *     fails, or finds the bytes of those other blocks.
 *   - Pages of a buffer (pleat_buffer.h) that are decommitted or given up by a resize count as
 *     freed blocks. The call does not refuse, since the exporter does not know who has the pages
 *     open. A buffer that grows stays where it is, here and there. A further name has the later
 *     pages, and opens at an address of its own.
 *   - A tag may sleep while it is shared (pleat_tag.h). Chunks that a name covers stay in place
 *     with their contents, for both sides; the rest sleeps. pleat_slept.shared_bytes counts bytes
 *     that stay. Memory that sleeps gets no name (PLEAT_EASLEEP).
 *   - The processes order their work; pleat orders nothing between processes. Before the exporter
 *     sends a name, its writes are over, or are covered by an event that the importer waits for.
 *   - Chunks are shared whole: an importer could reach other blocks in the same chunks.
 *   - When a process ends, memory that other processes have open stays theirs. Names of a process
 *     that has ended open nothing any more.
 *
 * Sharing needs allocator:pleat and an instance with `shareable:True` (or auto, on a device that
 * can share). A shared chunk stays in place until its memory goes back to the driver: compaction
 * does not move the chunk. Opened memory belongs to the exporting instance: here it counts in no
 * statistics and no limit, and is no block.
 *
 * A child after fork inherits no sharing. Its instances are new, names of the parent's blocks open
 * as in any other process, and only the parent has the thread that hands out descriptors. */
#ifndef PLEAT_SHARE_H
#define PLEAT_SHARE_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PLEAT_SHARE_SERVE = 1 }; /* a thread of this process hands out the descriptors */

/** Name a live block, or the part of the block from `ptr` on, for other processes. In a buffer,
 *  name the committed pages from `ptr` on, up to the first page that is not committed.
 *
 *  Units    bytes. 136 and 24 for each chunk under the block, which is one chunk for small blocks.
 *  Params   ptr     any address in the block: opening the name gives the address of that byte.
 *           flags   0, or PLEAT_SHARE_SERVE.
 *           name [out] the name if `capacity` suffices, else untouched; may be NULL if capacity is
 *                   0. The same address of the same block has the same name, byte for byte.
 *           needed [out] bytes of the name. If `capacity` is less, no name is written and nothing
 *                   is shared.
 *  Returns  PLEAT_OK (also when the name did not fit); PLEAT_EINVAL (ptr is 0, unknown flags);
 *           PLEAT_EFOREIGN; PLEAT_EDEVICE; PLEAT_ENOTSUP (the instance's memory is not shareable:
 *           the text says which option would make it so; or the allocator cannot share);
 *           PLEAT_EASLEEP (its tag sleeps); PLEAT_ESHARE (the thread or its socket cannot be made);
 *           PLEAT_ENOMEM_HOST.
 *  Failure  as before, but the thread may run, and chunks may count as shared.
 *  Owner    the memory stays the caller's; a name holds nothing.
 *  Threads  any. The first call with PLEAT_SHARE_SERVE starts the thread, which blocks all signals
 *           and ends with the process.
 *  Blocks   never on the GPU; makes no driver call. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_export(pleat instance, int device,
                                                         pleat_devptr ptr, unsigned flags,
                                                         void *name, size_t capacity,
                                                         size_t *needed);

/** Name `bytes` from `ptr` on: part of one live block, or committed pages of one buffer.
 *
 *  Units    bytes, as pleat_share_export.
 *  Params   as pleat_share_export; bytes is not 0.
 *  Returns  as pleat_share_export; PLEAT_EFOREIGN also where some of the range is not live, or not
 *           committed.
 *  Failure  as pleat_share_export.
 *  Owner    the memory stays the caller's; a name holds nothing.
 *  Threads  any.
 *  Blocks   never on the GPU; makes no driver call. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_export_range(pleat instance, int device,
                                                               pleat_devptr ptr, uint64_t bytes,
                                                               unsigned flags, void *name,
                                                               size_t capacity, size_t *needed);

/** Name all live blocks of a tag, and all sequences of committed pages of its buffers. The name
 *  opens as one piece: the chunks of the tag, each once, side by side. pleat_share_block tells the
 *  place of each block.
 *
 *  Units    bytes. 112, 24 for each chunk and 24 for each block.
 *  Params   tag     as in pleat_tag_push. A block that comes or goes during the call may be in the
 *                   name or not; so `needed` may grow from one call to the next.
 *           others  as pleat_share_export.
 *  Returns  as pleat_share_export; PLEAT_EINVAL (no scope of that tag was ever begun);
 *           PLEAT_EFOREIGN (it has no live block on the device); PLEAT_EASLEEP (it sleeps, or is
 *           awake in parts).
 *  Failure  as pleat_share_export.
 *  Owner    the blocks stay the caller's; a name holds nothing.
 *  Threads  any.
 *  Blocks   never on the GPU; makes no driver call. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_export_tag(pleat instance, int device,
                                                             const char *tag, unsigned flags,
                                                             void *name, size_t capacity,
                                                             size_t *needed);

/** Make file descriptors for the chunks of a name that this instance has exported. For programs
 *  that send descriptors themselves.
 *
 *  Shape    fds has room for `capacity`; pleat_share_n_fds says how many are needed.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (no name, or too little room); PLEAT_ESHARE (the name is of
 *           another process or instance, or its memory went back to the driver since: the text says
 *           which); PLEAT_EDRIVER (also where the process has no descriptors left).
 *  Failure  no descriptor is left open.
 *  Owner    the caller closes the descriptors. The physical memory stays, whoever frees its block,
 *           until the caller and all receivers have closed theirs.
 *  Threads  any.
 *  Blocks   on one driver call for each chunk. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_fds(pleat instance, const void *name,
                                                      size_t name_bytes, int *fds, size_t capacity);

/** Open the memory of a name, by asking the process that made the name.
 *
 *  The same chunks in the same order are mapped once, however often they are opened, and by however
 *  many names.
 *
 *  Params   device  where the memory lies here: pleat_share_device. Other devices that reach it may
 *                   use it if the instance has `peers:True`.
 *           out [out] where the exporter's `ptr` lies in this process; pleat_share_bytes may be
 *                   used from there on. Not a block: pleat_share_close gives the memory up.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (no name); PLEAT_EDEVICE (the memory lies on another device);
 *           PLEAT_ESHARE (the process that made the name has ended, is another user's, does not
 *           answer, does not serve, or has given the memory back: the text says which, names the
 *           process, and says what to do); PLEAT_ENOTSUP (one of the two processes is on the
 *           simulator); PLEAT_ENOSPACE_VA; PLEAT_ENOMEM_HOST; PLEAT_ENOMEM_DEVICE; PLEAT_EDRIVER;
 *           all results of opening the device.
 *  Failure  no descriptor, handle, mapping or range is left behind.
 *  Owner    the caller, until pleat_share_close or pleat_destroy (without PLEAT_DESTROY_FORCE it
 *           returns PLEAT_EBUSY while a name is open).
 *  Threads  any. May be called by the process that made the name, too.
 *  Blocks   on the other process, at most 10 s for each of its answers, one for every 64 chunks,
 *           and on import, map and set-access; not on the GPU. While this call waits for the other
 *           process, no other call waits for this one. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_open(pleat instance, int device, const void *name,
                                                       size_t name_bytes, pleat_devptr *out);

/** Open the memory of a name with descriptors that the program has received. Like pleat_share_open,
 *  but asks no process.
 *
 *  Shape    fds has n elements, in the order of pleat_share_fds.
 *  Returns  as pleat_share_open; PLEAT_EINVAL (the name needs another number of descriptors);
 *           PLEAT_EDRIVER (a descriptor is not of memory, or not of the name's memory).
 *  Failure  as pleat_share_open.
 *  Owner    the descriptors stay the caller's, who may close them after the call. The memory: as
 *           pleat_share_open.
 *  Threads  any.
 *  Blocks   on import, map and set-access. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_open_fds(pleat instance, int device,
                                                           const void *name, size_t name_bytes,
                                                           const int *fds, size_t n,
                                                           pleat_devptr *out);

/** Close opened memory: one call for each open. The last close unmaps the memory once all work
 *  submitted so far to the streams of the closes is over. If work is not over, a later call of this
 *  header, a pleat_device_trim or pleat_destroy of this instance unmaps the memory.
 *
 *  Params   ptr     an address from pleat_share_open.
 *           stream  where the memory was used; NULL = the legacy default stream. After uses on
 *                   several streams, name a stream that is ordered after all of them (by events,
 *                   say).
 *  Returns  PLEAT_OK; PLEAT_EFOREIGN (nothing is open there); PLEAT_EDEVICE; PLEAT_ESTREAM;
 *           PLEAT_ECAPTURE (the stream is being captured: a graph that uses the memory needs it as
 *           long as it is launched); PLEAT_ENOMEM_HOST; PLEAT_EDRIVER.
 *  Failure  still open.
 *  Threads  any.
 *  Blocks   never on the GPU; on unmap and release where the work is over. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_close(pleat instance, int device,
                                                        pleat_devptr ptr, void *stream);

/** Find the device of this instance's driver that has the memory of a name.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL (no name); PLEAT_EDEVICE (none of the devices that this process
 *           sees: the text names the device); PLEAT_ENOTSUP (one of the two processes is on the
 *           simulator); PLEAT_EDRIVER.
 *  Threads  any.
 *  Blocks   on a few driver calls; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_device(pleat instance, const void *name,
                                                         size_t name_bytes, int *device);

/** Count the bytes that a name opens, from the address of pleat_share_open on; for a tag, the bytes
 *  of all its chunks.
 *
 *  Returns  bytes; 0 if it is no name.
 *  Threads  any. */
PLEAT_API uint64_t pleat_share_bytes(const void *name, size_t name_bytes);

/** Count the blocks of a name: all blocks of a tag, else one.
 *
 *  Returns  a count; 0 if it is no name.
 *  Threads  any. */
PLEAT_API size_t pleat_share_n_blocks(const void *name, size_t name_bytes);

/** Tell the place of a block of a name.
 *
 *  Params   index   from 0 on, below pleat_share_n_blocks.
 *           there  [out] its address in the exporting process: a different one for each block.
 *           bytes  [out] its size.
 *           offset [out] its place here: bytes behind the address of pleat_share_open.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (no name, no such block).
 *  Failure  nothing was written.
 *  Threads  any. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_block(const void *name, size_t name_bytes,
                                                        size_t index, pleat_devptr *there,
                                                        uint64_t *bytes, uint64_t *offset);

/** Count the descriptors that a name needs.
 *
 *  Returns  a count; 0 if it is no name.
 *  Threads  any. */
PLEAT_API size_t pleat_share_n_fds(const void *name, size_t name_bytes);

#ifdef __cplusplus
}
#endif

#endif
