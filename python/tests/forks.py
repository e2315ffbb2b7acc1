"""A python with modules imported (zygote.py) that runs programs in forks of itself."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import forked

HERE = Path(__file__).parent


class Forks:
    """Pythons with one start: run() works as if a fresh python had imported `modules`.

    torch reads some variables while loading, so they come from `environment`:
    PYTORCH_CUDA_ALLOC_CONF's backend, OMP_NUM_THREADS, LD_PRELOAD. All others come from run(). A
    fork with another LD_PRELOAD or the like fails, and says so.

    `python` is a program that takes arguments like python, and becomes a fork, too. What a fork of
    `python` starts as sys.executable is a fork again: ranks of torchrun, children of
    multiprocessing."""

    def __init__(self, environment: dict[str, str], *modules: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pleat-forks-"))
        self.socket = str(self.folder / "socket")
        self.python = self.folder / "python3"
        client = shlex.join([sys.executable, "-IS", str(HERE / "forked.py"), self.socket])
        self.python.write_text(f'#!/bin/sh\nexec {client} "$0" "$@"\n')
        self.python.chmod(0o755)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.socket)
            listener.listen(64)
            self.server = subprocess.Popen(
                [sys.executable, str(HERE / "zygote.py"), str(listener.fileno()), *modules],
                stdin=subprocess.PIPE,
                env=environment,
                pass_fds=[listener.fileno()],
            )

    def run(
        self, *arguments: str, cwd: Path, environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run the arguments of a python: -c CODE, -m MODULE or SCRIPT, and their own."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            with open("/dev/null") as nothing:
                files = {0: nothing.fileno(), 1: out.fileno(), 2: err.fileno()}
                status = forked.ask(self.socket, [*arguments], str(cwd), environment, files)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(arguments, status, out.read(), err.read())

    def end(self) -> None:
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)  # the server may have been killed
