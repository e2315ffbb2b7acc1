"""A mixture of experts: each token goes to two of them, none is dropped.

The host draws each token's experts anew for each step, skewed like trained routers; the gate's
weights are computed and learned. So the sizes are those of a real mixture, uneven and always
different, but equal under every allocator and on a device that computes nothing."""
import torch
from torch import nn
from torch.nn import functional

CHOSEN = 2
SKEW = 0.8


class Expert(nn.Module):
    def __init__(self, width, hidden, device):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False, device=device)
        self.up = nn.Linear(width, hidden, bias=False, device=device)
        self.down = nn.Linear(hidden, width, bias=False, device=device)

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    def __init__(self, width, hidden, n_experts, device):
        super().__init__()
        self.router = nn.Linear(width, n_experts, bias=False, device=device)
        self.experts = nn.ModuleList(Expert(width, hidden, device) for _ in range(n_experts))

    def choose(self, n_tokens):
        """(tokens in the order of their experts, the number of tokens of each expert), on the host.
        Each token appears CHOSEN times; sometimes both go to one expert, which works just as
        well."""
        n_places = n_tokens * CHOSEN
        shares = (torch.randn(len(self.experts)) * SKEW).softmax(dim=0)
        ends = (shares.cumsum(dim=0) * n_places).round().long().tolist()
        ends[-1] = n_places
        counts = [end - begin for begin, end in zip([0, *ends], ends)]
        return torch.randperm(n_places) // CHOSEN, counts

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights = self.router(flat).softmax(dim=-1)
        order, counts = self.choose(flat.shape[0])
        order = order.to(flat.device)
        parts = []
        for i, tokens in enumerate(order.split(counts)):
            if counts[i] > 0:
                weight = weights[:, i].index_select(0, tokens).unsqueeze(1)
                parts.append(self.experts[i](flat.index_select(0, tokens)) * weight)
        mixed = torch.cat(parts).to(flat.dtype)
        return torch.zeros_like(flat).index_add(0, order, mixed).view(x.shape)
