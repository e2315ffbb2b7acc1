"""Draws sequences of pools, and tells what each holds: pools_drawn.py ALLOCATOR FIRST N.

ALLOCATOR is pleat (the class), or torch (what PyTorch's settings say). A line of JSON a sequence:
the seed, how many graphs or scopes were served, and the bytes that are reserved at the end.
"""

# needs: torch

from __future__ import annotations

import json
import os
import random
import sys
import warnings
from dataclasses import dataclass

import torch

MIB = 1 << 20


@dataclass
class Drawn:
    """A sequence: `n` times a work of `sizes` bytes, which leaves a tensor of `kept` bytes."""

    kind: str
    card: int  # GiB
    sizes: list[int]
    kept: list[int]
    depth: int  # tensors of a work

    @property
    def n_pools(self) -> int:
        return len(self.sizes) if self.kind == "own" else 1


def draw(seed: int) -> Drawn:
    rng = random.Random(seed)
    card = rng.choice([24, 80, 141])
    kind = rng.choice(["mempool", "one", "one", "own", "trees"])
    most = card * 1024 * rng.choice([0.02, 0.05, 0.2, 0.5])
    n = rng.choice([3, 8, 24])
    sizes = sorted(int(most * rng.uniform(0.1, 1)) * MIB for _ in range(n))
    order = rng.choice(["up", "down", "mixed"])
    if order == "down":
        sizes.reverse()
    elif order == "mixed":
        rng.shuffle(sizes)
    kept = [int(2 ** rng.uniform(12, 23)) // 512 * 512 for _ in range(n)]
    kept = kept if rng.random() < 0.5 else kept[:1] * n
    return Drawn(kind, card, sizes, kept, rng.choice([1, 4, 8, 20]))


def tensor(n_bytes: int) -> torch.Tensor:
    return torch.empty(n_bytes, dtype=torch.uint8, device="cuda")


def work(rng: random.Random, n_bytes: int, depth: int) -> list[torch.Tensor]:
    """The tensors of a forward pass; some are freed on the way."""
    live = []
    for _ in range(depth):
        live.append(tensor(max(512, int(n_bytes / depth * rng.uniform(0.5, 1.5)))))
        if len(live) > 2 and rng.random() < 0.4:
            live.pop(rng.randrange(len(live)))
    return live


class Player:
    def __init__(self, drawn: Drawn, seed: int) -> None:
        self.drawn = drawn
        self.rng = random.Random(~seed)
        self.kept: list[torch.Tensor] = []
        self.graphs: list[torch.cuda.CUDAGraph] = []
        self.n_served = 0
        self.mem_pool = torch.cuda.MemPool()
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream()
        self.states: list[tuple[torch._C._cuda_CUDAAllocator_AllocatorState, int]] = []

    def step(self, n_bytes: int, n_kept: int) -> None:
        live = work(self.rng, n_bytes, self.drawn.depth)
        self.kept.append(tensor(n_kept))
        del live

    def capture(self, n_bytes: int, n_kept: int) -> None:
        graph = torch.cuda.CUDAGraph()
        pool = None if self.drawn.kind == "own" else self.pool
        with torch.cuda.graph(graph, pool=pool, stream=self.stream):
            self.step(n_bytes, n_kept)
        self.graphs.append(graph)

    def scope(self, n_bytes: int, n_kept: int) -> None:
        with torch.cuda.use_mem_pool(self.mem_pool):
            self.step(n_bytes, n_kept)
        if self.rng.random() < 0.3:
            self.kept.pop(self.rng.randrange(len(self.kept)))

    def go_back(self) -> None:
        """As graph trees do: the blocks of an earlier moment live again."""
        self.states.append((torch._C._cuda_getCheckpointState(0, self.pool), len(self.kept)))
        if self.rng.random() < 0.4:
            state, n = self.states[self.rng.randrange(len(self.states))]
            for gone in self.kept[n:]:
                torch._C._free_And_Remove_DeleterFn(gone.untyped_storage()._cdata)
            torch._C._cuda_setCheckpointPoolState(0, state, [], [])
            del self.kept[n:]
            self.states = [each for each in self.states if each[1] <= n]

    def play(self) -> None:
        for n_bytes, n_kept in zip(self.drawn.sizes, self.drawn.kept, strict=True):
            (self.scope if self.drawn.kind == "mempool" else self.capture)(n_bytes, n_kept)
            if self.drawn.kind == "trees":
                self.go_back()
            self.n_served += 1


def tell(seed: int, is_pleat: bool) -> None:
    drawn = draw(seed)
    os.environ["PLEAT_SIM"] = f"capacity:{drawn.card}G"
    if is_pleat:
        import pleat.torch

        pleat.torch.install()
    player = Player(drawn, seed)
    try:
        player.play()
    except torch.OutOfMemoryError:
        pass
    said = {"seed": seed, "kind": drawn.kind, "n": len(drawn.sizes), "n_pools": drawn.n_pools}
    said |= {"served": player.n_served, "reserved": torch.cuda.memory_reserved()}
    print(json.dumps(said), flush=True)


def main() -> None:
    warnings.filterwarnings("ignore")
    first, n = int(sys.argv[2]), int(sys.argv[3])
    for seed in range(first, first + n):
        child = os.fork()
        if child == 0:
            tell(seed, sys.argv[1] == "pleat")
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"seed {seed} died")


if __name__ == "__main__":
    main()
