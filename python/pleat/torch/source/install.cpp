/* install.cpp - functions of the compiled library that Python calls. */
#include "allocator.hpp"

#include <pthread.h>

#include <exception>
#include <limits>

namespace pleat_torch
{

static std::atomic<bool> is_child;

bool is_forked_child() noexcept
{
    return is_child.load(std::memory_order_relaxed);
}

/* Before CUDA's first use: later PyTorch would free memory of its former allocator with pleat. */
static void install()
{
    TORCH_CHECK(installed == nullptr, "pleat is PyTorch's allocator already");
    TORCH_CHECK(!CA::get()->initialized(), "CUDA is initialised already");
    installed = new Allocator;
    (void)pthread_atfork(nullptr, nullptr, [] {
        is_child = installed->initialized(); /* else the child's memory is its own */
    });
    CA::allocator.store(installed);
#if PLEAT_TORCH_HAS_DEVICE_ALLOCATOR
    /* Newer versions register theirs with a priority, and ignore a lower one silently. */
    c10::SetAllocator(c10::kCUDA, installed, std::numeric_limits<uint8_t>::max());
#endif
}

} // namespace pleat_torch

/* Makes pleat PyTorch's allocator of CUDA memory. Returns NULL, or the reason of a failure; the
 * text lives until the thread's next call. */
extern "C" __attribute__((visibility("default"))) const char *pleat_torch_install(void)
{
    static thread_local std::string problem;
    try {
        pleat_torch::install();
        return nullptr;
    } catch (const std::exception &e) {
        problem = e.what();
        return problem.c_str();
    }
}
