"""A python with torch imported (zygote.py) that runs code in forks of itself."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ZYGOTE = Path(__file__).parent / "zygote.py"


class Forks:
    """Pythons with one start: run() works as if a fresh python had imported torch.

    torch reads some variables while loading, so they come from `environment`:
    PYTORCH_CUDA_ALLOC_CONF's backend, OMP_NUM_THREADS, LD_PRELOAD. All others come from run()."""

    def __init__(self, environment: dict[str, str], *modules: str) -> None:
        self.process: Any = subprocess.Popen(
            [sys.executable, str(ZYGOTE), *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def run(
        self, code: str, cwd: Path, environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as name:
            out, err = Path(name) / "stdout.txt", Path(name) / "stderr.txt"
            request = {
                "code": code,
                "cwd": str(cwd),
                "environment": environment,
                "stdout": str(out),
                "stderr": str(err),
            }
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            assert answer, "the zygote died"
            done = subprocess.CompletedProcess(["zygote"], int(answer))
            done.stdout, done.stderr = out.read_text(), err.read_text()
            return done

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()
