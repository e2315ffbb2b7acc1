"""For the classic cache: the expectations of PyTorch's own tests, to the byte. The device's memory
equals the cache's figures."""

import torch
from child import give_back, n_calls, physical_bytes

KIB = 1 << 10
MIB = 1 << 20


def stats() -> dict[str, int]:
    return dict(torch.cuda.memory_stats())


def bytes_of(n: int) -> torch.Tensor:
    return torch.empty(n, dtype=torch.uint8, device="cuda")


def one_kibibyte_moves_the_statistics_by_that() -> None:
    before = stats()
    kept = bytes_of(KIB)
    after = stats()
    for key, moved in {
        "active_bytes.all.current": KIB,
        "active_bytes.small_pool.current": KIB,
        "allocated_bytes.all.allocated": KIB,
        "requested_bytes.all.current": KIB,
        "allocation.all.current": 1,
        "allocation.large_pool.current": 0,
    }.items():
        assert after.get(key, 0) - before.get(key, 0) == moved, (key, before, after)
    del kept
    freed = stats()
    assert freed["allocated_bytes.all.freed"] - before.get("allocated_bytes.all.freed", 0) == KIB
    assert freed["active_bytes.all.current"] == before.get("active_bytes.all.current", 0)


def segments_have_pytorch_s_sizes() -> None:
    for asked, reserved in (
        (1, 2 * MIB),
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 512, 12 * MIB),
    ):
        n_mallocs, n_frees = n_calls("cuMemAlloc"), n_calls("cuMemFree")
        kept = bytes_of(asked)
        assert torch.cuda.memory_reserved() == reserved, asked
        assert physical_bytes() == reserved, asked
        assert torch.cuda.memory_allocated() == (asked + 511) // 512 * 512
        assert n_calls("cuMemAlloc") - n_mallocs == 1
        del kept
        assert physical_bytes() == reserved, "a free calls no driver"
        torch.cuda.empty_cache()
        assert (torch.cuda.memory_reserved(), physical_bytes()) == (0, 0)
        assert n_calls("cuMemFree") - n_frees == 1


def a_cached_block_is_given_back_for_one_that_does_not_fit_beside_it() -> None:
    most = torch.cuda.mem_get_info()[0] * 51 // 100
    first = bytes_of(most)
    retries = stats()["num_alloc_retries"]
    try:
        bytes_of(most)
        raise AssertionError("two of them fit")
    except torch.cuda.OutOfMemoryError as error:
        assert "Tried to allocate" in str(error), error
    assert stats()["num_alloc_retries"] == retries + 1
    assert stats()["num_ooms"] == 1
    del first
    second = bytes_of(most + 2 * MIB)
    assert stats()["num_alloc_retries"] == retries + 2
    assert physical_bytes() == torch.cuda.memory_reserved()
    del second
    torch.cuda.empty_cache()


def a_fraction_limits_the_cache() -> None:
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(0.5)
    kept = bytes_of(int(total * 0.499))
    del kept
    torch.cuda.empty_cache()
    try:
        bytes_of(total // 2 + MIB)
        raise AssertionError("it went beyond its fraction")
    except torch.cuda.OutOfMemoryError:
        pass
    torch.cuda.set_per_process_memory_fraction(1.0)


def a_snapshot_lists_what_the_device_holds() -> None:
    kept = [bytes_of(n) for n in (100, 3 * MIB, 50 * MIB, 700 * KIB)]
    segments = torch.cuda.memory._snapshot()["segments"]
    assert sum(segment["total_size"] for segment in segments) == physical_bytes()
    starts = {block["address"] for segment in segments for block in segment["blocks"]}
    assert all(tensor.data_ptr() in starts for tensor in kept)
    del kept


one_kibibyte_moves_the_statistics_by_that()
torch.cuda.empty_cache()
segments_have_pytorch_s_sizes()
a_cached_block_is_given_back_for_one_that_does_not_fit_beside_it()
a_fraction_limits_the_cache()
a_snapshot_lists_what_the_device_holds()
give_back()
assert physical_bytes() == 0
