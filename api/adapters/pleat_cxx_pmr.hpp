/* pleat_cxx_pmr.hpp - resources of std::pmr in pinned and in device memory.
 *
 * Part of pleat_cxx.hpp: see there. */
#ifndef PLEAT_CXX_PMR_HPP
#define PLEAT_CXX_PMR_HPP

#include <cstddef>
#include <cstdint>
#include <memory_resource>

#include "pleat_cxx_base.hpp"

namespace pleat_cxx
{

/** Pinned memory of an instance with memory:host, for containers of the program. Freed memory
 *  serves again once work submitted so far on `stream` is over; with PLEAT_HOST_UNUSED at once,
 *  since no stream uses the memory. The instance outlives the resource. */
class host_resource : public std::pmr::memory_resource
{
  public:
    explicit host_resource(pleat of, int device = 0, void *stream = nullptr) noexcept
        : instance_(of), device_(device), stream_(stream)
    {
    }

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        void *ptr = nullptr;
        check(pleat_host_alloc(instance_, device_, bytes_to_align(bytes, alignment), &ptr));
        return reinterpret_cast<void *>(align_up(reinterpret_cast<std::uintptr_t>(ptr), alignment));
    }

    void do_deallocate(void *ptr, std::size_t, std::size_t alignment) override
    {
        pleat_devptr at = reinterpret_cast<std::uintptr_t>(ptr);
        std::uintptr_t base = base_of(instance_, device_, at, alignment);
        ignore(pleat_host_free(instance_, device_, reinterpret_cast<void *>(base), stream_));
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        const auto *same = dynamic_cast<const host_resource *>(&other);
        return same != nullptr && same->instance_.slot == instance_.slot &&
               same->instance_.generation == instance_.generation && same->device_ == device_ &&
               same->stream_ == stream_;
    }

    pleat instance_;
    int device_;
    void *stream_;
};

/** Device memory in the order of a stream, as a std::pmr::memory_resource. The host cannot read or
 *  write the memory. So use no container of host elements, and no std::pmr pool, since pools keep
 *  lists in the memory. The instance outlives the resource. */
class device_resource : public std::pmr::memory_resource
{
  public:
    explicit device_resource(pleat of, int device = 0, void *stream = nullptr) noexcept
        : instance_(of), device_(device), stream_(stream)
    {
    }

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        pleat_devptr at = 0;
        check(
            pleat_block_alloc(instance_, device_, bytes_to_align(bytes, alignment), stream_, &at));
        return reinterpret_cast<void *>(align_up(at, alignment));
    }

    void do_deallocate(void *ptr, std::size_t, std::size_t alignment) override
    {
        pleat_devptr at = reinterpret_cast<std::uintptr_t>(ptr);
        pleat_devptr base = base_of(instance_, device_, at, alignment);
        free_at_last(instance_, device_, base, stream_);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        const auto *same = dynamic_cast<const device_resource *>(&other);
        return same != nullptr && same->instance_.slot == instance_.slot &&
               same->instance_.generation == instance_.generation && same->device_ == device_ &&
               same->stream_ == stream_;
    }

    pleat instance_;
    int device_;
    void *stream_;
};

} /* namespace pleat_cxx */

#endif
