#!/usr/bin/env python3
"""The judge of the growth policy. Checks that a draw repeats itself, each work is replayed on its
cards only, and the tables agree with the rows.

Usage: cards_judge.py BUILD_DIR"""
import csv
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import cards  # noqa: E402
import placements  # noqa: E402

BUILD = pathlib.Path(sys.argv[1])
SIZES = ("24G", "1.02x", cards.LEAST)
N_BUNDLED = 3  # of the bundled traces
FEWER = f"import cards; cards.BUNDLED = cards.BUNDLED[:{N_BUNDLED}]; cards.main()"


def check(is_so, what):
    if not is_so:
        sys.exit(f"cards: {what}")


def measured():
    """The printed table, and the rows of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "cards.csv"
        printed = subprocess.run(
            [sys.executable, "-B", "-c", FEWER, BUILD, "--runs", "2", "--sizes", ",".join(SIZES),
             "--costs", "a100", "--out", path],
            capture_output=True, text=True, check=True, cwd=ROOT / "bench").stdout
        lines = path.read_text(encoding="utf-8").splitlines()
    return printed, list(csv.DictReader(line for line in lines if not line.startswith("#")))


def check_device(rows, printed, size):
    """The line of a device."""
    pairs = cards.pairs_of(rows, size, "a100")
    check(pairs and all(p.ours["work"] == p.theirs["work"] for p in pairs), f"pairs of {size}")
    check(f"| {size} | a100 | {len(pairs)} |" in printed, f"no line of {size} in\n{printed}")
    complete = [p for p in pairs if p.ours["failures"] == p.theirs["failures"] == "0"]
    sums = [math.fsum(float(row["driver_ms"]) for row in some) for some in zip(*complete)]
    check(f"| {sums[0] / sums[1]:.2f} (" in printed, f"{size}: no ratio of {sums} in\n{printed}")


def check_least(rows, printed):
    """The line of each way, with the least device of each work."""
    for way, name in ((cards.OURS, "pleat"), (cards.COMPACTS, "pleat, `short:compact`")):
        pairs = cards.pairs_of(rows, cards.LEAST, "a100", way)
        ratios = [float(p.ours["least"]) for p in pairs]
        check(all(1 <= ratio < 1.5 for ratio in ratios), f"least devices: {ratios}")
        line = f"| {name} | {len(pairs)} | {sum(ratios) / len(ratios):.3f}, {max(ratios):.3f} ("
        check(line in printed, f"no {line} in\n{printed}")


def check_intervals(rows, printed):
    """Around the ratio, within what single works have, as long as the seed is the same."""
    check("draws of as many works, with replacement (seed 1)." in printed, f"no seed in\n{printed}")
    pairs = cards.pairs_of(rows, "1.02x", "a100")
    single = sorted(float(p.ours["resident"]) / float(p.theirs["resident"]) for p in pairs)
    of, least, most = cards.ratio_with_interval(pairs, "resident", 1)
    check(single[0] <= least < of < most <= single[-1], f"{least} to {most} around {of}: {single}")
    check(f"| {of:.3f} ({least:.3f} to {most:.3f}) |" in printed, f"no {of} in\n{printed}")
    check(cards.ratio_with_interval(pairs, "resident", 1) == (of, least, most), "the same seed")
    check(cards.ratio_with_interval(pairs, "resident", 2) != (of, least, most), "another seed")
    narrow = cards.ratio_with_interval(pairs * 20, "resident", 1)
    check(narrow[2] - narrow[1] < (most - least) / 2, f"more works, and no narrower: {narrow}")


def check_placements(pleat):
    """The hash repeats itself, and notices other addresses."""
    trace = cards.BUNDLED[0]
    line = placements.line_of(pleat, trace, "1.02x", "")
    check(line == placements.line_of(pleat, trace, "1.02x", ""), "the same replay has two hashes")
    check(line != placements.line_of(pleat, trace, "1.02x", "chunks:granule"), "one hash for two")


def main():
    pleat = BUILD / "pleat"
    check_placements(pleat)
    runs = cards.drawn_runs(pleat, 2, 1)
    check(runs == cards.drawn_runs(pleat, 2, 1), "the same seed draws other runs")
    check(runs != cards.drawn_runs(pleat, 2, 2), "another seed draws the same runs")
    printed, rows = measured()
    works = {row["work"] for row in rows if row["memory"] == "1.02x"}
    check(len(works) == N_BUNDLED + 2, f"{len(works)} works at 1.02x")
    for size in SIZES[:2]:
        check_device(rows, printed, size)
    check("| 1.02x, `short:compact` | a100 |" in printed, f"no compaction in\n{printed}")
    check_least(rows, printed)
    check_intervals(rows, printed)
    for row in rows:
        check(row["hazards"] == "0", f"hazards: {row}")
        check(float(row["resident_all_passes"]) >= float(row["resident"]), f"peaks: {row}")
        fits = float(row["peak_live_gib"]) <= cards.FULLEST * 24
        check(row["memory"] != "24G" or fits, f"too large for its card: {row}")


if __name__ == "__main__":
    main()
