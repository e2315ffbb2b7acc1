"""Call rings: C files of one folder that need each other's functions, directly or over further
files.

Source A needs source B of the same folder if a function or table of A names a function exported by
B. An inline function of a header is part of each source that uses the function. A call through a
pointer does not count: a file of a higher floor has set the pointer."""
import re

from cycles import rings
from source import function_head, functions

FOLDERS_WITHOUT_CALL_RINGS = ("api", "segments")
WORD = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")  # except members
# The text before a name in the declaration of a variable: a type, and stars.
DECLARATOR = r"(?<![\w.>])(?!return\b|else\b|case\b|goto\b)[A-Za-z_]\w*[ ]\**{}\s*[=;,\[)]"


def _is_static(code, first):
    return bool(re.match(r"\s*static\b", function_head(code, first)))


def _inside(code):
    """(name, is static, head and body) of each function. Tables outside of functions come last, as
    one function without a name."""
    lines = code.split("\n")
    outside = list(lines)
    for first, n_lines, name, body in functions(code):
        head = function_head(code, first)
        yield name, _is_static(code, first), head + body
        n_head = head.count("\n") + 1
        for number in range(first - 1 - n_head, first - 1 + n_lines):
            outside[number] = ""
    tables = re.findall(r"=\s*\{.*?^\};", "\n".join(outside), re.DOTALL | re.MULTILINE)
    yield "", True, "\n".join(tables)


def _is_local(text, name):
    """Whether the function declares a variable or a parameter of that name."""
    return bool(re.search(DECLARATOR.format(re.escape(name)), text))


def _spread(text, known, inline):
    """The known names in a function, and in inline functions named there."""
    names = {name for name in known.intersection(WORD.findall(text)) if not _is_local(text, name)}
    ahead = [name for name in names if name in inline]
    while ahead:
        more = inline[ahead.pop()] - names
        names |= more
        ahead += [name for name in more if name in inline]
    return names


def call_needs(codes):
    """path -> {path in the same folder: the named functions of that file}. `codes`: path -> text
    without comments and strings."""
    inside = {path: list(_inside(code)) for path, code in codes.items()}
    inline = {name: set(WORD.findall(text)) for path, found in inside.items()
              for name, _, text in found if name and path.suffix == ".h"}
    homes = {(path.parent, name): path for path, found in inside.items()
             for name, is_static, _ in found if name and not is_static}
    known = set(inline) | {name for _, name in homes}
    needs = {}
    for path, found in inside.items():
        own = {name for name, _, _ in found}
        needed = needs.setdefault(path, {})
        for _, _, text in found if path.suffix == ".c" else ():
            for name in _spread(text, known, inline) - own:
                home = homes.get((path.parent, name))
                if home not in (None, path):
                    needed.setdefault(home, set()).add(name)
    return needs


def call_rings(codes):
    """The rings as lists of arrows: "a.c -> b.c: names"."""
    needs = call_needs(codes)
    for ring in rings(needs):
        yield [f"{a.name} -> {b.name}: {', '.join(sorted(needs[a][b]))}"
               for a in ring for b in ring if b in needs[a]]
