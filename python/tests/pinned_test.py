"""pleat as torch's allocator of pinned memory, on the simulated runtime."""

from __future__ import annotations

import importlib.metadata
import textwrap
from pathlib import Path

import pytest
from conftest import RUNTIME, Run, run_arguments

VERSION = tuple(int(part) for part in importlib.metadata.version("torch").split(".")[:2])
pytestmark = [
    pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built"),
    pytest.mark.skipif(VERSION < (2, 10), reason="torch before 2.10 has no such allocators"),
]

BEGIN = """
import gc
import pleat, pleat.torch, torch
MIB = 1 << 20
pleat.torch.install(binding="class")
pleat.torch.install_pinned()
def pinned(n_bytes):
    return torch.empty(n_bytes, dtype=torch.uint8, pin_memory=True)
torch.cuda.init()
"""


def test_pinned_tensors_lie_in_pleat(run_cuda: Run) -> None:
    run_cuda(
        BEGIN
        + textwrap.dedent(
            """
            a = pinned(1000)
            a.fill_(7)
            assert a.is_pinned() and int(a.sum()) == 7000
            stats = torch.cuda.host_memory_stats()
            assert stats["active_requests.current"] == 1
            assert stats["active_bytes.current"] == 1024
            assert stats["allocated_bytes.current"] >= 1024 and stats["num_host_alloc"] >= 1
            del a
            gc.collect()
            stats = torch.cuda.host_memory_stats()
            assert stats["active_requests.current"] == 0 and stats["active_requests.freed"] == 1
            torch.cuda.reset_accumulated_host_memory_stats()
            assert torch.cuda.host_memory_stats()["active_requests.freed"] == 0
            torch.cuda.reset_peak_host_memory_stats()
            assert torch.cuda.host_memory_stats()["active_bytes.peak"] == 0
            torch._C._host_emptyCache()
            assert torch.cuda.host_memory_stats()["allocated_bytes.current"] == 0
            assert pinned(0).numel() == 0
            """
        )
    )


def test_sizes_are_exact(run_cuda: Run) -> None:
    run_cuda(
        BEGIN
        + textwrap.dedent(
            """
            n_bytes = int(1.1 * 1024) * MIB
            for _ in range(5):
                a = pinned(n_bytes)
                b = a[: 4 * MIB].to("cuda", non_blocking=True)
                del a, b
                torch.cuda.synchronize()
            stats = torch.cuda.host_memory_stats()
            assert stats["allocated_bytes.peak"] <= 1.01 * n_bytes, stats
            """
        )
    )


def test_copies_hold_memory_back_and_graphs_can_be_captured(run_cuda: Run) -> None:
    run_cuda(
        BEGIN
        + textwrap.dedent(
            """
            streams = [torch.cuda.Stream() for _ in range(3)]
            target = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
            for i in range(60):
                with torch.cuda.stream(streams[i % 3]):
                    target.copy_(pinned(4 * MIB), non_blocking=True)
            graph = torch.cuda.CUDAGraph()
            source = pinned(4 * MIB)
            with torch.cuda.graph(graph):
                target.copy_(source, non_blocking=True)
            graph.replay()
            del source, graph
            torch.cuda.synchronize()
            """
        )
    )


def test_it_needs_the_class(run_cuda: Run) -> None:
    run_cuda(
        """
        import pleat.torch
        try:
            pleat.torch.install_pinned()
        except RuntimeError as error:
            assert 'install(binding="class")' in str(error)
        else:
            raise SystemExit("it was installed")
        """
    )


SPAWNING = """
import pleat.torch, torch, torch.multiprocessing

def tell(who):
    a = torch.empty(1000, dtype=torch.uint8, pin_memory=True)
    a.fill_(7)
    b = a.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    assert a.is_pinned() and torch.equal(b.cpu(), a)
    held = torch.cuda.host_memory_stats()["allocated_bytes.current"]
    print(who, pleat.torch.binding(), held, flush=True)  # torch's own cache holds 1024

def work(rank):
    tell("child")

def main(kind):
    pleat.torch.install(binding="class")
    if kind == "pinned":
        pleat.torch.install_pinned()
        pleat.torch.install_pinned()  # again: nothing
    torch.multiprocessing.spawn(work, nprocs=1)
    tell("parent")
"""


@pytest.mark.parametrize("kind, held", [("pinned", 2 << 20), ("plain", 1024)])
def test_spawned_children_inherit_it(
    run_cuda: Run, forked_python: Path, tmp_path: Path, kind: str, held: int
) -> None:
    """The first child is a fresh python. The second, which inherits nothing, is a fork."""
    (tmp_path / "spawning.py").write_text(SPAWNING)
    code = f"import spawning; spawning.main({kind!r})"
    sim = "capacity:4G,backing:memory"
    done = run_cuda(code, PLEAT_SIM=sim)
    assert done.stdout == f"child class {held}\nparent class {held}\n", done.stdout
    assert "own allocator" not in done.stderr, done.stderr
    given = {"LD_PRELOAD": str(RUNTIME), "PLEAT_SIM": sim, "PLEAT_TORCH_SPAWN": "0"}
    done = run_arguments("-c", code, cwd=tmp_path, python=forked_python, **given)
    assert done.stdout == f"child None 1024\nparent class {held}\n", done.stdout


AT_THE_TOP = """
import pleat.torch, torch, torch.multiprocessing
pleat.torch.install(binding="class")  # in the child, too, which has inherited it by then
pleat.torch.install_pinned()

def work(rank):
    torch.cuda.init()
    torch.empty(1000, dtype=torch.uint8, pin_memory=True)
    assert torch.cuda.host_memory_stats()["active_bytes.peak"] == 1024

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=1)
    print("done")
"""


def test_a_child_may_ask_for_what_it_has_inherited(run_forked_python: Run, tmp_path: Path) -> None:
    script = tmp_path / "top.py"
    script.write_text(AT_THE_TOP)
    done = run_forked_python(str(script))
    assert done.stdout == "done\n", done.stdout
