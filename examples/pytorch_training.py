"""Train a small model on batches of varying length, all of its memory from pleat.

    python pytorch_training.py

An unchanged script runs under pleat with `python -m pleat.torch script.py` instead.
"""

import pleat.torch

pleat.torch.install()  # before the first use of CUDA

import torch  # noqa: E402

model = torch.nn.Sequential(
    torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)
).cuda()
optimizer = torch.optim.AdamW(model.parameters())

for step in range(20):
    length = 100 + 37 * step % 400  # a new shape at each step, which splits a classic cache
    x = torch.randn(length, 256, device="cuda")
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

# torch's own functions report pleat's numbers.
mib = 1 << 20
print(f"allocated {torch.cuda.memory_allocated() / mib:.1f} MiB,", end=" ")
print(f"at most {torch.cuda.max_memory_allocated() / mib:.1f},", end=" ")
print(f"reserved at most {torch.cuda.max_memory_reserved() / mib:.1f}")
