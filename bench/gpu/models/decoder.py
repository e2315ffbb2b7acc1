"""A decoder-only transformer of GPT-2's kind."""
import dataclasses

import torch
from torch import nn
from torch.nn import functional


@dataclasses.dataclass(frozen=True)
class Shape:
    width: int
    layers: int
    heads: int
    vocabulary: int
    longest: int                # tokens of a sequence
    dropout: float = 0.0


class Attention(nn.Module):
    def __init__(self, shape, device):
        super().__init__()
        self.shape = shape
        self.query, self.key, self.value, self.out = (
            nn.Linear(shape.width, shape.width, device=device) for _ in range(4))

    def heads_of(self, x):
        n_rows, n_tokens, width = x.shape
        heads = self.shape.heads
        return x.view(n_rows, n_tokens, heads, width // heads).transpose(1, 2)

    def forward(self, x):
        mixed = functional.scaled_dot_product_attention(
            *(self.heads_of(part(x)) for part in (self.query, self.key, self.value)),
            is_causal=True, dropout_p=self.shape.dropout if self.training else 0.0)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class FeedForward(nn.Module):
    def __init__(self, shape, device):
        super().__init__()
        self.up = nn.Linear(shape.width, 4 * shape.width, device=device)
        self.down = nn.Linear(4 * shape.width, shape.width, device=device)

    def forward(self, x):
        return self.down(functional.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, shape, device):
        super().__init__()
        self.norm_in = nn.LayerNorm(shape.width, device=device)
        self.attention = Attention(shape, device)
        self.norm_mid = nn.LayerNorm(shape.width, device=device)
        self.feed_forward = FeedForward(shape, device)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm_in(x)))
        return x + self.dropout(self.feed_forward(self.norm_mid(x)))


class Decoder(nn.Module):
    """Tokens (rows, n) in, the mean loss of predicting each next token out."""

    def __init__(self, shape, device):
        super().__init__()
        self.embed = nn.Embedding(shape.vocabulary, shape.width, device=device)
        self.places = nn.Embedding(shape.longest, shape.width, device=device)
        self.blocks = nn.ModuleList(Block(shape, device) for _ in range(shape.layers))
        self.norm_out = nn.LayerNorm(shape.width, device=device)
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1] - 1, device=tokens.device)
        x = self.embed(tokens[:, :-1]) + self.places(places)
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm_out(x), self.embed.weight)
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
