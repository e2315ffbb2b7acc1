"""What the tests of the package share: fresh pythons, and where things lie."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Callable

import pytest

SOURCE = Path(os.environ.get("PLEAT_SOURCE_DIR", Path(__file__).parents[2]))
BUILD = Path(os.environ.get("PLEAT_BUILD_DIR", SOURCE / "build"))
RUNTIME = BUILD / "libpleat_runtime.so"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def clean_environment(**extra: str) -> dict[str, str]:
    """This environment, without what would change pleat's or torch's mind."""
    dropped = ("PLEAT_", "PYTORCH_", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **extra}


def run_arguments(
    *arguments: str, cwd: Path, status: int | None = 0, **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run python; a wrong exit status fails the test with what it wrote."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=clean_environment(**extra),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if status is not None and done.returncode != status:
        pytest.fail(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """run(CODE, status=0, VARIABLE=...): a fresh python in an empty folder runs CODE."""

    def run_code(code: str, status: int | None = 0, **extra: str) -> object:
        return run_arguments("-c", textwrap.dedent(code), cwd=tmp_path, status=status, **extra)

    return run_code  # type: ignore[return-value]


@pytest.fixture
def run_python(tmp_path: Path) -> Run:
    """run_python(ARGUMENT..., status=0, VARIABLE=...): the same with python's arguments."""

    def run_it(*arguments: str, status: int | None = 0, **extra: str) -> object:
        return run_arguments(*arguments, cwd=tmp_path, status=status, **extra)

    return run_it  # type: ignore[return-value]
