"""Four ranks measure a fleet. One is killed, and all are run again. The merged files equal a single
process's, byte by byte. The test computes fleet.json again from the rows and verdicts, and the
page's figures from fleet.json.

Usage: fleet_ranks.py PLEAT

The ranks are started by mpirun where it is installed, and as four processes with Open MPI's variables
of rank and size."""
import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import report_figures

FILES = ("results.csv", "results.jsonl", "timelines.jsonl", "moments.jsonl", "verdicts.jsonl",
         "fleet.json", "report.html")
N_WORKS, N_RANKS, VICTIM = 12, 4, 2
SKIP = 77
OPTIONS = ("--driver", "sim", "--fit", "--repeat", "2", "--allocator",
           "pleat,torch-native,torch-expandable", "--shard")


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == 1 and "install python3-matplotlib" in result.stderr:
        sys.exit(SKIP)
    assert result.returncode == 0, f"{' '.join(command)}: {result.returncode}\n{result.stderr}"
    return result.stdout


def make_jobs(pleat, folder):
    """Snapshots of several runs. Some runs need more than 24 GB."""
    folder.mkdir()
    for i in range(N_WORKS):
        most = 4096 if i % 5 == 4 else 16 + i
        run(pleat, "replay", f"churn:iterations={3 + i % 4},allocations={20 + 3 * i},most={most}M,"
            f"keep=0.2,seed={i + 1}", "--driver", "sim", "--allocator",
            "torch-expandable" if i % 3 == 0 else "torch-native",
            "--snapshot", str(folder / f"job{i}.pickle"), "--snapshot-at", "end")


class Processes:
    """Four processes with their ranks in the environment."""

    def __init__(self, command):
        self.ranks = [subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"OMPI_COMM_WORLD_RANK": str(rank),
                              "OMPI_COMM_WORLD_SIZE": str(N_RANKS)}) for rank in range(N_RANKS)]

    def kill(self, rank):
        self.ranks[rank].kill()

    def is_over(self):
        return any(rank.poll() is not None for rank in self.ranks)

    def end(self):
        """The statuses, and the output on stderr."""
        said = [rank.communicate()[1] for rank in self.ranks]
        return [rank.returncode for rank in self.ranks], "".join(said)


