#!/usr/bin/env python3
"""Measure with the command and write the results: bench/results/*.csv, the figures of README's
first screen, and docs/results.md.

Usage: results.py BUILD_DIR [--again | --pairs | --draw]   (./dev bench). A build that was measured
before is not measured again unless asked to be; --pairs measures pairs.csv alone; --draw measures
nothing, and writes tables and charts again from the existing files.

  ab.csv        a line for each trace, allocator and device size, as `pleat ab --fit` wrote it
  summary.csv   a line for each allocator: what README's table shows; least.svg draws ab.csv
  resident.csv  cost of a free and an allocation by the number of free blocks
  pairs.csv     the same through several allocators, PyTorch's own among them; pairs.svg draws it"""
import csv
import hashlib
import io
import json
import math
import pathlib
import platform
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
TRACES = sorted((ROOT / "bench" / "traces").glob("*.trace.gz"))
BLOCKS = (256, 1024, 4096, 16384, 65536)
RESIDENT_ALLOCATORS = ("pleat", "torch-native")
SIZES = ("1.02x", "1.05x", "1.10x")
FIRST = {"pleat": "**pleat**", "torch-native": "PyTorch's cache (`torch-native`)",
         "torch-expandable": "PyTorch's expandable segments (`torch-expandable`)"}
MARKERS = ("<!-- results:begin -->", "<!-- results:end -->")
GIB = 1 << 30


def run(command, ok=(0,)):
    print("  " + " ".join(str(a) for a in command if not str(a).endswith(".trace.gz")), flush=True)
    result = subprocess.run([str(a) for a in command], stdout=subprocess.PIPE, text=True,
                            check=False)
    if result.returncode not in ok:
        sys.exit(f"{command[1]}: exit status {result.returncode}")
    return result.stdout


def measure_ab(build):
    """The rows of results.csv, as text."""
    with tempfile.TemporaryDirectory(prefix="pleat-bench-") as folder:
        run([build / "pleat", "ab", "--all", *TRACES, "--fit", "--no-report", "--out", folder])
        text = (pathlib.Path(folder) / "results.csv").read_text(encoding="utf-8")
    # ab adds a setting of pleat where memory is short; the tables compare allocators.
    return [row for row in csv.DictReader(io.StringIO(text)) if " " not in row["allocator"]]


def measure_resident(build):
    rows = []
    for blocks in BLOCKS:
        text = run([build / "pleat", "bench", "resident", "--blocks", blocks, "--json"])
        for record in map(json.loads, text.splitlines()):
            rows.append({key: value for key, value in record.items()
                         if not isinstance(value, (dict, list))})
    return rows


def measure_pairs(build):
    text = run([build / "pleat", "bench", "pairs", "--all", "--json"])
    return [{key: value for key, value in json.loads(line).items() if key != "bench"}
            for line in text.splitlines()]


# ---- tables from the files ---------------------------------------------------------------------

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


def write_csv(path, rows, command=""):
    text = io.StringIO()
    text.write(f"# machine: {processor()}, {platform.system()} {platform.release()}\n")
    text.write(f"# commit: {commit()}\n")
    text.write(f"# command: {command}\n" if command else "")
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, fieldnames=names, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    path.write_text(text.getvalue(), encoding="utf-8")


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else ""


def numbers(rows, key):
    return [float(row[key]) for row in rows if row[key]]


def summary_of(rows, allocator):
    mine = [row for row in rows if row["allocator"] == allocator and not row["problem"]]
    free = [row for row in mine if row["memory"] == "unlimited"]
    tight = [row for row in mine if row["memory"] == SIZES[0]]
    least = numbers(free, "least_ratio")
    resident = numbers(free, "resident_ratio")
    out = {"allocator": allocator, "traces": len(free),
           "least_mean": geometric_mean(least) if len(least) == len(free) else "",
           "least_worst": max(least, default="") if len(least) == len(free) else "",
           "resident_mean": geometric_mean(resident), "resident_worst": max(resident)}
    for size in SIZES:
        out[f"completed_at_{size}"] = sum(row["failures"] == "0" for row in mine
                                          if row["memory"] == size)
    out["host_syncs_at_1.02x"] = sum(int(row["host_syncs"]) for row in tight)
    out["device_ops_per_1000"] = geometric_mean(numbers(free, "device_ops_per_1000"))
    for key in ("driver_ms", "later_driver_ms"):
        out[key] = math.fsum(numbers(free, key))
    out["longest_driver_ms"] = max(numbers(free, "longest_driver_ms"))
    out["hazards"] = sum(int(row["hazards"]) for row in mine)
    return out


