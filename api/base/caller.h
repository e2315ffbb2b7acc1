/* caller.h - the threads inside public calls.
 *
 * A call enters an instance by raising its own thread's count, without a locked instruction. After
 * raising the count the call passes the light half of a barrier, then reads `pl_live` (instance.h).
 * Destruction hides the instance, passes the heavy half, and waits until each thread's count for
 * the slot is zero. A call that came too late to be counted sees the instance hidden.
 *
 * A record outlives its thread and serves the next thread; records are never given back. In a
 * forked child only the calling thread's record counts. */
#ifndef PLEAT_API_CALLER_H
#define PLEAT_API_CALLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vmm/base/barrier.h"

enum { PL_N_SLOTS = 64 };

typedef struct pl_caller {
    _Atomic uint32_t n_uses[PL_N_SLOTS]; /* atomic: written by its thread */
    struct pl_caller *next;              /* const: of all records */
    bool is_taken;                       /* the list's lock: a thread has it */
    int last_device;                     /* owner: device of the thread's last free (own.c) */
} pl_caller;

/* NULL before the thread's first call. */
extern _Thread_local pl_caller *pl_caller_self;

/* Give the thread a record. False: no host memory. */
bool pl_caller_join(void);

/* Is any thread inside a call on the slot? */
bool pl_caller_any(uint32_t slot);
/* The forked child has one thread. */
void pl_caller_begin_child(void);

static inline void pl_caller_enter(pl_caller *self, uint32_t slot)
{
    uint32_t n = atomic_load_explicit(&self->n_uses[slot], memory_order_relaxed);
    atomic_store_explicit(&self->n_uses[slot], n + 1, memory_order_relaxed);
    pl_barrier_light();
}

static inline void pl_caller_leave(pl_caller *self, uint32_t slot)
{
    uint32_t n = atomic_load_explicit(&self->n_uses[slot], memory_order_relaxed);
    atomic_store_explicit(&self->n_uses[slot], n - 1, memory_order_release);
}

#endif
