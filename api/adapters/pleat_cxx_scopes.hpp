/* pleat_cxx_scopes.hpp - scopes of tags, private pools and captures.
 *
 * Part of pleat_cxx.hpp: see there. A scope begins in its constructor and ends in its destructor,
 * on the same thread. Scopes cannot be copied or moved. */
#ifndef PLEAT_CXX_SCOPES_HPP
#define PLEAT_CXX_SCOPES_HPP

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "pleat_cxx_base.hpp"

namespace pleat_cxx
{

/** What the thread allocates in the scope carries the tag (pleat_tag.h); nullptr: no tag. */
class tag_scope
{
  public:
    explicit tag_scope(c_text tag)
    {
        check(pleat_tag_push(tag));
    }

    tag_scope(const tag_scope &) = delete;
    tag_scope &operator=(const tag_scope &) = delete;

    ~tag_scope()
    {
        ignore(pleat_tag_pop());
    }
};

/** A private pool (pleat_pool.h), of which this object is a user from its constructor to its
 *  destructor. The graphs captured in the pool end first: after the last user no graph may be
 *  launched that used the pool. */
class pool
{
  public:
    pool() noexcept = default;

    explicit pool(pleat of, int device = 0) : pool(of, device, new_id())
    {
    }

    pool(pleat of, int device, pleat_pool_id id) : instance_(of), device_(device), id_(id)
    {
        check(pleat_pool_hold(of, device, id));
    }

    pool(pool &&other) noexcept
        : instance_(other.instance_), device_(other.device_),
          id_(std::exchange(other.id_, pleat_pool_id{}))
    {
    }

    pool &operator=(pool &&other) noexcept
    {
        pool gone(std::move(other));
        std::swap(instance_, gone.instance_);
        std::swap(device_, gone.device_);
        std::swap(id_, gone.id_);
        return *this;
    }

    ~pool()
    {
        if (*this) {
            ignore(pleat_pool_release(instance_, device_, id_));
        }
    }

    explicit operator bool() const noexcept
    {
        return id_.first != 0 || id_.second != 0;
    }

    /** Be no user any more, now. */
    void reset()
    {
        if (*this) {
            check(pleat_pool_release(instance_, device_, id_));
            id_ = {};
        }
    }

    pleat handle() const noexcept
    {
        return instance_;
    }

    int device() const noexcept
    {
        return device_;
    }

    pleat_pool_id id() const noexcept
    {
        return id_;
    }

    /** The memory that the pool holds. */
    std::uint64_t size() const
    {
        std::uint64_t bytes = 0;
        check(pleat_pool_held(instance_, device_, id_, &bytes));
        return bytes;
    }

    /** This object, and the scopes that are open. */
    unsigned users() const
    {
        unsigned users = 0;
        check(pleat_pool_users(instance_, device_, id_, &users));
        return users;
    }

  private:
    /* Not a name that PyTorch gives: one of its two numbers is always 0. */
    static pleat_pool_id new_id() noexcept
    {
        static std::atomic<std::uint64_t> n_ids{ 0 };
        return pleat_pool_id{ UINT64_C(0x706c656174), ++n_ids };
    }

    pleat instance_{};
    int device_ = 0;
    pleat_pool_id id_{};
};

/** Requests go to the pool: all requests of the device, or those on one stream. */
class pool_scope
{
  public:
    explicit pool_scope(const pool &to) : pool_scope(to, nullptr, nullptr)
    {
    }

    pool_scope(const pool &to, void *stream) : pool_scope(to, is_stream, stream)
    {
    }

    pool_scope(const pool_scope &) = delete;
    pool_scope &operator=(const pool_scope &) = delete;

    /* The begin made a user of the pool; only a release takes it away. */
    ~pool_scope()
    {
        ignore(pleat_pool_end(instance_, device_, id_));
        ignore(pleat_pool_release(instance_, device_, id_));
    }

  private:
    pool_scope(const pool &to, pleat_route_fn route, void *stream)
        : instance_(to.handle()), device_(to.device()), id_(to.id())
    {
        check(pleat_pool_begin(instance_, device_, id_, route, nullptr, stream));
    }

    static bool is_stream(void *stream, void *wanted) noexcept
    {
        return stream == wanted;
    }

    pleat instance_;
    int device_;
    pleat_pool_id id_;
};

/** A capture on a stream whose requests go to a pool. `begin` and `end` start and end the capture,
 *  and return 0 on success, as CUDA's functions do:
 *
 *    cudaGraph_t graph;
 *    pleat_cxx::capture_scope capture(
 *        pool, stream, [&] { return cudaStreamBeginCapture(stream, mode); },
 *        [&] { return cudaStreamEndCapture(stream, &graph); });
 *    ... allocate, launch kernels ...
 *    capture.end(); // throws if there is no graph; without it the destructor ends the capture */
template <class Begin, class End> class capture_scope
{
  public:
    capture_scope(const pool &to, void *stream, Begin begin, End end)
        : scope_(to, stream), end_(std::move(end))
    {
        must_be_0(static_cast<int>(begin()), "begun");
    }

    capture_scope(const capture_scope &) = delete;
    capture_scope &operator=(const capture_scope &) = delete;

    ~capture_scope()
    {
        if (!is_over_) {
            (void)end_();
        }
    }

    void end()
    {
        if (!is_over_) {
            is_over_ = true;
            must_be_0(static_cast<int>(end_()), "ended");
        }
    }

  private:
    static void must_be_0(int result, const char *done)
    {
        if (result != 0) {
            throw error(PLEAT_EDRIVER, std::string("the capture could not be ") + done +
                                           ": the driver or the runtime returned " +
                                           std::to_string(result));
        }
    }

    pool_scope scope_;
    End end_;
    bool is_over_ = false;
};

} /* namespace pleat_cxx */

#endif
