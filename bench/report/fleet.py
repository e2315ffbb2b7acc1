#!/usr/bin/env python3
"""Draw report.html of a fleet from what `pleat ab --merge` wrote.

Usage: fleet.py FOLDER

FOLDER holds fleet.json and verdicts.jsonl. The page holds no date, so that the same results are the
same page. Exit status: 0; 1 when a library is missing or the folder holds no fleet."""
import pathlib
import sys

import report  # checks the libraries first
import data
import markupsafe

MOST_JOBS = 5000      # rows of the page's tables; the files have all
MOST_ONLY = 200
WIDTH, BAR, GAP, LABEL = 760, 20, 6, 190


def signed(count):
    return ("−" if count < 0 else "") + data.sized(abs(count))


def bars(fleet):
    """Jobs by their need: a bar a power of two."""
    most = max((b["jobs"] for b in fleet["bins"]), default=0)
    if not most:
        return ""
    rows = []
    for i, one in enumerate(fleet["bins"]):
        y = i * (BAR + GAP)
        width = (WIDTH - LABEL - 90) * one["jobs"] / most
        rows.append(f'<text x="{LABEL - 8}" y="{y + 14}" text-anchor="end">'
                    f'to {data.sized(one["to"])}</text>'
                    f'<rect x="{LABEL}" y="{y}" width="{width:.1f}" height="{BAR}" '
                    'fill="currentColor" opacity="0.75"/>'
                    f'<text x="{LABEL + width + 6:.1f}" y="{y + 14}">{one["jobs"]:,}</text>')
    height = len(fleet["bins"]) * (BAR + GAP)
    return markupsafe.Markup(
        f'<svg data-chart="need" role="img" aria-label="Jobs by the memory that they need" '
        f'viewBox="0 0 {WIDTH} {height}" style="max-width:{WIDTH}px;width:100%;height:auto;'
        f'font-size:13px;fill:currentColor">{"".join(rows)}</svg>')


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
