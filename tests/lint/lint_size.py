#!/usr/bin/env python3
"""Caps on files of a folder, lines of a file and of a function, columns and public functions; one
name a file in a layer; and forbidden constructs."""
import collections
import re
import sys

from source import all_files, c_files, functions, read, report, without_comments_and_strings

MAX_FOLDER_FILES = 40
MAX_FILE_LINES = 500
MAX_TEST_LINES = 800
MAX_FUNCTION_LINES = 60
MAX_COLUMNS = 100
MAX_PUBLIC_FUNCTIONS = 25
MAX_POLICY_CONSTANTS = 20
# Of the allocator: what its state has, what a request remembers, and where the lock is dropped in the
# middle of an operation (pl_space_enter and pl_space_leave stand at the two ends).
MAX_SPACE_STRUCTS = 10
MAX_SPACE_OTHERS = 15
MAX_REQUEST_MEMBERS = 20
MAX_LOCK_DROPS = 1
# Tasks without the executor, for callers without the lock.
PERFORMERS = {"pl_perform": "segments/pleat/ops/lifecycle.c",
              "pl_perform_ask": "segments/pleat/streams/capture_see.h"}
PAUSE = re.compile(r"\bpl_lock_(?:wait|wait_for|breathe|yield)\(")
PAUSE_HOME = "segments/pleat/space/space.c"
MAX_FLIGHTS = 46  # calls of the executor
# Driver work is a task of a plan.
DRIVER_WORK = re.compile(r"\bpl_(?:mapping_\w+|chunk_(?:create|release)\w*|range_(?:reserve|release)|"
                         r"copy_run|keep_(?:open|save|load|read|close)|graph_watch_begin|"
                         r"fence_(?:record\w*|query\w*|wait|order)|"
                         r"device_(?:synchronize|drain|know_peers|free_bytes)|"
                         r"stream_(?:capture|get|is_capturing|is_still_capturing))\(")
DRIVER_HOMES = ("segments/pleat/space/plan.h", "segments/pleat/space/plan.c")
LEFT_OVER = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
SOURCE_SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".py"}
TEXT_SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".py", ".sh", ".cmake", ".map", ".md", ".in"}


def check_length(path, text):
    most = MAX_TEST_LINES if "tests" in path.parts else MAX_FILE_LINES
    n_lines = text.count("\n")
    if n_lines > most:
        yield f"{path}: {n_lines} lines, at most {most}"


def check_c(path):
    text = read(path)
    lines = text.split("\n")
    code = without_comments_and_strings(text)
    for first, n_lines, name, _ in functions(code):
        if name and n_lines > MAX_FUNCTION_LINES:  # a C++ class gives an empty name
            yield f"{path}:{first}: {name}() has {n_lines} lines, at most {MAX_FUNCTION_LINES}"
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
        if LEFT_OVER.search(line) and path.name != "lint_size.py":
            yield f"{path}:{number}: left-over: {line.strip()}"
        if "\t" in line:
            yield f"{path}:{number}: a tab"


def check_policy():
    enums = re.search(r"^enum \{(.*?)^\};", without_comments_and_strings(
        read("segments/pleat/grow/policy.c")), re.MULTILINE | re.DOTALL)
    n_constants = len(re.findall(r"^ {4}[A-Z0-9_]+ =", enums.group(1), re.MULTILINE))
    if not 0 < n_constants <= MAX_POLICY_CONSTANTS:
        yield f"segments/pleat/grow/policy.c: {n_constants} constants, at most {MAX_POLICY_CONSTANTS}"


def members(code, name):
    """(type, member) of each member of a struct in C code."""
    body = re.search(rf"typedef struct {name} \{{(.*?)^\}} {name};", code, re.MULTILINE | re.DOTALL)
    return re.findall(r"^ {4}(?:const |_Atomic )?((?:struct )?\w+(?: \w+)*?) (\**\w+)[^;\n]*;",
                      body.group(1), re.MULTILINE)


