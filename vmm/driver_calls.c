/* driver_calls.c - the counting wrappers of all entry points.
 *
 * A wrapper adds a relaxed atomic addition and two changes of the thread's cancel state. No call is
 * a cancellation point, whatever the driver does inside (vmm/base/cancel.h). No lock. */
#include <stdatomic.h>

#include "vmm/base/cancel.h"
#include "vmm/base/clock.h"
#include "vmm/base/lock.h"
#include "vmm/driver_state.h"

/* The size that a call names. An entry that is not listed has 0. PICK yields the second of `~, x`,
 * or 0 for a name that is no macro. */
#define SECOND(first, second, ...) second
#define PICK(...) SECOND(__VA_ARGS__, 0, 0)

#define BYTES_mem_alloc ~, bytes
#define BYTES_host_alloc ~, bytes
#define BYTES_mem_alloc_async ~, bytes
#define BYTES_pool_trim ~, keep_bytes
#define BYTES_pool_alloc_async ~, bytes
#define BYTES_address_reserve ~, bytes
#define BYTES_address_free ~, bytes
#define BYTES_mem_create ~, bytes
#define BYTES_mem_map ~, bytes
#define BYTES_mem_unmap ~, bytes
#define BYTES_mem_set_access ~, bytes
#define BYTES_memset_async ~, bytes
#define BYTES_memcpy_dtoh_async ~, bytes
#define BYTES_memcpy_htod_async ~, bytes
#define BYTES_memcpy_dtod_async ~, bytes

/* ---- around each call ------------------------------------------------------------------------ */

static inline uint64_t call_begin(const pl_driver *drv)
{
#if PLEAT_DEBUG_LEVEL >= 1
    pl_lock_assert_below(PL_RANK_DEVICE);
#endif
    return atomic_load_explicit(&drv->is_timed, memory_order_relaxed) ? pl_clock_ns() : 0;
}

/* Some calls ask whether the GPU is at work, and NOT_READY is an answer. All others have failed. */
static inline bool is_good_result(pl_entry entry, cu_result result)
{
    bool is_query = entry == PL_CU_stream_query || entry == PL_CU_event_query ||
                    entry == PL_CU_event_elapsed;
    return result == CU_SUCCESS || (is_query && result == CU_NOT_READY);
}

static inline void call_end(pl_driver *drv, pl_entry entry, uint64_t begin_ns, cu_result result,
                            uint64_t bytes)
{
    bool is_good = is_good_result(entry, result);
    atomic_fetch_add_explicit(&drv->n_calls[entry], 1, memory_order_relaxed);
    if (begin_ns != 0) {
        atomic_fetch_add_explicit(&drv->call_ns, pl_clock_ns() - begin_ns, memory_order_relaxed);
        if (drv->watch != NULL) {
            drv->watch(entry, is_good ? 0 : result, bytes, drv->watch_context);
        }
    }
    if (!is_good) {
        pl_driver_note_failure(drv, entry, result, bytes);
    }
}

/* Answers for an optional entry point that this driver lacks. */
static cu_result answer_missing(const pl_driver *drv, pl_entry entry)
{
    pl_driver_note_failure(drv, entry, CU_NOT_FOUND, 0);
    pl_driver_set_detail("the driver has no %s", pl_entry_symbol(entry));
    return CU_NOT_FOUND;
}

#define DEFINE_WRAPPER(field, symbol, need, params, args)                                          \
    cu_result pl_cu_##field(pl_driver *drv, PL_UNPAREN params)                                     \
    {                                                                                              \
        if (drv->table.field == NULL) {                                                            \
            return answer_missing(drv, PL_CU_##field);                                             \
        }                                                                                          \
        uint64_t begin_ns = call_begin(drv);                                                       \
        int cancel = pl_cancel_off();                                                              \
        cu_result result = drv->table.field args;                                                  \
        pl_cancel_restore(cancel);                                                                 \
        call_end(drv, PL_CU_##field, begin_ns, result, PICK(BYTES_##field));                       \
        return result;                                                                             \
    }
PL_DRIVER_LIST(DEFINE_WRAPPER)
#undef DEFINE_WRAPPER

bool pl_driver_can_synchronize(const pl_driver *drv)
{
    return drv->ctx_synchronize != NULL;
}

cu_result pl_cu_ctx_synchronize(pl_driver *drv)
{
    if (drv->ctx_synchronize == NULL) {
        pl_driver_note_failure(drv, PL_N_ENTRIES, CU_NOT_FOUND, 0);
        pl_driver_set_detail("the driver has no cuCtxSynchronize");
        return CU_NOT_FOUND;
    }
    uint64_t begin_ns = call_begin(drv);
    int cancel = pl_cancel_off();
    cu_result result = drv->ctx_synchronize();
    pl_cancel_restore(cancel);
    if (begin_ns != 0) {
        atomic_fetch_add_explicit(&drv->call_ns, pl_clock_ns() - begin_ns, memory_order_relaxed);
    }
    if (result != CU_SUCCESS) {
        pl_driver_note_failure(drv, PL_N_ENTRIES, result, 0);
        pl_driver_set_detail("cuCtxSynchronize");
    }
    return result;
}

/* ---- what was counted ------------------------------------------------------------------------ */

uint64_t pl_driver_n_calls(const pl_driver *drv, pl_entry entry)
{
    return atomic_load_explicit(&drv->n_calls[entry], memory_order_relaxed);
}

uint64_t pl_driver_call_ns(const pl_driver *drv)
{
    return atomic_load_explicit(&drv->call_ns, memory_order_relaxed);
}

void pl_driver_time_calls(pl_driver *drv, bool on)
{
    atomic_store_explicit(&drv->is_timed, on, memory_order_relaxed);
}

void pl_driver_watch(pl_driver *drv, pl_driver_call_fn see, void *context)
{
    drv->watch = see;
    drv->watch_context = context;
}
