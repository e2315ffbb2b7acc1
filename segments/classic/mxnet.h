/* mxnet.h - shared by the files of mxnet-* and unpooled: MXNet's storage pools.
 *
 *   class  4096 |-> block -> block -> block      newest first
 *   class  8192 |-> block
 *   class 12288 |
 *
 * A request is rounded up to a size class. The newest free block of exactly that class serves the
 * request. Without one, the driver is asked for a block of the class. Nothing is split, merged or
 * aged. The whole cache goes back to the driver in two cases: if a new block would leave less free
 * memory than the reserve, and after the driver refused a block.
 *
 * Naive and Round differ only in the rounding. The versions differ in two things. MXNet 2 also
 * gives the cache back when nothing at all would stay free, even with a reserve of 0. MXNet 2 tries
 * again after any failure of the driver; 1.6 to 1.9 only after a lack of memory. If the driver does
 * not tell how much is free, MXNet 2 fails. 1.6 to 1.9 do not check; here the answer counts as
 * nothing free.
 *
 * Differences from MXNet:
 * - Round's array of lists ends at 16 GiB, and larger sizes index past its end. Here a list is made
 *   when its size is first seen, and the same formula holds for all sizes.
 * - A limit of the instance counts as the size of the device.
 * - MXNet gets frees only when the work is over (1.x), or waits on the host for a block's events
 *   when the block is used again (2.x). Here a free is a point on its stream. The freeing stream
 *   gets the block back at once. For another stream, or after uses by several, the host waits
 *   (order.h).
 * - A request of a captured stream does not wait. It skips blocks that need a wait, and gives
 *   nothing back. If another user stream of a block is being captured at the block's free, the
 *   block is held until pl_allocator_ops.release_capture. MXNet knows nothing of captures. A block
 *   that the captured stream itself allocated and freed is cached as usual. Other streams may get
 *   this block after the capture, while the graph may still use it. A program that launches the
 *   graph must keep the block live.
 * - cudaFree waits for the device. Here the host first waits for each stream that used a departing
 *   block. So the number of host syncs is the number of streams with work left, not of blocks.
 *
 * The lock of the pl_cache guards all fields below, unless noted otherwise. Source:
 * src/storage/pooled_storage_manager.h and storage_manager_helpers.h of MXNet, 1.6 to 2.0.
 */
#ifndef PLEAT_SEGMENTS_CLASSIC_MXNET_H
#define PLEAT_SEGMENTS_CLASSIC_MXNET_H

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
    PL_MXNET_CACHED,  /* in the list of its class */
    PL_MXNET_HELD,    /* in pl_mxnet.held: a graph may use the block */
    PL_MXNET_TAKEN,   /* in no list: a call is working on the block */
} pl_mxnet_state;

/* One allocation of the driver, live or not. */
struct pl_mxnet_block {
    pl_tree_node node; /* in pl_mxnet.by_address */
    pleat_devptr ptr;  /* const */
    pl_mxnet_list *list;
    union {
        pl_mxnet_block *next; /* next in the class's list (cached) or in pl_mxnet.held */
        pl_leaver leaver;     /* taken, on the way to the driver */
    };
    pl_mxnet_state state;
    size_t requested_bytes;
    pl_stream *stream;  /* the last owner */
    pl_order_uses uses; /* of a live block: lanes so far */
    uint64_t held;      /* lanes with captures that hold the block */
    pl_birth birth;     /* unpooled only */
    pl_doubt doubt;     /* in pl_mxnet.doubtful */
};

/* The free blocks of one size class. The list lives as long as any block of the class, free or
 * not. */
struct pl_mxnet_list {
    pl_tree_node node;     /* in pl_mxnet.lists */
    size_t bytes;          /* const */
    unsigned pool;         /* const: PLEAT_SIZES_SMALL or PLEAT_SIZES_LARGE */
    pl_mxnet_block *first; /* freed last */
    size_t n_blocks;       /* all of the class, including blocks on their way to the driver */
};

/* All differences between the pools. */
typedef struct pl_mxnet_policy {
    const pl_allocator_ops *ops;
    pleat_status (*check)(const pl_mxnet_options *options);         /* NULL: no options */
    size_t (*round)(const pl_mxnet_options *options, size_t bytes); /* to the size class */
    bool is_v2;                                                     /* MXNet 2, else 1.6 to 1.9 */
    bool is_pooled; /* false: a freed block goes to the driver */
} pl_mxnet_policy;

/* I1  by_address holds all blocks except those on their way to the driver
 * I2  a list holds cached blocks of its class only, and all of them; n_cached counts them
 * I3  pl_mxnet.held lists exactly the held blocks, and a block is held if and only if `held` != 0
 * I4  a live block's uses have its owner's lane and number 0; a cached or held block's uses have a
 *     number from 1 to order.clock
 * I5  reserved_bytes == bytes of all blocks + releasing_bytes, and the statistic agrees
 * I6  the statistics of allocated, active and requested agree with the blocks
 * I7  a list is found by its size; n_blocks counts the blocks of the size, at least one
 * I8  trees keep their own rules
 * I9  cached_bytes == bytes of the cached blocks; the doubtful list has the cached blocks used by
 *     streams other than the owner, except some with uses known to be over */
typedef struct pl_mxnet {
    pl_cache base;                 /* reserved_bytes: MXNet's used_memory_ */
    const pl_mxnet_policy *policy; /* const */
    pl_mxnet_options options;      /* const */
    pl_order order;
    pl_tree by_address;
    pl_tree lists; /* by size */
    pl_mxnet_block *held;
    size_t n_live;
    size_t n_cached;
    uint64_t cached_bytes;
    pl_doubt *doubtful;
    size_t n_away; /* blocks on their way to the driver that may return */
} pl_mxnet;

