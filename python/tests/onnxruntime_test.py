"""Calls the addresses for ONNX Runtime as ONNX Runtime does. If its wheel and NVIDIA's libraries
are installed, also runs the real CUDA provider on the simulated runtime."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import RUNTIME, Run

NVIDIA = importlib.util.find_spec("nvidia")
LIBRARIES = [
    str(folder)
    for root in (NVIDIA.submodule_search_locations if NVIDIA else None) or []
    for folder in sorted(Path(root).glob("*/lib"))
]


def test_the_options_are_callable_addresses(run: Run) -> None:
    run(
        """
        import ctypes, pleat, pleat.onnxruntime
        options = pleat.onnxruntime.cuda_provider_options(0)
        assert options["device_id"] == "0"
        def function(name, result, *arguments):
            return ctypes.CFUNCTYPE(result, *arguments)(int(options["gpu_external_" + name]))
        alloc = function("alloc", ctypes.c_void_p, ctypes.c_size_t)
        free = function("free", None, ctypes.c_void_p)
        empty_cache = function("empty_cache", None)
        blocks = [alloc(size) for size in (1, 1000, 3 << 20)]
        assert all(blocks)
        assert pleat.memory_stats()["requested_bytes.all.current"] == 1001 + (3 << 20)
        assert alloc(1 << 31) is None
        assert "2.00 GiB" in pleat.last_error().text
        for block in blocks:
            free(block)
        assert pleat.memory_stats()["requested_bytes.all.current"] == 0
        empty_cache()
        assert pleat.memory_stats()["reserved_bytes.all.current"] == 0
        """,
        PLEAT_CONF="driver:sim,sim:[capacity:1G]",
    )


# A model that adds its two inputs of 4 floats, as a protocol buffer. Kernels compute nothing here,
# so the test sees only which allocator gave the memory.
SESSION = """
import numpy as np, onnxruntime, pleat, pleat.onnxruntime

def tag(number, payload):
    return bytes([number << 3 | 2, len(payload)]) + payload

def varint(number, value):
    return bytes([number << 3, value])

def value(name):
    shape = tag(2, tag(1, varint(1, 4)))
    return tag(1, name) + tag(2, tag(1, varint(1, 1) + shape))

node = tag(1, b"a") + tag(1, b"b") + tag(2, b"c") + tag(4, b"Add")
graph = (tag(1, node) + tag(2, b"graph") + tag(11, value(b"a")) + tag(11, value(b"b"))
         + tag(12, value(b"c")))
model = varint(1, 8) + tag(7, graph) + tag(8, varint(2, 13))
options = pleat.onnxruntime.cuda_provider_options()
session = onnxruntime.InferenceSession(model, providers=[("CUDAExecutionProvider", options)])
assert session.get_providers()[0] == "CUDAExecutionProvider"
used = session.get_provider_options()["CUDAExecutionProvider"]
assert {key: used[key] for key in options} == options
x = np.ones(4, np.float32)
session.run(None, {"a": x, "b": x})
stats = pleat.memory_stats()
assert stats["allocation.all.allocated"] >= 3, stats["allocation.all.allocated"]
del session
stats = pleat.memory_stats()
assert stats["allocation.all.current"] == 0, stats["allocation.all.current"]
assert pleat.check_invariants() == 0
"""

# A library that loads, and does nothing else.
CUDNN = """
#include <stddef.h>

int cudnnCreate(void **handle) { static char dummy; *handle = &dummy; return 0; }
int cudnnDestroy(void *handle) { return handle == NULL; }
int cudnnSetStream(void *handle, void *stream) { return handle == stream; }

size_t cudnnGetVersion(void) { return 91000; }
const char *cudnnGetErrorString(int status) { return status ? "failure" : "success"; }
"""


@pytest.mark.skipif(not importlib.util.find_spec("onnxruntime"), reason="no onnxruntime-gpu")
@pytest.mark.skipif(not LIBRARIES, reason="NVIDIA's libraries are not installed")
@pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")
def test_a_session_of_the_real_cuda_provider_allocates_from_pleat(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "cudnn.c"
    source.write_text(CUDNN)
    compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wl,-soname,libcudnn.so.9", "-o",
         str(tmp_path / "libcudnn.so.9"), str(source)],
        check=True,
    )  # fmt: skip
    run(
        SESSION,
        LD_PRELOAD=str(RUNTIME),
        LD_LIBRARY_PATH=":".join([str(tmp_path), *LIBRARIES]),
        PLEAT_SIM="capacity:1G,backing:memory",
        PLEAT_CONF="driver:sim",
    )
