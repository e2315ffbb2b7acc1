/* thread.c - the calling thread's device, context and last error.
 *
 * As in the real runtime, a thread's device is 0 until the thread changes it. The first call that
 * needs a device's primary context creates the context, until the process ends. The current context
 * is on top of the thread's stack. Libraries that push and pop their own context leave the stack
 * unchanged. */
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/tools/runtime/runtime.h"

enum { MAX_NAMES = 64 };

static _Thread_local struct {
    int device;
    bool is_entered; /* the context of `device` is on top of this thread's stack */
    rt_error last_error;
} thread;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cu_context contexts[RT_MAX_DEVICES]; /* lock */
static const char *said_names[MAX_NAMES];   /* lock */
static pthread_once_t init_once = PTHREAD_ONCE_INIT;
static cu_result init_result; /* const after init_once */

static void init(void)
{
    init_result = cuInit(0);
    rt_report_begin();
}

cu_result rt_init(void)
{
    pthread_once(&init_once, init);
    return init_result;
}

/* ---- pleat where it was asked for ------------------------------------------------------------ */

static int is_pleat(struct dl_phdr_info *info, size_t bytes, void *context)
{
    static const char name[] = "libpleat.so";
    (void)bytes;
    (void)context;
    const char *slash = strrchr(info->dlpi_name, '/');
    return strncmp(slash ? slash + 1 : info->dlpi_name, name, sizeof name - 1) == 0;
}

/* Otherwise the run would be PyTorch's own, and nobody would know. */
static bool lacks_pleat(void)
{
    const char *asked = secure_getenv("PLEAT_RUNTIME_ALLOCATOR");
    return asked != NULL && strcmp(asked, "pleat") == 0 && dl_iterate_phdr(is_pleat, NULL) == 0;
}

static void tell_lack(void)
{
    fputs(
        "pleat_runtime: --allocator pleat: this process uses CUDA without pleat: if it is torch in "
        "Python, pip install pleat where torch is (PYTHONPATH does not do)\n",
        stderr);
}

static cu_result retain(int device, cu_context *context)
{
    static pthread_once_t tell_once = PTHREAD_ONCE_INIT;
    cu_result result = CU_SUCCESS;
    if (lacks_pleat()) {
        pthread_once(&tell_once, tell_lack);
        return CU_NOT_PERMITTED;
    }
    pthread_mutex_lock(&lock);
    if (contexts[device] == NULL) {
        result = cuDevicePrimaryCtxRetain(&contexts[device], device);
    }
    *context = contexts[device];
    pthread_mutex_unlock(&lock);
    return result;
}

cu_result rt_enter(void)
{
    if (thread.is_entered) {
        return CU_SUCCESS;
    }
    cu_context context = NULL;
    cu_result result = rt_init();
    if (result == CU_SUCCESS) {
        result = retain(thread.device, &context);
    }
    if (result == CU_SUCCESS) {
        result = cuCtxPushCurrent_v2(context);
    }
    thread.is_entered = result == CU_SUCCESS;
    return result;
}

cu_result rt_set_device(int device, bool is_opened)
{
    int count = 0;
    cu_result result = rt_init();
    if (result == CU_SUCCESS) {
        result = cuDeviceGetCount(&count);
    }
    if (result != CU_SUCCESS) {
        return result;
    }
    if (device < 0 || device >= count || device >= RT_MAX_DEVICES) {
        return CU_INVALID_DEVICE;
    }
    if (thread.is_entered && thread.device != device) {
        cu_context old;
        (void)cuCtxPopCurrent_v2(&old);
        thread.is_entered = false;
    }
    thread.device = device;
    return is_opened ? rt_enter() : CU_SUCCESS;
}

int rt_device(void)
{
    return thread.device;
}

/* ---- errors ---------------------------------------------------------------------------------- */

static bool is_logging(void)
{
    const char *text = secure_getenv("PLEAT_RUNTIME_LOG");
    return text != NULL && text[0] != '\0' && strcmp(text, "0") != 0;
}

rt_error rt_end(const char *call, int result)
{
    if (result == CU_SUCCESS) {
        return result;
    }
    thread.last_error = result;
    if (result != CU_NOT_READY && is_logging()) {
        fprintf(stderr, "pleat_runtime: %s: %s\n", call, cudaGetErrorName(result));
    }
    return result;
}

