#!/usr/bin/env python3
"""Keep known bytes in many tensors under pleat, and check that these bytes stay.

Tensors come and go on two streams, lent to each other. With --graph a CUDA graph is captured, and
launched between them; with --compact their memory is moved together again and again. Bytes go in
Copies bring bytes in and out, so the test works wherever copies do."""
import random
import sys
import time

import driver
import torch_run

SEED = 7
LIVE = 150              # tensors at a time
LAUNCHES = 50
SIMULATED_TURNS = 4
PLAYED = 60             # rounds between two launches, or two compactions
NEIGHBOURS, GRANULE = 64, 2 * driver.MIB    # the memory moved by compactions


def drawn_size(rng):
    """Sizes as in deep learning: mostly small, some of megabytes."""
    most = rng.choice((2048, 32768, driver.MIB, driver.MIB, 6 * driver.MIB))
    return rng.randint(1, most)


class Keeper:
    """Live tensors, and the fill byte of each. After the first wrong byte no tensor is added."""

    def __init__(self, torch, seed):
        self.torch = torch
        self.rng = random.Random(seed)
        self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        self.live = []
        self.checked = self.wrong = 0
        self.first_wrong = None

    def add(self, n_bytes=None, stream=None):
        value = self.rng.randrange(256)
        stream = stream or self.rng.choice(self.streams)
        with self.torch.cuda.stream(stream):
            host = self.torch.full((n_bytes or drawn_size(self.rng),), value,
                                   dtype=self.torch.uint8)
            self.live.append((host.to("cuda", non_blocking=True), value, stream))

    def lend(self):
        """Copy a tensor on the second stream and free it at once. Its memory must stay until the
        copy ends."""
        tensor, value, owner = self.live.pop(self.rng.randrange(len(self.live)))
        other = self.streams[1 - self.streams.index(owner)]
        other.wait_stream(owner)
        with self.torch.cuda.stream(other):
            copy = tensor.clone()
        tensor.record_stream(other)
        self.live.append((copy, value, other))

    def drop(self, index=None):
        """Check a tensor and free it."""
        tensor, value, owner = self.live.pop(
            self.rng.randrange(len(self.live)) if index is None else index)
        with self.torch.cuda.stream(owner):
            seen = tensor.cpu()
        self.note(int((seen != value).sum()), f"tensor of {len(seen)} bytes at "
                                              f"{tensor.data_ptr():#x}, filled with {value}")

    def note(self, wrong, what):
        self.checked += 1
        self.wrong += wrong
        if wrong and self.first_wrong is None:
            self.first_wrong = f"check {self.checked}: {wrong} wrong in {what}"

    def play(self, rounds):
        for _ in range(rounds):
            if self.wrong:
                return
            if len(self.live) < LIVE // 2 or (len(self.live) < LIVE and self.rng.random() < 0.5):
                self.add()
            elif self.rng.random() < 0.3:
                self.lend()
            else:
                self.drop()

    def drop_down_to(self, n):
        while len(self.live) > n:
            self.drop()


class Graph:
    """y = 2 x + 1 with temporaries of its own, or, where no kernel computes, y = x."""

    def __init__(self, torch, is_simulated):
        self.torch, self.scale = torch, (1, 0) if is_simulated else (2, 1)
        self.x = torch.zeros(1 << 20, dtype=torch.int32, device="cuda")
        self.compute()      # loads the kernels, which a capture may forbid
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.compute()

    def compute(self):
        copy = self.x.clone()
        if self.scale != (1, 0):
            copy = copy * self.scale[0] + self.scale[1]
        return copy.clone()

    def n_wrong(self, turn):
        self.x.copy_(self.torch.full((self.x.numel(),), turn, dtype=self.torch.int32))
        self.graph.replay()
        self.torch.cuda.synchronize()
        return int((self.y.cpu() != self.scale[0] * turn + self.scale[1]).sum())


def launch(keeper, end):
    graph = Graph(keeper.torch, torch_run.is_simulated())
    turn = 0
    while turn < most_turns() and time.monotonic() < end and not keeper.wrong:
        keeper.play(PLAYED)
        keeper.note(graph.n_wrong(turn), f"what launch {turn} of the graph gave")
        turn += 1
    return {"launches": turn}


def is_enough(turn):
    """On the simulator turns are counted: a busy machine may do few of them in a time."""
    return torch_run.is_simulated() and turn >= SIMULATED_TURNS


def most_turns():
    return SIMULATED_TURNS if torch_run.is_simulated() else LAUNCHES


def scatter(keeper):
    """Every second pair of granules in large chunks stays. A compaction splits the chunks."""
    stream, begin = keeper.streams[0], len(keeper.live)
    with keeper.torch.cuda.stream(stream):
        keeper.torch.empty(NEIGHBOURS * GRANULE, dtype=keeper.torch.uint8, device="cuda")
    for n_bytes in (GRANULE, GRANULE // 2):
        for _ in range(NEIGHBOURS):
            keeper.add(n_bytes, stream)
    for i in reversed(range(begin, len(keeper.live))):
        if (i - begin) % 4 in (1, 2):
            keeper.drop(i)


def compact(keeper, end):
    import pleat.torch
    found = {"compactions": 0, "splits": 0, "moved_bytes": 0, "won_bytes": 0,
             "longest_s": 0.0}
    while found["compactions"] < most_turns() and time.monotonic() < end and not keeper.wrong:
        scatter(keeper)
        keeper.torch.cuda.synchronize()
        begin = time.monotonic()
        done = pleat.torch.compact()
        found["longest_s"] = max(found["longest_s"], round(time.monotonic() - begin, 4))
        found["compactions"] += 1
        found["moved_bytes"] += done.moved_bytes
        found["won_bytes"] += done.won_bytes
        found["splits"] += done.n_split
        keeper.play(3 * PLAYED)
        keeper.drop_down_to(LIVE // 3)
    return found


def main():
    options = driver.options(__doc__, ("--graph", {"action": "store_true"}),
                             ("--compact", {"action": "store_true"}))
    end = time.monotonic() + options.seconds - 2
    large = ("chunk_share:64",) if options.compact else ()  # a compaction splits large chunks
    torch = torch_run.begin("pleat", *large)
    keeper = Keeper(torch, SEED)
    out = {"binding": torch_run.binding()}
    if options.graph:
        out |= launch(keeper, end)
    elif options.compact:
        out |= compact(keeper, end)
    else:
        turn = 0
        while time.monotonic() < end and not keeper.wrong and not is_enough(turn):
            keeper.play(PLAYED)
            turn += 1
    keeper.drop_down_to(0)
    torch.cuda.synchronize()
    told = torch.cuda.memory_stats()
    out |= {"checked": keeper.checked, "wrong": keeper.wrong,
            "peak_allocated_bytes": told["allocated_bytes.all.peak"],
            "peak_reserved_bytes": told["reserved_bytes.all.peak"]}
    if keeper.wrong:
        out["first_wrong"] = keeper.first_wrong
    driver.tell(out | {"ended_at": time.monotonic()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
