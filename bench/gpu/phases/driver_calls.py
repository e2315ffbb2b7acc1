"""The first phases test what designs assume about the driver. Each is a small program that makes
its driver calls itself; most need no PyTorch."""
import json

import captures
from cells import Cell, last_object
from phases.pytorch import ROOT, environment_of, plain_environment, read as read_pytorch

GPU = ROOT / "bench" / "gpu"
SHOWN = ("status", "problem", "detail", "n_taken_granules", "ops_unmap")    # in the table
HANDLE_SECONDS = {2: 12, 8: 4, 32: 4}       # by the size in MiB
HANDLE_LIMIT_S = 40         # a process that held all of a device takes long to end
STALL_SECONDS = 2           # of each of four passes
TAKE_SECONDS = 10
TAKING = ("pleat", "pleat-8m")
LIMIT_S = 60
TAKE_LIMIT_S = 120          # may import PyTorch for the first time


def reader(setup, name):
    """The program's whole output goes into one file in the folder of results; the table gets what
    it has a column for."""
    def read(output):
        figures = read_pytorch(output)
        path = setup.out / "driver.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        known[name] = last_object(output)
        path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        return {key: value for key, value in figures.items() if key in SHOWN}
    return read


def plain(setup, phase, name, about_s, limit_s, *command):
    """A program that needs no PyTorch."""
    return Cell(phase, name, (setup.python, "-B", *command), limit_s, about_s=about_s,
                environment=plain_environment(setup), read=reader(setup, f"{phase}: {name}"))


def handle_cells(setup):
    return [plain(setup, "handles", f"{mib} MiB", seconds + 1, HANDLE_LIMIT_S, GPU / "handles.py",
                  "--mib", mib, "--seconds", seconds)
            for mib, seconds in HANDLE_SECONDS.items()]


def stall_cells(setup):
    return [plain(setup, "stalls", "neighbours", 4 * STALL_SECONDS + 3, LIMIT_S,
                  GPU / "stalls.py", "--seconds", STALL_SECONDS)]


def take_cells(setup):
    return [Cell("takes", allocator,
                 (setup.python, GPU / "takes.py", "--allocator", allocator,
                  "--seconds", TAKE_SECONDS), TAKE_LIMIT_S, about_s=TAKE_SECONDS + 6,
                 known={"allocator": allocator}, environment=environment_of(setup),
                 read=reader(setup, f"takes: {allocator}")) for allocator in TAKING]


def capture_cells(setup):
    """One process for each variant, about a second each."""
    asked = [plain(setup, "captures", question, len(variants), 2 * LIMIT_S,
                   GPU / "captures.py", question)
             for question, variants in captures.VARIANTS.items()]
    return asked + [plain(setup, "captures", "event costs", 4, LIMIT_S, GPU / "event_costs.py")]
