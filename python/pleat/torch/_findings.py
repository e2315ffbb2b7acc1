"""What a check has found, each mistake once, and how it is told."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Any

import torch

from . import _leaks, _places
from ._listener import Hazard, compared_launches, default_streams

MOST_ROWS = 1 << 16  # of a view with gaps, compared one by one
MOST_DEPTH = 1 << 20  # that the simulator takes

_TITLES = {
    "unordered": "two streams use the same memory without an order",
    "early-free": "memory is freed while another stream uses it",
    "late-use": "work on memory that was freed",
    "beyond-block": "work reaches beyond the end of its memory",
    "no-contents": "a sleep has discarded what is read here",
    "unmapped": "work on memory that is not there",
    "unmapped-in-use": "memory goes back to the driver under work",
}


@dataclass
class Finding:
    kind: str
    hazard: Hazard
    count: int = 1

    @property
    def place(self) -> _places.Place:
        """Where the mistake shows."""
        return _places.place(self.hazard.place)

    @property
    def other(self) -> _places.Place:
        """Where the other work was submitted, or nowhere."""
        return _places.place(self.hazard.other_place)

    @property
    def born(self) -> _places.Place:
        return _places.place(self.hazard.born_place)

    @property
    def freed(self) -> _places.Place:
        return _places.place(self.hazard.freed_place)

    def missing(self) -> str:
        """The line of code that would have been right."""
        here, other = _line(self.place), _line(self.other)
        if self.kind == "early-free":
            return (
                f"TENSOR.record_stream(torch.cuda.current_stream())  # right after {other}, or let "
                f"the tensor's own stream wait before the free"
            )
        if self.kind == "unordered":
            return f"torch.cuda.current_stream().wait_stream(OTHER)  # before {here}"
        if self.kind == "late-use" and self.hazard.other_place:
            return f"keep the tensor of {_line(self.born)} as long as its graph is launched"
        if self.kind == "late-use":
            return f"keep the tensor of {_line(self.born)} until after {here}"
        if self.kind == "beyond-block":
            return f"allocate as much at {_line(self.born)} as is used at {here}"
        if self.kind == "no-contents":
            return f"fill the tensor before {here}, or sleep with keep='host'"
        if self.kind == "unmapped" and "it sleeps" in self.hazard.text:
            return f"pleat.torch.wake(TAG)  # before {here}"
        return ""


def _line(place: _places.Place) -> str:
    return place.frames[0].text() if place.frames else "?"


def _stream(number: int) -> str:
    return "the default stream" if number in default_streams() else f"stream {number}"


def _object(place: _places.Place) -> dict[str, Any]:
    frames = [{**f._asdict(), "source": f.source()} for f in place.frames]
    return {"what": place.what, "backward": place.is_backward, "frames": frames}


Shape = tuple[int, int, tuple[int, ...], tuple[int, ...]]  # address, bytes of an element, sizes, steps


def shape_of(tensor: torch.Tensor) -> Shape:
    return tensor.data_ptr(), tensor.itemsize, tuple(tensor.size()), tensor.stride()


def _rows(shape: Shape) -> list[tuple[int, int]] | None:
    """The byte ranges of a view, one for each run without a gap; None: too many."""
    base, item, sizes, steps = shape
    dims = sorted(zip(steps, sizes))
    run = 1
    while dims and (dims[0][0] == run or dims[0][1] == 1 or dims[0][0] == 0):
        run *= dims[0][1] if dims[0][0] == run else 1
        dims.pop(0)
    starts = [0]
    for step, size in dims:
        if len(starts) * size > MOST_ROWS:
            return None
        starts = [start + i * step for start in starts for i in range(size if step else 1)]
    return sorted((base + s * item, base + (s + run) * item) for s in starts)


def _meet(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> bool:
    i = k = 0
    while i < len(one) and k < len(other):
        if one[i][0] < other[k][1] and other[k][0] < one[i][1]:
            return True
        if one[i][1] <= other[k][1]:
            i += 1
        else:
            k += 1
    return False


class Findings:
    def __init__(self) -> None:
        self.found: dict[tuple[Any, ...], Finding] = {}
        self.gaps: dict[int, list[Shape]] = {}  # of a place's last operation, if any has gaps
        self.n_operations = 0
        self.records: dict[int, list[int]] = {}  # by place: blocks that waited for nothing, others

    def note_record(self, place: int, was_used: bool) -> None:
        self.records.setdefault(place, [0, 0])[was_used] += 1

    def needless(self) -> list[tuple[_places.Place, int]]:
        """Calls of record_stream that no block needed. Where one did, the call is right."""
        return [
            (_places.place(place), needless)
            for place, (needless, needed) in self.records.items()
            if not needed
        ]

    def _misses(self, hazard: Hazard) -> bool:
        """Whether the two works only interleave, as halves of a matrix's columns do."""
        one, other = self.gaps.get(hazard.place), self.gaps.get(hazard.other_place)
        if not one or not other:
            return False
        ours, theirs = [_rows(shape) for shape in one], [_rows(shape) for shape in other]
        return not any(a is None or b is None or _meet(a, b) for a in ours for b in theirs)

    def add(self, hazard: Hazard) -> None:
        kind = hazard.kind
        if kind == "unordered" and self._misses(hazard):
            return
        if kind == "unordered" and "was freed after" in hazard.text:
            kind = "early-free"
        if kind == "unordered" and hazard.block_ptr == 0:
            # The bytes have changed hands since: a consequence of what was found of that work.
            for old in self.found.values():
                if old.hazard.other_place == hazard.other_place:
                    return
        key = {
            "unordered": (hazard.other_place, hazard.born_place),
            "early-free": (hazard.other_place, hazard.freed_place),
            "late-use": (hazard.born_place, hazard.freed_place),
            "no-contents": (hazard.born_place,),
        }.get(kind, (hazard.place, hazard.born_place))
        old = self.found.setdefault((kind, *key), Finding(kind, hazard, 0))
        old.count += 1

    # ---- words ----

    @staticmethod
    def _stack(place: _places.Place, what: str) -> list[str]:
        if not place.frames:
            return [f"     {what}: outside of Python"]
        first = place.frames[0]
        name = f"backward of {place.what}" if place.is_backward else place.what
        lines = [f"     {first.text()}  {first.source()}", f"         {name}, {what}"]
        for frame in place.frames[1:4]:
            lines.append(f"         from {frame.text()}  {frame.source()}")
        return lines

    def tell(self, number: int, finding: Finding) -> list[str]:
        hazard = finding.hazard
        times = "" if finding.count == 1 else f" ({finding.count} times)"
        lines = [f"  {number}. {finding.kind}: {_TITLES.get(finding.kind, hazard.text)}{times}"]
        if hazard.other_place:
            is_graph_s = finding.kind == "late-use"
            stream = "captured" if is_graph_s else f"on {_stream(hazard.other_stream)}"
            lines += self._stack(finding.other, stream)
        is_reuse = finding.kind == "early-free" and hazard.place and hazard.kind == "early-free"
        what = "the next request" if is_reuse else f"on {_stream(hazard.stream)}"
        lines += self._stack(finding.place, what)
        if hazard.block_bytes:
            words = f"     memory: {_leaks.size(hazard.block_bytes)}"
            words += f", allocated at {_line(finding.born)}"
            if hazard.freed_place:
                words += f", freed at {_line(finding.freed)}"
            lines.append(words)
        if finding.missing():
            lines.append(f"     missing: {finding.missing()}")
        return lines

    def lines(self, live: _leaks.Live) -> list[str]:
        n = len(self.found)
        told = [f"pleat check: {n} finding{'' if n == 1 else 's'}, {self.n_operations} operations"]
        within = compared_launches()
        if within is not None:
            told[0] += (
                f"; not compared: work of two streams more than {within} launches apart, with no "
                f"wait of the host in between"
            )
            if within < MOST_DEPTH:
                told[0] += f" (--sim depth:{MOST_DEPTH} compares more)"
        for i, finding in enumerate(self.found.values()):
            told += self.tell(i + 1, finding)
        return told + self.others(live)

    def others(self, live: _leaks.Live) -> list[str]:
        """What is no finding."""
        told = []
        for place, count in self.needless():
            times = "" if count == 1 else f", {count} times"
            told.append(f"pleat check: a hint: record_stream that nothing needs{times}")
            told += self._stack(place, "and that stream has not used the memory: it waits for nothing")
        growing = live.growing()
        if growing:
            told.append(f"pleat check: memory grows with each of {live.n_steps} steps")
            told += [f"  {alive}" for alive in growing[:10]]
        return told

    def as_objects(self) -> list[dict[str, Any]]:
        return [
            {
                "kind": f.kind,
                "title": _TITLES.get(f.kind, f.hazard.text),
                "count": f.count,
                "here": _object(f.place),
                "other": _object(f.other) if f.hazard.other_place else None,
                "stream": f.hazard.stream,
                "other_stream": f.hazard.other_stream or None,
                "block": {
                    "address": f.hazard.block_ptr,
                    "bytes": f.hazard.block_bytes,
                    "allocated": _object(f.born),
                    "freed": _object(f.freed) if f.hazard.freed_place else None,
                },
                "missing": f.missing(),
                "text": f.hazard.text,
            }
            for f in self.found.values()
        ]

    def finish(self, live: _leaks.Live, folder: str | None) -> None:
        """Print the findings on standard error, and leave them in the folder for pleat-runtime."""
        print("\n".join(self.lines(live)), file=sys.stderr)
        if folder is None:
            return
        whole = {
            "findings_found": len(self.found),
            "process": os.getpid(),
            "findings": self.as_objects(),
            "growing": [
                {**alive._asdict(), "place": str(alive)} for alive in live.growing()
            ],
            "hints": [
                {"kind": "needless-record", "place": _object(place), "count": count}
                for place, count in self.needless()
            ],
            "operations": self.n_operations,
            "compared_launches": compared_launches(),
        }
        path = os.path.join(folder, f"{os.getpid()}.json")
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(whole, file)
            file.write("\n")
        os.rename(path + ".part", path)
