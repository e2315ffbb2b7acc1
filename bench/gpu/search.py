"""The largest batch before out-of-memory: doubling, then halving the gap."""
import dataclasses
import time

SLACK = 1.3         # a try may take so much longer than the pace so far says


@dataclasses.dataclass
class Found:
    good: int = 0                   # the largest batch that completed
    bad: int | None = None          # the least that did not
    tries: int = 0

    def is_within(self, gap):
        """Is the answer known so closely? The first sequence is always looked for."""
        return self.bad is not None and self.bad - self.good <= (gap if self.good else 1)


def largest(completes, start, gap=1, end=float("inf"), tell=lambda found: None):
    """Found, as closely as `gap` asks, unless time.monotonic() would have passed `end` before the
    next try was over: then it holds bounds. `tell` hears of each try. Two searches from the same
    start try the same batches as long as the answers are the same."""
    found = Found()
    batch = start
    pace = 0.0                      # seconds a sequence
    while not found.is_within(gap):
        begin = time.monotonic()
        if begin + SLACK * pace * batch > end:
            break
        found.tries += 1
        if completes(batch):
            found.good = batch
            pace = (time.monotonic() - begin) / batch
        else:
            found.bad = batch
        tell(found)
        batch = found.good * 2 if found.bad is None else (found.good + found.bad) // 2
    return found
