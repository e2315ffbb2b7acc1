/* stack.h - stacks of return addresses: each stored once, named by a number.
 *
 *   words   | n | innermost ... outermost | n | ... |        a stack's offset + first is its name
 *   slots   a hash table of offsets + 1, 0 = empty; at most three quarters are used
 *
 * There are two tables. When the current table is full, the old table with the older stacks is
 * emptied and becomes current: so the newest stacks are always present. Names are never reused, so
 * the name of a dropped stack finds nothing. Guarded by the lock of their history. Only the calling
 * thread's own stack belongs to the thread. */
#ifndef PLEAT_API_HISTORY_STACK_H
#define PLEAT_API_HISTORY_STACK_H

#include "vmm/base/meta.h"

enum {
    PL_HISTORY_DEPTH = 64,            /* the innermost frames of a stack, which are kept */
    PL_HISTORY_STACK_WORDS = 1 << 20, /* of each table: 8 MiB */
};

typedef struct pl_stack_table {
    void **words; /* [capacity_of_words] */
    uint32_t n_words;
    uint32_t capacity_of_words; /* 0 or a power of two */
    uint32_t *slots;            /* [n_slots] */
    uint32_t n_slots;           /* 0 or a power of two */
    uint32_t n_stacks;
    uint32_t first; /* the name of offset 0; 0 without a table */
} pl_stack_table;

typedef struct pl_history_stacks {
    pl_stack_table now;
    pl_stack_table before;
} pl_history_stacks;

/* Take the calling thread's stack, for every change that the thread reports until pl_stack_end.
 * Outside all locks. */
void pl_stack_begin(void);
void pl_stack_end(void);
/* Set the thread's stack to at most PL_HISTORY_DEPTH addresses, innermost first: for tests. */
void pl_stack_set(void *const *addresses, size_t n);
/* Load the library that the process's first stack needs. */
void pl_stack_prepare(void);

/* The name of the calling thread's stack; a new stack is stored. 0 without a stack or without host
 * memory. */
uint32_t pl_stacks_name(pl_history_stacks *stacks, pl_meta *meta);
/* Forget all. */
void pl_stacks_clear(pl_history_stacks *stacks);
void pl_stacks_fini(pl_history_stacks *stacks, pl_meta *meta);
/* Copies a stack; returns the number of its frames, 0 for a dropped stack. */
size_t pl_stacks_get(const pl_history_stacks *stacks, uint32_t name, void *out[PL_HISTORY_DEPTH]);

#endif
