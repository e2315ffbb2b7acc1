# labels: python
"""What tests/peers/ records: each difference has a reason, each reason a difference, and the page on
compliance has the table. The judgement notices what is wrong."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "peers"))

import peers                    # noqa: E402

NAMES = list(peers.PLAYERS)


def test_differences_have_reasons_and_reasons_differences() -> None:
    rows = peers.read_results()
    assert {peer for peer, _ in rows} == set(NAMES)
    assert peers.judge(rows, NAMES, rows) == []


def test_the_page_has_the_table_and_the_reasons() -> None:
    page = (ROOT / "docs" / "compliance.md").read_text()
    assert peers.table(peers.read_results()) in page
    words = " ".join(page.split())
    for _, _, reason in peers.read_reasons():
        assert reason in words, reason


def one(native: str, with_pleat: str) -> peers.Rows:
    return {("cupy", "a::b"): {"peer": "cupy", "test": "a::b", "native": native,
                               "pleat": with_pleat}}


@pytest.mark.parametrize("native, with_pleat, before, wrong", [
    ("pass", "fail", {}, "has no reason"),
    ("pass", "absent", {}, "has no reason"),
    ("fail", "fail", one("pass", "fail"), "passed native at the last recording"),
    ("fail", "skip", one("fail", "pass"), "passed pleat at the last recording"),
    ("fail", "fail", {}, ""),
    ("skip", "pass", {}, ""),
    ("pass", "pass", one("pass", "fail"), ""),
])
def test_the_judgement(native: str, with_pleat: str, before: peers.Rows, wrong: str) -> None:
    found = peers.judge(one(native, with_pleat), ["cupy"], before)
    assert len(found) == bool(wrong) and all(wrong in line for line in found)


def test_what_was_not_played_is_told() -> None:
    assert peers.judge({}, ["cupy"], one("pass", "pass")) == ["cupy: a::b was not played"]


def test_a_reason_without_a_difference_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "read_reasons", lambda: [("cupy", r"a::.*", "why")])
    assert peers.judge(one("pass", "fail"), ["cupy"], {}) == []
    assert peers.judge(one("pass", "pass"), ["cupy"], {}) == ["cupy: no such difference: a::.*"]