def check_space(code):
    found = members(code, "pl_space")
    structs = [name for kind, name in found if kind.startswith(("pl_", "struct ")) and name[0] != "*"]
    for kind, n, most in (("structs", len(structs), MAX_SPACE_STRUCTS),
                          ("other members", len(found) - len(structs), MAX_SPACE_OTHERS)):
        if n > most:
            yield f"pl_space: {n} {kind}, at most {most}"


def check_request(code):
    n = len(members(code, "pl_request"))
    if n > MAX_REQUEST_MEMBERS:
        yield f"pl_request: {n} members, at most {MAX_REQUEST_MEMBERS}"


def check_lock_drops(codes):
    n = sum(code.count("pl_lock_acquire(&") for code in codes)
    if n > MAX_LOCK_DROPS:
        yield f"segments/pleat: the lock is dropped at {n} places inside operations, " \
              f"at most {MAX_LOCK_DROPS}"
    n = sum(len(re.findall(r"(?<!pleat_status )\b(?:pl_fly|pl_fly_one|pl_pile_release|pl_chunk_give_back)\(", code))
            for code in codes)
    if n > MAX_FLIGHTS:
        yield f"segments/pleat: the executor is called at {n} places, at most {MAX_FLIGHTS}"


def check_driver_work(path, code):
    if path.parts[:2] != ("segments", "pleat"):
        return
    if path.as_posix() != PAUSE_HOME:
        for call in PAUSE.finditer(code):
            line = code.count("\n", 0, call.start()) + 1
            yield f"{path}:{line}: {call.group(0)}) outside of {PAUSE_HOME}"
    for name, home in PERFORMERS.items():
        if f"{name}(" in code and path.as_posix() not in (home, *DRIVER_HOMES):
            yield f"{path}: {name}() is for {home}, which does not hold the lock"
    if path.as_posix() not in DRIVER_HOMES:
        for call in DRIVER_WORK.finditer(code):
            line = code.count("\n", 0, call.start()) + 1
            yield f"{path}:{line}: {call.group(0)}) outside of a plan (space/plan.h)"


def check_allocator():
    space = "segments/pleat/space/space_state.h"
    yield from check_space(without_comments_and_strings(read(space)))
    yield from check_request(without_comments_and_strings(read("segments/pleat/grow/request.h")))
    yield from check_lock_drops([
        without_comments_and_strings(read(path)) for path in c_files()
        if path.parts[:2] == ("segments", "pleat") and path.name != "space.h"])


def check_public():
    n_functions = len(re.findall(r"^PLEAT_API\b", read("api/pleat.h"), re.MULTILINE))
    if n_functions > MAX_PUBLIC_FUNCTIONS:
        yield f"api/pleat.h: {n_functions} functions, at most {MAX_PUBLIC_FUNCTIONS}"


def check_folders(paths):
    n_files = collections.Counter(path.parent for path in paths)
    for folder, n in n_files.items():
        if n > MAX_FOLDER_FILES:
            yield f"{folder}: {n} files, at most {MAX_FOLDER_FILES}"


def check_file_names(paths):
    homes = {}
    for path in paths:
        layer = path.parts[:2] if path.parts[0] == "tests" else path.parts[0]
        first = homes.setdefault((layer, path.name), path)
        if first != path:
            yield f"{path}: {first} has this name"


def main():
    problems = [*check_public(), *check_policy(), *check_allocator(),
                *check_folders(c_files()), *check_file_names(c_files())]
    for path in c_files():
        problems += check_c(path)
    for path in all_files():
        if path.suffix in SOURCE_SUFFIXES:
            problems += check_length(path, read(path))
        if path.suffix in TEXT_SUFFIXES or path.name in ("CMakeLists.txt", "dev"):
            problems += check_text(path)
    return report(problems)


if __name__ == "__main__":
    sys.exit(main())
