/* buffer.c - see buffer.h. Guarded by the device lock. */
#include "segments/pleat/buffers/buffer.h"

#include "segments/pleat/space/back.h"
#include "segments/pleat/space/heap.h"
#include "segments/pleat/space/ledger.h"
#include "segments/pleat/space/live.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/shared.h"

/* ---- the buffers ----------------------------------------------------------------------------- */

pl_buffer *pl_buffer_at(const pl_space *space, pleat_devptr ptr)
{
    const pl_segment *seg = pl_space_segment_at(space, ptr);
    pl_buffer *buffer = seg != NULL ? seg->area->buffer : NULL;

    return buffer != NULL && buffer->is_open ? buffer : NULL;
}

static unsigned size_of(const pl_segment *seg)
{
    return 63u - (unsigned)__builtin_clzll(seg->range.bytes >> seg->granule_log2);
}

/* The closed buffers of a size: a heap has its own list. */
static struct pl_area_list *closed_of(pl_space *space, pl_keeper *heap, unsigned size)
{
    return heap != NULL ? &pl_heap_of(heap)->closed[size] : &space->places.closed[size];
}

static bool is_aligned(const pl_segment *seg, size_t n_align)
{
    return ((seg->range.base >> seg->granule_log2) & (n_align - 1)) == 0;
}

/* Looks in one hold of the lock: those beyond may go when there are too many (hollow buffers). */
enum { CLOSED_LOOKS = 1024 };

/* A buffer with pages that the driver refused to unmap waits until they are unmapped. */
pl_buffer *pl_buffer_reopen(pl_space *space, pl_keeper *heap, const pl_buffer_room *room)
{
    struct pl_area_list *closed = closed_of(space, heap,
                                            63u - (unsigned)__builtin_clzll(room->n_want));
    pl_area *area = LIST_FIRST(closed);

    for (size_t n = 0; area != NULL && n < CLOSED_LOOKS; n++, area = LIST_NEXT(area, rest)) {
        const pl_segment *seg = area->segments;
        pl_lock_touch(1);
        if (seg->n_refused == 0 && is_aligned(seg, room->n_align)) {
            LIST_REMOVE(area, rest);
            area->buffer->is_open = true;
            space->places.n_buffers++;
            return area->buffer;
        }
    }
    return NULL;
}

void pl_buffer_free_closed(pl_space *space, pl_buffer *buffer)
{
    pl_area_destroy(&space->meta, buffer->area);
    pl_meta_free(&space->meta, buffer);
}

