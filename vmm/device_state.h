/* device_state.h - the inside of a pl_device, for the files of vmm only.
 *
 * The lock (rank 40) guards metadata and is never held across a driver call. Counters are atomic
 * and may lag behind each other. */
#ifndef PLEAT_VMM_DEVICE_STATE_H
#define PLEAT_VMM_DEVICE_STATE_H

#include <stdatomic.h>

#include "vmm/device.h"
#include "vmm/driver.h"
#include "vmm/stream.h"
#include "vmm/thread_life.h"

enum { PL_STREAM_BLOCKS = 24, PL_STREAM_FIRST_BLOCK = 16, PL_FENCES_PER_SLAB = 32 };

/* ---- streams (stream.c) ---------------------------------------------------------------------- */

typedef enum pl_stream_kind {
    PL_STREAM_ORDINARY,
    PL_STREAM_LEGACY,
    PL_STREAM_PER_THREAD
} pl_stream_kind;

/* By what a stream is found. By its handle the ordinary one that was seen last under it. */
enum { PL_STREAM_BY_ID, PL_STREAM_BY_HANDLE, PL_STREAM_N_KEYS };

/* The id of a stream that has only been seen while it was captured: drivers refuse to tell then. */
#define PL_STREAM_UNNAMED UINT64_MAX

/* An object is used again for another stream once its own was released; its memory stays one of
 * streams, so that who looks at a stale one finds another stream, not garbage. "Const" is meant
 * for one stream's time. */
struct pl_stream {
    pl_device *dev;              /* const */
    _Atomic(cu_context) context; /* atomic: the device's or a peer's; const once it is named */
    _Atomic(cu_stream) handle;   /* const, read by probes of other streams: what calls take */
    void *given;                 /* const: what the user gave */
    _Atomic uint64_t id;         /* atomic: named at most once, under the lock, then const */
    _Atomic bool is_gone;       /* atomic: the handle was seen or said not to be its own any more */
    pl_thread_life *thread;     /* const: of a per-thread stream: its thread's */
    unsigned index;             /* const */
    pl_stream_kind kind;        /* const */
    _Atomic unsigned n_holders; /* atomic: of an ordinary one: see pl_stream_put */
    _Atomic bool is_leaving;    /* atomic, written under the lock: nobody may begin to hold it */
    bool is_listed_by[PL_STREAM_N_KEYS]; /* lock */
    bool is_free;                        /* lock: of no stream now */
    struct pl_stream *next_free;         /* lock */
};

/* Open addressing, at most half full; readers take no lock. A stream that leaves its slot leaves a
 * grave there; too many of them and the table is filled anew, in place: who reads meanwhile may
 * miss a stream and looks again under the lock. A grown copy replaces a table, the older ones live
 * until the device is closed. */
typedef struct pl_stream_table {
    struct pl_stream_table *older; /* const */
    size_t mask;                   /* const */
    size_t n_used;                 /* lock: slots with a stream or a grave */
    size_t n_listed;               /* lock */
    _Atomic(pl_stream *) slots[];  /* atomic; written under the lock */
} pl_stream_table;

typedef struct pl_streams {
    _Atomic(pl_stream_table *) tables[PL_STREAM_N_KEYS]; /* atomic; written under the lock */
    _Atomic(pl_stream *) legacy;                         /* atomic; written under the lock */
    _Atomic unsigned n_streams; /* atomic; publishes `blocks`: the most there were at once */
    unsigned n_unnamed;         /* lock */
    pl_stream *free;            /* lock */
    pl_stream *blocks[PL_STREAM_BLOCKS]; /* lock: block b holds 16 << b streams */
    uint64_t legacy_id;                  /* const */
} pl_streams;

/* ---- fences (fence.c) ------------------------------------------------------------------------ */

struct pl_fence {
    pl_device *dev;       /* const */
    pl_stream *stream;    /* owner: where it was recorded; NULL = all streams */
    cu_event event;       /* owner: NULL until first recorded */
    cu_context context;   /* owner: the event's */
    pl_fence *also;       /* owner: of all streams: the same of the next peer's */
    uint64_t epoch;       /* owner: of a whole-device fence: the last synchronisation begun */
    bool is_whole_device; /* owner: the stream could not be reached; passes by a synchronisation */
    _Atomic bool has_passed; /* atomic: a passed fence stays passed */
    _Atomic bool is_spoiled; /* atomic: its event failed and is not used again */
    uint32_t n_shares;       /* lock: callers beyond the first, see pl_fence_share */
    struct pl_fence *next;   /* lock: in the free list */
};

