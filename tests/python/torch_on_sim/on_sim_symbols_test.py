"""Every call of the CUDA runtime that PyTorch is linked with is simulated. The preloaded object
exports no other names: they would replace those of all libraries of the program."""
# labels: python torch

import re
import subprocess
from pathlib import Path

import pytest
from on_sim import RUNTIME

torch = pytest.importorskip("torch")

LIBRARIES = ("libc10_cuda.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_python.so")
OURS = re.compile(r"(__)?cuda[A-Z]\w*|cublas[A-Z]\w*")
# Copies between host and matrices whose first parameters are sizes: MAGMA uses them, not PyTorch.
NOT_OURS = re.compile(r"cublas[GS]et(Matrix|Vector)Async")


def symbols(library: Path, which: str) -> set[str]:
    out = subprocess.run(
        ["nm", "-D", which, str(library)], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines()}


@pytest.mark.parametrize("library", LIBRARIES)
def test_nothing_that_pytorch_calls_is_missing(library: str) -> None:
    wanted = symbols(Path(torch.__file__).parent / "lib" / library, "--undefined-only")
    wanted = {name for name in wanted if OURS.fullmatch(name) and not NOT_OURS.fullmatch(name)}
    assert wanted
    assert wanted <= symbols(RUNTIME, "--defined-only")


def test_nothing_else_is_exported() -> None:
    of_cuda = re.compile(r"(__)?cuda[A-Z]\w*|cublas[A-Z]\w*|cu[A-Z]\w*")
    others = {name for name in symbols(RUNTIME, "--defined-only") if not of_cuda.fullmatch(name)}
    assert others == {
        "_ZNK2at7Context16userEnabledCuDNNEv",
        "_ZNK2at7Context19userEnabledCuDNNSDPEv",
    }
