#!/usr/bin/env python3
"""Climb to a full device with handles like pleat's, and end while they are alive.

On the way: the cost of creating, mapping, giving access, unmapping and releasing a handle, by the
number of live handles. At the top:

* the first refused call;
* the cost of mapping at fresh addresses;
* the time of a step in a chain of pointers through all pages.

run.py measures how long the process takes to end."""
import ctypes
import random
import sys
import time

import driver
import ptx
from driver import median, quantile

RUN = 64                    # handles per set-access and per unmap
LEAST_LEVEL = 1024          # live handles at the first level; each level doubles them
UP_SHARE = 0.55             # of the time
FRESH_RUNS, BACK_RUNS = 4, 16
CHAIN_PAGES = 4096          # of the first chain, and of its counterpart
OPERATIONS = ("create", "map", "access", "unmap", "release")


def level_of(n_alive):
    """The least number of a level: 0, 1,024, 2,048, 4,096, ..."""
    return 0 if n_alive < LEAST_LEVEL else 1 << (n_alive.bit_length() - 1)


class Samples:
    """Nanoseconds of each operation, by the number of handles alive."""

    def __init__(self):
        self.levels = {}

    def add(self, operation, n_alive, values):
        found = self.levels.setdefault(level_of(n_alive), {})
        found.setdefault(operation, []).extend(values)

    def table(self):
        """Microseconds per handle: the median of each level, and the excess of the slowest
        creations."""
        rows = []
        for level in sorted(self.levels):
            found = self.levels[level]
            row = {"alive": level} | {name: median(found[name]) / 1000 for name in OPERATIONS
                                      if found.get(name)}
            row["create_p99"] = quantile(found.get("create", [0]), 0.99) / 1000
            rows.append({key: round(value, 2) for key, value in row.items()})
        return rows


class Climb:
    """A range as large as the device, filled from its start in runs of handles."""

    def __init__(self, cuda, handle_bytes, most):
        self.cuda = cuda
        self.bytes = handle_bytes
        self.most = most
        self.properties = cuda.properties()
        self.access = cuda.access()
        self.samples = Samples()
        self.handles = []
        self.base = cuda.reserve(most * handle_bytes)
        self.refused = None         # (call, answer) that ended the climb

    def address(self, index):
        return self.base + index * self.bytes

    def is_done(self, symbol, operation, n_alive, share, *arguments):
        """Make a call and note its time. False if the driver refuses."""
        ns, result = self.cuda.timed(symbol, *arguments)
        if result != 0:
            self.refused = (symbol, self.cuda.name_of(result))
            return False
        self.samples.add(operation, n_alive, [ns / share])
        return True

    def climb_run(self):
        """Create and map up to RUN handles. False when the driver refused. A handle that could not
        be created, mapped or given access is not counted."""
        first, made = len(self.handles), []
        for _ in range(min(RUN, self.most - first)):
            handle = ctypes.c_uint64()
            if not self.is_done("cuMemCreate", "create", first + len(made), 1,
                                ctypes.byref(handle), self.bytes, ctypes.byref(self.properties),
                                0):
                break
            made.append(handle.value)
        for handle in made:
            if not self.is_done("cuMemMap", "map", first, 1, self.address(len(self.handles)),
                                self.bytes, 0, handle, 0):
                return False
            self.handles.append(handle)
        n = len(made)
        return (n == 0 or self.give_access(first, n)) and self.refused is None

    def give_access(self, first, n):
        if self.is_done("cuMemSetAccess", "access", first, n, self.address(first), n * self.bytes,
                        ctypes.byref(self.access), 1):
            return True
        del self.handles[first:]
        return False

    def go(self, seconds):
        end = time.monotonic() + seconds
        while len(self.handles) < self.most and time.monotonic() < end and self.climb_run():
            pass
        return len(self.handles)

    def take_back(self):
        n = min(RUN, len(self.handles))
        first = len(self.handles) - n
        if not self.is_done("cuMemUnmap", "unmap", first, n, self.address(first), n * self.bytes):
            return False
        return all(self.is_done("cuMemRelease", "release", first, 1, self.handles.pop())
                   for _ in range(n))


def moved(cuda, climb, first, old, new):
    """Microseconds a handle to map a run of handles at `new` instead of `old`, access included."""
    access = cuda.access()
    cuda.call("cuMemUnmap", old, RUN * climb.bytes)
    begin = time.perf_counter_ns()
    for i in range(RUN):
        cuda.call("cuMemMap", new + i * climb.bytes, climb.bytes, 0, climb.handles[first + i], 0)
    cuda.call("cuMemSetAccess", new, RUN * climb.bytes, ctypes.byref(access), 1)
    return round((time.perf_counter_ns() - begin) / RUN / 1000, 2)


