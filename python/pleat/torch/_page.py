"""What a check has found in one process, as a piece of a page: `pleat-runtime --check --html FILE`."""

from __future__ import annotations

import linecache
import sys
from html import escape

from . import _findings, _leaks, _places

AROUND = 3  # lines of code, before and behind

STYLE = """<!DOCTYPE html>
<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>pleat check</title>
<style>
body { font: 15px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
pre { font-size: 13px; overflow-x: auto; background: #8881; padding: .5rem }
mark { background: #fc08; color: inherit; display: inline-block; min-width: 100% }
section { border-top: 1px solid #8888; margin-top: 1.5rem }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd } }
</style>
"""


def _code(frame: _places.Frame) -> str:
    lines = []
    for number in range(max(1, frame.line - AROUND), frame.line + AROUND + 1):
        source = linecache.getline(frame.file, number).rstrip("\n")
        if source or number == frame.line:
            text = escape(f"{number:5}  {source}")
            lines.append(f"<mark>{text}</mark>" if number == frame.line else text)
    return "<pre>" + "\n".join(lines) + "</pre>"


def _place(what: str, place: _places.Place) -> str:
    if not place.frames:
        return f"<p>{escape(what)}: outside of Python</p>"
    names = f"{place.frames[0].text()}: {place.what}, {what}"
    above = "".join(
        f"<br>from {escape(frame.text())} <code>{escape(frame.source())}</code>"
        for frame in place.frames[1:]
    )
    return f"<p>{escape(names)}{above}</p>{_code(place.frames[0])}"


def _finding(number: int, finding: _findings.Finding, told: list[str]) -> str:
    parts = [f"<section><h2>{number}. {escape(told[0].split('. ', 1)[1])}</h2>"]
    if finding.hazard.other_place:
        parts.append(_place("the other work", finding.other))
    parts.append(_place("here it shows", finding.place))
    if finding.hazard.block_bytes:
        parts.append(_place("the memory is allocated", finding.born))
    if finding.hazard.freed_place:
        parts.append(_place("the memory is freed", finding.freed))
    if finding.missing():
        parts.append(f"<p>missing:</p><pre>{escape(finding.missing())}</pre>")
    return "".join([*parts, f"<p>{escape(finding.hazard.text)}</p></section>"])


def write(findings: _findings.Findings, live: _leaks.Live, path: str) -> None:
    """Write the piece. Raises OSError."""
    whole = findings.lines(live)
    sections = [
        _finding(i + 1, finding, findings.tell(i + 1, finding))
        for i, finding in enumerate(findings.found.values())
    ]
    rest = "\n".join(findings.others(live))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{STYLE}<h1>{escape(' '.join(sys.argv))}</h1><p>{escape(whole[0])}</p>")
        file.write("".join(sections) + (f"<section><pre>{escape(rest)}</pre></section>" if rest else ""))
