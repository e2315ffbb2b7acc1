"""The allocator of vLLM's sleep mode (vllm.device_allocator.cumem) over pleat's tags.

    import pleat.vllm
    pleat.vllm.replace()                  # before vLLM is imported, in each of its processes

replace() installs pleat under torch. From then on vLLM's own `from vllm.device_allocator.cumem
import CuMemAllocator` finds the class below. vLLM's workers are processes of their own. So the
package has an entry point in `vllm.general_plugins`, which vLLM calls in each process: with
PLEAT_VLLM=1 the entry point calls replace().

Three things differ from vLLM's allocator. The pool's memory is everybody's memory with a tag. A
sleep waits for all work. A wake without memory raises, and all its tags sleep again.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterable, Iterator

from . import _start, _tag

__all__ = ["CuMemAllocator", "cumem_available", "plugin", "replace"]

cumem_available = True
"""vLLM reads this before it allows sleep mode."""

_PREFIX = "vllm:"


def _named(tags: Iterable[str] | str) -> set[str]:
    return {_PREFIX + tag for tag in ((tags,) if isinstance(tags, str) else tags)}


def _places() -> Iterator[tuple[str, int, _tag.Tag]]:
    """Find the pool's tags, on the devices where they have memory."""
    return _tag.places(name for name in _tag.names() if name.startswith(_PREFIX))


class CuMemAllocator:
    """The class that vLLM knows under this name: a singleton, by get_instance()."""

    instance: CuMemAllocator | None = None
    default_tag = "default"

    @staticmethod
    def get_instance() -> CuMemAllocator:
        """Get the single instance.

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
        """Let the thread's tensors in the block sleep and wake under the tag; None: "default"."""
        with _tag.scope(_PREFIX + (self.default_tag if tag is None else tag)):
            yield

    def sleep(self, offload_tags: tuple[str, ...] | str | None = None) -> None:
        """Give the pool's memory back, on all devices; tags asleep already sleep on.

        Params   offload_tags  the tags whose contents are kept on the host; None: "default". Other
                               tags lose their contents.
        Raises   PleatError: tags that were awake are awake again. Contents are kept before any are
                 discarded; tags discarded before the failure have lost their contents.
        """
        kept = _named((self.default_tag,) if offload_tags is None else offload_tags)
        places = [(name, device) for name, device, told in _places() if not told.is_asleep]
        places.sort(key=lambda place: place[0] not in kept)
        self._sleep([(*place, "host" if place[0] in kept else "discard") for place in places])

    def discard(self, tags: tuple[str, ...] | str) -> None:
        """Let the named tags sleep without their contents."""
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
        """Map memory again under some tags, or all, with kept contents.

        Raises   PleatError (PLEAT_ENOMEM_DEVICE): tags woken by this call sleep again, with kept
                 contents; nothing is lost.
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
    """Install pleat under torch if needed, and let vLLM find this module from now on.

    Raises   RuntimeError (torch has used CUDA already).
    """
    import pleat.torch

    if not pleat.torch.is_installed():
        pleat.torch.install()
    sys.modules["vllm.device_allocator.cumem"] = sys.modules[__name__]


def plugin() -> None:
    """The entry point that vLLM calls in each of its processes: replace() if PLEAT_VLLM is 1."""
    if _start.is_on("PLEAT_VLLM"):
        replace()
