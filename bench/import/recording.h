/* recording.h - turns a snapshot into a run that can be replayed, and lists its device calls.
 *
 * First come the blocks that were live before the recording began, in the order of addresses: those
 * freed in it, or live at its end, that are not allocated in it. (A ring buffer that ran over looks
 * the same.) Then come the events. A block counts as freed at free_completed: until then other
 * streams might use it, and a run has no such uses. A block without a free_completed stays live. */
#ifndef PLEAT_BENCH_RECORDING_H
#define PLEAT_BENCH_RECORDING_H

#include "bench/import/snapshot.h"
#include "bench/work/tape.h"

/* One segment_alloc, segment_free, segment_map or segment_unmap. */
typedef struct bench_recorded_call {
    uint64_t bytes;
    uint64_t n_events; /* allocations and frees of the tape before it */
    uint8_t action;    /* a bench_snapshot_action */
} bench_recorded_call;

typedef struct bench_recording {
    uint64_t n_before; /* blocks that were live before the recording */
    bench_recorded_call *calls;
    size_t n_calls;
    uint32_t *stack_of; /* by the number of an event: 1 + the stack of its allocation; 0 = none */
    size_t n_events;
} bench_recording;

/* Writes into an empty tape. With `tries_failures` a failed request becomes an allocation that is
 * freed at once; else it is left out. `out` may be NULL. False and a message with file and
 * offset. */
bool bench_recording_write(const char *path, const bench_snapshot *snapshot, bool tries_failures,
                           bench_tape *tape, bench_recording *out, bench_failure *failure);
void bench_recording_free(bench_recording *recording);

#endif
