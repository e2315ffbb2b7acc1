#!/usr/bin/env python3
"""Answers of a destroyed stream or event, each call in a separate process.

The reference calls this undefined behaviour, so pleat must not depend on it. The simulator must not
be kinder."""
import ctypes
import sys

import ask
import driver
import ptx

WAIT_NS = 300_000_000
OF_STREAMS = ("cuStreamQuery", "cuStreamIsCapturing", "cuStreamGetId", "cuStreamGetCtx",
              "cuEventRecord", "cuStreamWaitEvent", "cuStreamSynchronize", "cuLaunchKernel")
OF_EVENTS = ("cuEventQuery", "cuEventRecord", "cuEventSynchronize", "cuStreamWaitEvent",
             "cuEventDestroy_v2")
WHEN = ("work over", "work runs", "another made")
# One question per group, since a process can crash only once.
GROUPS = {f"{name}, {when}": ("stream",) for when in WHEN for name in OF_STREAMS
          if when != "work runs" or name in OF_STREAMS[:3]} | {
    f"{name}, event": ("event",) for name in OF_EVENTS}


def of_stream(cuda, symbol, when):
    stream, event, out = cuda.stream(), cuda.event(), ctypes.c_uint64()
    wait = cuda.load(ptx.SOURCE)("wait")
    cuda.launch(wait, stream, 1, ctypes.c_uint64(0), threads=1)     # loads the kernel
    cuda.call("cuEventRecord", event, stream)
    cuda.call("cuStreamSynchronize", stream)
    if when == "work runs":
        cuda.launch(wait, stream, 1, ctypes.c_uint64(WAIT_NS), threads=1)
    cuda.call("cuStreamDestroy_v2", stream)
    said = ""
    if when == "another made":
        said = ", the handle again" if cuda.stream() == stream else ", another handle"
    launched = driver.packed((ctypes.c_uint64(0),))
    arguments = {"cuEventRecord": (event, stream), "cuStreamWaitEvent": (stream, event, 0),
                 "cuLaunchKernel": (wait, 1, 1, 1, 1, 1, 1, 0, stream, launched, None)}
    if symbol in ("cuStreamIsCapturing", "cuStreamGetId", "cuStreamGetCtx"):
        arguments[symbol] = (stream, ctypes.byref(out))
    return cuda.name_of(cuda.result(symbol, *arguments.get(symbol, (stream,)))) + said


def of_event(cuda, symbol):
    stream, event = cuda.stream(), cuda.event()
    cuda.call("cuEventRecord", event, stream)
    cuda.call("cuStreamSynchronize", stream)
    cuda.call("cuEventDestroy_v2", event)
    arguments = {"cuEventRecord": (event, stream), "cuStreamWaitEvent": (stream, event, 0)}
    return cuda.name_of(cuda.result(symbol, *arguments.get(symbol, (event,))))


def answer(cuda, group, kind):
    symbol, _, when = group.partition(", ")
    if not cuda.has(symbol):
        return f"skipped: the driver has no {symbol}"
    return of_event(cuda, symbol) if kind == "event" else of_stream(cuda, symbol, when)


if __name__ == "__main__":
    sys.exit(ask.main(__file__, __doc__, GROUPS, answer))
