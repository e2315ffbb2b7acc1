/* alias.c - the litmus test for takes, with one chunk mapped at two addresses.
 *
 * A take writes through the new address while caches may hold the old address's bytes. Per round, a
 * first stream writes all of the chunk through the old address. A second stream, ordered behind by
 * an event, writes the first half through the new address and reads a window across the middle. The
 * first stream, ordered behind the second, reads the same window through the old address. Both
 * reads must see the second stream's bytes before the middle and the first stream's after it. */
#include "vmm/tools/measure/rig.h"

enum { ROUNDS = 64 };

typedef struct alias_pair {
    size_t bytes; /* of the chunk */
    cu_devptr at; /* old address; the new address follows; 0 = no range */
    cu_mem_handle handle;
    unsigned n_mapped;
    cu_stream streams[2];
    cu_event event;
} alias_pair;

static cu_result open_pair(pl_rig *rig, alias_pair *pair)
{
    cu_mem_prop prop = rig->dev->prop;
    cu_access_desc access = rig->dev->access[0];
    cu_result result = pl_cu_address_reserve(rig->drv, &pair->at, pair->bytes * 2, 0, 0, 0);
    if (result == CU_SUCCESS) {
        result = pl_cu_mem_create(rig->drv, &pair->handle, pair->bytes, &prop, 0);
    }
    while (result == CU_SUCCESS && pair->n_mapped < 2) {
        cu_devptr at = pair->at + pair->n_mapped * pair->bytes;
        result = pl_cu_mem_map(rig->drv, at, pair->bytes, 0, pair->handle, 0);
        pair->n_mapped += result == CU_SUCCESS ? 1 : 0;
    }
    if (result == CU_SUCCESS) {
        result = pl_cu_mem_set_access(rig->drv, pair->at, pair->bytes * 2, &access, 1);
    }
    for (unsigned i = 0; result == CU_SUCCESS && i < 2; i++) {
        result = pl_cu_stream_create(rig->drv, &pair->streams[i], CU_STREAM_NON_BLOCKING_FLAG);
    }
    if (result == CU_SUCCESS) {
        result = pl_cu_event_create(rig->drv, &pair->event, CU_EVENT_DISABLE_TIMING_FLAG);
    }
    return result;
}

static void close_pair(pl_rig *rig, alias_pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        if (pair->streams[i] != NULL) {
            pl_rig_undo(rig, pl_cu_stream_synchronize(rig->drv, pair->streams[i]));
            pl_rig_undo(rig, pl_cu_stream_destroy(rig->drv, pair->streams[i]));
        }
    }
    if (pair->event != NULL) {
        pl_rig_undo(rig, pl_cu_event_destroy(rig->drv, pair->event));
    }
    if (pair->n_mapped > 0) {
        pl_rig_undo(rig, pl_cu_mem_unmap(rig->drv, pair->at, pair->n_mapped * pair->bytes));
    }
    if (pair->handle != 0) {
        pl_rig_undo(rig, pl_cu_mem_release(rig->drv, pair->handle));
    }
    if (pair->at != 0) {
        pl_rig_undo(rig, pl_cu_address_free(rig->drv, pair->at, pair->bytes * 2));
    }
}

/* Orders `later` behind the work submitted to `earlier`. */
static cu_result order(pl_rig *rig, const alias_pair *pair, cu_stream earlier, cu_stream later)
{
    cu_result result = pl_cu_event_record(rig->drv, pair->event, earlier);
    if (result == CU_SUCCESS) {
        result = pl_cu_stream_wait_event(rig->drv, later, pair->event, 0);
    }
    return result;
}

/* Reads a window. Counts bytes that differ from `before` in the first half, or from `behind` in the
 * second. */
static cu_result read_window(pl_rig *rig, cu_devptr from, size_t bytes, cu_stream stream,
                             unsigned char before, unsigned char behind, unsigned *n_wrong)
{
    cu_result result = pl_cu_memcpy_dtoh_async(rig->drv, rig->window, from, bytes, stream);
    if (result == CU_SUCCESS) {
        result = pl_cu_stream_synchronize(rig->drv, stream);
    }
    if (result != CU_SUCCESS) {
        return result;
    }
    for (size_t i = 0; i < bytes; i++) {
        *n_wrong += rig->window[i] != (i < bytes / 2 ? before : behind) ? 1 : 0;
    }
    return CU_SUCCESS;
}

static size_t window_bytes(const alias_pair *pair)
{
    return pair->bytes < PL_RIG_WINDOW_BYTES ? pair->bytes : PL_RIG_WINDOW_BYTES;
}

/* Does the device keep contents at all? Writes and reads at one address, without aliases. */
static cu_result try_contents(pl_rig *rig, const alias_pair *pair, unsigned *n_wrong)
{
    size_t bytes = window_bytes(pair);
    cu_result result = pl_cu_memset_async(rig->drv, pair->at, 0x5A, pair->bytes, pair->streams[0]);
    rig->window[0] = 0;
    if (result == CU_SUCCESS) {
        result = read_window(rig, pair->at, bytes, pair->streams[0], 0x5A, 0x5A, n_wrong);
    }
    return result;
}

static cu_result play_round(pl_rig *rig, const alias_pair *pair, unsigned round, unsigned *n_wrong)
{
    size_t half = pair->bytes / 2;
    size_t bytes = window_bytes(pair);
    cu_devptr old_at = pair->at;
    cu_devptr new_at = pair->at + pair->bytes;
    cu_stream first = pair->streams[0];
    cu_stream second = pair->streams[1];
    unsigned char by_old = (unsigned char)(round * 2 + 1);
    unsigned char by_new = (unsigned char)(round * 2 + 2);
    cu_result result = pl_cu_memset_async(rig->drv, old_at, by_old, pair->bytes, first);
    if (result == CU_SUCCESS) {
        result = order(rig, pair, first, second);
    }
    if (result == CU_SUCCESS) {
        result = pl_cu_memset_async(rig->drv, new_at, by_new, half, second);
    }
    if (result == CU_SUCCESS) {
        result = read_window(rig, new_at + half - bytes / 2, bytes, second, by_new, by_old,
                             n_wrong);
    }
    if (result == CU_SUCCESS) {
        result = order(rig, pair, second, first);
    }
    if (result == CU_SUCCESS) {
        result = read_window(rig, old_at + half - bytes / 2, bytes, first, by_new, by_old, n_wrong);
    }
    return result;
}

pleat_status pl_measure_aliases(pl_rig *rig)
{
    alias_pair pair = { .bytes = rig->dev->granule_bytes };
    pl_measure_report *out = rig->out;
    pl_rig_progress(rig, "aliases", 0);
    unsigned n_wrong = 0;
    cu_result result = open_pair(rig, &pair);
    if (result == CU_SUCCESS) {
        result = try_contents(rig, &pair, &n_wrong);
    }
    if (result == CU_SUCCESS && n_wrong == 0) {
        for (unsigned i = 0; result == CU_SUCCESS && i < ROUNDS; i++) {
            result = play_round(rig, &pair, i, &n_wrong);
            out->alias_rounds += result == CU_SUCCESS ? 1 : 0;
        }
        out->alias_wrong_bytes = n_wrong;
        out->aliases_coherent = n_wrong == 0 ? PL_MEASURE_YES : PL_MEASURE_NO;
    }
    pleat_status st = pl_rig_check(rig, "aliases", result);
    if (st != PLEAT_OK) {
        out->aliases_coherent = PL_MEASURE_UNKNOWN;
    }
    close_pair(rig, &pair);
    return st;
}
