"""How long the sequences of each step are: drawn from a seed, equal under every allocator."""
import random


def drawn(run, n_steps, seed):
    """Tokens a sequence, one number a step: uniform, so that hardly two steps are alike. The
    longest comes once, in the last quarter, when a cache is full of shorter ones."""
    rng = random.Random(seed)
    lengths = [rng.randint(run.shortest, run.longest) for _ in range(n_steps)]
    lengths[n_steps - 1 - rng.randrange(max(1, n_steps // 4))] = run.longest
    return lengths
