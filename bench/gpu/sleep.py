#!/usr/bin/env python3
"""Let 8 GiB of tensors sleep and wake in three ways: contents kept on the host, kept in host memory
that stays, or discarded. Measured: the times, whether the driver has the memory meanwhile, and
whether every byte is back."""
import sys
import time

import driver
import torch_run

GIB, SIMULATED_BYTES = driver.GIB, 64 * driver.MIB
TENSOR_WORDS = 1 << 24      # 64 MiB
SIMULATED_WORDS = 1 << 20
TURN_S = 6                  # no turn begins with less time left


class Weights:
    """Tensors under a tag; tensor i holds `pattern` + i."""

    def __init__(self, torch, tag, n_bytes, words):
        self.torch = torch
        self.pattern = torch.randint(1 << 30, (words,), dtype=torch.int32,
                                     generator=torch.Generator().manual_seed(3))
        with tag("weights"):
            self.tensors = [torch.empty(words, dtype=torch.int32, device="cuda")
                            for _ in range(n_bytes // (4 * words))]
        for i, tensor in enumerate(self.tensors):
            tensor.copy_(self.pattern + i)
        torch.cuda.synchronize()

    def n_wrong(self, every, first):
        return sum(int((self.tensors[i].cpu() != self.pattern + i).sum())
                   for i in range(first, len(self.tensors), every))


def in_mib(n_bytes):
    return round(n_bytes / driver.MIB)


def turn(torch, weights, keep, checked):
    """One sleep and one wake. `checked` picks every n-th tensor from a first one on; () = none."""
    import pleat.torch
    free = [torch.cuda.mem_get_info()[0]]
    times = []
    for call in (lambda: pleat.torch.sleep("weights", keep=keep),
                 lambda: pleat.torch.wake("weights")):
        begin = time.monotonic()
        done = call()
        times.append(round(time.monotonic() - begin, 4))
        free.append(torch.cuda.mem_get_info()[0])
    found = {"sleep_s": times[0], "wake_s": times[1], "mib": in_mib(done.bytes),
             "given_mib": in_mib(free[1] - free[0]), "left_mib": in_mib(free[0] - free[2])}
    return found | ({"wrong": weights.n_wrong(*checked)} if checked else {})


def main():
    options = driver.options(__doc__)
    end = time.monotonic() + options.seconds
    is_simulated = torch_run.is_simulated()
    torch = torch_run.begin()
    import pleat.torch
    weights = Weights(torch, pleat.torch.tag, SIMULATED_BYTES if is_simulated else 8 * GIB,
                      SIMULATED_WORDS if is_simulated else TENSOR_WORDS)
    out = {"binding": torch_run.binding(), "turns": {}}
    for name, keep, checked in (
            ("host", "host", (2, 0)), ("host, retained", "host", (8, 1)),
            ("host, retained again", "host", (2, 1)), ("discard", "discard", ())):
        if time.monotonic() > end - TURN_S:
            out["turns"][name] = {"skipped": "there was no time left"}
            continue
        if name == "host, retained":
            pleat.torch.retain("weights")
        out["turns"][name] = turn(torch, weights, keep, checked)
        driver.tell(out)
        if out["turns"][name].get("wrong"):
            return 0
    driver.tell(out | {"ended_at": time.monotonic()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
