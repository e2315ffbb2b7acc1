"""Runs with a snapshot of all or of a part: parts.py KIND SNAPSHOT."""
import sys

import torch

KIND, OUT = sys.argv[1:]
MIB = 1 << 20
record, dump = torch.cuda.memory._record_memory_history, torch.cuda.memory._dump_snapshot


def empty(n_mib):
    return torch.empty(n_mib * MIB, dtype=torch.uint8, device="cuda")


def step(i):
    """Six blocks of changing sizes, up to 300 MiB in all."""
    blocks = [empty((7 * i + 13 * j) % 50 + 1) for j in range(6)]
    del blocks


def run(n_steps):
    """Large steps come early: 512 MiB are kept, and 1 GiB more lives in four steps."""
    kept = [empty(64) for _ in range(8)]
    for i in range(n_steps):
        if i % 10 == 0 and i < 40:
            large = [empty(256) for _ in range(4)]
            del large
        step(i)
    return kept


def far_ahead():
    """Layers are dropped during another stream's use (pytorch#147168)."""
    side = torch.cuda.Stream()
    kept = empty(64)
    for _ in range(2):
        for _ in range(20):
            layer = empty(96)
            with torch.cuda.stream(side):
                layer.fill_(1)
            layer.record_stream(side)
            del layer
            kept.add_(1)
        torch.cuda.synchronize()
    return kept


record(max_entries=1000 if KIND == "ring" else 10_000_000, stacks="python")
if KIND == "died":
    kept = [empty(64) for _ in range(8)]
    try:
        kept.append(empty(8192))
    except torch.OutOfMemoryError:
        pass
else:
    kept = far_ahead() if KIND == "far_ahead" else run(100)
if KIND == "stopped":
    record(None)
if KIND == "in_step":
    kept += [empty(256) for _ in range(3)]
dump(OUT)
print(torch.cuda.max_memory_allocated())
