"""`pleat ab` never misleads about PyTorch's own snapshots of a part of a run. It tells pending
memory from live memory, and knows the run's allocator and settings."""
# labels: python

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from on_sim import BUILD, run

MIB = 1 << 20
SETTINGS = "torch-native,torch-expandable,pleat"


def judge(folder: Path, kind: str, allocator: str = "native", **extra: str) -> dict:
    snapshot = folder / f"{kind}.pickle"
    peak = int(run("parts", kind, str(snapshot), allocator=allocator, sim="capacity:8G", **extra))
    done = subprocess.run(
        [str(BUILD / "pleat"), "ab", str(snapshot), "--driver", "sim", "--no-report"]
        + ["--allocator", SETTINGS, "--loops", "1", "--out", str(folder / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    verdict = json.loads((folder / "out/verdicts.jsonl").read_text())
    return {**verdict, "text": dict(verdict["lines"]), "peak": peak}


@pytest.mark.parametrize("allocator", ["native", "expandable"])
def test_a_whole_run_is_told_as_one(tmp_path: Path, allocator: str) -> None:
    verdict = judge(tmp_path, "whole", allocator)
    assert verdict["recorded"]["is_whole"] and "recorded" not in verdict["text"]
    assert verdict["need_bytes"] == verdict["peak"] == 1536 * MIB
    assert verdict["own"] == f"torch-{allocator}"
    assert verdict["verdict"] == "keep"


@pytest.mark.parametrize(
    "kind, flag", [("ring", "has_run_over"), ("died", "ends_failed"), ("in_step", "ends_early")]
)
def test_a_part_of_a_run_is_no_whole_one(tmp_path: Path, kind: str, flag: str) -> None:
    verdict = judge(tmp_path, kind)
    assert verdict["recorded"][flag] and not verdict["recorded"]["is_whole"]
    assert verdict["lines"][0][0] == "recorded"
    assert verdict["text"]["needs"].startswith("at least ")
    assert verdict["text"]["runs on"].startswith("unknown beyond what was recorded, which ")
    assert (verdict["verdict"], verdict["setting"], verdict["device"]) == ("record", None, None)


def test_what_a_ring_has_lost_shows_in_what_was_held(tmp_path: Path) -> None:
    verdict = judge(tmp_path, "ring")
    assert verdict["need_bytes"] < verdict["peak"] == 1536 * MIB
    assert verdict["recorded"]["held_before_bytes"] >= verdict["peak"]


def test_a_stopped_recording_leaves_the_blocks(tmp_path: Path) -> None:
    verdict = judge(tmp_path, "stopped")
    assert verdict["recorded"]["has_no_history"]
    assert verdict["need_bytes"] == 512 * MIB < verdict["peak"]
    assert verdict["verdict"] == "record"


def test_what_waits_for_other_streams_is_no_need(tmp_path: Path) -> None:
    verdict = judge(tmp_path, "far_ahead")
    assert verdict["need_bytes"] == verdict["peak"] == 160 * MIB
    assert verdict["pending_bytes"] > 1000 * MIB
    assert verdict["own_held_bytes"] > verdict["need_bytes"] + 1000 * MIB
    assert all(all(setting["on"]) for setting in verdict["settings"])


def test_options_of_the_run_are_known_and_replayed(tmp_path: Path) -> None:
    conf = "roundup_power2_divisions:4"
    verdict = judge(tmp_path, "whole", PYTORCH_CUDA_ALLOC_CONF=conf)
    native = verdict["settings"][0]
    assert f"(torch-native) with {conf}: " in verdict["text"]["held"]
    assert native["held_bytes"] == verdict["own_held_bytes"]
