/* mxnet.h - what the files of mxnet-* and unpooled share: MXNet's storage pools.
 *
 *   class  4096 |-> block -> block -> block      newest first
 *   class  8192 |-> block
 *   class 12288 |
 *
 * A request is rounded to a size class; a free block of just that class serves it, the one freed
 * last; otherwise the driver is asked for a block of the class. Nothing is split, merged or aged.
 * Everything cached goes back to the driver, all at once, before a block is asked for that would
 * leave less of the device free than the reserve, and when the driver refused one.
 *
 * Naive and Round differ in the rounding alone. What the versions differ in: MXNet 2 gives the
 * cache back when nothing at all would stay free, even with a reserve of 0, and tries again after
 * any failure of the driver; 1.6 to 1.9 only after one for want of memory, and they do not look
 * whether the driver could tell what is free (that counts as nothing free here).
 *
 * Where this differs from MXNet:
 * - Round has lists for sizes up to 16 GiB and goes past their end beyond; here the same formula
 *   holds for all sizes, since lists are made when a size is first seen.
 * - A limit of the instance makes the device that small.
 * - MXNet gets frees only when the work is over (1.x), or waits on the host for the events of a
 *   block when it is used again (2.x). Here a free is a point on its stream: the stream itself has
 *   the block back at once; another one, or one of several users, waits on the host (order.h).
 * - While its stream is being captured a request does not wait: it passes over blocks that need it,
 *   and gives nothing back. Blocks with uses recorded on a stream that was being captured when they
 *   were freed are kept until pl_allocator_ops.release_capture. MXNet knows nothing of captures:
 *   what the captured stream itself had and freed goes where it always goes, to another stream once
 *   the capture is over, while the graph may still use it. Who launches it must keep it live.
 * - cudaFree waits for the device. Before blocks go to the driver each stream that used one of them
 *   is waited for, which counts one host sync for each that has work left, not one a block.
 *
 * All fields below are guarded by the lock of its pl_cache unless they say otherwise.
 * Source: src/storage/pooled_storage_manager.h and storage_manager_helpers.h of MXNet, 1.6 to 2.0.
 */
#ifndef PLEAT_SEGMENTS_CLASSIC_MXNET_H
#define PLEAT_SEGMENTS_CLASSIC_MXNET_H

#include "segments/base/ptrmap.h"
#include "segments/base/tree.h"
#include "segments/classic/cache.h"
#include "segments/classic/depart.h"
#include "segments/classic/doubt.h"
#include "segments/classic/mxnet_options.h"
#include "segments/classic/order.h"

typedef struct pl_mxnet_block pl_mxnet_block;
typedef struct pl_mxnet_list pl_mxnet_list;

typedef enum pl_mxnet_state {
    PL_MXNET_LIVE,
    PL_MXNET_FREEING, /* still live; free() is asking the driver with the lock dropped */
    PL_MXNET_CACHED,  /* in its class's list */
    PL_MXNET_HELD,    /* in pl_mxnet.held: a graph may use it */
    PL_MXNET_TAKEN,   /* in nobody's hands but one call's */
} pl_mxnet_state;

/* One allocation of the driver, live or not. */
struct pl_mxnet_block {
    pl_tree_node node; /* in pl_mxnet.by_address */
    pleat_devptr ptr;  /* const */
    pl_mxnet_list *list;
    union {
        pl_mxnet_block *next; /* in the list, or among the held */
        pl_leaver leaver;     /* taken, on the way to the driver */
    };
    pl_mxnet_state state;
    size_t requested_bytes;
    pl_stream *stream;  /* who had it last */
    pl_order_uses uses; /* of a live block: the lanes so far */
    uint64_t held;      /* lanes whose captures hold it */
    pl_birth birth;     /* of unpooled alone */
    pl_doubt doubt;     /* in pl_mxnet.doubtful */
};

