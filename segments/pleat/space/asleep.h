/* asleep.h - granules that gave their memory back under a room that sleeps (sleep.h), and how the
 * tally counts them: as live or as shared.
 *
 * Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_ASLEEP_H
#define PLEAT_SEGMENTS_ASLEEP_H

#include "segments/pleat/space/segment.h"

/* The granules [from, to) have PL_CHUNK_ASLEEP from now on. */
void pl_asleep_begin(pl_segment *seg, size_t from, size_t to);
/* The granules lose PL_CHUNK_ASLEEP now, or soon. */
void pl_asleep_end(pl_segment *seg, size_t from, size_t to);
/* Count the sleeping granules that b touches in the tally, or leave them out: b's state is about to
 * change, or has just changed. */
void pl_asleep_count(const pl_segment *seg, const pl_block *b, bool is_in);

#endif
