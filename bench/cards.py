#!/usr/bin/env python3
"""The judge of the growth policy: pleat beside PyTorch's expandable segments, card by card.

Usage: cards.py BUILD_DIR [OPTION...]   (./dev cards)

  --traces FOLDER   judge the traces of this folder, too; may be given several times
  --runs N          runs that the generators make, drawn by a seed (default: 20)
  --seed N          of that draw (default: 1)
  --sizes A,B       only these devices: 24G, 40G, 80G, 141G, unlimited, 1.25x, 1.05x, 1.02x
  --costs A,B       only these cost files: a100, driver580, gb10
  --conf STRING     configuration of pleat, on top of the default
  --passes N        passes over each work in one allocator (default: 2)
  --out FILE        where the rows go (default: bench/results/cards.csv)
  --draw            replay nothing: write tables and charts again from the rows that are there

A row of the file is one replay: a work, a device, a cost file, an allocator. A card counts only for
works with a peak of live bytes of at most 0.85 of the card. Both allocators are measured in one
run, so machine and commit are equal. A whole judgement takes ten minutes on two cores."""
import argparse
import collections
import concurrent.futures
import csv
import json
import math
import os
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
import results  # noqa: E402  (how files and pages are written)

BUNDLED = sorted((ROOT / "bench" / "traces").glob("*.trace.gz"))
ALLOCATORS = ("pleat", "torch-expandable")
CARDS = ("24G", "40G", "80G", "141G", "unlimited")
TIGHT = ("1.25x", "1.05x", "1.02x")
COSTS = ("a100", "driver580", "gb10")
FULLEST = 0.85  # of a card, by live bytes: above it a card is no card with memory to spare
MIB, GIB = 1 << 20, 1 << 30
MARKERS = ("<!-- cards:begin -->", "<!-- cards:end -->")


# ---- works -------------------------------------------------------------------------------------

def draw_decoder(rng, name="decoder"):
    hidden = rng.choice((1024, 1536, 2048, 2560, 3072, 4096, 5120))
    keys = {"hidden": hidden, "heads": hidden // rng.choice((64, 128)),
            "layers": rng.randint(8, 36) if name == "decoder" else rng.randint(6, 14),
            "vocab": rng.choice((32000, 50257, 128256)),
            "batch": rng.randint(1, 8), "length": rng.randint(200, 1600),
            "sigma": rng.choice((0, 0, 0.5, 0.8, 1)), "most_length": rng.choice((2048, 4096, 8192)),
            "dtype": rng.choice(("bf16", "bf16", "amp", "fp32")), "clip": rng.choice(("yes", "no")),
            "optimizer": rng.choice(("adamw", "adamw_foreach", "sgd")),
            "iterations": rng.randint(12, 24)}
    if name == "moe":
        keys.update(ff=rng.choice((1408, 2048, 2816)), experts=rng.choice((8, 16, 32)),
                    top_k=rng.choice((1, 2, 4)))
        return keys
    keys.update(family=rng.choice(("llama", "gpt")), checkpoint=rng.choice(("yes", "no")),
                accumulate=rng.choice((1, 2, 4)), lora=rng.choice((0, 0, 0, 16, 64)))
    if keys["lora"] == 0 and rng.random() < 0.4:
        keys.update(shards=rng.choice((4, 8, 16)), ahead=rng.choice((1, 1, 2)))
    return keys


def draw_conv(rng):
    return {"depth": rng.choice((50, 101, 152)), "batch": rng.randint(8, 64),
            "most_height": rng.choice((384, 512, 640, 800)),
            "most_width": rng.choice((384, 512, 640, 800)), "step": rng.choice((16, 32, 64)),
            "optimizer": rng.choice(("sgd", "adamw")), "iterations": rng.randint(40, 120)}


def draw_serving(rng):
    hidden = rng.choice((2048, 2560, 4096))
    return {"layers": rng.randint(16, 40), "hidden": hidden, "heads": hidden // 128,
            "ff": hidden * 11 // 4, "requests": rng.randint(8, 48), "prompt": rng.randint(100, 600),
            "prompt_sigma": rng.choice((0.5, 1)), "output": rng.randint(40, 200),
            "output_sigma": rng.choice((0.5, 0.8)), "iterations": rng.randint(8, 16)}


DRAWS = {"decoder": draw_decoder, "moe": lambda rng: draw_decoder(rng, "moe"), "conv": draw_conv,
         "serving": draw_serving}
