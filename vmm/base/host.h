/* host.h - the one home of host memory for metadata.
 *
 * A pl_host is one accounting domain (an instance, or one device of it) with a jemalloc arena and
 * one explicit tcache of its own; the caller guards it with the lock of that domain. In builds with
 * PLEAT_HOST_SYSTEM (sanitizers) the memory comes from the system's malloc instead. host->bytes
 * counts usable sizes, and the used parts of reservations; pl_host_fini() returns what is left, so
 * that its caller can assert or report.
 *
 * Faults: pl_host_fail_at(k) makes the k-th allocation from now (0 = the next) of the whole process
 * fail (opening a host counts as one), pl_host_fail_from(k) every one from the k-th on;
 * pl_host_fail_never() ends this. Tests only. */
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
/* Gives all memory back. Returns the bytes that were still held, at least one per reservation
 * (0 = nothing leaked). */
size_t pl_host_fini(pl_host *host);

/* NULL when out of memory (or by an injected fault). zeroed = pl_host_calloc. bytes > 0. */
void *pl_host_alloc(pl_host *host, size_t bytes);
void *pl_host_calloc(pl_host *host, size_t count, size_t size);
/* Grows or shrinks; NULL leaves `p` as it was. p may be NULL. */
void *pl_host_realloc(pl_host *host, void *p, size_t bytes);
void pl_host_free(pl_host *host, void *p); /* NULL is fine */

/* Zeroed memory for a table at its largest possible size: the system supplies pages at first touch,
 * so the table never moves, and making it costs the same for any size. NULL as above. */
void *pl_host_reserve(pl_host *host, size_t bytes);
/* The same, aligned to its size, a power of two of whole pages, and in small pages at first. */
void *pl_host_reserve_aligned(pl_host *host, size_t bytes);
/* Put such memory, all of which has been touched, into huge pages, if the system can: each lies in
 * one entry of the processor's cache of page tables. Copies it, which takes some 0.5 ms for 2 MiB;
 * others may use it meanwhile. No lock need be held, but it must stay reserved. */
void pl_host_merge_pages(void *p, size_t bytes);
/* Count `bytes` more of the reservations as used. */
void pl_host_use(pl_host *host, size_t bytes);
void pl_host_unreserve(pl_host *host, void *p, size_t bytes, size_t used_bytes); /* NULL is fine */

uint64_t pl_host_total_bytes(void); /* memory of the machine, */
uint64_t pl_host_free_bytes(void);  /* and what of it nobody uses */
/* Has that node of the machine both memory and CPUs, as far as the kernel tells? Drivers before 595
 * crash on nodes without memory, and have none for nodes without CPUs (NCCL, issues 2106, 2190). */
bool pl_host_has_node(unsigned node);

void pl_host_fail_at(uint64_t k);
void pl_host_fail_from(uint64_t k);
void pl_host_fail_never(void);
/* Allocations asked for since the process began; exact while a fault is set or with one thread. */
uint64_t pl_host_n_allocs(void);

#endif
