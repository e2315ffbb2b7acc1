"""Doxygen's input filter: the house's docstrings (CONTRIBUTING.md, "Public docstring") and file
headers, as Doxygen reads them; and pages in Markdown, whose links into pages lead to the pages, as
Doxygen 1.9.4 gives headings no names. The root's README is the first page.

A field (`Returns  PLEAT_OK; ...`) becomes a paragraph with its name as title; the lists under Units,
Shape, Params and the drawings stay as they are. Doxygen's own signs in the text lose their meaning.

Usage: filter.py FILE   (writes the filtered text)"""
import pathlib
import re
import sys

FIELDS = ("Units", "Shape", "Params", "Returns", "Failure", "Owner", "Threads", "Blocks", "Source")
AS_IT_IS = ("Params", "Shape")
FIELD = re.compile(rf"^ {{1,2}}({'|'.join(FIELDS)}) {{2,}}(.*)$")
SIGNS = re.compile(r"([\\@<>#%&$])")


def plain(text):
    return SIGNS.sub(r"\\\1", text)


def lines_of(comment):
    """The text of a comment without its signs; a blank stands for the one after the star."""
    body = comment.removesuffix("*/")
    first, *rest = body.removeprefix("/*").removeprefix("*").split("\n")
    return [first.strip(), *(re.sub(r"^ \*", "", line).rstrip() for line in rest)]


def docstring(comment):
    out, is_open = ["/**"], False
    for line in lines_of(comment):
        field = FIELD.match(line)
        if field:
            out += [" @endverbatim"] * is_open + ["", f" @par {field.group(1)}"]
            is_open = field.group(1) in AS_IT_IS
            out += [" @verbatim"] * is_open
            line = field.group(2)
        out.append(f" {line.strip() if not is_open else line.removeprefix('          ')}" if is_open
                   else f" {plain(line.strip())}")
    return "\n".join([*out, *[" @endverbatim"] * is_open, "*/"])


def file_header(comment, name):
    first, *rest = lines_of(comment)
    brief = first.partition(" - ")[2] or first
    text = "\n".join(line.removeprefix(" ") for line in rest).strip("\n")
    return f"/** @file {name}\n @brief {plain(brief)}\n\n@verbatim\n{text}\n@endverbatim\n*/"


def page(path, text):
    text = re.sub(r"\[([^\]]+)\]\(#[^)]*\)", r"\1", text)
    text = re.sub(r"(\]\([^)#]+\.md)#[^)]*\)", r"\1)", text)
    is_first = path.name == "README.md" and (path.parent / "LICENSE").exists()
    return re.sub(r"\A# (.*)", r"# \1 {#mainpage}", text) if is_first else text


def main():
    path = pathlib.Path(sys.argv[1])
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        sys.stdout.write(page(path, text))
        return
    head, rest = re.match(r"(/\*.*?\*/)(.*)", text, re.DOTALL).groups()
    rest = re.sub(r"/\*\*(?!/).*?\*/", lambda found: docstring(found.group(0)), rest,
                  flags=re.DOTALL)
    sys.stdout.write(file_header(head, path.name) + rest)


if __name__ == "__main__":
    main()
