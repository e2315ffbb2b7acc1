/* pleat_cxx.hpp - pleat in C++: owners that give back, and resources of std::pmr.
 *
 * C++17. Header only over pleat.h: needs libpleat. An owner gives back its memory in its
 * destructor. Destructors do not throw: only pleat_last_error has their failures. All other
 * functions throw. If memory is short they throw out_of_memory, a std::bad_alloc, else error
 * (namespace pleat_cxx). Both have the library's text as what().
 *
 *   pleat_cxx::instance gpu("limit:0.9");
 *   pleat_cxx::block weights(gpu, 0, 300 << 20, stream);         // freed in the stream's order
 *   pleat_cxx::instance host("memory:host");
 *   pleat_cxx::host_resource pinned(host, 0, stream);
 *   std::pmr::vector<float> batch(1000000, &pinned);             // page-locked */
#ifndef PLEAT_CXX_HPP
#define PLEAT_CXX_HPP

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <utility>

#include "pleat.h"

namespace pleat_cxx
{

/** A failure of pleat, except shortage of memory. */
class error : public std::runtime_error
{
  public:
    explicit error(pleat_status status)
        : std::runtime_error(pleat_last_error()->text), status_(status)
    {
    }

    pleat_status status() const noexcept
    {
        return status_;
    }

  private:
    pleat_status status_;
};

/** There is no memory, or none yet. The text lives until the thread's next error. */
class out_of_memory : public std::bad_alloc
{
  public:
    explicit out_of_memory(pleat_status status) noexcept : status_(status)
    {
    }

    const char *what() const noexcept override
    {
        return pleat_last_error()->text;
    }

    pleat_status status() const noexcept
    {
        return status_;
    }

  private:
    pleat_status status_;
};

inline void require(pleat_status status)
{
    switch (status) {
    case PLEAT_OK:
        return;
    case PLEAT_ENOMEM_DEVICE:
    case PLEAT_ENOMEM_HOST:
    case PLEAT_ENOSPACE_VA:
    case PLEAT_EPENDING:
    case PLEAT_ESIZE:
        throw out_of_memory(status);
    default:
        throw error(status);
    }
}

/* ---- alignment ------------------------------------------------------------------------------- */

/** Every address of every allocator is a multiple of this; request more bytes to align further. */
inline constexpr std::size_t own_alignment = 256;

/** The size to request so that `bytes` at a multiple of `alignment` (a power of two) fit in. Throws
 *  std::bad_alloc if no size is large enough. */
inline std::size_t bytes_to_align(std::size_t bytes, std::size_t alignment)
{
    std::size_t more = alignment > own_alignment ? alignment - own_alignment : 0;
    if ((alignment & (alignment - 1)) != 0 || bytes > SIZE_MAX - more) {
        throw std::bad_alloc();
    }
    return bytes == 0 ? more + 1 : bytes + more;
}

inline std::uintptr_t align_up(std::uintptr_t at, std::size_t alignment) noexcept
{
    return alignment > own_alignment ? (at + alignment - 1) & ~(std::uintptr_t)(alignment - 1) : at;
}

/** The block that contains an aligned address. */
inline pleat_devptr base_of(pleat instance, int device, pleat_devptr ptr,
                            std::size_t alignment) noexcept
{
    pleat_block_info info;
    bool is_base = alignment <= own_alignment ||
                   pleat_block_query(instance, device, ptr, &info) != PLEAT_OK;
    return is_base ? ptr : info.base;
}

inline void ignore(pleat_status) noexcept
{
}

/* ---- owners ---------------------------------------------------------------------------------- */

/** An instance. Its destructor gives back live blocks, too. Not shared: pass a reference, or
 *  handle(). */
class instance
{
  public:
    explicit instance(const char *conf = nullptr)
    {
        require(pleat_create(conf, &handle_));
    }

    instance(instance &&other) noexcept : handle_(std::exchange(other.handle_, pleat{}))
    {
    }

    instance &operator=(instance &&other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }

    instance(const instance &) = delete;
    instance &operator=(const instance &) = delete;

    ~instance()
    {
        if (handle_.slot != 0) {
            ignore(pleat_destroy(handle_, PLEAT_DESTROY_FORCE));
        }
    }

    pleat handle() const noexcept
    {
        return handle_;
    }

  private:
    pleat handle_{};
};

/** A block on a stream, at a multiple of `alignment`; freed in the stream's order. */
class block
{
  public:
    block() noexcept = default;

