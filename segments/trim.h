/* trim.h - giving memory back to the driver. */
#ifndef PLEAT_SEGMENTS_TRIM_H
#define PLEAT_SEGMENTS_TRIM_H

#include "segments/space.h"

/* Release free chunks, lowest address first, until at most keep_chunks are held. Called with the
 * lock; drops it. *n_released is written in any case. PLEAT_OK; EDRIVER; EPENDING never. */
pleat_status pl_trim_to(pl_space *space, size_t keep_chunks, bool wait, size_t *n_released);

/* Release all idle chunks. Called with the lock; drops it. PLEAT_OK; EDRIVER. */
pleat_status pl_trim_idle(pl_space *space);

#endif
