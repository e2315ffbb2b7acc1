"""The real Numba, its arrays on the simulated device, under pleat's memory manager."""

# needs: torch

from __future__ import annotations

import importlib.util

import pytest
from conftest import RUNTIME, Run

pytestmark = [
    pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built"),
    pytest.mark.skipif(not importlib.util.find_spec("numba_cuda"), reason="no numba-cuda"),
]

BEGIN = """
import gc, threading
import numpy as np
from numba import cuda
import pleat, pleat.streams

def live():
    return pleat.memory_stats()["requested_bytes.all.current"]

numbers = np.arange(1000, dtype=np.float32)
"""

END = """
gc.collect()
assert live() == 0, live()
assert pleat.check_invariants() == 0
"""


@pytest.fixture
def run_numba(run: Run) -> Run:
    """run_numba(CODE) on one device of 1 GiB whose memory has contents; all arrays must be gone at
    the end."""

    def run_code(code: str, **extra: str) -> object:
        variables = {
            "LD_PRELOAD": str(RUNTIME),
            "PLEAT_SIM": "capacity:1G,backing:memory",
            "PLEAT_CONF": "driver:sim",
            "NUMBA_CUDA_MEMORY_MANAGER": "pleat.numba",
            "CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING": "1",
        }
        return run(BEGIN + code + END, **{**variables, **extra})

    return run_code  # type: ignore[return-value]


def test_arrays_are_pleats_blocks_and_keep_their_contents(run_numba: Run) -> None:
    run_numba(
        """
a = cuda.to_device(numbers)
assert live() == 4000
b = cuda.device_array_like(a)
b.copy_to_device(a)
assert live() == 8000
assert (b.copy_to_host() == numbers).all()
assert type(cuda.current_context().memory_manager).__name__ == "PleatMemoryManager"
del a
gc.collect()
assert live() == 4000
assert (b.copy_to_host() == numbers).all()
del b
"""
    )


def test_a_primary_context_that_others_retained_serves(run_numba: Run) -> None:
    run_numba(
        """
from numba.cuda.cudadrv import driver
made = driver.driver
device = driver.binding.CUdevice(0)
handle = made.cuDevicePrimaryCtxRetain(device)
context = driver.Context(device, handle)
context.push()
info = context.get_memory_info()
assert 0 < info.free <= info.total == 1 << 30
assert int(cuda.current_context().handle) == int(context.handle)
a = cuda.to_device(numbers)
assert live() == 4000 and (a.copy_to_host() == numbers).all()
del a
context.memory_manager.reset()
context.pop()
made.cuDevicePrimaryCtxRelease(device)
"""
    )


def test_the_manager_can_be_set_in_the_program_instead(run_numba: Run) -> None:
    run_numba(
        """
import pleat.numba
cuda.set_memory_manager(pleat.numba.PleatMemoryManager)
a = cuda.to_device(numbers)
assert live() == 4000
del a
""",
        NUMBA_CUDA_MEMORY_MANAGER="default",
    )


def test_arrays_of_a_stream_belong_to_the_stream_that_is_set(run_numba: Run) -> None:
    run_numba(
        """
stream = cuda.stream()
with pleat.streams.use_stream(int(stream.handle)):
    assert pleat.streams.current_stream() == int(stream.handle)
    a = cuda.to_device(numbers, stream=stream)
    back = a.copy_to_host(stream=stream)
    stream.synchronize()
    assert (back == numbers).all()
    at = a.device_ctypes_pointer.value
    del a
    gc.collect()
    b = cuda.device_array(1000, np.float32)   # on the same stream: the same memory, at once
    assert b.device_ctypes_pointer.value == at
    del b
    gc.collect()
assert pleat.streams.current_stream() == 0
"""
    )


def test_out_of_memory_says_why_and_leaves_everything_as_it_was(run_numba: Run) -> None:
    run_numba(
        """
a = cuda.to_device(numbers)
try:
    cuda.device_array(1 << 31, np.uint8)
except MemoryError as error:
    assert "2.00 GiB" in str(error) and "total 1.00 GiB" in str(error), error
else:
    raise AssertionError("2 GiB on a device of 1 GiB")
assert live() == 4000
assert (a.copy_to_host() == numbers).all()
free, total = cuda.current_context().get_memory_info()
assert total == 1 << 30 and 0 < free < total
del a
"""
    )


def test_an_ipc_handle_is_refused_with_a_reason(run_numba: Run) -> None:
    run_numba(
        """
a = cuda.to_device(numbers)
try:
    a.get_ipc_handle()
except NotImplementedError as error:
    assert "cuIpcGetMemHandle" in str(error)
else:
    raise AssertionError("a handle of memory that has none")
del a
"""
    )


def test_a_reset_of_the_context_gives_free_memory_back(run_numba: Run) -> None:
    run_numba(
        """
cuda.device_array(30 << 20, np.uint8)
gc.collect()
assert pleat.memory_stats()["reserved_bytes.all.current"] >= 30 << 20
cuda.current_context().reset()
assert pleat.memory_stats()["reserved_bytes.all.current"] == 0
"""
    )


def test_a_reset_of_the_context_leaves_what_work_still_uses(run_numba: Run) -> None:
    run_numba(
        """
stream = cuda.stream()
with pleat.streams.use_stream(int(stream.handle)):
    a = cuda.device_array(30 << 20, np.uint8)
    b = cuda.device_array(30 << 20, np.uint8)
    a.copy_to_device(b, stream=stream)
    del a, b
    gc.collect()
cuda.current_context().reset()
assert pleat.memory_stats()["reserved_bytes.all.current"] >= 60 << 20
""",
        PLEAT_SIM="capacity:1G,depth:1048576,waits:refuse",
        PLEAT_CONF="driver:sim,wait_ms:20",
    )


def test_arrays_of_several_threads_and_devices(run_numba: Run) -> None:
    run_numba(
        """
for gpu in cuda.gpus:           # Numba starts CUDA at its first use, without a lock
    with gpu:
        pass
wrong = []
def work(number):
    with cuda.gpus[number % 2]:
        for i in range(50):
            a = cuda.to_device(numbers + number)
            if not (a.copy_to_host() == numbers + number).all():
                wrong.append((number, i))
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not wrong, wrong
for device in range(2):
    stats = pleat.memory_stats(device)
    assert stats["allocation.all.allocated"] == 100, stats["allocation.all.allocated"]
""",
        PLEAT_SIM="capacity:1G,devices:2,backing:memory",
    )
