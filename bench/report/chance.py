"""How much a figure over works depends on which works were taken: an interval by drawing them again."""
import random
import statistics

N_DRAWS = 2000
SEED = 1
PERCENT = 95


def said(seed=SEED):
    return f"{PERCENT} % of {N_DRAWS:,} draws of as many works, with replacement (seed {seed})"


def interval_of(works, figure, seed=SEED):
    """Least and most that `figure(works)` is in PERCENT of all draws (Efron's percentile bootstrap)."""
    rng = random.Random(seed)
    drawn = [figure(rng.choices(works, k=len(works))) for _ in range(N_DRAWS)]
    cuts = statistics.quantiles(drawn, n=200 // (100 - PERCENT))  # as many parts beyond each end
    return cuts[0], cuts[-1]