/* Tell the observer what happened to a block. Lock held. */
static inline void pl_mxnet_tell(const pl_mxnet *m, pl_action action, const pl_mxnet_block *block)
{
    pl_tell(m->base.observer, action, block->ptr, block->requested_bytes, block->stream, NULL);
}

/* Report the driver allocation of the block. */
static inline void pl_mxnet_tell_segment(const pl_mxnet *m, pl_action action,
                                         const pl_mxnet_block *block)
{
    pl_tell(m->base.observer, action, block->ptr, block->list->bytes, NULL, NULL);
}

/* MXNet's ilog2ul: the bits of `n`, and 1 for 0. */
static inline unsigned pl_mxnet_bit_length(size_t n)
{
    return n == 0 ? 1 : 64 - (unsigned)__builtin_clzll((unsigned long long)n);
}

/* mxnet_size.c: rounding. */
size_t pl_mxnet_round_naive(const pl_mxnet_options *options, size_t bytes);
size_t pl_mxnet_round_round(const pl_mxnet_options *options, size_t bytes);
size_t pl_mxnet_round_not(const pl_mxnet_options *options, size_t bytes);

/* mxnet_pool.c: lists and blocks. Lock held; only reuse drops the lock. */
void pl_mxnet_pool_init(pl_mxnet *m);
/* The block that begins at ptr, in any state, or NULL. */
pl_mxnet_block *pl_mxnet_block_at(const pl_mxnet *m, pleat_devptr ptr);
pl_mxnet_list *pl_mxnet_list_of(const pl_mxnet *m, size_t class_bytes); /* or NULL */
void pl_mxnet_put(pl_mxnet *m, pl_mxnet_block *block); /* taken -> cached, first in the list */
pl_mxnet_block *pl_mxnet_take(pl_mxnet *m, pl_mxnet_block **link);      /* cached -> taken */
void pl_mxnet_hold(pl_mxnet *m, pl_mxnet_block *block, uint64_t lanes); /* taken -> held */
/* taken -> live */
void pl_mxnet_hand_out(pl_mxnet *m, pl_mxnet_block *block, pl_stream *stream, size_t bytes);
/* live or freeing -> taken: counts as active (PyTorch's term), but not as allocated any more */
void pl_mxnet_end_live(pl_mxnet *m, pl_mxnet_block *block);
void pl_mxnet_end_active(pl_mxnet *m, pl_mxnet_block *block); /* taken: counts as active no more */
/* Take a cached block of the class for `stream`. *out is NULL if the stream may have none of them.
 * EDRIVER, ENOMEM_HOST: the host could not wait for the block's last use. */
pleat_status pl_mxnet_reuse(pl_mxnet *m, size_t class_bytes, pl_stream *stream,
                            pl_mxnet_block **out);

/* mxnet_grow.c: the driver. Lock held on entry and exit, dropped around driver calls. */
/* Get a taken block of the class from the driver, or a cached block that another thread freed
 * meanwhile. */
pleat_status pl_mxnet_grow(pl_mxnet *m, size_t class_bytes, pl_stream *stream,
                           pl_mxnet_block **out);
/* Give cached blocks to the driver while more than keep_bytes are reserved (ReleaseAll). A block
 * stays if one of its streams is being captured, or if its uses are not over after a wait of at
 * most wait_ms for each stream. Other blocks go instead. EDRIVER, ENOMEM_HOST: some blocks could
 * not be given back and stay cached. */
pleat_status pl_mxnet_release_cached(pl_mxnet *m, uint64_t keep_bytes, uint32_t wait_ms,
                                     uint64_t *released);
/* Give a taken block whose uses are over to the driver. EDRIVER: the block is still taken. */
pleat_status pl_mxnet_release(pl_mxnet *m, pl_mxnet_block *block);
/* For destroy: every block, live or not. Returns how many the driver refused. */
size_t pl_mxnet_release_all(pl_cache *c);

/* mxnet_check.c: for pl_cache_kind. Statistics walk only the doubtful blocks. */
int pl_mxnet_check_all(pl_cache *c);
void pl_mxnet_tell_stats(pl_cache *c, pleat_stats *out);
void pl_mxnet_visit(pl_cache *c, void (*see)(void *context, const pl_piece *piece), void *context);

/* mxnet.c: common to all five allocators. unpooled has its own alloc, free and end of a capture. */
pleat_status pl_mxnet_create(const pl_mxnet_policy *policy, const pl_cache_kind *kind,
                             pl_device *dev, const pl_allocator_options *options,
                             pl_allocator **out);
/* Lock held: the live block at `ptr`, or NULL; and the error for an address without a live
 * block. */
pl_mxnet_block *pl_mxnet_find_live(const pl_mxnet *m, pleat_devptr ptr);
pleat_status pl_mxnet_not_live(const pl_mxnet *m, pleat_devptr ptr);
pleat_status pl_mxnet_alloc(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out);
/* For pl_cache_kind. */
pleat_status pl_mxnet_record(pl_cache *c, pleat_devptr ptr, pl_stream *stream);
pleat_status pl_mxnet_query(pl_cache *c, pleat_devptr ptr, pleat_block_info *out);
pleat_status pl_mxnet_give_back(pl_cache *c, uint64_t keep_bytes, bool wait, uint64_t *released);
pleat_status pl_mxnet_end_capture(pl_cache *c, pl_stream *stream);

/* The common part of all function tables. */
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
