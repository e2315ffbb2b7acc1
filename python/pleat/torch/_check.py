"""Finds a script's mistakes with streams and memory, on the simulated runtime (docs/check.md).

A dispatch mode sees each operation and tells the simulator which bytes its kernels touch. torch's own
tracing (torch.cuda._gpu_trace) tells of blocks that come and go, under any allocator. The simulator
knows streams, events, copies, collectives and graphs, and finds what is wrong.

torch hands the modes of the thread that calls backward() to autograd's threads. Threads that the
program starts later enter the mode when they begin.
"""

from __future__ import annotations

import atexit
import functools
import gc
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from threading import get_ident
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode

from . import _findings, _leaks, _listener, _page, _places

VARIABLE = "PLEAT_TORCH_CHECK"  # the folder where each process leaves its findings

_PLAIN = ("Bool", "Complex", "DeviceObj", "Float", "Generator", "Int", "Number", "String")
_MAKES_NEW = re.compile(r"aten::(new_.*|.*_like|empty.*)$")  # reads the shapes of its arguments only
_OPERATIONS_A_LOOK, _SECONDS_A_LINE = 1 << 14, 60  # at the clock, and of progress
_Tensor = torch.Tensor
_strided = torch.strided


# By thread, since a threading.local takes longer to read:
_under_way: dict[int, tuple[int, list[int]]] = {}  # an operation's place, the blocks that it allocated
_torch_s: set[int] = set()  # threads where torch itself captures or launches a graph
_state: _Check | None = None


def _may_hold_tensors(kind: Any) -> bool:
    while kind.kind() in ("OptionalType", "ListType"):
        kind = kind.getElementType()
    return kind.kind().removesuffix("Type") not in _PLAIN


