#!/usr/bin/env python3
"""Draw report.html from what `pleat ab` wrote.

Usage: report.py FOLDER

FOLDER holds results.jsonl and timelines.jsonl; report.html is written there: one file that needs
nothing else. Exit status: 0; 1 when a library is missing or the folder holds no results."""
import datetime
import os
import pathlib
import shutil
import sys

DISTRIBUTION_PYTHON = "/usr/bin/python3"

try:
    import jinja2
    import matplotlib  # noqa: F401  pylint: disable=unused-import
except ImportError as error:
    # Only the distribution's own Python finds the distribution's packages, and python3 on the path
    # may be another one.
    if (os.path.realpath(sys.executable) != os.path.realpath(DISTRIBUTION_PYTHON)
            and os.access(DISTRIBUTION_PYTHON, os.X_OK)):
        os.execv(DISTRIBUTION_PYTHON, [DISTRIBUTION_PYTHON, "-B", *sys.argv])
    sys.exit(f"the report needs the Python library {error.name}: install python3-matplotlib and "
             "python3-jinja2 (Debian) or matplotlib and jinja2 (PyPI)")

import charts  # noqa: E402  pylint: disable=wrong-import-position
import data  # noqa: E402  pylint: disable=wrong-import-position

HERE = pathlib.Path(__file__).resolve().parent


def gib(count):
    return f"{count / data.GIB:.2f} GiB"


def number(value, places=3):
    if value is None or value != value:
        return "–"
    return f"{value:,.{places}f}"


def own_ns(cell):
    """The least and the most of the timed runs."""
    own = cell.get("allocator_ns_per_event")
    return f"{own['least']:,.0f} to {own['most']:,.0f}" if own else "–"


def tightest(study):
    sizes = [m for m in study.memories if m != "unlimited"]
    return sizes[0] if sizes else None


def work_section(study, work, index):
    """Everything that the page shows of one work."""
    widest = "unlimited" if "unlimited" in study.memories else study.memories[-1]
    figures = [
        ("ladder", charts.ladder(study, work, f"ladder-{index}")),
        ("drift", charts.drift(study, work, widest, f"drift-{index}")),
        ("timeline", charts.timelines(study, work, widest, f"timeline-{index}")),
        ("map", charts.maps(study, work, widest, f"map-{index}")),
    ]
    tight = tightest(study)
    if tight and tight != widest:
        figures += [
            ("timeline-tight", charts.timelines(study, work, tight, f"timeline-tight-{index}")),
            ("map-tight", charts.maps(study, work, tight, f"map-tight-{index}")),
        ]
    cells = study.cells_of(trace=work)
    known = next((c for c in cells if data.is_measured(c)), None)
    return {"name": work, "id": f"work-{index}", "cells": cells, "widest": widest, "tight": tight,
            "peak": known["peak_live_bytes"] if known else None,
            "events": known["events"] if known else None,
            "charts": {kind: svg for kind, svg in figures if svg}}


def render(study):
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(HERE), autoescape=True,
                                     trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(gib=gib, number=number, ops=data.ops_per_1000,
                               ratio=data.resident_ratio, later=data.later_ms, own_ns=own_ns,
                               measured=data.is_measured, completes=data.completes)
    memory, rows = data.summary_rows(study)
    return environment.get_template("report.html.j2").render(
        head=study.head, study=study, memory=memory, rows=rows,
        has_fit=any(row["fit"] == row["fit"] for row in rows),
        is_timed=any(row["ns"] == row["ns"] for row in rows),
        overview=charts.overview(study, memory, "overview"),
        works=[work_section(study, work, i) for i, work in enumerate(study.works)],
        style=(HERE / "report.css").read_text(encoding="utf-8"),
        drawn=datetime.datetime.now().strftime("%Y-%m-%d %H:%M"))


def put_in_place(path, text):
    """Readers never see half a page. An existing page keeps its mode and the links to it."""
    page = path.resolve()
    unfinished = page.with_name(page.name + ".part")
    unfinished.write_text(text, encoding="utf-8")
    if page.exists():
        shutil.copymode(page, unfinished)
    unfinished.replace(page)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    study = data.read_study(folder)
    if not study.cells:
        sys.exit(f"{folder}: no results.jsonl with results in it")
    put_in_place(folder / "report.html", render(study))


if __name__ == "__main__":
    main()
