"""Collectives between processes, each on a simulated device: the calls themselves, by ctypes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import RUNTIME, clean_environment

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")

NOTHING = "capacity:1G,devices:4"
CONTENTS = NOTHING + ",backing:memory"

COMMON = """
import ctypes, os, sys, time

OK, INVALID_ARGUMENT, INVALID_USAGE, REMOTE = 0, 4, 5, 6
UINT8, INT64, FLOAT = 1, 4, 7
RANK, N = int(sys.argv[1]), int(sys.argv[2])
FOLDER = sys.argv[3]
PEER = (RANK + 1) % N

class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]

cuda = ctypes.CDLL(None)                       # the simulated runtime is preloaded
cuda.ncclGetLastError.restype = ctypes.c_char_p
cuda.ncclGetErrorString.restype = ctypes.c_char_p
cuda.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
long, ptr, int_ = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
cuda.ncclAllReduce.argtypes = [ptr, ptr, long, int_, int_, ptr, ptr]
cuda.ncclReduceScatter.argtypes = cuda.ncclAllReduce.argtypes
cuda.ncclReduce.argtypes = [ptr, ptr, long, int_, int_, int_, ptr, ptr]
cuda.ncclBroadcast.argtypes = [ptr, ptr, long, int_, int_, ptr, ptr]
cuda.ncclGather.argtypes = cuda.ncclScatter.argtypes = cuda.ncclBroadcast.argtypes
cuda.ncclAllGather.argtypes = cuda.ncclAlltoAll.argtypes = [ptr, ptr, long, int_, ptr, ptr]
cuda.ncclSend.argtypes = cuda.ncclRecv.argtypes = [ptr, long, int_, int_, ptr, ptr]
cuda.ncclCommSplit.argtypes = [ptr, int_, int_, ptr, ptr]
cuda.ncclCommShrink.argtypes = [ptr, ptr, int_, ptr, ptr, int_]
for name in ("Count", "UserRank", "CuDevice", "GetAsyncError"):
    getattr(cuda, "ncclComm" + name).argtypes = [ptr, ptr]
for name in ("Destroy", "Abort", "Finalize"):
    getattr(cuda, "ncclComm" + name).argtypes = [ptr]
cuda.ncclCommRegister.argtypes = [ptr, ptr, long, ptr]
cuda.ncclCommDeregister.argtypes = [ptr, ptr]

def good(result):
    assert result == OK, (result, cuda.ncclGetErrorString(result), cuda.ncclGetLastError(None))

def last_error():
    return cuda.ncclGetLastError(None).decode()

def allocate(n):
    out = ptr()
    assert cuda.cudaMalloc(ctypes.byref(out), long(n)) == 0
    return out.value

def write(at, what):
    assert cuda.cudaMemcpy(ptr(at), what, long(len(what)), 1) == 0

def read(at, n):
    to = ctypes.create_string_buffer(n)
    assert cuda.cudaMemcpy(to, ptr(at), long(n), 2) == 0
    return to.raw

def pattern(rank, n):
    return bytes((i * 7 + rank * 31 + 1) % 256 for i in range(1 << 12)) * (n >> 12)

def share_id(name="id"):
    at, new = os.path.join(FOLDER, name), Id()
    if RANK == 0:
        good(cuda.ncclGetUniqueId(ctypes.byref(new)))
        with open(at + ".new", "wb") as file:
            file.write(bytes(new))
        os.rename(at + ".new", at)
    while not os.path.exists(at):
        time.sleep(0.01)
    return Id.from_buffer_copy(open(at, "rb").read())

def join(id=None, n=N, rank=RANK, device=RANK):
    comm = ptr()
    assert cuda.cudaSetDevice(device) == 0
    result = cuda.ncclCommInitRank(ctypes.byref(comm), n, id or share_id(), rank)
    return result if result != OK else comm

def ask(what, comm):
    out = int_()
    good(getattr(cuda, "ncclComm" + what)(comm, ctypes.byref(out)))
    return out.value
