"""A python that has imported modules and forks itself for each run of python that it is asked for.

Usage: zygote.py SOCKET MODULE..., with the number of a listening socket. Importing torch takes
seconds, a fork does not. forked.py describes a request; the answer is the exit status. A fork runs
a program as its main module. Then the fork runs the exit handlers that it has registered, in Python
and in C. But it neither takes the interpreter apart nor runs destructors of libraries, which together
cost more than a second with torch in it. Tests that start a fresh python end in the common way, and
so does a fork with PLEAT_RUNTIME_REPORT. See forks.py.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import dataclasses
import fcntl
import gc
import importlib
import json
import multiprocessing.process
import multiprocessing.spawn
import os
import runpy
import selectors
import shutil
import signal
import socket
import sys
import threading
import types
from typing import Any, Callable, NoReturn

READ_AT_LOAD = ("LD_PRELOAD", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "PYTHONHASHSEED")
ABOVE = 200  # numbers of files here, clear of those in forks


@dataclasses.dataclass(eq=False)
class Fork:
    """A fork and the connection of its client."""

    pid: int
    process: int  # descriptor, readable at the process's end
    client: socket.socket


class Server:
    """Forks, and tells each client its fork's end. A fork whose client ends early is killed. The
    server ends with its standard input, and takes its forks along."""

    def __init__(self, number: int) -> None:
        self.pid = os.getpid()
        self.listener = socket.socket(fileno=fcntl.fcntl(number, fcntl.F_DUPFD, ABOVE))
        os.close(number)
        self.forks: list[Fork] = []
        self.selector = selectors.DefaultSelector()
        self.watch(0, self.end)
        self.watch(self.listener.fileno(), self.accept)

    def watch(self, file: int, then: Callable[[], object]) -> None:
        self.selector.register(file, selectors.EVENT_READ, then)

    def serve(self) -> list[str]:
        """Returns in forks only, with the arguments of their python."""
        while True:
            for key, _ in self.selector.select():
                # An earlier one of these events may have ended what this event is about.
                if self.selector.get_map().get(key.fd) is key:
                    arguments = key.data()
                    if arguments is not None:
                        return list(arguments)

    def accept(self) -> list[str] | None:
        client, _ = self.listener.accept()
        text, files = receive(client)
        pid = os.fork() if text else -1
        if pid == 0:
            client.close()
            self.close()
            request = json.loads(text)
            become(request, files)
            return list(request["arguments"])
        for file in files:
            os.close(file)
        if pid == -1:
            client.close()
            return None
        fork = Fork(pid, os.pidfd_open(pid), client)
        self.forks.append(fork)
        self.watch(fork.process, lambda: self.tell_end(fork))
        self.watch(client.fileno(), lambda: self.kill(fork))
        return None

    def tell_end(self, fork: Fork) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
        self.forks.remove(fork)
        self.selector.unregister(fork.process)
        os.close(fork.process)
        if fork.client.fileno() in self.selector.get_map():
            self.selector.unregister(fork.client)
        with contextlib.suppress(OSError):  # the client was killed
            fork.client.send(b"%d" % status)
        fork.client.close()

    def kill(self, fork: Fork) -> None:
        self.selector.unregister(fork.client)
        os.kill(fork.pid, signal.SIGKILL)

    def end(self) -> None:
        """The folder is forks.py's, which may have been killed."""
        shutil.rmtree(os.path.dirname(self.listener.getsockname()), ignore_errors=True)
        os._exit(0)

    def close(self) -> None:
        """In a fork: leave the others to the server."""
        die_with_parent(self.pid)
        self.selector.close()
        self.listener.close()
        for fork in self.forks:
            os.close(fork.process)
            fork.client.close()


def receive(client: socket.socket) -> tuple[bytes, list[int]]:
    """A request, a line, with its files. The line is empty if the client was killed meanwhile."""
    text, files, _, _ = socket.recv_fds(client, 1 << 16, ABOVE)
    part = text
    while part and not part.endswith(b"\n"):
        part = client.recv(1 << 16)
        text += part
    return text if part else b"", files


def die_with_parent(pid: int) -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != pid:
        os._exit(1)


def become(request: dict[str, Any], files: list[int]) -> None:
    """Become the fresh process that the request describes."""
    if not request["environment"].get("PLEAT_RUNTIME_REPORT"):  # which a destructor writes
        skip_destructors()
    take_files(dict(zip(request["numbers"], files)))
    take_environment(request["environment"])
    os.chdir(request["cwd"])
    multiprocessing.process.ORIGINAL_DIR = request["cwd"]  # type: ignore[attr-defined]
    if request["executable"]:
        sys.executable = request["executable"]
        multiprocessing.spawn.set_executable(sys.executable)


def skip_destructors() -> None:
    """The destructors of torch take a quarter of a second, and no test looks at their work. C++
    objects and exit handlers that come later still have their turn."""
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)
    libc.__cxa_atexit(libc.fflush, None, None)


def take_files(files: dict[int, int]) -> None:
    """Have these files by these numbers."""
    moved = {number: fcntl.fcntl(file, fcntl.F_DUPFD, ABOVE) for number, file in files.items()}
    for file in files.values():
        os.close(file)
    for number, file in moved.items():
        os.dup2(file, number)
        os.close(file)


def take_environment(given: dict[str, str]) -> None:
    """The variables of READ_AT_LOAD cannot change: libraries have read them."""
    for name in READ_AT_LOAD:
        now, then = given.get(name), os.environ.get(name)
        if now != then:
            sys.exit(f"{name} is {now}, but it was {then} when zygote.py began: use a fresh python")
    ours = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    simulator = os.environ.get("PLEAT_SIM_LIBRARY")  # the simulated runtime tells it as it is loaded
    os.environ.clear()
    os.environ.update(given)
    if simulator:
        os.environ["PLEAT_SIM_LIBRARY"] = simulator
    theirs = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:] = [*filter(None, theirs), *(place for place in sys.path[1:] if place not in ours)]


def run(arguments: list[str]) -> None:
    """Do what python does with these arguments."""
    while arguments[0] in ("-B", "-u"):
        if arguments.pop(0) == "-u":
            sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    kind, *rest = arguments
    if kind == "-m":
        sys.argv, sys.path[0] = rest, os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if kind == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        code = compile(rest[0], "<string>", "exec")
    else:
        main.__file__ = os.path.abspath(kind)
        sys.argv, sys.path[0] = arguments, os.path.dirname(os.path.realpath(kind))
        with open(kind, "rb") as file:
            code = compile(file.read(), main.__file__, "exec")
    exec(code, main.__dict__)


def status_of(stop: SystemExit) -> int:
    """The exit status, as the interpreter takes it from the argument of sys.exit()."""
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    print(stop.code, file=sys.stderr)
    return 1


def tell(error: BaseException) -> None:
    """As the interpreter does, without the frames of this file."""
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def end(status: int) -> NoReturn:
    """Wait for threads, run exit handlers of Python and C."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for file in (sys.stdout, sys.stderr):
        if not file.closed:
            file.flush()
    ctypes.PyDLL(None).exit(status)  # with the GIL: destructors of torch drop Python objects
    raise AssertionError("unreachable")


server = Server(int(sys.argv[1]))
for name in sys.argv[2:]:
    importlib.import_module(name)
gc.collect()
gc.freeze()  # a fork's collections leave these pages shared
try:
    run(server.serve())
except SystemExit as stop:
    end(status_of(stop))
except BaseException as error:
    tell(error)
    end(1)
end(0)
