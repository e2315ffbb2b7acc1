#!/usr/bin/env python3
"""The judge of the growth policy: pleat beside PyTorch's expandable segments, card by card.

Usage: cards.py BUILD_DIR [OPTION...]   (./dev cards)

  --traces FOLDER   judge the traces of this folder, too; may be given several times
  --runs N          runs that the generators make, drawn by a seed (default: 20)
  --seed N          of that draw, and of the intervals (default: 1)
  --sizes A,B       only these devices: 24G, 40G, 80G, 141G, unlimited; 1.25x, 1.05x, 1.02x, 1.01x,
                    1.005x of what lives; least, the least device on which a work completes
  --costs A,B       only these cost files: a100, driver580, gb10
  --conf STRING     configuration of pleat, on top of the default, which its rows name; with
                    policy:PATH (docs/policy.md) pleat's built-in policy stands beside, as rows of its
                    own
  --passes N        passes over each work in one allocator (default: 2)
  --out FILE        where the rows go (default: bench/results/cards.csv)
  --charts FOLDER   the charts as SVG and PDF, with their numbers as CSV
  --draw            replay nothing: write tables and charts again from the rows that are there

A row of the file is one replay: a work, a device, a cost file, an allocator. A card counts only for
works with a peak of live bytes of at most 0.85 of the card. On devices near what lives, pleat runs
a second time, with short:compact. All are measured in one run, so machine and commit are equal. A
whole judgement takes ten minutes on two cores."""
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
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench" / "report")]
import chance  # noqa: E402
import results  # noqa: E402  (how files and pages are written)

BUNDLED = sorted((ROOT / "bench" / "traces").glob("*.trace.gz"))
OURS, THEIRS = "pleat", "torch-expandable"
COMPACTS = "pleat, short:compact"  # as an allocator of its own
BUILT_IN = "pleat, built-in policy"  # beside one of the user's own (--conf policy:PATH)
CONFS = {OURS: "", COMPACTS: "short:compact", BUILT_IN: "", THEIRS: ""}
CARDS = ("24G", "40G", "80G", "141G", "unlimited")
NEAR = ("1.05x", "1.02x", "1.01x", "1.005x")
TIGHT = ("1.25x", *NEAR)
LEAST = "least"  # device: searched for, work by work
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


def without_policy(conf):
    return ",".join(item for item in conf.split(",") if not item.startswith("policy:"))


def replay(pleat, work, size, costs, allocator, options):
    """The row of a work on a device."""
    command = [pleat, "fit"] if size == LEAST else \
        [pleat, "replay", "--loops", options.passes, "--memory", size]
    command += [work, "--json", "--sim", f"costs:{costs}", "--driver", "sim", "--allocator",
                THEIRS if allocator == THEIRS else OURS]
    given = options.conf if allocator in (OURS, COMPACTS) else without_policy(options.conf)
    conf = ",".join(filter(None, (given, CONFS[allocator])))
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, env=dict(os.environ, PLEAT_CONF=conf))
    if done.returncode not in (0, 1):
        sys.exit(f"{work}: {done.stderr}")
    kind = "run" if ":" in str(work) else "trace"
    return {"kind": kind, "memory": size, "costs": costs, "allocator": allocator, "conf": given,
            **figures_of(json.loads(done.stdout))}


def figures_of(record):
    peak = record["peak_live_bytes"]
    later = record["later_driver_ms"]
    return {"work": record["trace"], "peak_live_gib": peak / GIB, "least": record.get("ratio") or "",
            "resident": record["first_peak_reserved_bytes"] / peak,
            "resident_all_passes": record["peak_reserved_bytes"] / peak,
            "driver_ms": record["driver_ms"], "later_ms": later if later is not None else "",
            "longest_ms": record["longest_driver_ms"], "failures": record["oom_count"],
            "host_syncs": record["host_syncs"], "stream_waits": record["stream_waits"],
            "creates": record["calls"]["cuMemCreate"], "maps": record["calls"]["cuMemMap"],
            "hazards": record["hazards"],
            "last_pass_ops": record["loop_device_ops"][-1]}


def counts(work_peak, size, costs):
    """Is a work of this peak judged on the device, under these costs?"""
    if size in CARDS:
        return work_peak <= FULLEST * bytes_of(size)
    return costs == "a100"


def measure(build, options):
    pleat = build / "pleat"
    folders = [sorted(pathlib.Path(folder).glob("*.trace.gz")) for folder in options.traces]
    traces = BUNDLED + [trace for folder in folders for trace in folder]
    works = [str(trace) for trace in traces] + drawn_runs(pleat, options.runs, options.seed)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        peaks = dict(zip(works, pool.map(lambda work: peak_of(pleat, work), works)))
        cells = [(work, size, costs, allocator) for costs in options.costs for size in options.sizes
                 for work in works if counts(peaks[work], size, costs)
                 for allocator in CONFS if (allocator != COMPACTS or size in (*NEAR, LEAST))
                 and (allocator != BUILT_IN or "policy:" in options.conf)]
        return told(pool.map(lambda cell: replay(pleat, *cell, options), cells), len(cells))


