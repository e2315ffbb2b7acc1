#!/usr/bin/env python3
"""The cost of events: cuEventRecord, cuEventQuery, and cuCtxRecordEvent by the number of streams.

Medians in microseconds, over streams that are idle and over streams that work. One JSON object."""
import ctypes
import json
import sys

import driver
import ptx
from driver import median, quantile

STREAMS = (1, 8, 64)
ROUNDS = 300
WAIT_NS = 100_000_000   # longer than the rounds take; one thread each, so that 64 run at a time


def checked(cuda, symbol, allowed, rounds, *arguments):
    """Microseconds of one of many calls: the median and the 99th percentile."""
    values = []
    for _ in range(rounds):
        ns, result = cuda.timed(symbol, *arguments)
        if result not in allowed:
            raise driver.DriverError(symbol, result, cuda.name_of(result))
        values.append(ns)
    return [round(median(values) / 1000, 2), round(quantile(values, 0.99) / 1000, 2)]


class Streams:
    """With True the first n of them work, else none does."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.wait = cuda.load(ptx.SOURCE)("wait")
        self.all = []

    def grow(self, n):
        while len(self.all) < n:
            self.all.append(self.cuda.stream())
            self.launch(self.all[-1], 0)
        self.rest()

    def launch(self, stream, ns):
        self.cuda.launch(self.wait, stream, 1, ctypes.c_uint64(ns), threads=1)

    def work(self):
        for stream in self.all:
            self.launch(stream, WAIT_NS)

    def rest(self):
        for stream in self.all:
            self.cuda.call("cuStreamSynchronize", stream)


def of_one_stream(cuda, streams):
    """Records an event, and queries one that has passed and one that has not."""
    event, stream = cuda.event(), streams.all[0]
    out = {"cuEventRecord": checked(cuda, "cuEventRecord", (0,), ROUNDS, event, stream)}
    streams.rest()
    out["cuEventQuery, passed"] = checked(cuda, "cuEventQuery", (0,), ROUNDS, event)
    streams.work()
    cuda.call("cuEventRecord", event, stream)
    out["cuEventQuery, not yet"] = checked(cuda, "cuEventQuery", (0, driver.NOT_READY), ROUNDS,
                                           event)
    streams.rest()
    return out


def of_context(cuda, streams, n):
    event = cuda.event()
    out = {}
    for state in ("idle", "working"):
        if state == "working":
            streams.work()
        out[f"cuCtxRecordEvent, {n} {state}"] = checked(
            cuda, "cuCtxRecordEvent", (0,), ROUNDS, cuda.context, event)
        out[f"cuEventQuery of it, {n} {state}"] = checked(
            cuda, "cuEventQuery", (0, driver.NOT_READY), ROUNDS, event)
        streams.rest()
    return out


def main():
    cuda = driver.Driver()
    cuda.need("cuCtxRecordEvent")
    cuda.need_kernels()
    streams = Streams(cuda)
    costs = {"nothing": [round(cuda.nothing_ns() / 1000, 2)] * 2}
    for n in STREAMS:
        streams.grow(n)
        if n == 1:
            costs |= of_one_stream(cuda, streams)
        costs |= of_context(cuda, streams, n)
    said = "; ".join(f"{name} {cost[0]:g}" for name, cost in costs.items())
    print(json.dumps({"detail": f"median us: {said}", "us": costs}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
