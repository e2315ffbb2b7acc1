"""PyTorch's allocators, and pleat in their place, on the simulated device."""
# labels: python

from on_sim import every_allocator, run

import pytest


def test_the_classic_cache_moves_its_statistics_by_the_byte() -> None:
    run("native_memory", allocator="native")


@every_allocator
def test_the_device_fills_and_empties(allocator: str) -> None:
    # 16 GiB, rounded up to chunks of 20 MiB, which expandable segments need.
    run("memory", allocator=allocator, sim="capacity:16400M")


@every_allocator
def test_memory_waits_for_the_streams_that_use_it(allocator: str) -> None:
    run("streams", allocator=allocator)


@pytest.mark.parametrize("allocator", ["native", "expandable"])
def test_graphs_and_pools_keep_their_memory(allocator: str) -> None:
    run("graphs", allocator=allocator)


@every_allocator
def test_contents_survive_copies(allocator: str) -> None:
    run("contents", allocator=allocator, sim="capacity:1G,backing:memory")


@pytest.mark.parametrize("allocator", ["native", "expandable"])
def test_devices_and_threads_are_apart(allocator: str) -> None:
    run("devices", allocator=allocator, sim="devices:2,capacity:4G,backing:memory")
