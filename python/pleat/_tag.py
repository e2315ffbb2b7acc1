"""Tags on the default instance: names for memory, and memory that sleeps (pleat_tag.h)."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from . import _default
from ._library import SleptRecord, TagRecord, check, library
from ._status import PleatError

HOW = {"discard": 0, "host": 1, "file": 2}


class Slept(NamedTuple):
    """What a sleep or a wake did, in bytes of device memory."""

    bytes: int
    """Given back to the driver, or had from it."""
    shared_bytes: int
    """Left, since other processes map the memory."""
    kept_bytes: int
    """With contents that are kept, or are back."""
    left_bytes: int
    """Still missing after a wake."""


class Tag(NamedTuple):
    """Statistics of a tag on a device."""

    blocks: int
    allocated_bytes: int
    requested_bytes: int
    peak_bytes: int
    """The most allocated_bytes so far."""
    resident_bytes: int
    asleep_bytes: int
    kept_bytes: int
    limit_bytes: int
    """0 = none."""
    n_sleeps: int
    is_asleep: bool


@contextlib.contextmanager
def scope(tag: str | None) -> Iterator[None]:
    """Let the calling thread's allocations in the block carry the tag; None: carry no tag."""
    check(library().pleat_tag_push(None if tag is None else tag.encode()))
    try:
        yield
    finally:
        check(library().pleat_tag_pop())


def names() -> list[str]:
    """The tags of the process, in order of first use."""
    found: list[str] = []
    while (name := library().pleat_tag_name(len(found))) is not None:
        found.append(name.decode())
    return found


def sleep(tag: str, device: int, how: str, folder: str | os.PathLike[str] | None) -> Slept:
    if how not in HOW:
        raise ValueError(f"keep is one of {', '.join(HOW)}, not {how!r}")
    record = SleptRecord()
    where = None if folder is None else os.fsencode(folder)
    check(
        library().pleat_tag_sleep_sized(
            _default.instance(), device, tag.encode(), HOW[how], where, ctypes.sizeof(record),
            ctypes.byref(record),
        )
    )
    return _slept(record)


def wake(tag: str, device: int, most_bytes: int) -> Slept:
    record = SleptRecord()
    check(
        library().pleat_tag_wake_sized(
            _default.instance(), device, tag.encode(), most_bytes, ctypes.sizeof(record),
            ctypes.byref(record),
        )
    )
    return _slept(record)


def places(tags: Iterable[str]) -> Iterator[tuple[str, int, Tag]]:
    """Find the tags on torch's devices: where a tag has memory, or kept contents."""
    import torch

    torch.cuda.init()
    for name in tags:
        for device in range(torch.cuda.device_count()):
            told = stats(name, device)
            if told.is_asleep or told.resident_bytes > 0 or told.kept_bytes > 0:
                yield name, device, told


def retain(tag: str, device: int, is_retained: bool) -> None:
    check(library().pleat_tag_retain(_default.instance(), device, tag.encode(), is_retained))


def read_kept(device: int, address: int, n_bytes: int, to: int) -> None:
    check(library().pleat_tag_read_kept(_default.instance(), device, address, n_bytes, to))


def find_kept(device: int, address: int, n_bytes: int) -> int | None:
    """Find kept contents in host memory; None: not side by side, or in a file."""
    found = ctypes.c_void_p()
    try:
        check(
            library().pleat_tag_find_kept(
                _default.instance(), device, address, n_bytes, ctypes.byref(found)
            )
        )
    except PleatError as error:
        if error.name != "PLEAT_ENOTSUP":
            raise
        return None
    return found.value


def set_limit(tag: str, device: int, n_bytes: int) -> None:
    check(library().pleat_tag_set_limit(_default.instance(), device, tag.encode(), n_bytes))


def stats(tag: str, device: int) -> Tag:
    record = TagRecord()
    check(
        library().pleat_tag_query_sized(
            _default.instance(), device, tag.encode(), ctypes.sizeof(record), ctypes.byref(record)
        )
    )
    return Tag(
        record.blocks[0],
        record.allocated_bytes[0],
        record.requested_bytes[0],
        record.allocated_bytes[1],
        record.resident_bytes,
        record.asleep_bytes,
        record.kept_bytes,
        record.limit_bytes,
        record.n_sleeps,
        record.is_asleep != 0,
    )


def _slept(record: SleptRecord) -> Slept:
    return Slept(record.bytes, record.shared_bytes, record.kept_bytes, record.left_bytes)
