"""The stream that a thread uses, for frameworks that name no stream when they allocate.

Numba names no stream to its memory manager, nor does a CuPy without a C function for the current
stream. Their memory belongs to the stream set here, for each thread and device. By default, and
with 0, the stream is the legacy default stream.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ._library import check, library


def set_current_stream(stream: int, device: int = 0) -> None:
    """Set the stream that the calling thread uses on a device.

    Params   stream  a CUstream as an integer; 0 = the legacy default stream. Set another one
                     before it is destroyed.
    Raises   PleatError (PLEAT_EDEVICE: no instance has that many devices).
    """
    check(library().pleat_set_current_stream(device, stream or None))


def current_stream(device: int = 0) -> int:
    """Tell the stream that the calling thread uses on a device; 0 = the legacy default stream."""
    return library().pleat_current_stream(device) or 0


@contextlib.contextmanager
def use_stream(stream: int, device: int = 0) -> Iterator[None]:
    """Set the calling thread's stream for a `with` block, and restore the former stream
    afterwards."""
    before = current_stream(device)
    set_current_stream(stream, device)
    try:
        yield
    finally:
        set_current_stream(before, device)
