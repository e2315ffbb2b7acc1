"""What the lint checks share: the project's C files, and C text without comments and strings."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("api", "bench", "segments", "tests", "vmm")


def c_files():
    """All C sources and headers, as paths relative to the root."""
    found = []
    for folder in FOLDERS:
        for pattern in ("*.c", "*.h"):
            found += [p.relative_to(ROOT) for p in (ROOT / folder).rglob(pattern)]
    return sorted(found)


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


_COMMENT_OR_STRING = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)


def without_comments_and_strings(text):
    """The same text, same line numbers, with comments and literals blanked."""
    return _COMMENT_OR_STRING.sub(_blank, text)


def includes(text):
    """(line number, name) of each include."""
    return [(text.count("\n", 0, m.start(2)) + 1, m.group(2)) for m in _INCLUDE.finditer(text)]


def functions(code):
    """(first line of the body, lines of the body, name, body) of each function definition.

    Relies on the house style that format_check enforces: a function's braces stand in the first
    column, all others do not."""
    lines = code.split("\n")
    start = None
    for number, line in enumerate(lines, 1):
        if line.startswith("{") and start is None:
            start = number
        elif line.startswith("}") and start is not None:
            head = " ".join(lines[max(0, start - 8):start - 1])
            head = re.split(r"[;}]", head)[-1]
            names = re.findall(r"(\w+)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)", "", head))
            name = names[-1] if names and names[0] in ("START_TEST",) else (names or [""])[0]
            yield start, number - start + 1, name, "\n".join(lines[start - 1:number])
            start = None


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def tracked_text_files():
    """Paths git knows or would add; empty outside a git checkout."""
    result = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
        capture_output=True, text=True, check=False)
    return [pathlib.Path(line) for line in result.stdout.splitlines()]


def report(problems):
    """Print the problems; the exit status."""
    for problem in sorted(problems):
        print(problem)
    return 1 if problems else 0
