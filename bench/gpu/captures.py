#!/usr/bin/env python3
"""Which calls are forbidden during a capture, and which calls break the capture? Tries every call
of pleat on two threads (the capturing one and another), in each capture mode, as a plain and as a
relaxed caller. Also: when is an object destroyed that belongs to a captured graph?"""
import ctypes
import sys
import threading
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

import ask
import driver
import ptx

MODES = {"global": driver.GLOBAL, "thread-local": driver.THREAD_LOCAL, "relaxed": driver.RELAXED}
BYTES = 2 * driver.MIB
NO_DESTRUCTOR_SYNC = MOVE = 1       # flags of a user object, of giving it to a graph
WAIT_NS = 200_000_000
SOON_S, LATE_S = 0.02, 2.0          # a destructor that runs at all runs by then


class Calls:
    """Each call with its arguments. The order of NAMES follows memory through its whole life."""

    NAMES = ("cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemGetAccess",
             "cuMemGetAllocationGranularity", "cuMemRetainAllocationHandle",
             "cuMemExportToShareableHandle", "cuMemUnmap", "cuMemRelease", "cuMemAddressFree",
             "cuMemGetInfo_v2", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc",
             "cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventSynchronize",
             "cuEventDestroy_v2", "cuStreamCreate", "cuStreamQuery", "cuStreamSynchronize",
             "cuStreamWaitEvent", "cuStreamGetId", "cuStreamGetCtx", "cuStreamDestroy_v2",
             "cuStreamIsCapturing of the captured", "cuStreamGetId of the captured",
             "cuCtxRecordEvent", "cuCtxSynchronize")

    def __init__(self, cuda):
        self.cuda = cuda
        self.properties, self.access_of = cuda.properties(), cuda.access()
        self.base, self.handle, self.again, self.plain = (c_uint64() for _ in range(4))
        self.out, self.more, self.made_event, self.made_stream = (c_void_p() for _ in range(4))
        self.stream, self.event = cuda.stream(), cuda.event()
        cuda.call("cuEventRecord", self.event, self.stream)

    def arguments(self, name, captured):
        out, more = byref(self.out), byref(self.more)
        return {
            "cuMemAddressReserve": (byref(self.base), BYTES, 0, 0, 0),
            "cuMemCreate": (byref(self.handle), BYTES, byref(self.properties), 0),
            "cuMemMap": (self.base, BYTES, 0, self.handle, 0),
            "cuMemSetAccess": (self.base, BYTES, byref(self.access_of), 1),
            "cuMemGetAccess": (out, byref(self.access_of.location), self.base),
            "cuMemGetAllocationGranularity": (out, byref(self.properties), 0),
            "cuMemRetainAllocationHandle": (byref(self.again), self.base.value),
            "cuMemExportToShareableHandle": (out, self.handle, driver.FILE_DESCRIPTOR, 0),
            "cuMemUnmap": (self.base, BYTES),
            "cuMemRelease": (self.handle,),
            "cuMemAddressFree": (self.base, BYTES),
            "cuMemGetInfo_v2": (out, more),
            "cuMemAlloc_v2": (byref(self.plain), BYTES),
            "cuMemFree_v2": (self.plain,),
            "cuMemHostAlloc": (out, BYTES, 0),
            "cuEventCreate": (byref(self.made_event), driver.DISABLE_TIMING),
            "cuEventRecord": (self.made_event, self.stream),
            "cuEventQuery": (self.event,),
            "cuEventSynchronize": (self.event,),
            "cuEventDestroy_v2": (self.made_event,),
            "cuStreamCreate": (byref(self.made_stream), driver.NON_BLOCKING),
            "cuStreamQuery": (self.stream,),
            "cuStreamSynchronize": (self.stream,),
            "cuStreamWaitEvent": (self.stream, self.event, 0),
            "cuStreamGetId": (self.stream, out),
            "cuStreamGetCtx": (self.stream, out),
            "cuStreamDestroy_v2": (self.made_stream,),
            "cuStreamIsCapturing of the captured": (captured, out),
            "cuStreamGetId of the captured": (captured, out),
            "cuCtxRecordEvent": (self.cuda.context, self.event),
            "cuCtxSynchronize": (),
        }[name]

    def make(self, name, captured):
        return self.cuda.result(name.partition(" ")[0], *self.arguments(name, captured))


def relaxed(cuda, call):
    mode = c_int(driver.RELAXED)
    cuda.call("cuThreadExchangeStreamCaptureMode", byref(mode))
    answer = call()
    cuda.call("cuThreadExchangeStreamCaptureMode", byref(mode))
    return answer


def on_another_thread(cuda, call):
    answers = []

    def run():
        cuda.enter()
        answers.append(call())
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return answers[0] if answers else -1


def fate_of(cuda, stream, at):
    """0 if the capture gives a running graph, else the first error."""
    after = cuda.result("cuMemsetD8Async", at, 2, BYTES, stream)
    graph, executable = c_void_p(), c_void_p()
    ended = cuda.result("cuStreamEndCapture", stream, byref(graph))
    for symbol, *arguments in (
            ("cuGraphInstantiateWithFlags", byref(executable), graph, 0),
            ("cuGraphLaunch", executable, stream), ("cuStreamSynchronize", stream)):
        if after or ended:
            break
        ended = cuda.result(symbol, *arguments)
    return after or ended


