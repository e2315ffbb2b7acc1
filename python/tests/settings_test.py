"""torch's own settings under pleat: each acts, or is named once with the reason."""

# labels: python
# needs: torch

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from conftest import RUNTIME, SIMULATOR, SOURCE, Run

BINDINGS = ("class", "hooks")
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
VALUES = {
    "backend": "native",
    "expandable_segments_reserve": "0.5",
    "expandable_segments_reserve_by_class": "[serving:0.25,other:8G]",
    "garbage_collection_threshold": "0.5",
    "large_segment_size_mb": "32",
    "max_non_split_rounding_mb": "64",
    "max_split_size_mb": "64",
    "per_process_memory_fraction": "0.75",
    "pinned_max_cached_size_mb": "64",
    "pinned_max_round_threshold_mb": "64",
    "pinned_num_register_threads": "2",
    "pinned_reserve_segment_size_mb": "64",
    "roundup_power2_divisions": "[256:1,512:2,>:4]",
}

INSTALL = """
import pleat.torch, torch
MIB = 1 << 20
pleat.torch.install(binding="{binding}")
def empty(n_bytes):
    return torch.empty(n_bytes, dtype=torch.uint8, device="cuda")
"""


def settings() -> dict[str, str]:
    """Get each key of the table, and when it acts."""
    text = (SOURCE / "python/pleat/torch/_settings.py").read_text()
    table = re.search(r"^SETTINGS = \{(.*?)^\}", text, re.DOTALL | re.MULTILINE)
    assert table is not None
    rows = re.findall(r'^    ("\w+"|FRACTION): (?:Setting\(\s*(\w+)|(_\w+))', table[1], re.MULTILINE)
    same = {"_PINNED": "TORCHS", "_LOCK": "NEVER"}
    return {
        "per_process_memory_fraction" if key == "FRACTION" else key.strip('"'): acts or same[alias]
        for key, acts, alias in rows
    }


def text_of(keys: list[str]) -> str:
    return ",".join(f"{key}:{VALUES.get(key, 'True')}" for key in keys)


def named(errors: str) -> list[str]:
    return re.findall(r"^pleat: .*: (\w+) has no effect: \w", errors, re.MULTILINE)


def known_keys(include: Path) -> list[str]:
    """The keys in the headers of a torch; none in those that keep them in their sources."""
    found = []
    for name in ("core/AllocatorConfig.h", "cuda/CUDAAllocatorConfig.h"):
        path = include / "c10" / name
        text = path.read_text() if path.exists() else ""
        for lists in re.findall(r"string> keys\{(.*?)\};", text, re.DOTALL):
            whole = re.sub(r'//.*|"\s*\n\s*"', "", lists)
            found += re.findall(r'"(\w+)"', whole)
    return found


def test_the_table_has_every_key_of_this_torch(run_torch: Run) -> None:
    done = run_torch("import torch; print(torch.__path__[0])")
    keys = known_keys(Path(done.stdout.strip()) / "include")
    if not keys:
        pytest.skip("this torch's headers have no list of keys")
    assert "expandable_segments" in keys and "pinned_use_cuda_host_register" in keys
    assert set(keys) <= set(settings())


def test_the_documentation_has_every_key() -> None:
    page = (SOURCE / "docs/pytorch.md").read_text()
    rows = "\n".join(re.findall(r"^\| `.*$", page, re.MULTILINE))
    assert [key for key in settings() if f"`{key}`" not in rows] == []


def test_hooks_name_each_key_that_does_not_act_once(run_torch: Run) -> None:
    keys = list(settings())
    random.Random(46).shuffle(keys)
    code = """
        import pleat.torch
        pleat.torch.install(binding="hooks")
        pleat.torch.install(binding="hooks")
        """
    for variable in VARIABLES:
        done = run_torch(code, PLEAT_CONF="driver:sim", **{variable: text_of(keys)})
        acting = {key for key, acts in settings().items() if acts in ("TORCHS", "START")}
        assert named(done.stderr) == [key for key in keys if key not in acting]
        assert variable in done.stderr


def test_the_class_names_each_key_of_this_torch(run_cuda: Run, run_torch: Run) -> None:
    where = run_torch("import torch; print(torch.__path__[0])").stdout.strip()
    keys = [key for key in known_keys(Path(where) / "include") if "hip" not in key]
    done = run_cuda(
        INSTALL.format(binding="class") + "a = empty(MIB)\n", PYTORCH_CUDA_ALLOC_CONF=text_of(keys)
    )
    never = [key for key in keys if settings()[key] == "NEVER"]
    assert named(done.stderr) == never


def test_a_key_that_torch_does_not_know_is_named(run_torch: Run) -> None:
    done = run_torch(
        "import pleat.torch\npleat.torch.install(binding='hooks')",
        PLEAT_CONF="driver:sim",
        PYTORCH_ALLOC_CONF="expandable_segment:True",
    )
    assert named(done.stderr) == ["expandable_segment"]
    assert "no such setting" in done.stderr


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("variable", VARIABLES)
def test_a_share_in_the_environment_is_kept(run_cuda: Run, binding: str, variable: str) -> None:
    draw = random.Random(f"{binding} {variable}")
    for _ in range(3):
        share = round(draw.uniform(0.05, 0.85), draw.randint(2, 9))
        done = run_cuda(
            INSTALL.format(binding=binding)
            + f"""
most = int({share} * torch.cuda.get_device_properties(0).total_memory)
told = pleat.torch.get_per_process_memory_fraction()
assert abs(told - {share}) < 1e-6, told
kept = empty(most // 2)
try:
    empty(most - most // 2 + MIB)
except torch.OutOfMemoryError as error:
    assert "limit" in str(error), error
else:
    raise AssertionError("more than the share")
assert empty(most - most // 2 - 8 * MIB) is not None
""",
            **{variable: f"per_process_memory_fraction:{share}"},
        )
        assert named(done.stderr) == []


