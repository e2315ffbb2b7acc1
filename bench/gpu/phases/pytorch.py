"""How a cell runs PyTorch, and what it reads of it."""
import pathlib

from cells import last_object

ROOT = pathlib.Path(__file__).resolve().parents[3]


def environment_of(setup):
    """The carried package, or the source folder's, with the build's library."""
    carried = setup.build / "python"
    environment = {"PYTHONPATH": str(carried if carried.is_dir() else ROOT / "python"),
                   "PLEAT_LIBRARY": str(setup.build / "libpleat.so.0")}
    if setup.is_simulated:
        environment |= {"LD_PRELOAD": str(setup.build / "libpleat_runtime.so"),
                        "PLEAT_SIM": f"capacity:{setup.memory},compute:9.0"}
    return environment


def read(output):
    figures = last_object(output)
    if figures.get("problem"):
        figures["status"] = "skipped" if figures.pop("cannot_run", False) else "failed"
    return figures
