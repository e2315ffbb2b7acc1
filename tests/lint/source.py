"""Shared by the lint checks: the project's C files, and C text without comments and strings."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("api", "bench", "segments", "tests", "vmm")


def c_files():
    """All C and C++ sources and headers, as paths relative to the root."""
    found = []
    for folder in FOLDERS:
        for pattern in ("*.c", "*.h", "*.cpp", "*.hpp"):
            found += [p.relative_to(ROOT) for p in (ROOT / folder).rglob(pattern)]
    return sorted(found)


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


_COMMENT_OR_STRING = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)


def without_comments_and_strings(text):
    """The text with blanked comments and literals. Line numbers stay the same."""
    return _COMMENT_OR_STRING.sub(_blank, text)


def includes(text):
    """(line number, name) of each include."""
    return [(text.count("\n", 0, m.start(2)) + 1, m.group(2)) for m in _INCLUDE.finditer(text)]


def _head(lines, brace):
    """The lines directly above the brace in lines[brace]."""
    first = brace
    while first > 0 and lines[first - 1].strip() and not lines[first - 1].startswith(("#", "}")):
        first -= 1
    return lines[first:brace]


def function_head(code, first):
    """The lines above a function's body, which begins in line `first`."""
    return "\n".join(_head(code.split("\n"), first - 1))


def _function_name(lines, brace):
    """The function's name in the lines above the brace: f in `int f(int (*g)(int))`."""
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", " ".join(_head(lines, brace)))
    match = re.search(r"(?:START_TEST\s*\(\s*)?(\w+)\s*[()]", head)
    return match.group(1) if match else ""


def functions(code):
    """(first line of the body, lines of the body, name, body) of each function definition.

    Relies on the house style enforced by format_check: only a function's braces are in the first
    column."""
    lines = code.split("\n")
    start = None
    for number, line in enumerate(lines, 1):
        if line.startswith("{") and start is None:
            start = number
        elif line.startswith("}") and start is not None:
            yield (start, number - start + 1, _function_name(lines, start - 1),
                   "\n".join(lines[start - 1:number]))
            start = None


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def all_files():
    """Every file of the project, except build outputs and git's own files."""
    found = []
    for top in ROOT.iterdir():
        if top.is_file():
            found.append(top)
        elif top.name not in ("build", ".git"):
            found += [p for p in top.rglob("*") if p.is_file()]
    return sorted(p.relative_to(ROOT) for p in found)


def report(problems):
    """Print the problems and return the exit status."""
    for problem in sorted(problems):
        print(problem)
    return 1 if problems else 0
