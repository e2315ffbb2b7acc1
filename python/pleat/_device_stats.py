"""pleat_stats of pleat.h: what a device's statistics tell beyond PyTorch's keys."""

from __future__ import annotations

import ctypes

from ._default import instance
from ._library import check, library

# Fields of pleat_stats: 9 groups of 3 pools and 2 of 1, each of 4 numbers; then single numbers.
_N_PYTORCH = (9 * 3 + 2) * 4
_SINGLE = (
    "num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc",
    "num_device_free", "granule_bytes", "resident_bytes", "live_granules", "peak_live_granules",
    "pinned_granules", "free_bytes", "pending_bytes", "idle_bytes", "rounding_bytes",
    "stale_bytes", "address_bytes", "metadata_bytes", "ops_map", "ops_unmap", "ops_alloc",
    "ops_free", "bytes_created", "bytes_mapped", "n_taken_granules", "host_syncs",
    "stream_waits", "n_driver_calls", "driver_ns", "n_undo_failures",
)  # fmt: skip


class _Stats(ctypes.Structure):
    _fields_ = (
        ("pytorch", ctypes.c_uint64 * _N_PYTORCH),
        ("single", ctypes.c_uint64 * len(_SINGLE)),
    )


def device_stats(device: int = 0) -> dict[str, int]:
    """Read pleat's own counters of a device: resident bytes by what holds them, device operations.

    Units    counts, bytes and nanoseconds, as the name says: pleat_types.h explains each.
    Returns  all zero for a device never used.
    Raises   PleatError (PLEAT_EDEVICE; what making the default instance may say).
    Threads  any; one consistent snapshot. Opens no device.
    """
    stats = _Stats()
    check(library().pleat_device_stats(instance(), device, ctypes.byref(stats)))
    return dict(zip(_SINGLE, stats.single))
