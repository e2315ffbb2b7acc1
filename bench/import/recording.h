/* recording.h - turns a snapshot into a run for replays, and lists its device calls.
 *
 * The run begins with the blocks from before the recording, ordered by address. These blocks are
 * freed in the recording or live at its end, but are not allocated in it. (After a ring buffer ran
 * over, blocks look the same.) Then the events follow. A block is freed at free_requested. If the
 * free_completed does not follow at once, other streams still use the block. Then a use begins
 * before the free, and ends at the free_completed or never. The stream of such a use is not
 * recorded, so an invented stream is used. A history without free_requested, or without
 * free_completed, has no uses: its one kind of entry is the free. */
#ifndef PLEAT_BENCH_RECORDING_H
#define PLEAT_BENCH_RECORDING_H

#include "bench/import/snapshot.h"
#include "bench/import/steps.h"
#include "bench/work/origin.h"
#include "bench/work/tape.h"

/* One segment_alloc, segment_free, segment_map or segment_unmap. */
typedef struct bench_recorded_call {
    uint64_t bytes;
    uint64_t n_events; /* allocations and frees on the tape before this call */
    uint8_t action;    /* a bench_snapshot_action */
} bench_recorded_call;

typedef struct bench_recording {
    uint64_t n_before;        /* blocks from before the recording */
    uint64_t n_before_events; /* events that allocate the earlier blocks */
    uint64_t before_bytes;    /* live before the recording, each block rounded up to 512 */
    bool is_cut;              /* the first entry of a block is the end of a free */
    bench_steps steps;
    bool lacks_requests; /* frees are told by free_completed alone; */
    bool lacks_ends;     /* by free_requested alone */
    bool leads_to_state; /* the events end with the blocks that the snapshot shows */
    bench_recorded_call *calls;
    size_t n_calls;
    uint32_t *stack_of; /* by event number: 1 + the stack of the allocation; 0 = none */
    size_t n_events;
} bench_recording;

/* Writes into an empty tape. With `tries_failures` a failed request becomes an allocation that is
 * freed at once; otherwise it is left out. `out` may be NULL. False and a message with file and
 * offset. */
bool bench_recording_write(const char *path, const bench_snapshot *snapshot, bool tries_failures,
                           bench_tape *tape, bench_recording *out, bench_failure *failure);
void bench_recording_free(bench_recording *recording);

/* Write the allocator of the recorded run, by pleat's name for it. */
void bench_snapshot_name_allocator(const bench_snapshot *snapshot, char *out, size_t n);

/* Move the snapshot's facts beyond the written events to `out`. The stacks change their owner. */
void bench_recording_origin(bench_snapshot *snapshot, bench_recording *recording,
                            const bench_tape *tape, bench_origin *out);

#endif