/* The free blocks of one size class; it goes with the last block of the class, free or not. */
struct pl_mxnet_list {
    size_t bytes;          /* const */
    unsigned pool;         /* const: PLEAT_POOL_SMALL or PLEAT_POOL_LARGE */
    pl_mxnet_block *first; /* freed last */
    size_t n_blocks;       /* of the class, those on their way to the driver too */
};

/* All that the pools differ in. */
typedef struct pl_mxnet_policy {
    const pl_allocator_ops *ops;
    pleat_status (*check)(const pl_mxnet_options *options);         /* NULL: they do not matter */
    size_t (*round)(const pl_mxnet_options *options, size_t bytes); /* to the size class */
    bool is_v2;                                                     /* MXNet 2, else 1.6 to 1.9 */
    bool is_pooled; /* false: blocks go to the driver when they are freed */
} pl_mxnet_policy;

/* I1  by_address and blocks hold the same blocks: all but those on their way to the driver
 * I2  a list holds cached blocks of its class only, and all of them; n_cached counts them
 * I3  the held list holds the held blocks, each held by a lane
 * I4  a live block has its owner's lane; a cached or held one a number, not beyond the clock
 * I5  reserved_bytes == bytes of all blocks + releasing_bytes, and the statistic agrees
 * I6  the statistics of allocated, active and requested agree with the blocks
 * I7  lists have the size that they are found by, and blocks; n_blocks counts these
 * I8  tree and maps keep their own rules
 * I9  cached_bytes == bytes of the cached blocks; of these the doubtful list holds all that others
 *     than their stream used, except for some whose uses are known to be over */
typedef struct pl_mxnet {
    pl_cache base;                 /* reserved_bytes: MXNet's used_memory_ */
    const pl_mxnet_policy *policy; /* const */
    pl_mxnet_options options;      /* const */
    pl_order order;
    pl_tree by_address;
    pl_ptrmap blocks; /* by address */
    pl_ptrmap lists;  /* by size */
    pl_mxnet_block *held;
    size_t n_live;
    size_t n_cached;
    uint64_t cached_bytes;
    pl_doubt *doubtful;
    size_t n_away;    /* blocks on their way to the driver that may come back */
    size_t n_growing; /* calls that may insert into the maps after the lock was dropped */
} pl_mxnet;

/* What happened to a block of the user's, or to the driver's allocation that it is. Lock held. */
static inline void pl_mxnet_tell(const pl_mxnet *m, pl_action action, const pl_mxnet_block *block)
{
    pl_tell(m->base.observer, action, block->ptr, block->requested_bytes, block->stream, NULL);
}

static inline void pl_mxnet_tell_segment(const pl_mxnet *m, pl_action action,
                                         const pl_mxnet_block *block)
{
    pl_tell(m->base.observer, action, block->ptr, block->list->bytes, NULL, NULL);
}

/* ilog2ul: bits of `n`, and 1 for 0. */
static inline unsigned pl_mxnet_bit_length(size_t n)
{
    return n == 0 ? 1 : 64 - (unsigned)__builtin_clzll((unsigned long long)n);
}

/* mxnet_size.c: rounding. */
size_t pl_mxnet_round_naive(const pl_mxnet_options *options, size_t bytes);
size_t pl_mxnet_round_round(const pl_mxnet_options *options, size_t bytes);
size_t pl_mxnet_round_not(const pl_mxnet_options *options, size_t bytes);

/* mxnet_pool.c: lists and blocks. Lock held; only reuse drops it. */
void pl_mxnet_pool_init(pl_mxnet *m);
pl_mxnet_list *pl_mxnet_list_of(const pl_mxnet *m, size_t class_bytes); /* or NULL */
void pl_mxnet_put(pl_mxnet *m, pl_mxnet_block *block);             /* taken -> cached, on top */
pl_mxnet_block *pl_mxnet_take(pl_mxnet *m, pl_mxnet_block **link); /* from a list, -> taken */
void pl_mxnet_hold(pl_mxnet *m, pl_mxnet_block *block, uint64_t lanes); /* taken -> held */
/* taken -> live */
void pl_mxnet_hand_out(pl_mxnet *m, pl_mxnet_block *block, pl_stream *stream, size_t bytes);
/* live or freeing -> taken: not allocated any more, but active, as PyTorch calls it, until... */
void pl_mxnet_end_live(pl_mxnet *m, pl_mxnet_block *block);
void pl_mxnet_end_active(pl_mxnet *m, pl_mxnet_block *block); /* taken, and nobody holds it */
/* A cached block of the class for `stream`, taken; *out is NULL if there is none that it may have.
 * EDRIVER, ENOMEM_HOST: its last use could not be waited for. */
