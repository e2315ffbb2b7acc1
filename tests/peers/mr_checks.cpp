/* mr_checks.cpp - what CCCL asks of a memory resource, of its own resources (argument `native`) and
 * of pleat's (`pleat`). Prints a line for each check: `pass NAME` or `fail NAME: WHY`. */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include <cuda/buffer>
#include <cuda/devices>
#include <cuda/memory_pool>
#include <cuda/memory_resource>
#include <cuda/stream>

#include "pleat_cuda_mr.hpp"

namespace
{

constexpr std::size_t sizes[] = { 1, 255, 256, 257, 4096, 100001, (1 << 20) + 1, 30 << 20 };
constexpr std::size_t alignments[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256 };

void require(bool is_true, const char *what)
{
    if (!is_true) {
        throw std::runtime_error(what);
    }
}

template <class Body> void check(const std::string &name, Body body)
{
    try {
        body();
        std::printf("pass %s\n", name.c_str());
    } catch (const std::exception &failure) {
        std::string why = failure.what();
        std::printf("fail %s: %s\n", name.c_str(), why.substr(0, why.find('\n')).c_str());
    }
}

bool is_aligned(const void *ptr, std::size_t alignment)
{
    return reinterpret_cast<std::uintptr_t>(ptr) % alignment == 0;
}

/* A device's memory is used by commands, and what the host can reach by the host, too. */
template <bool IsHost> void use(void *ptr, std::size_t bytes, cudaStream_t stream)
{
    require(cudaMemsetAsync(ptr, 1, bytes, stream) == cudaSuccess, "a memset is accepted");
    require(cudaStreamSynchronize(stream) == cudaSuccess, "its stream can be waited for");
    if constexpr (IsHost) {
        std::memset(ptr, 2, bytes);
    }
}

template <bool IsHost, class Resource>
void take_sync(Resource &resource, std::size_t bytes, std::size_t alignment)
{
    void *first = resource.allocate_sync(bytes, alignment);
    void *second = resource.allocate_sync(bytes, alignment);
    auto a = reinterpret_cast<std::uintptr_t>(first);
    auto b = reinterpret_cast<std::uintptr_t>(second);
    require(first != nullptr && second != nullptr, "there is memory");
    require(is_aligned(first, alignment) && is_aligned(second, alignment), "it is aligned");
    require(a + bytes <= b || b + bytes <= a, "two live blocks are apart");
    use<IsHost>(first, bytes, nullptr);
    resource.deallocate_sync(first, bytes, alignment);
    use<IsHost>(second, bytes, nullptr);
    resource.deallocate_sync(second, bytes, alignment);
}

template <bool IsHost, class Resource>
void take_on(Resource &resource, cuda::stream_ref stream, cuda::stream_ref last, std::size_t bytes,
             std::size_t alignment)
{
    void *ptr = resource.allocate(stream, bytes, alignment);
    require(ptr != nullptr && is_aligned(ptr, alignment), "there is aligned memory");
    use<IsHost>(ptr, bytes, stream.get());
    use<IsHost>(ptr, bytes, last.get());
    resource.deallocate(last, ptr, bytes, alignment);
}

std::string pair_name(const std::string &kind, std::size_t bytes, std::size_t alignment)
{
    return kind + " " + std::to_string(bytes) + " at " + std::to_string(alignment);
}

template <class Body> void for_pairs(const std::string &kind, Body body)
{
    for (std::size_t bytes : sizes) {
        for (std::size_t alignment : alignments) {
            check(pair_name(kind, bytes, alignment), [&] { body(bytes, alignment); });
        }
    }
}

template <bool IsHost, class Resource> void check_sync(const std::string &name, Resource resource)
{
    for_pairs(name + ": sync",
              [&](std::size_t n, std::size_t at) { take_sync<IsHost>(resource, n, at); });
    for_pairs(name + ": sync in a new thread", [&](std::size_t n, std::size_t at) {
        std::optional<std::string> why;
        std::thread([&] {
            try {
                take_sync<IsHost>(resource, n, at);
            } catch (const std::exception &failure) {
                why = failure.what();
            }
        }).join();
        if (why) {
            throw std::runtime_error(*why);
        }
    });
    check(name + ": equal to its copy", [&] {
        Resource copy = resource;
        require(copy == resource && !(copy != resource), "they are equal");
        void *ptr = resource.allocate_sync(100, 8);
        copy.deallocate_sync(ptr, 100, 8);
    });
    check(name + ": refuses what no device has", [&] {
        bool is_refused = false;
        try {
            (void)resource.allocate_sync(std::size_t{ 1 } << 50, 8);
        } catch (const std::exception &) {
            is_refused = true;
        }
        require(is_refused, "it throws");
        take_sync<IsHost>(resource, 1000, 8);
    });
}

template <bool IsHost, class... Properties, class Resource>
void check_ordered(const std::string &name, Resource resource)
{
    cuda::stream own{ cuda::devices[0] };
    cuda::stream other{ cuda::devices[0] };
    cuda::stream_ref legacy{ static_cast<cudaStream_t>(nullptr) };
    cuda::stream_ref thread{ cudaStreamPerThread };
    const std::pair<const char *, cuda::stream_ref> streams[] = { { "own", own },
                                                                  { "legacy", legacy },
                                                                  { "per thread", thread } };
    for (const auto &[of, stream] : streams) {
        for_pairs(name + ": on the stream " + of, [&](std::size_t n, std::size_t at) {
            take_on<IsHost>(resource, stream, stream, n, at);
        });
    }
    for_pairs(name + ": freed on another stream",
              [&](std::size_t n, std::size_t at) { take_on<IsHost>(resource, own, other, n, at); });
    cuda::mr::any_resource<Properties...> any{ resource };
    for_pairs(name + ": as any resource",
              [&](std::size_t n, std::size_t at) { take_on<IsHost>(any, own, own, n, at); });
    cuda::mr::resource_ref<Properties...> ref{ resource };
    for_pairs(name + ": by reference",
              [&](std::size_t n, std::size_t at) { take_on<IsHost>(ref, own, own, n, at); });
    check(name + ": any resource of it equals another of it", [&] {
        cuda::mr::any_resource<Properties...> again{ resource };
        require(any == again, "they are equal");
    });
    auto shared = cuda::mr::make_shared_resource<Resource>(resource);
    for_pairs(name + ": shared",
              [&](std::size_t n, std::size_t at) { take_on<IsHost>(shared, own, own, n, at); });
    for (std::size_t n : sizes) {
        check(name + ": a buffer of " + std::to_string(n), [&] {
            auto buffer = cuda::make_buffer<char>(own, resource, n, cuda::no_init);
            require(buffer.size() == n, "it has its size");
            use<IsHost>(buffer.data(), n, own.get());
            auto moved = std::move(buffer);
            require(moved.size() == n, "it can be moved");
        });
    }
}

void check_native()
{
    cuda::device_memory_pool owner{ cuda::devices[0] };
    cuda::device_memory_pool_ref pool{ owner.get() };
    check_sync<false>("device", pool);
    check_ordered<false, cuda::mr::device_accessible>("device", pool);
    check_sync<true>("pinned", cuda::mr::legacy_pinned_memory_resource{ cuda::devices[0] });
}

void check_pleat()
{
    pleat_cxx::instance host("driver:sim,memory:host");
    check_sync<false>("device", pleat_cuda_mr{ 0 });
    check_ordered<false, cuda::mr::device_accessible>("device", pleat_cuda_mr{ 0 });
    check_sync<true>("pinned", pleat_cuda_host_mr{ host.handle(), 0 });
}

} /* namespace */

int main(int, char **argv)
{
    if (cudaSetDevice(0) != cudaSuccess) {
        return 1;
    }
    bool is_pleat = argv[1] != nullptr && std::strcmp(argv[1], "pleat") == 0;
    is_pleat ? check_pleat() : check_native();
    return 0;
}
