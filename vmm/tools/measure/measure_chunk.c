/* measure_chunk.c - measures the cost of chunks of each size (create, map, set access, unmap,
 * release) and of their address space.
 *
 * Memory is fresh if the process has not had it before. Chunks of all sizes are created and held
 * together, then released. Chunks created later are not fresh. A set tracks its chunks, so one
 * function gives everything back wherever the measurement stopped. */
#include "vmm/tools/measure/rig.h"

enum { BUSY_CHUNKS = 64, RESERVES = 16, N_RUNS = 5 };

static const unsigned run_chunks[N_RUNS] = { 1, 4, 16, 64, 256 };

/* Chunks of one size. [first_mapped, end_mapped) are mapped side by side from base. */
typedef struct chunk_set {
    size_t bytes; /* of a chunk */
    unsigned n;   /* wanted */
    unsigned n_created;
    unsigned first_mapped;
    unsigned end_mapped;
    cu_devptr base; /* 0 = no range */
    size_t range_bytes;
    cu_mem_handle handles[PL_MEASURE_MAX_CHUNKS];
} chunk_set;

size_t pl_measure_size(unsigned index)
{
    static const unsigned mib[PL_MEASURE_N_SIZES] = { 2, 4, 16, 32, 64, 256 };
    return (size_t)mib[index] << 20;
}

/* ---- giving back ----------------------------------------------------------------------------- */

static void unmap_all(pl_rig *rig, chunk_set *set)
{
    if (set->end_mapped > set->first_mapped) {
        size_t n = set->end_mapped - set->first_mapped;
        cu_devptr at = set->base + set->first_mapped * set->bytes;
        pl_rig_undo(rig, pl_cu_mem_unmap(rig->drv, at, n * set->bytes));
    }
    set->first_mapped = 0;
    set->end_mapped = 0;
}

static void give_back(pl_rig *rig, chunk_set *set)
{
    unmap_all(rig, set);
    while (set->n_created > 0) {
        pl_rig_undo(rig, pl_cu_mem_release(rig->drv, set->handles[--set->n_created]));
        rig->n_alive--;
    }
    if (set->base != 0) {
        pl_rig_undo(rig, pl_cu_address_free(rig->drv, set->base, set->range_bytes));
        set->base = 0;
    }
}

/* ---- timed series ---------------------------------------------------------------------------- */

/* Ends a series by adding its row, or after a failure by waiting for the running work. */
static pleat_status end_series(pl_rig *rig, pl_measure_op op, const chunk_set *set, unsigned run,
                               cu_result result)
{
    pleat_status st = pl_rig_check(rig, pl_measure_op_name(op), result);
    if (st != PLEAT_OK) {
        pl_rig_abandon(rig);
        return st;
    }
    return pl_rig_end(rig, op, set->bytes, op == PL_MEASURE_MAP ? 1 : run, run);
}

/* Creates up to set->n chunks. If memory runs out, the set becomes smaller. */
static pleat_status time_create(pl_rig *rig, chunk_set *set, pl_measure_op op, bool is_busy)
{
    cu_mem_prop prop = rig->dev->prop;
    cu_result result = CU_SUCCESS;
    pleat_status st = pl_rig_begin(rig, is_busy);
    if (st != PLEAT_OK) {
        return st;
    }
    while (set->n_created < set->n && result == CU_SUCCESS) {
        cu_mem_handle handle = 0;
        pl_rig_start(rig);
        result = pl_cu_mem_create(rig->drv, &handle, set->bytes, &prop, 0);
        if (result == CU_SUCCESS) {
            pl_rig_stop(rig);
            set->handles[set->n_created++] = handle;
            rig->n_alive++;
        }
    }
    if (result == CU_OUT_OF_MEMORY) {
        set->n = set->n_created;
        result = CU_SUCCESS;
    }
    return end_series(rig, op, set, 1, result);
}

