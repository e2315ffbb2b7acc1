#!/usr/bin/env python3
"""Says whether a change of the allocator moved a single block: one hash for all replays.

Usage: placements.py BUILD_DIR [OPTION...]   (./dev placements)

  --traces FOLDER     replay the traces of this folder, too; may be given several times
  --runs N, --seed N  runs that the generators make, drawn by a seed (default: 20, 1)
  --sizes A,B         devices (default: unlimited,80G,1.02x)
  --conf STRING       configuration of pleat
  --out FILE          a line for each replay, to be compared line by line (diff)

A replay's line has its work, its device, and a hash of all addresses in their order, of the number
of driver calls of each kind, of bytes created and mapped, of refusals and of waits. Two builds that
print the same last line place every block alike and call the driver alike. The addresses are
relative to each other, and the costs of the simulated driver are fixed, so a line depends neither
on the machine nor on its load."""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cards  # noqa: E402  (works)

FIGURES = ("placement", "calls", "bytes_created", "bytes_mapped", "oom_count", "host_syncs",
           "stream_waits", "hazards")


def line_of(pleat, work, size, conf):
    command = [pleat, "replay", work, "--json", "--memory", size, "--sim", "costs:a100",
               "--driver", "sim", "--allocator", "pleat"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, env=dict(os.environ, PLEAT_CONF=conf))
    if done.returncode not in (0, 1):
        sys.exit(f"{work} on {size}: {done.stderr}")
    record = json.loads(done.stdout)
    figures = json.dumps([record[key] for key in FIGURES], sort_keys=True)
    return f"{pathlib.Path(work).name} {size} {hashlib.md5(figures.encode()).hexdigest()}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--traces", action="append", default=[], type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sizes", default="unlimited,80G,1.02x")
    parser.add_argument("--conf", default="")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    pleat = options.build / "pleat"
    folders = [sorted(folder.glob("*.trace.gz")) for folder in options.traces]
    works = [str(trace) for trace in cards.BUNDLED + sum(folders, [])]
    works += cards.drawn_runs(pleat, options.runs, options.seed)
    cells = [(work, size) for size in options.sizes.split(",") for work in works]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        lines = list(pool.map(lambda cell: line_of(pleat, *cell, options.conf), cells))
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} replays {hashlib.md5(chr(10).join(lines).encode()).hexdigest()}")


if __name__ == "__main__":
    main()
