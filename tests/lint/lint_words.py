#!/usr/bin/env python3
"""Checks that one noun has one meaning: names that went do not come back, and the glossaries of
docs/design.md and of the rooms' pages beside it have each noun once. And that no page promises more
than the default holds."""
import pathlib
import re
import sys

from source import all_files, read, report

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
# By default free memory in partly used chunks serves only what fits there: no sentence leaves it out.
PROMISES = re.compile(r"does not fragment(?! (?:the|a) pool)|\bany free memory\s[\w\s]*serves|"
                      r"\bfree memory serves any request(?!, by default)|"
                      r"\bnever fails because\b|\bno fragmentation\b|\bfragmentation \| (?:gone|none)")
TEXTS = (".c", ".h", ".hpp", ".cpp", ".md", ".py", ".toml", ".txt", ".cmake", ".sh")
OLD_IN = ("vmm", "segments", "api", "bench", "docs", "tests", "README.md", "CONTRIBUTING.md")


def old_names(path, text):
    """A line for each old name in a file of the library, of the command or in a page."""
    for pattern, name in OLD_NAMES:
        for match in re.finditer(pattern, text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: '{match.group()}' went; the noun is {name}"


def promises(path, text):
    """A line for each sentence that promises more than the default holds."""
    for match in PROMISES.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{path}:{line}: '{match.group()}' leaves out the default's exception"


def glossary(page):
    """The first column of each table of nouns; the field's word is in brackets."""
    tables = re.findall(r"^\| noun \| meaning \|\n((?:\|.*\n?)+)", page, re.MULTILINE)
    return re.findall(r"^\| ([a-z][^|(]*?) (?:\(.*?\) )?\|", "".join(tables), re.MULTILINE)


def check_glossaries(pages):
    """pages: name -> text."""
    homes = {}
    for name, page in pages.items():
        for noun in glossary(page):
            homes.setdefault(noun, []).append(name)
    if not homes:
        yield "no page has a table of nouns"
    for noun, names in sorted(homes.items()):
        if len(names) > 1:
            yield f"{', '.join(names)}: '{noun}' is defined twice"


def main():
    old = [line for path in all_files()
           if path.parts[0] in OLD_IN and path.suffix in (".c", ".h", ".md")
           for line in old_names(path, read(path))]
    said = [line for path in all_files()
            if path.suffix in TEXTS and path.parts[0] not in ("tests", "CHANGELOG.md")
            for line in promises(path, read(path))]
    pages = {path.as_posix(): read(path) for path in all_files()
             if path.as_posix() == "docs/design.md" or path.as_posix().startswith("docs/design/")}
    return report([*old, *said, *check_glossaries(pages)])


if __name__ == "__main__":
    sys.exit(main())
