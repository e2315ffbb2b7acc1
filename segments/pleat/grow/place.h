/* place.h - where a request could go that no resident run can hold.
 *
 * In one hold of the device lock a search touches a bounded number of blocks. If it has found a
 * place by then, it is content with that; otherwise it goes on in further holds. */
#ifndef PLEAT_SEGMENTS_PLACE_H
#define PLEAT_SEGMENTS_PLACE_H

#include "segments/pleat/space/space.h"

/* Blocks and granules that a search may touch in one hold; the rest is for other work in it. */
enum { PL_PLACE_BUDGET = PL_LOCK_MOST_TOUCHED / 8 * 5 };

/* A place: [at, at + bytes) lies in free blocks that the lane may use and in holes. */
typedef struct pl_place {
    pl_segment *segment;
    pl_block *first; /* the block that covers `at` */
    pleat_devptr at; /* start of a block, or of a granule in a hole */
    size_t n_new;    /* granules of holes that it touches: the chunks that it needs */
    size_t n_pin;    /* granules that it would pin: n_new and the loose ones that it touches */
} pl_place;

/* A search, which may be interrupted anywhere. A window as long as the request slides up one gap
 * after the other; `first` and `last` are the blocks that cover its start and its end. */
typedef struct pl_place_scan {
    uint32_t lane;   /* const */
    size_t bytes;    /* const */
    size_t pin_room; /* const */
    size_t budget;   /* blocks that may still be touched in this hold; the caller fills it up */
    pl_place best;   /* segment NULL = none so far */

    pl_block *first;   /* NULL = between two gaps */
    pl_block *last;    /* NULL = looking for the gap's start */
    pl_block *low;     /* covers the start of the granule where `first` begins, or begins the gap */
    size_t n_first;    /* granules of the gap's holes below `first` */
    size_t n_last;     /* granules of the gap's holes below `last` */
    pleat_devptr base; /* of the gap */
    bool is_offered;   /* the start of `first` was offered */
    bool is_tight;     /* the gap's first granule is yet to be offered */
    size_t loose_from; /* the last count of loose granules: n_loose of [loose_from, loose_to) */
    size_t loose_to;
    size_t n_loose;

    pl_segment *segment; /* pl_place_go_on: where the search is; NULL = before the first segment */
    size_t granule;      /* the next granule that it looks at */
    pleat_devptr at;     /* where in a gap it was when the budget was spent */
    uint64_t n_reshaped; /* the segment's count then; if that has changed, blocks may be gone */
} pl_place_scan;

void pl_place_begin(pl_place_scan *scan, uint32_t lane, size_t bytes, size_t pin_room);
/* Look through the area's gaps in no order until all are seen or the budget is spent; in the latter
 * case the next search begins with the other gaps. Returns whether all were seen: then scan->best
 * is what pl_place_search finds, otherwise it is the best so far. Only within one hold. */
bool pl_place_try(pl_place_scan *scan, pl_area *area);
/* Look through all of the area's gaps in the order of their addresses, until the budget is spent.
 * The caller may then drop the lock, take it again, fill the budget up and call again: the search
 * goes on where it was, even in the middle of a place. Returns whether the area's end is reached.
 * The search does not see what others change behind it: so the area is known to have no place only
 * if nothing changed, and a scan->best from an earlier hold must be confirmed. */
bool pl_place_go_on(pl_place_scan *scan, const pl_area *area);
/* Is the place, which was found in an earlier hold, still a place? Brings its counts up to date.
 * Touches all blocks of the place. */
bool pl_place_confirm(const pl_place_scan *scan, pl_place *place);

/* Of all places for `bytes` in the area that pin at most `pin_room` further granules, find one that
 * needs the fewest new ones; of equal ones the lowest that starts with a gap or with a free block
 * behind a hole. Only gaps with holes are looked at: a gap without holes is a run, and the index
 * finds those. When the budget is spent, the best so far is the answer; if there is none yet, the
 * search goes on in further holds, as `pace` says. After those, out->first may be stale, and the
 * place may no longer be one. Returns false if there is none. */
bool pl_place_search(pl_space *space, pl_pace *pace, pl_area *area, uint32_t lane, size_t bytes,
                     size_t pin_room, pl_place *out);

#endif
