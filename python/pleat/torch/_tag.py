"""Tags of tensors: names for memory, its figures and limits, and its sleep."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

import torch

from .. import _tag
from ._memory import DeviceLike, device_index, warn_if_apart


@contextlib.contextmanager
def tag(name: str | None) -> Iterator[None]:
    """Let the memory of tensors made in the block carry the tag.

        with pleat.torch.tag("weights"):
            model = Model().cuda()

    Scopes nest; None: no tag. A scope belongs to the calling thread. So that gradients carry the
    tag, too, backward() in the block runs in this thread instead of autograd's own ones: where a
    process has several devices, these take turns. Memory of graphs' private pools carries no tag.

    Raises   PleatError (a tag of more than 63 bytes, or the 65th one).
    """
    warn_if_apart(4)
    with _tag.scope(name):
        if name is None:
            yield
            return
        with torch.autograd.grad_mode.set_multithreading_enabled(False):
            yield


def sleep(
    name: str,
    device: DeviceLike = None,
    *,
    keep: str = "host",
    folder: str | os.PathLike[str] | None = None,
) -> _tag.Slept:
    """Give the tag's memory back to the driver; its tensors stay, at their addresses.

    The tensors must not be used until wake(). The call waits for earlier work; work on other
    tensors goes on.

    Params   keep    the fate of the contents: "host" (page-locked memory), "file" (in
                     `folder`), or "discard".
    Returns  what was done: bytes, shared_bytes, kept_bytes, left_bytes.
    Raises   ValueError; PleatError (PLEAT_EASLEEP: it sleeps already; PLEAT_ECAPTURE: a graph is
             being captured; PLEAT_EINVAL: no tensor was ever made under the tag).
    Blocks   on all work of the device, and on copies.
    """
    torch.cuda.init()
    return _tag.sleep(name, device_index(device), keep, folder)


def wake(name: str, device: DeviceLike = None, *, most_bytes: int = 0) -> _tag.Slept:
    """Map memory again under the tag's tensors, with the kept contents.

    Params   most_bytes  the most to map in this call; 0 = all.
    Returns  what was done; while left_bytes is not 0 the tag sleeps on.
    Raises   PleatError (PLEAT_ENOMEM_DEVICE: memory is short): the tag sleeps on, nothing is lost.
    """
    torch.cuda.init()
    return _tag.wake(name, device_index(device), most_bytes)


def retain(name: str, is_retained: bool = True, device: DeviceLike = None) -> None:
    """Let wakes leave host memory filled by a sleep: the next sleep need not page-lock any.

    Until the next sleep the contents can be read (kept). False: wakes give the host memory back,
    and this call gives back host memory that an awake tag has retained.
    """
    torch.cuda.init()
    _tag.retain(name, device_index(device), is_retained)


def kept(tensor: torch.Tensor, *, copy: bool = True) -> torch.Tensor:
    """Get the contents that a sleep has kept of a tensor, on the host, without a wake.

    Params   copy  False: a tensor over pleat's host memory, if the bytes lie side by side there
                   (bytes of large tensors may not: then a copy). The memory is valid until the next
                   sleep, a wake that does not retain it, or retain(..., False).
    Raises   ValueError (not a contiguous CUDA tensor); PleatError (PLEAT_EFOREIGN: no contents are
             kept: the tag is awake, or sleeps without contents, or retains contents but got new
             tensors since its wake).
    """
    if not tensor.is_cuda or not tensor.is_contiguous():
        raise ValueError("only a contiguous CUDA tensor has bytes that are kept")
    n_bytes = tensor.numel() * tensor.element_size()
    if n_bytes == 0:
        return torch.empty_like(tensor, device="cpu")
    where = int(tensor.device.index), tensor.data_ptr(), n_bytes
    at = None if copy else _tag.find_kept(*where)
    if at is not None:
        window = (ctypes.c_uint8 * n_bytes).from_address(at)
        return torch.frombuffer(window, dtype=torch.uint8).view(tensor.dtype).view(tensor.shape)
    found = torch.empty_like(tensor, device="cpu", memory_format=torch.contiguous_format)
    _tag.read_kept(*where, found.data_ptr())
    return found


def tag_stats(name: str, device: DeviceLike = None) -> _tag.Tag:
    """Read statistics of the tag on a device.

    Raises   PleatError (PLEAT_EINVAL: no tensor was ever made under the tag).
    """
    torch.cuda.init()
    return _tag.stats(name, device_index(device))


def set_tag_limit(name: str, limit: int | float, device: DeviceLike = None) -> None:
    """Limit the bytes of the tag's tensors: a fraction of the device up to 1.0, or bytes; 0 = none.

    A tensor beyond the limit raises torch.OutOfMemoryError, and the text names the tag.
    """
    torch.cuda.init()
    index = device_index(device)
    if isinstance(limit, float):
        if not 0 <= limit <= 1:
            raise ValueError(f"a fraction lies between 0 and 1: {limit}")
        limit = int(limit * torch.cuda.get_device_properties(index).total_memory)
    _tag.set_limit(name, index, limit)
