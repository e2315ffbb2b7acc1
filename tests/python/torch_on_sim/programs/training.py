"""A few steps of training: a small decoder, or GPT-2 medium with the argument "medium". Kernels
compute nothing, so every loss is 0, but every allocation is real. Prints figures as JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
import time

import child
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


@dataclasses.dataclass(frozen=True)
class Size:
    layers: int
    width: int
    heads: int
    vocabulary: int
    length: int
    batch: int


SIZES = {
    "small": Size(4, 256, 4, 8192, 256, 8),
    "medium": Size(24, 1024, 16, 50257, 1024, 8),
}


class Block(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.norm_1 = nn.LayerNorm(size.width)
        self.norm_2 = nn.LayerNorm(size.width)
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.out = nn.Linear(size.width, size.width)
        self.up = nn.Linear(size.width, 4 * size.width)
        self.down = nn.Linear(4 * size.width, size.width)
        self.drop = nn.Dropout(0.1)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.drop(self.attend(self.norm_1(x)))
        hidden = functional.gelu(self.up(self.norm_2(x)), approximate="tanh")
        return x + self.drop(self.down(hidden))


class Decoder(nn.Module):
    def __init__(self, size: Size, checkpointed: bool) -> None:
        super().__init__()
        self.checkpointed = checkpointed
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.places = nn.Embedding(size.length, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def train(size: Size, options: set[str]) -> list[float]:
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = Decoder(size, "checkpoint" in options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused="fused" in options)
    seconds = []
    for step in range(6):
        start = time.monotonic()
        length = size.length - (step * 37 % 100 if "variable" in options else 0)
        tokens = torch.randint(0, size.vocabulary, (size.batch, length)).pin_memory()
        tokens = tokens.to("cuda", non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled="bf16" in options):
            loss = model(tokens, tokens)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        assert loss.item() == 0.0
        seconds.append(time.monotonic() - start)
    return seconds


def main() -> None:
    seconds = train(SIZES[sys.argv[1]], set(sys.argv[2:]))
    peak = child.counts().peak_physical_bytes
    figures = {"step_seconds": min(seconds), "peak_physical": peak}
    if child.ALLOCATOR != "pleat":
        figures["peak_allocated"] = torch.cuda.max_memory_allocated()
        figures["peak_reserved"] = torch.cuda.max_memory_reserved()
    child.give_back()
    figures["left"] = child.physical_bytes()
    figures["hazards"] = child.counts().hazards
    print(json.dumps(figures))


main()
