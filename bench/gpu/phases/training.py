"""Phases 4 to 7: PyTorch trains a model of each kind under each allocator; the largest batch."""
import pathlib

import allocators
from cells import Cell
from phases.pytorch import environment_of, read

ROOT = pathlib.Path(__file__).resolve().parents[3]
TRAIN = ROOT / "bench" / "gpu" / "train.py"
LIMIT_S = 47            # 10 cells, two rounds of five, in 8 minutes
BATCH_LIMIT_S = 94      # 5 cells


def command_of(setup, model, allocator, *more):
    command = [setup.python, "-B", TRAIN, "--model", model, "--allocator", allocator,
               "--scale", setup.scale, *more]
    if setup.is_simulated:
        command += ["--simulator", setup.build / "libpleat_sim.so"]
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


def searches(setup, phase, model):
    """One round: a largest batch does not depend on the machine's speed."""
    found = []
    limit = "inf" if setup.is_simulated else str(BATCH_LIMIT_S - 20)
    for allocator in allocators.NAMES:
        known = {"work": model, "allocator": allocator}
        found.append(Cell(phase, allocator,
                          command_of(setup, model, allocator, "--search-batch",
                                     "--limit-s", limit), BATCH_LIMIT_S, known=known,
                          environment=environment_of(setup), read=read))
    return found


def batch_cells(setup):
    return searches(setup, "batch", "gpt2")


def lora_batch_cells(setup):
    return searches(setup, "batch_lora", "lora")
