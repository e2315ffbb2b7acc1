/* instance.h - the static table of instances, and how a public call gets hold of one.
 *
 * A handle is a slot and a generation. A call enters the slot (one atomic increment of one of the
 * slot's sharded use counts), compares generations, works, and leaves (one decrement). Destruction
 * first makes the generation unfindable, then waits until every count is zero, and only then takes
 * the instance apart: so nobody ever works on an instance that is gone, and look-ups take no lock.
 *
 *   state      live_generation   who may enter
 *   FREE       0                 nobody: EGONE
 *   MAKING     0                 nobody: the handle is not out yet
 *   OPEN       generation        everybody
 *   CLOSING    0                 the instance's own callbacks, on the threads that run them
 *   FORKED     0                 nobody: EFORKED; a child leaves what its parent made untouched
 *
 * The state and the generation are guarded by the api lock (rank 10), which is held for a few
 * instructions only; each instance has a lock of its own, of the same rank and never held at the
 * same time, for its callbacks and the opening of devices. Neither is held across driver calls. */
#ifndef PLEAT_API_INSTANCE_H
#define PLEAT_API_INSTANCE_H

#include <stdatomic.h>

#include "api/config.h"
#include "api/error.h"
#include "api/pleat.h"
#include "vmm/base/lock.h"

enum { PL_N_SLOTS = 64, PL_N_DEVICES = 64, PL_N_SHARDS = 16, PL_NOTE_BYTES = 160 };

typedef enum pl_gpu_state { PL_GPU_CLOSED, PL_GPU_OPENING, PL_GPU_OPEN } pl_gpu_state;

/* One device of an instance, opened by its first use. */
typedef struct pl_gpu {
    _Atomic int state; /* atomic: pl_gpu_state, written under the instance's lock */
    int ordinal;       /* const once open, as are the next five */
    const pl_allocator_ops *ops;
    pl_allocator *allocator;
    pl_device *dev;
    char note[PL_NOTE_BYTES];     /* why the fallback is used; empty if it is not */
    _Atomic uint64_t limit_bytes; /* atomic: as last set; 0 = none */
    _Atomic uint64_t n_ooms;      /* atomic: requests that failed with ENOMEM_DEVICE */
} pl_gpu;

typedef struct pl_instance {
    int n_devices;  /* const */
    pleat handle;   /* const */
    pl_driver *drv; /* const */
    pl_gpu gpus[PL_N_DEVICES];
    pl_config config;           /* const */
    pl_lock lock;               /* rank 10 */
    pthread_cond_t opened;      /* a gpu left the state OPENING */
    pleat_pressure_fn pressure; /* lock */
    void *pressure_context;     /* lock */
    pleat_oom_fn oom;           /* lock */
    void *oom_context;          /* lock */
    size_t n_leaked;            /* lock: driver objects lost in failed openings */
} pl_instance;

typedef enum pl_slot_state {
    PL_SLOT_FREE,
    PL_SLOT_MAKING,
    PL_SLOT_OPEN,
    PL_SLOT_CLOSING,
    PL_SLOT_FORKED
} pl_slot_state;

typedef struct pl_shard {
    _Alignas(64) _Atomic uint32_t n_users; /* atomic */
} pl_shard;

typedef struct pl_slot {
    _Alignas(64) _Atomic uint32_t live_generation; /* atomic: 0 unless OPEN */
    uint32_t generation;                           /* api lock */
    pl_slot_state state;                           /* api lock */
    bool is_on_sim;                                /* api lock */
    pl_instance instance;
    pl_shard users[PL_N_SHARDS];
} pl_slot;

extern pl_slot pl_slots[PL_N_SLOTS];

/* What a thread is in the middle of. */
typedef struct pl_thread {
    bool is_in_callback; /* owner */
    pleat callback_of;   /* owner: the instance whose callback runs */
} pl_thread;

extern _Thread_local pl_thread pl_thread_self;

/* A public call's hold on an instance, from pl_use_enter to pl_use_leave. */
typedef struct pl_use {
    pl_instance *instance;
    _Atomic uint32_t *n_users;
} pl_use;

/* The cold part of pl_use_enter: says why, or lets a callback in. */
pleat_status pl_use_enter_unusual(pleat handle, pl_use *out) __attribute__((cold));
/* The cold part of pl_use_gpu: opens the device. */
pleat_status pl_gpu_open(pl_instance *instance, int device, pl_gpu **out) __attribute__((cold));

/* Threads spread over the shards by where their thread-local storage lies. */
static inline pl_shard *pl_shard_of_thread(pl_slot *slot)
{
    uint64_t where = (uint64_t)(uintptr_t)&pl_thread_self;
    return &slot->users[(where * UINT64_C(0x9E3779B97F4A7C15)) >> 60];
}

/* Returns PLEAT_OK; EGONE; EFORKED. The order of increment and look-up (both sequentially
 * consistent) pairs with that of store and count in destruction: one of the two sees the other. */
static inline pleat_status pl_use_enter(pleat handle, pl_use *out)
{
    if (handle.slot < PL_N_SLOTS && handle.generation != 0) {
        pl_slot *slot = &pl_slots[handle.slot];
        _Atomic uint32_t *n_users = &pl_shard_of_thread(slot)->n_users;
        atomic_fetch_add(n_users, 1);
        if (atomic_load(&slot->live_generation) == handle.generation) {
            *out = (pl_use){ .instance = &slot->instance, .n_users = n_users };
            return PLEAT_OK;
        }
        atomic_fetch_sub(n_users, 1);
    }
    return pl_use_enter_unusual(handle, out);
}

static inline void pl_use_leave(const pl_use *use)
{
    atomic_fetch_sub_explicit(use->n_users, 1, memory_order_release);
}

/* The device, or NULL if it was never used (or there is none of that number). */
static inline pl_gpu *pl_use_find_gpu(pl_instance *instance, int device)
{
    if ((unsigned)device < (unsigned)instance->n_devices) {
        pl_gpu *gpu = &instance->gpus[device];
        if (atomic_load_explicit(&gpu->state, memory_order_acquire) == PL_GPU_OPEN) {
            return gpu;
        }
    }
    return NULL;
}

/* The device, opened by its first use. */
static inline pleat_status pl_use_gpu(pl_instance *instance, int device, pl_gpu **out)
{
    *out = pl_use_find_gpu(instance, device);
    return *out ? PLEAT_OK : pl_gpu_open(instance, device, out);
}

/* PLEAT_OK or EDEVICE with its text. */
pleat_status pl_use_check_device(const pl_instance *instance, int device);

/* Is this a child that was forked inside one of the instance's callbacks? */
bool pl_use_is_forked(const pl_instance *instance);

/* Open what `instance->gpus[device]` needs; called once at a time per device. (gpu.c) */
pleat_status pl_gpu_build(pl_instance *instance, int device, pl_gpu *gpu, size_t *n_leaked);
/* Take it apart, live blocks and all. Returns the objects that could not be given back. */
size_t pl_gpu_demolish(pl_gpu *gpu);
/* Walk the allocator's invariants if this build asks for it (debug level 2). */
void pl_gpu_debug_walk(pl_gpu *gpu);

#endif
