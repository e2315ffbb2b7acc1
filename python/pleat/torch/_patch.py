"""Lets torch.cuda's own memory functions tell pleat's numbers.

torch.cuda.memory_stats, memory_allocated, memory_summary, memory_snapshot, memory._snapshot,
memory._record_memory_history and so on are Python code over a few functions of torch._C. These few
functions refuse a pluggable allocator. This module replaces the few functions. Then all Python code
over them works, too, under every name that a script imported.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from .. import _default
from . import _memory, _snapshot

_originals: dict[str, Any] = {}


def _stats(device: int) -> dict[str, Any]:
    return _memory.nest(_default.memory_stats(device))


def _fraction(device: int) -> float:
    return _memory.get_per_process_memory_fraction(device)


def _set_fraction(fraction: float, device: int) -> None:
    """Set the fraction by pleat's own call, since torch's hook cannot refuse."""
    _memory.set_per_process_memory_fraction(fraction, device)


def _take_snapshot(selection: Any = None, *_unused: Any, **_unknown: Any) -> dict[str, Any]:
    """`selection` is None, or (pool id, pool id[, whether to include traces])."""
    found = _snapshot.snapshot()
    if not selection:
        return found
    pool = tuple(selection[:2])
    if pool != (0, 0):
        found["segments"] = [
            segment for segment in found["segments"] if tuple(segment["segment_pool_id"]) == pool
        ]
    if len(selection) > 2 and not selection[2]:
        found["device_traces"] = [[] for _ in found["device_traces"]]
    return found


def _record_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = 1_000_000,
    clear_history: bool = False,
    *_unused: Any,
    **_unknown: Any,
) -> None:
    _snapshot.record_memory_history(
        enabled, context, stacks, min(max_entries, 1_000_000), clear_history
    )


def _record_history_legacy(
    enabled: bool,
    record_context: bool = True,
    max_entries: int = 1,
    record_alloc_context: bool = False,
    record_cpp: bool = False,
    clear_history: bool = False,
    *_unused: Any,
    **_unknown: Any,
) -> None:
    _snapshot.record_memory_history(
        "all" if enabled else None,
        "all" if record_alloc_context else "state" if record_context else None,
        "all" if record_cpp else "python",
        max_entries,
        clear_history,
    )


_REPLACEMENTS: dict[str, Callable[..., Any]] = {
    "_cuda_memoryStats": _stats,
    "_cuda_resetPeakMemoryStats": _default.reset_peaks,
    "_cuda_resetAccumulatedMemoryStats": _default.reset_accumulated,
    "_cuda_getMemoryFraction": _fraction,
    "_cuda_setMemoryFraction": _set_fraction,
    "_cuda_memorySnapshot": _take_snapshot,
    "_cuda_record_memory_history": _record_history,
    "_cuda_record_memory_history_legacy": _record_history_legacy,
    "_cuda_isHistoryEnabled": _snapshot.is_recording,
    "_accelerator_isAllocatorInitialized": torch.cuda.is_initialized,
    "_accelerator_getDeviceStats": _stats,
    "_accelerator_resetPeakStats": _default.reset_peaks,
    "_accelerator_resetAccumulatedStats": _default.reset_accumulated,
}


def patch() -> None:
    """Let torch.cuda's memory functions tell pleat's numbers; install() calls patch() by default.

    Raises   RuntimeError unless pleat is installed: torch's own allocator would no longer be asked.
    Threads  any, while no other thread calls such a function. A second call does nothing.
    """
    from ._install import binding  # which imports this module

    if binding() is None:
        raise RuntimeError("pleat is not installed: torch's own numbers would be hidden")
    if binding() == "class":
        return  # torch asks pleat by itself
    for name, replacement in _REPLACEMENTS.items():
        if hasattr(torch._C, name) and name not in _originals:
            _originals[name] = getattr(torch._C, name)
            setattr(torch._C, name, replacement)


def unpatch() -> None:
    """Undo patch(): torch.cuda's memory functions then raise again, as with any pluggable
    allocator."""
    while _originals:
        name, original = _originals.popitem()
        setattr(torch._C, name, original)
