#!/usr/bin/env python3
"""The results of both calls of run.py: a table, the resulting decisions, and a cost file.

  report.py a.json [b.json]                                      the page, on standard output
  report.py a.json b.json --page FILE --readme README.md --cost NAME.cost

--readme puts the short table between its marks. --cost completes the file of `pleat probe` with the
costs of creating that the climb to a full device measured. Results of the simulator are for the
page alone."""
import argparse
import json
import pathlib
import sys

MARKERS = ("<!-- gpu:begin -->", "<!-- gpu:end -->")
OURS, THEIRS = "pleat", ("native", "expandable")
CLOSE = 0.02        # losses that differ by at most this are equal, up to the order of sums


class Missing(Exception):
    """The question was not answered; the text says why."""


class Results:
    """The steps of both calls. A later call's result of a step counts, except for training."""

    def __init__(self, calls):
        self.calls = calls
        self.steps = {}
        for call in calls:
            for name, parts in call["steps"].items():
                for part, row in parts.items():
                    self.steps.setdefault(name, {}).setdefault(part, []).append(row)

    def rows(self, step, part):
        return self.steps.get(step, {}).get(part, [])

    def get(self, step, part, *keys):
        """A value of the last result of a part. Raises Missing."""
        rows = self.rows(step, part)
        if not rows:
            raise Missing("not asked")
        found = rows[-1].get("result", {})
        if not found:
            raise Missing(rows[-1].get("problem") or "not answered")
        for key in keys:
            for why in ("skipped", "failed"):
                if isinstance(found, dict) and why in found:
                    raise Missing(f"{why}: {found[why]}")
            if not isinstance(found, dict) or key not in found or found[key] is None:
                raise Missing(rows[-1].get("problem") or "not answered")
            found = found[key]
        return found

    def runs(self, allocator):
        """Training runs that were timed."""
        return [row["result"] for row in self.rows("training", allocator)
                if row.get("result", {}).get("ms")]


# ---- questions: (the question, the result, the consequence) -------------------------------------

def joined(found):
    return "; ".join(f"{name} {what}" for name, what in found.items())


def machine(r):
    found = r.get("machine", "machine")
    return (f"{found['gpu']}, CUDA {found['cuda'] / 1000:.1f}, torch {found['torch']}; granule "
            f"{joined(found['granule'])}"), ""


def dead(r):
    answers = r.get("dead", "dead", "answers")
    found = {group: said for group, asked in answers.items() for said in asked.values()}
    died = [group for group, said in found.items() if said.startswith("died")]
    return f"{len(died)} of {len(found)} calls end the process: {', '.join(died) or 'none'}", \
        "stored handles are never asked" + ("" if died else ", since it is undefined")


def captures(r):
    answers = r.get("captures", "captures", "answers")
    broken = {}
    for situation, asked in answers.items():
        for call, said in asked.items():
            if "breaks" in said:
                broken.setdefault(call, []).append(situation)
    safe = [call for call, where in broken.items()
            if not any(situation.endswith("/relaxed") for situation in where)]
    return f"of {len(answers) - 1} situations break: " + joined(
        {call: len(where) for call, where in broken.items()}), \
        f"safe for relaxed callers: {', '.join(safe) or 'none of these'}"


def create(r):
    levels = [row for row in r.get("climb", "2 MiB", "us") if "create" in row]
    said = joined({f"{row['alive']} alive": f"{row['create']} us" for row in levels})
    slope, _ = growth(levels)
    return said, f"{slope:.2f} us more a thousand handles alive: large chunks " \
                 f"{'pay' if slope > 1 else 'save no growth of costs'}"


def full(r):
    refused, left = (r.get("climb", "2 MiB", key) for key in ("refused", "left_bytes"))
    return f"{refused[0]}: {refused[1]}, {left / 2 ** 20:.0f} MiB free", \
        "out of memory while mapping is no driver error" if refused[0] != "cuMemCreate" else \
        "creating is refused first, as pleat assumes"


def fresh(r):
    us = r.get("climb", "2 MiB", "map_us")
    return f"{us['fresh']} us a handle, {us['back']} where one was before", \
        "addresses are used again" if us["fresh"] > 1.2 * us["back"] else "addresses cost nothing"


