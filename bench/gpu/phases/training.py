"""Phases 4 to 7: PyTorch trains a model of each kind under each allocator; the largest batch."""
import pathlib

import allocators
from cells import Cell
from phases.pytorch import environment_of, read

ROOT = pathlib.Path(__file__).resolve().parents[3]
TRAIN = ROOT / "bench" / "gpu" / "train.py"
LIMIT_S = 60            # at most five cells a turn
BATCH_LIMIT_S = 105     # four
SPARE_S = 10            # of it: until a process that holds the whole GPU is gone
WITHIN = {"gpt2": 1, "lora": 2}     # how closely a largest batch is looked for


def command_of(setup, model, allocator, *more):
    command = [setup.python, TRAIN, "--model", model, "--allocator", allocator,
               "--scale", setup.scale, *more]
    if setup.is_simulated:
        command += ["--simulator", setup.build / "libpleat_sim.so"]
    return tuple(command)


def first_turn(allocator):
    """Those that must be compared come first."""
    return 1 if allocator in allocators.COMPARED else 2


def runs(setup, phase, model):
    """All allocators once, then all again: a drift of the machine's speed meets each of them."""
    found = []
    for turn in range(1, setup.rounds + 1):
        for allocator in setup.allocators:
            known = {"work": model, "allocator": allocator, "round": turn}
            found.append(Cell(phase, f"{allocator} {turn}",
                              command_of(setup, model, allocator), LIMIT_S,
                              turn=first_turn(allocator) + turn - 1, known=known,
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
    limit = "inf" if setup.is_simulated else str(BATCH_LIMIT_S - SPARE_S)
    for allocator in setup.allocators:
        known = {"work": model, "allocator": allocator}
        found.append(Cell(phase, allocator,
                          command_of(setup, model, allocator, "--search-batch",
                                     "--within", str(WITHIN[model]), "--limit-s", limit),
                          BATCH_LIMIT_S, turn=first_turn(allocator), known=known,
                          environment=environment_of(setup), read=read))
    return found


def batch_cells(setup):
    return searches(setup, "batch", "gpt2")


def lora_batch_cells(setup):
    return searches(setup, "batch_lora", "lora")
