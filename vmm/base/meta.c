/* host.c - host memory for metadata: accounting, the private jemalloc, injected faults.
 *
 * Upholds: host->bytes == the usable sizes of all live allocations + the used parts of all
 * reservations. Guarded by the caller's lock of that domain; the fault state is atomic and
 * process-wide. The one home of malloc, calloc, realloc and free in api, segments and vmm.
 *
 * Without an explicit tcache, an arena would leak through jemalloc's automatic per-thread cache. So
 * each host has an arena and a tcache, and destroys the tcache before emptying the arena. Arenas
 * are never destroyed, but emptied and given to the next host. A destroyed arena would leave some
 * megabytes of addresses behind, and every later arena would touch new pages of jemalloc's table of
 * addresses. So at most as many arenas exist as hosts ever lived at once. Source: jemalloc 5.3.0
 * manual (mallocx, arenas.create, arena.<i>.reset, arena.<i>.purge, tcache.create), and its
 * function base_unmap. */
#include "vmm/base/host.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef PLEAT_HOST_SYSTEM
#include <malloc.h>
#include <stdlib.h>
#else
#include <jemalloc/jemalloc.h>
#include <stdio.h>
#endif

/* ---- faults ---------------------------------------------------------------------------------- */

enum fault_mode { FAULT_NEVER, FAULT_AT, FAULT_FROM };

static _Atomic int fault_mode;      /* atomic: FAULT_* */
static _Atomic uint64_t fault_left; /* atomic: allocations until the fault */
static _Atomic uint64_t n_allocs;   /* atomic */

static bool fault_hits(void)
{
    uint64_t left = atomic_load(&fault_left);
    while (left > 0) {
        if (atomic_compare_exchange_weak(&fault_left, &left, left - 1)) {
            return false;
        }
    }
    if (atomic_load(&fault_mode) == FAULT_FROM) {
        return true;
    }
    int expected = FAULT_AT;
    return atomic_compare_exchange_strong(&fault_mode, &expected, FAULT_NEVER);
}

/* Counts one request. Returns true when an injected fault refuses the request. Without faults the
 * count is a load and a store. Two threads at once may then count as one, which only makes a
 * statistic inexact. */
static bool refuses(void)
{
    if (atomic_load_explicit(&fault_mode, memory_order_relaxed) == FAULT_NEVER) {
        uint64_t n = atomic_load_explicit(&n_allocs, memory_order_relaxed);
        atomic_store_explicit(&n_allocs, n + 1, memory_order_relaxed);
        return false;
    }
    atomic_fetch_add(&n_allocs, 1);
    return fault_hits();
}

static void set_fault(enum fault_mode mode, uint64_t k)
{
    atomic_store(&fault_mode, FAULT_NEVER);
    atomic_store(&fault_left, k);
    atomic_store(&fault_mode, (int)mode);
}

void pl_host_fail_at(uint64_t k)
{
    set_fault(FAULT_AT, k);
}

void pl_host_fail_from(uint64_t k)
{
    set_fault(FAULT_FROM, k);
}

void pl_host_fail_never(void)
{
    set_fault(FAULT_NEVER, 0);
}

uint64_t pl_host_n_allocs(void)
{
    return atomic_load(&n_allocs);
}

/* ---- where the bytes come from --------------------------------------------------------------- */

#ifdef PLEAT_HOST_SYSTEM

static bool source_open(pl_host *host)
{
    host->arena = 0;
    host->tcache = 0;
    return true;
}

static void source_close(pl_host *host)
{
    (void)host;
}

static void *source_alloc(const pl_host *host, size_t bytes, bool zeroed)
{
    (void)host;
    return zeroed ? calloc(1, bytes) : malloc(bytes);
}

static void *source_realloc(const pl_host *host, void *p, size_t bytes)
{
    (void)host;
    return realloc(p, bytes);
}

static size_t source_usable(void *p)
{
    return malloc_usable_size(p);
}

static void source_free(const pl_host *host, void *p, size_t usable)
{
    (void)host;
    (void)usable;
    free(p);
}

#else

/* Freed memory is reused, and goes back to the system with its domain. Otherwise jemalloc would
 * return freed memory under the caller's lock, milliseconds at a time, and from 8 MiB on at once.
 * jemalloc reads this string as it starts. */
const char *je_malloc_conf = "oversize_threshold:0,dirty_decay_ms:-1,muzzy_decay_ms:-1";

static int source_flags(const pl_host *host)
{
    return (int)(MALLOCX_ARENA(host->arena) | MALLOCX_TCACHE(host->tcache));
}

/* MALLOCX_ARENA can name no more. */
enum { MOST_ARENAS = 4096, WORD_BITS = 64 };

static _Atomic uint64_t spare_arenas[MOST_ARENAS / WORD_BITS]; /* atomic: a bit each */

static bool take_arena(unsigned *out)
{
    for (unsigned i = 0; i < MOST_ARENAS / WORD_BITS; i++) {
        uint64_t spare = atomic_load(&spare_arenas[i]);
        while (spare != 0) {
            if (atomic_compare_exchange_weak(&spare_arenas[i], &spare, spare & (spare - 1))) {
                *out = i * WORD_BITS + (unsigned)__builtin_ctzll(spare);
                return true;
            }
        }
    }
    size_t size = sizeof(*out);
    return je_mallctl("arenas.create", out, &size, NULL, 0) == 0;
}

static void act_on_arena(unsigned arena, const char *what)
{
    char name[32];
    snprintf(name, sizeof(name), "arena.%u.%s", arena, what);
    je_mallctl(name, NULL, NULL, NULL, 0);
}

