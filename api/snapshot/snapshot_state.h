/* snapshot_state.h - a copy of one device's state and history at one instant.
 *
 * Pieces are as in PyTorch's snapshots: blocks of segments. A segment is a longest row of resident
 * addresses within one of the allocator's segments. Holes are left out; unused neighbours are one
 * block. Host memory is allocated before the allocator's lock is taken, so that under the lock
 * state is only copied. */
#ifndef PLEAT_API_SNAPSHOT_STATE_H
#define PLEAT_API_SNAPSHOT_STATE_H

#include "api/instance/instance.h"

/* PyTorch's states of a block. */
typedef enum pl_snapshot_use {
    PL_SNAPSHOT_ALLOCATED,
    PL_SNAPSHOT_PENDING, /* freed, but further streams may still use it */
    PL_SNAPSHOT_INACTIVE,
} pl_snapshot_use;

typedef struct pl_snapshot_block {
    pleat_devptr base;
    uint64_t bytes;
    uint64_t requested_bytes; /* 0 = inactive */
    void *stream;             /* its segment's stream; NULL = the default stream, or none */
    const char *tag;          /* its segment's; NULL = none */
    uint32_t frames;          /* stack of its allocation, from the history; 0 = unknown */
    uint32_t segment_frames;  /* is_first: stack of the segment's maker */
    uint16_t pool;            /* index in the state's pools */
    uint8_t use;              /* pl_snapshot_use */
    bool is_first;            /* first block of a segment */
    bool is_told_first;       /* the history also says so */
    bool is_small;            /* its segment is for small requests */
    bool is_asleep;           /* its segment's tag sleeps */
} pl_snapshot_block;

typedef struct pl_snapshot_state {
    pl_gpu *gpu;
    pl_snapshot_block *blocks; /* by address */
    size_t n_blocks;
    pl_history_entry *entries; /* oldest first */
    size_t n_entries;
    uint64_t n_told;      /* the number behind the newest entry's (pl_history_copy) */
    pleat_pool_id *pools; /* by the indices of blocks and entries */
    size_t n_pools;
} pl_snapshot_state;

/* PLEAT_OK or ENOMEM_HOST. The copy lies in `host` and belongs to the caller; give it back with
 * pl_snapshot_forget, also after a failure. */
pleat_status pl_snapshot_copy(pl_gpu *gpu, pl_meta *meta, pl_snapshot_state *out);
void pl_snapshot_forget(pl_meta *meta, pl_snapshot_state *state);
/* The block that begins there, or NULL. */
pl_snapshot_block *pl_snapshot_find(const pl_snapshot_state *state, pleat_devptr base);

#endif
