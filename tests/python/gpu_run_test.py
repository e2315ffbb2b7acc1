# labels: python
# needs: torch
"""bench/gpu/run.py on the simulated runtime. Both calls end within their caps. Each step's result
is read back. The first wrong byte ends a call. The report has an answer to each question.

The second call runs with PLEAT_TEST_PERCENT=100 only (`./dev test --long`). It runs the programs of
the first call with other numbers.

Programs of both calls are forks of a python that has imported torch. The call with a tensor that is
freed too early starts fresh ones."""
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(os.environ.get("PLEAT_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("PLEAT_BUILD_DIR", ROOT / "build"))
GPU = ROOT / "bench" / "gpu"
sys.path[:0] = [str(GPU), str(ROOT / "python" / "tests")]

import child                    # noqa: E402
import report                   # noqa: E402
import run as command           # noqa: E402
import search                   # noqa: E402
from forks import Forks         # noqa: E402

SETUP = types.SimpleNamespace(simulate=True, driver="sim", earlier=None)
STEPS = {call: [step.name for step in steps_of(SETUP)]
         for call, (_, steps_of) in command.CALLS.items()}


# ---- both calls, on the packed files for a machine with a GPU ------------------------------------

@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    if not (BUILD / "libpleat_runtime.so").exists():
        pytest.skip("the simulated runtime is not built")
    folder, tools = tmp_path_factory.mktemp("pack"), tmp_path_factory.mktemp("tools")
    (tools / "cmake").write_text("#!/bin/sh\n")
    (tools / "cmake").chmod(0o755)
    subprocess.run(["bash", GPU / "pack.sh", folder, BUILD], check=True, capture_output=True,
                   env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
    return folder


# run.py, with another python for the programs.
AS_PYTHON = """
import os, runpy, sys
sys.executable = sys.argv.pop(1)
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def python(pack):
    forks = Forks(child.laid_over({"LD_PRELOAD": str(pack / "libpleat_runtime.so")}), "torch")
    yield str(forks.python)
    forks.end()


def play(pack, python, call, out, *more):
    """The call's file. What goes wrong is told with the log."""
    ended = subprocess.run([sys.executable, "-B", "-c", AS_PYTHON, python,
                            pack / "bench/gpu/run.py", call, "--out", out, "--simulate", *more],
                           capture_output=True, text=True, check=False)
    log = out / f"{call}.log"
    assert ended.returncode == 0, \
        ended.stdout + ended.stderr + (log.read_text()[-20000:] if log.exists() else "")
    return json.loads((out / f"{call}.json").read_text())


@pytest.fixture(scope="module")
def a(pack, python, tmp_path_factory):
    return play(pack, python, "a", tmp_path_factory.mktemp("a"))


IS_LONG = os.environ.get("PLEAT_TEST_PERCENT") == "100"


@pytest.fixture(scope="module")
def b(pack, python, tmp_path_factory, a):
    if not IS_LONG:
        pytest.skip("the second call: PLEAT_TEST_PERCENT=100")
    out = tmp_path_factory.mktemp("b")
    a = json.loads(json.dumps(a))
    a["steps"]["stalls"]["stalls"]["status"] = "failed"
    (out / "earlier.json").write_text(json.dumps(a))
    return play(pack, python, "b", out, "--earlier", out / "earlier.json")


def results(call, step):
    return {part: row["result"] for part, row in call["steps"][step].items()}


def test_the_caps_are_those_of_the_calls():
    for seconds, steps_of in command.CALLS.values():
        again = command.AGAIN_S if steps_of is command.call_b else 0
        assert sum(step.cap_s for step in steps_of(SETUP)) + again == seconds


@pytest.mark.parametrize("name", ["a", "b"])
def test_every_step_ends_well_within_its_cap(request, name):
    call = request.getfixturevalue(name)
    assert list(call["steps"]) == STEPS[name] + (["stalls"] if name == "b" else [])
    assert call["seconds"] <= command.CALLS[name][0] and call["is_simulated"]
    assert call["class"]["status"] == "ok" and call["class"]["result"]["binding"] == "class"
    for step, parts in call["steps"].items():
        for part, row in parts.items():
            assert row["status"] in ("ok", "skipped"), (step, part, row)
            assert row["seconds"] <= row["cap_s"], (step, part)
            assert row["result"].get("binding", "class") == "class", (step, part)


def read_machine(found):
    assert found["machine"]["attributes"]["posix_fd"] == 1
    assert found["machine"]["granule"]["as pleat, least"] == 2 << 20
    assert found["machine"]["torch"].startswith("2.")


def read_dead(found):
    answers = found["dead"]["answers"]
    assert answers["cuStreamQuery, work over"] == {"stream": "INVALID_HANDLE (400)"}
    assert "handle" in answers["cuStreamGetId, another made"]["stream"]
    assert len(answers) == 24


def read_captures(found):
    answers = found["captures"]["answers"]
    plain, relaxed = answers["global/other/plain"], answers["global/other/relaxed"]
    assert len(answers) == 13 and len(plain) == len(relaxed) == 31
    assert plain["cuMemMap"] == relaxed["cuMemMap"] == "ok"
    assert plain["cuStreamQuery"].startswith("STREAM_CAPTURE_UNSUPPORTED (900)")
    assert relaxed["cuStreamQuery"] == "ok"
    assert "executable destroyed: called" in answers["user object"]["idle"]
    assert answers["user object"]["running"].endswith("launch over: called")


def read_probe(found):
    assert found["probe"]["complete"] and found["probe"]["costs"]["create (fresh)"]


def read_climb(found):
    for mib, part in ((2, found["2 MiB"]), (32, found["32 MiB"])):
        assert part["most_alive"] * mib >= 4000 and part["left_alive"] > 0
        assert part["us"][0]["create"] > 0
    small = found["2 MiB"]
    assert small["refused"] is None or small["refused"][0] == "cuMemCreate"
    assert small["us"][-1]["unmap"] > 0 and small["map_us"]["fresh"] > 0
    assert set(small["chains"]) == {"cuMemAlloc", "handles", "all handles"}


def read_stalls(found):
    cells = found["stalls"]["cells"]
    assert len(cells) == 8 and cells["idle, map and unmap"]["turns"] > 0
    assert len(cells["copies, map and unmap"]["us"]["access"]) == 3
    assert "skipped" in cells["kernel, nothing"] and "skipped" in cells["full queue, nothing"]
    assert found["stalls"]["us"]["cuCtxRecordEvent, 64 streams"][0] > 0


def read_takes(found):
    (part,) = found.values()
    assert part["taken_granules"] >= 1000 and part["compared"] >= part["tensors"] > 500
    assert part["wrong"] == 0, "bytes changed, or the simulator saw a hazard"


def read_contents(found):
    for part in found.values():
        assert part["checked"] > 100 and part["wrong"] == 0
        assert 0 < part["peak_allocated_bytes"] <= part["peak_reserved_bytes"]
    assert found["graphs"]["launches"] > 0


def read_compaction(found):
    part = found["compaction"]
    assert part["moved_bytes"] > 0 and part["splits"] > 0
    assert part["compactions"] > 0 and part["checked"] > 100 and part["wrong"] == 0


def read_sleep(found):
    turns = found["sleep"]["turns"]
    assert list(turns) == ["host", "host, retained", "host, retained again", "discard"]
    for turn in turns.values():
        assert turn["mib"] == turn["given_mib"] == 64 and turn["left_mib"] == 0
    assert turns["host"]["wrong"] == turns["host, retained again"]["wrong"] == 0


def read_children(found):
    assert found["export"]["after it was released here"] == {"wrong": 0}
    assert found["share"]["wrong"] == 0 and found["share"]["exit"] == 0
    assert found["host memory"]["wrong"] == 0 and found["host memory"]["is_pinned"]
    assert found["sticky"]["synchronize"]["said"] != "ok" and "exit" in found["sticky"]
    assert found["persistent"]["sleep"]["said"] == 64 << 20
    green = found["green stream"]
    assert green["cuStreamGetCtx"] == "the green one"
    assert green["green work: event on its stream"] == "covers it"
    assert green["handle 2, the green context current"] == "ok"
    assert green["cuCtxSynchronize of the primary"]["said"] == "ok"
    assert "skipped" in found["green torch"] or found["green torch"]["wrong"] == 0


def read_training(found):
    assert set(found) == {"native", "pleat", "expandable"}
    live = [part["peak_allocated_bytes"] for part in found.values()]
    assert max(live) < 1.02 * min(live), "they ran different things"
    assert all(part["steps"] == 6 for part in found.values())
    assert "losses" not in found["pleat"], "nothing was computed"


def read_trace(found):
    assert set(found) == {"pleat", "torch-expandable", "torch-native", "cuda-async"}
    assert found["pleat"]["oom_count"] == 0 and found["pleat"]["events"] > 0


def read_batch(found):
    assert found["pleat"]["completes"] >= found["expandable"]["completes"] > 4
    assert found["pleat"]["tries"] > 1


@pytest.mark.parametrize("step", STEPS["a"])
def test_each_result_of_the_first_call_is_read_back(a, step):
    globals()[f"read_{step.split()[0]}"](results(a, step))


@pytest.mark.parametrize("step", [*STEPS["b"], "stalls"])
def test_each_result_of_the_second_call_is_read_back(b, step):
    globals()[f"read_{step}"](results(b, step))


def test_a_tensor_that_is_freed_too_early_ends_the_call(pack, tmp_path):
    """The storm without the line that keeps memory until the second stream's read."""
    shutil.copytree(pack, tmp_path / "pack")
    program = tmp_path / "pack/bench/gpu/takes.py"
    text = program.read_text()
    assert text.count("        tensor.record_stream(other)\n") == 1
    program.write_text(text.replace("        tensor.record_stream(other)\n", ""))
    ended = subprocess.run(
        [sys.executable, "-B", tmp_path / "pack/bench/gpu/run.py", "a", "--out", tmp_path / "out",
         "--simulate", "--only", "takes,sleep"], capture_output=True, text=True, check=False)
    assert ended.returncode == command.EXIT_WRONG, ended.stdout + ended.stderr
    found = json.loads((tmp_path / "out/a.json").read_text())
    assert found["wrong_at"] == "takes: takes" and list(found["steps"]) == ["takes"]


# ---- how a call ends -----------------------------------------------------------------------------

@pytest.fixture
def call(tmp_path, monkeypatch):
    """A call with test scripts as programs: program(name, text) writes a script."""
    monkeypatch.setattr(command, "GPU", tmp_path)
    (tmp_path / "machine.py").write_text("print('{}')")
    setup = types.SimpleNamespace(call="a", out=tmp_path, simulate=False, driver="cuda")
    made = command.Call(setup, 600)

    def program(name, text, **settings):
        (tmp_path / f"{name}.py").write_text(text)
        return command.one(name, settings.pop("cap_s", 60), f"{name}.py", **settings)
    made.program = program
    return made


def test_the_first_wrong_byte_ends_the_call(call):
    steps = [call.program("good", "print('{\"wrong\": 0}')"),
             call.program("bad", "print('{\"turns\": [{\"wrong\": 3}]}')"),
             call.program("never", "print('{}')")]
    assert call.run(steps) == command.EXIT_WRONG
    found = json.loads(call.path.read_text())
    assert list(found["steps"]) == ["good", "bad"] and found["wrong_at"] == "bad: bad"
    assert found["steps"]["bad"]["bad"]["problem"] == "3 were wrong"


def test_what_was_told_before_the_end_counts(call):
    text = "import json, time; print(json.dumps({'knew': 1, 'ended_at': time.monotonic()}), " \
           "flush=True); "
    steps = [call.program("slow", text + "time.sleep(600)", cap_s=3),
             call.program("crash", text + "import os; os.abort()"),
             call.program("mute", "pass"), call.program("skips", "print('{\"skipped\": \"so\"}')"),
             call.program("ends", text + "time.sleep(0.2)")]
    assert call.run(steps) == command.EXIT_FAILED
    rows = {step: parts[step] for step, parts in call.found["steps"].items()}
    assert [row["status"] for row in rows.values()] == [
        "stopped", "failed", "failed", "skipped", "ok"]
    assert rows["slow"]["result"]["knew"] == rows["crash"]["result"]["knew"] == 1
    assert rows["crash"]["problem"].startswith("signal 6")
    assert rows["mute"]["problem"] == "it printed no result"
    assert 0.2 <= rows["ends"]["exit_s"] < 30


def test_a_call_that_is_over_starts_nothing(call):
    call.end = call.begin
    assert call.run([call.program("late", "print('{}')")]) == command.EXIT_FAILED
    assert call.found["steps"]["late"]["late"]["status"] == "left"


def test_without_a_class_a_step_gets_hooks_and_says_so(call):
    (call.setup.out / "machine.py").write_text("raise SystemExit('no compiler')")
    text = "import json, os; print(json.dumps({'binding': os.environ['PLEAT_TORCH_BINDING']}))"
    assert call.run([call.program("any", text, torch=True)]) == 0
    assert call.found["class"]["problem"] == "exit status 1: no compiler"
    assert call.found["steps"]["any"]["any"]["result"] == {"binding": "hooks"}


def test_a_command_that_does_not_end_is_stopped_with_all_that_it_started(tmp_path):
    mark = tmp_path / "mark"
    ended = child.run(["sh", "-c", f"(trap '' TERM; echo $$; sleep 600; touch {mark}) & wait"], {},
                      tmp_path, 1)
    assert ended.was_stopped and not mark.exists()


def test_commands_see_the_folders_that_are_there_and_no_settings_of_the_shell(tmp_path,
                                                                            monkeypatch):
    """A driver or PyTorch may not be found without the folders; settings change the figures."""
    for name, value in (("LD_LIBRARY_PATH", "/there"), ("PLEAT_CONF", "driver:sim"),
                        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"), ("CUDA_LAUNCH_BLOCKING", "1"),
                        ("LD_PRELOAD", "libpleat_runtime.so")):
        monkeypatch.setenv(name, value)
    seen = child.run(["env"], {"LD_LIBRARY_PATH": "/own"}, tmp_path, 60)
    lines = set(seen.output.splitlines())
    assert "LD_LIBRARY_PATH=/own:/there" in lines
    assert not {line.split("=")[0] for line in lines} & {
        "PLEAT_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "CUDA_LAUNCH_BLOCKING", "LD_PRELOAD"}


# ---- the report ----------------------------------------------------------------------------------

def timed(name, ms, losses):
    return {"status": "ok", "result": {
        "ms": ms, "losses": losses, "peak_reserved_bytes": 103, "peak_allocated_bytes": 100}}


def measured():
    """A call as of a GPU, with what the report is asked about below."""
    levels = [{"alive": alive, "create": us} for alive, us in
              ((0, 10.0), (1024, 11.5), (2048, 13.0), (4096, 16.0))]
    return {"call": "a", "is_simulated": False, "begun": "now", "build": "this", "gpu": "X",
            "seconds": 1,
            "steps": {
                "climb": {"2 MiB": {"status": "ok", "exit_s": 4.0, "result": {
                    "us": levels, "left_alive": 9, "refused": ["cuMemMap", "OUT_OF_MEMORY (2)"],
                    "left_bytes": 1 << 20}}},
                "stalls": {"stalls": {"status": "stopped", "problem": "ran past 35 s",
                                      "result": {}}},
                "training": {"pleat": timed("pleat", [100.0] * 10, [3.0, 2.0]),
                             "native": timed("native", [98.0] * 9, [3.0, 2.0])}}}


def test_the_page_has_an_answer_or_the_reason_for_none(request, a):
    for calls in ([a, request.getfixturevalue("b")] if IS_LONG else [a], [measured()]):
        text = report.page(calls, report.answers_of(report.Results(calls)))
        assert all(f"| {question} |" in text for question in report.QUESTIONS)
    assert "| Mapping beside work: median / most | ran past 35 s |" in text
    assert "cuMemMap: OUT_OF_MEMORY (2), 1 MiB free" in text
    assert "| pleat 10.000; native 10.204 steps a second" in text and "0.980 of the best" in text
    assert "2 runs, 2 steps: at most 0 apart | equal |" in text


def test_losses_that_differ_are_told():
    call = measured()
    call["steps"]["training"]["native"]["result"]["losses"] = [3.0, 2.5]
    answers = report.answers_of(report.Results([call]))
    assert answers["Training: losses"][1] == "NOT EQUAL"


def test_the_cost_file_grows_as_the_climb_saw(tmp_path):
    costs, readme, found = tmp_path / "x.cost", tmp_path / "README.md", tmp_path / "a.json"
    costs.write_text("gpu X\nsource probe\ncuMemCreate call 1 handle 2 granule 0 mib 0\n")
    readme.write_text("head\n<!-- gpu:begin -->\nnothing\n<!-- gpu:end -->\ntail\n")
    found.write_text(json.dumps(measured()))
    arguments = [sys.executable, "-B", GPU / "report.py", found, "--page", tmp_path / "page.md",
                 "--readme", readme, "--cost", costs]
    subprocess.run(arguments, check=True)
    assert "live 1." in costs.read_text() and "live_most 6144" in costs.read_text()
    told = subprocess.run([BUILD / "pleat", "replay", "gpt2s_tiny", "--driver", "sim", "--sim",
                           f"costs:{costs}", "--json"], capture_output=True, text=True, check=False,
                          env={**os.environ, "PLEAT_TRACES": str(ROOT / "bench/traces")})
    assert told.returncode == 0, told.stderr
    text = readme.read_text()
    assert text.startswith("head\n") and text.endswith("tail\n") and "nothing\n" not in text
    found.write_text(json.dumps(measured() | {"is_simulated": True}))
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and "no measurement" in ended.stderr


# ---- training ------------------------------------------------------------------------------------

def test_a_model_that_knows_nothing_yet_guesses_evenly():
    torch = pytest.importorskip("torch")
    from models import TINY_RUN

    def loss(seed):
        torch.manual_seed(seed)
        tokens = torch.randint(TINY_RUN.vocabulary, (TINY_RUN.batch, TINY_RUN.longest + 1))
        return TINY_RUN.build("cpu")(tokens).item()
    assert loss(1) == loss(1) == pytest.approx(math.log(TINY_RUN.vocabulary), rel=0.05)


def test_the_longest_step_is_among_those_of_a_try():
    pytest.importorskip("torch")
    from models import RUN, lengths
    drawn = lengths.drawn(RUN, 4, 20)
    assert drawn[-1] == max(drawn) == RUN.longest


# ---- the search ----------------------------------------------------------------------------------

@pytest.mark.parametrize("least_bad", [1, 2, 3, 32, 33, 95, 96, 97, 1000])
def test_the_search_finds_the_last_batch_that_completes(least_bad):
    told = []
    found = search.largest(lambda batch: batch < least_bad, 32, float("inf"),
                           lambda good, bad: told.append((good, bad)))
    assert found == told[-1] == (least_bad - 1, least_bad) and len(told) <= 20


@pytest.mark.parametrize(("least_bad", "known"), [
    (1000, (32, None)),             # stops after 8 + 16 + 32: 64 would take too long
    (30, (24, 32)),                 # stops after 8 + 16 + 32 + 24
])
def test_no_try_is_begun_that_would_not_end_in_time(monkeypatch, least_bad, known):
    clock = [0]

    def completes(batch):
        clock[0] += batch
        return batch < least_bad
    monkeypatch.setattr(search, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    assert search.largest(completes, 8, 100, lambda *_: None) == known
