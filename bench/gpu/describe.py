#!/usr/bin/env python3
"""Say which PyTorch runs here and whether it can use the GPU, as one JSON object."""
import json
import sys
import time

import present

BEGIN = time.monotonic()


def main():
    present.need_pytorch()
    import torch
    imported = time.monotonic() - BEGIN
    present.need_gpu(torch)
    free, total = torch.cuda.mem_get_info()
    x = torch.ones(256, 256, device="cuda", dtype=torch.bfloat16)
    (x @ x).sum()
    torch.cuda.synchronize()
    major, minor = torch.cuda.get_device_capability()
    parts = [f"torch {torch.__version__}", f"CUDA {torch.version.cuda}",
             f"{torch.cuda.get_device_name()}, compute {major}.{minor}",
             f"{free >> 20} MiB free", f"imported in {imported:.1f} s",
             f"first product after {time.monotonic() - BEGIN:.1f} s"]
    print(json.dumps({"detail": "; ".join(parts), "total_bytes": total}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