WEIGHTS = {"decoder": 11, "moe": 3, "conv": 3, "serving": 3}


def drawn_runs(pleat, n, seed):
    """Draw n specs of generated runs that need at most the largest card."""
    rng = random.Random(seed)
    specs = []
    while len(specs) < n:
        name = rng.choices(list(WEIGHTS), WEIGHTS.values())[0]
        keys = DRAWS[name](rng)
        keys["seed"] = rng.randint(1, 10**6)
        spec = name + ":" + ",".join(f"{key}={value}" for key, value in keys.items())
        if 2 * GIB < peak_of(pleat, spec) < 120 * GIB:
            specs.append(spec)
    return specs


def peak_of(pleat, work):
    """Peak of live bytes; 0 for a spec with contradictory values."""
    told = subprocess.run([pleat, "works", "--json", work], capture_output=True, text=True,
                          check=False)
    return json.loads(told.stdout.splitlines()[0])["peak_live_bytes"] if told.returncode == 0 else 0


# ---- replays -----------------------------------------------------------------------------------

def bytes_of(size):
    return int(size[:-1]) * GIB if size.endswith("G") else math.inf


def replay(pleat, work, size, costs, options):
    """Both allocators' rows for a work on a device."""
    command = [pleat, "replay", work, "--json", "--loops", options.passes, "--memory", size,
               "--sim", f"costs:{costs}", "--driver", "sim", "--allocator", ",".join(ALLOCATORS)]
    environment = dict(os.environ, PLEAT_CONF=options.conf)
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, env=environment)
    if done.returncode not in (0, 1):
        sys.exit(f"{work}: {done.stderr}")
    return [row_of(json.loads(line), work, size, costs) for line in done.stdout.splitlines()]


def row_of(record, work, size, costs):
    peak = record["peak_live_bytes"]
    later = record["later_driver_ms"]
    return {"work": record["trace"], "kind": "run" if ":" in str(work) else "trace", "memory": size,
            "costs": costs, "allocator": record["allocator"], "peak_live_gib": peak / GIB,
            "resident": record["first_peak_reserved_bytes"] / peak,
            "resident_all_passes": record["peak_reserved_bytes"] / peak,
            "driver_ms": record["driver_ms"], "later_ms": later if later is not None else "",
            "longest_ms": record["longest_driver_ms"], "failures": record["oom_count"],
            "host_syncs": record["host_syncs"], "stream_waits": record["stream_waits"],
            "creates": record["calls"]["cuMemCreate"], "maps": record["calls"]["cuMemMap"],
            "hazards": record["hazards"],
            "last_pass_ops": record["loop_device_ops"][-1]}


def measure(build, options):
    pleat = build / "pleat"
    folders = [sorted(pathlib.Path(folder).glob("*.trace.gz")) for folder in options.traces]
    traces = BUNDLED + [trace for folder in folders for trace in folder]
    works = [str(trace) for trace in traces] + drawn_runs(pleat, options.runs, options.seed)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        peaks = dict(zip(works, pool.map(lambda work: peak_of(pleat, work), works)))
        cells = [(work, size, costs) for costs in options.costs for size in options.sizes
                 for work in works
                 if (size in TIGHT and costs == "a100") or
                 (size in CARDS and peaks[work] <= FULLEST * bytes_of(size))]
        done = pool.map(lambda cell: replay(pleat, *cell, options), cells)
        return [row for rows in done for row in rows]


# ---- tables from the rows ----------------------------------------------------------------------

Pair = collections.namedtuple("Pair", "ours theirs")


def pairs_of(rows, size, costs):
    """The two allocators' rows for each work."""
    found = {}
    for row in rows:
        if row["memory"] == size and row["costs"] == costs:
            found.setdefault(row["work"], {})[row["allocator"]] = row
    return [Pair(*(both[name] for name in ALLOCATORS)) for both in found.values()]


def total(rows, key):
    return math.fsum(float(row[key] or 0) for row in rows)


def mean(values):
    values = list(values)
    return math.fsum(values) / len(values) if values else math.nan


def ratio(ours, theirs):
    return ours / theirs if theirs > 0 else math.nan


