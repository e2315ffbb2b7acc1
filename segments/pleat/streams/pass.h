/* pass.h - what waits for a clock goes on, once the clock has passed its stamp.
 *
 * There is one way for all clocks that pass stamps: see clock.h for the clocks, shared.h for what a
 * block may still have to wait for. Guarded by the device lock; never drops the lock. */
#ifndef PLEAT_SEGMENTS_PASS_H
#define PLEAT_SEGMENTS_PASS_H

#include "segments/pleat/space/space.h"

/* Let blocks go on that wait for the clock with stamps up to `upto`, until the hold is tired
 * (pl_space_is_tired): a free block is settled, a shared or captured one comes to its next demand.
 * Returns how many went on. */
size_t pl_pass(pl_space *space, const pl_clock *clock, uint64_t upto, uint64_t since);

#endif
