"""The configuration of PyTorch's allocations: PLEAT_CONF, made safe.

A simulated address in a real kernel corrupts memory or faults, so driver:sim is refused if torch
sees a real GPU.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

import torch

from .. import _default
from .._conf import join_conf, overlay, split_conf
from .._library import check, library

VARIABLE = "PLEAT_CONF"

# Under pleat, torch itself keeps the streams that it makes, and routes its captures to private
# pools. So pleat need not ask the driver at each request.
TOLD_BY_TORCH = {"stream_identity": "handle", "capture": "told"}
# torch.multiprocessing sends CUDA tensors without asking first. Devices that cannot share their
# memory still serve torch.
SHARED_BY_TORCH = {"shareable": "auto"}
OF_TORCH = {**TOLD_BY_TORCH, **SHARED_BY_TORCH}
SHORT = ("refuse", "compact")

_lock = threading.RLock()
_configured: str | None = None


def merged(
    conf: str | None, history: int = 0, short: str | None = None, *, is_told: bool = False
) -> str:
    """Merge `conf` over PLEAT_CONF, key by key; the result always names a driver.

    Params   is_told  torch tells pleat of its streams and captures (TOLD_BY_TORCH), unless the
                      configuration says otherwise.
    Raises  ValueError for a text that is not key:value,..., and for a bad `short`; PleatError
            (PLEAT_ECONF) for a text that pleat refuses; the message blames `conf` or PLEAT_CONF.
    """
    if short is not None and short not in SHORT:
        raise ValueError(f"short is one of {', '.join(SHORT)}, not {short!r}")
    try:
        split_conf(os.environ.get(VARIABLE, ""))
    except ValueError as error:
        raise ValueError(f"{VARIABLE}: {error}") from None
    entries = overlay(os.environ.get(VARIABLE, ""), conf or "")
    check(library().pleat_create((conf or "").encode(), None))
    if entries.get("driver", "auto") == "auto":
        entries["driver"] = "cuda"
    if history > 0:
        entries["history"] = str(history)
    if short is not None:
        entries["short"] = short
    if is_told:
        entries = {**TOLD_BY_TORCH, **entries}
    return join_conf(entries)


def shared(text: str) -> str:
    """Let other processes open the memory of a configuration of merged(), unless it says no."""
    entries = overlay(text, "")
    return join_conf({**entries, **SHARED_BY_TORCH, **entries})


def configure(text: str) -> None:
    """Make `text` (of merged()) the configuration of the default instance.

    Raises  PleatError (PLEAT_ECONF) for a configuration that pleat refuses; RuntimeError after an
            earlier, different configuration, or if the simulator would meet a real GPU.
    Threads  any, before the first allocation.
    """
    global _configured
    with _lock:
        if _configured == text:
            return
        if _configured is not None:
            raise RuntimeError(
                f"pleat was configured before with {_configured!r}, and the configuration of a "
                f"process cannot change to {text!r}"
            )
        entries = overlay(text, "")
        before = _default.made_from()
        if before is not None and _effective(overlay(before, "")) != _effective(entries):
            raise RuntimeError(
                f"pleat's default instance was used before, with PLEAT_CONF={before!r}: it cannot "
                f"change to {text!r}"
            )
        if entries["driver"] == "sim":
            _check_simulator()
        _try_out(entries)
        os.environ[VARIABLE] = text
        _configured = text


@contextlib.contextmanager
def undone_on_failure() -> Iterator[None]:
    """After an exception the configuration of the process, and PLEAT_CONF, are as before."""
    global _configured
    with _lock:
        before, text = _configured, os.environ.get(VARIABLE)
        try:
            yield
        except BaseException:
            _configured = before
            if text is None:
                os.environ.pop(VARIABLE, None)
            else:
                os.environ[VARIABLE] = text
            raise


def _effective(entries: dict[str, str]) -> dict[str, str]:
    """Add torch's defaults to the entries. driver:auto never means the simulator."""
    whole = {**OF_TORCH, "driver": "cuda", **entries}
    return {**whole, "driver": "cuda"} if whole["driver"] == "auto" else whole


def has_simulated_runtime() -> bool:
    """Whether this process's CUDA runtime is pleat's simulated one (libpleat_runtime.so)."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return any("libpleat_runtime.so" in line for line in maps)
    except OSError:
        return False


def _check_simulator() -> None:
    if has_simulated_runtime():
        return
    if torch.cuda.device_count() > 0:
        raise RuntimeError(
            "driver:sim is configured, but torch sees a real GPU: simulated addresses must not "
            "reach it. Take driver:sim out of PLEAT_CONF"
        )
    print(
        "pleat: driver:sim simulates the driver alone, and torch finds no GPU by it. To run torch "
        "without a GPU: pleat-runtime python3 YOUR_SCRIPT.py",
        file=sys.stderr,
    )


def _try_out(entries: dict[str, str]) -> None:
    """Let pleat read the configuration without touching a driver: a fork must stay possible."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = join_conf(entries)
    try:
        check(library().pleat_create(None, None))
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
