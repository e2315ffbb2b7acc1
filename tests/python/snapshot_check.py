#!/usr/bin/env python3
"""Checks that PyTorch's readers accept a snapshot, and that the snapshot's state agrees with the
history.

Usage: snapshot_check.py [--from-start] FILE...

The rules are from the readers, torch/cuda/_memory_viz.py and MemoryViz.js, not from the
writer. --from-start: the history begins with an empty device and lost nothing, so undoing it event
by event must end with an empty device. Exit status: 0 = all files are right."""
import bisect
import collections
import json
import pickle
import pickletools
import sys

OPCODES = frozenset("""
    PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT
    SHORT_BINUNICODE BINUNICODE EMPTY_DICT DICT SETITEM SETITEMS EMPTY_LIST LIST APPEND APPENDS
    EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 MEMOIZE BINPUT BINGET LONG_BINPUT LONG_BINGET
""".split())
MOST_ARGUMENTS = 2000  # of one SETITEMS or APPENDS: the viewer passes all as arguments of one call

TOP = {
    "segments": list, "device_traces": list, "allocator_settings": dict,
    "external_annotations": list, "host_segments": list, "host_traces": list,
}
SEGMENT = {
    "device": int, "address": int, "total_size": int, "allocated_size": int, "active_size": int,
    "requested_size": int, "stream": int, "segment_type": str, "segment_pool_id": tuple,
    "is_expandable": bool, "frames": list, "blocks": list,
}
BLOCK = {"address": int, "size": int, "requested_size": int, "state": str, "frames": list}
ENTRY = {
    "action": str, "addr": int, "size": int, "stream": int, "time_us": int,
    "compile_context": str, "user_metadata": str, "pool_id": tuple,
}
OOM_ENTRY = {"device_free" if name == "addr" else name: kind for name, kind in ENTRY.items()}
SETTINGS = {
    "PYTORCH_CUDA_ALLOC_CONF": str, "max_split_size": int, "garbage_collection_threshold": float,
    "expandable_segments": bool, "pinned_num_register_threads": int,
    "release_lock_on_cudamalloc": bool, "pinned_use_cuda_host_register": bool,
    "graph_capture_record_stream_reuse": bool, "max_round_threshold": int, "max_cached_size": int,
    "roundup_power2_divisions": dict,
}
FRAME = {"name": str, "filename": str, "line": int}
STATES = ("active_allocated", "active_pending_free", "inactive")
BLOCK_ACTIONS = ("alloc", "free_requested", "free_completed")
GROWTH = ("segment_alloc", "segment_map")
LOSS = ("segment_free", "segment_unmap")
ACTIONS = BLOCK_ACTIONS + GROWTH + LOSS + ("oom", "snapshot")


class Wrong(Exception):
    """A rule that a snapshot breaks."""


def require(condition, text):
    if not condition:
        raise Wrong(text)


# ---- the bytes ----

# By code: the name, the bytes of its argument, and the bytes that tell how many more follow.
LENGTHS = {pickletools.TAKEN_FROM_ARGUMENT1: 1, pickletools.TAKEN_FROM_ARGUMENT4: 4,
           pickletools.TAKEN_FROM_ARGUMENT4U: 4}
FORMS = {
    ord(opcode.code): (opcode.name, max(n, 0), LENGTHS.get(n, 0))
    for opcode in pickletools.opcodes if opcode.name in OPCODES
    for n in (opcode.arg.n if opcode.arg else 0,)
}


def check_opcodes(data):
    """The viewer knows every opcode, the protocol is 2, and no batch is too long for a call."""
    marks = []
    n_items = at = 0
    name = ""
    while name != "STOP":
        form = FORMS.get(data[at])
        if form is None:
            raise Wrong(f"byte {at}: the viewer does not know {data[at]:#x}")
        name, n_fixed, n_length = form
        if name == "PROTO":
            require(data[at + 1] == 2, f"protocol {data[at + 1]}")
        elif name == "MARK":
            marks.append(n_items)
            n_items = 0
        elif name in ("SETITEMS", "APPENDS"):
            require(n_items <= MOST_ARGUMENTS, f"byte {at}: a batch of {n_items} values")
            n_items = marks.pop()
        elif name == "TUPLE2":
            n_items -= 1
        elif name not in ("BINPUT", "LONG_BINPUT", "STOP"):
            n_items += 1
        at += 1 + n_fixed
        if n_length:
            at += n_length + int.from_bytes(data[at:at + n_length], "little")
    require(not marks, "an open mark")
    require(at == len(data), f"{len(data) - at} bytes follow the end")


def refuse_constant(text):
    raise Wrong(f"JSON does not know {text}")


