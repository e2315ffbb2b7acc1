"""The calls of vLLM's sleep mode to its allocator, made on pleat.vllm with the simulated runtime.

vLLM itself is not installed: a package of its name stands in for its module. Contents come from the
host and go back, since kernels compute nothing."""

from __future__ import annotations

import textwrap

import pytest
from conftest import RUNTIME, Run

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")

BEGIN = """
import os, pathlib, sys
package = pathlib.Path("vllm/device_allocator")
package.mkdir(parents=True)
(package.parent / "__init__.py").touch()
(package / "__init__.py").touch()
(package / "cumem.py").write_text("raise ImportError('the stand-in was found')")
sys.path.insert(0, os.getcwd())

import pleat, pleat.vllm
pleat.vllm.replace()
import torch
from vllm.device_allocator.cumem import CuMemAllocator, cumem_available
assert cumem_available

MIB = 1 << 20
allocator = CuMemAllocator.get_instance()
assert allocator is CuMemAllocator.get_instance()
def empty(n_bytes, device="cuda"):
    return torch.empty(n_bytes, dtype=torch.uint8, device=device)
def free(device=0):
    return torch.cuda.mem_get_info(device)[0]
def pattern(offset, n=3 * MIB):
    return torch.arange(offset, offset + n, dtype=torch.int32)
def refused(call):
    try:
        call()
    except pleat.PleatError as error:
        return error.name
"""


@pytest.fixture
def run_vllm(run_cuda: Run) -> Run:
    def run_code(code: str) -> object:
        return run_cuda(
            BEGIN + textwrap.dedent(code), PLEAT_SIM="capacity:1G,devices:2,backing:memory"
        )

    return run_code  # type: ignore[return-value]


def test_a_pool_sleeps_and_wakes(run_vllm: Run) -> None:
    run_vllm(
        """
        x = pattern(1).cuda()
        with allocator.use_memory_pool():
            y = pattern(2).cuda()
            z = empty(100 * MIB)
        address, before = y.data_ptr(), free()
        assert allocator.get_current_usage() == 112 * MIB
        allocator.sleep()
        assert free() - before >= 112 * MIB
        assert allocator.get_current_usage() == 112 * MIB
        allocator.sleep()
        allocator.wake_up()
        assert y.data_ptr() == address and torch.equal(y.cpu(), pattern(2))
        assert torch.equal(x.cpu(), pattern(1))
        allocator.wake_up()
        del y, z
        assert allocator.get_current_usage() == 0
        """
    )


def test_weights_are_kept_and_the_cache_is_discarded(run_vllm: Run) -> None:
    run_vllm(
        """
        with allocator.use_memory_pool(tag="weights"):
            weights = [pattern(7 + device).to(f"cuda:{device}") for device in range(2)]
            with allocator.use_memory_pool(tag="kv_cache"):
                cache = pattern(5, 50 * MIB).cuda()
            more = pattern(9).cuda()
        before = free(0), free(1)
        for level in 1, 2:
            allocator.sleep(offload_tags=("weights",) if level == 1 else tuple())
            assert free(0) - before[0] >= 224 * MIB and free(1) - before[1] >= 12 * MIB
            allocator.wake_up(tags=["weights"])
            assert free(0) - before[0] >= 200 * MIB
            for device in range(2):
                assert torch.equal(weights[device].cpu(), pattern(7 + device)) == (level == 1)
                weights[device].copy_(pattern(7 + device))
            assert torch.equal(more.cpu(), pattern(9)) == (level == 1)
            more.copy_(pattern(9))
            allocator.wake_up(tags=["kv_cache"])
            assert not torch.equal(cache.cpu(), pattern(5, 50 * MIB))
            cache.copy_(pattern(5, 50 * MIB))
        allocator.discard("kv_cache")
        assert torch.equal(weights[0].cpu(), pattern(7))
        allocator.sleep("weights")
        allocator.wake_up(None)
        assert torch.equal(weights[1].cpu(), pattern(8))
        """
    )


def test_a_wake_without_memory_leaves_all_asleep(run_vllm: Run) -> None:
    run_vllm(
        """
        with allocator.use_memory_pool("weights"):
            weights = pattern(3).cuda()
        with allocator.use_memory_pool("kv_cache"):
            cache = empty(600 * MIB)
        allocator.sleep("weights")
        other = empty(700 * MIB)
        assert refused(allocator.wake_up) == "PLEAT_ENOMEM_DEVICE"
        assert pleat.torch.tag_stats("vllm:weights").is_asleep
        assert pleat.torch.tag_stats("vllm:weights").kept_bytes == 12 * MIB
        del other
        allocator.wake_up()
        assert torch.equal(weights.cpu(), pattern(3))
        """
    )


def test_graphs_stay_valid(run_vllm: Run) -> None:
    run_vllm(
        """
        with allocator.use_memory_pool("weights"):
            weights = pattern(3).cuda()
            out = torch.empty_like(weights)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out.copy_(weights)
        allocator.sleep("weights")
        allocator.wake_up()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out.cpu(), pattern(3))
        """
    )


def test_the_plugin_asks_first(run_cuda: Run) -> None:
    run_cuda(
        """
        import importlib.metadata, os, sys
        found = importlib.metadata.entry_points(group="vllm.general_plugins")
        plugin = next(iter(point for point in found if point.name == "pleat")).load()
        plugin()
        assert "vllm.device_allocator.cumem" not in sys.modules
        import pleat.torch, pleat.vllm
        assert not pleat.torch.is_installed()
        try:
            pleat.vllm.CuMemAllocator.get_instance()
        except RuntimeError as error:
            assert "install" in str(error)
        else:
            raise AssertionError
        os.environ["PLEAT_VLLM"] = "1"
        plugin()
        assert pleat.torch.is_installed()
        assert sys.modules["vllm.device_allocator.cumem"] is pleat.vllm
        """
    )
