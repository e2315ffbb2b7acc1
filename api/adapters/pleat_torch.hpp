/* pleat_torch.hpp - the hooks in libpleat_torch.so that need C++, beside pleat_torch.h.
 *
 * The names are C names, for CUDAPluggableAllocator's look-up. PyTorch's headers are not needed. */
#ifndef PLEAT_TORCH_HPP
#define PLEAT_TORCH_HPP

#include <cstdint>
#include <functional>
#include <utility>

#include "pleat_torch.h"

struct CUstream_st;

extern "C" {

/** Allocate as pleat_torch_malloc does, but throw instead of returning NULL: for PyTorch's
 *  change_current_allocator.
 *
 *  Returns  the address; NULL for 0 bytes only.
 *  Failure  throws c10::OutOfMemoryError, in Python torch.OutOfMemoryError, if memory is
 *           short and PyTorch is loaded; std::runtime_error in all other cases. */
PLEAT_API void *pleat_torch_malloc_or_throw(std::size_t bytes, int device, void *stream);

/** Route requests on the streams that `filter` accepts to a private pool: pleat_pool_begin.
 *
 *  Params   id      PyTorch's MempoolId_t.
 *           filter  empty = every stream. A copy is kept until pleat_torch_end_pool.
 *  Failure  throws std::runtime_error; nothing is routed. */
PLEAT_API void pleat_torch_begin_pool(int device, std::pair<std::uint64_t, std::uint64_t> id,
                                      std::function<bool(CUstream_st *)> filter);
}

#endif
