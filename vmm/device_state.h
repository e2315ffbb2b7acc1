/* device_state.h - the inside of a pl_device, for the files of vmm only.
 *
 * The lock (rank 40) guards metadata and is never held across a driver call. Counters are atomic
 * and may lag behind one another. */
#ifndef PLEAT_VMM_DEVICE_STATE_H
#define PLEAT_VMM_DEVICE_STATE_H

#include <stdatomic.h>

#include "vmm/device.h"
#include "vmm/driver.h"
#include "vmm/mapping_watch.h"
#include "vmm/streams/stream.h"
#include "vmm/streams/thread_life.h"

enum { PL_STREAM_BLOCKS = 24, PL_STREAM_FIRST_BLOCK = 16, PL_FENCES_PER_SLAB = 32 };

/* ---- streams (stream_get.c, stream.c) -------------------------------------------------------- */

typedef enum pl_stream_kind {
    PL_STREAM_ORDINARY,
    PL_STREAM_LEGACY,
    PL_STREAM_PER_THREAD,
    PL_STREAM_GREEN_DEFAULT /* a default stream of a green context: see green.c */
} pl_stream_kind;

/* The keys of the stream tables. A handle finds the ordinary stream last seen under it. */
enum { PL_STREAM_BY_ID, PL_STREAM_BY_HANDLE, PL_STREAM_N_KEYS };

/* The id of a stream that has only been seen while captured: drivers do not tell the id then. */
#define PL_STREAM_UNNAMED UINT64_MAX

/* The object of a released stream serves a later stream. The memory always holds a stream, so a
 * reader with a stale pointer finds a wrong stream, not garbage. "const" means for one stream's
 * lifetime. */
struct pl_stream {
    pl_device *dev;              /* const */
    _Atomic(cu_context) context; /* atomic: the device's or a peer's; const once an id is set */
    _Atomic(cu_stream) handle;   /* const; read by driver calls and by probes for other streams */
    void *given;                 /* const: the handle as the user passed it */
    _Atomic uint64_t id;         /* atomic: set at most once, under the lock */
    _Atomic bool is_gone;        /* atomic: the handle is known to be dead or reused */
    _Atomic bool is_doubted;     /* atomic: see pl_stream_doubt */
    _Atomic unsigned n_captured; /* atomic: times seen captured, see pl_stream_rests */
    _Atomic unsigned n_rested;   /* atomic: n_captured before the last sight at rest */
    _Atomic uint64_t thread_number; /* atomic: the thread that asked for its id last */
    _Atomic bool is_blurred;        /* atomic: guessed without an id, see pl_stream_guess */
    pl_thread_life *thread;         /* const: the owning thread of a per-thread stream */
    unsigned index;                 /* const */
    _Atomic pl_stream_kind kind;    /* atomic: const, but the legacy stream's: see green.c */
    _Atomic unsigned n_holders;     /* atomic; ordinary streams only: see pl_stream_put */
    _Atomic bool is_leaving;        /* atomic, written under the lock: no new holder may come */
    bool is_listed_by[PL_STREAM_N_KEYS]; /* lock */
    bool is_free;                        /* lock: the object has no stream now */
    struct pl_stream *next_free;         /* lock */
};

/* Open addressing, at most half full; readers take no lock. A stream that leaves its slot leaves a
 * grave. With too many graves the table is refilled in place: a reader may then miss a stream and
 * looks again under the lock. A table that grows is replaced by a copy. The older tables live until
 * the device is closed. */
typedef struct pl_stream_table {
    struct pl_stream_table *older; /* const */
    size_t mask;                   /* const */
    size_t n_used;                 /* lock: slots with a stream or a grave */
    size_t n_listed;               /* lock */
    _Atomic(pl_stream *) slots[];  /* atomic; written under the lock */
} pl_stream_table;

