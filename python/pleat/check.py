"""Check an unchanged script for mistakes with streams and memory: `pleat-runtime --check python3
script.py` runs it as `python -m pleat.check script.py` on the simulated runtime (docs/check.md)."""

from __future__ import annotations

import argparse
import os


def read_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m pleat.check",
        description="Check a script for mistakes with streams and memory, under the allocator that "
        "the script has. pleat-runtime --check PROGRAM is the usual way.",
    )
    parser.add_argument("-m", dest="is_module", action="store_true", help="SCRIPT is a module")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...")
    return parser.parse_args(arguments)


def main() -> None:
    options = read_arguments()
    from pleat.torch import _check
    from pleat.torch.__main__ import run

    _check.begin(os.environ.get(_check.VARIABLE) or None)
    run(options)


if __name__ == "__main__":
    main()
