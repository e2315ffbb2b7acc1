"""Every call of the CUDA runtime that PyTorch links is simulated. The preloaded object exports no
other names, since they would replace the names of all libraries in the program."""
# labels: python

import re
import subprocess
import sys
from pathlib import Path

import pytest
from on_sim import RUNTIME, environment

torch = pytest.importorskip("torch")

LIBRARIES = ("libc10_cuda.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_python.so")
OURS = re.compile(r"(__)?cuda[A-Z]\w*|cublas[A-Z]\w*|nccl[A-Z]\w*")
# Copies between host and matrices, with sizes as first parameters. MAGMA uses them; PyTorch does
# not.
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


# Calls of PyTorch 2.6 for CUDA 12.4 that 2.11 for CUDA 13 does not make. The 2.6 wheel is not
# installed here.
OLDER = {
    "cudaGetDeviceProperties_v2",
    "cudaGraphInstantiate",
    "cudaHostGetDevicePointer",
    "cudaStreamGetCaptureInfo_v2",
    "cuStreamWriteValue32",
}


def test_what_older_versions_call_is_there_too() -> None:
    assert OLDER <= symbols(RUNTIME, "--defined-only")


def test_pointer_attributes_fit_into_cuda_12_s() -> None:
    # 24 bytes in CUDA 12; CUDA 13 reserves 64 more.
    code = (
        "import ctypes; runtime = ctypes.CDLL(None); at = ctypes.c_void_p()\n"
        "assert runtime.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(4096)) == 0\n"
        "out = ctypes.create_string_buffer(b'x' * 96, 96)\n"
        "for where in (at, ctypes.cast(out, ctypes.c_void_p)):\n"
        "    assert runtime.cudaPointerGetAttributes(out, where) == 0\n"
        "    assert out.raw[:4] == bytes([2 if where is at else 0, 0, 0, 0])\n"
        "    assert out.raw[24:] == b'x' * 72\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment("native", "capacity:1G"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# A pure function, and a function with undocumented tables. Both stay the vendor's own.
NOT_REFUSED = {"cudaCreateChannelDesc", "cudaGetExportTable"}


def runtime_header() -> Path | None:
    packages = Path(torch.__file__).parents[1] / "nvidia"
    for name in ("cu13", "cuda_runtime"):
        path = packages / name / "include/cuda_runtime_api.h"
        if path.is_file():
            return path
    return None


def test_what_is_not_simulated_is_refused_by_name() -> None:
    header = runtime_header()
    if header is None:
        pytest.skip("no wheel with cuda_runtime_api.h")
    declared = set(re.findall(r"\bCUDARTAPI\s+(cuda[A-Z]\w+)\(", header.read_text()))
    assert len(declared) > 250
    missing = declared - symbols(RUNTIME, "--defined-only")
    assert missing == NOT_REFUSED & declared


def test_a_refused_call_says_its_name_once() -> None:
    code = (
        "import ctypes; runtime = ctypes.CDLL(None); p = ctypes.c_void_p()\n"
        "for _ in range(2): assert runtime.cudaArrayGetInfo(ctypes.byref(p), p, p, p) == 801\n"
        "assert runtime.cudaGetLastError() == 801 and runtime.cudaGetLastError() == 0\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment("native", "capacity:1G"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "pleat_runtime: cudaArrayGetInfo is not simulated\n"


def test_nothing_else_is_exported() -> None:
    of_cuda = re.compile(r"(__)?cuda[A-Z]\w*|cublas[A-Z]\w*|cu[A-Z]\w*|nccl[A-Z]\w*")
    others = {name for name in symbols(RUNTIME, "--defined-only") if not of_cuda.fullmatch(name)}
    assert others == {
        "_ZNK2at7Context16userEnabledCuDNNEv",
        "_ZNK2at7Context19userEnabledCuDNNSDPEv",
        "_ZN3c104cuda17get_fabric_accessEa",
    }
