"""The allocators called torch-native and torch-expandable ask the driver for exactly what PyTorch's
own cache asks for: the same calls of the same sizes in the same order, with the same answers."""
# labels: python torch
# timeout: 400

import pytest
from on_sim import run

PLENTY = "160G"
SCARCE = "450M"  # too little: releases, retries, refusals


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
        sim=f"capacity:{capacity},log:full",
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
        ("torch-native", "max_split_size_mb:32", 4, PLENTY, 5),
        ("torch-expandable", "", 1, SCARCE, 6),
        ("torch-expandable", "", 4, SCARCE, 7),
        ("torch-expandable", "", 4, PLENTY, 8),
    ],
)
def test_the_driver_hears_the_same_from_both(
    allocator: str, options: str, streams: int, capacity: str, seed: int
) -> None:
    torch_s = driver_calls("torch", allocator, options, streams, capacity, seed)
    pleat_s = driver_calls("pleat", allocator, options, streams, capacity, seed)
    assert len(torch_s) > 20, torch_s
    assert (torch_s[0] == "refused 0") == (capacity == PLENTY), torch_s[0]
    different = [i for i, pair in enumerate(zip(torch_s, pleat_s)) if pair[0] != pair[1]]
    first = different[0] if different else min(len(torch_s), len(pleat_s))
    context = slice(max(0, first - 3), first + 4)
    assert torch_s == pleat_s, f"line {first}:\n{torch_s[context]}\n{pleat_s[context]}"
