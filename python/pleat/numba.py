"""pleat under Numba: an External Memory Management plugin.

    NUMBA_CUDA_MEMORY_MANAGER=pleat.numba python script.py

or numba.cuda.set_memory_manager(pleat.numba.PleatMemoryManager) before the first use of CUDA. Only
device memory comes from pleat; pinned and managed memory stays Numba's.

Numba names no stream: memory belongs to pleat.streams.current_stream() of the thread, the legacy
default stream at first. A program that works on other streams sets the thread's stream
(pleat.streams.use_stream), or synchronises the streams before it drops their arrays.
"""

from __future__ import annotations

import importlib
import weakref
from typing import Any

from cuda.bindings.driver import CUdeviceptr

from ._default import memory_info, trim
from ._library import library
from ._shortage import shortage
from ._status import EPENDING, PleatError

# Imported by name: numba-cuda replaces numba's own numba.cuda, and no checker sees that.
_cuda: Any = importlib.import_module("numba.cuda")


class PleatMemoryManager(_cuda.HostOnlyCUDAMemoryManager):
    """The memory manager of one Numba context; Numba's contexts are the devices' primary ones."""

    def initialize(self) -> None:
        """Bound the pinned memory that Numba may leave pending, as Numba's own manager does."""
        if self.deallocations.memory_capacity == 0:
            self.deallocations.memory_capacity = self.get_memory_info().total

    def memalloc(self, size: int) -> Any:
        """Allocate on the current device.

        Raises   MemoryError with pleat's sentence on who holds the memory; PleatError.
        """
        ptr = library().pleat_numba_malloc(size)
        if not ptr and size:
            self.deallocations.clear()
            ptr = library().pleat_numba_malloc(size)
        if not ptr and size:
            raise shortage()
        free = library().pleat_numba_free
        return _cuda.MemoryPointer(
            weakref.proxy(self.context), CUdeviceptr(ptr or 0), size, finalizer=lambda: free(ptr)
        )

    def get_memory_info(self) -> Any:
        """(free, total) bytes by the driver's count: memory cached by pleat is not free."""
        free, total = memory_info(self._device())
        return _cuda.MemoryInfo(free=free, total=total)

    def _device(self) -> int:
        """The number of the context's device: a context that others made has a plain CUdevice."""
        device = self.context.device
        return int(getattr(device, "id", device))

    def get_ipc_handle(self, memory: Any) -> Any:
        """Raise: the driver exports no handles of mapped memory."""
        raise NotImplementedError(
            "memory of pleat cannot be shared between processes: cuIpcGetMemHandle takes memory of "
            "cuMemAlloc only. Copy into an array of a process without NUMBA_CUDA_MEMORY_MANAGER"
        )

    def reset(self) -> None:
        """Drop Numba's pinned memory, and give free device memory back. Referenced arrays keep
        their memory, and so does work that is not over after `wait_ms`."""
        super().reset()
        try:
            trim(self._device())
        except PleatError as error:
            if error.status != EPENDING:
                raise

    @property
    def interface_version(self) -> int:
        """The version of Numba's plugin interface."""
        return 1


_numba_memory_manager = PleatMemoryManager
