"""The output of an example that a page shows is what the example prints, but for its numbers.

Usage: doc_output.py TWO_STREAMS"""
import os
import pathlib
import re
import subprocess
import sys

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def folded(text):
    """Without line breaks, and with one word for each number."""
    return re.sub(r"\b(?:0x[0-9a-f]+|\d+)\b", "N", " ".join(text.split()))


def shown(page, first):
    """The indented block of a page that begins with `first`."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("    " + first))
    end = next((i for i in range(at, len(lines)) if not lines[i].startswith("    ")), len(lines))
    return "\n".join(lines[at:end])


def main():
    done = subprocess.run([sys.argv[1]], capture_output=True, text=True, check=False, env={
        **os.environ, "PLEAT_CONF": "driver:sim,sim:[capacity:64M]"})
    written = folded(shown("simulator.md", "hazards with record_stream"))
    printed = folded(done.stdout)
    assert written == printed, f"docs/simulator.md shows\n{written}\nand the program prints\n{printed}"
    print("the page shows what the program prints")


if __name__ == "__main__":
    main()
