"""install() and the runner with the real torch, without a GPU: their work before any CUDA call."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import Run


def test_the_driver_is_forced_to_cuda(run_torch: Run) -> None:
    done = run_torch(
        """
        import os
        import pleat.torch
        pleat.torch.install("limit:2G")
        print(os.environ["PLEAT_CONF"], pleat.torch.is_installed())
        """,
        PLEAT_CONF="growth:ample,driver:auto",
        PLEAT_TORCH_BINDING="hooks",  # the class adds `shareable`
    )
    told = "stream_identity:handle,capture:told"
    assert done.stdout.strip() == f"{told},growth:ample,driver:cuda,limit:2G True"


def test_nccl_registers_no_graphs_unless_it_is_told_to(run_torch: Run) -> None:
    code = """
        import os
        import pleat.torch
        pleat.torch.install()
        print(os.environ["NCCL_GRAPH_REGISTER"])
        """
    hooks = {"PLEAT_TORCH_BINDING": "hooks", "PLEAT_CONF": "driver:sim"}
    assert run_torch(code, **hooks).stdout.strip() == "0"
    assert run_torch(code, NCCL_GRAPH_REGISTER="1", **hooks).stdout.strip() == "1"


def test_the_simulator_is_taken_only_if_it_is_written_down(run_torch: Run) -> None:
    done = run_torch(
        """
        import os
        import pleat.torch
        pleat.torch.install()
        print(os.environ["PLEAT_CONF"])
        """,
        PLEAT_CONF="driver:sim",
        PLEAT_TORCH_BINDING="hooks",
    )
    assert done.stdout.strip() == "stream_identity:handle,capture:told,driver:sim"


def test_what_torch_tells_is_asked_for_if_it_is_written_down(run_torch: Run) -> None:
    done = run_torch(
        """
        import os
        import pleat.torch
        pleat.torch.install("capture:ask")
        print(os.environ["PLEAT_CONF"])
        """,
        PLEAT_CONF="driver:sim,stream_identity:id",
        PLEAT_TORCH_BINDING="hooks",
    )
    assert done.stdout.strip() == "stream_identity:id,capture:ask,driver:sim"


def test_short_goes_before_the_configuration(run_torch: Run) -> None:
    done = run_torch(
        """
        import os
        import pleat.torch
        pleat.torch.install("short:refuse", short="compact")
        print(os.environ["PLEAT_CONF"])
        """,
        PLEAT_CONF="driver:sim",
        PLEAT_TORCH_BINDING="hooks",
    )
    told = "stream_identity:handle,capture:told"
    assert done.stdout.strip() == f"{told},driver:sim,short:compact"


@pytest.mark.parametrize("word", ["never", "", "Compact"])
def test_a_bad_word_for_short_is_said_at_once(run_torch: Run, word: str) -> None:
    done = run_torch(f"import pleat.torch\npleat.torch.install(short={word!r})", status=1)
    assert f"ValueError: short is one of refuse, compact, not {word!r}" in done.stderr


def test_the_simulator_is_refused_where_torch_sees_a_gpu(run_torch: Run) -> None:
    done = run_torch(
        """
        import pleat.torch, torch
        torch.cuda.device_count = lambda: 1
        pleat.torch.install("driver:sim")
        """,
        status=1,
    )
    assert "RuntimeError: driver:sim is configured, but torch sees a real GPU" in done.stderr


def test_twice_is_once_and_another_configuration_is_an_error(run_torch: Run) -> None:
    done = run_torch(
        """
        import pleat.torch
        pleat.torch.install("limit:1G")
        pleat.torch.install("limit:1G")
        pleat.torch.install()
        try:
            pleat.torch.install("limit:2G")
        except RuntimeError as error:
            print(error)
        """
    )
    assert "limit:1G,driver:cuda" in done.stdout
    assert "limit:2G" in done.stdout


def test_an_instance_that_was_made_before_keeps_its_driver(run_torch: Run) -> None:
    done = run_torch(
        "import pleat, pleat.torch\npleat.memory_stats(0)\npleat.torch.install('driver:cuda')",
        status=1,
        PLEAT_CONF="driver:sim",
    )
    assert "default instance was used before, with PLEAT_CONF='driver:sim'" in done.stderr


def test_a_bad_configuration_is_said_at_once_and_changes_nothing(run_torch: Run) -> None:
    run_torch(
        """
        import os
        import pleat, pleat.torch, torch
        before = torch._C._cuda_memoryStats
        for conf, kind in (("growht:ample", pleat.PleatError), ("limit", ValueError)):
            try:
                pleat.torch.install(conf)
            except kind as error:
                assert "growht" in str(error) or "limit" in str(error)
            else:
                raise AssertionError(conf)
        assert "PLEAT_CONF" not in os.environ
        assert not pleat.torch.is_installed()
        assert torch._C._cuda_memoryStats is before
        pleat.torch.install()
        """
    )


def test_who_wrote_the_bad_key_is_blamed(run_torch: Run) -> None:
    code = """
        import pleat, pleat.torch
        try:
            pleat.torch.install("limt:0.9" if {is_own} else "limit:0.9")
        except pleat.PleatError as error:
            print(error)
        """
    own = run_torch(code.format(is_own=True), PLEAT_CONF="growth:ample").stdout
    assert own.startswith("PLEAT_ECONF: conf: ") and "'limt'" in own, own
    theirs = run_torch(code.format(is_own=False), PLEAT_CONF="growht:ample").stdout
    assert theirs.startswith("PLEAT_ECONF: PLEAT_CONF: ") and "'growht'" in theirs, theirs


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("torch.cuda.is_initialized = lambda: True", "before the first use of CUDA"),
        ("torch.__version__ = '2.0.1+cu118'", "torch 2.0.1+cu118 is too old"),
        ("torch.version.cuda = None", "is built without CUDA"),
        ("torch.version.hip = '6.0'", "is built for ROCm"),
    ],
)
def test_what_cannot_work_is_refused_with_its_reason(run_torch: Run, change: str, text: str) -> None:
    done = run_torch(f"import pleat.torch, torch\n{change}\npleat.torch.install()", status=1)
    assert "RuntimeError: " in done.stderr
    assert text in done.stderr


def test_a_package_without_the_shim_is_refused(run_torch: Run, tmp_path: Path) -> None:
    import shutil

    import pleat

    shutil.copy(pleat.library_path(), tmp_path / "libpleat.so")
    done = run_torch(
        "import pleat.torch\npleat.torch.install(binding='hooks')",
        status=1,
        PLEAT_LIBRARY=str(tmp_path / "libpleat.so"),
    )
    assert "libpleat_torch.so is missing" in done.stderr


def test_this_torch_has_no_hook_that_is_not_set(run_torch: Run) -> None:
    run_torch(
        """
        import torch
        from pleat.torch import _install
        there = {n for n in dir(torch._C._CUDAPluggableAllocator) if n.startswith("set_")}
        assert there == set(_install.HOOKS), there ^ set(_install.HOOKS)
        """
    )


def test_torchs_own_bindings_reach_the_pool_hooks(run_torch: Run) -> None:
    """The private pool's statistics appear, so the id, a pair by value, arrived unchanged."""
    run_torch(
        """
        import pleat, pleat.torch, torch
        library = pleat.library()
        pleat.torch.install('driver:sim', binding='hooks')
        before = library.pleat_torch_malloc(1 << 20, 0, None)
        torch._C._cuda_beginAllocateToPool(0, (7, 41))
        inside = library.pleat_torch_malloc(3 << 20, 0, None)
        older = getattr(torch._C, "_cuda_endAllocateCurrentStreamToPool", None)
        getattr(torch._C, "_cuda_endAllocateToPool", older)(0, (7, 41))
        outside = library.pleat_torch_malloc(3 << 20, 0, None)
        stats = pleat.memory_stats(0)
        assert stats["reserved_bytes_by_private_pools.7_41.all.current"] >= 3 << 20, stats
        library.pleat_torch_free(inside, 3 << 20, 0, None)
        again = library.pleat_torch_malloc(3 << 20, 0, None)
        assert again != inside, "a pool's memory went to somebody else"
        torch._C._cuda_releasePool(0, (7, 41))
        library.pleat_torch_reset()
        stats = pleat.memory_stats(0)
        assert stats.get("reserved_bytes_by_private_pools.7_41.all.current", 0) == 0, stats
        for at, size in ((before, 1), (outside, 3), (again, 3)):
            library.pleat_torch_free(at, size << 20, 0, None)
        library.pleat_torch_reset()
        assert pleat.memory_stats(0)["reserved_bytes.all.current"] == 0
        assert pleat.check_invariants() == 0
        """
    )


