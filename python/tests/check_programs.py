"""Programs with one mistake of ten kinds, or without, drawn by a seed, played under a check.

    python check_programs.py FIRST N [wrong|right]

plays seeds FIRST to FIRST + N - 1 in this process, which pleat-runtime --check has started, and prints
a line of JSON for each: what was found, and what was to be found. check_test.py compares.

A line of a template ends in marks. `1` and `2` are the two places of the mistake, `b` and `f` where the
block was allocated and freed. A line with `!` is the line that the wrong program lacks, a line with `?`
is in the wrong program only.
"""

from __future__ import annotations

import gc
import json
import linecache
import random
import sys
import threading
from typing import Any

import torch
from pleat.torch import _check, _findings, _listener

TEMPLATES = {
    # kind of the finding, whose streams, lines
    "forgotten record_stream": (
        "early-free",
        """
        x = torch.randn(N, device="cuda")  #b
        s.wait_stream(main)
        with torch.cuda.stream(s):
            y = x * 2  #1
        x.record_stream(s)  #!
        del x  #f
        z = torch.ones(M, device="cuda")  #2
        """,
    ),
    "result read too early": (
        "unordered",
        """
        x = torch.randn(N, device="cuda")
        s.wait_stream(main)
        with torch.cuda.stream(s):
            y = x + 1  #1b
        x.record_stream(s)
        NOISE
        main.wait_stream(s)  #!
        total = y.sum()  #2
        y.record_stream(main)
        """,
    ),
    "input used too early": (
        "unordered",
        """
        x = torch.ones(N, device="cuda")  #1b
        NOISE
        s.wait_stream(main)  #!
        with torch.cuda.stream(s):
            y = torch.relu(x)  #2
        x.record_stream(s)
        """,
    ),
    "overwritten while it is read": (
        "unordered",
        """
        x = torch.zeros(N, device="cuda")  #b
        s.wait_stream(main)
        with torch.cuda.stream(s):
            y = x.cumsum(0)  #1
        NOISE
        main.wait_stream(s)  #!
        x.mul_(3)  #2
        x.record_stream(s)
        """,
    ),
    "pointer outlives its tensor": (
        "late-use",
        """
        x = torch.ones(N, device="cuda")  #b
        raw = alias(x.data_ptr(), N)
        kept = x  #!
        del x  #f
        NOISE_OF_OTHERS
        raw.add_(1)  #2
        """,
    ),
    "reaches beyond its memory": (
        "beyond-block",
        """
        x = torch.ones(N, device="cuda")  #b
        raw = alias(x.data_ptr(), N + EXTRA)  #?
        raw = alias(x.data_ptr(), N)  #!
        NOISE
        raw.mul_(2)  #2
        """,
    ),
    "graph outlives its input": (
        "late-use",
        """
        x = torch.ones(N, device="cuda")  #b
        y = torch.empty_like(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=s):
            torch.add(x, 1, out=y)  #1
        graph.replay()
        kept = x  #!
        del x  #f
        NOISE_OF_OTHERS
        graph.replay()  #2
        """,
    ),
    "copy that nobody waits for": (
        "unordered",
        """
        host = torch.ones(N).pin_memory()
        x = torch.empty(N, device="cuda")  #b
        s.wait_stream(main)
        with torch.cuda.stream(s):
            x.copy_(host, non_blocking=True)  #1
        x.record_stream(s)
        NOISE
        main.wait_stream(s)  #!
        y = x.exp()  #2
        """,
    ),
    "event recorded too early": (
        "unordered",
        """
        x = torch.ones(N, device="cuda")
        s.wait_stream(main)
        x.record_stream(s)
        done = torch.cuda.Event()
        with torch.cuda.stream(s):
            done.record()  #?
            y = x.sqrt()  #1b
            done.record()  #!
        NOISE
        main.wait_event(done)
        z = y - 1  #2
        y.record_stream(main)
        """,
    ),
    "thread with a stream of its own": (
        "unordered",
        """
        x = torch.zeros(N, device="cuda")  #b
        s.wait_stream(main)
        x.record_stream(s)
        def body():
            with torch.cuda.stream(s):
                x.add_(1)  #1
        worker = threading.Thread(target=body)
        worker.start()
        worker.join()
        NOISE
        s.synchronize()  #!
        y = x.neg()  #2
        """,
    ),
}

