/* event.h - one event of a run. */
#ifndef PLEAT_BENCH_EVENT_H
#define PLEAT_BENCH_EVENT_H

#include <stdint.h>

/* An allocation, a free (bytes == 0) or a mark (slot == BENCH_MARK, bytes its number), which begins
 * an iteration. Streams are numbered from 0. */
typedef struct bench_event {
    uint64_t bytes;
    uint32_t slot;
    uint32_t stream; /* of an allocation */
} bench_event;

#define BENCH_MARK UINT32_MAX

#endif