def told(rows, n):
    """All rows; at a terminal, how many there are by now."""
    done = []
    for row in rows:
        done.append(row)
        if sys.stderr.isatty():
            print(f"\r{len(done)} of {n} replays", end="\n" if len(done) == n else "",
                  file=sys.stderr, flush=True)
    return done


# ---- tables from the rows ----------------------------------------------------------------------

Pair = collections.namedtuple("Pair", "ours theirs")


def pairs_of(rows, size, costs, ours=OURS):
    """Rows of each work: of pleat, in one of its ways, and of expandable segments."""
    found = {}
    for row in rows:
        if row["memory"] == size and row["costs"] == costs:
            found.setdefault(row["work"], {})[row["allocator"]] = row
    return [Pair(both[ours], both[THEIRS]) for both in found.values() if ours in both]


def values(rows, key):
    return [float(row[key] or 0) for row in rows]


def mean(some):
    return math.fsum(some) / len(some) if some else math.nan


def ratio(ours, theirs):
    return ours / theirs if theirs > 0 else math.nan


def has_failed(row):
    return int(row["failures"]) > 0


def both_complete(pairs):
    return [p for p in pairs if not has_failed(p.ours) and not has_failed(p.theirs)]


def times_of(pairs):
    """Time in the driver, of works that both complete: after a refusal a replay has less to do."""
    complete = both_complete(pairs)
    out = {}
    for name, some in zip(("pleat", "expandable"), zip(*complete) if complete else ((), ())):
        for key in ("driver_ms", "later_ms"):
            out[f"{key}_{name}_mean"] = mean(values(some, key))
            out[f"{key}_{name}_worst"] = max(values(some, key), default=math.nan)
        out[f"longest_ms_{name}"] = max(values(some, "longest_ms"), default=math.nan)
    return out


def ratio_with_interval(pairs, key, seed):
    """Of the sums, pleat's over expandable segments', and where it lies if other works are drawn."""
    numbers = [tuple(values(pair, key)) for pair in pairs]

    def figure(some):
        return ratio(math.fsum(ours for ours, _ in some), math.fsum(theirs for _, theirs in some))
    return (figure(numbers), *chance.interval_of(numbers, figure, seed)) if numbers else \
        (math.nan,) * 3


def summary_of(rows, size, costs, way, seed):
    pairs = pairs_of(rows, size, costs, way)
    out = {"memory": size, "costs": costs, "way": way, "works": len(pairs), **times_of(pairs)}
    out["conf"] = next((p.ours.get("conf", "") for p in pairs), "")
    for key in ("least",) if size == LEAST else ("driver_ms", "resident"):
        some = both_complete(pairs) if key == "driver_ms" else pairs
        out[f"{key}_ratio"] = ratio_with_interval(some, key, seed)
    for name, some in (("pleat", [p.ours for p in pairs]), ("expandable", [p.theirs for p in pairs])):
        for key in ("resident", "resident_all_passes", "least"):
            out[f"{key}_{name}_mean"] = mean(values(some, key))
            out[f"{key}_{name}_worst"] = max(values(some, key), default=math.nan)
        for key in ("host_syncs", "stream_waits"):
            out[f"{key}_{name}"] = math.fsum(values(some, key))
        out[f"failing_{name}"] = sum(has_failed(row) for row in some)
    out["holds_more_on"] = sum(float(p.ours["resident"]) > 1.015 * float(p.theirs["resident"])
                               for p in pairs)
    return out


def is_here(row):
    """Is the work in the repository: a bundled trace, or a run that anybody can generate?"""
    return row["kind"] == "run" or any(trace.name == f"{row['work']}.trace.gz" for trace in BUNDLED)


def summaries(rows, has_traces=False, seed=chance.SEED):
    """Of the works that are in the repository, so that everybody can repeat them; with `has_traces`
    of all. The seed is that of the intervals."""
    rows = [row for row in rows if has_traces or is_here(row)]
    cells = dict.fromkeys((row["memory"], row["costs"], row["allocator"]) for row in rows)
    return [summary_of(rows, *cell, seed) for cell in cells if cell[2] != THEIRS]


def both(row, key, places=0):
    return f"{row[key + '_pleat']:,.{places}f} ({row[key + '_expandable']:,.{places}f})"


def spread(row, key, places=(3, 3), scale=1):
    """Mean and worst: pleat's, and in parentheses expandable segments'."""
    texts = [", ".join(f"{row[f'{key}_{name}_{what}'] * scale:,.{n}f}"
                       for what, n in zip(("mean", "worst"), places))
             for name in ("pleat", "expandable")]
    return f"{texts[0]} ({texts[1]})"


