/* driver_error.c - the thread's last error, and its pleat_status.
 *
 * Thread-local, so no lock. Names of results come from a list, because asking the driver is one
 * more call that can fail. The driver is asked only for results missing from the list. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "vmm/driver_results.h"
#include "vmm/driver_state.h"

_Atomic uint64_t pl_driver_n_errors; /* atomic */
static _Thread_local pl_driver_error last = { .entry = PL_N_ENTRIES, .text = "CUDA_SUCCESS" };

static const struct {
    cu_result result;
    const char *name;
} results[] = {
#define RESULT_NAME(number, name, text) { number, name },
    PL_RESULT_LIST(RESULT_NAME)
#undef RESULT_NAME
};

static const char *known_name(cu_result result)
{
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        if (results[i].result == result) {
            return results[i].name;
        }
    }
    return NULL;
}

/* The name of a result that is newer than the list is asked of the driver. */
static const char *result_name(const pl_driver *drv, cu_result result)
{
    const char *name = known_name(result);
    if (name == NULL && drv->table.error_name(result, &name) != CU_SUCCESS) {
        name = NULL;
    }
    return name != NULL ? name : "a result without a name";
}

const pl_driver_error *pl_driver_last_error(void)
{
    return &last;
}

bool pl_driver_refused_memory(const pl_driver_error *error, uint64_t *bytes)
{
    pl_entry entry = error->entry;
    bool is_taker = entry == PL_CU_mem_create || entry == PL_CU_mem_alloc ||
                    entry == PL_CU_mem_alloc_async || entry == PL_CU_pool_alloc_async ||
                    entry == PL_CU_host_alloc;
    *bytes = is_taker ? error->bytes : 0;
    return error->result == CU_OUT_OF_MEMORY;
}

static void stamp(void)
{
    last.number = atomic_fetch_add_explicit(&pl_driver_n_errors, 1, memory_order_relaxed) + 1;
}

void pl_driver_note_failure(const pl_driver *drv, pl_entry entry, cu_result result, uint64_t bytes)
{
    stamp();
    last.result = result;
    last.entry = entry;
    last.bytes = bytes;
    last.text = result_name(drv, result);
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
    last.text = known_name(CU_SUCCESS);
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

bool pl_driver_is_sticky(cu_result result)
{
    switch ((int)result) {
    case 214: /* ECC_UNCORRECTABLE */
    case 220: /* NVLINK_UNCORRECTABLE */
    case 700: /* ILLEGAL_ADDRESS */
    case 702: /* LAUNCH_TIMEOUT */
    case 710: /* ASSERT */
    case 714: /* HARDWARE_STACK_ERROR */
    case 715: /* ILLEGAL_INSTRUCTION */
    case 716: /* MISALIGNED_ADDRESS */
    case 717: /* INVALID_ADDRESS_SPACE */
    case 718: /* INVALID_PC */
    case 719: /* LAUNCH_FAILED */
        return true;
    default:
        return false;
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
