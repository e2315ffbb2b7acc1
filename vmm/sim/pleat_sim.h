/* pleat_sim.h - the simulated CUDA driver's own interface, beside the cu* calls it exports.
 *
 * Link nothing: load the simulator's shared object as one would load libcuda.so.1 and look these
 * up by name, or link with it directly. All functions may be called from any thread. */
#ifndef PLEAT_SIM_H
#define PLEAT_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PLEAT_SIM_API __attribute__((visibility("default")))
#else
#define PLEAT_SIM_API
#endif

/** Reset the simulator to `conf`: every device, handle, mapping, stream, event, fault, hazard, the
 *  log and the clock. Returns 0, or -1 and a message in pleat_sim_error(). */
PLEAT_SIM_API int pleat_sim_reset(const char *conf);
PLEAT_SIM_API const char *pleat_sim_error(void);

/** One access of declared work. */
typedef struct pleat_sim_access {
    uint64_t ptr;
    uint64_t bytes;
    bool is_write;
} pleat_sim_access;

/** Submit work on `stream` (a CUstream; NULL = legacy default stream of the current or the only
 *  device) that touches accesses[0..n). It runs, as far as time goes, when it finishes: see
 *  depth. Returns a CUresult. */
PLEAT_SIM_API int pleat_sim_work(void *stream, const pleat_sim_access *accesses, size_t n);
/** Memory mode: work that fills [ptr, ptr+bytes) with a pattern made of `seed`, or verifies it,
 *  when it finishes. A mismatch is a hazard of kind "contents". */
PLEAT_SIM_API int pleat_sim_fill(void *stream, uint64_t ptr, uint64_t bytes, uint64_t seed);
PLEAT_SIM_API int pleat_sim_verify(void *stream, uint64_t ptr, uint64_t bytes, uint64_t seed);
/** Finish everything that was submitted, on all devices. */
PLEAT_SIM_API void pleat_sim_finish(void);

/** Faults. `call` is an entry point's name ("cuMemMap") or NULL for any that can fail; k counts
 *  from 0 = the next such call; `code` is the CUresult it answers, doing nothing else. */
PLEAT_SIM_API void pleat_sim_fail_at(const char *call, uint64_t k, int code);
PLEAT_SIM_API void pleat_sim_fail_from(const char *call, uint64_t k, int code);
PLEAT_SIM_API void pleat_sim_fail_never(void);
PLEAT_SIM_API uint64_t pleat_sim_n_faults(void); /* how many calls a fault has answered */

/** What the simulator holds; all devices together when device < 0. */
typedef struct pleat_sim_counts {
    uint64_t reservations, handles, mappings, allocations; /* live driver objects */
    uint64_t streams, events, graphs, contexts;
    uint64_t reserved_bytes, physical_bytes, mapped_bytes;
    uint64_t peak_physical_bytes;
    uint64_t capacity_bytes;
    uint64_t unfinished_work;
    uint64_t hazards;
    uint64_t calls;
} pleat_sim_counts;
PLEAT_SIM_API int pleat_sim_count(int device, pleat_sim_counts *out);
/** Calls of one entry point since the reset ("cuMemMap"). */
PLEAT_SIM_API uint64_t pleat_sim_n_calls(const char *call);
/** The cost clock: modelled microseconds spent in driver calls since the reset. */
PLEAT_SIM_API double pleat_sim_cost_us(void);

typedef struct pleat_sim_mapping {
    uint64_t ptr;
    uint64_t bytes;
    uint64_t handle;
    int device;
    int access; /* CU_ACCESS_* of the owning device */
} pleat_sim_mapping;
/** Copy up to n mappings in address order; returns how many there are. */
PLEAT_SIM_API size_t pleat_sim_mappings(pleat_sim_mapping *out, size_t n);

typedef enum pleat_sim_hazard_kind {
    PLEAT_SIM_UNMAPPED_ACCESS, /* work touches bytes that are not mapped or without access */
    PLEAT_SIM_UNMAP_IN_USE,    /* unmap, release or free under unfinished work */
    PLEAT_SIM_RACE,            /* two streams, same physical bytes, unordered, one of them writes */
    PLEAT_SIM_CONTENTS         /* memory mode: verify found other bytes */
} pleat_sim_hazard_kind;

typedef struct pleat_sim_hazard {
    pleat_sim_hazard_kind kind;
    uint64_t ptr;
    uint64_t bytes;
    uint64_t call;       /* number of the call in the log that revealed it */
    char text[160];
} pleat_sim_hazard;
/** Copy up to n hazards in order of discovery (at most 1,024 are kept); returns how many there were. */
PLEAT_SIM_API size_t pleat_sim_hazards(pleat_sim_hazard *out, size_t n);

/** Write the call log as JSON lines to a file. Needs log:full in the configuration; otherwise the
 *  last 4,096 calls. Returns 0 or -1. */
PLEAT_SIM_API int pleat_sim_write_log(const char *path);

#ifdef __cplusplus
}
#endif

#endif
