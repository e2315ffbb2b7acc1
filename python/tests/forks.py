"""A python with modules imported (zygote.py) that runs programs in forks of itself.

Usage: forks.py FOLDER, by a program that starts tests, such as ctest. Until that program ends, tests
with PLEAT_FORKS=FOLDER share the servers that have imported torch."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import select
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import forked

HERE = Path(__file__).parent
MOST_PATH_BYTES = 100  # of a socket


def begin(at: str, environment: dict[str, str], modules: tuple[str, ...], **how: object) -> subprocess.Popen:
    """Start a server at the socket `at`. It ends with its standard input."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(at)
        listener.listen(64)
        server = subprocess.Popen(  # type: ignore[call-overload]
            [sys.executable, str(HERE / "zygote.py"), str(listener.fileno()), *modules],
            env=environment,
            pass_fds=[listener.fileno()],
            **how,
        )
    return server


def is_served(at: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(at) == 0


def find_shared(environment: dict[str, str], modules: tuple[str, ...]) -> str:
    """The socket of the shared server, started if need be. "": servers are not shared."""
    folder = Path(os.environ.get("PLEAT_FORKS") or "/nowhere")
    names = (*forked.READ_AT_LOAD, "PYTORCH_CUDA_ALLOC_CONF")
    key = json.dumps([sys.executable, modules, [environment.get(name) for name in names]])
    place = folder / hashlib.sha256(key.encode()).hexdigest()[:12]
    at = str(place / "socket")
    try:
        os.close(os.open(folder / "alive", os.O_WRONLY | os.O_NONBLOCK))  # keep() reads
    except OSError:
        return ""
    if "torch" not in modules or len(at) > MOST_PATH_BYTES:
        return ""
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_served(at):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            with open(folder / "alive") as alive, open(place / "log", "w") as log:
                begin(
                    at, environment, modules, stdin=alive, stdout=log, stderr=log,
                    start_new_session=True,
                )
    return at


def keep(folder: Path) -> None:
    """Let tests share servers until the caller's parent ends. Returns at once."""
    starter = os.pidfd_open(os.getppid())
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.mkfifo(folder / "alive")
    if os.fork() > 0:
        return
    os.setsid()
    os.open(folder / "alive", os.O_RDWR)  # the servers' standard input, open until this process ends
    nothing = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    select.select([starter], [], [])
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


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
        shared = find_shared(environment, modules)
        self.socket = shared or str(self.folder / "socket")
        self.python = self.folder / "python3"
        client = shlex.join([sys.executable, "-IS", str(HERE / "forked.py"), self.socket])
        self.python.write_text(f'#!/bin/sh\nexec {client} "$0" "$@"\n')
        self.python.chmod(0o755)
        self.server = None
        if not shared:
            self.server = begin(self.socket, environment, modules, stdin=subprocess.PIPE)

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
        if self.server is not None:
            self.server.stdin.close()
            self.server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)  # the server may have been killed


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
