/* bedding.c - see sleep.h: the memory of beds comes and goes. Guarded by the device lock. */
#include "segments/pleat/sleep/sleep.h"

#include "segments/pleat/grow/policy.h"
#include "segments/pleat/space/segment.h"
#include "vmm/mapping.h"

enum { BATCH = 64, GRANULES_AT_ONCE = 1024 };

/* ---- mappings -------------------------------------------------------------------------------- */

/* Counts the beds side by side from i on that satisfy `is`. 0: bed i does not. */
static size_t run_from(const pl_slumber *slumber, size_t i, pl_bed_is is)
{
    const pl_bed *beds = slumber->beds;
    size_t n = 0;

    while (i + n < slumber->n && is(&beds[i + n]) && beds[i + n].seg == beds[i].seg &&
           beds[i + n].g == beds[i].g + n) {
        n++;
    }
    return n;
}

static pleat_status unmap_run(pl_space *space, pl_bed *beds, size_t n)
{
    pleat_devptr at = pl_segment_address(beds->seg, beds->g);
    pleat_status st = pl_mapping_unmap(space->dev, at, n << space->granule_log2);

    for (size_t i = 0; i < n && (st == PLEAT_OK || st == PLEAT_EPOISONED); i++) {
        beds[i].is_mapped = false;
        beds[i].is_unsure = st == PLEAT_EPOISONED;
    }
    return st;
}

/* Mappings that an earlier call may have left are unmapped first, chunk by chunk. */
static pleat_status clear_run(pl_space *space, const pl_bed *beds, size_t n)
{
    pleat_status st = PLEAT_OK;

    for (size_t i = 0; i < n && st == PLEAT_OK; i++) {
        const pl_segment *seg = beds[i].seg;
        if (beds[i].is_unsure && seg->parts[beds[i].g] == 0) {
            st = pl_mapping_clear(space->dev, pl_segment_address(seg, beds[i].g),
                                  space->granule_bytes << seg->orders[beds[i].g]);
        }
    }
    return st;
}

/* Meanwhile no other thread uses the tables of the granules. */
static pleat_status map_run(pl_space *space, pl_bed *beds, size_t n)
{
    const pl_segment *seg = beds->seg;
    size_t g = beds->g;
    pleat_status st = clear_run(space, beds, n);

    if (st == PLEAT_OK) {
        st = pl_mapping_map_mixed(space->dev, pl_segment_address(seg, g), seg->chunks + g,
                                  seg->orders + g, n);
    }
    for (size_t i = 0; i < n; i++) {
        beds[i].is_mapped = st == PLEAT_OK;
        beds[i].is_unsure = st == PLEAT_EPOISONED;
    }
    return st;
}

static pleat_status for_runs(pl_space *space, pl_slumber *slumber, pl_bed_is is,
                             pleat_status (*act)(pl_space *space, pl_bed *beds, size_t n))
{
    pleat_status st = PLEAT_OK;

    pl_lock_release(&space->lock);
    for (size_t i = 0, n; i < slumber->n && st == PLEAT_OK; i += n > 0 ? n : 1) {
        n = run_from(slumber, i, is);
        st = n > 0 ? act(space, &slumber->beds[i], n) : PLEAT_OK;
    }
    pl_lock_acquire(&space->lock);
    return st;
}

pleat_status pl_bedding_unmap(pl_space *space, pl_slumber *slumber, pl_bed_is is)
{
    return for_runs(space, slumber, is, unmap_run);
}

pleat_status pl_bedding_map(pl_space *space, pl_slumber *slumber, pl_bed_is is)
{
    return for_runs(space, slumber, is, map_run);
}

/* ---- giving back ----------------------------------------------------------------------------- */

static bool is_spare(const pl_bed *bed)
{
    return bed->has_chunk && !bed->is_mapped && !bed->is_unsure && !bed->is_good;
}

/* Spare chunks, by the index of their first bed. */
typedef struct pile {
    size_t first[BATCH];
    bool is_refused[BATCH];
    size_t n;
} pile;

/* Bounds the granules in one hold of the lock. */
static size_t collect(const pl_slumber *slumber, size_t i, pile *p)
{
    size_t n_granules = 0;

    for (p->n = 0; i < slumber->n && p->n < BATCH && n_granules < GRANULES_AT_ONCE; i++) {
        const pl_bed *bed = &slumber->beds[i];
        if (is_spare(bed) && bed->seg->parts[bed->g] == 0) {
            p->first[p->n++] = i;
            n_granules += (size_t)1 << bed->seg->orders[bed->g];
        }
    }
    return i;
}

