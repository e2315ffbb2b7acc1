"""CuPy's arrays from pleat, on two streams.

    python cupy_arrays.py
"""

import cupy
import pleat
import pleat.cupy

pleat.cupy.install()

# An array's memory belongs to the current stream at its creation. The stream reuses it at once.
streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
sums = []
for i in range(10):
    with streams[i % 2]:
        x = cupy.arange(1_000_000 * (i + 1), dtype=cupy.float32)
        sums.append((x * 2).sum())
for stream in streams:
    stream.synchronize()
print("sums:", [float(s) for s in sums])

stats = pleat.memory_stats(cupy.cuda.get_device_id())
print("allocated", stats["allocated_bytes.all.current"], "bytes,",
      "at most", stats["allocated_bytes.all.peak"])  # fmt: skip

pleat.cupy.uninstall()  # back to CuPy's pool; live arrays stay with pleat
