"""Runs a command for a limited time and leaves nothing behind."""
import contextlib
import ctypes
import dataclasses
import os
import pathlib
import signal
import subprocess
import tempfile
import time

GRACE_S = 1             # after SIGTERM
END_S = 20              # after SIGKILL: taking back a whole GPU's memory takes time
PR_SET_PDEATHSIG = 1
C_LIBRARY = ctypes.CDLL(None)   # opened before any fork
FOLDERS = ("LD_LIBRARY_PATH", "PYTHONPATH")     # may be the only way to libcuda.so.1 or PyTorch
INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM)
STRANGE = ("PLEAT_", "PYTORCH_", "CUDA_LAUNCH_BLOCKING")    # would change the measurements


@dataclasses.dataclass(frozen=True)
class Ended:
    status: int | None      # exit status; negative: killed by a signal; None: still running
    output: str             # standard output
    errors: str             # standard error
    seconds: float
    was_stopped: bool       # after its time limit
    at: float               # time.monotonic() when it was over


def begin_child():
    """In the child: die with the parent, so that nothing stays behind and holds the GPU."""
    C_LIBRARY.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)


def running_in(group):
    """Numbers of a group's running processes. Zombies hold nothing, so they do not count."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            state, _, its_group = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:3]
        except OSError:     # the process has ended meanwhile
            continue
        if int(its_group) == group and state not in "ZX":
            found.append(int(folder.name))
    return found


def laid_over(environment):
    """Return the environment of a command. It is this process's environment, without variables
    that influence an allocator. The command's folders come before the existing ones."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(STRANGE)}
    if "libpleat_runtime.so" in kept.get("LD_PRELOAD", ""):
        del kept["LD_PRELOAD"]
    joined = {name: f"{environment[name]}:{kept[name]}" for name in FOLDERS
              if environment.get(name) and kept.get(name)}
    return {**kept, **environment, **joined}


class Child:
    """A command that runs. Output goes to files, since an orphan would keep a pipe open."""

    def __init__(self, command, environment, folder):
        self.begin = time.monotonic()
        self.output, self.errors = (tempfile.TemporaryFile("w+", errors="replace")
                                    for _ in range(2))
        signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)
        try:
            self.process = subprocess.Popen(
                [str(part) for part in command], cwd=folder, env=laid_over(environment),
                stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.errors,
                start_new_session=True, preexec_fn=begin_child)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)

    def signal_all(self, sign):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, sign)

    def stop(self):
        """End the child and its descendants, politely first. Returns once no process of the group
        runs, or after END_S. Until then an ending process still holds a part of the GPU."""
        for sign, seconds in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, END_S)):
            self.signal_all(sign)
            deadline = time.monotonic() + seconds
            while running_in(self.process.pid) and time.monotonic() < deadline:
                time.sleep(0.01)
            if not running_in(self.process.pid):
                break
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_S)

    def end(self, limit_s):
        """Wait for the end, or stop the child after limit_s."""
        was_stopped = False
        try:
            self.process.wait(max(limit_s, 0.01))
        except subprocess.TimeoutExpired:
            was_stopped = True
            self.stop()
        except BaseException:
            self.stop()
            raise
        at = time.monotonic()
        self.signal_all(signal.SIGKILL)
        return Ended(self.process.poll(), text_of(self.output), text_of(self.errors),
                     at - self.begin, was_stopped, at)


def text_of(file):
    file.seek(0)
    return file.read()


def run(command, environment, folder, limit_s):
    """Raises OSError if the command cannot be started."""
    return Child(command, environment, folder).end(limit_s)
