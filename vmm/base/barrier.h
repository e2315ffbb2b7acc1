/* barrier.h - a fence between two threads with one free side.
 *
 * Two threads each store a value, then load the value that the peer stores. Without a fence between
 * store and load, both may read the old values. Where one side runs a million times as often, that
 * side has the light half. The light half only keeps the compiler from swapping store and load. The
 * heavy half makes every processor that runs a thread of this process finish its stores
 * (membarrier), in microseconds. Where the kernel has none, the light half is a fence. */
#ifndef PLEAT_BASE_BARRIER_H
#define PLEAT_BASE_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic bool pl_barrier_is_dear; /* atomic: the kernel has no membarrier */

/* Before the first light half of any thread. Several threads may call it at once. */
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
