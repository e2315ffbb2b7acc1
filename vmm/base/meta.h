/* host.h - the one home of host memory for metadata.
 *
 * A pl_host is one accounting domain (an instance, or one device of an instance). A pl_host has its
 * own jemalloc arena and one explicit tcache, guarded by the caller with the domain's lock. In
 * builds with PLEAT_HOST_SYSTEM (sanitizers) the memory comes from the system's malloc instead. The
 * count host->bytes has usable sizes, and the used parts of reservations. At the end pl_host_fini()
 * returns the bytes left, so that the caller can assert or report.
 *
 * Faults are process-wide, for tests only. After pl_host_fail_at(k) the k-th allocation from now
 * fails (0 = the next). Opening a host counts as an allocation. After pl_host_fail_from(k) every
 * allocation from the k-th on fails. Call pl_host_fail_never() to end the faults. */
#ifndef PLEAT_BASE_HOST_H
#define PLEAT_BASE_HOST_H

#include <stdint.h>

#include "vmm/base/pleat_types.h"

typedef struct pl_host {
    size_t bytes; /* lock: usable bytes handed out */
    size_t n_reserved;
    unsigned arena;  /* const */
    unsigned tcache; /* const */
    bool is_open;    /* lock */
} pl_host;

pleat_status pl_host_init(pl_host *host);
/* Gives all memory back. Returns the bytes that were still held, counting at least one byte per
 * reservation (0 = nothing leaked). */
size_t pl_host_fini(pl_host *host);

/* NULL when out of memory (or by an injected fault). zeroed = pl_host_calloc. bytes > 0. */
void *pl_host_alloc(pl_host *host, size_t bytes);
void *pl_host_calloc(pl_host *host, size_t count, size_t size);
/* Grows or shrinks. On NULL `p` is unchanged. p may be NULL. */
void *pl_host_realloc(pl_host *host, void *p, size_t bytes);
void pl_host_free(pl_host *host, void *p); /* NULL is fine */

/* Zeroed memory for a table at its largest possible size. The system supplies pages at first touch,
 * so the table never moves, and a reservation costs the same for any size. NULL as above. */
void *pl_host_reserve(pl_host *host, size_t bytes);
/* Like pl_host_reserve, aligned to its size, a power of two of whole pages, and in small pages at
 * first. */
void *pl_host_reserve_aligned(pl_host *host, size_t bytes);
/* Put reserved and wholly touched memory into huge pages, if the system can. A huge page needs one
 * entry of the processor's cache of page tables. Copies the memory, some 0.5 ms for 2 MiB, while
 * other threads may use it. No lock need be held, but it must stay reserved. */
void pl_host_merge_pages(void *p, size_t bytes);
/* Count `bytes` more of the reservations as used. */
void pl_host_use(pl_host *host, size_t bytes);
void pl_host_unreserve(pl_host *host, void *p, size_t bytes, size_t used_bytes); /* NULL is fine */

uint64_t pl_host_total_bytes(void); /* memory of the machine, */
uint64_t pl_host_free_bytes(void);  /* and the part in use by nobody */
/* Does the machine's node have memory and CPUs, as far as the kernel tells? Drivers before 595
 * can crash on unequal nodes, and refuse memory of nodes without CPUs (NCCL, issues 2106, 2190). */
bool pl_host_has_node(unsigned node);

void pl_host_fail_at(uint64_t k);
void pl_host_fail_from(uint64_t k);
void pl_host_fail_never(void);
/* Allocations asked for since the process began; exact while a fault is set or with one thread. */
uint64_t pl_host_n_allocs(void);

#endif