class Mpirun:
    """mpirun, which ends all ranks after a kill of one."""

    def __init__(self, command):
        as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        self.out = command[command.index("--out") + 1]
        self.process = subprocess.Popen(
            ["mpirun", *as_root, "--oversubscribe", "-n", str(N_RANKS), *command],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def kill(self, rank):
        """The rank's process that is a direct child of mpirun, not a cell."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                variables = (process / "environ").read_bytes().split(b"\0")
                words = (process / "cmdline").read_bytes().split(b"\0")
                parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if (int(parent) == self.process.pid and self.out.encode() in words
                    and f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables):
                os.kill(int(process.name), signal.SIGKILL)
                return
        raise AssertionError(f"rank {rank} is not there")

    def is_over(self):
        return self.process.poll() is not None

    def end(self):
        said = self.process.communicate()[1]
        return [self.process.returncode], said


def n_done(out):
    return sum(part.read_bytes().count(b"\n{\"unit\"") for part in out.glob("*.part"))


def kill_one(launcher, command, out):
    """False: the victim was done before. Each rank has a quarter of the works."""
    shutil.rmtree(out, ignore_errors=True)
    ranks = launcher(command)
    while n_done(out) < N_WORKS // 4 and not ranks.is_over():
        time.sleep(0.005)
    if (out / f"shard-{VICTIM:05}-of-{N_RANKS:05}.jsonl").exists():
        ranks.end()
        return False
    ranks.kill(VICTIM)
    return any(ranks.end()[0])


def measure_killing(launcher, pleat, jobs, out):
    """Returns how many works the killed rank and the others had done."""
    command = [pleat, "ab", str(jobs / "*.pickle"), "--out", str(out), *OPTIONS, "auto"]
    assert any(kill_one(launcher, command, out) for _ in range(5)), "nobody could be killed"
    merged = subprocess.run([pleat, "ab", "--merge", str(out)], capture_output=True, text=True,
                            check=False)
    assert merged.returncode == 2 and "missing: " in merged.stderr, merged.stderr
    assert f" {VICTIM}" in merged.stderr, merged.stderr
    kept = n_done(out) + sum(one.read_bytes().count(b"\n{\"unit\"") for one in
                             out.glob("shard-*.jsonl"))
    statuses, said = launcher(command).end()
    assert not any(statuses), said
    assert len(list(out.glob("shard-*-of-00004.jsonl"))) == N_RANKS
    assert not list(out.glob("*.part")), "parts are left"
    return kept


def quantile(values, percent):
    return sorted(values)[max(1, -(-percent * len(values) // 100)) - 1]


def check_quantiles(found, values):
    assert found["jobs"] == len(values) and found["sum"] == sum(values)
    for key, percent in (("least", 0), ("p10", 10), ("p25", 25), ("median", 50), ("p75", 75),
                         ("p90", 90), ("most", 100)):
        assert found[key] == quantile(values, percent), key


def compare_setting(found, verdicts, labels):
    """The figures of one setting, from the verdicts."""
    name = found["allocator"]
    held = saved = compared = smaller = larger = 0
    places = collections.Counter()
    for verdict in verdicts:
        order = [d["label"] for d in verdict["devices"]]
        settings = {s["allocator"]: s for s in verdict["settings"]}
        mine, now = settings[name], settings.get(verdict["in_force"])
        held += mine["held_bytes"] or 0
        if mine["device"] or (mine["on"] and all(on is False for on in mine["on"])):
            places[mine["device"]] += 1
        if now:
            rank = [order.index(s["device"]) if s["device"] else len(order) for s in (mine, now)]
            smaller += rank[0] < rank[1]
            larger += rank[0] > rank[1]
            if mine["held_bytes"] and now["held_bytes"]:
                saved += now["held_bytes"] - mine["held_bytes"]
                compared += 1
    assert (found["held_bytes"], found["saved_bytes"], found["n_compared"]) == \
        (held, saved, compared), name
    assert (found["n_smaller"], found["n_larger"], found["n_nowhere"]) == \
        (smaller, larger, places[None]), name
    assert found["smallest"] == [places[label] for label in labels], name


def check_fleet(out):
    """Recompute fleet.json and return it."""
    fleet = json.loads((out / "fleet.json").read_text(encoding="utf-8"))
    verdicts = report_figures.lines(out / "verdicts.jsonl")
    rows = report_figures.lines(out / "results.jsonl")
    needs = [v["need_bytes"] for v in verdicts]
    assert fleet["fleet"] == fleet["measured"] == len(verdicts) == N_WORKS
    assert dict(fleet["advice"]) == dict(collections.Counter(v["verdict"] for v in verdicts))
    assert fleet["in_part"] == sum(not v["recorded"]["is_whole"] for v in verdicts)
    check_quantiles(fleet["need"], needs)
    for one in fleet["bins"]:
        assert one["jobs"] == sum(one["above"] < n <= one["to"] for n in needs)
    assert sum(one["jobs"] for one in fleet["bins"]) == N_WORKS
    sizes, devices = fleet["devices"][:fleet["n_sizes"]], fleet["devices"]
    done = {(v["work"], s["allocator"], d["label"]): outcome
            for v in verdicts for s in v["settings"] for kind, of in (("on", "devices"),
                                                                     ("near", "near"))
            for outcome, d in zip(s[kind], v[of])}
    names = [s["allocator"] for s in fleet["settings"]]
    alone = [{"work": v["work"], "allocator": good[0], "device": d} for v in verdicts
             for d in devices
             for good in [[a for a in names if done[v["work"], a, d]]] if len(good) == 1]
    assert fleet["only_jobs"] == alone and alone, "no job that only one completes"
    for found in fleet["settings"]:
        name = found["allocator"]
        compare_setting(found, verdicts, sizes)
        assert found["completes"] == [sum(done[v["work"], name, d] for v in verdicts)
                                      for d in devices]
        assert found["only"] == [sum((o["allocator"], o["device"]) == (name, d) for o in alone)
                                 for d in devices]
        check_quantiles(found["least"], list({r["trace"]: r["least_memory_bytes"] for r in rows
                                              if r["allocator"] == name}.values()))
    return fleet


def check_page(out, fleet):
    """Every marked figure of the fleet's own sections says what fleet.json says."""
    marks = report_figures.Marks()
    marks.feed((out / "report.html").read_text(encoding="utf-8"))
    by_name = {s["allocator"]: s for s in fleet["settings"]}
    seen = collections.Counter()
    for mark, text in marks.figures:
        key, name = mark["data-f"], mark.get("data-a")
        value = {"jobs": lambda: fleet["fleet"], "need": lambda: fleet["need"][mark["data-q"]]
                 if "data-q" in mark else next(v["need_bytes"] for v in report_figures.lines(
                     out / "verdicts.jsonl") if v["work"] == mark["data-w"]),
                 "in_part": lambda: fleet["in_part"],
                 "bin": lambda: fleet["bins"][int(mark["data-n"])]["jobs"],
                 "advice": lambda: fleet["advice"][mark["data-q"]],
                 "least": lambda: by_name[name]["least"][mark["data-q"]],
                 "held": lambda: by_name[name]["held_bytes"],
                 "saved": lambda: by_name[name]["saved_bytes"],
                 "completes": lambda: by_name[name]["completes"][int(mark["data-n"])],
                 "only": lambda: by_name[name]["only"][int(mark["data-n"])],
                 "own": lambda: next(v["own_held_bytes"] for v in report_figures.lines(
                     out / "verdicts.jsonl") if v["work"] == mark["data-w"])}.get(
                         key, lambda: by_name[name][key])()
        number = float(text.replace(",", "").replace("−", "-").split()[0])
        unit = 1 << 30 if "GiB" in text else 1 << 20 if "MiB" in text else 1
        room = 0.0051 * unit if unit == 1 << 30 else 0.051 * unit if unit > 1 else 0
        assert abs(number * unit - value) <= room, f"{mark}: {text}, not {value}"
        seen[key] += 1
    assert len(seen) >= 10 and sum(seen.values()) > 100, seen
    return sum(seen.values())


def damaged(lines):
    """Variants of a shard after changes by a person or a disk: name and lines."""
    def changed(change):
        copy = json.loads(json.dumps(lines))
        change(copy)
        return copy

    def alternate(copy):
        rows = [row | {"least_memory_bytes": 1 << 24} for row in copy[1]["results"]]
        copy[1]["results"] = [rows[i % 2 * (len(rows) - 1)] for i in range(20000)]
    return {
        "a label that is no text": changed(
            lambda c: c[1]["verdict"]["devices"][0].update(label=5)),
        "results without end": changed(alternate),
        "an allocator without a name": changed(
            lambda c: c[0]["settings"]["allocators"].__setitem__(0, None)),
        "a line twice": lines + [lines[1]],
        "other types": changed(lambda c: c[1].update(results=7, verdict=[], csv=3)),
    }


def check_damage(pleat, jobs, folder):
    """A merge of the changed shard reports the fault or copes. It never crashes."""
    run(pleat, "ab", str(jobs / "job0.pickle"), *OPTIONS, "0/1", "--out", str(folder))
    name = "shard-00000-of-00001.jsonl"
    lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    for what, changed in damaged(lines).items():
        out = pathlib.Path(tempfile.mkdtemp(dir=folder))
        (out / name).write_text("".join(json.dumps(line) + "\n" for line in changed))
        ended = subprocess.run([pleat, "ab", "--merge", str(out), "--no-report"], check=False,
                               capture_output=True, text=True)
        assert ended.returncode in (0, 1, 2), f"{what}: {ended.returncode}\n{ended.stderr}"


def main():
    pleat = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="pleat-fleet-") as name:
        folder = pathlib.Path(name)
        make_jobs(pleat, folder / "jobs")
        run(pleat, "ab", str(folder / "jobs" / "*.pickle"), "--out", str(folder / "one"), *OPTIONS,
            "0/1")
        run(pleat, "ab", "--merge", str(folder / "one"))
        n_figures = check_page(folder / "one", check_fleet(folder / "one"))
        print(f"fleet.json is what its rows say, the page's {n_figures} figures too")
        check_damage(pleat, folder / "jobs", folder / "damage")
        launchers = {"processes": Processes}
        if shutil.which("mpirun"):
            launchers["mpirun"] = Mpirun
        else:
            print("no mpirun here (openmpi-bin)")
        for kind, launcher in launchers.items():
            out = folder / kind
            kept = measure_killing(launcher, pleat, folder / "jobs", out)
            run(pleat, "ab", "--merge", str(out))
            for file in FILES:
                assert (out / file).read_bytes() == (folder / "one" / file).read_bytes(), file
            print(f"{kind}: a rank was killed when {kept} of {N_WORKS} works were done; after "
                  f"another run all {len(FILES)} files are the same")


if __name__ == "__main__":
    main()