"""


def run_ranks(
    tmp_path: Path, code: str, n: int = 2, sim: str = CONTENTS, **extra: str
) -> list[str]:
    """Run the ranks and get their outputs; all must end well, and leave nothing in /dev/shm."""
    path = tmp_path / "rank.py"
    path.write_text(COMMON + code)
    environment = clean_environment(LD_PRELOAD=str(RUNTIME), PLEAT_SIM=sim, **extra)
    ranks = [
        subprocess.Popen(
            [sys.executable, str(path), str(rank), str(n), str(tmp_path)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(n)
    ]
    said = [rank.communicate(timeout=120) for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), said
    return [out + err for out, err in said]


MOVES = """
n = 1 << 18                                    # several letters of a mailbox
ROOT = N - 1
comm = join()
assert (ask("Count", comm), ask("UserRank", comm)) == (N, RANK)
assert (ask("CuDevice", comm), ask("GetAsyncError", comm)) == (RANK, OK)
mine, all = allocate(n), allocate(n * N)

write(mine, pattern(RANK, n))
good(cuda.ncclAllGather(mine, all, n, UINT8, comm, None))
assert read(all, n * N) == b"".join(pattern(r, n) for r in range(N))

good(cuda.ncclBroadcast(mine, mine, n // 8, INT64, ROOT, comm, None))
assert read(mine, n) == pattern(ROOT, n)

write(all, b"".join(pattern(RANK * N + r, n) for r in range(N)))
other = allocate(n * N)
good(cuda.ncclAlltoAll(all, other, n, UINT8, comm, None))
assert read(other, n * N) == b"".join(pattern(r * N + RANK, n) for r in range(N))

good(cuda.ncclScatter(all, mine, n, UINT8, ROOT, comm, None))
assert read(mine, n) == pattern(ROOT * N + RANK, n)

write(other, bytes(n * N))
good(cuda.ncclGather(mine, other, n, UINT8, 0, comm, None))
found = b"".join(pattern(ROOT * N + r, n) for r in range(N)) if RANK == 0 else bytes(n * N)
assert read(other, n * N) == found

write(mine, pattern(RANK, n))                  # a ring: each to the next
good(cuda.ncclGroupStart())
good(cuda.ncclSend(mine, n, UINT8, PEER, comm, None))
good(cuda.ncclRecv(all, n, UINT8, (RANK - 1) % N, comm, None))
good(cuda.ncclSend(mine, n, UINT8, RANK, comm, None))
good(cuda.ncclRecv(other, n, UINT8, RANK, comm, None))
assert read(all, n) == pattern(RANK * N, n)    # nothing moved yet
good(cuda.ncclGroupEnd())
assert read(all, n) == pattern((RANK - 1) % N, n) and read(other, n) == pattern(RANK, n)

write(all, b"".join(pattern(r, n) for r in range(N)))
good(cuda.ncclReduceScatter(all, mine, n // 4, FLOAT, 0, comm, None))
assert read(mine, n) == pattern(RANK, n)       # what this rank contributed: nothing is computed
good(cuda.ncclAllReduce(mine, other, n // 4, FLOAT, 0, comm, None))
assert read(other, n) == pattern(RANK, n)
good(cuda.ncclCommFinalize(comm))
good(cuda.ncclCommDestroy(comm))
"""


@pytest.mark.parametrize("n", [2, 3])
def test_bytes_move_where_memory_has_contents(tmp_path: Path, n: int) -> None:
    run_ranks(tmp_path, MOVES, n)


def test_one_rank_alone(tmp_path: Path) -> None:
    run_ranks(tmp_path, MOVES, 1)


KNOWN = """
n, large = 1000, 2 << 20
comm = join()
mine, all = allocate(large), allocate(large * N)
bytes_of = lambda rank: bytes((rank + i) % 251 + 1 for i in range(n))

write(mine, bytes_of(RANK))
assert read(mine, n) == bytes_of(RANK) and read(mine + 10, n) == bytes_of(RANK)[10:] + bytes(10)
good(cuda.ncclAllGather(mine, all, n, UINT8, comm, None))
assert read(all, n * N) == b"".join(bytes_of(r) for r in range(N))

assert cuda.cudaMemcpy(ptr(all + large), ptr(all), long(n), 3) == 0
assert read(all + large, n) == bytes_of(0)

good(cuda.ncclAllReduce(mine, all, n, UINT8, 0, comm, None))
assert read(all, n) == bytes(n)                # computed, so not known
assert read(all + n, n) == bytes_of(1)
assert cuda.cudaMemset(ptr(all + n), 0, long(3)) == 0
assert read(all + n, n) == bytes(3) + bytes_of(1)[3:]

dim3 = (ctypes.c_uint * 3)(1, 1, 1)
class Dim3(ctypes.Structure):
    _fields_ = [(axis, ctypes.c_uint) for axis in "xyz"]
one = Dim3(1, 1, 1)
if RANK == 0:
    assert cuda.cudaLaunchKernel(None, one, one, None, long(0), None) == 0
    assert read(mine, n) == bytes(n)           # a kernel may have written anywhere
good(cuda.ncclAllGather(mine, all, n, UINT8, comm, None))
assert read(all, n * N) == bytes(n) + b"".join(bytes_of(r) for r in range(1, N))

write(mine, bytes(range(1, 129)) * (large >> 7))
assert read(mine, large) == bytes(large)       # too much to remember
good(cuda.ncclAllGather(mine, all, large, UINT8, comm, None))
assert read(all, n) == bytes(n)
good(cuda.ncclCommDestroy(comm))
"""


def test_without_contents_known_bytes_move(tmp_path: Path) -> None:
    run_ranks(tmp_path, KNOWN, sim=NOTHING)


SPLIT = """
comm = join()
half, none, small = ptr(), ptr(), ptr()
good(cuda.ncclCommSplit(comm, RANK % 2, -RANK, ctypes.byref(half), None))
assert ask("Count", half) == 2 and ask("UserRank", half) == (1 if RANK < 2 else 0)
mine, all = allocate(4096), allocate(8192)
write(mine, pattern(RANK, 4096))
good(cuda.ncclAllGather(mine, all, 4096, UINT8, half, None))
assert read(all, 8192) == pattern(RANK % 2 + 2, 4096) + pattern(RANK % 2, 4096)

good(cuda.ncclCommSplit(comm, -1 if RANK == 3 else 5, 0, ctypes.byref(none), None))
assert (none.value is None) == (RANK == 3)
if RANK < 3:
    assert ask("Count", none) == 3 and ask("UserRank", none) == RANK
    good(cuda.ncclAllReduce(mine, all, 1, FLOAT, 0, none, None))
    good(cuda.ncclCommDestroy(none))

if RANK != 1:
    excluded = (int_ * 1)(1)
    good(cuda.ncclCommShrink(comm, excluded, 1, ctypes.byref(small), None, 0))
    assert ask("Count", small) == 3 and ask("UserRank", small) == (RANK - 1 if RANK > 1 else 0)
    good(cuda.ncclAllReduce(mine, all, 1, FLOAT, 0, small, None))
    good(cuda.ncclCommDestroy(small))
good(cuda.ncclCommDestroy(half))
good(cuda.ncclCommDestroy(comm))
"""


def test_communicators_are_split_and_shrunk(tmp_path: Path) -> None:
    run_ranks(tmp_path, SPLIT, 4)


DIFFERENT = """
comm = join()
mine, all = allocate(4096), allocate(4096 * N)
good(cuda.ncclAllReduce(mine, all, 8, FLOAT, 0, comm, None))
result = (cuda.ncclAllReduce(mine, all, 8, FLOAT, 0, comm, None) if RANK == 0 else
          cuda.ncclBroadcast(mine, all, 8, FLOAT, 0, comm, None))
assert result == INVALID_USAGE, result
text = last_error()
assert "ncclAllReduce(count=8, type=7, op=0) as call 2" in text, text
assert "ncclBroadcast(count=8, type=7, op=0, root=0) as call 2" in text.replace(
    "type=7, root", "type=7, op=0, root"), text
assert ask("GetAsyncError", comm) == INVALID_USAGE
assert cuda.ncclAllReduce(mine, all, 8, FLOAT, 0, comm, None) == INVALID_USAGE
good(cuda.ncclCommAbort(comm))
"""

COUNTS = """
comm = join()
mine, all = allocate(4096), allocate(4096 * N)
result = (cuda.ncclSend(mine, 8, FLOAT, 1, comm, None) if RANK == 0 else
          cuda.ncclRecv(mine, 9, FLOAT, 0, comm, None))
assert RANK == 0 or (result == INVALID_USAGE and "count=9" in last_error()), last_error()
good(cuda.ncclCommAbort(comm))
"""


@pytest.mark.parametrize("code", [DIFFERENT, COUNTS])
@pytest.mark.parametrize("sim", [NOTHING, CONTENTS])
def test_ranks_that_call_different_things_are_told(tmp_path: Path, code: str, sim: str) -> None:
    run_ranks(tmp_path, code, sim=sim)


GONE = """
comm = join()
mine, all = allocate(4096), allocate(4096 * N)
good(cuda.ncclAllReduce(mine, all, 8, FLOAT, 0, comm, None))
if RANK == 1 and HOW == "destroy":
    good(cuda.ncclCommDestroy(comm))
elif RANK == 1:
    os._exit(0)
else:
    assert cuda.ncclAllReduce(mine, all, 8, FLOAT, 0, comm, None) == REMOTE
    assert "rank 0, in ncclAllReduce, waits for rank 1" in last_error(), last_error()
    good(cuda.ncclCommAbort(comm))
"""

LATE = """
id = share_id()
if RANK == 0:
    result = join(id)
    assert result == REMOTE and "1 s in ncclCommInitRank for rank 1" in last_error(), last_error()
    assert not [name for name in os.listdir("/dev/shm") if bytes(id)[16:32].hex() in name]
"""

ABORTED = """
import threading
comm = join()
mine = allocate(4096)
if RANK == 0:
    threading.Timer(0.5, lambda: good(cuda.ncclCommAbort(comm))).start()
    assert cuda.ncclAllReduce(mine, mine, 8, FLOAT, 0, comm, None) == INVALID_USAGE
    assert "aborted in ncclAllReduce" in last_error(), last_error()
    open(os.path.join(FOLDER, "over"), "w").close()
while not os.path.exists(os.path.join(FOLDER, "over")):
    time.sleep(0.01)
if RANK == 1:
    good(cuda.ncclAllReduce(mine, mine, 8, FLOAT, 0, comm, None))  # rank 0 had called that one
    assert cuda.ncclAllReduce(mine, mine, 8, FLOAT, 0, comm, None) == REMOTE
    assert "rank 0 (process" in last_error() and "left" in last_error(), last_error()
"""


@pytest.mark.parametrize("how", ["destroy", "exit"])
def test_a_rank_that_goes_ends_the_wait_for_it(tmp_path: Path, how: str) -> None:
    run_ranks(tmp_path, f"HOW = {how!r}\n" + GONE)


def test_a_rank_that_never_comes_ends_the_wait(tmp_path: Path) -> None:
    run_ranks(tmp_path, LATE, PLEAT_NCCL_TIMEOUT="1")


def test_an_abort_on_another_thread_ends_the_wait(tmp_path: Path) -> None:
    run_ranks(tmp_path, ABORTED)


REFUSED = """
id = share_id()
assert join(id, device=1) == INVALID_USAGE and "Duplicate GPU" in last_error(), last_error()

assert join(share_id("2"), n=2 + RANK, rank=0 if RANK == 0 else 2) in (INVALID_USAGE, REMOTE)
assert "3 ranks" in last_error() or "2 ranks" in last_error() or RANK == 0, last_error()
assert join(share_id("3"), rank=N) == INVALID_ARGUMENT
assert join(Id(), rank=0) == INVALID_ARGUMENT and "ncclGetUniqueId" in last_error()

comm = join(share_id("4"))
mine, foreign = allocate(4096), ptr()
call = cuda.ncclAllReduce
assert call(mine, mine, 8, 99, 0, comm, None) == INVALID_ARGUMENT
assert call(mine, mine, 8, FLOAT, -1, comm, None) == INVALID_ARGUMENT
assert call(mine, mine, 8, FLOAT, 0, None, None) == INVALID_ARGUMENT
assert cuda.ncclBroadcast(mine, mine, 8, FLOAT, N, comm, None) == INVALID_ARGUMENT
assert cuda.ncclGroupEnd() == INVALID_USAGE
good(call(mine, mine, 8, FLOAT, 0, comm, None))

assert cuda.ncclMemAlloc(ctypes.byref(foreign), long(1000)) == OK
handle = ptr()
good(cuda.ncclCommRegister(comm, foreign, 1000, ctypes.byref(handle)))
good(cuda.ncclCommDeregister(comm, handle))
assert cuda.ncclCommDeregister(comm, None) == INVALID_ARGUMENT
good(cuda.ncclMemFree(foreign))
assert cuda.ncclMemAlloc(ctypes.byref(foreign), long(1 << 40)) == 1, "unhandled cuda error"
good(cuda.ncclCommDestroy(comm))
"""


def test_what_is_wrong_is_refused_by_name(tmp_path: Path) -> None:
    run_ranks(tmp_path, REFUSED, PLEAT_NCCL_TIMEOUT="5")


ONE_PROCESS = """
comms = (ptr * 3)()
good(cuda.ncclCommInitAll(comms, 3, None))
mine, all = [], []
for device in range(3):
    assert cuda.cudaSetDevice(device) == 0
    mine.append(allocate(4096))
    all.append(allocate(3 * 4096))
    write(mine[-1], pattern(device, 4096))
good(cuda.ncclGroupStart())
for device in range(3):
    good(cuda.ncclAllGather(mine[device], all[device], 4096, UINT8, comms[device], None))
good(cuda.ncclGroupEnd())
for device in range(3):
    assert cuda.cudaSetDevice(device) == 0
    assert read(all[device], 3 * 4096) == b"".join(pattern(r, 4096) for r in range(3))
id, made = Id(), (ptr * 2)()
good(cuda.ncclGetUniqueId(ctypes.byref(id)))
good(cuda.ncclGroupStart())
for rank in range(2):
    assert cuda.cudaSetDevice(rank) == 0
    at = ctypes.cast(ctypes.addressof(made) + 8 * rank, ptr)
    good(cuda.ncclCommInitRank(at, 2, id, rank))
good(cuda.ncclGroupEnd())
assert [ask("UserRank", comm) for comm in made] == [0, 1]
for comm in [*comms, *made]:
    good(cuda.ncclCommDestroy(comm))
"""


def test_several_devices_of_one_process(tmp_path: Path) -> None:
    run_ranks(tmp_path, ONE_PROCESS, 1)


HAZARDS = """
class Hazard(ctypes.Structure):
    _fields_ = [("kind", int_), ("ptr", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
                ("call", ctypes.c_uint64), ("text", ctypes.c_char * 160)]
comm = join()
mine, all, side = allocate(4096), allocate(8192), ptr()
assert cuda.cudaStreamCreateWithPriority(ctypes.byref(side), 1, 0) == 0
good(cuda.ncclAllGather(mine, all, 4096, UINT8, comm, side))
cuda.pleat_sim_hazards.restype = long
assert cuda.pleat_sim_hazards(None, long(0)) == 0
other = ptr()
assert cuda.cudaStreamCreateWithPriority(ctypes.byref(other), 1, 0) == 0
good(cuda.ncclAllReduce(all, mine, 8, FLOAT, 0, comm, other))      # not ordered after the first
assert cuda.pleat_sim_hazards(None, long(0)) == 1
good(cuda.ncclCommDestroy(comm))
"""


def test_they_take_their_turn_on_their_stream(tmp_path: Path) -> None:
    run_ranks(tmp_path, HAZARDS, sim=NOTHING)
