/* mempool.h - the model of the driver's own stream-ordered pools (cuMemAllocAsync).
 *
 *   segment: one piece of device memory at fixed addresses, a whole number of units if possible
 *   |## live ##|- pending: freed on stream 3, point 17 -|- settled -|## live ##|--- settled ---|
 *
 * A pool takes memory from the device a segment at a time, places blocks by best fit and gives back
 * wholly settled segments. pleat_sim.h describes the model's promises and omissions. A pending
 * piece remembers the point on a stream's timeline when it is free. The piece becomes settled when
 * the host has observed the point pass.
 *
 * N1  the pieces of a segment tile it in address order, in multiples of SIM_MEMPOOL_ALIGN
 * N2  no two neighbours are both settled
 * N3  the index holds exactly the settled pieces, the list exactly the pending ones
 * N4  reserved_bytes == sum of the segments <= most_bytes, unless that is 0; used_bytes == sum of
 *     what was asked for the live pieces
 * N5  heads[p] is the first piece that starts within page p of its segment, or NULL
 * N6  n_outstanding == live pieces + frees whose point has not passed
 * Guarded by sim.lock. */
#ifndef PLEAT_SIM_MEMPOOL_H
#define PLEAT_SIM_MEMPOOL_H

#include "vmm/tools/sim/entries/skip.h"
#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/work/sim_stream.h"

/* Drivers report 32 MiB as reserved after a first small allocation, and later a multiple of that
 * (84,490,059,776 bytes in rmm#1245). Block addresses are multiples of 512, as with cuMemAlloc. */
#define SIM_MEMPOOL_UNIT (UINT64_C(32) << 20)
#define SIM_MEMPOOL_ALIGN UINT64_C(512)
enum { SIM_MEMPOOL_PAGE_SHIFT = 16 };

typedef struct sim_mempool sim_mempool;
typedef struct sim_piece sim_piece;

typedef enum sim_piece_state {
    SIM_PIECE_LIVE,
    SIM_PIECE_PENDING,
    SIM_PIECE_SETTLED
} sim_piece_state;

struct sim_mempool_segment {
    sim_mempool *pool;
    sim_mempool_segment *older; /* neighbours in the pool's list */
    sim_mempool_segment *newer;
    sim_mapping *mapping;
    uint64_t base;
    uint64_t bytes;
    sim_piece *first;
    sim_piece *heads[]; /* by page of 1 << SIM_MEMPOOL_PAGE_SHIFT bytes */
};

struct sim_piece {
    sim_skip_node node; /* settled: in the pool's index */
    sim_mempool_segment *segment;
    sim_piece *prev; /* neighbours in the segment */
    sim_piece *next;
    uint64_t ptr;
    uint64_t bytes;
    uint64_t asked_bytes; /* live: the size asked for */
    sim_piece_state state;
    /* pending: free at `position` of the stream in `slot`, after `deps` */
    uint32_t slot;
    uint64_t position;
    sim_clock *deps;
    sim_piece *earlier; /* neighbours in the list of pending pieces */
    sim_piece *later;
};

struct sim_mempool {
    uint32_t index;
    int device;
    bool is_default;
    bool is_destroyed; /* the handle is void; the memory goes once nothing is outstanding */
    bool follows_events;
    bool is_opportunistic;
    bool inserts_dependencies;
    uint64_t rights;     /* SIM_GRANULE_READ and _WRITE bits of all its memory */
    uint64_t most_bytes; /* 0 = what the device has */
    uint64_t threshold_bytes;
    uint64_t reserved_bytes, reserved_high;
    uint64_t used_bytes, used_high;
    uint64_t n_outstanding;
    sim_mempool_segment *newest;
    sim_skip settled;
    sim_piece *first_pending;
    sim_piece *last_pending;
};

/* mempool.c: the pools. */
cu_result sim_mempool_create(const cu_mempool_props *props, cu_mempool *out);
cu_result sim_mempool_destroy(sim_mempool *pool);
sim_mempool *sim_mempool_find(cu_mempool handle); /* NULL: none, or destroyed */
sim_mempool *sim_mempool_default(int device);     /* made at first use */
cu_mempool sim_mempool_handle(const sim_mempool *pool);
cu_result sim_mempool_set(sim_mempool *pool, int attribute, const void *value);
cu_result sim_mempool_get(sim_mempool *pool, int attribute, void *value);
cu_result sim_mempool_set_access(sim_mempool *pool, const cu_access_desc *desc, size_t n);
/* Give back wholly settled segments, the newest first; keep at least `keep_bytes` reserved. */
void sim_mempool_trim(sim_mempool *pool, uint64_t keep_bytes);
/* The host has synchronised. Finished frees count as observed, and pools give back memory above
 * their thresholds. */
void sim_mempool_synchronized(void);
/* A free's point on its stream has passed. */
void sim_mempool_retire(uint32_t index);
uint64_t sim_mempool_count(int device, uint64_t *reserved_bytes); /* pools that were created */
void sim_mempool_fini(void);
/* Adds a wholly settled segment for a block of `bytes`; NULL: no memory or no addresses. */
sim_piece *sim_mempool_grow(sim_mempool *pool, uint64_t bytes);

/* mempool_block.c: blocks. */
cu_result sim_mempool_alloc(sim_mempool *pool, sim_stream *stream, size_t bytes, cu_devptr *out);
/* The live block that starts at `ptr`, or NULL. */
sim_piece *sim_mempool_find_live(uint64_t ptr);
void sim_mempool_free(sim_piece *piece, sim_stream *stream);
void sim_mempool_free_now(sim_piece *piece); /* cuMemFree: nobody uses the block any more */
/* Do live blocks cover the accesses, as far as the accesses touch pools? Else *first is the first
 * uncovered access. */
bool sim_mempool_covers(const pleat_sim_access *accesses, size_t n, const pleat_sim_access **first);

/* mempool_piece.c: pieces. */
sim_piece *sim_piece_make_first(sim_mempool_segment *segment); /* settled, the whole of it */
sim_piece *sim_piece_at(const sim_mempool_segment *segment, uint64_t ptr); /* that holds ptr */
void sim_piece_file(sim_mempool *pool, sim_piece *piece);   /* into index or list, by its state */
void sim_piece_unfile(sim_mempool *pool, sim_piece *piece); /* and out of it */
/* Settles a free piece that is not filed, merges it with settled neighbours and files the
 * result. */
void sim_piece_settle(sim_mempool *pool, sim_piece *piece);
/* Settle every pending piece whose point has passed. */
void sim_piece_settle_passed(sim_mempool *pool);
/* Make [first, first + bytes), covered by free pieces, one live piece. The rest of the last piece
 * keeps its state. */
sim_piece *sim_piece_take(sim_mempool *pool, sim_piece *first, uint64_t bytes);
void sim_piece_delete(sim_piece *piece); /* it must not be filed */

/* mempool_fit.c: the search. */
/* The first piece of the best place for `bytes` on that stream, or NULL. With `any`, also pending
 * memory with a new dependency, to be added by sim_mempool_depend. */
sim_piece *sim_mempool_fit(const sim_mempool *pool, const sim_stream *stream, uint64_t bytes,
                           bool any);
void sim_mempool_depend(const sim_piece *first, uint64_t bytes, sim_stream *stream);

#endif
