"""pleat as a class derived from torch's own CUDAAllocator, compiled on this machine.

torch changes the class CUDAAllocator from version to version. So the package has the sources
(source/) of pleat's class, and compiles them against the headers of the installed torch, once for
each version of torch and of pleat. The library goes into pleat's cache folder,
$XDG_CACHE_HOME/pleat or ~/.cache/pleat. Processes that start together wait there for the process
that compiles. Compiling needs a C++ compiler ($CXX, else c++, g++ or clang++) and the headers of
the CUDA runtime, which come with torch's wheel.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from .._library import library_path

SOURCE = Path(__file__).parent / "source"
INCLUDE = Path(__file__).parents[1] / "_include"
OLDEST_TORCH = (2, 6)
FIRST_TORCH_OF_CXX20 = (2, 12)


_loaded: list[ctypes.CDLL] = []  # the class, once it is installed


class Unavailable(RuntimeError):
    """Why the class is not available here; the hooks still are."""


def prepare(again: bool = False) -> str:
    """Find the compiled class, or compile it.

    Params   again  try although an earlier attempt with the same versions failed.
    Returns  the path of the library.
    Raises   Unavailable with the reason.
    Blocks   while the class is compiled, some 10 s, after a line on standard error; while another
             process compiles.
    """
    check_version()
    compiler = find_compiler()
    include = [INCLUDE, *torch_include(), cuda_include()]
    folder = cache_folder()
    key = cache_key(compiler)
    path, failure = folder / f"class-{key}.so", folder / f"class-{key}.failed"
    if path.is_file():
        return str(path)
    try:
        with locked(folder / "lock"):
            if path.is_file():
                return str(path)
            if failure.is_file() and not again:
                raise Unavailable(f"its class did not compile before; {failure} says why")
            compile_into(path, failure, compiler, include)
    except OSError as error:  # a full disk, a file system without locks
        raise Unavailable(f"its class cannot be compiled into {folder}: {error}") from None
    return str(path)


def install(path: str) -> None:
    """Make the compiled class torch's allocator. Before the first use of CUDA.

    Raises  RuntimeError: torch refuses. Unavailable: the library cannot be loaded.
    """
    # The class finds pleat's functions among the global symbols, whatever file they come from: one
    # compiled class serves a wheel, and every build of the same sources.
    ctypes.CDLL(library_path(), mode=ctypes.RTLD_GLOBAL)
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        Path(path).unlink(missing_ok=True)  # the next process compiles it for this machine
        raise Unavailable(f"its class cannot be loaded: {error}") from None
    _loaded.append(loaded)
    loaded.pleat_torch_install.restype = ctypes.c_char_p
    problem = loaded.pleat_torch_install()
    if problem is not None:
        raise RuntimeError(problem.decode(errors="replace").splitlines()[0])


def install_pinned() -> None:
    """Make pleat torch's allocator of pinned memory, after install(). Raises RuntimeError."""
    if not _loaded:
        raise RuntimeError(
            "pleat takes torch's pinned memory with its class only: call "
            'pleat.torch.install(binding="class") first'
        )
    _loaded[0].pleat_torch_install_pinned.restype = ctypes.c_char_p
    problem = _loaded[0].pleat_torch_install_pinned()
    if problem is not None:
        raise RuntimeError(problem.decode(errors="replace").splitlines()[0])


def torch_version() -> tuple[int, ...]:
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def check_version() -> None:
    if torch_version() < OLDEST_TORCH:
        oldest = ".".join(str(part) for part in OLDEST_TORCH)
        raise Unavailable(f"torch {torch.__version__} is older than {oldest}")
    if not (INCLUDE / "pleat_torch.h").is_file():
        raise Unavailable(f"{INCLUDE} has no headers: install the package with pip")


def find_compiler() -> list[str]:
    named = os.environ.get("CXX")
    if named and named.strip():
        command = shlex.split(named)
        if shutil.which(command[0]) is None:
            raise Unavailable(f"there is no C++ compiler: CXX is {named}")
        return command
    for name in ("c++", "g++", "clang++"):
        found = shutil.which(name)
        if found:
            return [found]
    raise Unavailable("there is no C++ compiler (c++, g++, clang++, or what CXX names)")


