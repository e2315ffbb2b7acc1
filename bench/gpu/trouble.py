#!/usr/bin/env python3
"""Try actions of other programs beside pleat. Each word below is a separate process.

  green stream   which events cover the streams of a green context, without PyTorch
  green torch    tensors under PyTorch's green contexts
  export         a handle that is released here while another process maps it
  host memory    mapped memory on the host's nodes, and PyTorch's pinned memory under pleat
  share          a tensor of pleat in another process
  sticky         an illegal address: what fails afterwards, how soon, in whose words
  persistent     a kernel that does not end: which calls wait for it"""
import ctypes
import json
import os
import subprocess
import sys
import time
from ctypes import byref, c_ubyte, c_uint, c_uint64, c_void_p

import contents
import driver
import ptx
import torch_run

GRANULE = 2 * driver.MIB
WAIT_S = 0.2
RESOURCE_BYTES, MULTIPROCESSORS, LEAST_SHARE = 160, 1, 16   # bytes of CUdevResource; its kind; SMs
DEFAULT_STREAM = 1              # flag of a green context
PERSISTENT_S = 1.5
ROUNDS = 600
HELD_S = 10                     # for the other process


def launch_wait(cuda, wait, stream, seconds):
    cuda.launch(wait, stream, 1, c_uint64(int(seconds * 1e9)), threads=1)


# ---- green contexts ------------------------------------------------------------------------------

def green_of(cuda):
    """(green context as a context, a stream of it)"""
    all_of_it, part, rest = ((c_ubyte * RESOURCE_BYTES)() for _ in range(3))
    n = c_uint(1)
    cuda.call("cuDeviceGetDevResource", cuda.device, all_of_it, MULTIPROCESSORS)
    cuda.call("cuDevSmResourceSplitByCount", part, byref(n), all_of_it, rest, 0, LEAST_SHARE)
    described = cuda.get("cuDevResourceGenerateDesc", c_void_p, part, 1)
    green = cuda.get("cuGreenCtxCreate", c_void_p, described, cuda.device, DEFAULT_STREAM)
    return (cuda.get("cuCtxFromGreenCtx", c_void_p, green),
            cuda.get("cuGreenCtxStreamCreate", c_void_p, green, driver.NON_BLOCKING, 0))


def in_context(cuda, context, call):
    cuda.call("cuCtxPushCurrent_v2", context)
    found = call()
    cuda.call("cuCtxPopCurrent_v2", byref(c_void_p()))
    return found


def loaded_wait(cuda, stream):
    """The kernel in the current context, launched once, since a later load could take long."""
    wait = cuda.load(ptx.SOURCE)("wait")
    launch_wait(cuda, wait, stream, 0)
    cuda.call("cuStreamSynchronize", stream)
    return wait


def covers(cuda, wait, busy, symbol, *arguments):
    """Does an event recorded now wait for the work on the stream `busy`?"""
    event = arguments[-1] if symbol == "cuCtxRecordEvent" else arguments[0]
    launch_wait(cuda, wait, busy, WAIT_S)
    recorded = cuda.result(symbol, *arguments)
    asked = cuda.result("cuEventQuery", event)
    cuda.call("cuStreamSynchronize", busy)
    if recorded:
        return cuda.name_of(recorded)
    return {0: "passes before it", driver.NOT_READY: "covers it"}.get(asked, cuda.name_of(asked))


