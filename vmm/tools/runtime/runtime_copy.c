/* runtime_copy.c - copies and fills, as commands of their streams. They move contents if the
 * simulator has any.
 *
 * As with the real runtime, a copy from or to unpinned host memory waits for its stream before
 * returning. A copy within the host waits for the stream's work, then copies at once. */
#include <string.h>

#include "vmm/tools/runtime/known.h"
#include "vmm/tools/runtime/runtime.h"

cu_result rt_finish_stream(cu_stream stream)
{
    return rt_is_capturing(stream) ? CU_SUCCESS : cuStreamSynchronize(stream);
}

/* On the host or not? An address that the driver does not know lies where the caller says. */
static bool is_device_s(const void *ptr, bool is_said)
{
    int type;
    bool is_known = cuPointerGetAttribute(&type, CU_POINTER_MEMORY_TYPE, rt_address(ptr)) ==
                    CU_SUCCESS;
    return is_known ? !rt_host_is_pinned(ptr) : is_said;
}

/* With unified addressing the addresses decide. */
static int find_direction(const void *to, const void *from, int direction)
{
    int said = direction == RT_DIRECTION_BY_ADDRESS ? RT_HOST_TO_HOST : direction;
    if (said < RT_HOST_TO_HOST || said > RT_DEVICE_TO_DEVICE) {
        return said;
    }
    return (is_device_s(to, (said & RT_HOST_TO_DEVICE) != 0) ? RT_HOST_TO_DEVICE : 0) |
           (is_device_s(from, (said & RT_DEVICE_TO_HOST) != 0) ? RT_DEVICE_TO_HOST : 0);
}

static cu_result copy_within_host(void *to, const void *from, size_t bytes, cu_stream stream)
{
    cu_result result = rt_finish_stream(stream);
    if (result == CU_SUCCESS) {
        memcpy(to, from, bytes);
    }
    return result;
}

static cu_result wait_unless_pinned(const void *host, cu_stream stream)
{
    return rt_host_is_pinned(host) ? CU_SUCCESS : rt_finish_stream(stream);
}

/* The copies of a capture happen when its graph is launched. */
static void note_write(void *to, const void *from, size_t bytes, cu_stream stream)
{
    if (rt_is_capturing(stream)) {
        rt_known_forget(rt_address(to), bytes);
    } else {
        rt_known_write(rt_address(to), from, bytes);
    }
}

static void note_copy(void *to, const void *from, size_t bytes, cu_stream stream)
{
    if (rt_is_capturing(stream)) {
        rt_known_forget(rt_address(to), bytes);
    } else {
        rt_known_copy(rt_address(to), rt_address(from), bytes);
    }
}

static cu_result copy(void *to, const void *from, size_t bytes, int direction, cu_stream stream)
{
    cu_result result;
    if (bytes == 0) {
        return CU_SUCCESS;
    }
    switch (find_direction(to, from, direction)) {
    case RT_HOST_TO_HOST:
        return copy_within_host(to, from, bytes, stream);
    case RT_HOST_TO_DEVICE:
        result = cuMemcpyHtoDAsync_v2(rt_address(to), from, bytes, stream);
        if (result == CU_SUCCESS) {
            note_write(to, from, bytes, stream);
            result = wait_unless_pinned(from, stream);
        }
        return result;
    case RT_DEVICE_TO_HOST:
        result = cuMemcpyDtoHAsync_v2(to, rt_address(from), bytes, stream);
        if (result == CU_SUCCESS) {
            rt_known_overlay(rt_address(from), bytes, to);
            result = wait_unless_pinned(to, stream);
        }
        return result;
    case RT_DEVICE_TO_DEVICE:
        result = cuMemcpyDtoDAsync_v2(rt_address(to), rt_address(from), bytes, stream);
        if (result == CU_SUCCESS) {
            note_copy(to, from, bytes, stream);
        }
        return result;
    default:
        return CU_INVALID_VALUE;
    }
}

rt_error cudaMemcpyAsync(void *to, const void *from, size_t bytes, int direction, cu_stream stream)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = copy(to, from, bytes, direction, stream);
    }
    return rt_end(__func__, result);
}

rt_error cudaMemcpy(void *to, const void *from, size_t bytes, int direction)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = copy(to, from, bytes, direction, NULL);
    }
    if (result == CU_SUCCESS) {
        result = cuStreamSynchronize(NULL);
    }
    return rt_end(__func__, result);
}

rt_error cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                             size_t bytes, cu_stream stream)
{
    (void)to_device;
    (void)from_device;
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = copy(to, from, bytes, RT_DEVICE_TO_DEVICE, stream);
    }
    return rt_end(__func__, result);
}

rt_error cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    rt_error error = cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, NULL);
    return error == CU_SUCCESS ? rt_end(__func__, cuStreamSynchronize(NULL)) : error;
}

rt_error cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                           size_t width, size_t height, int direction, cu_stream stream)
{
    cu_result result = rt_enter();
    for (size_t row = 0; row < height && result == CU_SUCCESS; row++) {
        result = copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width,
                      direction, stream);
    }
    return rt_end(__func__, result);
}

rt_error cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                      size_t height, int direction)
{
    rt_error error = cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, direction,
                                       NULL);
    return error == CU_SUCCESS ? rt_end(__func__, cuStreamSynchronize(NULL)) : error;
}

/* Variables of kernels have no memory in the simulator. */
rt_error cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                            int direction)
{
    (void)symbol;
    (void)from;
    (void)bytes;
    (void)offset;
    (void)direction;
    return rt_end(__func__, rt_enter());
}

rt_error cudaGetSymbolAddress(void **out, const void *symbol)
{
    (void)out;
    (void)symbol;
    return rt_unsupported(__func__);
}

rt_error cudaMemsetAsync(void *ptr, int value, size_t bytes, cu_stream stream)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS && bytes > 0) {
        result = cuMemsetD8Async(rt_address(ptr), (unsigned char)value, bytes, stream);
        rt_known_forget(rt_address(ptr), bytes);
    }
    return rt_end(__func__, result);
}

rt_error cudaMemset(void *ptr, int value, size_t bytes)
{
    rt_error error = cudaMemsetAsync(ptr, value, bytes, NULL);
    if (error == CU_SUCCESS && rt_host_is_pinned(ptr)) { /* only then, as the reference says */
        error = rt_end(__func__, cuStreamSynchronize(NULL));
    }
    return error;
}