    block(const instance &of, int device, std::size_t bytes, void *stream = nullptr,
          std::size_t alignment = own_alignment)
        : instance_(of.handle()), device_(device), bytes_(bytes), stream_(stream)
    {
        require(
            pleat_block_alloc(instance_, device, bytes_to_align(bytes, alignment), stream, &base_));
        at_ = align_up(base_, alignment);
    }

    block(block &&other) noexcept
    {
        swap(other);
    }

    block &operator=(block &&other) noexcept
    {
        swap(other);
        return *this;
    }

    block(const block &) = delete;
    block &operator=(const block &) = delete;

    ~block()
    {
        if (base_ != 0) {
            ignore(pleat_block_free(instance_, device_, base_, stream_));
        }
    }

    /** Say that work on a further stream uses the block. */
    void record_stream(void *stream) const
    {
        require(pleat_block_record_stream(instance_, device_, base_, stream));
    }

    pleat_devptr get() const noexcept
    {
        return at_;
    }

    std::size_t size() const noexcept
    {
        return bytes_;
    }

    explicit operator bool() const noexcept
    {
        return base_ != 0;
    }

    void swap(block &other) noexcept
    {
        std::swap(instance_, other.instance_);
        std::swap(device_, other.device_);
        std::swap(base_, other.base_);
        std::swap(at_, other.at_);
        std::swap(bytes_, other.bytes_);
        std::swap(stream_, other.stream_);
    }

  private:
    pleat instance_{};
    int device_ = 0;
    pleat_devptr base_ = 0;
    pleat_devptr at_ = 0;
    std::size_t bytes_ = 0;
    void *stream_ = nullptr;
};

/** A buffer that grows in place (pleat_buffer.h); destroyed in the order of its stream. */
class buffer
{
  public:
    buffer(const instance &of, int device, std::uint64_t most_bytes, std::uint64_t page_bytes = 0,
           void *stream = nullptr, std::uint64_t align_bytes = 0)
        : instance_(of.handle()), device_(device), stream_(stream)
    {
        require(pleat_buffer_create_aligned(instance_, device, most_bytes, page_bytes, align_bytes,
                                            &at_));
    }

    buffer(buffer &&other) noexcept
        : instance_(other.instance_), device_(other.device_), stream_(other.stream_),
          at_(std::exchange(other.at_, 0))
    {
    }

    buffer(const buffer &) = delete;
    buffer &operator=(const buffer &) = delete;

    ~buffer()
    {
        if (at_ != 0) {
            ignore(pleat_buffer_destroy(instance_, device_, at_, stream_));
        }
    }

    void resize(std::uint64_t bytes) const
    {
        require(pleat_buffer_resize(instance_, device_, at_, bytes, stream_));
    }

    void commit(std::uint64_t offset, std::uint64_t bytes) const
    {
        require(pleat_buffer_commit(instance_, device_, at_, offset, bytes, stream_));
    }

    void decommit(std::uint64_t offset, std::uint64_t bytes) const
    {
        require(pleat_buffer_decommit(instance_, device_, at_, offset, bytes, stream_));
    }

    pleat_devptr get() const noexcept
    {
        return at_;
    }

    std::uint64_t size() const
    {
        pleat_buffer_info info;
        require(pleat_buffer_query(instance_, device_, at_, &info));
        return info.bytes;
    }

  private:
    pleat instance_;
    int device_;
    void *stream_;
    pleat_devptr at_ = 0;
};

/* ---- std::pmr -------------------------------------------------------------------------------- */

/** Pinned memory of an instance with memory:host, for containers of the program. Freed memory
 *  serves again once work submitted so far on `stream` is over; with PLEAT_HOST_UNUSED at once,
 *  since no stream uses the memory. The instance outlives the resource. */
class host_resource : public std::pmr::memory_resource
{
  public:
    host_resource(const instance &of, int device, void *stream) noexcept
        : instance_(of.handle()), device_(device), stream_(stream)
    {
    }

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        void *ptr = nullptr;
        require(pleat_host_alloc(instance_, device_, bytes_to_align(bytes, alignment), &ptr));
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
    device_resource(const instance &of, int device, void *stream = nullptr) noexcept
        : instance_(of.handle()), device_(device), stream_(stream)
    {
    }

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        pleat_devptr at = 0;
        require(
            pleat_block_alloc(instance_, device_, bytes_to_align(bytes, alignment), stream_, &at));
        return reinterpret_cast<void *>(align_up(at, alignment));
    }

    void do_deallocate(void *ptr, std::size_t, std::size_t alignment) override
    {
        pleat_devptr at = reinterpret_cast<std::uintptr_t>(ptr);
        pleat_devptr base = base_of(instance_, device_, at, alignment);
        ignore(pleat_block_free(instance_, device_, base, stream_));
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