pleat_status pl_mxnet_reuse(pl_mxnet *m, size_t class_bytes, pl_stream *stream,
                            pl_mxnet_block **out);

/* mxnet_grow.c: the driver. Lock held on entry and exit, dropped around driver calls. */
/* A block of the class from the driver, or one that became free meanwhile; taken. */
pleat_status pl_mxnet_grow(pl_mxnet *m, size_t class_bytes, pl_stream *stream,
                           pl_mxnet_block **out);
/* Give cached blocks to the driver while more than keep_bytes are reserved (ReleaseAll). Blocks
 * whose uses are not over after at most wait_ms each, or are being captured, stay: others go for
 * them. EDRIVER, ENOMEM_HOST: some could not be given back and stay cached. */
pleat_status pl_mxnet_release_cached(pl_mxnet *m, uint64_t keep_bytes, uint32_t wait_ms,
                                     uint64_t *released);
/* One taken block whose uses are over. Returns EDRIVER and it is taken still. */
pleat_status pl_mxnet_release(pl_mxnet *m, pl_mxnet_block *block);
/* At the very end: every block, live or not. Returns how many the driver refused. */
size_t pl_mxnet_release_all(pl_cache *c);

/* mxnet_check.c: pl_cache_kind; the statistics walk the doubtful blocks only. */
int pl_mxnet_check_all(pl_cache *c);
void pl_mxnet_tell_stats(pl_cache *c, pleat_stats *out);
void pl_mxnet_visit(pl_cache *c, void (*see)(void *context, const pl_piece *piece), void *context);

/* mxnet.c: what all of them share, except for unpooled's own free and end of a capture. */
pleat_status pl_mxnet_create(const pl_mxnet_policy *policy, const pl_cache_kind *kind,
                             pl_device *dev, const pl_allocator_options *options,
                             pl_allocator **out);
/* Lock held: the live block at `ptr`, or NULL; and what to say then. */
pl_mxnet_block *pl_mxnet_find_live(const pl_mxnet *m, pleat_devptr ptr);
pleat_status pl_mxnet_not_live(const pl_mxnet *m, pleat_devptr ptr);
pleat_status pl_mxnet_alloc(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out);
/* pl_cache_kind. */
pleat_status pl_mxnet_record(pl_cache *c, pleat_devptr ptr, pl_stream *stream);
pleat_status pl_mxnet_query(pl_cache *c, pleat_devptr ptr, pleat_block_info *out);
pleat_status pl_mxnet_give_back(pl_cache *c, uint64_t keep_bytes, bool wait, uint64_t *released);
pleat_status pl_mxnet_end_capture(pl_cache *c, pl_stream *stream);

/* What every table of functions has in common. */
/* clang-format off */
#define PL_MXNET_COMMON_OPS          \
    .needs_vmm = false,              \
    .free = pl_cache_free,           \
    .set_limit = pl_cache_set_limit, \
    PL_CACHE_OPS

#define PL_MXNET_COMMON_KIND             \
    .record = pl_mxnet_record,           \
    .query = pl_mxnet_query,             \
    .release_all = pl_mxnet_release_all, \
    .release = pl_mxnet_give_back,       \
    .tell_stats = pl_mxnet_tell_stats,   \
    .visit = pl_mxnet_visit,             \
    .check = pl_mxnet_check_all,         \
    .limit_waits = true
/* clang-format on */

static inline pl_mxnet *pl_mxnet_of(pl_allocator *a)
{
    return (pl_mxnet *)(void *)a;
}

#endif
