#!/usr/bin/env python3
"""Peers' own tests on the simulated CUDA runtime, natively and with pleat.

Usage: peers.py BUILD_DIR [NAME...] [--write] [--table] (./dev peers). The names:
  cupy     CuPy's tests of memory, streams and devices; its arrays in pleat's memory
  numba    Numba's tests of its driver; pleat as its memory manager
  cuda-mr  what CCCL asks of memory resources (mr_checks.cpp); CCCL's own resources, and pleat's
Prints a table, and each test that passes natively but not with pleat, with its reason from
reasons.csv. Exit status 1: such a test has no reason, a reason speaks of no such test, or a test
that passed at the last recording fails. --write records the results in results.csv beside this
file. --table only prints the table of what is recorded, which docs/compliance.md contains."""

from __future__ import annotations

import argparse
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WAYS = ("native", "pleat")
COLUMNS = ("peer", "test", *WAYS)
CUPY_MODULES = ("test_memory", "test_memory_hook", "test_pinned_memory", "test_stream",
                "test_device", "memory_hooks_tests")
CCCL = "nvidia-cuda-cccl==13.3.5.0.6"
RUNTIME_HEADERS = ("nvidia-cuda-runtime==13.0.96", "nvidia-cuda-crt==13.0.88")
LIMIT_S = 600

Outcomes = dict[str, str]           # by test: pass, fail or skip
Rows = dict[tuple[str, str], dict[str, str]]


def shell(*command: str | pathlib.Path) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def environment(build: pathlib.Path, way: str, package: pathlib.Path) -> dict[str, str]:
    dropped = ("PLEAT_", "PYTORCH_", "LD_PRELOAD", "CUDA_", "NUMBA_", "CUPY_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    return {
        **kept,
        "LD_PRELOAD": str(build / "libpleat_runtime.so"),
        "PLEAT_LIBRARY": str(build / "libpleat.so"),
        "PLEAT_SIM": "capacity:8G,devices:2,backing:memory",
        "PLEAT_CONF": "driver:sim",
        "PYTHONPATH": f"{package}:{HERE}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING": "1",
        "PEERS_WAY": way,
    }


def play(command: list[str], variables: dict[str, str], folder: pathlib.Path) -> Outcomes:
    """A program that writes its outcomes. What it says goes to a file, which a failure names."""
    out = folder / "outcomes.json"
    log = folder / "log"
    out.unlink(missing_ok=True)
    with log.open("w") as said:
        done = subprocess.run(command, env={**variables, "PEERS_OUT": str(out)}, stdout=said,
                              stderr=subprocess.STDOUT, cwd=folder, timeout=LIMIT_S, check=False)
    if not out.exists():
        sys.exit(f"peers: {' '.join(command)} ended with {done.returncode}:\n{log.read_text()[-3000:]}")
    found: Outcomes = json.loads(out.read_text())
    return found


def play_cupy(build: pathlib.Path, way: str, work: pathlib.Path) -> Outcomes:
    python, tests = shell(HERE / "fetch.sh", "python"), shell(HERE / "fetch.sh", "cupy")
    modules = [f"{tests}/cupy_tests/cuda_tests/{name}" for name in CUPY_MODULES]
    files = [name if os.path.isdir(name) else name + ".py" for name in modules]
    command = [python, "-m", "pytest", "-q", "-p", "record", "-p", "no:cacheprovider",
               "--timeout", "60", "--rootdir", tests, *files]
    variables = environment(build, way, work / "package")
    return play(command, {**variables, "CUPY_CACHE_DIR": str(work / "kernels")}, work)


def play_numba(build: pathlib.Path, way: str, work: pathlib.Path) -> Outcomes:
    variables = environment(build, way, work / "package")
    if way == "pleat":
        variables["NUMBA_CUDA_MEMORY_MANAGER"] = "pleat.numba"
    return play([shell(HERE / "fetch.sh", "python"), str(HERE / "play_numba.py")], variables, work)


def headers_of(*packages: str) -> str:
    folder = shell(ROOT / "cmake/venv.sh", "fetch", *packages)
    return str(next(pathlib.Path(folder).glob("lib/python*/site-packages/nvidia/cu13/include")))


def play_cuda_mr(build: pathlib.Path, way: str, work: pathlib.Path) -> Outcomes:
    program = work / "mr_checks"
    if not program.exists():
        headers = headers_of(*RUNTIME_HEADERS)
        (work / "libcuda.so.1").symlink_to(build / "libpleat_runtime.so")
        (work / "libpleat_sim.so").symlink_to(build / "libpleat_sim.so")
        include = [f"-iquote{ROOT / name}" for name in ("api", "api/adapters", "vmm/base")]
        system = [f"-isystem{headers_of(CCCL)}/cccl", f"-isystem{headers}"]
        libraries = [str(build / f"libpleat{name}.so") for name in ("", "_runtime", "_sim")]
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O1", *include, *system,
                        str(HERE / "mr_checks.cpp"), "-o", str(program), *libraries,
                        f"-Wl,-rpath,{work}:{build}"], check=True)
    variables = environment(build, way, work)
    del variables["LD_PRELOAD"]     # it is linked with the runtime
    done = subprocess.run([program, way], env=variables, stdout=subprocess.PIPE, text=True,
                          timeout=LIMIT_S, check=True)
    lines = re.findall(r"^(pass|fail) ([^:]+: [^:\n]+)", done.stdout, re.MULTILINE)
    return {name: outcome for outcome, name in lines}


