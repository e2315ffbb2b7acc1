/* tf_bfc.h - shared by the files of tf-bfc: TensorFlow's best-fit allocator with coalescing.
 *
 *   region (one cuMemAlloc)
 *   |## live ##|------ free ------|# live #|-- free --|
 *
 * Sizes are multiples of 256. A request takes the smallest free chunk that fits, in any region; of
 * equal chunks the lowest. The chunk is split in two cases: it is at least twice the request, or
 * the rest would exceed 128 MiB (or the option's fraction of the memory limit). A freed chunk
 * merges with free neighbours of its region. When no chunk fits, the driver is asked for a region.
 * The first has 2 MiB, and each later one twice as much, within the memory limit. After each
 * refusal the region is a tenth smaller. When that fails, all wholly free regions are given back
 * and the driver is asked once more.
 *
 * Differences from TensorFlow:
 * - Addresses are multiples of 256, as in TensorFlow. All other allocators here give multiples of
 *   512.
 * - TensorFlow walks 21 bins upwards, each a set of chunks by size and address. This file uses one
 *   tree by size and address, which gives the same order.
 * - BFC serves one stream. Here a free chunk knows its user streams (order.h). Another stream that
 *   gets the chunk waits on the GPU for these streams. If a user stream is out of reach, the host
 *   waits. A merged chunk knows the streams of all its parts. Idle chunks are not preferred: the
 *   choice is BFC's. Where a capture forbids the wait, take the smallest chunk that needs no wait.
 * - Timestamps of frees, and the retry that waits up to 10 s for other threads' frees, are left
 *   out. A request becomes smaller only after a lack of memory; other driver failures are returned.
 * - Chunks of different regions are never merged, even of neighbouring regions.
 * - If another user stream of a chunk is being captured at the chunk's free, the chunk is held
 *   until pl_allocator_ops.release_capture. BFC knows nothing of captures. A chunk that the
 *   captured stream itself allocated and freed is free as usual. Other streams may get this chunk
 *   after the capture, while the graph may still use it. A program that launches the graph must
 *   keep the chunk live.
 *
 * The lock of the pl_cache guards all fields below, unless noted otherwise. Source:
 * xla/tsl/framework/bfc_allocator.cc of OpenXLA (00df9eef). */
#ifndef PLEAT_SEGMENTS_CLASSIC_TF_BFC_H
#define PLEAT_SEGMENTS_CLASSIC_TF_BFC_H

#include "segments/base/tree.h"
#include "segments/classic/cache.h"
#include "segments/classic/depart.h"
#include "segments/classic/doubt.h"
#include "segments/classic/order.h"

#define PL_BFC_QUANTUM ((size_t)256)             /* kMinAllocationSize */
#define PL_BFC_FIRST_REGION ((size_t)2 << 20)    /* with allow_growth */
#define PL_BFC_FRAGMENTATION ((size_t)128 << 20) /* most excess of a chunk over its request */

typedef struct pl_bfc_chunk pl_bfc_chunk;
typedef struct pl_bfc_region pl_bfc_region;

typedef enum pl_bfc_state {
    PL_BFC_FREE,    /* in the tree of free chunks */
    PL_BFC_LIVE,    /* in the map */
    PL_BFC_FREEING, /* in the map; free() is asking the driver with the lock dropped */
    PL_BFC_HELD,    /* in pl_bfc.held: a graph may use the chunk */
    PL_BFC_TAKEN,   /* in no tree, map or list: a call is working on the chunk */
} pl_bfc_state;

struct pl_bfc_region {
    pl_tree_node node; /* in pl_bfc.regions, by address */
    pleat_devptr ptr;  /* const */
    size_t bytes;      /* const */
    pl_bfc_chunk *first;
};

struct pl_bfc_chunk {
    pl_tree_node node; /* in pl_bfc.free if free, in pl_bfc.live if live or freeing */
    size_t bytes;
    pleat_devptr ptr;
    pl_bfc_chunk *prev; /* neighbours in the region */
    pl_bfc_chunk *next;
    pl_bfc_region *region;
    pl_bfc_state state;
    size_t requested_bytes;
    pl_stream *stream;  /* its last owner; NULL = none or several */
    pl_order_uses uses; /* of a live chunk: lanes so far */
    uint64_t held;      /* lanes with captures that hold the chunk */
    union {
        pl_bfc_chunk *next_held;
        pl_leaver leaver; /* taken, on the way to the driver */
    };
    pl_doubt doubt; /* in pl_bfc.doubtful */
};

/* In TensorFlow's meaning. */
typedef struct pl_bfc_options {
    bool allow_growth;             /* regions of 2, 4, 8... MiB, not one of all memory */
    bool garbage_collection;       /* give back wholly free regions before failing */
    double fragmentation_fraction; /* of the memory limit, in [0, 1); 0 = 128 MiB */
} pl_bfc_options;

extern const pl_option_table pl_bfc_option_table;

static inline pl_bfc_options pl_bfc_own(const pl_allocator_options *options)
{
    pl_bfc_options own;
    pl_own_get(options, &pl_bfc_option_table, &own);
    return own;
}

