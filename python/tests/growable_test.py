"""pleat.torch.growable: tensors that grow in place, on the simulated runtime."""

from __future__ import annotations

import textwrap

import pytest
from conftest import RUNTIME, Run

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")

BEGIN = """
import gc
import pleat, pleat.torch, torch
MIB = 1 << 20
"""


@pytest.mark.parametrize("binding", ["class", "hooks"])
def test_it_grows_in_place_and_its_storage_is_true(run_cuda: Run, binding: str) -> None:
    run_cuda(
        BEGIN
        + f"pleat.torch.install(binding={binding!r})\n"
        + textwrap.dedent(
            """
            rows = pleat.torch.growable((0, 4, 256), max_rows=100_000, dtype=torch.bfloat16)
            tensor = rows.tensor
            assert tensor.shape == (0, 4, 256) and tensor.dtype == torch.bfloat16
            assert torch.cuda.memory_allocated() == 0
            first = torch.zeros(10, 4, 256, dtype=torch.bfloat16, device="cuda")
            at = rows.append(first).data_ptr()
            del first
            before = torch.cuda.memory_allocated()
            for n in range(11, 4000, 7):
                assert rows.resize(n) is tensor
                assert tensor.data_ptr() == at and tensor.shape == (n, 4, 256)
                assert tensor.untyped_storage().nbytes() == n * 2048
                assert tensor.is_contiguous()
            assert torch.cuda.memory_allocated() - before <= 4000 * 2048
            tensor.add_(1)
            view = tensor[5:]
            rows.resize(8)
            assert tensor.untyped_storage().nbytes() == 8 * 2048 and len(rows) == 8
            view = tensor[5:]
            del rows, tensor
            gc.collect()
            assert torch.cuda.memory_allocated() >= 2 * MIB  # the view keeps it
            del view
            gc.collect()
            assert torch.cuda.memory_allocated() == 0
            """
        )
    )


def test_what_it_gives_up_feeds_other_tensors(run_cuda: Run) -> None:
    run_cuda(
        BEGIN
        + textwrap.dedent(
            """
            pleat.torch.install("limit:256M", binding="class")
            rows = pleat.torch.growable((1, MIB), max_rows=4096, dtype=torch.uint8)
            rows.resize(250)
            try:
                torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
                raise SystemExit("there was memory")
            except torch.OutOfMemoryError:
                pass
            rows.resize(100)
            other = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
            try:
                rows.resize(250)
                raise SystemExit("there was memory")
            except pleat.PleatError as error:
                assert error.name == "PLEAT_ENOMEM_DEVICE"
            assert len(rows) == 100 and rows.tensor.shape == (100, MIB)
            del other
            rows.resize(250)
            assert torch.cuda.memory_reserved() <= 256 * MIB
            """
        )
    )


def test_mistakes_are_named(run_cuda: Run) -> None:
    run_cuda(
        BEGIN
        + textwrap.dedent(
            """
            pleat.torch.install()
            rows = pleat.torch.growable((2, 3), max_rows=5)
            assert rows.tensor.dtype == torch.float32
            def refused(call):
                try:
                    call()
                except ValueError:
                    return True
            assert refused(lambda: rows.resize(6))
            assert refused(lambda: rows.append(torch.zeros(1, 4, device="cuda")))
            assert refused(lambda: pleat.torch.growable((), max_rows=5))
            assert refused(lambda: pleat.torch.growable((6, 1), max_rows=5))
            assert refused(lambda: pleat.torch.growable((1, 0), max_rows=5))
            assert len(rows) == 2
            rows.resize(0)
            assert rows.tensor.shape == (0, 3)
            rows.append(torch.ones(5, 3, device="cuda"))
            """
        )
    )


def test_it_carries_the_tag_of_its_scope(run_cuda: Run) -> None:
    code = BEGIN + textwrap.dedent(
        """
        pleat.torch.install()
        pattern = torch.arange(1 << 20, dtype=torch.int32).reshape(-1, 1024)
        with pleat.torch.tag("kv"):
            rows = pleat.torch.growable((0, 1024), max_rows=100_000, dtype=torch.int32)
        at = rows.append(pattern.cuda()).data_ptr()
        assert pleat.torch.tag_stats("kv").allocated_bytes == 4 * MIB
        for keep in "host", "file":
            folder = "." if keep == "file" else None
            assert pleat.torch.sleep("kv", keep=keep, folder=folder).kept_bytes == 4 * MIB
            try:
                rows.resize(5000)
            except pleat.PleatError as error:
                assert error.name == "PLEAT_EASLEEP" and "kv" in str(error), error
            else:
                raise AssertionError
            assert len(rows) == 1024
            assert pleat.torch.wake("kv").bytes == 4 * MIB
            assert rows.tensor.data_ptr() == at
            assert torch.equal(rows.tensor.cpu(), pattern)
        pleat.torch.set_tag_limit("kv", 8 * MIB)
        rows.resize(2048)
        try:
            rows.resize(2049)
        except pleat.PleatError as error:
            assert 'the tag "kv" may have 8.00 MiB' in str(error), error
        else:
            raise AssertionError
        pleat.torch.sleep("kv")
        rows.resize(512)
        assert pleat.torch.wake("kv").bytes == 2 * MIB
        assert torch.equal(rows.tensor.cpu(), pattern[:512])
        """
    )
    run_cuda(code, PLEAT_SIM="capacity:1G,backing:memory")
