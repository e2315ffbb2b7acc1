/* pleat_policy.h - a growth policy of one's own, for research: a shared object (`policy:PATH`).
 *
 * The object defines some of the four functions below; for a missing one pleat's own rule holds. A
 * function is told the state and what pleat's own rule says, and answers. It is a function of its
 * arguments: it is called under the allocator's lock, so it must not call pleat or CUDA, and not
 * wait. pleat bounds each answer, so a bad policy costs memory or time, and never correctness. */
#ifndef PLEAT_POLICY_H
#define PLEAT_POLICY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A device's memory. Units: granules, of 2 MiB on most devices. A later version may add members at
 *  the end. */
typedef struct pleat_policy_view {
    uint64_t granule_bytes;
    uint64_t total;       /* of the device */
    uint64_t cap;         /* the most that may be held for this request */
    uint64_t held;        /* from the driver, or being created */
    uint64_t pinned;      /* with live bytes, or kept for graphs */
    uint64_t peak_pinned; /* the most so far */
    uint64_t tied;        /* free, in chunks that are partly in use */
    uint64_t taken;       /* chunks: moved from under free blocks, so far */
    uint64_t asked;       /* order: what the request creates; slack, place: what would be pinned;
                           * may_order: what a wait would save */
    uint64_t bytes;       /* place: of the request */
    uint64_t at;          /* place: its start, in bytes from that of its range of addresses */
} pleat_policy_view;

typedef uint64_t pleat_policy_fn(const pleat_policy_view *now, uint64_t own);

/** How large are new chunks? The answer is the logarithm of their granules, 0 to 5. */
pleat_policy_fn pleat_policy_order;
/** How many granules may be created for the request before free memory elsewhere is taken? */
pleat_policy_fn pleat_policy_slack;
/** May a stream wait on the GPU for another stream's memory, instead of creating? 0 or 1. */
pleat_policy_fn pleat_policy_may_order;
/** How dear is a place, for a request that no free memory holds as it lies? Of all candidates with
 *  room the one with the least answer is taken, of equal ones the lowest. `own` is the granules
 *  that the place lacks. Any number. */
pleat_policy_fn pleat_policy_place;

#ifdef __cplusplus
}
#endif

#endif
