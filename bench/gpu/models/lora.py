"""Low-rank adapters on the attention of a frozen decoder."""
import math

import torch
from torch import nn

from models.decoder import Attention


class LowRank(nn.Module):
    """y = base(x) + up(down(x)): `base` is frozen, up starts at zero."""

    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        device = base.weight.device
        self.down = nn.Linear(base.in_features, rank, bias=False, device=device)
        self.up = nn.Linear(rank, base.out_features, bias=False, device=device)
        nn.init.kaiming_uniform_(self.down.weight, a=math.sqrt(5))
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def adapt(model, rank):
    """Freeze `model` in bfloat16 and train adapters on its four attention projections."""
    model.to(torch.bfloat16)
    model.requires_grad_(False)
    for module in list(model.modules()):
        if isinstance(module, Attention):
            for name in ("query", "key", "value", "out"):
                setattr(module, name, LowRank(getattr(module, name), rank))
    return model
