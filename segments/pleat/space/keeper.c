/* keeper.c - see keeper.h. Guarded by the device lock. */
#include "segments/pleat/space/keeper.h"

#include "segments/pleat/space/run.h"

enum { LEAST_SEGMENT = 8 /* granules */, PARTS = 64 };
enum { QUIET_LOOKS = 256, RECYCLE_LOOKS = 8 };

/* ---- areas ----------------------------------------------------------------------------------- */

/* May a new keeper get the area? No, if a block in the area is live, shared, captured or in flight,
 * if a segment is opening, or if the blocks are too many to look at. Makes the indexes that pending
 * blocks need in a keeper's area. */
static bool may_recycle(pl_space *space, pl_area *area)
{
    size_t n_looks = QUIET_LOOKS;

    if (area->n_used > 0) {
        return false;
    }
    for (const pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
        for (const pl_block *b = seg->first; b != NULL; b = b->next) {
            bool is_pending = b->state == PL_BLOCK_FREE && b->lane != PL_LANE_SETTLED;
            if (b->state == PL_BLOCK_FLIGHT || n_looks-- == 0 || seg->is_opening ||
                (is_pending && pl_area_reserve_index(&space->meta, area, b->lane) != PLEAT_OK)) {
                return false;
            }
        }
    }
    return true;
}

pl_segment *pl_keeper_next_segment(const pl_keeper *keeper, const pl_segment *seg)
{
    const pl_area *area = seg != NULL ? seg->area->next : keeper->areas;
    bool is_last = seg != NULL && seg->area->class == PL_CLASS_BUFFER;

    if (seg != NULL && seg->next != NULL) {
        return seg->next;
    }
    while (area == NULL || area->segments == NULL) {
        if (area == NULL && is_last) {
            return NULL;
        }
        is_last = is_last || area == NULL;
        area = area != NULL ? area->next : keeper->buffers;
    }
    return area->segments;
}

static size_t resident_bytes(const pl_area *area)
{
    size_t n = 0;

    for (const pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
        n += seg->n_resident << seg->granule_log2;
    }
    return n;
}

void pl_keeper_release_area(pl_space *space, pl_area *area)
{
    area->next = NULL;
    *(space->places.released != NULL ? &space->places.last_released->next
                                     : &space->places.released) = area;
    space->places.last_released = area;
}

/* Take an area that a keeper may get out of the released areas. Others go to the end of the list.
 * NULL if a keeper may get none of the first RECYCLE_LOOKS areas. */
static pl_area *recycle(pl_space *space)
{
    for (unsigned n = RECYCLE_LOOKS; n > 0 && space->places.released != NULL; n--) {
        pl_area *area = space->places.released;
        space->places.released = area->next;
        if (may_recycle(space, area)) {
            return area;
        }
        pl_keeper_release_area(space, area);
    }
    return NULL;
}

static void tell_memory(const pl_space *space, const pl_area *area, pl_action action)
{
    for (const pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
        size_t n = 0;
        for (size_t g = 0; g < seg->capacity; g += n + 1) {
            for (n = 0; g + n < seg->capacity && seg->chunks[g + n] != 0;) {
                n++;
            }
            if (n > 0) {
                pl_space_tell_run(space, action, seg, pl_segment_address(seg, g),
                                  (uint64_t)n << seg->granule_log2);
            }
        }
    }
}

/* Move the area's memory to another stream. No mapping changes, but observers know memory by
 * stream, so observers are told that the memory goes and comes. */
static void move_to_stream(pl_space *space, pl_area *area, pl_stream *stream)
{
    bool is_told = pl_observer_is_on(space->observer) && area->stream != stream;

    if (is_told) {
        tell_memory(space, area, PL_ACTION_SEGMENT_UNMAP);
    }
    area->stream = stream;
    if (is_told) {
        tell_memory(space, area, PL_ACTION_SEGMENT_MAP);
    }
}

static void requeue_pending(pl_space *space, pl_segment *seg)
{
    for (pl_block *b = seg->first; b != NULL; b = b->next) {
        if (b->state == PL_BLOCK_FREE && b->lane != PL_LANE_SETTLED) {
            b->is_strange = true; /* others freed it */
            pl_run_requeue(space, b);
        }
    }
}

