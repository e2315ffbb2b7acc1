"""The classic caches against the figures of an independent simulator of them.

Usage: conformance.py PLEAT TABLES [--fit] [--jobs N]

TABLES is the README of the shared traces. Every figure of the tables is measured again: peak
reserved, device calls, least capacity (--fit), and devices of 1.02 and 1.05 x peak live. Prints
each figure that deviates too much. The exit status is then 1."""
import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

# Column of the tables -> allocator and configuration.
COLUMNS = {
    "pt_classic": ("torch-native", ""),
    "pt_expandable": ("torch-expandable", ""),
    "exp_2MiB_pages": ("torch-expandable", "expandable_large_page_mb:2"),
    "mxnet_naive": ("mxnet-naive", ""),
    "mxnet_round": ("mxnet-round", ""),
}
RESERVED, FIT, FIT_MXNET, CALLS, TAKEN = 0.002, 0.005, 0.01, 0.02, 0.02
HALF_DIGIT = 0.0005  # half of the tables' last digit
GIB = 1 << 30


def tables_of(path):
    """Heading -> list of rows, each a dictionary by column."""
    tables, heading, names = {}, None, None
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading, names = line.lstrip("# "), None
        elif line.startswith("|"):
            cells = [c.strip().strip("*") for c in line.strip().strip("|").split("|")]
            if names is None:
                names = cells
            elif not set(cells[0]) <= set("-: "):
                tables.setdefault(heading, []).append(dict(zip(names, cells)))
    return tables


def table(tables, start):
    rows = next(rows for heading, rows in tables.items() if heading.startswith(start))
    return [row for row in rows if row["trace"] not in ("geometric mean", "worst")]


def measure(job):
    pleat, command, column, trace, memory = job
    allocator, conf = COLUMNS[column]
    arguments = [pleat, command, trace, "--allocator", allocator, "--conf", conf, "--driver",
                 "sim", "--json"] + (["--memory", memory] if memory else [])
    result = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            check=False)
    if result.returncode not in (0, 1) or not result.stdout:
        sys.exit(f"{' '.join(arguments)}: exit status {result.returncode}\n{result.stderr}")
    return job, json.loads(result.stdout)


class Verdict:
    def __init__(self):
        self.n, self.bad = 0, []

    def compare(self, what, wanted, got, tolerance, slack=0.0):
        self.n += 1
        if abs(got - wanted) > tolerance * wanted + slack:
            self.bad.append(f"{what}: table {wanted:g}, here {got:.6g} "
                            f"({100 * (got / wanted - 1):+.2f} %)" if wanted else
                            f"{what}: table 0, here {got:g}")

    def same(self, what, wanted, got):
        self.n += 1
        if wanted != got:
            self.bad.append(f"{what}: table {wanted}, here {got}")


def n_ops(record):
    return sum(record["device_ops"].values())


def check_unlimited(verdict, what, record, reserved, calls):
    verdict.compare(f"{what}: reserved / live", float(reserved),
                    record["peak_reserved_bytes"] / record["peak_live_bytes"], RESERVED,
                    HALF_DIGIT)
    verdict.compare(f"{what}: device calls / 1,000", float(calls),
                    1000 * n_ops(record) / record["events"], CALLS, HALF_DIGIT)


def check_tight(verdict, what, record, cell):
    verdict.same(f"{what}: outcome", "OOM" if cell == "OOM" else "completes",
                 "OOM" if record["oom_count"] else "completes")
    if cell == "OOM" or record["oom_count"]:
        return
    calls, retries, taken = (float(n) for n in re.split(r" */ *", cell))
    verdict.compare(f"{what}: device calls", calls, n_ops(record), CALLS)
    verdict.compare(f"{what}: GiB taken", taken, record["bytes_mapped"] / GIB, TAKEN, 0.5)
    if "mxnet" not in record["allocator"]:  # for these the table counts misses
        verdict.same(f"{what}: retries", int(retries), record["alloc_retries"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("pleat")
    parser.add_argument("tables", type=pathlib.Path)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--columns", default=",".join(COLUMNS))
    options = parser.parse_args()
    tables = tables_of(options.tables)
    reserved = table(tables, "Peak reserved")
    traces = [row["trace"] for row in reserved]
    columns = options.columns.split(",")
    cells = {(row["trace"], memory, column): row.get(column)
             for memory, start in (("unlimited", "Peak reserved"), ("1.02x", "Device of 1.02"),
                                   ("1.05x", "Device of 1.05"), (None, "Least capacity"))
             for row in table(tables, start) for column in columns}
    calls = {row["trace"]: row for row in table(tables, "Device calls per")}
    jobs = [(options.pleat, "replay", c, t, m) for t in traces for c in columns
            for m in ("unlimited", "1.02x", "1.05x")]
    jobs += [(options.pleat, "fit", c, t, None) for t in traces for c in columns
             if options.fit]
    verdict = Verdict()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (_, command, column, trace, memory), record in pool.map(measure, jobs):
            what = f"{trace}, {column}, {memory or 'fit'}"
            cell = cells[trace, memory, column]
            if memory == "unlimited":
                check_unlimited(verdict, what, record, cell, calls[trace][column])
            elif command == "replay":
                check_tight(verdict, what, record, cell)
            else:
                verdict.compare(what, float(cell), record["ratio"],
                                FIT_MXNET if "mxnet" in column else FIT, HALF_DIGIT)
    print("\n".join(verdict.bad))
    print(f"{verdict.n - len(verdict.bad)} of {verdict.n} figures agree")
    sys.exit(1 if verdict.bad else 0)


if __name__ == "__main__":
    main()
