"""Unique tags: each type with a name of the project is defined in one file of the product only. So
two included files can never disagree about a type."""
import re

PREFIXES = ("pl_", "pleat_")
TAG = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")
# `} name;`, `typedef int name;`, `typedef int (*name)(int);`. But `typedef struct name name;`
# defines nothing.
TYPEDEFS = (re.compile(r"^\}\s*(\w+)\s*;", re.MULTILINE),
            re.compile(r"\btypedef\b(?!\s+(?:struct|union|enum)\b)[^;{(]*?\b(\w+)\s*;"),
            re.compile(r"\btypedef\b[^;{(]*\(\s*\*\s*(\w+)\s*\)\s*\("))


def defined_types(code):
    """The names of the types that a text without comments defines."""
    return {name for pattern in (TAG, *TYPEDEFS) for name in pattern.findall(code)
            if name.startswith(PREFIXES)}


def doubled_types(codes):
    """(name, files) of types defined in several files. `codes`: path -> text without comments."""
    homes = {}
    for path, code in codes.items():
        for name in defined_types(code):
            homes.setdefault(name, []).append(path)
    return [(name, sorted(paths)) for name, paths in sorted(homes.items()) if len(paths) > 1]
