/* caller.h - the threads that make public calls, and what each is calling.
 *
 * A call enters an instance by raising a count of its own thread's, which costs no locked
 * instruction: the count is raised, then, behind the light half of a barrier, `pl_live` is read
 * (instance.h). Destruction hides the instance, has the heavy half, and then waits until each
 * thread's count for the slot is zero. A call that came too late to be counted sees the instance
 * hidden.
 *
 * A record outlives its thread and serves the next one; records are never given back. In a forked
 * child only the calling thread's record counts. */
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
    int last_device;                     /* owner: where the last block was that it freed (own.c) */
} pl_caller;

/* What the hot calls ask of the calling thread, side by side: in a shared library it is a call to
 * find a thread's variable. */
typedef struct pl_caller_own {
    pl_caller *record;      /* NULL before its first call */
    struct pl_front *front; /* of its fronts, the one used last; pl_front_none = none */
} pl_caller_own;

extern _Thread_local pl_caller_own pl_caller_self;
extern struct pl_front pl_front_none; /* front.h: in front.c */

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
