/* segment.h - a range of addresses cut into blocks, and the chunks of its granules.
 *
 *   base                                                                     base + bytes
 *   |## live ##|-- free --|#### live ####|..... hole .....|~ stale ~|-- free --|... hole ...|
 *   |  granule  |  granule  |  granule  |  granule  |  granule  |  granule  | ...
 *
 * A chunk backs 2^k granules side by side and is mapped and unmapped as a whole. A granule is
 * vacant when it has a chunk and only free blocks have bytes in it. A granule is loose when all
 * granules of its chunk are vacant: then the chunk can be taken. */
#ifndef PLEAT_SEGMENTS_SEGMENT_H
#define PLEAT_SEGMENTS_SEGMENT_H

#include "segments/base/tree.h"
#include "segments/pleat/space/block.h"
#include "segments/pleat/space/granule.h"
#include "vmm/base/lock.h"
#include "vmm/chunk.h"
#include "vmm/range.h"

struct pl_area;

/* In `chunks`, of a heap that sleeps: the granule has given its memory back (sleep.h). */
#define PL_CHUNK_ASLEEP UINT64_MAX
/* In `parts`, of a place in flight: the chunk was taken from elsewhere. */
enum { PL_PART_TAKEN = 0x80 };

/* How many blocks in use begin or end in a granule. Free blocks are not in use. Holes and stale
 * blocks are not counted, since no other block has bytes in their granules. */
typedef struct pl_users {
    uint32_t n_live;
    uint32_t n_captured;
    uint32_t n_shared; /* except private pools' */
    uint32_t n_others; /* in flight, or shared blocks of private pools */
} pl_users;

static inline bool pl_users_none(const pl_users *users)
{
    return (users->n_live | users->n_captured | users->n_shared | users->n_others) == 0;
}

/* I1  the blocks cover the range without gap or overlap, in address order
 * I2  holes and stale blocks start and end on granules and neighbouring holes are merged
 * I3  last[g] is the highest block that starts in granule g, or NULL; `started` has a bit for each
 *     such granule, `started_any` a bit for each word of `started` that is not 0
 * I4  a granule has a chunk if and only if no hole and no stale block has bytes in it; where
 *     a block is in flight, only the flight knows
 * I5  a granule is vacant if and only if it has a chunk, only free blocks have bytes in it, and, in
 *     a private segment, it is not owned; while a segment opens, such a granule need not be vacant.
 *     It is loose if and only if all granules of its chunk are vacant
 * I6  n_loose and n_vacant are the numbers of such granules; `loose_any` has a bit for each word of
 *     `loose` that is not 0; n_resident is the number of granules with a chunk. The tally has the
 *     sum of n_vacant - n_loose over all segments
 * I7  the granules of a chunk lie side by side: each has its handle, its order, and its own place
 *     in it
 * I8  `users` counts, for each granule, the blocks in use that begin or end in it
 * I10 `asleep` has a bit for each granule with PL_CHUNK_ASLEEP, n_asleep is their number; the tally
 *     counts those that count as live, or as shared, a second time                            */
typedef struct pl_segment {
    pl_tree_node node;       /* by address: space.h */
    struct pl_area *area;    /* const */
    pl_tally *tally;         /* const: of all segments */
    struct pl_segment *next; /* in the area, in order of creation */
    pl_range range;          /* const: whole granules of `reserved` */
    pl_range reserved;       /* const: as reserved by the driver */
    unsigned granule_log2;   /* const */
    bool has_large;          /* some chunk of several granules was mapped here */
    bool is_private;         /* its keeper keeps: owned granules are never loose (keeper.h) */
    bool is_opening;         /* was private; granules become loose some at a time: drain.h */
    bool is_left;            /* at destruction: stays mapped, as work may run on it */
    pleat_devptr opened;     /* is_opening: granules below this address are done */
    struct pl_segment *next_opening;
    pl_block *first;
    void *tables;        /* const: the tables below, for the whole range; filled page by page */
    size_t tables_bytes; /* const */
    size_t capacity;     /* granules whose entries are in use; further entries are zero */
    pl_chunk *chunks;    /* by granule; 0 = none */
    uint8_t *orders;     /* by granule: the chunk's order; 0 without a chunk */
    uint8_t *parts;      /* by granule: its place in the chunk; 0 without a chunk */
    pl_block **last;
    uint64_t *started;
    uint64_t *started_any; /* a bit for every word of `started` that is not 0 */
    uint64_t *vacant;
    uint64_t *loose;
    uint64_t *loose_any;
    uint64_t *owned;  /* is_private: never loose, see keeper.h; else no meaning */
    uint64_t *asleep; /* those with PL_CHUNK_ASLEEP */
    pl_users *users;  /* by granule */
    size_t n_loose;
    size_t n_vacant;
    size_t n_resident; /* granules with a chunk */
    size_t n_asleep;   /* of these, with PL_CHUNK_ASLEEP */
    size_t n_refused;  /* blocks whose unmapping the driver refused */
    uint64_t
        n_reshaped; /* blocks split and absorbed so far: a change makes pointers to blocks stale */
} pl_segment;

