/* sizing.h - how large new chunks are, and how far a steady program is let grow. */
#ifndef PLEAT_SEGMENTS_SIZING_H
#define PLEAT_SEGMENTS_SIZING_H

#include "segments/pleat/space.h"

/* The largest order of new chunks, where at most `cap` granules may be held. */
unsigned pl_sizing_order(const pl_space *space, size_t cap);
/* A request took chunks of n granules. */
void pl_sizing_note_taken(pl_space *space, size_t n);

#endif
