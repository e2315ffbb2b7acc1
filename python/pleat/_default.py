"""libpleat's functions on the default instance, from which the adapters allocate.

Every function raises PleatError with the library's own sentence. All may be called from any thread.
Units are bytes. The first call in a process makes the instance from PLEAT_CONF, and so loads and
initialises the driver: the real driver, unless PLEAT_CONF names the simulator.
"""

from __future__ import annotations

import ctypes
import os
from collections import OrderedDict
from typing import NamedTuple

from ._library import (
    STATS_FN,
    WRITE_FN,
    CompactionRecord,
    DeviceInfo,
    Instance,
    check,
    library,
)


class Device(NamedTuple):
    """The driver and the allocator of a device."""

    name: str
    driver: str
    """"cuda" or "sim"."""
    allocator: str
    note: str
    """Why the configured allocator is not at work; "" if it is."""
    total_bytes: int
    granule_bytes: int
    limit_bytes: int
    """0 = none."""


class Compaction(NamedTuple):
    """What a compaction did."""

    n_split: int
    """Chunks replaced by smaller ones."""
    moved_bytes: int
    won_bytes: int
    """Given back to the driver."""


_made_from: str | None = None


def instance() -> Instance:
    """The default instance; made by the first call."""
    global _made_from
    found = Instance()
    text = _made_from
    if text is None:
        text = os.environ.get("PLEAT_CONF", "")
    check(library().pleat_default(ctypes.byref(found)))
    _made_from = text
    return found


def made_from() -> str | None:
    """PLEAT_CONF at the first use of the default instance by this module; None before."""
    return _made_from


def conf() -> str:
    """Read the whole configuration, in a form that PLEAT_CONF accepts."""
    needed = ctypes.c_size_t()
    here = instance()
    check(library().pleat_instance_conf(here, None, 0, ctypes.byref(needed)))
    text = ctypes.create_string_buffer(needed.value)
    check(library().pleat_instance_conf(here, text, needed.value, ctypes.byref(needed)))
    return text.value.decode()


def memory_stats(device: int = 0) -> OrderedDict[str, int]:
    """Read a device's statistics under the keys of torch.cuda.memory_stats, sorted.

    Units    counts and bytes, as the key says: 123 keys, and 12 for each private pool.
    Raises   PleatError (PLEAT_EDEVICE; errors of making the default instance).
    Threads  any; all numbers are of one instant. Opens no device.
    """
    found: OrderedDict[str, int] = OrderedDict()

    def see(_context: int | None, key: bytes, value: int) -> None:
        found[key.decode()] = value

    instance()
    check(library().pleat_torch_stats(device, STATS_FN(see), None))
    return found


def reset_peaks(device: int = 0) -> None:
    """Set every peak to its current value."""
    check(library().pleat_device_reset_peaks(instance(), device))


def reset_accumulated(device: int = 0) -> None:
    """Reset to zero the sums of allocated and freed bytes and counts, and the scalars."""
    check(library().pleat_torch_reset_accumulated(device))


def trim(device: int = 0, keep_bytes: int = 0, wait: bool = True) -> int:
    """Give free memory of a device back to the driver.

    Params   keep_bytes  stop when no more than this is resident.
             wait        wait for the last uses of pending memory, at most `wait_ms`.
    Returns  bytes given back.
    Raises   PleatError (PLEAT_EPENDING: some uses were not over in time; other free memory went).
    """
    released = ctypes.c_uint64()
    check(
        library().pleat_device_trim(instance(), device, keep_bytes, wait, ctypes.byref(released))
    )
    return released.value


def compact(device: int = 0) -> Compaction:
    """Move live memory of a device together, and give emptied memory back to the driver.

    The caller promises: until the call returns, nobody submits work to the device, or captures any.
    The call waits for earlier work. Every pointer and every live byte stays.

    Raises   PleatError (PLEAT_ENOTSUP: a classic cache is at work; PLEAT_ECAPTURE: a capture is
             under way).
    Threads  any.
    """
    found = CompactionRecord()
    size = ctypes.sizeof(found)
    check(library().pleat_device_compact_sized(instance(), device, size, ctypes.byref(found)))
    return Compaction(found.n_split, found.moved_bytes, found.won_bytes)


def set_limit(device: int, limit_bytes: int) -> None:
    """Limit the bytes that may be resident on a device; 0 = no limit."""
    check(library().pleat_device_set_limit(instance(), device, limit_bytes))


def memory_info(device: int = 0) -> tuple[int, int]:
    """(free, total) bytes by the driver's count: memory cached by pleat is not free."""
    free = ctypes.c_uint64()
    total = ctypes.c_uint64()
    check(
        library().pleat_device_memory_info(
            instance(), device, ctypes.byref(free), ctypes.byref(total)
        )
    )
    return free.value, total.value


def describe(device: int = 0) -> Device:
    """Describe the driver and the allocator of a device; opens the device."""
    info = DeviceInfo()
    size = ctypes.sizeof(info)
    check(library().pleat_device_query_sized(instance(), device, size, ctypes.byref(info)))
    return Device(
        name=info.name.decode(),
        driver=info.driver.decode(),
        allocator=info.allocator.decode(),
        note=info.note.decode(),
        total_bytes=info.total_bytes,
        granule_bytes=info.granule_bytes,
        limit_bytes=info.limit_bytes,
    )


def check_invariants() -> int:
    """Run libpleat's walkers: 0, or the number of the first broken invariant."""
    broken = ctypes.c_int()
    check(library().pleat_check(instance(), ctypes.byref(broken)))
    return broken.value


HISTORY_FRAMES = 1
HISTORY_FREE_FRAMES = 2
HISTORY_KEEP = 4
HISTORY_MOST = 1 << 28


def record_history(max_entries: int, flags: int = 0) -> None:
    """Record all events from now on, `max_entries` for each device; 0 = stop."""
    check(library().pleat_history_record(instance(), max_entries, flags))


def snapshot_pickle() -> bytes:
    """The state and history of all devices in use: PyTorch's dictionary, pickled."""
    parts: list[bytes] = []

    def write(_context: int | None, at: int, n_bytes: int) -> bool:
        parts.append(ctypes.string_at(at, n_bytes))
        return True

    check(library().pleat_snapshot_write(instance(), 0, WRITE_FN(write), None))
    return b"".join(parts)


def dump_snapshot(path: str | os.PathLike[str]) -> None:
    """Write the snapshot to a file; JSON if `path` ends in .json. An existing file is replaced only
    when the new file is complete.

    Raises  PleatError (PLEAT_EWRITE names the path and the system's reason).
    """
    check(library().pleat_snapshot_dump(instance(), os.fsencode(path)))
