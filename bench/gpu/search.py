"""The largest batch before out-of-memory: doubling, then halving the gap."""
import dataclasses
import time

SLACK = 1.3         # a try may take so much longer than the pace so far suggests


@dataclasses.dataclass
class Found:
    good: int = 0                   # the largest batch that completed
    bad: int | None = None          # the least that did not
    tries: int = 0

    def is_within(self, gap):
        """Is the answer known this precisely? The first sequence is always searched."""
        return self.bad is not None and self.bad - self.good <= (gap if self.good else 1)


def largest(completes, start, gap=1, end=float("inf"), tell=lambda found: None):
    """Searches to a precision of `gap`. If the next try could not end before time.monotonic()
    passes `end`, returns the bounds so far. `tell` is called for each try. Two searches from the
    same start try the same batches as long as the answers are the same."""
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
