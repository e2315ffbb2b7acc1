#!/usr/bin/env python3
"""Count the instructions of a free and an allocation, and compare with the recorded number.

Usage: instructions.py COMMAND [--record]   (ctest `instructions`; COMMAND is build/pleat)

`pleat bench resident` counts them under callgrind, among 256 free blocks. Fails if a pair takes
over 10 % more than in tests/bench/instructions.txt. If it takes over 10 % less, tells how to record
the new number. Exit status 77 where there is no valgrind."""
import json
import pathlib
import shutil
import subprocess
import sys

RECORD = pathlib.Path(__file__).with_name("instructions.txt")
ALLOCATORS = ("pleat", "torch-native")
BLOCKS = 256
TOLERANCE = 0.10


def count(command):
    """Instructions a pair, by allocator."""
    result = subprocess.run(
        [command, "bench", "resident", "--blocks", str(BLOCKS), "--pairs", "1000",
         "--allocator", ",".join(ALLOCATORS), "--json"],
        stdout=subprocess.PIPE, text=True, check=False)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    counts = {row["allocator"]: row["instructions_per_pair"] for row in rows}
    if result.returncode != 0 or set(counts) != set(ALLOCATORS) or None in counts.values():
        sys.exit(f"{command} bench resident: exit status {result.returncode}, "
                 f"instructions {counts}")
    return counts


def recorded():
    """The numbers of the file, by allocator."""
    lines = [line.split("#")[0].split() for line in RECORD.read_text("utf-8").splitlines()]
    return {words[0]: float(words[1]) for words in lines if words}


def record(counts):
    text = ["# Instructions of a free and an allocation among 256 free blocks, by callgrind.",
            "# Written by `python3 tests/bench/instructions.py build/pleat --record`."]
    text += [f"{name} {counts[name]:.1f}" for name in ALLOCATORS]
    RECORD.write_text("\n".join(text) + "\n", encoding="utf-8")


def compare(counts, before, command):
    """The lines to print, and whether one is a failure."""
    lines = []
    is_failed = False
    for name in ALLOCATORS:
        if name not in before:
            lines.append(f"{name}: no number in {RECORD.name}")
            is_failed = True
            continue
        change = counts[name] / before[name] - 1
        lines.append(f"{name}: {counts[name]:.1f} instructions a pair, recorded "
                     f"{before[name]:.1f} ({change:+.1%})")
        if change > TOLERANCE:
            is_failed = True
            lines.append(f"{name}: FAILED, over {TOLERANCE:.0%} more than recorded")
        elif change < -TOLERANCE:
            lines.append(f"{name}: the recorded number is stale; record it anew with "
                         f"python3 tests/bench/instructions.py {command} --record")
    return lines, is_failed


def main():
    command = sys.argv[1]
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return 77
    counts = count(command)
    if "--record" in sys.argv[2:]:
        record(counts)
        return 0
    lines, is_failed = compare(counts, recorded(), command)
    print("\n".join(lines))
    return 1 if is_failed else 0


if __name__ == "__main__":
    sys.exit(main())
