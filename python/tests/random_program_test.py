"""Random programs of torch, under the class: each byte is as last written."""

# needs: torch

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from conftest import RUNTIME, Run

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")

PROGRAM = Path(__file__).parent / "random_program.py"
STEPS = 300 if os.environ.get("PLEAT_TEST_PERCENT") == "100" else 150


def play(run: Run, seed: int, n_threads: int, megabytes: int) -> dict[str, object]:
    done = run(
        str(PROGRAM),
        *(str(word) for word in (seed, STEPS, n_threads, "pleat")),
        PLEAT_SIM=f"capacity:{megabytes}M,backing:memory",
    )
    said: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    assert said["errors"] == [], "\n".join(said["errors"])  # type: ignore[arg-type]
    return said


@pytest.mark.parametrize(
    "seed, n_threads, megabytes", [(1, 1, 300), (2, 2, 500), (3, 4, 900), (4, 3, 4000)]
)
def test_no_byte_is_given_out_too_early(
    run_forked_python: Run, seed: int, n_threads: int, megabytes: int
) -> None:
    said = play(run_forked_python, seed, n_threads, megabytes)
    assert said["left"] == {}, said
    assert said["hazards"] == 0, said
    for what in ("compared", "captures", "replays"):
        assert int(str(said[what])) > 0, said
