/* pleat_watch.h - be told of every change of the memory, and look at all of it.
 *
 * Part of pleat.h: see there for results that any call may return.
 *
 * A watcher is for programs with a history of their own, with stacks that pleat cannot take. All
 * other programs use pleat_history_record. */
#ifndef PLEAT_WATCH_H
#define PLEAT_WATCH_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Kinds of changes, in the order of PyTorch's TraceEntry. */
typedef enum pleat_change_kind {
    PLEAT_CHANGE_ALLOC,          /* a block; bytes as requested */
    PLEAT_CHANGE_FREE_REQUESTED, /* the same bytes; the block is not the user's any more */
    PLEAT_CHANGE_FREE_COMPLETED, /* uses of the block on other streams are over, too */
    PLEAT_CHANGE_SEGMENT_ALLOC,  /* a whole segment of the driver's (classic caches) */
    PLEAT_CHANGE_SEGMENT_FREE,
    PLEAT_CHANGE_SEGMENT_MAP, /* addresses became resident, or a hole again */
    PLEAT_CHANGE_SEGMENT_UNMAP,
    PLEAT_CHANGE_SNAPSHOT, /* pleat_visit looks at the device at this moment; base 0 */
    PLEAT_CHANGE_OOM,      /* base: the device's free bytes; bytes: the request */
} pleat_change_kind;

typedef struct pleat_change {
    pleat_change_kind kind;
    int device;
    pleat_devptr base;
    uint64_t bytes;
    void *stream;       /* the owner's handle; NULL = the legacy stream, or none */
    pleat_pool_id pool; /* {0, 0} = no private pool */
} pleat_change;

/** Called under the allocator's lock, on the thread that makes the change, at the moment when the
 *  change takes effect. Must not call pleat or the driver, nor wait for a thread that may.
 *  `change` lives for the call. */
typedef void (*pleat_change_fn)(const pleat_change *change, void *context);

/** Set the watcher: from now on `see` is told of every change, on all devices. An instance has one
 *  watcher; NULL = none.
 *
 *  Params   context  handed to every call of `see`; stays the caller's.
 *  Returns  PLEAT_OK.
 *  Threads  any. On return the earlier watcher runs in no thread, and is not called any more.
 *  Blocks   until the earlier watcher has returned; never on the GPU. While there is a watcher
 *           every call takes the allocator's lock. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_watch(pleat instance, pleat_change_fn see,
                                                  void *context);

typedef enum pleat_piece_use {
    PLEAT_PIECE_LIVE,
    PLEAT_PIECE_AWAITED, /* freed, but further streams may still use it */
    PLEAT_PIECE_FREE,
} pleat_piece_use;

/** A block, or free memory between blocks. */
typedef struct pleat_piece {
    int device;
    pleat_devptr base;
    uint64_t bytes;
    uint64_t requested_bytes; /* 0 = free */
    void *stream;             /* its segment's; NULL = the legacy stream, or none */
    pleat_pool_id pool;       /* {0, 0} = no private pool */
    pleat_piece_use use;
    bool is_first;      /* first piece of a segment: of resident addresses side by side */
    bool is_small;      /* its segment is for small requests */
    bool is_expandable; /* its segment can grow */
} pleat_piece;

/** Look at all resident memory of a device, by address. A watcher is told SNAPSHOT at the moment of
 *  the state that `see` gets, perhaps several times: the last one counts.
 *
 *  Params   see  called for each piece, without any lock. Must not destroy the instance.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (`see` is NULL); PLEAT_EDEVICE; PLEAT_ENOMEM_HOST.
 *  Threads  any; the allocator's lock is held while its state is copied.
 *  Blocks   never on the GPU; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_visit(pleat instance, int device,
                                                  void (*see)(const pleat_piece *piece,
                                                              void *context),
                                                  void *context);

#ifdef __cplusplus
}
#endif

#endif
