"""What a run must fulfil, line by line: PASS, or short and by how much, or not measured."""
import dataclasses

MIB = 1 << 20
MODELS = ("gpt2", "lora", "moe")
BATCHES = ("batch", "batch_lora")
PYTORCH = ("native", "expandable", "async")
LEAST_SPEED = 0.98              # times the speed of PyTorch's best configuration
MOST_RESERVED = (1.03, 64 * MIB)    # times peak allocated, plus
MOST_HIDDEN = 64 * MIB          # held by the device beyond what statistics and PyTorch's runs show
MOST_LOSS_APART = 0.02
BOUNDS = ("bound", "stopped")   # of a search: it ran out of time at these bounds
NOT_MEASURED = "not measured"


@dataclasses.dataclass(frozen=True)
class Line:
    what: str
    found: str
    bound: str
    verdict: str                # "PASS", "short by ...", "not measured"

    @property
    def is_short(self):
        return self.verdict not in ("PASS", NOT_MEASURED)


def number(row, key):
    return float(row[key]) if row.get(key) not in (None, "") else None


def numbers(rows, key):
    return [n for n in (number(row, key) for row in rows if row["status"] == "ok")
            if n is not None]


def mib(value):
    return f"{value / MIB:,.0f} MiB"


def of(rows, phase, allocator=None):
    return [row for row in rows if row["phase"] == phase and
            (allocator is None or row["allocator"] == allocator)]


def all_pass(rows, phase, what):
    """A cell that cannot run here counts neither as good nor as bad."""
    mine = [row for row in of(rows, phase) if row["status"] != "skipped"]
    bad = [row["cell"] for row in mine if row["status"] != "ok"]
    if not mine:
        return Line(what, "", "all pass", NOT_MEASURED)
    found = f"{len(mine) - len(bad)} of {len(mine)} pass"
    return Line(what, found, "all pass",
                f"short by {', '.join(bad)}" if bad else "PASS")


def completes(rows, model):
    what = f"{model}: pleat completes every run"
    mine = of(rows, model, "pleat")
    if not mine:
        return Line(what, "", "", NOT_MEASURED)
    bad = [row for row in mine if row["status"] != "ok"]
    found = f"{len(mine) - len(bad)} of {len(mine)}"
    return Line(what, found, str(len(mine)),
                f"short by {len(bad)}: {bad[0]['problem'] or bad[0]['status']}" if bad else "PASS")


def speed(rows, model):
    what = f"{model}: steps per second"
    best = {name: max(numbers(of(rows, model, name), "steps_per_second"), default=None)
            for name in (*PYTORCH, "pleat")}
    theirs = {name: best[name] for name in PYTORCH if best[name]}
    if not theirs or not best["pleat"]:
        return Line(what, "", f">= {LEAST_SPEED} x PyTorch's best", NOT_MEASURED)
    champion = max(theirs, key=theirs.get)
    ratio = best["pleat"] / theirs[champion]
    found = f"{best['pleat']:.3f} = {ratio:.4f} x {champion}'s {theirs[champion]:.3f}"
    return Line(what, found, f">= {LEAST_SPEED} x PyTorch's best",
                "PASS" if ratio >= LEAST_SPEED else f"short by {100 * (LEAST_SPEED - ratio):.2f} %")


def reserved(rows, model):
    what = f"{model}: peak reserved"
    factor, slack = MOST_RESERVED
    bound = f"<= {factor} x peak allocated + {mib(slack)}"
    pairs = [(number(row, "peak_reserved_bytes"), number(row, "peak_allocated_bytes"))
             for row in of(rows, model, "pleat") if row["status"] == "ok"]
    pairs = [pair for pair in pairs if None not in pair]
    if not pairs:
        return Line(what, "", bound, NOT_MEASURED)
    held, live = max(pairs, key=lambda pair: pair[0] - factor * pair[1])
    over = held - factor * live - slack
    return Line(what, f"{mib(held)} = {held / live:.4f} x {mib(live)}", bound,
                "PASS" if over <= 0 else f"short by {mib(over)}")


