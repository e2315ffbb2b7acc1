"""pleat as PyTorch's CUDA allocator: a class derived from torch's own (_class.py) if compiling
works, else torch.cuda.memory.CUDAPluggableAllocator with every hook."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import Any

import torch

from .. import _start
from .._conf import join_conf, overlay
from .._library import beside, library
from .._status import PleatError
from . import _class, _patch, _settings, _spawn
from ._configure import configure, merged, shared, undone_on_failure

SHIM = "libpleat_torch.so"
OLDEST_TORCH = (2, 1)

# Setter of torch's C++ object: (function, whether it is in the shim). A torch without one of these
# setters calls the hook with another signature, or not at all: such a torch is too old.
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
_binding: str | None = None  # by which it is installed
_has_pinned = False  # torch's pinned memory, too
_allocator: Any = None

BINDINGS = ("auto", "class", "hooks")
BINDING_VARIABLE = "PLEAT_TORCH_BINDING"
MISSING_WITH_HOOKS = (
    "without MemPool, Python frames in snapshots, out-of-memory observers, the profiler's timeline "
    "and cudnn.benchmark"
)


def is_installed() -> bool:
    """Whether install() has put pleat under torch in this process."""
    return _installed is not None


def binding() -> str | None:
    """How pleat is bound to torch: "class", "hooks", or None before install()."""
    return _binding


def install(
    conf: str | None = None,
    *,
    patch: bool = True,
    history: int = 0,
    binding: str | None = None,
    short: str | None = None,
) -> None:
    """Make pleat the allocator of all CUDA tensors of this process.

    Params   conf     `key:value,...`, overrides PLEAT_CONF key by key. The driver is cuda unless
                      one of the two says driver:sim. torch tells pleat of its streams and captures:
                      so by default stream_identity is handle and capture is told. Streams of other
                      libraries (ExternalStream) may be destroyed and made anew. The class knows
                      such streams; hooks need `stream_identity:id` for them. With the class,
                      shareable is auto by default, so that torch.multiprocessing can send CUDA
                      tensors.
             patch    with hooks, let torch.cuda.memory_stats and all functions over it
                      (memory_allocated, memory_summary, memory._snapshot, ...) tell pleat's
                      numbers: see patch(). The class needs no patching.
             history  entries to record for each device from the start, as
                      record_memory_history(max_entries=...) does later; 0 = none.
             binding  "class": a class derived from torch's, compiled on first use; all of
                      torch.cuda.memory works. "hooks": torch's pluggable allocator, which needs no
                      compiler. "auto": the class if possible, else hooks, and one line on standard
                      error says what is missing. None: the environment variable
                      PLEAT_TORCH_BINDING, else auto.
             short    "compact": before a request fails for memory in partly used chunks, wait for
                      all work of the device, and move live tensors together. You promise that
                      meanwhile no other thread launches work on the device (docs/pytorch.md).
                      "refuse": the request fails. None: as the configuration says, else refuse.
    Raises   RuntimeError: CUDA is initialised already, torch has no CUDA or is older than 2.1,
             pleat is installed with another configuration, the simulator would meet a real GPU, or
             the package was built without a C++ compiler.
             ValueError, PleatError (PLEAT_ECONF): the configuration, an argument, or torch's own
             configuration in PYTORCH_CUDA_ALLOC_CONF. FileNotFoundError: the library. After any
             exception torch is as before.
    Owner    children that multiprocessing spawns or forks inherit the installation.
             PLEAT_TORCH_SPAWN=0 in the environment leaves spawned children alone.
             NCCL_GRAPH_REGISTER is set to 0 in the environment unless it has a value: NCCL
             registers the buffers of a captured graph by the first handle under an address, and
             pleat's blocks may have several handles.
    Threads  any; call install() once, before the first use of CUDA. A second call with the same
             configuration does nothing. torch offers no way back.
    Blocks   while the class is compiled, some 10 s, once for each version of torch and pleat.
             Touches no GPU, so a later fork (DataLoader workers) stays possible.
    """
    global _installed, _binding
    wanted = wanted_binding(binding)
    entries = overlay(merged(conf, history, short, is_told=True), "")
    limit = _settings.limit()
    text = join_conf(entries if limit is None else {"limit": limit, **entries})
    with _lock:
        if _installed in (text, shared(text)):
            if patch and _binding == "hooks":
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
        _settings.read_by_torch()
        with undone_on_failure():
            _binding, _installed = put_under_torch(text, wanted)
        os.environ.setdefault("NCCL_GRAPH_REGISTER", "0")
        if patch and _binding == "hooks":
            _patch.patch()
        _spawn.inherit(_binding, patch)
        _settings.tell_start(_binding, entries.get("limit", limit) != limit)
        _settings.watch(_binding, lambda: _has_pinned)


def install_if_asked() -> None:
    """Install pleat where PLEAT_TORCH_INSTALL asks for it, at the end of the import of pleat.torch.

    Raises  ValueError, PleatError: the configuration.
    """
    if not _start.is_wanted():
        return
    try:
        install()
    except PleatError:
        raise
    except RuntimeError as error:
        print(f"pleat: this Python uses torch's own allocator: {error}", file=sys.stderr)


def install_pinned() -> None:
    """Make pleat the allocator of torch's pinned host memory, too, after install().

    Pinned tensors (pin_memory, DataLoader) then lie in an instance of their own with `memory:host`.
    The instance gives exact sizes where torch rounds up to powers of two.
    torch.cuda.host_memory_stats tells its numbers. Its configuration is that of install(), without
    the limit.

    Raises   RuntimeError: pleat is not installed by its class, or torch is older than 2.10.
    Owner    children that multiprocessing spawns from now on inherit it, as install().
    Threads  any; call it once, before the first pinned tensor. A second call does nothing. torch
             offers no way back.
    Blocks   touches no GPU.
    """
    global _has_pinned
    with _lock:
        if not _has_pinned:
            _class.install_pinned()
            _spawn.inherit_pinned()
            _has_pinned = True
            _settings.tell_pinned()


def wanted_binding(argument: str | None) -> str:
    """The argument, else the environment variable, else auto."""
    wanted = argument or os.environ.get(BINDING_VARIABLE) or "auto"
    if wanted not in BINDINGS:
        raise ValueError(f"binding is one of {', '.join(BINDINGS)}, not {wanted!r}")
    return wanted


def put_under_torch(text: str, wanted: str) -> tuple[str, str]:
    """Configure pleat with `text`, and make it torch's allocator.

    Returns  the binding, and the configuration: with the class, other processes can open memory
             unless `text` has the key `shareable`.
    """
    configured = text
    if wanted != "hooks":
        try:
            path = _class.prepare(again=wanted == "class")
            configured = shared(text)
            configure(configured)
            _class.install(path)
            return "class", configured
        except _class.Unavailable as reason:
            if wanted == "class":
                raise
            print(
                f"pleat: {reason}; so torch gets pleat by hooks, {MISSING_WITH_HOOKS}",
                file=sys.stderr,
            )
    install_hooks(configured)
    return "hooks", configured


def install_hooks(text: str) -> None:
    global _allocator
    allocator = build_allocator()
    configure(text)
    torch.cuda.memory.change_current_allocator(allocator)
    _allocator = allocator


def check_torch() -> None:
    """Raise RuntimeError if this torch cannot use pleat as its CUDA allocator."""
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
            hooks torch would let everybody use a graph's memory: neither may happen silently.
    """
    shim_path = beside(SHIM)
    if shim_path is None:
        raise RuntimeError(
            f"{SHIM} is missing, because pleat was built without a C++ compiler: install one and "
            "then pleat again; mem_pool() works without it"
        )
    plain = library()
    shim = ctypes.CDLL(shim_path)
    # Like torch's CUDAPluggableAllocator, but its constructor wants both symbols in one file.
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