/* The whole range is one hole made of a spare block of `store`. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_segment_create(pl_meta *meta, pl_block_store *store, struct pl_area *area,
                               pl_range range, unsigned granule_log2, pl_segment **out);
void pl_segment_destroy(pl_meta *meta, pl_segment *seg); /* not the range, not the blocks */
/* Have table entries in use up to `end`, and for one granule more. */
void pl_segment_use_tables(pl_meta *meta, pl_segment *seg, pleat_devptr end);

static inline size_t pl_segment_granule_bytes(const pl_segment *seg)
{
    return (size_t)1 << seg->granule_log2;
}

static inline size_t pl_segment_granule(const pl_segment *seg, pleat_devptr at)
{
    return (size_t)((at - seg->range.base) >> seg->granule_log2);
}

/* The first granule that `bytes` at `at` touch, at least one, and in *last the last granule. */
static inline size_t pl_segment_first_and_last(const pl_segment *seg, pleat_devptr at, size_t bytes,
                                               size_t *last)
{
    pleat_devptr offset = at - seg->range.base;
    size_t first = (size_t)(offset >> seg->granule_log2);

    *last = (size_t)((offset + bytes - 1) >> seg->granule_log2);
    return first;
}

static inline pleat_devptr pl_segment_address(const pl_segment *seg, size_t granule)
{
    return seg->range.base + ((pleat_devptr)granule << seg->granule_log2);
}

static inline pleat_devptr pl_segment_floor(const pl_segment *seg, pleat_devptr at)
{
    return at - ((at - seg->range.base) & (pl_segment_granule_bytes(seg) - 1));
}

static inline pleat_devptr pl_segment_ceil(const pl_segment *seg, pleat_devptr at)
{
    return pl_segment_floor(seg, at + pl_segment_granule_bytes(seg) - 1);
}

/* The granules [from, to) of the chunk at g; without a chunk g alone. */
static inline size_t pl_segment_chunk_from(const pl_segment *seg, size_t g)
{
    return g - seg->parts[g];
}

static inline size_t pl_segment_chunk_to(const pl_segment *seg, size_t g)
{
    return g - seg->parts[g] + ((size_t)1 << seg->orders[g]);
}

/* The granules from g on have the chunk, or none any more; or PL_CHUNK_ASLEEP. */
void pl_segment_put_chunk(pl_segment *seg, size_t g, pl_chunk chunk, unsigned order);
void pl_segment_clear_chunks(pl_segment *seg, size_t from, size_t to);
static inline size_t pl_segment_granules_of(const pl_segment *seg, const pl_block *b)
{
    return b->bytes >> seg->granule_log2;
}

/* Change b's state and bring the tally up to date. The caller updates indexes and queues. */
void pl_segment_become(pl_segment *seg, pl_block_store *store, pl_block *b, pl_block_state state);
/* Cut b at `at`: b keeps the low part, the new block (same state, lane, stamp) gets the high part.
 * The caller updates indexes and queues. Needs one spare block. */
pl_block *pl_segment_split(pl_segment *seg, pl_block_store *store, pl_block *b, pleat_devptr at);
/* Cut a free block, which begins in granule `from`, at `at`. b keeps the high part, with b's place
 * in index and queue. The new block gets the low part; the caller sets its state, lane and stamp.
 * Needs one spare block. */
pl_block *pl_segment_cut_low(pl_segment *seg, pl_block_store *store, pl_block *b, size_t from,
                             pleat_devptr at);
/* The reverse: `low`, b's lower neighbour, becomes part of the free block b. `low` begins in
 * granule `from` and is no longer counted. Gives the struct of `low` back. */
void pl_segment_take_low(pl_segment *seg, pl_block_store *store, pl_block *b, pl_block *low,
                         size_t from);
/* Append `next`, b's upper neighbour, to b, and give the struct of `next` back. */
void pl_segment_absorb(pl_segment *seg, pl_block_store *store, pl_block *b, pl_block *next);
/* The block that covers `at`. Walks over blocks that start in the granule of `at`, from the end
 * nearer to `at`. */
