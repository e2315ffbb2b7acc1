/* measure_event.c - measures whole allocations, and events. */
#include "vmm/tools/measure/rig.h"

enum { MOST_MALLOCS = 16, EVENT_CALLS = 128 };

/* ---- whole allocations ----------------------------------------------------------------------- */

static pleat_status end_series(pl_rig *rig, pl_measure_op op, size_t bytes, cu_result result)
{
    pleat_status st = pl_rig_check(rig, pl_measure_op_name(op), result);
    if (st != PLEAT_OK) {
        pl_rig_abandon(rig);
        return st;
    }
    return pl_rig_end(rig, op, bytes, 1, 1);
}

static pleat_status time_malloc(pl_rig *rig, size_t bytes, cu_devptr *ptrs, unsigned n,
                                unsigned *n_held, bool is_busy)
{
    cu_result result = CU_SUCCESS;
    pleat_status st = pl_rig_begin(rig, is_busy);
    if (st != PLEAT_OK) {
        return st;
    }
    while (*n_held < n && result == CU_SUCCESS) {
        pl_rig_start(rig);
        result = pl_cu_mem_alloc(rig->drv, &ptrs[*n_held], bytes);
        if (result == CU_SUCCESS) {
            pl_rig_stop(rig);
            ++*n_held;
        }
    }
    result = result == CU_OUT_OF_MEMORY ? CU_SUCCESS : result;
    return end_series(rig, PL_MEASURE_MALLOC, bytes, result);
}

static pleat_status time_mfree(pl_rig *rig, size_t bytes, const cu_devptr *ptrs, unsigned *n_held,
                               bool is_busy)
{
    cu_result result = CU_SUCCESS;
    pleat_status st = pl_rig_begin(rig, is_busy);
    if (st != PLEAT_OK) {
        return st;
    }
    while (*n_held > 0 && result == CU_SUCCESS) {
        pl_rig_start(rig);
        result = pl_cu_mem_free(rig->drv, ptrs[*n_held - 1]);
        if (result == CU_SUCCESS) {
            pl_rig_stop(rig);
            --*n_held;
        }
    }
    return end_series(rig, PL_MEASURE_MFREE, bytes, result);
}

static pleat_status measure_mallocs(pl_rig *rig, size_t bytes, bool is_busy)
{
    cu_devptr ptrs[MOST_MALLOCS];
    uint64_t fit = rig->portion_bytes / bytes;
    unsigned n = fit < MOST_MALLOCS ? (unsigned)fit : MOST_MALLOCS;
    unsigned n_held = 0;
    if (n == 0 || pl_rig_is_over(rig) || (is_busy && rig->load_ptr == 0)) {
        return PLEAT_OK;
    }
    pleat_status st = time_malloc(rig, bytes, ptrs, n, &n_held, is_busy);
    if (st == PLEAT_OK) {
        st = time_mfree(rig, bytes, ptrs, &n_held, is_busy);
    }
    while (n_held > 0) {
        pl_rig_undo(rig, pl_cu_mem_free(rig->drv, ptrs[--n_held]));
    }
    return st;
}

pleat_status pl_measure_mallocs(pl_rig *rig)
{
    pleat_status st = PLEAT_OK;
    for (unsigned i = 0; st == PLEAT_OK && i < PL_MEASURE_N_SIZES; i++) {
        size_t bytes = pl_measure_size(i);
        pl_rig_progress(rig, "whole allocations", bytes);
        st = measure_mallocs(rig, bytes, false);
        if (st == PLEAT_OK) {
            st = measure_mallocs(rig, bytes, true);
        }
    }
    return st;
}

/* ---- events ---------------------------------------------------------------------------------- */

static cu_result call_event(pl_rig *rig, pl_measure_op op, cu_stream stream, cu_event event)
{
    switch (op) {
    case PL_MEASURE_EVENT_RECORD:
        return pl_cu_event_record(rig->drv, event, stream);
    case PL_MEASURE_STREAM_WAIT:
        return pl_cu_stream_wait_event(rig->drv, stream, event, 0);
    default: {
        cu_result result = pl_cu_event_query(rig->drv, event);
        return result == CU_NOT_READY ? CU_SUCCESS : result;
    }
    }
}

static pleat_status time_event(pl_rig *rig, pl_measure_op op, cu_stream stream, cu_event event)
{
    cu_result result = CU_SUCCESS;
    pleat_status st = pl_rig_begin(rig, false);
    for (unsigned i = 0; st == PLEAT_OK && result == CU_SUCCESS && i < EVENT_CALLS; i++) {
        pl_rig_start(rig);
        result = call_event(rig, op, stream, event);
        pl_rig_stop(rig);
    }
    return st == PLEAT_OK ? end_series(rig, op, 0, result) : st;
}

pleat_status pl_measure_events(pl_rig *rig)
{
    static const pl_measure_op ops[] = { PL_MEASURE_EVENT_RECORD, PL_MEASURE_EVENT_QUERY,
                                         PL_MEASURE_STREAM_WAIT };
    cu_stream stream = NULL;
    cu_event event = NULL;
    pl_rig_progress(rig, "events", 0);
    cu_result result = pl_cu_stream_create(rig->drv, &stream, CU_STREAM_NON_BLOCKING_FLAG);
    pleat_status st = pl_rig_check(rig, "events", result);
    if (st != PLEAT_OK) {
        return st;
    }
    result = pl_cu_event_create(rig->drv, &event, CU_EVENT_DISABLE_TIMING_FLAG);
    st = pl_rig_check(rig, "events", result);
    if (st != PLEAT_OK) {
        goto undo_stream;
    }
    for (unsigned i = 0; st == PLEAT_OK && i < sizeof(ops) / sizeof(ops[0]); i++) {
        st = time_event(rig, ops[i], stream, event);
    }
    pl_rig_undo(rig, pl_cu_event_destroy(rig->drv, event));
undo_stream:
    pl_rig_undo(rig, pl_cu_stream_destroy(rig->drv, stream));
    return st;
}
