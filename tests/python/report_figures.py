"""Every figure on the page of `pleat ab` is computed again from the rows, by separate code.

A figure is marked: <span data-f="KEY" data-...>TEXT</span>. FIGURES tells how each figure is
computed from the JSON lines. Unmarked text in a table must hold no digit, except names and
sizes."""
import html.parser
import json
import math
import pathlib
import random
import re

GIB, MIB = 1 << 30, 1 << 20
CREATING = ("cuMemCreate", "cuMemAlloc", "cuMemAllocAsync", "cuMemAllocFromPoolAsync")


class Marks(html.parser.HTMLParser):
    """Collects (attributes, text) of marked figures, and the text of table cells without them."""

    def __init__(self):
        super().__init__()
        self.figures, self.unmarked, self.outcomes = [], [], []
        self.mark = self.cell = None
        self.quiet = 0  # inside elements with unmarked figures: stacks, charts, names

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag in ("svg", "pre", "code"):
            self.quiet += 1
        if tag == "td":
            self.cell = [values, ""]
        if "data-f" in values:
            self.mark = [values, ""]

    def handle_endtag(self, tag):
        if tag in ("svg", "pre", "code"):
            self.quiet -= 1
        if tag == "span" and self.mark:
            self.figures.append(self.mark)
            self.mark = None
        if tag == "td" and self.cell:
            (self.outcomes if "data-o" in self.cell[0] else self.unmarked).append(self.cell)
            self.cell = None

    def handle_data(self, data):
        if self.mark:
            self.mark[1] += data
        elif self.cell and not self.quiet:
            self.cell[1] += data


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Rows:
    """The rows of a study, and the page's expected contents."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.cells = lines(folder / "results.jsonl")
        self.head = lines(folder / "timelines.jsonl")[0]
        self.moments = lines(folder / "moments.jsonl")
        self.verdicts = lines(folder / "verdicts.jsonl")
        sizes = self.head["memories"]
        self.widest = "unlimited" if "unlimited" in sizes else sizes[-1]

    def cell(self, of):
        found = [c for c in self.cells if (c["trace"], c["allocator"], c["memory"])
                 == (of["data-w"], of["data-a"], of["data-m"])]
        assert len(found) == 1, of
        return found[0]

    def moment(self, of):
        return next(m for m in self.moments if (m["work"], m["moment"]) == (of["data-w"],
                    of["data-k"]) and m["allocator"] == of.get("data-a", m["allocator"]))

    def verdict(self, of):
        return next(v for v in self.verdicts if (v["work"] or "") == of["data-w"])

    def of_allocator(self, of, memory=None):
        return [c for c in self.cells if c["allocator"] == of["data-a"] and "problem" not in c
                and memory in (None, c["memory"])]

    def ratios(self, of):
        return [c["peak_reserved_bytes"] / c["peak_live_bytes"]
                for c in self.of_allocator(of, self.widest) if c["oom_count"] == 0]

    def least(self, of):
        return list({c["trace"]: c["ratio"] for c in self.of_allocator(of)
                     if c.get("ratio")}.values())

    def site(self, of):
        """The n-th site of a moment: blocks by the frame of their stack, or by size and stream."""
        kind = [m for m in self.moments if (m["work"], m["moment"]) == (of["data-w"],
                                                                        of["data-k"])]
        verdict = next((v for v in self.verdicts if v["work"] == of["data-w"]), self.verdicts[0])
        wanted = kind[0]["of"] or verdict["in_force"]
        moment = next((m for m in kind if m["allocator"] == wanted), kind[0])
        sums = {}
        for h in moment["holders"]:
            key = (h["is_pending"], site_of(moment["stacks"][str(h["stack"])])
                   if h["stack"] is not None else (h["bytes"], h["stream"]))
            key = (True,) if h["is_pending"] else key
            at = sums.setdefault(key, [0, 0, 0])
            for i, name in enumerate(("charged_bytes", "live_bytes", "n_blocks")):
                at[i] += h[name]
        return sorted((s for s in sums.values() if s[0]), key=lambda s: (-s[0], -s[1]))


def site_of(stack):
    """As bench/report/sites.py says, in other words."""
    frames = stack.split("\n")
    for is_site in (lambda f: ".py:" in f and not re.search(r"(^|/)(torch/|site-packages/torch)",
                                                            f.split(":")[0]),
                    lambda f: ".py:" in f):
        for frame in frames:
            if is_site(frame):
                return frame
    import sites  # of bench/report: what is machinery is a list, not a rule
    return next((f for f in frames if not sites.MACHINERY.search(f)), frames[0])


def mean(values):
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else math.nan


def check_interval(text, values):
    """Of `mean(values)`, drawn again by another seed; both ends agree within a part of the spread."""
    draws = sorted(mean(random.Random(i).choices(values, k=len(values))) for i in range(4000))
    spread = 0.12 * (max(values) - min(values)) + 0.001
    for shown, wanted in zip(text.split(" to "), (draws[100], draws[3899])):
        assert abs(float(shown) - wanted) <= spread, (text, draws[100], draws[3899])
    assert float(text.split(" to ")[0]) <= mean(values) + 0.0005, (text, mean(values))


def in_bytes(text, unit=None):
    """Bytes and the last digit's; `unit` is that of a table whose figures name none."""
    if unit:
        scale, step = {"GiB": (GIB, GIB / 1000), "MiB": (MIB, MIB / 10)}[unit]
        return float(text.replace(",", "").replace("−", "-")) * scale, step
    number, unit = text.split(" ")
    return float(number) * {"GiB": GIB, "MiB": MIB}[unit], {"GiB": GIB / 100, "MiB": MIB / 10}[unit]