/* The arena's memory goes back to the system; its addresses stay. */
static void give_back_arena(unsigned arena)
{
    act_on_arena(arena, "reset");
    act_on_arena(arena, "purge");
    atomic_fetch_or(&spare_arenas[arena / WORD_BITS], UINT64_C(1) << arena % WORD_BITS);
}

static bool source_open(pl_host *host)
{
    unsigned arena;
    if (!take_arena(&arena)) {
        return false;
    }
    unsigned tcache;
    size_t size = sizeof(tcache);
    if (je_mallctl("tcache.create", &tcache, &size, NULL, 0) != 0) {
        give_back_arena(arena);
        return false;
    }
    host->arena = arena;
    host->tcache = tcache;
    return true;
}

static void source_close(pl_host *host)
{
    je_mallctl("tcache.destroy", NULL, NULL, &host->tcache, sizeof(host->tcache));
    give_back_arena(host->arena);
}

static void *source_alloc(const pl_host *host, size_t bytes, bool zeroed)
{
    return je_mallocx(bytes, source_flags(host) | (zeroed ? MALLOCX_ZERO : 0));
}

static void *source_realloc(const pl_host *host, void *p, size_t bytes)
{
    return je_rallocx(p, bytes, source_flags(host));
}

static size_t source_usable(void *p)
{
    return je_sallocx(p, 0);
}

static void source_free(const pl_host *host, void *p, size_t usable)
{
    je_sdallocx(p, usable, source_flags(host));
}

#endif

/* ---- accounting ------------------------------------------------------------------------------ */

pleat_status pl_host_init(pl_host *host)
{
    *host = (pl_host){ .bytes = 0 };
    if (refuses() || !source_open(host)) {
        return PLEAT_ENOMEM_HOST;
    }
    host->is_open = true;
    return PLEAT_OK;
}

size_t pl_host_fini(pl_host *host)
{
    size_t held_bytes = host->bytes + host->n_reserved;
    if (host->is_open) {
        source_close(host);
    }
    *host = (pl_host){ .bytes = 0 };
    return held_bytes;
}

static void *alloc_bytes(pl_host *host, size_t bytes, bool zeroed)
{
    if (refuses()) {
        return NULL;
    }
    void *p = source_alloc(host, bytes, zeroed);
    if (p != NULL) {
        host->bytes += source_usable(p);
    }
    return p;
}

void *pl_host_alloc(pl_host *host, size_t bytes)
{
    return alloc_bytes(host, bytes, false);
}

void *pl_host_calloc(pl_host *host, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        return NULL;
    }
    return alloc_bytes(host, bytes, true);
}

void *pl_host_realloc(pl_host *host, void *p, size_t bytes)
{
    if (p == NULL) {
        return pl_host_alloc(host, bytes);
    }
    if (refuses()) {
        return NULL;
    }
    size_t usable = source_usable(p);
    void *grown = source_realloc(host, p, bytes);
    if (grown == NULL) {
        return NULL;
    }
    host->bytes += source_usable(grown);
    host->bytes -= usable;
    return grown;
}

void pl_host_free(pl_host *host, void *p)
{
    if (p == NULL) {
        return;
    }
    size_t usable = source_usable(p);
    host->bytes -= usable;
    source_free(host, p, usable);
}

/* ---- reservations ---------------------------------------------------------------------------- */

/* Not from an allocator, which would clear reused memory under the caller's lock. */
void *pl_host_reserve(pl_host *host, size_t bytes)
{
    if (refuses()) {
        return NULL;
    }
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    host->n_reserved++;
    return p;
}

void *pl_host_reserve_aligned(pl_host *host, size_t bytes)
{
    char *p = pl_host_reserve(host, 2 * bytes);
    if (p == NULL) {
        return NULL;
    }
    size_t below = (bytes - (uintptr_t)p % bytes) % bytes;
    if (below > 0) {
        (void)munmap(p, below);
    }
    p += below;
    (void)munmap(p + bytes, bytes - below);
    /* On systems that make huge pages unasked, a first touch would back the whole table. */
    (void)madvise(p, bytes, MADV_NOHUGEPAGE);
    return p;
}

/* Since Linux 6.1 the second call merges at once. After the first call alone, the kernel merges
 * some time later. Source: madvise(2). */
void pl_host_merge_pages(void *p, size_t bytes)
{
    enum { COLLAPSE = 25 }; /* MADV_COLLAPSE, which older headers lack */
    if (madvise(p, bytes, MADV_HUGEPAGE) == 0) {
        (void)madvise(p, bytes, COLLAPSE);
    }
}

void pl_host_use(pl_host *host, size_t bytes)
{
    host->bytes += bytes;
}

void pl_host_unreserve(pl_host *host, void *p, size_t bytes, size_t used_bytes)
{
    if (p == NULL) {
        return;
    }
    (void)munmap(p, bytes);
    host->n_reserved--;
    host->bytes -= used_bytes;
}

/* ---- the machine ----------------------------------------------------------------------------- */

static uint64_t pages(int name)
{
    long n = sysconf(name);
    long bytes = sysconf(_SC_PAGESIZE);
    return n > 0 && bytes > 0 ? (uint64_t)n * (uint64_t)bytes : 0;
}

uint64_t pl_host_total_bytes(void)
{
    return pages(_SC_PHYS_PAGES);
}

uint64_t pl_host_free_bytes(void)
{
    return pages(_SC_AVPHYS_PAGES);
}
