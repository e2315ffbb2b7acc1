"""pleat_stats of pleat.h: a device's statistics as numbers, PyTorch's and pleat's own."""

from __future__ import annotations

import ctypes

from ._default import instance
from ._library import check, library

# Fields of pleat_stats. First groups of three pools, with the sum over all pools first. Then groups
# of one. Then single numbers, which torch.cuda.memory_stats does not have.
_GROUPS = (
    "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
    "active_bytes", "inactive_split_bytes", "requested_bytes",
)  # fmt: skip
_WHOLES = ("oversize_allocations", "oversize_segments")
_SINGLE = (
    "num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc",
    "num_device_free", "granule_bytes", "resident_bytes", "live_granules", "peak_live_granules",
    "pinned_granules", "free_bytes", "pending_bytes", "idle_bytes", "rounding_bytes",
    "stale_bytes", "address_bytes", "metadata_bytes", "ops_map", "ops_unmap", "ops_alloc",
    "ops_free", "bytes_created", "bytes_mapped", "n_taken_granules", "host_syncs",
    "stream_waits", "n_driver_calls", "driver_ns", "n_undo_failures", "tied_granules",
)  # fmt: skip


class Stat(ctypes.Structure):
    """pleat_stat: PyTorch's counter."""

    current: int
    peak: int
    allocated: int
    freed: int
    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("current", "peak", "allocated", "freed")
    )


class _Stats(ctypes.Structure):
    _fields_ = (
        *((name, Stat * 3) for name in _GROUPS),
        *((name, Stat) for name in _WHOLES),
        ("single", ctypes.c_uint64 * len(_SINGLE)),
    )


def _read(device: int) -> _Stats:
    stats = _Stats()
    size = ctypes.sizeof(stats)
    check(library().pleat_device_stats_sized(instance(), device, size, ctypes.byref(stats)))
    return stats


def whole_stat(name: str, device: int = 0) -> Stat:
    """Read one of PyTorch's counters, over all pools, without the cost of naming the others.

    Params   name  of a group: "allocated_bytes" and the like.
    Returns  the value of name.all in memory_stats, except that reset_accumulated does not reset
             `allocated` and `freed`.
    Raises, Threads  as device_stats.
    """
    found: Stat = getattr(_read(device), name)[0]
    return found


def device_stats(device: int = 0) -> dict[str, int]:
    """Read pleat's own counters of a device: resident bytes by holder, device operations.

    Units    counts, bytes and nanoseconds, as the name says: pleat_types.h explains each.
    Returns  all zero for a device never used.
    Raises   PleatError (PLEAT_EDEVICE; errors of making the default instance).
    Threads  any; one consistent snapshot. Opens no device.
    """
    return dict(zip(_SINGLE, _read(device).single))
