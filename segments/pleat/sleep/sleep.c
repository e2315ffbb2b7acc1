/* sleep.c - see sleep.h: a heap falls asleep. Guarded by the device lock. */
#include "segments/pleat/sleep/sleep.h"

#include "segments/pleat/compact/still.h"
#include "segments/pleat/sleep/tag_ops.h"
#include "segments/pleat/streams/capturers.h"
#include "segments/pleat/streams/drain.h"
#include "vmm/base/deadline.h"
#include "vmm/driver.h"

/* ---- holding --------------------------------------------------------------------------------- */

enum { GRANULES_AT_ONCE = 1024 };

/* Returns how many granules were loose. */
static size_t hold_segment(pl_space *space, pl_segment *seg, pl_pace *pace)
{
    size_t n_loose = 0;

    seg->is_private = true;
    pl_segment_own_all(seg);
    for (size_t g = 0; g < seg->capacity; g += GRANULES_AT_ONCE) {
        size_t end = g + GRANULES_AT_ONCE < seg->capacity ? g + GRANULES_AT_ONCE : seg->capacity;
        size_t n = pl_segment_pin_granules(seg, g, end - 1);
        pl_space_pin_loose(space, n);
        n_loose += n;
        pl_pace_step(space, pace, 1 + (end - g) / PL_WORD);
    }
    pl_pace_step(space, pace, 1);
    return n_loose;
}

/* A segment that still opens is in the list of opening segments, so finish the list first. */
static void finish_opening(pl_space *space)
{
    while (space->places.opening != NULL && pl_drain_some(space)) {
        pl_space_breathe(space);
    }
}

static size_t hold_all(pl_space *space, const pl_keeper *heap)
{
    pl_segment *seg = NULL;
    size_t n_loose = 0;
    pl_pace pace;

    pl_pace_begin(space, &pace, false);
    while ((seg = pl_keeper_next_segment(heap, seg)) != NULL) {
        n_loose += hold_segment(space, seg, &pace);
    }
    return n_loose;
}

/* Wait for requests and takes already begun. A failed one may put loose memory back: hold again. */
void pl_sleep_hold(pl_space *space, pl_keeper *heap)
{
    finish_opening(space);
    heap->rest = PL_TURNING;
    heap->keeps = true;
    (void)hold_all(space, heap);
    do {
        pl_space_wait_for_flights(space);
    } while (hold_all(space, heap) > 0);
}

void pl_sleep_let_go(pl_space *space, pl_keeper *heap)
{
    pl_segment *seg = NULL;

    heap->keeps = false;
    while ((seg = pl_keeper_next_segment(heap, seg)) != NULL) {
        if (seg->is_private) {
            pl_drain_open(space, seg);
        }
        finish_opening(space);
    }
    heap->rest = PL_AWAKE;
}

/* ---- contents -------------------------------------------------------------------------------- */

/* Save into the retained keep, if one serves. */
static pleat_status keep_contents(pl_space *space, pl_slumber *slumber, const char *folder)
{
    size_t n;
    pl_keep_piece *pieces = pl_beds_pieces(space, slumber, NULL, &n);
    pleat_status st = PLEAT_OK;

    if (pieces == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    pl_away(space);
    if (slumber->keep == NULL) {
        size_t bytes = slumber->n_kept << space->granule_log2;
        st = pl_keep_open(space->dev, folder, bytes, &slumber->keep);
    }
    if (st == PLEAT_OK) {
        st = pl_keep_save(slumber->keep, pieces, n);
    }
    pl_back(space);
    pl_meta_free(&space->meta, pieces);
    return st;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool is_up(const pl_bed *bed)
{
    return bed->has_chunk && bed->is_mapped;
}

static bool is_all_up(pl_space *space, const pl_slumber *slumber)
{
    pl_bed_walk walk = pl_beds_walk(space, slumber);
    const pl_bed *bed;

    while ((bed = pl_beds_next(&walk)) != NULL && is_up(bed)) {
    }
    return bed == NULL;
}

/* Unmap all, or nothing. EPOISONED: only some, as mapping again failed, too. */
static pleat_status unmap_all(pl_space *space, pl_slumber *slumber)
{
    pleat_status st = pl_bedding_unmap(space, slumber, is_up);

    for (unsigned tries = 0; st != PLEAT_OK && tries < 2 && !is_all_up(space, slumber); tries++) {
        (void)!pl_bedding_map(space, slumber, pl_bed_is_down);
    }
    return st == PLEAT_OK || is_all_up(space, slumber) ? st : PLEAT_EPOISONED;
}

static void give_back(pl_space *space, pl_slumber *slumber, pl_slept *told)
{
    pl_bed_walk walk = pl_beds_walk(space, slumber);
    pl_bed *bed;

    while ((bed = pl_beds_next(&walk)) != NULL) {
        bed->is_good = false;
    }
    told->bytes = (uint64_t)pl_bedding_release(space, slumber) << space->granule_log2;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* After the wait everything freed before is over. Pending memory was freed since. */
static pleat_status wait_for_work(pl_space *space)
{
    pleat_status st = pl_still_wait(space);

    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_still_settle(space);
    return st == PLEAT_EPENDING ? PLEAT_OK : st;
}

static pleat_status fall_asleep(pl_space *space, pl_keeper *heap, const pl_sleep_how *how,
                                pl_slumber *slumber)
{
    pleat_status st = wait_for_work(space);

    st = st == PLEAT_OK ? pl_beds_make(space, heap, how->is_kept, slumber) : st;
    if (st == PLEAT_OK) {
        pl_kept_take(space, pl_heap_of(heap), slumber, how->is_kept && how->folder == NULL);
    }
    if (st == PLEAT_OK && slumber->n_kept > 0) {
        st = keep_contents(space, slumber, how->folder);
    }
    return st == PLEAT_OK ? unmap_all(space, slumber) : st;
}

static pleat_status sleep_locked(pl_space *space, pl_keeper *keeper, const pl_sleep_how *how,
                                 pl_slept *told)
{
    pl_heap *heap = pl_heap_of(keeper);

    if (keeper->rest != PL_AWAKE) {
        pl_driver_set_detail("wake it first");
        return PLEAT_EASLEEP;
    }
    pl_slumber *slumber = pl_meta_calloc(&space->meta, 1, sizeof(*slumber));
    if (slumber == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    pl_sleep_hold(space, keeper);
    pleat_status st = fall_asleep(space, keeper, how, slumber);
    if (st != PLEAT_OK && is_all_up(space, slumber)) {
        pl_kept_return(space, heap, slumber);
        pl_sleep_let_go(space, keeper);
        return st;
    }
    pl_kept_drop(space, heap);
    heap->slumber = slumber;
    keeper->rest = PL_ASLEEP;
    heap->n_sleeps++;
    if (st == PLEAT_OK) {
        give_back(space, slumber, told);
    }
    told->shared_bytes = (uint64_t)slumber->n_shared << space->granule_log2;
    told->kept_bytes = (uint64_t)slumber->n_kept << space->granule_log2;
    return st;
}

pleat_status pl_pleat_heap_sleep(pl_allocator *a, pl_keeper *heap, const pl_sleep_how *how,
                                 pl_slept *out)
{
    pl_space *space = (pl_space *)a;

    *out = (pl_slept){ .bytes = 0 };
    pl_deadline_begin();
    pl_space_enter(space);
    bool is_inside = pl_capturers_enter(space, false);
    pl_still_begin(space);
    pleat_status st = sleep_locked(space, heap, how, out);
    pl_still_end(space);
    pl_capturers_leave(space, is_inside);
    pl_space_leave(space);
    return st;
}
