/* sleep.h - a heap that sleeps: blocks and addresses stay, the memory is with the driver.
 *
 *   awake     |## live ##|#### live ####|  free  |## live ##|   each granule has a chunk
 *   asleep    |== live ==|==== live ====|==free==|== live ==|   none has: nothing is mapped
 *   awake     |## live ##|#### live ####|.. hole.|## live ##|   those with something in use
 *
 * While a heap sleeps no request is served from the heap, and its segments are private. So none of
 * its granules becomes loose, nobody takes or trims, and only frees change its blocks. A free needs
 * no memory. A granule without memory has PL_CHUNK_ASLEEP in place of a chunk. The tables count the
 * mark as a chunk; space.chunks.n_held and n_pinned do not, and n_asleep does.
 *
 * To fall asleep: hold the heap, wait for all work, list the memory (a bed for each granule), copy
 * the contents to keep, unmap all, and only then release. Every chunk is held until all is
 * unmapped, so a failure maps all again. To wake: create all, map, copy, and then let go of the
 * heap. Before that, a failure gives the new chunks back. If even undoing fails, the heap is
 * asleep. Then the beds tell the state, and the next wake goes on from the beds.
 *
 * Beds belong to the one thread between pl_still_begin and pl_still_end. Tables and counts change
 * under the device lock, dropped for every driver call, and now and then in walks along beds. A
 * heap is held, and let go, segment by segment. Requests are refused from the first segment to the
 * last. */
#ifndef PLEAT_SEGMENTS_SLEEP_H
#define PLEAT_SEGMENTS_SLEEP_H

#include "segments/pleat/space/back.h"
#include "segments/pleat/space/heap.h"
#include "vmm/keep.h"

/* A granule of a sleeping heap. */
typedef struct pl_bed {
    pl_segment *seg;
    size_t g;
    pl_chunk chunk; /* a wake: new for the granules from this one on, not in the tables yet */
    uint32_t slot;  /* is_kept: where, in granules */
    uint8_t order;  /* chunk != 0: its order */
    bool is_kept;   /* the keep has its contents */
    bool is_new;    /* kept.c: has no slot yet */
    bool is_wanted; /* a wake: some of the granule is in use */
    bool has_chunk; /* in the tables */
    bool is_mapped; /* has_chunk */
    bool is_unsure; /* may be mapped after a failed call */
    bool is_good;   /* has_chunk: the memory has the contents */
} pl_bed;

/* In the order of the heap's areas, segments, and addresses. */
typedef struct pl_slumber {
    pl_bed *beds;
    size_t n;
    size_t n_kept;
    size_t n_slots;  /* slots of the keep given out, at least n_kept */
    size_t n_gone;   /* under the lock: beds without a chunk */
    size_t n_shared; /* granules that stayed, as other processes have their chunks */
    pl_keep *keep;   /* NULL = nothing is kept */
    bool is_heir;    /* the keep was retained before */
} pl_slumber;

/* A walk along beds, which now and then drops the lock. */
typedef struct pl_bed_walk {
    pl_space *space;
    const pl_slumber *slumber;
    size_t next; /* the first bed not passed yet */
    pl_pace pace;
    bool (*counts)(const pl_block *b); /* beds.c: may the block be in use? */
    unsigned most_order;               /* bedding.c: of new chunks */
} pl_bed_walk;

static inline pl_bed_walk pl_beds_walk(pl_space *space, const pl_slumber *slumber)
{
    pl_bed_walk walk = { .space = space, .slumber = slumber };

    pl_pace_begin(space, &walk.pace, false);
    return walk;
}

/* The next bed; NULL behind the last. */
static inline pl_bed *pl_beds_next(pl_bed_walk *walk)
{
    pl_pace_step(walk->space, &walk->pace, 1);
    return walk->next < walk->slumber->n ? &walk->slumber->beds[walk->next++] : NULL;
}

typedef bool (*pl_bed_is)(const pl_bed *bed);

static inline bool pl_bed_is_down(const pl_bed *bed)
{
    return bed->has_chunk && !bed->is_mapped;
}

