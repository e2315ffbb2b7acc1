/* pleat_cxx.hpp - pleat in C++: owners that give back, scopes, and resources of std::pmr.
 *
 * C++17. Header only over pleat.h: needs libpleat. An owner gives back its memory in its
 * destructor, and when another owner is moved into it. Destructors do not throw: only
 * pleat_last_error has their failures. All other functions throw. If memory is short they throw
 * out_of_memory, a std::bad_alloc, else error (namespace pleat_cxx). Both have the library's text
 * as what(). An owner is used by one thread at a time.
 *
 *   pleat_cxx::instance gpu("limit:0.9");
 *   pleat_cxx::block weights(gpu, 0, 300 << 20, stream);         // freed in the stream's order
 *   pleat_cxx::tag_scope scope("cache");                         // allocations carry the tag
 *   gpu.sleep("cache");
 *   pleat_cxx::instance host("memory:host");
 *   pleat_cxx::host_resource pinned(host, 0, stream);
 *   std::pmr::vector<float> batch(1000000, &pinned);             // page-locked */
#ifndef PLEAT_CXX_HPP
#define PLEAT_CXX_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pleat_cxx_base.hpp"
#include "pleat_cxx_pmr.hpp"
#include "pleat_cxx_scopes.hpp"

namespace pleat_cxx
{

class block;

/** What the driver tells of a device. */
struct memory_figures {
    std::uint64_t free_bytes;
    std::uint64_t total_bytes;
};

/** The instance that PLEAT_CONF describes, and that nobody owns. */
inline pleat default_instance()
{
    pleat found{};
    check(pleat_default(&found));
    return found;
}

/** An instance. Its destructor gives back live blocks, too. Converts to the `pleat` that functions
 *  of pleat.h take, and does not own what it converts to. A member stands for each function of
 *  pleat.h about a whole device or a tag, by its name; the device is 0 unless it is given. */
class instance
{
  public:
    explicit instance(c_text conf = nullptr)
    {
        pleat_cxx::check(pleat_create(conf, &handle_));
    }

    instance(instance &&other) noexcept
        : handle_(std::exchange(other.handle_, pleat{})),
          under_pressure_(std::move(other.under_pressure_)),
          out_of_memory_(std::move(other.out_of_memory_))
    {
    }

    instance &operator=(instance &&other) noexcept
    {
        instance gone(std::move(other));
        std::swap(handle_, gone.handle_);
        under_pressure_.swap(gone.under_pressure_);
        out_of_memory_.swap(gone.out_of_memory_);
        return *this;
    }

    ~instance()
    {
        if (*this) {
            ignore(pleat_destroy(handle_, PLEAT_DESTROY_FORCE));
        }
    }

    explicit operator bool() const noexcept
    {
        return handle_.slot != 0;
    }

    /** Destroy the instance now. Throws while blocks live, and then keeps it. */
    void reset()
    {
        if (*this) {
            pleat_cxx::check(pleat_destroy(handle_, 0));
            handle_ = {};
        }
    }

    /** The whole configuration, as text. */
    std::string conf() const
    {
        std::size_t needed = 0;
        pleat_cxx::check(pleat_instance_conf(handle_, nullptr, 0, &needed));
        std::string text(needed, '\0');
        pleat_cxx::check(pleat_instance_conf(handle_, text.data(), needed, &needed));
        text.resize(needed - 1);
        return text;
    }

    /** A block, as block(instance, device, bytes, stream) makes one. */
    block allocate(std::size_t bytes, void *stream = nullptr, int device = 0) const;

    pleat handle() const noexcept
    {
        return handle_;
    }

    operator pleat() const noexcept
    {
        return handle_;
    }

    pleat_stats stats(int device = 0) const
    {
        pleat_stats stats;
        pleat_cxx::check(pleat_device_stats(handle_, device, &stats));
        return stats;
    }

    pleat_device_info info(int device = 0) const
    {
        pleat_device_info info;
        pleat_cxx::check(pleat_device_query(handle_, device, &info));
        return info;
    }

    memory_figures memory_info(int device = 0) const
    {
        memory_figures of{};
        pleat_cxx::check(
            pleat_device_memory_info(handle_, device, &of.free_bytes, &of.total_bytes));
        return of;
    }

    /** The longest free stretch that is resident. */
    std::uint64_t largest_free(int device = 0) const
    {
        std::uint64_t bytes = 0;
        pleat_cxx::check(pleat_device_largest_free(handle_, device, &bytes));
        return bytes;
    }

