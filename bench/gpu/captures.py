#!/usr/bin/env python3
"""Questions to the driver that no document answers, each asked in a process of its own: a wrong
guess may crash the process, hang it, or break its context.

  captures.py synchronize     cuCtxSynchronize on one thread while another one captures
  captures.py record          cuCtxRecordEvent, likewise
  captures.py bystanders      other calls, likewise
  captures.py destroyed       what a destroyed stream answers
  captures.py user_object     when an object that a capture's graph was given is destroyed

One JSON object: what came of each variant."""
import argparse
import ctypes
import json
import subprocess
import sys
import threading
import time

import driver
import present
import ptx

CHILD_LIMIT_S = 20
MODES = {"global": driver.GLOBAL, "thread-local": driver.THREAD_LOCAL, "relaxed": driver.RELAXED}
CALLERS = ("plain", "relaxed")
BYTES = 1 << 21
NO_DESTRUCTOR_SYNC = MOVE = 1       # flags of a user object, of giving it to a graph
WAIT_NS = 200_000_000               # for a kernel that does nothing else
SOON_S, LATE_S = 0.02, 2.0          # a destructor that runs at all runs by then


def loaded_wait(cuda, stream):
    """A kernel that takes some time, launched once: loading it later could disturb the question.
    None where kernels compute nothing."""
    if cuda.is_simulated:
        return None
    wait = cuda.load(ptx.SOURCE)("wait")
    cuda.launch(wait, stream, 1, ctypes.c_uint64(0), threads=1)
    cuda.call("cuStreamSynchronize", stream)
    return wait


# ---- what one thread does while another one captures --------------------------------------------

def synchronize(cuda):
    return cuda.result("cuCtxSynchronize")


def record_context(cuda, event):
    return cuda.result("cuCtxRecordEvent", cuda.context, event)


def map_and_unmap(cuda, base, handle):
    """The first result that is a failure."""
    access = cuda.access()
    for symbol, *arguments in (("cuMemMap", base, BYTES, 0, handle, 0),
                               ("cuMemSetAccess", base, BYTES, ctypes.byref(access), 1),
                               ("cuMemUnmap", base, BYTES)):
        result = cuda.result(symbol, *arguments)
        if result != 0:
            return result
    return 0


def bystander(cuda, name):
    """A call that is made while another stream is captured; everything it needs is made before."""
    stream, event, out = cuda.stream(), cuda.event(), ctypes.c_uint64()
    cuda.call("cuEventRecord", event, stream)
    if name == "cuEventQuery":
        return lambda _captured: cuda.result(name, event)
    if name == "cuEventRecord":
        return lambda _captured: cuda.result(name, event, stream)
    if name == "cuStreamQuery":
        return lambda _captured: cuda.result(name, stream)
    if name == "cuStreamSynchronize":
        return lambda _captured: cuda.result(name, stream)
    if name == "cuStreamGetId":
        return lambda _captured: cuda.result(name, stream, ctypes.byref(out))
    if name == "cuStreamGetId of the captured":
        return lambda captured: cuda.result("cuStreamGetId", captured, ctypes.byref(out))
    if name == "cuMemGetInfo":
        return lambda _captured: cuda.result("cuMemGetInfo_v2", ctypes.byref(out),
                                             ctypes.byref(ctypes.c_uint64()))
    base = cuda.get("cuMemAddressReserve", ctypes.c_uint64, BYTES, 0, 0, 0)
    handle = cuda.get("cuMemCreate", ctypes.c_uint64, BYTES, ctypes.byref(cuda.properties()), 0)
    return lambda _captured: map_and_unmap(cuda, base, handle)


BYSTANDERS = ("cuEventQuery", "cuEventRecord", "cuStreamQuery", "cuStreamSynchronize",
              "cuStreamGetId", "cuStreamGetId of the captured", "cuMemGetInfo", "map and unmap")


def on_another_thread(cuda, call, is_relaxed):
    """The call's answers in that situation."""
    answers = []

    def run():
        cuda.enter()
        if is_relaxed:
            mode = ctypes.c_int(driver.RELAXED)
            cuda.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        answers.append(call())
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return answers[0] if answers else -1


