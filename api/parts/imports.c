/* imports.c - see imports.h.
 *
 * Only the thread that has claimed the list changes it. The lock (rank 10) guards the claim and the
 * host memory, and is held for neither driver calls nor other processes. */
#include "api/parts/imports.h"

#include <string.h>

#include "vmm/driver.h"
#include "vmm/left.h"

/* A close: once its fence has passed, the stream's work on the memory is over. */
typedef struct closing {
    struct closing *next;
    pl_stream *stream;
    pl_fence *fence;
} closing;

struct pl_import {
    pl_import *next;
    uint64_t process[2]; /* const */
    pl_range range;      /* const */
    uint64_t opens;
    closing *closings; /* the last close of each stream */
    size_t n;          /* const */
    pl_shared_chunk chunks[];
};

/* ---- claims and memory ---- */

void pl_imports_init(pl_imports *imports)
{
    memset(imports, 0, sizeof *imports);
    pl_lock_init(&imports->lock, PL_RANK_API);
}

void *pl_imports_alloc(pl_imports *imports, size_t bytes)
{
    void *p = NULL;
    pl_lock_acquire(&imports->lock);
    if (imports->meta.is_open || pl_meta_init(&imports->meta) == PLEAT_OK) {
        p = pl_meta_alloc(&imports->meta, bytes);
    }
    pl_lock_release(&imports->lock);
    return p;
}

void pl_imports_drop(pl_imports *imports, void *p)
{
    if (p) {
        pl_lock_acquire(&imports->lock);
        pl_meta_free(&imports->meta, p);
        pl_lock_release(&imports->lock);
    }
}

void pl_imports_claim(pl_imports *imports, pl_device *dev)
{
    pl_lock_acquire(&imports->lock);
    while (imports->is_claimed) {
        pl_lock_wait(&imports->lock, &imports->unclaimed);
    }
    imports->is_claimed = true;
    imports->dev = dev;
    pl_lock_release(&imports->lock);
}

void pl_imports_unclaim(pl_imports *imports)
{
    pl_lock_acquire(&imports->lock);
    imports->is_claimed = false;
    pl_cond_broadcast(&imports->unclaimed);
    pl_lock_release(&imports->lock);
}

/* ---- opening ---- */

static void note_open(pl_imports *imports, pl_import *import)
{
    import->opens++;
    atomic_fetch_add_explicit(&imports->n_opens, 1, memory_order_relaxed);
}

/* Numbers tell chunks; handles and sizes come along. */
static bool has_chunks_at(const pl_import *import, size_t from, const pl_shared_chunk *chunks,
                          size_t n)
{
    bool is_same = n <= import->n - from;
    for (size_t i = 0; i < n && is_same; i++) {
        is_same = import->chunks[from + i].number == chunks[i].number &&
                  import->chunks[from + i].bytes == chunks[i].bytes;
    }
    return is_same;
}

pl_import *pl_imports_reopen(pl_imports *imports, const uint64_t process[2],
                             const pl_shared_chunk *chunks, size_t n, pleat_devptr *base)
{
    for (pl_import *it = imports->first; it; it = it->next) {
        if (memcmp(it->process, process, sizeof it->process) != 0) {
            continue;
        }
        uint64_t at = it->range.base;
        for (size_t i = 0; i < it->n; at += it->chunks[i].bytes, i++) {
            if (has_chunks_at(it, i, chunks, n)) {
                *base = at;
                note_open(imports, it);
                return it;
            }
        }
    }
    return NULL;
}

pleat_status pl_imports_map(pl_imports *imports, pl_device *dev, const uint64_t process[2],
                            const pl_shared_chunk *chunks, size_t n, pl_fd_source source,
                            pl_import **out)
{
    pl_import *made = pl_imports_alloc(imports, sizeof *made + n * sizeof *chunks);
    if (!made) {
        return PLEAT_ENOMEM_HOST;
    }
    *made = (pl_import){ .n = n };
    memcpy(made->process, process, sizeof made->process);
    memcpy(made->chunks, chunks, n * sizeof *chunks);
    pleat_status st = pl_share_map(dev, chunks, n, source, &made->range);
    if (st != PLEAT_OK) {
        pl_imports_drop(imports, made);
        return st;
    }
    *out = made;
    return PLEAT_OK;
}

pleat_devptr pl_imports_add(pl_imports *imports, pl_import *mapped)
{
    pleat_devptr base = mapped->range.base;
    pl_import *first = pl_imports_reopen(imports, mapped->process, mapped->chunks, mapped->n,
                                         &base);
    mapped->next = imports->first;
    imports->first = mapped;
    if (!first) { /* else nobody opens `mapped`: the next collection takes it */
        note_open(imports, mapped);
    }
    return base;
}

/* ---- closing ---- */

static pl_import *find_at(const pl_imports *imports, pleat_devptr at)
{
    for (pl_import *it = imports->first; it; it = it->next) {
        if (at >= it->range.base && at - it->range.base < it->range.bytes) {
            return it->opens > 0 ? it : NULL;
        }
    }
    return NULL;
}

