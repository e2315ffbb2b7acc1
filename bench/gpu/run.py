#!/usr/bin/env python3
"""Measure all facts about a GPU that pleat needs, in two calls of limited time.

  run.py a --out DIR                   480 s: the driver, contents, what goes wrong, training
  run.py b --out DIR --earlier a.json  240 s: training in reverse, a full device, what had failed

Each step consists of processes with a limit of seconds. DIR/a.json or b.json is written after each
step. The first wrong byte ends the call. README.md beside this file describes each step's
questions."""
import argparse
import contextlib
import dataclasses
import functools
import importlib.util
import json
import os
import pathlib
import signal
import sys
import tempfile
import time

import child
import machine

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU = ROOT / "bench" / "gpu"
SMALL_DEVICE = "capacity:256M"  # for models, whose bytes mean nothing on the simulator
SPARE_S = 3             # of a cap: the end of the process
TAIL_LINES = 40         # of each process's output, kept in the log
EXIT_FAILED, EXIT_WRONG, EXIT_INTERRUPTED = 1, 3, 130
TRACE, TINY_TRACE = "llama8b_fsdp16_var", "gpt2s_tiny"
TRACE_KEYS = ("oom_count", "peak_live_bytes", "peak_reserved_bytes", "driver_ms", "host_syncs",
              "events", "hazards")


@dataclasses.dataclass(frozen=True)
class Part:
    """A process of a step. A Python program of this folder, unless `is_tool`: then it is the
    command
    pleat. `torch`: it needs pleat's class. `seconds`: it takes --seconds. `share`: of the step's
    cap, beside parts of 1. `simulated`: the device under --simulate."""
    name: str
    arguments: tuple
    is_tool: bool = False
    torch: bool = False
    seconds: bool = True
    share: float = 1.0
    simulated: str = "capacity:4G,backing:memory"


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    cap_s: float
    parts: tuple


def one(name, cap_s, *arguments, **settings):
    return Step(name, cap_s, (Part(name, arguments, **settings),))


def torch_step(name, cap_s, *arguments):
    return one(name, cap_s, *arguments, torch=True)


def training(*allocators):
    return Step("training", 80, tuple(
        Part(name, ("train.py", "--allocator", name), torch=True, simulated=SMALL_DEVICE)
        for name in allocators))


def replay(setup, allocator):
    trace = TINY_TRACE if setup.simulate else TRACE
    return Part(allocator, ("replay", trace, "--json", "--driver", setup.driver, "--allocator",
                            allocator, "--memory", "1.05x"), is_tool=True, seconds=False)


def probe(setup):
    """With the flags of the class. On a GPU the command chooses the cost file's name."""
    file = ("--cost-file", "simulated.cost") if setup.simulate else ()
    return Part("probe", ("probe", "--json", "--driver", setup.driver, "--conf", "shareable:auto",
                          *file), is_tool=True)


def call_a(setup):
    return (
        one("machine", 15, "machine.py", seconds=False),
        one("dead", 20, "dead.py"),
        one("captures", 25, "captures.py"),
        Step("probe", 35, (probe(setup),)),
        Step("climb", 50, (Part("2 MiB", ("climb.py", "--mib", "2"), share=2.0),
                           Part("32 MiB", ("climb.py", "--mib", "32")))),
        one("stalls", 35, "stalls.py"),
        torch_step("takes", 30, "takes.py"),
        torch_step("takes full", 30, "takes.py", "--full"),
        Step("contents", 40, (Part("tensors", ("contents.py",), torch=True),
                              Part("graphs", ("contents.py", "--graph"), torch=True))),
        torch_step("compaction", 20, "contents.py", "--compact"),
        torch_step("sleep", 40, "sleep.py"),
        Step("children", 60, tuple(
            Part(name, ("trouble.py", name), torch=name not in ("green stream", "export"))
            for name in ("green stream", "export", "host memory", "green torch", "share",
                         "sticky", "persistent"))),
        training("expandable", "pleat", "native"),
    )


def call_b(setup):
    """The trace comes first, since it needs no class. Meanwhile the class is compiled."""
    return (
        Step("trace", 40, tuple(replay(setup, name) for name in (
            "pleat", "torch-expandable", "torch-native", "cuda-async"))),
        training("native", "pleat", "expandable"),
        Step("batch", 100, tuple(
            Part(name, ("train.py", "--allocator", name, "--search"), torch=True,
                 simulated=SMALL_DEVICE) for name in ("pleat", "expandable"))),
    )


