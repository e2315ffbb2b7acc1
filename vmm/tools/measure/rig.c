/* rig.c - timing of calls, one series at a time, idle or beside running work.
 *
 * The work beside a busy series is a row of memsets between two timed events, long enough for tens
 * of calls. A series delays the work by the work's length minus its undisturbed length, measured
 * before. A delay below one hundredth of the undisturbed length is noise and counts as 0. */
#include "vmm/tools/measure/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/clock.h"

enum {
    LOAD_MOST_BYTES = 1 << 30,
    LOAD_LEAST_BYTES = 4 << 20,
    LOAD_TRIAL_MEMSETS = 8,
    LOAD_MOST_MEMSETS = 256, /* launch queues hold about a thousand */
    LOAD_REPEATS = 3,
};
#define LOAD_AIM_US 30000.0
#define NOISE 0.01

/* ---- clock and notes ------------------------------------------------------------------------- */

static double wall_s(void)
{
    return (double)pl_clock_ns() * 1e-9;
}

static double now_us(const pl_rig *rig)
{
    return rig->cost_us != NULL ? rig->cost_us() : wall_s() * 1e6;
}

double pl_rig_elapsed_s(const pl_rig *rig)
{
    return wall_s() - rig->begin_s;
}

static void note(pl_rig *rig, const char *what, const char *why)
{
    pl_measure_report *out = rig->out;
    if (out->note[0] == '\0') {
        snprintf(out->note, sizeof(out->note), "%s: %s", what, why);
    }
}

bool pl_rig_is_over(pl_rig *rig)
{
    if (rig->out->n_rows == PL_MEASURE_MAX_ROWS) {
        note(rig, "cut short", "no room for further rows");
        return true;
    }
    if (pl_rig_elapsed_s(rig) >= rig->most_s) {
        note(rig, "cut short", "the time is over");
        return true;
    }
    return false;
}

void pl_rig_progress(const pl_rig *rig, const char *what, size_t bytes)
{
    char text[96];
    if (rig->options->progress == NULL) {
        return;
    }
    if (bytes != 0) {
        snprintf(text, sizeof(text), "%s, %zu MiB", what, bytes >> 20);
    } else {
        snprintf(text, sizeof(text), "%s", what);
    }
    rig->options->progress(rig->options->progress_arg, text);
}

pleat_status pl_rig_check(pl_rig *rig, const char *what, cu_result result)
{
    if (result == CU_SUCCESS) {
        return PLEAT_OK;
    }
    note(rig, what, pl_driver_last_error()->text);
    return pl_driver_status(result);
}

void pl_rig_undo(pl_rig *rig, cu_result result)
{
    pl_device_undo(rig->dev, pl_driver_failure(result));
}

/* ---- the load -------------------------------------------------------------------------------- */

static cu_result submit_load(pl_rig *rig)
{
    cu_result result = pl_cu_event_record(rig->drv, rig->load_begin, rig->load_stream);
    for (unsigned i = 0; result == CU_SUCCESS && i < rig->n_memsets; i++) {
        result = pl_cu_memset_async(rig->drv, rig->load_ptr, (unsigned char)i, rig->load_bytes,
                                    rig->load_stream);
    }
    if (result == CU_SUCCESS) {
        result = pl_cu_event_record(rig->drv, rig->load_end, rig->load_stream);
    }
    return result;
}

