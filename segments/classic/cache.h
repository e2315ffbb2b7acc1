/* cache.h - the base of every classic cache: one lock, host memory of its own, and the calls of the
 * allocator interface. Caches differ only in what these calls do under the lock.
 *
 * A cache embeds a pl_cache as its first member. A pl_cache_kind names the cache's own part of the
 * calls. PL_CACHE_OPS fills the rest of its function table. */
#ifndef PLEAT_SEGMENTS_CLASSIC_CACHE_H
#define PLEAT_SEGMENTS_CLASSIC_CACHE_H

#include "segments/base/allocator.h"
#include "segments/base/stats.h"
#include "segments/classic/waiter.h"
#include "vmm/base/lock.h"
#include "vmm/base/meta.h"

#define PL_CACHE_MOST ((size_t)1 << 60) /* bytes of one request */

typedef struct pl_cache pl_cache;

/* All functions are called and return with the lock held. Functions that call the driver drop the
 * lock meanwhile. */
typedef struct pl_cache_kind {
    /* For destroy: give everything to the driver, live blocks too, and free all host memory except
     * the pl_cache itself. Returns how many objects the driver refused. */
    size_t (*release_all)(pl_cache *c);
    /* For pl_cache_free. NULL if the function table has a different free. */
    pleat_status (*free)(pl_cache *c, pleat_devptr ptr, pl_stream *stream);
    /* pl_allocator_ops.record_stream; `stream` is not NULL. */
    pleat_status (*record)(pl_cache *c, pleat_devptr ptr, pl_stream *stream);
    /* pl_allocator_ops.query. */
    pleat_status (*query)(pl_cache *c, pleat_devptr ptr, pleat_block_info *out);
    /* pl_allocator_ops.trim: give cached memory back while more than keep_bytes are reserved. */
    pleat_status (*release)(pl_cache *c, uint64_t keep_bytes, bool wait, uint64_t *released);
    /* pl_allocator_ops.release_capture: memory held by the stream's captures may be used again. */
    pleat_status (*end_capture)(pl_cache *c, pl_stream *stream);
    /* Add pending bytes, free bytes and more to `stats`, a copy. */
    void (*tell_stats)(pl_cache *c, pleat_stats *out);
    void (*visit)(pl_cache *c, void (*see)(void *context, const pl_piece *piece), void *context);
    int (*check)(pl_cache *c); /* 0, or the number of the first broken rule */
    bool limit_waits;          /* set_limit waits for uses before it refuses */
} pl_cache_kind;

struct pl_cache {
    pl_allocator base;
    const pl_cache_kind *kind; /* const */
    pl_device *dev;            /* const */
    pl_observer *observer;     /* const until destroy, which sets NULL */
    uint64_t limit_bytes;      /* lock */
    pl_lock lock;              /* rank 20 */
    pl_meta meta;              /* lock */
    pl_waiter waiter;          /* lock */
    uint64_t reserved_bytes;   /* lock */
    uint64_t growing_bytes;    /* lock: being asked for from the driver */
    uint64_t releasing_bytes;  /* lock: on the way to the driver; still in reserved_bytes */
    pleat_stats stats;         /* lock */
};

/* Make a cache of `bytes`, zeroed except for its pl_cache. ENOMEM_HOST. */
pleat_status pl_cache_create(size_t bytes, const pl_allocator_ops *ops, const pl_cache_kind *kind,
                             pl_device *dev, const pl_allocator_options *options, pl_cache **out);
/* Free the cache. All other host memory of the cache has been freed before. */
void pl_cache_fini(pl_cache *c);

/* Check the arguments of a request: EINVAL, ESIZE. */
static inline pleat_status pl_cache_check_request(size_t bytes, const pl_stream *stream)
{
    if (bytes - 1 < PL_CACHE_MOST && stream) {
        return PLEAT_OK;
    }
    return bytes != 0 && stream ? PLEAT_ESIZE : PLEAT_EINVAL;
}

/* For destroy: give a driver allocation back, with a second try if the driver refuses. Returns how
 * many stay, 0 or 1. Lock dropped meanwhile. */
size_t pl_cache_mfree_last(pl_cache *c, pleat_devptr ptr);

/* With the lock, which may be dropped: may a request for `bytes`, after a round ended with `st`,
 * try again? See pl_waiter_may_try. */
bool pl_cache_may_try(pl_cache *c, pl_turn *turn, pleat_status st, uint64_t bytes);

pleat_block_info pl_cache_info(const pl_cache *c, pleat_devptr base, size_t bytes,
                               size_t requested_bytes, const pl_stream *stream);

/* pl_allocator_ops.free by means of `free_at`. Inline, since a free is half of a hit. */
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

/* Functions of pl_allocator_ops. */
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

/* Without set_limit, since cuda-async has its own. Without free, since PyTorch's caches inline
 * theirs. */
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
