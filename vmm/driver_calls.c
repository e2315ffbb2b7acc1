/* driver_calls.c - the counting wrappers of all entry points, and the ring of the last calls.
 *
 * A wrapper adds two relaxed atomic additions and a few stores to the call. Some successful calls
 * come with every allocation: a stream's identity, the capture mode around it, the stream's capture
 * state, the current device. They are counted but stay out of the ring, since they would push
 * everything else out. No call is a cancellation point, whatever the driver does inside
 * (vmm/base/cancel.h). No lock. Counters and the ring are atomic. A slot overwritten during a read
 * shows a changed number and is left out. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "vmm/base/cancel.h"
#include "vmm/base/clock.h"
#include "vmm/base/lock.h"
#include "vmm/driver_state.h"

/* The ring's fields by entry point: address, size, and the call's allocation handle, stream or
 * event. An entry that is not listed has 0. OUT reads an out-parameter, which is valid after
 * success only. PICK yields the second of `~, x`, or 0 for a name that is no macro. */
#define SECOND(first, second, ...) second
#define PICK(...) SECOND(__VA_ARGS__, 0, 0)
#define OUT(p) (result == CU_SUCCESS ? *(p) : 0)

#define PTR_mem_alloc ~, OUT(ptr)
#define PTR_mem_alloc_async ~, OUT(ptr)
#define PTR_pool_alloc_async ~, OUT(ptr)
#define PTR_mem_free ~, ptr
#define PTR_host_alloc ~, (uintptr_t)OUT(out)
#define PTR_host_free ~, (uintptr_t)ptr
#define PTR_mem_free_async ~, ptr
#define PTR_address_reserve ~, OUT(ptr)
#define PTR_address_free ~, ptr
#define PTR_mem_map ~, ptr
#define PTR_mem_unmap ~, ptr
#define PTR_mem_set_access ~, ptr
#define PTR_mem_get_access ~, ptr
#define PTR_mem_address_range ~, ptr
#define PTR_memset_async ~, ptr
#define PTR_memcpy_dtoh_async ~, from
#define PTR_memcpy_htod_async ~, to
#define PTR_memcpy_dtod_async ~, to
#define PTR_stream_write64 ~, ptr

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

#define OBJECT_mem_create ~, OUT(handle)
#define OBJECT_mem_release ~, handle
#define OBJECT_mem_map ~, handle
#define OBJECT_mem_export ~, handle
#define OBJECT_mem_alloc_async ~, (uintptr_t)stream
#define OBJECT_mem_free_async ~, (uintptr_t)stream
#define OBJECT_pool_create ~, (uintptr_t)OUT(pool)
#define OBJECT_pool_destroy ~, (uintptr_t)pool
#define OBJECT_pool_set_access ~, (uintptr_t)pool
#define OBJECT_pool_trim ~, (uintptr_t)pool
#define OBJECT_pool_alloc_async ~, (uintptr_t)stream
#define OBJECT_memset_async ~, (uintptr_t)stream
#define OBJECT_memcpy_dtoh_async ~, (uintptr_t)stream
#define OBJECT_memcpy_htod_async ~, (uintptr_t)stream
#define OBJECT_memcpy_dtod_async ~, (uintptr_t)stream
#define OBJECT_stream_create ~, (uintptr_t)OUT(stream)
#define OBJECT_stream_destroy ~, (uintptr_t)stream
#define OBJECT_stream_id ~, (uintptr_t)stream
#define OBJECT_stream_ctx ~, (uintptr_t)stream
#define OBJECT_stream_green ~, (uintptr_t)stream
#define OBJECT_stream_query ~, (uintptr_t)stream
#define OBJECT_stream_synchronize ~, (uintptr_t)stream
#define OBJECT_stream_wait_event ~, (uintptr_t)stream
#define OBJECT_stream_is_capturing ~, (uintptr_t)stream
#define OBJECT_stream_begin_capture ~, (uintptr_t)stream
#define OBJECT_stream_end_capture ~, (uintptr_t)stream
#define OBJECT_ctx_record_event ~, (uintptr_t)event
#define OBJECT_user_object_create ~, (uintptr_t)OUT(object)
#define OBJECT_user_object_retain ~, (uintptr_t)object
#define OBJECT_user_object_release ~, (uintptr_t)object
#define OBJECT_graph_retain_user_object ~, (uintptr_t)object
#define OBJECT_graph_release_user_object ~, (uintptr_t)object
#define OBJECT_event_create ~, (uintptr_t)OUT(event)
#define OBJECT_event_record ~, (uintptr_t)event
#define OBJECT_event_query ~, (uintptr_t)event
#define OBJECT_event_synchronize ~, (uintptr_t)event
#define OBJECT_event_destroy ~, (uintptr_t)event

typedef struct call_note {
    pl_entry entry;
    cu_result result;
    uint64_t ptr;
    uint64_t bytes;
    uint64_t object;
} call_note;

