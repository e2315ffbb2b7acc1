"""Strands memory at a call site: beside each large tensor that goes, a small one stays.

Usage: stranding.py SNAPSHOT"""
import sys

import torch

ROUNDS = 40


def keep_statistics() -> torch.Tensor:
    """The culprit: 2 MiB that stay, a tensor in each segment of 20 MiB."""
    return torch.empty(2 << 20, dtype=torch.uint8, device="cuda")


def activation() -> torch.Tensor:
    return torch.empty(9 << 20, dtype=torch.uint8, device="cuda")


def weights() -> torch.Tensor:
    """Innocent: large, live, and in separate segments."""
    return torch.empty(100 << 20, dtype=torch.uint8, device="cuda")


def train() -> list[torch.Tensor]:
    kept = [weights() for _ in range(4)]
    gone = []
    for _ in range(ROUNDS):
        gone.append(activation())
        kept.append(keep_statistics())
        gone.append(activation())
    del gone
    kept.append(torch.empty(1000 << 20, dtype=torch.uint8, device="cuda"))  # does not fit the gaps
    return kept


torch.cuda.memory._record_memory_history(max_entries=100000, stacks="python")
tensors = train()
torch.cuda.memory._dump_snapshot(sys.argv[1])
