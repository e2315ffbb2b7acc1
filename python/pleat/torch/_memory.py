"""torch.cuda's memory functions over pleat's numbers: same names, keys, units and meanings.

Until CUDA is initialised the functions answer like torch's: nothing is allocated, no driver is
touched. `device` is as in torch: an index, a torch.device, a string, None for the current device.
"""

from __future__ import annotations

import types
import warnings
from collections import OrderedDict
from typing import Any, Union

import torch
from torch.cuda._utils import _get_device_index

from .. import _default
from .._device_stats import Stat, whole_stat
from .._library import library

DeviceLike = Union[torch.device, str, int, None]


def device_index(device: DeviceLike) -> int:
    """The index of a device; of the current device for None."""
    return int(_get_device_index(device, optional=True))


def warn_if_apart(stacklevel: int) -> None:
    """Warn if torch allocates on a GPU without pleat: then nothing here has anything to say or do.

    The caller's caller is at fault, so many frames above this function.
    """
    from . import _install  # which needs this module

    if not torch.cuda.is_initialized() or _install.is_installed():
        return
    if whole_stat("allocated_bytes", device_index(None)).peak == 0:  # nor by a class of one's own
        warnings.warn(
            "torch allocates without pleat in this process, so pleat.torch has nothing to tell "
            "and nothing to do: call pleat.torch.install() before the first CUDA tensor, or run "
            "python3 -m pleat.torch SCRIPT",
            RuntimeWarning,
            stacklevel=stacklevel,
        )


def memory_stats(device: DeviceLike = None) -> OrderedDict[str, int]:
    """Read the statistics of a device, under torch.cuda.memory_stats' keys, sorted.

    Units    counts and bytes. reserved_bytes is pleat's resident memory, segment counts the ranges
             of addresses that contain it.
    Returns  empty until CUDA is initialised.
    Raises   PleatError.
    Threads  any; all numbers are of one instant.
    """
    if not torch.cuda.is_initialized():
        return OrderedDict()
    return _default.memory_stats(device_index(device))


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """Read memory_stats as nested by torch.cuda.memory_stats_as_nested_dict."""
    return nest(memory_stats(device))


def nest(flat: dict[str, int]) -> dict[str, Any]:
    """Make dictionaries of dictionaries, by the dots of the keys."""
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *path, last = key.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """Make a page of statistics to print, in the layout of the installed torch.

    Runs torch's own function with pleat's memory_stats.
    """
    theirs = torch.cuda.memory.memory_summary
    names = {**theirs.__globals__, "memory_stats": _stats_or_zeros}
    ours = types.FunctionType(theirs.__code__, names, "memory_summary", theirs.__defaults__)
    text: str = ours(device, abbreviated)
    return text


def _stats_or_zeros(device: DeviceLike = None) -> OrderedDict[str, int]:
    torch.cuda.init()
    return memory_stats(device)


def _whole(name: str, device: DeviceLike) -> Stat:
    warn_if_apart(4)
    return whole_stat(name, device_index(device)) if torch.cuda.is_initialized() else Stat()


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes of live blocks now."""
    return _whole("allocated_bytes", device).current


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Most bytes of live blocks since the start or reset_peak_memory_stats."""
    return _whole("allocated_bytes", device).peak


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes of device memory that pleat holds now."""
    return _whole("reserved_bytes", device).current


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Most bytes of device memory held since the start or reset_peak_memory_stats."""
    return _whole("reserved_bytes", device).peak


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Set every peak to its current value."""
    _default.reset_peaks(device_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Set every "allocated" and "freed", num_ooms and num_alloc_retries to zero."""
    _default.reset_accumulated(device_index(device))


def empty_cache() -> None:
    """Give all free memory of every device back to the driver, waiting for its last uses."""
    if torch.cuda.is_initialized():
        library().pleat_torch_reset()


def compact(device: DeviceLike = None) -> _default.Compaction:
    """Move live tensors' memory together, and give emptied memory back to the driver.

    For a safe point, such as the end of a step. Until the call returns, no thread may submit work
    to the device, launch or capture a graph. The call waits for earlier work. Tensors, pointers and
    captured graphs stay valid. No memory may be live that is shared with other processes, or
    registered for RDMA by its physical memory.

    Returns  what was done: n_split, moved_bytes, won_bytes; zeros until CUDA is
             initialised.
    Raises   PleatError (PLEAT_ECAPTURE: a graph is being captured; PLEAT_ENOTSUP).
    Blocks   on all work of the device.
    """
    warn_if_apart(3)
    if not torch.cuda.is_initialized():
        return _default.Compaction(0, 0, 0)
    return _default.compact(device_index(device))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) bytes of the device as the driver tells them, without regard to a limit."""
    torch.cuda.init()
    return _default.memory_info(device_index(device))


def _asks_the_class() -> bool:
    """Whether to ask the class, which also counts pools of other allocators."""
    from ._install import binding

    return binding() == "class"


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Let pleat hold at most this fraction of the device's memory.

    Params   fraction  from 0 to 1; 1 = no limit, 0 = nothing can be allocated.
    Raises   ValueError; PleatError, with the class torch's RuntimeError (live tensors need more).
    """
    if not isinstance(fraction, (float, int)) or isinstance(fraction, bool):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    torch.cuda.init()
    index = device_index(device)
    if _asks_the_class():
        torch._C._cuda_setMemoryFraction(fraction, index)
        return
    total_bytes = _default.describe(index).total_bytes
    _default.set_limit(index, 0 if fraction == 1 else max(1, round(fraction * total_bytes)))


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    """The fraction of the device's memory that pleat may hold: 1.0 without a limit."""
    torch.cuda.init()
    if _asks_the_class() and hasattr(torch._C, "_cuda_getMemoryFraction"):
        return float(torch._C._cuda_getMemoryFraction(device_index(device)))
    found = _default.describe(device_index(device))
    return found.limit_bytes / found.total_bytes if found.limit_bytes else 1.0
