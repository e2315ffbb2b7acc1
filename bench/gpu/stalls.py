#!/usr/bin/env python3
"""Does mapping stall running work, and does running work stall mapping?

A matrix. Rows: no calls, or map and unmap. Columns: an idle device, a kernel that reads and checks
the neighbours of the mapped pages, copies, a stream with a full launch queue. A third thread
launches small kernels on its own stream. At last, the cost of events by the number of streams."""
import ctypes
import sys
import threading
import time

import driver
import ptx
from driver import spread

LOG2_PAGES = 6          # read: 128 MiB, more than a GPU's cache
PAGE_BYTES = 4 << ptx.PAGE_LOG2
BLOCKS = 16             # of the reading kernel, which leaves room for other kernels
PAUSE_S = 200e-6        # between two launches
START_S = 4             # for the driver, and for making objects
LATE_S = 0.2            # a kernel runs longer than the work beside it
COPY_BYTES, COPIES = 64 * driver.MIB, 4     # copies in flight
ROUNDS = 200            # of an event's cost


class Report(ctypes.Structure):
    """The result of `watch` (ptx.py)."""
    _fields_ = tuple((name, ctypes.c_uint64)
                     for name in ("rounds", "wrong", "longest", "clocks", "ns"))


class Neighbours:
    """Pages for the reading kernel, each followed by a hole of equal size."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.access = cuda.access()
        n_pages = 1 << LOG2_PAGES
        self.base = cuda.reserve(2 * n_pages * PAGE_BYTES)
        self.holes = [self.base + (2 * i + 1) * PAGE_BYTES for i in range(n_pages)]
        for i in range(n_pages):
            cuda.map(self.base + 2 * i * PAGE_BYTES, PAGE_BYTES, cuda.create(PAGE_BYTES))
        self.spare = cuda.create(PAGE_BYTES)
        self.times = []

    def fill(self, kernel, stream):
        for i in range(len(self.holes)):
            self.cuda.launch(kernel, stream, 64, ctypes.c_uint64(self.base + 2 * i * PAGE_BYTES),
                             ctypes.c_uint64(1 << ptx.PAGE_LOG2),
                             ctypes.c_uint32(i << ptx.PAGE_LOG2))
        self.cuda.call("cuStreamSynchronize", stream)

    def map_and_unmap(self, turn):
        at = self.holes[turn % len(self.holes)]
        times = []
        for symbol, *arguments in (("cuMemMap", at, PAGE_BYTES, 0, self.spare, 0),
                                   ("cuMemSetAccess", at, PAGE_BYTES, ctypes.byref(self.access), 1),
                                   ("cuMemUnmap", at, PAGE_BYTES)):
            ns, result = self.cuda.timed(symbol, *arguments)
            if result != 0:
                raise driver.DriverError(symbol, result, self.cuda.name_of(result))
            times.append(ns)
        self.times.append(times)

    def told(self):
        """Median, 99th percentile and maximum of each call."""
        columns = list(zip(*self.times))
        self.times = []
        return {name: spread(column) for name, column in
                zip(("map", "access", "unmap"), columns)}


class Beside(threading.Thread):
    """Repeats a function until it is told to stop."""

    def __init__(self, cuda, once):
        super().__init__(daemon=True)
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


def end_all(threads):
    """Raises the first error of a thread, once all threads have ended."""
    for thread in threads:
        thread.is_over.set()
    for thread in threads:
        thread.join()
    for thread in threads:
        if thread.error:
            raise thread.error


class Launcher:
    """Launches a one-word kernel on a separate stream, waits for it, and times both."""

    def __init__(self, cuda, kernel):
        self.cuda = cuda
        self.stream = cuda.stream()
        arguments = (ctypes.c_uint64(cuda.alloc(4)), ctypes.c_uint64(1), ctypes.c_uint32(0))
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

    def told(self):
        found = {"launch_us": spread(self.launches), "end_us": spread(self.ends)}
        self.launches, self.ends = [], []
        return found


# ---- what the device does meanwhile -------------------------------------------------------------

class Idle:
    needs_kernels = False

    def __init__(self, *_places):
        pass

    def begin(self, _seconds):
        pass

    def end(self):
        return {}


class Reading:
    """A kernel reads the pages."""
    needs_kernels = True

    def __init__(self, cuda, kernels, neighbours):
        self.cuda, self.kernel, self.base = cuda, kernels("watch"), neighbours.base
        self.stream, self.out = cuda.stream(), cuda.alloc(ctypes.sizeof(Report))

    def begin(self, seconds):
        self.cuda.call("cuMemsetD8Async", self.out, 0, ctypes.sizeof(Report), self.stream)
        self.cuda.launch(self.kernel, self.stream, BLOCKS, ctypes.c_uint64(self.base),
                         ctypes.c_uint32(LOG2_PAGES), ctypes.c_uint32(2 * PAGE_BYTES),
                         ctypes.c_uint64(int((seconds + LATE_S) * 1e9)),
                         ctypes.c_uint64(self.out))

    def end(self):
        was_running = self.cuda.result("cuStreamQuery", self.stream) == driver.NOT_READY
        return told_of(self.cuda.read(self.out, Report, self.stream)) | {
            "was_running": was_running}


def told_of(report):
    """Rounds a second and the longest pause, by the kernel's own clocks."""
    ns_a_clock = report.ns / max(report.clocks, 1)
    return {"rounds_a_second": round(report.rounds / max(report.ns, 1) * 1e9),
            "longest_us": round(report.longest * ns_a_clock / 1000, 1), "wrong": report.wrong}


