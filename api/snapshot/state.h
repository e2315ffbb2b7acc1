/* state.h - a copy of what one device holds and of what happened there, of one instant.
 *
 * Pieces are as PyTorch's snapshots have them: blocks of segments, a segment being a longest run of
 * resident addresses of one allocator's segment. Holes are left out; neighbours that nobody uses
 * are one block. Host memory is taken before the allocator's lock is; under it things are copied
 * and nothing else. */
#ifndef PLEAT_API_SNAPSHOT_STATE_H
#define PLEAT_API_SNAPSHOT_STATE_H

#include "api/instance.h"

/* PyTorch's states of a block. */
typedef enum pl_snapshot_use {
    PL_SNAPSHOT_ALLOCATED,
    PL_SNAPSHOT_PENDING, /* freed; streams other than its own may still use it */
    PL_SNAPSHOT_INACTIVE,
} pl_snapshot_use;

typedef struct pl_snapshot_block {
    pleat_devptr base;
    uint64_t bytes;
    uint64_t requested_bytes; /* 0 = inactive */
    void *stream;             /* its segment's: a handle; NULL = the default one, or none */
    uint32_t frames;          /* of its allocation, should that be in the history; else 0 */
    uint32_t segment_frames;  /* is_first: of what made the segment */
    uint16_t pool;            /* of the state's pools */
    uint8_t use;              /* pl_snapshot_use */
    bool is_first;            /* a segment begins here */
    bool is_told_first;       /* and the history says so, too */
    bool is_small;            /* its segment is for small requests */
} pl_snapshot_block;

typedef struct pl_snapshot_state {
    pl_gpu *gpu;
    pl_snapshot_block *blocks; /* by address */
    size_t n_blocks;
    pl_history_entry *entries; /* oldest first */
    size_t n_entries;
    pleat_pool_id *pools; /* by the indices of blocks and entries */
    size_t n_pools;
} pl_snapshot_state;

/* PLEAT_OK or ENOMEM_HOST. What is copied lies in `host` and is the caller's; pl_snapshot_forget
 * gives it back, also after a failure. */
pleat_status pl_snapshot_copy(pl_gpu *gpu, pl_host *host, pl_snapshot_state *out);
void pl_snapshot_forget(pl_host *host, pl_snapshot_state *state);

#endif
