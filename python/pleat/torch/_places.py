"""Places in the user's code: who does what, as small numbers that the simulator hands back.

A place is an operation and the user's frames above it, innermost first. Frames of torch, of pleat and
of the standard library are left out. Equal places have one number, so a training loop needs few.
"""

from __future__ import annotations

import linecache
import os
import struct
import sys
import sysconfig
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from . import _listener


class Frame(NamedTuple):
    file: str
    line: int
    function: str

    def text(self) -> str:
        """FILE:LINE, as short as the current folder makes it."""
        path = os.path.relpath(self.file) if os.path.isabs(self.file) else self.file
        return f"{self.file if path.startswith('..') else path}:{self.line}"

    def source(self) -> str:
        return linecache.getline(self.file, self.line).strip()


class Place(NamedTuple):
    what: str  # the operation: aten::mul
    frames: tuple[Frame, ...]
    is_backward: bool  # on a thread of autograd's; the frames are those of the call of backward()


_FOREIGN = tuple(
    os.path.join(os.path.realpath(folder), "")
    for folder in (
        os.path.dirname(torch.__file__),
        os.path.dirname(os.path.dirname(os.path.realpath(__file__))),
    )
)
_OWN = os.path.join(os.path.dirname(__file__), "")
_LIBRARY = os.path.join(os.path.realpath(sysconfig.get_path("stdlib")), "")
_PACKAGES = ("site-packages", "dist-packages")

_NOT, _USER, _OUTERMOST = range(3)  # not the user's, the user's, and above which is nothing
_kinds: dict[int, int] = {}
_codes: dict[int, CodeType] = {}  # keeps the codes whose ids are in keys
_whats: list[Any] = []  # that places are known by
_places: list[Place] = [Place("", (), False)]


def _judge(code: CodeType) -> int:
    path = os.path.realpath(code.co_filename)
    is_library = path.startswith(_LIBRARY) and not any(name in path for name in _PACKAGES)
    is_ours = path.startswith(_FOREIGN) or code.co_filename.startswith("<frozen")
    kind = _NOT if is_library or is_ours else _USER
    if kind == _USER and code.co_name == "<module>":
        main = sys.modules.get("__main__")
        kind = _OUTERMOST if getattr(main, "__file__", None) == code.co_filename else kind
    _codes[id(code)] = code
    _kinds[id(code)] = kind
    return kind


def follow() -> None:
    """Let _listener.here() tell places, and note who calls backward() and grad(), for the work of
    autograd's threads."""
    _listener.follow(_judge, _add)
    autograd: Any = torch.autograd
    original = autograd._engine_run_backward
    of_call = b""

    def run(*args: Any, **named: Any) -> Any:
        nonlocal of_call
        outer, of_call = of_call, _listener.user_key()
        _listener.set_outer(of_call)
        try:
            return original(*args, **named)
        finally:
            of_call = outer
            _listener.set_outer(outer)

    autograd._engine_run_backward = run


def of_user(what: Any) -> int:
    """The number of the caller's place if the user's own code called what called this, else 0."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    if frame is None or (_kinds.get(id(frame.f_code)) or _judge(frame.f_code)) == _NOT:
        return 0
    number: int = _listener.here(what)
    return number


def _add(what: Any, key: bytes, is_backward: bool) -> int:
    """The number of a new place. `what` names the operation; its str() is read once."""
    codes = [(_codes[code], line) for code, line in struct.iter_unpack("QQ", key)]
    frames = tuple(Frame(code.co_filename, line, code.co_name) for code, line in codes)
    name = getattr(getattr(what, "_schema", None), "name", None) or str(what)
    _whats.append(what)
    _places.append(Place(name, frames, is_backward))
    return len(_places) - 1


def place(number: int) -> Place:
    return _places[number] if 0 <= number < len(_places) else _places[0]
