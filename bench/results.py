#!/usr/bin/env python3
"""Measure with the command and write down what came out: bench/results/*.csv and README's table.

Usage: results.py BUILD_DIR [--again]   (./dev bench). A build that was measured before is not
measured again unless asked to be."""
import csv
import hashlib
import io
import json
import math
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
TRACES = sorted((ROOT / "bench" / "traces").glob("*.trace.gz"))
ALLOCATORS = ("pleat", "torch-native")
BLOCKS = (256, 1024, 4096, 16384, 65536)
MARKERS = ("<!-- results:begin -->", "<!-- results:end -->")
GIB = 1 << 30


def run(build, *arguments):
    """The objects that a command prints; 1 only says that some allocation failed."""
    command = [str(build / "pleat"), *arguments, "--json"]
    print("  pleat " + " ".join(a for a in arguments if not a.endswith(".trace.gz")), flush=True)
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit status {result.returncode}")
    return [json.loads(line) for line in result.stdout.splitlines() if line]


def by_work(records):
    return {(r["trace"], r["allocator"]): r for r in records}


def n_ops(record):
    return sum(record["device_ops"].values())


def measure_traces(build):
    traces = [str(t) for t in TRACES]
    allocators = ("--allocator", ",".join(ALLOCATORS))
    fit = by_work(run(build, "fit", *traces, *allocators))
    free = by_work(run(build, "replay", *traces, *allocators, "--memory", "unlimited"))
    tight = by_work(run(build, "replay", *traces, *allocators, "--memory", "1.02x"))
    rows = []
    for key, record in free.items():
        rows.append({
            "trace": key[0], "allocator": key[1], "driver": record["driver"],
            "events": record["events"], "peak_live_bytes": record["peak_live_bytes"],
            "peak_resident_bytes": record["peak_reserved_bytes"],
            "resident_ratio": record["peak_reserved_bytes"] / record["peak_live_bytes"],
            "device_ops": n_ops(record), "ns_per_event": record["ns_per_event"],
            "driver_us": record["driver_us"],
            "least_memory_bytes": fit[key]["least_memory_bytes"], "ratio": fit[key]["ratio"],
            "failures_at_1.02x": tight[key]["oom_count"],
            "device_ops_at_1.02x": n_ops(tight[key]),
            "host_syncs_at_1.02x": tight[key]["host_syncs"],
            "hazards": record["hazards"] + tight[key]["hazards"],
        })
    return rows


def measure_resident(build):
    rows = []
    for blocks in BLOCKS:
        for record in run(build, "bench", "resident", "--blocks", str(blocks)):
            rows.append({key: value for key, value in record.items()
                         if not isinstance(value, (dict, list))})
    return rows


def commit():
    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True,
                              check=False).stdout.strip()
    changed = git("status", "--porcelain", "--", "api", "bench/*.c", "segments", "vmm")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + ("+changes" if changed else "")


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def write_csv(path, rows):
    text = io.StringIO()
    text.write(f"# machine: {processor()}, {platform.system()} {platform.release()}\n")
    text.write(f"# commit: {commit()}\n")
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, fieldnames=names, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    path.write_text(text.getvalue(), encoding="utf-8")


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def ratio_cell(value):
    return "none" if value is None else f"{value:.3f}"


def trace_line(rows, trace):
    ours, native = (next(r for r in rows if (r["trace"], r["allocator"]) == (trace, a))
                    for a in ALLOCATORS)
    cells = [trace, f"{ours['peak_live_bytes'] / GIB:.2f} GiB"]
    for row in (ours, native):
        cells += [ratio_cell(row["ratio"]), f"{row['resident_ratio']:.3f}",
                  str(row["failures_at_1.02x"]),
                  f"{1000 * row['device_ops'] / row['events']:.2f}"]
    return "| " + " | ".join(cells) + " |"


def mean_line(rows):
    cells = ["**geometric mean**", ""]
    for allocator in ALLOCATORS:
        mine = [r for r in rows if r["allocator"] == allocator]
        ratios = [r["ratio"] for r in mine]
        cells.append("" if None in ratios else f"**{geometric_mean(ratios):.3f}**")
        cells.append(f"**{geometric_mean([r['resident_ratio'] for r in mine]):.3f}**")
        cells += ["", ""]
    return "| " + " | ".join(cells) + " |"


def table(rows, resident):
    drivers = sorted({row["driver"] for row in rows})
    where = "a simulated GPU" if drivers == ["sim"] else "a GPU"
    head = ["trace", "peak live"]
    for allocator in ALLOCATORS:
        head += [f"{allocator}: ratio", "resident / live", "failures at 1.02x", "ops / 1,000"]
    lines = [f"Replayed on {where}:", "", "| " + " | ".join(head) + " |",
             "|---|" + "---:|" * (len(head) - 1)]
    lines += [trace_line(rows, trace) for trace in dict.fromkeys(r["trace"] for r in rows)]
    lines.append(mean_line(rows))
    events = [1000 / r["ns_per_event"] for r in rows if r["allocator"] == "pleat"]
    lines += ["", f"pleat's allocator calls take {1000 / max(events):.0f} to "
              f"{1000 / min(events):.0f} ns an event here ({processor()})."]
    lines += resident_lines(resident)
    return "\n".join(lines)


def resident_lines(rows):
    if not rows:
        return []
    lines = ["", "| free blocks | " + " | ".join(
        f"{a}: ns a pair | instructions a pair" for a in ALLOCATORS) + " |",
        "|---:|" + "---:|" * 2 * len(ALLOCATORS)]
    for blocks in BLOCKS:
        cells = [f"{blocks:,}"]
        for allocator in ALLOCATORS:
            row = next((r for r in rows if r.get("blocks") == blocks and
                        r.get("allocator") == allocator), {})
            cells += [f"{row[key]:.0f}" if isinstance(row.get(key), (int, float)) else ""
                      for key in ("ns_per_pair", "instructions_per_pair")]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def write_readme(text):
    path = ROOT / "README.md"
    before, rest = path.read_text(encoding="utf-8").split(MARKERS[0])
    _, after = rest.split(MARKERS[1])
    path.write_text(f"{before}{MARKERS[0]}\n{text}\n{MARKERS[1]}{after}", encoding="utf-8")


def fingerprint(build):
    digest = hashlib.sha256()
    for path in [build / "pleat", build / "libpleat_sim.so", pathlib.Path(__file__), *TRACES]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def main():
    build = pathlib.Path(sys.argv[1])
    stamp = build / "results.stamp"
    print_of_build = fingerprint(build)
    if "--again" not in sys.argv and stamp.exists() and stamp.read_text() == print_of_build:
        print("this build has been measured; ./dev bench --again measures it again")
        return
    rows = measure_traces(build)
    resident = measure_resident(build)
    drivers = {row["driver"] for row in rows}
    name = "simulated" if drivers == {"sim"} else "gpu"
    RESULTS.mkdir(exist_ok=True)
    write_csv(RESULTS / f"{name}.csv", rows)
    write_csv(RESULTS / "resident.csv", resident)
    write_readme(table(rows, resident))
    stamp.write_text(print_of_build)
    print("written: bench/results/, README.md")


if __name__ == "__main__":
    main()