typedef struct pl_fence_slab {
    struct pl_fence_slab *next; /* lock */
    pl_fence fences[PL_FENCES_PER_SLAB];
} pl_fence_slab;

typedef struct pl_fences {
    pl_fence *free;                  /* lock */
    pl_fence_slab *slabs;            /* lock */
    size_t n_out;                    /* lock: with callers */
    _Atomic uint64_t n_syncs_begun;  /* atomic: of the whole device */
    _Atomic uint64_t last_sync_done; /* atomic: number of the latest that is over */
} pl_fences;

/* ---- sizes of pl_device_malloc's pieces (malloc.c) ------------------------------------------- */

typedef struct pl_malloc_piece {
    pleat_devptr ptr; /* 0 = empty slot */
    size_t bytes;
} pl_malloc_piece;

typedef struct pl_malloc_table {
    pl_malloc_piece *pieces; /* lock: open addressing by ptr, at most half full */
    size_t n_slots;          /* lock: a power of two, or 0 */
    size_t n_pieces;         /* lock: held, or about to be */
} pl_malloc_table;

/* ---- the device ------------------------------------------------------------------------------ */

typedef struct pl_device_atomics {
    _Atomic uint64_t ops_map, ops_unmap, ops_alloc, ops_free;
    _Atomic uint64_t bytes_created, bytes_mapped;
    _Atomic uint64_t chunk_bytes, malloc_bytes, pool_bytes, address_bytes;
    _Atomic uint64_t host_syncs, stream_waits, n_undo_failures;
    _Atomic uint64_t n_chunks, n_ranges, n_pools, n_mapped_bytes; /* held now */
    _Atomic uint64_t n_lost_events;                               /* could not be destroyed */
} pl_device_atomics;

/* Devices that may use a mapping; a driver knows at most 64 of them. */
enum { PL_MOST_ACCESS = 64 };

/* ---- contexts (context.c) -------------------------------------------------------------------- */

/* The primary contexts whose streams are known here: the device's own comes first, then those of
 * peers, each since the first sight of one of its streams. Retained until the device is closed. */
typedef struct pl_contexts {
    cu_context list[PL_MOST_ACCESS]; /* lock; const once n tells of it */
    cu_device gpus[PL_MOST_ACCESS];  /* likewise */
    _Atomic unsigned n;              /* atomic; publishes `list` */
} pl_contexts;

struct pl_device {
    pl_driver *drv;                        /* const */
    cu_device gpu;                         /* const */
    cu_context context;                    /* const: contexts.list[0] */
    int ordinal;                           /* const */
    bool has_vmm;                          /* const */
    bool has_stream_ids;                   /* const */
    bool trusts_handles;                   /* const: a known handle is its stream, unasked */
    char name[128];                        /* const */
    size_t granule_bytes;                  /* const */
    size_t chunk_bytes;                    /* const */
    uint64_t total_bytes;                  /* const */
    uint64_t address_budget_bytes;         /* const */
    uint64_t serial;                       /* const: no two devices of a process share one */
    cu_mem_prop prop;                      /* const: of all chunks */
    cu_access_desc access[PL_MOST_ACCESS]; /* const: of mappings; the device's own comes first */
    unsigned n_access;                     /* const */
    pl_lock lock;                          /* rank 40 */
    pl_host host;                          /* lock */
    pl_contexts contexts;
    pl_streams streams;
    pl_fences fences;
    pl_malloc_table mallocs;
    pl_device_atomics n;
};

