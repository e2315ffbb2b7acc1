"""`pleat ab` on a part of a run never misleads about the whole run.

Usage: recorded_runs.py PLEAT

Whole runs are written as PyTorch's snapshots, and then cut like recordings. Cuts are a full ring, a
late start, an early end, out of memory, a stop, a gap, no history. Each need has the words "at
least", and the advice on a whole recording says that other steps may need more. A part calls no device enough, and advises no setting. What fails on a part
fails on the whole."""
import copy
import json
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile

SETTINGS = "torch-native,torch-expandable,pleat"
ENOUGH = "completes|suffices|all but|Change nothing|perhaps as much|at most"  # of no part
MIB = 1 << 20


def run(*command, status=(0,)):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode in status, f"{' '.join(command)}: {result.returncode}\n{result.stderr}"
    return result


# ---- works ---------------------------------------------------------------------------------------

def early_peak():
    """The peak is 9 GiB and over early; then small blocks come and go."""
    lines = [f"a {i} {64 * MIB} 0" for i in range(8)]
    lines += [f"a {100 + i} {896 * MIB} 0" for i in range(10)]
    lines += [f"f {100 + i}" for i in range(10)]
    for i in range(150):
        sizes = [((i * 7 + j * 13) % 50 + 1) * MIB for j in range(6)]
        lines += [f"a {1000 + j} {size} 0" for j, size in enumerate(sizes)]
        lines += [f"f {1000 + j}" for j in range(6)]
    return lines


def far_ahead():
    """Layers of 400 MiB are freed during another stream's use."""
    lines = [f"a 0 {600 * MIB} 0"]
    for step in range(3):
        for i in range(1, 41):
            lines += [f"a {i} {400 * MIB} 0", f"u {i} {i} 7", f"f {i}"]
        lines += [f"e {i}" for i in range(1, 41)] + [f"i {step + 1}"]
    return lines


def works(folder):
    for name, lines in (("early_peak", early_peak()), ("far_ahead", far_ahead())):
        path = folder / f"{name}.trace"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        yield name, str(path)
    yield "training", ("decoder:layers=4,hidden=2048,heads=16,ff=8192,vocab=50257,batch=8,"
                       "length=600,sigma=0.8,most_length=2048,iterations=5")
    yield "churn", "churn:iterations=30,allocations=60,least=8M,most=400M,streams=2"


# ---- snapshots -----------------------------------------------------------------------------------

def record(pleat, work, folder, *options, allocator="torch-native"):
    """A replay's snapshot as PyTorch would have written it."""
    path = folder / "recorded.pickle"
    run(pleat, "replay", work, "--driver", "sim", "--allocator", allocator, "--snapshot", str(path),
        *options, status=(0, 1))
    with path.open("rb") as file:
        snapshot = pickle.load(file)
    path.unlink()
    snapshot.pop("pleat_allocator", None)
    snapshot["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True" if
                                      allocator == "torch-expandable" else ""}
    return snapshot


def history(snapshot):
    return snapshot["device_traces"][0]


def with_history(snapshot, entries):
    part = copy.copy(snapshot)
    part["device_traces"] = [entries]
    return part


