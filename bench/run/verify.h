/* verify.h - whether an allocator asks the device for what PyTorch asked in a recording.
 *
 * The recording is replayed on the simulator, without limit. Where cached memory was given back in
 * it (segment_free, segment_unmap), the replay trims the allocator; requests that failed are left
 * out. What was recorded, and what was made once the blocks live before the recording are there, is
 * compared: torch-expandable's mappings (one contiguous range each) with segment_map, any other
 * allocator's segments with segment_alloc; sizes and order. */
#ifndef PLEAT_BENCH_VERIFY_H
#define PLEAT_BENCH_VERIFY_H

#include "bench/import/recording.h"
#include "bench/run/setup.h"
#include "bench/work/work.h"

/* One call: what was asked for, and before which event of the recording (from 0). */
typedef struct bench_verify_call {
    uint64_t bytes;
    uint64_t event;
} bench_verify_call;

typedef struct bench_verify_result {
    char allocator[32];
    int device;          /* of the recording */
    bool is_mapping;     /* mappings; else segment allocations */
    uint64_t n_before;   /* blocks live before the recording */
    uint64_t n_events;   /* allocations and frees of the recording */
    uint64_t n_recorded; /* calls */
    uint64_t n_made;
    uint64_t n_first; /* so many are the same from the first on */
    uint64_t n_last;  /* and so many, back from the last; 0 when all are the same */
    uint64_t n_other; /* recorded calls of the other kind: not compared */
    bool has_difference;
    bench_verify_call recorded; /* at the first difference; bytes 0 = there is none */
    bench_verify_call made;
} bench_verify_result;

/* The allocator of the recording's settings: torch-native or torch-expandable. */
const char *bench_verify_allocator(const bench_snapshot *snapshot);

/* `setup` is the simulator, with the recording's settings and log:full. False and a message when
 * the replay itself could not be done. */
bool bench_verify(const bench_work *work, const bench_snapshot *snapshot,
                  const bench_recording *recording, const bench_setup *setup, const char *allocator,
                  bench_verify_result *out, bench_failure *failure);

/* All recorded calls were made, and no other. */
static inline bool bench_verify_is_same(const bench_verify_result *r)
{
    return !r->has_difference;
}

#endif
