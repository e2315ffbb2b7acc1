"""A python that has imported torch and forks itself for each piece of code that it gets.

Importing torch takes seconds, a fork does not. Arguments name further modules. A request is a line
of JSON on standard input: code, cwd, environment, and the files for its output. The answer is a
line with the exit status. A child runs the code as its main module. Then the child runs what Python
and C registered for the end of the process, but does not take the interpreter apart, which costs a
second with torch in it. Tests that start a fresh python end in the common way. See forks.py.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import sys
import threading
import traceback
import types
from typing import NoReturn


def become(request: dict[str, object]) -> None:
    """Become the fresh process that the request describes."""
    os.chdir(str(request["cwd"]))
    simulator = os.environ.get("PLEAT_SIM_LIBRARY")  # the simulated runtime tells it as it is loaded
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[arg-type]
    if simulator:
        os.environ["PLEAT_SIM_LIBRARY"] = simulator
    for number, name in ((0, os.devnull), (1, request["stdout"]), (2, request["stderr"])):
        file = os.open(str(name), os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(file, number)
        os.close(file)


def serve() -> str:
    """Answer requests; returns only in children, with their code."""
    for name in ("torch", *sys.argv[1:]):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a child's collections leave these pages shared
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            become(request)
            return str(request["code"])
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return ""


def status_of(stop: SystemExit) -> int:
    """The exit status, as the interpreter takes it from the argument of sys.exit()."""
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    print(stop.code, file=sys.stderr)
    return 1


def end(status: int) -> NoReturn:
    """Wait for threads, run exit handlers of Python and C."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).exit(status)
    raise AssertionError("unreachable")


code = serve()
if code:
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        exec(compile(code, "<string>", "exec"), main.__dict__)
    except SystemExit as stop:
        end(status_of(stop))
    except BaseException:
        traceback.print_exc()
        end(1)
    end(0)
