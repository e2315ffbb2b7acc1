#!/usr/bin/env python3
"""Checks that comments and pages can be read once, and that one noun has one meaning.

A sentence scores for words that point without naming a thing, for more than 22 words, and for
clauses behind colons and semicolons. No sentence may score over 10. The means of code and of pages
have bounds. The trials in docs/experiments are left out. Names that went do not come back. The glossary
of docs/design.md has at most 40 nouns, each once."""
import ast
import pathlib
import re
import sys

from source import all_files, read, report

MOST, MOST_OF_CODE, MOST_OF_PAGES = 10.0, 1.9, 2.2
LONG_WORDS = 22
MOST_NOUNS = 40
# Names that meant several things, or the wrong one, with the nouns that took their place.
OLD_NAMES = (
    (r"\bpl_room\w*|\broom_(?:open|read|sleep|wake|share|retain|kept|set_limit)\b",
     "heap: the memory of a tag"),
    (r"\bPL_BLOCK_KEPT\b", "captured: a freed block of a capture"),
    (r"\b(?:limit|total|reserve|peak|keep)_chunks\b", "granules, where granules are counted"),
    (r"\bspace->n_chunks\b", "n_held: granules held"),
    (r"\bpl_host(?:_(?:init|fini|alloc|calloc|realloc|free))?\b", "pl_meta: memory for metadata"),
    (r"\bspace->n_events\b", "n_calls: an event is CUDA's"),
    (r"\b(?:veiled|guest chunk|twin chunk)\b", "none: granules are not merged"),
    (r"\bpl_policy_room\b", "pl_policy_headroom: what may still be created"),
    (r"\bn_rooms\b|\bpl_space_reserve_room\b", "capacity of an array, entries"),
    (r"\bkept_in\b", "holder of a freed block: a front, or a restore"),
    (r"\b(?:b|block|use|hole|piece|last|first|low|high)->tick\b",
     "stamp: a tick is a fence; n_given: granules of a hole that have a chunk"),
    (r"\bKEPT\b", "CAPTURED, as in PL_BLOCK_CAPTURED"),
    (r"\broom (?:shrinks|grows)\b|\(device x room\)|\b(?:root of|inverse to) the room\b",
     "headroom: what may still be created"),
    (r"\badopted (?:pending )?memory\b", "handover: memory is handed over"),
    (r"\btied \(stranded\)|\bstranded granules?\b", "tied: stranded memory is a part of a granule"),
)
OLD_IN = ("vmm", "segments", "api", "bench", "docs", "tests", "README.md", "CONTRIBUTING.md")
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


def old_names(path, text):
    """A line for each old name in a file of the library, of the command or in a page."""
    for pattern, name in OLD_NAMES:
        for match in re.finditer(pattern, text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: '{match.group()}' went; the noun is {name}"


def check_glossary(page):
    """The nouns are the first column of the table in chapter 2; the field's word is in brackets."""
    chapter = page.split("\n## 2. ", 1)[-1].split("\n## ", 1)[0]
    nouns = re.findall(r"^\| ([a-z][^|(]*?) (?:\(.*?\) )?\|", chapter, re.MULTILINE)
    nouns = [noun for noun in nouns if noun != "noun"]
    if not 1 <= len(nouns) <= MOST_NOUNS:
        yield f"docs/design.md: {len(nouns)} nouns in the glossary, at most {MOST_NOUNS}"
    for noun in sorted(set(nouns)):
        if nouns.count(noun) > 1:
            yield f"docs/design.md: '{noun}' is defined twice"


def check(kind, found, most_mean):
    for value, where, sentence in sorted(found, reverse=True):
        if value > MOST:
            yield f"{where}: hard to read at once ({value:.1f}): {sentence[:80]}"
    mean = sum(value for value, *_ in found) / max(1, len(found))
    if mean > most_mean:
        yield f"{kind}: sentences score {mean:.2f} in the mean, at most {most_mean}"


def main():
    code, pages, old = [], [], []
    for path in all_files():
        if path.parts[0] in OLD_IN and path.suffix in (".c", ".h", ".md"):
            old += old_names(path, read(path))
        if path.suffix in (".c", ".h", ".cpp", ".hpp", ".py"):
            code += scored(path, read(path))
        elif path.suffix == ".md" and path.parts[:2] != ("docs", "experiments"):
            pages += scored(path, read(path))
    return report([*check("code", code, MOST_OF_CODE), *check("pages", pages, MOST_OF_PAGES),
                   *old, *check_glossary(read(pathlib.Path("docs/design.md")))])


if __name__ == "__main__":
    sys.exit(main())