/* The keeper owns nothing in the segment yet: pending and settled memory stay everybody's. */
static void make_apart(pl_space *space, pl_segment *seg)
{
    seg->is_private = seg->area->keeper->keeps;
    pl_segment_own_none(seg);
    requeue_pending(space, seg);
}

static void give_to(pl_space *space, pl_area *area, const pl_lane *lane)
{
    if (area->lane != 0) {
        pl_space_lane_at(space, area->lane)->n_refs--;
    }
    area->lane = pl_lane_plain(lane->number);
    pl_space_lane_at(space, area->lane)->n_refs++;
    move_to_stream(space, area, lane->stream);
}

/* Give the lane an area whose stream is gone: a pool that outlives many streams would else gather
 * an area for each. NULL: no such area. */
static pl_area *inherit(pl_space *space, const pl_keeper *keeper, const pl_lane *lane,
                        pl_class class)
{
    for (pl_area *area = keeper->areas; area != NULL; area = area->next) {
        pl_lock_touch(1);
        if (area->class == class && pl_lane_is_gone(pl_space_lane_at(space, area->lane))) {
            give_to(space, area, lane);
            return area;
        }
    }
    return NULL;
}

static void enter(pl_space *space, pl_keeper *keeper, pl_area *area, const pl_lane *lane)
{
    give_to(space, area, lane);
    area->keeper = keeper;
    area->next = keeper->areas;
    keeper->areas = area;
    for (pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
        make_apart(space, seg);
    }
    pl_stat_add(&keeper->reserved, resident_bytes(area));
}

/* Requests of a capture use the indexes of both lanes. */
static pleat_status reserve_indexes(pl_space *space, pl_area *area, const pl_lane *lane)
{
    pleat_status st = pl_area_reserve_index(&space->meta, area, pl_lane_plain(lane->number));

    return st == PLEAT_OK ? pl_area_reserve_index(&space->meta, area, lane->number) : st;
}

/* The lane's own area. Without it, an area to share if the pool has enough areas; else NULL. */
static pl_area *find_area(const pl_keeper *keeper, const pl_lane *lane, pl_class class)
{
    uint32_t number = pl_lane_plain(lane->number);
    pl_area *shared = NULL;
    unsigned n = 0;

    for (pl_area *area = keeper->areas; area != NULL; area = area->next) {
        pl_lock_touch(1);
        if (area->class != class) {
            continue;
        }
        if (area->lane == number) {
            return area;
        }
        shared = n++ == number / 2 % PL_MOST_AREAS ? area : shared;
    }
    return n >= PL_MOST_AREAS ? shared : NULL;
}

pleat_status pl_keeper_area(pl_space *space, pl_keeper *keeper, const pl_lane *lane, pl_class class,
                            pl_area **out)
{
    pl_area *area = find_area(keeper, lane, class);

    if (area == NULL) {
        area = inherit(space, keeper, lane, class);
    }
    if (area == NULL) {
        area = recycle(space);
        area = area != NULL ? area : pl_area_create(&space->meta, lane->stream, class);
        if (area == NULL) {
            return PLEAT_ENOMEM_HOST;
        }
        enter(space, keeper, area, lane);
        area->class = class; /* only now: pending runs were indexed by the old class */
    }
    *out = area;
    return reserve_indexes(space, area, lane);
}

/* In a capture a block stays where it is, so a pool can grow in place only into addresses that it
 * has reserved: at best an eighth more than the device has memory. A small area reserves an eighth.
 *
 * But pools may be ten thousands. So an area gets at most 1/64 of the budget, times the cube of the
 * part of the budget that is left. Then n areas leave 1 / sqrt(1 + n / 32) of the budget, at least:
 * 87 % after ten areas, 6 % after ten thousand. Areas of a fixed size would use the budget up, and
 * a fixed part of what is left would leave next to nothing after some thousand areas.
 *
 * Each further segment is at least as large as all earlier segments together. */
size_t pl_keeper_want(const pl_space *space, const pl_area *area)
{
    uint64_t budget;
    double left = (double)pl_range_left_bytes(space->dev, &budget) / (double)budget;
    size_t part = (size_t)((double)(budget >> space->granule_log2) / PARTS * left * left * left);
    size_t eighth = space->chunks.total_granules / 8;
    size_t want = area->class == PL_CLASS_SMALL ? eighth : 9 * eighth;
    size_t have = 0;

    for (const pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
        have += seg->range.bytes >> space->granule_log2;
    }
    want = want < part ? want : part;
    want = want < LEAST_SEGMENT ? LEAST_SEGMENT : want;
    return want < have ? have : want;
}