def check_bytes(text, wanted, unit=None):
    got, step = in_bytes(text, unit)
    assert abs(got - wanted) <= step * 0.501, f"{text}: {wanted / GIB:.4f} GiB"


def check_number(text, wanted):
    if wanted != wanted:
        assert text == "–", text
        return
    digits = len(text.split(".")[1]) if "." in text else 0
    assert abs(float(text.replace(",", "")) - wanted) <= 0.501 * 10.0 ** -digits, f"{text}: {wanted}"


def check_rough(text, wanted):
    assert abs(float(text.replace(",", "")) - wanted) <= 0.051 * wanted + 0.5, f"{text}: {wanted}"


def moved(cell):
    return sum(n for kind, n in cell["device_ops"].items() if kind != "alloc")


def total(of_cell):
    return lambda r, of: math.fsum(map(of_cell, r.of_allocator(of, r.widest)))


def created(cell):
    return sum(cell["calls"][name] for name in CREATING)


def later(cell):
    return math.nan if cell["later_driver_ms"] is None else cell["later_driver_ms"]


def of_cell(value):
    return lambda r, of: value(r.cell(of))


def of_site(index):
    return lambda r, of: r.site(of)[int(of["data-n"])][index]


BYTES = {
    "device": lambda r, of: r.verdict(of)["devices"][int(of["data-n"])]["bytes"],
    # Bytes held without a limit are in the rows of the works. A job has the worst rank's bytes.
    "held": lambda r, of: max(c["peak_reserved_bytes"] for c in r.of_allocator(of, "unlimited")
                              if of["data-w"] in ("", c["trace"])),
    # The first screen's figure: private pools may need more than lives at once.
    "need": lambda r, of: max(r.verdict(of)["recorded"]["pool_need_bytes"], *(
        c["peak_live_bytes"] for c in r.cells if c["trace"] == of["data-w"])),
    "own": lambda r, of: r.verdict(of)["own_held_bytes"],
    "requested": lambda r, of: r.moment(of)["requested_bytes"],
    "bytes_mapped": of_cell(lambda c: c["bytes_mapped"]),
    "map_held": lambda r, of: r.moment(of)["resident_bytes"],
    "map_idle": lambda r, of: max(r.moment(of)["resident_bytes"] - r.moment(of)["live_bytes"], 0),
    "charged_bytes": of_site(0),
    "site_live": of_site(1),
}
BYTES.update({key: (lambda name: lambda r, of: r.moment(of)[name])(key) for key in (
    "resident_bytes", "live_bytes", "pending_bytes", "rounding_bytes", "free_bytes", "stranded_bytes",
    "largest_free_bytes")})

NUMBERS = {
    "measured": lambda r, of: len(r.cells),
    "expected": lambda r, of: r.head["cells"],
    "event": lambda r, of: r.moment(of)["event"] + 1,
    "stream": lambda r, of: r.moment(of)["requested_stream"],
    "failed_before": lambda r, of: r.moment(of)["failed_before"],
    "n_sites": lambda r, of: len(r.site(of)),
    "n_blocks": of_site(2),
    "mean": lambda r, of: mean(r.ratios(of)),
    "worst": lambda r, of: max(r.ratios(of), default=math.nan),
    "fit_mean": lambda r, of: mean(r.least(of)),
    "fit_worst": lambda r, of: max(r.least(of), default=math.nan),
    "created": total(created),
    "moved": total(moved),
    "syncs": total(lambda c: c["host_syncs"]),
    "driver_ms": total(lambda c: c["driver_ms"]),
    "later_ms": total(later),
    "cell_ratio": of_cell(lambda c: c["peak_reserved_bytes"] / c["peak_live_bytes"]),
    "cell_created": of_cell(created),
    "cell_moved": of_cell(moved),
    "cell_driver_ms": of_cell(lambda c: c["driver_ms"]),
    "cell_later_ms": of_cell(later),
}
NUMBERS.update({key: (lambda name: of_cell(lambda c: c[name]))(key) for key in (
    "oom_count", "host_syncs", "stream_waits", "hazards")})