@pytest.mark.parametrize("binding", BINDINGS)
def test_shares_of_nothing_and_of_all(run_cuda: Run, binding: str) -> None:
    code = INSTALL.format(binding=binding) + "print(empty(2 << 30).numel())\n"
    nothing = run_cuda(code, status=1, PYTORCH_CUDA_ALLOC_CONF="per_process_memory_fraction:0.0")
    assert "OutOfMemoryError" in nothing.stderr
    whole = run_cuda(code, PYTORCH_CUDA_ALLOC_CONF="per_process_memory_fraction:1.0")
    assert whole.stdout.strip() == str(2 << 30)


def test_a_limit_of_pleats_own_comes_first_and_is_told(run_cuda: Run) -> None:
    code = INSTALL.format(binding="hooks") + "print(empty(3 << 30).numel())\n"
    share = "per_process_memory_fraction:0.5"
    done = run_cuda(code, PLEAT_CONF="limit:0.9", PYTORCH_CUDA_ALLOC_CONF=share)
    assert done.stdout.strip() == str(3 << 30)
    assert named(done.stderr) == ["per_process_memory_fraction"]
    done = run_cuda(code, PLEAT_CONF="limit:0.500000000", PYTORCH_CUDA_ALLOC_CONF=share, status=1)
    assert named(done.stderr) == []


@pytest.mark.parametrize("value", ("2", "-0.5", "half", "nan", ""))
def test_a_share_that_is_none_is_refused(run_torch: Run, value: str) -> None:
    run_torch(
        f"""
        import os
        import pleat.torch, torch
        before = torch._C._cuda_memoryStats
        for _ in range(2):
            try:
                pleat.torch.install(binding="hooks")
            except ValueError as error:
                assert "PYTORCH_ALLOC_CONF: per_process_memory_fraction" in str(error), error
                assert {value!r} in str(error)
            else:
                raise AssertionError
        assert not pleat.torch.is_installed() and "PLEAT_CONF" not in os.environ
        del os.environ["PYTORCH_ALLOC_CONF"]
        pleat.torch.install("driver:sim", binding="hooks")
        """,
        PYTORCH_ALLOC_CONF=f"per_process_memory_fraction:{value}",
    )


def test_settings_of_a_running_program_are_named_once(run_cuda: Run) -> None:
    done = run_cuda(
        INSTALL.format(binding="class")
        + """
import sys, warnings
warnings.simplefilter("ignore")  # newer versions have another name for it
set_ = torch.cuda.memory._set_allocator_settings
set_("max_split_size_mb:64,roundup_power2_divisions:4")
set_("max_split_size_mb:128,pinned_use_background_threads:True")
set_("expandable_segments:True")
try:
    set_("no_such_key:1")
except (RuntimeError, ValueError):
    print("refused")
"""
    )
    assert named(done.stderr) == ["max_split_size_mb", "expandable_segments"]
    assert done.stdout.strip() == "refused"


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("backend", ("native", "cudaMallocAsync"))
def test_a_backend_is_named_and_breaks_nothing(
    run_cuda: Run, run_python: Run, binding: str, backend: str
) -> None:
    draw = random.Random(f"{binding} {backend}")
    keys = ["backend", "max_split_size_mb", "pinned_num_register_threads"][: draw.randint(1, 3)]
    draw.shuffle(keys)
    text = text_of(keys).replace("backend:native", f"backend:{backend}")
    conf = {draw.choice(VARIABLES[::2]): text}
    code = (
        INSTALL.format(binding=binding)
        + f"""
import warnings
warnings.simplefilter("ignore")  # newer versions have another name for the last
set_ = torch.cuda.memory._set_allocator_settings
a = empty(MIB)
torch.empty(4096).pin_memory()
torch.cuda.memory._snapshot()
set_("backend:{backend}")
set_("max_split_size_mb:32,backend:{backend}")
"""
    )
    if backend == "native":
        done = run_cuda(code, **conf)
    else:  # torch takes its backend as it is imported
        done = run_python("-c", code, LD_PRELOAD=str(RUNTIME), PLEAT_SIM=SIMULATOR, **conf)
    assert sorted(named(done.stderr)) == ["backend", "max_split_size_mb"]


def test_settings_of_pinned_memory_act_until_it_is_pleats(run_cuda: Run) -> None:
    code = INSTALL.format(binding="class")
    conf = {"PYTORCH_CUDA_ALLOC_CONF": "pinned_use_background_threads:True"}
    assert named(run_cuda(code, **conf).stderr) == []
    more = """
try:
    pleat.torch.install_pinned()
except RuntimeError as error:
    print(error)
    raise SystemExit(77)
"""
    assert named(run_cuda(code + more, **conf).stderr) == ["pinned_use_background_threads"]


def test_children_leave_it_to_their_parent(run_forked_python: Run, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        """
import multiprocessing
import pleat.torch, torch

def work(share):
    assert pleat.torch.is_installed()
    assert pleat.torch.get_per_process_memory_fraction() == share

if __name__ == "__main__":
    pleat.torch.install(binding="hooks")
    child = multiprocessing.get_context("spawn").Process(target=work, args=(0.25,))
    child.start()
    child.join()
    assert child.exitcode == 0
"""
    )
    conf = "expandable_segments:True,per_process_memory_fraction:0.25"
    done = run_forked_python(str(program), PYTORCH_CUDA_ALLOC_CONF=conf)
    assert named(done.stderr) == ["expandable_segments"]
