/* measure.h - what the driver's calls cost on this device, and whether they disturb running work.
 *
 * The measuring core of `pleat probe`. Times are wall time on a real GPU and the cost clock's time
 * on the simulator. Nothing is left behind, whatever fails. Names of the driver's API stay inside:
 * callers see operations, sizes and microseconds. */
#ifndef PLEAT_VMM_MEASURE_H
#define PLEAT_VMM_MEASURE_H

#include "vmm/device.h"

/* One list: constant, word for tables, entry point as named in the cost file. */
/* clang-format off */
#define PL_MEASURE_LIST(X) \
    X(PL_MEASURE_RESERVE, "reserve", address_reserve) \
    X(PL_MEASURE_CREATE_FRESH, "create (fresh)", mem_create) \
    X(PL_MEASURE_CREATE, "create (after release)", mem_create) \
    X(PL_MEASURE_MAP, "map", mem_map) \
    X(PL_MEASURE_ACCESS, "set access", mem_set_access) \
    X(PL_MEASURE_UNMAP, "unmap", mem_unmap) \
    X(PL_MEASURE_RELEASE, "release", mem_release) \
    X(PL_MEASURE_ADDRESS_FREE, "address free", address_free) \
    X(PL_MEASURE_MALLOC, "malloc", mem_alloc) \
    X(PL_MEASURE_MFREE, "malloc's free", mem_free) \
    X(PL_MEASURE_EVENT_RECORD, "event record", event_record) \
    X(PL_MEASURE_EVENT_QUERY, "event query", event_query) \
    X(PL_MEASURE_STREAM_WAIT, "stream waits for event", stream_wait_event)
/* clang-format on */

typedef enum pl_measure_op {
#define PL_MEASURE_ENUM(name, text, field) name,
    PL_MEASURE_LIST(PL_MEASURE_ENUM)
#undef PL_MEASURE_ENUM
        PL_MEASURE_N_OPS
} pl_measure_op;

enum {
    PL_MEASURE_MAX_ROWS = 512,  /* in one report; later rows are not measured */
    PL_MEASURE_MAX_CHUNKS = 256 /* most chunks of one size */
};

/* One measured series: n_calls calls of `op`, where a call covers run_chunks chunks of
 * chunk_bytes. */
typedef struct pl_measure_row {
    pl_measure_op op;
    size_t chunk_bytes;  /* 0 where the operation has no size */
    unsigned run_chunks; /* chunks per call; of a reserve: chunks that would fit */
    unsigned run_length; /* length of the run; a map call covers one of its chunks */
    unsigned n_calls;
    bool is_busy; /* while memsets ran on another stream */
    double alive; /* handles that the measurement held before a call, in the mean */
    double mean_us;
    double min_us;
    double p50_us;
    double p90_us;
    double max_us;
    double first_us;   /* mean of the first quarter of the calls, in order ... */
    double last_us;    /* ... and of the last quarter: does the cost grow? */
    double stall_us;   /* busy: delay of the running work per call; 0 = none */
    unsigned n_waited; /* busy: calls that began before the work's end and returned after */
    unsigned n_during; /* busy: calls that returned while the work ran */
} pl_measure_row;

/* Least squares over the idle rows: us = per_call + per_handle * handles + per_granule * granules
 * of a call. Creations also have per_live * thousands of handles alive, known up to most_alive. All
 * are >= 0; n_rows == 0: the operation was not measured. */
typedef struct pl_measure_cost {
    double per_call_us;
    double per_handle_us;
    double per_granule_us;
    double per_1000_alive_us;
    unsigned most_alive;
    unsigned n_rows;
} pl_measure_cost;

typedef enum pl_measure_verdict {
    PL_MEASURE_UNKNOWN, /* not measured, or a simulator that keeps no contents */
    PL_MEASURE_YES,
    PL_MEASURE_NO
} pl_measure_verdict;

typedef struct pl_measure_report {
    char gpu[128];
    int ordinal;
    int driver_version; /* 12040 = 12.4 */
    bool is_simulated;  /* times are the cost clock's */
    size_t granule_bytes;
    size_t recommended_bytes; /* the recommended granularity */
    uint64_t total_bytes;
    uint64_t free_bytes; /* at the start */

    pl_measure_row rows[PL_MEASURE_MAX_ROWS];
    unsigned n_rows;
    pl_measure_cost costs[PL_MEASURE_N_OPS];

    /* Does a write through the old address, ordered by an event, show through the new one, and
     * the new one's write through the old? */
    pl_measure_verdict aliases_coherent;
    unsigned alias_rounds;
    unsigned alias_wrong_bytes;

    double busy_work_us; /* length of the memsets beside the calls */
    double elapsed_s;    /* wall time of the whole measurement */
    bool is_complete;    /* false: the time limit or a failure ended the measurement early */
    char note[256];      /* why it is not complete, or empty */
} pl_measure_report;

typedef struct pl_measure_options {
    uint64_t most_bytes;   /* physical memory to use; 0 = a quarter of the free memory, <= 16 GiB */
    unsigned most_seconds; /* 0 = 60 */
    /* Called between series when not NULL: progress for a terminal. */
    void (*progress)(void *arg, const char *what);
    void *progress_arg;
} pl_measure_options;

/** Measure the device into `out`.
 *
 *  Units    microseconds, bytes; one device.
 *  Params   options NULL = all defaults.
 *           out [out] filled as far as the measurement went, also after a failure.
 *  Returns  PLEAT_OK; ENOVMM (out holds what can be measured without); ENOMEM_HOST;
 *           ENOMEM_DEVICE; EDRIVER.
 *  Failure  everything created is given back, or counted as an undo failure.
 *  Owner    the caller owns `out`.
 *  Threads  one at a time per device; hold no lock.
 *  Blocks   on the GPU, for up to most_seconds. */
pleat_status pl_measure_run(pl_device *dev, const pl_measure_options *options,
                            pl_measure_report *out);

const char *pl_measure_op_name(pl_measure_op op);   /* "set access" */
const char *pl_measure_op_symbol(pl_measure_op op); /* "cuMemSetAccess" */

#endif
