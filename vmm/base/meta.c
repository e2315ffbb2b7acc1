/* meta.c - host memory for metadata: accounting, the private jemalloc, injected faults.
 *
 * Upholds: meta->bytes == the usable sizes of all live allocations + the used parts of all
 * reservations. Guarded by the caller's lock of that domain; the fault state is atomic and
 * process-wide. The one home of malloc, calloc, realloc and free in api, segments and vmm.
 *
 * Without an explicit tcache, an arena would leak through jemalloc's automatic per-thread cache. So
 * each domain has an arena and a tcache, and destroys the tcache before emptying the arena. Arenas
 * are never destroyed, but emptied and given to the next domain. A destroyed arena would leave some
 * megabytes of addresses behind, and every later arena would touch new pages of jemalloc's table of
 * addresses. So at most as many arenas exist as domains ever lived at once. Source: jemalloc 5.3.0
 * manual (mallocx, arenas.create, arena.<i>.reset, arena.<i>.purge, tcache.create), and its
 * function base_unmap. */
#include "vmm/base/meta.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef PLEAT_META_SYSTEM
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

void pl_meta_fail_at(uint64_t k)
{
    set_fault(FAULT_AT, k);
}

void pl_meta_fail_from(uint64_t k)
{
    set_fault(FAULT_FROM, k);
}

void pl_meta_fail_never(void)
{
    set_fault(FAULT_NEVER, 0);
}

uint64_t pl_meta_n_allocs(void)
{
    return atomic_load(&n_allocs);
}

/* ---- where the bytes come from --------------------------------------------------------------- */

#ifdef PLEAT_META_SYSTEM

static bool source_open(pl_meta *meta)
{
    meta->arena = 0;
    meta->tcache = 0;
    return true;
}

static void source_close(pl_meta *meta)
{
    (void)meta;
}

static void *source_alloc(const pl_meta *meta, size_t bytes, bool zeroed)
{
    (void)meta;
    return zeroed ? calloc(1, bytes) : malloc(bytes);
}

static void *source_realloc(const pl_meta *meta, void *p, size_t bytes)
{
    (void)meta;
    return realloc(p, bytes);
}

static size_t source_usable(void *p)
{
    return malloc_usable_size(p);
}

static void source_free(const pl_meta *meta, void *p, size_t usable)
{
    (void)meta;
    (void)usable;
    free(p);
}

#else

/* Freed memory is reused, and goes back to the system with its domain. Otherwise jemalloc would
 * return freed memory under the caller's lock, milliseconds at a time, and from 8 MiB on at once.
 * jemalloc reads this string as it starts. */
const char *je_malloc_conf = "oversize_threshold:0,dirty_decay_ms:-1,muzzy_decay_ms:-1";

static int source_flags(const pl_meta *meta)
{
    return (int)(MALLOCX_ARENA(meta->arena) | MALLOCX_TCACHE(meta->tcache));
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

static bool source_open(pl_meta *meta)
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
    meta->arena = arena;
    meta->tcache = tcache;
    return true;
}

static void source_close(pl_meta *meta)
{
    je_mallctl("tcache.destroy", NULL, NULL, &meta->tcache, sizeof(meta->tcache));
    give_back_arena(meta->arena);
}

static void *source_alloc(const pl_meta *meta, size_t bytes, bool zeroed)
{
    return je_mallocx(bytes, source_flags(meta) | (zeroed ? MALLOCX_ZERO : 0));
}

static void *source_realloc(const pl_meta *meta, void *p, size_t bytes)
{
    return je_rallocx(p, bytes, source_flags(meta));
}

static size_t source_usable(void *p)
{
    return je_sallocx(p, 0);
}

static void source_free(const pl_meta *meta, void *p, size_t usable)
{
    je_sdallocx(p, usable, source_flags(meta));
}

#endif

/* ---- accounting ------------------------------------------------------------------------------ */

pleat_status pl_meta_init(pl_meta *meta)
{
    *meta = (pl_meta){ .bytes = 0 };
    if (refuses() || !source_open(meta)) {
        return PLEAT_ENOMEM_HOST;
    }
    meta->is_open = true;
    return PLEAT_OK;
}

size_t pl_meta_fini(pl_meta *meta)
{
    size_t held_bytes = meta->bytes + meta->n_reserved;
    if (meta->is_open) {
        source_close(meta);
    }
    *meta = (pl_meta){ .bytes = 0 };
    return held_bytes;
}

static void *alloc_bytes(pl_meta *meta, size_t bytes, bool zeroed)
{
    if (refuses()) {
        return NULL;
    }
    void *p = source_alloc(meta, bytes, zeroed);
    if (p != NULL) {
        meta->bytes += source_usable(p);
    }
    return p;
}

void *pl_meta_alloc(pl_meta *meta, size_t bytes)
{
    return alloc_bytes(meta, bytes, false);
}

void *pl_meta_calloc(pl_meta *meta, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        return NULL;
    }
    return alloc_bytes(meta, bytes, true);
}

void *pl_meta_realloc(pl_meta *meta, void *p, size_t bytes)
{
    if (p == NULL) {
        return pl_meta_alloc(meta, bytes);
    }
    if (refuses()) {
        return NULL;
    }
    size_t usable = source_usable(p);
    void *grown = source_realloc(meta, p, bytes);
    if (grown == NULL) {
        return NULL;
    }
    meta->bytes += source_usable(grown);
    meta->bytes -= usable;
    return grown;
}

void pl_meta_free(pl_meta *meta, void *p)
{
    if (p == NULL) {
        return;
    }
    size_t usable = source_usable(p);
    meta->bytes -= usable;
    source_free(meta, p, usable);
}

/* ---- reservations ---------------------------------------------------------------------------- */

/* Not from an allocator, which would clear reused memory under the caller's lock. */
void *pl_meta_reserve(pl_meta *meta, size_t bytes)
{
    if (refuses()) {
        return NULL;
    }
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    meta->n_reserved++;
    return p;
}

void *pl_meta_reserve_aligned(pl_meta *meta, size_t bytes)
{
    char *p = pl_meta_reserve(meta, 2 * bytes);
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
void pl_meta_merge_pages(void *p, size_t bytes)
{
    enum { COLLAPSE = 25 }; /* MADV_COLLAPSE, which older headers lack */
    if (madvise(p, bytes, MADV_HUGEPAGE) == 0) {
        (void)madvise(p, bytes, COLLAPSE);
    }
}

void pl_meta_use(pl_meta *meta, size_t bytes)
{
    meta->bytes += bytes;
}

void pl_meta_unreserve(pl_meta *meta, void *p, size_t bytes, size_t used_bytes)
{
    if (p == NULL) {
        return;
    }
    (void)munmap(p, bytes);
    meta->n_reserved--;
    meta->bytes -= used_bytes;
}

/* ---- the machine ----------------------------------------------------------------------------- */

static uint64_t pages(int name)
{
    long n = sysconf(name);
    long bytes = sysconf(_SC_PAGESIZE);
    return n > 0 && bytes > 0 ? (uint64_t)n * (uint64_t)bytes : 0;
}

uint64_t pl_machine_total_bytes(void)
{
    return pages(_SC_PHYS_PAGES);
}

uint64_t pl_machine_free_bytes(void)
{
    return pages(_SC_AVPHYS_PAGES);
}