CALLS = []      # of this process


def in_capture(cuda, situation, name):
    """The call's answer in the situation, and the state of the capture afterwards. A refused call
    is repeated after the capture, since the next calls need its object."""
    if not cuda.has(name.partition(" ")[0]):
        return f"skipped: the driver has no {name}"
    if not CALLS:
        CALLS.append(Calls(cuda))
    mode, thread, caller = situation.split("/")
    stream, at = cuda.stream(), cuda.alloc(BYTES)
    cuda.call("cuStreamBeginCapture_v2", stream, MODES[mode])
    cuda.call("cuMemsetD8Async", at, 1, BYTES, stream)

    def call():
        return CALLS[0].make(name, stream)

    def as_caller():
        return relaxed(cuda, call) if caller == "relaxed" else call()
    answer = as_caller() if thread == "own" else on_another_thread(cuda, as_caller)
    fate = fate_of(cuda, stream, at)
    if answer != 0 and "of the captured" not in name:
        CALLS[0].make(name, stream)
    return cuda.name_of(answer) + (f", the capture breaks: {cuda.name_of(fate)}" if fate else "")


# ---- an object that a graph owns ----------------------------------------------------------------

class Destructor:
    """Counts its calls. Drivers call the function on a separate thread."""

    def __init__(self):
        self.called = threading.Event()
        self.function = driver.DESTRUCTOR(lambda _object: self.called.set())

    def said(self, seconds):
        return "called" if self.called.wait(seconds) else "not called"


def capture_info(cuda, stream):
    """The graph of a stream that is being captured."""
    status, number, graph = c_int(), c_uint64(), c_void_p()
    nodes, edges, count = c_void_p(), c_void_p(), c_size_t()
    outs = [status, number, graph, nodes, count]
    symbol = "cuStreamGetCaptureInfo_v2"
    if not cuda.has(symbol):
        symbol = "cuStreamGetCaptureInfo_v3"
        outs.insert(4, edges)
    cuda.call(symbol, stream, *(byref(one) for one in outs))
    return graph.value


def captured_with_object(cuda, stream, destructor):
    """Returns the graph and the observations. The graph owns an object since its capture."""
    wait = cuda.load(ptx.SOURCE)("wait")
    cuda.launch(wait, stream, 1, c_uint64(0), threads=1)        # loads the kernel
    cuda.call("cuStreamSynchronize", stream)
    cuda.call("cuStreamBeginCapture_v2", stream, driver.GLOBAL)
    cuda.launch(wait, stream, 1, c_uint64(WAIT_NS), threads=1)
    graph = capture_info(cuda, stream)
    owned = cuda.get("cuUserObjectCreate", c_void_p, 1, destructor.function, 1,
                     NO_DESTRUCTOR_SYNC)
    cuda.call("cuGraphRetainUserObject", graph, owned, 1, MOVE)
    cuda.launch(wait, stream, 1, c_uint64(WAIT_NS), threads=1)
    ended = c_void_p()
    cuda.call("cuStreamEndCapture", stream, byref(ended))
    same = "the graph" if ended.value == graph else "another graph than the one"
    return ended.value, f"{same} asked for"


def never_launched(cuda, graph, _stream, destructor):
    yield "graph alive", destructor.said(SOON_S)
    cuda.call("cuGraphDestroy", graph)
    yield "graph destroyed", destructor.said(LATE_S)


def idle(cuda, graph, stream, destructor):
    executable = cuda.get("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cuda.call("cuGraphDestroy", graph)
    yield "instantiated, graph destroyed", destructor.said(SOON_S)
    cuda.call("cuGraphLaunch", executable, stream)
    cuda.call("cuStreamSynchronize", stream)
    yield "launched, over", destructor.said(SOON_S)
    cuda.call("cuGraphExecDestroy", executable)
    yield "executable destroyed", destructor.said(LATE_S)


def running(cuda, graph, stream, destructor):
    executable = cuda.get("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cuda.call("cuGraphLaunch", executable, stream)
    cuda.call("cuGraphDestroy", graph)
    cuda.call("cuGraphExecDestroy", executable)
    said = destructor.said(SOON_S)
    is_running = cuda.result("cuStreamQuery", stream) == driver.NOT_READY
    yield f"all destroyed, launch {'running' if is_running else 'over already'}", said
    cuda.call("cuStreamSynchronize", stream)
    yield "launch over", destructor.said(LATE_S)


LIVES = {"never launched": never_launched, "idle": idle, "running": running}


def of_object(cuda, life):
    if not cuda.has("cuUserObjectCreate", "cuGraphRetainUserObject"):
        return "skipped: the driver has no user objects"
    stream, destructor = cuda.stream(), Destructor()
    graph, said = captured_with_object(cuda, stream, destructor)
    steps = [f"{when}: {what}" for when, what in LIVES[life](cuda, graph, stream, destructor)]
    return ", ".join([said, *steps])


GROUPS = {f"{mode}/{thread}/{caller}": Calls.NAMES for mode in MODES
          for thread in ("own", "other") for caller in ("plain", "relaxed")} | {
    "user object": tuple(LIVES)}


def answer(cuda, group, name):
    return of_object(cuda, name) if group == "user object" else in_capture(cuda, group, name)


if __name__ == "__main__":
    sys.exit(ask.main(__file__, __doc__, GROUPS, answer))
