#!/usr/bin/env python3
"""PyTorch's own tests of its allocator and of its CUDA sanitizer under a check (docs/check.md).

Usage: checked.py BUILD_DIR [--match REGEX] [--module NAME]... [--write]. Plays the tests of 2.6.0 on
2.6.0, with torch's own allocator, and prints what each passes and what the check finds. --write
records it in checked-2.6.0.csv beside this file. Without --write the result is compared with the
file. Exit status 1: a test has other findings than recorded, or passes no more."""

from __future__ import annotations

import argparse
import csv
import pathlib
import sys
import tempfile

import upstream

RECORDED = upstream.HERE / "checked-2.6.0.csv"
COLUMNS = ("module", "test", "check", "findings")
MODULES = {**upstream.DEVICES, "test_cuda_sanitizer": 1}


def play(module: str, python: str, build: pathlib.Path, package: str, match: str) -> list[list[str]]:
    folder = upstream.fetch("tests")
    upstream.DEVICES[module] = MODULES[module]
    variables = upstream.environment(build, module, package, folder)
    run = upstream.Run("check", module, python, folder, variables)
    run.run(match)
    if run.failure:
        sys.exit(run.failure)
    return [
        [module, test, verdict, run.said[test] if verdict == "pass" else ""]
        for test, verdict in sorted(run.verdicts.items())
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--match", default="", metavar="REGEX", help="of CLASS.TEST")
    parser.add_argument("--module", action="append", choices=MODULES, help="default: all five")
    parser.add_argument("--write", action="store_true", help="record the result")
    options = parser.parse_args()
    rows = []
    python = upstream.fetch("python", upstream.OWN_TORCH)
    with tempfile.TemporaryDirectory() as package:
        upstream.lay_package(pathlib.Path(package), options.build)
        for module in options.module or MODULES:
            rows += play(module, python, options.build.resolve(), package, options.match)
    for row in rows:
        if row[3]:
            print(f"{row[0]} {row[1]}:\n    " + row[3].replace("\n", "\n    "))
    if options.write:
        with open(RECORDED, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
        return
    with open(RECORDED, encoding="utf-8", newline="") as file:
        known = {(row[0], row[1]): row for row in csv.reader(file)}
    changed = [row for row in rows if known.get((row[0], row[1])) != row]
    print("".join(f"not as recorded: {row}\n" for row in changed), end="")
    sys.exit(bool(changed))


if __name__ == "__main__":
    main()
