"""Leave at once, and say so on the last line, where PyTorch or its GPU is missing: such a cell
cannot run here, which is another thing than that it failed."""
import importlib.util
import json
import sys


def leave(why):
    print(json.dumps({"problem": why, "cannot_run": True}))
    sys.exit(1)


def need_pytorch():
    """Without importing it: that comes after the allocator was chosen."""
    if importlib.util.find_spec("torch") is None:
        leave("there is no PyTorch")


def need_gpu(torch):
    if not torch.cuda.is_available():
        leave("PyTorch sees no GPU")
