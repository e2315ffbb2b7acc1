"""Tags, sleep and wake of tensors, and torch_memory_saver's interface over them."""

from __future__ import annotations

import textwrap

import pytest
from conftest import RUNTIME, Run

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")

INSTALL = """
import pleat, pleat.torch, torch
MIB = 1 << 20
pleat.torch.install(BINDING)
def empty(n_bytes):
    return torch.empty(n_bytes, dtype=torch.uint8, device="cuda")
def resident():
    return pleat.torch.memory_reserved()
"""


@pytest.fixture(params=["class", "hooks"])
def run_tags(run_cuda: Run, request: pytest.FixtureRequest) -> Run:
    """Run CODE with pleat installed, in either way, on the simulated runtime with contents."""
    binding = "" if request.param == "hooks" else 'binding="class"'

    def run_code(code: str) -> object:
        whole = INSTALL.replace("BINDING", binding) + textwrap.dedent(code)
        return run_cuda(whole, PLEAT_SIM="capacity:1G,backing:memory")

    return run_code  # type: ignore[return-value]


def test_tensors_sleep_and_wake_with_their_contents(run_tags: Run) -> None:
    run_tags(
        """
        pattern = torch.arange(5 * MIB, dtype=torch.int32)
        with pleat.torch.tag("weights"):
            weights = pattern.cuda()
            small = [torch.full((i + 1,), i).cuda() for i in range(100)]
        other = pattern.cuda()
        at = weights.data_ptr()
        before = resident()
        slept = pleat.torch.sleep("weights")
        assert slept.bytes >= 20 * MIB and slept.shared_bytes == 0
        assert resident() == before - slept.bytes
        told = pleat.torch.tag_stats("weights")
        assert told.is_asleep and told.blocks == 101 and told.resident_bytes == 0
        more = empty(30 * MIB)
        del small[50:], more
        woken = pleat.torch.wake("weights")
        assert woken.left_bytes == 0
        assert weights.data_ptr() == at
        assert torch.equal(weights.cpu(), pattern)
        assert all(int(x[0].cpu()) == i for i, x in enumerate(small))
        assert torch.equal(other.cpu(), pattern)
        assert pleat.torch.wake("weights").bytes == 0
        """
    )


def test_gradients_carry_the_tag(run_tags: Run) -> None:
    run_tags(
        """
        model = torch.nn.Linear(1024, 1024, device="cuda")
        x = torch.ones(64, 1024, device="cuda")
        with pleat.torch.tag("grads"):
            model(x).sum().backward()
            with pleat.torch.tag(None):
                outside = empty(MIB)
        tagged = pleat.torch.tag_stats("grads").requested_bytes
        assert tagged >= model.weight.grad.numel() * 4, tagged
        model.zero_grad()
        assert pleat.torch.tag_stats("grads").requested_bytes < tagged
        model(x).sum().backward()  # after the block
        assert pleat.torch.tag_stats("grads").requested_bytes < tagged
        """
    )


def test_kept_in_a_file_or_not_at_all(run_tags: Run) -> None:
    run_tags(
        """
        import tempfile
        pattern = torch.arange(3 * MIB, dtype=torch.int32)
        with pleat.torch.tag("kept"):
            kept = pattern.cuda()
        with pleat.torch.tag("lost"):
            lost = pattern.cuda()
        with tempfile.TemporaryDirectory() as folder:
            pleat.torch.sleep("kept", keep="file", folder=folder)
            assert pleat.torch.sleep("lost", keep="discard").kept_bytes == 0
            import os
            assert os.listdir(folder) == []
        pleat.torch.wake("kept")
        pleat.torch.wake("lost")
        assert torch.equal(kept.cpu(), pattern)
        lost.zero_()
        """
    )


def test_mistakes_are_named(run_tags: Run) -> None:
    run_tags(
        """
        def refused(name, call, *words):
            try:
                call()
            except pleat.PleatError as error:
                assert error.name == name, error
                assert all(word in str(error) for word in words), error
            else:
                raise AssertionError(name)
        with pleat.torch.tag("weights"):
            weights = empty(4 * MIB)
        refused("PLEAT_EINVAL", lambda: pleat.torch.sleep("wieghts"), "wieghts", "weights")
        pleat.torch.sleep("weights")
        refused("PLEAT_EASLEEP", lambda: pleat.torch.sleep("weights"), "wake it first")
        try:
            pleat.torch.sleep("weights", keep="tape")
        except ValueError as error:
            assert "tape" in str(error)
        pleat.torch.wake("weights")
        """
    )


def test_a_limit_is_a_fraction_of_the_device(run_tags: Run) -> None:
    run_tags(
        """
        pleat.torch.set_tag_limit("kv", 0.25)
        with pleat.torch.tag("kv"):
            first = empty(200 * MIB)
            try:
                empty(100 * MIB)
            except torch.cuda.OutOfMemoryError as error:
                assert '"kv" may have 256.00 MiB' in str(error), error
            else:
                raise AssertionError("no limit")
        second = empty(100 * MIB)
        """
    )


def test_a_snapshot_names_tags_and_torch_s_viewer_reads_it(run_tags: Run) -> None:
    run_tags(
        """
        import pickle
        from torch.cuda import _memory_viz
        other = empty(4 * MIB)
        with pleat.torch.tag("weights"):
            weights = empty(6 * MIB)
        def tags():
            pleat.torch.dump_snapshot("snapshot.pickle")
            with open("snapshot.pickle", "rb") as file:
                snapshot = pickle.load(file)
            assert "weights" not in _memory_viz.segsum(snapshot)
            assert "<html" in _memory_viz.segment_plot(snapshot)
            return {segment.get("pleat_tag"): segment.get("pleat_asleep")
                    for segment in snapshot["segments"]}
        assert tags() == {None: None, "weights": False}
        pleat.torch.sleep("weights")
        assert tags() == {None: None, "weights": True}
        """
    )


def test_torch_memory_saver(run_tags: Run) -> None:
    run_tags(
        """
        import pleat.torch_memory_saver
        pleat.torch_memory_saver.replace()
        from torch_memory_saver import torch_memory_saver
        torch_memory_saver.hook_mode = "preload"
        pattern = torch.arange(5 * MIB, dtype=torch.int32)
        with torch_memory_saver.configure_subprocess():
            pass
        with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
            weights = pattern.cuda()
            with torch_memory_saver.disable():
                other = pattern.cuda()
        with torch_memory_saver.region(tag="kv_cache"):
            cache = empty(50 * MIB)
        at = cache.data_ptr(), weights.data_ptr()
        before = resident()
        torch_memory_saver.pause("kv_cache")
        assert resident() == before - 50 * MIB
        torch_memory_saver.pause("weights")
        assert resident() == before - 70 * MIB
        torch_memory_saver.pause()
        torch_memory_saver.resume("weights")
        assert torch.equal(weights.cpu(), pattern)
        torch_memory_saver.pause()
        torch_memory_saver.resume()
        assert resident() == before
        cache.zero_()
        assert at == (cache.data_ptr(), weights.data_ptr())
        assert torch.equal(weights.cpu(), pattern) and torch.equal(other.cpu(), pattern)
        torch_memory_saver.pause("nobody's")
        """
    )
