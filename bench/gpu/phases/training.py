"""PyTorch trains a model of each kind under each allocator; the largest batch."""
import pathlib

import allocators
from cells import Cell
from phases.pytorch import environment_of, read

ROOT = pathlib.Path(__file__).resolve().parents[3]
TRAIN = ROOT / "bench" / "gpu" / "train.py"
ORDER = ("lora", "gpt2", "moe")
SOONEST = ("lora", "gpt2")
LIMIT_S = 60
ABOUT_S = 32            # PyTorch starts in 5 s; half the speed of an H200's matrix products
BATCH_LIMIT_S = 105     # four
BATCH_ABOUT_S = {"gpt2": 40, "lora": 65}
SPARE_S = 10            # part of it: until a process that holds the whole GPU is gone
WITHIN = {"gpt2": 1, "lora": 2}     # how precisely a largest batch is searched


def command_of(setup, model, allocator, *more):
    command = [setup.python, TRAIN, "--model", model, "--allocator", allocator,
               "--scale", setup.scale, *more]
    if setup.is_simulated:
        command += ["--simulator", setup.build / "libpleat_sim.so"]
    return tuple(command)


def first_turn(phase, allocator):
    """The most wanted results come first: two models under the allocators that designs depend on.
    Then come those that must be compared, then the rest."""
    if phase in SOONEST and allocator in allocators.FIRST:
        return 1
    return 2 if allocator in allocators.COMPARED else 3


def runs(setup, phase, model):
    """All allocators once, then all again in the opposite order, and the next phase the other way
    round: so neither a drift of the machine's speed nor the predecessor always hits the same
    one."""
    found = []
    for turn in range(1, setup.rounds + 1):
        is_backwards = (ORDER.index(phase) + turn) % 2 == 0
        for allocator in setup.allocators[::-1] if is_backwards else setup.allocators:
            known = {"work": model, "allocator": allocator, "round": turn}
            first = first_turn(phase, allocator)
            found.append(Cell(phase, f"{allocator} {turn}",
                              command_of(setup, model, allocator), LIMIT_S, about_s=ABOUT_S,
                              turn=first if turn == 1 else max(first, 2) + turn - 1, known=known,
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
                          BATCH_LIMIT_S, about_s=BATCH_ABOUT_S[model],
                          turn=first_turn(phase, allocator), known=known,
                          environment=environment_of(setup), read=read))
    return found


def batch_cells(setup):
    return searches(setup, "batch", "gpt2")


def lora_batch_cells(setup):
    return searches(setup, "batch_lora", "lora")
