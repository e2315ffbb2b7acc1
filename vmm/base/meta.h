/* meta.h - the one home of host memory for metadata.
 *
 * A pl_meta is one accounting domain (an instance, or one device of an instance). A pl_meta has its
 * own jemalloc arena and one explicit tcache, guarded by the caller with the domain's lock. In
 * builds with PLEAT_META_SYSTEM (sanitizers) the memory comes from the system's malloc instead. The
 * count meta->bytes has usable sizes, and the used parts of reservations. At the end pl_meta_fini()
 * returns the bytes left, so that the caller can assert or report.
 *
 * Faults are process-wide, for tests only. After pl_meta_fail_at(k) the k-th allocation from now
 * fails (0 = the next). Opening a domain counts as an allocation. After pl_meta_fail_from(k) every
 * allocation from the k-th on fails. Call pl_meta_fail_never() to end the faults. */
#ifndef PLEAT_BASE_META_H
#define PLEAT_BASE_META_H

#include <stdint.h>

#include "vmm/base/pleat_types.h"

typedef struct pl_meta {
    size_t bytes; /* lock: usable bytes handed out */
    size_t n_reserved;
    unsigned arena;  /* const */
    unsigned tcache; /* const */
    bool is_open;    /* lock */
} pl_meta;

pleat_status pl_meta_init(pl_meta *meta);
/* Gives all memory back. Returns the bytes that were still held, counting at least one byte per
 * reservation (0 = nothing leaked). */
size_t pl_meta_fini(pl_meta *meta);

/* NULL when out of memory (or by an injected fault). zeroed = pl_meta_calloc. bytes > 0. */
void *pl_meta_alloc(pl_meta *meta, size_t bytes);
void *pl_meta_calloc(pl_meta *meta, size_t count, size_t size);
/* Grows or shrinks. On NULL `p` is unchanged. p may be NULL. */
void *pl_meta_realloc(pl_meta *meta, void *p, size_t bytes);
void pl_meta_free(pl_meta *meta, void *p); /* NULL is fine */

/* Zeroed memory for a table at its largest possible size. The system supplies pages at first touch,
 * so the table never moves, and a reservation costs the same for any size. NULL as above. */
void *pl_meta_reserve(pl_meta *meta, size_t bytes);
/* Like pl_meta_reserve, aligned to its size, a power of two of whole pages, and in small pages at
 * first. */
void *pl_meta_reserve_aligned(pl_meta *meta, size_t bytes);
/* Put reserved and wholly touched memory into huge pages, if the system can. A huge page needs one
 * entry of the processor's cache of page tables. Copies the memory, some 0.5 ms for 2 MiB, while
 * other threads may use it. No lock need be held, but it must stay reserved. */
void pl_meta_merge_pages(void *p, size_t bytes);
/* Count `bytes` more of the reservations as used. */
void pl_meta_use(pl_meta *meta, size_t bytes);
void pl_meta_unreserve(pl_meta *meta, void *p, size_t bytes, size_t used_bytes); /* NULL is fine */

uint64_t pl_machine_total_bytes(void); /* memory of the machine, */
uint64_t pl_machine_free_bytes(void);  /* and the part in use by nobody */
/* Does the machine's node have memory and CPUs, as far as the kernel tells? Drivers before 595
 * can crash on unequal nodes, and refuse memory of nodes without CPUs (NCCL, issues 2106, 2190). */
bool pl_machine_has_node(unsigned node);

void pl_meta_fail_at(uint64_t k);
void pl_meta_fail_from(uint64_t k);
void pl_meta_fail_never(void);
/* Allocations asked for since the process began; exact while a fault is set or with one thread. */
uint64_t pl_meta_n_allocs(void);

#endif
