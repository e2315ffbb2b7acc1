/* beds.c - see sleep.h: the memory of a heap, and the parts in use. Guarded by the device lock. */
#include "segments/pleat/sleep/sleep.h"

#include "vmm/share.h"

enum { GRANULES_AT_ONCE = 128 }; /* marked between two looks at the pace */

/* May the program use bytes of the block, or may the GPU not be done with the bytes? */
static bool is_in_use(const pl_block *b)
{
    switch ((pl_block_state)b->state) {
    case PL_BLOCK_LIVE:
    case PL_BLOCK_SHARED:
    case PL_BLOCK_CAPTURED:
        return true;
    case PL_BLOCK_FREE:
        return b->lane != PL_LANE_SETTLED;
    default:
        return false;
    }
}

static bool is_to_be_kept(const pl_block *b)
{
    return is_in_use(b) && b->state != PL_BLOCK_FREE;
}

/* ---- the list -------------------------------------------------------------------------------- */

/* Does any other process have the chunk? */
static bool is_shared(const pl_space *space, const pl_segment *seg, size_t g)
{
    return pl_share_is_noted(space->dev, seg->chunks[g]);
}

static void list_segment(pl_space *space, pl_segment *seg, pl_pace *pace, pl_slumber *out)
{
    size_t n_left = seg->n_resident;

    for (size_t g = 0, to; n_left > 0; g = to) {
        to = pl_segment_chunk_to(seg, g);
        if (seg->chunks[g] != 0) {
            bool is_left_out = is_shared(space, seg, g);
            n_left -= to - g;
            out->n_shared += is_left_out ? to - g : 0;
            for (size_t i = g; i < to && !is_left_out; i++) {
                out->beds[out->n++] = (pl_bed){
                    .seg = seg, .g = i, .has_chunk = true, .is_mapped = true, .is_good = true
                };
            }
        }
        pl_pace_step(space, pace, to - g);
    }
    pl_pace_step(space, pace, 1);
}

/* ---- what is in use -------------------------------------------------------------------------- */

/* Steps of a walk, before a step that may drop the lock. */
static void count_steps(const pl_bed_walk *w, size_t n)
{
    pl_lock_touch(n);
    w->space->n_pieces += n;
}

/* Mark some of the beds under b from `at` on, not too many in one hold. Returns the end of the
 * marked part. */
static pleat_devptr mark(pl_bed_walk *w, const pl_block *b, pleat_devptr at)
{
    pl_segment *seg = b->segment;
    pleat_devptr end = pl_block_end(b);
    pl_bed *beds = w->slumber->beds;
    size_t i = w->next;
    bool counts = w->counts(b);

    if (b->state != PL_BLOCK_HOLE &&
        pl_segment_granule(seg, end - 1) - pl_segment_granule(seg, at) >= GRANULES_AT_ONCE) {
        end = pl_segment_floor(seg, at) + GRANULES_AT_ONCE * pl_segment_granule_bytes(seg);
    }
    while (i < w->slumber->n && beds[i].seg == seg && beds[i].g < pl_segment_granule(seg, at)) {
        i++;
    }
    count_steps(w, i - w->next);
    w->next = i;
    size_t last = pl_segment_granule(seg, end - 1);
    for (; counts && i < w->slumber->n && beds[i].seg == seg && beds[i].g <= last; i++) {
        beds[i].is_wanted = true;
    }
    count_steps(w, 1 + i - w->next);
    return end;
}

/* Pointers to blocks do not outlast a breath, so the walk goes on from an address. */
static void mark_segment(pl_bed_walk *w, const pl_segment *seg)
{
    pleat_devptr end = seg->range.base + seg->range.bytes;

    for (pleat_devptr at = seg->range.base; at < end;) {
        const pl_block *b = pl_segment_find(seg, at);
        while (b != NULL && !pl_space_is_tired(w->space, w->pace.since)) {
            at = mark(w, b, at);
            b = at == pl_block_end(b) ? b->next : b;
        }
        pl_pace_step(w->space, &w->pace, 1);
    }
    while (w->next < w->slumber->n && w->slumber->beds[w->next].seg == seg) {
        w->next++;
    }
}

static void mark_all(pl_space *space, const pl_keeper *heap, const pl_slumber *slumber,
                     bool (*counts)(const pl_block *b))
{
    pl_bed_walk w = pl_beds_walk(space, slumber);
    const pl_segment *seg = NULL;

    w.counts = counts;
    while ((seg = pl_keeper_next_segment(heap, seg)) != NULL) {
        mark_segment(&w, seg);
    }
}

