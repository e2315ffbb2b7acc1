"""Reads the output of `pleat ab`. results.jsonl has a line per cell, and timelines.jsonl per drawn
cell. moments.jsonl has a line per work, moment and allocator, and verdicts.jsonl per work or job."""
import dataclasses
import json
import math
import pathlib

import chance

GIB = 1 << 30


@dataclasses.dataclass
class Study:
    """All cells of one run of `pleat ab`, in the order of the command line."""
    head: dict
    cells: list
    timelines: dict  # (work, allocator, memory) -> timeline
    moments: dict    # (work, "peak", "failure" or "snapshot", allocator) -> moment
    verdicts: list

    @property
    def works(self):
        return self._in_order("works", "trace")

    @property
    def allocators(self):
        return self._in_order("allocators", "allocator")

    @property
    def memories(self):
        return self._in_order("memories", "memory")

    def _in_order(self, listed, key):
        present = {cell[key] for cell in self.cells}
        named = [name for name in self.head.get(listed, []) if name in present]
        return named + sorted(present - set(named))

    def cell(self, work, allocator, memory):
        wanted = (work, allocator, memory)
        return next((c for c in self.cells
                     if (c["trace"], c["allocator"], c["memory"]) == wanted), None)

    def moments_of(self, work, kind):
        """The moments of that kind, in the order of the allocators; a snapshot's own is of the recorded
        run's allocator alone, whether or not that was measured."""
        if kind == "snapshot":
            return [m for (of, at, _), m in self.moments.items() if (of, at) == (work, kind)]
        found = [self.moments.get((work, kind, a)) for a in self.allocators]
        return [m for m in found if m]

    def verdict_of(self, work):
        return next((v for v in self.verdicts if v["work"] == work), None)

    def cells_of(self, **wanted):
        return [c for c in self.cells if all(c[k] == v for k, v in wanted.items())]

    @property
    def n_expected(self):
        head = self.head
        return len(head.get("works", [])) * len(head.get("allocators", [])) * \
            len(head.get("memories", []))


def lines_of(path):
    """The objects of a file of JSON lines; an interrupted run may have cut the last one."""
    if not path.exists():
        return []
    objects = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                objects.append(json.loads(line))
            except json.JSONDecodeError:
                break
    return objects


def read_study(folder):
    folder = pathlib.Path(folder)
    drawn = lines_of(folder / "timelines.jsonl")
    head = drawn[0] if drawn and "pleat" in drawn[0] else {}
    timelines = {(t["work"], t["allocator"], t["memory"]): t
                 for t in drawn[1 if head else 0:]}
    moments = {(m["work"], m["moment"], m["allocator"]): m
               for m in lines_of(folder / "moments.jsonl") if m["is_reached"]}
    return Study(head, lines_of(folder / "results.jsonl"), timelines, moments,
                 lines_of(folder / "verdicts.jsonl"))


def is_measured(cell):
    return cell is not None and not cell.get("problem")


def completes(cell):
    return is_measured(cell) and cell["oom_count"] == 0


def n_ops(cell):
    return sum(cell["device_ops"].values())


CREATING = ("cuMemCreate", "cuMemAlloc", "cuMemAllocAsync", "cuMemAllocFromPoolAsync")


def n_created(cell):
    """Calls that create memory."""
    return sum(cell["calls"].get(entry, 0) for entry in CREATING)


def n_moved(cell):
    """Ranges mapped and unmapped, segments given back: operations that create nothing."""
    return sum(cell["device_ops"][kind] for kind in ("map", "unmap", "free"))


def ops_per_1000(cell):
    return 1000 * n_ops(cell) / cell["events"] if cell["events"] else math.nan


def least_ns(cell):
    """Of the timed run that was least disturbed; None where there was none (`--time`)."""
    return cell.get("allocator_ns_per_event", {}).get("least")


def later_ms(cell):
    """The driver's time in a later pass; not a number if there was none."""
    return math.nan if cell["later_driver_ms"] is None else cell["later_driver_ms"]


def resident_ratio(cell):
    return cell["peak_reserved_bytes"] / cell["peak_live_bytes"]


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else math.nan


def mean_of(works):
    """Their geometric mean, and the interval in which it lies if other works are drawn; None for one
    work."""
    interval = chance.interval_of(works, geometric_mean) if len(works) > 1 else None
    return {"mean": geometric_mean(works), "interval": interval,
            "worst": max(works, default=math.nan)}


def summary_rows(study):
    """One row per allocator: its figures over all works, on the largest device of the study."""
    memory = "unlimited" if "unlimited" in study.memories else study.memories[-1]
    rows = []
    for allocator in study.allocators:
        cells = [c for c in study.cells_of(allocator=allocator) if is_measured(c)]
        widest = [c for c in cells if c["memory"] == memory]
        ratios = [resident_ratio(c) for c in widest if completes(c)]
        fits = list({c["trace"]: c["ratio"] for c in cells if c.get("ratio")}.values())
        rows.append({
            "allocator": allocator,
            "ratio": mean_of(ratios),
            "syncs": sum(c["host_syncs"] for c in widest),
            "created": sum(n_created(c) for c in widest),
            "moved": sum(n_moved(c) for c in widest),
            "driver_ms": math.fsum(c["driver_ms"] for c in widest),
            "later_driver_ms": math.fsum(later_ms(c) for c in widest),
            "ns": geometric_mean([ns for ns in map(least_ns, widest) if ns]),
            "fit": mean_of(fits),
            "completed": {m: (sum(completes(c) for c in cells if c["memory"] == m),
                              sum(c["memory"] == m for c in cells)) for m in study.memories},
        })
    return memory, rows


def of_size(memory):
    """The device, in words, for the end of a title."""
    if memory == "unlimited":
        return ", memory unlimited"
    is_ratio = memory.endswith("x")
    return f", on a device of {memory[:-1]} times the peak of live bytes" if is_ratio else f", on a device of {memory}"


def in_unit(of):
    """Figures that are read as a sum share one unit. Returns its name, and what writes bytes in it."""
    unit, name, places = (GIB, "GiB", 3) if max(of, default=0) >= GIB else (1 << 20, "MiB", 1)
    return name, lambda count: ("−" if round(count / unit, places) < 0 else "") + \
        f"{abs(count) / unit:,.{places}f}"


def sized(count):
    """Bytes for people: GiB with two digits, or MiB with one."""
    return f"{count / GIB:.2f} GiB" if abs(count) >= GIB else f"{count / (1 << 20):.1f} MiB"
