"""The page of all blocks over time, blocks.html. All live blocks are stacked by age, so each block is a bar
from its allocation to its free. blocks.js draws the bars on a canvas.

The page holds numbers as packed arrays, little-endian, in base64. Stacks are a tree of frames: stacks
with the same callers share their nodes.

Usage: blocks.py FOLDER   (report.py calls it; to draw the page alone)"""
import base64
import json
import pathlib
import sys

import numpy

import data
import sites

HERE = pathlib.Path(__file__).resolve().parent
UNIT = 512  # in which live bytes are counted


def packed(values):
    """An array of counts in the smallest type that holds them; None stays None."""
    if values is None:
        return None
    array = numpy.asarray(values, dtype=numpy.uint64)
    most = int(array.max(initial=0))
    kind = next(k for k, room in (("u1", 1 << 8), ("u2", 1 << 16), ("u4", 1 << 32), ("f8", 1 << 53))
                if most < room)
    return {"type": kind, "of": base64.b64encode(array.astype("<" + kind).tobytes()).decode("ascii")}


class Frames:
    """The tree: a node has a frame and its caller's node; node 0 is no frame."""

    def __init__(self):
        self.texts, self.frame, self.caller = {}, [0], [0]
        self.nodes = {}

    def node_of(self, stack):
        """The node of the innermost frame."""
        at = 0
        for text in reversed(stack.split("\n")):
            frame = self.texts.setdefault(text, len(self.texts))
            found = self.nodes.setdefault((at, frame), len(self.frame))
            if found == len(self.frame):
                self.frame.append(frame)
                self.caller.append(at)
            at = found
        return at


def steps(values):
    """Each value less the one before it."""
    return None if values is None else numpy.diff(numpy.asarray(values, dtype=numpy.int64), prepend=0)


def in_units(values):
    return None if values is None else numpy.asarray(values, dtype=numpy.int64) // UNIT


def of_work(row, verdict):
    """One work, packed, with the verdict's lines about its need and its recording."""
    frames = Frames()
    named = {}
    used, places = numpy.unique(numpy.asarray(row["stack"], dtype=numpy.int64), return_inverse=True)
    stacks = [row["stacks"][i] if i >= 0 else "" for i in used]
    site_of = [named.setdefault(sites.frame_of(s), len(named)) if s else None for s in stacks]
    return {
        "name": row["blocks"], "needs": verdict.get("needs", ""), "recorded": verdict.get("recorded", ""),
        "n_events": row["n_events"], "n_blocks": row["n_blocks"], "n_other": row["n_other"], "unit": UNIT, "bytes": packed(row["bytes"]),
        "steps": packed(steps(row["at"])), "other": packed(in_units(row["other"])),
        "of": packed(row["of"]), "stream": packed(row["stream"]), "stack": packed(places),
        "node": packed([frames.node_of(s) if s else 0 for s in stacks]),
        "site": packed([0 if i is None else i + 1 for i in site_of]), "sites": list(named),
        "frame": packed(frames.frame), "caller": packed(frames.caller), "frames": list(frames.texts),
    }


def page(folder, templates):
    """The page as a text; None where no blocks were written."""
    rows = [row for row in data.lines_of(pathlib.Path(folder) / "blocks.jsonl") if row["n_blocks"]]
    if not rows:
        return None
    lines = {v["work"]: dict(v["lines"])
             for v in data.lines_of(pathlib.Path(folder) / "verdicts.jsonl")}
    held = json.dumps([of_work(row, lines.get(row["blocks"], {})) for row in rows], separators=(",", ":")).replace("<", "\\u003c")
    return templates.get_template("blocks.html.j2").render(
        works=[row["blocks"] for row in rows], held=held,
        style=(HERE / "report.css").read_text(encoding="utf-8"),
        program=(HERE / "blocks.js").read_text(encoding="utf-8"))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    import report  # pylint: disable=import-outside-toplevel  # it imports this module
    text = page(sys.argv[1], report.templates())
    if text is None:
        sys.exit(f"{sys.argv[1]}: no blocks.jsonl with blocks in it")
    report.put_in_place(pathlib.Path(sys.argv[1]) / "blocks.html", text)


if __name__ == "__main__":
    main()
