/* moment.h - an allocator's memory after one event of a replay: a map of the addresses, and the
 * blocks that keep free memory from being used.
 *
 *   segment  |## a ##|--- free ---|# b #|------- free -------|
 *                     half to a,         all to b: it has no other neighbour
 *                     half to b
 *
 * Free memory is stranded if the allocator can neither give it back to the driver nor map it
 * elsewhere. The reason is a shared unit: part of it is in use. The unit is a segment (torch-native
 * and others without virtual memory management), a page (torch-expandable: 20 MiB; 2 MiB for small
 * blocks) or a granule (pleat). So tied granules, which are free as a whole, count as free, and not
 * as stranded. The bytes are charged to the blocks in use beside them. So the charges add up to the
 * stranded bytes. A site with large charges has scattered blocks.
 *
 * M1  where has_free: resident = live + pending + rounding + free
 *
 * Blocks are grouped by the stack of their allocation; without a known stack, by size and
 * stream. */
#ifndef PLEAT_BENCH_MOMENT_H
#define PLEAT_BENCH_MOMENT_H

#include "bench/base/failure.h"
#include "bench/run/map.h"
#include "bench/work/origin.h"

enum { BENCH_MOST_PIECES = 20000, BENCH_MOST_HOLDERS = 1000 };

/* Blocks of one stack, or of equal size and stream. */
typedef struct bench_holder {
    int64_t stack;          /* index in the work's origin; -1 = none known */
    uint64_t bytes;         /* size of each block, rounded up to 512; 0 = grouped by stack */
    int32_t stream;         /* -1 = grouped by stack */
    bool is_pending;        /* freed, but still used by work of other streams */
    uint64_t n_blocks;      /* in use at the moment */
    uint64_t live_bytes;    /* of these blocks */
    uint64_t charged_bytes; /* of stranded memory */
} bench_holder;

/* Plain memory without pointers, so that workers can pass it between processes. */
typedef struct bench_moment {
    uint64_t event;           /* in: the event of the first loop before the moment */
    bool is_reached;          /* false: the replay ended earlier */
    bool is_recorded;         /* of a snapshot, not of a replay (state.h) */
    bool has_failed;          /* the event is an allocation that was refused */
    uint64_t requested_bytes; /* of the allocation, refused or not; 0 = the event is a free */
    int32_t requested_stream;
    uint64_t n_failed_before; /* refused allocations before the moment */
    uint64_t live_bytes;      /* each block rounded up to 512 */
    uint64_t resident_bytes;
    bool has_map;  /* false: the allocator does not report its memory */
    bool has_free; /* false: the allocator reports only its blocks; the driver hides the rest */
    uint64_t free_bytes; /* in segments, or mapped nowhere */
    uint64_t pending_bytes;
    int64_t rounding_bytes; /* of live blocks beyond units of 512; negative: it rounds up less */
    uint64_t largest_free_bytes; /* the longest run of free addresses */
    uint64_t stranded_bytes;
    uint64_t n_merged; /* pieces that were joined to save room */
    unsigned n_pieces;
    bench_map_piece pieces[BENCH_MOST_PIECES];
    uint64_t n_other_holders; /* beyond the first ones in `holders`, by charge */
    unsigned n_holders;
    bench_holder holders[BENCH_MOST_HOLDERS];
} bench_moment;

/* A block of the replay, by its slot. */
typedef struct bench_slot {
    uint64_t ptr; /* 0 = not live: never allocated, failed or freed */
    uint64_t bytes;
    uint64_t born; /* number of the allocating event, over all loops */
    uint32_t stream;
    bool is_shared; /* also used on another stream */
} bench_slot;

typedef struct bench_moment_view {
    pl_allocator *allocator;
    const bench_origin *origin;
    uint64_t granule_bytes;
    void *const *streams; /* handles, by their numbers in the work */
    uint32_t n_streams;
    const bench_slot *slots;
    size_t n_slots;
} bench_moment_view;

/* Write the present state of the allocator's memory. False and a message when out of host
 * memory. */
bool bench_moment_take(bench_moment *moment, const bench_moment_view *view, bench_failure *failure);

/* For tests. `pieces` are whole segments ordered by address. Charge their stranded parts to
 * charges[i] of the pieces in use beside them, and return the sum of the charges.
 * `page_bytes(context, piece)` is the unit that the allocator can give back of the piece's segment;
 * 0 = only the whole segment. */
uint64_t bench_moment_charge(const bench_map_piece *pieces, size_t n,
                             uint64_t (*page_bytes)(const void *context,
                                                    const bench_map_piece *piece),
                             const void *context, uint64_t *charges);

#endif
