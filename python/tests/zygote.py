"""A python that has imported torch and forks itself for each piece of code.

Importing torch takes seconds, a fork does not; arguments name further modules. Requests are lines
of JSON on standard input: code, cwd, environment, and the files for its output. The answer is a
line with the exit status. A child runs the code as its main module and ends like any interpreter.
See forks.py.
"""

from __future__ import annotations

import importlib
import json
import os
import sys


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
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            become(request)
            return str(request["code"])
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return ""


exec(compile(serve(), "<string>", "exec"))