typedef struct pl_streams {
    _Atomic(pl_stream_table *) tables[PL_STREAM_N_KEYS]; /* atomic; written under the lock */
    _Atomic(pl_stream *) legacy; /* atomic: the meaning of handle 0 without asking; or NULL */
    pl_stream *kept_legacy;      /* lock: the legacy stream, NULL = never seen */
    _Atomic bool asks_zero;      /* atomic: calls that name handle 0 ask for its meaning */
    _Atomic unsigned n_streams;  /* atomic; publishes `blocks`: objects ever made */
    unsigned n_unnamed;          /* lock */
    pl_stream *free;             /* lock */
    pl_stream *blocks[PL_STREAM_BLOCKS]; /* lock: block b holds 16 << b streams */
    uint64_t legacy_id;                  /* const */
} pl_streams;

/* ---- fences (fence.c, fence_pool.c, fence_wait.c) -------------------------------------------- */

struct pl_fence {
    pl_device *dev;          /* const */
    pl_stream *stream;       /* owner: the recorded stream; NULL = all streams */
    cu_event event;          /* owner: NULL until first recorded */
    cu_context context;      /* owner: the event's context */
    pl_fence *also;          /* owner: a fence of all streams: the next peer's fence */
    uint64_t epoch;          /* owner: whole-device fence: last synchronisation before it */
    bool is_whole_device;    /* owner: the stream was out of reach; a synchronisation passes it */
    _Atomic bool has_passed; /* atomic: a passed fence stays passed */
    _Atomic bool is_spoiled; /* atomic: its event failed */
    bool is_worn;            /* owner: the event failed in an earlier use, and is not used again */
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
    size_t n_out;                    /* lock: fences held by callers */
    _Atomic uint64_t n_syncs_begun;  /* atomic: synchronisations of the whole device */
    _Atomic uint64_t last_sync_done; /* atomic: number of the latest finished synchronisation */
} pl_fences;

/* ---- sizes of pl_device_malloc's pieces (malloc.c) ------------------------------------------- */

typedef struct pl_malloc_piece {
    pleat_devptr ptr; /* 0 = empty slot */
    size_t bytes;
} pl_malloc_piece;

typedef struct pl_malloc_table {
    pl_malloc_piece *pieces; /* lock: open addressing by ptr, at most half full */
    size_t n_slots;          /* lock: a power of two, or 0 */
    size_t n_pieces;         /* lock: held, or promised */
} pl_malloc_table;

/* ---- shared chunks (share.c) ----------------------------------------------------------------- */

typedef struct pl_share_slot {
    uint64_t chunk;  /* 0 = empty */
    uint64_t number; /* 0 in empty slots, and where an old slot's chunk was forgotten */
} pl_share_slot;

/* Open addressing by chunk, at most half full. */
typedef struct pl_share_slots {
    pl_share_slot *at;
    size_t n; /* a power of two, or 0 */
} pl_share_slots;

typedef struct pl_share_table {
    pl_share_slots now; /* lock */
    pl_share_slots old; /* lock: during growth; slots not yet in `now` */
    size_t n_moved;     /* lock: old slots already moved to `now` */
    _Atomic uint64_t n; /* atomic, written under the lock: chunks in the table */
} pl_share_table;

/* ---- the device ------------------------------------------------------------------------------ */

typedef struct pl_device_atomics {
#define PL_DEVICE_COUNT(name) _Atomic uint64_t name;
    PL_DEVICE_COUNT_LIST(PL_DEVICE_COUNT)
#undef PL_DEVICE_COUNT
    _Atomic uint64_t chunk_bytes, malloc_bytes, pool_bytes;
    _Atomic uint64_t n_chunks, n_ranges, n_pools; /* held now */
    _Atomic uint64_t n_lost;                      /* see pl_device_lose */
} pl_device_atomics;

/* Devices that may use a mapping. A driver knows at most 64 devices. */
enum { PL_MOST_ACCESS = 64 };

/* ---- contexts (context.c) -------------------------------------------------------------------- */

/* The primary contexts whose streams are known. The device's own comes first, then peers in the
 * order of their first seen stream. All are retained until the device is closed. */
