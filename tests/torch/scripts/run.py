#!/usr/bin/env python3
"""Real training scripts (programs.py beside this file) on the simulated CUDA runtime: natively, with
expandable segments, and under pleat.

Usage: run.py BUILD_DIR [--program NAME]... [--steps N] [--csv FILE]   (./dev scripts). First each
script runs with memory to spare and reports its requested, allocated and reserved bytes. `need` is
the least of the three peaks of requested bytes. Then the device has 1.00, 1.01, ... times `need`,
until the script completes. The Trainer reduces its batch on failures. So it runs on half of that
device, and the table has the resulting batch. With two ranks, the figures are of the rank that held most. The exit status is 1 in
three cases under pleat: a script's requests differ from native ones, it reserves more than
expandable segments, or it fails at 1.01 while expandable segments need 1.03."""

from __future__ import annotations

import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = {  # name: steps
    "gpt2": 30,
    "llama_lora": 20,
    "bert_amp": 30,
    "resnet": 20,
    "serve": 8,
    "trainer": 20,
    "ddp": 20,
    "fsdp2": 20,
}
SHARDED = ("ddp", "fsdp2")
WAYS = ("native", "expandable", "pleat")
FACTORS = (1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.07, 1.1, 1.15, 1.2, 1.3, 1.5)
SPARE = 120 << 30
GIB = 1 << 30
COLUMNS = (
    "program",
    "way",
    "requests",
    "requested_bytes",
    "peak_requested",
    "peak_allocated",
    "peak_reserved",
    "completes_at",
    "batch",
)
LIMIT_S = 900


class Runs:
    def __init__(self, build: pathlib.Path, python: str, package: str) -> None:
        self.build, self.python, self.package = build, python, package

    def command(self, program: str, way: str, steps: int, memory: int) -> list[str]:
        runtime = [str(self.build / "pleat-runtime"), "--context", "0", "--memory", f"{memory}B"]
        runtime += ["--quiet", "--devices", "2" if program in SHARDED else "1"]
        runtime += [] if way == "pleat" else ["--allocator", way]
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        launcher = launcher if program in SHARDED else []
        pleat = ["-m", "pleat.torch"] if way == "pleat" else []
        script = [str(HERE / "programs.py"), program, str(steps)]
        return [*runtime, self.python, *launcher, *pleat, *script]

    def run(self, program: str, way: str, steps: int, memory: int) -> dict[str, Any]:
        """The statistics of the rank that held most; with `error` if a rank failed."""
        dropped = ("PLEAT_", "PYTORCH_", "LD_PRELOAD", "CUDA_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
        words = {"OMP_NUM_THREADS": "1", "PYTHONPATH": self.package, "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(
            self.command(program, way, steps, memory),
            env={**kept, **words},
            capture_output=True,
            encoding="utf-8",
            timeout=LIMIT_S,
            check=False,
        )
        ranks = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
        failed = next((rank["error"] for rank in ranks if "error" in rank), None)
        if done.returncode != 0 and failed is None:
            sys.exit(f"{program}, {way}: exit status {done.returncode}\n{done.stderr}")
        most: dict[str, Any] = max(ranks, key=lambda rank: rank["requested_bytes.all.peak"])
        most.pop("error", None)
        result = f"fails: {failed}" if failed else "completes"
        print(f"{program} {way} {memory / GIB:.3f} GiB: {result}", file=sys.stderr, flush=True)
        return {**most, **({"error": failed} if failed else {})}

    def least(self, program: str, way: str, steps: int, need: int) -> float:
        for factor in FACTORS:
            if "error" not in self.run(program, way, steps, int(need * factor)):
                return factor
        return float("inf")


def row_of(program: str, way: str, found: dict[str, Any]) -> dict[str, Any]:
    return {
        "program": program,
        "way": way,
        "requests": found["allocation.all.allocated"],
        "requested_bytes": found["requested_bytes.all.allocated"],
        "peak_requested": found["requested_bytes.all.peak"],
        "peak_allocated": found["allocated_bytes.all.peak"],
        "peak_reserved": found["reserved_bytes.all.peak"],
        "completes_at": "",
        "batch": found.get("batch", ""),
    }


def measure(runs: Runs, program: str, steps: int) -> list[dict[str, Any]]:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        spare = list(pool.map(lambda way: runs.run(program, way, steps, SPARE), WAYS))
        rows = [row_of(program, way, found) for way, found in zip(WAYS, spare)]
        need = min(row["peak_requested"] for row in rows)
        if program == "trainer":
            half = pool.map(lambda way: runs.run(program, way, steps, need // 2), WAYS)
            for row, found in zip(rows, half):
                row["batch"] = found["batch"]
        else:
            least = pool.map(lambda way: runs.least(program, way, steps, need), WAYS[1:])
            for row, factor in zip(rows[1:], least):
                row["completes_at"] = factor
    return rows


def complaints(rows: list[dict[str, Any]]) -> list[str]:
    native, expandable, pleat = rows
    found = []
    for key in ("requests", "requested_bytes"):
        if pleat[key] != native[key]:
            found.append(f"{key} are {pleat[key]}, natively {native[key]}")
    if pleat["peak_reserved"] > expandable["peak_reserved"]:
        found.append("reserves more than expandable segments")
    if pleat["completes_at"] != "" and pleat["completes_at"] > 1.01 <= expandable["completes_at"]:
        if expandable["completes_at"] >= 1.03:
            found.append(f"completes at {pleat['completes_at']} only")
    return [f"{pleat['program']}: {text}" for text in found]


def print_table(rows: list[dict[str, Any]]) -> None:
    print("| script | allocator | requests | GiB in all | peak requested | peak reserved | device |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for row in rows:
        least = f"{row['completes_at']:.2f} x" if row["completes_at"] != "" else ""
        least = f"batch {row['batch']} on half" if row["batch"] != "" else least
        print(
            f"| {row['program']} | {row['way']} | {row['requests']:,} "
            f"| {row['requested_bytes'] / GIB:.2f} | {row['peak_requested'] / GIB:.3f} "
            f"| {row['peak_reserved'] / GIB:.3f} | {least} |"
        )


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--program", action="append", choices=list(PROGRAMS))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--csv", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    return parser.parse_args()


def main() -> None:
    options = read_arguments()
    runs = Runs(options.build.resolve(), options.python, str(options.build.resolve() / "python-package"))
    rows = []
    wrong = []
    for program in options.program or PROGRAMS:
        rows += measure(runs, program, options.steps or PROGRAMS[program])
        wrong += complaints(rows[-3:])
    print_table(rows)
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
