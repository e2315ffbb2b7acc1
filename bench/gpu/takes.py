#!/usr/bin/env python3
"""A storm of takes: do bytes stay intact while pleat moves memory all the time?

PyTorch's tensors come and go on two streams under a limit that is nearly used up, so most new ones
lie on chunks taken from under freed ones. Kernels fill each tensor with unique words and compare
them right before the tensor is freed, on its own stream or on the other one; the host does not
wait. One JSON object; exit status 1 if a word was wrong, or too little taken."""
import argparse
import ctypes
import json
import random
import sys
import time

import allocators
import present

SEED = 11
LIMIT_BYTES = 4 << 30
LIVE_SHARE = 0.8            # of the limit
SMALLEST_WORDS, LARGEST_LOG2 = 1 << 16, 8   # tensors of 256 KiB to 64 MiB
LENT_SHARE = 0.25
LEAST_TAKEN, MOST_TAKEN = 1000, 20000       # granules
LOOK_EVERY = 64             # rounds
BLOCKS = 128                # of a kernel


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--allocator", default="pleat", choices=tuple(allocators.PLEAT))
    parser.add_argument("--seconds", type=float, default=10.0, help="at most")
    return parser.parse_args()


class Storm:
    """Live tensors, each with its first word and its stream."""

    def __init__(self, torch, cuda, kernels):
        self.torch, self.cuda = torch, cuda
        self.fill, self.compare = kernels("fill"), kernels("compare")
        self.rng = random.Random(SEED)
        self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        self.wrong = cuda.get("cuMemAlloc_v2", ctypes.c_uint64, 8)     # not from pleat
        cuda.call("cuMemsetD8Async", self.wrong, 0, 8, None)
        torch.cuda.synchronize()
        self.live = []
        self.live_words = 0
        self.next_word = 0
        self.compared = self.refused = 0

    def launch(self, kernel, tensor, first, stream, *more):
        self.cuda.launch(kernel, stream.cuda_stream, BLOCKS, ctypes.c_uint64(tensor.data_ptr()),
                         ctypes.c_uint64(tensor.numel()), ctypes.c_uint32(first), *more)

    def look(self, tensor, first, stream):
        self.launch(self.compare, tensor, first, stream, ctypes.c_uint64(self.wrong))
        self.compared += 1

    def drop(self):
        """Check a tensor, on its own stream or on the other, and free it at once."""
        tensor, first, owner = self.live.pop(self.rng.randrange(len(self.live)))
        self.live_words -= tensor.numel()
        if self.rng.random() >= LENT_SHARE:
            self.look(tensor, first, owner)
            return
        other = self.streams[1 - self.streams.index(owner)]
        other.wait_stream(owner)
        self.look(tensor, first, other)
        tensor.record_stream(other)

    def add(self):
        words = int(SMALLEST_WORDS * 2 ** self.rng.uniform(0, LARGEST_LOG2))
        while self.live and 4 * (self.live_words + words) > LIVE_SHARE * LIMIT_BYTES:
            self.drop()
        stream = self.rng.choice(self.streams)
        with self.torch.cuda.stream(stream):
            tensor = self.torch.empty(words, dtype=self.torch.int32, device="cuda")
        self.launch(self.fill, tensor, self.next_word, stream)
        self.live.append((tensor, self.next_word, stream))
        self.live_words += words
        self.next_word = (self.next_word + words) % (1 << 32)

    def play(self):
        try:
            self.add()
        except self.torch.OutOfMemoryError:     # pending and leftover memory make it tight
            self.refused += 1
            self.drop()

    def n_wrong(self):
        """Waits for everything that was launched."""
        self.torch.cuda.synchronize()
        return self.cuda.read(self.wrong, ctypes.c_uint64, None).value


def rage(storm, seconds, n_taken):
    """Until time is over, enough was taken, or a word was wrong. (rounds, wrong words)"""
    end = time.monotonic() + seconds
    rounds = wrong = 0
    while time.monotonic() < end and wrong == 0 and n_taken() < MOST_TAKEN:
        for _ in range(LOOK_EVERY):
            storm.play()
        rounds += LOOK_EVERY
        if rounds % (16 * LOOK_EVERY) == 0:     # rarely: in between the host does not wait
            wrong = storm.n_wrong()
    while storm.live:
        storm.drop()
    return rounds, storm.n_wrong()


def main():
    options = parse()
    present.need_pytorch()
    allocators.choose(options.allocator, f"limit:{LIMIT_BYTES}")
    import torch
    present.need_gpu(torch)
    import driver
    import pleat
    import ptx
    torch.cuda.init()
    cuda = driver.Driver()
    storm = Storm(torch, cuda, cuda.load(ptx.SOURCE))
    rounds, wrong = rage(storm, options.seconds,
                         lambda: pleat.device_stats()["n_taken_granules"])
    told = pleat.device_stats()
    taken = told["n_taken_granules"]
    out = {"detail": f"{taken} granules taken in {rounds} tensors; {storm.compared} compared; "
                     f"{storm.refused} refused",
           "n_taken_granules": taken, "ops_unmap": told["ops_unmap"]}
    if wrong:
        out["problem"] = f"{wrong} words were not what they had been filled with"
    elif taken < LEAST_TAKEN:
        out["problem"] = f"only {taken} granules were taken"
    elif cuda.is_simulated:
        out |= {"problem": f"{taken} granules taken, but kernels compute nothing on a simulated "
                           "device: no word was compared", "cannot_run": True, "detail": ""}
    print(json.dumps(out))
    return 1 if "problem" in out else 0


if __name__ == "__main__":
    sys.exit(main())
