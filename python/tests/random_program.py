"""A random program of tensors, streams, threads, graphs and pools, which checks each byte.

Usage: random_program.py SEED STEPS THREADS ALLOCATOR (pleat or torch), on pleat-runtime with
contents. The device is sometimes too small for the program.

Each tensor holds a part of one array of random bytes, copied on a stream of its thread. The program
copies tensors on other streams and in graphs, and sometimes reads a tensor back. Threads hand
tensors to each other. The program destroys streams, pools and graphs whose memory is in use. It
waits only where CUDA's rules require a wait. So memory given out too early shows as wrong bytes, or
as a hazard of the simulator. Prints a line of JSON.

While a thread captures, all other threads rest: a device's synchronisation would break the capture.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import faulthandler
import gc
import json
import random
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

MIB = 1 << 20
LIMIT_S = 240
SIZES = (1, 100, 5000, 100_000, 700_000, MIB, 3 * MIB, 9 * MIB, 20 * MIB)
MOST = 2 * SIZES[-1]
N_STREAMS = 4
NON_BLOCKING = 1
runtime = ctypes.CDLL(None)


def new_stream() -> torch.cuda.Stream:
    """Make a stream that no other thread has: torch's own come from a pool of 32."""
    handle = ctypes.c_void_p()
    assert runtime.cudaStreamCreateWithFlags(ctypes.byref(handle), NON_BLOCKING) == 0
    return torch.cuda.ExternalStream(handle.value)


def destroy(stream: torch.cuda.Stream) -> None:
    assert runtime.cudaStreamDestroy(ctypes.c_void_p(stream.cuda_stream)) == 0


def page_lock(tensor: torch.Tensor) -> None:
    """Not by pin_memory(): torch would record events on destroyed streams."""
    at, n = ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(tensor.numel())
    assert runtime.cudaHostRegister(at, n, 0) == 0


