"""The exception of a failed allocation, for frameworks without one of their own."""

from __future__ import annotations

from ._library import last_error
from ._status import ENOMEM_DEVICE, EPENDING, PleatError


def shortage() -> Exception:
    """The calling thread's last error: MemoryError if memory is short, else PleatError."""
    error = last_error()
    if error.status in (ENOMEM_DEVICE, EPENDING):
        return MemoryError(error.text)
    return PleatError(*error)
