"""Forks of a started python (forks.py) act as fresh pythons, and none is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest
from conftest import clean_environment
from forks import Forks

Fork = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    started = Forks(clean_environment(), "colorsys")
    yield started
    started.end()


@pytest.fixture
def fork(forks: Forks, tmp_path: Path) -> Fork:
    """fork(ARGUMENT..., VARIABLE=...): what a fork of the started python prints and returns."""

    def run(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        return forks.run(*arguments, cwd=tmp_path, environment=clean_environment(**extra))

    return run


FACTS = """
import os, sys
main = sys.modules["__main__"]
print(sys.argv, sys.path, os.getcwd(), os.environ.get("GIVEN"), os.environ.get("GONE"))
print(__name__, getattr(main, "__file__", None), main.__dict__ is globals(), sys.stdin.read())
print("colorsys" in sys.modules, sorted(os.listdir("/proc/self/fd"), key=int)[:-1], file=sys.stderr)
sys.exit(3)
"""


@pytest.mark.parametrize("kind", ["-c", "-m", "file"])
def test_a_fork_sees_what_a_fresh_python_sees(fork: Fork, tmp_path: Path, kind: str) -> None:
    (tmp_path / "facts.py").write_text(FACTS)
    start = {"-c": ["-c", FACTS], "-m": ["-m", "facts"], "file": ["facts.py"]}[kind]
    arguments = ["-B", *start, "--one", "two words"]
    extra = {"GIVEN": "1", "PYTHONPATH": "/some/where:/else"}
    forked = fork(*arguments, **extra)
    fresh = subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        env=clean_environment(**extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert forked.stdout == fresh.stdout
    assert forked.returncode == fresh.returncode == 3
    assert forked.stderr == "True ['0', '1', '2']\n"  # the import is there, nothing else is open
    assert fresh.stderr == "False ['0', '1', '2']\n"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", 0),
        ("import sys; sys.exit('a word')", 1),
        ("import sys; sys.stdout.close(); sys.exit(4)", 4),
        ("1 / 0", 1),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import threading, time\nthreading.Thread(target=lambda: print('late')).start()", 0),
        ("import atexit; atexit.register(print, 'last'); print('first')", 0),
    ],
)
def test_a_fork_ends_as_a_fresh_python_does(fork: Fork, code: str, status: int) -> None:
    forked = fork("-c", code)
    fresh = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert forked.returncode == fresh.returncode == status
    assert (forked.stdout, forked.stderr) == (fresh.stdout, fresh.stderr)


def test_what_is_read_at_load_has_to_be_the_same(fork: Fork) -> None:
    for name in ("LD_PRELOAD", "OMP_NUM_THREADS", "LD_LIBRARY_PATH", "PYTHONHASHSEED"):
        done = fork("-c", "print('never')", **{name: "3"})
        assert done.returncode == 1 and done.stdout == ""
        assert done.stderr.startswith(f"{name} is 3, but it was"), done.stderr


CHILDREN = """
import multiprocessing, os, subprocess, sys

def child(queue, file):
    os.write(file.fileno(), b"written by the child")
    queue.put(("colorsys" in sys.modules, os.getpid()))

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    queue = spawn.Queue()
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=child, args=(queue, theirs))
    process.start()
    print(*queue.get())
    process.join()
    print(os.read(ours.fileno(), 64), process.exitcode)
    code = "import os, sys; print('colorsys' in sys.modules, sys.argv[1]); sys.stdout.flush(); "
    done = subprocess.run([sys.executable, "-c", code + "os.kill(os.getpid(), 9)", "given"],
                          stdout=subprocess.PIPE, text=True)
    print(done.stdout, done.returncode)
"""


def test_pythons_that_the_program_starts_are_forks_too(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "children.py").write_text(CHILDREN)
    done = subprocess.run(
        [forks.python, "children.py"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("True ")
    assert lines[1] == "b'written by the child' 0"
    assert lines[2:] == ["True given", f" {-signal.SIGKILL}"]


def is_there(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(what: Callable[[], bool]) -> bool:
    for _ in range(1000):
        if what():
            return True
        time.sleep(0.01)
    return False


SLEEPING = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(600)"


def start_sleeping(forks: Forks) -> tuple[subprocess.Popen[str], int]:
    """A client of the server, and the process id of its fork."""
    client = subprocess.Popen(
        [forks.python, "-c", SLEEPING],
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert client.stdout is not None
    return client, int(client.stdout.readline())


def test_a_fork_dies_with_its_client(forks: Forks, fork: Fork) -> None:
    client, pid = start_sleeping(forks)
    assert is_there(pid)
    client.kill()
    client.communicate()
    assert wait_for(lambda: not is_there(pid))
    assert not wait_for_zombies(forks)
    assert fork("-c", "print(1)").stdout == "1\n"  # the server still serves


def wait_for_zombies(forks: Forks) -> list[str]:
    """The children of an idle server, once they had time to go."""
    children = Path(f"/proc/{forks.server.pid}/task/{forks.server.pid}/children")
    wait_for(lambda: not children.read_text().split())
    return children.read_text().split()


def test_the_death_of_the_server_is_told(tmp_path: Path) -> None:
    forks = Forks(clean_environment())
    client, pid = start_sleeping(forks)
    forks.server.kill()
    forks.server.wait()
    _, said = client.communicate()
    assert client.returncode == 1 and "the server of forks (zygote.py) has ended" in said
    assert wait_for(lambda: not is_there(pid))
    with pytest.raises(RuntimeError, match="has ended"):
        forks.run("-c", "pass", cwd=tmp_path, environment=clean_environment())
    forks.end()
    assert not forks.folder.exists()


def test_a_server_that_cannot_start_is_told(tmp_path: Path) -> None:
    forks = Forks(clean_environment(), "no_such_module_anywhere")
    with pytest.raises(RuntimeError, match="has ended"):
        forks.run("-c", "pass", cwd=tmp_path, environment=clean_environment())
    forks.end()


OWNER = """
import os, sys
from pathlib import Path
from forks import Forks
code = "import os, time; open('fork.txt', 'w').write(f'{os.getpid()} '); time.sleep(600)"
forks = Forks(dict(os.environ))
print(forks.server.pid, forks.folder, flush=True)
forks.run("-c", code, cwd=Path.cwd(), environment=dict(os.environ))
"""


def test_nothing_is_left_when_the_tests_are_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=tmp_path,
        env=clean_environment(PYTHONPATH=str(Path(__file__).parent)),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    number, folder = owner.stdout.readline().split()
    server = int(number)
    said = tmp_path / "fork.txt"
    assert wait_for(lambda: said.exists() and said.read_text().endswith(" "))
    fork = int(said.read_text())
    assert is_there(server) and is_there(fork)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    assert wait_for(lambda: not is_there(server) and not is_there(fork))
    assert not Path(folder).exists()


def test_a_client_that_dies_while_it_asks_is_no_harm(forks: Forks, fork: Fork) -> None:
    for text in (b"", b'{"arguments": ["-c", "pass"'):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(forks.socket)
            client.sendall(text)
    assert fork("-c", "print(1)").stdout == "1\n"
    assert os.path.exists(forks.socket)