def ring(snapshot, fraction, digits=3):
    """The last entries, a round number of them."""
    entries = history(snapshot)
    n = max(int(len(entries) * fraction) // 10 ** digits, 1) * 10 ** digits
    return with_history(snapshot, entries[-n:]) if n < len(entries) else None


def late(snapshot, fraction):
    entries = history(snapshot)
    n = int(len(entries) * fraction)
    return with_history(snapshot, entries[-(n + (n % 1000 == 0)):])


def parts(pleat, work, folder):
    """(name, snapshot, the run's allocator, may it be refused)"""
    whole = record(pleat, work, folder, "--snapshot-at", "end")
    expandable = record(pleat, work, folder, "--snapshot-at", "end", allocator="torch-expandable")
    entries = history(whole)
    old = {key: whole[key] for key in ("segments", "device_traces")}
    under_pleat = record(pleat, work, folder, "--snapshot-at", "end", allocator="pleat")
    under_pleat["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": "allocator:pleat"}
    native = "torch-native"
    yield "whole", whole, native, False
    yield "whole, old form", old, native, False
    yield "whole, expandable", expandable, "torch-expandable", False
    yield "whole, under pleat", under_pleat, "pleat", False
    yield "ring of a quarter", ring(whole, 0.25, 2), native, False
    yield "ring of thousands", ring(whole, 0.6), native, False
    yield "ring, expandable", ring(expandable, 0.3, 2), "torch-expandable", False
    yield "ring, under pleat", ring(under_pleat, 0.3, 2), "pleat", False
    yield "late by little", late(whole, 0.95), native, False
    yield "late by much", late(whole, 0.05), native, False
    yield "at the peak", record(pleat, work, folder, "--snapshot-at", "peak"), native, False
    yield "out of memory", record(pleat, work, folder, "--memory", "0.8x", "--snapshot-at",
                                  "failure"), native, False
    yield "out of memory, late", ring(record(pleat, work, folder, "--memory", "0.8x",
                                             "--snapshot-at", "failure"), 0.5, 1), native, False
    yield "out of memory, and on", record(pleat, work, folder, "--memory", "0.8x", "--snapshot-at",
                                          "end"), native, False
    for action in ("free_requested", "free_completed"):
        yield f"whole, without {action}", with_history(
            whole, [e for e in entries if e["action"] != action]), native, False
    yield "no history", with_history(whole, []), native, True
    yield "stopped early", with_history(whole, entries[:len(entries) // 2]), native, True
    yield "a gap", with_history(whole, entries[:len(entries) // 3] +
                                entries[2 * len(entries) // 3:]), native, True


# ---- verdicts ------------------------------------------------------------------------------------

def judge(pleat, work, folder, status=(0,)):
    """The verdict, or None where the file is refused."""
    out = folder / "out"
    result = run(pleat, "ab", work, "--driver", "sim", "--no-report", "--allocator", SETTINGS,
                 "--out", str(out), status=status)
    if result.returncode == 2:
        assert "pleat: " in result.stderr, result.stderr
        return None
    verdict = json.loads((out / "verdicts.jsonl").read_text(encoding="utf-8"))
    verdict["text"] = dict(verdict["lines"])
    return verdict


def completing(verdict):
    return {(s["allocator"], d["label"]) for s in verdict["settings"]
            for d, outcome in zip(verdict["devices"], s["on"]) if outcome}


def failing(verdict):
    return {(s["allocator"], d["label"]) for s in verdict["settings"]
            for d, outcome in zip(verdict["devices"], s["on"]) if outcome is False}


def check(name, whole, part, allocator):
    said = part["text"]
    is_whole = part["recorded"]["is_whole"]
    assert (part["lines"][0][0] == "recorded") == (not is_whole), f"{name}: {part['lines'][0]}"
    assert said["needs"].startswith("at least "), f"{name}: {said['needs']}"
    assert not is_whole or part["need_bytes"] >= whole["need_bytes"], f"{name}: {said['needs']}"
    assert is_whole == (not said["runs on"].startswith("unknown beyond ")), f"{name}: {said['runs on']}"
    wrong = completing(part) - completing(whole)
    assert not is_whole or not wrong, f"{name}: {sorted(wrong)}"
    assert is_whole or (part["setting"], part["device"]) == (None, None), f"{name}: {said['advice']}"
    assert is_whole or not re.search(ENOUGH, " ".join(said.values())), f"{name}: {said}"
    wrong = set() if part["recorded"]["lacks_requests"] else failing(part) & completing(whole)
    assert not wrong, f"{name}: {sorted(wrong)}"
    if part["setting"]:
        assert re.search("recorded steps on .*other steps may need more", said["advice"]), \
            f"{name}: {said['advice']}"
        assert (part["setting"], part["device"]) in completing(whole), name
    assert part["own"] == allocator, f"{name}: under {part['own']}"
    if not is_whole:
        assert re.search("_record_memory_history|a longer run may need more|Only a run tells",
                         said["recorded"]), f"{name}: {said['recorded']}"
    is_known = part["recorded"]["steps"] > 0
    assert ("recorded, by the rises of live memory, of" in said["needs"]) == is_known, f"{name}: {said['needs']}"


def check_small_job(pleat, folder):
    """Cards begin small enough that a small job's waste shows."""
    verdict = judge(pleat, "decoder:layers=4,hidden=1024,heads=16,ff=4096,vocab=50257,batch=4,"
                    "length=600,sigma=0.8,most_length=1900,iterations=8", folder)
    native = verdict["settings"][0]
    assert verdict["devices"][0]["label"] == "8 GB"
    assert verdict["need_bytes"] < verdict["devices"][0]["bytes"] < native["held_bytes"]
    assert (verdict["verdict"], verdict["device"]) == ("switch", "8 GB"), verdict["lines"]


def check_leak(pleat, folder):
    """Each step keeps 1 MiB. A whole recording of such a run does not exist."""
    lines = [f"a 0 {2048 * MIB} 0"]
    for i in range(1, 21):
        lines += [f"a 1000 {900 * MIB} 0", "f 1000", f"a {i} {MIB} 0", f"i {i}"]
    trace = folder / "leak.trace"
    trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = folder / "leak.pickle"
    path.write_bytes(pickle.dumps(record(pleat, str(trace), folder, "--snapshot-at", "end")))
    verdict = judge(pleat, str(path), folder)
    assert verdict["recorded"]["rise_bytes"] == MIB, verdict["recorded"]
    assert "rises by 1.0 MiB a step, on the mean of 18 steps" in verdict["text"]["recorded"]
    assert verdict["text"]["needs"].startswith("at least "), verdict["text"]["needs"]
    assert "further steps fill 8 GB." in verdict["text"]["advice"], verdict["text"]["advice"]


def check_repeats(pleat, folder):
    """A whole recording has four steps that do not grow. Nothing else is missing in these runs."""
    step = ["a 1 {0} 0", "a 2 {0} 0", "f 1", "f 2"]
    for name, sizes, words in (
            ("one step", [900], "no step was seen to repeat"),
            ("three steps", [900] * 3, "not seen to repeat often enough"),
            ("evaluations", [900] + [500] * 8, "not seen to repeat often enough"),
            ("longer and longer", [900 + 20 * i for i in range(6)], "its steps grow"),
            ("four steps", [900] * 4, None)):
        lines = [f"a 0 {2048 * MIB} 0"]
        lines += [line.format(size * MIB) for size in sizes for line in step]
        trace = folder / "repeats.trace"
        trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
        path = folder / "repeats.pickle"
        path.write_bytes(pickle.dumps(record(pleat, str(trace), folder, "--snapshot-at", "end")))
        verdict = judge(pleat, str(path), folder)
        said = verdict["text"]
        assert verdict["recorded"]["is_whole"] == (words is None), f"{name}: {said}"
        assert said["needs"].startswith("at least "), f"{name}: {said}"
        assert (words or "") in said.get("recorded", ""), f"{name}: {said}"
        assert said["advice"].startswith("Record more steps ") == (words is not None), name


def check_devices(pleat, folder):
    """Device 1 has a block of 3 GiB, device 0 one of 1 GiB."""
    traces = [[{"action": "alloc", "addr": 4096, "size": size, "stream": 0}]
              for size in (1024 * MIB, 3072 * MIB)]
    path = folder / "two.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": traces}))
    for options, judged, other in (("", 1, 0), (":device=0", 0, 1)):
        verdict = judge(pleat, f"{path}{options}", folder)
        assert verdict["need_bytes"] == (1024, 3072)[judged] * MIB, verdict["text"]["needs"]
        assert verdict["text"]["device"].startswith(f"device {judged} is judged, ")
        assert verdict["text"]["device"].endswith(f"Type pleat ab '{path}:device={other}'")


def main():
    pleat = sys.argv[1]
    n_parts = n_refused = n_careful = 0
    with tempfile.TemporaryDirectory(prefix="pleat-recorded-") as name:
        folder = pathlib.Path(name)
        check_small_job(pleat, folder)
        check_leak(pleat, folder)
        check_repeats(pleat, folder)
        check_devices(pleat, folder)
        for work, spec in works(folder):
            whole = judge(pleat, spec, folder)
            for cut, snapshot, allocator, may_be_refused in parts(pleat, spec, folder):
                if snapshot is None:
                    continue
                path = folder / "part.pickle"
                path.write_bytes(pickle.dumps(snapshot, protocol=4))
                part = judge(pleat, str(path), folder, (0, 2) if may_be_refused else (0,))
                if part is None:
                    n_refused += 1
                    continue
                check(f"{work}, {cut}", whole, part, allocator)
                assert part["recorded"]["is_whole"] <= (cut.startswith("whole") or
                                                        part["need_bytes"] == whole["need_bytes"])
                n_parts += 1
                n_careful += not part["recorded"]["is_whole"]
                print(f"{work}, {cut}: {part['verdict']}; {part['text']['needs']}")
    print(f"{n_parts} recordings, {n_careful} of them of a part; {n_refused} refused")
    assert n_parts > 40 and n_careful > 25


if __name__ == "__main__":
    main()