def summary_of(rows, size, costs):
    pairs = pairs_of(rows, size, costs)
    ours, theirs = [p.ours for p in pairs], [p.theirs for p in pairs]
    out = {"memory": size, "costs": costs, "works": len(pairs)}
    for key in ("resident", "resident_all_passes"):
        for name, some in (("pleat", ours), ("expandable", theirs)):
            out[f"{key}_{name}_mean"] = mean(float(row[key]) for row in some)
            out[f"{key}_{name}_worst"] = max((float(row[key]) for row in some), default=math.nan)
    worse = [float(p.ours["resident"]) > 1.015 * float(p.theirs["resident"]) for p in pairs]
    out["holds_more_on"] = sum(worse)
    out["worse"] = " ".join(p.ours["work"].split(",")[0] for p, is_worse in zip(pairs, worse)
                            if is_worse)
    for key in ("driver_ms", "later_ms", "host_syncs", "stream_waits"):
        out[f"{key}_pleat"] = total(ours, key)
        out[f"{key}_expandable"] = total(theirs, key)
    out["driver_ratio"] = ratio(total(ours, "driver_ms"), total(theirs, "driver_ms"))
    out["later_ms_a_work"] = total(ours, "later_ms") / max(1, len(ours))
    out["longest_ms_pleat"] = max((float(row["longest_ms"]) for row in ours), default=math.nan)
    out["longest_ms_expandable"] = max((float(r["longest_ms"]) for r in theirs), default=math.nan)
    out["failing_pleat"] = sum(int(row["failures"]) > 0 for row in ours)
    out["failing_expandable"] = sum(int(row["failures"]) > 0 for row in theirs)
    out["hazards"] = sum(int(row["hazards"]) for row in ours)
    return out


def summaries(rows):
    cells = dict.fromkeys((row["memory"], row["costs"]) for row in rows)
    return [summary_of(rows, size, costs) for size, costs in cells]


def both(row, key, places):
    return f"{row[key + '_pleat']:,.{places}f} ({row[key + '_expandable']:,.{places}f})"


def memory(row, key="resident"):
    return " ".join(f"{row[f'{key}_{name}_mean']:.3f}, {row[f'{key}_{name}_worst']:.2f}"
                    if name == "pleat" else
                    f"({row[f'{key}_{name}_mean']:.3f}, {row[f'{key}_{name}_worst']:.2f})"
                    for name in ("pleat", "expandable"))


def table(rows):
    lines = ["| device | costs | works | resident / live: mean, worst | over all passes | holds more "
             "on | driver ms, first pass | ratio | later pass | longest request | failing | host "
             "syncs | stream waits |", "|---|---|---:|" + "---:|" * 10]
    for row in rows:
        cells = [row["memory"], row["costs"], row["works"], memory(row),
                 memory(row, "resident_all_passes"), row["holds_more_on"],
                 both(row, "driver_ms", 0), f"{row['driver_ratio']:.2f}", both(row, "later_ms", 0),
                 both(row, "longest_ms", 0), both(row, "failing", 0), both(row, "host_syncs", 0),
                 both(row, "stream_waits", 0)]
        lines.append("| " + " | ".join(str(text) for text in cells) + " |")
    return lines


def short_table(rows):
    """README's: memory and driver time, pleat's and in parentheses expandable segments'."""
    lines = ["| device | works that count | held / live: mean, worst (expandable's) | driver ms, "
             "first pass | failing |", "|---|---:|---:|---:|---:|"]
    for row in rows:
        if row["costs"] == "a100":
            lines.append(f"| {row['memory']} | {row['works']} | {memory(row)} | "
                         f"{both(row, 'driver_ms', 0)} | {both(row, 'failing', 0)} |")
    return lines


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--traces", action="append", default=[])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sizes", type=lambda text: text.split(","), default=CARDS + TIGHT)
    parser.add_argument("--costs", type=lambda text: text.split(","), default=COSTS)
    parser.add_argument("--conf", default="")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, default=results.RESULTS / "cards.csv")
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if not options.draw:
        results.write_csv(options.out, measure(options.build, options))
    rows = results.rows_of(options.out)  # rounded, so that the file gives the same tables again
    lines = table(summaries(rows))
    print("\n".join(lines))
    if options.out == results.RESULTS / "cards.csv":
        results.write_between("docs/results.md", "\n".join(lines), MARKERS)
        results.write_between("README.md", "\n".join(short_table(summaries(rows))), MARKERS)
        results.draw("by_card.py", "cards.csv", "cards.svg")


if __name__ == "__main__":
    main()