def hidden(rows, model):
    """Statistics are the allocator's own word. The driver must not see more, except what a context
    also takes under PyTorch's allocators: kernels that were loaded meanwhile."""
    def beyond(row):
        told = number(row, "peak_reserved_bytes"), number(row, "driver_peak_bytes")
        return None if None in told else max(told[1] - told[0], 0)

    def most(names):
        found = [beyond(row) for name in names for row in of(rows, model, name)
                 if row["status"] == "ok"]
        return max((n for n in found if n is not None), default=None)

    what = f"{model}: held beyond what pleat says"
    ours, theirs = most(["pleat"]), most(PYTORCH)
    if ours is None or theirs is None:
        return Line(what, "", "", NOT_MEASURED)
    over = ours - theirs - MOST_HIDDEN
    return Line(what, mib(ours), f"<= PyTorch's {mib(theirs)} + {mib(MOST_HIDDEN)}",
                "PASS" if over <= 0 else f"short by {mib(over)}")


def losses(rows, model):
    what = f"{model}: last loss"
    bound = f"within {100 * MOST_LOSS_APART:g} % of native's"
    ours = numbers(of(rows, model, "pleat"), "loss_last")
    theirs = numbers(of(rows, model, "native"), "loss_last")
    if not ours or not theirs:
        return Line(what, "", bound, NOT_MEASURED)
    apart = max(abs(one - theirs[0]) for one in ours) / (abs(theirs[0]) or 1.0)
    return Line(what, f"{ours[0]:.4f}, native {theirs[0]:.4f}", bound,
                "PASS" if apart <= MOST_LOSS_APART else f"short by {100 * apart:.2f} % apart")


def span(row):
    """The least and the most that a search's largest batch can be; None where the search tells
    nothing."""
    good, bad = number(row, "largest_batch"), number(row, "least_failed_batch")
    if good is None or row["status"] not in ("ok", *BOUNDS):
        return None
    if row["status"] == "ok":
        return good, good
    return good, float("inf") if bad is None else bad - 1


def in_words(least, most):
    if least == most:
        return f"{least:g}"
    return f"at least {least:g}" + (f", at most {most:g}" if most != float("inf") else "")


def resolution(rows, phase):
    """Both searches use the same grid, which may be coarser than one sequence."""
    gaps = [number(row, "least_failed_batch") - number(row, "largest_batch")
            for name in ("pleat", "expandable") for row in of(rows, phase, name)
            if row["status"] == "ok" and number(row, "least_failed_batch") is not None]
    return f"; to within {max(gaps):g}" if gaps and max(gaps) > 1 else ""


def largest_batch(rows, phase):
    what, bound = f"{phase}: largest before out-of-memory", ">= expandable's"
    found = [span(row) for name in ("pleat", "expandable") for row in of(rows, phase, name)]
    if len(found) != 2 or None in found:
        return Line(what, "", bound, NOT_MEASURED)
    ours, theirs = found
    said = f"{in_words(*ours)}; expandable {in_words(*theirs)}{resolution(rows, phase)}"
    if ours[0] >= theirs[1]:
        return Line(what, said, bound, "PASS")
    if ours[1] >= theirs[0]:
        return Line(what, said, bound, NOT_MEASURED)
    return Line(what, said, bound, f"short by {theirs[0] - ours[1]:g} sequences" +
                ("" if ours[0] == ours[1] and theirs[0] == theirs[1] else " or more"))


def check(rows):
    lines = [all_pass(rows, "suites", "unit suites on the driver"),
             all_pass(rows, "takes", "bytes through a storm of takes")]
    for model in MODELS:
        lines += [rule(rows, model) for rule in (completes, speed, reserved, hidden, losses)]
    return lines + [largest_batch(rows, phase) for phase in BATCHES]
