"""Runs one cell's command for a limited time and leaves nothing behind."""
import contextlib
import ctypes
import dataclasses
import os
import pathlib
import signal
import subprocess
import time

GRACE_S = 5             # after SIGTERM
END_S = 60              # after SIGKILL: taking back a whole GPU's memory takes time
PR_SET_PDEATHSIG = 1
FOLDERS = ("LD_LIBRARY_PATH", "PYTHONPATH")     # libcuda.so.1 or PyTorch may be found only by these
INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM)
STRANGE = ("PLEAT_", "PYTORCH_", "CUDA_LAUNCH_BLOCKING")    # these would change what is measured


@dataclasses.dataclass(frozen=True)
class Ended:
    status: int             # of the process; negative: the signal that ended it
    output: str             # standard output
    errors: str             # standard error
    seconds: float
    was_stopped: bool       # it ran past its limit


def begin_child():
    """In the child: if this run is killed, no cell stays behind and holds the GPU."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)


def running_in(group):
    """Process numbers of a group that still run. An orphan that nobody has fetched yet is a zombie:
    it holds nothing, so it does not count."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            state, _, its_group = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:3]
        except OSError:     # it has ended meanwhile
            continue
        if int(its_group) == group and state not in "ZX":
            found.append(int(folder.name))
    return found


def stop(process):
    """End the child and what it started, politely first. Returns once none of it runs: a process
    that is still ending still holds its part of the GPU."""
    for sign, seconds in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, END_S)):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        deadline = time.monotonic() + seconds
        while running_in(process.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        if not running_in(process.pid):
            break
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)


def laid_over(environment):
    """The environment of a cell: this one, without variables that would influence an allocator. The
    folders that the cell names come before the existing ones."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(STRANGE)}
    if "libpleat_runtime.so" in kept.get("LD_PRELOAD", ""):
        del kept["LD_PRELOAD"]
    joined = {name: f"{environment[name]}:{kept[name]}" for name in FOLDERS
              if environment.get(name) and kept.get(name)}
    return {**kept, **environment, **joined}


def start(command, environment, folder):
    return subprocess.Popen(
        [str(part) for part in command], cwd=folder, env=laid_over(environment),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace", start_new_session=True, preexec_fn=begin_child)


def run(command, environment, folder, limit_s):
    """Without a limit if limit_s is None. Raises OSError if the command cannot be started. An
    interruption waits until there is a process that it can stop."""
    begin = time.monotonic()
    process = None
    was_stopped = False
    signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)
    try:
        process = start(command, environment, folder)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        was_stopped = True
        stop(process)
        output, errors = process.communicate()
    except BaseException:
        if process:
            stop(process)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)
    return Ended(process.returncode, output, errors, time.monotonic() - begin, was_stopped)
