"""Numba's device arrays from pleat.

    python numba_arrays.py

NUMBA_CUDA_MEMORY_MANAGER=pleat.numba does the same for an unchanged script.
"""

import numpy as np
import pleat
import pleat.numba
import pleat.streams
from numba import cuda

cuda.set_memory_manager(pleat.numba.PleatMemoryManager)  # before the first use of CUDA

numbers = np.arange(1_000_000, dtype=np.float32)
on_device = cuda.to_device(numbers)
print("came back unchanged:", bool((on_device.copy_to_host() == numbers).all()))

# Numba names no stream when it allocates. Tell pleat the stream that this thread works on.
stream = cuda.stream()
with pleat.streams.use_stream(int(stream.handle)):
    for _ in range(10):
        temporary = cuda.to_device(numbers, stream=stream)  # reuses one piece of memory
        del temporary
    stream.synchronize()

stats = pleat.memory_stats()
print("allocated", stats["allocated_bytes.all.current"], "bytes,",
      "at most", stats["allocated_bytes.all.peak"])  # fmt: skip
