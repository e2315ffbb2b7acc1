#!/usr/bin/env python3
"""Checks that figures of the pages are what the files of results give.

The tables between markers are made again, by results.py and cards.py, from bench/results/*.csv. The
tables of docs/pytorch-tests.md are compared with tests/torch/*.csv. The cards of docs/benchmarks.md
are compared with bench/base/cards.c."""
import collections
import csv
import re
import sys

from source import ROOT, report

sys.path.insert(0, str(ROOT / "bench"))
import cards  # noqa: E402  pylint: disable=wrong-import-position
import results  # noqa: E402  pylint: disable=wrong-import-position

TESTS_PAGE = "docs/pytorch-tests.md"
GIB = 1 << 30


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def rows_of(name):
    lines = page(name).splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def differing(name, text, made, markers):
    """A line for each line of `made` that the text does not have between the markers."""
    if markers[0] not in text or markers[1] not in text:
        yield f"{name}: no {markers[0]} ... {markers[1]}"
        return
    written = text.split(markers[0])[1].split(markers[1])[0].strip("\n")
    if written == made:
        return
    known = set(written.splitlines())
    lacking = [line for line in made.splitlines() if line not in known]
    for line in lacking or ["(lines are in another order, or are too many)"]:
        yield f"{name}: bench/results gives other figures: {line[:120]}"


def check_results():
    ab, summary, resident = results.rows_of_pages()
    rows = cards.summaries(results.rows_of("cards.csv"))
    for name, made, markers in (
            ("README.md", results.first_table(summary), results.MARKERS),
            ("docs/results.md", results.tables(ab, summary, resident), results.MARKERS),
            ("README.md", "\n".join(cards.short_table(rows)), cards.MARKERS),
            ("docs/results.md", "\n".join(cards.table(rows)), cards.MARKERS)):
        yield from differing(name, page(name), made, markers)


def check_cards(text, source):
    others = int(re.search(r"#define OTHERS (\d+)", source).group(1))
    for name, mib in re.findall(r'\{ "(\d+ GB)", \((\d+) - OTHERS\) \* MIB \}', source):
        cells = f"| {name} | {(int(mib) - others) / 1024:.1f} |"
        if cells not in text:
            yield f"docs/benchmarks.md: bench/base/cards.c gives {cells}"


def script_row(row):
    """A row of the table of training scripts, from a row of tests/torch/scripts/results.csv."""
    last = f"{row['completes_at']} x" if row["completes_at"] else \
        f"batch {row['batch']} on half" if row["batch"] else ""
    sizes = [int(row[key]) / GIB for key in ("requested_bytes", "peak_requested", "peak_reserved")]
    return (f"| {row['program']} | {row['way']} | {int(row['requests']):,} | {sizes[0]:.2f} | "
            f"{sizes[1]:.3f} | {sizes[2]:.3f} | {last} |")


def passed(rows):
    """How many tests pass natively, and how many of these under pleat."""
    native = [row for row in rows if row["native"] == "pass"]
    return len(native), sum(row["pleat"] == "pass" for row in native)


def check_tests(text, scripts, runs, newer):
    """runs: rows by version of PyTorch."""
    for row in scripts:
        if script_row(row) not in text:
            yield f"{TESTS_PAGE}: tests/torch/scripts/results.csv gives {script_row(row)}"
    flat = " ".join(text.split())
    for version, rows in runs.items():
        native, ours = passed(rows)
        if f"On {version} {native} pass natively, and {ours} of these under pleat" not in flat:
            yield f"{TESTS_PAGE}: of {version} {native} pass natively, {ours} of these under pleat"
    sums = collections.Counter()
    for cells in re.findall(r"^\| test_\w+[^|]*\|((?: *\d+ \|){3})$", text, re.MULTILINE):
        for key, cell in zip(("tests", "native", "pleat"), cells.split("|")):
            sums[key] += int(cell)
    for key, n in zip(("native", "pleat"), passed(newer)):
        if sums[key] != n:
            yield f"{TESTS_PAGE}: of the newer tests {n} pass ({key}), the table has {sums[key]}"


def main():
    tests = check_tests(page(TESTS_PAGE), rows_of("tests/torch/scripts/results.csv"),
                        {version: rows_of(f"tests/torch/results-{version}.csv")
                         for version in ("2.6.0", "2.15.0")}, rows_of("tests/torch/newer-2.15.0.csv"))
    cards_listed = check_cards(page("docs/benchmarks.md"), page("bench/base/cards.c"))
    return report([*check_results(), *cards_listed, *tests])


if __name__ == "__main__":
    sys.exit(main())
