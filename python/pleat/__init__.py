"""GPU memory, mapped where a request needs it.

pleat.torch makes pleat the allocator of PyTorch. This module needs no framework. It has the
library, its configuration, and the statistics and snapshots of the default instance; all adapters
allocate from the default instance. An import loads nothing; the first call loads the library.
"""

from __future__ import annotations

from ._default import (
    Compaction,
    Device,
    check_invariants,
    compact,
    conf,
    describe,
    dump_snapshot,
    memory_info,
    memory_stats,
    record_history,
    reset_accumulated,
    reset_peaks,
    set_limit,
    trim,
)
from ._device_stats import device_stats
from ._library import last_error, library, library_path
from ._status import LastError, PleatError

__all__ = [
    "Compaction",
    "Device",
    "LastError",
    "PleatError",
    "check_invariants",
    "compact",
    "conf",
    "describe",
    "device_stats",
    "dump_snapshot",
    "last_error",
    "library",
    "library_path",
    "memory_info",
    "memory_stats",
    "record_history",
    "reset_accumulated",
    "reset_peaks",
    "set_limit",
    "trim",
    "version",
]


def version() -> str:
    """The library's version, "0.1.0"."""
    text: bytes = library().pleat_version()
    return text.decode()


def __getattr__(name: str) -> str:
    if name == "__version__":
        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