/* ---- beds.c. Every function is called with the lock held and may drop it. ---- */

/* Make a bed for each granule with a chunk of the heap alone. With `keeps`, beds in use are marked
 * as kept. PLEAT_OK; ENOMEM_HOST. */
pleat_status pl_beds_make(pl_space *space, const pl_keeper *heap, bool keeps, pl_slumber *out);
void pl_beds_drop(pl_space *space, pl_slumber *slumber); /* and the keep */
/* The next beds side by side that satisfy `is`, at most n_most. Returns their number; 0: none. */
size_t pl_beds_run(pl_bed_walk *walk, pl_bed_is is, size_t n_most, pl_bed **first);
/* Set is_wanted of all beds. */
void pl_beds_want(pl_space *space, const pl_keeper *heap, pl_slumber *slumber);
/* The pieces of the keep for kept beds that satisfy `is`, NULL = all; *n of them. NULL: no
 * host memory, or nothing is kept. */
pl_keep_piece *pl_beds_pieces(pl_space *space, const pl_slumber *slumber, pl_bed_is is, size_t *n);

/* ---- bedding.c, likewise ---- */

/* Unmap, or map, the beds with a chunk that satisfy `is`. A failure ends the call. The beds tell
 * how far the call came. PLEAT_OK; EDRIVER; ... */
pleat_status pl_bedding_unmap(pl_space *space, pl_slumber *slumber, pl_bed_is is);
pleat_status pl_bedding_map(pl_space *space, pl_slumber *slumber, pl_bed_is is);
/* Release the chunks of beds that are neither mapped nor good. A chunk that the driver refuses to
 * take is idle. Returns the granules given back. */
size_t pl_bedding_release(pl_space *space, pl_slumber *slumber);
/* Create chunks for wanted beds without a chunk. PLEAT_OK; else nothing was created. */
pleat_status pl_bedding_create(pl_space *space, pl_slumber *slumber, size_t n);

/* ---- sleep.c and wake.c ---- */

/* From now on the heap serves no request, and none of its memory becomes loose. */
void pl_sleep_hold(pl_space *space, pl_keeper *heap);
void pl_sleep_let_go(pl_space *space, pl_keeper *heap);

/* ---- kept.c: contents kept by a sleep ----
 *
 * The program can read the contents, and the host memory can stay for the next sleep.
 *
 *   asleep              the heap's slumber has the keep
 *   awake, retained     heap.retained is the slumber that was: its beds say where in the keep each
 *                       granule is, as it was when the heap fell asleep
 *   the next sleep      takes the keep over: granules that were kept have their slots again, so
 *                       their bytes are at the same place of the host's memory; others get slots
 *                       that are left. If all of them do not fit, there is a new keep.
 *
 * A failed sleep leaves retained contents in place, since callers may have addresses in the keep.
 * After a write to the keep, the bytes are of no single moment, so no further caller gets
 * addresses. The same holds once a block has become live in the heap since the wake: a new block
 * may lie at a kept address.
 *
 * heap.retained changes under the device lock. Its beds belong to the one thread between
 * pl_still_begin and pl_still_end, like all beds. */

/* The slumber has just left the heap, in a wake: retain the kept contents, or drop them. May drop
 * the lock. */
void pl_kept_leave(pl_space *space, pl_heap *heap, pl_slumber *slumber);
/* The slumber, with beds made, takes over the retained keep, if the keep is on the host and fits.
 * May drop the lock. */
void pl_kept_take(pl_space *space, pl_heap *heap, pl_slumber *slumber, bool is_on_host);
/* The heap has not fallen asleep: end the slumber, but not a keep taken over. May drop the lock. */
void pl_kept_return(pl_space *space, pl_heap *heap, pl_slumber *slumber);
/* Frees the slumber, and its keep; NULL is fine. Drops the lock. */
void pl_kept_end(pl_space *space, pl_slumber *slumber);
/* Nothing is retained any more. */
void pl_kept_drop(pl_space *space, pl_heap *heap);

#endif
