"""Shared by the programs under LD_PRELOAD=libpleat_runtime.so: the allocator named by the parent in
ON_SIM_ALLOCATOR, and the simulator's counts."""

from __future__ import annotations

import ctypes
import json
import os
import re
import tempfile
from pathlib import Path

import torch

ALLOCATOR = os.environ["ON_SIM_ALLOCATOR"]
HEADER = Path(__file__).parents[3] / "vmm" / "base" / "pleat_sim.h"


def fields_of_counts() -> list[str]:
    """The members of struct pleat_sim_counts, read from its header. A copied list would become too
    short with the next new member, and the library would write past its end."""
    struct = re.search(r"struct pleat_sim_counts \{(.*?)\n\}", HEADER.read_text(), re.DOTALL)
    assert struct
    members = re.sub(r"/\*.*?\*/", "", struct.group(1), flags=re.DOTALL)
    return re.findall(r"(\w+)[,;]", members)


simulator = ctypes.CDLL(os.environ["PLEAT_SIM_LIBRARY"])


class Counts(ctypes.Structure):
    """The struct pleat_sim_counts."""

    _fields_ = [(name, ctypes.c_uint64) for name in fields_of_counts()]


def counts() -> Counts:
    out = Counts()
    assert simulator.pleat_sim_count(-1, ctypes.byref(out)) == 0
    return out


def physical_bytes() -> int:
    return int(counts().physical_bytes)


def n_calls(name: str) -> int:
    simulator.pleat_sim_n_calls.restype = ctypes.c_uint64
    return int(simulator.pleat_sim_n_calls(name.encode()))


def call_log() -> list[dict[str, object]]:
    with tempfile.NamedTemporaryFile("r") as file:
        assert simulator.pleat_sim_write_log(file.name.encode()) == 0
        return [json.loads(line) for line in file]


def library() -> ctypes.CDLL:
    return ctypes.CDLL(os.environ["PLEAT_LIBRARY"])


def use_pleat() -> None:
    """Replace PyTorch's cache by pleat's hooks. Must be called before the first use of the
    device."""
    pluggable = torch.cuda.memory.CUDAPluggableAllocator(
        os.environ["PLEAT_LIBRARY"], "pleat_torch_malloc", "pleat_torch_free"
    )
    hooks = pluggable.allocator()
    for hook in ("init", "reset", "memory_fraction", "base_alloc", "record_stream"):
        address = ctypes.cast(getattr(library(), f"pleat_torch_{hook}"), ctypes.c_void_p).value
        getattr(hooks, f"set_{hook}_fn")(address)
    torch.cuda.memory.change_current_allocator(pluggable)


def give_back() -> None:
    """Give back all memory kept by PyTorch: pending results, workspaces of cuBLAS, caches."""
    torch.cuda.synchronize()
    if ALLOCATOR != "pleat":
        torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()


if ALLOCATOR == "pleat":
    use_pleat()
