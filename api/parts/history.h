/* history.h - what happened on a device: a ring of entries, the names of its private pools, and the
 * stacks of the callers.
 *
 * One pl_history belongs to each pl_gpu and is the observer of its allocator. The allocator reports
 * every change of state under its own lock. So a copy of the ring under the allocator's lock, from
 * within ops->visit's `see`, shows the same instant as the visit. A visit without a piece does not
 * tell when it ran: compare pl_history_n_told before and after the visit.
 *
 * Invariants
 *   H1  entries are in the order of telling; the oldest are overwritten
 *   H2  n_held == min(n_told since the ring was emptied, capacity)
 *   H3  equal stacks are stored once; at most PL_HISTORY_STACK_WORDS words of them, a device
 *
 * On the simulator the history also tells the driver of blocks (pl_driver_teller), always. An
 * injected tool that wants to know hears of memory and blocks (nvtx.h), always.
 *
 * Guarded by the history's lock (rank 80, a leaf): every function may be called under an
 * allocator's lock. Calls no allocator and no driver. */
#ifndef PLEAT_API_HISTORY_H
#define PLEAT_API_HISTORY_H

#include <stdatomic.h>

#include "api/parts/nvtx.h"
#include "api/parts/stack.h"
#include "api/pleat.h"
#include "segments/base/observer.h"
#include "segments/base/tree.h"
#include "vmm/base/lock.h"
#include "vmm/base/meta.h"
#include "vmm/driver.h"

enum { PL_HISTORY_MOST_ENTRIES = 1 << 28 /* of one ring */ };

/* The actions of observer.h, and two that the allocator does not tell. */
enum {
    PL_HISTORY_SNAPSHOT = PL_N_ACTIONS, /* base 0; bytes: all active ones */
    PL_HISTORY_OOM,                     /* base: the device's free bytes; bytes: the request */
    PL_N_HISTORY_ACTIONS,
};

typedef struct pl_history_entry {
    pleat_devptr base;
    uint64_t bytes;
    uint64_t time_us; /* since the Unix epoch */
    void *stream;     /* its handle; NULL for none */
    uint32_t frames;  /* names a stack; 0 = none */
    uint16_t pool;    /* an index of pl_history_pool_id; 0 = the default pool */
    uint16_t action;
} pl_history_entry;

typedef struct pl_history_ring pl_history_ring;

typedef struct pl_history_pool {
    pleat_pool_id id;
    uint16_t next_released; /* index of the next released pool; 0 = none */
} pl_history_pool;

typedef struct pl_history {
    pl_observer observer;       /* first member: the allocator tells this observer */
    _Atomic bool is_followed;   /* atomic: recording or watched */
    pl_tell_fn tell_driver;     /* const: NULL = no simulator listens */
    pl_nvtx *nvtx;              /* lock: NULL = no tool listens */
    _Atomic unsigned flags;     /* atomic: recorded stacks; 0 = not recording */
    _Atomic uint64_t n_told;    /* atomic: grows by each entry, watched or not, and by each gap */
    int device;                 /* const */
    bool is_recording;          /* lock */
    uint64_t whole_from;        /* lock: n_told where the present recording began */
    pleat_change_fn watch;      /* lock: NULL = nobody */
    void *watch_context;        /* lock */
    pl_lock lock;               /* rank 80 */
    pl_meta meta;               /* lock: opened by the first use */
    pl_history_ring *ring;      /* lock: NULL until recording is first switched on */
    pl_history_stacks stacks;   /* lock */
    pl_history_pool *pools;     /* lock: [n_pools], the names of indices 1, 2... */
    pl_tree live_pools;         /* lock: by pointer, with the indices of their names */
    unsigned n_pools;           /* lock */
    unsigned capacity_of_pools; /* lock */
    unsigned released_first;    /* lock: indices, in the order of release; 0 = none */
    unsigned released_last;     /* lock */
} pl_history;

/* ENOMEM_HOST (the system refuses a mutex). Records nothing yet. */
void pl_history_init(pl_history *history, int device);
/* The allocator is gone by then. */
void pl_history_fini(pl_history *history);
/* The device is open: tell its driver of blocks, if it listens. */
void pl_history_tell_driver(pl_history *history, pl_tell_fn tell);
/* The device is open, and has no allocator yet: tell an injected tool of all memory, if it asks. */
void pl_history_tell_tool(pl_history *history);
/* The allocator goes, with what it holds: the tool forgets it before the driver does. */
void pl_history_leave_tool(pl_history *history);
size_t pl_history_host_bytes(pl_history *history);

