"""pleat under ONNX Runtime's CUDA execution provider.

    session = onnxruntime.InferenceSession(
        path, providers=[("CUDAExecutionProvider", pleat.onnxruntime.cuda_provider_options())])

With an external allocator the provider computes on the legacy default stream, so all sessions of a
device share its memory safely. The provider then refuses a `user_compute_stream`.
"""

from __future__ import annotations

import ctypes

from ._library import library


def _address(name: str) -> str:
    return str(ctypes.cast(getattr(library(), name), ctypes.c_void_p).value)


def cuda_provider_options(device: int = 0) -> dict[str, str]:
    """Make options for CUDAExecutionProvider to allocate from pleat; add further options at will.

    Returns  device_id and the addresses of pleat's three functions, all as decimal strings.
    Raises   FileNotFoundError; OSError if libpleat cannot be loaded.
    Threads  any. Touches no GPU.
    """
    return {
        "device_id": str(device),
        "gpu_external_alloc": _address("pleat_ort_alloc"),
        "gpu_external_free": _address("pleat_ort_free"),
        "gpu_external_empty_cache": _address("pleat_ort_empty_cache"),
    }
