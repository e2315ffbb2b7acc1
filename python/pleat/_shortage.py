"""What a failed allocation raises where the framework has no exception of its own."""

from __future__ import annotations

from ._library import last_error
from ._status import ENOMEM_DEVICE, EPENDING, PleatError


def shortage() -> Exception:
    """The calling thread's last error: MemoryError where memory is short, else PleatError."""
    error = last_error()
    if error.status in (ENOMEM_DEVICE, EPENDING):
        return MemoryError(error.text)
    return PleatError(*error)
