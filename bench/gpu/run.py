#!/usr/bin/env python3
"""Measure pleat on this machine's GPU: one command, in phases, that can be run again to continue.

It needs a GPU, a Python with PyTorch (for the phases that train) and a build of pleat: the build
folder itself, or what pack.sh made of it on another machine. No network. README.md beside this
file says what each phase does and what the columns mean."""
import argparse
import contextlib
import fnmatch
import os
import pathlib
import shlex
import shutil
import signal
import sys
import tempfile
import time

import allocators
import child
import ledger
import machine
from cells import Setup
from phases import PHASES

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIP = 77               # exit status of a test program that cannot run here
PHASE_LIMIT_S = 480
MIRRORED = ("gpu.csv", "gpu.log", "*.json", "*.cost")
TAIL_LINES = 60         # of a cell's output, kept in the log
EXIT_INTERRUPTED = 130


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT, metavar="DIR",
                        help="build folder, or what pack.sh made of one (default: the folder that "
                             "this was carried in)")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR",
                        help="folder of the results; of an earlier run: go on there")
    parser.add_argument("--phases", default=",".join(PHASES), metavar="A,B",
                        help="only these, of: %(default)s")
    parser.add_argument("--cells", default="*", metavar="PATTERN",
                        help="only cells whose name fits, such as 'pleat*'")
    parser.add_argument("--limit-s", type=float, metavar="N",
                        help="most seconds of a phase: no cell is started whose own limit does "
                             f"not fit into what is left (default: {PHASE_LIMIT_S})")
    parser.add_argument("--stop-after-s", type=float, metavar="N",
                        help="most seconds of this whole call, likewise")
    parser.add_argument("--mirror", type=pathlib.Path, metavar="DIR",
                        help="folder that gets a copy of the table, the log and the driver's "
                             "figures after every row: for a machine that may be taken away; "
                             "where --out is new, what is there is gone on with")
    parser.add_argument("--python", default=sys.executable, metavar="PATH",
                        help="interpreter with PyTorch (default: the one that runs this)")
    parser.add_argument("--scale", choices=("full", "small", "tiny"), default="full",
                        help="of the models: full for 80 GB and more, small for 16 GB, tiny to try "
                             "the script out (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, metavar="N",
                        help="times each training run is made (default: %(default)s)")
    parser.add_argument("--allocators", default=",".join(allocators.NAMES), metavar="A,B",
                        help="of the phases that train; there are "
                             f"{', '.join(allocators.NAMES)} (default: %(default)s)")
    parser.add_argument("--retry", action="store_true",
                        help="run cells again that came to no full result")
    parser.add_argument("--list", action="store_true", help="list the cells and their state")
    parser.add_argument("--plan", action="store_true",
                        help="print how long each phase is expected to take, as a table")
    parser.add_argument("--dry-run", action="store_true",
                        help="print the commands that would be run")
    parser.add_argument("--simulate", action="store_true",
                        help="on the simulated driver: memory figures only, no GPU needed, and no "
                             "limits but those given")
    parser.add_argument("--memory", default="141G", metavar="SIZE",
                        help="of the simulated device (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.limit_s is None:
        options.limit_s = float("inf") if options.simulate else PHASE_LIMIT_S
    options.phases = options.phases.split(",")
    unknown = [name for name in options.phases if name not in PHASES]
    if unknown:
        parser.error(f"no such phase: {', '.join(unknown)}")
    options.phases = [name for name in PHASES if name in options.phases]
    options.allocators = tuple(options.allocators.split(","))
    unknown = [name for name in options.allocators if name not in allocators.NAMES]
    if unknown:
        parser.error(f"no such allocator: {', '.join(unknown)}")
    if options.out is None and not options.plan:
        parser.error("give a folder for the results: --out DIR")
    if not (options.build / "pleat").exists():
        parser.error(f"{options.build} holds no build of pleat: give --build DIR")
    return options


def plan(setup, options):
    """The cells of each phase's turn, in the order in which they run."""
    phases = [[cell for cell in PHASES[phase](setup) if fnmatch.fnmatch(cell.name, options.cells)]
              for phase in options.phases]
    turns = sorted({cell.turn for cells in phases for cell in cells})
    return [[cell for cell in cells if cell.turn == turn] for turn in turns for cells in phases]


def row_of(cell, ended):
    """The result of a cell as a row of the table."""
    row = {"phase": cell.phase, "cell": cell.name, **cell.known, "seconds": round(ended.seconds, 2)}
    if ended.was_stopped:
        with contextlib.suppress(ValueError, KeyError):     # what it found before it failed
            row |= cell.read(ended.output)
        return row | {"status": "stopped", "problem": f"ran past {cell.limit_s:g} s"}
    if ended.status == SKIP:
        return row | {"status": "skipped", "problem": last_line(ended) or "it cannot run here"}
    row["status"] = "ok" if ended.status == 0 else "failed"
    try:
        row |= cell.read(ended.output)
    except (ValueError, KeyError) as error:
        row["status"] = "failed"
        if ended.status == 0:
            row["problem"] = f"unreadable output: {error!r}"
    if ended.status != 0 and row["status"] == "failed" and "problem" not in row:
        how = f"signal {-ended.status}" if ended.status < 0 else f"exit status {ended.status}"
        row["problem"] = f"{how}: {last_line(ended)}"
    return row


def last_line(ended):
    lines = [line for line in (ended.errors or ended.output).splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


def write_log(setup, cell, ended):
    text = "\n".join(f"{ended.errors}\n{ended.output}".splitlines()[-TAIL_LINES:])
    with open(setup.out / "gpu.log", "a", encoding="utf-8") as log:
        log.write(f"==== {cell.phase} / {cell.name}: status {ended.status}, "
                  f"{ended.seconds:.1f} s\n{text}\n")


def run_cell(setup, cell):
    try:
        ended = child.run(cell.command, cell.environment, setup.out,
                          None if setup.is_simulated else cell.limit_s)
    except OSError as error:
        ended = child.Ended(127, "", str(error), 0.0, False)
    write_log(setup, cell, ended)
    return row_of(cell, ended)


def mirror(setup, folder):
    """Copy the results, in case this machine disappears. A copy replaces the last one in one step,
    and a failed one stops nothing: the next row brings another."""
    if folder is None:
        return
    for path in sorted(path for pattern in MIRRORED for path in setup.out.glob(pattern)):
        half = folder / f".{path.name}.half"
        try:
            shutil.copyfile(path, half)
            os.replace(half, folder / path.name)
        except OSError as error:
            print(f"  not mirrored: {error}", flush=True)


def begin_from(setup, folder):
    """A new folder of results continues from the copy instead of overwriting it."""
    if folder is None or (setup.out / "gpu.csv").exists() or not (folder / "gpu.csv").exists():
        return
    for path in sorted(path for pattern in MIRRORED for path in folder.glob(pattern)):
        shutil.copyfile(path, setup.out / path.name)


def run_phase(setup, table, cells, options, stop_at):
    """Returns how many cells were left for another time."""
    end = min(time.monotonic() + options.limit_s, stop_at)
    left = 0
    for cell in cells:
        status = table.status_of(cell)
        if status == "ok" or (status and not options.retry):
            continue
        if time.monotonic() + cell.limit_s > end:
            left += 1
            continue
        print(f"  {cell.phase:10} {cell.name:41}", end="", flush=True)
        row = run_cell(setup, cell)
        table.add(row)
        mirror(setup, options.mirror)
        print(f" {row['status']:8} {row['seconds']:7.1f} s  {row.get('problem', '')}", flush=True)
    return left


def run_all(setup, options):
    notes = machine.notes(setup)
    begin_from(setup, options.mirror)
    table = ledger.Ledger(setup.out / "gpu.csv", notes)
    stop_at = time.monotonic() + options.stop_after_s if options.stop_after_s else float("inf")
    print("\n".join(notes))
    mirror(setup, options.mirror)
    left = 0
    try:
        for cells in plan(setup, options):
            left += run_phase(setup, table, cells, options, stop_at)
    finally:
        table.close()
    if left:
        print(f"{left} cells were left: there was no time for them; run the same command again")
    bad = [row for row in table.rows.values()
           if row["phase"] in options.phases and row["status"] not in ("ok", "skipped")]
    print(f"{len(table.rows)} cells in {table.path}; {len(bad)} failed, were stopped or "
          "found only bounds")
    return 1 if bad or left else 0


def show(setup, options):
    known = {}
    path = setup.out / "gpu.csv"
    if path.exists():
        known = {(row["phase"], row["cell"]): row["status"] for row in ledger.read_rows(path)[1]}
    for cells in plan(setup, options):
        for cell in cells:
            print(f"{cell.phase:10} {cell.name:41} {known.get((cell.phase, cell.name), 'to run'):8}"
                  f" at most {cell.limit_s:g} s")
            if options.dry_run:
                given = [f"{key}={value}" for key, value in cell.environment.items()]
                print("        " + shlex.join([*given, *map(str, cell.command)]))
    return 0


def show_plan(setup, options):
    """In the order of running; cells that have run already are included."""
    lines = ["| turn | phase | cells | seconds | at most |", "|---:|---|---:|---:|---:|"]
    turns = {}
    for cells in filter(None, plan(setup, options)):
        about_s, limit_s = (sum(getattr(cell, key) for cell in cells)
                            for key in ("about_s", "limit_s"))
        lines.append(f"| {cells[0].turn} | `{cells[0].phase}` | {len(cells)} | {about_s:,.0f} | "
                     f"{min(limit_s, options.limit_s):,.0f} |")
        turns[cells[0].turn] = turns.get(cells[0].turn, 0) + about_s
    for turn, about_s in turns.items():
        lines.append(f"| {turn} | together | | {about_s:,.0f} = {about_s / 60:.1f} minutes | |")
    print("\n".join(lines))
    return 0


def interrupt(_signal, _frame):
    raise KeyboardInterrupt


def main():
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, interrupt)
    for folder in filter(None, (options.out, options.mirror)):
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pleat-gpu-") as links:
        os.symlink(options.build.resolve() / "libpleat_sim.so", f"{links}/libcuda.so.1")
        setup = Setup(build=options.build.resolve(), out=(options.out or pathlib.Path()).resolve(),
                      python=options.python, is_simulated=options.simulate,
                      memory=options.memory, scale=options.scale, rounds=options.rounds,
                      allocators=options.allocators, links=pathlib.Path(links))
        if options.plan:
            return show_plan(setup, options)
        if options.list or options.dry_run:
            return show(setup, options)
        try:
            return run_all(setup, options)
        except ledger.OtherRun as problem:
            sys.exit(f"run.py: {problem}")
        except KeyboardInterrupt:
            print("\ninterrupted: what was finished is kept; run the same command to go on",
                  flush=True)
            return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