/* ---- recording ---- */

/* Two steps, so that all devices change together or not at all: prepare all (ENOMEM_HOST), then
 * commit or drop each. Arguments are as for pleat_history_record. *out may be NULL. */
pleat_status pl_history_prepare(pl_history *history, size_t max_entries, unsigned flags,
                                pl_history_ring **out);
void pl_history_commit(pl_history *history, pl_history_ring *ring, size_t max_entries,
                       unsigned flags);
void pl_history_drop(pl_history *history, pl_history_ring *ring);
/* The device opens, and nothing is recorded. */
void pl_history_skip(pl_history *history);

/* Events outside the allocator; no effect when not recording. */
void pl_history_tell_oom(pl_history *history, uint64_t bytes, uint64_t device_free, void *stream,
                         const void *private_in);
void pl_history_tell_snapshot(pl_history *history, uint64_t active_bytes);

/* Must the calling thread's stack be taken before the allocator is called, outside all locks
 * (pl_stack_begin, and pl_stack_end after the call)? `flag`: PLEAT_HISTORY_FRAMES for allocations,
 * PLEAT_HISTORY_FREE_FRAMES for frees. */
static inline bool pl_history_wants_stack(const pl_history *history, unsigned flag)
{
    unsigned flags = atomic_load_explicit(&history->flags, memory_order_relaxed);
    return __builtin_expect((flags & flag) != 0, 0);
}

/* Tell every event to a watcher, too; NULL = nobody. On return the earlier one is not running. */
void pl_history_watch(pl_history *history, pleat_change_fn see, void *context);
/* Tell the watcher that somebody looks at the device; under the allocator's lock. */
void pl_history_tell_looked_at(pl_history *history);
static inline bool pl_history_is_watched(pl_history *history)
{
    pl_lock_acquire(&history->lock);
    bool is_watched = history->watch != NULL;
    pl_lock_release(&history->lock);
    return is_watched;
}

/* ---- private pools: their names ---- */

/* From now on `private_in` means that pool. ENOMEM_HOST (also when 65,535 pools have names). Needs
 * host memory whether it records or not. */
pleat_status pl_history_name_pool(pl_history *history, const void *private_in, pleat_pool_id id);
/* The pool is released: a later pool may have the same pointer. Its index keeps the name as long as
 * other indices are free. */
void pl_history_forget_pool(pl_history *history, const void *private_in);
/* 0 for NULL and for a pool without a name. */
unsigned pl_history_pool_index(pl_history *history, const void *private_in);
/* {0, 0} for the default pool, index 0. */
pleat_pool_id pl_history_pool_id(pl_history *history, unsigned index);
/* Copy the names of the first `most` indices, from 0 on. Returns how many indices have names. */
size_t pl_history_pool_ids(pl_history *history, pleat_pool_id *out, size_t most);

/* ---- reading ---- */

/* Copy the newest `most` entries, oldest first. Returns how many the ring holds: more than `most`
 * when `out` was too small. `out` may be NULL if `most` is 0. *n_told, unless NULL: of that moment;
 * while a recording goes on, n_told - 1 is the newest entry's number. */
size_t pl_history_copy(pl_history *history, pl_history_entry *out, size_t most, uint64_t *n_told);
static inline uint64_t pl_history_n_told(const pl_history *history)
{
    return atomic_load_explicit(&history->n_told, memory_order_acquire);
}

/* Has everything been recorded since the entry of that number? The ring may hold less. */
bool pl_history_is_whole(pl_history *history, uint64_t number);

/* Copy the return addresses of a stack, innermost first. Returns their number; 0 after the stack's
 * ring was emptied. */
size_t pl_history_stack(pl_history *history, uint32_t frames, void *out[PL_HISTORY_DEPTH]);

typedef struct pl_frame {
    char name[256];     /* "function+0x12"; "0x7f..." without a name */
    char filename[256]; /* of the object with the code; "??" if none */
} pl_frame;

/* Describe the code at a return address. Slow; hold no lock. */
void pl_frame_describe(const void *address, pl_frame *out);

#endif
