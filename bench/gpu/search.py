"""The largest batch before out-of-memory: doubling, then halving the gap."""
import time

SLACK = 1.3     # how much longer than expected a try may take


def largest(completes, start, end, tell):
    """Doubling, then halving the gap. If the next try could not end before time.monotonic() passes
    `end`, the bounds so far count. Searches with the same start try the same batches as long as the
    answers agree. Returns the largest batch that completed and the smallest that failed."""
    good, bad, batch, pace = 0, None, start, 0.0
    while bad is None or bad - good > 1:
        begin = time.monotonic()
        if begin + SLACK * pace * batch > end:
            break
        if completes(batch):
            good, pace = batch, (time.monotonic() - begin) / batch
        else:
            bad = batch
        tell(good, bad)
        batch = good * 2 if bad is None else (good + bad) // 2
    return good, bad
