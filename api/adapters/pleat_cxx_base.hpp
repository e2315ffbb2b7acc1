/* pleat_cxx_base.hpp - what a call throws, and alignment.
 *
 * Part of pleat_cxx.hpp: see there. */
#ifndef PLEAT_CXX_BASE_HPP
#define PLEAT_CXX_BASE_HPP

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>

#include "pleat.h"

namespace pleat_cxx
{

/** A failure of pleat, except shortage of memory. */
class error : public std::runtime_error
{
  public:
    explicit error(pleat_status status) : error(status, pleat_last_error()->text)
    {
    }

    error(pleat_status status, const std::string &text) : std::runtime_error(text), status_(status)
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
    explicit out_of_memory(pleat_status status) noexcept
        : status_(status), verdict_(pleat_last_error()->verdict)
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

    /** Who holds the memory. */
    pleat_verdict verdict() const noexcept
    {
        return verdict_;
    }

  private:
    pleat_status status_;
    pleat_verdict verdict_;
};

/** Throw unless a call of pleat.h has succeeded: check(pleat_stream_retire(gpu, 0, stream)). */
inline void check(pleat_status status)
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

/** Text as functions of pleat.h take it, of a literal, nullptr or a std::string. */
class c_text
{
  public:
    c_text(const char *of) noexcept : of_(of)
    {
    }

    c_text(const std::string &of) noexcept : of_(of.c_str())
    {
    }

    operator const char *() const noexcept
    {
        return of_;
    }

  private:
    const char *of_;
};

/** Every address of every allocator is a multiple of this; request more bytes to align further. */
inline constexpr std::size_t own_alignment = 256;

/** The size to request so that `bytes` at a multiple of `alignment` (a power of two) fit in; of no
 *  bytes one. Throws std::bad_alloc, as resources have to, if there is no such size. */
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

/** For destructors: free a block in its stream's order. If the stream is gone, free the block on
 *  the default stream, else the block would live for ever. */
inline void free_at_last(pleat instance, int device, pleat_devptr base, void *stream) noexcept
{
    if (pleat_block_free(instance, device, base, stream) != PLEAT_OK) {
        ignore(pleat_block_free(instance, device, base, nullptr));
    }
}

} /* namespace pleat_cxx */

#endif
