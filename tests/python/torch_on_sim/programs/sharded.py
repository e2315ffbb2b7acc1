"""Rank 0 of several, with a model sharded over all of them by FSDP. The process group is PyTorch's
own fake, whose collectives move nothing. Argument: the number of ranks. Prints the bytes of the
parameters."""

import os
import sys

import child
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

ranks = int(sys.argv[1])
distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
mesh = init_device_mesh("cuda", (ranks,))
with torch.device("cuda"):
    model = nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(8)))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(16, 2048, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
torch.cuda.synchronize()
print(torch.cuda.memory_allocated(), flush=True)
assert child.counts().hazards == 0
os._exit(0)  # at a normal end the engine's thread might abort while it drops Python's hooks
