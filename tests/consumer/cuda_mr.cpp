/* cuda_mr.cpp - pleat_cuda_mr.hpp as a program with CCCL uses it; runs on the simulated runtime. */
#include "pleat_cuda_mr.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

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

} /* namespace */

int main()
{
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
    return 0;
}
