"""A plugin of pytest: writes each test's outcome to PEERS_OUT, and for PEERS_WAY=pleat installs
pleat as CuPy's allocator before each test."""
import json
import os

import pytest
import served

outcomes = {}
RANK = ("skip", "pass", "fail")


def pytest_runtest_setup(item):
    if os.environ["PEERS_WAY"] == "pleat":
        import pleat.cupy

        pleat.cupy.uninstall()  # CuPy's tests put allocators of their own in its place
        pleat.cupy.install()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    word = {"passed": "pass", "failed": "fail", "skipped": "skip"}[report.outcome]
    file, _, name = item.nodeid.partition("::")
    test = f"{os.path.basename(file)[:-3]}::{name}"
    outcomes[test] = max(outcomes.get(test, "skip"), word, key=RANK.index)


def pytest_sessionfinish(session):
    if os.environ["PEERS_WAY"] == "pleat":
        served.require()
    with open(os.environ["PEERS_OUT"], "w", encoding="utf-8") as out:
        json.dump(outcomes, out)
