"""The command pleat-runtime: options, exit status, report."""
# labels: python

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

from on_sim import BUILD, SOURCE, environment

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
    done = python(code, "--memory", "1.5G", "--context", "0", "--report", str(report))
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert found["devices"][0]["capacity_bytes"] == 3 << 29
    assert found["devices"][0]["peak_bytes"] == 30 << 20
    assert found["calls"]["cuMemAlloc"] == 1
    assert found["kernels"] >= 1


def test_the_report_is_text_on_stderr_by_default() -> None:
    code = "import torch; torch.zeros(1, device='cuda')"
    done = python(code, "--allocator", "expandable", "--context", "1G")
    assert "device 0 of 80.00 GiB held 1.00 GiB" in done.stderr
    assert "cuMemCreate" in done.stderr
    assert "pleat_runtime" not in python(code, "--quiet").stderr


def test_what_does_not_fit_fails_with_the_program_s_status() -> None:
    code = "import torch; torch.empty(2 << 30, dtype=torch.uint8, device='cuda')"
    done = python(code, "--memory", "1G")
    assert done.returncode == 1
    assert "OutOfMemoryError" in done.stderr
    assert python(code, "--memory", "3G").returncode == 0


def test_a_context_takes_its_share() -> None:
    code = "import torch; print(*torch.cuda.mem_get_info())"
    for options, share in (((), 500 << 20), (("--context", "1G"), 1 << 30), (("--context", "0"), 0)):
        done = python(code, "--memory", "2G", *options)
        assert done.stdout.split() == [str((2 << 30) - share), str(2 << 30)]
    assert python(code, "--memory", "256M").returncode == 1


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


def test_driver_and_runtime_tell_the_same_version() -> None:
    code = """
import ctypes
driver, runtime, of_driver = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
library = ctypes.CDLL(None)
assert library.cudaDriverGetVersion(ctypes.byref(driver)) == 0
assert library.cudaRuntimeGetVersion(ctypes.byref(runtime)) == 0
assert library.cuInit(0) == 0 and library.cuDriverGetVersion(ctypes.byref(of_driver)) == 0
assert driver.value == runtime.value == of_driver.value == 13000
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_what_is_found_can_be_made_up() -> None:
    text = (SOURCE / "docs/runtime.md").read_text()
    snippet = textwrap.dedent(text.split("<!-- found:begin -->")[1].split("<!-- found:end -->")[0])
    code = """
x = torch.randn(8, 6, device="cuda")
print(*x.nonzero().shape, *x[x > 0].shape, *torch.where(x > 0)[0].shape, *x[x[:, 0] > 0].shape)
"""
    done = python(snippet + code)
    assert done.stdout.split() == "24 2 24 24 4 6".split(), done.stderr


def test_wrong_usage_is_told() -> None:
    for arguments, words in (
        ((), "which program"),
        (("--memory",), "takes a value"),
        (("--memory", "much", "true"), "takes a size"),
        (("--memory", "0", "true"), "takes a size"),
        (("--memory", "80", "true"), "80 lacks a unit, as in 80G"),
        (("--memory", "80GB", "true"), "write 80G for 1,024"),
        (("--context", "some", "true"), "--context takes a size"),
        (("--allocator", "other", "true"), "takes native"),
        (("--frobnicate", "true"), "no option"),
    ):
        done = run(*arguments)
        assert done.returncode == 2
        assert words in done.stderr
    assert "--memory SIZE" in run("--help").stdout
