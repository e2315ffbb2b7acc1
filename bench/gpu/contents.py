#!/usr/bin/env python3
"""Keep known bytes in many tensors under one allocator, and check that they stay.

  contents.py --allocator pleat            tensors come and go on two streams, lent to each other
  contents.py --allocator pleat --graph    a CUDA graph is captured, and launched between them

Bytes go in and out by copies, so the first works wherever copies do; the second needs a GPU that
computes. Prints one JSON object; exit status 1 if a byte was wrong."""
import argparse
import json
import random
import sys

import allocators
import present

SEED = 7
ROUNDS = 3000
LIVE = 150              # tensors at a time
LAUNCHES = 50
MIB = 1 << 20


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--allocator", required=True, choices=allocators.NAMES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--graph", action="store_true")
    return parser.parse_args()


def drawn_size(rng):
    """Like those of deep learning: mostly small, some of megabytes."""
    most = rng.choice((2048, 32768, 1 * MIB, 1 * MIB, 6 * MIB))
    return rng.randint(1, most)


class Keeper:
    """Live tensors, and the byte that fills each."""

    def __init__(self, torch, seed):
        self.torch = torch
        self.rng = random.Random(seed)
        self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        self.live = []
        self.checked = 0

    def add(self):
        value = self.rng.randrange(256)
        stream = self.rng.choice(self.streams)
        with self.torch.cuda.stream(stream):
            host = self.torch.full((drawn_size(self.rng),), value, dtype=self.torch.uint8)
            self.live.append((host.to("cuda", non_blocking=True), value, stream))

    def lend(self):
        """Copy a tensor on the other stream and free it at once: its memory must stay until the
        copy ends."""
        tensor, value, owner = self.live.pop(self.rng.randrange(len(self.live)))
        other = self.streams[1 - self.streams.index(owner)]
        other.wait_stream(owner)
        with self.torch.cuda.stream(other):
            copy = tensor.clone()
        tensor.record_stream(other)
        self.live.append((copy, value, other))

    def drop(self):
        """Check a tensor and free it."""
        tensor, value, owner = self.live.pop(self.rng.randrange(len(self.live)))
        with self.torch.cuda.stream(owner):
            seen = tensor.cpu()
        self.checked += 1
        if not bool((seen == value).all()):
            wrong = int((seen != value).sum())
            raise ValueError(f"{wrong} of {len(seen)} bytes at {tensor.data_ptr():#x} were not "
                             f"{value}: check {self.checked}")

    def play(self, rounds):
        for _ in range(rounds):
            if len(self.live) < LIVE // 2 or (len(self.live) < LIVE and self.rng.random() < 0.5):
                self.add()
            elif self.rng.random() < 0.3:
                self.lend()
            else:
                self.drop()

    def drop_all(self):
        while self.live:
            self.drop()


def captured(torch):
    """A graph that computes y = (2 x + 1) summed over rows, with temporaries of its own."""
    x = torch.zeros(512, 1024, device="cuda")

    def compute():
        twice = x * 2
        return (twice + 1).sum(dim=0)

    compute()       # loads the kernel, which a capture may forbid
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = compute()
    return graph, x, y


def launch(torch, keeper, rounds):
    graph, x, y = captured(torch)
    for turn in range(LAUNCHES):
        keeper.play(rounds // LAUNCHES)
        x.fill_(turn)
        graph.replay()
        torch.cuda.synchronize()
        if not bool((y.cpu() == 512 * (2 * turn + 1)).all()):
            raise ValueError(f"launch {turn} of the graph gave {y[0].item()}")
    return f"; a graph launched {LAUNCHES} times"


def main():
    options = parse()
    present.need_pytorch()
    allocators.choose(options.allocator)
    import torch
    present.need_gpu(torch)
    keeper = Keeper(torch, SEED)
    said = ""
    try:
        if options.graph:
            said = launch(torch, keeper, options.rounds)
        else:
            keeper.play(options.rounds)
        keeper.drop_all()
    except ValueError as wrong:
        print(json.dumps({"problem": str(wrong)}))
        return 1
    torch.cuda.synchronize()
    told = allocators.statistics(options.allocator)
    print(json.dumps({"detail": f"{keeper.checked} tensors held their bytes{said}",
                      "peak_allocated_bytes": told["allocated_bytes.all.peak"],
                      "peak_reserved_bytes": told["reserved_bytes.all.peak"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