static bool is_first_time(const char *call)
{
    bool is_first = true;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_NAMES && is_first; i++) {
        if (said_names[i] == NULL) {
            said_names[i] = call;
            break;
        }
        is_first = strcmp(said_names[i], call) != 0;
    }
    pthread_mutex_unlock(&lock);
    return is_first;
}

rt_error rt_unsupported(const char *call)
{
    if (is_first_time(call)) {
        fprintf(stderr, "pleat_runtime: %s is not simulated\n", call);
    }
    thread.last_error = RT_NOT_SUPPORTED;
    return RT_NOT_SUPPORTED;
}

rt_error cudaGetLastError(void)
{
    rt_error error = thread.last_error;
    thread.last_error = CU_SUCCESS;
    return error;
}

rt_error cudaPeekAtLastError(void)
{
    return thread.last_error;
}

static const struct {
    rt_error error;
    const char *name;
} names[] = {
    { CU_SUCCESS, "cudaSuccess" },
    { CU_INVALID_VALUE, "cudaErrorInvalidValue" },
    { CU_OUT_OF_MEMORY, "cudaErrorMemoryAllocation" },
    { CU_NOT_INITIALIZED, "cudaErrorInitializationError" },
    { CU_DEINITIALIZED, "cudaErrorCudartUnloading" },
    { RT_INVALID_SYMBOL, "cudaErrorInvalidSymbol" },
    { CU_NO_DEVICE, "cudaErrorNoDevice" },
    { CU_INVALID_DEVICE, "cudaErrorInvalidDevice" },
    { CU_INVALID_CONTEXT, "cudaErrorDeviceUninitialized" },
    { CU_ALREADY_MAPPED, "cudaErrorAlreadyMapped" },
    { CU_NOT_MAPPED, "cudaErrorNotMapped" },
    { CU_OPERATING_SYSTEM, "cudaErrorOperatingSystem" },
    { CU_INVALID_HANDLE, "cudaErrorInvalidResourceHandle" },
    { CU_ILLEGAL_STATE, "cudaErrorIllegalState" },
    { CU_NOT_FOUND, "cudaErrorSymbolNotFound" },
    { CU_NOT_READY, "cudaErrorNotReady" },
    { CU_ILLEGAL_ADDRESS, "cudaErrorIllegalAddress" },
    { CU_CONTEXT_IS_DESTROYED, "cudaErrorContextIsDestroyed" },
    { CU_HOST_ALREADY_REGISTERED, "cudaErrorHostMemoryAlreadyRegistered" },
    { CU_HOST_NOT_REGISTERED, "cudaErrorHostMemoryNotRegistered" },
    { CU_NOT_PERMITTED, "cudaErrorNotPermitted" },
    { CU_NOT_SUPPORTED, "cudaErrorNotSupported" },
    { CU_CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported" },
    { CU_CAPTURE_INVALIDATED, "cudaErrorStreamCaptureInvalidated" },
    { CU_CAPTURE_MERGE, "cudaErrorStreamCaptureMerge" },
    { CU_CAPTURE_UNMATCHED, "cudaErrorStreamCaptureUnmatched" },
    { CU_CAPTURE_UNJOINED, "cudaErrorStreamCaptureUnjoined" },
    { CU_CAPTURE_ISOLATION, "cudaErrorStreamCaptureIsolation" },
    { CU_CAPTURE_IMPLICIT, "cudaErrorStreamCaptureImplicit" },
    { CU_CAPTURED_EVENT, "cudaErrorCapturedEvent" },
    { CU_CAPTURE_WRONG_THREAD, "cudaErrorStreamCaptureWrongThread" },
    { CU_UNKNOWN, "cudaErrorUnknown" },
};

const char *cudaGetErrorName(rt_error error)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].error == error) {
            return names[i].name;
        }
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(rt_error error)
{
    const char *text = NULL;
    if (error == RT_INVALID_SYMBOL) {
        return "invalid device symbol";
    }
    return cuGetErrorString(error, &text) == CU_SUCCESS ? text : "unrecognized error code";
}
