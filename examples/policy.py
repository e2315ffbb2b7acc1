"""A growth policy of one's own in Python (docs/policy.md): the same as policy.c.

    pleat replay gpt2s_tiny --memory 1.05x --conf policy:./policy.py
"""


def order(now, own):
    return 0 if 2 * now.held > now.cap else own  # single granules once half of the device is held


def slack(now, own):
    return 0 if now.tied > now.asked else own


def place(now, own):
    return now.asked if 2 * now.held > now.cap else own  # the place that pins least
