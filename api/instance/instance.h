/* instance.h - the static table of instances, and how a public call enters one.
 *
 * A handle is a slot and a generation. A call enters the slot by raising its thread's count of uses
 * (caller.h), compares generations, works, and leaves. Destruction first hides the generation, then
 * waits until every count is zero, and only then takes the instance apart. So no call ever works on
 * a destroyed instance, and look-ups take no lock.
 *
 *   state      live      who may enter
 *   FREE       0         nobody: EGONE
 *   MAKING     0         nobody: the handle is not out yet
 *   OPEN       handle    everybody
 *   CLOSING    0         the instance's own callbacks, on the threads that run them
 *   FORKED     0         nobody: EFORKED; a child leaves what its parent made untouched
 *
 * The api lock (rank 10) guards state and generation, for a few instructions at a time. Each
 * instance has its own lock for callbacks and the opening of devices. Both locks have rank 10, and
 * no thread holds both. No thread holds either across driver calls. */
#ifndef PLEAT_API_INSTANCE_H
#define PLEAT_API_INSTANCE_H

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "api/base/caller.h"
#include "api/base/error.h"
#include "api/config/config.h"
#include "api/parts/history.h"
#include "api/parts/imports.h"
#include "api/parts/observe.h"
#include "api/parts/pool.h"
#include "api/parts/tag.h"
#include "api/pleat.h"
#include "segments/pleat/grow/policy.h"
#include "vmm/base/lock.h"

enum { PL_N_DEVICES = 64, PL_NOTE_BYTES = 160 };

typedef struct pl_instance pl_instance;

/* A device of an instance, opened by its first use. */
typedef struct pl_gpu {
    const pl_allocator_ops *ops; /* const once open, like the next five */
    pl_allocator *allocator;
    pl_device *dev;
    pl_instance *instance;
    int ordinal;
    bool is_opening;              /* instance's lock */
    char note[PL_NOTE_BYTES];     /* why the fallback is used; else empty */
    _Atomic uint64_t limit_bytes; /* atomic: last value set; 0 = none */
    _Atomic uint64_t n_ooms;      /* atomic: requests that failed with ENOMEM_DEVICE */
    pl_history history;           /* records changes of the allocator */
    pl_pools pools;               /* private pools and their routes */
    pl_imports imports;           /* opened memory of other processes */
    bool is_torn;                 /* the observers' lock: see parts/observe.h */
    _Atomic(pl_stream *) idle;    /* atomic: see calls/host.c; NULL = not asked for yet */
    pl_tags tags;                 /* statistics and limit of each tag */
} pl_gpu;

struct pl_instance {
    _Atomic(pl_gpu *) open[PL_N_DEVICES]; /* atomic: NULL until open; written under the lock */
    int n_devices;                        /* const */
    pleat handle;                         /* const */
    pl_driver *drv;                       /* const */
    pl_gpu gpus[PL_N_DEVICES];
    pl_config config;           /* const */
    pl_policy_calls policy;     /* const: of `policy:PATH` */
    pl_lock lock;               /* rank 10 */
    pl_cond opened;             /* signals that a gpu left the state OPENING */
    pleat_pressure_fn pressure; /* lock */
    void *pressure_context;     /* lock */
    pleat_oom_fn oom;           /* lock */
    void *oom_context;          /* lock */
    size_t n_leaked;            /* lock: driver objects lost in failed openings */
    size_t history_entries;     /* lock: size for devices opened later; 0 = not recording */
    unsigned history_flags;     /* lock */
    unsigned roundup_divisions[PL_N_DIVISIONS]; /* lock: the last set; at first the config's */
    pleat_change_fn watch;                      /* lock: for devices opened later; NULL = nobody */
    void *watch_context;                        /* lock */
    pl_mapping_observers observers;
};

typedef enum pl_slot_state {
    PL_SLOT_FREE,
    PL_SLOT_MAKING,
    PL_SLOT_OPEN,
    PL_SLOT_CLOSING,
    PL_SLOT_FORKED
} pl_slot_state;

typedef struct pl_slot {
    uint32_t generation; /* api lock */
    pl_slot_state state; /* api lock */
    bool is_on_sim;      /* api lock */
    pl_instance instance;
} pl_slot;

extern pl_slot pl_slots[PL_N_SLOTS];
/* The field of a slot that every call reads. */
extern _Atomic uint64_t pl_live[PL_N_SLOTS]; /* atomic: the handle in one word; 0 unless OPEN */

