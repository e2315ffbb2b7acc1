"""The allocator of vLLM's sleep mode (vllm.device_allocator.cumem) over pleat's tags.

    import pleat.vllm
    pleat.vllm.replace()                  # before vLLM is imported, in each of its processes

installs pleat under torch and lets vLLM's own `from vllm.device_allocator.cumem import
CuMemAllocator` find the one below. Since vLLM's workers are processes of their own, the package has
an entry point in `vllm.general_plugins`, which vLLM calls in each: it does the same where PLEAT_VLLM
is 1. What is different: memory of the pool is the same as everybody's, with a tag on it; a sleep
waits for all work; and a wake without memory raises and leaves what it concerns asleep, whole.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterable, Iterator

from . import _tag

__all__ = ["CuMemAllocator", "cumem_available", "plugin", "replace"]

cumem_available = True
"""What vLLM asks before it lets sleep mode be used."""

_PREFIX = "vllm:"


def _named(tags: Iterable[str] | str) -> set[str]:
    return {_PREFIX + tag for tag in ((tags,) if isinstance(tags, str) else tags)}


def _places() -> Iterator[tuple[str, int, _tag.Tag]]:
    """The pool's tags, by device, where there is something under them."""
    return _tag.places(name for name in _tag.names() if name.startswith(_PREFIX))


class CuMemAllocator:
    """What vLLM knows under that name: a singleton, by get_instance()."""

    instance: CuMemAllocator | None = None
    default_tag = "default"

    @staticmethod
    def get_instance() -> CuMemAllocator:
        """The one that there is.

        Raises   RuntimeError (pleat is not installed under torch: see replace).
        """
        import pleat.torch

        if not pleat.torch.is_installed():
            raise RuntimeError("pleat.torch.install() comes first, or pleat.vllm.replace()")
        if CuMemAllocator.instance is None:
            CuMemAllocator.instance = CuMemAllocator()
        return CuMemAllocator.instance

    @contextlib.contextmanager
    def use_memory_pool(self, tag: str | None = None) -> Iterator[None]:
        """Tensors that the thread makes inside sleep and wake under the tag; None: "default"."""
        with _tag.scope(_PREFIX + (self.default_tag if tag is None else tag)):
            yield

    def sleep(self, offload_tags: tuple[str, ...] | str | None = None) -> None:
        """Give the pool's memory back, on all devices; what sleeps already sleeps on.

        Params   offload_tags  the tags whose contents are kept on the host; None: "default". Those
                               of others are discarded.
        Raises   PleatError: all that was awake is awake again. Contents are kept before any are
                 discarded; those of a tag that had been discarded by then are lost.
        """
        kept = _named((self.default_tag,) if offload_tags is None else offload_tags)
        places = [(name, device) for name, device, told in _places() if not told.is_asleep]
        places.sort(key=lambda place: place[0] not in kept)
        self._sleep([(*place, "host" if place[0] in kept else "discard") for place in places])

    def discard(self, tags: tuple[str, ...] | str) -> None:
        """Let these tags sleep without their contents; the others stay as they are."""
        wanted = _named(tags)
        places = [place for place in _places() if place[0] in wanted and not place[2].is_asleep]
        self._sleep([(name, device, "discard") for name, device, _ in places])

    def _sleep(self, places: list[tuple[str, int, str]]) -> None:
        import pleat.torch

        done: list[tuple[str, int]] = []
        try:
            for name, device, how in places:
                _tag.sleep(name, device, how, None)
                done.append((name, device))
        except BaseException:
            for name, device in done:
                _tag.wake(name, device, 0)
            raise
        gc.collect()
        pleat.torch.empty_cache()

    def wake_up(self, tags: list[str] | None = None) -> None:
        """Have memory again under these tags, or all, with the contents that were kept.

        Raises   PleatError (PLEAT_ENOMEM_DEVICE): what this call had woken sleeps again, with what
                 was kept; nothing is lost.
        """
        wanted = None if tags is None else _named(tags)
        woken: list[tuple[str, int, str]] = []
        try:
            for name, device, told in list(_places()):
                if told.is_asleep and (wanted is None or name in wanted):
                    _tag.wake(name, device, 0)
                    woken.append((name, device, "host" if told.kept_bytes > 0 else "discard"))
        except BaseException:
            for name, device, how in woken:
                _tag.sleep(name, device, how, None)
            raise

    def get_current_usage(self) -> int:
        """The bytes of the pool's tensors on all devices, awake or not."""
        return sum(told.allocated_bytes for _, _, told in _places())


def replace() -> None:
    """Install pleat under torch, if it is not, and let vLLM find this module from now on.

    Raises   RuntimeError (torch has used CUDA already).
    """
    import pleat.torch

    if not pleat.torch.is_installed():
        pleat.torch.install()
    sys.modules["vllm.device_allocator.cumem"] = sys.modules[__name__]


def plugin() -> None:
    """The entry point that vLLM calls in each of its processes: replace(), where PLEAT_VLLM is 1."""
    if os.environ.get("PLEAT_VLLM") == "1":
        replace()
