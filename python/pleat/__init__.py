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


# For a framework each; an import takes the framework's.
_MODULES = ("cupy", "numba", "onnxruntime", "rmm", "torch", "torch_memory_saver", "vllm")


def __getattr__(name: str) -> str:
    if name == "__version__":
        return version()
    hint = ""
    if name in _MODULES:
        hint = f": import pleat.{name} first"
    elif name in ("install", "mem_pool"):
        hint = f": import pleat.torch, and call pleat.torch.{name}()"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
