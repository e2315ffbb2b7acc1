"""Run an unchanged script under pleat: `python -m pleat.torch [options] script.py ...`."""

from __future__ import annotations

import argparse
import io
import os
import runpy
import shlex
import shutil
import sys
import types

import torch

import pleat.torch
from pleat import PleatError, _start, device_stats, memory_stats
from pleat.torch import _check, _configure, _spawn


def read_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m pleat.torch",
        description="Run a script with pleat as PyTorch's CUDA allocator.",
        epilog="pleat serves the process and the Pythons that it starts, if they have the package: "
        "so SCRIPT may be a launcher, such as torchrun or -m torch.distributed.run. "
        "PLEAT_TORCH_SPAWN=0 leaves children to torch's own allocator.",
    )
    parser.add_argument("--conf", metavar="CONF", help="overrides PLEAT_CONF, key by key")
    parser.add_argument(
        "--short",
        choices=_configure.SHORT,
        help="compact: move live tensors before a request fails; no other thread may launch work "
        "on the device meanwhile (docs/pytorch.md)",
    )
    parser.add_argument("--report", action="store_true", help="print a line a device at the end")
    parser.add_argument("--snapshot", metavar="PATH", help="write a snapshot at the end")
    parser.add_argument(
        "--history",
        type=int,
        metavar="N",
        help="entries to record for the snapshot (100000 with --snapshot, else 0)",
    )
    parser.add_argument("--no-patch", action="store_true", help="do not patch torch.cuda")
    parser.add_argument("-m", dest="is_module", action="store_true", help="SCRIPT is a module")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...")
    return parser.parse_args(arguments)


def run_script(path: str) -> None:
    """Like `python path`: the file is the module __main__, its folder comes first in sys.path."""
    if not os.path.isfile(path):
        runpy.run_path(path, run_name="__main__")  # a folder or archive, or it is missing
        return
    with io.open_code(os.path.abspath(path)) as file:
        # With the script's own future features only, not this module's.
        code = compile(file.read(), path, "exec", dont_inherit=True)
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def find_script(name: str) -> str:
    """A launcher such as torchrun, a script of Python in PATH, may be given by its name."""
    found = None if os.path.exists(name) else shutil.which(name)
    if found is not None and os.path.basename(name).startswith("python"):
        sys.exit(f"pleat: {name} is no script: leave it out, as in python -m pleat.torch train.py")
    if found is None:
        if not os.path.exists(name):
            sys.exit(f"pleat: there is no script {name}")
        return name
    with open(found, "rb") as file:
        first = file.readline()
    return found if first.startswith(b"#!") and b"python" in first else name


def set_search_path(script: str, is_module: bool) -> None:
    """Put the script's folder first, as python does, or the current folder for a module."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.realpath(script))


def gibibytes(n_bytes: int) -> str:
    return f"{n_bytes / (1 << 30):.3f} GiB"


def report() -> None:
    """Prints a line on standard error for each device with allocations."""
    if not torch.cuda.is_initialized():
        print("pleat: CUDA was not used", file=sys.stderr)
        return
    for device in range(torch.cuda.device_count()):
        stats = memory_stats(device)
        if stats["allocation.all.allocated"] == 0 and stats["num_ooms"] == 0:
            continue
        own = device_stats(device)
        n_operations = sum(own["ops_" + name] for name in ("map", "unmap", "alloc", "free"))
        print(
            f"pleat: device {device}: "
            f"peak reserved {gibibytes(stats['reserved_bytes.all.peak'])}, "
            f"peak allocated {gibibytes(stats['allocated_bytes.all.peak'])}, "
            f"{n_operations} device operations, {stats['num_ooms']} failures",
            file=sys.stderr,
        )


def finish(options: argparse.Namespace) -> None:
    """Writes the requested outputs at the end, however the script ended."""
    try:
        if options.report:
            report()
        if options.snapshot:
            pleat.torch.dump_snapshot(options.snapshot)
    except PleatError as error:
        print(f"pleat: {error}", file=sys.stderr)


def say_where_to_run() -> None:
    """Tell the user how to run without a GPU, since the script may fail for want of one.

    On a simulated device nothing is looked up: looking for devices would start the simulator, and
    a later fork of the script would inherit a started simulator.
    """
    is_simulated = "PLEAT_SIM_LIBRARY" in os.environ
    if is_simulated or torch.version.cuda is None or torch.cuda.device_count() > 0:
        return
    words = [sys.executable, "-m", "pleat.torch", *sys.argv[1:]]
    print(
        "pleat: there is no GPU here. On a simulated one every allocation takes place, and kernels "
        f"compute nothing:\n    pleat-runtime --memory 80G {shlex.join(words)}",
        file=sys.stderr,
    )


def run(options: argparse.Namespace) -> None:
    if not options.is_module:
        options.script = find_script(options.script)
    sys.argv = [options.script, *options.arguments]
    set_search_path(options.script, options.is_module)
    if options.is_module:
        runpy.run_module(options.script, run_name="__main__", alter_sys=True)
    else:
        run_script(options.script)


def main() -> None:
    options = read_arguments()
    say_where_to_run()
    history = options.history
    if history is None:
        history = 100_000 if options.snapshot else 0
    pleat.torch.install(
        options.conf, patch=not options.no_patch, history=history, short=options.short
    )
    if _start.is_on(_spawn.VARIABLE, default=True):
        _start.for_children()
    _check.begin_if_asked()
    owner = os.getpid()
    try:
        run(options)
    finally:
        if os.getpid() == owner:  # a child that the script forked ends without a report
            finish(options)


if __name__ == "__main__":
    main()