typedef struct pl_contexts {
    cu_context list[PL_MOST_ACCESS]; /* lock; entries below n are const */
    cu_device gpus[PL_MOST_ACCESS];  /* likewise */
    _Atomic unsigned n;              /* atomic; publishes `list` */
} pl_contexts;

struct pl_device {
    pl_driver *drv;                /* const */
    cu_device gpu;                 /* const */
    cu_context context;            /* const: contexts.list[0] */
    int ordinal;                   /* const */
    int driver_version;            /* const: of CUDA, 13020 = 13.2; 0: the driver does not tell */
    bool has_vmm;                  /* const */
    bool has_stream_ids;           /* const */
    bool trusts_handles;           /* const: known handles are not asked about */
    char name[128];                /* const */
    size_t granule_bytes;          /* const */
    size_t chunk_bytes;            /* const */
    uint64_t total_bytes;          /* const */
    uint64_t address_budget_bytes; /* const */
    uint64_t serial;               /* const: unique among the process's devices */
    cu_mem_prop prop;              /* const, once proven: of every chunk */
    _Atomic bool is_unproven;      /* atomic: no room yet to try virtual memory management */
    bool is_proving;               /* lock: a thread tries now */
    pl_cond proved;                /* lock: the thread has tried */
    bool is_host;                  /* const: the memory is the host's */
    bool is_host_unsafe;           /* const: asking for the host's memory may crash, device.c */
    bool may_lack_fd;              /* const: file descriptors are optional, see pl_device_probe */
    bool may_lack_rdma;            /* const: likewise, for GPUDirect RDMA */
    unsigned chunk_granules;       /* const */
    pl_mapping_watch *watch;       /* const; NULL = nobody */
    struct pl_stream *idle;        /* lock: see idle.h; NULL = none yet */
    cu_stream idle_handle;         /* lock */
    struct pl_keep *left_keeps;    /* lock: see keep.c */
    struct pl_left *left;          /* lock: see left.c */
    _Atomic uint64_t n_left;       /* atomic, written under the lock: entries of `left` */
    /* const: of every mapping; first the own device, then its peers, then the memory's place */
    cu_access_desc access[PL_MOST_ACCESS + 1];
    unsigned n_access; /* const: devices among these */
    pl_lock lock;      /* rank 40 */
    pl_meta meta;      /* lock */
    pl_contexts contexts;
    pl_streams streams;
    pl_fences fences;
    pl_malloc_table mallocs;
    pl_share_table shares;
    pl_device_atomics n;
};

/* The host is given access to its own memory, too. */
static inline size_t pl_device_n_grants(const pl_device *dev)
{
    return (size_t)dev->n_access + dev->is_host;
}

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

/* The primary context is current and the thread is in relaxed capture mode. Calls that are "unsafe"
 * while any thread captures in global mode (event queries, creation, cuMemAlloc...) need the
 * context and the mode. */
typedef struct pl_scope {
    int mode; /* the thread's previous mode */
} pl_scope;

pleat_status pl_scope_begin(pl_device *dev, pl_scope *scope); /* after a failure all is as before */
/* Like pl_scope_begin, with a peer's context. */
pleat_status pl_scope_begin_in(pl_device *dev, cu_context context, pl_scope *scope);
void pl_scope_end(pl_device *dev, const pl_scope *scope);
void pl_scope_restore_mode(pl_device *dev, int mode); /* back to the mode before the scope */

/* Go into relaxed capture mode: a driver may take calls of virtual memory management for unsafe
 * while a thread captures in global mode. Returns the mode for pl_scope_restore_mode. If the driver
 * refuses, later calls go on in the old mode. */
int pl_scope_relax(pl_device *dev);

/* A driver object is lost, since destroying it failed twice and nobody will try again. The object
 * counts as an undo failure, which pl_device_close reports. */
static inline void pl_device_lose(pl_device *dev)
{
    pl_count_add(&dev->n.n_undo_failures, 1);
    pl_count_add(&dev->n.n_lost, 1);
}

