#!/usr/bin/env python3
"""Does mapping stall running work? A kernel reads pages while a thread maps their neighbours.

Four passes of equal length: alone; beside a thread that makes harmless calls, which shows what two
threads of Python cost each other; beside one that creates and releases handles; beside one that
maps, gives access to and unmaps a handle between the pages that are read. In each a third thread
launches small kernels. One JSON object; exit status 1 if a read saw wrong bytes."""
import argparse
import ctypes
import json
import sys
import threading
import time

import driver
import ptx
from driver import quantile

LOG2_PAGES = 6          # read: 128 MiB, more than a GPU's cache
PAGE_BYTES = 4 << ptx.PAGE_LOG2
BLOCKS = 16             # of the kernel that reads: it leaves room for others
PAUSE_S = 200e-6        # between two launches
READ_LATE_S = 0.2       # the kernel runs longer than the work beside it


class Report(ctypes.Structure):
    """The result of `watch` (ptx.py)."""
    _fields_ = tuple((name, ctypes.c_uint64)
                     for name in ("rounds", "wrong", "longest", "clocks", "ns"))


class Neighbours:
    """Pages that are read, each followed by a hole of the same size."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.properties, self.access = cuda.properties(), cuda.access()
        n_pages = 1 << LOG2_PAGES
        self.base = cuda.get("cuMemAddressReserve", ctypes.c_uint64, 2 * n_pages * PAGE_BYTES,
                             0, 0, 0)
        self.holes = [self.base + (2 * i + 1) * PAGE_BYTES for i in range(n_pages)]
        for i in range(n_pages):
            self.map(self.base + 2 * i * PAGE_BYTES, self.create())
        self.spare = self.create()

    def create(self):
        return self.cuda.get("cuMemCreate", ctypes.c_uint64, PAGE_BYTES,
                             ctypes.byref(self.properties), 0)

    def map(self, at, handle):
        self.cuda.call("cuMemMap", at, PAGE_BYTES, 0, handle, 0)
        self.cuda.call("cuMemSetAccess", at, PAGE_BYTES, ctypes.byref(self.access), 1)

    def fill(self, kernel, stream):
        for i in range(len(self.holes)):
            self.cuda.launch(kernel, stream, 64, ctypes.c_uint64(self.base + 2 * i * PAGE_BYTES),
                             ctypes.c_uint64(1 << ptx.PAGE_LOG2),
                             ctypes.c_uint32(i << ptx.PAGE_LOG2))
        self.cuda.call("cuStreamSynchronize", stream)

    # ---- what is done beside the kernel, once ----

    def nothing(self, _turn):
        self.cuda.call("cuDriverGetVersion", ctypes.byref(ctypes.c_int()))

    def create_and_release(self, _turn):
        self.cuda.call("cuMemRelease", self.create())

    def map_and_unmap(self, turn):
        at = self.holes[turn % len(self.holes)]
        self.map(at, self.spare)
        self.cuda.call("cuMemUnmap", at, PAGE_BYTES)


class Beside(threading.Thread):
    """Repeats a function until it is told to stop; join() raises its error."""

    def __init__(self, cuda, once):
        super().__init__()
        self.cuda = cuda
        self.once = once
        self.is_over = threading.Event()
        self.turns = 0
        self.error = None

    def run(self):
        try:
            self.cuda.enter()
            while not self.is_over.is_set():
                self.once(self.turns)
                self.turns += 1
        except driver.DriverError as error:
            self.error = error

    def end(self):
        self.is_over.set()
        self.join()
        if self.error:
            raise self.error


class Launcher:
    """Launches a kernel of one word on its own stream and waits for it, timing both."""

    def __init__(self, cuda, kernel):
        self.cuda = cuda
        self.stream = cuda.stream()
        word = cuda.get("cuMemAlloc_v2", ctypes.c_uint64, 4)
        arguments = (ctypes.c_uint64(word), ctypes.c_uint64(1), ctypes.c_uint32(0))
        self.launch = ("cuLaunchKernel", kernel, 1, 1, 1, 32, 1, 1, 0, self.stream,
                       driver.packed(arguments), None)
        self.launches, self.ends = [], []

    def once(self, _turn):
        ns, result = self.cuda.timed(*self.launch)
        waited, ended = self.cuda.timed("cuStreamSynchronize", self.stream)
        for symbol, one in (("cuLaunchKernel", result), ("cuStreamSynchronize", ended)):
            if one != 0:
                raise driver.DriverError(symbol, one, self.cuda.name_of(one))
        self.launches.append(ns)
        self.ends.append(ns + waited)
        time.sleep(PAUSE_S)


def watched(cuda, kernels, neighbours, once, seconds):
    """One pass: the kernel's findings, the times of launches, the other thread's rounds."""
    stream = cuda.stream()
    out = cuda.get("cuMemAlloc_v2", ctypes.c_uint64, ctypes.sizeof(Report))
    cuda.call("cuMemsetD8Async", out, 0, ctypes.sizeof(Report), stream)
    launcher = Launcher(cuda, kernels("fill"))
    cuda.launch(kernels("watch"), stream, BLOCKS, ctypes.c_uint64(neighbours.base),
                ctypes.c_uint32(LOG2_PAGES), ctypes.c_uint32(2 * PAGE_BYTES),
                ctypes.c_uint64(int((seconds + READ_LATE_S) * 1e9)), ctypes.c_uint64(out))
    threads = [Beside(cuda, launcher.once)] + ([Beside(cuda, once)] if once else [])
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    was_running = cuda.result("cuStreamQuery", stream) == driver.NOT_READY
    for thread in threads:
        thread.end()
    found = figures(cuda.read(out, Report, stream), launcher)
    if not was_running:
        found["problem"] = "the kernel was over before the pass"
    return found | {"turns": threads[-1].turns if once else 0}


def figures(report, launcher):
    """Microseconds; and rounds per second, by the clock of the kernel's end."""
    ns_a_clock = report.ns / max(report.clocks, 1)
    return {"rounds_a_second": report.rounds / max(report.ns, 1) * 1e9,
            "longest_us": round(report.longest * ns_a_clock / 1000, 1),
            "wrong": report.wrong,
            "launch_us": spread(launcher.launches), "end_us": spread(launcher.ends)}


