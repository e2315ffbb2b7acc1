"""What PyTorch's memory is managed by in each run, and what that says of itself."""
import os

SETTINGS = {
    "native": "",
    "expandable": "expandable_segments:True",
    "async": "backend:cudaMallocAsync",
}
PLEAT = {
    "pleat": None,
    "pleat-frugal": "growth:frugal",
    "pleat-8m": "chunk_granules:4",     # where a driver is slow with many small handles
}
NAMES = (*SETTINGS, *PLEAT)
COMPARED = (*SETTINGS, "pleat")         # what must hold is about these
USUAL = (*COMPARED, "pleat-frugal")


def choose(name):
    """Before anything uses CUDA. A user's own settings of PyTorch's allocator are put aside."""
    for variable in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        os.environ.pop(variable, None)
    if name in PLEAT:
        import pleat.torch
        pleat.torch.install(PLEAT[name])
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


def empty_cache(name):
    if name in PLEAT:
        import pleat.torch
        pleat.torch.empty_cache()
    else:
        import torch
        torch.cuda.empty_cache()


def is_out_of_memory(error):
    return isinstance(error, RuntimeError) and "out of memory" in str(error).lower()
