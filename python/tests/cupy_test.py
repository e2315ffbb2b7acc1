"""The real CuPy, as far as it works without a GPU: its CUDA runtime is linked in statically and
starts on NVIDIA's driver only. tests/api/frameworks_test.c tests CuPy's hooks."""

# needs: torch

from __future__ import annotations

import importlib.util

import pytest
from conftest import Run

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("cupy"), reason="no cupy")


def test_cupy_has_the_function_that_tells_current_streams(run: Run) -> None:
    run("import pleat.cupy\nassert pleat.cupy._stream_function() != 0\n")


def test_install_replaces_cupys_allocator_and_uninstall_puts_it_back(run: Run) -> None:
    run(
        """
        import cupy, pleat.cupy
        before = cupy.cuda.get_allocator()
        pleat.cupy.install()
        ours = cupy.cuda.get_allocator()
        assert ours != before
        pleat.cupy.install()
        assert cupy.cuda.get_allocator() is ours
        pleat.cupy.uninstall()
        assert cupy.cuda.get_allocator() == before
        pleat.cupy.uninstall()
        assert cupy.cuda.get_allocator() == before
        """
    )


def test_without_a_gpu_an_array_is_refused_by_cupy_itself(run: Run) -> None:
    run(
        """
        import cupy, pleat, pleat.cupy
        pleat.cupy.install()
        try:
            cupy.empty(10)
        except cupy.cuda.runtime.CUDARuntimeError:
            pass
        else:
            assert pleat.memory_stats()["allocation.all.current"] == 1  # there is one, then
        """,
    )