    void reset_peaks(int device = 0) const
    {
        pleat_cxx::check(pleat_device_reset_peaks(handle_, device));
    }

    /** Say that a stream is about to be destroyed. */
    void retire(int device, void *stream) const
    {
        pleat_cxx::check(pleat_stream_retire(handle_, device, stream));
    }

    void retire(void *stream) const
    {
        retire(0, stream);
    }

    /** Record allocations and frees from now on (pleat_history_record). */
    void record_history(std::size_t max_entries, unsigned flags = 0) const
    {
        pleat_cxx::check(pleat_history_record(handle_, max_entries, flags));
    }

    void dump_snapshot(c_text path) const
    {
        pleat_cxx::check(pleat_snapshot_dump(handle_, path));
    }

    /** Recompute all invariants: 0 = all hold, else the first that does not. */
    int check() const
    {
        int broken = 0;
        pleat_cxx::check(pleat_check(handle_, &broken));
        return broken;
    }

    /** Give free memory back to the driver until `keep_bytes` are left; tells how much it was. */
    std::uint64_t trim(int device = 0, std::uint64_t keep_bytes = 0, bool wait = false) const
    {
        std::uint64_t released = 0;
        pleat_cxx::check(pleat_device_trim(handle_, device, keep_bytes, wait, &released));
        return released;
    }

    /** Move live memory out of partly used chunks. Nothing may run (pleat_device_compact). */
    pleat_compaction compact(int device = 0) const
    {
        pleat_compaction done;
        pleat_cxx::check(pleat_device_compact(handle_, device, &done));
        return done;
    }

    void set_limit(int device, std::uint64_t bytes) const
    {
        pleat_cxx::check(pleat_device_set_limit(handle_, device, bytes));
    }

    void set_limit(std::uint64_t bytes) const
    {
        set_limit(0, bytes);
    }

    /** Ask `fn` for memory when memory is short: bool(int device, std::size_t bytes), true if it
     *  freed something (pleat_set_pressure_callback). An exception counts as false. */
    void set_pressure_callback(std::function<bool(int, std::size_t)> fn)
    {
        under_pressure_.push_back(std::make_unique<decltype(fn)>(std::move(fn)));
        pleat_cxx::check(pleat_set_pressure_callback(
            handle_,
            [](pleat, int device, std::size_t bytes, void *context) {
                try {
                    return (*static_cast<decltype(fn) *>(context))(device, bytes);
                } catch (...) {
                    return false;
                }
            },
            under_pressure_.back().get()));
    }

    /** Tell `fn` before a request fails: void(int device, std::size_t bytes, const char *text)
     *  (pleat_set_oom_callback). Exceptions end there. */
    void set_oom_callback(std::function<void(int, std::size_t, const char *)> fn)
    {
        out_of_memory_.push_back(std::make_unique<decltype(fn)>(std::move(fn)));
        pleat_cxx::check(pleat_set_oom_callback(
            handle_,
            [](pleat, int device, std::size_t bytes, const char *text, void *context) {
                try {
                    (*static_cast<decltype(fn) *>(context))(device, bytes, text);
                } catch (...) {
                }
            },
            out_of_memory_.back().get()));
    }

    /** Let a tag sleep: its memory goes back to the driver. `folder` is for PLEAT_SLEEP_FILE. */
    pleat_slept sleep(int device, c_text tag, pleat_sleep how = PLEAT_SLEEP_HOST,
                      c_text folder = nullptr) const
    {
        pleat_slept slept;
        pleat_cxx::check(pleat_tag_sleep(handle_, device, tag, how, folder, &slept));
        return slept;
    }

    pleat_slept sleep(c_text tag, pleat_sleep how = PLEAT_SLEEP_HOST, c_text folder = nullptr) const
    {
        return sleep(0, tag, how, folder);
    }

    /** Bring a tag's memory back, at the same addresses; at most `most_bytes` of it, 0 = all. */
    pleat_slept wake(int device, c_text tag, std::uint64_t most_bytes = 0) const
    {
        pleat_slept woken;
        pleat_cxx::check(pleat_tag_wake(handle_, device, tag, most_bytes, &woken));
        return woken;
    }

    pleat_slept wake(c_text tag) const
    {
        return wake(0, tag);
    }

