#!/usr/bin/env python3
"""PyTorch's own tests of its allocator, on the simulated CUDA runtime, natively and under pleat.

Usage: upstream.py BUILD_DIR [--torch VERSION] [--tests FOLDER] [--match REGEX] [--module NAME]...
[--write] (./dev torch). Prints a table of groups, and the tests that pass natively but not under
pleat, which is the class compiled for this torch. The tests are from 2.6.0, for any torch. On
other versions some tests do not fit, and fail natively, too. --tests plays the tests of another
folder, such as test/ of a checkout of PyTorch. --write records the result in results-VERSION.csv
beside this file (for another folder: newer-VERSION.csv), replacing earlier results of these tests.
Without --write the result is compared with the file. Exit status 1: a test that passed under pleat
in the recorded result, and passes natively now, fails under pleat."""

from __future__ import annotations

import argparse
import collections
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OWN_TORCH = "2.6.0"  # the version of the tests
COLUMNS = ("module", "group", "test", "native", "pleat", "message")
WAYS = ("native", "pleat")
DEVICES = {
    "test_cuda": 1,
    "test_cuda_multigpu": 2,
    "test_cuda_expandable_segments": 1,
    "test_cuda_trace": 1,
}
# The first whose pattern is found in CLASS.TEST, whatever the module.
GROUPS = (
    ("pools and block states", r"MemPool|BlockState|mempool|checkpoint_pool"),
    ("graphs", r"graph|Graph|capturable"),
    (
        "statistics, snapshots, out of memory",
        r"memory|[Aa]llocator|allocation|snapshot|stats|oom|out_of_m|history|garbage|cycles",
    ),
    ("streams and the rest", r""),
)


def group_of(test: str) -> str:
    return next(name for name, pattern in GROUPS if re.search(pattern, test))


def results_of(version: str, tests: pathlib.Path | None) -> pathlib.Path:
    return HERE / f"{'newer' if tests else 'results'}-{version}.csv"


def modules_of(tests: pathlib.Path | None, chosen: list[str] | None) -> list[str]:
    """The modules to play: a given folder need not have all four."""
    names = [name for name in DEVICES if not tests or (tests / f"{name}.py").exists()]
    missing = sorted(set(chosen or ()) - set(names))
    if missing or not names:
        sys.exit(f"{tests} has no {', '.join(missing or DEVICES)}")
    return [name for name in names if name in (chosen or names)]


def fetch(*what: str) -> str:
    command = [str(HERE / "fetch.sh"), *what]
    done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return done.stdout.strip()


def lay_package(folder: pathlib.Path, build: pathlib.Path) -> None:
    """Put the package there as pip lays it out, as links into the sources and the build folder. The
    class is compiled against the headers in it."""
    package = folder / "pleat"
    include = package / "_include"
    include.mkdir(parents=True)
    for path in (ROOT / "python/pleat").iterdir():
        (package / path.name).symlink_to(path)
    headers = [*(ROOT / "api").glob("pleat*.h"), ROOT / "api/adapters/pleat_torch.h"]
    for path in (*headers, ROOT / "vmm/base/pleat_types.h"):
        (include / path.name).symlink_to(path)
    libraries = package / "_lib"
    libraries.mkdir()
    for path in build.resolve().glob("libpleat*.so"):
        (libraries / path.name).symlink_to(path)