def test_functions_answer_as_torchs_do_before_cuda_is_used(run_torch: Run) -> None:
    run_torch(
        """
        import pleat.torch, torch
        pleat.torch.install()
        assert torch.cuda.memory_stats() == {} == pleat.torch.memory_stats()
        assert torch.cuda.memory_allocated() == 0 == pleat.torch.memory_allocated()
        assert pleat.torch.max_memory_reserved() == 0
        torch.cuda.empty_cache()
        pleat.torch.empty_cache()
        assert pleat.torch.compact() == (0, 0, 0)
        """
    )


def test_unpatching_gives_torch_its_functions_back(run_torch: Run) -> None:
    run_torch(
        """
        import pleat.torch, torch
        names = [n for n in dir(torch._C) if "emory" in n or "istory" in n or "Stats" in n]
        before = {n: getattr(torch._C, n) for n in names}
        pleat.torch.install(patch=False, binding='hooks')
        assert all(getattr(torch._C, n) is f for n, f in before.items())
        pleat.torch.patch()
        pleat.torch.patch()
        changed = {n for n, f in before.items() if getattr(torch._C, n) is not f}
        assert {"_cuda_memoryStats", "_cuda_memorySnapshot"} <= changed
        pleat.torch.unpatch()
        assert all(getattr(torch._C, n) is f for n, f in before.items())
        """
    )