    pleat_tag_info tag_info(int device, c_text tag) const
    {
        pleat_tag_info info;
        pleat_cxx::check(pleat_tag_query(handle_, device, tag, &info));
        return info;
    }

    pleat_tag_info tag_info(c_text tag) const
    {
        return tag_info(0, tag);
    }

    /** Remember this moment of a recording, for leaks (pleat_mark). */
    std::uint64_t mark(int device = 0) const
    {
        std::uint64_t mark = 0;
        pleat_cxx::check(pleat_mark(handle_, device, &mark));
        return mark;
    }

    /** What was allocated after the mark and still lives, a line for each stack of calls that
     *  allocated it, the most bytes first (pleat_leaks). */
    std::vector<std::string> leaks(int device, std::uint64_t mark) const
    {
        struct {
            std::vector<std::string> lines;
            std::exception_ptr failed;
        } found;
        pleat_cxx::check(pleat_leaks(
            handle_, device, mark,
            [](const pleat_leak *leak, void *to) {
                auto &list = *static_cast<decltype(found) *>(to);
                try {
                    list.lines.emplace_back(leak->text);
                } catch (...) {
                    list.failed = std::current_exception();
                }
            },
            &found));
        if (found.failed) {
            std::rethrow_exception(found.failed);
        }
        return std::move(found.lines);
    }

    std::vector<std::string> leaks(std::uint64_t mark) const
    {
        return leaks(0, mark);
    }

    /** The most bytes that the tag's live blocks may have. */
    void set_tag_limit(int device, c_text tag, std::uint64_t bytes) const
    {
        pleat_cxx::check(pleat_tag_set_limit(handle_, device, tag, bytes));
    }

    void set_tag_limit(c_text tag, std::uint64_t bytes) const
    {
        set_tag_limit(0, tag, bytes);
    }

  private:
    pleat handle_{};
    /* Earlier ones, too: another thread may still be in one. */
    std::vector<std::unique_ptr<std::function<bool(int, std::size_t)>>> under_pressure_;
    std::vector<std::unique_ptr<std::function<void(int, std::size_t, const char *)>>>
        out_of_memory_;
};

/** Memory of an instance at an address: what block and buffer have in common. Only the instance of
 *  the constructor's argument is kept, so the instance outlives the owner. */
class memory
{
  public:
    pleat_devptr get() const noexcept
    {
        return at_;
    }

    /** The address as kernels take it. The host cannot read or write there. */
    template <class T = void> T *data() const noexcept
    {
        return reinterpret_cast<T *>(static_cast<std::uintptr_t>(at_));
    }

    int device() const noexcept
    {
        return device_;
    }

    void *stream() const noexcept
    {
        return stream_;
    }

    explicit operator bool() const noexcept
    {
        return at_ != 0;
    }

  protected:
    memory() noexcept = default;

    memory(pleat of, int device, void *stream) noexcept
        : instance_(of), device_(device), stream_(stream)
    {
    }

    memory(memory &&other) noexcept
        : instance_(other.instance_), device_(other.device_), stream_(other.stream_),
          at_(std::exchange(other.at_, 0))
    {
    }

    ~memory() = default;

    void swap(memory &other) noexcept
    {
        std::swap(instance_, other.instance_);
        std::swap(device_, other.device_);
        std::swap(stream_, other.stream_);
        std::swap(at_, other.at_);
    }

    pleat instance_{};
    int device_ = 0;
    void *stream_ = nullptr;
    pleat_devptr at_ = 0;
};

/** A block on a stream, at a multiple of `alignment`; freed in the stream's order, or in that of
 *  the default stream if the stream is gone by then. Of no bytes: a block of the least size. */
class block : public memory
{
  public:
    block() noexcept = default;

    block(pleat of, int device, std::size_t bytes, void *stream = nullptr,
          std::size_t alignment = own_alignment)
        : memory(of, device, stream), bytes_(bytes)
    {
        if (alignment == 0 || (alignment & (alignment - 1)) != 0) { /* no shortage */
            throw error(PLEAT_EINVAL, "the alignment " + std::to_string(alignment) +
                                          " is no power of two, such as 256 or 4096");
        }
        check(pleat_block_alloc(of, device, bytes_to_align(bytes, alignment), stream, &base_));
        at_ = align_up(base_, alignment);
    }

    block(block &&other) noexcept
        : memory(std::move(other)), base_(std::exchange(other.base_, 0)),
          bytes_(std::exchange(other.bytes_, 0))
    {
    }

