/* rig.h - the inside of the measuring core, for this folder only, with a clock, series of timed
 * calls, and work that runs beside them.
 *
 * A series is pl_rig_begin, then pl_rig_start, the call and pl_rig_stop for each call, then
 * pl_rig_end, which adds the row. A busy series runs beside memsets on another stream. One thread
 * only. */
#ifndef PLEAT_VMM_MEASURE_RIG_H
#define PLEAT_VMM_MEASURE_RIG_H

#include "vmm/device_state.h"
#include "vmm/tools/measure/measure.h"

enum { PL_RIG_WINDOW_BYTES = 64 << 10 };

typedef struct pl_rig {
    pl_device *dev;
    pl_driver *drv;
    const pl_measure_options *options;
    pl_measure_report *out;
    double (*cost_us)(void); /* the simulator's clock, or NULL: wall time */
    double begin_s;
    double most_s;
    uint64_t portion_bytes; /* physical memory for the chunks of one size, and for the load */

    /* the work beside busy series; load_ptr == 0: none */
    pleat_devptr load_ptr;
    size_t load_bytes;
    unsigned n_memsets;
    double load_us; /* its length when undisturbed */
    cu_stream load_stream;
    cu_event load_begin;
    cu_event load_end;

    unsigned n_alive; /* handles */

    /* the series under way */
    bool is_busy;
    bool was_running; /* the load, before the call */
    double start_us;
    unsigned n_samples;
    double alive_sum; /* n_alive before each sample's call */
    unsigned n_waited;
    unsigned n_during;
    double samples[PL_MEASURE_MAX_CHUNKS];
    double sorted[PL_MEASURE_MAX_CHUNKS];

    unsigned char window[PL_RIG_WINDOW_BYTES]; /* for the alias test */
} pl_rig;

/* Seconds since the rig's begin, wall time. */
double pl_rig_elapsed_s(const pl_rig *rig);
/* Is the time used up, or the report full? Notes the reason once. */
bool pl_rig_is_over(pl_rig *rig);
void pl_rig_progress(const pl_rig *rig, const char *what, size_t bytes);
/* Turns a result into a status. Notes the first failure in the report with `what`. */
pleat_status pl_rig_check(pl_rig *rig, const char *what, cu_result result);
/* For undo steps: a failure is counted. */
void pl_rig_undo(pl_rig *rig, cu_result result);

pleat_status pl_rig_begin(pl_rig *rig, bool is_busy);
void pl_rig_start(pl_rig *rig);
void pl_rig_stop(pl_rig *rig);
pleat_status pl_rig_end(pl_rig *rig, pl_measure_op op, size_t chunk_bytes, unsigned run_chunks,
                        unsigned run_length);
/* After a failure, instead of pl_rig_end: waits for the running work and adds no row. */
void pl_rig_abandon(pl_rig *rig);

/* Inside the device's context. Makes and calibrates the load. Without room for it load_ptr stays 0,
 * and callers leave busy series out. */
pleat_status pl_rig_load_create(pl_rig *rig);
void pl_rig_load_destroy(pl_rig *rig);

/* measure_chunk.c: chunks of all sizes, with and without work beside them */
pleat_status pl_measure_chunks(pl_rig *rig);
/* measure_event.c: whole allocations; events. */
pleat_status pl_measure_mallocs(pl_rig *rig);
pleat_status pl_measure_events(pl_rig *rig);
/* alias.c: do the two addresses of a chunk show the same contents? */
pleat_status pl_measure_aliases(pl_rig *rig);
/* fit.c: fills report->costs from the rows. */
void pl_measure_fit(pl_measure_report *report);

enum { PL_MEASURE_N_SIZES = 6 };
size_t pl_measure_size(unsigned index); /* 2, 4, 16, 32, 64, 256 MiB */

#endif
