#!/usr/bin/env python3
"""Checks that comments and pages can be read once.

A sentence scores for words that point without naming a thing, for more than 22 words, and for
clauses behind colons and semicolons. No sentence may score over 10. The means of code and of pages
have bounds. The trials in docs/experiments are left out."""
import ast
import re
import sys

from source import all_files, read, report

MOST, MOST_OF_CODE, MOST_OF_PAGES = 10.0, 1.9, 2.2
LONG_WORDS = 22
POINTERS = frozenset(
    "that those these this it its they them their who whose whom which what one ones other others "
    "another such so same former latter either both each there here else".split())
TURNS = re.compile(
    r"\b(that of|those of|those that|that which|what is|what was|what it|who is|is so|all the same|"
    r"as many as|no more than|but for|of which|by which|in which|for which|to which|one of the two|"
    r"the other one|and none|what others|what they|whichever|whoever|of these|of those)\b")
NO_PROSE = re.compile(r"\S {2,}\S|^ *[A-Z]\d+ |\||--|^ {4,}")


def score(sentence):
    words = re.findall(r"[a-z']+", sentence.lower())
    if not words:
        return 0.0
    pointing = sum(word in POINTERS for word in words) / len(words)
    return (25 * pointing * min(1, len(words) / 12) + 2 * len(TURNS.findall(sentence.lower())) +
            max(0, len(words) - LONG_WORDS) / 4 + sentence.count(";") + sentence.count(":"))


def of_c(text):
    """(line, text) of each comment."""
    for match in re.finditer(r"/\*(.*?)\*/", text, re.DOTALL):
        lines = [re.sub(r"^\s*\*+ ?", "", line) for line in match.group(1).splitlines()]
        yield text.count("\n", 0, match.start()) + 1, "\n".join(lines)


def of_python(text):
    """(line, text) of each docstring."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            doc = ast.get_docstring(node)
            if doc:
                yield node.body[0].lineno, doc


def of_page(text):
    """(line, text) of each paragraph."""
    line = 1
    for part in re.split(r"\n\s*\n", text):
        if not part.lstrip().startswith(("|", "    ", "```", "#")):
            yield line, part
        line += part.count("\n") + 2


def sentences(body):
    body = "\n".join("" if NO_PROSE.search(line) else line for line in body.splitlines())
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[-*] )", body):
        paragraph = re.sub(r"\s+", " ", paragraph).strip()
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z*`(])", paragraph):
            if 5 <= len(sentence.split()) <= 60:
                yield sentence


def scored(path, text):
    """(score, where, sentence) of each sentence."""
    parts = of_page if path.suffix == ".md" else of_python if path.suffix == ".py" else of_c
    for line, body in parts(text):
        for sentence in sentences(body):
            yield score(sentence), f"{path}:{line}", sentence


def check(kind, found, most_mean):
    for value, where, sentence in sorted(found, reverse=True):
        if value > MOST:
            yield f"{where}: hard to read at once ({value:.1f}): {sentence[:80]}"
    mean = sum(value for value, *_ in found) / max(1, len(found))
    if mean > most_mean:
        yield f"{kind}: sentences score {mean:.2f} in the mean, at most {most_mean}"


def main():
    code, pages = [], []
    for path in all_files():
        if path.suffix in (".c", ".h", ".cpp", ".hpp", ".py"):
            code += scored(path, read(path))
        elif path.suffix == ".md" and path.parts[:2] != ("docs", "experiments"):
            pages += scored(path, read(path))
    return report([*check("code", code, MOST_OF_CODE), *check("pages", pages, MOST_OF_PAGES)])


if __name__ == "__main__":
    sys.exit(main())
