"""The allocators torch-native and torch-expandable act exactly as PyTorch's own cache. Blocks have
the same addresses, and driver calls the same order and results. A free of device memory waits for
the device's work, as in the CUDA runtime."""
# labels: python

import pytest
from on_sim import run

PLENTY = "160G"
COLLECTED = "per_process_memory_fraction:0.5,garbage_collection_threshold:0.6"
SCARCE = "450M"  # too little memory: releases, retries, refusals


def driver_calls(
    who: str, allocator: str, options: str, streams: int, capacity: str, seed: int
) -> list[str]:
    kind = "expandable_segments:True" if allocator == "torch-expandable" else ""
    settings = {
        "PYTORCH_CUDA_ALLOC_CONF": ",".join(filter(None, (kind, options))),
        "PLEAT_CONF": ",".join(filter(None, ("driver:sim", f"allocator:{allocator}", options))),
    }
    printed = run(
        "requests",
        who,
        str(streams),
        "3000",
        str(seed),
        allocator="native",
        sim=f"capacity:{capacity},log:full,free:wait",
        **settings,
    )
    return printed.splitlines()


@pytest.mark.parametrize(
    ("allocator", "options", "streams", "capacity", "seed"),
    [
        ("torch-native", "", 1, SCARCE, 1),
        ("torch-native", "", 4, SCARCE, 2),
        ("torch-native", "", 4, PLENTY, 3),
        ("torch-native", "roundup_power2_divisions:4", 4, SCARCE, 4),
        ("torch-native", "max_split_size_mb:32,max_non_split_rounding_mb:30", 4, SCARCE, 5),
        ("torch-native", COLLECTED, 4, "800M", 6),
        ("torch-expandable", "", 1, SCARCE, 7),
        ("torch-expandable", "", 4, SCARCE, 8),
        ("torch-expandable", "", 4, PLENTY, 9),
        ("torch-expandable", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", 4, SCARCE, 10),
        ("torch-expandable", COLLECTED, 4, "800M", 11),
    ],
)
def test_the_driver_hears_the_same_from_both(
    allocator: str, options: str, streams: int, capacity: str, seed: int
) -> None:
    torch_s = driver_calls("torch", allocator, options, streams, capacity, seed)
    pleat_s = driver_calls("pleat", allocator, options, streams, capacity, seed)
    assert len(torch_s) > 1500, torch_s
    assert (torch_s[0] == "refused 0") == (capacity == PLENTY), torch_s[0]
    different = [i for i, pair in enumerate(zip(torch_s, pleat_s)) if pair[0] != pair[1]]
    first = different[0] if different else min(len(torch_s), len(pleat_s))
    context = slice(max(0, first - 3), first + 4)
    assert torch_s == pleat_s, f"line {first}:\n{torch_s[context]}\n{pleat_s[context]}"
