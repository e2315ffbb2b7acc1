/* hollow.c - see hollow.h. Guarded by the device lock, dropped while addresses are given back. A
 * buffer whose addresses are given back is in no list. */
#include "segments/pleat/buffers/hollow.h"

#include "segments/pleat/space/room.h"

/* While this is true, no thread keeps a pointer to a segment across a drop of the lock. */
static bool is_quiet(const pl_space *space)
{
    return space->first_flying == NULL && space->n_walking == 0 && !space->is_compacting;
}

/* Beds that a room retains name segments. Beds of a sleeping room name segments with memory. */
static bool may_go(const pl_area *area)
{
    const pl_private *pool = area->pool;

    return !area->segments->is_opening && (pool == NULL || pool->room->retained == NULL);
}

/* Remove the buffer from every list. The buffer keeps its one hole. */
static void take_out(pl_space *space, pl_area *area)
{
    pl_segment *seg = area->segments;

    pl_assert(area->n_used == 0 && seg->n_resident == 0 && area->rests_in == NULL);
    LIST_REMOVE(area, rest);
    if (area->pool != NULL) {
        pl_area_unlink(area);
    }
    pl_tree_remove(&space->segments, &seg->node);
    seg->tally->n_blocks[PL_BLOCK_HOLE]--;
    seg->tally->bytes[PL_BLOCK_HOLE] -= seg->first->bytes;
}

static void put_back(pl_space *space, pl_area *area)
{
    pl_segment *seg = area->segments;

    seg->tally->n_blocks[PL_BLOCK_HOLE]++;
    seg->tally->bytes[PL_BLOCK_HOLE] += seg->first->bytes;
    pl_tree_insert(&space->segments, &seg->node);
    if (area->pool != NULL) {
        pl_area_link(area, &area->pool->buffers);
    }
    pl_buffer_rest(space, area->buffer);
}

/* The areas of one look. Some go; others may not go now and stay noted. */
typedef struct looks {
    pl_area *gone[PL_HOLLOW_SOME];
    bool is_refused[PL_HOLLOW_SOME];
    size_t n_gone;
    pl_area *left;
    pl_area *last_left;
    size_t n_left;
} looks;

static void look(pl_space *space, looks *l)
{
    pl_area *area = space->noted;

    space->noted = area->next_noted;
    space->n_noted--;
    pl_lock_touch(1);
    if (pl_hollow_is(area) && !may_go(area)) {
        area->next_noted = l->left;
        l->last_left = l->left == NULL ? area : l->last_left;
        l->left = area;
        l->n_left++;
        return;
    }
    area->is_noted = false;
    if (pl_hollow_is(area)) {
        take_out(space, area);
        l->gone[l->n_gone++] = area;
    }
}

/* If the driver refuses to take addresses back, they serve the next buffer. */
static void release(pl_space *space, looks *l)
{
    pl_lock_release(&space->lock);
    for (size_t i = 0; i < l->n_gone; i++) {
        l->is_refused[i] = pl_range_release(space->dev, l->gone[i]->segments->reserved) != PLEAT_OK;
    }
    pl_lock_acquire(&space->lock);
    for (size_t i = 0; i < l->n_gone; i++) {
        pl_lock_touch(1);
        if (l->is_refused[i]) {
            put_back(space, l->gone[i]);
        } else {
            pl_block_store_put(&space->store, l->gone[i]->segments->first);
            pl_buffer_free_closed(space, l->gone[i]->buffer);
        }
    }
    l->n_gone = 0;
}

void pl_hollow_let_go(pl_space *space, size_t keep, size_t most)
{
    looks l = { .n_gone = 0 };

    while (space->n_noted > keep && most > 0 && is_quiet(space)) {
        for (size_t n = PL_HOLLOW_SOME; n > 0 && most > 0 && space->n_noted > keep; n--, most--) {
            look(space, &l);
        }
        release(space, &l);
    }
    if (l.left != NULL) {
        l.last_left->next_noted = space->noted;
        space->noted = l.left;
        space->n_noted += l.n_left;
    }
}
