"""A sequence of requests, of PyTorch or of pleat's C interface (argument 1: torch or pleat). Prints
the place of each block in the segment, and the allocator's requests to the driver.

Arguments: who, streams, requests, seed. Blocks of any age are freed, some after a use on another
stream. The device is smaller than the sum of the requests."""

import ctypes
import os
import random
import sys
from typing import Any, Protocol

import child
import torch

MIB = 1 << 20
# Without cuMemUnmap: PyTorch unmaps chunk by chunk, pleat a whole run of chunks at once.
CALLS = {
    "cuMemAlloc": "bytes",
    "cuMemFree": "",
    "cuMemCreate": "bytes",
    "cuMemMap": "bytes",
    "cuMemRelease": "",
}


class Who(Protocol):
    """An allocator, with blocks of a type of its own."""

    def malloc(self, n: int, stream: torch.cuda.Stream) -> Any: ...
    def address(self, block: Any) -> int: ...
    def record(self, block: Any, stream: torch.cuda.Stream) -> None: ...
    def free(self, block: Any) -> None: ...
    def reset(self) -> None: ...


class Torch:
    """PyTorch: a block is a tensor of bytes."""

    def malloc(self, n: int, stream: torch.cuda.Stream) -> torch.Tensor | None:
        with torch.cuda.stream(stream):
            try:
                return torch.empty(n, dtype=torch.uint8, device="cuda")
            except torch.cuda.OutOfMemoryError:
                return None

    def address(self, block: torch.Tensor) -> int:
        return block.data_ptr()

    def record(self, block: torch.Tensor, stream: torch.cuda.Stream) -> None:
        block.record_stream(stream)

    def free(self, block: torch.Tensor) -> None:
        pass  # the caller drops the last reference

    def reset(self) -> None:
        torch.cuda.empty_cache()


class Pleat:
    """pleat: a block consists of address, size and stream."""

    def __init__(self) -> None:
        self.lib = child.library()
        self.lib.pleat_torch_malloc.restype = ctypes.c_void_p
        self.lib.pleat_torch_malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        self.lib.pleat_torch_free.argtypes = [ctypes.c_void_p, *self.lib.pleat_torch_malloc.argtypes]
        self.lib.pleat_torch_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.lib.pleat_torch_init(1)

    def malloc(self, n: int, stream: torch.cuda.Stream) -> tuple[int, int, int] | None:
        at = self.lib.pleat_torch_malloc(n, 0, stream.cuda_stream)
        return (int(at), n, int(stream.cuda_stream)) if at else None

    def address(self, block: tuple[int, int, int]) -> int:
        return block[0]

    def record(self, block: tuple[int, int, int], stream: torch.cuda.Stream) -> None:
        self.lib.pleat_torch_record_stream(block[0], stream.cuda_stream)

    def free(self, block: tuple[int, int, int]) -> None:
        self.lib.pleat_torch_free(block[0], block[1], 0, block[2])

    def reset(self) -> None:
        self.lib.pleat_torch_reset()


def work(address: int, n: int, stream: torch.cuda.Stream) -> None:
    memset = ctypes.CDLL(os.environ["LD_PRELOAD"]).cudaMemsetAsync
    memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p]
    assert memset(address, 0, n, stream.cuda_stream) == 0


def place(address: int) -> int:
    """The offset of the address in its segment, or in the chunk of a growing segment."""
    base, extent = ctypes.c_uint64(), ctypes.c_uint64()
    found = child.simulator.cuMemGetAddressRange_v2(
        ctypes.byref(base), ctypes.byref(extent), ctypes.c_uint64(address)
    )
    assert found == 0 and address - base.value < extent.value
    return address - base.value


def size() -> int:
    most = random.choice([1 << 12, MIB, 60 * MIB])
    return random.randrange(1, most)


def warm(who: Who) -> int:
    """Let PyTorch and the allocator query the device's features, and return the number of calls."""
    torch.cuda.init()
    torch.cuda.synchronize()
    block = who.malloc(1, torch.cuda.default_stream())
    who.free(block)
    del block
    who.reset()
    return len(child.call_log())


def play(who: Who, n_streams: int, n_requests: int) -> list[int | None]:
    streams = [torch.cuda.default_stream()]
    streams += [torch.cuda.Stream() for _ in range(n_streams - 1)]
    live: list[Any] = []
    places: list[int | None] = []
    for i in range(n_requests):
        if live and random.random() < 0.49:
            block = live.pop(random.randrange(len(live)))
            other = random.choice(streams)
            if n_streams > 1 and random.random() < 0.2:
                work(who.address(block), 1, other)
                who.record(block, other)
            who.free(block)
            del block
        else:
            n, stream = size(), random.choice(streams)
            block = who.malloc(n, stream)
            places.append(None if block is None else place(who.address(block)))
            if block is not None:
                work(who.address(block), n, stream)
                live.append(block)
            del block
        if i % 1000 == 999:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    while live:
        who.free(live.pop())
    who.reset()
    return places


random.seed(int(sys.argv[4]))
allocator: Who = Torch() if sys.argv[1] == "torch" else Pleat()
n_before = warm(allocator)
found = play(allocator, int(sys.argv[2]), int(sys.argv[3]))
print("refused", found.count(None))
for where in found:
    print("at", where)
for line in child.call_log()[n_before:]:
    if line["call"] in CALLS:
        print(line["call"], line.get(CALLS[str(line["call"])], ""), line["result"])
