#!/usr/bin/env python3
"""Checks documents. Each public function has a docstring with its fields in the fixed order, and a
row in docs/api.md. Files named in comments, and the spine's, exist. The spine includes no room's
header, but for the arrows stated here. Prose is wrapped."""
import re
import sys

from source import all_files, c_files, includes, read, report

API_HEADERS = ["api/pleat.h", "api/pleat_pool.h", "api/pleat_tag.h", "api/pleat_share.h",
               "api/pleat_checkpoint.h", "api/pleat_buffer.h", "api/pleat_host.h",
               "api/pleat_snapshot.h", "api/pleat_watch.h", "api/pleat_mapping.h",
               "api/adapters/pleat_torch.h", "api/adapters/pleat_torch.hpp",
               "api/adapters/pleat_frameworks.h"]
HEADERS = dict.fromkeys(API_HEADERS, "PLEAT_API") | {"vmm/base/pleat_sim.h": "PLEAT_SIM_API"}
FIELDS = ["Units", "Shape", "Params", "Returns", "Failure", "Owner", "Threads", "Blocks", "Source"]


def prototypes(text, marker):
    """(line, docstring or None, prototype) of each public function. A docstring covers the
    prototypes behind it up to a blank line."""
    doc = None
    for match in re.finditer(
            rf"(?P<doc>/\*\*.*?\*/)|(?P<other>/\*.*?\*/)|^(?P<proto>{marker}\b[^;{{]*;)|"
            r"(?P<gap>\n[ \t]*\n)", text, re.DOTALL | re.MULTILINE):
        if match.group("doc"):
            doc = match.group("doc")
        elif match.group("gap"):
            doc = None
        elif match.group("proto"):
            yield text.count("\n", 0, match.start()) + 1, doc, match.group("proto")


def check_fields(where, doc):
    found = re.findall(r"^ \*\s{1,3}([A-Z][a-z]+)\b(?=\s{2,})", doc, re.MULTILINE)
    known = [field for field in found if field in FIELDS]
    if known != sorted(known, key=FIELDS.index):
        yield f"{where}: fields out of order: {', '.join(known)}"
    if len(known) != len(set(known)):
        yield f"{where}: a field stands twice: {', '.join(known)}"


def check(path, marker):
    for line, doc, prototype in prototypes(read(path), marker):
        name = re.search(r"(\w+)\s*\(", prototype).group(1)
        where = f"{path}:{line}: {name}"
        if doc is None:
            yield f"{where}: no docstring"
            continue
        if not re.match(r"/\*\*\s*[A-Z]", doc):
            yield f"{where}: the docstring does not begin with a sentence"
        if path in API_HEADERS and "pleat_status " in prototype.split("(")[0]:
            if not re.search(r"^ \*\s+Returns\s", doc, re.MULTILINE):
                yield f"{where}: the docstring has no Returns"
        yield from check_fields(where, doc)


# docs/api.md: a row for each function of pleat.h and of its included headers.
API_PAGE = "docs/api.md"


def call_of(prototype):
    """`name(arguments)` as in programs, where an inline function passes the size on."""
    name, arguments = re.search(r"(\w+)\s*\((.*)\)\s*;", prototype, re.DOTALL).groups()
    arguments = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"\1", arguments)
    names = [re.sub(r"\[.*\]", "", one).split()[-1].lstrip("*") for one in arguments.split(",")]
    names = [] if names == ["void"] else names
    if name.endswith("_sized"):
        name = name.removesuffix("_sized")
        names.remove("out_bytes")
    return f"{name}({', '.join(names)})"


def check_api_page():
    rows = re.findall(r"^\| `(pleat_\w+\([^`]*\))` \|", read(API_PAGE), re.MULTILINE)
    calls = [call_of(prototype) for path in API_HEADERS if "/adapters/" not in path
             for _, _, prototype in prototypes(read(path), "PLEAT_API")]
    for call in sorted(set(calls) - set(rows)):
        yield f"{API_PAGE}: no row for `{call}`"
    for row in sorted(set(rows) - set(calls)):
        yield f"{API_PAGE}: there is no call `{row}`"
    if len(rows) != len(set(rows)):
        yield f"{API_PAGE}: a call has two rows"
    if f"all of it: {len(calls)} functions" not in read(API_PAGE):
        yield f"{API_PAGE}: there are {len(calls)} functions"


# Files of other projects named as sources in comments, and names that stand for many files.
FOREIGN = re.compile(
    r"(c10|torch|src|Lib|cuda|csrc)/|(cuda|cxxabi|cuda_runtime_api|cuda_execution_provider_info|"
    r"logging_resource_adaptor|storage_manager_helpers)\.h|(FOLDER|FUZZED|_test)")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
