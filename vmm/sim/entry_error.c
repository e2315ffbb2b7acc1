/* entry_error.c - exported calls: names and texts of result codes, as the real driver has them. */
#include "vmm/sim/call.h"

static const struct {
    cu_result code;
    const char *name;
    const char *text;
} errors[] = {
    { CU_SUCCESS, "CUDA_SUCCESS", "no error" },
    { CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
    { CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
    { CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
    { CU_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down" },
    { CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
    { CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
    { CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
    { CU_ALREADY_MAPPED, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped" },
    { CU_NOT_MAPPED, "CUDA_ERROR_NOT_MAPPED", "resource not mapped" },
    { CU_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM",
      "OS call failed or operation not supported on this OS" },
    { CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
    { CU_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE",
      "the operation cannot be performed in the present state" },
    { CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
    { CU_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
    { CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
      "an illegal memory access was encountered" },
    { CU_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed" },
    { CU_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted" },
    { CU_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
    { CU_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
      "operation not permitted when stream is capturing" },
    { CU_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
      "operation failed due to a previous error during capture" },
    { CU_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
      "operation would result in a merge of separate capture sequences" },
    { CU_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
      "capture was not ended in the same stream as it began" },
    { CU_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
      "capturing stream has unjoined work" },
    { CU_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
      "dependency created on uncaptured work in another stream" },
    { CU_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
      "operation would make the legacy stream depend on a capturing blocking stream" },
    { CU_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
      "operation not permitted on an event last recorded in a capturing stream" },
    { CU_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
      "attempt to terminate a thread-local capture sequence from another thread" },
    { CU_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

enum { N_ERRORS = sizeof(errors) / sizeof(errors[0]) };

static int find_error(cu_result code)
{
    for (int i = 0; i < N_ERRORS; i++) {
        if (errors[i].code == code) {
            return i;
        }
    }
    return -1;
}

/* Answers the string in one of two columns; NULL and INVALID_VALUE for an unknown code. */
static cu_result answer(sim_entry entry, cu_result error, const char **out)
{
    sim_call call;
    sim_call_begin(&call, entry, (uint64_t)error, 0, 0, 0);
    int i = find_error(error);
    if (call.result == CU_SUCCESS && (i < 0 || out == NULL)) {
        call.result = CU_INVALID_VALUE;
    }
    if (out != NULL && call.result == CU_SUCCESS) {
        *out = entry == SIM_CU_error_name ? errors[i].name : errors[i].text;
    } else if (out != NULL) {
        *out = NULL;
    }
    return sim_call_end(&call);
}

cu_result cuGetErrorName(cu_result error, const char **name)
{
    return answer(SIM_CU_error_name, error, name);
}

cu_result cuGetErrorString(cu_result error, const char **text)
{
    return answer(SIM_CU_error_string, error, text);
}
