# labels: python
"""Calls of the simulated CUDA runtime that PyTorch hardly makes and others do: host memory on any
side of a copy, managed memory, what streams say of themselves, pools for decompression."""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("PLEAT_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("PLEAT_BUILD_DIR", ROOT / "build"))
RUNTIME = BUILD / "libpleat_runtime.so"

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")

BEGIN = """
import ctypes as C, random
rt = C.CDLL(None)
INVALID, REGISTERED, NOT_REGISTERED = 1, 712, 713
HOST, DEVICE, MANAGED = 1, 2, 3
def ok(result):
    assert result == 0, result
def make(call, *arguments):
    at = C.c_void_p()
    ok(call(C.byref(at), *arguments))
    return at.value
def size(n):
    return C.c_size_t(n)
def place(at):
    return C.c_void_p(at)
def number(call, *arguments):
    value = C.c_int(-77)
    ok(call(*arguments, C.byref(value)))
    return value.value
def look(at):
    out = C.create_string_buffer(24)
    ok(rt.cudaPointerGetAttributes(out, place(at)))
    words = C.cast(out, C.POINTER(C.c_int))
    return words[0], words[1]
ok(rt.cudaSetDevice(0))
"""


def run(code: str, backing: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code],
        env={**os.environ, "LD_PRELOAD": str(RUNTIME),
             "PLEAT_SIM": f"capacity:64M,context:0,devices:2,host:1G,backing:{backing}"},
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


both = pytest.mark.parametrize("backing", ["none", "memory"])


@both
def test_copies_between_all_kinds_of_memory_arrive(backing: str) -> None:
    """Sizes, places and the direction that the caller says, right or wrong, are drawn."""
    run("""
N = 1 << 16
own = C.create_string_buffer(N)
plain = C.create_string_buffer(N)
registered = C.addressof(own)
ok(rt.cudaHostRegister(place(registered), size(N), 0))
hosts = [make(rt.cudaHostAlloc, size(N), 0), make(rt.cudaMallocHost, size(N)),
         make(rt.cudaMallocManaged, size(N), 1), registered, C.addressof(plain)]
device = make(rt.cudaMalloc, size(N))
draw = random.Random(46)
for step in range(300):
    source, target = draw.sample(hosts, 2)
    n, at, to = draw.randint(1, 5000), draw.randint(0, 60000), draw.randint(0, 60000)
    through = draw.random() < 0.5
    C.memset(target, 1, N)
    C.memset(source, 2, N)
    byte = draw.randint(3, 255)
    C.memset(source + at, byte, n)
    pinned = C.addressof(plain) not in (source, target)
    said = lambda: draw.choice([0, 1, 2, 3, 4]) if pinned else 4
    if through:
        ok(rt.cudaMemcpy(place(device + to), place(source + at), size(n), said() if pinned else 1))
        ok(rt.cudaMemcpy(place(target + to), place(device + to), size(n), said() if pinned else 2))
    else:
        ok(rt.cudaMemcpy(place(target + to), place(source + at), size(n), said()))
    got = C.string_at(target, N)
    assert got == b"\\1" * to + bytes([byte]) * n + b"\\1" * (N - to - n), (step, source, target)
for at in hosts[:4]:
    ok(rt.cudaMemset(place(at + 7), 9, size(100)))
    assert C.string_at(at + 7, 100) == b"\\t" * 100
ok(rt.cudaHostUnregister(place(registered)))
assert rt.cudaHostUnregister(place(registered)) == NOT_REGISTERED
for at in hosts[:2]:
    ok(rt.cudaFreeHost(place(at)))
    assert rt.cudaFreeHost(place(at)) == INVALID
ok(rt.cudaFree(place(hosts[2])))
""", backing)


@both
def test_addresses_are_what_they_are(backing: str) -> None:
    run("""
ok(rt.cudaSetDevice(1))
managed = make(rt.cudaMallocManaged, size(100 << 20), 1)        # more than the device has
assert look(managed + 50)[0] == MANAGED
device = make(rt.cudaMalloc, size(4096))
assert look(device) == (DEVICE, 1)
pinned = make(rt.cudaHostAlloc, size(4096), 0)
assert look(pinned)[0] == HOST
plain = C.create_string_buffer(4096)
assert look(C.addressof(plain)) == (0, -2)
assert rt.cudaHostRegister(place(pinned), size(4096), 0) == REGISTERED
location = C.c_uint64(1)
ok(rt.cudaMemPrefetchAsync(place(managed), size(4096), location, 0, None))
assert rt.cudaMemPrefetchAsync(place(device), size(4096), location, 0, None) == INVALID
ok(rt.cudaMemAdvise(place(managed), size(4096), 1, location))
assert rt.cudaMemAdvise(place(managed), size(4096), 7, location) == INVALID
assert rt.cudaMemAdvise(place(pinned), size(4096), 1, location) == INVALID
for name, there in ((19, 1), (41, 1), (83, 1), (99, 1), (89, 0)):
    value = C.c_int(-1)
    ok(rt.cudaDeviceGetAttribute(C.byref(value), name, 0))
    assert value.value == there, name
    ok(rt.cuDeviceGetAttribute(C.byref(value), name, 0))
    assert value.value == there, name
for at in (0, managed):
    ok(rt.cudaFree(place(at)))
""", backing)


@both
def test_streams_say_what_they_are(backing: str) -> None:
    run("""
least, greatest = C.c_int(), C.c_int()
ok(rt.cudaDeviceGetStreamPriorityRange(C.byref(least), C.byref(greatest)))
ids = set()
for flags in (0, 1):
    for asked in range(greatest.value - 2, least.value + 3):
        stream = make(rt.cudaStreamCreateWithPriority, flags, asked)
        assert number(rt.cudaStreamGetFlags, place(stream)) == flags
        assert number(rt.cudaStreamGetPriority, place(stream)) == max(greatest.value, min(asked, 0))
        made = C.c_ulonglong()
        ok(rt.cudaStreamGetId(place(stream), C.byref(made)))
        ids.add(made.value)
        ok(rt.cudaStreamDestroy(place(stream)))
assert len(ids) == 2 * (least.value - greatest.value + 5)
assert number(rt.cudaStreamGetFlags, None) == 0
""", backing)


@both
def test_a_pool_for_decompression_is_a_pool(backing: str) -> None:
    run("""
class Props(C.Structure):
    _fields_ = [("type", C.c_int), ("handle_types", C.c_int), ("location", C.c_int * 2),
                ("attributes", C.c_void_p), ("most", C.c_size_t), ("usage", C.c_ushort),
                ("reserved", C.c_ubyte * 54)]
props = Props(type=1, location=(1, 0), usage=2)
pool = make(rt.cudaMemPoolCreate, C.byref(props))
at = make(rt.cudaMallocFromPoolAsync, size(4096), place(pool), None)
ok(rt.cudaFreeAsync(place(at), None))
used = lambda: number(rt.cudaMemPoolGetAttribute, place(pool), 7)       # UsedMemCurrent
standard = make(rt.cudaDeviceGetMemPool, 0)
assert rt.cudaDeviceSetMemPool(0, None) == INVALID
ok(rt.cudaDeviceSetMemPool(0, place(pool)))
assert make(rt.cudaDeviceGetMemPool, 0) == pool and make(rt.cudaDeviceGetMemPool, 1) != pool
at = make(rt.cudaMallocAsync, size(1 << 20), None)
assert used() == 1 << 20
ok(rt.cudaFreeAsync(place(at), None))
ok(rt.cudaMemPoolDestroy(place(pool)))
assert make(rt.cudaDeviceGetMemPool, 0) == standard
props.usage = 4
assert rt.cudaMemPoolCreate(C.byref(C.c_void_p()), C.byref(props)) == INVALID
""", backing)


def test_a_program_with_a_runtime_of_its_own_is_told_how_to_link() -> None:
    """A linked-in runtime asks the driver for this table first."""
    done = subprocess.run(
        [sys.executable, "-c",
         "import ctypes as C; table = C.c_void_p()\n"
         "key = bytes.fromhex('6bd5fb6c5bf4e74a8987d93912fd9df9')\n"
         "assert C.CDLL(None).cuGetExportTable(C.byref(table), key) != 0"],
        env={**os.environ, "LD_PRELOAD": str(RUNTIME)}, capture_output=True, text=True, check=True)
    assert "nvcc -cudart shared" in done.stderr
