"""CUDA tensors of another process, through torch.multiprocessing: their bytes, there and back.

Processes are forks of a python that has imported torch, the spawned ones too. class_test.py starts
fresh ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import RUNTIME, run_arguments

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")

CONTENTS = "capacity:4G,backing:memory"

# What each process checks: bytes, since kernels compute nothing.
COMMON = """
import gc, os, sys, torch, torch.multiprocessing as mp

MIB = 1 << 20

def pattern(n, seed):
    return (torch.arange(n, dtype=torch.int64) * 7 + seed).to(torch.uint8)

def put(n, seed):
    return pattern(n, seed).cuda()

def check(tensor, n, seed):
    assert tensor.is_cuda and torch.equal(tensor.cpu(), pattern(n, seed)), (n, seed)

"""

# The two processes of all exchanges, one after the other: each has queues of its own.
BOTH = """
import importlib, sys
import gc, torch, torch.multiprocessing as mp

NAMES = "exchanged within released large".split()

def work(queues, done):
    for name, (there, back) in zip(NAMES, queues):
        importlib.import_module(name).work(there, back)
        gc.collect()
        torch.cuda.synchronize()
        done.put(name)

if __name__ == "__main__":
    if sys.argv[1] != "native":
        import pleat.torch
        pleat.torch.install(binding=sys.argv[1])
    context = mp.get_context("spawn")
    queues = [(context.Queue(), context.Queue()) for _ in NAMES]
    done = context.Queue()
    child = context.Process(target=work, args=(queues, done))
    child.start()
    for name, (there, back) in zip(NAMES, queues):
        def end():
            assert done.get() == name
            gc.collect()
            torch.cuda.ipc_collect()
        importlib.import_module(name).give(there, back, end)
        print(name, flush=True)
    child.join()
    assert child.exitcode == 0, child.exitcode
"""


def run_script(
    tmp_path: Path, python: Path, allocator: str, script: str, **extra: str
) -> str:
    """Run a script, by that python; its output."""
    path = tmp_path / "script.py"
    path.write_text(script)
    done = run_arguments(
        str(path),
        allocator,
        cwd=tmp_path,
        python=python,
        LD_PRELOAD=str(RUNTIME),
        **{"PLEAT_SIM": CONTENTS, "OMP_NUM_THREADS": "1", **extra},
    )
    assert "own allocator" not in done.stderr and "Traceback" not in done.stderr, done.stderr
    return done.stdout


EXCHANGE = """
def work(there, back):
    small, large = there.get()
    check(small, 1000, 1)
    check(large, 5 * MIB, 2)
    assert torch.cuda.memory_allocated() == 0  # it is the other process's
    large.record_stream(torch.cuda.Stream())
    large.copy_(pattern(5 * MIB, 3))           # into the other process's memory
    torch.cuda.synchronize()
    mine = put(3 * MIB, 4)
    back.put(mine)
    assert there.get() == "seen"               # the owner keeps what it sent until then
    check(large, 5 * MIB, 3)
    del small, large

def give(there, back, end):
    small, large = put(1000, 1), put(5 * MIB, 2)
    there.put((small, large))
    theirs = back.get()
    check(theirs, 3 * MIB, 4)
    check(large, 5 * MIB, 3)
    theirs.copy_(pattern(3 * MIB, 5))
    check(theirs, 3 * MIB, 5)
    del theirs
    there.put("seen")
    end()
    check(small, 1000, 1)
    del small, large
    assert torch.cuda.memory_allocated() == 0
"""


WITHIN = """
def work(there, back):
    views = there.get()
    rows = there.get()
    base = views[0].untyped_storage().data_ptr()
    for i, view in enumerate(views):
        check(view, 1000, 1000 * 7 * i)
        assert view.storage_offset() == 1000 * i
        assert view.untyped_storage().data_ptr() == base
    check(rows.flatten(), 8000, 1000 * 7 * 4)
    assert rows.shape == (8, 1000)
    views[3].copy_(pattern(1000, 9))
    other = there.get()                        # another storage of the same block of memory
    check(other, 500, 11)
    torch.cuda.synchronize()
    back.put("seen")
    assert there.get() == "end"

