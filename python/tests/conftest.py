"""Shared by the tests of the package: fresh pythons, and the places of things."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest
from forks import Forks

SOURCE = Path(os.environ.get("PLEAT_SOURCE_DIR", Path(__file__).parents[2]))
BUILD = Path(os.environ.get("PLEAT_BUILD_DIR", SOURCE / "build"))
RUNTIME = BUILD / "libpleat_runtime.so"
SIMULATOR = "capacity:4G"
LACKING = 77  # exit status of code that finds something missing, and prints what

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PLEAT_TESTS_SHARE=1/3: every third test, from the second on (tests/torch/versions.py)."""
    index, n = map(int, os.environ.get("PLEAT_TESTS_SHARE", "0/1").split("/"))
    items[:] = items[index::n]


def clean_environment(**extra: str) -> dict[str, str]:
    """This environment, without variables that would influence pleat or torch."""
    dropped = ("PLEAT_", "PYTORCH_", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **extra}


def run_arguments(
    *arguments: str,
    cwd: Path,
    status: int | None = 0,
    python: str | Path = sys.executable,
    **extra: str,
) -> subprocess.CompletedProcess[str]:
    """Run python; with a wrong exit status the test fails and shows the output."""
    done = subprocess.run(
        [python, *arguments],
        cwd=cwd,
        env=clean_environment(**extra),
        capture_output=True,
        text=True,
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
    """run_python(ARGUMENT..., status=0, VARIABLE=...): run python with these arguments."""

    def run_it(*arguments: str, status: int | None = 0, **extra: str) -> object:
        return run_arguments(*arguments, cwd=tmp_path, status=status, **extra)

    return run_it  # type: ignore[return-value]


class Zygote:
    """Forks of a python that has imported torch, made on demand."""

    def __init__(self, *modules: str, **extra: str) -> None:
        self.extra = extra
        self.forks = Forks(clean_environment(**extra), "torch", *modules)

    def run(
        self, *arguments: str, cwd: Path, status: int | None = 0, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        environment = clean_environment(**{**self.extra, **extra})
        done = self.forks.run(*arguments, cwd=cwd, environment=environment)
        if done.returncode == LACKING and status != LACKING:
            pytest.skip(done.stdout.strip())
        if status is not None and done.returncode != status:
            pytest.fail(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def end(self) -> None:
        self.forks.end()


@pytest.fixture(scope="session")
def torch_zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.end()


@pytest.fixture(scope="session")
def cuda_zygote() -> Iterator[Zygote]:
    zygote = Zygote(LD_PRELOAD=str(RUNTIME))
    yield zygote
    zygote.end()


@pytest.fixture
def run_torch(torch_zygote: Zygote, tmp_path: Path) -> Run:
    """run_torch(CODE, status=0, VARIABLE=...): like run, with torch imported already."""

    def run_code(code: str, status: int | None = 0, **extra: str) -> object:
        given = textwrap.dedent(code)
        return torch_zygote.run("-c", given, cwd=tmp_path, status=status, **extra)

    return run_code  # type: ignore[return-value]


@pytest.fixture
def run_pleat_torch(torch_zygote: Zygote, tmp_path: Path) -> Run:
    """run_pleat_torch(ARGUMENT..., status=0, VARIABLE=...): python -m pleat.torch ARGUMENT..., with
    torch imported already."""

    def run_it(*arguments: str, status: int | None = 0, **extra: str) -> object:
        words = ("-m", "pleat.torch", *arguments)
        return torch_zygote.run(*words, cwd=tmp_path, status=status, **extra)

    return run_it  # type: ignore[return-value]


@pytest.fixture
def run_forked_python(cuda_zygote: Zygote, tmp_path: Path) -> Run:
    """run_forked_python(ARGUMENT..., status=0, VARIABLE=...): python with these arguments, torch
    imported already, on the simulated CUDA runtime, one device of 4 GiB."""

    def run_it(*arguments: str, status: int | None = 0, **extra: str) -> object:
        given = {"PLEAT_SIM": SIMULATOR, **extra}
        return cuda_zygote.run(*arguments, cwd=tmp_path, status=status, **given)

    return run_it  # type: ignore[return-value]


@pytest.fixture
def run_cuda(run_forked_python: Run) -> Run:
    """Run code on the simulated CUDA runtime, one device of 4 GiB."""

    def run_code(code: str, status: int | None = 0, **extra: str) -> object:
        return run_forked_python("-c", textwrap.dedent(code), status=status, **extra)

    return run_code  # type: ignore[return-value]


@pytest.fixture(scope="session")
def forked_python(cuda_zygote: Zygote) -> Path:
    """A program that acts as a fresh python on the simulated runtime, with torch imported already.
    So do the pythons that it starts."""
    return cuda_zygote.forks.python