def beside_capture(cuda, call, mode, is_relaxed):
    """The call's answer, and whether the capture beside it gave a graph that runs."""
    stream = cuda.stream()
    at = cuda.get("cuMemAlloc_v2", ctypes.c_uint64, BYTES)
    cuda.call("cuStreamBeginCapture_v2", stream, mode)
    cuda.call("cuMemsetD8Async", at, 1, BYTES, stream)
    answer = on_another_thread(cuda, lambda: call(stream), is_relaxed)
    after = cuda.result("cuMemsetD8Async", at, 2, BYTES, stream)
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
    ended = cuda.result("cuStreamEndCapture", stream, ctypes.byref(graph))
    for symbol, *arguments in (
            ("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, 0),
            ("cuGraphLaunch", executable, stream), ("cuStreamSynchronize", stream)):
        if after or ended:
            break
        ended = cuda.result(symbol, *arguments)
    fate = "the capture lives" if not (after or ended) else \
        f"capture broken: {cuda.name_of(after or ended)}"
    return f"{cuda.name_of(answer) if answer else 'ok'}, {fate}"


# ---- a destroyed stream -------------------------------------------------------------------------

RUNNING, REPLACED = "while its work runs", "after another was made"
DESTROYED = ("cuStreamQuery", "cuStreamIsCapturing", "cuStreamGetId", "cuEventRecord",
             "cuStreamWaitEvent", "cuStreamSynchronize")


def of_destroyed(cuda, symbol, when):
    """The stream's work is over, unless the variant says that it runs."""
    stream, event, out = cuda.stream(), cuda.event(), ctypes.c_uint64()
    wait = loaded_wait(cuda, stream)
    cuda.call("cuEventRecord", event, stream)
    if when == RUNNING:
        if wait is None:
            return "not asked: no kernel runs here"
        cuda.launch(wait, stream, 1, ctypes.c_uint64(WAIT_NS), threads=1)
    cuda.call("cuStreamDestroy_v2", stream)
    said = ""
    if when == REPLACED:
        said = ", the handle again" if cuda.stream() == stream else ", another handle"
    arguments = {"cuStreamIsCapturing": (stream, ctypes.byref(out)),
                 "cuStreamGetId": (stream, ctypes.byref(out)),
                 "cuEventRecord": (event, stream), "cuStreamWaitEvent": (stream, event, 0)}
    result = cuda.result(symbol, *arguments.get(symbol, (stream,)))
    return (cuda.name_of(result) if result else "ok") + said


# ---- an object that a graph owns ----------------------------------------------------------------

class Destructor:
    """Notes that it was called. Drivers call it on a thread of their own."""

    def __init__(self):
        self.called = threading.Event()
        self.function = driver.DESTRUCTOR(lambda _object: self.called.set())

    def said(self, seconds):
        return "called" if self.called.wait(seconds) else "not called"


def capture_info(cuda, stream):
    """The graph of a stream that is being captured."""
    status, number, graph = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p()
    nodes, edges, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    outs = [status, number, graph, nodes, count]
    symbol = "cuStreamGetCaptureInfo_v2"
    if symbol not in cuda.functions:
        symbol = "cuStreamGetCaptureInfo_v3"
        outs.insert(4, edges)
    cuda.call(symbol, stream, *(ctypes.byref(one) for one in outs))
    return graph.value


def captured_with_object(cuda, stream, destructor, record):
    """(graph, what was seen): the graph owns an object, which it got during its capture."""
    cuda.call("cuStreamBeginCapture_v2", stream, driver.GLOBAL)
    record()
    graph = capture_info(cuda, stream)
    owned = cuda.get("cuUserObjectCreate", ctypes.c_void_p, 1, destructor.function, 1,
                     NO_DESTRUCTOR_SYNC)
    cuda.call("cuGraphRetainUserObject", graph, owned, 1, MOVE)
    record()
    ended = cuda.get("cuStreamEndCapture", ctypes.c_void_p, stream)
    return ended, "the graph asked for" if ended == graph else "another graph than was asked for"


def never_launched(cuda, graph, _stream, destructor):
    yield "graph alive", destructor.said(SOON_S)
    cuda.call("cuGraphDestroy", graph)
    yield "graph destroyed", destructor.said(LATE_S)


def idle(cuda, graph, stream, destructor):
    executable = cuda.get("cuGraphInstantiateWithFlags", ctypes.c_void_p, graph, 0)
    cuda.call("cuGraphDestroy", graph)
    yield "instantiated, graph destroyed", destructor.said(SOON_S)
    cuda.call("cuGraphLaunch", executable, stream)
    cuda.call("cuStreamSynchronize", stream)
    yield "launched, over", destructor.said(SOON_S)
    cuda.call("cuGraphExecDestroy", executable)
    yield "executable destroyed", destructor.said(LATE_S)


def running(cuda, graph, stream, destructor):
    executable = cuda.get("cuGraphInstantiateWithFlags", ctypes.c_void_p, graph, 0)
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
    cuda.need("cuUserObjectCreate", "cuGraphRetainUserObject")
    cuda.need_kernels()
    stream, destructor = cuda.stream(), Destructor()
    wait = loaded_wait(cuda, stream)
    graph, said = captured_with_object(
        cuda, stream, destructor,
        lambda: cuda.launch(wait, stream, 1, ctypes.c_uint64(WAIT_NS), threads=1))
    steps = [f"{when}: {what}" for when, what in LIVES[life](cuda, graph, stream, destructor)]
    return ", ".join([said, *steps])


# ---- one variant in this process, all of them in others -----------------------------------------

def crossed():
    return [f"{mode}/{caller}" for mode in MODES for caller in CALLERS]


VARIANTS = {
    "synchronize": crossed(),
    "record": crossed(),
    "bystanders": [f"{name}/{caller}" for name in BYSTANDERS for caller in CALLERS],
    "destroyed": [*DESTROYED, f"cuStreamQuery {RUNNING}", f"cuStreamIsCapturing {RUNNING}",
                  f"cuStreamQuery {REPLACED}"],
    "user_object": list(LIVES),
}


def answer(cuda, question, variant):
    if question == "destroyed":
        symbol, _, when = variant.partition(" ")
        cuda.need(symbol)
        return of_destroyed(cuda, symbol, when)
    if question == "user_object":
        return of_object(cuda, variant)
    what, caller = variant.split("/")
    if question == "bystanders":
        call = bystander(cuda, what)
        return beside_capture(cuda, call, driver.GLOBAL, caller == "relaxed")
    if question == "synchronize":
        cuda.need("cuCtxSynchronize")
        return beside_capture(cuda, lambda _captured: synchronize(cuda), MODES[what],
                              caller == "relaxed")
    cuda.need("cuCtxRecordEvent")
    event = cuda.event()
    return beside_capture(cuda, lambda _captured: record_context(cuda, event), MODES[what],
                          caller == "relaxed")


def ask(question, variant):
    """The answer of a process of its own: {"answer"} or {"problem", "cannot_run"}."""
    command = [sys.executable, "-B", __file__, question, "--variant", variant]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_LIMIT_S,
                               check=False)
    except subprocess.TimeoutExpired:
        return {"answer": f"nothing within {CHILD_LIMIT_S} s"}
    if ended.returncode < 0:
        return {"answer": f"died of signal {-ended.returncode}"}
    lines = ended.stdout.splitlines()
    if not lines or not lines[-1].startswith("{"):
        said = (ended.stderr.strip().splitlines() or ["nothing"])[-1]
        return {"answer": f"failed: {said}"[:200]}
    return json.loads(lines[-1])


def ask_all(question):
    answers = {}
    for variant in VARIANTS[question]:
        said = ask(question, variant)
        if said.get("cannot_run"):
            present.leave(said["problem"])
        answers[variant] = said["answer"]
        whose = "the simulator's answers: " if said.get("is_simulated") else ""
        print(json.dumps({"detail": whose + "; ".join(f"{name}: {what}"
                                                      for name, what in answers.items()),
                          "answers": answers}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("question", choices=tuple(VARIANTS))
    parser.add_argument("--variant", help="ask only this, in this process")
    options = parser.parse_args()
    if options.variant is None:
        ask_all(options.question)
        return 0
    cuda = driver.Driver()
    try:
        said = answer(cuda, options.question, options.variant)
    except driver.DriverError as error:
        said = f"failed: {error}"
    print(json.dumps({"answer": said, "is_simulated": cuda.is_simulated}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
