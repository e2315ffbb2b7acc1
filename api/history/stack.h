/* stack.h - stacks of return addresses: each stored once, named by a number.
 *
 *   words   | n | innermost ... outermost | n | ... |        a stack's offset + first is its name
 *   slots   a hash table of offsets + 1, 0 = empty; at most three quarters are used
 *
 * There are two tables. When the one in use is full, the other, which holds what is older, is
 * emptied and used next: so the newest stacks are always there. Names are not used again, so that
 * an older one names nothing. Guarded by the lock of the history that they belong to, except the
 * calling thread's own stack, which is the thread's. */
#ifndef PLEAT_API_HISTORY_STACK_H
#define PLEAT_API_HISTORY_STACK_H

#include "vmm/base/host.h"

enum {
    PL_HISTORY_DEPTH = 64,            /* frames of a stack that are kept, the innermost */
    PL_HISTORY_STACK_WORDS = 1 << 20, /* of each table: 8 MiB */
};

typedef struct pl_stack_table {
    void **words; /* [capacity_of_words] */
    uint32_t n_words;
    uint32_t capacity_of_words; /* 0 or a power of two */
    uint32_t *slots;            /* [n_slots] */
    uint32_t n_slots;           /* 0 or a power of two */
    uint32_t n_stacks;
    uint32_t first; /* the name of offset 0, never 0 where there is one */
} pl_stack_table;

typedef struct pl_history_stacks {
    pl_stack_table now;
    pl_stack_table before;
} pl_history_stacks;

/* The calling thread's stack for what it tells until pl_stack_end: taken outside all locks. */
void pl_stack_begin(void);
void pl_stack_end(void);
/* Say what the stack is, at most PL_HISTORY_DEPTH addresses, innermost first: for tests. */
void pl_stack_set(void *const *addresses, size_t n);
/* The first stack that a process takes loads a library: do it now. */
void pl_stack_prepare(void);

/* The name of the calling thread's stack, stored if it is new; 0 when there is none, or no host
 * memory for it. */
uint32_t pl_stacks_name(pl_history_stacks *stacks, pl_host *host);
/* Forget all. */
void pl_stacks_clear(pl_history_stacks *stacks);
void pl_stacks_fini(pl_history_stacks *stacks, pl_host *host);
/* Copy a stack out; the number of its frames, 0 when it was forgotten. */
size_t pl_stacks_get(const pl_history_stacks *stacks, uint32_t name, void *out[PL_HISTORY_DEPTH]);

#endif
