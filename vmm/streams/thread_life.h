/* thread_life.h - tells whether a thread still runs, for the sake of its own default stream.
 *
 * An asking thread gets one record, which outlives the thread while somebody holds the record.
 * Records are process-wide and reused; no driver is called when a thread ends. */
#ifndef PLEAT_VMM_THREAD_LIFE_H
#define PLEAT_VMM_THREAD_LIFE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct pl_thread_life pl_thread_life;

/* The calling thread's record, held by the thread itself until it ends. NULL: no host memory. */
pl_thread_life *pl_thread_life_own(void);
uint64_t pl_thread_life_number(const pl_thread_life *life); /* never used again */
bool pl_thread_life_is_over(const pl_thread_life *life);
void pl_thread_life_hold(pl_thread_life *life);
void pl_thread_life_drop(pl_thread_life *life); /* NULL is fine */

#endif
