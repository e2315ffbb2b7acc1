/* bedding.c - see sleep.h: the memory of beds comes and goes. Guarded by the device lock. */
#include "segments/pleat/sleep/sleep.h"

#include "segments/pleat/grow/policy.h"

enum { GRANULES_AT_ONCE = 1024 };

/* ---- mappings -------------------------------------------------------------------------------- */

static void mark(pl_bed_walk *walk, pl_bed *beds, size_t n, bool is_mapped, bool is_unsure)
{
    for (size_t i = 0; i < n; i++) {
        beds[i].is_mapped = is_mapped;
        beds[i].is_unsure = is_unsure;
        pl_pace_step(walk->space, &walk->pace, 1);
    }
}

static pleat_status unmap_run(pl_bed_walk *walk, pl_bed *beds, size_t n)
{
    pleat_status st = pl_back_unmap(walk->space, pl_segment_address(beds->seg, beds->g), n);

    if (st == PLEAT_OK || st == PLEAT_EPOISONED) {
        mark(walk, beds, n, false, st == PLEAT_EPOISONED);
    }
    return st;
}

/* Mappings that an earlier call may have left are unmapped first, chunk by chunk. */
static pleat_status clear_run(pl_bed_walk *walk, const pl_bed *beds, size_t n)
{
    pleat_status st = PLEAT_OK;

    for (size_t i = 0; i < n && st == PLEAT_OK; i++) {
        const pl_segment *seg = beds[i].seg;
        if (beds[i].is_unsure && seg->parts[beds[i].g] == 0) {
            st = pl_back_clear(walk->space, pl_segment_address(seg, beds[i].g),
                               (size_t)1 << seg->orders[beds[i].g]);
        }
        pl_pace_step(walk->space, &walk->pace, 1);
    }
    return st;
}

/* Meanwhile no other thread uses the tables of the granules. */
static pleat_status map_run(pl_bed_walk *walk, pl_bed *beds, size_t n)
{
    const pl_segment *seg = beds->seg;
    size_t g = beds->g;
    pleat_status st = clear_run(walk, beds, n);

    if (st == PLEAT_OK) {
        st = pl_back_map(walk->space, pl_segment_address(seg, g), seg->chunks + g, seg->orders + g,
                         n);
    }
    mark(walk, beds, n, st == PLEAT_OK, st == PLEAT_EPOISONED);
    return st;
}

static pleat_status for_runs(pl_space *space, pl_slumber *slumber, pl_bed_is is,
                             pleat_status (*act)(pl_bed_walk *walk, pl_bed *beds, size_t n),
                             unsigned most_order)
{
    pl_bed_walk walk = pl_beds_walk(space, slumber);
    pleat_status st = PLEAT_OK;
    pl_bed *beds;
    size_t n;

    walk.most_order = most_order;
    while (st == PLEAT_OK && (n = pl_beds_run(&walk, is, SIZE_MAX, &beds)) > 0) {
        st = act(&walk, beds, n);
    }
    return st;
}

pleat_status pl_bedding_unmap(pl_space *space, pl_slumber *slumber, pl_bed_is is)
{
    return for_runs(space, slumber, is, unmap_run, 0);
}

pleat_status pl_bedding_map(pl_space *space, pl_slumber *slumber, pl_bed_is is)
{
    return for_runs(space, slumber, is, map_run, 0);
}

/* ---- giving back ----------------------------------------------------------------------------- */

static bool is_spare(const pl_bed *bed)
{
    return bed->has_chunk && !bed->is_mapped && !bed->is_unsure && !bed->is_good;
}

/* Spare chunks, and their first beds. Bounds the granules in one hold of the lock. */
static void collect(pl_bed_walk *walk, pl_pile *p, pl_bed **first)
{
    pl_bed *bed;

    while (p->n < PL_PILE_CHUNKS && p->n_granules < GRANULES_AT_ONCE &&
           (bed = pl_beds_next(walk)) != NULL) {
        if (is_spare(bed) && bed->seg->parts[bed->g] == 0) {
            first[p->n] = bed;
            pl_pile_put(p, bed->seg->chunks[bed->g], bed->seg->orders[bed->g]);
        }
    }
}

/* The chunk of the bed and of the beds behind is gone. */
static void count_gone(pl_space *space, pl_slumber *slumber, pl_bed *bed)
{
    pl_segment *seg = bed->seg;
    size_t n = (size_t)1 << seg->orders[bed->g];

    for (size_t k = 0; k < n; k++) {
        bed[k].has_chunk = false;
        pl_segment_put_chunk(seg, bed[k].g, PL_CHUNK_ASLEEP, 0);
    }
    pl_asleep_begin(seg, bed->g, bed->g + n);
    space->chunks.n_pinned -= n;
    space->chunks.n_asleep += n;
    slumber->n_gone += n;
    pl_lock_touch(n);
}

