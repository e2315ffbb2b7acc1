"""Runs programs of this folder in a fresh python, on a simulated device, under one allocator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCE = Path(os.environ.get("PLEAT_SOURCE_DIR", HERE.parents[2]))
BUILD = Path(os.environ.get("PLEAT_BUILD_DIR", SOURCE / "build"))
RUNTIME = BUILD / "libpleat_runtime.so"

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


def run(program: str, *arguments: str, allocator: str, sim: str = "", **extra: str) -> str:
    """Run programs/PROGRAM.py and return its output. Fails the test unless it exits with 0."""
    done = subprocess.run(
        [sys.executable, str(HERE / "programs" / f"{program}.py"), *arguments],
        env={**environment(allocator, sim), "PYTHONPATH": str(HERE), **extra},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}", pytrace=False)
    return done.stdout