def give(there, back, end):
    all = put(20000, 0)
    there.put([all[1000 * i:1000 * i + 1000] for i in range(4)])
    there.put(all[4000:12000].view(8, 1000))
    other = put(500, 11)
    there.put(other)
    assert back.get() == "seen"
    check(all[3000:4000], 1000, 9)
    check(all[2000:3000], 1000, 2000 * 7)
    check(all[4000:], 16000, 4000 * 7)
    there.put("end")
    end()
"""


RELEASED = """
def work(there, back):
    for seed in range(20):
        tensor = there.get()
        check(tensor, 2 * MIB, seed)
        del tensor
        back.put(seed)

def give(there, back, end):
    for seed in range(20):
        tensor = put(2 * MIB, seed)
        there.put(tensor)
        del tensor                             # the consumer may not have opened it yet
        if seed % 4 == 3:
            assert [back.get() for _ in range(4)] == list(range(seed - 3, seed + 1))
    end()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == 0, torch.cuda.memory_allocated()
"""


LARGE = """
def work(there, back):
    tensor = there.get()
    check(tensor[: MIB], MIB, 1)
    check(tensor[-MIB:], MIB, 2)
    tensor[150 * MIB : 151 * MIB].copy_(pattern(MIB, 3))
    torch.cuda.synchronize()
    back.put("seen")
    assert there.get() == "end"

def give(there, back, end):
    keep = [torch.empty(n * MIB, dtype=torch.uint8, device="cuda") for n in (30, 50, 40)]
    del keep[::2]
    tensor = torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
    tensor[:MIB].copy_(pattern(MIB, 1))
    tensor[-MIB:].copy_(pattern(MIB, 2))
    there.put(tensor)
    assert back.get() == "seen"
    check(tensor[150 * MIB : 151 * MIB], MIB, 3)
    there.put("end")
    end()
"""


@pytest.fixture(scope="module", params=["native", "class"])
def exchanges(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, forked_python: Path
) -> str:
    """What two processes with that allocator say after each exchange."""
    folder = tmp_path_factory.mktemp("both")
    for name, script in (
        ("exchanged", EXCHANGE),
        ("within", WITHIN),
        ("released", RELEASED),
        ("large", LARGE),
    ):
        (folder / f"{name}.py").write_text(COMMON + script)
    return run_script(folder, forked_python, request.param, BOTH)


@pytest.mark.parametrize("name", ["exchanged", "within", "released", "large"])
def test_tensors_go_there_and_back(exchanges: str, name: str) -> None:
    assert name in exchanges.splitlines()


REFUSED = """
if __name__ == "__main__":
    import pleat.torch
    pleat.torch.install("shareable:False", binding="class")
    pleat.torch.install("shareable:False", binding="class")
    try:
        put(1000, 1).untyped_storage()._share_cuda_()
    except RuntimeError as error:
        assert "shareable:True" in str(error), error
        print("refused")
"""


def test_the_configuration_can_say_no(tmp_path: Path, forked_python: Path) -> None:
    assert run_script(tmp_path, forked_python, "class", COMMON + REFUSED) == "refused\n"


WITHOUT = """
if __name__ == "__main__":
    import pleat.torch
    pleat.torch.install(binding="class")
    assert "shareable:auto" in os.environ["PLEAT_CONF"]
    pleat.torch.install(binding="class")
    kept = put(1000, 1)
    try:
        kept.untyped_storage()._share_cuda_()
    except RuntimeError as error:
        print("device cannot share" in str(error).replace("the device", "device"))