def green_stream(_options):
    cuda = driver.Driver()
    cuda.need("cuGreenCtxCreate", "cuCtxFromGreenCtx", "cuGreenCtxStreamCreate",
              "cuCtxRecordEvent")
    own, event, owner = cuda.stream(), cuda.event(), c_void_p()
    green, stream = green_of(cuda)
    cuda.call("cuStreamGetCtx", stream, byref(owner))
    owners = {cuda.context: "the primary context", green: "the green one"}
    out = {"cuStreamGetCtx": owners.get(owner.value, "another")}
    waits = {own: loaded_wait(cuda, own), stream: in_context(
        cuda, green, lambda: loaded_wait(cuda, stream))}
    for name, busy in (("green work", stream), ("primary work", own)):
        wait = waits[busy]
        out[f"{name}: event behind the primary context"] = covers(
            cuda, wait, busy, "cuCtxRecordEvent", cuda.context, event)
        out[f"{name}: event behind the green context"] = covers(
            cuda, wait, busy, "cuCtxRecordEvent", green, event)
        out[f"{name}: event on handle 0"] = covers(cuda, wait, busy, "cuEventRecord", event, None)
        out[f"{name}: event on handle 0, the green one current"] = in_context(
            cuda, green, lambda: covers(cuda, wait, busy, "cuEventRecord", cuda.event(), None))
        driver.tell(out)
    out["green work: event on its stream"] = covers(cuda, waits[stream], stream, "cuEventRecord",
                                                    event, stream)
    out["handle 2, the green context current"] = in_context(
        cuda, green, lambda: cuda.name_of(cuda.result("cuStreamQuery", c_void_p(2))))
    launch_wait(cuda, waits[stream], stream, WAIT_S)
    found = torch_run.timed(lambda: cuda.name_of(cuda.result("cuCtxSynchronize")))
    out["cuCtxSynchronize of the primary"] = found | {"waits": found["seconds"] > WAIT_S / 2}
    return out


def green_torch(_options):
    driver.Driver().need("cuGreenCtxCreate")    # PyTorch does not ask, and crashes
    torch = torch_run.begin()
    try:
        from torch.cuda.green_contexts import GreenContext
        green = GreenContext.create(LEAST_SHARE, 0)
    except (ImportError, AttributeError, RuntimeError) as error:
        driver.skip(f"no green context: {(str(error).splitlines() or [''])[0]}"[:200])
    keeper = contents.Keeper(torch, contents.SEED)
    out = {"binding": torch_run.binding()}
    rounds = ROUNDS // 5 if torch_run.is_simulated() else ROUNDS
    keeper.play(rounds)
    green.set_context()
    if hasattr(green, "Stream"):
        keeper.streams[1] = green.Stream()
        keeper.live = [(tensor, value, keeper.streams[0]) for tensor, value, _ in keeper.live]
        torch.cuda.synchronize()
    out["play"] = torch_run.timed(lambda: keeper.play(rounds))
    out["empty_cache"] = torch_run.timed(torch.cuda.empty_cache)
    out["drop"] = torch_run.timed(lambda: keeper.drop_down_to(0))
    green.pop_context()
    out["play after it"] = torch_run.timed(lambda: keeper.play(rounds))
    return out | {"checked": keeper.checked, "wrong": keeper.wrong}


# ---- other processes -----------------------------------------------------------------------------

def holder(options):
    """The other process maps the memory and reads it twice: at once, and on demand."""
    cuda = driver.Driver()
    handle = cuda.get("cuMemImportFromShareableHandle", c_uint64, options.held,
                      driver.FILE_DESCRIPTOR)
    base = cuda.reserve(GRANULE)
    cuda.map(base, GRANULE, handle)
    stream = cuda.stream()
    for _ in range(2):
        seen = cuda.read(base, c_ubyte * GRANULE, stream)
        driver.tell({"wrong": GRANULE - bytes(seen).count(7)})
        sys.stdin.readline()
    return {"end": "ok"}


