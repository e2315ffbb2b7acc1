/* allocator.h - the interface that every allocator implements: pleat itself and the classic caches.
 *
 * One pl_allocator manages one device. Addresses are numbers. All functions may be called from any
 * thread; an allocator guards itself (rank 20) and holds no lock across driver calls or callbacks.
 * Failures leave the state as before the call: live blocks, statistics of allocated and active
 * bytes, limits; what is resident may differ. */
#ifndef PLEAT_SEGMENTS_ALLOCATOR_H
#define PLEAT_SEGMENTS_ALLOCATOR_H

#include "vmm/base/pleat_types.h"
#include "vmm/device.h"
#include "vmm/stream.h"

typedef struct pl_allocator pl_allocator;

typedef enum pl_growth { PL_GROWTH_BALANCED, PL_GROWTH_FRUGAL, PL_GROWTH_AMPLE } pl_growth;
typedef enum pl_cross_stream { PL_CROSS_ORDER, PL_CROSS_SETTLED } pl_cross_stream;

/* Options of all allocators; each reads what concerns it. Sizes in bytes; 0 = unlimited. */
typedef struct pl_allocator_options {
    uint64_t limit_bytes; /* most resident bytes; 0 = none set */
    pl_growth growth;
    pl_cross_stream cross_stream;
    uint32_t wait_ms;      /* longest host wait before failing; 0 = never */
    unsigned token_refill; /* device operations per 1,000 events */
    unsigned token_cap;
    unsigned order_interval; /* events per budgeted ordered wait */
    unsigned keep_permille;  /* slack over the peak of live granules */
    size_t small_bytes;      /* requests below go to the small area */
    /* torch-native, in PyTorch's meaning; 0 = PyTorch's default. */
    size_t max_split_bytes;              /* blocks this big are not split; >= 20 MiB */
    size_t max_non_split_rounding_bytes; /* slack accepted for such a block; >= 20 MiB */
    double garbage_collection_threshold; /* of the limit, in [0, 1); 0 = off */
    unsigned roundup_divisions[16];      /* by log2(bytes) - 20, clamped; powers of two or 0 */
} pl_allocator_options;

void pl_allocator_options_init(pl_allocator_options *options); /* the defaults */

typedef struct pl_allocator_ops {
    const char *name; /* "pleat", "torch-native", ... */
    bool needs_vmm;
    pleat_status (*create)(pl_device *dev, const pl_allocator_options *options, pl_allocator **out);
    /* Waits for fences. EBUSY and *n_live when blocks live and !force. After PLEAT_OK or with force
     * the object is gone; *n_leaked = driver objects that could not be given back. */
    pleat_status (*destroy)(pl_allocator *a, bool force, size_t *n_live, size_t *n_leaked);
    /* bytes in [1, 2^60]. ENOMEM_DEVICE, EPENDING, ENOSPACE_VA, ENOMEM_HOST, EDRIVER, ... */
    pleat_status (*alloc)(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out);
    /* `stream`: where the caller frees; another than the owner counts as a recorded use.
     * EFOREIGN, EDOUBLEFREE (where it can tell). Never blocks on the GPU. */
    pleat_status (*free)(pl_allocator *a, pleat_devptr ptr, pl_stream *stream);
    pleat_status (*record_stream)(pl_allocator *a, pleat_devptr ptr, pl_stream *stream);
    /* Any address inside a live block. EFOREIGN. */
    pleat_status (*query)(pl_allocator *a, pleat_devptr ptr, pleat_block_info *out);
    /* Give memory back to the driver until at most keep_bytes are resident or nothing free is left.
     * Waits for fences only if `wait`. */
    pleat_status (*trim)(pl_allocator *a, uint64_t keep_bytes, bool wait, uint64_t *released);
    /* 0 = none. Gives back what is free and over; ENOMEM_DEVICE if live granules exceed it (then
     * the limit is as before). */
    pleat_status (*set_limit)(pl_allocator *a, uint64_t bytes);
    /* Blocks freed while `stream` was captured may be used again: the graph is gone. */
    pleat_status (*release_capture)(pl_allocator *a, pl_stream *stream);
    void (*stats)(pl_allocator *a, pleat_stats *out);
    void (*reset_peaks)(pl_allocator *a);
    /* Every walker; 0, or the number of the first broken invariant. */
    int (*check)(pl_allocator *a);
} pl_allocator_ops;

struct pl_allocator {
    const pl_allocator_ops *ops; /* const; each allocator embeds this as its first member */
};

/* The allocator of that name, or NULL. Names of all: pl_allocator_name(0..), NULL at the end. */
const pl_allocator_ops *pl_allocator_find(const char *name);
const char *pl_allocator_name(unsigned index);

extern const pl_allocator_ops pl_expandable_ops;   /* "pleat" */
extern const pl_allocator_ops pl_torch_native_ops; /* "torch-native" */

#endif
