/* pleat_share.h - memory that other processes of the same user open at addresses of their own.
 *
 * Part of pleat.h, which includes it and says what every call may return.
 *
 *   the process that has the block                 the process that wants it
 *   pleat_share_export(ptr) -> a name    ---->     pleat_share_open(name) -> an address
 *                                                  ... work on the same bytes ...
 *   pleat_block_free(ptr)                <----     pleat_share_close(address)
 *
 * What can be named: a live block or what follows an address in it (pleat_share_export); a part of
 * one, or committed pages of a buffer (pleat_share_export_range); all live blocks of a tag at once
 * (pleat_share_export_tag), a model's weights, say, which open as one piece.
 *
 * A name is a string of bytes that may travel in any way: a queue, a pipe, a file. It says where in
 * which chunks of memory the block lies, but gives no access. What gives access are file
 * descriptors, one for each chunk. With PLEAT_SHARE_SERVE a thread of the exporting process hands
 * them to processes that ask for them on a socket, if these run under the same effective user; no
 * rights to trace processes are needed, nor a common parent. Without it the program sends them
 * itself (SCM_RIGHTS): pleat_share_fds here, pleat_share_open_fds there. Both processes run on one
 * machine; a socket is found within one network namespace.
 *
 * What must hold, as torch.multiprocessing has it:
 *   - The block stays allocated until nobody opens it any more and everybody who did has closed it.
 *     If it is freed before, nothing crashes: who opened it keeps the physical memory, which may
 *     serve other blocks of its owner meanwhile, or be no one's; opening it then fails, or finds
 *     those other bytes.
 *   - Of a buffer (pleat_buffer.h): pages that are decommitted, or given up by a resize, are as a
 *     block that is freed. The call does not refuse, since nobody tells the exporter who has them
 *     open. A buffer that grows stays where it is, here and there; pages that came later are named
 *     by a further name, which opens at an address of its own.
 *   - A tag may sleep while it is shared (pleat_tag.h): chunks that were named stay where they are,
 *     with their contents, for both sides; the rest sleeps. pleat_slept.shared_bytes says how much
 *     stays. What sleeps is not named (PLEAT_EASLEEP).
 *   - The processes order their work. pleat orders nothing between them: the exporter's writes are
 *     over, or an event that the importer waits for stands behind them, before the name is sent.
 *   - Chunks are shared whole: who opens a block could reach what else lies in its chunks.
 *   - A process that ends takes nothing away: what others have opened stays theirs. Names of a
 *     process that has ended open nothing any more.
 *
 * Only memory of an instance that was made with `shareable:True` (or auto, on a device that can
 * share) is shared, and only with allocator:pleat. A chunk that was shared stays where it is until
 * its memory goes back to the driver: compaction leaves it alone. Memory that is open here is not
 * this instance's: it counts in no statistics, no limit, and is no block.
 *
 * After fork the child has none of this: its instances are its own, names of the parent's blocks
 * open in it as in any other process, and the thread that hands out descriptors stays the
 * parent's. */
#ifndef PLEAT_SHARE_H
#define PLEAT_SHARE_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PLEAT_SHARE_SERVE = 1 }; /* a thread of this process hands out the descriptors */

