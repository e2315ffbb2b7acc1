#!/usr/bin/env python3
"""Puts known mistakes into a copy of the tree, one by one, and reports those that no test notices.

  mutate.py [NAME...]     these mutations, or all of mutations.txt
  mutate.py --check       only whether every old text is found exactly once (ctest `mutations`)
  mutate.py --list        the names
  mutate.py --draw SEED [--n N] [--all] [FILE-OR-FOLDER...]
                          N mistakes drawn by chance (24, in segments/pleat), which the quick suites
                          of vmm, segments and api are to notice; --all: or any other suite in C

The copy lies in build/mutate/tree, its build in build/mutate/build. Both are kept. So a second run
builds little. For each mutation its named suites are built and run. Then all other suites in C
follow (labels unit, model and fault, except stress, figures and gpu), up to the first failure. The
unmutated tree must pass first. Exit status 1: a mutation survived or did not build."""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from draw import draw

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = ROOT / "tests" / "mutate" / "mutations.txt"
TREE = ROOT / "build" / "mutate" / "tree"
BUILD = ROOT / "build" / "mutate" / "build"
CONFIGURE = ("-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O1",
             "-DCMAKE_CXX_FLAGS_DEBUG=-O1", "-DPLEAT_DEBUG_LEVEL=1", "-DPLEAT_WERROR=OFF",
             "-DPLEAT_TEST_LIMIT=900")  # api_turmoil in full takes over 300 s on busy cores
ASKED, NOT_ASKED = {"unit", "model", "fault"}, {"stress", "figures", "gpu", "python", "lint", "install"}
# Suites that have no file FILE_test.c.
IN_CXX = {"cxx_test": "api/cxx_test.cpp", "torch_shim_test": "torch/shim_test.cpp"}


class Mutation:
    """An entry of the list: `old` becomes `new` in `file`; `suites` are likely to fail."""

    def __init__(self, name, line):
        self.name, self.line = name, line
        self.file, self.why, self.suites = "", "", []
        self.old, self.new = [], []

    def where(self):
        return f"{LIST.relative_to(ROOT)}:{self.line}: {self.name}"

    def mutated(self, text):
        """The text with the mistake. ValueError unless the old text occurs exactly once."""
        old, new = "\n".join(self.old), "\n".join(self.new)
        n = text.count(old)
        if n != 1:
            raise ValueError(f"{self.where()}: its old text is found {n} times in {self.file}")
        return text.replace(old, new)


def read_field(mutation, line, number):
    key, separator, value = line.partition(": ")
    if separator and key == "suites":
        mutation.suites = value.split()
    elif separator and key in ("file", "why"):
        setattr(mutation, key, value)
    else:
        raise ValueError(f"mutations.txt:{number}: neither file, why, suites nor a - or + line")


