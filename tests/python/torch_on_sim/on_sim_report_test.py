"""`pleat ab` finds the call site that strands memory, in a snapshot of PyTorch itself."""
# labels: python

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from on_sim import BUILD, SOURCE, run

sys.path.append(str(SOURCE / "bench/report"))

import sites  # noqa: E402

PLEAT = BUILD / "pleat"
KEPT = 40 * (2 << 20)


@pytest.fixture(scope="module", name="moments")
def fixture_moments(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict]:
    folder = tmp_path_factory.mktemp("report")
    snapshot = folder / "stranding.pickle"
    run("stranding", str(snapshot), allocator="native")
    done = subprocess.run(
        [str(PLEAT), "ab", str(snapshot), "--driver", "sim", "--no-report", "--out", str(folder)]
        + ["--allocator", "torch-native,torch-expandable,pleat", "--loops", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (folder / "moments.jsonl").read_text().splitlines()]
    return {(row["moment"], row["allocator"]): row for row in rows}


def culprit_of(moment: dict) -> sites.Site:
    return sites.ranked(moment)[0]


@pytest.mark.parametrize("kind", ["peak", "failure"])
def test_the_culprit_is_ranked_first_under_torch_native(
    moments: dict[tuple[str, str], dict], kind: str
) -> None:
    moment = moments[kind, "torch-native"]
    first, second = (sites.ranked(moment) + [sites.Site("nobody")])[:2]
    assert "stranding.py" in first.name and "keep_statistics" in first.name, first
    assert first.n_blocks == 40 and first.live_bytes == KEPT
    assert first.charged_bytes > 0.9 * moment["stranded_bytes"], (first, second)
    assert moment["stranded_bytes"] > 500 << 20
    assert "train" in first.stack


def test_the_failed_request_has_its_stack(moments: dict[tuple[str, str], dict]) -> None:
    moment = moments["failure", "torch-native"]
    assert moment["has_failed"] and moment["requested_bytes"] == 1000 << 20
    stack = moment["stacks"][str(moment["requested_stack"])]
    assert stack.split("\n")[0].endswith("train")


def test_pleat_strands_a_granule_a_block_at_the_same_event(
    moments: dict[tuple[str, str], dict],
) -> None:
    """Each kept block begins and ends within a granule."""
    natives = moments["failure", "torch-native"]
    pleats = moments["failure", "pleat"]
    assert pleats["event"] == natives["event"]
    assert pleats["stranded_bytes"] <= KEPT < natives["stranded_bytes"] / 5
    assert not pleats["has_failed"]