def rows_of(name):
    """The rows of an existing file, as text."""
    lines = (RESULTS / name).read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def summaries(ab):
    return [summary_of(ab, allocator) for allocator in dict.fromkeys(r["allocator"] for r in ab)]


# ---- the tables --------------------------------------------------------------------------------

def cell(value, places=3):
    return f"{value:,.{places}f}" if isinstance(value, float) else "none" if value == "" else \
        f"{value:,}"


def summary_table(rows):
    lines = ["| allocator | least device / live: mean | worst | resident / live: mean | worst | "
             + " | ".join(f"completes at {size}" for size in SIZES)
             + " | host syncs at 1.02x | device ops / 1,000 events | driver ms | later ms |",
             "|---|" + "---:|" * (8 + len(SIZES))]
    for row in rows:
        bold = "**" if row["allocator"] == "pleat" else ""
        cells = [cell(row[key]) for key in ("least_mean", "least_worst", "resident_mean",
                                            "resident_worst")]
        cells += [f"{row[f'completed_at_{size}']} of {row['traces']}" for size in SIZES]
        cells += [cell(row["host_syncs_at_1.02x"]), cell(row["device_ops_per_1000"], 2)]
        cells += [cell(row[key], 0) for key in ("driver_ms", "later_driver_ms")]
        lines.append("| " + " | ".join(f"{bold}{text}{bold}"
                                       for text in [row["allocator"], *cells]) + " |")
    return lines


def least_table(rows, allocators):
    """The least device memory over peak live, trace by trace."""
    free = {(row["work"], row["allocator"]): row for row in rows if row["memory"] == "unlimited"}
    lines = ["| trace | peak live | " + " | ".join(allocators) + " |",
             "|---|" + "---:|" * (len(allocators) + 1)]
    for work in dict.fromkeys(row["work"] for row in rows):
        peak = next(int(row["peak_live_bytes"]) for row in rows if row["work"] == work)
        cells = [cell(float(free[work, a]["least_ratio"])) if free[work, a]["least_ratio"]
                 else "none" for a in allocators]
        lines.append(f"| {work} | {peak / GIB:.2f} GiB | " + " | ".join(cells) + " |")
    return lines


def first_table(rows):
    """README's first screen: pleat and PyTorch's two caches."""
    lines = ["| | least device a job needs / its live memory: mean, worst | completes on 1.02 x its "
             "live memory | waits of the host for the GPU, on 1.02 x |", "|---|---:|---:|---:|"]
    for allocator, name in FIRST.items():
        row = next(row for row in rows if row["allocator"] == allocator)
        cells = [f"{cell(row['least_mean'])}, {cell(row['least_worst'])}",
                 f"{row['completed_at_1.02x']} of {row['traces']}",
                 cell(row["host_syncs_at_1.02x"])]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def resident_table(rows):
    lines = ["| free blocks | " + " | ".join(
        f"{a}: ns a pair | instructions a pair" for a in RESIDENT_ALLOCATORS) + " |",
        "|---:|" + "---:|" * 2 * len(RESIDENT_ALLOCATORS)]
    for blocks in BLOCKS:
        cells = [f"{blocks:,}"]
        for allocator in RESIDENT_ALLOCATORS:
            row = next((r for r in rows if str(r.get("blocks")) == str(blocks) and
                        r.get("allocator") == allocator), {})
            cells += [f"{float(row[key]):.0f}" if row.get(key) else ""
                      for key in ("ns_per_pair", "instructions_per_pair")]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def tight_ms(ab, allocator):
    return math.fsum(numbers([row for row in ab if row["allocator"] == allocator and
                              row["memory"] == SIZES[0]], "driver_ms"))


