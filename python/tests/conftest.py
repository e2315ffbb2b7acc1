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
    *arguments: str, cwd: Path, status: int | None = 0, **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run python; with a wrong exit status the test fails and shows the output."""
    done = subprocess.run(
        [sys.executable, *arguments],
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


AS_MODULE = """
import runpy, sys
sys.path[0] = ""
sys.argv = [{module!r}, *{arguments!r}]
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


class Zygote:
    """Forks of a python that has imported torch, made on demand."""

    def __init__(self, **extra: str) -> None:
        self.extra = extra
        self.forks = Forks(clean_environment(**extra))

    def run(
        self, code: str, cwd: Path, status: int | None = 0, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        environment = clean_environment(**self.extra, **extra)
        done = self.forks.run(textwrap.dedent(code), cwd, environment)
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
        return torch_zygote.run(code, tmp_path, status, **extra)

    return run_code  # type: ignore[return-value]


@pytest.fixture
def run_pleat_torch(torch_zygote: Zygote, tmp_path: Path) -> Run:
    """run_pleat_torch(ARGUMENT..., status=0, VARIABLE=...): python -m pleat.torch ARGUMENT..., with
    torch imported already."""

    def run_it(*arguments: str, status: int | None = 0, **extra: str) -> object:
        code = AS_MODULE.format(module="pleat.torch", arguments=arguments)
        return torch_zygote.run(code, tmp_path, status, **extra)

    return run_it  # type: ignore[return-value]


@pytest.fixture
def run_cuda(cuda_zygote: Zygote, tmp_path: Path) -> Run:
    """Run code on the simulated CUDA runtime, one device of 4 GiB."""

    def run_code(code: str, status: int | None = 0, **extra: str) -> object:
        return cuda_zygote.run(code, tmp_path, status, **{"PLEAT_SIM": SIMULATOR, **extra})

    return run_code  # type: ignore[return-value]