def spread(values):
    """Median, 99th percentile, most."""
    return [round(value / 1000, 1) for value in
            (quantile(values, 0.5), quantile(values, 0.99), max(values))] if values else []


def in_words(passes):
    alone = passes["alone"]["rounds_a_second"] or 1
    parts = []
    for name, found in passes.items():
        launches, ends = ("/".join(f"{us:g}" for us in found[key])
                          for key in ("launch_us", "end_us"))
        parts.append(f"{name} ({found['turns']}): reads {found['rounds_a_second'] / alone:.4f}, "
                     f"longest pause {found['longest_us']:g} us, launch {launches}, "
                     f"to its end {ends} us")
    return "; ".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="of each pass")
    options = parser.parse_args()
    cuda = driver.Driver()
    cuda.need_kernels()
    kernels = cuda.load(ptx.SOURCE)
    neighbours = Neighbours(cuda)
    neighbours.fill(kernels("fill"), cuda.stream())
    passes = {}
    for name, once in (("alone", None), ("beside harmless calls", neighbours.nothing),
                       ("beside create and release", neighbours.create_and_release),
                       ("beside map and unmap", neighbours.map_and_unmap)):
        passes[name] = watched(cuda, kernels, neighbours, once, options.seconds)
    out = {"detail": in_words(passes), "passes": passes}
    problems = [f"{name}: {found['wrong']} reads saw wrong bytes" if found["wrong"] else
                f"{name}: {found['problem']}" for name, found in passes.items()
                if found["wrong"] or "problem" in found]
    if problems:
        out["problem"] = "; ".join(problems)
    print(json.dumps(out))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