def test_torchs_numbers_are_not_hidden_without_install(run_torch: Run) -> None:
    done = run_torch(
        """
        import pleat.torch, torch
        before = torch._C._cuda_memoryStats
        try:
            pleat.torch.patch()
        except RuntimeError as error:
            print(error)
        assert torch._C._cuda_memoryStats is before
        pleat.torch.install(patch=False, binding='hooks')
        assert torch._C._cuda_memoryStats is before
        pleat.torch.patch()
        assert torch._C._cuda_memoryStats is not before
        """
    )
    assert done.stdout.startswith("pleat is not installed")


def test_pools_and_install_exclude_each_other(run_torch: Run) -> None:
    done = run_torch("import pleat.torch\npleat.torch.install()\npleat.torch.mem_pool()", status=1)
    assert "use one or the other" in done.stderr


def test_workers_may_be_forked_after_install(run_torch: Run) -> None:
    run_torch(
        """
        import pleat.torch, torch
        from torch.utils.data import DataLoader
        pleat.torch.install()
        loader = DataLoader(torch.arange(64.0), batch_size=8, num_workers=2)
        assert sum(float(batch.sum()) for batch in loader) == 63 * 32
        """
    )


SCRIPT = """
import os, sys
import torch
import beside
print(sys.argv[1:], __name__, os.path.basename(__file__), sys.path[0] == os.path.dirname(__file__))
print(sys.modules["__main__"].__dict__ is globals(), beside.VALUE)
import pleat.torch
print(pleat.torch.is_installed())
if "--fail" in sys.argv:
    sys.exit(3)
if "--raise" in sys.argv:
    raise KeyError("the script's own")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "beside.py").write_text("VALUE = 42\n")
    (folder / "script.py").write_text(SCRIPT)
    return folder / "script.py"


def test_a_script_runs_as_python_runs_it(run_python: Run, script: Path) -> None:
    done = run_python("-m", "pleat.torch", str(script), "--report", "-x", "file")
    assert done.stdout.splitlines() == [
        "['--report', '-x', 'file'] __main__ script.py True", "True 42", "True",
    ]  # fmt: skip
    assert all("pleat" in line for line in done.stderr.splitlines())  # there may be no GPU


def test_a_script_is_compiled_without_anybodys_future_features(
    run_pleat_torch: Run, tmp_path: Path
) -> None:
    script = tmp_path / "annotated.py"
    script.write_text("def f(x: int): ...\nprint(f.__annotations__['x'] is int)\n")
    assert run_pleat_torch(str(script)).stdout == "True\n"
    script.write_text("from __future__ import annotations\n" + script.read_text())
    assert run_pleat_torch(str(script)).stdout == "False\n"


def test_the_help_says_which_children_have_pleat(run_pleat_torch: Run) -> None:
    text = " ".join(run_pleat_torch("--help").stdout.split())
    assert "torch.distributed.run" in text and "PLEAT_TORCH_SPAWN=0" in text


def test_without_a_gpu_the_simulated_one_is_named(run_pleat_torch: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('ran')")
    words = ("--conf", "limit:2G", "train.py", "a b")
    done = run_pleat_torch(*words, CUDA_VISIBLE_DEVICES="")
    assert done.stdout == "ran\n"
    line = f"pleat-runtime --memory 80G {sys.executable} -m pleat.torch --conf limit:2G train.py 'a b'"
    assert done.stderr.splitlines()[-1].strip() == line


@pytest.mark.parametrize("call", ["install()", "install(binding='hooks')", "mem_pool()"])
def test_the_simulated_driver_alone_points_to_the_simulated_runtime(
    run_torch: Run, run_cuda: Run, call: str
) -> None:
    code = f"import pleat.torch\ntry:\n    pleat.torch.{call}\nexcept RuntimeError:\n    pass\n"
    hint = "To run torch without a GPU: pleat-runtime python3 YOUR_SCRIPT.py"
    done = run_torch(code, PLEAT_CONF="driver:sim", CUDA_VISIBLE_DEVICES="")
    assert done.stderr.count(hint) == 1
    assert hint not in run_cuda(code).stderr


def test_what_has_nothing_to_do_without_an_install_says_so(run_cuda: Run) -> None:
    calls = (
        "import pleat.torch, torch\n"
        "x = torch.empty(1 << 20, device='cuda')\n"
        "pleat.torch.memory_allocated()\n"
        "pleat.torch.compact()\n"
        "with pleat.torch.tag('weights'): pass\n"
    )
    said = run_cuda(calls).stderr
    for line in (3, 4, 5):
        assert f":{line}: RuntimeWarning: torch allocates without pleat" in said
    assert said.count("call pleat.torch.install() before the first CUDA tensor") == 3
    assert "Warning" not in run_cuda(calls.replace(", torch\n", ", torch\npleat.torch.install()\n")).stderr
    assert "Warning" not in run_cuda(calls.replace("x = ", "# x = ")).stderr


def test_on_a_simulated_one_nothing_is_said(run_forked_python: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch; print(torch.cuda.device_count())")
    done = run_forked_python("-m", "pleat.torch", "train.py")
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("trian.py",), "pleat: there is no script trian.py\n"),
        (("python3", "train.py"), "pleat: python3 is no script: leave it out, as in "),
    ],
)
def test_what_is_no_script_is_named(run_pleat_torch: Run, words: tuple[str, ...], said: str) -> None:
    done = run_pleat_torch(*words, status=1)
    assert said in done.stderr and "Traceback" not in done.stderr


def test_a_module_runs_as_python_runs_it(run_pleat_torch: Run, script: Path) -> None:
    (script.parent / "script.py").rename(script.parents[1] / "module.py")
    (script.parent / "beside.py").rename(script.parents[1] / "beside.py")
    done = run_pleat_torch("-m", "module", "-m", "1")
    assert done.stdout.splitlines()[0] == "['-m', '1'] __main__ module.py True"


def test_the_exit_status_is_the_scripts(run_pleat_torch: Run, script: Path) -> None:
    run_pleat_torch(str(script), "--fail", status=3)
    done = run_pleat_torch("--report", str(script), "--raise", status=1)
    assert "the script's own" in done.stderr
    assert "pleat: CUDA was not used" in done.stderr


def test_short_is_an_option_of_the_runner(run_pleat_torch: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os; print(os.environ['PLEAT_CONF'])")
    assert "short:" not in run_pleat_torch("train.py").stdout
    done = run_pleat_torch("--short", "compact", "train.py", PLEAT_CONF="short:refuse")
    assert "short:compact" in done.stdout.split()[0].split(",")
    done = run_pleat_torch("--short", "never", "train.py", status=2)
    assert "--short: invalid choice: 'never' (choose from" in done.stderr


def test_a_missing_script_and_a_bad_configuration_are_said(run_pleat_torch: Run) -> None:
    assert "nowhere.py" in run_pleat_torch("nowhere.py", status=1).stderr
    done = run_pleat_torch("--conf", "growht:1", "nowhere.py", status=1)
    assert "growht" in done.stderr