class Turns:
    """Many threads take steps at a time, or one captures."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.n_steps = 0
        self.is_capturing = False

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        with self.changed:
            self.changed.wait_for(lambda: not self.is_capturing)
            self.n_steps += 1
        try:
            yield
        finally:
            with self.changed:
                self.n_steps -= 1
                self.changed.notify_all()

    @contextlib.contextmanager
    def capture(self) -> Iterator[None]:
        with self.changed:
            self.changed.wait_for(lambda: not self.is_capturing)
            self.is_capturing = True
            self.changed.wait_for(lambda: self.n_steps == 0)
        try:
            yield
        finally:
            with self.changed:
                self.is_capturing = False
                self.changed.notify_all()


@dataclass
class Piece:
    """A tensor with the bytes from `at` on, and the stream that last wrote them."""

    tensor: torch.Tensor
    at: int
    stream: torch.cuda.Stream


@dataclass
class Graph:
    graph: torch.cuda.CUDAGraph
    read: list[Piece]
    written: list[Piece]


class Program:
    """What the threads share."""

    def __init__(self, seed: int, can_destroy: bool) -> None:
        self.seed, self.can_destroy = seed, can_destroy
        self.bytes = torch.randint(0, 256, (MOST,), dtype=torch.uint8)
        page_lock(self.bytes)
        self.turns = Turns()
        self.lock = threading.Lock()
        self.handed: list[tuple[Piece, torch.cuda.Event]] = []
        self.done: collections.Counter[str] = collections.Counter()
        self.errors: list[str] = []

    def count(self, what: str) -> None:
        with self.lock:
            self.done[what] += 1


class Worker(threading.Thread):
    def __init__(self, program: Program, number: int, steps: int) -> None:
        super().__init__()
        self.program, self.steps = program, steps
        self.random = random.Random(program.seed * 1000 + number)
        self.streams = [new_stream() for _ in range(N_STREAMS)]
        self.pieces: list[Piece] = []
        self.graphs: list[Graph] = []
        self.pools: list[torch.cuda.MemPool] = []

    def run(self) -> None:
        program = self.program
        try:
            for _ in range(self.steps):
                act, is_capture = self.choose()
                with program.turns.capture() if is_capture else program.turns.step():
                    try:
                        act()
                    except torch.cuda.OutOfMemoryError:
                        program.count("out of memory")
                        self.lose_some()
            with program.turns.step():
                for piece in self.pieces:
                    self.compare(piece)
        except BaseException:
            with program.lock:
                program.errors.append(traceback.format_exc())

    def choose(self) -> tuple[Callable[[], object], bool]:
        acts: list[tuple[float, Callable[[], object]]] = [
            (0.33, self.lose),
            (0.09, self.copy_elsewhere),
            (0.06, self.hand_over),
            (0.025, self.capture),
            (0.035, self.replay),
            (0.015, self.change_pools),
            (0.025, self.do_something_else),
        ]
        draw = self.random.random()
        for share, act in acts if self.pieces else []:
            if draw < share:
                return act, act == self.capture
            draw -= share
        return self.make, False

    # ---- tensors ----

    def empty(self, n: int) -> torch.Tensor:
        return torch.empty(n, dtype=torch.uint8, device="cuda")

    def make(self) -> Piece:
        n = self.random.choice(SIZES)
        n += self.random.randrange(n)
        at = self.random.randrange(MOST - n + 1)
        stream = self.random.choice(self.streams)
        with torch.cuda.stream(stream):
            tensor = self.empty(n)
            tensor.copy_(self.program.bytes[at : at + n], non_blocking=True)
        self.pieces.append(Piece(tensor, at, stream))
        return self.pieces[-1]

    def compare(self, piece: Piece) -> None:
        with torch.cuda.stream(piece.stream):
            back = piece.tensor.cpu()
        wrong = back != self.program.bytes[piece.at : piece.at + back.numel()]
        if wrong.any():
            n, first = int(wrong.sum()), int(wrong.nonzero()[0])
            raise RuntimeError(f"{n} of {back.numel()} bytes differ, from {first} on")
        self.program.count("compared")

    def take_any(self) -> Piece:
        return self.pieces.pop(self.random.randrange(len(self.pieces)))

    def lose(self) -> None:
        piece = self.take_any()
        if self.random.random() < 0.2:
            self.compare(piece)

    def lose_some(self) -> None:
        if self.random.random() < 0.7:
            for _ in range(min(len(self.pieces), 5)):
                self.take_any()

    def copy_elsewhere(self) -> None:
        piece, stream = self.random.choice(self.pieces), self.random.choice(self.streams)
        stream.wait_stream(piece.stream)
        with torch.cuda.stream(stream):
            copy = self.empty(piece.tensor.numel())
            copy.copy_(piece.tensor, non_blocking=True)
        piece.tensor.record_stream(stream)
        self.pieces.append(Piece(copy, piece.at, stream))
        if self.random.random() < 0.5:
            self.pieces = [other for other in self.pieces if other is not piece]

    def hand_over(self) -> None:
        piece = self.take_any()
        event = torch.cuda.Event()
        event.record(piece.stream)
        with self.program.lock:
            handed = self.program.handed
            handed.append((piece, event))
            if len(handed) < 4:
                return
            piece, event = handed.pop(self.random.randrange(len(handed)))
        stream = self.random.choice(self.streams)
        stream.wait_event(event)
        piece.tensor.record_stream(stream)
        self.pieces.append(Piece(piece.tensor, piece.at, stream))

    # ---- graphs ----

    def copies(self, piece: Piece, stream: torch.cuda.Stream) -> Iterator[Piece]:
        """Copy on the captured stream, and sometimes on a stream forked from it."""
        n = piece.tensor.numel()
        between = self.empty(n)
        between.copy_(piece.tensor)
        side = self.random.choice(self.streams)
        if self.random.random() < 0.5:
            side.wait_stream(stream)
            with torch.cuda.stream(side):
                beside = self.empty(n)
                beside.copy_(between)
            if self.random.random() < 0.5:
                between.record_stream(side)
            stream.wait_stream(side)
            yield Piece(beside, piece.at, stream)
        last = self.empty(n)
        last.copy_(between)
        yield Piece(last, piece.at, stream)

    def capture(self) -> None:
        if len(self.graphs) == 4:
            self.graphs.pop(self.random.randrange(4))
            return
        read = [self.random.choice(self.pieces) for _ in range(2)]
        for piece in read:
            piece.stream.synchronize()
        pool = self.random.choice([None, *(graph.graph.pool() for graph in self.graphs)])
        made = Graph(torch.cuda.CUDAGraph(), read, [])
        stream = new_stream()
        with torch.cuda.stream(stream):
            made.graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                for piece in read:
                    made.written.extend(self.copies(piece, stream))
            finally:
                made.graph.capture_end()
        self.graphs.append(made)
        self.program.count("captures")

    def replay(self) -> None:
        if not self.graphs:
            return
        made, stream = self.random.choice(self.graphs), self.random.choice(self.streams)
        for other in self.streams:
            stream.wait_stream(other)
        with torch.cuda.stream(stream):
            made.graph.replay()
        for piece in made.written:
            self.compare(Piece(piece.tensor, piece.at, stream))
        self.program.count("replays")

    # ---- pools, and the rest ----

    def change_pools(self) -> None:
        if len(self.pools) == 3:
            self.pools.pop(0)
            return
        self.pools.append(torch.cuda.MemPool())
        with torch.cuda.use_mem_pool(self.pools[-1]):
            for _ in range(self.random.randrange(1, 6)):
                self.make()

    def change_streams(self) -> None:
        """Replace a stream whose work is over, though memory may still be known by its handle."""
        i = self.random.randrange(N_STREAMS)
        old, self.streams[i] = self.streams[i], new_stream()
        old.synchronize()
        for piece in self.pieces:
            piece.stream = self.streams[i] if piece.stream is old else piece.stream
        with self.program.lock:
            if self.program.can_destroy and all(
                piece.stream is not old for piece, _ in self.program.handed
            ):
                destroy(old)

    def record_history(self) -> None:
        torch.cuda.memory._record_memory_history(
            self.random.choice((None, "all")), max_entries=1000, stacks="python"
        )

    def do_something_else(self) -> None:
        self.random.choice(
            (
                torch.cuda.empty_cache,
                torch.cuda.memory_stats,
                torch.cuda.memory_snapshot,
                torch.cuda.synchronize,
                torch.cuda.reset_peak_memory_stats,
                gc.collect,
                self.change_streams,
                self.record_history,
            )
        )()


def play(program: Program, n_threads: int, steps: int) -> None:
    workers = [Worker(program, i, steps) for i in range(n_threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    program.handed.clear()


def left() -> dict[str, int]:
    """The statistics once every tensor is gone."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    statistics = torch.cuda.memory_stats()
    names = ("allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes", "allocation")
    values = {name: statistics[f"{name}.all.current"] for name in names}
    return {name: value for name, value in values.items() if value != 0}


def main() -> None:
    seed, steps, n_threads = (int(word) for word in sys.argv[1:4])
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    is_pleat = sys.argv[4] == "pleat"
    if is_pleat:
        import pleat.torch

        pleat.torch.install(binding="class")
    program = Program(seed, is_pleat)
    play(program, n_threads, steps)
    runtime.pleat_sim_hazards.restype = ctypes.c_size_t
    print(
        json.dumps(
            {
                "errors": program.errors,
                "left": left(),
                "hazards": runtime.pleat_sim_hazards(None, ctypes.c_size_t(0)),
                **program.done,
            }
        )
    )


main()
