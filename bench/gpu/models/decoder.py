"""A decoder-only transformer: GPT-2's kind of block, or Llama's."""
import dataclasses

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


@dataclasses.dataclass(frozen=True)
class Shape:
    width: int
    layers: int
    heads: int
    kv_heads: int               # fewer than heads: each serves several of them
    hidden: int                 # of the feed-forward
    vocabulary: int
    longest: int                # tokens of a sequence
    is_llama: bool              # rotary positions, RMSNorm, SwiGLU, no biases
    dropout: float = 0.0
    is_checkpointed: bool = False


def norm(shape, device):
    kind = nn.RMSNorm if shape.is_llama else nn.LayerNorm
    return kind(shape.width, device=device)


def rotate(x, cosines, sines):
    """Rotary positions: halves of each head turn by an angle that grows with the position."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)


def angles(shape, n_tokens, device):
    half = shape.width // shape.heads // 2
    rates = 10000.0 ** (-torch.arange(half, device=device, dtype=torch.float32) / half)
    turns = torch.outer(torch.arange(n_tokens, device=device, dtype=torch.float32), rates)
    return turns.cos(), turns.sin()


class Attention(nn.Module):
    def __init__(self, shape, device):
        super().__init__()
        self.shape = shape
        head = shape.width // shape.heads
        has_bias = not shape.is_llama
        self.query = nn.Linear(shape.width, shape.width, bias=has_bias, device=device)
        self.key = nn.Linear(shape.width, shape.kv_heads * head, bias=has_bias, device=device)
        self.value = nn.Linear(shape.width, shape.kv_heads * head, bias=has_bias, device=device)
        self.out = nn.Linear(shape.width, shape.width, bias=has_bias, device=device)

    def heads_of(self, x, n_heads):
        n_rows, n_tokens, width = x.shape
        return x.view(n_rows, n_tokens, n_heads, width // n_heads).transpose(1, 2)

    def forward(self, x, turns):
        shape = self.shape
        query = self.heads_of(self.query(x), shape.heads)
        key = self.heads_of(self.key(x), shape.kv_heads)
        value = self.heads_of(self.value(x), shape.kv_heads)
        if turns is not None:
            cosines, sines = (part.to(query.dtype) for part in turns)
            query, key = rotate(query, cosines, sines), rotate(key, cosines, sines)
        if shape.kv_heads != shape.heads:
            key = key.repeat_interleave(shape.heads // shape.kv_heads, dim=1)
            value = value.repeat_interleave(shape.heads // shape.kv_heads, dim=1)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True,
            dropout_p=shape.dropout if self.training else 0.0)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class FeedForward(nn.Module):
    def __init__(self, shape, device):
        super().__init__()
        self.is_gated = shape.is_llama
        has_bias = not shape.is_llama
        self.up = nn.Linear(shape.width, shape.hidden, bias=has_bias, device=device)
        self.down = nn.Linear(shape.hidden, shape.width, bias=has_bias, device=device)
        if self.is_gated:
            self.gate = nn.Linear(shape.width, shape.hidden, bias=False, device=device)

    def forward(self, x):
        if self.is_gated:
            return self.down(functional.silu(self.gate(x)) * self.up(x))
        return self.down(functional.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, shape, feed_forward, device):
        super().__init__()
        self.norm_in = norm(shape, device)
        self.attention = Attention(shape, device)
        self.norm_mid = norm(shape, device)
        self.feed_forward = feed_forward
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x, turns):
        x = x + self.dropout(self.attention(self.norm_in(x), turns))
        return x + self.dropout(self.feed_forward(self.norm_mid(x)))


class Decoder(nn.Module):
    """Tokens (rows, n) in, the mean loss of predicting each next token out."""

    def __init__(self, shape, device, feed_forward=None):
        super().__init__()
        self.shape = shape
        make = feed_forward or (lambda: FeedForward(shape, device))
        self.embed = nn.Embedding(shape.vocabulary, shape.width, device=device)
        if not shape.is_llama:
            self.places = nn.Embedding(shape.longest, shape.width, device=device)
        self.blocks = nn.ModuleList(Block(shape, make(), device) for _ in range(shape.layers))
        self.norm_out = norm(shape, device)
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, tokens):
        n_tokens = tokens.shape[1] - 1
        x = self.embed(tokens[:, :-1])
        turns = None
        if self.shape.is_llama:
            turns = angles(self.shape, n_tokens, tokens.device)
        else:
            x = x + self.places(torch.arange(n_tokens, device=tokens.device))
        for block in self.blocks:
            if self.shape.is_checkpointed and self.training:
                x = checkpoint(block, x, turns, use_reentrant=False)
            else:
                x = block(x, turns)
        logits = functional.linear(self.norm_out(x), self.embed.weight)
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
