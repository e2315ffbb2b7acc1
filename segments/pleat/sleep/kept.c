/* kept.c - keeps the contents of a heap after the heap has woken, and reads them: see sleep.h.
 * Guarded by the device lock, dropped for copies and in walks. */
#include "segments/pleat/sleep/sleep.h"

#include "segments/pleat/compact/still.h"
#include "segments/pleat/sleep/tag_ops.h"
#include "vmm/driver.h"

/* ---- retained -------------------------------------------------------------------------------- */

void pl_kept_end(pl_space *space, pl_slumber *slumber)
{
    if (slumber != NULL) {
        pl_beds_drop(space, slumber);
        pl_meta_free(&space->meta, slumber);
    }
}

void pl_kept_leave(pl_space *space, pl_heap *heap, pl_slumber *slumber)
{
    pl_assert(heap->retained == NULL);
    if (heap->retains && slumber->keep != NULL && !pl_keep_is_file(slumber->keep)) {
        slumber->is_heir = false;
        heap->n_births_retained = heap->n_births;
        heap->retained = slumber;
        return;
    }
    pl_kept_end(space, slumber);
}

/* The beds of a segment are side by side. Both lists have segments in the same order
 * (pl_keeper_next_segment). Returns the first bed of `seg` from i on, or i if none is found. */
static size_t run_of(pl_bed_walk *walk, const pl_slumber *slumber, size_t i, const pl_segment *seg)
{
    size_t at = i;

    for (; at < slumber->n && slumber->beds[at].seg != seg; at++) {
        pl_pace_step(walk->space, &walk->pace, 1);
    }
    return at < slumber->n ? at : i;
}

/* A granule kept before gets its slot again, and its bed in `old` is no longer kept. All further
 * kept granules are marked as is_new. */
static void match(pl_space *space, pl_slumber *slumber, pl_slumber *old)
{
    pl_bed_walk walk = pl_beds_walk(space, slumber);
    size_t k = 0;
    pl_bed *bed;

    while ((bed = pl_beds_next(&walk)) != NULL) {
        if (bed == slumber->beds || bed[-1].seg != bed->seg) {
            k = run_of(&walk, old, k, bed->seg);
        }
        for (; k < old->n && old->beds[k].seg == bed->seg && old->beds[k].g < bed->g; k++) {
            pl_pace_step(space, &walk.pace, 1);
        }
        bool is_same = k < old->n && old->beds[k].seg == bed->seg && old->beds[k].g == bed->g;
        bed->is_new = bed->is_kept;
        if (is_same && bed->is_kept && old->beds[k].is_kept) {
            bed->slot = old->beds[k].slot;
            bed->is_new = false;
            old->beds[k].is_kept = false;
        }
    }
}

/* New beds get slots of `old` that were not reused, then slots never given out. */
static void fill_up(pl_space *space, pl_slumber *slumber, const pl_slumber *old)
{
    pl_bed_walk walk = pl_beds_walk(space, slumber);
    uint32_t next = (uint32_t)old->n_slots;
    size_t k = 0;
    pl_bed *bed;

    while ((bed = pl_beds_next(&walk)) != NULL) {
        if (!bed->is_new) {
            continue;
        }
        for (; k < old->n && !old->beds[k].is_kept; k++) {
            pl_pace_step(space, &walk.pace, 1);
        }
        bed->slot = k < old->n ? old->beds[k++].slot : next++;
        bed->is_new = false;
    }
    slumber->n_slots = next;
}

/* Slots that no bed reused are lost. If slots run out, give all out anew. */
static void renumber(pl_space *space, pl_slumber *slumber)
{
    pl_bed_walk walk = pl_beds_walk(space, slumber);
    uint32_t next = 0;
    pl_bed *bed;

    while ((bed = pl_beds_next(&walk)) != NULL) {
        bed->slot = next;
        next += bed->is_kept;
    }
    slumber->n_slots = next;
}