pleat_status pl_imports_list(const pl_imports *imports, pleat_devptr ptr, uint64_t bytes,
                             pl_share_list *out)
{
    const pl_import *import = find_at(imports, ptr);
    uint64_t left = import ? import->range.base + import->range.bytes - ptr : 0;
    if (!import || bytes > left) {
        return PLEAT_EFOREIGN;
    }
    uint64_t from = ptr - import->range.base;
    uint64_t to = from + (bytes > 0 ? bytes : left);
    uint64_t at = 0; /* of chunk i in the range */
    out->n_chunks = 0;
    for (size_t i = 0; i < import->n && at < to; at += import->chunks[i].bytes, i++) {
        if (at + import->chunks[i].bytes <= from) {
            continue;
        }
        if (out->n_chunks == 0) {
            out->blocks[0] = (pl_shared_block){ ptr, to - from, from - at };
        }
        if (out->n_chunks < out->most_chunks) {
            out->chunks[out->n_chunks] = import->chunks[i];
        }
        out->n_chunks++;
    }
    out->n_blocks = 1;
    return PLEAT_OK;
}

static closing *find_closing(const pl_import *import, const pl_stream *stream)
{
    closing *it = import->closings;
    while (it && it->stream != stream) {
        it = it->next;
    }
    return it;
}

pleat_status pl_imports_close(pl_imports *imports, pleat_devptr at, pl_stream *stream)
{
    pl_import *import = find_at(imports, at);
    if (!import) {
        return PLEAT_EFOREIGN;
    }
    closing *own = find_closing(import, stream); /* the new fence stands behind its fence */
    closing *made = own ? NULL : pl_imports_alloc(imports, sizeof *made);
    if (!own && !made) {
        return PLEAT_ENOMEM_HOST;
    }
    pl_fence *fence = NULL;
    pleat_status st = pl_fence_record(stream, &fence);
    if (st != PLEAT_OK) {
        pl_imports_drop(imports, made);
        return st;
    }
    if (own) {
        pl_fence_return(own->fence);
        own->fence = fence;
        pl_stream_put(stream); /* held since the earlier close */
    } else {
        *made = (closing){ .next = import->closings, .stream = stream, .fence = fence };
        import->closings = made;
    }
    import->opens--;
    atomic_fetch_sub_explicit(&imports->n_opens, 1, memory_order_relaxed);
    return PLEAT_OK;
}

/* ---- the end of mappings ---- */

static void drop_closing(pl_imports *imports, closing **link)
{
    closing *gone = *link;
    *link = gone->next;
    pl_fence_return(gone->fence);
    pl_stream_put(gone->stream);
    pl_imports_drop(imports, gone);
}

/* Runs while the import is open, too, since a program may open and close for ever on ever new
 * streams. A fence that failed never passes: the end of the device waits. */
static void drop_passed(pl_imports *imports, pl_import *import)
{
    for (closing **link = &import->closings; *link;) {
        bool passed = false;
        if (pl_fence_query((*link)->fence, &passed) == PLEAT_OK && passed) {
            drop_closing(imports, link);
        } else {
            link = &(*link)->next;
        }
    }
}

static void remove_next(pl_imports *imports, pl_import **link)
{
    pl_import *import = *link;
    pl_share_unmap(imports->dev, import->range);
    *link = import->next;
    pl_imports_drop(imports, import);
}

void pl_imports_collect(pl_imports *imports)
{
    for (pl_import **link = &imports->first; *link;) {
        pl_import *import = *link;
        drop_passed(imports, import);
        if (import->opens > 0 || import->closings) {
            link = &(*link)->next;
        } else {
            remove_next(imports, link);
        }
    }
    pl_left_retry(imports->dev);
    pl_driver_clear_error();
}

static bool is_waited_for(pl_imports *imports, pl_import *import)
{
    bool is_good = import->opens == 0;
    while (import->closings) {
        is_good = pl_fence_wait(import->closings->fence, UINT32_MAX) == PLEAT_OK && is_good;
        drop_closing(imports, &import->closings);
    }
    return is_good;
}

void pl_imports_fini(pl_imports *imports)
{
    bool is_drained = false;
    while (imports->first) {
        pl_import *import = imports->first;
        if (is_waited_for(imports, import) || is_drained ||
            pl_device_drain(imports->dev) == PLEAT_OK) {
            is_drained = is_drained || import->opens > 0;
            remove_next(imports, &imports->first);
            continue;
        }
        imports->first = import->next; /* it stays mapped, and counts as lost */
        pl_imports_drop(imports, import);
    }
    if (imports->meta.is_open) {
        size_t leaked_bytes = pl_meta_fini(&imports->meta);
        pl_assert(leaked_bytes == 0);
        (void)leaked_bytes;
    }
    pl_lock_fini(&imports->lock);
}
