#!/usr/bin/env python3
"""Tables in Markdown of what run.py measured, and whether the requirements are met.

Usage: report.py GPU_CSV [--out FILE]. Exit status 0: nothing that was measured falls short; 1: some
of it does; 2: bad input."""
import argparse
import pathlib
import sys

import acceptance
import ledger

GIB = 1 << 30
PLAIN = ("handles", "stalls", "probe", "takes", "captures", "suites", "costs")
SIMULATED = """Real PyTorch, real allocators, a simulated device on which kernels compute nothing:
figures of memory only. `driver ms` is modelled time, by the simulator's cost file; `async` is its
model of the driver's pools. Nothing here was measured on a GPU."""


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |",
             "|---|" + "---:|" * (len(heads) - 1)]
    lines += ["| " + " | ".join(str(text).replace("|", "/") for text in row) + " |"
              for row in rows]
    return lines + [""]


def gib(row, key):
    value = acceptance.number(row, key)
    return "" if value is None else f"{value / GIB:.2f}"


def decimal(row, key, places):
    value = acceptance.number(row, key)
    return "" if value is None else f"{value:.{places}f}"


def milliseconds(row):
    value = acceptance.number(row, "driver_us")
    return "" if value is None else f"{value / 1000:.1f}"


def ratio(row, top, bottom):
    values = acceptance.number(row, top), acceptance.number(row, bottom)
    return f"{values[0] / values[1]:.3f}" if all(values) else ""


def said(row):
    """A cell's status, with its problem where it has one."""
    more = row["problem"] or row["detail"] if row["phase"] in acceptance.BATCHES else row["problem"]
    return row["status"] + (f": {more}" if more else "")


def plain_cells(rows):
    mine = [row for row in rows if row["phase"] in PLAIN]
    if not mine:
        return []
    return ["## The driver, and unit suites on it", "",
            *table(("cell", "status", "what it said"),
                   [(f"{row['phase']}: {row['cell']}", said(row), row["detail"]) for row in mine])]


def traces(rows):
    mine = [row for row in rows if row["phase"] == "traces"]
    if not mine:
        return []
    heads = ("trace", "memory", "allocator", "failed allocations", "peak live GiB",
             "peak reserved GiB", "reserved / live", "device operations", "host syncs",
             "driver ms", "status")
    return ["## Replay of recorded runs", "", *table(heads, [
        (row["work"], row["memory"], row["allocator"], row["ooms"], gib(row, "peak_live_bytes"),
         gib(row, "peak_reserved_bytes"), ratio(row, "peak_reserved_bytes", "peak_live_bytes"),
         row["device_ops"], row["host_syncs"],
         milliseconds(row), said(row)) for row in mine])]


def training(rows, model):
    mine = [row for row in rows if row["phase"] == model]
    if not mine:
        return []
    heads = ("allocator", "round", "peak allocated GiB", "peak reserved GiB",
             "reserved / allocated", "driver's view GiB", "steps a second", "retries", "OOMs",
             "device operations", "granules taken", "unmaps", "driver ms", "last loss", "status")
    mine.sort(key=lambda row: row["round"])
    return [f"## Training: {model}", "", *table(heads, [
        (row["allocator"], row["round"], gib(row, "peak_allocated_bytes"),
         gib(row, "peak_reserved_bytes"), ratio(row, "peak_reserved_bytes", "peak_allocated_bytes"),
         gib(row, "driver_peak_bytes"), decimal(row, "steps_per_second", 3), row["alloc_retries"],
         row["ooms"], row["device_ops"], row.get("n_taken_granules", ""),
         row.get("ops_unmap", ""), milliseconds(row), decimal(row, "loss_last", 4), said(row))
        for row in mine])]


def batches(rows):
    mine = [row for row in rows if row["phase"] in acceptance.BATCHES]
    if not mine:
        return []
    heads = ("model", "allocator", "completes", "does not", "retries", "host syncs", "tries",
             "status")
    return ["## Largest batch before out-of-memory", "", *table(heads, [
        (row["work"], row["allocator"], row["largest_batch"], row.get("least_failed_batch") or "",
         row["alloc_retries"], row["host_syncs"], row["tries"], said(row)) for row in mine])]


def checked(lines):
    return ["## What must hold", "",
            *table(("what", "found", "bound", "verdict"),
                   [(line.what, line.found, line.bound, line.verdict) for line in lines])]


def page(notes, rows, lines):
    is_simulated = any(note.startswith("gpu: SIMULATED") for note in notes)
    parts = ["# PyTorch on a simulated GPU" if is_simulated else "# Measured on a GPU", ""]
    if is_simulated:
        parts += [SIMULATED, ""]
    parts += ["Written by bench/gpu/report.py from what bench/gpu/run.py took:", ""]
    parts += [f"* {note}" for note in notes] + [""]
    parts += checked(lines) + plain_cells(rows) + traces(rows)
    for model in acceptance.MODELS:
        parts += training(rows, model)
    return "\n".join(parts + batches(rows)).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("csv", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, help="file to write (default: standard output)")
    options = parser.parse_args()
    try:
        notes, rows = ledger.read_rows(options.csv)
    except OSError as problem:
        parser.error(str(problem))
    if not rows:
        parser.error(f"{options.csv} holds no finished cell")
    lines = acceptance.check(rows)
    text = page(notes, rows, lines)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 1 if any(line.is_short for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