def load(path):
    """Read the dictionary of a file; in JSON a list of two numbers is a tuple."""
    with open(path, "rb") as file:
        data = file.read()
    if not str(path).endswith(".json"):
        check_opcodes(data)
        return pickle.loads(data)
    return with_tuples(json.loads(data.decode("utf-8"), parse_constant=refuse_constant))


def with_tuples(snapshot):
    for segment in snapshot["segments"]:
        segment["segment_pool_id"] = tuple(segment["segment_pool_id"])
    for entry in (entry for trace in snapshot["device_traces"] for entry in trace):
        entry["pool_id"] = tuple(entry["pool_id"])
    return snapshot


# ---- the shape ----

# Called millions of times: a text is made for a mistake only.
def check_fields(what, value, fields, optional=()):
    if not isinstance(value, dict):
        raise Wrong(f"{what} is no dictionary")
    for name, kind in fields.items():
        if name not in value:
            raise Wrong(f"{what} has no '{name}'")
        if type(value[name]) is not kind:
            raise Wrong(f"'{name}' of {what} is {value[name]!r}")
    if len(value) > len(fields):
        unknown = value.keys() - fields.keys() - set(optional)
        require(not unknown, f"{what} has {sorted(unknown)}")


def check_pool(pool):
    if len(pool) != 2 or type(pool[0]) is not int or type(pool[1]) is not int:
        raise Wrong(f"a pool is {pool!r}")


def check_frames(frames):
    for frame in frames:
        check_fields("a frame", frame, FRAME)


def check_shape(snapshot):
    check_fields("the snapshot", snapshot, TOP)
    check_fields("the settings", snapshot["allocator_settings"], SETTINGS,
                 ("pleat_allocator", "pleat_version", "trace_alloc_max_entries",
                  "trace_alloc_overflowed"))
    for segment in snapshot["segments"]:
        check_fields("a segment", segment, SEGMENT, ("pleat_tag", "pleat_asleep"))
        check_pool(segment["segment_pool_id"])
        check_frames(segment["frames"])
        require(segment["segment_type"] in ("small", "large"), segment["segment_type"])
        require(segment["device"] < len(snapshot["device_traces"]), "a device without a trace")
        for block in segment["blocks"]:
            check_fields("a block", block, BLOCK)
            check_frames(block["frames"])
            require(block["state"] in STATES, f"a block is {block['state']}")
    for trace in snapshot["device_traces"]:
        for entry in trace:
            check_entry(entry)


def check_entry(entry):
    fields = OOM_ENTRY if entry.get("action") == "oom" else ENTRY
    check_fields("an entry", entry, fields, ("frames",))
    check_pool(entry["pool_id"])
    check_frames(entry.get("frames", []))
    require(entry["action"] in ACTIONS, f"an entry is {entry['action']}")


# ---- the state ----

def check_segments(segments):
    """Blocks add up, and segments of one device are sorted and do not overlap."""
    ends = collections.defaultdict(int)
    for segment in segments:
        at = segment["address"]
        require(at >= ends[segment["device"]], f"the segment at {at:#x} is not behind the last")
        sums = collections.Counter()
        for block in segment["blocks"]:
            require(block["address"] == at, f"the block at {block['address']:#x} is not at {at:#x}")
            at += block["size"]
            is_active = block["state"] != "inactive"
            sums["total_size"] += block["size"]
            sums["allocated_size"] += block["size"] * (block["state"] == "active_allocated")
            sums["active_size"] += block["size"] * is_active
            sums["requested_size"] += block["requested_size"]
            require(0 < block["requested_size"] <= block["size"] if is_active else
                    block["requested_size"] == 0 and not block["frames"], f"a block is {block}")
        ends[segment["device"]] = at
        for name in ("total_size", "allocated_size", "active_size", "requested_size"):
            require(sums[name] == segment[name], f"{name} {segment[name]}: blocks {sums[name]}")
        require(segment["total_size"] > 0, "an empty segment")