/* What the calling thread is doing at the moment. */
typedef struct pl_thread {
    bool is_in_callback; /* owner */
    bool is_observing;   /* owner: an observer of mappings runs: calls are refused */
    pleat callback_of;   /* owner: the instance whose callback runs */
} pl_thread;

extern _Thread_local pl_thread pl_thread_self;

/* A public call's hold on an instance, from pl_use_enter to pl_use_leave. */
typedef struct pl_use {
    pl_instance *instance; /* NULL: refused; the last error says why */
    pl_caller *self;       /* the calling thread's record */
    uint32_t slot;
} pl_use;

/* The cold part of pl_use_enter: a thread's first call, a callback, or a refusal. */
pl_use pl_use_enter_unusual(pleat handle) __attribute__((cold));
/* The cold part of pl_use_gpu: opens the device. On failure NULL; the last error says why. */
pl_gpu *pl_gpu_open(pl_instance *instance, int device) __attribute__((cold));

/* A handle in one word, as calls pass handles in one register. gcc alone would take the struct
 * apart and put it together again. A slot counts from 1, so no handle is 0. */
static inline uint64_t pl_handle_word(pleat handle)
{
    uint64_t word;
    _Static_assert(sizeof word == sizeof handle && offsetof(pleat, generation) == 4 &&
                       __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
                   "the generation is the high half");
    memcpy(&word, &handle, sizeof word);
    return word;
}

static inline pl_use pl_use_enter(pleat handle)
{
    uint32_t index = handle.slot - 1U;
    pl_caller *self = pl_caller_self;
    if (__builtin_expect(index < PL_N_SLOTS && self != NULL, 1)) {
        pl_caller_enter(self, index);
        if (__builtin_expect(atomic_load(&pl_live[index]) == pl_handle_word(handle), 1)) {
            return (pl_use){ &pl_slots[index].instance, self, index };
        }
        pl_caller_leave(self, index);
    }
    return pl_use_enter_unusual(handle);
}

static inline void pl_use_leave(pl_use use)
{
    pl_caller_leave(use.self, use.slot);
}

/* The device, or NULL if it was never used or does not exist. */
static inline pl_gpu *pl_use_find_gpu(pl_instance *instance, int device)
{
    if ((unsigned)device >= PL_N_DEVICES) {
        return NULL;
    }
    return atomic_load_explicit(&instance->open[device], memory_order_acquire);
}

/* Find the device, or open it. NULL on failure; the last error says why. */
static inline pl_gpu *pl_use_gpu(pl_instance *instance, int device)
{
    pl_gpu *gpu = pl_use_find_gpu(instance, device);
    return gpu ? gpu : pl_gpu_open(instance, device);
}

/* Clear the last error, enter, and find or open the device. NULL: nothing is held, and the last
 * error says why. */
pl_gpu *pl_use_open(pleat handle, int device, pl_use *use);
/* PLEAT_OK or EDEVICE with its text. */
pleat_status pl_use_check_device(const pl_instance *instance, int device);
/* Find a device that must be in use already. EDEVICE; EFOREIGN: never used, so `lacks`. */
pleat_status pl_use_find_used(pl_instance *instance, int device, const char *lacks, pl_gpu **out);

/* True in a child process forked inside one of the instance's callbacks. */
bool pl_use_is_forked(const pl_instance *instance);

/* Open driver objects and allocator of `instance->gpus[device]`; one call at a time per device.
 * (gpu.c) */
pleat_status pl_gpu_build(pl_instance *instance, int device, pl_gpu *gpu, size_t *n_leaked);
/* Take the device apart, live blocks included. Returns the number of objects that the driver did
 * not take back. */
size_t pl_gpu_demolish(pl_gpu *gpu);
/* Let a newly opened device record as older devices do; under the instance's lock. ENOMEM_HOST.
 * (history/record.c) */
pleat_status pl_history_follow(pl_gpu *gpu);
/* Move live memory together, if `request` is 0 or gets enough that way. PLEAT_OK; EBUSY
 * (mappings are observed: they may be registered); ENOTSUP; or an error of pl_allocator_ops. */
pleat_status pl_gpu_compact(pl_gpu *gpu, size_t request, pleat_compaction *told);
/* Walk the allocator's invariants if this build asks for it (debug level 2): after the first 1,000
 * calls, then after each eleventh. */
void pl_gpu_debug_walk(pl_gpu *gpu);
/* Tell the driver, where it is a simulator that listens. */
static inline void pl_gpu_tell(const pl_gpu *gpu, pl_told what, pleat_devptr ptr, uint64_t bytes)
{
    if (gpu->history.tell_driver) {
        (void)gpu->history.tell_driver(what, NULL, ptr, bytes, 0);
    }
}

#endif