def read_list(text):
    """The entries of a list in the form of mutations.txt. ValueError names the bad line."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("== "):
            found.append(Mutation(line[3:].strip(), number))
        elif found and line[:1] == "-":
            found[-1].old.append(line[1:])
        elif found and line[:1] == "+":
            found[-1].new.append(line[1:])
        elif line.strip() and not line.startswith("#"):
            if not found:
                raise ValueError(f"mutations.txt:{number}: before the first entry")
            read_field(found[-1], line, number)
    names = set()
    for mutation in found:
        if not (mutation.file and mutation.why and mutation.suites and mutation.old):
            raise ValueError(f"{mutation.where()}: file, why, suites or - lines are missing")
        if mutation.old == mutation.new or mutation.name in names:
            raise ValueError(f"{mutation.where()}: changes nothing, or has the name of another one")
        names.add(mutation.name)
    return found


def source_of(tree, suite):
    """The file of a suite: FOLDER_FILE is FILE_test.c in tests/FOLDER, or a folder below."""
    folder, _, name = suite.partition("_")
    below = sorted((tree / "tests" / folder).glob(f"*/{name}_test.c"))
    here = tree / "tests" / IN_CXX.get(suite, f"{folder}/{name}_test.c")
    return below[0] if below else here


def check(mutations):
    problems = []
    for mutation in mutations:
        path = ROOT / mutation.file
        missing = [s for s in mutation.suites if not source_of(ROOT, s).is_file()]
        problems += [f"{mutation.where()}: there is no suite {suite}" for suite in missing]
        try:
            mutation.mutated(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            problems.append(str(error))
    print("\n".join(problems) or f"{len(mutations)} mutations, each found once")
    return 1 if problems else 0


# ---- the copy --------------------------------------------------------------------------------

def copy_tree():
    """Copy the files that git would commit with their times. So nothing is built twice."""
    names = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT,
                           check=True, capture_output=True, text=True).stdout.split("\0")
    wanted = {name for name in names if name and (ROOT / name).is_file()}
    for path in [p for p in TREE.rglob("*") if p.is_file()] if TREE.exists() else []:
        if path.relative_to(TREE).as_posix() not in wanted:
            path.unlink()
    for name in wanted:
        source, target = ROOT / name, TREE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or source.read_bytes() != target.read_bytes():
            shutil.copy2(source, target)
            os.utime(target)  # newer than the objects of its last version


def run(command, **more):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace",
                          check=False, **more)


def build(targets):
    done = run(["cmake", "--build", str(BUILD), "--target", *targets])
    return done.returncode == 0, done.stdout + done.stderr


def find_suites():
    """Each suite in C and C++ with its program, the suites to run, and the quick ones of these."""
    programs = {name: name for name in IN_CXX}
    programs |= (line.split()[:2] for line in (BUILD / "suites.txt").read_text().splitlines())
    shown = run(["ctest", "--test-dir", str(BUILD), "--show-only=json-v1"])
    asked, quick = [], []
    for test in json.loads(shown.stdout)["tests"]:
        values = [p["value"] for p in test["properties"] if p["name"] == "LABELS"]
        labels = set(values[0]) if values else set()
        if test["name"] in programs and labels & ASKED and not labels & NOT_ASKED:
            asked.append(test["name"])
            if "quick" in labels and test["name"].startswith(("vmm_", "segments_", "api_")):
                quick.append(test["name"])
    return programs, asked, quick


def run_suites(names, percent):
    """The name of the first suite that fails and how, or None and ""."""
    done = run(["ctest", "--test-dir", str(BUILD), "-j", str(os.cpu_count()), "--stop-on-failure",
                "--no-tests=error", "-R",
                "^(" + "|".join(names) + ")$"], env={**os.environ, "PLEAT_TEST_PERCENT": percent})
    failed, how = None, ""
    for line in done.stdout.split("\n"):
        match = re.search(r"Test +#\d+: (\S+) \.*(.*?) +[\d.]+ sec", line)
        is_bad = match and "Passed" not in match.group(2) and "Skipped" not in match.group(2)
        if is_bad and not failed:
            failed, how = match.group(1), match.group(2).strip("* ")
    if done.returncode != 0 and not failed:
        raise RuntimeError(done.stdout + done.stderr)
    return failed, how


# ---- one mutation ----------------------------------------------------------------------------

class Runner:
    """Runs mutations, and knows the suites that pass without a mutation."""

    def __init__(self, percent="100"):
        self.passing, self.percent = set(), percent
        self.programs, self.asked, self.quick = find_suites()

    def targets(self, suites):
        return sorted({self.programs[suite] for suite in suites})

    def prepare(self, suites):
        """Build the suites, and run those unmutated that have not passed yet."""
        fresh = [s for s in suites if s not in self.passing]
        if not fresh:
            return
        is_built, output = build(self.targets(fresh))
        if not is_built:
            sys.exit(output + "\nthe unmutated tree does not build")
        failed, how = run_suites(fresh, self.percent)
        if failed:
            sys.exit(f"{failed} fails without any mutation: {how}")
        self.passing.update(fresh)

    def judge(self, suites):
        """The verdict of some suites on the present tree; "" if all pass."""
        is_built, output = build(self.targets(suites))
        if not is_built:
            return "does not build\n" + output[-2000:]
        failed, how = run_suites(suites, self.percent)
        if not failed:
            return ""
        return f"timed out in {failed}" if "Timeout" in how else f"killed by {failed}"

    def run(self, mutation, plays_all=True):
        path = TREE / mutation.file
        good = path.read_text(encoding="utf-8")
        bad = mutation.mutated(good)
        rest = [s for s in self.asked if s not in mutation.suites]
        self.prepare(mutation.suites)
        try:
            path.write_text(bad, encoding="utf-8")
            verdict = self.judge(mutation.suites)
        finally:
            path.write_text(good, encoding="utf-8")
        if verdict or not plays_all:
            return verdict or "SURVIVED"
        self.prepare(rest)
        try:
            path.write_text(bad, encoding="utf-8")
            return self.judge(rest) or "SURVIVED"
        finally:
            path.write_text(good, encoding="utf-8")


def make_copy():
    print("copying and building", flush=True)
    copy_tree()
    configured = run(["cmake", "-S", str(TREE), "-B", str(BUILD), *CONFIGURE])
    if configured.returncode != 0:
        sys.exit(configured.stdout + configured.stderr)


def run_all(mutations):
    make_copy()
    runner = Runner()
    bad = []
    width = max(len(m.name) for m in mutations)
    for mutation in mutations:
        begin = time.monotonic()
        verdict = runner.run(mutation)
        print(f"{mutation.name:{width}}  {verdict}  ({time.monotonic() - begin:.0f} s)", flush=True)
        if verdict == "SURVIVED" or verdict.startswith("does not build"):
            bad.append(mutation)
            print(f"  {mutation.file}: {mutation.why}", flush=True)
    print(f"{len(mutations)} mutations, {len(bad)} not noticed")
    return 1 if bad else 0


def run_drawn(options):
    """Those that do not build are no mistakes, and do not count."""
    listed = run(["git", "ls-files", *(options.names or ["segments/pleat"])]).stdout.split()
    make_copy()
    runner = Runner("5")
    n = n_lived = 0
    for mistake in draw(ROOT, [f for f in listed if f.endswith(".c")], options.draw):
        if n == options.n:
            break
        mistake.suites = runner.quick
        verdict = runner.run(mistake, options.all)
        if not verdict.startswith("does not build"):
            n, n_lived = n + 1, n_lived + (verdict == "SURVIVED")
            print(f"{n:2} {verdict:40} {mistake.name}", flush=True)
    print(f"{n_lived} of {n} lived")
    return 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--draw", type=int)
    parser.add_argument("--n", type=int, default=24)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    if options.draw is not None:
        return run_drawn(options)
    mutations = read_list(LIST.read_text(encoding="utf-8"))
    known = {m.name: m for m in mutations}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        sys.exit(f"no such mutation: {', '.join(unknown)} (--list tells them)")
    chosen = [known[name] for name in options.names] or mutations
    if options.list:
        print("\n".join(m.name for m in chosen))
        return 0
    return check(chosen) if options.check else check(chosen) or run_all(chosen)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as wrong:
        sys.exit(str(wrong))