static inline void pl_count_add(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

static inline void pl_count_sub(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_fetch_sub_explicit(counter, by, memory_order_relaxed);
}

static inline uint64_t pl_count_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* The primary context current and the thread in relaxed capture mode: what calls need that are
 * "unsafe" while any thread captures in global mode (event queries, creation, cuMemAlloc...). */
typedef struct pl_scope {
    int mode; /* of the thread before */
} pl_scope;

pleat_status pl_scope_begin(pl_device *dev, pl_scope *scope); /* after a failure all is as before */
/* The same with a peer's context. */
pleat_status pl_scope_begin_in(pl_device *dev, cu_context context, pl_scope *scope);
void pl_scope_end(pl_device *dev, const pl_scope *scope);
void pl_scope_restore_mode(pl_device *dev, int mode); /* what the thread had before relaxed mode */

/* pl_driver_status of calls that ask for no device memory: never "out of" anything. */
static inline pleat_status pl_driver_failure(cu_result result)
{
    pleat_status st = pl_driver_status(result);
    return st == PLEAT_ENOMEM_DEVICE || st == PLEAT_ENOVMM ? PLEAT_EDRIVER : st;
}

/* context.c */
pleat_status pl_contexts_init(pl_device *dev); /* retains the device's own */
/* Those that could not be released. */
size_t pl_contexts_fini(pl_device *dev);
static inline unsigned pl_context_count(const pl_device *dev)
{
    return atomic_load_explicit(&dev->contexts.n, memory_order_acquire);
}
/* Inside a scope: is it the device's own, or that of a peer to which mappings are open? Then it is
 * one of the device's contexts from now on. PLEAT_OK; ESTREAM; EDRIVER. */
pleat_status pl_context_admit(pl_device *dev, cu_context context);
/* The same of all peers whose context is there: a stream may be any of theirs. */
pleat_status pl_context_admit_active(pl_device *dev);
/* Around what would break captures in context i. PLEAT_OK; ECAPTURE: somebody told of one in a
 * peer's, and there is nothing to end. Of the device's own the caller knows them. */
pleat_status pl_context_begin_record(const pl_device *dev, unsigned i);
void pl_context_end_record(const pl_device *dev, unsigned i);

/* stream_table.c. NULL where there is none of that id; no lock needed. */
pl_stream *pl_stream_find(const pl_device *dev, uint64_t id);
/* The ordinary stream of that handle that was seen last, unless it is known to be gone; no lock
 * needed. */
pl_stream *pl_stream_newest(const pl_device *dev, cu_stream handle);
static inline uint64_t pl_stream_key(const pl_stream *stream, int by)
{
    return by == PL_STREAM_BY_ID
               ? atomic_load_explicit(&stream->id, memory_order_relaxed)
               : (uintptr_t)atomic_load_explicit(&stream->handle, memory_order_relaxed);
}

/* Hold the ordinary stream that was found by `key`, without a lock. False: it is being given up, or
 * is another stream's by now. The key is read last: an object that is another's had left before. */
static inline bool pl_stream_hold(pl_stream *stream, int by, uint64_t key)
{
    atomic_fetch_add(&stream->n_holders, 1);
    if (!atomic_load(&stream->is_leaving) && pl_stream_key(stream, by) == key) {
        return true;
    }
    atomic_fetch_sub(&stream->n_holders, 1);
    return false;
}

/* Adds a stream like `like`, unless it is there: another thread was faster, or it was there without
 * a name and has got one now. Who had the handle before is gone. The caller holds it. PLEAT_OK;
 * ENOMEM_HOST. */
pleat_status pl_stream_add(pl_device *dev, const pl_stream *like, pl_stream **out);
/* It is gone: nobody finds it any more. */
void pl_stream_forget(pl_stream *stream);
void pl_streams_fini(pl_device *dev);

/* stream.c. Inside a scope: may the stream be worked on, seen from this thread and without harm to
 * a capture? PLEAT_OK; ECAPTURE; ESTREAM (its handle is not its own any more); EDRIVER. */
pleat_status pl_stream_ready(pl_stream *stream);
/* Of one that was only seen captured: the device's own, until it is named. */
static inline cu_context pl_stream_context(const pl_stream *stream)
{
    return atomic_load_explicit(&stream->context, memory_order_relaxed);
}
pleat_status pl_streams_init(pl_device *dev); /* asks whether the driver has ids */

/* fence.c. Destroys all events; returns the fences still out. */
size_t pl_fences_fini(pl_device *dev);

#endif
