/* malloc.c - malloc of the C library and mimalloc: the lower bound for the cost of a pair.
 *
 * Both serve host memory, and get 1/512 of each size, but at most 1,024 bytes. So the number of
 * different sizes is the same as for other rows, without touching gigabytes. The build does not
 * need mimalloc, since it is loaded by name. */
#include "bench/pairs/through.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MIMALLOC "libmimalloc.so.2"

enum { UNIT_BYTES = 512, MOST_BYTES = 1024 };

static void *(*mi_malloc)(size_t bytes);
static void (*mi_free)(void *ptr);

static size_t host_bytes(uint64_t bytes)
{
    uint64_t units = (bytes + UNIT_BYTES - 1) / UNIT_BYTES;
    return units < MOST_BYTES ? (size_t)units : MOST_BYTES;
}

static pleat_devptr alloc_glibc(const bench_through *through, uint64_t bytes, void *stream)
{
    (void)through;
    (void)stream;
    return (pleat_devptr)(uintptr_t)malloc(host_bytes(bytes));
}

static bool free_glibc(const bench_through *through, pleat_devptr ptr, void *stream)
{
    (void)through;
    (void)stream;
    free((void *)(uintptr_t)ptr);
    return true;
}

static pleat_devptr alloc_mimalloc(const bench_through *through, uint64_t bytes, void *stream)
{
    (void)through;
    (void)stream;
    return (pleat_devptr)(uintptr_t)mi_malloc(host_bytes(bytes));
}

static bool free_mimalloc(const bench_through *through, pleat_devptr ptr, void *stream)
{
    (void)through;
    (void)stream;
    mi_free((void *)(uintptr_t)ptr);
    return true;
}

bool bench_mimalloc_load(const bench_through_kind *kind, bench_failure *failure)
{
    void *library = dlopen(MIMALLOC, RTLD_NOW | RTLD_LOCAL);
    void *malloc_address = library ? dlsym(library, "mi_malloc") : NULL;
    void *free_address = library ? dlsym(library, "mi_free") : NULL;
    if (!malloc_address || !free_address) {
        return bench_fail(failure, "%s: %s (Debian's package is libmimalloc2.0)", kind->name,
                          library ? "has no mi_malloc" : dlerror());
    }
    memcpy(&mi_malloc, &malloc_address, sizeof mi_malloc);
    memcpy(&mi_free, &free_address, sizeof mi_free);
    return true;
}

bool bench_mimalloc_open(bench_through *through, bench_failure *failure)
{
    (void)failure;
    through->alloc = alloc_mimalloc;
    through->release = free_mimalloc;
    return true;
}

bool bench_glibc_open(bench_through *through, bench_failure *failure)
{
    (void)failure;
    through->alloc = alloc_glibc;
    through->release = free_glibc;
    return true;
}
