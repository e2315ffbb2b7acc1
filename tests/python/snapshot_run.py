#!/usr/bin/env python3
"""Snapshots of every allocator under load, as files, follow the readers' rules.

Usage: snapshot_run.py PLEAT LIBPLEAT_SO LIBPLEAT_SIM_SO

Runs the command PLEAT over bundled and generated works, with little memory. It also makes calls
through ctypes: allocations on several streams, uses on further streams, trims, failures."""
import collections
import ctypes
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import snapshot_check

ALLOCATORS = ("pleat", "torch-native", "torch-expandable", "mxnet-naive", "mxnet-round",
              "mxnet19-naive", "mxnet19-round", "unpooled", "tf-bfc", "cuda-async")
OF_STREAMS = ALLOCATORS[:3]  # each segment belongs to one stream
# work, memory, moment
REPLAYS = (
    ("gpt2s_tiny", "1.02x", "end"),
    ("gpt2s_tiny", "0.7x", "failure"),
    ("churn:iterations=40,allocations=60", "1.05x", "peak"),
)
N_STREAMS = 4
MIB = 1 << 20
HISTORY_FRAMES = 3  # stacks of allocations and of frees
PICKLE, JSON = 0, 1


class Pleat(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_uint32), ("generation", ctypes.c_uint32)]


class PoolId(ctypes.Structure):
    _fields_ = [("first", ctypes.c_uint64), ("second", ctypes.c_uint64)]


class Access(ctypes.Structure):
    """The struct pleat_sim_access."""
    _fields_ = [("ptr", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("is_write", ctypes.c_bool)]


WRITE = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def load(libpleat, libsim):
    pleat = ctypes.CDLL(libpleat)
    word, size, address = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
    instance = Pleat
    pleat.pleat_create.argtypes = [ctypes.c_char_p, ctypes.POINTER(instance)]
    pleat.pleat_destroy.argtypes = [instance, ctypes.c_uint]
    pleat.pleat_block_alloc.argtypes = [instance, ctypes.c_int, size, address,
                                        ctypes.POINTER(word)]
    pleat.pleat_block_free.argtypes = [instance, ctypes.c_int, word, address]
    pleat.pleat_block_record_stream.argtypes = [instance, ctypes.c_int, word, address]
    pleat.pleat_device_trim.argtypes = [instance, ctypes.c_int, word, ctypes.c_bool, address]
    pleat.pleat_history_record.argtypes = [instance, size, ctypes.c_uint]
    pleat.pleat_snapshot_write.argtypes = [instance, ctypes.c_int, WRITE, address]
    pleat.pleat_snapshot_dump.argtypes = [instance, ctypes.c_char_p]
    pleat.pleat_pool_begin.argtypes = [instance, ctypes.c_int, PoolId, address, address, address]
    pleat.pleat_pool_end.argtypes = [instance, ctypes.c_int, PoolId]
    pleat.pleat_pool_release.argtypes = [instance, ctypes.c_int, PoolId]
    sim = ctypes.CDLL(libsim)
    sim.pleat_sim_work.argtypes = [address, ctypes.POINTER(Access), size]
    sim.cuStreamCreate.argtypes = [ctypes.POINTER(address), ctypes.c_uint]
    sim.cuCtxPushCurrent_v2.argtypes = [address]
    sim.cuDevicePrimaryCtxRetain.argtypes = [ctypes.POINTER(address), ctypes.c_int]
    return pleat, sim


def must(result, what):
    if result != 0:
        sys.exit(f"{what}: {result}")


class Load:
    """Random requests on one of two devices."""

    def __init__(self, pleat, sim, allocator, seed):
        self.pleat, self.sim = pleat, sim
        self.allocator = allocator
        self.random = random.Random(seed)
        self.instance = Pleat()
        conf = f"driver:sim,sim:[devices:2,capacity:384M,depth:40],allocator:{allocator}"
        must(pleat.pleat_create(conf.encode(), ctypes.byref(self.instance)), conf)
        must(pleat.pleat_history_record(self.instance, 1 << 20, HISTORY_FRAMES), "history")
        context = ctypes.c_void_p()
        must(sim.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1), "context")
        must(sim.cuCtxPushCurrent_v2(context), "context")
        self.streams = [None]
        for _ in range(N_STREAMS - 1):
            stream = ctypes.c_void_p()
            must(sim.cuStreamCreate(ctypes.byref(stream), 1), "stream")
            self.streams.append(stream.value)
        self.live = []
        self.n_failed = 0
        self.n_pools = 0
        self.pool = None  # the pool that requests are routed to

    def work(self, stream, ptr, n_bytes):
        access = Access(ptr, n_bytes, True)
        must(self.sim.pleat_sim_work(stream, ctypes.byref(access), 1), "work")

    def alloc(self):
        n_bytes = self.random.choice((100, 5000, 300_000, 3 * MIB, 9 * MIB, 24 * MIB))
        n_bytes += self.random.randrange(n_bytes)
        stream = self.random.choice(self.streams)
        ptr = ctypes.c_uint64()
        if self.pleat.pleat_block_alloc(self.instance, 1, n_bytes, stream, ctypes.byref(ptr)):
            self.n_failed += 1
            return
        self.live.append((ptr.value, n_bytes, stream))
        self.work(stream, ptr.value, n_bytes)

    def lend(self):
        ptr, n_bytes, _ = self.random.choice(self.live)
        stream = self.random.choice(self.streams)
        must(self.pleat.pleat_block_record_stream(self.instance, 1, ptr, stream), "record")
        self.work(stream, ptr, n_bytes)

    def free(self):
        ptr, _, stream = self.live.pop(self.random.randrange(len(self.live)))
        must(self.pleat.pleat_block_free(self.instance, 1, ptr, stream), "free")

    def change_pool(self):
        """Route requests to a new private pool, or end the route and release the pool."""
        if self.pool:
            must(self.pleat.pleat_pool_end(self.instance, 1, self.pool), "end")
            must(self.pleat.pleat_pool_release(self.instance, 1, self.pool), "release")
            self.pool = None
            return
        pool = PoolId(self.n_pools + 1, 5)
        if self.pleat.pleat_pool_begin(self.instance, 1, pool, None, None, None) == 0:
            self.n_pools += 1
            self.pool = pool

    def step(self):
        draw = self.random.random()
        if draw < 0.02:
            self.change_pool()
        elif not self.live or draw < 0.51:
            self.alloc()
        elif draw < 0.61:
            self.lend()
        elif draw < 0.995:
            self.free()
        else:
            is_waiting = self.random.random() < 0.5
            self.pleat.pleat_device_trim(self.instance, 1, 0, is_waiting, None)

    def end(self):
        if self.pool:
            self.change_pool()
        while self.live:
            self.free()
        self.sim.pleat_sim_finish()
        must(self.pleat.pleat_destroy(self.instance, 0), "destroy")


