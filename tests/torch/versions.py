#!/usr/bin/env python3
"""pleat's class under many versions of PyTorch: python/tests with each, on the simulated runtime.

Usage: versions.py BUILD_DIR [VERSION...] [--keep] [--write] [--quick] [--suite NAME]...
       versions.py BUILD_DIR --turn | --has-turn | --fetch-turn
(./dev torch-versions). Tests one version after another; without a VERSION, all in versions.csv.
Each version gets a virtual environment in the cache folder (up to 5.5 GB). It is removed after the
tests, unless it existed before or --keep is given. --write records the results in versions.csv
beside this file and in docs/pytorch-tests.md. --quick omits tests of several processes. --suite
takes only the named suites. Exit status 1: something failed.

--turn runs a sixth of the quick tests for one version, if its environment exists; otherwise the exit
status is 77. The commit chooses the version, newest or oldest in versions.csv, and the sixth.
PLEAT_TORCH_TURN names another version; PLEAT_TEST_PERCENT=100 takes all quick tests. --has-turn
tells by its exit status whether the environment exists. --fetch-turn makes the environment, which
then stays. It takes at most FETCH_S seconds and needs room on the disk. If --fetch-turn fails, it
tells why, and the exit status is still 0."""

from __future__ import annotations

import argparse
import csv
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

import upstream

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "versions.csv"
PAGE = ROOT / "docs/pytorch-tests.md"
BEGIN, END = "<!-- versions:begin -->", "<!-- versions:end -->"
COLUMNS = ("torch", "cuda", "python", "suite", "passed", "failed", "skipped")
SUITES = {
    "class": "python/tests/class_test.py",
    "newer": "python/tests/newer_class_test.py",
    "pools": "python/tests/foreign_pool_test.py",
    "install": "python/tests/torch_install_test.py",
    "processes": "python/tests/multiprocessing_test.py",
    "random": "python/tests/random_program_test.py",
    "native": "tests/python/torch_on_sim/on_sim_memory_test.py",
    "symbols": "tests/python/torch_on_sim/on_sim_symbols_test.py",
}
SLOW = ("processes", "random", "native")
ABSENT = 77
FETCH_S = 480  # takes some 2 minutes with a good network
N_SHARES = 6  # a turn plays one test of six
ROOM_BYTES = 8 << 30  # an environment and what pip needs meanwhile

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


