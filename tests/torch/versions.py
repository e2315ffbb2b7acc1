#!/usr/bin/env python3
"""pleat's class under many versions of PyTorch: python/tests with each, on the simulated runtime.

Usage: versions.py BUILD_DIR [VERSION...] [--keep] [--write] [--newest] [--quick] [--suite NAME]...
(./dev torch-versions). Versions are tested in turn, all of those in versions.csv where none is
named. Each gets a virtual environment in the cache folder (up to 5.5 GB), which is removed after its
tests unless it was there before or --keep says so. --write records the results in versions.csv
beside this file and in docs/pytorch.md. --newest takes the newest version in versions.csv if its
environment is there (exit status 77 if not). --quick leaves out the tests of several processes,
--suite all but those it names. Exit status 1: something failed."""

from __future__ import annotations

import argparse
import csv
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

import upstream

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "versions.csv"
PAGE = ROOT / "docs/pytorch.md"
BEGIN, END = "<!-- versions:begin -->", "<!-- versions:end -->"
COLUMNS = ("torch", "cuda", "python", "suite", "passed", "failed", "skipped")
SUITES = {
    "class": "python/tests/class_test.py",
    "install": "python/tests/torch_install_test.py",
    "processes": "python/tests/multiprocessing_test.py",
    "native": "tests/python/torch_on_sim/on_sim_memory_test.py",
    "symbols": "tests/python/torch_on_sim/on_sim_symbols_test.py",
}
SLOW = ("processes", "native")
ABSENT = 77

Row = dict[str, str]


def order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def recorded() -> list[Row]:
    if not RESULTS.exists():
        return []
    with open(RESULTS, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def fetch(*what: str) -> str:
    done = subprocess.run(
        [str(HERE / "fetch.sh"), *what], stdout=subprocess.PIPE, encoding="utf-8", check=True
    )
    return done.stdout.strip()


def environment(build: pathlib.Path, package: pathlib.Path) -> dict[str, str]:
    dropped = ("PLEAT_", "PYTORCH_", "LD_PRELOAD", "CUDA_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    return {
        **kept,
        "PLEAT_BUILD_DIR": str(build),
        "PLEAT_SOURCE_DIR": str(ROOT),
        "PLEAT_LIBRARY": str(build / "libpleat.so"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(package),
    }


def counts(report: pathlib.Path) -> tuple[dict[str, int], list[str]]:
    """Of a pytest run's XML: how many passed, failed and were skipped; what failed."""
    result = {"passed": 0, "failed": 0, "skipped": 0}
    failed = []
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            result["failed"] += 1
            failed.append(str(case.get("name")))
        else:
            result["skipped" if "skipped" in kinds else "passed"] += 1
    return result, failed


def run_suite(
    python: str, suite: str, given: dict[str, str], folder: pathlib.Path
) -> tuple[dict[str, int], list[str]]:
    report = folder / f"{suite}.xml"
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    done = subprocess.run(
        [python, *arguments, f"--basetemp={folder / suite}", str(ROOT / SUITES[suite])],
        env=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode not in (0, 1) or not report.exists():
        print(done.stdout)
        sys.exit(f"pytest ended with {done.returncode}")
    if done.returncode == 1:
        print(done.stdout)
    return counts(report)


def facts(python: str) -> tuple[str, str]:
    code = "import sys, torch; print(torch.version.cuda, '%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, check=True, text=True)
    cuda, version = done.stdout.split()
    return cuda, version


def test_version(version: str, python: str, build: pathlib.Path, suites: list[str]) -> list[Row]:
    cuda, python_version = facts(python)
    rows = []
    with tempfile.TemporaryDirectory(prefix="pleat-versions-") as name:
        folder = pathlib.Path(name)
        upstream.lay_package(folder / "package", build)
        given = environment(build, folder / "package")
        for suite in suites:
            begin = time.monotonic()
            result, failed = run_suite(python, suite, given, folder)
            took = time.monotonic() - begin
            text = ", ".join(f"{n} {kind}" for kind, n in result.items() if n > 0)
            print(f"torch {version} (CUDA {cuda}): {suite}: {text}; {took:.0f} s", flush=True)
            for test in failed:
                print(f"    {test}", flush=True)
            row = {"torch": version, "cuda": cuda, "python": python_version, "suite": suite}
            rows.append({**row, **{kind: str(n) for kind, n in result.items()}})
    return rows


def write(rows: list[Row]) -> None:
    fresh = {(row["torch"], row["suite"]) for row in rows}
    rows = [row for row in recorded() if (row["torch"], row["suite"]) not in fresh] + rows
    places = list(SUITES)
    rows.sort(key=lambda row: ([-n for n in order(row["torch"])], places.index(row["suite"])))
    with open(RESULTS, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    page = PAGE.read_text(encoding="utf-8")
    if BEGIN not in page or END not in page:
        sys.exit(f"{PAGE} has no lines {BEGIN} and {END}")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(rows)}\n{END}{after}", encoding="utf-8")


def cell(row: Row | None) -> str:
    if row is None:
        return ""
    n = int(row["passed"]) + int(row["failed"])
    return f"{row['passed']} of {n}"


def table(rows: list[Row]) -> str:
    lines = [  # of each suite: passed, of those that this version can run
        "| torch | CUDA | " + " | ".join(SUITES) + " |",
        "|---|---|" + "---:|" * len(SUITES),
    ]
    for version in dict.fromkeys(row["torch"] for row in rows):
        of_version = {row["suite"]: row for row in rows if row["torch"] == version}
        cuda = next(iter(of_version.values()))["cuda"]
        cells = " | ".join(cell(of_version.get(suite)) for suite in SUITES)
        lines.append(f"| {version} | {cuda} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev torch-versions")
    parser.add_argument("build", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="such as 2.15.0")
    parser.add_argument("--keep", action="store_true", help="keep the environments")
    parser.add_argument("--write", action="store_true", help="record what is found")
    parser.add_argument("--newest", action="store_true", help="the newest one, if it is there")
    parser.add_argument("--quick", action="store_true", help=f"without {' and '.join(SLOW)}")
    parser.add_argument("--suite", action="append", choices=SUITES, help="default: all five")
    chosen = parser.parse_args()
    known = sorted({row["torch"] for row in recorded()}, key=order, reverse=True)
    versions = chosen.versions or (known[:1] if chosen.newest else known)
    if not versions:
        parser.error("name a version: none is recorded")
    suites = [name for name in SUITES if name in (chosen.suite or SUITES)]
    suites = [name for name in suites if not (chosen.quick and name in SLOW)]
    rows = []
    for version in versions:
        folder = pathlib.Path(fetch("venv", version))
        is_new = not (folder / "pleat.stamp").exists()
        if is_new and chosen.newest:
            print(f"no environment with torch {version}: ./dev venv makes one")
            return ABSENT
        rows += test_version(version, fetch("python", version), chosen.build.resolve(), suites)
        if is_new and not chosen.keep:
            shutil.rmtree(folder)
        if chosen.write:
            write(rows)
    return 1 if any(int(row["failed"]) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