/* ---- around each call ------------------------------------------------------------------------ */

static inline uint64_t call_begin(const pl_driver *drv)
{
#if PLEAT_DEBUG_LEVEL >= 1
    pl_lock_assert_below(PL_RANK_DEVICE);
#endif
    return atomic_load_explicit(&drv->is_timed, memory_order_relaxed) ? pl_clock_ns() : 0;
}

static void ring_put(pl_driver *drv, const call_note *note)
{
    uint64_t at = atomic_fetch_add_explicit(&drv->n_ring, 1, memory_order_relaxed);
    pl_ring_slot *slot = &drv->ring[at % PL_RING_CALLS];
    atomic_store_explicit(&slot->number, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->entry, (int)note->entry, memory_order_release);
    atomic_store_explicit(&slot->result, note->result, memory_order_release);
    atomic_store_explicit(&slot->ptr, note->ptr, memory_order_release);
    atomic_store_explicit(&slot->bytes, note->bytes, memory_order_release);
    atomic_store_explicit(&slot->object, note->object, memory_order_release);
    atomic_store_explicit(&slot->number, at + 1, memory_order_release);
}

static inline bool is_lookup(pl_entry entry)
{
    return entry == PL_CU_stream_id || entry == PL_CU_stream_is_capturing ||
           entry == PL_CU_stream_capture_info || entry == PL_CU_ctx_get_device ||
           entry == PL_CU_thread_capture_mode;
}

/* Some calls ask whether the GPU is at work, and NOT_READY is an answer. All others have failed. */
static inline bool is_good_result(pl_entry entry, cu_result result)
{
    bool is_query = entry == PL_CU_stream_query || entry == PL_CU_event_query ||
                    entry == PL_CU_event_elapsed;
    return result == CU_SUCCESS || (is_query && result == CU_NOT_READY);
}

static inline void call_end(pl_driver *drv, uint64_t begin_ns, const call_note *note)
{
    bool is_good = is_good_result(note->entry, note->result);
    atomic_fetch_add_explicit(&drv->n_calls[note->entry], 1, memory_order_relaxed);
    if (begin_ns != 0) {
        atomic_fetch_add_explicit(&drv->call_ns, pl_clock_ns() - begin_ns, memory_order_relaxed);
        if (drv->watch != NULL) {
            drv->watch(note->entry, is_good ? 0 : note->result, note->bytes, drv->watch_context);
        }
    }
    if (!is_good) {
        pl_driver_note_failure(drv, note->entry, note->result, note->bytes);
    }
    if (!is_lookup(note->entry) || !is_good) {
        ring_put(drv, note);
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
        call_note note = { .entry = PL_CU_##field, .result = result };                             \
        note.ptr = PICK(PTR_##field);                                                              \
        note.bytes = PICK(BYTES_##field);                                                          \
        note.object = PICK(OBJECT_##field);                                                        \
        call_end(drv, begin_ns, &note);                                                            \
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

/* Copies the slot of call `number`; false when another call has the slot, or is about to. */
static bool ring_get(const pl_ring_slot *slot, uint64_t number, call_note *out)
{
    if (atomic_load_explicit(&slot->number, memory_order_acquire) != number) {
        return false;
    }
    out->entry = (pl_entry)atomic_load_explicit(&slot->entry, memory_order_acquire);
    out->result = atomic_load_explicit(&slot->result, memory_order_acquire);
    out->ptr = atomic_load_explicit(&slot->ptr, memory_order_acquire);
    out->bytes = atomic_load_explicit(&slot->bytes, memory_order_acquire);
    out->object = atomic_load_explicit(&slot->object, memory_order_acquire);
    return atomic_load_explicit(&slot->number, memory_order_relaxed) == number;
}

size_t pl_driver_dump_calls(const pl_driver *drv, char *out, size_t n)
{
    uint64_t end = atomic_load_explicit(&drv->n_ring, memory_order_relaxed);
    uint64_t number = end > PL_RING_CALLS ? end - PL_RING_CALLS + 1 : 1;
    size_t need = 0;
    if (n > 0) {
        out[0] = '\0';
    }
    for (; number <= end; number++) {
        call_note note;
        if (!ring_get(&drv->ring[(number - 1) % PL_RING_CALLS], number, &note)) {
            continue;
        }
        bool has_room = need < n;
        int wrote = snprintf(
            has_room ? out + need : NULL, has_room ? n - need : 0,
            "{\"n\":%" PRIu64 ",\"call\":\"%s\",\"result\":%d,"
            "\"ptr\":\"0x%" PRIx64 "\",\"bytes\":%" PRIu64 ",\"object\":\"0x%" PRIx64 "\"}\n",
            number, pl_entry_symbol(note.entry), note.result, note.ptr, note.bytes, note.object);
        need += wrote > 0 ? (size_t)wrote : 0;
    }
    return need;
}
