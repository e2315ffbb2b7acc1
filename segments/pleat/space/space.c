/* space.c - areas, segments and flights of a device; the pace of long work. Under the device
 * lock. */
#include "segments/pleat/space/space.h"

#include <string.h>

#include "segments/pleat/space/back.h"
#include "segments/pleat/space/keeper.h"
#include "vmm/left.h"

pleat_status pl_space_reserve_entries(pl_space *space, void *array, size_t element,
                                      size_t *capacity, size_t i)
{
    char *old;

    if (i < *capacity) {
        return PLEAT_OK;
    }
    size_t n = i + i / 2 + 8;
    memcpy(&old, array, sizeof(old));
    char *grown = pl_meta_realloc(&space->meta, old, n * element);
    if (grown == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    memset(grown + *capacity * element, 0, (n - *capacity) * element);
    memcpy(array, &grown, sizeof(grown));
    *capacity = n;
    return PLEAT_OK;
}

/* ---- areas ----------------------------------------------------------------------------------- */

/* An area without lanes; else a new area; else, of PL_MOST_AREAS, the area with the fewest
 * lanes. */
static pl_area *choose_area(pl_space *space, pl_lane *lane, pl_class class)
{
    pl_area **areas = space->places.areas[class];
    pl_area *fewest = NULL;

    for (unsigned i = 0; i < space->places.n_areas[class]; i++) {
        if (fewest == NULL || areas[i]->n_lanes < fewest->n_lanes) {
            fewest = areas[i];
        }
    }
    if (fewest != NULL && (fewest->n_lanes == 0 || space->places.n_areas[class] == PL_MOST_AREAS)) {
        return fewest;
    }
    pl_area *area = pl_area_create(&space->meta, lane->stream, class);
    if (area != NULL) {
        areas[space->places.n_areas[class]++] = area;
        lane->is_labelling = true;
    }
    return area;
}

pleat_status pl_space_area(pl_space *space, pl_lane *lane, pl_class class, pl_area **out)
{
    if (__builtin_expect(lane->areas[class] == NULL, false)) {
        pl_area *area = choose_area(space, lane, class);
        if (area == NULL) {
            return PLEAT_ENOMEM_HOST;
        }
        area->n_lanes++;
        lane->areas[class] = area;
    }
    *out = lane->areas[class];
    return PLEAT_OK;
}

pl_area *pl_space_next_area(const pl_space *space, const pl_keeper *keeper, pl_area_cursor *cursor)
{
    while (keeper == NULL && cursor->class < PL_N_CLASSES) {
        if (cursor->i < space->places.n_areas[cursor->class]) {
            return space->places.areas[cursor->class][cursor->i++];
        }
        cursor->class ++;
        cursor->i = 0;
    }
    if (!cursor->is_listing) {
        cursor->is_listing = true;
        cursor->listed = keeper != NULL ? keeper->areas : space->places.released;
    } else if (cursor->listed != NULL) {
        bool is_listed = cursor->listed->keeper ==
                         keeper; /* a keeper may have got the area meanwhile */
        cursor->listed = is_listed ? cursor->listed->next : NULL;
    }
    return cursor->listed;
}

static bool is_below(const pl_tree_node *a, const pl_tree_node *b)
{
    const pl_segment *low = PL_TREE_ENTRY(a, const pl_segment, node);
    const pl_segment *high = PL_TREE_ENTRY(b, const pl_segment, node);

    return low->range.base < high->range.base;
}

void pl_space_init_segments(pl_space *space)
{
    pl_tree_init(&space->places.segments, is_below);
}

static pl_segment *segment_of(pl_tree_node *node)
{
    return node != NULL ? PL_TREE_ENTRY(node, pl_segment, node) : NULL;
}

pl_segment *pl_space_lowest(const pl_space *space)
{
    return segment_of(pl_tree_first(&space->places.segments));
}

pl_segment *pl_segment_above(const pl_segment *seg)
{
    return segment_of(pl_tree_next(&seg->node));
}

pleat_status pl_space_add_segment(pl_space *space, pl_area *area, pl_range range)
{
    pl_segment *seg;
    pleat_status st = pl_segment_create(&space->meta, &space->blocks.store, area, range,
                                        space->granule_log2, &seg);

    if (st != PLEAT_OK) {
        return st;
    }
    seg->is_private = area->keeper != NULL && area->keeper->keeps;
    *(area->newest != NULL ? &area->newest->next : &area->segments) = seg;
    area->newest = seg;
    pl_queue_push(&area->holes, seg->first);
    pl_tree_insert(&space->places.segments, &seg->node);
    return PLEAT_OK;
}

/* Drivers need not keep to an alignment that is asked of them, so more is reserved than needed. */
static pl_range align_range(pl_range reserved, size_t bytes, size_t align)
{
    size_t head = (size_t)(-reserved.base & (align - 1));
    size_t rest = reserved.bytes - head;

    return (pl_range){ .base = reserved.base + head, .bytes = rest < bytes ? rest : bytes };
}

pleat_status pl_space_open_segment(pl_space *space, pl_area *area, size_t n_want, size_t n_least,
                                   size_t n_align)
{
    size_t align = n_align << space->granule_log2;
    size_t spare = align - space->granule_bytes;
    size_t bytes = n_want << space->granule_log2;
    pl_flying flying;
    pl_range range;

    pl_space_take_off(space, &flying);
    pl_away(space);
    pleat_status st = pl_range_reserve(space->dev, bytes + spare,
                                       (n_least << space->granule_log2) + spare, &range);
    pl_back(space);
    if (st == PLEAT_OK) {
        st = pl_space_add_segment(space, area,
                                  spare > 0 ? align_range(range, bytes, align) : range);
        if (st != PLEAT_OK) {
            pl_away(space);
            pl_left_undo(space->dev, PL_LEFT_RANGE, range.base, range.bytes);
            pl_back(space);
        } else {
            area->newest->reserved = range;
        }
    }
    pl_space_land(space, &flying);
    return st;
}

pl_segment *pl_space_segment_below(const pl_space *space, pleat_devptr at)
{
    pl_segment key;

    key.range.base = at;
    return segment_of(pl_tree_floor(&space->places.segments, &key.node));
}

pl_segment *pl_space_segment_at(const pl_space *space, pleat_devptr at)
{
    pl_segment *seg = pl_space_segment_below(space, at);

    return seg != NULL && at - seg->range.base < seg->range.bytes ? seg : NULL;
}

/* After so many calls a driver that refused memory is asked again, as memory may be free by
 * now. */
enum { PL_FULL_CALLS = 10000 };

size_t pl_space_cap(const pl_space *space)
{
    size_t cap = pl_space_ceiling(space);

    if (space->chunks.full_at < cap && space->n_calls - space->chunks.full_call < PL_FULL_CALLS) {
        size_t held = space->chunks.n_held + space->chunks.n_creating; /* may have grown since */
        size_t full = space->chunks.full_at > held ? space->chunks.full_at : held;
        cap = full < cap ? full : cap;
    }
    return cap;
}

void pl_space_say_block(const pl_space *space, pl_action action, const pl_block *b)
{
    pl_tell(space->observer, action, b->base, b->requested,
            pl_space_lane_at(space, b->lane)->stream, pl_keeper_told(b->segment->area));
}

void pl_space_say_run(const pl_space *space, pl_action action, const pl_segment *seg,
                      pleat_devptr base, uint64_t bytes)
{
    pl_tell(space->observer, action, base, bytes, seg->area->stream, pl_keeper_told(seg->area));
}

/* ---- flights --------------------------------------------------------------------------------- */

void pl_space_take_off(pl_space *space, pl_flying *flying)
{
    *flying = (pl_flying){ .prev = space->flights.last, .number = ++space->flights.n_taken_off };
    *(space->flights.last != NULL ? &space->flights.last->next : &space->flights.first) = flying;
    space->flights.last = flying;
    space->flights.n++;
}

void pl_space_land(pl_space *space, pl_flying *flying)
{
    *(flying->prev != NULL ? &flying->prev->next : &space->flights.first) = flying->next;
    *(flying->next != NULL ? &flying->next->prev : &space->flights.last) = flying->prev;
    space->flights.n--;
    pl_space_wake(space);
}

void pl_space_wait(pl_space *space)
{
    space->flights.n_waiting++;
    pl_lock_wait(&space->lock, &space->flights.landed);
    space->flights.n_waiting--;
}

void pl_space_wait_at_most(pl_space *space, uint32_t ms)
{
    space->flights.n_waiting++;
    pl_lock_wait_for(&space->lock, &space->flights.landed, ms);
    space->flights.n_waiting--;
}

void pl_space_wait_for_flights(pl_space *space)
{
    uint64_t last = space->flights.n_taken_off;

    while (space->flights.first != NULL && space->flights.first->number <= last) {
        pl_space_wait(space);
    }
}

void pl_space_begin_move(pl_space *space, pl_flying *flying)
{
    pl_assert(!space->flights.is_moving);
    pl_space_take_off(space, flying);
    space->flights.is_moving = true;
}

void pl_space_end_move(pl_space *space, pl_flying *flying)
{
    space->flights.is_moving = false;
    pl_space_land(space, flying);
}

void pl_space_wait_for_move(pl_space *space)
{
    while (space->flights.is_moving) {
        pl_space_wait(space);
    }
}

void pl_space_breathe(pl_space *space)
{
    pl_lock_breathe(&space->lock);
}

void pl_space_yield(pl_space *space)
{
    pl_lock_yield(&space->lock);
}

void pl_pace_count(pl_space *space, pl_pace *pace, size_t n)
{
    space->n_pieces += n;
    if (!pace->is_unbroken && pl_space_is_tired(space, pace->since)) {
        pl_space_breathe(space);
        pace->has_breathed = true;
        pace->since = space->n_pieces;
    }
}

void pl_space_put_aside_back(pl_space *space, pl_block **aside)
{
    pl_pace pace;

    pl_pace_begin(space, &pace, false);
    while (*aside != NULL) {
        pl_block_store_put_back(&space->blocks.store, 1, aside);
        pl_pace_count(space, &pace, 1);
    }
}