def tables(ab, summary, resident):
    where = "a simulated GPU" if {row["driver"] for row in ab} == {"sim"} else "a GPU"
    times = "They are modelled, by `vmm/tools/sim/costs/a100.cost`." \
        if where == "a simulated GPU" else "They are measured."
    shown = [row["allocator"] for row in summary if not row["allocator"].startswith("mxnet19")]
    return "\n".join([
        f"The {summary[0]['traces']} bundled traces, replayed on {where}:", "",
        *summary_table([row for row in summary if row["allocator"] in shown]), "",
        "`driver ms`, `later ms`: time in the driver's calls, all traces together, in the first pass",
        "over each and in a second one, on a device without limit.", times, "",
        "On devices of 1.02x the first pass takes ([prices](design/prices.md) says why):", "",
        *[f"* {allocator}: {tight_ms(ab, allocator):,.0f} ms" for allocator in FIRST], "",
        "Trace by trace, the least device memory with which it completes, over its peak live bytes:",
        "", *least_table(ab, shown), "",
        "What a free and an allocation cost among so many free blocks:", "",
        *resident_table(resident)])


def write_between(name, text, markers=MARKERS):
    path = ROOT / name
    before, rest = path.read_text(encoding="utf-8").split(markers[0])
    _, after = rest.split(markers[1])
    path.write_text(f"{before}{markers[0]}\n{text}\n{markers[1]}{after}", encoding="utf-8")


def draw(chart, source, out):
    """A chart of report/, if matplotlib is installed."""
    # Only the distribution's own Python finds the distribution's packages.
    for python in ("python3", "/usr/bin/python3"):
        drawn = subprocess.run([python, "-B", ROOT / "bench" / "report" / chart, RESULTS / source,
                                RESULTS / out], check=False, stderr=subprocess.DEVNULL)
        if drawn.returncode == 0:
            return
    print(f"{RESULTS / out} is not drawn: is there matplotlib?", file=sys.stderr)


def rows_of_pages():
    """The rows of the tables, read from the files. Figures in files are rounded, so a later --draw
    gives the same tables again."""
    ab = rows_of("ab.csv")
    return ab, summaries(ab), rows_of("resident.csv")


def write_pages(ab, summary, resident):
    write_between("README.md", first_table(summary))
    write_between("docs/results.md", tables(ab, summary, resident))
    draw("least.py", "ab.csv", "least.svg")


def write_pairs(rows):
    """pairs.csv and its chart."""
    write_csv(RESULTS / "pairs.csv", [{k: "" if v is None else v for k, v in row.items()}
                                      for row in rows])
    draw("pairs.py", "pairs.csv", "pairs.svg")


def fingerprint(build):
    digest = hashlib.sha256()
    for path in [build / "pleat", build / "libpleat_sim.so", pathlib.Path(__file__), *TRACES]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def main():
    build = pathlib.Path(sys.argv[1])
    if "--pairs" in sys.argv:
        write_pairs(measure_pairs(build))
        return
    if "--draw" in sys.argv:
        write_pages(*rows_of_pages())
        draw("pairs.py", "pairs.csv", "pairs.svg")
        return
    stamp = build / "results.stamp"
    print_of_build = fingerprint(build)
    if "--again" not in sys.argv and stamp.exists() and stamp.read_text() == print_of_build:
        print("this build has been measured; ./dev bench --again measures it again")
        return
    ab = measure_ab(build)
    resident = measure_resident(build)
    pairs = measure_pairs(build)
    RESULTS.mkdir(exist_ok=True)
    write_csv(RESULTS / "ab.csv", ab)
    write_csv(RESULTS / "summary.csv", summaries(ab))
    write_csv(RESULTS / "resident.csv", resident)
    write_pairs(pairs)
    write_pages(*rows_of_pages())
    stamp.write_text(print_of_build)
    print("written: bench/results/, docs/results.md, README.md")


if __name__ == "__main__":
    main()
