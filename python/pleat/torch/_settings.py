"""torch's own settings of its allocator under pleat: each acts, or is named once with the reason.

torch reads them from PYTORCH_CUDA_ALLOC_CONF or a relative, and programs change them while they
run. The table has all keys of torch 2.6 to 2.15.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Callable, NamedTuple

import torch

from .._conf import join_conf, split_conf

# The first one that is set counts, as in torch.
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
FRACTION = "per_process_memory_fraction"
LEAST_LIMIT = "4096"  # pleat's least limit, in bytes: less than any block needs

# When a setting acts.
NEVER = "never"
CLASS = "with the class"
START = "from the start"
TORCHS = "on torch's own pinned memory"


class Setting(NamedTuple):
    acts: str
    why: str  # it has no effect otherwise


_ADDRESSES = "pleat reserves addresses by rules of its own"
_ANY_SIZE = "pleat cuts and joins blocks of any size"
_PINNED = Setting(TORCHS, "install_pinned() made pinned memory pleat's")
_LOCK = Setting(NEVER, "pleat holds no lock while it calls the driver")
_HOOKS = "torch asks for it through pleat's class only, and pleat is installed by hooks"

SETTINGS = {
    "backend": Setting(NEVER, "pleat is the allocator"),
    "expandable_segments": Setting(NEVER, "pleat always maps memory piece by piece"),
    "expandable_segments_reserve": Setting(NEVER, _ADDRESSES),
    "expandable_segments_reserve_by_class": Setting(NEVER, _ADDRESSES),
    "garbage_collection_threshold": Setting(
        NEVER, "free memory of pleat serves other sizes as it is, so none has to be collected"
    ),
    "graph_capture_record_stream_reuse": Setting(
        NEVER, "pleat asks the driver when the use on another stream is over"
    ),
    "large_segment_size_mb": Setting(NEVER, _ADDRESSES),
    "max_non_split_rounding_mb": Setting(NEVER, _ANY_SIZE),
    "max_split_size_mb": Setting(NEVER, _ANY_SIZE),
    FRACTION: Setting(
        START, "it is read at install(); torch.cuda.set_per_process_memory_fraction acts later"
    ),
    "pin_memory_expandable_segments": _PINNED,
    "pinned_free_catch_all": _PINNED,
    "pinned_max_cached_size_mb": _PINNED,
    "pinned_max_round_threshold_mb": _PINNED,
    "pinned_num_register_threads": _PINNED,
    "pinned_reserve_segment_size_mb": _PINNED,
    "pinned_use_background_threads": _PINNED,
    "pinned_use_cuda_host_register": _PINNED,
    "pinned_use_hip_host_register": _PINNED,
    "release_lock_on_cudamalloc": _LOCK,
    "release_lock_on_hipmalloc": _LOCK,
    "roundup_power2_divisions": Setting(CLASS, f"{_HOOKS}; PLEAT_CONF has the same key"),
    "throw_on_cudamalloc_oom": Setting(CLASS, _HOOKS),
}

SETTERS = ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings")

_told: set[str] = set()
_is_quiet = False


def leave_to_parent() -> None:
    """Name nothing in this process: its parent did."""
    global _is_quiet
    _is_quiet = True


def read() -> tuple[str, dict[str, str]]:
    """Find the variable that is set, and split its value; ("", {}) if none is.

    Raises  ValueError: the value is not key:value,...
    """
    for name in VARIABLES:
        text = os.environ.get(name)
        if text is not None:
            try:
                return name, split_conf(text)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    return "", {}


def limit() -> str | None:
    """Get the limit, in pleat's words, that torch's setting of a memory fraction asks for.

    Raises  ValueError: the variable is no configuration, or the fraction no number from 0 to 1.
    """
    name, given = read()
    if FRACTION not in given:
        return None
    try:
        fraction = float(given[FRACTION])
    except ValueError:
        fraction = -1.0
    if not 0 <= fraction <= 1:
        raise ValueError(
            f"{name}: {FRACTION} is a number from 0 to 1, and {given[FRACTION]!r} is none"
        )
    if fraction == 1:
        return "none"
    parts = f"{fraction:.9f}"
    return parts if float(parts) > 0 else LEAST_LIMIT


def read_by_torch() -> None:
    """Let torch read its settings while its own allocator is at work, if they have a backend.

    torch reads them at their first use, often at the first pinned tensor, and then refuses a
    backend that is not the allocator at work. An error here comes again at that first use.
    """
    name, given = read()
    if "backend" not in given or name == "PYTORCH_HIP_ALLOC_CONF":  # torch for CUDA reads no HIP
        return
    for setter in (getattr(torch._C, known, None) for known in SETTERS):
        if setter is not None:
            with contextlib.suppress(RuntimeError, ValueError):
                setter(os.environ[name])
            return


def tell_start(binding: str, has_other_limit: bool) -> None:
    """Name the settings of the environment that have no effect."""
    name, given = read()
    acting = {TORCHS} | ({CLASS} if binding == "class" else set())
    if has_other_limit:
        _say(name, {FRACTION: "PLEAT_CONF, or the argument of install(), has a limit"}, given)
    else:
        acting.add(START)
    _say(name, _idle(acting), given)


def tell_pinned() -> None:
    """Name the settings of the environment that torch's pinned memory alone would heed."""
    name, given = read()
    _say(name, {key: _PINNED.why for key, how in SETTINGS.items() if how is _PINNED}, given)


def watch(binding: str, has_pinned: Callable[[], bool]) -> None:
    """Name settings without effect that the program makes from now on, too."""
    for name in SETTERS:
        original = getattr(torch._C, name, None)
        if original is not None:
            setattr(torch._C, name, _watched(original, binding, has_pinned))


def _watched(
    original: Callable[..., Any], binding: str, has_pinned: Callable[[], bool]
) -> Callable[..., Any]:
    def set_settings(text: str) -> Any:
        given = split_conf(text)
        # torch refuses a backend that is not the allocator at work.
        rest = join_conf({key: value for key, value in given.items() if key != "backend"})
        done = original(rest if "backend" in given else text)  # raises where torch refuses it
        acting = set() if has_pinned() else {TORCHS}
        if binding == "class":
            acting.add(CLASS)
        if given.get("throw_on_cudamalloc_oom") == "True":
            acting.add(START)  # the class then heeds the fraction at each request
        _say("torch's settings", _idle(acting), given)
        return done

    return set_settings


def _idle(acting: set[str]) -> dict[str, str]:
    return {key: setting.why for key, setting in SETTINGS.items() if setting.acts not in acting}


def _say(where: str, reasons: dict[str, str], given: dict[str, str]) -> None:
    """All ranks but the first of a machine leave it to that one."""
    for key in given:
        why = reasons.get(key) if key in SETTINGS else "torch 2.6 to 2.15 have no such setting"
        if why is not None and key not in _told:
            _told.add(key)
            if not _is_quiet and os.environ.get("LOCAL_RANK", "0") == "0":
                print(f"pleat: {where}: {key} has no effect: {why}", file=sys.stderr)