size_t pl_bedding_release(pl_space *space, pl_slumber *slumber)
{
    pl_bed_walk walk = pl_beds_walk(space, slumber);
    pl_bed *first[PL_PILE_CHUNKS];
    size_t n_released = 0;

    while (walk.next < slumber->n) {
        pl_pile p = { .n = 0 };
        collect(&walk, &p, first);
        size_t n = p.n;
        (void)!pl_pile_release(space, &p, &n_released);
        for (size_t i = 0; i < n; i++) {
            count_gone(space, slumber, first[i]);
        }
        space->chunks.full_at = SIZE_MAX;
    }
    return n_released;
}

/* ---- new chunks ------------------------------------------------------------------------------ */

static bool is_missing(const pl_bed *bed)
{
    return bed->is_wanted && !bed->has_chunk;
}

/* Chunks for n beds side by side. A driver without room for a large chunk may have small ones. */
static pleat_status create_run(pl_bed_walk *walk, pl_bed *beds, size_t n)
{
    unsigned most = walk->most_order;

    for (size_t i = 0; i < n; i += (size_t)1 << beds[i].order) {
        unsigned order = pl_order_of(n - i);
        pleat_status st = PLEAT_ENOMEM_DEVICE;
        for (order = 1 + (order < most ? order : most); st == PLEAT_ENOMEM_DEVICE && order > 0;) {
            st = pl_back_create(walk->space, --order, 1, &beds[i].chunk, NULL);
        }
        if (st != PLEAT_OK) {
            return st;
        }
        beds[i].order = (uint8_t)order;
    }
    return PLEAT_OK;
}

static void note_peak(pl_space *space)
{
    if (space->chunks.n_held > space->chunks.peak_held) {
        space->chunks.peak_held = space->chunks.n_held;
    }
}

/* From now on the chunks are in the tables. */
static void put_all(pl_space *space, pl_slumber *slumber)
{
    pl_bed_walk walk = pl_beds_walk(space, slumber);
    pl_bed *bed;

    while ((bed = pl_beds_next(&walk)) != NULL) {
        if (bed->chunk == 0) {
            continue;
        }
        size_t n = (size_t)1 << bed->order;
        pl_asleep_end(bed->seg, bed->g, bed->g + n);
        pl_segment_put_chunk(bed->seg, bed->g, bed->chunk, bed->order);
        bed->seg->has_large = bed->seg->has_large || bed->order > 0;
        bed->chunk = 0;
        for (size_t k = 0; k < n; k++) {
            bed[k].has_chunk = true;
            bed[k].is_mapped = false;
            bed[k].is_unsure = false;
            bed[k].is_good = false;
        }
        space->chunks.n_creating -= n;
        space->chunks.n_held += n;
        space->chunks.n_asleep -= n;
        slumber->n_gone -= n;
        pl_space_pin(space, n);
        pl_pace_step(space, &walk.pace, n);
    }
    note_peak(space);
}

/* Of n granules that were to be created. A chunk that the driver refuses to take back is idle. */
static void undo_create(pl_space *space, pl_slumber *slumber, size_t n)
{
    pl_bed_walk walk = pl_beds_walk(space, slumber);
    pl_bed *bed;

    while ((bed = pl_beds_next(&walk)) != NULL) {
        size_t n_chunk = bed->chunk != 0 ? (size_t)1 << bed->order : 0;
        n -= n_chunk;
        if (n_chunk > 0) { /* a release takes the chunk off n_held, where it was not counted yet */
            (void)!pl_chunk_give_back(space, bed->chunk, bed->order);
            space->chunks.n_creating -= n_chunk;
            space->chunks.n_held += n_chunk;
        }
        bed->chunk = 0;
    }
    space->chunks.n_creating -= n;
    note_peak(space);
}

pleat_status pl_bedding_create(pl_space *space, pl_slumber *slumber, size_t n)
{
    pl_flying flying;

    pl_space_take_off(space, &flying);
    unsigned most = pl_policy_order(space, pl_space_cap(space), 0); /* a heap is no large block */
    space->chunks.n_creating += n;
    pleat_status st = for_runs(space, slumber, is_missing, create_run, most);
    if (st == PLEAT_OK) {
        put_all(space, slumber);
    } else {
        undo_create(space, slumber, n);
    }
    pl_space_land(space, &flying);
    return st;
}