class Copying:
    """Copies within the device, a few at a time."""
    needs_kernels = False

    def __init__(self, cuda, *_places):
        self.cuda, self.stream = cuda, cuda.stream()
        self.source, self.target = cuda.alloc(COPY_BYTES), cuda.alloc(COPY_BYTES)
        self.events = [cuda.event() for _ in range(COPIES)]

    def once(self, turn):
        event = self.events[turn % COPIES]
        self.cuda.call("cuEventSynchronize", event)
        self.cuda.call("cuMemcpyDtoDAsync_v2", self.target, self.source, COPY_BYTES, self.stream)
        self.cuda.call("cuEventRecord", event, self.stream)

    def begin(self, _seconds):
        self.began = time.monotonic()
        self.thread = Beside(self.cuda, self.once)
        self.thread.start()

    def end(self):
        end_all([self.thread])
        self.cuda.call("cuStreamSynchronize", self.stream)
        seconds = time.monotonic() - self.began
        return {"gb_a_second": round(self.thread.turns * COPY_BYTES / seconds / 1e9, 1)}


class Queueing:
    """Launches behind a kernel that runs long, until the queue is full and the driver lets the
    thread wait."""
    needs_kernels = True

    def __init__(self, cuda, kernels, _neighbours):
        self.cuda, self.wait, self.fill = cuda, kernels("wait"), kernels("fill")
        self.stream, self.word = cuda.stream(), cuda.alloc(4)

    def once(self, _turn):
        self.cuda.launch(self.fill, self.stream, 1, ctypes.c_uint64(self.word), ctypes.c_uint64(1),
                         ctypes.c_uint32(0), threads=32)

    def begin(self, seconds):
        self.cuda.launch(self.wait, self.stream, 1,
                         ctypes.c_uint64(int((seconds + LATE_S) * 1e9)), threads=1)
        self.thread = Beside(self.cuda, self.once)
        self.thread.start()

    def end(self):
        queued = self.thread.turns
        end_all([self.thread])
        self.cuda.call("cuStreamSynchronize", self.stream)
        return {"launched_behind": queued}


BACKGROUNDS = {"idle": Idle, "kernel": Reading, "copies": Copying, "full queue": Queueing}


def passed(cuda, background, neighbours, launcher, is_mapping, seconds):
    """One cell of the matrix."""
    threads = [Beside(cuda, launcher.once)]
    if is_mapping:
        threads.append(Beside(cuda, neighbours.map_and_unmap))
    background.begin(seconds)
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    try:
        found = background.end()
    finally:
        end_all(threads)
    found |= launcher.told()
    return found | ({"turns": threads[1].turns, "us": neighbours.told()} if is_mapping else {})


# ---- events -------------------------------------------------------------------------------------

def cost_of(cuda, symbol, *arguments):
    times = []
    for _ in range(ROUNDS):
        ns, result = cuda.timed(symbol, *arguments)
        if result not in (0, driver.NOT_READY):
            raise driver.DriverError(symbol, result, cuda.name_of(result))
        times.append(ns)
    return spread(times)[:2]


def event_costs(cuda):
    """Median and 99th percentile of an event behind all work of the context, and of asking it."""
    if not cuda.has("cuCtxRecordEvent"):
        return {"skipped": "the driver has no cuCtxRecordEvent"}
    streams, event, costs = [], cuda.event(), {}
    word = cuda.alloc(4)
    for n in (1, 8, 64):
        streams += [cuda.stream() for _ in range(n - len(streams))]
        for stream in streams:
            cuda.call("cuMemsetD8Async", word, 0, 4, stream)
        costs[f"cuCtxRecordEvent, {n} streams"] = cost_of(cuda, "cuCtxRecordEvent", cuda.context,
                                                          event)
        costs[f"cuEventQuery of it, {n} streams"] = cost_of(cuda, "cuEventQuery", event)
    costs["cuEventRecord"] = cost_of(cuda, "cuEventRecord", event, streams[0])
    return costs


def main():
    options = driver.options(__doc__)
    cuda = driver.Driver()
    kernels = cuda.load(ptx.SOURCE)
    neighbours = Neighbours(cuda)
    launcher = Launcher(cuda, kernels("fill"))
    neighbours.fill(kernels("fill"), cuda.stream())
    launcher.once(0)
    launcher.told()
    out = {"cells": {}, "us": driver.attempt(event_costs, cuda)}
    seconds = LATE_S if cuda.is_simulated else \
        max((options.seconds - START_S) / (2 * len(BACKGROUNDS)) - LATE_S, LATE_S)
    for name, kind in BACKGROUNDS.items():
        background = kind(cuda, kernels, neighbours)
        for is_mapping in (False, True):
            found = driver.attempt(passed, cuda, background, neighbours, launcher, is_mapping,
                                   seconds)
            if kind.needs_kernels and cuda.is_simulated:
                found = {"skipped": driver.NO_KERNELS}
            out["cells"][f"{name}, {'map and unmap' if is_mapping else 'nothing'}"] = found
            driver.tell(out)
    driver.tell(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