def export(_options):
    cuda = driver.Driver()
    if not cuda.attribute(driver.POSIX_FD):
        driver.skip("the device cannot export memory")
    base, handle, stream, descriptor = (cuda.reserve(GRANULE), cuda.create(GRANULE), cuda.stream(),
                                        ctypes.c_int())
    cuda.map(base, GRANULE, handle)
    cuda.call("cuMemsetD8Async", base, 7, GRANULE, stream)
    cuda.call("cuStreamSynchronize", stream)
    cuda.call("cuMemExportToShareableHandle", byref(descriptor), handle, driver.FILE_DESCRIPTOR, 0)
    before = cuda.memory()[0]
    other = subprocess.Popen([sys.executable, "-B", __file__, "holder", "--held",
                              str(descriptor.value)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, pass_fds=(descriptor.value,))
    out = {"while it is mapped here": json.loads(other.stdout.readline())}
    os.close(descriptor.value)
    cuda.call("cuMemUnmap", base, GRANULE)
    cuda.call("cuMemRelease", handle)
    out["free_after_release"] = cuda.memory()[0] - before
    out["then mapped again here"] = map_anew(cuda, base, stream)
    other.stdin.write("\n")
    other.stdin.flush()
    out["after it was released here"] = json.loads(other.stdout.readline())
    other.communicate("\n", timeout=HELD_S)
    out["free_at_the_end"] = cuda.memory()[0] - before
    return out


def map_anew(cuda, base, stream):
    """Map new memory at the same addresses. The other process must not see the new memory."""
    cuda.map(base, GRANULE, cuda.create(GRANULE))
    cuda.call("cuMemsetD8Async", base, 9, GRANULE, stream)
    cuda.call("cuStreamSynchronize", stream)
    return "ok"


def receiver(queue, back):
    tensor = queue.get()
    back.put(int((tensor.cpu() != 7).sum()))
    del tensor


def share(_options):
    torch = torch_run.begin()
    import torch.multiprocessing as processes
    there = processes.get_context("spawn")
    queue, back = there.Queue(), there.Queue()
    tensor = torch.full((driver.MIB,), 7, dtype=torch.uint8).cuda()
    torch.cuda.synchronize()
    process = there.Process(target=receiver, args=(queue, back))
    process.start()
    queue.put(tensor)
    wrong = back.get(timeout=3 * HELD_S)
    process.join(HELD_S)
    return {"binding": torch_run.binding(), "wrong": wrong, "exit": process.exitcode}


# ---- the host's memory ---------------------------------------------------------------------------

def nodes():
    """Numbers of the host's nodes, from such as "0-1,3"."""
    try:
        with open("/sys/devices/system/node/online", encoding="utf-8") as file:
            spans = [part.split("-") for part in file.read().strip().split(",")]
    except OSError:
        return [0]
    return [n for span in spans for n in range(int(span[0]), int(span[-1]) + 1)]


def on_node(cuda, node):
    """Bytes set by the device and read by the host, at the same address."""
    properties = cuda.properties(driver.Location(driver.ON_HOST_NODE, node))
    try:
        granule = cuda.granule(properties)
        handle, base = cuda.create(granule, properties), cuda.reserve(granule)
        cuda.call("cuMemMap", base, granule, 0, handle, 0)
        access = (driver.Access * 2)(cuda.access(), driver.Access(
            driver.Location(driver.ON_HOST_NODE, node), driver.READ_WRITE))
        cuda.call("cuMemSetAccess", base, granule, access, 2)
        stream = cuda.stream()
        cuda.call("cuMemsetD8Async", base, 7, granule, stream)
        cuda.call("cuStreamSynchronize", stream)
    except driver.DriverError as error:
        return {"said": str(error)}
    seen = bytes((c_ubyte * granule).from_address(base))
    return {"said": "ok", "granule": granule, "wrong": granule - seen.count(7)}


def host_memory(_options):
    cuda = driver.Driver()
    out = {"attributes": [cuda.attribute(driver.HOST_NODE), cuda.attribute(driver.HOST_NODE_VMM)],
           "nodes": {}}
    for node in nodes():
        driver.tell(out | {"asking": node})
        out["nodes"][node] = on_node(cuda, node)
    driver.tell(out)
    torch = torch_run.begin()
    import pleat.torch
    out["install_pinned"] = torch_run.timed(pleat.torch.install_pinned)
    pinned = torch.full((driver.MIB,), 7, dtype=torch.uint8).pin_memory()
    back = pinned.cuda(non_blocking=True).cpu()
    return out | {"binding": torch_run.binding(), "is_pinned": pinned.is_pinned(),
                  "wrong": int((back != 7).sum())}


# ---- errors and kernels that stay ----------------------------------------------------------------

FAULT = 700
FAULTY = ("cuCtxSynchronize", "cuStreamSynchronize", "cuStreamQuery", "cuEventRecord",
          "cuEventQuery", "cuEventSynchronize", "cuCtxRecordEvent", "cuMemCreate", "cuMemMap",
          "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "cuMemcpyHtoDAsync_v2",
          "cuMemcpyDtoHAsync_v2", "cuMemsetD8Async", "cuMemGetInfo_v2")


def fault(cuda):
    """A kernel writes to an unmapped address. On the simulator, later calls fail like after such a
    kernel."""
    if cuda.is_simulated:
        for symbol in FAULTY:
            cuda.library.pleat_sim_fail_from(symbol.encode(), c_uint64(0), FAULT)
        return
    cuda.launch(cuda.load(ptx.SOURCE)("fill"), cuda.stream(), 1, c_uint64(1 << 20),
                c_uint64(1), c_uint(0), threads=32)


def sticky_inside(_options):
    torch = torch_run.begin()
    cuda = driver.Driver()
    kept = torch.empty(driver.MIB, device="cuda")
    del kept
    kept = torch.empty(8 * driver.MIB, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    fault(cuda)
    out = {"binding": torch_run.binding(), "synchronize": torch_run.timed(torch.cuda.synchronize)}
    held = [kept]
    for name, call in (("cached", lambda: held.append(torch.empty(driver.MIB, device="cuda"))),
                       ("record_stream", lambda: kept.record_stream(side)),
                       ("free", held.clear),
                       ("new", lambda: held.append(torch.empty(driver.GIB // 4, device="cuda"))),
                       ("empty_cache", torch.cuda.empty_cache),
                       ("memory_stats", lambda: len(torch.cuda.memory_stats()) > 0)):
        out[name] = torch_run.timed(call)
        driver.tell(out)
    return out


def sticky(options):
    """Runs in a further process, whose end is part of the answer."""
    begin = time.monotonic()
    try:
        ended = subprocess.run([sys.executable, "-B", __file__, "sticky inside"], check=False,
                               capture_output=True, timeout=options.seconds)
        said, errors, status = ended.stdout, ended.stderr, ended.returncode
    except subprocess.TimeoutExpired as late:
        said, errors, status = late.stdout or b"", late.stderr or b"", "it did not end"
    lines = [line for line in said.decode().splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(f"nothing came of it: {status}, {errors.decode()[-300:]}")
    found = json.loads(lines[-1])
    end_s = found.pop("ended_at", None)
    return found | {"exit": status, "seconds": round(time.monotonic() - begin, 2),
                    "ended_in_s": round(time.monotonic() - end_s, 2) if end_s else None}


def persistent(_options):
    torch = torch_run.begin()
    import pleat.torch
    cuda = driver.Driver()
    stream = cuda.stream()
    wait = loaded_wait(cuda, stream)
    with pleat.torch.tag("asleep"):
        tagged = torch.empty(64 * driver.MIB, dtype=torch.uint8, device="cuda")
    held = [torch.empty(64 * driver.MIB, dtype=torch.uint8, device="cuda")]
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    out = {"binding": torch_run.binding()}

    def runs():
        return cuda.result("cuStreamQuery", stream) == driver.NOT_READY

    def anew(n_bytes):
        held.clear()
        held.append(torch.empty(n_bytes, dtype=torch.uint8, device="cuda"))

    def lent():
        held[0].record_stream(side)
        anew(96 * driver.MIB)
    for name, call in (("free and allocate again", lambda: anew(64 * driver.MIB)),
                       ("free and allocate more", lambda: anew(128 * driver.MIB)),
                       ("free what another stream used", lent),
                       ("empty_cache", torch.cuda.empty_cache),
                       ("compact", lambda: pleat.torch.compact().moved_bytes),
                       ("sleep", lambda: pleat.torch.sleep("asleep", keep="discard").bytes),
                       ("wake", lambda: pleat.torch.wake("asleep").bytes)):
        if not runs():
            launch_wait(cuda, wait, stream, PERSISTENT_S)
        out[name] = torch_run.timed(call)
        if not cuda.is_simulated:
            out[name]["waited"] = not runs()
        driver.tell(out)
    if cuda.is_simulated:
        out["kernel"] = f"skipped: {driver.NO_KERNELS}"
    del tagged
    return out


WHATS = {"green stream": green_stream, "green torch": green_torch, "export": export,
         "holder": holder, "host memory": host_memory, "share": share, "sticky": sticky,
         "sticky inside": sticky_inside, "persistent": persistent}


def main():
    options = driver.options(__doc__, ("what", {"choices": tuple(WHATS)}),
                             ("--held", {"type": int, "help": "of the holder: a descriptor"}))
    driver.tell(WHATS[options.what](options) | {"ended_at": time.monotonic()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
