/* imports.h - opened memory of other processes, for one device of an instance.
 *
 * An import is a range with the chunks of one process mapped side by side. It is opened any number
 * of times, also by names with only some of its chunks. It goes once every open has its close, and
 * the fences of all closes have passed.
 *
 *   I1  n_opens is the sum of the imports' opens
 *   I2  an import without opens has a fence that has not passed when last looked at
 *
 * A thread claims the list before reading or changing it, and then calls the driver without any
 * lock. With a claim no thread asks another process, which may be stopped. So an import is mapped
 * before the claim, and unmapped again if another thread was faster. */
#ifndef PLEAT_API_SHARE_IMPORTS_H
#define PLEAT_API_SHARE_IMPORTS_H

#include <stdatomic.h>

#include "segments/base/allocator.h"
#include "vmm/base/lock.h"
#include "vmm/base/meta.h"
#include "vmm/share.h"
#include "vmm/streams/stream.h"

typedef struct pl_import pl_import;

typedef struct pl_imports {
    _Atomic uint64_t n_opens; /* atomic; written by the thread with the claim */
    pl_device *dev;           /* const while the device is open */
    pl_lock lock;             /* rank 10 */
    pl_cond unclaimed;        /* signals that nobody has claimed the list */
    pl_meta meta;             /* lock: opened by the first use */
    bool is_claimed;          /* lock */
    pl_import *first;         /* the thread with the claim */
} pl_imports;

void pl_imports_init(pl_imports *imports);
/* Waits for the closes' work, and if anything is still open for all work of the device; unmaps all.
 * After the last call on the device, before it is closed. What stays is the device's to count. */
void pl_imports_fini(pl_imports *imports);

/* Some host memory for a call; NULL: none left. Its end: pl_imports_drop, NULL is fine. */
void *pl_imports_alloc(pl_imports *imports, size_t bytes);
void pl_imports_drop(pl_imports *imports, void *p);

void pl_imports_claim(pl_imports *imports, pl_device *dev);
void pl_imports_unclaim(pl_imports *imports);

/* Map chunks for pl_imports_add. The caller must *not* have claimed the list, since the source may
 * be another process. PLEAT_OK; ENOMEM_HOST; all results of pl_share_map. */
pleat_status pl_imports_map(pl_imports *imports, pl_device *dev, const uint64_t process[2],
                            const pl_shared_chunk *chunks, size_t n, pl_fd_source source,
                            pl_import **out);

/* Call the functions below with the list claimed. */

/* Find and open an import with the process's chunks side by side; NULL: none. *base: the first
 * chunk's address. */
pl_import *pl_imports_reopen(pl_imports *imports, const uint64_t process[2],
                             const pl_shared_chunk *chunks, size_t n, pleat_devptr *base);
/* List opened memory at the address, as pl_allocator_ops.share lists live memory; chunks are named
 * as by their owner. EFOREIGN. */
pleat_status pl_imports_list(const pl_imports *imports, pleat_devptr ptr, uint64_t bytes,
                             pl_share_list *out);
/* Put a mapped import on the list and open it once. If the list has an equal import, reopen that
 * import and unmap `mapped`. Returns the first chunk's address. */
pleat_devptr pl_imports_add(pl_imports *imports, pl_import *mapped);
/* Close the import at the address once; the stream, held by the caller, was its last user.
 * PLEAT_OK: the stream is the import's to put. EFOREIGN; ENOMEM_HOST; ECAPTURE; ESTREAM; EDRIVER.
 * */
pleat_status pl_imports_close(pl_imports *imports, pleat_devptr at, pl_stream *stream);
/* Forget closes whose work is over; unmap imports without opens and closes. */
void pl_imports_collect(pl_imports *imports);

#endif
