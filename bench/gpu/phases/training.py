"""Phases 4 to 7: PyTorch trains a model of each kind under each allocator; the largest batch."""
import pathlib

import allocators
from cells import Cell, last_object

ROOT = pathlib.Path(__file__).resolve().parents[3]
TRAIN = ROOT / "bench" / "gpu" / "train.py"
LIMIT_S = 58            # 8 cells, two rounds of four, in 8 minutes
BATCH_LIMIT_S = 118     # 4 cells


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


def command_of(setup, model, allocator, *more):
    command = [setup.python, "-B", TRAIN, "--model", model, "--allocator", allocator,
               "--scale", setup.scale, *more]
    if setup.is_simulated:
        command.append("--no-time")
    return tuple(command)


def runs(setup, phase, model):
    """All allocators once, then all again: a drift of the machine's speed meets each of them."""
    found = []
    for turn in range(1, setup.rounds + 1):
        for allocator in allocators.NAMES:
            known = {"work": model, "allocator": allocator, "round": turn}
            found.append(Cell(phase, f"{allocator} {turn}",
                              command_of(setup, model, allocator), LIMIT_S, known=known,
                              environment=environment_of(setup), read=read))
    return found


def gpt2_cells(setup):
    return runs(setup, "gpt2", "gpt2")


def lora_cells(setup):
    return runs(setup, "lora", "lora")


def moe_cells(setup):
    return runs(setup, "moe", "moe")


def batch_cells(setup):
    """One round: a largest batch does not depend on the machine's speed."""
    found = []
    for allocator in allocators.NAMES:
        known = {"work": "gpt2", "allocator": allocator}
        found.append(Cell("batch", allocator,
                          command_of(setup, "gpt2", allocator, "--search-batch",
                                     "--limit-s", str(BATCH_LIMIT_S - 20)),
                          BATCH_LIMIT_S, known=known,
                          environment=environment_of(setup), read=read))
    return found
