/* place.h - where a request could go that no resident run can hold.
 *
 * Under the device lock a search touches a bounded number of blocks. What it has not seen by then
 * either need not be seen (a place was found), or is seen in further holds of the lock. */
#ifndef PLEAT_SEGMENTS_PLACE_H
#define PLEAT_SEGMENTS_PLACE_H

#include "segments/pleat/space.h"

/* Blocks and granules that a search may touch in one hold of the lock, which has other work too. */
enum { PL_PLACE_BUDGET = PL_LOCK_MOST_TOUCHED / 8 * 5 };

/* A place: [at, at + bytes) lies in free blocks that the lane may use and in holes. */
typedef struct pl_place {
    pl_segment *segment;
    pl_block *first; /* the block that covers `at` */
    pleat_devptr at; /* start of a block, or of a granule in a hole */
    size_t n_new;    /* hole granules it touches: chunks it needs */
    size_t n_pin;    /* granules without live bytes that it touches, n_new included */
} pl_place;

/* A search, which may be interrupted anywhere. `first` and `last` are the blocks that cover the
 * start and the end of a window as long as the request; it slides up one gap after the other. */
typedef struct pl_place_scan {
    uint32_t lane;   /* const */
    size_t bytes;    /* const */
    size_t pin_room; /* const */
    size_t budget;   /* what may still be touched in this hold; the caller fills it up */
    pl_place best;   /* segment NULL = none so far */

    pl_block *first;   /* NULL = between two gaps */
    pl_block *last;    /* NULL = looking for the gap's start */
    pl_block *low;     /* covers the start of the granule where `first` begins, or begins the gap */
    size_t n_first;    /* hole granules of the gap below `first` */
    size_t n_last;     /* and below `last` */
    pleat_devptr base; /* of the gap */
    bool is_offered;   /* the start of `first` was offered */
    bool is_tight;     /* the gap's first granule is yet to be offered */
    size_t loose_from; /* granules [from, to), of which n_loose are loose: what was counted last */
    size_t loose_to;
    size_t n_loose;

    pl_segment *segment; /* pl_place_go_on: where it is; NULL = before the first */
    size_t granule;      /* the next that it looks at */
    pleat_devptr at;     /* where it was in a gap when the budget was spent */
    uint64_t n_reshaped; /* the segment's then: else `first` and `last` are stale */
} pl_place_scan;

void pl_place_begin(pl_place_scan *scan, uint32_t lane, size_t bytes, size_t pin_room);
/* Look through the area's gaps in no order until all are seen or the budget is spent; then those
 * that were seen come last next time. Returns whether all were seen: then scan->best is what
 * pl_place_search finds, else the best so far. Only within one hold of the lock. */
bool pl_place_try(pl_place_scan *scan, pl_area *area);
/* Look through all of the area's gaps in the order of their addresses, until the budget is spent:
 * then the lock may be dropped, and once it is held again and the budget filled up the next call
 * goes on, its places, however long, included. Returns whether the area's end is reached. What
 * changes meanwhile behind the search is not seen, so only if nothing did is "there is none" a
 * fact; and scan->best must be confirmed, if it was found in an earlier hold. */
bool pl_place_go_on(pl_place_scan *scan, const pl_area *area);
/* Is the place, found in an earlier hold, one still? Brings its counts up to date. It touches the
 * blocks of the place, as whoever reserves it does. */
bool pl_place_confirm(const pl_place_scan *scan, pl_place *place);

/* Of all places for `bytes` in the area that pin at most `pin_room` further granules, one that
 * needs the fewest new ones; of equal ones the lowest that starts with a gap or with a free block
 * behind a hole. Only gaps with holes are looked at: a gap without is a run, and the index finds
 * those. With the budget spent it is content with what it has found; while that is nothing it goes
 * on, in further holds of the lock as `pace` has it. Then `first` may be stale, and the place may
 * be none any more. Returns false if there is none. */
bool pl_place_search(pl_space *space, pl_pace *pace, pl_area *area, uint32_t lane, size_t bytes,
                     size_t pin_room, pl_place *out);

#endif