def environment(build: pathlib.Path, module: str, package: str, folder: str) -> dict[str, str]:
    dropped = ("PLEAT_", "PYTORCH_", "LD_PRELOAD", "CUDA_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    devices = str(DEVICES[module])
    return {
        **kept,
        "LD_PRELOAD": str(build / "libpleat_runtime.so"),
        "PLEAT_LIBRARY": str(build / "libpleat.so"),
        "PLEAT_SIM": f"capacity:{40 << 30},compute:9.0,devices:{devices}",
        "PLEAT_TORCH_DEVICES": devices,
        "PYTHONPATH": f"{package}:{folder}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }


def last_line(message: str) -> str:
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    # PyTorch adds how to run the test alone, after a line of this kind.
    for i, line in enumerate(lines):
        if line.startswith("To execute this test"):
            lines = lines[:i]
            break
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exit)\b", line)]
    return (errors or lines or [""])[-1][:160]


class Run:
    """One module's tests in one way: verdicts and messages by test."""

    def __init__(self, way: str, module: str, python: str, folder: str, variables: dict[str, str]):
        self.way, self.module = way, module
        self.verdicts: dict[str, str] = {}
        self.messages: dict[str, str] = {}
        self.said: dict[str, str] = {}  # the whole messages
        self.failure = ""
        self.zygote = subprocess.Popen(
            [python, HERE / "zygote.py", way, module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=variables,
            text=True,
        )

    def answer(self) -> Any:
        assert self.zygote.stdout is not None
        return json.loads(self.zygote.stdout.readline() or '["crash", ""]')

    def run(self, pattern: str) -> None:
        assert self.zygote.stdin is not None
        said = self.answer()
        if isinstance(said, list):
            self.failure = f"{self.module}, {self.way}: {said[0]}\n{said[1]}"
            said = {"tests": []}
        else:
            print(f"{self.way:6} {self.module}: torch's allocator is {said['allocator']}")
        for test in said["tests"]:
            if re.search(pattern, test):
                self.zygote.stdin.write(test + "\n")
                self.zygote.stdin.flush()
                verdict, message, seconds = self.answer()
                self.verdicts[test] = verdict.split()[0]
                self.messages[test] = last_line(message)
                self.said[test] = message
                print(f"{self.way:6} {verdict:8} {seconds:5} {self.module} {test}", flush=True)
        self.zygote.stdin.close()
        self.zygote.wait()


def run_module(
    module: str, python: str, folder: str, build: pathlib.Path, package: str, pattern: str
) -> list[dict[str, str]]:
    """Rows of COLUMNS. Both ways run side by side."""
    variables = environment(build, module, package, folder)
    runs = [Run(way, module, python, folder, variables) for way in WAYS]
    threads = [threading.Thread(target=run.run, args=(pattern,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for run in runs:
        if run.failure:
            sys.exit(run.failure)
    native, pleat = runs
    return [
        {
            "module": module,
            "group": group_of(test),
            "test": test,
            "native": native.verdicts.get(test, "missing"),
            "pleat": pleat.verdicts.get(test, "missing"),
            "message": pleat.messages.get(test) or native.messages.get(test, ""),
        }
        for test in sorted(native.verdicts.keys() | pleat.verdicts.keys())
    ]


def print_table(rows: list[dict[str, str]]) -> None:
    counts: dict[tuple[str, str], collections.Counter[str]] = {}
    for row in rows:
        count = counts.setdefault((row["module"], row["group"]), collections.Counter())
        count["tests"] += 1
        count["native"] += row["native"] == "pass"
        count["pleat"] += row["pleat"] == "pass"
        count["lacks"] += row["native"] == "pass" != row["pleat"]
    print(f"\n{'module':30} {'group':38} tests native pleat  of native's pleat lacks")
    for (module, group), count in sorted(counts.items()):
        print(
            f"{module:30} {group:38} {count['tests']:5} {count['native']:6} {count['pleat']:5} "
            f"{count['lacks']:4}"
        )
    for row in rows:
        if row["native"] == "pass" != row["pleat"]:
            print(f"{row['module']} {row['test']}: {row['pleat']}: {row['message']}")


def recorded(path: pathlib.Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def lost(rows: list[dict[str, str]], path: pathlib.Path) -> list[str]:
    """Tests that passed under pleat when the result was recorded, and do not any more."""
    passed = {(row["module"], row["test"]) for row in recorded(path) if row["pleat"] == "pass"}
    return [
        row["module"] + " " + row["test"]
        for row in rows
        if (row["module"], row["test"]) in passed and row["native"] == "pass" != row["pleat"]
    ]


def record(rows: list[dict[str, str]], path: pathlib.Path, is_all: bool) -> None:
    """The rows replace the recorded rows of their tests, or all rows."""
    kept = {} if is_all else {(row["module"], row["test"]): row for row in recorded(path)}
    kept.update({(row["module"], row["test"]): row for row in rows})
    modules = list(DEVICES)
    order = sorted(kept, key=lambda key: (modules.index(key[0]), key[1]))
    write([kept[key] for key in order], path)


def write(rows: list[dict[str, str]], path: pathlib.Path) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev torch", description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--torch", default=OWN_TORCH, metavar="VERSION", help=OWN_TORCH)
    parser.add_argument("--tests", type=pathlib.Path, metavar="FOLDER", help="in place of 2.6.0's")
    parser.add_argument("--match", default="", metavar="REGEX", help="of CLASS.TEST")
    parser.add_argument("--module", action="append", choices=DEVICES, help="default: all four")
    parser.add_argument("--out", type=pathlib.Path, metavar="CSV", help="write the rows there, too")
    parser.add_argument("--write", action="store_true", help="record the result of what was run")
    options = parser.parse_args()
    rows = []
    path = results_of(options.torch, options.tests)
    modules = modules_of(options.tests, options.module)
    folder = str(options.tests.resolve()) if options.tests else fetch("tests")
    python = fetch("python", options.torch)
    with tempfile.TemporaryDirectory() as package:
        lay_package(pathlib.Path(package), options.build)
        for module in modules:
            rows += run_module(
                module, python, folder, options.build.resolve(), package, options.match
            )
            if options.out:
                write(rows, options.out)
    print_table(rows)
    if options.write:
        record(rows, path, is_all=not (options.match or options.module))
        return
    missing = lost(rows, path)
    print("".join(f"passed before: {name}\n" for name in missing), end="")
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()
