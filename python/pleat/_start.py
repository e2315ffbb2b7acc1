"""Lets every Python that a program starts use pleat, if PLEAT_TORCH_INSTALL is 1, and check its own
use of memory, if PLEAT_TORCH_CHECK names a folder for what it finds.

pleat_gpu.pth lies beside the package, and so each Python reads it when it starts. With the variable
it imports this module, which waits for the import of torch and then installs pleat. So launchers
between a command and its scripts need not know of pleat: torchrun, accelerate, uv, bash.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

VARIABLE = "PLEAT_TORCH_INSTALL"
CHECK_VARIABLE = "PLEAT_TORCH_CHECK"
RUNNERS = ("pleat.torch", "pleat.check")
ON = ("1", "true", "yes", "on")
OFF = ("", "0", "false", "no", "off")

_told: set[str] = set()


def is_on(variable: str, default: bool = False) -> bool:
    """Whether a variable of the environment says yes. Another word is told once, and ignored."""
    value = os.environ.get(variable)
    if value is None:
        return default
    word = value.strip().lower()
    if word not in ON and word not in OFF and variable not in _told:
        _told.add(variable)
        print(
            f"pleat: {variable}={value} is ignored: it is 1 (true, yes, on) or 0 (false, no, off)",
            file=sys.stderr,
        )
    return word in ON or (word not in OFF and default)


class _WaitForTorch(importlib.abc.MetaPathFinder):
    """Finds torch as the others do, and imports pleat.torch after it, which installs pleat."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            original = spec.loader.exec_module

            def execute(module: ModuleType) -> None:
                original(module)
                __import__("pleat.torch")
                if os.environ.get(CHECK_VARIABLE) and not is_runner():
                    from .torch import _check

                    _check.begin_if_asked()

            spec.loader.exec_module = execute  # type: ignore[method-assign]
        return spec


def for_children() -> None:
    """Let the Pythons that this process starts install pleat."""
    os.environ[VARIABLE] = "1"


def is_wanted() -> bool:
    """Whether the import of pleat.torch installs pleat."""
    return is_on(VARIABLE) and not is_runner()


def is_runner() -> bool:
    """Whether this Python was started as `python -m pleat.torch`, which installs pleat itself, or as
    `python -m pleat.check`."""
    words = iter(command_line()[1:])
    for word in words:
        if word == "-m":
            return next(words, "") in RUNNERS
        if word in ("-W", "-X"):
            next(words, "")
        elif word in ("-", "-c") or not word.startswith("-"):
            return False
    return False


def command_line() -> list[str]:
    if sys.version_info >= (3, 10):
        return list(sys.orig_argv)
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")]
    except OSError:
        return []


_is_asked = is_on(VARIABLE) or bool(os.environ.get(CHECK_VARIABLE))
if _is_asked and "torch" not in sys.modules:
    sys.meta_path.insert(0, _WaitForTorch())
