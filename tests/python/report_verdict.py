"""Verdict and advice of `pleat ab` agree with `pleat fit` for every allocator, and the first screen
agrees with the rows.

Usage: report_verdict.py PLEAT [WORK...]   (without works: small ones, and the recordings beside the
checkout if they exist)"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
SMALL = ["gpt2s_tiny", "churn:iterations=40,allocations=60,least=1M,most=24M,streams=2"]
COMPACT = "pleat short:compact"
CANDIDATES = ("torch-native", "torch-expandable", "pleat", COMPACT)
GIB = 1 << 30


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{' '.join(command)}: {result.returncode}\n{result.stderr}"
    return result.stdout


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def words_of(setting):
    """The options of `pleat replay` and `pleat fit`."""
    is_compact = setting == COMPACT
    return ["--allocator", "pleat", "--conf", "short:compact"] if is_compact else \
        ["--allocator", setting]


def completes(pleat, work, allocator, size):
    """The output of `pleat replay`. Its exit status is 1 if an allocation failed."""
    result = subprocess.run([pleat, "replay", work, "--driver", "sim", "--json", "--memory",
                             f"{size}B", *words_of(allocator)], capture_output=True, text=True,
                            check=False)
    row = json.loads(result.stdout)
    return row["oom_count"] == 0 and row["hazards"] == 0


def check_setting(pleat, work, verdict, setting, fit):
    """The run completes on a device exactly if the search found so. The search is exact to 0.05 %
    or 2 MiB. Success is not monotonic in memory. If the two differ, a replay decides."""
    need = verdict["need_bytes"]
    least = fit["least_memory_bytes"]
    slack = max(2 << 20, need // 2000)
    name = f"{verdict['work']}, {setting['allocator']}"
    for kind, devices in (("on", "devices"), ("near", "near")):
        for outcome, device in zip(setting[kind], verdict[devices]):
            assert outcome is not None, f"{name}, {device['label']}: not measured"
            if abs(device["bytes"] - least) > slack:
                if outcome != (device["bytes"] >= least):
                    print(f"not monotonic: {name}, {device['label']}, fit {least / GIB:.3f} GiB")
                    assert outcome == completes(pleat, work, setting["allocator"],
                                                device["bytes"]), f"{name}, {device['label']}"
    completing = [d["label"] for d, o in zip(verdict["devices"], setting["on"]) if o]
    assert setting["device"] == (completing[0] if completing else None), name


def check_advice(verdict, fits):
    """By the searches alone: the simplest setting with the smallest device."""
    sizes = [d["bytes"] for d in verdict["devices"]]
    measured = {s["allocator"] for s in verdict["settings"]}
    candidates = [a for a in CANDIDATES if a != COMPACT or a in measured]
    needed = {a: min([s for s in sizes if s >= fits[a]["least_memory_bytes"]], default=None)
              for a in candidates}
    order = [verdict["in_force"]] + [a for a in candidates if a != verdict["in_force"]]
    possible = [s for s in needed.values() if s is not None]
    if not possible:
        wanted = "too large" if verdict["need_bytes"] > sizes[-1] else "nobody"
        assert verdict["verdict"] == wanted, verdict["work"]
        return
    best = next(a for a in order if needed[a] == min(possible))
    if verdict["verdict"] == "record":
        assert (verdict["so_far"], verdict["setting"], verdict["device"]) == (
            verdict["so_far"] if best == verdict["in_force"] else best, None, None), verdict["work"]
        assert not verdict["recorded"]["is_whole"], verdict["work"]
        return
    if best == verdict["in_force"]:
        assert verdict["verdict"] in ("keep", "nearer"), verdict["work"]
    else:
        assert (verdict["verdict"], verdict["setting"]) == ("switch", best), verdict["work"]
    if verdict["verdict"] == "nearer":
        assert fits[verdict["setting"]]["ratio"] < fits[verdict["in_force"]]["ratio"]


def check_lines(verdict, cells):
    """The words of the five lines say what the rows say."""
    lines = dict(verdict["lines"])
    need = max(cells[0]["peak_live_bytes"], verdict["recorded"]["pool_need_bytes"])
    assert verdict["need_bytes"] == need
    is_whole = verdict["recorded"]["is_whole"]
    assert ("recorded" in lines) == (not is_whole)
    assert lines["needs"].startswith("at least ") == bool(not is_whole or verdict["recorded"]["steps"])
    number, unit = re.match(r"(?:at least )?([\d.]+) ([GM]iB)", lines["needs"]).groups()
    scale = GIB if unit == "GiB" else 1 << 20
    assert abs(float(number) * scale - need) <= scale * 0.051, lines["needs"]
    for name, size, unit in re.findall(r"([a-z-]+) ([\d.]+) ([GM]iB)",
                                       lines["held"].split("without limit:")[-1]):
        held = next(c["peak_reserved_bytes"] for c in cells
                    if (c["allocator"], c["memory"]) == (name, "unlimited"))
        scale = GIB if unit == "GiB" else 1 << 20
        assert abs(float(size) * scale - held) <= scale * 0.051, lines["held"]
    assert is_whole == (not lines["runs on"].startswith("unknown beyond what was recorded, which "))
    known = [d["label"] for d in verdict["devices"]]
    everybody = {s["allocator"] for s in verdict["settings"]}
    said = {}
    shown = re.sub(r"\([^)]*\) ?|.* which (fails on|rules out none.*)", "", lines["runs on"]).strip()
    if not is_whole:  # "fails on 8, 12 GB under all, and on 40 GB under pleat"
        shown = re.sub(r" ?, and on ", "; ", shown).replace(" under ", ": ")
    for part in filter(None, shown.split("; ")):
        labels, who = part.split(": ")
        for label in labels.split(", "):
            said[label if label in known else label + " GB"] = \
                set() if who.startswith("none") else everybody if who.startswith("all") and \
                "but" not in who else everybody - set(who[8:].split(", ")) \
                if who.startswith("all but ") else set(who.split(", "))
    for index, label in enumerate(known):  # of a part the failing ones are named
        good = {s["allocator"] for s in verdict["settings"] if s["on"][index] == is_whole}
        assert said.get(label, set()) == good, f"{verdict['work']}, {label}: {lines['runs on']}"
    assert ("times its need" in lines["held"]) == bool(verdict["own_held_bytes"] and is_whole)
    if "times its need" in lines["held"]:
        ratio = float(re.search(r"([\d.]+) times its need", lines["held"]).group(1))
        assert abs(ratio - verdict["own_held_bytes"] / need) <= 0.00051, lines["held"]
    assert (lines["type"] == "nothing") == (verdict["verdict"] == "keep")


def check_study(pleat, works, folder, fits, *memory):
    text = run(pleat, "ab", *works, "--driver", "sim", "--no-report", "--loops", "1", "--out",
               str(folder), *memory)
    cells, verdicts = rows_of(folder / "results.jsonl"), rows_of(folder / "verdicts.jsonl")
    assert len(verdicts) == len(works)
    for work, verdict in zip(works, verdicts):
        of_work = [c for c in cells if c["trace"] == verdict["work"]]
        found = {f["allocator"]: f for f in fits if f["trace"] == verdict["work"]}
        for setting in verdict["settings"]:
            check_setting(pleat, work, verdict, setting, found[setting["allocator"]])
        check_advice(verdict, found)
        check_lines(verdict, of_work)
        flat = re.sub(r"\s+", " ", text)  # lines are wrapped on a terminal
        for title, line in verdict["lines"]:
            said = re.sub(r"\s+", " ", f"{title} {line}")
            assert said in flat, f"not printed: {said}"
    print(f"{len(verdicts)} verdicts agree{' ' if memory else ''}{' '.join(memory)}:",
          ", ".join(v["verdict"] for v in verdicts))
    return {c["allocator"] for c in cells}


def main():
    pleat, works = sys.argv[1], sys.argv[2:]
    recordings = sorted(map(str, (ROOT.parent / "shared/recordings").glob("*.pickle.gz")))
    works = works or SMALL + recordings
    with tempfile.TemporaryDirectory(prefix="pleat-verdict-") as name:
        folder = pathlib.Path(name)
        run(pleat, "ab", SMALL[1], "--driver", "sim", "--no-report", "--loops", "1", "--out",
            str(folder / "first"))
        everybody = [c["allocator"] for c in rows_of(folder / "first/results.jsonl")]
        fits = [json.loads(line) for line in run(
            pleat, "fit", *works, "--driver", "sim", "--json", "--allocator",
            ",".join(a for a in dict.fromkeys(everybody) if a != COMPACT)).splitlines()]
        compacted = [json.loads(line) for line in run(
            pleat, "fit", *works, "--driver", "sim", "--json", *words_of(COMPACT)).splitlines()]
        fits += [{**fit, "allocator": COMPACT} for fit in compacted]
        check_study(pleat, works, folder / "cards", fits)
        check_study(pleat, works, folder / "sizes", fits, "--memory",
                    "1.00x,1.01x,1.02x,1.05x,1.10x,1.25x,unlimited")
        check_study(pleat, works, folder / "bytes", fits, "--memory", "2G,6G,9G,22G,52G,unlimited")


if __name__ == "__main__":
    main()
