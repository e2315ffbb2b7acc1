"""What PyTorch's memory is managed by in each run, and what that says of itself."""
import os

SETTINGS = {
    "native": "",
    "expandable": "expandable_segments:True",
    "async": "backend:cudaMallocAsync",
}
PLEAT = {
    "pleat": "",
    "pleat-8m": "chunk_granules:4",     # where a driver is slow with many small handles
    "pleat-32m": "chunk_granules:16",
    "pleat-frugal": "growth:frugal",
}
NAMES = (*SETTINGS, *PLEAT)
COMPARED = (*SETTINGS, "pleat")         # what must hold is about these
FIRST = ("native", "expandable", "pleat", "pleat-8m", "pleat-32m")  # what is wanted soonest
KEEPING = ("expandable", *PLEAT)        # made of chunks that fit any later request


def choose(name, *options):
    """Before anything uses CUDA. A user's own settings of PyTorch's allocator are put aside. The
    options are further ones of pleat's; it measures the time of its driver calls, two readings of
    a clock each."""
    for variable in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        os.environ.pop(variable, None)
    if name in PLEAT:
        import pleat.torch
        pleat.torch.install(",".join(filter(None, (PLEAT[name], "time_calls:True", *options))))
    elif SETTINGS[name]:
        # PyTorch reads this name in every version, the newer name from 2.9 on only.
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = SETTINGS[name]


def statistics(name):
    """The keys of torch.cuda.memory_stats, by whoever manages the memory."""
    if name in PLEAT:
        import pleat.torch
        return pleat.torch.memory_stats()
    import torch
    return torch.cuda.memory_stats()


def own_statistics(name):
    """What pleat tells beyond torch.cuda.memory_stats; nothing under the others."""
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
    """May what one try has cached stay for the next? Chunks are moved to wherever they are needed;
    blocks of a fixed size would shape the next try, which must be as if it were the first."""
    return name in KEEPING


def is_out_of_memory(error):
    return isinstance(error, RuntimeError) and "out of memory" in str(error).lower()
