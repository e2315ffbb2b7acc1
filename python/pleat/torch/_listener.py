"""The simulator's side of a check: the calls of pleat_sim.h that tell of operations and blocks."""

from __future__ import annotations

import ctypes
import os
from typing import Any, NamedTuple

LIBRARY = "PLEAT_SIM_LIBRARY"

BLOCK, BYTES, FREE, REUSE = range(4)
KINDS = (
    "unmapped",
    "unmapped-in-use",
    "unordered",
    "contents",
    "call-in-destructor",
    "dead-handle",
    "late-use",
    "beyond-block",
    "no-contents",
    "early-free",
)


class _Hazard(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        *((name, ctypes.c_uint64) for name in (
            "ptr", "bytes", "call", "other_call", "stream", "other_stream", "place", "other_place",
            "block_ptr", "block_bytes", "born_place", "freed_place")),
        ("text", ctypes.c_char * 512),
    )  # fmt: skip


class Hazard(NamedTuple):
    kind: str
    ptr: int
    bytes: int
    stream: int
    other_stream: int
    place: int
    other_place: int
    block_ptr: int
    block_bytes: int
    born_place: int
    freed_place: int
    text: str


def is_there() -> bool:
    """Whether this process runs on the simulated runtime."""
    return LIBRARY in os.environ


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def _functions(library: ctypes.PyDLL) -> list[Any]:
    """What is called for each operation: functions of Python's own kind, since a call through ctypes
    takes longer than what is called."""
    methods = library.pleat_sim_methods
    methods.restype = ctypes.POINTER(_Method)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    make.restype = ctypes.py_object
    table = methods()
    functions: list[Any] = []
    while table[len(functions)].name:
        at = ctypes.addressof(table[len(functions)])
        functions.append(make(at, None, None))
    return functions


_library = ctypes.PyDLL(os.environ[LIBRARY]) if is_there() else None  # no call waits for Python
if _library is not None:
    op_begin, op_end, tell, follow, user_key, set_outer, here = _functions(_library)
    may_use = _library.pleat_sim_may_use
    may_use.argtypes = (ctypes.c_uint64, ctypes.c_void_p)
    may_use.restype = ctypes.c_bool
    _hazards = _library.pleat_sim_hazards
    _hazards.argtypes = (ctypes.POINTER(_Hazard), ctypes.c_size_t)
    _hazards.restype = ctypes.c_size_t

    _compared = _library.pleat_sim_compared
    _compared.argtypes = ()
    _compared.restype = ctypes.c_uint64

    _stream_id = _library.cuStreamGetId
    _stream_id.argtypes = (ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))
    _stream_id.restype = ctypes.c_int

def compared_launches() -> int | None:
    """Works of two streams that lie further apart were not compared. None: all were."""
    n: int = _compared()
    return None if n == (1 << 64) - 1 else n


_defaults: set[int] = set()


def number_of(handle: int) -> int:
    """The number by which hazards name a stream; 0: there is no such stream."""
    number = ctypes.c_uint64()
    _stream_id(handle, ctypes.byref(number))
    return number.value


def note_default_stream() -> None:
    """The current device's default stream is one."""
    _defaults.add(number_of(0))


def default_streams() -> set[int]:
    return _defaults


MOST = 1024  # that the simulator keeps
_room = (_Hazard * MOST)() if _library is not None else None


def hazards_from(first: int) -> list[Hazard]:
    """The hazards from number `first` on, as far as the simulator has kept them."""
    n = min(_hazards(_room, MOST), MOST)
    found = []
    for i in range(first, n):
        at = _room[i]  # type: ignore[index]
        kind = KINDS[at.kind] if at.kind < len(KINDS) else "other"
        values = [getattr(at, name) for name in Hazard._fields[1:-1]]
        found.append(Hazard._make([kind, *values, at.text.decode(errors="replace")]))
    return found