    block &operator=(block &&other) noexcept
    {
        block(std::move(other)).swap(*this);
        return *this;
    }

    ~block()
    {
        if (base_ != 0) {
            free_at_last(instance_, device_, base_, stream_);
        }
    }

    /** Free the block now, in its stream's order. The owner keeps a block that is not freed. */
    void reset()
    {
        reset(stream_);
    }

    /** The same from another stream, which counts as a use. */
    void reset(void *stream)
    {
        if (base_ != 0) {
            check(pleat_block_free(instance_, device_, base_, stream));
            (void)release();
        }
    }

    /** Let go of the block; pleat_block_free takes the address that this returns. */
    [[nodiscard]] pleat_devptr release() noexcept
    {
        at_ = 0;
        bytes_ = 0;
        return std::exchange(base_, 0);
    }

    /** Say that work on a further stream uses the block. */
    void record_stream(void *stream) const
    {
        check(pleat_block_record_stream(instance_, device_, base_, stream));
    }

    std::size_t size() const noexcept
    {
        return bytes_;
    }

    pleat_block_info info() const
    {
        pleat_block_info info;
        check(pleat_block_query(instance_, device_, base_, &info));
        return info;
    }

    void swap(block &other) noexcept
    {
        memory::swap(other);
        std::swap(base_, other.base_);
        std::swap(bytes_, other.bytes_);
    }

    friend void swap(block &one, block &other) noexcept
    {
        one.swap(other);
    }

  private:
    pleat_devptr base_ = 0;
    std::size_t bytes_ = 0;
};

inline block instance::allocate(std::size_t bytes, void *stream, int device) const
{
    return block(handle_, device, bytes, stream);
}

/** A buffer that grows in place (pleat_buffer.h); destroyed in the order of its stream. */
class buffer : public memory
{
  public:
    buffer() noexcept = default;

    buffer(pleat of, int device, std::uint64_t most_bytes, std::uint64_t page_bytes = 0,
           void *stream = nullptr, std::uint64_t align_bytes = 0)
        : memory(of, device, stream)
    {
        check(pleat_buffer_create_aligned(of, device, most_bytes, page_bytes, align_bytes, &at_));
    }

    buffer(buffer &&other) noexcept = default;

    buffer &operator=(buffer &&other) noexcept
    {
        buffer(std::move(other)).swap(*this);
        return *this;
    }

    ~buffer()
    {
        if (at_ != 0 && pleat_buffer_destroy(instance_, device_, at_, stream_) != PLEAT_OK) {
            ignore(pleat_buffer_destroy(instance_, device_, at_, nullptr)); /* the stream is gone */
        }
    }

    /** Destroy the buffer now, in its stream's order. The owner keeps one that is not destroyed. */
    void reset()
    {
        reset(stream_);
    }

    /** The same in the order of another stream. */
    void reset(void *stream)
    {
        if (at_ != 0) {
            check(pleat_buffer_destroy(instance_, device_, at_, stream));
            at_ = 0;
        }
    }

    /** Let go of the buffer; pleat_buffer_destroy takes the address that this returns. */
    [[nodiscard]] pleat_devptr release() noexcept
    {
        return std::exchange(at_, 0);
    }

    void resize(std::uint64_t bytes) const
    {
        check(pleat_buffer_resize(instance_, device_, at_, bytes, stream_));
    }

    void commit(std::uint64_t offset, std::uint64_t bytes) const
    {
        check(pleat_buffer_commit(instance_, device_, at_, offset, bytes, stream_));
    }

    void decommit(std::uint64_t offset, std::uint64_t bytes) const
    {
        check(pleat_buffer_decommit(instance_, device_, at_, offset, bytes, stream_));
    }

    /** Say that work on a further stream uses the pages. */
    void record_stream(void *stream) const
    {
        check(pleat_buffer_record_stream(instance_, device_, at_, stream));
    }

    pleat_buffer_info info() const
    {
        pleat_buffer_info info;
        check(pleat_buffer_query(instance_, device_, at_, &info));
        return info;
    }

    std::uint64_t size() const
    {
        return info().bytes;
    }

    /** The most bytes that it may grow to. */
    std::uint64_t capacity() const
    {
        return info().most_bytes;
    }

    void swap(buffer &other) noexcept
    {
        memory::swap(other);
    }

    friend void swap(buffer &one, buffer &other) noexcept
    {
        one.swap(other);
    }
};

} /* namespace pleat_cxx */

#endif