def number_of_commit() -> tuple[int, str]:
    """A number that differs by commit or, without a commit, by day."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    commit = done.stdout.strip()
    if done.returncode == 0:
        return int(commit[:8], 16), f"commit {commit[:8]}"
    number = int(time.time()) // 86400
    return number, f"day {number}"


def turn_of(known: list[str]) -> tuple[str, str]:
    """The version whose turn it is, and the reason. `known` is newest first."""
    if os.environ.get("PLEAT_TORCH_TURN"):
        return os.environ["PLEAT_TORCH_TURN"], "PLEAT_TORCH_TURN says so"
    turns = list(dict.fromkeys((known[0], known[-1])))
    number, why = number_of_commit()
    return turns[number % len(turns)], f"{why}, of {' and '.join(turns)}"


def share_of_turn() -> str:
    """Which of the tests, as conftest.py of python/tests takes it: a sixth, by the commit; all in
    `./dev test --long`."""
    if os.environ.get("PLEAT_TEST_PERCENT") == "100":
        return "0/1"
    return f"{number_of_commit()[0] // 2 % N_SHARES}/{N_SHARES}"


def fetch_bounded(version: str, seconds: float) -> str:
    """Make the environment. Returns "", or why the environment is missing."""
    folder = pathlib.Path(fetch("venv", version))
    room = shutil.disk_usage(folder.parent if folder.parent.exists() else "/").free
    if (folder / "pleat.stamp").exists():
        return ""
    if room < ROOM_BYTES:
        return f"the cache folder's disk has {room >> 20} MiB left"
    command = [str(HERE / "fetch.sh"), "python", version]
    with (
        tempfile.TemporaryDirectory(prefix="pleat-torch-") as scratch,  # pip leaves gigabytes there
        subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "TMPDIR": scratch},
        ) as child,
    ):
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            remove_unfinished(folder)
            return f"it was not installed within {seconds:.0f} s"
    return "" if child.returncode == 0 else "pip failed (is there a network?)"


def remove_unfinished(folder: pathlib.Path) -> None:
    """Remove half an environment, unless another checkout is still making it."""
    if not folder.exists():
        return
    lock = folder.parent / "torch.lock"
    with lock.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if not (folder / "pleat.stamp").exists():
            shutil.rmtree(folder, ignore_errors=True)


def fetch_turn(version: str, why: str) -> int:
    problem = fetch_bounded(version, FETCH_S)
    print(f"torch {version} has its turn ({why})", flush=True)
    if problem:
        print(f"torch {version}: NOT INSTALLED, its tests will be skipped: {problem}", flush=True)
    return 0


def environment(build: pathlib.Path, package: pathlib.Path) -> dict[str, str]:
    dropped = ("PLEAT_", "PYTORCH_", "LD_PRELOAD", "CUDA_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    return {
        **kept,
        "PLEAT_BUILD_DIR": str(build),
        "PLEAT_SOURCE_DIR": str(ROOT),
        "PLEAT_LIBRARY": str(build / "libpleat.so"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(package),
    }


def counts(report: pathlib.Path) -> tuple[dict[str, int], list[str]]:
    """From a pytest run's XML: how many tests passed, failed and were skipped, and the failed
    ones."""
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


def run_suites(
    python: str, suites: list[str], given: dict[str, str], folder: pathlib.Path
) -> tuple[dict[str, int], list[str]]:
    """One pytest for all of them: they share the python that has imported torch."""
    report = folder / f"{suites[0]}.xml"
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    files = [str(ROOT / SUITES[suite]) for suite in suites]
    done = subprocess.run(
        [python, *arguments, f"--basetemp={folder / suites[0]}", *files],
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


def test_version(
    version: str, python: str, build: pathlib.Path, groups: list[list[str]], share: str
) -> list[Row]:
    cuda, python_version = facts(python)
    rows = []
    with tempfile.TemporaryDirectory(prefix="pleat-versions-") as name:
        folder = pathlib.Path(name)
        upstream.lay_package(folder / "package", build)
        given = {**environment(build, folder / "package"), "PLEAT_TESTS_SHARE": share}
        for group in groups:
            begin = time.monotonic()
            result, failed = run_suites(python, group, given, folder)
            took = time.monotonic() - begin
            text = ", ".join(f"{n} {kind}" for kind, n in result.items() if n > 0)
            name = " ".join(group)
            print(f"torch {version} (CUDA {cuda}): {name}: {text}; {took:.0f} s", flush=True)
            for test in failed:
                print(f"    {test}", flush=True)
            row = {"torch": version, "cuda": cuda, "python": python_version, "suite": name}
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
    lines = [  # for each suite: passed of all tests that this version can run
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
    parser.add_argument("--turn", action="store_true", help="one of two, if it is there; quick")
    parser.add_argument("--has-turn", action="store_true", help="is what --turn needs there?")
    parser.add_argument("--fetch-turn", action="store_true", help="make what --turn needs")
    parser.add_argument("--quick", action="store_true", help=f"without {' and '.join(SLOW)}")
    parser.add_argument("--suite", action="append", choices=SUITES, help="default: all")
    chosen = parser.parse_args()
    known = sorted({row["torch"] for row in recorded()}, key=order, reverse=True)
    versions = chosen.versions or known
    if not versions:
        parser.error("name a version: none is recorded")
    is_turn = chosen.turn or chosen.has_turn or chosen.fetch_turn
    if is_turn:
        turn, why = turn_of(known)
        if chosen.has_turn:
            return int(not (pathlib.Path(fetch("venv", turn)) / "pleat.stamp").exists())
        if chosen.fetch_turn:
            return fetch_turn(turn, why)
        print(f"torch {turn} has its turn ({why}), share {share_of_turn()}", flush=True)
        versions = [turn]
    suites = [name for name in SUITES if name in (chosen.suite or SUITES)]
    suites = [name for name in suites if not ((chosen.quick or is_turn) and name in SLOW)]
    groups = [suites] if is_turn else [[suite] for suite in suites]
    share = share_of_turn() if is_turn else "0/1"
    rows = []
    for version in versions:
        folder = pathlib.Path(fetch("venv", version))
        is_new = not (folder / "pleat.stamp").exists()
        if is_new and is_turn:
            print(f"SKIPPED: no environment with torch {version}; ./dev torch-turn makes it")
            return ABSENT
        is_there = not is_new and "PLEAT_TORCH_PYTHON" not in os.environ
        python = str(folder / "bin/python") if is_there else fetch("python", version)
        rows += test_version(version, python, chosen.build.resolve(), groups, share)
        if is_new and not chosen.keep:
            shutil.rmtree(folder)
        if chosen.write:
            write(rows)
    return 1 if any(int(row["failed"]) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