/* Waits for the load and reads its time on the GPU from its events. */
static cu_result finish_load(pl_rig *rig, double *us)
{
    float milliseconds = 0.0F;
    cu_result result = pl_cu_event_synchronize(rig->drv, rig->load_end);
    if (result == CU_SUCCESS) {
        result = pl_cu_event_elapsed(rig->drv, &milliseconds, rig->load_begin, rig->load_end);
    }
    *us = (double)milliseconds * 1e3;
    return result;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of a few undisturbed runs. */
static cu_result time_load(pl_rig *rig, double *us)
{
    double lengths[LOAD_REPEATS];
    for (unsigned i = 0; i < LOAD_REPEATS; i++) {
        cu_result result = submit_load(rig);
        if (result == CU_SUCCESS) {
            result = finish_load(rig, &lengths[i]);
        }
        if (result != CU_SUCCESS) {
            return result;
        }
    }
    qsort(lengths, LOAD_REPEATS, sizeof(lengths[0]), by_value);
    *us = lengths[LOAD_REPEATS / 2];
    return CU_SUCCESS;
}

static cu_result calibrate_load(pl_rig *rig)
{
    double us = 0.0;
    rig->n_memsets = LOAD_TRIAL_MEMSETS;
    cu_result result = time_load(rig, &us);
    if (result != CU_SUCCESS) {
        return result;
    }
    if (rig->cost_us != NULL) {
        rig->load_us = us; /* modelled time: a longer load would tell no more */
        return CU_SUCCESS;
    }
    double wanted = us > 0.0 ? LOAD_AIM_US / us * LOAD_TRIAL_MEMSETS : LOAD_TRIAL_MEMSETS;
    wanted = wanted < LOAD_MOST_MEMSETS ? wanted : LOAD_MOST_MEMSETS;
    rig->n_memsets = wanted < 1.0 ? 1 : (unsigned)wanted;
    return time_load(rig, &rig->load_us);
}

pleat_status pl_rig_load_create(pl_rig *rig)
{
    rig->load_bytes = (size_t)rig->portion_bytes;
    size_t most_bytes = rig->cost_us != NULL ? LOAD_LEAST_BYTES : LOAD_MOST_BYTES;
    if (rig->load_bytes > most_bytes) {
        rig->load_bytes = most_bytes;
    }
    cu_devptr ptr = 0;
    if (rig->load_bytes < LOAD_LEAST_BYTES ||
        pl_cu_mem_alloc(rig->drv, &ptr, rig->load_bytes) != CU_SUCCESS) {
        return PLEAT_OK;
    }
    rig->load_ptr = ptr;
    cu_result result = pl_cu_stream_create(rig->drv, &rig->load_stream,
                                           CU_STREAM_NON_BLOCKING_FLAG);
    if (result == CU_SUCCESS) {
        result = pl_cu_event_create(rig->drv, &rig->load_begin, CU_EVENT_DEFAULT_FLAG);
    }
    if (result == CU_SUCCESS) {
        result = pl_cu_event_create(rig->drv, &rig->load_end, CU_EVENT_DEFAULT_FLAG);
    }
    if (result == CU_SUCCESS) {
        result = calibrate_load(rig);
    }
    rig->out->busy_work_us = rig->load_us;
    return pl_rig_check(rig, "work beside the calls", result);
}

void pl_rig_load_destroy(pl_rig *rig)
{
    if (rig->load_stream != NULL) {
        pl_rig_undo(rig, pl_cu_stream_synchronize(rig->drv, rig->load_stream));
        pl_rig_undo(rig, pl_cu_stream_destroy(rig->drv, rig->load_stream));
    }
    if (rig->load_begin != NULL) {
        pl_rig_undo(rig, pl_cu_event_destroy(rig->drv, rig->load_begin));
    }
    if (rig->load_end != NULL) {
        pl_rig_undo(rig, pl_cu_event_destroy(rig->drv, rig->load_end));
    }
    if (rig->load_ptr != 0) {
        pl_rig_undo(rig, pl_cu_mem_free(rig->drv, rig->load_ptr));
    }
}

/* ---- a series -------------------------------------------------------------------------------- */

pleat_status pl_rig_begin(pl_rig *rig, bool is_busy)
{
    rig->is_busy = is_busy;
    rig->was_running = is_busy;
    rig->n_samples = 0;
    rig->alive_sum = 0.0;
    rig->n_waited = 0;
    rig->n_during = 0;
    if (!is_busy) {
        return PLEAT_OK;
    }
    pleat_status st = pl_rig_check(rig, "work beside the calls", submit_load(rig));
    if (st != PLEAT_OK) {
        pl_rig_abandon(rig);
    }
    return st;
}

void pl_rig_start(pl_rig *rig)
{
    rig->start_us = now_us(rig);
}

void pl_rig_stop(pl_rig *rig)
{
    double us = now_us(rig) - rig->start_us;
    if (rig->n_samples < PL_MEASURE_MAX_CHUNKS) {
        rig->samples[rig->n_samples++] = us;
        rig->alive_sum += rig->n_alive;
    }
    if (!rig->was_running) {
        return;
    }
    if (pl_cu_event_query(rig->drv, rig->load_end) == CU_NOT_READY) {
        rig->n_during++;
    } else {
        rig->n_waited++;
        rig->was_running = false;
    }
}

static double mean(const double *values, unsigned n)
{
    double sum = 0.0;
    for (unsigned i = 0; i < n; i++) {
        sum += values[i];
    }
    return n > 0 ? sum / n : 0.0;
}

static void fill_times(pl_rig *rig, pl_measure_row *row)
{
    unsigned n = rig->n_samples;
    unsigned quarter = n >= 4 ? n / 4 : 1;
    memcpy(rig->sorted, rig->samples, n * sizeof(rig->samples[0]));
    qsort(rig->sorted, n, sizeof(rig->sorted[0]), by_value);
    row->n_calls = n;
    row->alive = rig->alive_sum / n;
    row->mean_us = mean(rig->samples, n);
    row->min_us = rig->sorted[0];
    row->p50_us = rig->sorted[n / 2];
    row->p90_us = rig->sorted[n * 9 / 10];
    row->max_us = rig->sorted[n - 1];
    row->first_us = mean(rig->samples, quarter);
    row->last_us = mean(rig->samples + n - quarter, quarter);
}

static double stall_per_call(const pl_rig *rig, double took_us)
{
    double delay_us = took_us - rig->load_us;
    unsigned n_calls = rig->n_during + rig->n_waited;
    return n_calls > 0 && delay_us > NOISE * rig->load_us ? delay_us / n_calls : 0.0;
}

pleat_status pl_rig_end(pl_rig *rig, pl_measure_op op, size_t chunk_bytes, unsigned run_chunks,
                        unsigned run_length)
{
    pl_measure_row row = { .op = op,
                           .chunk_bytes = chunk_bytes,
                           .run_chunks = run_chunks,
                           .run_length = run_length,
                           .is_busy = rig->is_busy,
                           .n_waited = rig->n_waited,
                           .n_during = rig->n_during };
    if (rig->is_busy) {
        double took_us = 0.0;
        pleat_status st = pl_rig_check(rig, "work beside the calls", finish_load(rig, &took_us));
        if (st != PLEAT_OK) {
            return st;
        }
        row.stall_us = stall_per_call(rig, took_us);
    }
    pl_measure_report *out = rig->out;
    if (rig->n_samples > 0 && out->n_rows < PL_MEASURE_MAX_ROWS) {
        fill_times(rig, &row);
        out->rows[out->n_rows++] = row;
    }
    return PLEAT_OK;
}

void pl_rig_abandon(pl_rig *rig)
{
    if (rig->is_busy) {
        pl_rig_undo(rig, pl_cu_stream_synchronize(rig->drv, rig->load_stream));
    }
}