def compiler_version(compiler: list[str]) -> str:
    """Read the compiler's version text, which differs between versions under the same name."""
    try:
        said = run_compiler([*compiler, "--version"]).stdout.splitlines()
    except OSError as error:
        raise Unavailable(f"the C++ compiler {compiler[0]} does not run: {error}") from None
    return said[0] if said else ""


def torch_include() -> list[Path]:
    include = Path(torch.__file__).parent / "include"
    if not (include / "c10/cuda/CUDACachingAllocator.h").is_file():
        raise Unavailable(f"torch has no C++ headers in {include}")
    return [include, include / "torch/csrc/api/include"]


def cuda_include() -> Path:
    """Find the folder of cuda_runtime_api.h: in the wheels that torch requires, or in a toolkit."""
    spec = importlib.util.find_spec("nvidia")
    wheels = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    major = (torch.version.cuda or "").split(".")[0]
    places = [wheel / name for wheel in wheels for name in (f"cu{major}", "cuda_runtime")]
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            places.append(Path(os.environ[variable]))
    places.append(Path("/usr/local/cuda"))
    for place in places:
        if (place / "include/cuda_runtime_api.h").is_file():
            return place / "include"
    raise Unavailable(
        "there are no headers of the CUDA runtime: install nvidia-cuda-runtime, or let CUDA_HOME "
        "name a toolkit"
    )


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(base):
        raise Unavailable(f"there is no home folder to keep it in: {base} is no absolute path")
    folder = Path(base) / "pleat" / "torch"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise Unavailable(f"the cache folder {folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise Unavailable(f"the cache folder {folder} cannot be written to")
    found = folder.stat()  # files there are loaded into this process
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise Unavailable(f"others can write to the cache folder {folder}")
    return folder


def cache_key(compiler: list[str]) -> str:
    """Everything that the compiled library depends on."""
    mark = hashlib.sha256()
    for path in sorted([*SOURCE.glob("*.?pp"), *INCLUDE.glob("*.h")]):
        mark.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    facts = (
        torch.__version__,
        getattr(torch.version, "git_version", ""),
        str(torch.version.cuda),
        str(torch._C._GLIBCXX_USE_CXX11_ABI),
        platform.machine(),
        shlex.join(compiler),
        compiler_version(compiler),
    )
    mark.update("\0".join(facts).encode())
    return f"{torch.__version__.split('+')[0]}-{mark.hexdigest()[:16]}"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def compile_into(path: Path, failure: Path, compiler: list[str], include: list[Path]) -> None:
    print(
        f"pleat: compiling its class for torch {torch.__version__}, once, some 10 s",
        file=sys.stderr,
        flush=True,
    )
    said = ""
    is_lasting = True
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="new-") as folder:
        new = Path(folder) / "class.so"
        for standard in standards():
            command = compile_command(compiler, standard, include, new)
            done = run_compiler(command)
            if done.returncode == 0 and new.is_file():
                os.replace(new, path)
                failure.unlink(missing_ok=True)
                return
            said += f"{shlex.join(command)}\n{done.stderr}\n"
            is_lasting = is_lasting and done.returncode > 0  # it was not killed
    if not is_lasting:
        raise Unavailable("the compiler of its class was killed")
    failure.write_text(said, errors="replace")
    raise Unavailable(f"its class does not compile; {failure} says why")


def standards() -> tuple[str, str]:
    """The C++ standard that torch's headers most likely need, then the second guess."""
    is_new = torch_version() >= FIRST_TORCH_OF_CXX20
    return ("c++20", "c++17") if is_new else ("c++17", "c++20")


def run_compiler(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def compile_command(
    compiler: list[str], standard: str, include: list[Path], out: Path
) -> list[str]:
    libraries = Path(torch.__file__).parent / "lib"
    return [
        *compiler,
        f"-std={standard}",
        *("-O2", "-fPIC", "-shared", "-fno-plt", "-fvisibility=hidden", "-w"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        f"-I{SOURCE}",
        *(f"-I{path}" for path in include),
        str(SOURCE / "all.cpp"),
        *("-o", str(out)),
        *(f"-L{libraries}", "-ltorch_cpu", "-lc10_cuda", "-lc10"),
        *("-Wl,--allow-shlib-undefined", "-Wl,-z,nodelete"),
    ]