/* I1  every region's chunks tile it in address order, linked both ways; sizes are multiples of 256
 * I2  no two neighbouring chunks of a region are both free
 * I3  a chunk is in the tree of free chunks if and only if it is free
 * I4  the tree of live chunks holds exactly the live and the freeing chunks
 * I5  pl_bfc.held lists exactly the held chunks, and a chunk is held if and only if `held` != 0
 * I6  reserved_bytes == bytes of all regions + releasing_bytes, and the statistic agrees
 * I7  the statistics of allocated, active, inactive split and requested agree with the chunks
 * I8  trees keep their own rules
 * I9  free_bytes == bytes of the free chunks; the doubtful list has the free chunks used by several
 *     streams, except some with uses known to be over on all streams but one */
typedef struct pl_bfc {
    pl_cache base;           /* reserved_bytes: pool_bytes */
    pl_bfc_options options;  /* const */
    size_t most_waste_bytes; /* const: max_internal_fragmentation_bytes */
    pl_order order;
    pl_tree free;    /* chunks by size and address */
    pl_tree regions; /* by address */
    pl_tree live;    /* live and freeing chunks, by address */
    pl_bfc_chunk *held;
    uint64_t free_bytes;
    pl_doubt *doubtful;
    size_t region_bytes; /* of the next region (curr_region_allocation_bytes_) */
} pl_bfc;

static inline pl_bfc *pl_bfc_of(pl_allocator *a)
{
    return (pl_bfc *)(void *)a;
}

/* Tell the observer what happened to a block. Lock held. */
static inline void pl_bfc_tell(const pl_bfc *b, pl_action action, const pl_bfc_chunk *chunk)
{
    pl_tell(b->base.observer, action, chunk->ptr, chunk->requested_bytes, chunk->stream, NULL);
}

/* Tell the observer what happened to a region. */
static inline void pl_bfc_tell_region(const pl_bfc *b, pl_action action,
                                      const pl_bfc_region *region)
{
    pl_tell(b->base.observer, action, region->ptr, region->bytes, NULL, NULL);
}

static inline size_t pl_bfc_round(size_t bytes)
{
    return (bytes + PL_BFC_QUANTUM - 1) / PL_BFC_QUANTUM * PL_BFC_QUANTUM;
}

static inline bool pl_bfc_is_split(const pl_bfc_chunk *chunk)
{
    return chunk->prev || chunk->next;
}

/* Does this free chunk fill the region? */
static inline bool pl_bfc_is_whole(const pl_bfc_chunk *chunk)
{
    return chunk->state == PL_BFC_FREE && !pl_bfc_is_split(chunk);
}

/* tf_bfc_chunk.c: the chunks. No driver calls; all with the lock held. */
void pl_bfc_chunks_init(pl_bfc *b);
/* The live or freeing chunk that begins at ptr, or NULL. */
pl_bfc_chunk *pl_bfc_live_at(const pl_bfc *b, pleat_devptr ptr);
pl_bfc_chunk *pl_bfc_find(const pl_bfc *b, size_t rounded_bytes); /* best fit, or NULL */
/* The best fit that `stream` may have without a wait, or NULL. */
pl_bfc_chunk *pl_bfc_find_quiet(const pl_bfc *b, size_t rounded_bytes, const pl_stream *stream);
bool pl_bfc_should_split(const pl_bfc *b, const pl_bfc_chunk *chunk, size_t rounded_bytes);
void pl_bfc_take_out(pl_bfc *b, pl_bfc_chunk *chunk); /* free -> taken */
void pl_bfc_put_back(pl_bfc *b, pl_bfc_chunk *chunk); /* taken -> free, without merging */
void pl_bfc_recycle(pl_bfc *b, pl_bfc_chunk *chunk);  /* taken -> free, merged */
/* Make `chunk`, which is taken, live. A chunk is split if `spare` is given for the rest; else
 * `spare` is NULL. The map must have room. */
void pl_bfc_hand_out(pl_bfc *b, pl_bfc_chunk *chunk, pl_bfc_chunk *spare, size_t bytes,
                     pl_stream *stream);
/* live -> taken: counts as active (PyTorch's term), but not as allocated any more */
void pl_bfc_end_live(pl_bfc *b, pl_bfc_chunk *chunk);
void pl_bfc_end_active(pl_bfc *b, pl_bfc_chunk *chunk); /* taken: counts as active no more */

/* tf_bfc_grow.c: regions, and waits of streams. Lock held on entry and exit, dropped around driver
 * calls. */
/* Serve a request that a plain fit cannot: by a wait of the stream, by growing, by collecting. *out
 * is a live chunk. */
pleat_status pl_bfc_get(pl_bfc *b, size_t bytes, pl_stream *stream, pl_bfc_chunk **out);
/* Give wholly free regions to the driver while more than keep_bytes are reserved. A region stays if
 * one of its streams is being captured, or if its uses are not over after a wait of at most wait_ms
 * for each stream. Other regions go instead. EDRIVER, ENOMEM_HOST: some regions could not be given
 * back and stay. */
pleat_status pl_bfc_release_free(pl_bfc *b, uint64_t keep_bytes, uint32_t wait_ms,
                                 uint64_t *released);
/* For destroy: every region, with live chunks or not. Returns how many the driver refused. */
size_t pl_bfc_release_all(pl_cache *c);

/* tf_bfc_check.c: for pl_cache_kind. Statistics walk only the doubtful chunks. */
int pl_bfc_check(pl_cache *c);
void pl_bfc_tell_stats(pl_cache *c, pleat_stats *out);
void pl_bfc_visit(pl_cache *c, void (*see)(void *context, const pl_piece *piece), void *context);

#endif
