"""Who strands memory: the holders of a moment by call site.

A site is the frame of a stack that its reader can change: the innermost one in Python that is not
PyTorch's own; where there is none, the innermost that is not the allocator's machinery."""
import dataclasses
import re

OF_PYTORCH = re.compile(r"(^|/)torch/|(^|/)site-packages/torch")
MACHINERY = re.compile(r"torch::unwind|CapturedTraceback|gather_with_cpp|CachingAllocator|"
                       r"empty_generic|empty_cuda|empty_strided|StorageImpl|create_out|"
                       r"pleat_block_alloc|pl_seg|TensorBase at::detail")


@dataclasses.dataclass
class Site:
    """Blocks that were allocated at one place."""
    name: str
    stack: str = ""  # of the stack that answers for most of it
    charged_bytes: int = 0
    live_bytes: int = 0
    n_blocks: int = 0
    most: int = -1


def frame_of(stack):
    """The frame that names a stack."""
    frames = stack.split("\n")
    python = [f for f in frames if ".py:" in f]
    own = [f for f in python if not OF_PYTORCH.search(f.split(":")[0])]
    others = [f for f in frames if not MACHINERY.search(f)]
    return (own or python or others or frames)[0]


def read_first(stack):
    """The frames that its reader reads first, and whether others are left out: those in Python, or,
    where there are none, all below the allocator's machinery."""
    frames = stack.split("\n")
    python = [f for f in frames if ".py:" in f]
    below = next((i for i, f in enumerate(frames) if not MACHINERY.search(f)), 0)
    first = python or frames[below:]
    return "\n".join(first), len(first) < len(frames)


def name_of(holder, stacks):
    if holder["is_pending"]:
        return "freed, other work still uses them"
    if holder["stack"] is not None:
        return frame_of(stacks[str(holder["stack"])])
    size = holder["bytes"]
    unit = next(((u, n) for u, n in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
                 if size >= u), (1, "B"))
    stream = f", stream {holder['stream']}" if holder["stream"] >= 0 else ""
    return f"blocks of {size / unit[0]:.6g} {unit[1]}{stream}"


def ranked(moment):
    """The sites of a moment, those that strand most first."""
    sites = {}
    for holder in moment["holders"]:
        name = name_of(holder, moment["stacks"])
        site = sites.setdefault(name, Site(name))
        site.charged_bytes += holder["charged_bytes"]
        site.live_bytes += holder["live_bytes"]
        site.n_blocks += holder["n_blocks"]
        if holder["charged_bytes"] > site.most:
            site.most = holder["charged_bytes"]
            site.stack = moment["stacks"].get(str(holder["stack"]), "")
    return sorted(sites.values(), key=lambda s: (-s.charged_bytes, -s.live_bytes, s.name))
