# labels: python
# needs: torch
"""bench/gpu/run.py without a GPU: its phases on the simulated driver and, with the real PyTorch, on
the simulated runtime. It continues where it was stopped, and tells bad results from good ones."""
import contextlib
import csv
import functools
import importlib
import io
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import types

import pytest

ROOT = pathlib.Path(os.environ.get("PLEAT_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("PLEAT_BUILD_DIR", ROOT / "build"))
GPU = ROOT / "bench" / "gpu"
sys.path.insert(0, str(GPU))

import acceptance               # noqa: E402
import cells                    # noqa: E402
import child                    # noqa: E402
import contents                 # noqa: E402
import ledger                   # noqa: E402
import run as command           # noqa: E402
import search                   # noqa: E402
from phases import pytorch, suites  # noqa: E402

PLAIN = "[2vlg]*"               # the cells of these phases that need no PyTorch
PLAIN_PHASES = ("--phases", "handles,suites,traces", "--cells", PLAIN)
MIB = 1 << 20


def run(out, *more, build=BUILD):
    return subprocess.run(
        [sys.executable, "-B", GPU / "run.py", "--build", build, "--out", out, "--simulate",
         "--scale", "tiny", "--rounds", "1", *more],
        capture_output=True, text=True, check=False)


def rows_of(out):
    return ledger.read_rows(out / "gpu.csv")[1]


def by_allocator(out, phase):
    return {row["allocator"]: row for row in rows_of(out) if row["phase"] == phase}


# ---- the phases that need no PyTorch -----------------------------------------------------------

def test_probe_suites_and_traces_come_to_a_row_each(tmp_path):
    ended = run(tmp_path, "--phases", "probe,suites,traces,costs")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = rows_of(tmp_path)
    assert [row["status"] for row in rows] == ["ok"] * len(rows)
    assert [row["phase"] for row in rows] == [
        "probe", *["suites"] * 3, *["traces"] * 4, "costs", *["traces"] * 4]
    assert "cuMemCreate call" in (tmp_path / "simulated.cost").read_text()
    replayed = [row for row in rows if row["phase"] == "traces"]
    assert {row["allocator"] for row in replayed} == {
        "pleat", "torch-native", "torch-expandable", "cuda-async"}
    for row in replayed:
        assert int(row["peak_reserved_bytes"]) > 0 and int(row["hazards"]) == 0
        assert (row["ooms"] == "0") == (row["detail"] == "")
    assert ledger.read_rows(tmp_path / "gpu.csv")[0][0].startswith("gpu: SIMULATED")


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def is_running(pid):
    """Whether the process runs. A zombie does not: the heir of an orphan may never reap it."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def build_with_suite(folder, text):
    """A build whose first suite is a script; everything else is as usual."""
    folder.mkdir()
    for name in ("pleat", "libpleat.so.0", "libpleat_sim.so"):
        (folder / name).symlink_to(BUILD / name)
    program(folder / "vmm_gpu_test", text)
    return folder


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path):
    mark, out = tmp_path / "mark", tmp_path / "out"
    build = build_with_suite(tmp_path / "build", f"echo $$ > {mark}; exec sleep 600")
    started = subprocess.Popen(
        [sys.executable, "-B", GPU / "run.py", "--build", build, "--out", out, "--simulate",
         "--scale", "tiny", "--rounds", "1", *PLAIN_PHASES],
        stdout=subprocess.DEVNULL)
    while not mark.exists() or not mark.read_text().strip():
        assert started.poll() is None
        time.sleep(0.01)
    started.send_signal(signal.SIGTERM)
    assert started.wait() == 130
    assert not is_running(int(mark.read_text()))
    assert [row["cell"] for row in rows_of(out)] == ["2 MiB"]
    path = out / "gpu.csv"
    kept = path.read_bytes()
    path.write_bytes(kept + b"suites,half a r")     # as after a crash
    program(build / "vmm_gpu_test", "exit 0")
    assert run(out, *PLAIN_PHASES, build=build).returncode == 0
    assert path.read_bytes().startswith(kept)
    table = [line for line in path.read_text().splitlines(True) if not line.startswith("#")]
    names = [(row["phase"], row["cell"]) for row in csv.DictReader(io.StringIO("".join(table)))]
    assert len(names) == len(set(names)) == 11
    whole = path.read_bytes()
    assert run(out, *PLAIN_PHASES, build=build).returncode == 0 and path.read_bytes() == whole


@pytest.mark.parametrize("option", ["--limit-s", "--stop-after-s"])
def test_cells_that_cannot_end_in_time_are_not_started(tmp_path, option):
    ended = run(tmp_path, "--phases", "traces", option, "10")
    assert ended.returncode == 1 and "8 cells were left" in ended.stdout
    assert rows_of(tmp_path) == []


def test_a_failing_cell_is_recorded_and_the_rest_goes_on(tmp_path):
    build = build_with_suite(
        tmp_path / "build", "echo '83%: Checks: 6, Failures: 1, Errors: 0'; kill -SEGV $$")
    out = tmp_path / "out"
    ended = run(out, "--phases", "suites,traces", "--cells", "[vg]*", build=build)
    assert ended.returncode == 1 and "1 failed" in ended.stdout
    rows = rows_of(out)
    assert [row["cell"] for row in rows if row["status"] != "ok"] == ["vmm_gpu_test memory"]
    assert rows[0]["problem"].startswith("signal 11")
    assert rows[0]["detail"] == "83%: Checks: 6, Failures: 1, Errors: 0"
    assert len(rows) == 9
    program(build / "vmm_gpu_test", "exit 77")
    assert run(out, "--phases", "suites", "--cells", "v*", build=build).returncode == 1
    assert run(out, "--phases", "suites", "--cells", "v*", "--retry", build=build).returncode == 0
    assert rows_of(out)[0]["status"] == "skipped"


def test_a_cell_that_does_not_end_is_stopped_with_all_that_it_started(tmp_path):
    mark, limit_s, ended = tmp_path / "mark", 1, None
    while not ended or not ended.output:        # until a phase had time to start
        ended = child.run(["sh", "-c", f"(trap '' TERM; sleep 600; touch {mark}) & echo $!; wait"],
                          {}, tmp_path, limit_s)
        limit_s *= 4
    assert ended.was_stopped
    assert not is_running(int(ended.output)) and not mark.exists()


def test_cells_see_the_folders_that_are_there_and_no_settings_of_the_shell(tmp_path, monkeypatch):
    """A driver or PyTorch may not be found without the folders; settings change the figures."""
    for name, value in (("LD_LIBRARY_PATH", "/there"), ("PYTHONPATH", "/there"),
                        ("PLEAT_CONF", "driver:sim"), ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"),
                        ("CUDA_LAUNCH_BLOCKING", "1"), ("LD_PRELOAD", "libpleat_runtime.so")):
        monkeypatch.setenv(name, value)
    seen = child.run(["env"], {"LD_LIBRARY_PATH": "/own", "PLEAT_LIBRARY": "/own"}, tmp_path, 60)
    lines = set(seen.output.splitlines())
    assert {"LD_LIBRARY_PATH=/own:/there", "PYTHONPATH=/there", "PLEAT_LIBRARY=/own"} <= lines
    assert not {line.split("=")[0] for line in lines} & {
        "PLEAT_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "CUDA_LAUNCH_BLOCKING", "LD_PRELOAD"}
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    seen = child.run(["env"], {"LD_LIBRARY_PATH": "/own"}, tmp_path, 60)
    assert "LD_LIBRARY_PATH=/own" in seen.output.splitlines()


def test_a_cell_that_was_stopped_keeps_what_it_had_found():
    cell = cells.Cell("batch", "pleat", ("true",), 9, known={"allocator": "pleat"},
                      read=pytorch.read)
    said = '{"tries": 1, "largest_batch": 32}\nbatch 64: completes, 2.0 s\n' \
           '{"tries": 2, "largest_batch": 64}\nbatch 128: ou'
    row = command.row_of(cell, child.Ended(-9, said, "", 9.0, True))
    assert row == {"phase": "batch", "cell": "pleat", "allocator": "pleat", "seconds": 9.0,
                   "status": "stopped", "problem": "ran past 9 s", "tries": 2,
                   "largest_batch": 64}
    assert "largest_batch" not in command.row_of(cell, child.Ended(-9, "", "", 9.0, True))


def test_bytecode_is_kept_with_the_results_where_pytorch_has_none(tmp_path, monkeypatch):
    setup = types.SimpleNamespace(python=sys.executable, out=tmp_path, build=BUILD,
                                  is_simulated=False)
    monkeypatch.setattr(pytorch, "is_compiled", lambda _python: False)
    given = pytorch.environment_of(setup)
    ended = child.run([sys.executable, "-c", "import calendar"],
                      {**given, "PYTHONHASHSEED": "0"}, tmp_path, 60)
    assert ended.status == 0 and list((tmp_path / "pycache").rglob("calendar*.pyc"))
    monkeypatch.setattr(pytorch, "is_compiled", lambda _python: True)
    given = pytorch.environment_of(setup)
    assert given["PYTHONDONTWRITEBYTECODE"] == "1" and "PYTHONPYCACHEPREFIX" not in given


def test_a_graph_is_computed_once_before_it_is_captured():
    """The first launch of a kernel loads it, which a capture may forbid."""
    said = []

    class Value:
        def __mul__(self, _other):
            said.append("compute")
            return self
        __add__ = __mul__

        def sum(self, **_options):
            return self

    @contextlib.contextmanager
    def graph(_graph):
        said.append("capture")
        yield

    cuda = types.SimpleNamespace(CUDAGraph=object, graph=graph,
                                 synchronize=lambda: said.append("wait"))
    contents.captured(types.SimpleNamespace(zeros=lambda *_, **__: Value(), cuda=cuda))
    assert said == ["compute", "compute", "wait", "capture", "compute", "compute"]


def test_rows_of_two_machines_never_share_a_file(tmp_path):
    path = tmp_path / "gpu.csv"
    table = ledger.Ledger(path, ["gpu: A", "build: 1"])
    table.add({"phase": "probe", "cell": "costs", "status": "ok", "seconds": 1.0})
    table.close()
    kept = path.read_bytes()
    with pytest.raises(ledger.OtherRun, match="gpu: A.*gpu: B"):
        ledger.Ledger(path, ["gpu: B", "build: 1"])
    assert path.read_bytes() == kept
    ledger.Ledger(path, ["gpu: A", "build: 1", "commit: later"]).close()
    assert path.read_bytes() == kept


def test_another_machine_of_the_kind_goes_on_and_is_told(tmp_path):
    """Machines of one kind may differ in the release of their Linux kernel."""
    path = tmp_path / "gpu.csv"
    notes = ["gpu: A", "machine: X, Linux 6.1"]
    for again, expected in ((notes, 1), (["gpu: A", "machine: X, Linux 6.2"], 2),
                            (["gpu: A", "machine: X, Linux 6.2"], 2)):
        table = ledger.Ledger(path, again)
        table.add({"phase": "probe", "cell": "torch", "status": "ok", "seconds": 1.0})
        table.close()
        found, rows = ledger.read_rows(path)
        assert len([note for note in found if note.startswith("machine: ")]) == expected
        assert len(rows) == 1 and rows[0]["status"] == "ok"
    assert found == [*notes, "machine: X, Linux 6.2"]


def test_a_file_with_other_columns_is_not_gone_on_with(tmp_path):
    path = tmp_path / "gpu.csv"
    ledger.Ledger(path, ["gpu: A"]).close()
    kept = path.read_text().replace(",least_failed_batch", "")
    path.write_text(kept)
    with pytest.raises(ledger.OtherRun, match="other columns"):
        ledger.Ledger(path, ["gpu: A"])
    assert path.read_text() == kept


def test_the_plan_can_be_looked_at_without_running_it(tmp_path):
    listed = run(tmp_path, "--list").stdout
    assert listed.count("to run") == len(listed.splitlines()) > 30
    phases = [line.split()[0] for line in listed.splitlines()]
    first = phases[:phases.index("moe") - 2]        # without lora and gpt2 of the second turn
    assert list(dict.fromkeys(first)) == ["handles", "stalls", "probe", "takes", "captures",
                                          "lora", "gpt2", "suites", "traces", "costs"]
    chosen = run(tmp_path, "--list", "--phases", "batch,moe", "--allocators", "pleat-8m,pleat")
    assert [line.split()[:2] for line in chosen.stdout.splitlines()] == [
        ["moe", "pleat"], ["batch", "pleat"], ["moe", "pleat-8m"], ["batch", "pleat-8m"]]
    shown = run(tmp_path, "--dry-run", "--phases", "batch").stdout
    assert "--allocator pleat --scale tiny --search-batch" in shown
    assert not (tmp_path / "gpu.csv").exists()


def order_of(tmp_path, phase, *more):
    """The allocators of a phase, round by round, in the order in which they run."""
    listed = run(tmp_path, "--list", "--phases", phase, "--rounds", "2", *more).stdout
    rounds = {}
    for line in listed.splitlines():
        allocator, number = line.split()[1:3]
        rounds.setdefault(number, []).append(allocator)
    return [rounds[number] for number in sorted(rounds)]


def test_no_allocator_always_runs_after_the_same_others(tmp_path):
    same = ("--allocators", "native,expandable,pleat,pleat-8m")
    forwards = ["native", "expandable", "pleat", "pleat-8m"]
    assert order_of(tmp_path, "lora", *same) == [forwards, forwards[::-1]]
    assert order_of(tmp_path, "gpt2", *same) == [forwards[::-1], forwards]


def test_larger_chunks_are_tried_in_the_first_turn(tmp_path):
    listed = run(tmp_path, "--list", "--phases", "lora,gpt2").stdout.splitlines()
    first = [line.split()[1] for line in listed[:10]]
    assert sorted(first) == sorted(2 * ["native", "expandable", "pleat", "pleat-8m", "pleat-32m"])


def test_the_readme_has_the_plan_as_the_tool_prints_it():
    ended = subprocess.run(
        [sys.executable, "-B", GPU / "run.py", "--build", BUILD, "--plan"],
        capture_output=True, text=True, check=True)
    assert ended.stdout.count("together") == 4
    assert ended.stdout in (GPU / "README.md").read_text()


def test_every_row_is_mirrored_at_once(tmp_path):
    mark, out, mirror = tmp_path / "mark", tmp_path / "out", tmp_path / "back"
    build = build_with_suite(
        tmp_path / "build", f"cp {mirror}/gpu.csv {mark} && ls {mirror} >> {mark}")
    ended = run(out, "--mirror", mirror, "--phases", "handles,suites,costs", "--cells",
                "[2vc]*", build=build)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    seen = mark.read_text()
    assert "handles,2 MiB,ok" in seen and "driver.json" in seen
    assert {path.name for path in mirror.iterdir()} == {
        "gpu.csv", "gpu.log", "driver.json", "probe.json", "simulated.cost"}
    assert (mirror / "gpu.csv").read_bytes() == (out / "gpu.csv").read_bytes()


def test_a_new_folder_begins_with_what_was_mirrored(tmp_path):
    mirror, plan = tmp_path / "back", ("--phases", "handles", "--cells", "2*")
    assert run(tmp_path / "first", "--mirror", mirror, *plan).returncode == 0
    kept = (mirror / "gpu.csv").read_bytes()
    ended = run(tmp_path / "second", "--mirror", mirror, *plan)
    assert ended.returncode == 0 and " ok " not in ended.stdout, "it ran again"
    assert (tmp_path / "second" / "gpu.csv").read_bytes() == kept
    assert (mirror / "gpu.csv").read_bytes() == kept


def test_a_mirror_that_fails_stops_nothing(tmp_path, capsys):
    (tmp_path / "gpu.csv").write_text("a row")
    command.mirror(types.SimpleNamespace(out=tmp_path), tmp_path / "gone")
    assert "not mirrored" in capsys.readouterr().out


def test_each_case_of_the_gpu_suites_is_a_cell():
    for program, cases in suites.CASES.items():
        source = (ROOT / "tests" / f"{program.replace('_', '/', 1)}.c").read_text()
        assert re.findall(r'tcase_create\("(\w+)"\)', source) == list(cases)


@pytest.mark.parametrize(("flags", "why"), [
    (["-S"], "there is no PyTorch"),            # python sees no installed packages
    ([], "PyTorch sees no GPU"),
])
def test_what_cannot_run_here_says_why(flags, why):
    ended = subprocess.run(
        [sys.executable, *flags, "-B", GPU / "describe.py"], capture_output=True, text=True,
        check=False, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert pytorch.read(ended.stdout) == {"status": "skipped", "problem": why}


# ---- the checks of results ---------------------------------------------------------------------

def good_rows():
    rows = [{"phase": phase, "cell": phase, "status": "ok"} for phase in ("suites", "takes")]
    for model in acceptance.MODELS:
        for allocator in (*acceptance.PYTORCH, "pleat"):
            rows.append({"phase": model, "allocator": allocator, "status": "ok",
                         "steps_per_second": "10", "peak_allocated_bytes": str(10000 * MIB),
                         "peak_reserved_bytes": str(10300 * MIB), "loss_last": "5.0",
                         "driver_peak_bytes": str(10400 * MIB)})
    rows += [{"phase": phase, "allocator": name, "status": "ok", "largest_batch": "90"}
             for phase in acceptance.BATCHES for name in (*acceptance.PYTORCH, "pleat")]
    whole = dict.fromkeys(ledger.COLUMNS, "")
    return [{**whole, **row} for row in rows]


def verdicts(rows):
    return {line.what: line.verdict for line in acceptance.check(rows)}


def test_good_rows_pass():
    assert set(verdicts(good_rows()).values()) == {"PASS"}


def test_a_largest_batch_says_how_finely_was_looked():
    rows = [{**row, "least_failed_batch": "92" if row["phase"] == "batch_lora" else "91"}
            if row["largest_batch"] else row for row in good_rows()]
    said = {line.what.split(":")[0]: line.found for line in acceptance.check(rows)}
    assert said["batch_lora"].endswith("; to within 2") and "within" not in said["batch"]


@pytest.mark.parametrize(("phase", "change", "what", "says"), [
    ("gpt2", {"steps_per_second": "9.7"}, "gpt2: steps per second", "short by 1.00 %"),
    ("lora", {"peak_reserved_bytes": str(10365 * MIB)}, "lora: peak reserved", "short by 1 MiB"),
    ("moe", {"driver_peak_bytes": str(10465 * MIB)}, "moe: held beyond what pleat says",
     "short by 1 MiB"),
    ("moe", {"loss_last": "5.2"}, "moe: last loss", "short by 4.00 % apart"),
    ("moe", {"loss_last": "nan"}, "moe: last loss", "short by nan % apart"),
    ("gpt2", {"status": "failed", "problem": "out of memory"},
     "gpt2: pleat completes every run", "short by 1: out of memory"),
    ("batch", {"largest_batch": "88"}, "batch: largest before out-of-memory",
     "short by 2 sequences"),
])
def test_what_falls_short_is_told_with_how_much(phase, change, what, says):
    rows = good_rows()
    for row in rows:
        if row["phase"] == phase and row["allocator"] == "pleat":
            row.update(change)
    found = verdicts(rows)
    assert found[what] == says
    if change.get("status") != "failed":
        assert [v for v in found.values() if v != "PASS"] == [says]


def test_what_was_not_measured_is_not_said_to_pass():
    assert set(verdicts([]).values()) == {acceptance.NOT_MEASURED}
    without_time = [{**row, "steps_per_second": "", "loss_last": ""} for row in good_rows()]
    found = verdicts(without_time)
    assert found["gpt2: steps per second"] == acceptance.NOT_MEASURED
    assert found["gpt2: peak reserved"] == "PASS"


def test_a_report_that_falls_short_says_so_by_its_exit_status(tmp_path):
    table = ledger.Ledger(tmp_path / "gpu.csv", ["gpu: A"])
    for number, row in enumerate(good_rows()):
        filled = {key: value for key, value in row.items() if value}
        table.add({**filled, "cell": str(number), "seconds": 1.0,
                   **({"largest_batch": "1"} if row["allocator"] == "pleat" else {})})
    table.close()
    ended = subprocess.run([sys.executable, "-B", GPU / "report.py", tmp_path / "gpu.csv"],
                           capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and "short by 89 sequences" in ended.stdout


@pytest.mark.parametrize(("pleat", "expandable", "verdict"), [
    (("bound", "90", "96"), ("ok", "90", "91"), "PASS"),
    (("stopped", "90", ""), ("ok", "90", "91"), "PASS"),
    (("ok", "90", "91"), ("bound", "88", "91"), "PASS"),
    (("ok", "90", "91"), ("bound", "88", "96"), acceptance.NOT_MEASURED),
    (("ok", "90", "91"), ("stopped", "88", ""), acceptance.NOT_MEASURED),
    (("bound", "80", "96"), ("ok", "90", "91"), acceptance.NOT_MEASURED),
    (("bound", "80", "88"), ("ok", "90", "91"), "short by 3 sequences or more"),
    (("failed", "90", "96"), ("ok", "90", "91"), acceptance.NOT_MEASURED),
])
def test_bounds_of_a_search_count_for_what_they_are(pleat, expandable, verdict):
    rows = good_rows()
    keys = ("status", "largest_batch", "least_failed_batch")
    for row in rows:
        if row["phase"] == "batch" and row["allocator"] in ("pleat", "expandable"):
            row.update(zip(keys, pleat if row["allocator"] == "pleat" else expandable))
    assert verdicts(rows)["batch: largest before out-of-memory"] == verdict


# ---- the search --------------------------------------------------------------------------------

@pytest.mark.parametrize("least_bad", [1, 2, 3, 32, 33, 95, 96, 97, 1000])
def test_the_search_finds_the_last_batch_that_completes(least_bad):
    found = search.largest(lambda batch: batch < least_bad, 32)
    assert (found.good, found.bad) == (least_bad - 1, least_bad) and found.tries <= 20


@pytest.mark.parametrize(("least_bad", "good"), [(93, 92), (94, 92), (95, 94), (2, 1)])
def test_a_coarser_search_ends_on_the_same_grid(least_bad, good):
    found = search.largest(lambda batch: batch < least_bad, 32, gap=2)
    assert found.good == good < found.bad <= good + 2


@pytest.mark.parametrize(("least_bad", "known"), [
    (1000, (32, None, 3)),              # stops after 8 + 16 + 32: 64 would take too long
    (30, (24, 32, 4)),                  # stops after 8 + 16 + 32 + 24
])
def test_no_try_is_begun_that_would_not_end_in_time(monkeypatch, least_bad, known):
    clock = [0]
    told = []

    def completes(batch):
        clock[0] += batch
        return batch < least_bad

    monkeypatch.setattr(search, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    found = search.largest(completes, 8, end=100, tell=lambda found: told.append(found.tries))
    assert (found.good, found.bad, found.tries) == known
    assert told == list(range(1, found.tries + 1)) and not found.is_within(1)


@pytest.fixture
def train(monkeypatch):
    """The module train.py, with trainers of the test that fail above some batch."""
    monkeypatch.setattr(sys, "argv", ["train.py", "--model", "gpt2", "--allocator", "native",
                                      "--scale", "tiny", "--device", "cpu"])
    monkeypatch.delitem(sys.modules, "train", raising=False)
    module = importlib.import_module("train")
    yield module
    del sys.modules["train"]


def broken_above(most, words):
    class Trainer:
        def __init__(self, _run, batch, _device, _seed):
            self.batch = batch
            self.optimizer = types.SimpleNamespace(zero_grad=lambda set_to_none: None)

        def step(self, _length):
            if self.batch > most:
                raise RuntimeError(words)
    return Trainer


ALLOC_FAILED = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\nmore"


def find(train, most, words):
    out = {}
    train.Trainer = broken_above(most, words)
    meter = types.SimpleNamespace(**dict.fromkeys(("sample", "synchronize", "empty"), lambda: None))
    train.find_largest(train.RUNS["gpt2", "tiny"], meter, None, out)
    return out


def test_lack_of_memory_in_other_words_ends_a_try_and_not_the_search(train, capsys):
    out = find(train, 9, ALLOC_FAILED)
    first = ALLOC_FAILED.splitlines()[0]
    assert out == {"tries": 6, "largest_batch": 9, "least_failed_batch": 10,
                   "detail": f"batch 10: {first}"}
    lines = capsys.readouterr().out.splitlines()
    assert f"batch 16: {first}" in lines
    assert [json.loads(line)["tries"] for line in lines if line[0] == "{"] == [1, 2, 3, 4, 5, 6]


def test_what_fails_before_anything_has_worked_is_an_error(train):
    with pytest.raises(RuntimeError, match="CUBLAS_STATUS_ALLOC_FAILED"):
        find(train, 0, ALLOC_FAILED)
    assert find(train, 0, "CUDA out of memory.")["largest_batch"] == 0


def test_what_a_library_lacked_gets_a_try_with_nothing_kept(train):
    """The allocator still holds memory of an earlier try, which the library needs."""
    kept = []

    class Trainer(broken_above(9, "")):
        def step(self, _length):
            if any(batch != self.batch for batch in kept):
                raise RuntimeError(ALLOC_FAILED)
            if self.batch > 9:
                raise train.torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 MiB")
            kept.append(self.batch)

    meter = types.SimpleNamespace(sample=lambda: None, synchronize=lambda: None, empty=kept.clear)
    train.options.allocator = "pleat"
    train.Trainer, out = Trainer, {}
    train.find_largest(train.RUNS["gpt2", "tiny"], meter, None, out)
    assert out == {"tries": 6, "largest_batch": 9, "least_failed_batch": 10}


@pytest.mark.parametrize(("allocator", "times"), [("pleat", 0), ("expandable", 0), ("native", 6)])
def test_memory_is_kept_between_tries_where_chunks_can_be_moved(train, allocator, times):
    emptied = []
    train.Trainer = broken_above(9, "")
    train.Trainer.step = lambda self, _length: None if self.batch <= 9 else (_ for _ in ()).throw(
        train.torch.OutOfMemoryError("CUDA out of memory"))
    meter = types.SimpleNamespace(sample=lambda: None, synchronize=lambda: None,
                                  empty=lambda: emptied.append(1))
    train.options.allocator = allocator
    out = {}
    train.find_largest(train.RUNS["gpt2", "tiny"], meter, None, out)
    assert out["largest_batch"] == 9 and out["tries"] == 6 and len(emptied) == times


def test_nothing_is_sampled_while_the_clock_runs(train):
    said = []
    train.Trainer = lambda *_: types.SimpleNamespace(
        step=lambda _length: said.append("step") or types.SimpleNamespace(item=lambda: 0.0))
    meter = types.SimpleNamespace(synchronize=lambda: said.append("wait"), driver_us=lambda: None,
                                  sample=lambda: said.append("sample"))
    run_of_it, out = train.RUNS["gpt2", "tiny"], {}
    train.measure(run_of_it, meter, None, out)
    begin = said.index("wait")
    assert said[:begin] == ["step", "sample"] * run_of_it.warm_up
    assert said[begin:] == ["wait", *["step"] * run_of_it.steps, "wait", "sample"]
    assert "driver_us" not in out and out["steps_per_second"] > 0


def test_the_longest_step_is_among_those_of_a_try(train):
    for (model, scale), run_of_it in train.RUNS.items():
        drawn = train.lengths.drawn(run_of_it, train.TRY_STEPS, train.SEED)
        assert drawn[-1] == max(drawn) == run_of_it.longest, (model, scale)


def test_a_search_without_time_says_what_it_knows(train):
    train.options.limit_s = -1
    assert find(train, 9, ALLOC_FAILED) == {
        "largest_batch": 0, "status": "bound", "problem": "time ran out"}


# ---- training on the CPU: the losses are right, the other figures mean nothing ------------------

@functools.cache
def trained(model, _turn=1):
    ended = subprocess.run(
        [sys.executable, "-B", GPU / "train.py", "--model", model, "--allocator", "native",
         "--scale", "tiny", "--device", "cpu", "--steps", "2"],
        capture_output=True, text=True, check=True)
    return cells.last_object(ended.stdout)


@pytest.mark.parametrize("model", acceptance.MODELS)
def test_a_model_that_knows_nothing_yet_guesses_evenly(model):
    figures = trained(model, 1)
    assert figures["loss_first"] == pytest.approx(math.log(512), rel=0.02)
    assert figures["steps"] == 4 and figures["steps_per_second"] > 0


def test_equal_seeds_give_equal_losses():
    assert trained("gpt2", 1)["loss_last"] == trained("gpt2", 2)["loss_last"]


# ---- the phases of PyTorch, on the simulated runtime -------------------------------------------

@pytest.fixture
def runtime():
    if not (BUILD / "libpleat_runtime.so").exists():
        pytest.skip("the simulated runtime is not built")


@pytest.mark.usefixtures("runtime")
def test_each_model_trains_under_each_allocator(tmp_path):
    ended = run(tmp_path, "--phases", "gpt2", "--memory", "8G")
    ended_rest = run(tmp_path, "--phases", "lora,moe", "--memory", "8G", "--cells", "pleat *")
    assert ended.returncode == ended_rest.returncode == 0, ended.stdout + ended_rest.stdout
    found = by_allocator(tmp_path, "gpt2")
    assert set(found) == {"native", "expandable", "async", "pleat", "pleat-8m", "pleat-32m",
                          "pleat-frugal"}
    for row in [*found.values(), by_allocator(tmp_path, "lora")["pleat"],
                by_allocator(tmp_path, "moe")["pleat"]]:
        allocated, reserved = int(row["peak_allocated_bytes"]), int(row["peak_reserved_bytes"])
        assert 0 < allocated <= reserved
        assert int(row["driver_peak_bytes"]) == reserved, "the driver tells of other memory"
        assert row["steps"] == "6" and row["ooms"] == "0"
        assert row["steps_per_second"] == row["loss_last"] == "", "nothing was computed"
        assert int(row["total_bytes"]) == 8 << 30
    for name, row in found.items():
        assert bool(row["ops_unmap"]) == bool(row["n_taken_granules"]) == ("pleat" in name)
    live = {name: int(row["peak_allocated_bytes"]) for name, row in found.items()}
    assert max(live.values()) < 1.02 * min(live.values()), "they ran different things"


@pytest.mark.usefixtures("runtime")
def test_the_largest_batch_is_found_on_a_small_device(tmp_path):
    ended = run(tmp_path, "--phases", "batch", "--memory", "128M", "--allocators",
                "expandable,pleat")
    assert ended.returncode == 0, ended.stdout + (tmp_path / "gpu.log").read_text()
    found = {name: int(row["largest_batch"]) for name, row in by_allocator(
        tmp_path, "batch").items()}
    assert found["pleat"] >= found["expandable"] > 4
    for row in rows_of(tmp_path):
        assert int(row["ooms"]) > 0, "what did not fit was not counted"
