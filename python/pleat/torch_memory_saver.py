"""torch_memory_saver's interface over pleat's tags, for programs that know that one.

    import pleat.torch
    from pleat.torch_memory_saver import torch_memory_saver

    pleat.torch.install()
    with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
        model = Model().cuda()
    torch_memory_saver.pause("weights")
    torch_memory_saver.resume("weights")

A program that imports torch_memory_saver itself gets this one after replace(). It differs in what
lies below: no library is preloaded, regions share memory with everything else, a pause waits for all
work, and a resume without memory raises and leaves the region paused.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from . import _tag

__all__ = ["TorchMemorySaver", "replace", "torch_memory_saver"]

_PREFIX = "tms:"
_BACKUP = ":backup"


def _names(tag: str | None) -> list[str]:
    """pleat's tags of a tag, or of all: with and without a backup."""
    known = [name for name in _tag.names() if name.startswith(_PREFIX)]
    if tag is None:
        return known
    wanted = {_PREFIX + tag, _PREFIX + tag + _BACKUP}
    return [name for name in known if name in wanted]


def _device() -> int:
    import torch

    torch.cuda.init()
    return int(torch.cuda.current_device())


class TorchMemorySaver:
    """What the module torch_memory_saver has as `torch_memory_saver`.

    Devices: the current one of the calling thread.
    """

    enabled = True
    hook_mode: str | None = None
    """Assigned by programs that choose how to hook cudaMalloc; there is nothing to choose here."""
    memory_margin_bytes = 0
    """Likewise: pleat has reserve_mb."""

    @contextlib.contextmanager
    def region(self, tag: str = "default", enable_cpu_backup: bool = False) -> Iterator[None]:
        """Tensors that are made inside can be paused under the tag."""
        with _tag.scope(_PREFIX + tag + (_BACKUP if enable_cpu_backup else "")):
            yield

    @contextlib.contextmanager
    def disable(self) -> Iterator[None]:
        """Tensors that are made inside belong to no region."""
        with _tag.scope(None):
            yield

    @contextlib.contextmanager
    def configure_subprocess(self) -> Iterator[None]:
        """Processes that are started inside need no preparation."""
        yield

    def pause(self, tag: str | None = None) -> None:
        """Give the memory of the tag's tensors back; of all tags' for None. All of it, or none.

        Raises   PleatError.
        """
        device = _device()
        done: list[str] = []
        try:
            for name in _names(tag):
                if not _tag.stats(name, device).is_asleep:
                    how = "host" if name.endswith(_BACKUP) else "discard"
                    _tag.sleep(name, device, how, None)
                    done.append(name)
        except BaseException:
            # What a region without a backup held is lost by then, as after any pause.
            for name in done:
                _tag.wake(name, device, 0)
            raise

    def resume(self, tag: str | None = None) -> None:
        """Have memory under them again; with their contents where the region has a backup.

        Raises   PleatError (PLEAT_ENOMEM_DEVICE): what has no memory is still paused.
        """
        device = _device()
        for name in _names(tag):
            _tag.wake(name, device, 0)


torch_memory_saver = TorchMemorySaver()


def replace() -> None:
    """Let `import torch_memory_saver`, in this process and from now on, find this module."""
    sys.modules["torch_memory_saver"] = sys.modules[__name__]