NOISE = (
    ("own = torch.randn(K, device='cuda')", "own = own * 2 + own.mean()"),
    ("own = torch.empty(K, device='cuda').uniform_()", "own.sort()", "del own"),
    ("own = torch.eye(32, device='cuda')", "own = own @ own", "own = own[:, 8:].contiguous()"),
    (
        "own = torch.randn(K, device='cuda', requires_grad=True)",
        "(own * own).sum().backward()",
        "own.grad.clone()",
    ),
    (
        "own = torch.randn(K, device='cuda')",
        "t.wait_stream(main)",
        "with torch.cuda.stream(t):",
        "    held = own + 1",
        "own.record_stream(t)",
        "main.wait_stream(t)",
        "held.sum()",
        "held.record_stream(main)",
    ),
)
# Allocates nothing where a freed block might be given to it.
QUIET = (("steady.add_(1)",), ("steady.mul_(2)", "steady.sub_(1)"), ())


def draw(seed: int, is_wrong: bool) -> tuple[str, dict[str, Any]]:
    """The program's text, and what is to be found."""
    rng = random.Random(seed)
    name = list(TEMPLATES)[seed % len(TEMPLATES)]
    kind, template = TEMPLATES[name]
    n = rng.choice((256, 1 << 10, 1 << 14, 1 << 18, (1 << 20) + 512 * rng.randrange(100)))
    numbers = {
        "N": n,
        "M": rng.choice((n, n // 2, 1 << 22)),
        "K": 1 << rng.randrange(4, 18),
        "EXTRA": rng.choice((1, 128, n)),
    }
    lines = [f"{key} = {value}" for key, value in numbers.items()]
    lines += ["main = torch.cuda.current_stream()", "steady = torch.zeros(64, device='cuda')"]
    lines += [f"{name} = torch.cuda.Stream()" for name in rng.sample(("s", "t"), 2)]

    def noise(most: int, kinds: Any, indent: str = "") -> list[str]:
        return [indent + line for _ in range(rng.randrange(most + 1)) for line in rng.choice(kinds)]

    lines += noise(4, NOISE)
    is_nested = rng.random() < 0.5
    if is_nested:
        lines.append("def step():")
    begin = len(lines)
    marks: dict[str, int] = {}
    for raw in template.strip().splitlines():
        line = raw[8:] if raw.startswith(" " * 8) else raw
        code, _, mark = line.partition("  #")
        if ("!" in mark and is_wrong) or ("?" in mark and not is_wrong):
            continue
        if code.strip() in ("NOISE", "NOISE_OF_OTHERS"):
            lines += noise(3, NOISE if code.strip() == "NOISE" else QUIET)
            continue
        lines.append(code)
        marks.update({key: len(lines) for key in mark})
    if is_nested:
        lines[begin:] = ["    " + line for line in lines[begin:]]
        lines.append("step()")
    lines += noise(2, NOISE)
    expected = {"name": name, "kind": kind, "bytes": 4 * n, **marks}
    return "\n".join(lines) + "\n", expected


class Raw:
    """Memory by its address, as other libraries hand it over."""

    def __init__(self, ptr: int, n: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (n,),
            "typestr": "<f4",
            "data": (ptr, False),
            "version": 3,
        }


def alias(ptr: int, n: int) -> torch.Tensor:
    return torch.as_tensor(Raw(ptr, n), device="cuda")


def number_of(stream: torch.cuda.Stream) -> int:
    return _listener.number_of(stream.cuda_stream)


def first_line(place: Any, file: str) -> int | None:
    lines = [frame.line for frame in place.frames if frame.file == file]
    return lines[0] if lines else None


def play(seed: int, is_wrong: bool) -> dict[str, Any]:
    check = _check.under_way()
    check.look()
    check.findings.found.clear()
    text, expected = draw(seed, is_wrong)
    file = f"program-{seed}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope: dict[str, Any] = {"torch": torch, "alias": alias, "threading": threading}
    exec(compile(text, file, "exec"), scope)
    check.look()
    found = [
        {
            "kind": f.kind,
            "bytes": f.hazard.block_bytes,
            "streams": sorted({f.hazard.stream, f.hazard.other_stream} - {0}),
            "1": first_line(f.other, file),
            "2": first_line(f.place, file),
            "b": first_line(f.born, file),
            "f": first_line(f.freed, file),
        }
        for f in check.findings.found.values()
    ]
    s, main = scope["s"], scope["main"]
    both = sorted({number_of(s), number_of(main)})
    expected["streams"] = both if expected["kind"] in ("unordered", "early-free") else both[:0]
    scope.clear()
    gc.collect()
    torch.cuda.synchronize()
    check.look()
    hints = [place.frames[0].line for place, _ in check.findings.needless()]
    check.findings.found.clear()
    check.findings.records.clear()
    return {"seed": seed, "text": text, "expected": expected, "found": found, "hints": hints}


def main() -> None:
    first, n = int(sys.argv[1]), int(sys.argv[2])
    is_wrong = sys.argv[3] == "wrong"
    for seed in range(first, first + n):
        print(json.dumps(play(seed, is_wrong)), flush=True)


if __name__ == "__main__":
    main()
