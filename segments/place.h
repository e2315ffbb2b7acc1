/* place.h - where a request could go that no resident run can hold. */
#ifndef PLEAT_SEGMENTS_PLACE_H
#define PLEAT_SEGMENTS_PLACE_H

#include "segments/space.h"

/* A place: [at, at + bytes) lies in free blocks that the lane may use and in holes. */
typedef struct pl_place {
    pl_segment *segment;
    pl_block *first; /* the block that covers `at` */
    pleat_devptr at; /* start of a block, or of a granule in a hole */
    size_t n_new;    /* hole granules it touches: chunks it needs */
    size_t n_pin;    /* granules without live bytes that it touches, n_new included */
} pl_place;

/* Of all places for `bytes` in the area that pin at most `pin_room` further granules, one that
 * needs the fewest new ones; of equal ones the lowest that starts with a gap or with a free block
 * behind a hole. Only gaps with holes are looked at: a gap without is a run, and the index finds
 * those. Returns false if there is none. */
bool pl_place_search(const pl_area *area, uint32_t lane, size_t bytes, size_t pin_room,
                     pl_place *out);

#endif
