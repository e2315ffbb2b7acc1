"""What pools hold, beside PyTorch's expandable segments: MemPools, graphs, checkpoints, drawn."""

# needs: torch

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import RUNTIME

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")

PROGRAM = Path(__file__).parent / "pools_drawn.py"
GRANULE = 2 << 20
N_DRAWN = 200 if os.environ.get("PLEAT_TEST_PERCENT") == "100" else 30


def play(allocator: str) -> list[dict[str, int]]:
    command = [str(RUNTIME.parent / "pleat-runtime"), "--memory", "80G"]
    command += ["--allocator", "expandable"] if allocator == "torch" else []
    command += [sys.executable, str(PROGRAM), allocator, "0", str(N_DRAWN)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_pools_hold_no_more_than_with_expandable_segments() -> None:
    kinds = set()
    for pleat, torch in zip(play("pleat"), play("torch"), strict=True):
        kinds.add(pleat["kind"])
        assert pleat["served"] >= torch["served"], (pleat, torch)
        if pleat["served"] == torch["served"] == pleat["n"]:
            most = 1.05 * torch["reserved"] + 2 * GRANULE * pleat["n_pools"]
            assert pleat["reserved"] <= most, (pleat, torch)
    assert len(kinds) == 4
