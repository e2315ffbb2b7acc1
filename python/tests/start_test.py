"""pleat for the Pythons that a program starts: launchers beneath pleat-runtime, and beneath
`python -m pleat.torch`. The package lies in the site-packages of an environment of the test's own.
"""

# labels: python
# needs: torch

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from conftest import BUILD, RUNTIME, clean_environment

import pleat

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")

PACKAGE = Path(pleat.__file__).parent
WHO = """
import os, sys
import torch
torch.empty(1 << 20, device="cuda")
bound = sys.modules["pleat.torch"].binding() if "pleat.torch" in sys.modules else None
limit = os.environ.get("PLEAT_CONF", "").partition("limit:")[2].partition(",")[0]
with open(os.path.join(os.environ["OUT"], str(os.getpid())), "w") as file:
    file.write(f"{bound} {limit}")
"""
LAUNCHER = """#!{python}
import subprocess, sys
if __name__ == "__main__":
    sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))
"""


def make_python(folder: Path, has_pleat: bool = True) -> Path:
    """A Python of its own with this one's packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin/python"
    paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    site = Path(paths["purelib"])
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    if has_pleat:
        (site / "pleat").symlink_to(PACKAGE)
        shutil.copy(PACKAGE.parent / "pleat_gpu.pth", site)
    return python


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_python(tmp_path_factory.mktemp("with"))


@pytest.fixture
def folder(tmp_path: Path, python: Path) -> Path:
    """With who.py, a folder for what it finds, and a launcher."""
    (tmp_path / "who.py").write_text(WHO)
    (tmp_path / "out").mkdir()
    launcher = tmp_path / "launch"
    launcher.write_text(LAUNCHER.format(python=python))
    launcher.chmod(0o755)
    return tmp_path


def run(
    folder: Path, *words: str, memory: tuple[str, ...] = ("--memory", "4G"), **extra: str
) -> subprocess.CompletedProcess[str]:
    environment = clean_environment(OUT=str(folder / "out"), OMP_NUM_THREADS="1", **extra)
    environment.pop("PYTHONPATH", None)
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    return subprocess.run(
        [str(BUILD / "pleat-runtime"), "--devices", "2", *memory, *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def found(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted((folder / "out").iterdir())]


HOOKS = {"PLEAT_TORCH_BINDING": "hooks"}


@pytest.mark.parametrize(
    ("command", "n"),
    [
        ("PYTHON -W ignore -c import_who", 1),
        ("env A=1 bash -c BASH", 2),
        ("launch launch -u who.py", 1),
        ("PYTHON -m torch.distributed.run --standalone --nproc-per-node 2 who.py", 2),
        ("PYTHON -m pleat.torch -m torch.distributed.run --standalone --nproc-per-node 2 who.py", 2),
    ],
)
def test_each_python_beneath_has_pleat(folder: Path, python: Path, command: str, n: int) -> None:
    both = f"{python} who.py && cd / && exec {python} {folder}/who.py"
    meant = {"PYTHON": str(python), "import_who": "import who", "BASH": both}
    words = [meant.get(word, word) for word in command.split()]
    done = run(folder, "--allocator", "pleat", *words, **HOOKS)
    assert done.returncode == 0, done.stderr
    assert found(folder) == ["hooks "] * n


@pytest.mark.parametrize(
    "command", ["launch who.py", "-m torch.distributed.run --standalone --nproc-per-node 1 who.py"]
)
def test_so_have_the_children_of_the_runner(folder: Path, python: Path, command: str) -> None:
    words = ("--conf", "limit:0.5", *command.split())
    done = run(folder, str(python), "-m", "pleat.torch", *words, **HOOKS)
    assert done.returncode == 0, done.stderr
    assert found(folder) == ["hooks 0.5"]


def test_children_may_be_left_alone(folder: Path, python: Path) -> None:
    words = (str(python), "-m", "pleat.torch", "launch", "who.py")
    done = run(folder, *words, PLEAT_TORCH_SPAWN="0", **HOOKS)
    assert done.returncode == 0, done.stderr
    assert found(folder) == ["None "]


def test_without_the_variable_nothing_is_imported(folder: Path, python: Path) -> None:
    code = "import sys; print([name for name in sys.modules if name.startswith('pleat')])"
    assert run(folder, "--quiet", str(python), "-c", code).stdout.strip() == "[]"
    code += "; import torch; print('pleat.torch' in sys.modules)"
    asked = run(folder, "--quiet", str(python), "-c", code, PLEAT_TORCH_INSTALL="1", **HOOKS)
    assert "pleat._start" in asked.stdout and asked.stdout.endswith("True\n")
    native = run(folder, "--allocator", "native", str(python), "who.py", PLEAT_TORCH_INSTALL="1")
    assert native.returncode == 0 and found(folder) == ["None "], native.stderr


def test_a_script_may_import_pleat_first(folder: Path, python: Path) -> None:
    (folder / "first.py").write_text("import pleat.torch\n" + WHO)
    done = run(folder, "--allocator", "pleat", "launch", "first.py", **HOOKS)
    assert done.returncode == 0 and found(folder) == ["hooks "], done.stderr


def test_a_bad_configuration_ends_the_import(folder: Path, python: Path) -> None:
    done = run(folder, "--allocator", "pleat", "launch", "who.py", PLEAT_CONF="growht:ample")
    assert done.returncode != 0 and found(folder) == []
    assert "PLEAT_CONF" in done.stderr and "'growht'" in done.stderr


def test_a_python_without_pleat_is_refused(folder: Path, tmp_path: Path) -> None:
    other = make_python(tmp_path / "without", has_pleat=False)
    words = ("bash", "-c", f"{other} who.py")
    done = run(folder, "--allocator", "pleat", *words)
    assert done.returncode != 0 and found(folder) == []
    assert done.stderr.count("uses CUDA without pleat") == 1
    fit = run(folder, "--fit", "--allocator", "pleat", *words)
    assert fit.returncode == 1 and "this Python lacks pleat: pip install" in fit.stdout


def test_the_least_device_of_a_launcher_is_found(folder: Path, python: Path) -> None:
    (folder / "train.py").write_text(
        """
import torch
def make(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
whole = make(1024)
del whole
half = make(512)   # of the same segment, whose rest serves no 700 MiB
more = make(700)
"""
    )
    report = folder / "report.jsonl"
    asked = ("--fit", "--memory", "1536M", "--step", "512M", "--context", "0", "--quiet")
    more = ("--report", str(report), "--allocator", "native,pleat", "launch", "train.py")
    done = run(folder, *asked, *more, memory=(), **HOOKS)
    assert done.returncode == 1, done.stderr
    told = {one["allocator"]: one for one in map(json.loads, report.read_text().splitlines())}
    assert told["native"]["least_bytes"] is None
    assert told["pleat"]["least_bytes"] == 1536 << 20
    assert told["pleat"]["fails_bytes"] == 1024 << 20
