"""RMM's buffers from pleat, and with them the buffers of cuDF, cuML and others.

    python rmm_buffers.py
"""

import pleat
import pleat.rmm
import rmm

# RMM's adaptors stack on pleat's resource as on any other. Without adaptors: pleat.rmm.install().
counted = rmm.mr.StatisticsResourceAdaptor(pleat.rmm.resource())
rmm.mr.set_current_device_resource(counted)

stream = rmm.pylibrmm.stream.Stream()
buffers = [rmm.DeviceBuffer(size=size, stream=stream) for size in (1000, 1 << 20, 10 << 20)]
print("RMM counts", counted.allocation_counts.current_bytes, "bytes,",
      "pleat", pleat.memory_stats()["requested_bytes.all.current"])  # fmt: skip
del buffers
