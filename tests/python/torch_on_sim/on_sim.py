"""Runs programs of this folder in a fresh python, on a simulated device, under a given
allocator."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCE = Path(os.environ.get("PLEAT_SOURCE_DIR", HERE.parents[2]))
BUILD = Path(os.environ.get("PLEAT_BUILD_DIR", SOURCE / "build"))
RUNTIME = BUILD / "libpleat_runtime.so"

sys.path.insert(0, str(SOURCE / "python" / "tests"))

from forks import Forks  # noqa: E402

ALLOCATORS = {
    "native": {},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "async": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    "pleat": {"PLEAT_CONF": "driver:sim"},
}

every_allocator = pytest.mark.parametrize("allocator", ALLOCATORS)


def environment(allocator: str, sim: str) -> dict[str, str]:
    dropped = ("PLEAT_", "PYTORCH_", "LD_PRELOAD", "CUDA_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    return {
        **kept,
        **ALLOCATORS.get(allocator, {}),
        "LD_PRELOAD": str(RUNTIME),
        "PLEAT_LIBRARY": str(BUILD / "libpleat.so"),
        "PLEAT_SIM": sim,
        "ON_SIM_ALLOCATOR": allocator,
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


_forks: dict[tuple[str, ...], Forks] = {}


def forks_of(given: dict[str, str], modules: tuple[str, ...] = ()) -> Forks:
    """One python serves all programs with the same backend, since torch reads the backend at its
    import."""
    conf = given.get("PYTORCH_CUDA_ALLOC_CONF", "")
    key = (conf if "backend:" in conf else "", *modules)
    if key not in _forks:
        _forks[key] = Forks({**given, "PYTORCH_CUDA_ALLOC_CONF": key[0]}, "torch", *modules)
        atexit.register(_forks[key].end)
    return _forks[key]


def run(
    program: str,
    *arguments: str,
    allocator: str,
    sim: str = "",
    modules: tuple[str, ...] = (),
    **extra: str,
) -> str:
    """Run programs/PROGRAM.py and return its output. A nonzero exit status fails the test. The
    program is a fork of a python that has imported torch and `modules`."""
    given = {**environment(allocator, sim), "PYTHONPATH": str(HERE), **extra}
    path = str(HERE / "programs" / f"{program}.py")
    done = forks_of(given, modules).run(path, *arguments, cwd=Path.cwd(), environment=given)
    if done.returncode != 0:
        pytest.fail(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}", pytrace=False)
    return done.stdout
