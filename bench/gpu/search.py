"""The largest batch before out-of-memory: doubling, then halving the gap."""
import time


def largest(completes, start, limit_s):
    """(the largest batch for which `completes` is true, the least for which it is not, tries). Both
    are neighbours unless time ran out: then the first is the best that was seen."""
    end = time.monotonic() + limit_s
    good, bad, tries = 0, None, 0
    batch = start
    while bad is None or bad - good > 1:
        if time.monotonic() > end:
            break
        tries += 1
        if completes(batch):
            good = batch
        else:
            bad = batch
        batch = good * 2 if bad is None else (good + bad) // 2
    return good, bad, tries
