"""Tensors that grow along their first dimension without a copy, over pleat's buffers."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Sequence
from typing import Any, Optional

import torch

from .. import _default
from .._library import check, library
from ._memory import DeviceLike, device_index


class Pages:
    """A buffer of pleat. Every storage over the buffer keeps it; it goes with the last storage."""

    def __init__(self, device: int, most_bytes: int, page_bytes: int) -> None:
        base = ctypes.c_uint64()
        self.address = 0
        self.device = device
        check(
            library().pleat_buffer_create(
                _default.instance(), device, most_bytes, page_bytes, ctypes.byref(base)
            )
        )
        self.address = base.value

    def resize(self, n_bytes: int) -> None:
        here = _default.instance()
        status = library().pleat_buffer_resize(
            here, self.device, self.address, n_bytes, self.stream()
        )
        check(status)

    def stream(self) -> int:
        return int(torch.cuda.current_stream(self.device).cuda_stream)

    def __del__(self) -> None:
        if self.address:  # a driver that is gone took it along: nobody can be told
            library().pleat_buffer_destroy(
                _default.instance(), self.device, self.address, self.stream()
            )


class Window:
    """The first bytes of the pages, as torch takes them over: the storage keeps this object."""

    def __init__(self, pages: Pages, n_bytes: int) -> None:
        self.pages = pages
        self.__cuda_array_interface__ = {
            "shape": (n_bytes,),
            "typestr": "|u1",
            "data": (pages.address, False),
            "strides": None,
            "version": 3,
        }


class Growable:
    """A tensor, `tensor`, which stays the same object while rows come and go.

    Its storage has the bytes of its rows, and begins at the same address for ever. Views keep the
    buffer, but a view may show rows that were given up. To use such rows is an error of the
    program, as with any memory freed too early. No gradients run through the tensor.
    """

    def __init__(
        self, shape: Sequence[int], max_rows: int, dtype: torch.dtype, device: int
    ) -> None:
        if not shape or min(shape) < 0 or max_rows < shape[0] or max_rows < 1:
            raise ValueError(f"a growable tensor has rows, at most max_rows: not {tuple(shape)}")
        self._row = tuple(int(n) for n in shape[1:])
        self._row_bytes = math.prod(self._row) * torch.empty((), dtype=dtype).element_size()
        if self._row_bytes == 0:
            raise ValueError(f"a row of {tuple(shape)} has no elements")
        self._lock = threading.Lock()
        self.max_rows = int(max_rows)
        self._pages = Pages(device, self.max_rows * self._row_bytes, 0)
        self.tensor = torch.empty((0, *self._row), dtype=dtype, device=f"cuda:{device}")
        self.resize(int(shape[0]))

    def __len__(self) -> int:
        return int(self.tensor.shape[0])

    @torch.no_grad()
    def resize(self, n_rows: int) -> torch.Tensor:
        """Set the number of rows. Rows that stay keep their contents and addresses; new rows hold
        anything.

        Returns  the tensor.
        Raises   ValueError (more than max_rows); PleatError (PLEAT_ENOMEM_DEVICE; PLEAT_ECAPTURE:
                 the current stream is being captured): all is as before.
        Owner    rows are given up in the order of the current stream: work submitted to other
                 streams must come before it by their events.
        """
        if not 0 <= n_rows <= self.max_rows:
            raise ValueError(f"{n_rows} rows: the tensor was made for at most {self.max_rows}")
        with self._lock:
            self._pages.resize(n_rows * self._row_bytes)
            self._show(n_rows)
        return self.tensor

    def append(self, rows: torch.Tensor) -> torch.Tensor:
        """Write rows behind the last one. Returns the tensor. Raises as resize."""
        n_rows = len(self)
        if tuple(rows.shape[1:]) != self._row:
            raise ValueError(f"rows of {tuple(rows.shape[1:])} do not fit {self._row}")
        self.resize(n_rows + rows.shape[0])
        with torch.no_grad():
            self.tensor[n_rows:].copy_(rows)
        return self.tensor

    def _show(self, n_rows: int) -> None:
        """Point the tensor at a storage of exactly these rows."""
        window: Any = Window(self._pages, n_rows * self._row_bytes) if n_rows > 0 else ()
        storage = torch.as_tensor(window, device=self.tensor.device).untyped_storage()
        shape = (n_rows, *self._row)
        strides = torch.empty(shape, device="meta").stride()
        self.tensor.set_(storage, 0, shape, strides)


def growable(
    shape: Sequence[int],
    max_rows: int,
    dtype: Optional[torch.dtype] = None,
    device: DeviceLike = None,
) -> Growable:
    """Make a tensor that grows along its first dimension without a copy: see Growable.

        cache = pleat.torch.growable((0, 32, 128), max_rows=100_000, dtype=torch.float16)
        cache.append(keys)             # cache.tensor has more rows, at the same address

    Params   shape     of the first rows; the first number may be 0.
             max_rows  the most rows ever: their addresses are reserved, no memory.
             dtype     None: torch's default.
    Returns  a Growable; its rows hold anything.
    Raises   ValueError; PleatError (PLEAT_ENOTSUP: a classic cache is at work;
             PLEAT_ENOMEM_DEVICE).
    Owner    in tag("kv") its memory is the tag's, later rows included. The memory sleeps and wakes
             with the tag; while the tag sleeps rows may go, but no row comes (PLEAT_EASLEEP).
             The memory goes when the Growable and all tensors over it are gone. The memory is
             pleat's whether pleat is installed under torch or not; with install(), the same memory
             feeds other tensors.
    Threads  any; changes wait for each other.
    """
    torch.cuda.init()
    index = device_index(device)
    return Growable(shape, max_rows, dtype or torch.get_default_dtype(), index)