class _Operation:
    """What its schema says of an operation."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        makes_new = _MAKES_NEW.match(schema.name) is not None
        self.func = func
        self._schema = schema
        # Of each argument: None where no access is known of it, else whether it is written.
        self.writes: list[bool | None] = []
        for argument in schema.arguments:
            is_write = argument.alias_info is not None and argument.alias_info.is_write
            is_accessed = is_write or not makes_new and _may_hold_tensors(argument.type)
            self.writes.append(is_write if is_accessed else None)
        self.named = {a.name: w for a, w in zip(schema.arguments, self.writes)}
        # A view launches nothing, and allocates nothing.
        returns = [r.alias_info for r in schema.returns]
        self.is_view = (
            bool(returns)
            and not any(self.writes)
            and all(info is not None and not info.is_write for info in returns)
        )
        # torch's own operations go where their tensors are, unless they are told a device.
        texts = [str(argument.type) for argument in schema.arguments]
        self.follows_tensors = (
            schema.name.startswith("aten::")
            and not makes_new
            and "Tensor" in texts
            and not any("Device" in text for text in texts)
        )
        self.is_record = schema.name == "aten::record_stream"


_operations: dict[int, _Operation] = {}  # by id: torch's own hash of them is a function of Python


@functools.lru_cache(maxsize=4096)
def _span(sizes: tuple[int, ...], steps: tuple[int, ...]) -> int:
    """Elements from the first to the last one."""
    return 1 + sum((size - 1) * step for size, step in zip(sizes, steps))


def _accesses(
    operation: _Operation, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[int], list[torch.Tensor], bool]:
    """The accesses as the simulator reads them: address, bytes, whether it is a write; the tensors if a
    view has gaps; and whether any tensor is on a device."""
    accesses: list[int] = []
    tensors: list[torch.Tensor] = []
    has_gaps = is_on_device = False
    pairs: Iterable[tuple[Any, bool | None]] = zip(args, operation.writes)
    if kwargs:
        pairs = [*pairs, *((v, operation.named.get(k, False)) for k, v in kwargs.items())]
    for value, is_write in pairs:
        if is_write is None or value is None:
            continue
        if isinstance(value, _Tensor):
            values: Any = (value,)
        elif isinstance(value, (list, tuple)):
            values = value
        else:
            continue
        for tensor in values:
            if not isinstance(tensor, _Tensor) or not tensor.is_cuda:
                continue
            is_on_device = True
            if tensor.layout is not _strided:
                continue
            ptr = tensor.data_ptr()
            n_bytes = tensor.nbytes
            if n_bytes == 0 or ptr == 0:
                continue
            if not tensor.is_contiguous():  # from the first element to the last
                span = _span(tensor.size(), tensor.stride()) * tensor.itemsize
                has_gaps = has_gaps or n_bytes < span
                n_bytes = span
            accesses += (ptr, n_bytes, is_write)
            tensors.append(tensor)
    return accesses, tensors if has_gaps else [], is_on_device


def _tell_sizes(output: Any, news: list[int], place: int, sizes: dict[int, int]) -> None:
    if isinstance(output, _Tensor):
        if output.is_cuda and output.layout is _strided:
            storage = output.untyped_storage()
            ptr = storage.data_ptr()
            if ptr in news:
                news.remove(ptr)
                sizes[ptr] = n_bytes = storage.nbytes()
                _listener.tell(_listener.BYTES, 0, ptr, n_bytes, place)
    elif isinstance(output, (list, tuple)):
        for one in output:
            _tell_sizes(one, news, place, sizes)


class _Mode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # a wrapper that would take longer than all of this, instead of _skip_in_compiled_code

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        operation = _operations.get(id(func))
        if operation is None:
            operation = _operations[id(func)] = _Operation(func)
        kwargs = kwargs or {}
        if operation.is_view:
            return func(*args, **kwargs)
        for kind in types:
            if kind is not _Tensor and not issubclass(kind, torch.nn.Parameter):
                if issubclass(kind, FakeTensor):
                    return func(*args, **kwargs)  # without memory, as in the planning of DTensor
                return NotImplemented  # a wrapper: its own operations on real tensors come here
        check = _state
        if check is None or not check.is_on or (_torch_s and get_ident() in _torch_s):
            return func(*args, **kwargs)
        if operation.is_record:
            check.note_record(*args, **kwargs)
            return func(*args, **kwargs)
        return check.run(operation, args, kwargs)


class _Check:
    def __init__(self) -> None:
        self.is_on = True
        self.mode: Any = _Mode()  # type: ignore[no-untyped-call]
        self.findings = _findings.Findings()
        self.live = _leaks.Live()
        self.n_seen = 0  # hazards of the simulator
        # Blocks that other streams were recorded for: by address, by stream, where.
        self.recorded: dict[int, dict[int, int]] = {}
        self.devices: set[int] = set()
        self.told_at = time.monotonic()
        self.lock = threading.Lock()
        self.stepper: Any = None  # the optimizer whose steps count

    # ---- operations ----

    def run(self, operation: _Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        accesses, gappy, is_on_device = _accesses(operation, args, kwargs)
        findings = self.findings
        findings.n_operations += 1
        if not findings.n_operations % _OPERATIONS_A_LOOK:
            self.say_progress()
        if operation.follows_tensors and not is_on_device:
            return operation.func(*args, **kwargs)  # the host alone works
        place = _listener.here(operation)
        gaps = findings.gaps
        if gappy:
            gaps[place] = [_findings.shape_of(tensor) for tensor in gappy]
        elif place in gaps:
            del gaps[place]
        news: list[int] = []
        thread = get_ident()
        _under_way[thread] = place, news
        _listener.op_begin(place, accesses)
        try:
            output = operation.func(*args, **kwargs)
            if news:
                _tell_sizes(output, news, place, self.live.sizes)
                for ptr in news:
                    _listener.tell(_listener.BYTES, 0, ptr, 0, place)
        finally:
            n_hazards = _listener.op_end()
            _under_way.pop(thread, None)
        if n_hazards != self.n_seen:
            self.look()
        return output

    def say_progress(self) -> None:
        now = time.monotonic()
        if now - self.told_at >= _SECONDS_A_LINE:
            self.told_at = now
            n, found = self.findings.n_operations, len(self.findings.found)
            print(f"pleat check: {n} operations so far, {found} findings", file=sys.stderr)

    def look(self) -> None:
        """Read the simulator's new hazards."""
        with self.lock:
            hazards = _listener.hazards_from(self.n_seen)
            self.n_seen += len(hazards)
            if self.n_seen >= _listener.MOST:
                self.n_seen = _listener.op_end()
        for hazard in hazards:
            if hazard.kind == "early-free" and self.is_pending(hazard.block_ptr):
                continue
            self.findings.add(hazard)

    @staticmethod
    def is_pending(ptr: int) -> bool:
        """Whether torch's cache still waits for a stream that torch itself has recorded, in C++."""
        for segment in torch.cuda.memory_snapshot():
            if segment["address"] <= ptr < segment["address"] + segment["total_size"]:
                for block in segment["blocks"]:
                    if block["address"] == ptr:
                        return bool(block["state"].startswith(("active_pending", "active_await")))
        return False

    # ---- steps ----

    def stepped(self, optimizer: Any, *_: Any) -> None:
        if self.stepper is None:
            self.stepper = weakref.ref(optimizer)
        if self.stepper() is optimizer:
            self.live.step()

    # ---- blocks ----

    def note_record(self, tensor: torch.Tensor, s: torch.Stream) -> None:
        if tensor.is_cuda:
            of_it = self.recorded.setdefault(tensor.untyped_storage().data_ptr(), {})
            stream = torch.cuda.Stream(
                stream_id=s.stream_id, device_index=s.device_index, device_type=s.device_type
            )
            of_it.setdefault(stream.cuda_stream, _places.of_user("record_stream"))

    def judge_records(self, ptr: int) -> None:
        """The block goes. Have the streams used it that were recorded for it?"""
        for stream, place in self.recorded.pop(ptr).items():
            if place:  # the user's own call, not a library's
                self.findings.note_record(place, _listener.may_use(ptr, stream))

    def block_began(self, ptr: int) -> None:
        under_way = _under_way.get(get_ident())
        if under_way is not None:
            place, news = under_way
            news.append(ptr)
        else:
            place = _listener.here("an allocation")
        device = torch._C._cuda_getDevice()
        stream = torch._C._cuda_getCurrentRawStream(device)
        if device not in self.devices:
            self.devices.add(device)
            _listener.note_default_stream()
        _listener.tell(_listener.BLOCK, stream, ptr, 0, place)
        self.live.began(ptr, place)

    def block_freed(self, ptr: int) -> None:
        under_way = _under_way.get(get_ident())
        if under_way is not None:
            place, news = under_way
            if ptr in news:
                news.remove(ptr)
        else:
            place = _listener.here("the free", 1)
        # A use that was recorded keeps the bytes from the next request.
        is_reusable = ptr not in self.recorded
        _listener.tell(_listener.FREE, 0, ptr, is_reusable, place)
        if not is_reusable:
            self.judge_records(ptr)
        self.live.freed(ptr)


