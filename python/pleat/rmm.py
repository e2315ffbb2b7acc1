"""pleat under RMM, and so under cuDF, cuML and all other users of RMM.

    import pleat.rmm
    pleat.rmm.install()          # before anything allocates

RMM calls back into Python for each block, at a cost of some microseconds. C++ programs use
pleat_cuda_mr.hpp instead, without such a cost.
"""

from __future__ import annotations

import rmm.mr
from rmm.pylibrmm.stream import Stream

from ._library import library
from ._shortage import shortage


def _handle(stream: Stream) -> int | None:
    return stream.__cuda_stream__()[1] or None


def _allocate(size: int, stream: Stream) -> int:
    ptr: int | None = library().pleat_rmm_alloc(size, _handle(stream), None)
    if not ptr and size:
        raise shortage()
    return ptr or 0


def _deallocate(ptr: int, size: int, stream: Stream) -> None:
    library().pleat_rmm_dealloc(ptr, size, _handle(stream), None)


def resource() -> rmm.mr.CallbackMemoryResource:
    """Make a resource that allocates from pleat, on the current device.

    Returns  a resource for rmm.mr.set_current_device_resource and RMM's adaptors. Allocations raise
             MemoryError if memory is short.
    """
    return rmm.mr.CallbackMemoryResource(_allocate, _deallocate)


def install() -> None:
    """Make pleat the resource of the current device. Call install() for each device in use, before
    its first allocation."""
    rmm.mr.set_current_device_resource(resource())
