"""The console commands `pleat` and `pleat-runtime`: each executes a program of the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def _become(name: str, missing: str) -> NoReturn:
    program = Path(__file__).parent / "_lib" / name
    if not program.exists():
        sys.exit(f"{name}: {missing}")
    os.execv(program, [str(program), *sys.argv[1:]])


def pleat() -> NoReturn:
    """Replays, compares, converts: `pleat --help`."""
    _become("pleat", "install zlib and jansson with their headers, and then the package again")


def pleat_runtime() -> NoReturn:
    """Runs a PyTorch program on a simulated device: `pleat-runtime --help`."""
    _become("pleat-runtime", "this package was built without the simulated runtime")
