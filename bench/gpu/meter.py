"""What a run took: by the allocator's own statistics and, beside them, by the driver's.

The driver's view is what the device holds more than when the context had just been made: the
allocator's memory, and what belongs to nobody's statistics, such as kernels loaded meanwhile. It is
sampled, so it may miss a peak; but none of the allocators gives memory back on its own."""
import torch

import allocators

FIGURES = {
    "peak_allocated_bytes": "allocated_bytes.all.peak",
    "peak_reserved_bytes": "reserved_bytes.all.peak",
    "alloc_retries": "num_alloc_retries",
    "ooms": "num_ooms",
}


class Meter:
    def __init__(self, device, allocator):
        self.has_gpu = device.type == "cuda"
        self.allocator = allocator
        self.total = self.base = self.most = 0
        if self.has_gpu:
            torch.cuda.synchronize()        # makes the context
            self.base = self.used()

    def used(self):
        free, self.total = torch.cuda.mem_get_info()
        return self.total - free

    def sample(self):
        if self.has_gpu:
            self.most = max(self.most, self.used())

    def synchronize(self):
        if self.has_gpu:
            torch.cuda.synchronize()

    def empty(self):
        if self.has_gpu:
            allocators.empty_cache(self.allocator)

    def figures(self):
        if not self.has_gpu:
            return {}
        told = allocators.statistics(self.allocator)
        return {name: told.get(key) for name, key in FIGURES.items()} | {
            "driver_base_bytes": self.base, "total_bytes": self.total,
            "driver_peak_bytes": max(self.most - self.base, 0)}
