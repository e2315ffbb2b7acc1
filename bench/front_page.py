#!/usr/bin/env python3
"""The figures on README's first screen.

Usage: front_page.py BUILD_DIR [--check]   (./dev front-page)

Replays a bundled trace on a card where PyTorch's caches refuse a request, asks `pleat ab`, and prints
what happened. Writes these lines, the counts of tests, and the comparison with expandable segments
(from bench/results/cards.csv) between README's markers. With --check nothing is written: the exit
status is 1 if README has something else, or if its first screen lacks a part."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
import cards  # noqa: E402
import results  # noqa: E402

WORK, CARD = "llama3b_ckpt_accum_var", "32GB"
MIB, GIB = 1 << 20, 1 << 30
WORDS = {"torch-native": "PyTorch's default", "torch-expandable": "expandable_segments"}
SCREEN = 60  # lines
PARTS = ("./dev pain", "**Status:**", "## Why not expandable_segments?", "## I have ...")


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                          env={**os.environ, "PLEAT_CONF": ""})
    assert done.returncode in (0, 1), done.stderr
    return done


def size_of(text):
    """Bytes of a text like 861.08 MiB."""
    number, unit = text.split()
    return float(number) * {"B": 1, "KiB": 1024, "MiB": MIB, "GiB": GIB}[unit]


def replayed(pleat, allocator):
    done = run(pleat, "replay", WORK, "--card", CARD, "--driver", "sim", "--json", "--allocator",
               allocator)
    return json.loads(done.stdout), done.stderr


def refused(pleat, allocator):
    """One line: what is refused, and what is free, at the driver and in the cache."""
    record, said = replayed(pleat, allocator)
    assert record["oom_count"] > 0, allocator
    request = re.search(r": (\S+ \wi?B) \(\d+ bytes\) requested", said).group(1)
    free = sum(size_of(text) for text in re.findall(r", free (\S+ \wi?B)", said))
    return (f"{WORDS[allocator] + ':':21}{size_of(request) / MIB:.0f} MiB are refused while "
            f"{free / GIB:.2f} GiB are free: the job dies")


def verdict(pleat):
    """The lines of the excerpt, and the share of the card's memory for tensors that lives."""
    with tempfile.TemporaryDirectory(prefix="pleat-front-") as folder:
        run(pleat, "ab", WORK, "--driver", "sim", "--no-report", "--out", folder)
        line = (pathlib.Path(folder) / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()[0]
    told = json.loads(line)
    least = {s["allocator"]: s["device"] for s in told["settings"]}
    typed = dict(told["lines"])["type"]
    card = next(d["bytes"] for d in told["devices"] if d["label"].replace(" ", "") == CARD)
    lines = [f"then pleat ab tells: it needs {told['need_bytes'] / GIB:.2f} GiB, and runs on a card of "
            f"{least['torch-native']} as it is, of {least['pleat']} under pleat",
             f"and what to type:    {typed}"]
    return lines, told["need_bytes"] / card


def pain(pleat):
    """The excerpt, and a sentence of what it leaves out."""
    record, _ = replayed(pleat, "pleat")
    assert record["oom_count"] == 0
    lines, share = verdict(pleat)
    return [f"$ ./dev pain         # training a 3B model ({WORK}), on a card of {CARD[:-2]} GB",
            refused(pleat, "torch-native"), refused(pleat, "torch-expandable"), *lines,
            f"under pleat:         completes on {CARD[:-2]} GB; nothing was copied, no pointer changed"], \
        ("Both caches die while memory is free. It lies beside live blocks, in the same segments or "
         "pages of 20 MiB, and cannot serve elsewhere. At the peak, live blocks take "
         f"{100 * share:.0f} % of that card: pleat is for runs near the limit. [The works](#the-works) "
         "below tell how many runs fail under each.")


# ---- status ------------------------------------------------------------------------------------

def rows_of(name):
    return results.rows_of(ROOT / name)


def passed(rows, native="native", ours="pleat"):
    both = [row for row in rows if row[native] == "pass"]
    return sum(row[ours] == "pass" for row in both), len(both)


def status():
    versions = sorted({row["torch"] for row in rows_of("tests/torch/versions.csv")},
                      key=lambda text: [int(part) for part in text.split(".")])
    ours, native = passed(rows_of("tests/torch/results-2.6.0.csv"))
    peers, of_peers = passed(rows_of("tests/peers/results.csv"))
    mutations = (ROOT / "tests" / "mutate" / "mutations.txt").read_text(encoding="utf-8")
    return (f"**Status:** version 0.1, and never run on a GPU. The evidence is from a simulated "
            f"driver, which refuses what a real one may let pass: {ours} of the {native} tests of PyTorch 2.6's "
            f"allocator that pass natively pass under pleat, and {peers:,} of {of_peers:,} of CuPy, "
            f"Numba and CCCL's C++ library. Unmodified PyTorch runs ({versions[0]} to {versions[-1]} were "
            f"tried). Over {len(re.findall('^== ', mutations, re.M)) // 100}00 mistakes, put into the "
            "source one by one, make a test fail. "
            "Times of the driver are modelled after published figures.")


# ---- why not expandable segments ---------------------------------------------------------------

def seconds(row, who):
    return f"{row[f'driver_ms_{who}_mean'] / 1000:.1f} s"


def worst_ratio(rows, size):
    """Of the driver's time, over single works."""
    both = cards.both_complete(cards.pairs_of(rows, size, "a100"))
    return max(float(p.ours["driver_ms"]) / float(p.theirs["driver_ms"]) for p in both)


def why(rows):
    told = {(row["memory"], row["costs"], row["way"]): row for row in cards.summaries(rows)}
    free = told["unlimited", "a100", cards.OURS]
    near = told["1.01x", "a100", cards.COMPACTS]
    by_default = told["1.01x", "a100", cards.OURS]
    busy = told["1.05x", "a100", cards.OURS]
    streams = {row["allocator"]: float(row["resident"]) for row in rows
               if (row["work"], row["memory"], row["costs"]) ==
               ("serve_two_streams", "unlimited", "a100")}
    return [
        "Use them first: they are one setting, they come with PyTorch, and on a card with room to "
        f"spare both complete all of {free['works']} runs ([the works](#the-works), with intervals). "
        "`pleat ab` advises them where they do. What pleat adds, on the simulator:",
        "",
        f"* *Near the limit.* On a device of 1.01 times the memory of its live blocks, "
        f"{near['failing_expandable']} of {near['works']} runs fail under expandable segments, "
        f"{by_default['failing_pleat']} under pleat by default, and {near['failing_pleat']} with the "
        "option `short:compact`. That option moves live memory before a request fails. If another "
        "thread launches work at that moment, the work may fault.",
        f"* *Nothing held that others need.* Without a limit pleat holds {free['resident_pleat_mean']:.2f} "
        f"times what lives, they {free['resident_expandable_mean']:.2f}. With two streams it is "
        f"{streams[cards.OURS]:.2f} against {streams[cards.THEIRS]:.2f}: free memory of one stream "
        "serves the other.",
        f"* *No stop of the host.* With 1.05 times what lives expandable segments wait "
        f"{busy['host_syncs_expandable']:,.0f} times for the GPU, pleat {busy['host_syncs_pleat']:,.0f} "
        f"times, and seldom on [other generated runs](docs/review.md#a-mean-hides-the-spread). The "
        f"price is time in the driver, once a run and modelled: {seconds(busy, 'pleat')} there against "
        f"{seconds(busy, 'expandable')}, and in a short run up to {worst_ratio(rows, '1.05x'):.0f} times "
        f"theirs. Where memory is plentiful it is {seconds(free, 'pleat')} against "
        f"{seconds(free, 'expandable')}.",
        "* *More than a cache:* weights that [sleep](docs/sleep.md), caches that [grow in "
        "place](docs/buffers.md), [sharing](docs/sharing.md), private pools, and checks of "
        "[mistakes](docs/simulator.md) without a GPU.",
    ]


def wrapped(lines):
    import textwrap
    out = []
    for line in lines:
        indent = "  " if line.startswith("* ") else ""
        out += textwrap.wrap(line, 100, subsequent_indent=indent, break_long_words=False,
                             break_on_hyphens=False) or [""]
    return "\n".join(out)


def parts(build):
    rows = results.rows_of("cards.csv")
    shown, said = pain(build / "pleat")
    return {"pain": "\n".join(f"    {line}" for line in shown) + "\n\n" + wrapped([said]), "status": wrapped([status()]),
            "why": wrapped(why(rows))}


def check(made):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    wrong = 0
    for name, part in made.items():
        if f"<!-- {name}:begin -->\n{part}\n<!-- {name}:end -->" not in text:
            print(f"README.md: {name} is not what ./dev front-page writes:\n{part}")
            wrong = 1
    screen = text.splitlines()[:SCREEN]
    for part in PARTS:
        if not any(part in line for line in screen):
            print(f"README.md: the first {SCREEN} lines lack: {part}")
            wrong = 1
    return wrong


def main():
    if "--pain" in sys.argv:
        print("\n".join(pain(pathlib.Path(sys.argv[1]) / "pleat")[0][1:]))
        return 0
    made = parts(pathlib.Path(sys.argv[1]))
    if "--check" in sys.argv:
        return check(made)
    for name, part in made.items():
        results.write_between("README.md", part, (f"<!-- {name}:begin -->", f"<!-- {name}:end -->"))
    print("written: README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
