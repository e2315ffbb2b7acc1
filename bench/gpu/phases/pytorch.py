"""How a cell runs PyTorch, and what it reads from it."""
import functools
import pathlib
import subprocess

from cells import last_object

ROOT = pathlib.Path(__file__).resolve().parents[3]


@functools.cache
def is_compiled(python):
    """Is its PyTorch installed with bytecode? Compiling all of it takes longer than many a cell."""
    question = "import importlib.util as u, os; " \
               "found = u.find_spec('torch'); print(os.path.exists(found.cached))"
    try:
        asked = subprocess.run([python, "-c", question], capture_output=True, text=True,
                               check=False)
    except OSError:
        return False
    return asked.stdout.strip() == "True"


def bytecode(setup):
    """Cells write no bytecode beside sources, which are not theirs. If PyTorch has none, the first
    cell leaves it for the others in the folder of results."""
    if is_compiled(setup.python):
        return {"PYTHONDONTWRITEBYTECODE": "1"}
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(setup.out / "pycache")}


def environment_of(setup):
    """The carried package, or the source folder's, with the build's library."""
    carried = setup.build / "python"
    environment = {"PYTHONPATH": str(carried if carried.is_dir() else ROOT / "python"),
                   "PLEAT_LIBRARY": str(setup.build / "libpleat.so.0"), **bytecode(setup)}
    if setup.is_simulated:
        environment |= {"LD_PRELOAD": str(setup.build / "libpleat_runtime.so"),
                        "PLEAT_SIM": f"capacity:{setup.memory},compute:9.0"}
    return environment


def plain_environment(setup):
    """For a program that opens libcuda.so.1 itself."""
    if not setup.is_simulated:
        return {}
    return {"LD_LIBRARY_PATH": str(setup.links), "PLEAT_SIM": f"capacity:{setup.memory}"}


def read(output):
    figures = last_object(output)
    if figures.get("problem") and "status" not in figures:
        figures["status"] = "skipped" if figures.pop("cannot_run", False) else "failed"
    return figures
