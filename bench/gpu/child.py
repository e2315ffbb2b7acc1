"""Runs one cell's command: for so long and no longer, leaving nothing behind."""
import ctypes
import dataclasses
import os
import signal
import subprocess
import time

GRACE_S = 5
PR_SET_PDEATHSIG = 1


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


def run(command, environment, folder, limit_s):
    """Raises OSError where the command cannot be started."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [str(part) for part in command], cwd=folder, env={**os.environ, **environment},
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
