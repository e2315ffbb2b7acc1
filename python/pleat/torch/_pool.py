"""A torch.cuda.MemPool whose segments come from pleat; torch's own cache stays in charge."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from .._library import library_path
from ._configure import configure, merged
from ._install import check_torch, is_installed
from ._memory import DeviceLike


@functools.lru_cache(maxsize=None)
def _allocator() -> Any:
    # Not the throwing symbol: here torch itself turns NULL into an out-of-memory error, after its
    # own remedies.
    pluggable = torch.cuda.memory.CUDAPluggableAllocator(
        library_path(), "pleat_torch_malloc", "pleat_torch_free"
    )
    return pluggable.allocator()


def mem_pool(
    conf: str | None = None, *, use_on_oom: bool = False, no_split: bool = False
) -> torch.cuda.MemPool:
    """Make a torch.cuda.MemPool whose segments come from pleat.

    torch's native cache stays the allocator: its statistics, snapshots, record_stream and
    torch.OutOfMemoryError work as usual, also for the new pool. Needs no install().

    Params   conf        `key:value,...`, overrides PLEAT_CONF; the driver as in install(). One for
                         the process.
             use_on_oom  let tensors outside the pool borrow its free blocks before failing; needs
                         torch 2.8.
             no_split    one tensor for each segment, so that pleat sees every tensor; needs a torch
                         whose MemPool has the option.
    Raises   RuntimeError: torch has no MemPool that takes an allocator (2.5), pleat is installed as
             the global allocator, or configured otherwise. Errors of a configuration as in
             install().
    Owner    the caller. Its memory goes back to pleat when the object and its tensors are gone.
    """
    check_torch()
    if is_installed():
        raise RuntimeError(
            "pleat.torch.install() made pleat the allocator of all tensors, and torch has no "
            "pools with other allocators then: use one or the other"
        )
    if not hasattr(torch.cuda, "MemPool"):
        raise RuntimeError(f"torch {torch.__version__} has no torch.cuda.MemPool: 2.5 has")
    configure(merged(conf))
    options: dict[str, Any] = {}
    if use_on_oom:
        options["use_on_oom"] = True
    if no_split:
        options["no_split"] = True
    return torch.cuda.MemPool(_allocator(), **options)


@contextlib.contextmanager
def use_mem_pool(
    pool: torch.cuda.MemPool | None = None, device: DeviceLike = None
) -> Iterator[torch.cuda.MemPool]:
    """Allocate this thread's tensors in the block from a pool.

    Params   pool  of mem_pool(); None makes one for the block.
    """
    chosen = mem_pool() if pool is None else pool
    with torch.cuda.use_mem_pool(chosen, device):
        yield chosen
