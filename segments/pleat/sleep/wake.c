/* wake.c - see sleep.h: a heap wakes, wholly or in parts. Guarded by the device lock.
 *
 * The memory comes from the same sources as for any request: the rest of the limit and of the
 * device, and free memory elsewhere that is over. As far as needed, the free memory first goes back
 * to the driver. */
#include "segments/pleat/sleep/sleep.h"

#include "segments/pleat/compact/still.h"
#include "segments/pleat/grow/policy.h"
#include "segments/pleat/grow/trim.h"
#include "segments/pleat/sleep/tag_ops.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/space/segment.h"
#include "segments/pleat/streams/capturers.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/tick.h"
#include "vmm/base/deadline.h"

/* ---- which beds ------------------------------------------------------------------------------ */

static bool is_made(const pl_bed *bed)
{
    return bed->has_chunk && bed->is_mapped && !bed->is_good;
}

static bool is_void(const pl_bed *bed)
{
    return !bed->has_chunk && !bed->is_wanted;
}

/* Leave the first n granules without memory or contents wanted. Granules behind sleep on. Returns
 * how many wanted granules have no chunk. *n_left: how many sleep on. */
static size_t choose(pl_space *space, pl_slumber *slumber, size_t n, size_t *n_left)
{
    pl_bed_walk walk = pl_beds_walk(space, slumber);
    size_t n_missing = 0;
    pl_bed *bed;

    *n_left = 0;
    while ((bed = pl_beds_next(&walk)) != NULL) {
        if (!bed->is_wanted || (bed->has_chunk && bed->is_good)) {
            continue;
        }
        if (n == 0) {
            bed->is_wanted = false;
            ++*n_left;
            continue;
        }
        n--;
        n_missing += !bed->has_chunk;
    }
    return n_missing;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Release free memory elsewhere until n more granules may be had. Memory reserved for other
 * libraries comes last. PLEAT_OK; ENOMEM_DEVICE; EPENDING. */
static pleat_status make_way(pl_space *space, size_t n)
{
    size_t soft = pl_reserve_cap(space, pl_space_ceiling(space));
    size_t n_released;

    if (space->chunks.n_held + space->chunks.n_creating + n > soft) {
        (void)!pl_trim_to(space, soft > n ? soft - n : 0, space->wait_ms, &n_released);
    }
    size_t cap = pl_space_ceiling(space); /* a limit may have been set meanwhile */
    if (space->chunks.n_held + space->chunks.n_creating + n <= cap) {
        return PLEAT_OK;
    }
    return space->chunks.n_pinned + n <= cap ? PLEAT_EPENDING : PLEAT_ENOMEM_DEVICE;
}

enum { MOST_TRIES = 4, BLOCKS_AT_ONCE = 128 };

/* The driver may refuse, since others use the device, and have enough after a further release. */
static pleat_status have_chunks(pl_space *space, pl_slumber *slumber, size_t n)
{
    pleat_status st = n > 0 ? PLEAT_ENOMEM_DEVICE : PLEAT_OK;

    for (unsigned tries = 0; st == PLEAT_ENOMEM_DEVICE && tries < MOST_TRIES; tries++) {
        size_t n_released = 1;
        st = make_way(space, n);
        if (st != PLEAT_OK) {
            return st;
        }
        st = pl_bedding_create(space, slumber, n);
        if (st == PLEAT_ENOMEM_DEVICE) {
            size_t keep = space->chunks.n_held > n ? space->chunks.n_held - n : 0;
            (void)!pl_trim_to(space, keep, space->wait_ms, &n_released);
        }
        if (n_released == 0) {
            break;
        }
    }
    return st;
}

/* ---- contents -------------------------------------------------------------------------------- */

static pleat_status bring_back(pl_space *space, pl_slumber *slumber)
{
    size_t n;
    pl_keep_piece *pieces = pl_beds_pieces(space, slumber, is_made, &n);

    if (pieces == NULL) {
        return slumber->n_kept > 0 ? PLEAT_ENOMEM_HOST : PLEAT_OK;
    }
    pl_away(space);
    pleat_status st = n > 0 ? pl_keep_load(slumber->keep, pieces, n) : PLEAT_OK;
    pl_back(space);
    pl_meta_free(&space->meta, pieces);
    return st;
}

/* ---- the last step --------------------------------------------------------------------------- */

/* n granules from the bed's on have no memory, and only free bytes: a hole. */
static void make_hole(pl_space *space, const pl_bed *bed, size_t n)
{
    pl_segment *seg = bed->seg;
    size_t g = bed->g;
    pleat_devptr base = pl_segment_address(seg, g);
    pl_block *b = pl_segment_find(seg, base);

    b = pl_carve_out_all(space, b, base, pl_segment_address(seg, g + n));
    pl_asleep_end(seg, g, g + n);
    space->chunks.n_asleep -= n;
    pl_carve_lose(space, b, false);
}

/* In one hold of the lock. */
enum { VOIDS_AT_ONCE = 1024 };

/* Making a hole cuts two blocks at most. Both are set aside first, as other threads reserve and use
 * blocks while the lock is dropped. */
enum { CUTS = 2 };

static pleat_status set_aside(pl_space *space, const pl_slumber *slumber, pl_block **spares)
{
    pl_bed_walk walk = pl_beds_walk(space, slumber);
    pleat_status st = PLEAT_OK;
    pl_bed *bed;

    while (st == PLEAT_OK && pl_beds_run(&walk, is_void, VOIDS_AT_ONCE, &bed) > 0) {
        st = pl_block_store_set_aside(&space->blocks.store, CUTS, spares);
    }
    return st;
}

static void make_holes(pl_space *space, const pl_slumber *slumber, pl_block **spares)
{
    pl_bed_walk walk = pl_beds_walk(space, slumber);
    pl_bed *bed;
    size_t n;

    while ((n = pl_beds_run(&walk, is_void, VOIDS_AT_ONCE, &bed)) > 0) {
        pl_block_store_put_back(&space->blocks.store, CUTS, spares);
        make_hole(space, bed, n);
        pl_pace_step(space, &walk.pace, n);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Memory without contents goes again. Memory that cannot be unmapped stays, for the next wake. */
static void fall_back(pl_space *space, pl_slumber *slumber)
{
    if (slumber->keep != NULL && pl_keep_is_busy(slumber->keep)) {
        return;
    }
    (void)!pl_bedding_unmap(space, slumber, is_made);
    (void)pl_bedding_release(space, slumber);
}

static pleat_status fill(pl_space *space, pl_slumber *slumber, pl_slept *told)
{
    pleat_status st = pl_bedding_map(space, slumber, pl_bed_is_down);
    pl_bed_walk walk = pl_beds_walk(space, slumber);
    pl_bed *bed;

    st = st == PLEAT_OK ? bring_back(space, slumber) : st;
    if (st != PLEAT_OK) {
        fall_back(space, slumber);
        return st;
    }
    while ((bed = pl_beds_next(&walk)) != NULL) {
        told->kept_bytes += bed->is_kept && is_made(bed) ? space->granule_bytes : 0;
        bed->is_good = bed->has_chunk;
    }
    return PLEAT_OK;
}

/* Settle some blocks from b on. Returns the end of the last. A move may merge b into a free block
 * below. Then the walk ends. */
static pleat_devptr settle_from(pl_space *space, pl_block *b, size_t *n)
{
    pleat_devptr at = b->base;

    for (bool is_lost = false; b != NULL && !is_lost && *n < BLOCKS_AT_ONCE; ++*n) {
        at = pl_block_end(b);
        if (b->state == PL_BLOCK_FREE && b->lane != PL_LANE_SETTLED) {
            is_lost = b->prev != NULL && b->prev->state == PL_BLOCK_FREE;
            pl_run_move(space, b, PL_LANE_SETTLED, 0);
        }
        b = is_lost ? NULL : b->next;
    }
    return at;
}

/* Nothing can have used the memory while the heap slept. So all frees since are over, whatever
 * their streams do. Many blocks may begin in a granule, so finding the walk's place again may take
 * long: one hold searches once. */
static void settle_segment(pl_space *space, const pl_segment *seg, pl_pace *pace)
{
    pleat_devptr end = seg->range.base + seg->range.bytes;
    size_t n = 0;

    for (pleat_devptr at = settle_from(space, seg->first, &n); at < end;) {
        pl_pace_step(space, pace, n + PL_PIECES_A_HOLD);
        n = 0;
        at = settle_from(space, pl_segment_find(seg, at), &n);
    }
    pl_pace_step(space, pace, n);
}

static void settle_heap(pl_space *space, const pl_keeper *heap)
{
    const pl_segment *seg = NULL;
    pl_pace pace;

    pl_pace_begin(space, &pace, false);
    while ((seg = pl_keeper_next_segment(heap, seg)) != NULL) {
        settle_segment(space, seg, &pace);
    }
}

static void wake_up(pl_space *space, pl_keeper *keeper, pl_block **spares)
{
    pl_heap *heap = pl_heap_of(keeper);
    pl_slumber *slumber = heap->slumber;

    make_holes(space, slumber, spares);
    heap->slumber = NULL;
    keeper->rest = PL_TURNING;
    pl_sleep_let_go(space, keeper);
    pl_kept_leave(space, heap, slumber);
}

static pleat_status wake_locked(pl_space *space, pl_keeper *keeper, uint64_t most_bytes,
                                pl_slept *told)
{
    pl_slumber *slumber = pl_heap_of(keeper)->slumber;
    size_t n = (size_t)((most_bytes - 1) >> space->granule_log2) + 1; /* 0 wraps around to all */
    pl_block *spares = NULL;
    size_t n_left;

    if (slumber == NULL) {
        return PLEAT_OK;
    }
    (void)pl_tick_poll(space, PL_TICK_QUERIES);
    pl_settle_everything(space);
    settle_heap(space, keeper);
    pl_beds_want(space, keeper, slumber);
    pleat_status st = set_aside(space, slumber, &spares);
    size_t n_missing = choose(space, slumber, n, &n_left);
    told->needed_bytes = (uint64_t)n_missing << space->granule_log2;
    st = st == PLEAT_OK ? have_chunks(space, slumber, n_missing) : st;
    st = st == PLEAT_OK ? fill(space, slumber, told) : st;
    if (st == PLEAT_OK) {
        told->bytes = told->needed_bytes;
        told->left_bytes = (uint64_t)n_left << space->granule_log2;
        if (n_left == 0) {
            wake_up(space, keeper, &spares);
        }
    }
    pl_space_put_aside_back(space, &spares);
    return st;
}

pleat_status pl_pleat_heap_wake(pl_allocator *a, pl_keeper *heap, uint64_t most_bytes,
                                pl_slept *out)
{
    pl_space *space = (pl_space *)a;

    *out = (pl_slept){ .bytes = 0 };
    pl_deadline_begin();
    pl_space_enter(space);
    bool is_inside = pl_capturers_enter(space, false);
    pl_still_begin(space);
    pleat_status st = wake_locked(space, heap, most_bytes, out);
    pl_still_end(space);
    pl_capturers_leave(space, is_inside);
    pl_space_leave(space);
    return st;
}
