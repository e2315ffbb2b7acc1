#!/usr/bin/env python3
"""Chooses suites by name, lists the slowest, and records their times.

  suites.py choose BUILD [NAME...]   the programs and, as a regular expression for ctest, the suites
                                     that NAMEs mean: a suite (segments_take), all that begin so
                                     (bench_import), or the quick suites of a folder (segments);
                                     without a NAME all quick ones
  suites.py slowest REPORT...        the twenty slowest of ctest's JUnit files
  suites.py record REPORT            write tests/times.csv, by which CMake labels suites quick

A time is recorded anew only if it is more than half longer, or less than a quarter. So neither noise
nor a run that plays a third of the cases (suite_is_turn) changes a line."""
import csv
import difflib
import pathlib
import sys
import xml.etree.ElementTree

TIMES = pathlib.Path(__file__).with_name("times.csv")
N_SLOWEST = 20


def choose(build, names):
    """The programs and the expression, one per line. ValueError names an unknown NAME."""
    lines = (pathlib.Path(build) / "suites.txt").read_text(encoding="utf-8").splitlines()
    programs, quick = {}, []
    for suite, program, kind in map(str.split, lines):
        programs[suite] = program
        quick += [suite] if kind == "quick" else []
    folders = {suite.split("_", 1)[0] for suite in programs}
    chosen = [] if names else quick
    for name in names:
        found = [name] if name in programs else [s for s in programs if s.startswith(name + "_")]
        if not found:
            near = difflib.get_close_matches(name, programs, 3, 0.5)
            raise ValueError(f"{name}: neither a suite nor a folder of suites"
                             f"{'; near: ' + ', '.join(near) if near else ''}"
                             f" (all: {build}/suites.txt)")
        if name in folders:
            print(f"slow suites of {name}, left out:", *sorted(set(found) - set(quick)),
                  file=sys.stderr)
            found = [suite for suite in found if suite in quick]
        chosen += found
    return (" ".join(sorted({programs[suite] for suite in chosen})) + "\n" +
            "^(" + "|".join(chosen) + ")$")


def read_times():
    with TIMES.open(newline="", encoding="utf-8") as file:
        return {row["suite"]: float(row["seconds"]) for row in csv.DictReader(file)}


def read_reports(paths):
    """(seconds, suite, report) of each suite that ran."""
    found = []
    for path in map(pathlib.Path, paths):
        for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
            if case.get("status") == "run":
                found.append((float(case.get("time")), case.get("name"), path.stem))
    return found


def slowest(paths):
    found = sorted(read_reports(paths), reverse=True)
    for seconds, suite, report in found[:N_SLOWEST]:
        print(f"{seconds:7.1f} s  {suite} ({report})")


def record(path):
    if not path.exists():
        raise ValueError(f"there is no {path}: run ./dev test first")
    before, times = read_times(), {}
    for seconds, suite, _ in read_reports([path]):
        old = before.get(suite)
        is_noise = old is not None and old / 4 - 0.1 <= seconds <= old * 3 / 2 + 0.1
        times[suite] = old if is_noise else seconds
    rows = [f"{suite},{seconds:.1f}" for suite, seconds in sorted(times.items())]
    TIMES.write_text("\n".join(["suite,seconds", *rows]) + "\n", encoding="utf-8")
    print(f"{len(rows)} suites in {TIMES.name}")


def main():
    verb, arguments = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if verb == "choose" and arguments:
        print(choose(arguments[0], arguments[1:]))
    elif verb == "slowest":
        slowest(arguments)
    elif verb == "record" and len(arguments) == 1:
        record(pathlib.Path(arguments[0]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main()
    except ValueError as wrong:
        print(wrong, file=sys.stderr)
        sys.exit(2)