/* Inside a scope. False when a stream of pleat's own could not be destroyed in two tries. */
static inline bool pl_device_end_stream(const pl_device *dev, cu_stream handle)
{
    return pl_cu_stream_destroy(dev->drv, handle) == CU_SUCCESS ||
           pl_cu_stream_destroy(dev->drv, handle) == CU_SUCCESS;
}

/* pl_driver_status for calls without device memory, so never "out of" anything. */
static inline pleat_status pl_driver_failure(cu_result result)
{
    pleat_status st = pl_driver_status(result);
    return st == PLEAT_ENOMEM_DEVICE || st == PLEAT_ENOVMM ? PLEAT_EDRIVER : st;
}

/* device.c: of chunks with the device's properties. */
pleat_status pl_device_ask_granule(pl_device *dev);
/* Probe again a device whose probe found no room. Threads take turns. PLEAT_OK, or as
 * pl_device_probe; then the next call tries again. */
pleat_status pl_device_prove(pl_device *dev);

/* context.c */
pleat_status pl_contexts_init(pl_device *dev); /* retains the device's own */
/* Returns how many could not be released. */
size_t pl_contexts_fini(pl_device *dev);
static inline unsigned pl_context_count(const pl_device *dev)
{
    return atomic_load_explicit(&dev->contexts.n, memory_order_acquire);
}
/* Inside a scope. Admits the device's own context, or a peer's context with open mappings, as one
 * of the device's contexts. PLEAT_OK; ESTREAM; EDRIVER. */
pleat_status pl_context_admit(pl_device *dev, cu_context context);
/* Admits every peer with an active context, since a stream may belong to any peer. */
pleat_status pl_context_admit_active(pl_device *dev);
/* Call around what would break captures in context i. PLEAT_OK; ECAPTURE (a capture in the peer's
 * context was noted, so do not call the end). The caller knows the captures of the device's own
 * context. */
pleat_status pl_context_begin_record(const pl_device *dev, unsigned i);
void pl_context_end_record(const pl_device *dev, unsigned i);

/* green.c */
/* Inside a scope, finds the primary context of a green context's stream at rest. PLEAT_OK; ENOTSUP
 * (no green context, or the driver does not tell); ESTREAM (the driver is too old); EDRIVER. */
pleat_status pl_green_primary(pl_device *dev, cu_stream handle, cu_context *out);
/* Outside of scopes: is a green context of the device current, so that the handle of a default
 * stream (legacy or per thread) means a stream of the green context? PLEAT_OK: yes, with the
 * stream's id, and the stream is not captured; ENOTSUP: no; ESTREAM; EDRIVER. */
pleat_status pl_green_default(pl_device *dev, cu_stream handle, pl_capture_info *capture,
                              uint64_t *id);

/* stream_table.c. NULL if no stream has the id. Takes no lock. */
pl_stream *pl_stream_find(const pl_device *dev, uint64_t id);
/* The ordinary stream seen last under the handle, unless the stream is known to be gone. Takes no
 * lock. */
pl_stream *pl_stream_newest(const pl_device *dev, cu_stream handle);
static inline uint64_t pl_stream_key(const pl_stream *stream, int by)
{
    return by == PL_STREAM_BY_ID
               ? atomic_load_explicit(&stream->id, memory_order_relaxed)
               : (uintptr_t)atomic_load_explicit(&stream->handle, memory_order_relaxed);
}

/* Hold the ordinary stream found by `key`. Takes no lock. False if the stream is being given up, or
 * its object serves a later stream by now. The key is read last, because an object leaves its
 * stream before serving a later stream. */
static inline bool pl_stream_hold(pl_stream *stream, int by, uint64_t key)
{
    atomic_fetch_add(&stream->n_holders, 1);
    if (!atomic_load(&stream->is_leaving) && pl_stream_key(stream, by) == key) {
        return true;
    }
    atomic_fetch_sub(&stream->n_holders, 1);
    return false;
}