pl_block *pl_segment_find(const pl_segment *seg, pleat_devptr at);
/* The hole that covers `at`, or NULL. Walks over no blocks. */
pl_block *pl_segment_hole_at(const pl_segment *seg, pleat_devptr at);
/* *out is the first hole that starts in *granule or above, or NULL. Every look is taken from the
 * budget; returns false when the budget is spent. The next call goes on from *granule. */
bool pl_segment_next_hole(const pl_segment *seg, size_t *granule, size_t *budget, pl_block **out);

/* loose.c */
size_t pl_segment_pin_granules(pl_segment *seg, size_t from, size_t last);
/* The granules [from, last] are vacant no more, and no chunk among them is loose any more. Returns
 * how many granules were loose. Shortcut: most blocks are small and share their granule with live
 * blocks. A granule that is not vacant is not loose either. */
static inline size_t pl_segment_pin_between(pl_segment *seg, size_t from, size_t last)
{
    uint64_t word = seg->vacant[from / 64] >> from % 64;
    bool is_in_word = from / 64 == last / 64;

    if (from == last ? (word & 1) == 0 : is_in_word && word << (63 - (last - from)) == 0) {
        return 0;
    }
    return pl_segment_pin_granules(seg, from, last);
}
/* The same for the granules that [base, end) touches. */
static inline size_t pl_segment_pin(pl_segment *seg, pleat_devptr base, pleat_devptr end)
{
    return pl_segment_pin_between(seg, pl_segment_granule(seg, base),
                                  pl_segment_granule(seg, end - 1));
}
/* Only free blocks cover [from, to), at least one granule. Granules that no private pool owns
 * become vacant, and chunks that are all vacant become loose. Returns how many granules become
 * loose. */
size_t pl_segment_loosen_granules(pl_segment *seg, size_t from, size_t to);
/* A block that begins in granule `first` and ends in `last` is free. Granules that only free blocks
 * cover become vacant, and chunks that are all vacant become loose. Returns how many granules
 * become loose. */
static inline size_t pl_segment_loosen_between(pl_segment *seg, size_t first, size_t last)
{
    bool is_used = !pl_users_none(&seg->users[first]); /* mostly by live blocks */

    if (first == last) {
        return is_used ? 0 : pl_segment_loosen_granules(seg, first, last + 1);
    }
    first += is_used;
    last -= !pl_users_none(&seg->users[last]);
    return first <= last ? pl_segment_loosen_granules(seg, first, last + 1) : 0;
}
/* The same for the granules that [base, end) touches. */
static inline size_t pl_segment_loosen(pl_segment *seg, pleat_devptr base, pleat_devptr end)
{
    return pl_segment_loosen_between(seg, pl_segment_granule(seg, base),
                                     pl_segment_granule(seg, end - 1));
}
/* In a private segment: the granules that [base, end) touches are owned from now on. */
void pl_segment_own(pl_segment *seg, pleat_devptr base, pleat_devptr end);
/* Are all of them? */
bool pl_segment_is_owned(const pl_segment *seg, pleat_devptr base, pleat_devptr end);
void pl_segment_own_all(pl_segment *seg);
void pl_segment_own_none(pl_segment *seg);
/* The number of vacant, or of loose, granules that [base, end) touches. */
size_t pl_segment_count_vacant(const pl_segment *seg, pleat_devptr base, pleat_devptr end);
size_t pl_segment_count_loose(const pl_segment *seg, pleat_devptr base, pleat_devptr end);
/* Loose granules outside [base, end), in chunks that [base, end) touches. */
size_t pl_segment_count_loose_beside(const pl_segment *seg, pleat_devptr base, pleat_devptr end);
/* Loose granules in a row from `from` on, at most `most`. */
size_t pl_segment_loose_run(const pl_segment *seg, size_t from, size_t most);
/* The start of the first loose chunk at or after `from`; SIZE_MAX: none. While the lock was dropped
 * others may have put a chunk over `from`: such a chunk is passed over. */
size_t pl_segment_next_chunk(const pl_segment *seg, size_t from);

/* segment_check.c: 0, or the number of the first broken invariant. */
int pl_segment_check(const pl_segment *seg);

/* ---- asleep.c: granules under a heap that sleeps ----
 *
 * Such granules gave their memory back (sleep.h). The tally counts them as live or as shared. */

/* The granules [from, to) have PL_CHUNK_ASLEEP from now on. */
void pl_asleep_begin(pl_segment *seg, size_t from, size_t to);
/* The granules lose PL_CHUNK_ASLEEP now, or soon. */
void pl_asleep_end(pl_segment *seg, size_t from, size_t to);
/* Count the sleeping granules that b touches in the tally, or leave them out: b's state is about to
 * change, or has just changed. */
void pl_asleep_count(const pl_segment *seg, const pl_block *b, bool is_in);

#endif
