"""pleat under PyTorch.

    import pleat.torch
    pleat.torch.install()          # before the first use of CUDA

install() makes pleat the allocator of all CUDA tensors. For an unchanged script,
`python -m pleat.torch script.py` calls install(). mem_pool() instead makes a torch.cuda.MemPool
over pleat, with torch's own cache in charge. docs/pytorch.md compares the two.
"""

from __future__ import annotations

import sys

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        f"pleat.torch needs PyTorch, and {sys.executable} has none: install torch there",
        name="torch",
    ) from None

from ._check import leaks, mark
from ._growable import Growable, growable
from ._install import binding, install, install_if_asked, install_pinned, is_installed
from ._memory import (
    compact,
    empty_cache,
    get_per_process_memory_fraction,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from ._patch import patch, unpatch
from ._pool import mem_pool, use_mem_pool
from ._snapshot import dump_snapshot, record_memory_history, snapshot
from ._tag import kept, retain, set_tag_limit, sleep, tag, tag_stats, wake

__all__ = [
    "Growable",
    "binding",
    "compact",
    "dump_snapshot",
    "empty_cache",
    "get_per_process_memory_fraction",
    "growable",
    "install",
    "install_pinned",
    "is_installed",
    "kept",
    "leaks",
    "mark",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "mem_pool",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "patch",
    "record_memory_history",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "retain",
    "set_per_process_memory_fraction",
    "set_tag_limit",
    "sleep",
    "snapshot",
    "tag",
    "tag_stats",
    "unpatch",
    "use_mem_pool",
    "wake",
]

install_if_asked()
