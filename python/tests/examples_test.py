"""Compiles all programs of examples/, and runs programs that need no GPU."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, RUNTIME, SOURCE, Run, clean_environment

EXAMPLES = SOURCE / "examples"
README = (EXAMPLES / "README.md").read_text()
PROGRAMS = sorted(EXAMPLES.glob("*.py"))


def size_of(program: str) -> str:
    """The device on which the program shows its point, by the README."""
    row = re.search(rf"^\| \[{program}\].*\| (\d+[MG]) \|", README, re.MULTILINE)
    assert row, program
    return row.group(1)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_it_compiles_and_the_readme_lists_it(program: Path, tmp_path: Path) -> None:
    py_compile.compile(str(program), cfile=str(tmp_path / "out.pyc"), doraise=True)
    assert f"({program.name})" in README


def test_the_c_example_puts_a_block_together_out_of_holes(tmp_path: Path) -> None:
    compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
    includes = [f"-I{SOURCE / 'api'}", "-idirafter", str(SOURCE / "vmm" / "base")]
    subprocess.run(
        [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", *includes,
         str(EXAMPLES / "blocks.c"), "-o", str(tmp_path / "blocks"),
         str(BUILD / "libpleat.so"), f"-Wl,-rpath,{BUILD}"],
        check=True,
    )  # fmt: skip
    done = subprocess.run(
        [str(tmp_path / "blocks")],
        env=clean_environment(PLEAT_CONF=f"driver:sim,sim:[capacity:{size_of('blocks.c')}]"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Simulated GPU, 300 MiB, allocator pleat" in done.stdout
    assert "live 260 MiB" in done.stdout
    assert " 0 granules moved" not in done.stdout


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not importlib.util.find_spec(package), reason=f"no {package}")


@pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")
@pytest.mark.parametrize(
    ("program", "said"),
    [
        pytest.param("numba_arrays.py", "came back unchanged: True", marks=needs("numba_cuda")),
        pytest.param("pytorch_training.py", "reserved at most", marks=needs("torch")),
        pytest.param("rlhf_loop.py", "where and what they were", marks=needs("torch")),
    ],
)
def test_it_runs_on_the_simulated_device(
    request: pytest.FixtureRequest, program: str, said: str
) -> None:
    # Those with torch are forks of a python that has imported it.
    fixture = "run_python" if program == "numba_arrays.py" else "run_forked_python"
    run: Run = request.getfixturevalue(fixture)
    done = run(
        str(EXAMPLES / program),
        LD_PRELOAD=str(RUNTIME),
        PLEAT_SIM=f"capacity:{size_of(program)},backing:memory,compute:9.0",
        PLEAT_CONF="driver:sim",
        CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING="1",
    )
    assert said in done.stdout


@pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")
@needs("torch")
def test_torch_s_own_cache_runs_out_where_the_training_completes(
    run_python: Run, tmp_path: Path
) -> None:
    lines = (EXAMPLES / "pytorch_training.py").read_text().splitlines(keepends=True)
    native = tmp_path / "native.py"
    native.write_text("".join(line for line in lines if "pleat.torch" not in line))
    done = run_python(
        str(native),
        status=1,
        LD_PRELOAD=str(RUNTIME),
        PLEAT_SIM=f"capacity:{size_of('pytorch_training.py')},backing:memory,compute:9.0",
    )
    assert "torch.OutOfMemoryError" in done.stderr
