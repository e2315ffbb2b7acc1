"""The length of the sequences of each step: drawn from a seed, equal under every allocator."""
import random


def drawn(run, n_steps, seed):
    """Tokens per sequence, a number per step, drawn uniformly, so that few steps are alike. The
    longest comes once, in the last quarter, when a cache is full of shorter ones."""
    rng = random.Random(seed)
    lengths = [rng.randint(run.shortest, run.longest) for _ in range(n_steps)]
    lengths[n_steps - 1 - rng.randrange(max(1, n_steps // 4))] = run.longest
    return lengths
