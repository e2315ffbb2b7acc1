"""The real RMM's resources over pleat's, on the simulator."""

# needs: torch

from __future__ import annotations

import importlib.util

import pytest
from conftest import Run

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("rmm"), reason="no rmm")

BEGIN = """
import pleat, pleat.rmm, rmm
from rmm.pylibrmm.stream import DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM

def live():
    return pleat.memory_stats()["requested_bytes.all.current"]

resource = pleat.rmm.resource()
"""


@pytest.fixture
def run_rmm(run: Run) -> Run:
    """run_rmm(CODE) on a device of 1 GiB; everything must be freed at the end."""

    def run_code(code: str) -> object:
        return run(
            BEGIN + code + "\nassert live() == 0 and pleat.check_invariants() == 0\n",
            PLEAT_CONF="driver:sim,sim:[capacity:1G]",
        )

    return run_code  # type: ignore[return-value]


def test_blocks_of_any_stream_come_from_pleat_and_go_back(run_rmm: Run) -> None:
    run_rmm(
        """
blocks = []
for stream in (DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM):
    blocks += [(resource.allocate(size, stream), size, stream) for size in (1, 1000, 3 << 20)]
assert live() == 2 * (1001 + (3 << 20))
assert len({at for at, size, stream in blocks}) == 6
for block in blocks:
    resource.deallocate(*block)
"""
    )


def test_rmms_adaptors_stack_on_it(run_rmm: Run) -> None:
    run_rmm(
        """
counted = rmm.mr.StatisticsResourceAdaptor(resource)
limited = rmm.mr.LimitingResourceAdaptor(counted, 10000)
at = limited.allocate(5000, DEFAULT_STREAM)
assert counted.allocation_counts.current_bytes == 5000 == live()
try:
    limited.allocate(6000, DEFAULT_STREAM)
except MemoryError:
    pass
else:
    raise AssertionError("beyond RMM's own limit")
limited.deallocate(at, 5000, DEFAULT_STREAM)
assert counted.allocation_counts.peak_bytes == 5000
"""
    )


def test_out_of_memory_says_why(run_rmm: Run) -> None:
    run_rmm(
        """
try:
    resource.allocate(1 << 31, DEFAULT_STREAM)
except MemoryError as error:
    assert "2.00 GiB" in str(error) and "total 1.00 GiB" in str(error), error
else:
    raise AssertionError("2 GiB on a device of 1 GiB")
at = resource.allocate(1 << 20, DEFAULT_STREAM)
resource.deallocate(at, 1 << 20, DEFAULT_STREAM)
"""
    )