CALLS = {"a": (480, call_a), "b": (240, call_b)}
AGAIN_S = 20            # of call b: repeats of call a's failures


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("call", choices=tuple(CALLS))
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR",
                        help="folder of the results")
    parser.add_argument("--earlier", type=pathlib.Path, metavar="FILE",
                        help="of call b: the results of call a, whose failed steps run again")
    parser.add_argument("--only", metavar="A,B", help="only these steps, with their own caps")
    parser.add_argument("--simulate", action="store_true",
                        help="on the simulated runtime: nothing is timed, kernels compute nothing")
    setup = parser.parse_args(arguments)
    setup.driver = "sim" if setup.simulate else "cuda"
    if not (ROOT / "pleat").exists():
        parser.error("this needs a folder that pack.sh made: run run.py there")
    return setup


@functools.cache
def bytecode():
    """A PyTorch without bytecode is compiled once into a separate folder, instead of at each
    import."""
    found = importlib.util.find_spec("torch")
    if found and found.cached and os.path.exists(found.cached):
        return {"PYTHONDONTWRITEBYTECODE": "1"}
    return {"PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": os.path.join(tempfile.gettempdir(), "pleat-bytecode")}


def environment_of(setup, part, binding):
    needed = {"LD_LIBRARY_PATH": str(ROOT / "needed"), "PLEAT_TRACES": str(ROOT / "traces")}
    if part.is_tool:
        return needed
    simulated = {"LD_PRELOAD": str(ROOT / "libpleat_runtime.so"),
                 "PLEAT_SIM": f"{part.simulated},compute:9.0"}
    return {"PYTHONPATH": str(ROOT / "python"), "PLEAT_LIBRARY": str(ROOT / "libpleat.so.0"),
            "PLEAT_TORCH_BINDING": binding, **bytecode(), **(simulated if setup.simulate else {})}


def command_of(part, limit_s):
    seconds = ("--seconds", f"{max(limit_s - SPARE_S, 1):.0f}") if part.seconds else ()
    program = (ROOT / "pleat",) if part.is_tool else (sys.executable,)
    first = part.arguments[0] if part.is_tool else GPU / part.arguments[0]
    return (*program, first, *part.arguments[1:], *seconds)