/* The next batch, from bed i on, goes to the driver without the lock. */
static size_t release_pile(pl_space *space, const pl_slumber *slumber, size_t i, pile *p)
{
    pl_lock_release(&space->lock);
    i = collect(slumber, i, p);
    for (size_t k = 0; k < p->n; k++) {
        const pl_bed *bed = &slumber->beds[p->first[k]];
        size_t bytes = space->granule_bytes << bed->seg->orders[bed->g];
        p->is_refused[k] = pl_chunk_release_sized(space->dev, bed->seg->chunks[bed->g], bytes) !=
                           PLEAT_OK;
    }
    pl_lock_acquire(&space->lock);
    return i;
}

static void count_released(pl_space *space, pl_slumber *slumber, const pile *p)
{
    for (size_t i = 0; i < p->n; i++) {
        pl_bed *bed = &slumber->beds[p->first[i]];
        pl_segment *seg = bed->seg;
        unsigned order = seg->orders[bed->g];
        size_t n = (size_t)1 << order;
        if (p->is_refused[i]) {
            pl_space_push_idle(space, seg->chunks[bed->g], order);
        } else {
            space->chunks.n_held -= n;
        }
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
    space->chunks.full_at = SIZE_MAX;
}

void pl_bedding_release(pl_space *space, pl_slumber *slumber)
{
    for (size_t i = 0; i < slumber->n;) {
        pile p;
        i = release_pile(space, slumber, i, &p);
        count_released(space, slumber, &p);
    }
}

/* ---- new chunks ------------------------------------------------------------------------------ */

static bool is_missing(const pl_bed *bed)
{
    return bed->is_wanted && !bed->has_chunk;
}

/* Chunks for n beds side by side. A driver without room for a large chunk may have small ones. */
static pleat_status create_run(pl_space *space, pl_bed *beds, size_t n, unsigned most)
{
    for (size_t i = 0; i < n; i += (size_t)1 << beds[i].order) {
        unsigned order = pl_order_of(n - i);
        pleat_status st;
        order = order < most ? order : most;
        for (;; order--) {
            st = pl_chunk_create_sized(space->dev, space->granule_bytes << order, &beds[i].chunk);
            if (st != PLEAT_ENOMEM_DEVICE || order == 0) {
                break;
            }
        }
        if (st != PLEAT_OK) {
            beds[i].chunk = 0;
            return st;
        }
        beds[i].order = (uint8_t)order;
    }
    return PLEAT_OK;
}

static pleat_status create_all(pl_space *space, pl_slumber *slumber, unsigned most)
{
    pleat_status st = PLEAT_OK;

    pl_lock_release(&space->lock);
    for (size_t i = 0, n; i < slumber->n && st == PLEAT_OK; i += n > 0 ? n : 1) {
        n = run_from(slumber, i, is_missing);
        st = n > 0 ? create_run(space, &slumber->beds[i], n, most) : PLEAT_OK;
    }
    pl_lock_acquire(&space->lock);
    return st;
}

/* From now on the chunks are in the tables. */
static void put_all(pl_space *space, pl_slumber *slumber)
{
    pl_pace pace;

    pl_pace_begin(space, &pace, false);
    for (size_t i = 0; i < slumber->n; i++) {
        pl_bed *bed = &slumber->beds[i];
        pl_pace_step(space, &pace, 1);
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
        pl_pace_step(space, &pace, n);
    }
    if (space->chunks.n_held > space->chunks.peak_held) {
        space->chunks.peak_held = space->chunks.n_held;
    }
}

/* A chunk that the driver refuses to take back is idle. */
static void undo_create(pl_space *space, pl_slumber *slumber)
{
    pl_lock_release(&space->lock);
    for (size_t i = 0; i < slumber->n; i++) {
        pl_bed *bed = &slumber->beds[i];
        if (bed->chunk != 0 &&
            pl_chunk_release_sized(space->dev, bed->chunk, space->granule_bytes << bed->order) !=
                PLEAT_OK) {
            pl_lock_acquire(&space->lock);
            pl_space_push_idle(space, bed->chunk, bed->order);
            space->chunks.n_held += (size_t)1 << bed->order;
            pl_lock_release(&space->lock);
        }
        bed->chunk = 0;
    }
    pl_lock_acquire(&space->lock);
}

pleat_status pl_bedding_create(pl_space *space, pl_slumber *slumber, size_t n)
{
    pl_flying flying;

    pl_space_take_off(space, &flying);
    unsigned most = pl_policy_order(space, pl_space_cap(space));
    space->chunks.n_creating += n;
    pleat_status st = create_all(space, slumber, most);
    if (st == PLEAT_OK) {
        put_all(space, slumber);
    } else {
        undo_create(space, slumber);
        space->chunks.n_creating -= n;
    }
    pl_space_land(space, &flying);
    return st;
}
