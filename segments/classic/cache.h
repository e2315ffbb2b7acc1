/* cache.h - what every classic cache is: an object of its own host memory under one lock, and the
 * calls of the allocator interface that differ in no more than what is done under that lock.
 *
 * A cache embeds a pl_cache as its first member and names its own part of those calls in a
 * pl_cache_kind; its table of functions takes the rest from PL_CACHE_OPS. */
#ifndef PLEAT_SEGMENTS_CLASSIC_CACHE_H
#define PLEAT_SEGMENTS_CLASSIC_CACHE_H

#include "segments/base/allocator.h"
#include "segments/base/stats.h"
#include "segments/classic/waiter.h"
#include "vmm/base/host.h"
#include "vmm/base/lock.h"

#define PL_CACHE_MOST ((size_t)1 << 60) /* bytes of one request */

typedef struct pl_cache pl_cache;

/* All are called with the lock held and return with it; those that call the driver drop it. */
typedef struct pl_cache_kind {
    /* At the very end, after *n_live has been told: give everything to the driver, live blocks or
     * not, and all host memory back. Returns how many objects the driver refused. */
    size_t (*release_all)(pl_cache *c);
    /* For pl_cache_free. */
    pleat_status (*free)(pl_cache *c, pleat_devptr ptr, pl_stream *stream);
    /* pl_allocator_ops.record_stream, of a stream that there is. */
    pleat_status (*record)(pl_cache *c, pleat_devptr ptr, pl_stream *stream);
    /* pl_allocator_ops.query. */
    pleat_status (*query)(pl_cache *c, pleat_devptr ptr, pleat_block_info *out);
    /* Give back what is cached while more than keep_bytes are reserved (pl_allocator_ops.trim). */
    pleat_status (*release)(pl_cache *c, uint64_t keep_bytes, bool wait, uint64_t *released);
    /* What the stream's captures held may be used again. */
    pleat_status (*end_capture)(pl_cache *c, pl_stream *stream);
    void (*tell_stats)(pl_cache *c,
                       pleat_stats *out); /* resident, pending and free bytes and more */
    void (*visit)(pl_cache *c, void (*see)(void *context, const pl_piece *piece), void *context);
    int (*check)(pl_cache *c); /* 0, or the number of the first broken rule */
    bool limit_waits;          /* a new limit waits for uses before it is refused */
} pl_cache_kind;

struct pl_cache {
    pl_allocator base;
    const pl_cache_kind *kind; /* const */
    pl_device *dev;            /* const */
    pl_observer *observer;     /* const; NULL at the end */
    uint64_t limit_bytes;      /* lock */
    pl_lock lock;              /* rank 20 */
    pl_host host;              /* lock */
    pl_waiter waiter;          /* lock */
    uint64_t reserved_bytes;   /* lock */
    uint64_t growing_bytes;    /* lock: asked from the driver just now */
    uint64_t releasing_bytes;  /* lock: given to it just now; still in reserved_bytes */
    pleat_stats stats;         /* lock */
};

/* An object of `bytes`, zeroed except for its pl_cache. ENOMEM_HOST. */
pleat_status pl_cache_create(size_t bytes, const pl_allocator_ops *ops, const pl_cache_kind *kind,
                             pl_device *dev, const pl_allocator_options *options, pl_cache **out);
/* The object and its host memory, which nothing else holds. */
void pl_cache_fini(pl_cache *c);

/* The part of an allocation that needs no cache: EINVAL, ESIZE. */
static inline pleat_status pl_cache_check_request(size_t bytes, const pl_stream *stream)
{
    if (bytes - 1 < PL_CACHE_MOST && stream) {
        return PLEAT_OK;
    }
    return bytes != 0 && stream ? PLEAT_ESIZE : PLEAT_EINVAL;
}

/* At the very end: an allocation of the driver's goes back, or stays, since there is no later.
 * Returns how many stay, 0 or 1. Lock dropped meanwhile. */
size_t pl_cache_mfree_last(pl_cache *c, pleat_devptr ptr);

/* With lock: does another round serve a request for `bytes`, after one that ended with `st`? */
bool pl_cache_may_try(pl_cache *c, pl_turn *turn, pleat_status st, uint64_t bytes);

pleat_block_info pl_cache_info(const pl_cache *c, pleat_devptr base, size_t bytes,
                               size_t requested_bytes, const pl_stream *stream);

/* pl_allocator_ops.free, done by `free_at`; inline, since a free is half of a hit. */
static inline pleat_status pl_cache_free_by(pl_allocator *a, pleat_devptr ptr, pl_stream *stream,
                                            pleat_status (*free_at)(pl_cache *c, pleat_devptr ptr,
                                                                    pl_stream *stream))
{
    pl_cache *c = (pl_cache *)(void *)a;
    pl_lock_acquire(&c->lock);
    pleat_status st = free_at(c, ptr, stream);
    pl_lock_release(&c->lock);
    return st;
}

/* pl_allocator_ops, in full. */
pleat_status pl_cache_destroy(pl_allocator *a, bool force, size_t *n_live, size_t *n_leaked);
pleat_status pl_cache_free(pl_allocator *a, pleat_devptr ptr, pl_stream *stream); /* kind->free */
pleat_status pl_cache_record_stream(pl_allocator *a, pleat_devptr ptr, pl_stream *stream);
pleat_status pl_cache_query(pl_allocator *a, pleat_devptr ptr, pleat_block_info *out);
pleat_status pl_cache_trim(pl_allocator *a, uint64_t keep_bytes, bool wait, uint64_t *released);
pleat_status pl_cache_set_limit(pl_allocator *a, uint64_t bytes);
pleat_status pl_cache_release_capture(pl_allocator *a, pl_stream *stream);
void pl_cache_stats(pl_allocator *a, pleat_stats *out);
void pl_cache_reset_peaks(pl_allocator *a);
void pl_cache_visit(pl_allocator *a, void (*see)(void *context, const pl_piece *piece),
                    void *context);
int pl_cache_check(pl_allocator *a);

/* Without the limit, which a pool of the driver's keeps itself, and without the free, which may be
 * inline. */
/* clang-format off */
#define PL_CACHE_OPS                              \
    .destroy = pl_cache_destroy,                  \
    .record_stream = pl_cache_record_stream,      \
    .query = pl_cache_query,                      \
    .trim = pl_cache_trim,                        \
    .release_capture = pl_cache_release_capture,  \
    .stats = pl_cache_stats,                      \
    .reset_peaks = pl_cache_reset_peaks,          \
    .visit = pl_cache_visit,                      \
    .check = pl_cache_check
/* clang-format on */

#endif
