/* api_snapshot.h - checks that a device's history leads to the state copied with it. */
#ifndef PLEAT_TESTS_API_SNAPSHOT_H
#define PLEAT_TESTS_API_SNAPSHOT_H

#include "api/snapshot/snapshot_state.h"

/* Play the history forwards from an empty device: it must lead to the state. Only for histories
 * that began with the device and lost nothing. Returns NULL, or the error in a few words. */
const char *api_snapshot_replay(const pl_snapshot_state *state);

typedef struct api_snapshot_sums {
    size_t n_allocated;
    size_t n_pending;
    uint64_t total_bytes;
    uint64_t allocated_bytes;
    uint64_t requested_bytes; /* of allocated blocks */
    uint64_t awaited_bytes;   /* requested bytes of pending blocks */
} api_snapshot_sums;

api_snapshot_sums api_snapshot_sum(const pl_snapshot_state *state);

#endif
