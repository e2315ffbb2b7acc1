#!/usr/bin/env python3
"""Draw report.html of a fleet from what `pleat ab --merge` wrote.

Usage: fleet.py FOLDER

FOLDER holds fleet.json and verdicts.jsonl. The page holds no date, so that the same results are the
same page. Exit status: 0; 1 when a library is missing or the folder holds no fleet."""
import pathlib
import sys

import report  # checks the libraries first
import data

MOST_JOBS = 5000      # rows of the page's tables; the files have all
MOST_ONLY = 200


def signed(count):
    return ("−" if count < 0 else "") + data.sized(abs(count))


def bars(fleet):
    """Jobs by their need: a power of two, its jobs, the length of their bar in per cent."""
    most = max((b["jobs"] for b in fleet["bins"]), default=0)
    return [(b["to"], b["jobs"], f"{100 * b['jobs'] / most:.1f}") for b in fleet["bins"] if most]


def render(folder):
    lines = data.lines_of(folder / "fleet.json")
    if not lines:
        sys.exit(f"{folder}: no fleet.json with a fleet in it")
    fleet = lines[0]
    verdicts = data.lines_of(folder / "verdicts.jsonl")
    environment = report.templates()
    environment.filters.update(signed=signed)
    return environment.get_template("fleet.html.j2").render(
        fleet=fleet, verdicts=verdicts[:MOST_JOBS], n_verdicts=len(verdicts), bars=bars(fleet),
        only=fleet["only_jobs"][:MOST_ONLY],
        style=(report.HERE / "report.css").read_text(encoding="utf-8"))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    report.put_in_place(folder / "report.html", render(folder))


if __name__ == "__main__":
    main()