PLAYERS = {"cupy": play_cupy, "numba": play_numba, "cuda-mr": play_cuda_mr}
TITLES = {
    "cupy": "CuPy {}: tests of memory, streams, devices",
    "numba": "Numba {}: tests of the driver",
    "cuda-mr": "CCCL 3.5: checks of memory resources",
}


def version_of(package: str) -> str:
    found = re.search(rf"^{re.escape(package)}==(.*)$", (HERE / "requirements.txt").read_text(),
                      re.MULTILINE)
    assert found is not None, package
    return found[1]


def title_of(peer: str) -> str:
    packages = {"cupy": "cupy-cuda13x", "numba": "numba-cuda[cu13]"}
    return TITLES[peer].format(version_of(packages[peer]) if peer in packages else "")


# ---- results ------------------------------------------------------------------------------------


def read_results() -> Rows:
    path = HERE / "results.csv"
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {(row["peer"], row["test"]): row for row in csv.DictReader(file)}


def write_results(rows: Rows) -> None:
    with (HERE / "results.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))


def read_reasons() -> list[tuple[str, str, str]]:
    with (HERE / "reasons.csv").open(newline="", encoding="utf-8") as file:
        return [(row["peer"], row["test"], row["reason"]) for row in csv.DictReader(file)]


def is_difference(row: dict[str, str]) -> bool:
    return row["native"] == "pass" and row["pleat"] != "pass"


def table(rows: Rows) -> str:
    lines = ["| tests of | played | pass natively | pass with pleat | natively only |",
             "|---|---|---|---|---|"]
    for peer in PLAYERS:
        of = [row for row in rows.values() if row["peer"] == peer]
        played = [row for row in of if row["native"] != "skip"]
        counts = [sum(row[way] == "pass" for row in played) for way in WAYS]
        only = sum(map(is_difference, of))
        if of:
            lines.append(f"| {title_of(peer)} | {len(played)} | {counts[0]} | {counts[1]} | {only} |")
    return "\n".join(lines)


def judge(rows: Rows, peers: list[str], before: Rows) -> list[str]:
    """What is wrong. Differences and their reasons are printed."""
    wrong = []
    unused = {reason for reason in read_reasons() if reason[0] in peers}
    for (peer, test), row in sorted(rows.items()):
        if peer not in peers:
            continue
        if is_difference(row):
            found = next((it for it in read_reasons()
                          if it[0] == peer and re.fullmatch(it[1], test)), None)
            unused.discard(found or ("", "", ""))
            print(f"{peer}: {test}: {found[2] if found else 'NO REASON'}")
            if found is None:
                wrong.append(f"{peer}: {test} passes natively, not with pleat, and has no reason")
        old = before.get((peer, test), {})
        wrong += [f"{peer}: {test} passed {way} at the last recording"
                  for way in WAYS if old.get(way) == "pass" and row[way] != "pass"]
    wrong += [f"{peer}: no such difference: {test}" for peer, test, _ in sorted(unused)]
    wrong += [f"{peer}: {test} was not played" for peer, test in sorted(before)
              if peer in peers and (peer, test) not in rows]
    return wrong


def play_all(build: pathlib.Path, peers: list[str]) -> Rows:
    sys.path.insert(0, str(ROOT / "tests/torch"))
    from upstream import lay_package

    rows: Rows = {}
    for peer in peers:
        with tempfile.TemporaryDirectory(prefix="pleat-peers-") as folder:
            work = pathlib.Path(folder)
            lay_package(work / "package", build)
            for way in WAYS:
                for test, outcome in PLAYERS[peer](build, way, work).items():
                    row = rows.setdefault((peer, test), {"peer": peer, "test": test, "native":
                                                         "absent", "pleat": "absent"})
                    row[way] = outcome
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    before = read_results()
    if options.table:
        print(table(before))
        return 0
    unknown = [name for name in options.names if name not in PLAYERS]
    if unknown:
        parser.error(f"there is no {unknown[0]}: choose from {', '.join(PLAYERS)}")
    peers = options.names or list(PLAYERS)
    rows = play_all(options.build.resolve(), peers)
    print(table(rows))
    wrong = judge(rows, peers, {} if options.write else before)
    if options.write:
        kept = {key: row for key, row in before.items() if key[0] not in peers}
        write_results({**kept, **rows})
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
