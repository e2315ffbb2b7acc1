"""Train, generate, train: trainer and generator share a device that cannot hold both.

The trainer's memory sleeps while the generator works, and the other way round. Weights keep their
contents; the cache need not keep any.
"""

import pleat.torch
import torch

MIB = 1 << 20

pleat.torch.install()

with pleat.torch.tag("trainer"):
    weights = torch.arange(60 * MIB // 4, dtype=torch.int32).cuda()
    optimizer = torch.zeros(120 * MIB // 4, dtype=torch.int32, device="cuda")
at = weights.data_ptr()
slept = pleat.torch.sleep("trainer")
print(f"the trainer sleeps: {slept.bytes // MIB} MiB went back to the driver")

with pleat.torch.tag("kv"):
    cache = torch.zeros(200 * MIB, dtype=torch.uint8, device="cuda")

for step in range(3):
    # Generate: the cache is awake, the trainer sleeps.
    print(f"step {step}: {pleat.torch.memory_reserved() // MIB} MiB while it generates", end=", ")
    pleat.torch.sleep("kv", keep="discard")

    # Train: the other way round.
    pleat.torch.wake("trainer")
    print(f"{pleat.torch.memory_reserved() // MIB} MiB while it trains")
    optimizer.add_(1)
    pleat.torch.sleep("trainer")
    pleat.torch.wake("kv")

pleat.torch.sleep("kv", keep="discard")
pleat.torch.wake("trainer")
assert weights.data_ptr() == at
kept = torch.equal(weights.cpu(), torch.arange(60 * MIB // 4, dtype=torch.int32))
assert kept, "without a GPU contents exist only with pleat-runtime --contents"
print("the weights are where and what they were")
