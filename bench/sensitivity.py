#!/usr/bin/env python3
"""How much the claims about driver time depend on the modelled prices of the driver's calls.

Usage: sensitivity.py BUILD_DIR [OPTION...]   (./dev sensitivity)

  --costs NAME     the cost file whose prices are varied (default: a100)
  --runs N         runs that the generators make, beside the bundled traces (default: 8)
  --seed N         of their draw, and of the intervals (default: 1)
  --sizes A,B      devices (default: unlimited,1.05x)
  --conf STRING    configuration of pleat, such as policy:PATH (docs/policy.md); needs --out
  --out FILE       where the rows go; without it bench/results/sensitivity.csv, and the table goes into
                   docs/results.md
  --draw           replay nothing: write the table again from the rows that are there

Each price of the cost file, and all of them that are by the byte or by the handle, are halved and
doubled, one at a time. A row of the file is one replay: a work, a device, a variation, an allocator.
The table has pleat's driver time over that of expandable
segments, all works together, with an interval over the works (report/chance.py)."""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench" / "report")]
import chance  # noqa: E402
import cards  # noqa: E402  (the works)
import results  # noqa: E402  (how files and pages are written)

OUT = results.RESULTS / "sensitivity.csv"
MARKERS = ("<!-- sensitivity:begin -->", "<!-- sensitivity:end -->")
ALLOCATORS = (cards.OURS, cards.THEIRS)
FACTORS = (0.5, 1, 2)
KINDS = {"all by the MiB": ("mib",), "all by the handle": ("handle", "granule", "live"),
         "all by the call": ("call",)}
UNUSED = ("cuMemAlloc", "cuMemFree")  # by both allocators
PRICE = re.compile(r"\b(call|handle|granule|mib|live) ([0-9.]+)")


def prices_of(text):
    """The prices that can be varied: (name, the calls and keys of which it is)."""
    lines = [line.split() for line in text.splitlines() if line.startswith("cu") and not line.startswith(UNUSED)]
    single = [(f"{words[0]}, by the {key.replace('mib', 'MiB').replace('live', 'live handles')}",
               {(words[0], key)})
              for words in lines for key, _ in PRICE.findall(" ".join(words[1:]))]
    kinds = [(name, {(words[0], key) for words in lines for key in keys})
             for name, keys in KINDS.items()]
    return single + kinds


def varied(text, chosen, factor):
    """The cost file with the chosen prices times the factor."""
    def times(call, found):
        key, price = found.groups()
        return f"{key} {float(price) * factor:g}" if (call, key) in chosen else found.group()

    return "\n".join(PRICE.sub(lambda found, call=line.split()[0]: times(call, found), line)
                     if line.startswith("cu") else line for line in text.splitlines()) + "\n"


def replay(pleat, work, size, costs, allocator, conf):
    """Driver time in ms, and whether the work completed."""
    command = [pleat, "replay", work, "--json", "--driver", "sim", "--memory", size, "--sim",
               f"costs:{costs}", "--allocator", allocator]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env=dict(os.environ, PLEAT_CONF=conf if allocator == cards.OURS else ""))
    if done.returncode not in (0, 1):
        sys.exit(f"{work}: {done.stderr}")
    record = json.loads(done.stdout)
    return {"work": record["trace"], "driver_ms": record["driver_ms"],
            "failures": record["oom_count"]}


def measure(build, options):
    pleat = str(build / "pleat")
    costs = ROOT / "vmm/tools/sim/costs" / f"{options.costs}.cost"
    text = costs.read_text(encoding="utf-8")
    works = [str(trace) for trace in cards.BUNDLED] + \
        cards.drawn_runs(build / "pleat", options.runs, options.seed)
    with tempfile.TemporaryDirectory(prefix="pleat-costs-") as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        variations = []
        for i, (name, chosen) in enumerate([("as they are", set()), *prices_of(text)]):
            for factor in FACTORS if chosen else (1,):
                if chosen and factor == 1:
                    continue
                path = pathlib.Path(folder) / f"{i}-{factor}.cost"
                path.write_text(varied(text, chosen, factor), encoding="utf-8")
                variations.append((name, factor, path))
        cells = [(name, factor, path, size, work, allocator) for name, factor, path in variations
                 for size in options.sizes for work in works for allocator in ALLOCATORS]

        def one(cell):
            name, factor, path, size, work, allocator = cell
            return {"costs": options.costs, "price": name, "factor": factor, "memory": size,
                    "allocator": allocator, **replay(pleat, work, size, path, allocator, options.conf)}
        return cards.told(pool.map(one, cells), len(cells))


# ---- the table ---------------------------------------------------------------------------------

def pairs_of(rows, price, factor, size):
    """(pleat's ms, expandable segments' ms) of the works that both complete."""
    found = {}
    for row in rows:
        if (row["price"], float(row["factor"]), row["memory"]) == (price, factor, size):
            found.setdefault(row["work"], {})[row["allocator"]] = row
    return [tuple(float(both[name]["driver_ms"]) for name in ALLOCATORS)
            for both in found.values() if all(both[name]["failures"] == "0" for name in ALLOCATORS)]


def ratio_of(pairs):
    return math.fsum(ours for ours, _ in pairs) / math.fsum(theirs for _, theirs in pairs)


def cell_of(rows, price, factor, size, seed):
    pairs = pairs_of(rows, price, factor, size)
    least, most = chance.interval_of(pairs, ratio_of, seed)
    return f"{ratio_of(pairs):.2f} ({least:.2f} to {most:.2f})"


def table(rows, seed):
    sizes = list(dict.fromkeys(row["memory"] for row in rows))
    prices = [price for price in dict.fromkeys(row["price"] for row in rows)
              if price != "as they are"]
    n_works = {size: len(pairs_of(rows, "as they are", 1, size)) for size in sizes}
    base = ", ".join(f"{cell_of(rows, 'as they are', 1, size, seed)} on {size} "
                     f"({n_works[size]} works)" for size in sizes)
    titles = ["price"] + [f"{size}, {word}" for size in sizes for word in ("halved", "doubled")]
    lines = cards.lines_of(titles, [[price] + [cell_of(rows, price, factor, size, seed)
                                               for size in sizes for factor in (0.5, 2)]
                                    for price in prices])
    said = f"With `costs:{rows[0]['costs']}` as it is: {base}. Behind a ratio: {chance.said(seed)}."
    return [*textwrap.wrap(said, 100), "", *lines]


def main():
    if {"-h", "--help"} & set(sys.argv):
        print(__doc__)
        return
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--costs", default="a100")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sizes", type=lambda text: text.split(","), default=("unlimited", "1.05x"))
    parser.add_argument("--conf", default="")
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if options.conf and options.out == OUT:
        parser.error("--conf needs --out: the published rows are those of the default")
    if not options.draw:
        results.write_csv(options.out, measure(options.build, options),
                          f"./dev sensitivity --costs {options.costs} --runs {options.runs} --seed "
                          f"{options.seed} --conf '{options.conf}'")
    rows = results.rows_of(options.out)  # rounded, so that the file gives the same table again
    told = "\n".join(table(rows, options.seed))
    print(told)
    if options.out == OUT:
        results.write_between("docs/results.md", told, MARKERS)


if __name__ == "__main__":
    main()
