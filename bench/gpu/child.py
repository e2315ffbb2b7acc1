"""Runs one cell's command: for so long and no longer, leaving nothing behind."""
import ctypes
import dataclasses
import os
import signal
import subprocess
import time

GRACE_S = 5
PR_SET_PDEATHSIG = 1
FOLDERS = ("LD_LIBRARY_PATH", "PYTHONPATH")     # libcuda.so.1 or PyTorch may be found by them only
STRANGE = ("PLEAT_", "PYTORCH_", "CUDA_LAUNCH_BLOCKING")    # would measure something else


@dataclasses.dataclass(frozen=True)
class Ended:
    status: int             # of the process; negative: the signal that ended it
    output: str             # standard output
    errors: str             # standard error
    seconds: float
    was_stopped: bool       # it ran past its limit


def die_with_parent():
    """In the child: a run that is killed leaves no cell behind that holds the GPU."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def stop(process):
    """End the child and what it started; politely first."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue


def laid_over(environment):
    """What a cell runs in: this environment, without what would change an allocator's mind. The
    folders that the cell names come before those that are there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(STRANGE)}
    if "libpleat_runtime.so" in kept.get("LD_PRELOAD", ""):
        del kept["LD_PRELOAD"]
    joined = {name: f"{environment[name]}:{kept[name]}" for name in FOLDERS
              if environment.get(name) and kept.get(name)}
    return {**kept, **environment, **joined}


def run(command, environment, folder, limit_s):
    """Raises OSError where the command cannot be started."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [str(part) for part in command], cwd=folder, env=laid_over(environment),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace", start_new_session=True, preexec_fn=die_with_parent)
    was_stopped = False
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        was_stopped = True
        stop(process)
        output, errors = process.communicate()
    except BaseException:
        stop(process)
        raise
    return Ended(process.returncode, output, errors, time.monotonic() - begin, was_stopped)
