/* sleep.h - a room that sleeps: its blocks and addresses stay, its memory is with the driver.
 *
 *   awake     |## live ##|#### live ####|  free  |## live ##|   each granule has a chunk
 *   asleep    |== live ==|==== live ====|==free==|== live ==|   none has: nothing is mapped
 *   awake     |## live ##|#### live ####|.. hole.|## live ##|   those with something in use
 *
 * While a room sleeps no request is served from it, and its segments are private: so no granule of
 * it becomes loose, nobody takes or trims there, and nothing but frees changes its blocks. A free
 * needs no memory. A granule without memory has PL_CHUNK_ASLEEP in place of a chunk, which the
 * tables count as one; space.n_chunks and n_pinned do not, n_asleep does.
 *
 * Falling asleep: hold the room; wait for all work; list what it has (a bed for each granule); copy
 * what is to be kept; unmap all; and only then release. Until all is unmapped every chunk is still
 * held, so a failure maps back what was unmapped. Waking: create all; map; copy; and then let go of
 * the room. Until then a failure gives the new chunks back. Where even that fails, the room is
 * asleep: each bed says what it has, and the next wake goes on from there.
 *
 * Beds are the business of the one thread between pl_still_begin and pl_still_end; tables and
 * counts are changed under the device lock, which is dropped for every driver call, for walks along
 * beds, and now and then. A room is held, and let go, by the segment; requests are refused from the
 * first to the last. */
#ifndef PLEAT_SEGMENTS_SLEEP_H
#define PLEAT_SEGMENTS_SLEEP_H

#include "segments/pleat/space/room.h"
#include "vmm/keep.h"

/* A granule of a room that sleeps. */
typedef struct pl_bed {
    pl_segment *seg;
    size_t g;
    pl_chunk chunk; /* a wake: made for the granules from here on, not in the tables yet */
    uint32_t slot;  /* is_kept: where, in granules */
    uint8_t order;  /* chunk != 0: of it */
    bool is_kept;   /* its contents are in the keep */
    bool is_new;    /* kept.c: it has no slot yet */
    bool is_wanted; /* a wake: something in it is in use */
    bool has_chunk; /* in the tables */
    bool is_mapped; /* has_chunk */
    bool is_unsure; /* a failed call may have mapped it nevertheless */
    bool is_good;   /* has_chunk: its memory has the contents */
} pl_bed;

/* In the order of the room's areas, their segments, and addresses. */
typedef struct pl_slumber {
    pl_bed *beds;
    size_t n;
    size_t n_kept;
    size_t n_slots;  /* of the keep that were given out, at least n_kept */
    size_t n_gone;   /* lock: of these, without a chunk */
    size_t n_shared; /* granules that stayed, as others use their chunks, too */
    pl_keep *keep;   /* NULL = nothing is kept */
    bool is_heir;    /* the keep was retained before */
} pl_slumber;

typedef bool (*pl_bed_is)(const pl_bed *bed);

/* ---- beds.c. Every function is called with the lock held and may drop it. ---- */

/* A bed for each granule with a chunk that is the room's alone, marked as kept where something is
 * in use and `keeps`. PLEAT_OK; ENOMEM_HOST. */
pleat_status pl_beds_make(pl_space *space, const pl_private *room, bool keeps, pl_slumber *out);
void pl_beds_drop(pl_space *space, pl_slumber *slumber); /* and the keep */
/* Set is_wanted of each bed. */
void pl_beds_want(pl_space *space, const pl_private *room, pl_slumber *slumber);
/* The pieces of the keep for beds that are kept and `is`; *n of them. NULL: no host memory, or no
 * such bed. */
pl_keep_piece *pl_beds_pieces(pl_space *space, const pl_slumber *slumber, pl_bed_is is, size_t *n);

/* ---- bedding.c, likewise ---- */

/* Unmap, or map, the beds that have a chunk and `is`. What was done is in the beds, also after a
 * failure, which ends it. PLEAT_OK; EDRIVER; ... */
pleat_status pl_bedding_unmap(pl_space *space, pl_slumber *slumber, pl_bed_is is);
pleat_status pl_bedding_map(pl_space *space, pl_slumber *slumber, pl_bed_is is);
/* Release the chunks of beds that are not mapped, nor good. What the driver refuses to take is an
 * idle chunk. */
void pl_bedding_release(pl_space *space, pl_slumber *slumber);
/* Create chunks for wanted beds without one. PLEAT_OK; else nothing was created. */
pleat_status pl_bedding_create(pl_space *space, pl_slumber *slumber, size_t n);

/* ---- sleep.c and wake.c ---- */

pleat_status pl_pleat_room_sleep(pl_allocator *a, pl_private *room, const pl_sleep_how *how,
                                 pl_slept *out);
pleat_status pl_pleat_room_wake(pl_allocator *a, pl_private *room, uint64_t most_bytes,
                                pl_slept *out);

/* No request is served from the room from now on, and nothing of it becomes loose. */
void pl_sleep_hold(pl_space *space, pl_private *room);
void pl_sleep_let_go(pl_space *space, pl_private *room);

#endif
