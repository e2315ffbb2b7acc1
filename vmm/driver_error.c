/* driver_error.c - what went wrong last in this thread, and what it means as a pleat_status.
 *
 * Thread-local, so no lock. Names of results are kept here because asking the driver for them is
 * one more call that can fail. Makes no driver call. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "vmm/driver_state.h"

_Atomic uint64_t pl_driver_n_errors; /* atomic */
static _Thread_local pl_driver_error last = { .entry = PL_N_ENTRIES, .text = "CUDA_SUCCESS" };

typedef struct result_entry {
    cu_result result;
    const char *name;
} result_entry;

static const result_entry results[] = {
    { CU_SUCCESS, "CUDA_SUCCESS" },
    { CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE" },
    { CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY" },
    { CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED" },
    { CU_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED" },
    { CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE" },
    { CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE" },
    { CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT" },
    { CU_ALREADY_MAPPED, "CUDA_ERROR_ALREADY_MAPPED" },
    { CU_NOT_MAPPED, "CUDA_ERROR_NOT_MAPPED" },
    { CU_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM" },
    { CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE" },
    { CU_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE" },
    { CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND" },
    { CU_NOT_READY, "CUDA_ERROR_NOT_READY" },
    { CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS" },
    { CU_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED" },
    { CU_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED" },
    { CU_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED" },
    { CU_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" },
    { CU_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" },
    { CU_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE" },
    { CU_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED" },
    { CU_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED" },
    { CU_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION" },
    { CU_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" },
    { CU_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT" },
    { CU_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD" },
    { CU_UNKNOWN, "CUDA_ERROR_UNKNOWN" },
};

static const char *result_name(cu_result result)
{
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        if (results[i].result == result) {
            return results[i].name;
        }
    }
    return "unlisted driver error";
}

const pl_driver_error *pl_driver_last_error(void)
{
    return &last;
}

static void stamp(void)
{
    last.number = atomic_fetch_add_explicit(&pl_driver_n_errors, 1, memory_order_relaxed) + 1;
}

void pl_driver_note_failure(pl_entry entry, cu_result result, uint64_t bytes)
{
    stamp();
    last.result = result;
    last.entry = entry;
    last.bytes = bytes;
    last.text = result_name(result);
    last.detail[0] = '\0';
}

void pl_driver_set_detail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last.detail, sizeof(last.detail), format, args);
    va_end(args);
    stamp();
}

void pl_driver_clear_error(void)
{
    last.result = CU_SUCCESS;
    last.entry = PL_N_ENTRIES;
    last.bytes = 0;
    last.text = result_name(CU_SUCCESS);
    last.detail[0] = '\0';
    last.number = 0;
}

void pl_driver_clear_error_before(uint64_t number)
{
    if (last.number <= number) {
        pl_driver_clear_error();
    }
}

/* Does the thread's last failure have this result and come from a virtual memory call? */
static bool is_of_vmm_call(cu_result result)
{
    return last.result == result && last.entry >= PL_CU_address_reserve &&
           last.entry <= PL_CU_mem_address_range;
}

pleat_status pl_driver_status(cu_result result)
{
    switch (result) {
    case CU_SUCCESS:
        return PLEAT_OK;
    case CU_OUT_OF_MEMORY:
        return PLEAT_ENOMEM_DEVICE;
    case CU_NOT_SUPPORTED:
    case CU_NOT_FOUND:
        return is_of_vmm_call(result) ? PLEAT_ENOVMM : PLEAT_EDRIVER;
    case CU_CAPTURE_UNSUPPORTED:
    case CU_CAPTURE_INVALIDATED:
    case CU_CAPTURE_MERGE:
    case CU_CAPTURE_UNMATCHED:
    case CU_CAPTURE_UNJOINED:
    case CU_CAPTURE_ISOLATION:
    case CU_CAPTURE_IMPLICIT:
    case CU_CAPTURED_EVENT:
    case CU_CAPTURE_WRONG_THREAD:
        return PLEAT_ECAPTURE;
    default:
        return PLEAT_EDRIVER;
    }
}

pleat_status pl_driver_current_device(pl_driver *drv, int *out)
{
    cu_device dev = 0;
    cu_result result = pl_cu_ctx_get_device(drv, &dev);
    if (result != CU_SUCCESS && result != CU_INVALID_CONTEXT) {
        return PLEAT_EDRIVER;
    }
    if (result == CU_INVALID_CONTEXT) { /* no failure: nothing is current */
        pl_driver_clear_error();
        dev = 0;
    }
    *out = dev;
    return PLEAT_OK;
}
