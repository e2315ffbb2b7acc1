"""The command pleat-runtime: options, exit status, report."""
# labels: python torch

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from on_sim import BUILD, environment

COMMAND = str(BUILD / "pleat-runtime")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    kept = environment("", "")
    for name in ("LD_PRELOAD", "PLEAT_SIM"):
        del kept[name]
    return subprocess.run(
        [COMMAND, *arguments], env=kept, capture_output=True, text=True, check=False
    )


def python(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run(*options, sys.executable, "-c", code)


def test_a_run_is_reported(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    code = "import torch; torch.zeros(30 << 20, dtype=torch.uint8, device='cuda').add_(1)"
    done = python(code, "--memory", "1.5G", "--report", str(report))
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert found["devices"][0]["capacity_bytes"] == 3 << 29
    assert found["devices"][0]["peak_bytes"] == 30 << 20
    assert found["calls"]["cuMemAlloc"] == 1
    assert found["kernels"] >= 1


def test_the_report_is_text_on_stderr_by_default() -> None:
    code = "import torch; torch.zeros(1, device='cuda')"
    done = python(code, "--allocator", "expandable")
    assert "device 0 of 80.00 GiB held 0.00 GiB" in done.stderr
    assert "cuMemCreate" in done.stderr
    assert "pleat_runtime" not in python(code, "--quiet").stderr


def test_what_does_not_fit_fails_with_the_program_s_status() -> None:
    code = "import torch; torch.empty(2 << 30, dtype=torch.uint8, device='cuda')"
    done = python(code, "--memory", "1G")
    assert done.returncode == 1
    assert "OutOfMemoryError" in done.stderr
    assert python(code, "--memory", "3G").returncode == 0


def test_device_options_reach_the_program() -> None:
    code = """
import torch
assert torch.cuda.device_count() == 3
assert torch.cuda.get_device_capability() == (8, 9)
assert torch.cuda.get_device_name() == "Some GPU"
assert torch.equal(torch.arange(5).cuda().cpu(), torch.arange(5))
"""
    options = ("--devices", "3", "--compute", "8.9", "--contents", "--sim", "name:Some GPU")
    done = python(code, *options)
    assert done.returncode == 0, done.stderr


def test_wrong_usage_is_told() -> None:
    for arguments, words in (
        ((), "which program"),
        (("--memory",), "takes a value"),
        (("--memory", "much", "true"), "takes a size"),
        (("--memory", "0", "true"), "takes a size"),
        (("--memory", "80", "true"), "80 lacks a unit, as in 80G"),
        (("--allocator", "other", "true"), "takes native"),
        (("--frobnicate", "true"), "no option"),
    ):
        done = run(*arguments)
        assert done.returncode == 2
        assert words in done.stderr
    assert "--memory SIZE" in run("--help").stdout
