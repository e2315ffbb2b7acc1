/* beds.c - see sleep.h: what a room has, and what of it is in use. Guarded by the device lock. */
#include "segments/pleat/sleep.h"

#include "vmm/share.h"

enum { BLOCKS_AT_ONCE = 128 };

/* Is there something in it that may be used, or that the GPU may not be done with? */
static bool is_in_use(const pl_block *b)
{
    switch ((pl_block_state)b->state) {
    case PL_BLOCK_LIVE:
    case PL_BLOCK_SHARED:
    case PL_BLOCK_KEPT:
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

static size_t count_granules(const pl_private *room)
{
    size_t n = 0;

    for (const pl_area *area = room->areas; area != NULL; area = area->next) {
        for (const pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
            n += seg->n_resident;
        }
    }
    return n;
}

/* Twins are not made in rooms, so a chunk has one address here; but other processes may have it. */
static bool is_shared(const pl_space *space, const pl_segment *seg, size_t g)
{
    return seg->twins[g] != 0 || pl_share_is_noted(space->dev, seg->chunks[g]);
}

static void list_segment(pl_space *space, pl_segment *seg, pl_pace *pace, pl_slumber *out)
{
    for (size_t g = 0; g < seg->n_rooms; g = pl_segment_chunk_to(seg, g)) {
        size_t to = pl_segment_chunk_to(seg, g);
        if (seg->chunks[g] == 0) {
            pl_pace_count(space, pace, (g & 63) == 0);
            continue;
        }
        if (is_shared(space, seg, g)) {
            out->n_shared += to - g;
            continue;
        }
        for (size_t i = g; i < to; i++) {
            out->beds[out->n++] = (pl_bed){
                .seg = seg, .g = i, .has_chunk = true, .is_mapped = true, .is_good = true
            };
        }
        pl_pace_step(space, pace, 1);
    }
}

/* ---- what is in use -------------------------------------------------------------------------- */

/* A walk through the room's segments, with the beds beside it. */
typedef struct walk {
    pl_space *space;
    pl_slumber *slumber;
    bool (*counts)(const pl_block *b);
    size_t next; /* the first bed that was not passed */
} walk;

static void mark(walk *w, const pl_block *b)
{
    pl_segment *seg = b->segment;
    size_t last = pl_segment_granule(seg, pl_block_end(b) - 1);
    pl_bed *beds = w->slumber->beds;
    size_t i = w->next;

    while (i < w->slumber->n && beds[i].seg == seg &&
           beds[i].g < pl_segment_granule(seg, b->base)) {
        i++;
    }
    w->next = i;
    if (!w->counts(b)) {
        return;
    }
    for (; i < w->slumber->n && beds[i].seg == seg && beds[i].g <= last; i++) {
        beds[i].is_wanted = true;
    }
}

/* Pointers to blocks do not outlast a breath: so the walk goes on from an address. */
static void mark_segment(walk *w, const pl_segment *seg, pl_pace *pace)
{
    pleat_devptr end = seg->range.base + seg->range.bytes;

    for (pleat_devptr at = seg->range.base; at < end;) {
        size_t n = 0;
        const pl_block *b = pl_segment_find(seg, at);
        for (; b != NULL && n < BLOCKS_AT_ONCE; b = b->next, n++) {
            mark(w, b);
            at = pl_block_end(b);
        }
        pl_pace_step(w->space, pace, n);
    }
    while (w->next < w->slumber->n && w->slumber->beds[w->next].seg == seg) {
        w->next++;
    }
}

static void mark_all(walk *w, const pl_private *room)
{
    pl_pace pace;

    for (size_t i = 0; i < w->slumber->n; i++) {
        w->slumber->beds[i].is_wanted = false;
    }
    pl_pace_begin(w->space, &pace, false);
    for (const pl_area *area = room->areas; area != NULL; area = area->next) {
        for (const pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
            mark_segment(w, seg, &pace);
        }
    }
}

void pl_beds_want(pl_space *space, const pl_private *room, pl_slumber *slumber)
{
    walk w = { .space = space, .slumber = slumber, .counts = is_in_use };

    mark_all(&w, room);
}

/* ---- making and dropping --------------------------------------------------------------------- */

pleat_status pl_beds_make(pl_space *space, const pl_private *room, bool keeps, pl_slumber *out)
{
    size_t n = count_granules(room);
    walk w = { .space = space, .slumber = out, .counts = is_to_be_kept };
    pl_pace pace;

    *out = (pl_slumber){ .n = 0 };
    if (n == 0) {
        return PLEAT_OK;
    }
    if (n > UINT32_MAX) {
        return PLEAT_ENOMEM_HOST;
    }
    out->beds = pl_host_alloc(&space->host, n * sizeof(*out->beds));
    if (out->beds == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    pl_pace_begin(space, &pace, false);
    for (const pl_area *area = room->areas; area != NULL; area = area->next) {
        for (pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
            list_segment(space, seg, &pace, out);
        }
    }
    pl_assert(out->n + out->n_shared == n);
    mark_all(&w, room);
    for (size_t i = 0; keeps && i < out->n; i++) {
        pl_bed *bed = &out->beds[i];
        bed->is_kept = bed->is_wanted;
        bed->slot = (uint32_t)out->n_kept;
        out->n_kept += bed->is_kept;
    }
    out->n_slots = out->n_kept;
    return PLEAT_OK;
}

void pl_beds_drop(pl_space *space, pl_slumber *slumber)
{
    if (slumber->keep != NULL) {
        pl_lock_release(&space->lock);
        pl_keep_close(slumber->keep);
        pl_lock_acquire(&space->lock);
    }
    pl_host_free(&space->host, slumber->beds);
    *slumber = (pl_slumber){ .n = 0 };
}

/* ---- for the keep ---------------------------------------------------------------------------- */

/* Kept granules side by side have slots side by side, unless one between them is left out. */
static bool is_next(const pl_space *space, const pl_keep_piece *piece, const pl_bed *bed)
{
    uint64_t offset = (uint64_t)bed->slot << space->granule_log2;

    return piece->at + piece->bytes == pl_segment_address(bed->seg, bed->g) &&
           piece->offset + piece->bytes == offset;
}

pl_keep_piece *pl_beds_pieces(pl_space *space, const pl_slumber *slumber, pl_bed_is is, size_t *n)
{
    size_t bytes = slumber->n_kept * sizeof(pl_keep_piece);
    pl_keep_piece *pieces = bytes > 0 ? pl_host_alloc(&space->host, bytes) : NULL;

    *n = 0;
    for (size_t i = 0; pieces != NULL && i < slumber->n; i++) {
        const pl_bed *bed = &slumber->beds[i];
        if (!bed->is_kept || !is(bed)) {
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