static pleat_status time_release(pl_rig *rig, chunk_set *set, bool is_busy)
{
    cu_result result = CU_SUCCESS;
    pleat_status st = pl_rig_begin(rig, is_busy);
    if (st != PLEAT_OK) {
        return st;
    }
    while (set->n_created > 0 && result == CU_SUCCESS) {
        pl_rig_start(rig);
        result = pl_cu_mem_release(rig->drv, set->handles[set->n_created - 1]);
        if (result == CU_SUCCESS) {
            pl_rig_stop(rig);
            set->n_created--;
            rig->n_alive--;
        }
    }
    return end_series(rig, PL_MEASURE_RELEASE, set, 1, result);
}

/* Maps the first n chunks, one call each. `run` is the length of the following runs. */
static pleat_status time_map(pl_rig *rig, chunk_set *set, unsigned n, unsigned run, bool is_busy)
{
    cu_result result = CU_SUCCESS;
    pleat_status st = pl_rig_begin(rig, is_busy);
    if (st != PLEAT_OK) {
        return st;
    }
    while (set->end_mapped < n && result == CU_SUCCESS) {
        unsigned i = set->end_mapped;
        pl_rig_start(rig);
        result = pl_cu_mem_map(rig->drv, set->base + i * set->bytes, set->bytes, 0, set->handles[i],
                               0);
        if (result == CU_SUCCESS) {
            pl_rig_stop(rig);
            set->end_mapped++;
        }
    }
    return end_series(rig, PL_MEASURE_MAP, set, run, result);
}

static pleat_status time_access(pl_rig *rig, chunk_set *set, unsigned run, bool is_busy)
{
    cu_access_desc access = rig->dev->access[0];
    cu_result result = CU_SUCCESS;
    pleat_status st = pl_rig_begin(rig, is_busy);
    if (st != PLEAT_OK) {
        return st;
    }
    for (unsigned i = 0; i + run <= set->end_mapped && result == CU_SUCCESS; i += run) {
        pl_rig_start(rig);
        result = pl_cu_mem_set_access(rig->drv, set->base + i * set->bytes, run * set->bytes,
                                      &access, 1);
        pl_rig_stop(rig);
    }
    return end_series(rig, PL_MEASURE_ACCESS, set, run, result);
}

static pleat_status time_unmap(pl_rig *rig, chunk_set *set, unsigned run, bool is_busy)
{
    cu_result result = CU_SUCCESS;
    pleat_status st = pl_rig_begin(rig, is_busy);
    if (st != PLEAT_OK) {
        return st;
    }
    while (set->first_mapped + run <= set->end_mapped && result == CU_SUCCESS) {
        cu_devptr at = set->base + set->first_mapped * set->bytes;
        pl_rig_start(rig);
        result = pl_cu_mem_unmap(rig->drv, at, run * set->bytes);
        if (result == CU_SUCCESS) {
            pl_rig_stop(rig);
            set->first_mapped += run;
        }
    }
    return end_series(rig, PL_MEASURE_UNMAP, set, run, result);
}

/* Reserves and frees ranges as large as the set's. */
static pleat_status time_ranges(pl_rig *rig, const chunk_set *set, bool is_busy)
{
    cu_devptr bases[RESERVES];
    unsigned n_held = 0;
    cu_result result = CU_SUCCESS;
    pleat_status st = pl_rig_begin(rig, is_busy);
    while (st == PLEAT_OK && n_held < RESERVES && result == CU_SUCCESS) {
        pl_rig_start(rig);
        result = pl_cu_address_reserve(rig->drv, &bases[n_held], set->range_bytes, 0, 0, 0);
        if (result == CU_SUCCESS) {
            pl_rig_stop(rig);
            n_held++;
        }
    }
    if (st == PLEAT_OK) {
        st = end_series(rig, PL_MEASURE_RESERVE, set, set->n, result);
    }
    if (st == PLEAT_OK) {
        st = pl_rig_begin(rig, is_busy);
    }
    while (st == PLEAT_OK && n_held > 0 && result == CU_SUCCESS) {
        pl_rig_start(rig);
        result = pl_cu_address_free(rig->drv, bases[n_held - 1], set->range_bytes);
        if (result == CU_SUCCESS) {
            pl_rig_stop(rig);
            n_held--;
        }
    }
    if (st == PLEAT_OK) {
        st = end_series(rig, PL_MEASURE_ADDRESS_FREE, set, set->n, result);
    }
    while (n_held > 0) {
        pl_rig_undo(rig, pl_cu_address_free(rig->drv, bases[--n_held], set->range_bytes));
    }
    return st;
}