/* ---- keepers --------------------------------------------------------------------------------- */

void pl_keeper_keep(pl_keeper *keeper)
{
    pl_segment *seg = NULL;

    if (keeper->keeps) {
        return;
    }
    keeper->keeps = true;
    while ((seg = pl_keeper_next_segment(keeper, seg)) != NULL) {
        seg->is_private = true;
        pl_segment_own_none(seg);
    }
}

void *pl_keeper_make(pl_space *space, const pl_keeper_kind *kind, size_t bytes)
{
    pl_keeper *keeper = pl_meta_calloc(&space->meta, 1, bytes);

    if (keeper != NULL) {
        keeper->kind = kind;
        keeper->number = ++space->places.n_keepers_made;
        LIST_INSERT_HEAD(&space->places.keepers, keeper, link);
    }
    return keeper;
}

/* ---- the end, and the walker ----------------------------------------------------------------- */

static void destroy_areas(pl_space *space, pl_area *area)
{
    while (area != NULL) {
        pl_area *next = area->next;
        pl_area_destroy(&space->meta, area);
        area = next;
    }
}

static void destroy(pl_space *space, pl_keeper *keeper)
{
    if (keeper->kind->fini != NULL) {
        pl_space_enter(space);
        keeper->kind->fini(space, keeper);
        pl_space_leave(space);
    }
    destroy_areas(space, keeper->areas);
    destroy_areas(space, keeper->buffers);
    pl_meta_free(&space->meta, keeper);
}

void pl_keeper_destroy_all(pl_space *space)
{
    destroy_areas(space, space->places.released);
    while (!LIST_EMPTY(&space->places.keepers)) {
        pl_keeper *keeper = LIST_FIRST(&space->places.keepers);
        LIST_REMOVE(keeper, link);
        destroy(space, keeper);
    }
    while (space->places.draining != NULL) {
        pl_keeper *keeper = space->places.draining;
        space->places.draining = keeper->next;
        destroy(space, keeper);
    }
}

static bool has_stray_block(const pl_segment *seg, bool is_draining)
{
    for (const pl_block *b = seg->first; b != NULL; b = b->next) {
        if (b->state == PL_BLOCK_CAPTURED && !is_draining) {
            return true;
        }
        if (b->state == PL_BLOCK_FREE && b->lane != PL_LANE_SETTLED && b->is_private &&
            pl_segment_count_vacant(seg, b->base, pl_block_end(b)) > 0) {
            return true;
        }
    }
    return false;
}

static bool is_strange(const pl_keeper *keeper, const pl_segment *seg)
{
    return seg->area->keeper != keeper ||
           (keeper->rest != PL_TURNING && keeper->keeps != seg->is_private);
}

static int check_keeper(const pl_space *space, const pl_keeper *keeper)
{
    const pl_segment *seg = NULL;
    size_t bytes = 0;

    while ((seg = pl_keeper_next_segment(keeper, seg)) != NULL) {
        bytes += seg->n_resident << seg->granule_log2;
        if (is_strange(keeper, seg) ||
            (keeper->kind->serves_captures && has_stray_block(seg, !keeper->is_told))) {
            return 1;
        }
    }
    for (const pl_area *area = keeper->areas; area != NULL; area = area->next) {
        if (area->class == PL_CLASS_BUFFER) {
            return 1;
        }
    }
    return space->flights.n == 0 && bytes != keeper->reserved.current;
}

int pl_keeper_check(const pl_space *space)
{
    const pl_keeper *keeper = LIST_FIRST(&space->places.keepers);

    for (; keeper != NULL; keeper = LIST_NEXT(keeper, link)) {
        if (check_keeper(space, keeper) != 0) {
            return 1;
        }
    }
    for (keeper = space->places.draining; keeper != NULL; keeper = keeper->next) {
        if (check_keeper(space, keeper) != 0) {
            return 1;
        }
    }
    for (const pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = pl_segment_above(seg)) {
        if (seg->is_private && !pl_segment_is_apart(seg)) {
            return 1;
        }
    }
    return 0;
}
