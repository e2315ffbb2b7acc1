"""PyTorch above a chosen allocator."""
import os
import sys
import time

SETTINGS = {"native": "", "expandable": "expandable_segments:True"}
NAMES = ("pleat", *SETTINGS)


def is_simulated():
    return "libpleat_runtime.so" in os.environ.get("LD_PRELOAD", "")


def begin(allocator="pleat", *options):
    """torch, before any use of CUDA. A user's own settings of PyTorch's allocator are removed. If
    the binding of PLEAT_TORCH_BINDING fails, there is no result, since no other binding replaces
    it."""
    for variable in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        os.environ.pop(variable, None)
    if allocator == "pleat":
        import pleat.torch
        pleat.torch.install(",".join(options) or None,
                            binding=os.environ.get("PLEAT_TORCH_BINDING", "class"))
    elif SETTINGS[allocator]:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = SETTINGS[allocator]
    import torch
    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    torch.cuda.init()
    return torch


def binding():
    import pleat.torch
    return pleat.torch.binding()


def timed(call):
    """{"seconds", "said"}: a call's answer, or its error's first line."""
    begun = time.monotonic()
    try:
        said = call()
        said = "ok" if said is None else said
    except Exception as error:      # any error is an answer
        said = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:300]
    return {"seconds": round(time.monotonic() - begun, 4), "said": said}
