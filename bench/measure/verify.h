/* verify.h - tests whether an allocator makes the device calls of a PyTorch recording.
 *
 * The recording is replayed on the simulator without limit. Where the recorded run gave cached
 * memory back (segment_free, segment_unmap), the replay trims the allocator. Failed requests are
 * left out. Compared are the sizes and order of the calls after the blocks from before the
 * recording were allocated. For torch-expandable these are mappings (one contiguous range each),
 * compared with segment_map. For other allocators these are segments, compared with
 * segment_alloc. */
#ifndef PLEAT_BENCH_VERIFY_H
#define PLEAT_BENCH_VERIFY_H

#include "bench/import/recording.h"
#include "bench/run/setup.h"
#include "bench/works/work.h"

/* A call: its size, and the recording's next event (from 0). */
typedef struct bench_verify_call {
    uint64_t bytes;
    uint64_t event;
} bench_verify_call;

typedef struct bench_verify_result {
    char allocator[32];
    int device;          /* of the recording */
    bool is_mapping;     /* true: mappings; false: segment allocations */
    uint64_t n_before;   /* blocks live before the recording */
    uint64_t n_events;   /* allocations and frees of the recording */
    uint64_t n_recorded; /* calls */
    uint64_t n_made;
    uint64_t n_first; /* equal calls from the start on */
    uint64_t n_last;  /* equal calls from the end back; 0 when all are equal */
    uint64_t n_other; /* recorded calls of the second kind, which are not compared */
    bool has_difference;
    bench_verify_call recorded; /* at the first difference; bytes 0 = none */
    bench_verify_call made;
} bench_verify_result;

/* The allocator of the recording's settings: torch-native or torch-expandable. */
const char *bench_verify_allocator(const bench_snapshot *snapshot);

/* `setup` is the simulator, with the recording's settings and log:full. False and a message when
 * the replay itself could not be done. */
bool bench_verify(const bench_work *work, const bench_snapshot *snapshot,
                  const bench_recording *recording, const bench_setup *setup, const char *allocator,
                  bench_verify_result *out, bench_failure *failure);

/* All recorded calls were made, and no others. */
static inline bool bench_verify_is_same(const bench_verify_result *r)
{
    return !r->has_difference;
}

#endif
