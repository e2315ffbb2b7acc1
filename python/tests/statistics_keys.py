"""The keys of torch.cuda.memory_stats, derived from their rule (torch/csrc/cuda/Module.cpp)."""

from __future__ import annotations

GROUPS = (
    "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
    "active_bytes", "inactive_split_bytes", "requested_bytes",
)  # fmt: skip
SINGLES = ("oversize_allocations", "oversize_segments")
SCALARS = (
    "num_alloc_retries", "num_ooms", "max_split_size", "num_sync_all_streams",
    "num_device_alloc", "num_device_free", "num_oom_rejections",
)  # fmt: skip
POOLS = ("all", "small_pool", "large_pool")
COUNTERS = ("current", "peak", "allocated", "freed")
PRIVATE = "reserved_bytes_by_private_pools."


def expected_keys() -> set[str]:
    keys = {f"{group}.{pool}.{of}" for group in GROUPS for pool in POOLS for of in COUNTERS}
    keys |= {f"{single}.{of}" for single in SINGLES for of in COUNTERS}
    return keys | set(SCALARS)


def without_private_pools(keys: object) -> set[str]:
    return {key for key in keys if not key.startswith(PRIVATE)}  # type: ignore[attr-defined]
