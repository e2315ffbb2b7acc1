"""Two processes under torchrun, each on a simulated device of its own: DistributedDataParallel and
FSDP2 train, natively, with expandable segments and under pleat.

There are two runs of torchrun: of a script, and of `-m pleat.torch` with the script. Importing
torch takes most of a run. So each rank forks a child for each program, before any use of CUDA.
torchrun itself and the script's ranks are forks. The ranks of pleat.torch start afresh."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import RUNTIME, Zygote, clean_environment

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")

SIM = "capacity:4G,devices:2,compute:9.0"
CONTENTS_SIM = SIM + ",backing:memory"

# The ranks of one run, each with one argument: a folder with a list of programs. Program i writes
# its output to i.RANK.out there, and its exit status to i.RANK.status.
RANKS = """
import json, os, sys, time
import torch
import torch._dynamo # as the first optimizer does
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard

RANK = int(os.environ["RANK"])

def begin(i, sim, settings):
    global MEET, PLACE
    out = os.open(f"{i}.{RANK}.out", os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.environ["PLEAT_SIM"] = sim
    if settings:
        torch.cuda.memory._set_allocator_settings(settings)
    PLACE = f"{os.getcwd()}/{i}"
    # torchrun's own rendezvous serves a process once.
    MEET = {"init_method": f"file://{PLACE}.meet", "rank": RANK, "world_size": 2}
    MEET = MEET if i > 0 else {}

def serve():
    os.chdir(sys.argv[1])
    with open("programs.json") as file:
        programs = json.load(file)
    for i, (code, sim, settings) in enumerate(programs):
        child = os.fork()
        if child == 0:
            begin(i, sim, settings)
            return code
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with open(f"{i}.{RANK}.status", "w") as file:
            file.write(str(status))
    while not os.path.exists(f"{i}.{1 - RANK}.status"): # torchrun ends all with the first that fails
        time.sleep(0.01)
    sys.exit(status)

exec(compile(serve(), "<program>", "exec"))
"""

# Runs before each program; other names are the script's above.
COMMON = """
import ctypes

torch.cuda.set_device(RANK)
distributed.init_process_group("nccl", device_id=torch.device("cuda", RANK), **MEET)

def layers(n=6, width=512):
    with torch.device("cuda"):
        return nn.Sequential(*(nn.Linear(width, width) for _ in range(n)), nn.BatchNorm1d(width))

def train(model, steps=5):
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        model(torch.randn(16 + 8 * step, 512, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()

def n_hazards():
    simulator = ctypes.CDLL(os.environ["PLEAT_SIM_LIBRARY"])
    simulator.pleat_sim_hazards.restype = ctypes.c_size_t
    return simulator.pleat_sim_hazards(None, ctypes.c_size_t(0))

def say(**what):
    segments = torch.cuda.memory_snapshot()
    what["is_expandable"] = any(segment["is_expandable"] for segment in segments)
    print("\\n" + json.dumps({"rank": RANK, "hazards": n_hazards(), **what}), flush=True)
"""

TRAIN = """
train(nn.parallel.DistributedDataParallel(layers(), device_ids=[RANK]))
torch.cuda.empty_cache()
after_ddp = torch.cuda.memory_stats()

model = layers()
for layer in model:
    fully_shard(layer)
fully_shard(model)
sharded = sum(p.to_local().numel() for p in model.parameters())
train(model)

at = PLACE + ".written"
if RANK == 1:
    time.sleep(1)
    open(at, "w").close()
distributed.barrier()
assert os.path.exists(at), "the barrier did not wait"

stats = torch.cuda.memory_stats()
keys = ("allocation.all.allocated", "requested_bytes.all.allocated", "requested_bytes.all.peak",
        "reserved_bytes.all.peak")
say(allocator=torch.cuda.memory.get_allocator_backend(), sharded=sharded,
    ddp={key: after_ddp[key] for key in keys}, all={key: stats[key] for key in keys})
distributed.destroy_process_group()
"""

CONTENTS = """
model = layers()
with torch.no_grad():
    for i, parameter in enumerate(model.parameters()):
        parameter.copy_(torch.full(parameter.shape, float(10 * i + RANK)))
for i, parameter in enumerate(model.parameters()):
    distributed.broadcast(parameter.data, 0)
    assert torch.equal(parameter.cpu(), torch.full(parameter.shape, float(10 * i))), i

mine = (torch.arange(1000) + 1000 * RANK).cuda()
gathered = [torch.empty_like(mine) for _ in range(2)]
distributed.all_gather(gathered, mine)
assert all(torch.equal(gathered[r].cpu(), torch.arange(1000) + 1000 * r) for r in range(2))
train(nn.parallel.DistributedDataParallel(model, device_ids=[RANK]))
say()
distributed.destroy_process_group()
"""

# An all_gather and a broadcast compare the shapes; the host reads their results.
SHAPES = """
nn.parallel.DistributedDataParallel(layers(width=512 + 8 * RANK), device_ids=[RANK])
"""

ORDER = """
tensor = torch.zeros(8, device="cuda")
distributed.all_reduce(tensor) if RANK == 0 else distributed.broadcast(tensor, 0)
"""


class Program(NamedTuple):
    code: str
    sim: str = SIM
    settings: str = ""  # of torch's own allocator


NATIVE = {
    "native": Program(TRAIN),
    "expandable": Program(TRAIN, settings="expandable_segments:True"),
    "contents": Program(CONTENTS, CONTENTS_SIM),
    "shapes": Program(SHAPES),
    "order": Program(ORDER),  # the last: torchrun has its exit status
}
PLEAT = {"pleat": Program(TRAIN), "contents": Program(CONTENTS, CONTENTS_SIM)}


class Outcome(NamedTuple):
    """Outputs of the ranks' programs, and their exit statuses."""

    outputs: list[str]
    statuses: list[int]

    def said(self) -> list[Any]:
        assert self.statuses == [0, 0], self
        lines = [line for text in self.outputs for line in text.splitlines()]
        said = [json.loads(line) for line in lines if line.startswith("{")]
        assert [rank["rank"] for rank in said] == [0, 1], self
        assert all(rank["hazards"] == 0 for rank in said), said
        return said


class Run(NamedTuple):
    outcomes: dict[str, Outcome]
    status: int


@pytest.fixture(scope="module")
def python() -> Iterator[str]:
    """A python for torchrun, and for ranks that may be forks."""
    modules = ("torch._dynamo", "torch.distributed.fsdp", "torch.distributed.run")
    zygote = Zygote(*modules, LD_PRELOAD=str(RUNTIME), OMP_NUM_THREADS="1")
    yield str(zygote.forks.python)
    zygote.end()


def torchrun(
    python: str, ranks_python: str, folder: Path, programs: dict[str, Program], *before: str
) -> Run:
    listed = [(COMMON + code, sim, settings) for code, sim, settings in programs.values()]
    (folder / "programs.json").write_text(json.dumps(listed))
    path = folder / "ranks.py"
    path.write_text(RANKS)
    done = subprocess.run(
        [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        + [*before, str(path), str(folder)],
        cwd=folder,
        env=clean_environment(
            LD_PRELOAD=str(RUNTIME),
            PLEAT_SIM=SIM,
            OMP_NUM_THREADS="1",
            PYTHON_EXEC=ranks_python,
        ),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    outcomes = {}
    for i, name in enumerate(programs):
        files = [folder / f"{i}.{rank}.status" for rank in range(2)]
        assert all(file.exists() for file in files), f"{name}: {done.stdout}\n{done.stderr}"
        outputs = [file.with_suffix(".out").read_text() for file in files]
        outcomes[name] = Outcome(outputs, [int(file.read_text()) for file in files])
    return Run(outcomes, done.returncode)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory, python: str) -> Run:
    return torchrun(python, python, tmp_path_factory.mktemp("native"), NATIVE)


@pytest.fixture(scope="module")
def pleat(tmp_path_factory: pytest.TempPathFactory, python: str) -> Run:
    folder = tmp_path_factory.mktemp("pleat")
    run = torchrun(python, sys.executable, folder, PLEAT, "-m", "pleat.torch")
    assert run.status == 0
    return run


def test_the_same_is_requested_whoever_allocates(native: Run, pleat: Run) -> None:
    parameters = 6 * (512 * 512 + 512) + 2 * 512
    found = [native.outcomes[way].said() for way in ("native", "expandable")]
    for torchs, expandable, pleats in zip(*found, pleat.outcomes["pleat"].said()):
        assert (torchs["allocator"], pleats["allocator"]) == ("native", "pleat")
        assert (torchs["is_expandable"], expandable["is_expandable"]) == (False, True)
        assert torchs["sharded"] == parameters // 2
        for part in ("ddp", "all"):
            for key in ("allocation.all.allocated", "requested_bytes.all.allocated"):
                values = {said[part][key] for said in (torchs, expandable, pleats)}
                assert len(values) == 1, (part, key, values)
        peaks = [said["all"]["reserved_bytes.all.peak"] for said in (pleats, expandable, torchs)]
        assert peaks == sorted(peaks), peaks


@pytest.mark.parametrize("way", ["native", "pleat"])
def test_with_contents_bytes_reach_the_other_rank(native: Run, pleat: Run, way: str) -> None:
    run = native if way == "native" else pleat
    run.outcomes["contents"].said()


def test_ranks_that_disagree_are_told(native: Run) -> None:
    said = "".join(native.outcomes["shapes"].outputs)
    assert native.outcomes["shapes"].statuses != [0, 0], said
    assert "appears not to match sizes of the same param in process 0" in said, said
    said = "".join(native.outcomes["order"].outputs)
    assert native.outcomes["order"].statuses != [0, 0] and native.status != 0, said
    assert "the ranks call different things: rank " in said, said
    assert "ncclAllReduce(count=8" in said and "ncclBroadcast(count=8" in said, said