void pl_beds_want(pl_space *space, const pl_keeper *heap, pl_slumber *slumber)
{
    pl_bed_walk along = pl_beds_walk(space, slumber);
    pl_bed *bed;

    while ((bed = pl_beds_next(&along)) != NULL) {
        bed->is_wanted = false;
    }
    mark_all(space, heap, slumber, is_in_use);
}

/* ---- making and dropping --------------------------------------------------------------------- */

static void give_slots(pl_space *space, pl_slumber *slumber)
{
    pl_bed_walk along = pl_beds_walk(space, slumber);
    pl_bed *bed;

    while ((bed = pl_beds_next(&along)) != NULL) {
        bed->is_kept = bed->is_wanted;
        bed->slot = (uint32_t)slumber->n_kept;
        slumber->n_kept += bed->is_kept;
    }
    slumber->n_slots = slumber->n_kept;
}

pleat_status pl_beds_make(pl_space *space, const pl_keeper *heap, bool keeps, pl_slumber *out)
{
    size_t n = (size_t)(heap->reserved.current >> space->granule_log2);
    pl_segment *seg = NULL;
    pl_pace pace;

    *out = (pl_slumber){ .n = 0 };
    if (n == 0) {
        return PLEAT_OK;
    }
    if (n > UINT32_MAX) {
        return PLEAT_ENOMEM_HOST;
    }
    out->beds = pl_meta_alloc(&space->meta, n * sizeof(*out->beds));
    if (out->beds == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    pl_pace_begin(space, &pace, false);
    while ((seg = pl_keeper_next_segment(heap, seg)) != NULL) {
        list_segment(space, seg, &pace, out);
    }
    pl_assert(out->n + out->n_shared == n);
    if (keeps) {
        mark_all(space, heap, out, is_to_be_kept);
        give_slots(space, out);
    }
    return PLEAT_OK;
}

void pl_beds_drop(pl_space *space, pl_slumber *slumber)
{
    if (slumber->keep != NULL) {
        pl_away(space);
        pl_keep_close(slumber->keep);
        pl_back(space);
    }
    pl_meta_free(&space->meta, slumber->beds);
    *slumber = (pl_slumber){ .n = 0 };
}

size_t pl_beds_run(pl_bed_walk *along, pl_bed_is is, size_t n_most, pl_bed **first)
{
    pl_bed *bed = pl_beds_next(along);
    size_t n = 1;

    while (bed != NULL && !is(bed)) {
        bed = pl_beds_next(along);
    }
    for (*first = bed; bed != NULL && along->next < along->slumber->n && n < n_most &&
                       is(bed + n) && bed[n].seg == bed->seg && bed[n].g == bed->g + n;
         n++) {
        (void)pl_beds_next(along);
    }
    return bed != NULL ? n : 0;
}

/* ---- for the keep ---------------------------------------------------------------------------- */

/* Does the bed go on where the piece ends, in addresses and in the keep? In a keep taken over,
 * neighbours may have slots apart. */
static bool is_next(const pl_space *space, const pl_keep_piece *piece, const pl_bed *bed)
{
    uint64_t offset = (uint64_t)bed->slot << space->granule_log2;

    return piece->at + piece->bytes == pl_segment_address(bed->seg, bed->g) &&
           piece->offset + piece->bytes == offset;
}

pl_keep_piece *pl_beds_pieces(pl_space *space, const pl_slumber *slumber, pl_bed_is is, size_t *n)
{
    size_t bytes = slumber->n_kept * sizeof(pl_keep_piece);
    pl_keep_piece *pieces = bytes > 0 ? pl_meta_alloc(&space->meta, bytes) : NULL;
    pl_bed_walk along = pl_beds_walk(space, slumber);
    const pl_bed *bed;

    *n = 0;
    while (pieces != NULL && (bed = pl_beds_next(&along)) != NULL) {
        if (!bed->is_kept || (is != NULL && !is(bed))) {
            continue;
        }
        if (*n > 0 && is_next(space, &pieces[*n - 1], bed)) {
            pieces[*n - 1].bytes += space->granule_bytes;
        } else {
            pieces[(*n)++] = (pl_keep_piece){ .at = pl_segment_address(bed->seg, bed->g),
                                              .offset = (uint64_t)bed->slot << space->granule_log2,
                                              .bytes = space->granule_bytes };
        }
    }
    return pieces;
}
