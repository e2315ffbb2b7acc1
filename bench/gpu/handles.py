#!/usr/bin/env python3
"""The cost of a handle while many are alive: create, map, set-access, unmap, release, by their
number.

  handles.py --mib 2 --seconds 9

Handles are made, mapped and given access until the device is full or half the time is over, then
taken back. One JSON object: microseconds a handle by the number alive. Nothing is timed on the
simulated driver."""
import argparse
import ctypes
import json
import sys
import time

import driver
from driver import median, quantile

MIB = 1 << 20
SPARE_BYTES = 512 * MIB     # of the device, left to others
RUN = 64                    # handles per set-access and per unmap
LEAST_LEVEL = 1024          # handles alive: each doubling from here on is a level
UP_SHARE = 0.6              # of the time
OPERATIONS = ("create", "map", "access", "unmap", "release")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--mib", type=int, required=True, help="size of a handle")
    parser.add_argument("--seconds", type=float, required=True, help="at most, together")
    parser.add_argument("--most", type=int, help="handles (default: what the device holds)")
    return parser.parse_args()


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
        """Microseconds per handle: the median of each level, and how far the slowest creations are
        off."""
        rows = []
        for level in sorted(self.levels):
            found = self.levels[level]
            row = {"alive": level} | {name: median(found[name]) / 1000 for name in OPERATIONS
                                      if found.get(name)}
            row["create_p99"] = quantile(found.get("create", [0]), 0.99) / 1000
            rows.append({key: round(value, 2) for key, value in row.items()})
        return rows


class Climb:
    """A range as large as the device, filled from its start, one run of handles at a time."""

    def __init__(self, cuda, handle_bytes, most):
        self.cuda = cuda
        self.bytes = handle_bytes
        self.most = most // RUN * RUN
        self.properties = cuda.properties()
        self.access = cuda.access()
        self.samples = Samples()
        self.handles = []
        self.base = cuda.get("cuMemAddressReserve", ctypes.c_uint64, self.most * handle_bytes,
                             0, 0, 0)

    def address(self, index):
        return self.base + index * self.bytes

    def create_run(self):
        """False, with nothing of the run left, when the device is full."""
        times, made = [], []
        for _ in range(RUN):
            handle = ctypes.c_uint64()
            ns, result = self.cuda.timed("cuMemCreate", ctypes.byref(handle), self.bytes,
                                         ctypes.byref(self.properties), 0)
            if result == driver.OUT_OF_MEMORY:
                for one in made:
                    self.cuda.call("cuMemRelease", one)
                return False
            self.checked("cuMemCreate", result)
            made.append(handle.value)
            times.append(ns)
        self.samples.add("create", len(self.handles), times)
        self.map_run(made)
        return True

    def map_run(self, made):
        first, times = len(self.handles), []
        for handle in made:
            ns, result = self.cuda.timed("cuMemMap", self.address(len(self.handles)), self.bytes,
                                         0, handle, 0)
            self.checked("cuMemMap", result)
            self.handles.append(handle)
            times.append(ns)
        self.samples.add("map", first, times)
        ns, result = self.cuda.timed("cuMemSetAccess", self.address(first), RUN * self.bytes,
                                     ctypes.byref(self.access), 1)
        self.checked("cuMemSetAccess", result)
        self.samples.add("access", first, [ns / RUN])

    def take_run_back(self):
        first = len(self.handles) - RUN
        ns, result = self.cuda.timed("cuMemUnmap", self.address(first), RUN * self.bytes)
        self.checked("cuMemUnmap", result)
        self.samples.add("unmap", first, [ns / RUN])
        times = []
        for _ in range(RUN):
            ns, result = self.cuda.timed("cuMemRelease", self.handles.pop())
            self.checked("cuMemRelease", result)
            times.append(ns)
        self.samples.add("release", first, times)

    def checked(self, symbol, result):
        if result != 0:
            raise driver.DriverError(symbol, result, self.cuda.name_of(result))

    def go(self, seconds):
        """Returns the most handles that were alive."""
        begin = time.monotonic()
        while (len(self.handles) < self.most and
               time.monotonic() - begin < UP_SHARE * seconds and self.create_run()):
            pass
        most = len(self.handles)
        while self.handles and time.monotonic() - begin < seconds:
            self.take_run_back()
        return most


def in_words(most, rows):
    """First and last level of each operation."""
    parts = [f"{name} {rows[0][name]:g} to {rows[-1][name]:g}" for name in OPERATIONS
             if name in rows[0] and name in rows[-1]]
    return f"{most} alive; us a handle, first to last level: " + ", ".join(parts)


def main():
    options = parse()
    cuda = driver.Driver()
    cuda.need("cuMemCreate")
    if not cuda.has_vmm():
        driver.present.leave("the device has no virtual memory management")
    handle_bytes = options.mib * MIB
    room = max(cuda.memory()[0] - SPARE_BYTES, 0) // handle_bytes
    climb = Climb(cuda, handle_bytes, max(min(options.most or room, room), RUN))
    most = climb.go(options.seconds)
    if most == 0:
        print(json.dumps({"problem": f"the device has no room for {RUN} handles"}))
        return 1
    out = {"handle_mib": options.mib, "most_alive": most, "left_alive": len(climb.handles)}
    if cuda.is_simulated:
        out["detail"] = f"{most} alive; nothing is timed on the simulated driver"
    else:
        rows = climb.samples.table()
        out |= {"us": rows, "nothing_us": round(cuda.nothing_ns() / 1000, 2),
                "detail": in_words(most, rows)}
    print(json.dumps(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
