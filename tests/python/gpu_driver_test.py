# labels: python
# needs: torch
"""The programs of bench/gpu that call the driver themselves: their kernels do what they say, their
logic holds on the simulated driver, and they report no made-up figures."""
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(os.environ.get("PLEAT_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("PLEAT_BUILD_DIR", ROOT / "build"))
GPU = ROOT / "bench" / "gpu"
sys.path.insert(0, str(GPU))

import captures                 # noqa: E402
import driver                   # noqa: E402
import handles                  # noqa: E402
import ptx                      # noqa: E402
import stalls                   # noqa: E402
from phases import driver_calls  # noqa: E402

MASK = {32: (1 << 32) - 1, 64: (1 << 64) - 1}


# ---- the kernels, thread by thread, by an interpreter of the PTX that they use -------------------

class Thread:
    """Runs one kernel to its end. Memory is a dictionary address -> word, which threads share."""

    def __init__(self, name, arguments, memory, special):
        body = re.search(rf"\.entry {name}\((.*?)\)\s*\{{(.*?)\n\}}", ptx.SOURCE, re.DOTALL)
        names = re.findall(r"\.param \.u\d+ (\w+)", body.group(1))
        self.values = dict(zip(names, arguments, strict=True))
        self.memory, self.special = memory, special
        self.lines = [line.strip().rstrip(";") for line in body.group(2).splitlines()
                      if line.strip() and not line.strip().startswith(".reg")]
        self.labels = {line[:-1]: i for i, line in enumerate(self.lines) if line.endswith(":")}

    def get(self, text):
        if text.lstrip("-").isdigit():
            return int(text)
        if text in self.special:
            found = self.special[text]
            return found() if callable(found) else found
        return self.values[text]

    def address(self, text):
        base, _, offset = text.strip("[]").partition("+")
        return self.values[base] + int(offset or 0)

    def run(self):
        at = 0
        while self.lines[at] != "ret":
            line = self.lines[at]
            at += 1
            if line.endswith(":"):
                continue
            if line.startswith("@"):
                predicate, line = line[1:].split(" ", 1)
                if not self.values[predicate]:
                    continue
            operation, *operands = re.split(r",?\s+", line)
            if operation == "bra":
                at = self.labels[operands[0]]
            else:
                self.do(operation.split("."), operands)

    def do(self, operation, operands):
        kind, width = operation[0], int(operation[-1][1:])
        if kind == "ld" and "param" in operation:
            self.values[operands[0]] = self.values[operands[1].strip("[]")]
        elif kind == "ld":
            self.values[operands[0]] = self.memory[self.address(operands[1])]
        elif kind == "st":
            self.memory[self.address(operands[0])] = self.get(operands[1])
        elif kind == "red":
            at, value = self.address(operands[0]), self.get(operands[1])
            self.memory[at] = max(self.memory[at], value) if "max" in operation else \
                (self.memory[at] + value) & MASK[64]
        elif kind == "setp":
            a, b = self.get(operands[1]), self.get(operands[2])
            self.values[operands[0]] = {"ge": a >= b, "lt": a < b, "eq": a == b,
                                        "ne": a != b}[operation[1]]
        else:
            a, b, c = ([self.get(text) for text in operands[1:]] + [0, 0])[:3]
            if kind == "cvt":
                width = int(operation[1][1:])
            elif "wide" in operation:
                width = 2 * width
            result = {"mov": lambda: a, "cvta": lambda: a, "cvt": lambda: a,
                      "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b,
                      "mad": lambda: a * b + c, "shl": lambda: a << b, "shr": lambda: a >> b,
                      "and": lambda: a & b, "max": lambda: max(a, b)}[kind]()
            self.values[operands[0]] = result & MASK[width]


def grid(name, arguments, memory, blocks=2, threads=3, clock=None):
    for block in range(blocks):
        for thread in range(threads):
            special = {"%ctaid.x": block, "%ntid.x": threads, "%tid.x": thread,
                       "%nctaid.x": blocks, "%clock64": clock, "%globaltimer": clock}
            Thread(name, arguments, memory, special).run()


def test_a_filled_range_compares_equal_and_one_wrong_word_is_counted():
    base, n, first, wrong = 1 << 40, 20, (1 << 32) - 5, 64
    memory = {wrong: 0}
    grid("fill", (base, n, first), memory)
    assert {at: word for at, word in memory.items() if at != wrong} == {
        base + 4 * i: (first + i) & MASK[32] for i in range(n)}
    grid("compare", (base, n, first, wrong), memory)
    assert memory[wrong] == 0
    memory[base + 4 * 13] ^= 1
    memory[base + 4 * 19] = 0
    grid("compare", (base, n, first, wrong), memory)
    assert memory[wrong] == 2


def ticking(step):
    now = [0]

    def read():
        now[0] += step
        return now[0]
    return read


class Pages(dict):
    """What `fill` writes to every second page, where the watching kernel expects it, with each word
    too large by `off`."""

    def __init__(self, base, stride, log2_pages, off=0):
        super().__init__()
        self.base, self.stride, self.log2_pages, self.off = base, stride, log2_pages, off
        self.touched = set()

    def __missing__(self, at):
        page, offset = divmod(at - self.base, self.stride)
        assert offset < 4 << ptx.PAGE_LOG2 and page < 1 << self.log2_pages, "read beyond the pages"
        self.touched.add(page)
        return (page << ptx.PAGE_LOG2) + offset // 4 + self.off


@pytest.mark.parametrize("off", [0, 1])
def test_the_watching_kernel_reads_the_pages_only_and_tells_what_it_saw(off):
    base, out, stride = 1 << 40, 64, 2 << (ptx.PAGE_LOG2 + 2)
    pages = Pages(base, stride, 2, off)
    pages.update({out + 8 * i: 0 for i in range(5)})
    grid("watch", (base, 2, stride, 1000, out), pages, blocks=1, threads=2, clock=ticking(10))
    assert pages.touched == {0, 1, 2, 3}
    found = dict(zip((name for name, _ in stalls.Report._fields_),
                     (pages[out + 8 * i] for i in range(5)), strict=True))
    assert found["rounds"] > 50 and found["wrong"] == off * ptx.READS * found["rounds"]
    assert found["longest"] == 20, "the clock was read once in between"
    assert found["ns"] >= 1000 and found["clocks"] >= found["ns"]


def test_the_waiting_kernel_waits():
    clock = ticking(10)
    grid("wait", (1000,), {}, blocks=1, threads=1, clock=clock)
    assert clock() >= 1000


def test_the_kernels_are_accepted_by_the_assembler(tmp_path):
    assembler = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    if not os.access(assembler, os.X_OK):
        pytest.skip("there is no ptxas")
    (tmp_path / "kernels.ptx").write_text(ptx.SOURCE)
    subprocess.run([assembler, "-arch=sm_90", tmp_path / "kernels.ptx", "-o",
                    tmp_path / "kernels.cubin"], check=True)


# ---- the programs on the simulated driver -------------------------------------------------------

@pytest.fixture
def simulated(tmp_path):
    """The environment in which libcuda.so.1 is the simulator."""
    links = tmp_path / "links"
    links.mkdir()
    (links / "libcuda.so.1").symlink_to(BUILD / "libpleat_sim.so")
    return {**os.environ, "LD_LIBRARY_PATH": str(links), "PLEAT_SIM": "capacity:4G"}


def said(program, environment, *arguments):
    ended = subprocess.run([sys.executable, "-B", GPU / program, *map(str, arguments)], check=False,
                           capture_output=True, text=True, env=environment)
    assert ended.stdout, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def test_handles_fill_the_device_and_all_are_taken_back(simulated):
    found = said("handles.py", simulated, "--mib", 8, "--seconds", 600)
    assert found["most_alive"] == 448 and found["left_alive"] == 0     # of 512: 64 are spared
    assert "us" not in found, "the simulator's time is nobody's"


def test_a_full_device_ends_the_climb_and_not_the_program():
    class Cuda:
        """A driver that has room for 100 handles."""
        made, device = 0, 0
        properties, access = driver.Driver.properties, driver.Driver.access

        def call(self, symbol, *_arguments):
            assert symbol == "cuMemRelease"

        def get(self, *_arguments):
            return 1 << 40

        def timed(self, symbol, *_arguments):
            self.made += symbol == "cuMemCreate"
            return 1000, 2 if symbol == "cuMemCreate" and self.made > 100 else 0
    climb = handles.Climb(Cuda(), 1 << 21, 1024)
    assert climb.go(600) == handles.RUN and not climb.handles
    row = climb.samples.table()[0]
    assert row["create"] == row["map"] == 1.0 and row["access"] == row["unmap"] == 0.02


def test_what_handles_cost_is_told_by_how_many_are_alive():
    samples = handles.Samples()
    for alive, ns in ((0, 1000), (1023, 3000), (1024, 5000), (4095, 7000), (4096, 9000)):
        samples.add("create", alive, [ns])
    rows = samples.table()
    assert [row["alive"] for row in rows] == [0, 1024, 2048, 4096]
    assert [row["create"] for row in rows] == [3.0, 5.0, 7.0, 9.0]
    assert handles.in_words(5000, rows) == \
        "5000 alive; us a handle, first to last level: create 3 to 9"


@pytest.mark.parametrize(("program", "arguments"), [
    ("stalls.py", ()), ("event_costs.py", ()), ("captures.py", ("user_object",))])
def test_what_the_simulator_cannot_answer_is_skipped_in_one_line(simulated, program, arguments):
    found = said(program, simulated, *arguments)
    assert found.pop("cannot_run") is True and list(found) == ["problem"]
    assert "simulated" in found["problem"] and "\n" not in found["problem"]


def test_each_question_is_asked_in_a_process_of_its_own(simulated):
    found = said("captures.py", simulated, "bystanders")
    assert list(found["answers"]) == captures.VARIANTS["bystanders"]
    assert found["detail"].startswith("the simulator's answers: ")
    assert found["answers"]["map and unmap/plain"] == "ok, the capture lives"
    assert found["answers"]["cuStreamQuery/plain"].startswith("STREAM_CAPTURE_UNSUPPORTED (900)")
    assert found["answers"]["cuStreamQuery/relaxed"] == "ok, the capture lives"
    destroyed = said("captures.py", simulated, "destroyed")["answers"]
    assert destroyed["cuStreamQuery"] == "INVALID_HANDLE (400)"


@pytest.mark.parametrize(("text", "answer"), [
    ("import os; os.kill(os.getpid(), 11)", "died of signal 11"),
    ("import time; time.sleep(600)", "nothing within 0.5 s"),
    ("raise SystemExit('no such thing')", "failed: no such thing"),
])
def test_a_question_that_ends_badly_is_an_answer(tmp_path, monkeypatch, text, answer):
    (tmp_path / "child.py").write_text(text)
    monkeypatch.setattr(captures, "__file__", str(tmp_path / "child.py"))
    monkeypatch.setattr(captures, "CHILD_LIMIT_S", 0.5 if "sleep" in text else 60)
    assert captures.ask("destroyed", "cuStreamQuery") == {"answer": answer}


def test_the_destructor_of_an_object_is_seen_when_it_is_called():
    destructor = captures.Destructor()
    assert destructor.said(0) == "not called"
    destructor.function(ctypes.c_void_p(1))
    assert destructor.said(0) == "called"


def test_passes_are_told_against_the_one_alone():
    found = {"rounds_a_second": 200.0, "longest_us": 5.0, "wrong": 0, "launch_us": [1.0, 2.0, 3.0],
             "end_us": [4.0, 5.0, 6.0], "turns": 0}
    text = stalls.in_words({"alone": found, "beside": {**found, "rounds_a_second": 150.0}})
    assert text.endswith("beside (0): reads 0.7500, longest pause 5 us, launch 1/2/3, "
                         "to its end 4/5/6 us")
    report = stalls.Report(rounds=300, wrong=0, longest=4000, clocks=2000000, ns=1000000)
    figures = stalls.figures(report, types.SimpleNamespace(launches=[1000], ends=[2000]))
    assert figures["longest_us"] == 2.0 and figures["rounds_a_second"] == 300 / 1e-3


def test_the_whole_answer_is_kept_beside_the_table(tmp_path):
    read = driver_calls.reader(types.SimpleNamespace(out=tmp_path), "stalls: neighbours")
    assert read('{"detail": "said", "passes": {"alone": 1}}') == {"detail": "said"}
    assert json.loads((tmp_path / "driver.json").read_text()) == {
        "stalls: neighbours": {"detail": "said", "passes": {"alone": 1}}}
    assert read('{"problem": "no GPU", "cannot_run": true}')["status"] == "skipped"


def test_a_storm_takes_a_thousand_granules(tmp_path):
    if not (BUILD / "libpleat_runtime.so").exists():
        pytest.skip("the simulated runtime is not built")
    found = said("takes.py", {**os.environ, "LD_PRELOAD": str(BUILD / "libpleat_runtime.so"),
                              "PLEAT_SIM": "capacity:8G,compute:9.0",
                              "PYTHONPATH": str(ROOT / "python"),
                              "PLEAT_LIBRARY": str(BUILD / "libpleat.so.0")}, "--seconds", 600)
    assert found["n_taken_granules"] >= 1000 and found["ops_unmap"] > 0
    assert found["cannot_run"] and "no word was compared" in found["problem"]