def last_object(output):
    """The JSON object on the last line; {} without one."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except json.JSONDecodeError:
                continue
    return {}


def last_line(ended):
    """The last line with an error, or just the last line."""
    lines = [line for line in (ended.errors or ended.output).splitlines() if line.strip()]
    said = [line for line in lines if "Error" in line] or lines
    return said[-1].strip()[:300] if said else ""


def wrong_in(found):
    """Count wrong bytes, words or pointers anywhere in a result."""
    if isinstance(found, dict):
        return sum(value if key == "wrong" else wrong_in(value) for key, value in found.items())
    return sum(map(wrong_in, found)) if isinstance(found, list) else 0


def result_of(ended, limit_s):
    found = last_object(ended.output)
    if ended.was_stopped:
        status, problem = "stopped", f"ran past {limit_s:.0f} s"
    elif ended.status != 0:
        how = f"signal {-ended.status}" if ended.status < 0 else f"exit status {ended.status}"
        status, problem = "failed", f"{how}: {last_line(ended)}"
    elif not found:
        status, problem = "failed", "it printed no result"
    else:
        status, problem = "skipped" if "skipped" in found else "ok", ""
    row = {"status": status, "seconds": round(ended.seconds, 2), "cap_s": round(limit_s, 1)}
    if wrong_in(found):
        row["status"], problem = "wrong", f"{wrong_in(found)} were wrong"
    if problem:
        row["problem"] = problem
    if "ended_at" in found:
        row["exit_s"] = round(ended.at - found.pop("ended_at"), 2)
    return row | {"result": found}


class Call:
    """A call under way, with its results."""

    def __init__(self, setup, seconds):
        self.setup = setup
        self.path = setup.out / f"{setup.call}.json"
        self.begin = time.monotonic()
        self.end = self.begin + seconds
        self.found = {"call": setup.call, "is_simulated": setup.simulate,
                      "begun": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
                      "gpu": machine.output_of("nvidia-smi", "-L"), "build": build(),
                      "class": {"status": "compiling"}, "steps": {}}
        self.compiling = None       # pleat's class, beside the first steps

    def write(self):
        """Readers, and copies of the folder, never find half a file."""
        self.found["seconds"] = round(time.monotonic() - self.begin, 1)
        half = self.path.with_suffix(".half")
        half.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
        os.replace(half, self.path)

    def log(self, name, ended):
        lines = f"{ended.errors}\n{ended.output}".splitlines()[-TAIL_LINES:]
        with open(self.setup.out / f"{self.setup.call}.log", "a", encoding="utf-8") as log:
            log.write("\n".join([f"==== {name}: status {ended.status}, {ended.seconds:.1f} s",
                                 *(line[:2000] for line in lines), ""]))

    def begin_beside(self, option):
        part = Part(option, ("machine.py", option), seconds=False)
        return child.Child(command_of(part, 0), environment_of(self.setup, part, "class"),
                           self.setup.out)

    def wait_for_class(self, limit_s, is_last_chance):
        """Wait until the class is compiled. At the last chance the compilation is stopped, and
        steps get hooks instead."""
        if self.compiling is None:
            return
        deadline = time.monotonic() + limit_s
        while self.compiling.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.compiling.process.poll() is None and not is_last_chance:
            return
        ended = self.compiling.end(0)
        self.compiling = None
        self.log("class", ended)
        self.found["class"] = result_of(ended, limit_s)

    def binding(self):
        return "class" if self.found["class"]["status"] == "ok" else "hooks"

    def run_part(self, step, part, limit_s):
        end = time.monotonic() + limit_s
        if part.torch:
            self.wait_for_class(limit_s / 2, True)
        limit_s = max(end - time.monotonic(), 1)
        try:
            ended = child.run(command_of(part, limit_s),
                              environment_of(self.setup, part, self.binding()), self.setup.out,
                              limit_s)
        except OSError as error:
            ended = child.Ended(127, "", str(error), 0.0, False, time.monotonic())
        self.log(f"{step.name}: {part.name}", ended)
        row = result_of(ended, limit_s)
        if "oom_count" in row["result"]:    # what did not fit is a result, not a failure
            row |= {"status": "ok", "problem": ""}
        if part.is_tool and "rows" not in row["result"] and row["result"]:
            row["result"] = {key: row["result"][key] for key in TRACE_KEYS if key in row["result"]}
        return row

    def run_step(self, step):
        """False after a wrong byte."""
        end = min(time.monotonic() + step.cap_s, self.end)
        parts = self.found["steps"].setdefault(step.name, {})
        for i, part in enumerate(step.parts):
            share = part.share / sum(other.share for other in step.parts[i:])
            limit_s = (end - time.monotonic()) * share
            if limit_s < 1:
                parts[part.name] = {"status": "left", "problem": "there was no time left"}
                continue
            print(f"  {step.name:12} {part.name:18}", end="", flush=True)
            row = parts[part.name] = self.run_part(step, part, limit_s)
            self.write()
            print(f" {row['status']:8} {row['seconds']:6.1f} of {row['cap_s']:5.1f} s  "
                  f"{row.get('problem', '')}", flush=True)
            if row["status"] == "wrong":
                self.found["wrong_at"] = f"{step.name}: {part.name}"
                return False
        if step.name == "machine":
            self.wait_for_class(end - time.monotonic(), False)
        return True

    def run(self, steps):
        self.compiling, holding = (self.begin_beside(what) for what in ("--class", "--hold"))
        try:
            for step in steps:
                if not self.run_step(step):
                    return EXIT_WRONG
        finally:
            for beside in filter(None, (self.compiling, holding)):
                beside.stop()
            self.write()
        bad = [f"{name}, {part}" for name, parts in self.found["steps"].items()
               for part, row in parts.items() if row["status"] not in ("ok", "skipped")]
        print(f"{self.found['seconds']} s; not ok: {'; '.join(bad) or 'nothing'}")
        return EXIT_FAILED if bad else 0


def build():
    try:
        return " ".join((ROOT / "BUILD").read_text(encoding="utf-8").split())
    except OSError:
        return "unknown"


def failed_in(setup):
    """The steps of call a with only the parts that came to no result."""
    if setup.earlier is None:
        return ()
    found = json.loads(setup.earlier.read_text(encoding="utf-8"))["steps"]
    steps = []
    for step in call_a(setup):
        rows = found.get(step.name, {})
        parts = tuple(part for part in step.parts
                      if rows.get(part.name, {}).get("status") not in ("ok", "skipped"))
        if parts and step.name != "training":
            steps.append(Step(step.name, AGAIN_S, parts))
    return tuple(steps)


def interrupt(_signal, _frame):
    raise KeyboardInterrupt


def main():
    setup = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, interrupt)
    with contextlib.suppress(OSError):
        (ROOT / "pleat").chmod(0o755)       # copying the folder may have lost the mode
    setup.out.mkdir(parents=True, exist_ok=True)
    setup.out = setup.out.resolve()
    seconds, steps_of = CALLS[setup.call]
    steps = steps_of(setup) + (failed_in(setup) if setup.call == "b" else ())
    if setup.only:
        steps = tuple(step for step in steps if step.name in setup.only.split(","))
    try:
        return Call(setup, seconds).run(steps)
    except KeyboardInterrupt:
        print("\ninterrupted: the results so far are kept", flush=True)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
