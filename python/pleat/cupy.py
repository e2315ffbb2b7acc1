"""pleat under CuPy.

    import cupy, pleat.cupy
    pleat.cupy.install()

Memory belongs to the current CuPy stream of the allocating thread. When a thread drops the last
reference, its current stream counts as a further user. The program must order work on any other
stream with one of the two, as under CuPy's own pool. Managed, pinned and asynchronous memory stays
CuPy's.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable

import cupy
import cupy_backends.cuda.stream
from cupy.cuda import memory

from ._default import describe
from ._library import last_error, library
from ._status import ENOMEM_DEVICE, EPENDING, PleatError

Allocator = Callable[[int], Any]

_former: Allocator | None = None


def _stream_function() -> int:
    """Find CuPy's C function for the thread's current stream on a device; 0 if its form is not
    `intptr_t (int)`. Called with the interpreter's lock held, like all of CuPy's functions."""
    capsule = getattr(cupy_backends.cuda.stream, "__pyx_capi__", {}).get("get_stream_ptr")
    form = b"intptr_t (int)"
    if capsule is None or not ctypes.pythonapi.PyCapsule_IsValid(
        ctypes.py_object(capsule), ctypes.c_char_p(form)
    ):
        return 0
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, form) or 0


def _address(name: str) -> int:
    return ctypes.cast(getattr(library(), name), ctypes.c_void_p).value or 0


def _told_allocator() -> Allocator:
    """Make an allocator for a CuPy without _stream_function: asks Python, a little slower."""

    def malloc(size: int, device: int) -> int:
        stream = cupy.cuda.get_current_stream().ptr
        return library().pleat_torch_malloc(size, device, stream or None) or 0

    def free(ptr: int, device: int) -> None:
        stream = cupy.cuda.get_current_stream().ptr
        library().pleat_free(ptr, 0, device, stream or None)

    found: Allocator = memory.PythonFunctionAllocator(malloc, free).malloc
    return found


def _allocate_or_none() -> Allocator:
    stream_function = _stream_function()
    if not stream_function:
        return _told_allocator()
    found: Allocator = memory.CFunctionAllocator(
        stream_function, _address("pleat_cupy_malloc"), _address("pleat_cupy_free"), library()
    ).malloc
    return found


def allocator() -> Allocator:
    """Make an allocator for cupy.cuda.set_allocator and cupy.cuda.using_allocator.

    Returns  a function from bytes to MemoryPointer. It raises CuPy's OutOfMemoryError, with pleat's
             own error as __cause__, if memory is short; PleatError for any other failure.
    Raises   FileNotFoundError; OSError if libpleat cannot be loaded.
    Threads  any.
    """
    allocate = _allocate_or_none()

    def allocate_or_raise(size: int) -> Any:
        found = allocate(size)
        if size and not found.ptr:
            raise _failure(size)
        return found

    return allocate_or_raise


def _failure(size: int) -> Exception:
    error = last_error()
    why = PleatError(*error)
    if error.status not in (ENOMEM_DEVICE, EPENDING):
        return why
    device = cupy.cuda.get_device_id()
    about = describe(device)
    failure: Exception = memory.OutOfMemoryError(size, about.total_bytes, about.limit_bytes)
    failure.__cause__ = why
    return failure


def install() -> None:
    """Make pleat CuPy's allocator from now on; existing arrays keep their memory. A second call
    changes nothing."""
    global _former
    if _former is None:
        _former = cupy.cuda.get_allocator()
        cupy.cuda.set_allocator(allocator())


def uninstall() -> None:
    """Restore the allocator from before install(); existing arrays stay with pleat."""
    global _former
    if _former is not None:
        cupy.cuda.set_allocator(_former)
        _former = None
