"""The model to train: small, clear, plain PyTorch; data and weights come from a seed."""
import dataclasses

from models import decoder


@dataclasses.dataclass(frozen=True)
class Run:
    """A training run apart from its allocator."""
    build: callable         # (device) -> module
    vocabulary: int
    batch: int              # sequences a step
    shortest: int           # least tokens of a step's longest sequence
    longest: int
    steps: int
    learning_rate: float


def gpt2(width, layers, heads, vocabulary, longest):
    """GPT-2-like: learned positions, LayerNorm, GELU, dropout, tied head."""
    return lambda device: decoder.Decoder(decoder.Shape(
        width=width, layers=layers, heads=heads, vocabulary=vocabulary, longest=longest,
        dropout=0.1), device=device)


RUN = Run(gpt2(1024, 24, 16, 50257, 1024), 50257, 32, 128, 1024, 90, 3e-4)
TINY_RUN = Run(gpt2(64, 2, 4, 512, 64), 512, 4, 16, 64, 6, 3e-4)