void pl_kept_take(pl_space *space, pl_heap *heap, pl_slumber *slumber, bool is_on_host)
{
    pl_slumber *old = heap->retained;

    if (old == NULL || !is_on_host) {
        return;
    }
    size_t n_most = (size_t)(pl_keep_bytes(old->keep) >> space->granule_log2);
    if (slumber->n_kept > n_most) {
        return;
    }
    match(space, slumber, old);
    fill_up(space, slumber, old);
    if (slumber->n_slots > n_most) {
        renumber(space, slumber);
    }
    heap->retained = NULL;
    slumber->keep = old->keep;
    slumber->is_heir = true;
    old->keep = NULL;
    pl_kept_end(space, old);
}

void pl_kept_return(pl_space *space, pl_heap *heap, pl_slumber *slumber)
{
    pl_bed_walk walk = pl_beds_walk(space, slumber);
    pl_bed *bed;

    if (!slumber->is_heir) {
        pl_kept_end(space, slumber);
        return;
    }
    while ((bed = pl_beds_next(&walk)) != NULL) {
        bed->is_kept = false;
    }
    slumber->is_heir = false;
    heap->retained = slumber;
}

void pl_kept_drop(pl_space *space, pl_heap *heap)
{
    pl_slumber *old = heap->retained;

    heap->retained = NULL;
    pl_kept_end(space, old);
}

void pl_pleat_heap_retain(pl_allocator *a, pl_keeper *heap, bool is_retained)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    pl_still_begin(space);
    pl_heap_of(heap)->retains = is_retained;
    if (!is_retained) {
        pl_kept_drop(space, pl_heap_of(heap));
    }
    pl_still_end(space);
    pl_space_leave(space);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Do [ptr, ptr + bytes) lie in one live block, or in committed pages of one buffer? In a buffer the
 * lock may be dropped, and other threads may change blocks behind the part already seen. The answer
 * holds if nobody changes the buffer meanwhile. */
static bool is_live(pl_space *space, const pl_segment *seg, pleat_devptr ptr, size_t bytes)
{
    bool is_buffer = seg->area->buffer != NULL;
    pleat_devptr end = ptr + bytes;

    if (end < ptr || end > seg->range.base + seg->range.bytes) {
        return false;
    }
    pl_pace pace;

    pl_pace_begin(space, &pace, false);
    while (ptr < end) {
        const pl_block *b = pl_segment_find(seg, ptr);
        if (b->state != PL_BLOCK_LIVE || (!is_buffer && pl_block_end(b) < end)) {
            return false;
        }
        ptr = pl_block_end(b);
        pl_pace_step(space, &pace, 1);
    }
    return true;
}

static const pl_slumber *slumber_of(const pl_segment *seg)
{
    bool has_heap = seg != NULL && pl_keeper_tag(seg->area) != NULL;
    const pl_heap *heap = has_heap ? pl_heap_of(seg->area->keeper) : NULL;

    return heap == NULL ? NULL : heap->slumber != NULL ? heap->slumber : heap->retained;
}

/* The rest to read, and the address of the result. */
typedef struct reading {
    const pl_segment *seg;
    const pl_slumber *slumber;
    pl_bed_walk walk;
    pleat_devptr at;
    pleat_devptr end;
    char *to; /* NULL = nothing is copied */
    void *from;
    unsigned granule_log2;
} reading;

static pleat_status refuse(const char *why)
{
    pl_driver_set_detail("%s", why);
    return PLEAT_EFOREIGN;
}

static const pl_bed *first_bed(reading *r)
{
    size_t g = pl_segment_granule(r->seg, r->at);
    size_t i = run_of(&r->walk, r->slumber, 0, r->seg);

    for (; i < r->slumber->n && r->slumber->beds[i].seg == r->seg && r->slumber->beds[i].g < g;
         i++) {
        pl_pace_step(r->walk.space, &r->walk.pace, 1);
    }
    bool is_there = i < r->slumber->n && r->slumber->beds[i].seg == r->seg;
    return is_there && r->slumber->beds[i].g == g ? &r->slumber->beds[i] : NULL;
}

