"""The command pleat-runtime: options, exit status, report. Programs that import torch are forks of
a python that has imported torch, but for the first."""
# labels: python

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from on_sim import BUILD, SOURCE, environment, forks_of

COMMAND = str(BUILD / "pleat-runtime")


def run(
    *arguments: str, extra: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    kept = {**environment("", ""), **(extra or {})}
    for name in ("LD_PRELOAD", "PLEAT_SIM"):
        del kept[name]
    return subprocess.run(
        [COMMAND, *arguments], env=kept, capture_output=True, text=True, check=False
    )


def python(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run(*options, sys.executable, "-c", code)


@pytest.fixture(scope="module")
def torch_python() -> str:
    return str(forks_of(environment("native", "")).python)


# Asks the runtime without importing torch, which takes seconds.
ASK_FREE = """
import ctypes, sys
free, total = ctypes.c_size_t(), ctypes.c_size_t()
status = ctypes.CDLL(None).cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
print(free.value, total.value)
sys.exit(status != 0)
"""


def test_a_run_is_reported(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    # A fresh python: the simulated runtime is loaded before torch.
    code = "import torch; torch.zeros(30 << 20, dtype=torch.uint8, device='cuda').add_(1)"
    done = python(code, "--memory", "1.5G", "--context", "0", "--report", str(report))
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert found["devices"][0]["capacity_bytes"] == 3 << 29
    assert found["devices"][0]["peak_bytes"] == 30 << 20
    assert found["calls"]["cuMemAlloc"] == 1
    assert found["kernels"] >= 1


def test_the_report_is_text_on_stderr_by_default(torch_python: str) -> None:
    code = "import torch; torch.zeros(1, device='cuda')"
    done = run("--allocator", "expandable", "--context", "1G", torch_python, "-c", code)
    assert "device 0 of 80.00 GiB held 1.00 GiB" in done.stderr
    assert "cuMemCreate" in done.stderr
    done = python(ASK_FREE, "--quiet")
    assert done.stdout and "pleat_runtime" not in done.stderr


def test_what_does_not_fit_fails_with_the_program_s_status(torch_python: str) -> None:
    code = "import torch; torch.empty(2 << 30, dtype=torch.uint8, device='cuda')"
    done = run("--memory", "1G", torch_python, "-c", code)
    assert done.returncode == 1
    assert "OutOfMemoryError" in done.stderr


def test_a_context_takes_its_share() -> None:
    for options, share in (((), 500 << 20), (("--context", "1G"), 1 << 30), (("--context", "0"), 0)):
        done = python(ASK_FREE, "--memory", "2G", *options)
        assert done.stdout.split() == [str((2 << 30) - share), str(2 << 30)]
    assert python(ASK_FREE, "--memory", "256M").returncode == 1


def test_device_options_reach_the_program(torch_python: str) -> None:
    code = """
import torch
assert torch.cuda.device_count() == 3
assert torch.cuda.get_device_capability() == (8, 9)
assert torch.cuda.get_device_name() == "Some GPU"
assert torch.equal(torch.arange(5).cuda().cpu(), torch.arange(5))
"""
    options = ("--devices", "3", "--compute", "8.9", "--contents", "--sim", "name:Some GPU")
    done = run(*options, torch_python, "-c", code)
    assert done.returncode == 0, done.stderr


def test_driver_and_runtime_tell_the_same_version() -> None:
    code = """
import ctypes
driver, runtime, of_driver = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
library = ctypes.CDLL(None)
assert library.cudaDriverGetVersion(ctypes.byref(driver)) == 0
assert library.cudaRuntimeGetVersion(ctypes.byref(runtime)) == 0
assert library.cuInit(0) == 0 and library.cuDriverGetVersion(ctypes.byref(of_driver)) == 0
assert driver.value == runtime.value == of_driver.value == 13020
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_what_is_found_can_be_made_up(torch_python: str) -> None:
    text = (SOURCE / "docs/runtime.md").read_text()
    snippet = textwrap.dedent(text.split("<!-- found:begin -->")[1].split("<!-- found:end -->")[0])
    code = """
x = torch.randn(8, 6, device="cuda")
print(*x.nonzero().shape, *x[x > 0].shape, *torch.where(x > 0)[0].shape, *x[x[:, 0] > 0].shape)
"""
    done = run(torch_python, "-c", snippet + code)
    assert done.stdout.split() == "24 2 24 24 4 6".split(), done.stderr


def test_a_card_has_what_the_pages_say() -> None:
    page = (SOURCE / "docs/benchmarks.md").read_text()
    cards = re.findall(r"^\| (\d+ GB) \| ([\d.]+) \|", page, re.MULTILINE)
    assert len(cards) >= 7
    for name, for_programs in cards:
        done = run("--card", name.replace(" ", ""), "sh", "-c", "echo $PLEAT_SIM")
        told = re.match(r"capacity:(\d+),", done.stdout)
        assert told, done.stderr
        assert abs(int(told[1]) / 2**30 - 0.5 - float(for_programs)) <= 0.051, name
    assert run("--card", "24 gb", "sh", "-c", "echo $PLEAT_SIM").stdout.startswith("capacity:2")


def test_a_card_is_known_by_the_name_of_its_gpu() -> None:
    told = {name: run("--card", name, "sh", "-c", "echo $PLEAT_SIM").stdout
            for name in ("24GB", "24G", "L4", "a10g", "rtx 4090", "RTX4090", "H20", "RTX PRO 6000")}
    assert told["24GB"] == told["24G"] == told["L4"] == told["a10g"]
    assert told["rtx 4090"] == told["RTX4090"] != told["L4"]
    assert told["H20"] == told["RTX PRO 6000"] != ""


# A program that needs some GiB, depending on the allocator, and logs each run.
NEEDY = '''#!/bin/sh
capacity=$(echo "$PLEAT_SIM" | sed 's/capacity:\\([0-9]*\\),.*/\\1/')
gib=$((capacity / 1073741824))
case "$PYTORCH_CUDA_ALLOC_CONF $*" in
*pleat.torch*) need=@pleat@ name=pleat ;;
expandable*) need=@expandable@ name=expandable ;;
*) need=@native@ name=native ;;
esac
echo $name $gib $need $* >>"$0.log"
echo "pleat_runtime: device 0 of $gib.00 GiB held @held@ GiB at most, 0.00 at the end" >&2
[ $gib -ge $need ] || { echo "@words@" >&2; exit 1; }
'''


def make_needy(folder: Path, **values: object) -> Path:
    text = NEEDY
    for name, value in {"held": "41.59", "words": "CUDA out of memory", **values}.items():
        text = text.replace(f"@{name}@", str(value))
    program = folder / "torchrun"
    program.write_text(text)
    program.chmod(0o755)
    return program


def runs_of(program: Path) -> list[list[str]]:
    return [line.split() for line in Path(f"{program}.log").read_text().splitlines()]


@pytest.mark.parametrize(
    ("native", "expandable", "pleat"), [(24, 23, 22), (3, 3, 3), (42, 1, 5), (1, 2, 300)]
)
def test_the_least_device_is_confirmed_by_runs_on_both_sides(
    tmp_path: Path, native: int, expandable: int, pleat: int
) -> None:
    needs = {"native": native, "expandable": expandable, "pleat": pleat}
    program = make_needy(tmp_path, **needs)
    report = tmp_path / "report.jsonl"
    done = run("--fit", "--report", str(report), str(program), "train.py", "--size", "3")
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in report.read_text().splitlines()]
    assert [one["allocator"] for one in told] == list(needs)
    runs = runs_of(program)
    for one in told:
        name, need = one["allocator"], needs[one["allocator"]]
        own = [int(gib) for of, gib, *_ in runs if of == name]
        assert one["least_bytes"] == need << 30 and need in own
        assert one["fails_bytes"] == ((need - 1) << 30 if need > 1 else None)
        assert need == 1 or need - 1 in own
        assert len(own) == len(set(own)) <= 20
        assert f"{name} on {need}G: completes" in done.stderr
    assert all(words[3:] == ["-m", "pleat.torch", "train.py", "--size", "3"]
               for words in runs if words[0] == "pleat")  # fmt: skip
    assert done.stdout.splitlines()[0].split() == "allocator least fails on card held on 1024G".split()


def test_the_smallest_card_that_is_enough_is_named(tmp_path: Path) -> None:
    program = make_needy(tmp_path, native=80, expandable=79, pleat=300)
    rows = run("--fit", "--quiet", str(program), "train.py").stdout.splitlines()
    assert [row.split()[3] for row in rows[1:]] == ["96GB", "80GB", "none"]


def test_sizes_of_a_search_have_a_step_and_an_end(tmp_path: Path) -> None:
    program = make_needy(tmp_path, native=6, expandable=30, pleat=30)
    asked = ("--memory", "20G", "--step", "4G", "--allocator", "native,expandable")
    done = run("--fit", *asked, str(program), "train.py")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1].split()[:3] == ["native", "8G", "4G"]
    assert "runs out of memory on 20G, too" in done.stdout.splitlines()[2]
    assert all(int(gib) % 4 == 0 for _, gib, *_ in runs_of(program))
    # What the context alone fills is not tried.
    program = make_needy(tmp_path, native=3, expandable=3, pleat=3)
    done = run("--fit", "--context", "2G", "--allocator", "native", str(program), "train.py")
    assert done.stdout.splitlines()[1].split()[:3] == ["native", "3G", "-"]


def test_a_failure_without_a_word_of_memory_ends_the_search(tmp_path: Path) -> None:
    words = "ModuleNotFoundError: No module named 'transformers'"
    program = make_needy(tmp_path, native=2000, expandable=2, pleat=2, words=words)
    done = run("--fit", "--allocator", "native", str(program), "train.py")
    assert done.returncode == 1
    assert "exit status 1 on 1024G, and not for want of memory" in done.stdout
    assert words in done.stderr
    assert len(runs_of(program)) == 1
    missing = "Error while finding module specification: No module named 'pleat'"
    program = make_needy(tmp_path, native=2, expandable=2, pleat=2000, words=missing)
    done = run("--fit", "--allocator", "pleat", str(program), "train.py")
    assert "this Python lacks pleat: pip install" in done.stdout


def test_a_program_of_pytorch_is_searched_for(tmp_path: Path, torch_python: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        """
import torch
def make(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
whole = make(1024)
del whole
half = make(512)   # of the same segment, whose rest serves no 700 MiB
more = make(700)
"""
    )
    extra = {"PYTHONPATH": str(SOURCE / "python"), "PLEAT_TORCH_BINDING": "hooks"}
    asked = ("--fit", "--step", "512M", "--memory", "2G", "--context", "0", "--quiet")
    done = run(*asked, "--allocator", "native,pleat", torch_python, str(script), extra=extra)
    rows = [row.split()[:3] for row in done.stdout.splitlines()[1:]]
    assert rows == [["native", "2G", "1536M"], ["pleat", "1536M", "1G"]], done.stderr


def test_pleat_goes_before_the_script_or_the_module(tmp_path: Path) -> None:
    for program, words in (
        ("python3 -W ignore -u train.py 1", "-W ignore -u -m pleat.torch train.py 1"),
        ("python3 -m train 1", "-m pleat.torch -m train 1"),
        ("python3 -m torch.distributed.run --n 2 t.py", "-m torch.distributed.run --n 2 -m pleat.torch t.py"),
        ("torchrun --n 2 --module train 1", "--n 2 -m pleat.torch -m train 1"),
    ):  # fmt: skip
        name, *arguments = program.split()
        echo = tmp_path / name
        echo.write_text('#!/bin/sh\necho "$*"\n')
        echo.chmod(0o755)
        done = run("--allocator", "pleat", str(echo), *arguments)
        assert done.stdout.strip() == words, done.stderr
        done = run("--check", str(echo), *arguments)  # under the allocator that there is
        assert done.stdout.strip() == words.replace("pleat.torch", "pleat.check"), done.stderr
        done = run("--check", "--allocator", "pleat", str(echo), *arguments)
        assert done.stdout.strip() == words, done.stderr
    for words in (("bash", "-c"), ("python3", "-m", "pleat.torch", "-c"), ("torchrun", "--n", "2")):
        echo = tmp_path / words[0]
        echo.write_text('#!/bin/sh\necho "$* $PLEAT_TORCH_INSTALL"\n')
        echo.chmod(0o755)
        done = run("--allocator", "pleat", str(echo), *words[1:], "train")
        assert done.stdout.split() == [*words[1:], "train", "1"], done.stderr


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
        (("--allocator", "native,pleat", "true"), "a list with --fit only"),
        (("--card", "25GB", "true"), "there is no card 25GB, but"),
        (("--card", "A100", "true"), "cards A100 have several sizes"),
        (("--card", "80GB", "--memory", "8G", "true"), "which of the two"),
        (("--step", "1G", "true"), "--step goes with --fit"),
        (("--json", "told.json", "true"), "--json and --html go with --check"),
        (("--html", "told.html", "true"), "--json and --html go with --check"),
        (("--fit", "--check", "true"), "--fit and --check: which of the two"),
        (("--check", "true"), "nothing was checked"),
        (("--fit", "--step", "2000G", "torchrun", "t.py"), "more than the largest size"),
        (("--fit", "python3", "-m", "pleat.torch", "t.py"), "leave -m pleat.torch out"),
        (("--frobnicate", "true"), "no option"),
        (("train.py",), "there is no program train.py: did you mean python3 train.py?"),
        (("--fit", "pyhton3", "train.py"), "there is no program pyhton3"),
        (("--check", "pyhton3", "train.py"), "there is no program pyhton3"),
    ):
        done = run(*arguments)
        assert done.returncode == 2
        assert words in done.stderr
    assert "--memory SIZE" in run("--help").stdout


def test_settings_that_would_be_lost_are_told() -> None:
    """Of the simulator: in PLEAT_SIM beside the command, misspelt, and of an instance."""
    kept = {**environment("", ""), "PLEAT_SIM": "capacity:24G"}
    del kept["LD_PRELOAD"]
    lost = subprocess.run([COMMAND, "true"], env=kept, capture_output=True, text=True, check=False)
    assert lost.returncode == 2 and lost.stdout == ""
    assert "PLEAT_SIM=capacity:24G would have no effect" in lost.stderr
    inner = run("--memory", "4G", COMMAND, "--memory", "2G", "sh", "-c", "echo $PLEAT_SIM")
    assert inner.stdout.startswith(f"capacity:{2 << 30},"), inner.stderr
    misspelt = python(ASK_FREE, "--quiet", "--sim", "dept:3")
    assert misspelt.returncode == 1
    told = 'pleat_sim: PLEAT_SIM: unknown key "dept"; known: devices, capacity, '
    assert misspelt.stderr.count(told) == 1, misspelt.stderr
    instance = """
import ctypes, sys
pleat = ctypes.CDLL(sys.argv[1])
made = (ctypes.c_uint32 * 2)()
for conf in sys.argv[2:]:
    print(pleat.pleat_create(f"driver:sim,sim:[{conf}]".encode(), made))
"""
    same = f"capacity:{4 << 30},context:0,compute:9.0,devices:1"
    library = str(BUILD / "libpleat.so")
    done = run("--quiet", "--memory", "4G", "--context", "0", sys.executable, "-c", instance,
               library, "capacity:2G", same)  # fmt: skip
    refused, taken = done.stdout.split()
    assert (refused != "0", taken) == (True, "0"), done.stderr
    # The command pleat has devices of its own there, too.
    own = run("--quiet", str(BUILD / "pleat"), "replay", "gpt2s_tiny", "--driver", "sim",
              "--memory", "1.25x")  # fmt: skip
    assert own.returncode == 0, own.stderr