/** Name a live block, or what follows `ptr` in it, for other processes; or the committed pages of a
 *  buffer from `ptr` on, up to the first one that is not committed.
 *
 *  Units    bytes. 136 and 24 for each chunk under the block, which is one chunk for small blocks.
 *  Params   ptr     any address in the block: opening the name gives the address of that byte.
 *           flags   0, or PLEAT_SHARE_SERVE.
 *           name [out] the name if `capacity` suffices, else untouched; may be NULL if capacity is
 *                   0. The same address of the same block has the same name, byte for byte.
 *           needed [out] what the name takes; what is more than `capacity` was not written, and
 *                   then nothing is shared.
 *  Returns  PLEAT_OK (also when the name did not fit); PLEAT_EINVAL (ptr is 0, unknown flags);
 *           PLEAT_EFOREIGN; PLEAT_EDEVICE; PLEAT_ENOTSUP (the instance's memory is not shareable:
 *           the text says which option would make it so; or the allocator cannot share);
 *           PLEAT_EASLEEP (its tag sleeps); PLEAT_ESHARE (the thread or its socket cannot be made);
 *           PLEAT_ENOMEM_HOST.
 *  Failure  nothing has changed, but that the thread may run, and that chunks may count as shared.
 *  Owner    the memory stays the caller's; a name holds nothing.
 *  Threads  any. The first call with PLEAT_SHARE_SERVE starts the thread, which blocks all signals
 *           and ends with the process.
 *  Blocks   never on the GPU; makes no driver call. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_export(pleat instance, int device,
                                                         pleat_devptr ptr, unsigned flags,
                                                         void *name, size_t capacity,
                                                         size_t *needed);

/** Name `bytes` from `ptr` on: of one live block, or of committed pages of one buffer.
 *
 *  Units    bytes, as pleat_share_export.
 *  Params   as pleat_share_export; bytes is not 0.
 *  Returns  as pleat_share_export; PLEAT_EFOREIGN also where not all of it lives, or is committed.
 *  Failure  as pleat_share_export.
 *  Owner    the memory stays the caller's; a name holds nothing.
 *  Threads  any.
 *  Blocks   never on the GPU; makes no driver call. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_export_range(pleat instance, int device,
                                                               pleat_devptr ptr, uint64_t bytes,
                                                               unsigned flags, void *name,
                                                               size_t capacity, size_t *needed);

/** Name all live blocks of a tag, sequences of committed pages of its buffers among them. The name
 *  opens as one piece: the chunks of the tag, each once, side by side. pleat_share_block says where
 *  each block is in it.
 *
 *  Units    bytes. 112, 24 for each chunk and 24 for each block.
 *  Params   tag     as pleat_tag_push had it. A block that comes or goes during the call may be in
 *                   the name or not; so `needed` may grow from one call to the next.
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

/** Make file descriptors for the chunks of a name that this instance has exported, for programs
 *  that send them themselves.
 *
 *  Shape    fds has room for `capacity`; pleat_share_n_fds says how many are needed.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (no name, or too little room); PLEAT_ESHARE (the name is of
 *           another process or instance, or its memory went back to the driver since: the text says
 *           which); PLEAT_EDRIVER (also where the process has no descriptors left).
 *  Failure  no descriptor is left open.
 *  Owner    the caller closes them; until then, and while anybody has received one, the physical
 *           memory stays, whoever frees it.
 *  Threads  any.
 *  Blocks   on one driver call for each chunk. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_fds(pleat instance, const void *name,
                                                      size_t name_bytes, int *fds, size_t capacity);

/** Open what a name names, by asking the process that made it.
 *
 *  What lies in the same chunks is mapped once, however often it is opened and by however many
 *  names, if the chunks follow each other in the same order.
 *
 *  Params   device  where the memory lies here: pleat_share_device. Other devices that reach it may
 *                   use it if the instance has `peers:True`.
 *           out [out] the address at which the exporter's `ptr` lies in this process; from there on
 *                   pleat_share_bytes may be used. Not a block: it is not freed, but closed.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (no name); PLEAT_EDEVICE (the memory lies on another device);
 *           PLEAT_ESHARE (the process that made the name has ended, is another user's, does not
 *           answer, does not serve, or has given the memory back: the text says which, names the
 *           process, and says what to do); PLEAT_ENOTSUP (one of the two processes is on the
 *           simulator); PLEAT_ENOSPACE_VA; PLEAT_ENOMEM_HOST; PLEAT_ENOMEM_DEVICE; PLEAT_EDRIVER;
 *           what opening the device returns.
 *  Failure  no descriptor, handle, mapping or range is left behind.
 *  Owner    the caller, until pleat_share_close or pleat_destroy (without PLEAT_DESTROY_FORCE it
 *           answers PLEAT_EBUSY while something is open).
 *  Threads  any. May be called by the process that made the name, too.
 *  Blocks   on the other process, at most 10 s for each of its answers, one for every 64 chunks,
 *           and on import, map and set-access; not on the GPU. While it waits for the other process
 *           no other call waits for it. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_open(pleat instance, int device, const void *name,
                                                       size_t name_bytes, pleat_devptr *out);

/** Open what a name names with descriptors that the program has received: as pleat_share_open,
 *  without asking anybody.
 *
 *  Shape    fds has n elements, in the order of pleat_share_fds.
 *  Returns  as pleat_share_open; PLEAT_EINVAL (not as many as the name needs); PLEAT_EDRIVER (one
 *           of them is no memory, or other memory than the name says).
 *  Failure  as pleat_share_open.
 *  Owner    the descriptors stay the caller's, who may close them after the call. The memory: as
 *           pleat_share_open.
 *  Threads  any.
 *  Blocks   on import, map and set-access. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_open_fds(pleat instance, int device,
                                                           const void *name, size_t name_bytes,
                                                           const int *fds, size_t n,
                                                           pleat_devptr *out);

/** Close what was opened; as often as it was opened. What is mapped goes with its last close, once
 *  the work that was submitted to the closes' streams so far is over: at once if it is, else in a
 *  later call of this header, a pleat_device_trim or pleat_destroy of this instance.
 *
 *  Params   ptr     an address that pleat_share_open gave.
 *           stream  where the memory was used; NULL = the legacy default stream. If it was used on
 *                   several, this one comes after the others' uses (by events, say).
 *  Returns  PLEAT_OK; PLEAT_EFOREIGN (nothing is open there); PLEAT_EDEVICE; PLEAT_ESTREAM;
 *           PLEAT_ECAPTURE (the stream is being captured: a graph that uses the memory needs it as
 *           long as it is launched); PLEAT_ENOMEM_HOST; PLEAT_EDRIVER.
 *  Failure  still open.
 *  Threads  any.
 *  Blocks   never on the GPU; on unmap and release where the work is over. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_close(pleat instance, int device,
                                                        pleat_devptr ptr, void *stream);

/** Tell which device of this instance's driver has the memory of a name.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL (no name); PLEAT_EDEVICE (none of the devices that this process
 *           sees: the text says which one it is); PLEAT_ENOTSUP (one of the two processes is on the
 *           simulator); PLEAT_EDRIVER.
 *  Threads  any.
 *  Blocks   on a few driver calls; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_device(pleat instance, const void *name,
                                                         size_t name_bytes, int *device);

/** Tell how many bytes a name opens, from the address that pleat_share_open gives on; of a tag, all
 *  of its chunks.
 *
 *  Returns  bytes; 0 if it is no name.
 *  Threads  any. */
PLEAT_API uint64_t pleat_share_bytes(const void *name, size_t name_bytes);

/** Tell how many blocks a name has: as many as its tag had; else one.
 *
 *  Returns  a count; 0 if it is no name.
 *  Threads  any. */
PLEAT_API size_t pleat_share_n_blocks(const void *name, size_t name_bytes);

/** Tell where a block of a name is.
 *
 *  Params   index   from 0 on, below pleat_share_n_blocks.
 *           there  [out] its address in the process that named it, which tells the blocks apart.
 *           bytes  [out] its size.
 *           offset [out] where it is here: so many bytes behind what pleat_share_open gave.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (no name, no such block).
 *  Failure  nothing was written.
 *  Threads  any. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_share_block(const void *name, size_t name_bytes,
                                                        size_t index, pleat_devptr *there,
                                                        uint64_t *bytes, uint64_t *offset);

/** Tell how many descriptors a name needs.
 *
 *  Returns  a count; 0 if it is no name.
 *  Threads  any. */
PLEAT_API size_t pleat_share_n_fds(const void *name, size_t name_bytes);

#ifdef __cplusplus
}
#endif

#endif
