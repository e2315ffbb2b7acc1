"""The memory and time of a run, by the allocator's statistics and by the driver's.

The driver's view is the increase of the device's used memory since the context was made: the
allocator's memory, and memory in no statistics, such as loaded kernels. It is sampled and may miss
a peak, but none of the allocators gives memory back on its own. A sample can take some milliseconds
(cuMemGetInfo of some drivers), so none is taken while a clock runs."""
import ctypes

import torch

import allocators

FIGURES = {
    "peak_allocated_bytes": "allocated_bytes.all.peak",
    "peak_reserved_bytes": "reserved_bytes.all.peak",
    "alloc_retries": "num_alloc_retries",
    "ooms": "num_ooms",
    "host_syncs": "num_sync_all_streams",
}
DEVICE_OPERATIONS = ("num_device_alloc", "num_device_free")
OWN_FIGURES = ("n_taken_granules", "ops_unmap")     # figures without a name in PyTorch's statistics


class Meter:
    def __init__(self, device, allocator, simulator=None):
        self.has_gpu = device.type == "cuda"
        self.allocator = allocator
        self.simulator = ctypes.CDLL(simulator) if simulator else None
        if self.simulator:
            self.simulator.pleat_sim_cost_us.restype = ctypes.c_double
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

    def driver_us(self):
        """Time of all driver calls so far: modelled on the simulator; else pleat's measurement, or
        None."""
        if self.simulator:
            return self.simulator.pleat_sim_cost_us()
        told = allocators.own_statistics(self.allocator) if self.has_gpu else {}
        return told["driver_ns"] / 1000 if told else None

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
        own = allocators.own_statistics(self.allocator)
        named = {name: told.get(key) for name, key in FIGURES.items()}
        return named | {key: own.get(key) for key in OWN_FIGURES} | {
            "device_ops": sum(told.get(key, 0) for key in DEVICE_OPERATIONS),
            "driver_base_bytes": self.base, "total_bytes": self.total,
            "driver_peak_bytes": max(self.most - self.base, 0)}