pleat_status pl_buffer_create(pl_space *space, pl_keeper *heap, const pl_buffer_room *room,
                              pl_buffer **out)
{
    pl_buffer *buffer = pl_meta_calloc(&space->meta, 1, sizeof(*buffer));

    if (buffer == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    buffer->area = pl_area_create(&space->meta, NULL, PL_CLASS_BUFFER);
    if (buffer->area == NULL) {
        pl_meta_free(&space->meta, buffer);
        return PLEAT_ENOMEM_HOST;
    }
    buffer->area->buffer = buffer;
    buffer->area->keeper = heap;
    pleat_status st = pl_space_open_segment(space, buffer->area, room->n_want, room->n_least,
                                            room->n_align);
    if (st != PLEAT_OK) {
        pl_buffer_free_closed(space, buffer);
        return st;
    }
    if (heap != NULL) {
        pl_area_link(buffer->area, &heap->buffers);
    }
    buffer->is_open = true;
    space->places.n_buffers++;
    *out = buffer;
    return PLEAT_OK;
}

void pl_buffer_rest(pl_space *space, pl_buffer *buffer)
{
    pl_area *area = buffer->area;
    struct pl_area_list *list = closed_of(space, area->keeper, size_of(area->segments));

    if (area->n_used == 0) {
        LIST_INSERT_HEAD(list, area, rest);
    } else {
        area->rests_in = list;
    }
}

void pl_buffer_close(pl_space *space, pl_buffer *buffer)
{
    pl_assert(buffer->n_runs == 0 && buffer->committed_bytes == 0);
    buffer->is_open = false;
    buffer->bytes = 0;
    space->places.n_buffers--;
    pl_buffer_rest(space, buffer);
}

/* pl_area_destroy also frees the area's segments. A heap's areas are destroyed with the heap. */
void pl_buffer_destroy_all(pl_space *space)
{
    pl_segment *next;

    for (pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = next) {
        pl_buffer *buffer = seg->area->buffer;
        next = pl_segment_above(seg);
        if (buffer != NULL && buffer->area->keeper == NULL) {
            pl_tree_remove(&space->places.segments, &seg->node);
            pl_buffer_free_closed(space, buffer);
        } else if (buffer != NULL) {
            pl_meta_free(&space->meta, buffer);
        }
    }
}

/* ---- live blocks ----------------------------------------------------------------------------- */

static void add(pl_space *space, pl_buffer *buffer)
{
    buffer->n_runs++;
    space->blocks.n_in_buffers++;
}

static void subtract(pl_space *space, pl_buffer *buffer)
{
    buffer->n_runs--;
    space->blocks.n_in_buffers--;
}

/* A history has whole blocks only: a block that grows or is cut goes, then the new blocks come. */
static void tell_gone(const pl_space *space, const pl_block *b)
{
    pl_space_tell_block(space, PL_ACTION_FREE_REQUESTED, b);
    pl_space_tell_block(space, PL_ACTION_FREE_COMPLETED, b);
}

/* When blocks join, the uses of one become uses of both: more than was recorded, never less. */
static bool are_alike(const pl_block *low, const pl_block *high)
{
    return low != NULL && high != NULL && low->state == PL_BLOCK_LIVE &&
           high->state == PL_BLOCK_LIVE && low->lane == high->lane &&
           (low->uses == NULL || high->uses == NULL);
}

static pl_block *join(pl_space *space, pl_buffer *buffer, pl_block *low, pl_block *high)
{
    tell_gone(space, low);
    tell_gone(space, high);
    subtract(space, buffer);
    pl_ledger_united(space, pl_space_lane_at(space, high->lane), high);
    low->uses = low->uses != NULL ? low->uses : high->uses;
    high->uses = NULL;
    pl_segment_absorb(low->segment, &space->blocks.store, low, high);
    low->requested = low->bytes;
    pl_space_tell_block(space, PL_ACTION_ALLOC, low);
    return low;
}

void pl_buffer_enter(pl_space *space, pl_buffer *buffer, pl_block *b, pl_lane *lane)
{
    add(space, buffer);
    buffer->committed_bytes += b->bytes;
    pl_ledger_born(space, lane, b, b->bytes);
}

void pl_buffer_join(pl_space *space, pl_buffer *buffer, pleat_devptr at)
{
    pl_segment *seg = pl_buffer_segment(buffer);
    pl_block *b = at < seg->range.base + seg->range.bytes ? pl_segment_find(seg, at) : NULL;

    if (b == NULL) {
        return;
    }
    if (are_alike(b->prev, b)) {
        b = join(space, buffer, b->prev, b);
    }
    if (are_alike(b, b->next)) {
        (void)join(space, buffer, b, b->next);
    }
}

pleat_status pl_buffer_cut(pl_space *space, pl_buffer *buffer, pleat_devptr at)
{
    pl_segment *seg = pl_buffer_segment(buffer);
    pl_block *b = at < seg->range.base + seg->range.bytes ? pl_segment_find(seg, at) : NULL;
    pl_block copied = { .uses = NULL };

    if (b == NULL || b->state != PL_BLOCK_LIVE || b->base == at) {
        return PLEAT_OK;
    }
    pleat_status st = pl_block_store_reserve(&space->blocks.store, 1);
    st = st == PLEAT_OK ? pl_uses_copy(space, b, &copied) : st;
    if (st != PLEAT_OK) {
        return st;
    }
    tell_gone(space, b);
    pl_block *high = pl_segment_split(seg, &space->blocks.store, b, at);
    high->uses = copied.uses;
    b->requested = b->bytes;
    high->requested = high->bytes;
    high->lane = b->lane;
    high->is_claimed = false;
    add(space, buffer);
    pl_ledger_divided(space, pl_space_lane_at(space, b->lane), high);
    pl_space_tell_block(space, PL_ACTION_ALLOC, b);
    pl_space_tell_block(space, PL_ACTION_ALLOC, high);
    return PLEAT_OK;
}

void pl_buffer_free(pl_space *space, pl_buffer *buffer, pl_block *b, pl_lane *plain)
{
    pl_lane *owner = pl_space_lane_at(space, b->lane);
    size_t bytes = b->bytes;

    subtract(space, buffer);
    buffer->committed_bytes -= bytes;
    pl_ledger_freed(space, b);
    if (b->uses != NULL) {
        pl_shared_free(space, b, NULL);
    } else {
        pl_ledger_completed(space, b);
        pl_run_free(space, b, owner->number, pl_lane_stamp(space, owner));
    }
    (void)pl_settle_freed(space, plain, bytes, true);
}

/* ---- the walker ------------------------------------------------------------------------------ */

int pl_buffer_check(const pl_space *space, const pl_buffer *buffer)
{
    const pl_segment *seg = pl_buffer_segment(buffer);
    pleat_devptr end = seg->range.base + (buffer->bytes + space->granule_bytes - 1);
    uint64_t bytes = 0;
    size_t n = 0;

    end -= (end - seg->range.base) % space->granule_bytes;
    for (const pl_block *b = seg->first; b != NULL; b = b->next) {
        if (b->state != PL_BLOCK_LIVE) {
            continue;
        }
        bytes += b->bytes;
        n++;
        if (b->bytes % space->granule_bytes != 0 ||
            (b->base - seg->range.base) % space->granule_bytes !=
                0) { /* ranges may begin anywhere */
            return 1;
        }
        if (are_alike(b, b->next) && !buffer->is_busy) {
            return 2;
        }
        if (pl_block_end(b) > end && !buffer->is_busy &&
            buffer->page_bytes == space->granule_bytes) {
            return 3;
        }
    }
    if (bytes != buffer->committed_bytes || n != buffer->n_runs) {
        return 1;
    }
    bool is_leaving = !buffer->is_open && buffer->area->n_used > 0;
    if (is_leaving != (buffer->area->rests_in != NULL)) {
        return 4;
    }
    bool is_sized = buffer->bytes <= buffer->most_bytes && buffer->most_bytes <= seg->range.bytes;
    return !buffer->is_open || is_sized ? 0 : 3;
}

/* ---- hollow buffers -------------------------------------------------------------------------- */

/* The lock is dropped while addresses are given back. A buffer whose addresses are given back is in
 * no list. */

/* While this is true, no thread keeps a pointer to a segment across a drop of the lock. */
static bool has_no_walker(const pl_space *space)
{
    return space->flights.first == NULL && space->places.n_walking == 0 &&
           !space->flights.is_compacting;
}

/* Beds that a heap retains name segments. Beds of a sleeping heap name segments with memory. */
static bool may_go(const pl_area *area)
{
    const pl_heap *heap = pl_heap_of(area->keeper);

    return !area->segments->is_opening && (heap == NULL || heap->retained == NULL);
}

/* Remove the buffer from every list. The buffer keeps its one hole. */
static void take_out(pl_space *space, pl_area *area)
{
    pl_segment *seg = area->segments;

    pl_assert(area->n_used == 0 && seg->n_resident == 0 && area->rests_in == NULL);
    LIST_REMOVE(area, rest);
    if (area->keeper != NULL) {
        *area->slot = area->next;
        if (area->next != NULL) {
            area->next->slot = area->slot;
        }
    }
    pl_tree_remove(&space->places.segments, &seg->node);
    seg->tally->n_blocks[PL_BLOCK_HOLE]--;
    seg->tally->bytes[PL_BLOCK_HOLE] -= seg->first->bytes;
}

static void put_back(pl_space *space, pl_area *area)
{
    pl_segment *seg = area->segments;

    seg->tally->n_blocks[PL_BLOCK_HOLE]++;
    seg->tally->bytes[PL_BLOCK_HOLE] += seg->first->bytes;
    pl_tree_insert(&space->places.segments, &seg->node);
    if (area->keeper != NULL) { /* the heap may have fallen asleep meanwhile, or woken */
        pl_area_link(area, &area->keeper->buffers);
        seg->is_private = area->keeper->keeps;
        pl_segment_own_all(seg);
    }
    pl_buffer_rest(space, area->buffer);
}

/* If the driver refuses to take addresses back, they serve the next buffer. */
static void let_go(pl_space *space, pl_area *area)
{
    take_out(space, area);
    if (pl_back_return(space, area->segments->reserved) != PLEAT_OK) {
        put_back(space, area);
        return;
    }
    pl_block_store_put(&space->blocks.store, area->segments->first);
    pl_buffer_free_closed(space, area->buffer);
}

/* Areas that may not go now stay noted. */
void pl_hollow_let_go(pl_space *space, size_t keep, size_t most)
{
    pl_area *left = NULL;
    pl_area *last_left = NULL;
    size_t n_left = 0;
    pl_pace pace;

    pl_pace_begin(space, &pace, false);
    for (; space->places.n_noted > keep && most > 0 && has_no_walker(space); most--) {
        pl_area *area = space->places.noted;
        space->places.noted = area->next_noted;
        space->places.n_noted--;
        area->is_noted = pl_hollow_is(area) && !may_go(area);
        if (area->is_noted) {
            area->next_noted = left;
            last_left = left == NULL ? area : last_left;
            left = area;
            n_left++;
        } else if (pl_hollow_is(area)) {
            let_go(space, area);
        }
        pl_pace_step(space, &pace, 1);
    }
    if (left != NULL) {
        last_left->next_noted = space->places.noted;
        space->places.noted = left;
        space->places.n_noted += n_left;
    }
}