class Ranges:
    """Memory by stream. As in the viewer, mapped neighbours of one stream form a range. A segment
    allocated as a whole is freed as a whole."""

    def __init__(self):
        self.starts = []
        self.ranges = {}  # start -> (end, stream)

    def find(self, address):
        """The start of the range that the address lies in, or None."""
        index = bisect.bisect_right(self.starts, address) - 1
        if index < 0:
            return None
        start = self.starts[index]
        return start if address < self.ranges[start][0] else None

    def _drop(self, start):
        del self.starts[bisect.bisect_left(self.starts, start)]
        return self.ranges.pop(start)

    def _put(self, start, end, stream):
        bisect.insort(self.starts, start)
        self.ranges[start] = (end, stream)

    def add(self, start, end, stream, is_merged):
        index = bisect.bisect_left(self.starts, start)
        before = self.starts[index - 1] if index > 0 else None
        after = self.starts[index] if index < len(self.starts) else None
        require(before is None or self.ranges[before][0] <= start, f"{start:#x} is there already")
        require(after is None or after >= end, f"{after or 0:#x} is there already")
        if is_merged and before is not None and self.ranges[before] == (start, stream):
            start = before
            self._drop(before)
        if is_merged and after == end and self.ranges[after][1] == stream:
            end = self._drop(after)[0]
        self._put(start, end, stream)

    def remove(self, start, end, stream, is_merged):
        at = self.find(start)
        require(at is not None, f"no segment holds {start:#x}")
        whole_end, of = self.ranges[at]
        require(is_merged or (at, whole_end) == (start, end), f"{start:#x} is not a segment")
        require(whole_end >= end, f"{start:#x} to {end:#x} is not inside one segment")
        require(of == stream, f"the segment at {at:#x} is of stream {of}, not {stream}")
        self._drop(at)
        if at < start:
            self._put(at, start, of)
        if end < whole_end:
            self._put(end, whole_end, of)


class Replay:
    """A device's state, from which the history is undone event by event."""

    def __init__(self, segments):
        self.memory = Ranges()
        self.starts = []  # starts of the blocks, sorted
        self.blocks = {}  # start -> (requested size, is pending)
        for segment in segments:
            self.memory.add(segment["address"], segment["address"] + segment["total_size"],
                            segment["stream"], segment["is_expandable"])
        for block in (block for segment in segments for block in segment["blocks"]):
            if block["state"] != "inactive":
                self.put_block(block["address"], block["requested_size"],
                               block["state"] == "active_pending_free")

    def put_block(self, address, size, is_pending):
        start = self.memory.find(address)
        require(start is not None and address + size <= self.memory.ranges[start][0],
                f"the block at {address:#x} lies in no segment")
        index = bisect.bisect_left(self.starts, address)
        if index > 0:
            before = self.starts[index - 1]
            require(before + self.blocks[before][0] <= address, f"blocks overlap at {address:#x}")
        require(index == len(self.starts) or self.starts[index] >= address + size,
                f"blocks overlap at {address:#x}")
        self.starts.insert(index, address)
        self.blocks[address] = (size, is_pending)

    def undo(self, entry):
        action, size = entry["action"], entry["size"]
        if action in ("oom", "snapshot"):
            return
        address = entry["addr"]
        if action in GROWTH:
            index = bisect.bisect_left(self.starts, address)
            require(index == len(self.starts) or self.starts[index] >= address + size,
                    "a block lived there before")
            self.memory.remove(address, address + size, entry["stream"], action == "segment_map")
        elif action in LOSS:
            self.memory.add(address, address + size, entry["stream"], action == "segment_unmap")
        elif action == "free_completed":
            self.put_block(address, size, True)
        else:
            self.undo_block(action, address, size)

    def undo_block(self, action, address, size):
        require(address in self.blocks, f"{action} of {address:#x}: no such block")
        known_size, is_pending = self.blocks[address]
        require(known_size == size, f"{action} of {address:#x}: {size}, but it has {known_size}")
        require(is_pending == (action == "free_requested"), f"{action} of {address:#x} comes twice")
        if action == "free_requested":
            self.blocks[address] = (size, False)
        else:
            del self.blocks[address]
            del self.starts[bisect.bisect_left(self.starts, address)]


def check_history(snapshot, is_from_start=False):
    for device, trace in enumerate(snapshot["device_traces"]):
        replay = Replay([s for s in snapshot["segments"] if s["device"] == device])
        for index in reversed(range(len(trace))):
            try:
                replay.undo(trace[index])
            except Wrong as wrong:
                raise Wrong(f"device {device}, entry {index}, {trace[index]}: {wrong}") from wrong
        if is_from_start and trace:
            require(not replay.blocks, f"{len(replay.blocks)} blocks were never allocated")
            require(not replay.memory.starts, "memory was there before the first entry")


def check(path, is_from_start=False):
    """Check every rule; returns the dictionary."""
    snapshot = load(path)
    try:
        check_shape(snapshot)
        check_segments(snapshot["segments"])
        check_history(snapshot, is_from_start)
    except Wrong as wrong:
        raise Wrong(f"{path}: {wrong}") from wrong
    return snapshot


def main():
    paths = sys.argv[1:]
    is_from_start = "--from-start" in paths
    for path in (path for path in paths if path != "--from-start"):
        try:
            snapshot = check(path, is_from_start)
        except Wrong as wrong:
            sys.exit(str(wrong))
        n_entries = sum(len(trace) for trace in snapshot["device_traces"])
        print(f"{path}: {len(snapshot['segments'])} segments, {n_entries} entries, all right")


if __name__ == "__main__":
    main()