def check_other(key, of, text, rows):
    """Figures that are neither bytes nor a single number."""
    if key == "line":
        assert text == rows.verdict(of)["lines"][int(of["data-n"])][1]
    elif key == "state":
        assert text == rows.verdict(of)["state_lines"][int(of["data-n"])][1]
    elif key == "done":
        cells = rows.of_allocator(of, of["data-m"])
        assert text == f"{sum(c['oom_count'] == 0 for c in cells)} / {len(cells)}", text
    elif key in ("interval", "fit_interval"):
        check_interval(text, rows.ratios(of) if key == "interval" else rows.least(of))
    elif key == "own_ns":
        check_rough(text, mean([c["allocator_ns_per_event"]["least"]
                                for c in rows.of_allocator(of, rows.widest)]))
    elif key == "cell_own_ns":
        own = rows.cell(of)["allocator_ns_per_event"]
        for part, name in zip(text.split(" to "), ("least", "most")):
            check_rough(part, own[name])
    elif key == "site":
        size, unit, stream = re.fullmatch(r"blocks of ([\d.e+]+) (\w+)(?:, stream (\d+))?",
                                          text).groups()
        sizes = {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": GIB}
        moments = [m for m in rows.moments if m["work"] == of["data-w"]]
        assert any(abs(float(size) * sizes[unit] - h["bytes"]) <= 1e-5 * h["bytes"]
                   and (stream is None or h["stream"] == int(stream))
                   for m in moments for h in m["holders"] if h["bytes"]), text
    else:
        raise AssertionError(f"a figure of unknown kind: {key} {of} {text}")


def check(text, folder):
    """All figures of the page in `folder`; returns how many."""
    rows, page = Rows(folder), Marks()
    page.feed(text)
    for of, shown in page.figures:
        key = of["data-f"]
        try:
            if key in BYTES:
                check_bytes(shown, BYTES[key](rows, of), of.get("data-u"))
            elif key in NUMBERS:
                check_number(shown, NUMBERS[key](rows, of))
            else:
                check_other(key, of, shown, rows)
        except AssertionError as error:
            raise AssertionError(f"{of}: {error}") from error
    names = {c["allocator"] for c in rows.cells} | set(rows.head["memories"]) | \
        {c["trace"] for c in rows.cells} | {d["label"] for v in rows.verdicts for d in v["devices"]}
    for _, shown in page.unmarked:
        word = shown.strip()
        assert word in names or not re.search(r"\d", word) or word.startswith("not measured"), word
    for of, shown in page.outcomes:
        verdict = rows.verdict(of)
        setting = next(s for s in verdict["settings"] if s["allocator"] == of["data-o"])
        is_whole = verdict["recorded"]["is_whole"]
        wanted = {True: "✓" if is_whole else "?", False: "✗", None: "?"}[
            setting["on"][int(of["data-n"])]]
        assert shown.strip() == wanted, (of, shown)
    check_sums(page, rows)
    return len(page.figures)


PARTS = ("live_bytes", "pending_bytes", "rounding_bytes", "free_bytes")
LIVE, PENDING, FREE, HOLE = range(4)


def check_sums(page, rows):
    """What a moment holds is the sum of its parts: in the rows, in its map, and as the page shows it.
    The page says "unknown" where the row does, and nowhere else."""
    shown = {}
    for of, text in page.figures:
        if "data-u" in of:
            shown.setdefault((of["data-w"], of["data-k"], of["data-a"]), {})[of["data-f"]] = \
                in_bytes(text, of["data-u"])
    n_unknown = sum(cell[1].strip() == "unknown" for cell in page.unmarked)
    for moment in (m for m in rows.moments if m["is_reached"]):
        name = (moment["work"], moment["moment"], moment["allocator"])
        of_kind = [sum(p[1] for p in moment["pieces"] if p[2] == kind) for kind in range(HOLE)]
        assert moment["live_bytes"] + moment["rounding_bytes"] == of_kind[LIVE], name
        assert moment["pending_bytes"] == of_kind[PENDING], name
        assert moment["free_bytes"] >= of_kind[FREE], name
        if not moment["other_holders"]:
            assert sum(h["charged_bytes"] for h in moment["holders"]) == moment["stranded_bytes"], name
        figures = shown.pop(name)
        if moment["has_free"]:
            assert moment["resident_bytes"] == sum(moment[part] for part in PARTS), name
            step = figures["resident_bytes"][1]
            rest = figures["resident_bytes"][0] - sum(figures[part][0] for part in PARTS)
            assert abs(rest) <= 2.6 * step, f"{name}: the parts leave {rest / MIB:.2f} MiB"
        else:
            assert "free_bytes" not in figures and "stranded_bytes" not in figures, name
            n_unknown -= 4
    assert not shown and n_unknown == 0, (shown, n_unknown)
