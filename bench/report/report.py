#!/usr/bin/env python3
"""Draw report.html from what `pleat ab` wrote.

Usage: report.py FOLDER [--charts]

With --charts the folder `charts` in FOLDER has each chart as SVG and PDF, and its numbers as CSV. FOLDER holds results.jsonl, timelines.jsonl, moments.jsonl and verdicts.jsonl. report.html is written
into FOLDER, as a single file without further parts. If FOLDER has blocks.jsonl, blocks.html shows every
block over time (blocks.py). With Bokeh, closer.html has maps to zoom into (closer.py). Exit status: 0;
1 when a library is missing or the folder holds no results."""
import datetime
import os
import pathlib
import shutil
import sys

DISTRIBUTION_PYTHON = "/usr/bin/python3"

try:
    import jinja2
    import markupsafe
    import matplotlib  # noqa: F401  pylint: disable=unused-import
except ImportError as error:
    # Only the distribution's own Python finds the distribution's packages, and python3 on the path
    # may be another one.
    if (os.path.realpath(sys.executable) != os.path.realpath(DISTRIBUTION_PYTHON)
            and os.access(DISTRIBUTION_PYTHON, os.X_OK)):
        os.execv(DISTRIBUTION_PYTHON, [DISTRIBUTION_PYTHON, "-B", *sys.argv])
    sys.exit(f"the report needs the Python library {error.name}: install python3-matplotlib and "
             "python3-jinja2 (Debian), or matplotlib and jinja2 (PyPI; with pleat: "
             "pip install '.[report]')")

import blocks  # noqa: E402  pylint: disable=wrong-import-position
import chance  # noqa: E402  pylint: disable=wrong-import-position
import charts  # noqa: E402  pylint: disable=wrong-import-position
import closer  # noqa: E402  pylint: disable=wrong-import-position
import data  # noqa: E402  pylint: disable=wrong-import-position
import look  # noqa: E402  pylint: disable=wrong-import-position
import maps  # noqa: E402  pylint: disable=wrong-import-position
import sites  # noqa: E402  pylint: disable=wrong-import-position

HERE = pathlib.Path(__file__).resolve().parent
MOST_SITES = 8
MOST_IN_FULL = 3  # verdicts with all their lines on the first screen


def count(value):
    return f"{value:,}"


def number(value, places=3):
    if value is None or value != value:
        return "–"
    return f"{value:,.{places}f}"


def rough(value):
    """Two digits: what follows them is noise."""
    return f"{float(f'{value:.2g}'):,.0f}"


def own_ns(cell):
    """The least and the most of the timed runs."""
    own = cell.get("allocator_ns_per_event")
    return f"{rough(own['least'])} to {rough(own['most'])}" if own else "–"


def figure(key, text, **of):
    """A figure of the page with what it was computed from, so that a test can do so again."""
    attributes = markupsafe.Markup("").join(
        markupsafe.Markup(' data-{}="{}"').format(name, value) for name, value in of.items())
    return markupsafe.Markup('<span data-f="{}"{}>{}</span>').format(key, attributes, text)


def tightest(study):
    sizes = [m for m in study.memories if m != "unlimited"]
    return sizes[0] if sizes else None


def moment_section(study, work, kind, index):
    """One moment of a work: maps, a row an allocator, and who strands memory under the one that the
    moment is about; None if there is none."""
    moments = study.moments_of(work, kind)
    if not moments:
        return None
    first = moments[0]
    verdict = study.verdict_of(work) or (study.verdicts or [None])[0]
    wanted = first["of"] or (verdict or {}).get("in_force", "torch-native")
    shown = next((m for m in moments if m["allocator"] == wanted), first)
    ranked = [s for s in sites.ranked(shown) if s.charged_bytes > 0]
    stack = shown["requested_stack"]
    unit, in_unit = data.in_unit([m["resident_bytes"] for m in moments])
    maps.save(moments, f"map-{kind}-{index}")
    return {"kind": kind, "moments": moments, "first": first, "shown": shown,
            "sites": ranked[:MOST_SITES], "n_sites": len(ranked),
            "request": shown["stacks"].get(str(stack)) if stack is not None else None,
            "unit": unit, "parts": in_unit, "key": maps.key_of(moments), "maps": maps.maps(moments),
            "id": f"map-{kind}-{index}", "row_pixels": maps.ROW_PIXELS}


def work_section(study, work, index):
    """Everything that the page shows of one work."""
    widest = "unlimited" if "unlimited" in study.memories else study.memories[-1]
    figures = [
        ("ladder", charts.ladder(study, work, f"ladder-{index}")),
        ("drift", charts.drift(study, work, widest, f"drift-{index}")),
    ]
    tight = tightest(study)
    timelines = [(memory, charts.timelines(study, work, memory, f"timeline{kind}-{index}"))
                 for kind, memory in (("-tight", tight), ("", widest))
                 if memory and (kind == "" or memory != widest)]
    cells = study.cells_of(trace=work)
    known = next((c for c in cells if data.is_measured(c)), None)
    moments = [moment_section(study, work, kind, index) for kind in ("snapshot", "failure", "peak")]
    return {"name": work, "id": f"work-{index}", "cells": cells, "widest": widest, "tight": tight,
            "known": known, "verdict": study.verdict_of(work),
            "moments": [m for m in moments if m],
            "timelines": [(memory, panels) for memory, panels in timelines if panels],
            "charts": {kind: svg for kind, svg in figures if svg}}


def templates():
    """The templates' environment, of this page and of a fleet's (fleet.py)."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(HERE), autoescape=True,
                                     trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(sized=data.sized, number=number, count=count,
                               ratio=data.resident_ratio, later=data.later_ms, own_ns=own_ns,
                               created=data.n_created, moved=data.n_moved, rough=rough,
                               measured=data.is_measured, completes=data.completes)
    environment.globals.update(f=figure, of_size=data.of_size, most_in_full=MOST_IN_FULL, read_first=sites.read_first)
    return environment


def render(study, has_closer, has_blocks):
    memory, rows = data.summary_rows(study)
    return templates().get_template("report.html.j2").render(
        head=study.head, study=study, memory=memory, rows=rows, has_closer=has_closer,
        has_blocks=has_blocks, interval_said=chance.said(),
        has_fit=any(row["fit"]["mean"] == row["fit"]["mean"] for row in rows),
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
    if len(sys.argv) not in (2, 3) or (len(sys.argv) == 3 and sys.argv[2] != "--charts"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    if len(sys.argv) == 3:
        look.charts_folder = folder / "charts"
    study = data.read_study(folder)
    if not study.cells:
        sys.exit(f"{folder}: no results.jsonl with results in it")
    others = {"closer.html": closer.page(study), "blocks.html": blocks.page(folder, templates())}
    for name, page in others.items():
        if page:
            put_in_place(folder / name, page)
    put_in_place(folder / "report.html", render(study, others["closer.html"] is not None,
                                                others["blocks.html"] is not None))


if __name__ == "__main__":
    main()