def _skip_in_compiled_code() -> None:
    """torch.compile looks at no code of the check's."""
    try:
        from torch._C._dynamo.eval_frame import skip_code  # type: ignore[attr-defined]
    except ImportError:
        return
    for function in (_Mode.__torch_dispatch__, _Check.run, _Check.block_began, _Check.block_freed):
        skip_code(function.__code__)


def _enter_in_new_threads() -> None:
    """Each thread of Python's has its own modes."""
    original = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def with_mode(self: threading.Thread) -> None:
        check = _state
        if check is None or not check.is_on:
            original(self)
            return
        with _Mode():  # type: ignore[no-untyped-call]
            original(self)

    threading.Thread._bootstrap_inner = with_mode  # type: ignore[attr-defined]


def _name_launches() -> None:
    """A launch of a graph is no operation of torch's, but has a place, too. What torch itself writes
    there, and where a capture begins, is the state of its random numbers, in an order of its own."""
    graph = torch.cuda.CUDAGraph

    def name(method: Any, what: str) -> Any:
        def run(self: torch.cuda.CUDAGraph, *args: Any, **named: Any) -> None:
            check = _state
            if check is None or not check.is_on:
                method(self, *args, **named)
                return
            _listener.op_begin(_listener.here(what), [])
            _torch_s.add(get_ident())
            try:
                method(self, *args, **named)
            finally:
                _torch_s.discard(get_ident())
                if _listener.op_end() != check.n_seen:
                    check.look()

        return run

    graph.replay = name(graph.replay, "the launch of a graph")  # type: ignore[method-assign]
    graph.capture_begin = name(  # type: ignore[method-assign]
        graph.capture_begin, "the capture of a graph"
    )


def begin(folder: str | None = None) -> None:
    """Check this process from now on, and say at its end what was found.

    Raises RuntimeError where the process does not run on the simulated runtime."""
    global _state
    if _state is not None:
        return
    if not _listener.is_there():
        raise RuntimeError("a check needs the simulated runtime: pleat-runtime --check PROGRAM")
    import torch.cuda._gpu_trace as trace

    _state = check = _Check()
    torch._C._activate_gpu_trace()
    trace.register_callback_for_memory_allocation(check.block_began)
    trace.register_callback_for_memory_deallocation(check.block_freed)
    _enter_in_new_threads()
    _name_launches()
    _skip_in_compiled_code()
    gc.freeze()  # the modules imported so far: the collector runs more often now
    _places.follow()
    register_optimizer_step_post_hook(check.stepped)
    check.mode.__enter__()
    atexit.register(_finish, check, folder)


def _finish(check: _Check, folder: str | None) -> None:
    check.is_on = False
    check.look()
    if folder is not None:
        _page.write(check.findings, check.live, os.path.join(folder, f"{os.getpid()}.html"))
    check.findings.finish(check.live, folder)


def begin_if_asked() -> None:
    folder = os.environ.get(VARIABLE)
    if folder and _listener.is_there():
        begin(folder)


def mark() -> _leaks.Mark:
    """Remember this moment, for leaks(). Where no optimizer steps, a mark also ends a step.

    Raises   RuntimeError: no check is under way (pleat-runtime --check).
    """
    live = under_way().live
    if under_way().stepper is None:
        live.step()
    return _leaks.Mark(live.n_allocated)


def leaks(since: _leaks.Mark | None = None) -> list[_leaks.Alive]:
    """List what was allocated after the mark and still lives, by place, the most bytes first.

    print(*pleat.torch.leaks(since=mark)[:10], sep="\\n") is ten lines for an issue.

    Params   since  None: since the check began.
    Raises   RuntimeError: no check is under way (pleat-runtime --check).
    """
    return under_way().live.since(since)


def under_way() -> _Check:
    if _state is None:
        raise RuntimeError("blocks are followed during a check only: pleat-runtime --check PROGRAM")
    return _state
