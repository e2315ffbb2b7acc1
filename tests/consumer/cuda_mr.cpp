/* cuda_mr.cpp - pleat_cuda_mr.hpp as a program with CCCL uses it; runs on the simulated runtime. */
#include "pleat_cuda_mr.hpp"

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
    return stats.allocation[PLEAT_POOL_ALL].current;
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
    expect(throws_bad_alloc([&] { (void)resource.allocate(stream, 100, 4096); }),
           "4096 is refused");
    expect(throws_bad_alloc([&] { (void)resource.allocate(stream, std::size_t{ 1 } << 40, 256); }),
           "a terabyte is refused");
    return 0;
}