def without_marks(snapshot):
    """The snapshot without entries about snapshots, which every snapshot adds to later ones."""
    for trace in snapshot["device_traces"]:
        trace[:] = [entry for entry in trace if entry["action"] != "snapshot"]
    return snapshot


def check_frames(snapshot):
    entries = snapshot["device_traces"][1]
    with_frames = [entry for entry in entries if "frames" in entry]
    if not any(entry["action"] == "alloc" for entry in with_frames):
        raise snapshot_check.Wrong("no allocation has frames")
    known = {entry["addr"]: entry for entry in entries if entry["action"] == "alloc"}
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            of = known.get(block["address"]) if block["state"] != "inactive" else None
            if of and block["frames"] != of.get("frames", []):
                raise snapshot_check.Wrong(f"the block at {block['address']:#x} has other frames")
    names = " ".join(frame["name"] for entry in with_frames for frame in entry["frames"])
    if "ffi" not in names and "Py" not in names:
        raise snapshot_check.Wrong("the frames do not lead through Python")


def collect(pleat, instance, form):
    """Write a snapshot, and return the bytes passed to the output function."""
    parts = []

    @WRITE
    def write(_, data, n):
        parts.append(ctypes.string_at(data, n))
        return True

    must(pleat.pleat_snapshot_write(instance, form, write, None), "write")
    return b"".join(parts)


def run_load(pleat, sim, allocator, folder, seen):
    load_of = Load(pleat, sim, allocator, seed=allocator)
    for round_ in range(3):
        for _ in range(500):
            load_of.step()
        if not load_of.pool:
            load_of.change_pool()
        for _ in range(5):
            load_of.alloc()
        paths = [folder / f"{allocator}-{round_}.{ending}" for ending in ("pickle", "json")]
        for path in paths:
            must(pleat.pleat_snapshot_dump(load_of.instance, os.fsencode(path)), path)
        first, second = (snapshot_check.check(path, is_from_start=True) for path in paths)
        n_marks = [len(s["device_traces"][1]) for s in (first, second)]
        if n_marks[1] != n_marks[0] + 1 or without_marks(first) != without_marks(second):
            raise snapshot_check.Wrong(f"{allocator}: the pickle and the JSON differ")
        check_frames(first)
        seen.update(entry["action"] for entry in first["device_traces"][1])
        seen.update(b["state"] for s in first["segments"] for b in s["blocks"])
        seen["private"] += any(s["segment_pool_id"] != (0, 0) for s in first["segments"])
        seen["streams"] += len({s["stream"] for s in first["segments"]}) > 1
    if load_of.n_pools and not seen["private"]:
        raise snapshot_check.Wrong(f"{allocator}: no segment was of a private pool")
    must(not load_of.n_failed, f"{allocator}: no request failed")
    again = json.loads(collect(pleat, load_of.instance, JSON))
    if without_marks(snapshot_check.with_tuples(again)) != first:
        raise snapshot_check.Wrong(f"{allocator}: written to a function it differs")
    load_of.end()


def run_replay(command, allocator, work, memory, moment, path):
    line = [command, "replay", work, "--driver", "sim", "--allocator", allocator, "--memory",
            memory, "--snapshot", str(path), "--snapshot-at", moment]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode > 1 or not path.exists():
        raise snapshot_check.Wrong(f"{' '.join(line)}: {done.stderr}")
    snapshot = snapshot_check.check(path, is_from_start=True)
    actions = collections.Counter(e["action"] for t in snapshot["device_traces"] for e in t)
    if moment == "failure" and actions["oom"] != 1:
        raise snapshot_check.Wrong(f"{path}: {actions['oom']} failed requests, not the first")
    return actions


def main():
    command, libpleat, libsim = sys.argv[1:]
    pleat, sim = load(libpleat, libsim)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for allocator in ALLOCATORS:
            seen = collections.Counter()
            try:
                run_load(pleat, sim, allocator, folder, seen)
                for index, (work, memory, moment) in enumerate(REPLAYS):
                    path = folder / f"{allocator}-replay-{index}.pickle"
                    seen.update(run_replay(command, allocator, work, memory, moment, path))
            except snapshot_check.Wrong as wrong:
                sys.exit(str(wrong))
            missing = {"alloc", "free_requested", "free_completed", "oom", "snapshot",
                       "active_allocated"} - seen.keys()
            if missing or (allocator in OF_STREAMS and not seen["streams"]):
                sys.exit(f"{allocator}: the load never led to {missing or 'two streams'}")
            print(f"{allocator}: {sum(seen.values())} things seen: {sorted(+seen)}")


if __name__ == "__main__":
    main()