def chains(r):
    ns = {name: r.get("climb", "2 MiB", "chains", name, "again_ns")
          for name in ("cuMemAlloc", "handles", "all handles")}
    return joined({name: f"{value} ns" for name, value in ns.items()}), \
        "handles cost kernels nothing" if ns["handles"] < 1.05 * ns["cuMemAlloc"] else \
        "small handles cost kernels time: larger chunks"


def exits(r):
    last = {part: rows[-1] for part, rows in r.steps.get("climb", {}).items()}
    found = {part: f"{row['result']['left_alive']} handles {row['exit_s']} s"
             for part, row in last.items() if "exit_s" in row}
    if not found:
        raise Missing("not answered")
    return joined(found), ""


def stalls(r):
    cells = r.get("stalls", "stalls", "cells")
    found = {}
    for name, cell in cells.items():
        us = cell.get("us", {})
        if us:
            found[name.split(",")[0]] = f"access {us['access'][0]:g} / {us['access'][2]:g} us"
        if "longest_us" in cell:
            found[name] = f"longest pause {cell['longest_us']:g} us"
    return joined(found), ""


def bytes_kept(r):
    found = {}
    for step in ("takes", "takes full", "contents", "compaction", "sleep"):
        for part, rows in r.steps.get(step, {}).items():
            found[step if part == step else f"{step} {part}"] = rows[-1]["status"]
    if not found:
        raise Missing("not asked")
    return joined(found), "wrong bytes: nothing else counts" if "wrong" in found.values() else ""


def sleeping(r):
    turns = r.get("sleep", "sleep", "turns")
    return joined({name: f"{turn['sleep_s']} s, {turn['wake_s']} s" for name, turn in turns.items()
                   if "sleep_s" in turn}), ""


def part_of(name):
    """A child's answers, as they are."""
    def said(r):
        found = dict(r.get("children", name))
        if "skipped" in found:
            raise Missing(f"skipped: {found['skipped']}")
        return joined({key: json.dumps(what) if isinstance(what, dict) else what
                       for key, what in found.items()}), ""
    return said