/* Does the handle mean this stream for certain? */
static inline bool pl_stream_is_trusted(const pl_stream *stream)
{
    return stream->dev->trusts_handles &&
           !atomic_load_explicit(&stream->is_doubted, memory_order_relaxed);
}

static inline unsigned pl_stream_n_captured(const pl_stream *stream)
{
    return atomic_load_explicit(&stream->n_captured, memory_order_relaxed);
}
static inline void pl_stream_note_captured(pl_stream *stream)
{
    atomic_fetch_add_explicit(&stream->n_captured, 1, memory_order_relaxed);
}
/* The stream was seen at rest, by its id, in a look that began when pl_stream_n_captured was n. */
static inline void pl_stream_note_rest(pl_stream *stream, unsigned n)
{
    if (atomic_load_explicit(&stream->n_rested, memory_order_relaxed) != n) {
        atomic_store_explicit(&stream->n_rested, n, memory_order_relaxed);
    }
}
/* Has nobody seen the stream captured since its last sight at rest? The counts go on when the
 * object serves a later stream, so a stale note makes no captured stream rest. */
static inline bool pl_stream_rests(const pl_stream *stream)
{
    return atomic_load_explicit(&stream->n_rested, memory_order_relaxed) ==
           pl_stream_n_captured(stream);
}

/* Add a stream like `like`, unless already known. Another thread may have been faster, or a stream
 * known without an id gets one now. The stream that had the handle before is gone. The caller holds
 * the result. PLEAT_OK; ENOMEM_HOST. */
pleat_status pl_stream_add(pl_device *dev, const pl_stream *like, pl_stream **out);
/* Mark a stream as gone. No look-up finds a gone stream. */
void pl_stream_forget(pl_stream *stream);
void pl_streams_fini(pl_device *dev);

/* stream.c. Harmless on any stream; where the driver does not tell more, id and graph are 0. */
cu_result pl_stream_ask_capture(const pl_device *dev, cu_stream handle, pl_capture_info *out);
/* Results that may be about the thread's current context and not the stream. */
static inline bool pl_stream_is_of_thread(cu_result result)
{
    return result == CU_INVALID_CONTEXT || result == CU_CONTEXT_IS_DESTROYED;
}
/* stream_get.c. Inside a scope, finds the context of a stream first seen at rest. */
pleat_status pl_stream_find_context(pl_device *dev, cu_stream handle, cu_context *out);
/* stream.c. Inside a scope, asks whether the stream is captured. A legacy stream is never captured
 * itself, but touching it would harm the capture of another stream of the context. The driver
 * reports such a capture. PLEAT_OK: no capture; ECAPTURE; ESTREAM (no stream has the handle);
 * EDRIVER. */
pleat_status pl_stream_refuse_capture(pl_stream *stream);
/* Inside a scope, asks whether this thread may work on the stream without harm to a capture.
 * PLEAT_OK; ECAPTURE; ESTREAM (the handle belongs to a later stream by now); EDRIVER. */
pleat_status pl_stream_ready(pl_stream *stream);
/* A stream only seen captured counts as the device's own until it has an id. */
static inline cu_context pl_stream_context(const pl_stream *stream)
{
    return atomic_load_explicit(&stream->context, memory_order_relaxed);
}
pleat_status pl_streams_init(pl_device *dev); /* asks whether the driver has ids */

/* fence.c. The fence's event failed a call with `result`, and the fence will not pass. Returns
 * ECAPTURE for an event in a capture that is over, else as pl_driver_failure. */
pleat_status pl_fence_spoil(pl_fence *fence, cu_result result);
/* fence_pool.c. NULL: the host has no memory. */
pl_fence *pl_fence_take(pl_device *dev);
/* Tried even without a scope, since most drivers need no scope to destroy an event. NULL is
 * fine. */
void pl_fence_destroy_event(pl_device *dev, cu_event event);
/* Destroys all events; returns how many fences are still out. */
size_t pl_fences_fini(pl_device *dev);

#endif
