"""pleat under ONNX Runtime's CUDA execution provider.

    session = onnxruntime.InferenceSession(
        path, providers=[("CUDAExecutionProvider", pleat.onnxruntime.cuda_provider_options())])

The provider computes on the legacy default stream as soon as it has an external allocator, so all
sessions of a device share its memory safely; and it refuses a `user_compute_stream`.
"""

from __future__ import annotations

import ctypes

from ._library import library


def _address(name: str) -> str:
    return str(ctypes.cast(getattr(library(), name), ctypes.c_void_p).value)


def cuda_provider_options(device: int = 0) -> dict[str, str]:
    """Options of CUDAExecutionProvider that make it allocate from pleat; add others at will.

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
