"""The examples of torch_memory_saver, run on pleat.torch_memory_saver.

Sizes are smaller, and contents come from the host and go back, since kernels compute nothing on
the simulated runtime. docs/sleep.md says which originals run unchanged."""

from __future__ import annotations

import textwrap

import pytest
from conftest import RUNTIME, Run

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")

INSTALL = """
import os, pleat, pleat.torch, pleat.torch_memory_saver, torch
MIB = 1 << 20
pleat.torch.install(BINDING)
pleat.torch_memory_saver.replace()
from torch_memory_saver import torch_memory_saver as saver
def empty(n_bytes, device="cuda"):
    return torch.empty(n_bytes, dtype=torch.uint8, device=device)
def used(device=0):
    free, total = torch.cuda.mem_get_info(device)
    return total - free
def pattern(offset, n=3 * MIB):
    return torch.arange(offset, offset + n, dtype=torch.int32)
"""


@pytest.fixture(params=["class", "hooks"])
def run_saver(run_cuda: Run, request: pytest.FixtureRequest) -> Run:
    """Run CODE with pleat installed, in either way, on two simulated devices with contents."""
    binding = "" if request.param == "hooks" else 'binding="class"'

    def run_code(code: str) -> object:
        whole = INSTALL.replace("BINDING", binding) + textwrap.dedent(code)
        return run_cuda(whole, PLEAT_SIM="capacity:1G,devices:2,backing:memory")

    return run_code  # type: ignore[return-value]


def test_simple(run_saver: Run) -> None:
    run_saver(
        """
        import torch_memory_saver as module
        with module.configure_subprocess(), saver.configure_subprocess():
            saver.hook_mode = "preload"
        normal = empty(1_000_000)
        with saver.region():
            pauseable = empty(100 * MIB)
        address, before = pauseable.data_ptr(), used()
        saver.pause()
        after = used()
        assert before - after >= 100 * MIB
        saver.resume()
        assert used() - after >= 100 * MIB
        assert pauseable.data_ptr() == address
        pauseable.zero_()
        del normal, pauseable
        torch.cuda.empty_cache()
        """
    )


def test_cpu_backup(run_saver: Run) -> None:
    run_saver(
        """
        for backend in None, "mmap", "pinned":
            with saver.region(enable_cpu_backup=True, cpu_backup_backend=backend):
                kept = pattern(10).cuda()
            with saver.region(enable_cpu_backup=False):
                lost = pattern(20).cuda()
            saver.pause()
            unrelated = pattern(30).cuda()
            saver.resume()
            assert torch.equal(kept.cpu(), pattern(10))
            assert not torch.equal(lost.cpu(), pattern(20))
            assert torch.equal(unrelated.cpu(), pattern(30))
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                copy = kept.to("cpu", non_blocking=True)
            stream.synchronize()
            assert torch.equal(copy, pattern(10))
            del kept, lost, unrelated
            torch.cuda.empty_cache()
        """
    )


def test_get_cpu_backup(run_saver: Run) -> None:
    run_saver(
        """
        assert saver.retain_cpu_backup is False
        with saver.region(enable_cpu_backup=True):
            shaped = torch.arange(6000, dtype=torch.float32).reshape(10, 20, 30).cuda()
            large = pattern(5, 20 * MIB).cuda()
            nothing = empty(0)
        with saver.region(enable_cpu_backup=False):
            lost = pattern(1).cuda()
        plain = pattern(2).cuda()
        assert saver.get_cpu_backup(shaped) is None
        saver.pause()
        got = saver.get_cpu_backup(shaped)
        assert got.shape == (10, 20, 30) and got.dtype == torch.float32 and not got.is_cuda
        assert torch.equal(got.flatten(), torch.arange(6000, dtype=torch.float32))
        for zero_copy in False, True:  # 80 MiB are not side by side: a copy in both cases
            assert torch.equal(saver.get_cpu_backup(large, zero_copy=zero_copy), pattern(5, 20 * MIB))
        assert torch.equal(saver.get_cpu_backup(shaped[3:5]), got[3:5])
        assert saver.get_cpu_backup(nothing).shape == (0,)
        assert saver.get_cpu_backup(lost) is None and saver.get_cpu_backup(plain) is None
        saver.resume()
        assert saver.get_cpu_backup(shaped) is None
        assert torch.equal(shaped.cpu(), got)
        """
    )


def test_retain_cpu_backup(run_saver: Run, run_cuda: Run) -> None:
    run_saver(
        """
        for device in range(2):
            tag = f"retained_{device}"
            with saver.region(tag=tag, enable_cpu_backup=True):
                kept = pattern(40, 1000).to(f"cuda:{device}")
            saver.pause(tag)
            at = saver.get_cpu_backup(kept, zero_copy=True).data_ptr()
            for round in range(3):
                saver.retain_cpu_backup = True
                saver.resume(tag)
                again = saver.get_cpu_backup(kept, zero_copy=True)
                assert again.data_ptr() == at and torch.equal(again, pattern(40 + round, 1000))
                saver.retain_cpu_backup = False
                assert saver.get_cpu_backup(kept, zero_copy=True).data_ptr() == at
                kept.copy_(pattern(41 + round, 1000))
                saver.pause(tag)
                again = saver.get_cpu_backup(kept, zero_copy=True)
                assert again.data_ptr() == at and torch.equal(again, pattern(41 + round, 1000))
            saver.resume(tag)
            assert saver.get_cpu_backup(kept) is None
            assert torch.equal(kept.cpu(), pattern(43, 1000))
            saver.retain_cpu_backup = True
            saver.pause(tag)
            saver.resume(tag)
            del kept, again  # the region is empty: what is retained goes all the same
            saver.retain_cpu_backup = False
            saver.resume(tag)
            from pleat import _tag
            assert all(_tag.stats(name, device).kept_bytes == 0 for name in _tag.names())
        """
    )
    code = """
    from pleat.torch_memory_saver import torch_memory_saver as saver
    raise SystemExit(not saver.retain_cpu_backup)
    """
    run_cuda(code, TMS_RETAIN_CPU_BACKUP="1")


