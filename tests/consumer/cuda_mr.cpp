/* cuda_mr.cpp - pleat_cuda_mr.hpp as a program with CCCL uses it; runs on the simulated runtime. */
#include "pleat_cuda_mr.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

#include <cuda.h>

#include "pleat_sim.h"

#if CCCL_VERSION >= 3002000
#include <cuda/devices>
#include <cuda/stream>
#endif

/* Before 3.5 its buffers need a CUDA compiler. */
#if CCCL_VERSION >= 3005000
#include <cuda/buffer>
#endif

namespace
{

void expect(bool is_true, const char *what)
{
    if (!is_true) {
        std::fprintf(stderr, "cuda_mr: not so: %s\n", what);
        std::exit(1);
    }
}

std::uint64_t live_blocks()
{
    pleat instance;
    pleat_stats stats;
    expect(pleat_default(&instance) == PLEAT_OK, "there is an instance");
    expect(pleat_device_stats(instance, 0, &stats) == PLEAT_OK, "it has statistics");
    return stats.allocation[PLEAT_SIZES_ALL].current;
}

template <class Call> bool throws_bad_alloc(Call call)
{
    try {
        call();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

std::uint64_t live_in(const pleat_cxx::instance &of)
{
    pleat_stats stats;
    expect(pleat_device_stats(of.handle(), 0, &stats) == PLEAT_OK, "it has statistics");
    return stats.allocation[PLEAT_SIZES_ALL].current;
}

void check_instance(cuda::stream_ref stream)
{
    pleat_cxx::instance gpu("driver:sim,limit:64M");
    pleat_cxx::instance other("driver:sim");
    pleat_cuda_instance_mr resource{ gpu.handle(), 0 };
    expect(resource == pleat_cuda_instance_mr{ gpu.handle(), 0 } &&
               resource != pleat_cuda_instance_mr{ other.handle(), 0 } && resource.device() == 0,
           "it is its instance");
    void *plain = resource.allocate(stream, 1000);
    void *aligned = resource.allocate_sync(3000, 4096);
    expect(reinterpret_cast<std::uintptr_t>(aligned) % 4096 == 0 && live_in(gpu) == 2,
           "two blocks of the instance live");
    resource.deallocate(stream, plain, 1000);
    resource.deallocate_sync(aligned, 3000, 4096);
    expect(live_in(gpu) == 0, "none lives");
    expect(throws_bad_alloc([&] { (void)resource.allocate(stream, 100 << 20); }),
           "its limit holds");
}

void check_host(cuda::stream_ref stream)
{
    pleat_cxx::instance host("driver:sim,memory:host");
    pleat_cuda_host_mr resource{ host.handle(), 0 };
    void *plain = resource.allocate(stream, 1000);
    void *aligned = resource.allocate_sync(3000, 4096);
    expect(reinterpret_cast<std::uintptr_t>(aligned) % 4096 == 0 && live_in(host) == 2,
           "two blocks of the host live");
    *static_cast<volatile char *>(aligned) = 1;
    resource.deallocate(stream, plain, 1000);
    resource.deallocate_sync(aligned, 3000, 4096);
    expect(live_in(host) == 0, "none of the host lives");
}

/* ---- a thread without a context ---- */

bool has_context()
{
    CUcontext context = nullptr;
    expect(cuCtxGetCurrent(&context) == CUDA_SUCCESS, "the driver tells its context");
    return context != nullptr;
}

/* What cudaMalloc can do in such a thread, the resources can; neither needs a context before. */
template <class Resource> void serve_a_bare_thread(Resource resource)
{
    std::thread([&] {
        expect(!has_context(), "a new thread has no context");
        void *first = resource.allocate_sync(1000);
        resource.deallocate_sync(first, 1000);
    }).join();
    void *kept = nullptr;
    std::thread([&] { kept = resource.allocate(cuda::stream_ref{ cudaStream_t{} }, 1000); }).join();
    std::thread([&] { resource.deallocate_sync(kept, 1000); }).join();
}

void check_bare_threads()
{
    pleat_cxx::instance gpu("driver:sim");
    pleat_cxx::instance host("driver:sim,memory:host");
    for (int device = 0; device < 2; device++) {
        serve_a_bare_thread(pleat_cuda_mr{ device });
        serve_a_bare_thread(pleat_cuda_instance_mr{ gpu.handle(), device });
        serve_a_bare_thread(pleat_cuda_host_mr{ host.handle(), device });
    }
    expect(live_blocks() == 0 && live_in(gpu) == 0 && live_in(host) == 0, "none lives on");
}

/* Device 1's work is waited for, and device 0 stays current. */
void check_other_device()
{
    pleat_cuda_mr resource{ 1 };
    expect(cudaSetDevice(1) == cudaSuccess, "device 1 works");
    cuda::stream_ref legacy{ cudaStream_t{} };
    void *used = resource.allocate(legacy, 1000);
    expect(cudaMemsetAsync(used, 0, 1000, nullptr) == cudaSuccess, "it is used");
    resource.deallocate(legacy, used, 1000);
    expect(cudaStreamQuery(nullptr) == cudaErrorNotReady, "it is in use");
    expect(cudaSetDevice(0) == cudaSuccess, "device 0 works");
    void *again = resource.allocate_sync(1000);
    int current = -1;
    expect(cudaGetDevice(&current) == cudaSuccess && current == 0, "device 0 stays current");
    expect(cudaSetDevice(1) == cudaSuccess && cudaStreamQuery(nullptr) == cudaSuccess,
           "earlier uses are over");
    resource.deallocate_sync(again, 1000);
    expect(cudaSetDevice(0) == cudaSuccess, "device 0 works");
}

/* ---- a wait that fails ---- */

void check_refused_wait()
{
    pleat_cuda_mr resource{ 0 };
    bool is_thrown = false;
    pleat_sim_fail_from("cuStreamSynchronize", 0, 999);
    try {
        (void)resource.allocate_sync(1000);
    } catch (const cuda::cuda_error &) {
        is_thrown = true;
    }
    pleat_sim_fail_never();
    (void)cudaGetLastError();
    expect(is_thrown && live_blocks() == 0, "a wait that fails is thrown, and leaves nothing");
}

/* ---- containers ---- */

#if CCCL_VERSION >= 3002000
using only_device = cuda::mr::properties_list<cuda::mr::device_accessible>;
static_assert(std::same_as<pleat_cuda_mr::default_queries, only_device>);

/* CCCL makes streams by the driver's calls. */
void check_own_stream()
{
    cuda::stream stream{ cuda::devices[0] };
    pleat_cuda_mr resource{ 0 };
    resource.deallocate(stream, resource.allocate(stream, 1000), 1000);
    stream.sync();
    expect(live_blocks() == 0, "what was taken on CCCL's own stream goes back");
}
#else
void check_own_stream()
{
}
#endif

#if CCCL_VERSION >= 3005000
template <class Resource> void check_buffer(cuda::stream_ref stream, Resource resource)
{
    auto buffer = cuda::make_buffer<int>(stream, resource, 1000, cuda::no_init);
    expect(buffer.size() == 1000 && buffer.data() != nullptr, "a buffer of 1000 integers");
    cuda::mr::any_resource<cuda::mr::device_accessible> any{ resource };
    auto other = cuda::make_buffer<int>(stream, any, 10, cuda::no_init);
    expect(other.size() == 10, "a buffer of any resource");
}

void check_buffers(cuda::stream_ref stream)
{
    pleat_cxx::instance gpu("driver:sim");
    pleat_cxx::instance host("driver:sim,memory:host");
    check_buffer(stream, pleat_cuda_mr{ 0 });
    check_buffer(stream, pleat_cuda_instance_mr{ gpu.handle(), 0 });
    check_buffer(stream, pleat_cuda_host_mr{ host.handle(), 0 });
    expect(live_blocks() == 0 && live_in(gpu) == 0 && live_in(host) == 0, "buffers give back");
}
#else
void check_buffers(cuda::stream_ref)
{
}
#endif

} /* namespace */

int main()
{
    check_bare_threads(); /* before any thread has a context */
    expect(cudaSetDevice(0) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess,
           "device 0 works");
    pleat_cuda_mr resource{ 0 };
    cuda::stream_ref stream{ cudaStreamPerThread };
    expect(resource == pleat_cuda_mr{ 0 } && resource != pleat_cuda_mr{ 1 }, "it is its device");
    void *ordered = resource.allocate(stream, 1000, 256);
    void *sync = resource.allocate_sync(3 << 20, 256);
    expect(ordered != nullptr && sync != nullptr && live_blocks() == 2, "two blocks live");
    resource.deallocate(stream, ordered, 1000, 256);
    resource.deallocate_sync(sync, 3 << 20, 256);
    expect(live_blocks() == 0, "no block lives");
    expect(resource.allocate_sync(0, 256) == nullptr, "no bytes are no block");
    resource.deallocate_sync(nullptr, 0, 256);
    void *aligned = resource.allocate(stream, 100, 1 << 16);
    expect(reinterpret_cast<std::uintptr_t>(aligned) % (1 << 16) == 0 && live_blocks() == 1,
           "any power of two is an alignment");
    resource.deallocate(stream, aligned, 100, 1 << 16);
    expect(live_blocks() == 0, "what was aligned is freed");
    expect(throws_bad_alloc([&] { (void)resource.allocate(stream, 100, 3000); }),
           "3000 is refused");
    expect(throws_bad_alloc([&] { (void)resource.allocate(stream, std::size_t{ 1 } << 40, 256); }),
           "a terabyte is refused");
    check_instance(stream);
    check_host(stream);
    check_other_device();
    check_refused_wait();
    check_own_stream();
    check_buffers(stream);
    return 0;
}
