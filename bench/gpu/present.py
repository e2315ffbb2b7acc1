"""Exit at once, with a message on the last line, if PyTorch or its GPU is missing: such a cell
cannot run here, which differs from a failure."""
import importlib.util
import json
import sys


def leave(why):
    print(json.dumps({"problem": why, "cannot_run": True}))
    sys.exit(1)


def need_pytorch():
    """Without importing it: the import comes after the choice of the allocator."""
    if importlib.util.find_spec("torch") is None:
        leave("there is no PyTorch")


def need_gpu(torch):
    if not torch.cuda.is_available():
        leave("PyTorch sees no GPU")
