# labels: python
"""The programs of bench/gpu that call the driver themselves. Their kernels compute the right words.
A question that ends its process counts as an answer. A full device ends a climb."""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(os.environ.get("PLEAT_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
GPU = ROOT / "bench" / "gpu"
sys.path.insert(0, str(GPU))

import ask                      # noqa: E402
import captures                 # noqa: E402
import climb                    # noqa: E402
import driver                   # noqa: E402
import ptx                      # noqa: E402
import stalls                   # noqa: E402

MASK = {32: (1 << 32) - 1, 64: (1 << 64) - 1}


# ---- the kernels, thread by thread, by a small PTX interpreter -----------------------------------

class Thread:
    """Runs a kernel to its end. Memory is a dictionary address -> word, shared by the threads."""

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
    """The words of `fill` in every second page, as the watching kernel expects them, except that
    each is larger by `off`."""

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


def test_a_chain_is_followed_to_its_last_node():
    nodes, out = [1 << 40, 1 << 41, 1 << 42], 64
    memory = dict(zip(nodes, [*nodes[1:], nodes[0]]))
    for steps, last in ((2, nodes[2]), (3, nodes[0])):
        grid("chase", (nodes[0], steps, out), memory, blocks=1, threads=1, clock=ticking(10))
        assert memory[out] == 10 and memory[out + 8] == last


def test_the_kernels_are_accepted_by_the_assembler(tmp_path):
    assembler = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    if not os.access(assembler, os.X_OK):
        pytest.skip("there is no ptxas")
    (tmp_path / "kernels.ptx").write_text(ptx.SOURCE)
    subprocess.run([assembler, "-arch=sm_90", tmp_path / "kernels.ptx", "-o",
                    tmp_path / "kernels.cubin"], check=True)


# ---- questions that may end their process --------------------------------------------------------

QUESTIONS = """
import sys, time
print("fine\\tok", flush=True)
if "bad" in sys.argv:
    {}
    print("bad\\tok", flush=True)
print("last\\tok", flush=True)
"""


@pytest.mark.parametrize(("text", "answer"), [
    ("import os; os.kill(os.getpid(), 11)", "died of signal 11"),
    ("time.sleep(600)", "nothing within 0.5 s"),
    ("raise SystemExit('no such thing')", "failed: no such thing"),
])
def test_a_question_that_ends_badly_is_an_answer_and_the_rest_is_asked(tmp_path, monkeypatch, text,
                                                                       answer):
    (tmp_path / "child.py").write_text(QUESTIONS.format(text))
    monkeypatch.setattr(ask, "SILENCE_S", 0.5 if "sleep" in text else 60)
    found = ask.ask_group(tmp_path / "child.py", "any", ("fine", "bad", "last"),
                          time.monotonic() + 60)
    assert found == {"fine": "ok", "bad": answer, "last": "ok"}


def test_what_there_was_no_time_for_says_so(tmp_path):
    found = ask.ask_group(tmp_path / "none.py", "any", ("one",), time.monotonic() - 1)
    assert found == {"one": "not asked: no time was left"}


def test_the_destructor_of_an_object_is_seen_when_it_is_called():
    destructor = captures.Destructor()
    assert destructor.said(0) == "not called"
    destructor.function(ctypes.c_void_p(1))
    assert destructor.said(0) == "called"


# ---- the climb -----------------------------------------------------------------------------------

class Cuda:
    """A driver with room for 100 handles, or with page tables that end at the 70th."""
    device = made = mapped = 0

    def __init__(self, most_mapped=1000):
        self.most_mapped = most_mapped

    def properties(self):
        return driver.Properties()

    def access(self):
        return driver.Access()

    def reserve(self, _n_bytes):
        return 1 << 40

    def name_of(self, result):
        return f"error {result}"

    def timed(self, symbol, *arguments):
        self.made += symbol == "cuMemCreate"
        if symbol == "cuMemSetAccess":
            self.mapped += arguments[1] >> 21
            return 100 * (arguments[1] >> 21), 2 if self.mapped > self.most_mapped else 0
        return 1000, 2 if symbol == "cuMemCreate" and self.made > 100 else 0


@pytest.mark.parametrize(("most_mapped", "alive", "refused"), [
    (1000, 100, "cuMemCreate"), (70, 64, "cuMemSetAccess")])
def test_a_full_device_ends_the_climb_and_says_what_it_refused(most_mapped, alive, refused):
    found = climb.Climb(Cuda(most_mapped), 1 << 21, 1024)
    assert found.go(600) == alive and found.refused == (refused, "error 2")
    assert found.take_back() and len(found.handles) == max(alive - climb.RUN, 0)
    row = found.samples.table()[0]
    assert row["create"] == row["map"] == 1.0 and row["access"] == 0.1


def test_what_handles_cost_is_told_by_how_many_are_alive():
    samples = climb.Samples()
    for alive, ns in ((0, 1000), (1023, 3000), (1024, 5000), (4095, 7000), (4096, 9000)):
        samples.add("create", alive, [ns])
    rows = samples.table()
    assert [row["alive"] for row in rows] == [0, 1024, 2048, 4096]
    assert [row["create"] for row in rows] == [3.0, 5.0, 7.0, 9.0]


def test_pauses_are_told_by_the_clock_of_the_kernel():
    report = stalls.Report(rounds=300, wrong=0, longest=4000, clocks=2000000, ns=1000000)
    assert stalls.told_of(report) == {"rounds_a_second": 300000, "longest_us": 2.0, "wrong": 0}
