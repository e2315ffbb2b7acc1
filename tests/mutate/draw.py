"""Mistakes drawn by chance, which nobody thought of: a line of C that is left out, or that compares,
adds or answers otherwise."""
import random
import re

SWAPS = [(" < ", " <= "), (" > ", " >= "), (" == ", " != "), (" && ", " || "), (" || ", " && "),
         (" + 1", ""), (" - 1", ""), ("return true;", "return false;"),
         ("return false;", "return true;"), (" += ", " -= "), ("if (!", "if (")]
CALL = re.compile(r"\s+(\(void\))?!?[a-z_]+\([^=]*\);$")
ASSIGNMENT = re.compile(r"\s+[a-z_>.\-\[\]*]+ [+\-|]?= [^;]*;$")
DECLARATION = re.compile(r"\s+(pl_|size_t|bool|uint|unsigned|pleat_|int |const|struct|char)")
# The smaller or the larger of two: the same for `<` and `<=`.
IS_LEAST_OR_MOST = re.compile(r"(\S+) [<>] (\S+) \? (\1 : \2|\2 : \1)\b")
# What looks for mistakes itself: nothing but a failing test depends on it.
INSTRUMENTS = ("pl_assert", "pl_lock_touch")


class Drawn:
    """A mistake in one line of `file`; like Mutation of mutate.py."""

    why = "drawn by chance: a missing test, a line that nothing needs, or speed alone"

    def __init__(self, file, index, old, new):
        self.file, self.index, self.old, self.new = file, index, old, new
        self.suites = []
        said = new.strip() or "(left out)"
        self.name = f"{file}:{index + 1} | {old.strip()} | {said}"

    def mutated(self, text):
        lines = text.split("\n")
        lines[self.index] = self.new
        return "\n".join(lines)


def mistakes_in(file, text):
    in_comment = False
    for index, line in enumerate(text.split("\n")):
        code = line.strip()
        in_comment = in_comment or code.startswith("/*")
        if in_comment:
            in_comment = "*/" not in code
        elif line.startswith("    ") and not code.startswith(("#", "static", "const")) and \
                not any(name in line for name in INSTRUMENTS):
            least = IS_LEAST_OR_MOST.search(line)
            for old, new in SWAPS:
                is_same = (least and old in (" < ", " > ") and
                           least.start() < line.find(old) < least.end())
                if old in line and not is_same:
                    yield Drawn(file, index, line, line.replace(old, new, 1))
            is_set = ASSIGNMENT.match(line) and not DECLARATION.match(line)
            if CALL.match(line) or is_set:
                yield Drawn(file, index, line, "")


def draw(root, files, seed):
    """All mistakes in the files, in an order by the seed."""
    found = [mistake for file in files
             for mistake in mistakes_in(file, (root / file).read_text(encoding="utf-8"))]
    random.Random(seed).shuffle(found)
    return found