def test_disk_backup(run_saver: Run) -> None:
    run_saver(
        """
        saver.set_disk_backup_dir("backups/of/mine")
        with saver.region(enable_disk_backup=True):
            large, small = pattern(1).cuda(), pattern(2, 7).cuda()
        with saver.region():
            lost = pattern(3).cuda()
        for _ in range(3):
            saver.pause()
            assert pleat.torch.tag_stats("tms:default:disk").kept_bytes >= 12 * MIB
            assert os.listdir("backups/of/mine") == []  # the file has no name
            other = empty(20 * MIB)
            del other
            saver.resume()
            assert torch.equal(large.cpu(), pattern(1))
            assert torch.equal(small.cpu(), pattern(2, 7))
            assert not torch.equal(lost.cpu(), pattern(3))
        saver.set_disk_backup_dir("elsewhere")
        os.rmdir("elsewhere")
        try:
            saver.pause()
        except pleat.PleatError as error:
            assert error.name == "PLEAT_EWRITE", error
        else:
            raise AssertionError
        assert torch.equal(large.cpu(), pattern(1))
        """
    )


def test_all_devices(run_saver: Run) -> None:
    run_saver(
        """
        with saver.region(tag="t", enable_cpu_backup=True):
            kept = [pattern(device).to(f"cuda:{device}") for device in range(2)]
            first = [empty(100 * MIB, f"cuda:{device}") for device in range(2)]
        torch.cuda.set_device(1)
        with saver.region(tag="other"):
            other = empty(50 * MIB)
        before = used(0), used(1)
        saver.pause("t")
        paused = used(0), used(1)
        assert all(b - p >= 100 * MIB for b, p in zip(before, paused))
        saver.pause()
        assert used(0) == paused[0] and paused[1] - used(1) >= 50 * MIB
        saver.resume("t")
        saver.resume("other")
        for device in range(2):
            assert before[device] - 4 * MIB <= used(device) <= before[device] + 4 * MIB
            assert torch.equal(kept[device].cpu(), pattern(device))
        """
    )


def test_cuda_graph(run_saver: Run) -> None:
    run_saver(
        """
        with saver.region(tag="kv_cache"):
            cache = empty(100 * MIB)
        out = empty(100 * MIB)
        def step():
            out.copy_(cache)
            return cache + 1
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with saver.cuda_graph(graph, tag="graph"):
            held = step()
        graph.replay()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        before = used()
        saver.pause("kv_cache")
        assert before - used() >= 100 * MIB
        saver.pause("graph")  # its private pool carries no tag
        big = empty(90 * MIB)
        del big
        torch.cuda.empty_cache()
        saver.resume("graph")
        saver.resume("kv_cache")
        cache.copy_(torch.arange(100 * MIB, dtype=torch.int32).to(torch.uint8))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out.cpu(), cache.cpu())
        """
    )


def test_disable_and_nested_regions(run_saver: Run) -> None:
    run_saver(
        """
        with saver.region(enable_cpu_backup=True):
            weights = pattern(42).cuda()
            with saver.region(tag="grad_buffer"):
                gradients = pattern(99).cuda()
            more = pattern(7).cuda()
            with saver.disable():
                apart = pattern(53).cuda()
            told = pleat.torch.tag_stats("tms:default:backup")
            assert told.blocks == 2, told
            before = used()
            saver.pause()
            assert before - used() >= 36 * MIB
            with saver.disable():
                while_paused = pattern(8).cuda()
            assert torch.equal(apart.cpu(), pattern(53))
            assert torch.equal(while_paused.cpu(), pattern(8))
            saver.resume()
        for tensor, offset in (weights, 42), (more, 7), (apart, 53), (while_paused, 8):
            assert torch.equal(tensor.cpu(), pattern(offset))
        gradients.zero_()
        """
    )


def test_mistakes_are_named(run_saver: Run) -> None:
    run_saver(
        """
        for wrong in ({"cpu_backup_backend": "mmap"},
                      {"enable_cpu_backup": True, "cpu_backup_backend": "tape"},
                      {"enable_cpu_backup": True, "enable_disk_backup": True}):
            try:
                with saver.region(**wrong):
                    raise AssertionError(wrong)
            except ValueError:
                pass
        for wrong in torch.zeros(4), torch.empty(4, 4, device="cuda").t():
            try:
                saver.get_cpu_backup(wrong)
            except ValueError:
                pass
            else:
                raise AssertionError
        saver.pause("nobody's")
        saver.resume("nobody's")
        """
    )
