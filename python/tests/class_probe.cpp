/* class_probe.cpp - C++ access to torch's current allocator; class_test.py compiles this file. */
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace CA = c10::cuda::CUDACachingAllocator;

#define PROBE extern "C" __attribute__((visibility("default")))

static std::atomic<int> n_seen[16];

PROBE size_t probe_largest(int device)
{
    size_t largest = 0;
    CA::cacheInfo(static_cast<c10::DeviceIndex>(device), &largest);
    return largest;
}

PROBE void probe_track(void)
{
    CA::attachAllocatorTraceTracker(
        [](const CA::TraceEntry &entry) {
            (void)CA::isHistoryEnabled(); /* trackers may ask */
            n_seen[static_cast<int>(entry.action_)]++;
        });
}

PROBE int probe_n_seen(int action)
{
    return n_seen[action];
}

PROBE size_t probe_base(void *ptr, void **base)
{
    size_t bytes = 0;
    *base = CA::getBaseAllocation(ptr, &bytes);
    return bytes;
}

/* An allocator with no cache before it. It counts memory freed under running work, and is slow or
 * fails on request. */
static std::atomic<int> n_freed;
static std::atomic<int> n_freed_early;
static std::atomic<int> sleep_ms;
static std::atomic<bool> throws_next;

PROBE void probe_be_slow(int ms)
{
    sleep_ms = ms;
}

PROBE void probe_throw_next(void)
{
    throws_next = true;
}

PROBE void *probe_malloc(size_t bytes, int /*device*/, cudaStream_t /*stream*/)
{
    void *ptr = nullptr;
    std::this_thread::sleep_for(std::chrono::milliseconds(sleep_ms));
    return cudaMalloc(&ptr, bytes) == cudaSuccess ? ptr : nullptr;
}

PROBE void probe_free(void *ptr, size_t /*bytes*/, int /*device*/, cudaStream_t stream)
{
    n_freed++;
    n_freed_early += cudaStreamQuery(stream) == cudaErrorNotReady;
    (void)cudaGetLastError();
    (void)cudaFree(ptr);
    if (throws_next.exchange(false)) {
        throw std::runtime_error("as it was told");
    }
}

PROBE void *probe_make_stream(void)
{
    cudaStream_t stream = nullptr;
    (void)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    return stream;
}

PROBE void probe_destroy_stream(void *stream)
{
    (void)cudaStreamDestroy(static_cast<cudaStream_t>(stream));
}

PROBE int probe_n_freed(void)
{
    return n_freed;
}

PROBE int probe_n_freed_early(void)
{
    return n_freed_early;
}

template <typename Allocator>
static auto empty_pool(Allocator *all, c10::cuda::MempoolId_t id, int)
    -> decltype(all->emptyCache(id), bool())
{
    all->emptyCache(id);
    return true;
}

template <typename Allocator>
static bool empty_pool(Allocator * /*all*/, c10::cuda::MempoolId_t /*id*/, long)
{
    return false; /* torch was older */
}

PROBE bool probe_empty_pool(unsigned long long first, unsigned long long second)
{
    return empty_pool(CA::get(), { first, second }, 0);
}

/* A route whose filter is slow, and accepts nothing. */
static std::atomic<int> n_filtering;

PROBE void probe_begin_filtered(unsigned long long first, unsigned long long second, int ms)
{
    CA::get()->beginAllocateToPool(0, { first, second }, [ms](cudaStream_t) {
        n_filtering++;
        std::this_thread::sleep_for(std::chrono::milliseconds(ms));
        n_filtering--;
        return false;
    });
}

/* How many are inside the filter after its end? */
PROBE int probe_end_filtered(unsigned long long first, unsigned long long second)
{
    CA::get()->endAllocateToPool(0, { first, second });
    const int n = n_filtering;
    CA::get()->releasePool(0, { first, second });
    return n;
}

PROBE int probe_n_filtering(void)
{
    return n_filtering;
}
