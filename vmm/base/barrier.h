/* barrier.h - a fence of which one side is free.
 *
 * Two threads that each store and then load, in this order, what the other one stores need a fence
 * between the two, or both may read what was there before. Where one side does it a million times
 * as often as the other, it has the light half, which only keeps the compiler from turning store
 * and load around. The heavy half makes every processor that runs a thread of this process finish
 * its stores (membarrier), which takes microseconds. Where the kernel has none, the light half is a
 * fence. */
#ifndef PLEAT_BASE_BARRIER_H
#define PLEAT_BASE_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic bool pl_barrier_is_dear; /* atomic: the kernel has no membarrier */

/* Before the first light half of any thread. Threads may call it at the same time. */
void pl_barrier_prepare(void);

static inline void pl_barrier_light(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(&pl_barrier_is_dear, memory_order_relaxed), 0)) {
        atomic_thread_fence(memory_order_seq_cst);
    }
}

/* Blocks for microseconds. */
void pl_barrier_heavy(void);

#endif
