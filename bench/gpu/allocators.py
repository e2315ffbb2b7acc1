"""What manages PyTorch's memory in each run, and its statistics."""
import os

SETTINGS = {
    "native": "",
    "expandable": "expandable_segments:True",
    "async": "backend:cudaMallocAsync",
}
PLEAT = {
    "pleat": "",
    "pleat-8m": "chunk_granules:4",     # for drivers that are slow with many small handles
    "pleat-32m": "chunk_granules:16",
    "pleat-frugal": "growth:frugal",
}
NAMES = (*SETTINGS, *PLEAT)
COMPARED = (*SETTINGS, "pleat")         # the allocators that acceptance compares
FIRST = ("native", "expandable", "pleat", "pleat-8m", "pleat-32m")  # the most wanted results
KEEPING = ("expandable", *PLEAT)        # their chunks fit any later request


def choose(name, *options):
    """Call before anything uses CUDA. A user's own settings of PyTorch's allocator are put aside.
    `options` are further options of pleat. pleat measures the time of its driver calls, which costs
    two readings of a clock each."""
    for variable in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        os.environ.pop(variable, None)
    if name in PLEAT:
        import pleat.torch
        pleat.torch.install(",".join(filter(None, (PLEAT[name], "time_calls:True", *options))))
    elif SETTINGS[name]:
        # PyTorch reads this name in every version, the newer name only from 2.9 on.
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = SETTINGS[name]


def statistics(name):
    """The keys of torch.cuda.memory_stats, from whatever manages the memory."""
    if name in PLEAT:
        import pleat.torch
        return pleat.torch.memory_stats()
    import torch
    return torch.cuda.memory_stats()


def own_statistics(name):
    """What pleat tells beyond torch.cuda.memory_stats; empty under the others."""
    if name not in PLEAT:
        return {}
    import pleat
    return pleat.device_stats()


def empty_cache(name):
    if name in PLEAT:
        import pleat.torch
        pleat.torch.empty_cache()
    else:
        import torch
        torch.cuda.empty_cache()


def keeps_between_tries(name):
    """May the memory that one try has cached stay for the next? Chunks can be moved to where they
    are needed; blocks of a fixed size would influence the next try, which must run as if it were
    the first."""
    return name in KEEPING


def is_out_of_memory(error):
    return isinstance(error, RuntimeError) and "out of memory" in str(error).lower()
