"""Lets children that multiprocessing spawns inherit the installation.

A spawned child is a new python, which first reads a dictionary from its parent. The parent adds an
entry that installs pleat when read: before the child imports the main script, and so before the
child uses CUDA. The configuration travels in PLEAT_CONF. If the parent has pinned memory from pleat
when the child starts, so has the child. A child that cannot install pleat says so and goes on with
torch's own allocator. PLEAT_TORCH_SPAWN=0 leaves children alone.
"""

from __future__ import annotations

import multiprocessing.spawn
from typing import Any, Callable

from .. import _start

VARIABLE = "PLEAT_TORCH_SPAWN"

# Runs in the child, where sys.path is not yet the parent's.
_CODE = """
try:
    import pleat.torch
    from pleat.torch import _settings
    _settings.leave_to_parent()
    pleat.torch.install(patch={patch!r}, binding={binding!r})
except Exception as error:
    import sys
    print(f"pleat: this spawned child uses torch's own allocator: {{error}}", file=sys.stderr)
"""

# Runs after _CODE, if the parent's pinned memory is pleat's.
_PINNED_CODE = """
try:
    if pleat.torch.is_installed():
        pleat.torch.install_pinned()
except Exception as error:
    import sys
    print(f"pleat: this spawned child pins memory by torch's own allocator: {error}",
          file=sys.stderr)
"""

_takes_pinned = False
_original: Callable[..., dict[str, Any]] | None = None


class _Inheritance:
    """Runs its code when unpickled."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str, dict[str, Any]]]:
        return exec, (self.code, {})


def inherit(binding: str, patch: bool) -> None:
    """Make all children spawned from now on install pleat as this process did."""
    global _original
    if _original is not None:
        return
    original = _original = multiprocessing.spawn.get_preparation_data
    code = _CODE.format(binding=binding, patch=patch)

    def with_pleat(*arguments: Any, **named: Any) -> dict[str, Any]:
        prepared = original(*arguments, **named)
        # At each start: the program may set it in between.
        if not _start.is_on(VARIABLE, default=True):
            return prepared
        whole = code + _PINNED_CODE if _takes_pinned else code
        return {"pleat": _Inheritance(whole), **prepared}

    multiprocessing.spawn.get_preparation_data = with_pleat


def inherit_pinned() -> None:
    """Make children of inherit() take their pinned memory from pleat, too."""
    global _takes_pinned
    _takes_pinned = True
