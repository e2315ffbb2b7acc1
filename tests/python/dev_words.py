"""Every `./dev` command that the pages name is one, and helps without building anything.

Usage: dev_words.py"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "bench/README.md",
         *sorted((ROOT / "docs").rglob("*.md"))]
# Their help is that of the script which runs, with its options.
SCRIPTS = {"cards": "--traces FOLDER", "sensitivity": "--costs NAME"}


def run(*words, cwd=ROOT):
    """`./dev WORDS`; a command that builds after all finds nothing to build with."""
    return subprocess.run([ROOT / "dev", *words], capture_output=True, text=True, check=False, cwd=cwd,
                          timeout=60, env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/none"})


def named():
    """The commands that the usage has, and with their pages those that the texts have."""
    usage = run("help").stdout
    told = re.findall(r"^\./dev ([a-z-]+)", usage, re.MULTILINE)
    assert len(told) > 15 and len(set(told)) == len(told), told
    in_pages = {}
    for page in PAGES:
        for word in re.findall(r"(?<![\w/.])\./dev ([a-z][a-z-]*)", page.read_text(encoding="utf-8")):
            in_pages.setdefault(word, page.name)
    return told, in_pages


def check_help(word, told):
    for flag in ("--help", "-h"):
        done = run(word, flag)
        assert done.returncode == 0 and done.stderr == "", (word, flag, done.stderr)
        assert f"./dev {word}" in done.stdout, (word, done.stdout)
        others = [other for other in told if f"\n./dev {other} " in done.stdout]
        assert not others, f"./dev {word} {flag} tells of {others}"
        assert SCRIPTS.get(word, "") in done.stdout, (word, done.stdout)


def main():
    told, in_pages = named()
    for word, page in in_pages.items():
        assert word in told or word == "help", f"{page}: there is no ./dev {word}"
    for word in told:
        check_help(word, told)
    with tempfile.TemporaryDirectory() as elsewhere:  # from any folder
        assert run("--help", cwd=elsewhere).stdout == run("-h").stdout == run("help").stdout
    for words in (("chekc",), ("chekc", "--help"), ("--chekc",)):
        done = run(*words)
        assert done.returncode == 2 and f"no such command: {words[0]}" in done.stderr, done
    print(f"{len(told)} commands help, and the pages name {len(in_pages)} of them")


if __name__ == "__main__":
    sys.exit(main())
