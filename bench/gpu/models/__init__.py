"""The models to train: small, clear, plain PyTorch; data and weights come from a seed."""
import dataclasses

from models import decoder, lora, moe


@dataclasses.dataclass(frozen=True)
class Run:
    """A training run apart from its allocator."""
    build: callable         # (device) -> module
    vocabulary: int
    batch: int              # sequences a step
    shortest: int           # least tokens of a step's longest sequence
    longest: int
    warm_up: int            # steps before the clock starts
    steps: int              # steps on the clock
    learning_rate: float


def gpt2(width, layers, heads, vocabulary, longest):
    """GPT-2-like: learned positions, LayerNorm, GELU, dropout, tied head."""
    return lambda device: decoder.Decoder(decoder.Shape(
        width=width, layers=layers, heads=heads, kv_heads=heads, hidden=4 * width,
        vocabulary=vocabulary, longest=longest, is_llama=False, dropout=0.1), device=device)


def llama_lora(width, layers, heads, kv_heads, hidden, vocabulary, longest, rank):
    """Llama-like, frozen in bfloat16, with trained low-rank adapters and activation checkpoints."""
    return lambda device: lora.adapt(decoder.Decoder(decoder.Shape(
        width=width, layers=layers, heads=heads, kv_heads=kv_heads, hidden=hidden,
        vocabulary=vocabulary, longest=longest, is_llama=True, is_checkpointed=True),
        device=device), rank)


def experts(width, layers, heads, hidden, n_experts, vocabulary, longest):
    """Llama-like, with a mixture of experts for each feed-forward, two of them a token."""
    shape = decoder.Shape(width=width, layers=layers, heads=heads, kv_heads=heads, hidden=hidden,
                          vocabulary=vocabulary, longest=longest, is_llama=True)
    return lambda device: decoder.Decoder(
        shape, device=device,
        feed_forward=lambda: moe.Experts(width, hidden, n_experts, device=device))


RUNS = {
    ("gpt2", "full"): Run(gpt2(1024, 24, 16, 50257, 1024), 50257, 32, 128, 1024, 12, 100, 3e-4),
    ("gpt2", "small"): Run(gpt2(768, 12, 12, 50257, 1024), 50257, 8, 128, 1024, 12, 100, 3e-4),
    ("gpt2", "tiny"): Run(gpt2(64, 2, 4, 512, 64), 512, 4, 16, 64, 2, 4, 3e-4),
    ("lora", "full"): Run(llama_lora(2048, 16, 32, 8, 8192, 128256, 2048, 16), 128256, 8,
                          256, 2048, 12, 80, 1e-3),
    ("lora", "small"): Run(llama_lora(1024, 12, 16, 4, 4096, 32000, 1024, 16), 32000, 4,
                           128, 1024, 12, 80, 1e-3),
    ("lora", "tiny"): Run(llama_lora(64, 2, 4, 2, 128, 512, 64, 4), 512, 4, 16, 64, 2, 4, 1e-3),
    ("moe", "full"): Run(experts(1024, 12, 16, 2816, 16, 32000, 1024), 32000, 32,
                         128, 1024, 10, 50, 3e-4),
    ("moe", "small"): Run(experts(512, 8, 8, 1408, 8, 32000, 1024), 32000, 8,
                          128, 1024, 10, 50, 3e-4),
    ("moe", "tiny"): Run(experts(64, 2, 4, 128, 4, 512, 64), 512, 4, 16, 64, 2, 4, 3e-4),
}
