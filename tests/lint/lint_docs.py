#!/usr/bin/env python3
"""Public docstrings: each public function has one, with its fields in the fixed order."""
import re
import sys

from source import read, report

API_HEADERS = ["api/pleat.h", "api/pleat_pool.h", "api/pleat_snapshot.h",
               "api/adapters/pleat_torch.h", "api/adapters/pleat_torch.hpp",
               "api/adapters/pleat_frameworks.h"]
HEADERS = dict.fromkeys(API_HEADERS, "PLEAT_API") | {"vmm/sim/pleat_sim.h": "PLEAT_SIM_API"}
FIELDS = ["Units", "Shape", "Params", "Returns", "Failure", "Owner", "Threads", "Blocks", "Source"]


def prototypes(text, marker):
    """(line, docstring or None, prototype) of each public function. A docstring covers the
    prototypes that follow it without a blank line between."""
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


def main():
    problems = []
    for path, marker in HEADERS.items():
        problems += check(path, marker)
    return report(problems)


if __name__ == "__main__":
    sys.exit(main())
