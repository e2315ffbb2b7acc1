#!/usr/bin/env python3
"""A storm of takes: do bytes stay intact while pleat moves memory all the time?

PyTorch's tensors come and go on two streams while memory is nearly used up. So most new tensors lie
on chunks taken from under freed tensors. Kernels fill each tensor with unique words. Right before
the tensor's free they compare the words, on its own stream or on the second one. The host does not
wait.
Memory ends at a limit of pleat, or, with --full, where the device's does."""
import ctypes
import random
import sys
import time

import driver
import ptx
import torch_run

SEED = 11
ROOM_BYTES, SIMULATED_ROOM_BYTES = 4 * driver.GIB, driver.GIB
SLACK_BYTES = 256 * driver.MIB  # of a full device, to libraries
LIVE_SHARE = 0.8                # of the room
SMALLEST_WORDS, LARGEST_LOG2 = 1 << 16, 8   # tensors of 256 KiB to 64 MiB
LENT_SHARE = 0.25
LEAST_TAKEN, MOST_TAKEN = 1000, 20000       # granules
LOOK_EVERY = 64                 # rounds
BLOCKS = 128                    # of a kernel
SIMULATED_BYTES = driver.MIB    # of a tensor


class Storm:
    """Live tensors with their first words and streams."""

    def __init__(self, torch, cuda, kernels, room_bytes):
        self.torch, self.cuda = torch, cuda
        self.fill, self.compare = ("fill", "compare") if cuda.is_simulated else \
            (kernels("fill"), kernels("compare"))
        self.most_words = LIVE_SHARE * room_bytes / 4
        self.rng = random.Random(SEED)
        self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        self.wrong = cuda.alloc(8)      # not from pleat
        cuda.call("cuMemsetD8Async", self.wrong, 0, 8, None)
        torch.cuda.synchronize()
        self.live = []
        self.live_words = 0
        self.next_word = 0
        self.compared = self.refused = 0

    def launch(self, kernel, tensor, first, stream, *more):
        if self.cuda.is_simulated:
            self.simulate(kernel, tensor, first, stream)
            return
        self.cuda.launch(kernel, stream.cuda_stream, BLOCKS, ctypes.c_uint64(tensor.data_ptr()),
                         ctypes.c_uint64(tensor.numel()), ctypes.c_uint32(first), *more)

    def simulate(self, kernel, tensor, first, stream):
        """The simulator fills and compares the start of the tensor, by its number."""
        library = self.cuda.library
        work = library.pleat_sim_fill if kernel == self.fill else library.pleat_sim_verify
        result = work(ctypes.c_void_p(stream.cuda_stream), ctypes.c_uint64(tensor.data_ptr()),
                      ctypes.c_uint64(min(4 * tensor.numel(), SIMULATED_BYTES)),
                      ctypes.c_uint64(first))
        assert result == 0, self.cuda.name_of(result)

    def look(self, tensor, first, stream):
        self.launch(self.compare, tensor, first, stream, ctypes.c_uint64(self.wrong))
        self.compared += 1

    def drop(self):
        """Check a tensor on either stream, and free it at once."""
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
        while self.live and self.live_words + words > self.most_words:
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
            if self.live:
                self.drop()

    def n_wrong(self):
        """Waits for everything that was launched."""
        self.torch.cuda.synchronize()
        if self.cuda.is_simulated:
            return self.cuda.library.pleat_sim_hazards(None, ctypes.c_size_t(0))
        return self.cuda.read(self.wrong, ctypes.c_uint64, None).value


def rage(storm, seconds, n_taken, most_taken):
    """Until time is over, enough was taken, or a word was wrong. (rounds, wrong words)"""
    end = time.monotonic() + seconds
    rounds = wrong = 0
    while time.monotonic() < end and wrong == 0 and n_taken() < most_taken:
        for _ in range(LOOK_EVERY):
            storm.play()
        rounds += LOOK_EVERY
        if rounds % (16 * LOOK_EVERY) == 0:     # rarely: in between the host does not wait
            wrong = storm.n_wrong()
    while storm.live:
        storm.drop()
    return rounds, storm.n_wrong()


def main():
    options = driver.options(__doc__, ("--full", {"action": "store_true"}))
    begin = time.monotonic()
    is_simulated = torch_run.is_simulated()
    room = SIMULATED_ROOM_BYTES if is_simulated else ROOM_BYTES
    torch = torch_run.begin("pleat", *(() if options.full else (f"limit:{room}",)))
    import pleat
    cuda = driver.Driver()
    storm = Storm(torch, cuda, cuda.load(ptx.SOURCE), room)
    storm.play()                # loads the kernels
    storm.drop()
    if options.full:
        cuda.alloc(cuda.memory()[0] - room - (0 if is_simulated else SLACK_BYTES))
    rounds, wrong = rage(storm, options.seconds - (time.monotonic() - begin) - 2,
                         lambda: pleat.device_stats()["n_taken_granules"],
                         2 * LEAST_TAKEN if is_simulated else MOST_TAKEN)
    told = pleat.device_stats()
    out = {"binding": torch_run.binding(), "taken_granules": told["n_taken_granules"],
           "unmaps": told["ops_unmap"], "tensors": rounds, "refused": storm.refused}
    out |= {"compared": storm.compared, "wrong": wrong}
    if out["taken_granules"] < LEAST_TAKEN:
        out["problem"] = f"only {out['taken_granules']} granules were taken"
    driver.tell(out | {"ended_at": time.monotonic()})
    return 1 if "problem" in out else 0


if __name__ == "__main__":
    sys.exit(main())