def fresh_addresses(cuda, climb):
    """Medians of mapping where nothing was mapped before, and back where the handles were."""
    fresh, back = [], []
    for k in range(min(FRESH_RUNS, len(climb.handles) // RUN)):
        first, there = k * RUN, cuda.reserve(RUN * climb.bytes)
        fresh.append(moved(cuda, climb, first, climb.address(first), there))
        back.append(moved(cuda, climb, first, there, climb.address(first)))
    return {"fresh": median(fresh), "back": median(back)}


class Chain:
    """A cycle of pointers through pages, one a page, in no order."""

    def __init__(self, cuda):
        self.cuda, self.stream = cuda, cuda.stream()
        self.kernel = cuda.load(ptx.SOURCE)("chase")
        self.out = cuda.alloc(16)
        cuda.call("cuMemsetD8Async", self.out, 0, 16, self.stream)
        self.follow(self.out, 1)    # loads the kernel before the device is full

    def follow(self, start, steps):
        """(nanoseconds, the last address)"""
        self.cuda.launch(self.kernel, self.stream, 1, ctypes.c_uint64(start),
                         ctypes.c_uint32(steps), ctypes.c_uint64(self.out), threads=1)
        return tuple(self.cuda.read(self.out, ctypes.c_uint64 * 2, self.stream))

    def measure(self, pages):
        """Nanoseconds a step, the first time and once more. `wrong` if the chain ends at the wrong
        place."""
        rng = random.Random(len(pages))
        nodes = [page + 128 * rng.randrange(driver.MIB // 64) for page in pages]
        rng.shuffle(nodes)
        following = (ctypes.c_uint64 * len(nodes))(*nodes[1:], nodes[0])
        at = ctypes.addressof(following)
        for i, node in enumerate(nodes):
            self.cuda.call("cuMemcpyHtoDAsync_v2", node, at + 8 * i, 8, self.stream)
        self.cuda.call("cuStreamSynchronize", self.stream)
        passes = [self.follow(nodes[0], len(nodes)) for _ in range(2)]
        if self.cuda.is_simulated:
            return {"pages": len(nodes), "skipped": driver.NO_KERNELS}
        return {"pages": len(nodes), "first_ns": round(passes[0][0] / len(nodes), 1),
                "again_ns": round(passes[1][0] / len(nodes), 1),
                "wrong": sum(last != nodes[0] for _, last in passes)}


def chain_of_plain(cuda, chain, n_pages):
    """The chain through one allocation of cuMemAlloc."""
    base = cuda.alloc(n_pages * 2 * driver.MIB)
    found = chain.measure([base + i * 2 * driver.MIB for i in range(n_pages)])
    cuda.call("cuMemFree_v2", base)
    return found


def main():
    options = driver.options(__doc__, ("--mib", {"type": int, "default": 2}))
    begin = time.monotonic()
    cuda = driver.Driver()
    if not cuda.attribute(driver.VMM):
        driver.skip("the device has no virtual memory management")
    handle_bytes, free_bytes = options.mib * driver.MIB, cuda.memory()[0]
    n_pages = min(CHAIN_PAGES, free_bytes // (4 * driver.MIB))
    out, chain = {"handle_mib": options.mib, "free_bytes": free_bytes}, None
    if options.mib == 2:
        chain = Chain(cuda)
        out["chains"] = {"cuMemAlloc": driver.attempt(chain_of_plain, cuda, chain, n_pages)}
    climb = Climb(cuda, handle_bytes, free_bytes // handle_bytes + RUN)
    out |= {"most_alive": climb.go(UP_SHARE * options.seconds), "refused": climb.refused,
            "left_bytes": cuda.memory()[0]}
    driver.tell(out)
    if chain and climb.handles:
        pages = [climb.address(i) for i in range(len(climb.handles))]
        out["chains"] |= {"handles": driver.attempt(chain.measure, pages[:n_pages]),
                          "all handles": driver.attempt(chain.measure, pages)}
        out["map_us"] = driver.attempt(fresh_addresses, cuda, climb)
        driver.tell(out)
    for _ in range(BACK_RUNS):
        if time.monotonic() - begin > options.seconds or \
                len(climb.handles) <= out["most_alive"] / 2:
            break
        climb.take_back()
    out |= {"left_alive": len(climb.handles), "us": climb.samples.table(),
            "nothing_us": round(cuda.nothing_ns() / 1000, 2), "ended_at": time.monotonic()}
    driver.tell(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