def with_interval(row, key, places=2):
    of, least, most = row[f"{key}_ratio"]
    return f"{of:.{places}f} ({least:.{places}f} to {most:.{places}f})"


def way_of(row):
    """What pleat it was: as configured, with short:compact, with the built-in policy."""
    conf = ",".join(filter(None, (row["conf"], CONFS[row["way"]])))
    conf = ",".join(f"policy:{pathlib.Path(item).name}" if item.startswith("policy:") else item
                    for item in conf.split(","))
    return "built-in policy" if row["way"] == BUILT_IN else f"`{conf}`" if conf else ""


def device(row):
    return ", ".join(filter(None, (row["memory"], way_of(row))))


def driver_seconds(row, key="driver_ms"):
    return spread(row, key, (2, 2), 1 / 1000)


def lines_of(titles, rows):
    lines = ["| " + " | ".join(titles) + " |", "|---|" + "---:|" * (len(titles) - 1)]
    return lines + ["| " + " | ".join(str(cell) for cell in cells) + " |" for cells in rows]


def least_lines(rows):
    """Of every work, the least device on which one pass over it completes."""
    cells = [[", ".join(filter(None, ("pleat", way_of(row)))), row["works"], spread(row, "least"),
              with_interval(row, "least", 3)] for row in rows if row["memory"] == LEAST]
    return ["", *lines_of(("way", "works", "least device / live: mean, worst", "ratio of sums"),
                          cells)] if cells else []


def interval_lines(seed):
    return ["", f"Behind a ratio: {chance.said(seed)}."]


def table(rows, seed=chance.SEED):
    titles = ("device", "costs", "works", "failing", "held / live: mean, worst", "ratio of sums",
              "over all passes", "holds more on", "driver s a run: mean, worst", "ratio of sums",
              "later pass, s a run: mean, worst", "longest request, ms", "host syncs",
              "stream waits")
    cells = [[device(row), row["costs"], row["works"], both(row, "failing"),
              spread(row, "resident"), with_interval(row, "resident", 3),
              spread(row, "resident_all_passes"), row["holds_more_on"], driver_seconds(row),
              with_interval(row, "driver_ms"), driver_seconds(row, "later_ms"),
              both(row, "longest_ms"), both(row, "host_syncs"), both(row, "stream_waits")]
             for row in rows if row["memory"] != LEAST]
    return [*lines_of(titles, cells), *least_lines(rows), *interval_lines(seed)]


def short_table(rows, seed=chance.SEED):
    """README's: what a user counts, of pleat and in parentheses of expandable segments, and both
    ratios: of memory held, and of the driver's time under each cost file."""
    ratios = {(row["memory"], row["way"], row["costs"]): with_interval(row, "driver_ms")
              for row in rows if row["memory"] != LEAST}
    titles = ("device", "works", "failing", "held / live: mean, worst", "memory held",
              *(f"driver time, {costs}" for costs in COSTS))
    cells = [[device(row), row["works"], both(row, "failing"), spread(row, "resident", (3, 2)),
              with_interval(row, "resident", 3),
              *(ratios.get((row["memory"], row["way"], costs), "") for costs in COSTS)]
             for row in rows if row["costs"] == COSTS[0] and row["memory"] != LEAST]
    return [*lines_of(titles, cells), *least_lines(rows), *interval_lines(seed)]


def main():
    parser = argparse.ArgumentParser(add_help=False)
    if {"-h", "--help"} & set(sys.argv):
        print(__doc__.replace("cards.py BUILD_DIR [OPTION...]   (./dev cards)",
                              "./dev cards [OPTION...]"))
        return
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--traces", action="append", default=[])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sizes", type=lambda text: text.split(","), default=(*CARDS, *TIGHT, LEAST))
    parser.add_argument("--costs", type=lambda text: text.split(","), default=COSTS)
    parser.add_argument("--conf", default="")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, default=results.RESULTS / "cards.csv")
    parser.add_argument("--charts", type=pathlib.Path)
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if not options.draw:
        results.write_csv(options.out, measure(options.build, options),
                          f"./dev cards --runs {options.runs} --seed {options.seed} --passes "
                          f"{options.passes} --conf '{options.conf}'")
    rows = results.rows_of(options.out)  # rounded, so that the file gives the same tables again
    judged = summaries(rows, seed=options.seed)
    print("\n".join(table(summaries(rows, bool(options.traces), options.seed), options.seed)))
    if options.charts:
        options.charts.mkdir(parents=True, exist_ok=True)
        results.draw("by_card.py", options.out.resolve(), options.charts.resolve())
    if options.out == results.RESULTS / "cards.csv":
        results.write_between("docs/results.md", "\n".join(table(judged, options.seed)), MARKERS)
        results.write_between("README.md", "\n".join(short_table(judged, options.seed)), MARKERS)
        results.draw("by_card.py", "cards.csv", "cards.svg")


if __name__ == "__main__":
    main()
