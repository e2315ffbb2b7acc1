"""Chooses pleat's driver under a framework: the real one, unless the user asks for the simulator.

pleat's own default, driver:auto, takes the simulator if it finds no GPU. Under a framework that
must not happen unasked: a simulated address in a real kernel corrupts memory or faults.
"""

from __future__ import annotations

import os

from ._conf import join_conf, overlay


def take_real_driver() -> None:
    """Write driver:cuda into PLEAT_CONF unless it names a driver. Call this before the default
    instance is made.

    Raises   ValueError if PLEAT_CONF is not key:value,...
    """
    entries = overlay(os.environ.get("PLEAT_CONF", ""), "")
    if entries.get("driver", "auto") == "auto":
        os.environ["PLEAT_CONF"] = join_conf({**entries, "driver": "cuda"})