/* ---- one size after the other ---------------------------------------------------------------- */

/* The first n chunks in runs: map, set access, unmap. */
static pleat_status time_run(pl_rig *rig, chunk_set *set, unsigned n, unsigned run, bool is_busy)
{
    if (run > n || pl_rig_is_over(rig)) {
        return PLEAT_OK;
    }
    pleat_status st = time_map(rig, set, n - n % run, run, is_busy);
    if (st == PLEAT_OK) {
        st = time_access(rig, set, run, is_busy);
    }
    if (st == PLEAT_OK) {
        st = time_unmap(rig, set, run, is_busy);
    }
    unmap_all(rig, set);
    return st;
}

static pleat_status time_idle(pl_rig *rig, chunk_set *set)
{
    pleat_status st = time_create(rig, set, PL_MEASURE_CREATE, false);
    for (unsigned i = 0; st == PLEAT_OK && i < N_RUNS; i++) {
        st = time_run(rig, set, set->n, run_chunks[i], false);
    }
    return st == PLEAT_OK ? time_release(rig, set, false) : st;
}

static pleat_status time_busy(pl_rig *rig, chunk_set *set)
{
    if (rig->load_ptr == 0 || pl_rig_is_over(rig)) {
        return PLEAT_OK;
    }
    set->n = set->n < BUSY_CHUNKS ? set->n : BUSY_CHUNKS;
    pleat_status st = time_ranges(rig, set, true);
    if (st == PLEAT_OK) {
        st = time_create(rig, set, PL_MEASURE_CREATE, true);
    }
    if (st == PLEAT_OK) {
        st = time_run(rig, set, set->n, 1, true);
    }
    if (st == PLEAT_OK) {
        st = time_run(rig, set, set->n, 16, true);
    }
    return st == PLEAT_OK ? time_release(rig, set, true) : st;
}

static pleat_status measure_size(pl_rig *rig, chunk_set *set)
{
    pl_rig_progress(rig, "chunks", set->bytes);
    set->range_bytes = set->n * set->bytes;
    cu_devptr base = 0;
    pleat_status st = pl_rig_check(
        rig, "reserve", pl_cu_address_reserve(rig->drv, &base, set->range_bytes, 0, 0, 0));
    if (st != PLEAT_OK) {
        return st;
    }
    set->base = base;
    st = time_ranges(rig, set, false);
    if (st == PLEAT_OK) {
        st = time_idle(rig, set);
    }
    if (st == PLEAT_OK) {
        st = time_busy(rig, set);
    }
    give_back(rig, set);
    return st;
}

static void init_set(const pl_rig *rig, chunk_set *set, size_t bytes)
{
    size_t granule = rig->dev->granule_bytes;
    uint64_t fit = rig->portion_bytes / bytes;
    unsigned n = fit < PL_MEASURE_MAX_CHUNKS ? (unsigned)fit : PL_MEASURE_MAX_CHUNKS;
    *set = (chunk_set){ .bytes = bytes, .n = bytes % granule == 0 ? n : 0 };
}

pleat_status pl_measure_chunks(pl_rig *rig)
{
    chunk_set sets[PL_MEASURE_N_SIZES];
    pleat_status st = PLEAT_OK;
    pl_rig_progress(rig, "fresh chunks", 0);
    for (unsigned i = 0; i < PL_MEASURE_N_SIZES; i++) {
        init_set(rig, &sets[i], pl_measure_size(i));
        if (st == PLEAT_OK && sets[i].n > 0 && !pl_rig_is_over(rig)) {
            st = time_create(rig, &sets[i], PL_MEASURE_CREATE_FRESH, false);
        }
    }
    for (unsigned i = 0; i < PL_MEASURE_N_SIZES; i++) {
        give_back(rig, &sets[i]);
    }
    for (unsigned i = 0; st == PLEAT_OK && i < PL_MEASURE_N_SIZES; i++) {
        if (sets[i].n > 0 && !pl_rig_is_over(rig)) {
            st = measure_size(rig, &sets[i]);
        }
    }
    return st;
}