FILE = re.compile(r"(?<![\w./-])([\w/]+\.(?:c|h|hpp|cpp|py|sh|cmake|md|txt))\b(?!\.)")


def check_named_files(path, text, known):
    """Files named in comments exist. A name may be the end of a path."""
    for comment in COMMENT.finditer(text):
        for match in FILE.finditer(comment.group(0)):
            name = match.group(1)
            if FOREIGN.match(name) or any(f"/{file}".endswith(f"/{name}") for file in known):
                continue
            line = text.count("\n", 0, comment.start() + match.start()) + 1
            yield f"{path}:{line}: there is no {name}"


def check_prose(path, text):
    """Prose ends at column 100; tables, headings and code may be wider."""
    is_code = False
    for number, line in enumerate(text.split("\n"), 1):
        is_code ^= line.lstrip().startswith("```")
        is_free = is_code or line.startswith(("|", "#", "    ", "![")) or " " not in line.strip()
        if len(line) > 100 and not is_free:
            yield f"{path}:{number}: {len(line)} columns, at most 100"


SPINE_PAGE = "docs/design.md"


def check_spine(text, known):
    """Each file of the spine's table is one file; a name may be the end of a path."""
    rows = re.findall(r"^\| `([\w/]+\.[ch])` \|", text, re.MULTILINE)
    if not rows:
        yield f"{SPINE_PAGE}: no table of the spine's files"
    for name in rows:
        found = [file for file in known if f"/{file}".endswith(f"/{name}")]
        if len(found) != 1 or rows.count(name) > 1:
            yield f"{SPINE_PAGE}: the spine's {name} is no file, or several: {', '.join(found)}"


# Headers of what a reader of the spine can leave out. A capture is the third kind of clock, and its
# headers are no room's here: docs/design/captures.md.
ROOMS = re.compile(r"segments/pleat/(?:(?:pools|sleep|compact|buffers)/\w+|grow/recast|streams/drain|"
                   r"space/(?:private|heap|buffer_area))\.h|vmm/(?:share|mapping_watch)\.h")
ARROWS = {
    "ops/ops.c": {"pools/pool_ops.h", "sleep/tag_ops.h", "compact/compact.h"}, # the table
    "ops/lifecycle.c": {"buffers/buffer.h", "compact/still.h"}, # the end of all rooms
    "ops/check.c": {"buffers/buffer.h"},
    "ops/free_op.c": {"pools/checkpoint.h"}, # a block that a restore is about to free
    "grow/fit.c": {"streams/drain.h"}, # what keepers let go, when memory is short
    "streams/settle.c": {"streams/drain.h"},
    "grow/grow.c": {"buffers/buffer.h", "grow/recast.h"}, # pages; addresses of closed buffers
    "grow/trim.c": {"buffers/buffer.h"},
    "space/carve.c": {"space/buffer_area.h"},
}


def rooms_of(path, text_of, seen):
    """Room headers that the file includes, itself or by other headers."""
    for _, name in includes(text_of(path)):
        if name in seen or not name.startswith(("segments/pleat/", "vmm/")):
            continue
        seen.add(name)
        if ROOMS.fullmatch(name):
            yield name.removeprefix("segments/pleat/")
        elif name.startswith("segments/pleat/"):
            yield from rooms_of(name, text_of, seen)


def check_rooms(name, text_of):
    """A file of the spine, by its name in the table, includes no header of a room."""
    found = set(rooms_of(f"segments/pleat/{name}", text_of, set()))
    stated = ARROWS.get(name, set())
    for header in sorted(found - stated):
        yield f"segments/pleat/{name}: the spine includes a room's {header}, by itself or another"
    for header in sorted(stated - found):
        yield f"segments/pleat/{name}: an arrow to {header} is stated, and not there"


def spine_files(text):
    """Files of the table in segments/pleat, each with the header or the source beside it."""
    for name in re.findall(r"^\| `((?:ops|space|grow|streams)/\w+)\.[ch]` \|", text, re.MULTILINE):
        yield from (f"{name}{end}" for end in (".c", ".h"))


def main():
    problems = []
    known = [path.as_posix() for path in all_files()]
    for path in c_files():
        problems += check_named_files(path.as_posix(), read(path), known)
    for path in all_files():
        if path.suffix == ".md" and path.parts[:2] != ("bench", "results"):
            problems += check_prose(path.as_posix(), read(path))
    for path, marker in HEADERS.items():
        problems += check(path, marker)
    problems += check_api_page()
    problems += check_spine(read(SPINE_PAGE), known)
    for name in spine_files(read(SPINE_PAGE)):
        if f"segments/pleat/{name}" in known:
            problems += check_rooms(name, read)
    return report(problems)


if __name__ == "__main__":
    sys.exit(main())
