"""pleat as PyTorch's CUDA allocator: torch.cuda.memory.CUDAPluggableAllocator with every hook."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import torch

from .._library import beside, library
from . import _patch
from ._configure import configure, merged

SHIM = "libpleat_torch.so"
OLDEST_TORCH = (2, 1)

# Setter of torch's C++ object: (function, whether it is in the shim). A torch without one of them
# calls the hook with another signature, or not at all: it is too old.
HOOKS = {
    "set_init_fn": ("pleat_torch_init", False),
    "set_reset_fn": ("pleat_torch_reset", False),
    "set_memory_fraction_fn": ("pleat_torch_memory_fraction", False),
    "set_base_alloc_fn": ("pleat_torch_base_alloc", False),
    "set_record_stream_fn": ("pleat_torch_record_stream", False),
    "set_begin_allocate_to_pool": ("pleat_torch_begin_pool", True),
    "set_end_allocate_to_pool_fn": ("pleat_torch_end_pool", False),
    "set_release_pool": ("pleat_torch_release_pool", False),
}

_lock = threading.RLock()
_installed: str | None = None
_allocator: Any = None


def is_installed() -> bool:
    """Whether install() has put pleat under torch in this process."""
    return _installed is not None


def install(conf: str | None = None, *, patch: bool = True, history: int = 0) -> None:
    """Make pleat the allocator of all CUDA tensors of this process.

    Params   conf     `key:value,...`, laid over PLEAT_CONF key by key. The driver is cuda unless
                      one of them says driver:sim. torch tells pleat of its streams and captures,
                      so stream_identity is handle and capture is told unless they are written
                      down: `stream_identity:id` for streams of other libraries (ExternalStream)
                      that are destroyed and made anew.
             patch    let torch.cuda.memory_stats and everything made of it (memory_allocated,
                      memory_summary, memory._snapshot, ...) tell pleat's numbers: see patch().
             history  entries to record for each device from the start, as
                      record_memory_history(max_entries=...) does later; 0 = none.
    Raises   RuntimeError: CUDA is initialised already, torch has no CUDA or is older than 2.1,
             pleat is installed with another configuration, the simulator would meet a real GPU, or
             the package was built without a C++ compiler.
             ValueError, PleatError (PLEAT_ECONF): the configuration. FileNotFoundError: the
             library. After any of them torch is as before.
    Threads  any; call it once, before the first use of CUDA. Again with the same configuration it
             does nothing. There is no way back: torch offers none.
    Blocks   never; touches no GPU, so a later fork (DataLoader workers) stays possible.
    """
    global _installed, _allocator
    text = merged(conf, history, is_told=True)
    with _lock:
        if _installed == text:
            if patch:
                _patch.patch()
            return
        if _installed is not None:
            raise RuntimeError(
                f"pleat is installed with {_installed!r}; a process has one configuration, so it "
                f"cannot be installed with {text!r}"
            )
        check_torch()
        if torch.cuda.is_initialized():
            raise RuntimeError(
                "CUDA is initialised already: call pleat.torch.install() before the first use of "
                "CUDA (the first .cuda(), .to('cuda') or torch.cuda call that needs a device)"
            )
        allocator = build_allocator()
        configure(text)
        torch.cuda.memory.change_current_allocator(allocator)
        _allocator = allocator
        _installed = text
        if patch:
            _patch.patch()


def check_torch() -> None:
    """Raise RuntimeError if this torch cannot take another CUDA allocator."""
    version = torch.__version__
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
    if numbers < OLDEST_TORCH:
        oldest = ".".join(str(part) for part in OLDEST_TORCH)
        raise RuntimeError(f"torch {version} is too old: pleat.torch needs {oldest} or newer")
    if getattr(torch.version, "hip", None):
        raise RuntimeError(f"torch {version} is built for ROCm; pleat.torch needs CUDA")
    if torch.version.cuda is None or not hasattr(torch._C, "_cuda_customAllocator"):
        raise RuntimeError(f"torch {version} is built without CUDA")
    made: Any = getattr(torch._C, "_CUDAPluggableAllocator")
    missing = [name for name in HOOKS if not hasattr(made, name)]
    if missing:
        raise RuntimeError(f"torch {version} is too old: its allocators have no {missing[0]}")


def build_allocator() -> Any:
    """A CUDAPluggableAllocator over pleat with every hook that this torch calls.

    Raises  RuntimeError without the shim. torch would take NULL for an address, and without pool
            hooks it would let everybody use a graph's memory: neither may happen silently.
    """
    shim_path = beside(SHIM)
    if shim_path is None:
        raise RuntimeError(
            f"{SHIM} is missing, because pleat was built without a C++ compiler: install one and "
            "then pleat again; mem_pool() works without it"
        )
    plain = library()
    shim = ctypes.CDLL(shim_path)
    # Like torch's CUDAPluggableAllocator, whose constructor wants both symbols in one file.
    made: Any = torch._C._cuda_customAllocator(
        address(shim, "pleat_torch_malloc_or_throw"), address(plain, "pleat_torch_free")
    )
    for setter, (name, in_shim) in HOOKS.items():
        getattr(made, setter)(address(shim if in_shim else plain, name))
    return torch.cuda.memory._CUDAAllocator(made)


def address(holder: ctypes.CDLL, name: str) -> int:
    """The address of a function, as torch's setters take it."""
    found = ctypes.cast(getattr(holder, name), ctypes.c_void_p).value
    if not found:
        raise OSError(f"{name} has no address")
    return found