def speed(r):
    """Times over the steps that all runs have. Each allocator is represented by its faster run."""
    runs = {name: r.runs(name) for name in (OURS, *THEIRS) if r.runs(name)}
    if OURS not in runs:
        raise Missing("not timed")
    n = min(len(run["ms"]) for some in runs.values() for run in some)
    rates = {name: 1000 * (n - n // 5) / min(sum(run["ms"][n // 5:n]) for run in some)
             for name, some in runs.items()}
    return joined({name: f"{rate:.3f}" for name, rate in rates.items()}) + \
        f" steps a second (of {n}, the first fifth left out)", \
        f"{rates[OURS] / max(rates.values()):.3f} of the best"


def losses(r):
    runs = [(name, run["losses"]) for name in (OURS, *THEIRS) for run in r.runs(name)]
    if len(runs) < 2:
        raise Missing("fewer than two runs")
    n = min(len(found) for _, found in runs)
    apart = max(abs(one - other) / max(abs(other), 1e-9)
                for _, found in runs for one, other in zip(found[:n], runs[0][1]))
    return f"{len(runs)} runs, {n} steps: at most {apart:.2g} apart", \
        "equal" if apart == 0 else "equal up to the order of sums" if apart < CLOSE else "NOT EQUAL"


def memory(r):
    found = {}
    for name in (OURS, *THEIRS):
        rows = [row["result"] for row in r.rows("training", name)
                if row.get("result", {}).get("peak_reserved_bytes")]
        if rows:
            reserved, live = (rows[-1][f"peak_{what}_bytes"] for what in ("reserved", "allocated"))
            found[name] = f"{reserved / live:.3f}"
    if not found:
        raise Missing("not asked")
    return joined(found), ""


def largest(r):
    found = {}
    for name in (OURS, "expandable"):
        got = r.get("batch", name)
        found[name] = f"{got['completes']}{' at least' if got.get('is_bound') else ''}"
    return joined(found), ""


def trace(r):
    return joined({part: f"{rows[-1]['result']['oom_count']} failed, "
                         f"{rows[-1]['result']['driver_ms']:.0f} ms"
                   for part, rows in r.steps.get("trace", {}).items()
                   if "oom_count" in rows[-1].get("result", {})}) or "not asked", ""


QUESTIONS = {
    "The machine": machine,
    "Do bytes stay?": bytes_kept,
    "Training: steps a second": speed,
    "Training: losses": losses,
    "Training: peak reserved / peak allocated": memory,
    "Largest batch": largest,
    "A trace at 1.05 x its live memory": trace,
    "Creating a handle of 2 MiB": create,
    "What a full device refuses first": full,
    "Mapping at fresh addresses": fresh,
    "A step of a chain of pointers": chains,
    "The end of a process on a full device": exits,
    "Mapping beside work: median / most": stalls,
    "Sleep, wake of 8 GiB": sleeping,
    "Destroyed streams and events": dead,
    "Captures": captures,
    **{f"Beside it: {name}": part_of(name) for name in (
        "green stream", "green torch", "host memory", "export", "share", "sticky", "persistent")},
}
SHORT = tuple(QUESTIONS)[:14]       # in the table of the README


def answers_of(results):
    found = {}
    for question, asked in QUESTIONS.items():
        try:
            found[question] = asked(results)
        except Missing as why:
            found[question] = (str(why), "")
    return found


def table(answers, questions):
    lines = ["| question | found | so |", "|---|---|---|"]
    for question in questions:
        found, follows = (" ".join(str(text).replace("|", "/").split())
                          for text in answers[question])
        lines.append(f"| {question} | {found} | {follows} |")
    return "\n".join(lines) + "\n"


def page(calls, answers):
    title = "# What a GPU answered"
    if calls[0]["is_simulated"]:
        title = "# What a simulated GPU answers: nothing was measured"
    runs = "\n".join(f"* call {call['call']}, {call['begun']}: {call['seconds']} s, build "
                     f"{call['build']}, {call['gpu']}" for call in calls)
    return f"{title}\n\nWritten by bench/gpu/report.py.\n\n{runs}\n\n{table(answers, QUESTIONS)}"


def put_between(path, text):
    whole = path.read_text(encoding="utf-8")
    head, rest = whole.split(MARKERS[0])
    path.write_text(f"{head}{MARKERS[0]}\n{text}{MARKERS[1]}{rest.split(MARKERS[1])[1]}",
                    encoding="utf-8")


# ---- the cost file -------------------------------------------------------------------------------

def growth(levels):
    """(more microseconds per thousand live handles, most live handles), by least squares over the
    levels. (0, 0) if there is no growth."""
    points = [(1.5 * row["alive"] / 1000 if row["alive"] else 0.5, row["create"])
              for row in levels if "create" in row]
    if len(points) < 3:
        return 0.0, 0
    mean_x, mean_y = (sum(column) / len(points) for column in zip(*points))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / \
        sum((x - mean_x) ** 2 for x, _ in points)
    return (slope, int(points[-1][0] * 1000)) if slope >= 0.001 else (0.0, 0)


def completed(costs, results):
    """The probe creates few handles. The climb tells how creating grows beyond them."""
    slope, most = growth(results.get("climb", "2 MiB", "us"))
    lines = []
    for line in costs.splitlines():
        if line.startswith("cuMemCreate ") and most:
            line = f"{line.split(' live ')[0]} live {slope:.3f} live_most {most}"
            lines.append(f"# growth: of the climb to {most} handles of 2 MiB, bench/gpu/climb.py")
        lines.append(line)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("calls", nargs="+", type=pathlib.Path, metavar="JSON")
    parser.add_argument("--page", type=pathlib.Path, help="file to write the page to")
    parser.add_argument("--readme", type=pathlib.Path, help="file that has the marks")
    parser.add_argument("--cost", type=pathlib.Path, help="cost file to complete")
    options = parser.parse_args()
    calls = [json.loads(path.read_text(encoding="utf-8")) for path in options.calls]
    if any(call["is_simulated"] for call in calls) and (options.readme or options.cost):
        parser.error("results of the simulator are no measurement")
    results = Results(calls)
    answers = answers_of(results)
    if options.page:
        options.page.write_text(page(calls, answers), encoding="utf-8")
    else:
        sys.stdout.write(page(calls, answers))
    if options.readme:
        put_between(options.readme, table(answers, SHORT))
    if options.cost:
        text = options.cost.read_text(encoding="utf-8")
        options.cost.write_text(completed(text, results), encoding="utf-8")
    return 1 if any("wrong_at" in call for call in calls) else 0


if __name__ == "__main__":
    sys.exit(main())
