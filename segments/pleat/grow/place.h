/* place.h - places for a request that no resident run can hold.
 *
 * In one hold of the device lock a search touches a bounded number of blocks. If the search has
 * found no place by then, the search goes on in further holds. */
#ifndef PLEAT_SEGMENTS_PLACE_H
#define PLEAT_SEGMENTS_PLACE_H

#include "segments/pleat/grow/request.h"
#include "segments/pleat/space/space.h"

/* Blocks and granules that a search may touch in one hold. The hold has further work. */
enum { PL_PLACE_BUDGET = PL_LOCK_MOST_TOUCHED / 8 * 5 };

/* A place: [at, at + bytes) lies in free blocks that the lane may use and in holes. */
typedef struct pl_place {
    pl_segment *segment;
    pl_block *first; /* the block that covers `at` */
    pleat_devptr at; /* start of a block, or of a granule in a hole */
    size_t n_new;    /* granules of holes touched: chunks needed */
    size_t n_pin;    /* granules pinned: n_new and all loose granules touched */
    uint64_t rank;   /* the least of all places is taken: n_new, or what somebody's own rule says */
} pl_place;

/* A search, which may be interrupted anywhere. A window as long as the request slides up gap after
 * gap. `first` and `last` are the blocks that cover the window's start and end. */
typedef struct pl_place_scan {
    uint32_t lane;   /* const */
    size_t bytes;    /* const */
    size_t pin_room; /* const */
    const pl_space
        *ranks;    /* const; has a rule of somebody's own for places; NULL = pleat's holds */
    size_t budget; /* blocks that may still be touched in this hold; refilled by the caller */
    pl_place best; /* segment NULL = none so far */

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

    pl_segment *segment; /* pl_place_go_on: the segment under search; NULL = not begun */
    size_t granule;      /* the next granule to look at */
    pleat_devptr at;     /* address in a gap when the budget was spent */
    uint64_t n_reshaped; /* the segment's count at `at`; once changed, blocks may be gone */
} pl_place_scan;

/* Is a place at `at` better than the best so far? */
static inline bool pl_place_beats(const pl_place *best, uint64_t rank, pleat_devptr at)
{
    return best->segment == NULL || rank < best->rank || (rank == best->rank && at < best->at);
}

void pl_place_begin(pl_place_scan *scan, uint32_t lane, size_t bytes, size_t pin_room);
/* Look through the area's gaps in no order, until all are seen or the budget is spent. If the
 * budget is spent, the next search begins with the gaps not seen. Returns whether all were seen. If
 * so, scan->best is the answer of pl_place_search, else the best so far. Only within one hold. */
bool pl_place_try(pl_place_scan *scan, pl_area *area);
/* Look through all of the area's gaps in the order of their addresses, until the budget is spent.
 * The caller may then drop the lock, take the lock again, fill the budget up and call again. The
 * search goes on even in the middle of a place. Returns whether the area's end is reached. The
 * search does not see changes behind its position. So the area has no place for certain only if
 * nothing changed. A scan->best from an earlier hold may be taken: pl_flight_reserve finds out. */
bool pl_place_go_on(pl_place_scan *scan, const pl_area *area);
/* Find a place for `bytes` in the area that pins at most `pin_room` further granules and needs the
 * fewest new granules, or has the least rank by a rule of somebody's own (policy.h). Of equal
 * places, the lowest that starts with a gap or with a free block behind a hole. Only gaps with
 * holes are looked at, as a gap without holes is a run, which an index finds. When the budget is
 * spent, the best so far is the answer. Without any, the search goes on in further holds, as `pace`
 * says. After further holds out->first may be stale, and the place may be no longer free. Returns
 * false if no place was found. */
bool pl_place_search(pl_space *space, pl_pace *pace, pl_area *area, uint32_t lane, size_t bytes,
                     size_t pin_room, pl_place *out);

/* ---- requests with a fixed address: pages of a buffer ---- */

/* Find out what the request needs in its place. PLEAT_OK; EPENDING (part of the place is, or may
 * be, in use; *out says what the request will need afterwards); EPOISONED. */
pleat_status pl_fixed_place(const pl_space *space, const pl_request *rq, pl_place *out);
/* If all of the place is resident and free for the request, make a live block of the place, outside
 * the map of live blocks; else NULL. Needs two spare blocks. */
pl_block *pl_fixed_fit(pl_space *space, const pl_request *rq);

#endif
