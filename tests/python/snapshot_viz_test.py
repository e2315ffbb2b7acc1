# labels: python
# needs: torch
"""PyTorch's own tool, torch/cuda/_memory_viz.py of the wheel, reads snapshots of pleat and of the
classic caches.

The tool's commands segments and memory draw with flamegraph.pl, which PyTorch downloads if missing.
The tests install a stand-in, which keeps the input. The command compare fails on every snapshot,
PyTorch's too: it expects a list of segments instead of a dictionary."""
import base64
import collections
import importlib.util
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys

import pytest

BUILD = pathlib.Path(os.environ.get("PLEAT_BUILD_DIR", "build/release"))
SOURCE = pathlib.Path(__file__).resolve().parents[2]
ALLOCATORS = ("pleat", "torch-native", "torch-expandable", "mxnet-naive", "mxnet19-round",
              "unpooled", "tf-bfc", "cuda-async")
WORK = "churn:iterations=10,allocations=40,least=2M,most=32M,streams=3"

torch = importlib.util.find_spec("torch")
pytestmark = pytest.mark.skipif(not torch, reason="no torch wheel")


def run(line, **more):
    done = subprocess.run([str(part) for part in line], capture_output=True, text=True,
                          check=False, **more)
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout


def viz(*line, **more):
    """Run the tool as a program, without importing torch."""
    tool = pathlib.Path(torch.submodule_search_locations[0], "cuda", "_memory_viz.py")
    return run([sys.executable, "-B", tool, *line], **more)


@pytest.fixture(scope="module", params=ALLOCATORS)
def snapshot(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "snapshot.pickle"
    environment = dict(os.environ, PLEAT_TRACES=str(SOURCE / "bench" / "traces"))
    run([BUILD / "pleat", "replay", WORK, "--driver", "sim", "--allocator", request.param,
         "--snapshot", path], env=environment)
    return path


def mebibytes(text, title):
    """The size in a line such as `title: 1.5GiB`, in MiB."""
    number, unit = re.search(rf"^{title}: ([\d.]+)(\w+)", text, re.MULTILINE).groups()
    return float(number) * {"B": 2.0 ** -20, "KiB": 2.0 ** -10, "MiB": 1, "GiB": 1024}[unit]


def test_stats_adds_up_to_the_segments(snapshot):
    text = viz("stats", snapshot)
    state = pickle.loads(snapshot.read_bytes())
    assert f"segments: {len(state['segments'])}\n" in text
    reserved = sum(segment["total_size"] for segment in state["segments"]) / 2 ** 20
    allocated = sum(block["requested_size"] for segment in state["segments"]
                    for block in segment["blocks"] if block["state"] == "active_allocated") / 2 ** 20
    assert mebibytes(text, "total_reserved") == pytest.approx(reserved, rel=0.06)
    assert mebibytes(text, "total_allocated") == pytest.approx(allocated, rel=0.06)


def test_trace_names_every_event(snapshot):
    text = viz("trace", snapshot)
    entries = pickle.loads(snapshot.read_bytes())["device_traces"][0]
    actions = collections.Counter(entry["action"] for entry in entries)
    assert f"Device 0 ----------------\n{len(entries)} entries\n" in text
    assert len(re.findall(r"^\w+ = \w+\[\d+:", text, re.MULTILINE)) == actions["alloc"]
    assert len(re.findall(r"^del ", text, re.MULTILINE)) == actions["free_requested"]
    assert len(re.findall(r"^# free completed", text, re.MULTILINE)) == actions["free_completed"]
    assert text.count("= cudaMalloc(") == actions["segment_alloc"]


@pytest.mark.parametrize("kind", ["trace_plot", "segment_plot"])
def test_plots_carry_the_whole_snapshot(snapshot, tmp_path, kind):
    page = tmp_path / "page.html"
    viz(kind, snapshot, "-o", page)
    files = re.search(r"const local_files = (\[.*\])", page.read_text()).group(1)
    carried = pickle.loads(base64.b64decode(json.loads(files)[0]["base64"]))
    assert carried == pickle.loads(snapshot.read_bytes())


def with_stand_in(folder):
    """An environment with a flamegraph.pl that keeps the input in the file `given`."""
    script = folder / "home" / ".cache" / "flamegraph.pl"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\ncat > '{folder}/given'\necho '<svg/>'\n")
    script.chmod(0o755)
    return dict(os.environ, HOME=str(folder / "home"))


@pytest.mark.parametrize("kind", ["segments", "memory"])
def test_flame_graphs_are_asked_for_every_byte(snapshot, tmp_path, kind):
    """Every line for the script ends with bytes, whose sum is the resident bytes."""
    drawing = tmp_path / "drawing.svg"
    viz(kind, snapshot, "-o", drawing, env=with_stand_in(tmp_path))
    assert drawing.read_text() == "<svg/>\n"
    given = sum(int(line.rsplit(" ", 1)[1]) for line in
                (tmp_path / "given").read_text().splitlines())
    state = pickle.loads(snapshot.read_bytes())
    assert given == sum(segment["total_size"] for segment in state["segments"])
