"""torch_memory_saver's interface over pleat's tags, for programs written for torch_memory_saver.

    import pleat.torch
    from pleat.torch_memory_saver import torch_memory_saver

    pleat.torch.install()
    with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
        model = Model().cuda()
    torch_memory_saver.pause("weights")
    torch_memory_saver.resume("weights")

After replace() a program that imports torch_memory_saver gets this module. Four things differ from
the original. No library is preloaded. Regions share memory with all other tensors. A pause waits
for all work. A resume without memory raises and leaves the region paused.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _tag
from ._status import PleatError

if TYPE_CHECKING:
    import torch

__all__ = ["TorchMemorySaver", "configure_subprocess", "replace", "torch_memory_saver"]

_PREFIX = "tms:"
_BACKUP = ":backup"
_DISK = ":disk"
_BACKENDS = (None, "pinned", "mmap")


def _names(tag: str | None) -> list[str]:
    """pleat's tags of a tag, or of all: with and without a backup."""
    known = [name for name in _tag.names() if name.startswith(_PREFIX)]
    if tag is None:
        return known
    wanted = {_PREFIX + tag + how for how in ("", _BACKUP, _DISK)}
    return [name for name in known if name in wanted]


def _places(tag: str | None) -> Iterator[tuple[str, int, _tag.Tag]]:
    """Find pleat's tags of a region, on the devices where they have memory."""
    return _tag.places(_names(tag))


@contextlib.contextmanager
def configure_subprocess() -> Iterator[None]:
    """Does nothing: processes started in the block need no preparation."""
    yield


class TorchMemorySaver:
    """The class of `torch_memory_saver` in the module torch_memory_saver."""

    enabled = True
    hook_mode: str | None = None
    """Assigned by programs that choose how to hook cudaMalloc; pleat hooks nothing."""
    memory_margin_bytes = 0
    """Ignored: pleat has reserve_mb."""

    def __init__(self) -> None:
        self._disk_folder: str | None = None
        self.retain_cpu_backup = os.environ.get("TMS_RETAIN_CPU_BACKUP") == "1"
        """Whether a resume leaves the host's copy. If so, the next pause need not page-lock memory,
        and get_cpu_backup reads the copy until then. Copies retained when this becomes False stay
        until the next resume."""

    def get_cpu_backup(self, x: torch.Tensor, zero_copy: bool = False) -> torch.Tensor | None:
        """Get the copy of a tensor that a pause has made; None without a copy. Also None if the
        region is awake and got new tensors since its pause.

        Params   zero_copy  return the host's memory itself, if the tensor lies side by side there
                            (a tensor of many MiB may not: then a copy). The memory is valid until
                            the next pause, or a resume that does not retain it.
        Raises   ValueError (not a contiguous CUDA tensor).
        """
        from .torch import kept

        try:
            return kept(x, copy=not zero_copy)
        except PleatError as error:
            if error.name != "PLEAT_EFOREIGN":
                raise
            return None

    @contextlib.contextmanager
    def region(
        self,
        tag: str = "default",
        enable_cpu_backup: bool = False,
        enable_disk_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """Let tensors made in the block be paused under the tag.

        Params   enable_disk_backup  contents go to a file without a name, in the folder of
                                     set_disk_backup_dir or TMS_DISK_BACKUP_DIR.
                 cpu_backup_backend  "pinned" or "mmap": both are page-locked memory, given back by
                                     the resume.
        Raises   ValueError: another backend, a backend without a backup, or both backups at once.
        """
        if cpu_backup_backend not in _BACKENDS:
            raise ValueError(f"cpu_backup_backend is pinned or mmap, not {cpu_backup_backend!r}")
        if cpu_backup_backend is not None and not enable_cpu_backup:
            raise ValueError("cpu_backup_backend requires enable_cpu_backup=True")
        with _tag.scope(_PREFIX + tag + self._how(enable_cpu_backup, enable_disk_backup)):
            yield

    @staticmethod
    def _how(cpu: bool, disk: bool) -> str:
        if cpu and disk:
            raise ValueError("enable_cpu_backup and enable_disk_backup are mutually exclusive")
        return _BACKUP if cpu else _DISK if disk else ""

    @contextlib.contextmanager
    def cuda_graph(
        self,
        cuda_graph: Any,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        tag: str = "default",
        enable_cpu_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """Capture as torch.cuda.graph does.

        The graph's own allocations lie in its private pool and carry no tag. A pause leaves them
        alone, so the graph can be launched whenever its other tensors have memory.
        """
        import torch

        with torch.cuda.graph(
            cuda_graph, pool=pool, stream=stream, capture_error_mode=capture_error_mode
        ):
            with self.region(tag, enable_cpu_backup, cpu_backup_backend=cpu_backup_backend):
                yield

    @contextlib.contextmanager
    def disable(self) -> Iterator[None]:
        """Let tensors made in the block belong to no region."""
        with _tag.scope(None):
            yield

    @contextlib.contextmanager
    def configure_subprocess(self) -> Iterator[None]:
        """Does nothing: processes started in the block need no preparation."""
        yield

    def set_disk_backup_dir(self, path: str | os.PathLike[str]) -> None:
        """Set the folder of later backups on disk, and make the folder if needed."""
        os.makedirs(path, exist_ok=True)
        self._disk_folder = os.fspath(path)

    def _keep(self, name: str) -> tuple[str, str | None]:
        if name.endswith(_DISK):
            named = self._disk_folder or os.environ.get("TMS_DISK_BACKUP_DIR")
            return "file", named or os.environ.get("TMPDIR") or "/var/tmp"
        return ("host", None) if name.endswith(_BACKUP) else ("discard", None)

    def pause(self, tag: str | None = None) -> None:
        """Give the memory of the tag's tensors back, on all devices; None: of all tags. Gives back
        all of it, or none.

        Raises   PleatError.
        """
        done: list[tuple[str, int]] = []
        try:
            for name, device, told in _places(tag):
                if not told.is_asleep and told.resident_bytes > 0:
                    _tag.sleep(name, device, *self._keep(name))
                    done.append((name, device))
        except BaseException:
            # As after any pause, a region without a backup has lost its contents.
            for name, device in done:
                _tag.wake(name, device, 0)
            raise

    def resume(self, tag: str | None = None) -> None:
        """Map memory again under the tag's regions; a region with a backup gets its contents back.

        Raises   PleatError (PLEAT_ENOMEM_DEVICE): regions without memory are still paused.
        """
        for name, device, told in _places(tag):
            if name.endswith(_BACKUP):
                _tag.retain(name, device, self.retain_cpu_backup)
            if told.is_asleep:
                _tag.wake(name, device, 0)


torch_memory_saver = TorchMemorySaver()


def replace() -> None:
    """Let `import torch_memory_saver`, in this process and from now on, find this module."""
    sys.modules["torch_memory_saver"] = sys.modules[__name__]
