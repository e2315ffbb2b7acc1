#!/usr/bin/env python3
"""The form of files: columns, heads, blanks; one name a file in a layer; where driver work and the
dropping of the lock have their homes; and forbidden constructs. Sizes are looked at in review."""
import re
import sys

from source import all_files, c_files, read, report, without_comments_and_strings

MAX_COLUMNS = 100
# The allocator's lock is dropped in the middle of an operation by pl_away and pl_back alone
# (pl_space_enter and pl_space_leave stand at the two ends).
AWAY_HOME = "segments/pleat/space/back.h"
PAUSE = re.compile(r"\bpl_lock_(?:wait|wait_for|breathe|yield)\(")
PAUSE_HOME = "segments/pleat/space/space.c"
# Driver work is done away: between pl_away and pl_back of one function, which does not return there.
DRIVER_WORK = re.compile(r"\bpl_(?:mapping_\w+|chunk_(?:create|release)\w*|range_(?:reserve|release)|"
                         r"copy_run|keep_(?:open|save|load|read|close)|graph_watch_begin|"
                         r"fence_(?:record\w*|query\w*|wait|order)|"
                         r"device_(?:synchronize|drain|know_peers|free_bytes)|"
                         r"stream_(?:capture|get|is_capturing|is_still_capturing))\(")
# Callers without the lock: at the end of the allocator, before an operation, and a move, which is
# away as a whole.
DRIVER_HOMES = ("segments/pleat/ops/lifecycle.c", "segments/pleat/streams/capture_see.h",
                "segments/pleat/compact/swap.c")
STEP = re.compile(r"\bpl_away\(|\bpl_back\(|\breturn\b|\bgoto\b|^\}|" + DRIVER_WORK.pattern,
                  re.MULTILINE)
LEFT_OVER = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
TEXT_SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".py", ".sh", ".cmake", ".map", ".md", ".in"}


def check_c(path):
    text = read(path)
    lines = text.split("\n")
    code = without_comments_and_strings(text)
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            yield f"{path}:{number}: {len(line)} columns, at most {MAX_COLUMNS}"
    for macro in re.finditer(r"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*", code, re.MULTILINE):
        # A macro that defines a whole function may return: its brace has a separate line.
        is_function = re.search(r"\)[ \t]*\\\n[ \t]*\{[ \t]*\\\n", macro.group(0))
        if re.search(r"\b(?:return|goto)\b", macro.group(0)) and not is_function:
            line = code.count("\n", 0, macro.start()) + 1
            yield f"{path}:{line}: a macro that returns or jumps"
    if not re.match(r"/\* " + re.escape(path.name) + " - ", text):
        yield f"{path}:1: must begin with '/* {path.name} - what it is'"
    yield from check_driver_work(path, code)


def check_text(path):
    text = read(path)
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            yield f"{path}:{number}: blanks at the end of the line"
        if LEFT_OVER.search(line) and path.name != "lint_form.py":
            yield f"{path}:{number}: left-over: {line.strip()}"
        if "\t" in line:
            yield f"{path}:{number}: a tab"


def check_away(path, code):
    is_away = False
    for step in STEP.finditer(code):
        what = step.group(0)
        line = code.count("\n", 0, step.start()) + 1
        if what == "pl_away(":
            if is_away:
                yield f"{path}:{line}: pl_away() without a pl_back() before"
            is_away = True
        elif what == "pl_back(":
            if not is_away:
                yield f"{path}:{line}: pl_back() without a pl_away() before"
            is_away = False
        elif what in ("return", "goto", "}"):
            if is_away:
                yield f"{path}:{line}: leaves without pl_back()"
            is_away = False
        elif not is_away and path.as_posix() not in DRIVER_HOMES:
            yield f"{path}:{line}: {what}) outside of pl_away() and pl_back() (space/back.h)"


def check_driver_work(path, code):
    if path.parts[:2] != ("segments", "pleat"):
        return
    if path.as_posix() != PAUSE_HOME:
        for call in PAUSE.finditer(code):
            line = code.count("\n", 0, call.start()) + 1
            yield f"{path}:{line}: {call.group(0)}) outside of {PAUSE_HOME}"
    if path.as_posix() not in (AWAY_HOME, "segments/pleat/space/space.h"):
        if "pl_lock_acquire(&" in code:
            yield f"{path}: takes the lock by itself: pl_away() and pl_back() do"
        yield from check_away(path, code)


def check_file_names(paths):
    homes = {}
    for path in paths:
        layer = path.parts[:2] if path.parts[0] == "tests" else path.parts[0]
        first = homes.setdefault((layer, path.name), path)
        if first != path:
            yield f"{path}: {first} has this name"


def main():
    problems = [*check_file_names(c_files())]
    for path in c_files():
        problems += check_c(path)
    for path in all_files():
        if path.suffix in TEXT_SUFFIXES or path.name in ("CMakeLists.txt", "dev"):
            problems += check_text(path)
    return report(problems)


if __name__ == "__main__":
    sys.exit(main())
