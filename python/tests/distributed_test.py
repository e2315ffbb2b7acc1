"""Two processes under torchrun, each on a simulated device of its own: DistributedDataParallel and
FSDP2 train, natively, with expandable segments and under pleat."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import RUNTIME, clean_environment

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")

SIM = "capacity:4G,devices:2,compute:9.0"
WAYS = {
    "native": {},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "pleat": {},
}

COMMON = """
import ctypes, json, os, sys, time
import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard

RANK = int(os.environ["RANK"])
torch.cuda.set_device(RANK)
distributed.init_process_group("nccl", device_id=torch.device("cuda", RANK))

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

at = os.path.join(sys.argv[1], "written")
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


def torchrun(tmp_path: Path, way: str, code: str, sim: str = SIM, status: int = 0) -> Any:
    """What the two ranks said, in their order; with another status, all that was written."""
    path = tmp_path / "train.py"
    path.write_text(COMMON + code)
    pleat = ["-m", "pleat.torch"] if way == "pleat" else []
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        + [*pleat, str(path), str(tmp_path)],
        cwd=tmp_path,
        env=clean_environment(
            LD_PRELOAD=str(RUNTIME), PLEAT_SIM=sim, OMP_NUM_THREADS="1", **WAYS[way]
        ),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert (done.returncode == 0) == (status == 0), f"{done.stdout}\n{done.stderr}"
    if status != 0:
        return done.stdout + done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert sorted(rank["rank"] for rank in said) == [0, 1], f"{done.stdout}\n{done.stderr}"
    assert all(rank["hazards"] == 0 for rank in said), said
    return sorted(said, key=lambda rank: rank["rank"])


def test_the_same_is_requested_whoever_allocates(tmp_path: Path) -> None:
    found = {}
    for way in WAYS:
        folder = tmp_path / way
        folder.mkdir()
        found[way] = torchrun(folder, way, TRAIN)
    parameters = 6 * (512 * 512 + 512) + 2 * 512
    for native, expandable, pleat in zip(*found.values()):
        assert (native["allocator"], pleat["allocator"]) == ("native", "pleat")
        assert native["sharded"] == parameters // 2
        for part in ("ddp", "all"):
            for key in ("allocation.all.allocated", "requested_bytes.all.allocated"):
                assert native[part][key] == expandable[part][key] == pleat[part][key], (part, key)
        peak = "reserved_bytes.all.peak"
        assert pleat["all"][peak] <= expandable["all"][peak] <= native["all"][peak], found


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


@pytest.mark.parametrize("way", ["native", "pleat"])
def test_with_contents_bytes_reach_the_other_rank(tmp_path: Path, way: str) -> None:
    torchrun(tmp_path, way, CONTENTS, sim=SIM + ",backing:memory")


# The shapes are compared by an all_gather and a broadcast, whose results the host reads.
SHAPES = """
nn.parallel.DistributedDataParallel(layers(width=512 + 8 * RANK), device_ids=[RANK])
"""

ORDER = """
tensor = torch.zeros(8, device="cuda")
distributed.all_reduce(tensor) if RANK == 0 else distributed.broadcast(tensor, 0)
"""


def test_ranks_that_disagree_are_told(tmp_path: Path) -> None:
    said = torchrun(tmp_path, "native", SHAPES, status=1)
    assert "appears not to match sizes of the same param in process 0" in said, said
    said = torchrun(tmp_path, "native", ORDER, status=1)
    assert "the ranks call different things: rank " in said, said
    assert "ncclAllReduce(count=8" in said and "ncclBroadcast(count=8" in said, said
