"""Snapshots in PyTorch's form, and recording of the histories inside."""

from __future__ import annotations

import os
import pickle
from typing import Any

from .. import _default

_recording = 0


def snapshot() -> dict[str, Any]:
    """Read the state and recorded history of all devices in use, like torch.cuda.memory._snapshot.

    Returns  a dictionary with segments, device_traces, ...
    Raises   PleatError.
    Threads  any.
    """
    found: dict[str, Any] = pickle.loads(_default.snapshot_pickle())
    return found


def dump_snapshot(path: str | os.PathLike[str] = "dump_snapshot.pickle") -> None:
    """Write the snapshot into a file that torch's viewer (pytorch.org/memory_viz) opens.

    Params   path  replaced only when the new file is complete; JSON if it ends in .json, else a
                   pickle.
    Raises   PleatError (PLEAT_EWRITE names the path and the system's reason).
    """
    _default.dump_snapshot(path)


def record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "python",
    max_entries: int = 1_000_000,
    clear_history: bool = False,
) -> None:
    """Record allocations and frees for snapshots, as torch.cuda.memory._record_memory_history.

    Params   enabled      "all"; "state" records as little as possible; None stops, and old entries
                          stay.
             context      None, "state", "alloc" or "all": which entries get a stack, if stacks do.
             stacks       "all": the C stack of each entry, microseconds each. "python": none, for
                          pleat sees no Python frames.
             max_entries  of each device; the oldest are overwritten. More than 2^28 are 2^28.
    Raises   ValueError; PleatError.
    """
    global _recording
    if enabled not in (None, "state", "all"):
        raise ValueError(f"enabled must be None, 'state' or 'all', not {enabled!r}")
    if context not in (None, "state", "alloc", "all"):
        raise ValueError(f"context must be None, 'state', 'alloc' or 'all', not {context!r}")
    if stacks not in ("python", "all"):
        raise ValueError(f"stacks must be 'python' or 'all', not {stacks!r}")
    flags = 0 if clear_history else _default.HISTORY_KEEP
    if stacks == "all" and context is not None:
        flags |= _default.HISTORY_FRAMES
        if context == "all":
            flags |= _default.HISTORY_FREE_FRAMES
    n_entries = min(max_entries, _default.HISTORY_MOST) if enabled == "all" else 1
    _recording = 0 if enabled is None else n_entries
    _default.record_history(_recording, flags)


def is_recording() -> bool:
    """Whether record_memory_history() has switched recording on."""
    return _recording > 0