/* Find the byte at r->at in the keep. *bytes: the rest of its granule, and of all granules behind
 * with slots in a row. False: not in the keep. */
static bool find(reading *r, const pl_bed *bed, uint64_t *offset, size_t *bytes)
{
    const pl_bed *end = r->slumber->beds + r->slumber->n;
    size_t granule = (size_t)1 << r->granule_log2;
    size_t inside = (size_t)(r->at - pl_segment_address(r->seg, bed->g));
    size_t want = (size_t)(r->end - r->at);

    if (!bed->is_kept) {
        return false;
    }
    *offset = ((uint64_t)bed->slot << r->granule_log2) + inside;
    *bytes = granule - inside;
    for (const pl_bed *next = bed + 1; next < end && *bytes < want; next++) {
        if (next->seg != r->seg || next->g != next[-1].g + 1 || !next->is_kept ||
            next->slot != next[-1].slot + 1) {
            break;
        }
        *bytes += granule;
        pl_pace_step(r->walk.space, &r->walk.pace, 1);
    }
    *bytes = *bytes < want ? *bytes : want;
    return true;
}

/* Read all bytes, or only find their address in host memory. */
static pleat_status read_on(reading *r)
{
    const pl_bed *bed = first_bed(r);
    const pl_bed *end = r->slumber->beds + r->slumber->n;
    pleat_status st = PLEAT_OK;

    while (st == PLEAT_OK && r->at < r->end) {
        uint64_t offset;
        size_t bytes;
        bool is_there = bed != NULL && bed < end && bed->seg == r->seg &&
                        bed->g == pl_segment_granule(r->seg, r->at);
        if (!is_there || !find(r, bed, &offset, &bytes)) {
            return refuse("it stayed on the device, or came there since");
        }
        if (r->to == NULL) {
            bool is_whole = bytes == r->end - r->at;
            r->from = is_whole ? pl_keep_at(r->slumber->keep, offset, bytes) : NULL;
            return r->from != NULL ? PLEAT_OK : PLEAT_ENOTSUP;
        }
        pl_away(r->walk.space);
        st = pl_keep_read(r->slumber->keep, offset, bytes, r->to);
        pl_back(r->walk.space);
        r->to += bytes;
        r->at += bytes;
        bed += pl_segment_granule(r->seg, r->at - 1) - bed->g + 1;
    }
    return st;
}

static pleat_status read_locked(pl_space *space, reading *r)
{
    r->seg = pl_space_segment_at(space, r->at);
    r->slumber = slumber_of(r->seg);
    if (r->seg == NULL || !is_live(space, r->seg, r->at, (size_t)(r->end - r->at))) {
        return refuse("not all of it is live memory of one block, or pages of one buffer");
    }
    if (r->slumber == NULL || r->slumber->keep == NULL) {
        return refuse(r->slumber == NULL ? "its tag is awake, and retains nothing"
                                         : "its tag sleeps without its contents");
    }
    const pl_heap *heap = pl_heap_of(r->seg->area->keeper);
    if (heap->slumber == NULL && heap->n_births != heap->n_births_retained) {
        return refuse("blocks have come since its tag woke: what is retained may be another one's");
    }
    r->walk = pl_beds_walk(space, r->slumber);
    return read_on(r);
}

pleat_status pl_pleat_heap_kept(pl_allocator *a, pleat_devptr ptr, size_t bytes, void *to,
                                void **at)
{
    pl_space *space = (pl_space *)a;
    reading r = { .at = ptr, .end = ptr + bytes, .to = to, .granule_log2 = space->granule_log2 };

    pl_space_enter(space);
    pl_still_begin(space);
    pleat_status st = read_locked(space, &r);
    pl_still_end(space);
    pl_space_leave(space);
    if (st == PLEAT_OK && to == NULL) {
        *at = r.from;
    }
    return st;
}
