/* share.cpp - CUDA tensors of other processes: PyTorch sends pleat's names of blocks. */
#include "allocator.hpp"

#include "pleat_share.h"

#include <cstdio>
#include <unordered_map>

namespace pleat_torch
{

namespace
{

struct Unclosed {
    int device;
    pleat_devptr ptr;
};

/* Opened blocks, by name. PyTorch asks again for every storage in a block. The mutex is not held
 * while another process is asked, since that process may be stopped. */
struct Opened {
    std::mutex mutex; /* guards the rest */
    std::unordered_map<std::string, std::weak_ptr<void>> by_name;
    std::vector<Unclosed> unclosed; /* a close failed: in a capture, say */
};

Opened &opened()
{
    static Opened *all = new Opened; /* tensors may outlive everything */
    return *all;
}

void forget(const std::string &name)
{
    Opened &all = opened();
    const std::lock_guard<std::mutex> guard(all.mutex);
    const auto at = all.by_name.find(name);
    if (at != all.by_name.end() && at->second.expired()) { /* else it was opened again meanwhile */
        all.by_name.erase(at);
    }
}

/* A received tensor may be in use on any stream, since PyTorch records no uses of it. */
void wait_for_all(int device)
{
    int before = 0;
    if (cudaGetDevice(&before) == cudaSuccess && cudaSetDevice(device) == cudaSuccess) {
        (void)cudaDeviceSynchronize();
        (void)cudaSetDevice(before);
    }
    (void)cudaGetLastError();
}

bool try_close(pleat all, const Unclosed &it)
{
    return pleat_share_close(all, it.device, it.ptr, nullptr) == PLEAT_OK;
}

/* The next close tries failed closes again. */
void close_left(pleat all)
{
    std::vector<Unclosed> left;
    {
        const std::lock_guard<std::mutex> guard(opened().mutex);
        left.swap(opened().unclosed);
    }
    for (const Unclosed &it : left) {
        if (!try_close(all, it)) {
            const std::lock_guard<std::mutex> guard(opened().mutex);
            opened().unclosed.push_back(it);
        }
    }
}

/* A deleter: it must not throw. A forked child owns nothing here. */
void close(int device, void *ptr, const std::string &name) noexcept
{
    pleat all;
    if (is_forked_child() || pleat_default(&all) != PLEAT_OK) {
        return;
    }
    forget(name);
    const Unclosed it = { device, reinterpret_cast<uintptr_t>(ptr) };
    wait_for_all(device);
    close_left(all);
    if (!try_close(all, it)) {
        std::fprintf(stderr, "pleat: shared memory stays open for now: %s\n",
                     pleat_last_error()->text);
        const std::lock_guard<std::mutex> guard(opened().mutex);
        opened().unclosed.push_back(it);
    }
}

std::shared_ptr<void> open(const std::string &name)
{
    int device = 0;
    pleat_devptr address = 0;
    close_left(instance());
    check(pleat_share_device(instance(), name.data(), name.size(), &device),
          "the shared memory is not on a device of this process");
    check(pleat_share_open(instance(), device, name.data(), name.size(), &address),
          "the shared memory cannot be opened");
    void *ptr = reinterpret_cast<void *>(address);
    return { ptr, [device, name](void *open) { close(device, open, name); } };
}

} // namespace

/* Names the whole block, so that all storages of a block have the same name. */
CA::ShareableHandle Allocator::shareIpcHandle(void *ptr)
{
    pleat_block_info info;
    TORCH_CHECK(find_block(ptr, info), "pleat: ", ptr,
                " lies in no live block, so it cannot be "
                "shared");
    size_t needed = 0;
    check(pleat_share_export(instance(), info.device, info.base, PLEAT_SHARE_SERVE, nullptr, 0,
                             &needed),
          "the tensor cannot be shared");
    std::string name(needed, '\0');
    check(pleat_share_export(instance(), info.device, info.base, PLEAT_SHARE_SERVE, name.data(),
                             name.size(), &needed),
          "the tensor cannot be shared");
    const auto offset = static_cast<ptrdiff_t>(reinterpret_cast<uintptr_t>(ptr) - info.base);
    return { offset, std::move(name) };
}

static std::shared_ptr<void> find_opened(const std::string &name)
{
    const std::lock_guard<std::mutex> guard(opened().mutex);
    const auto at = opened().by_name.find(name);
    return at == opened().by_name.end() ? nullptr : at->second.lock();
}

/* Threads that open a name at the same time each open it. pleat counts, and unmaps with the last
 * close. */
std::shared_ptr<void> Allocator::getIpcDevPtr(std::string handle)
{
    std::shared_ptr<void> found = find_opened(handle);
    if (!found) {
        found = open(handle);
        const std::lock_guard<std::mutex> guard(opened().mutex);
        opened().by_name[handle] = found;
    }
    return found;
}

} // namespace pleat_torch