"""


def test_a_device_that_cannot_share_serves_all_the_same(
    tmp_path: Path, forked_python: Path
) -> None:
    script, sim = COMMON + WITHOUT, "capacity:4G,profile:old_driver"
    assert run_script(tmp_path, forked_python, "class", script, PLEAT_SIM=sim) == "True\n"


CALLS = """
import ctypes, subprocess, sys

N = 5 << 20
SHARED_EVENT = 4 | 2                           # interprocess, without times
INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE = 1, 201, 400

class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]

cuda = ctypes.CDLL(None)                       # the simulated runtime is preloaded
at, event, plain = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
memory, point = Handle(), Handle()
open_memory = lambda flags=1: cuda.cudaIpcOpenMemHandle(ctypes.byref(at), memory, flags)
open_event = lambda: cuda.cudaIpcOpenEventHandle(ctypes.byref(event), point)
inside = lambda offset: ctypes.c_void_p(at.value + offset)

def read(offset, n):
    to = ctypes.create_string_buffer(n)
    assert cuda.cudaMemcpy(to, inside(offset), ctypes.c_size_t(n), 2) == 0
    return to.raw

def write(offset, what):
    assert cuda.cudaMemcpy(inside(offset), what, ctypes.c_size_t(len(what)), 1) == 0

def other():
    memory.bytes[:] = bytes.fromhex(sys.argv[2])
    point.bytes[:] = bytes.fromhex(sys.argv[3])
    assert open_memory(0) == INVALID_VALUE
    assert open_memory() == 0 and open_event() == 0
    assert cuda.cudaStreamWaitEvent(None, event, 0) == 0 and cuda.cudaEventQuery(event) == 0
    assert read(N - 5, 5) == b"there" and read(0, 3) == bytes(3)
    write(0, b"back")
    assert cuda.cudaFree(at) == INVALID_VALUE
    assert cuda.cudaIpcGetMemHandle(ctypes.byref(memory), at) == INVALID_VALUE
    assert cuda.cudaIpcCloseMemHandle(at) == 0
    assert cuda.cudaIpcCloseMemHandle(at) == INVALID_VALUE
    assert cuda.cudaGetLastError() == INVALID_VALUE and cuda.cudaGetLastError() == 0
    assert cuda.cudaEventDestroy(event) == 0

def owner():
    assert cuda.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(N)) == 0
    assert cuda.cudaMemset(at, 0, ctypes.c_size_t(N)) == 0
    write(N - 5, b"there")
    assert cuda.cudaIpcGetMemHandle(ctypes.byref(memory), inside(100)) == 0
    assert cuda.cudaIpcGetMemHandle(ctypes.byref(point), memory) == INVALID_VALUE
    assert cuda.cudaEventCreateWithFlags(ctypes.byref(plain), 2) == 0
    assert cuda.cudaIpcGetEventHandle(ctypes.byref(point), plain) == INVALID_HANDLE
    assert cuda.cudaEventCreateWithFlags(ctypes.byref(event), SHARED_EVENT) == 0
    assert cuda.cudaEventRecord(event, None) == 0
    assert cuda.cudaIpcGetEventHandle(ctypes.byref(point), event) == 0
    base = at.value
    assert open_memory() == INVALID_CONTEXT and open_event() == INVALID_CONTEXT
    assert at.value == base
    handles = [bytes(handle.bytes).hex() for handle in (memory, point)]
    subprocess.run([sys.executable, __file__, "other", *handles], check=True)
    assert read(0, 4) == b"back" and read(N - 5, 5) == b"there"
    assert cuda.cudaFree(at) == 0
    print("called")

other() if sys.argv[1] == "other" else owner()
"""


def test_the_runtime_s_calls(tmp_path: Path) -> None:
    path = tmp_path / "calls.py"
    path.write_text(CALLS)
    done = run_arguments(
        str(path), "owner", cwd=tmp_path, LD_PRELOAD=str(RUNTIME), PLEAT_SIM=CONTENTS
    )
    assert done.stdout == "called\n"
