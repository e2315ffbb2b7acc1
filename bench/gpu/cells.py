"""A cell: one measurement in a process of its own, which gives one row of the table."""
import dataclasses
import json
import pathlib
from typing import Callable


def no_figures(_output):
    return {}


@dataclasses.dataclass(frozen=True)
class Cell:
    """`command` runs in the folder of results for at most `limit_s` seconds; on the GPU that plans
    assume it takes about `about_s`. `known` is the row's content before the cell has run. `read`
    turns the output into figures and may add a "status" and a "problem"; it raises ValueError if
    the output has no result. The first turn of all phases comes before the second of any."""
    phase: str
    name: str
    command: tuple
    limit_s: float
    about_s: float = 0.0
    turn: int = 1
    known: dict = dataclasses.field(default_factory=dict)
    environment: dict = dataclasses.field(default_factory=dict)
    read: Callable[[str], dict] = no_figures


@dataclasses.dataclass(frozen=True)
class Setup:
    """What all cells share: the places of things, the machine, the sizes."""
    build: pathlib.Path         # holds the command, the libraries, the test programs
    out: pathlib.Path           # the folder of results
    python: str                 # an interpreter with PyTorch
    is_simulated: bool
    memory: str                 # of the simulated device, such as 141G
    scale: str                  # full, small or tiny
    rounds: int                 # how often each training run is made
    allocators: tuple           # of the phases that train
    links: pathlib.Path         # a folder in which the simulator is called libcuda.so.1

    @property
    def driver(self):
        return "sim" if self.is_simulated else "cuda"

    def library_path(self, *folders):
        """The command and the tests need libraries that another machine may not have."""
        return {"LD_LIBRARY_PATH": ":".join(str(f) for f in (*folders, self.build / "needed"))}


def last_object(output):
    """The JSON object on the last line that holds one."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except json.JSONDecodeError:
                continue
    raise ValueError("it printed no result")
