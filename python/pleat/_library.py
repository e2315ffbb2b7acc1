"""Finds and loads libpleat.so, and declares its functions.

The package contains the library; PLEAT_LIBRARY names another file (such as a build folder's). The
first use loads the library, which stays loaded. Loading touches no GPU and starts no thread.
"""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path

from ._status import OK, ErrorRecord, LastError, PleatError, copy_record

STATS_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64)
WRITE_FN = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Instance(ctypes.Structure):
    """`pleat` of pleat.h: an instance, by value."""

    _fields_ = (("slot", ctypes.c_uint32), ("generation", ctypes.c_uint32))


class DeviceInfo(ctypes.Structure):
    """pleat_device_info of pleat.h. The texts live as long as the instance."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("driver", ctypes.c_char_p),
        ("allocator", ctypes.c_char_p),
        ("note", ctypes.c_char_p),
        ("total_bytes", ctypes.c_uint64),
        ("granule_bytes", ctypes.c_uint64),
        ("limit_bytes", ctypes.c_uint64),
    )


class CompactionRecord(ctypes.Structure):
    """pleat_compaction of pleat.h."""

    _fields_ = (
        ("n_split", ctypes.c_uint64),
        ("moved_bytes", ctypes.c_uint64),
        ("won_bytes", ctypes.c_uint64),
    )


class SleptRecord(ctypes.Structure):
    """pleat_slept of pleat_tag.h."""

    _fields_ = (
        ("bytes", ctypes.c_uint64),
        ("shared_bytes", ctypes.c_uint64),
        ("kept_bytes", ctypes.c_uint64),
        ("left_bytes", ctypes.c_uint64),
    )


_STAT = ctypes.c_uint64 * 4


class TagRecord(ctypes.Structure):
    """pleat_tag_info of pleat_tag.h; a pleat_stat is current, peak, allocated, freed."""

    _fields_ = (
        ("blocks", _STAT),
        ("allocated_bytes", _STAT),
        ("requested_bytes", _STAT),
        ("resident_bytes", ctypes.c_uint64),
        ("asleep_bytes", ctypes.c_uint64),
        ("kept_bytes", ctypes.c_uint64),
        ("limit_bytes", ctypes.c_uint64),
        ("n_sleeps", ctypes.c_uint64),
        ("is_asleep", ctypes.c_int),
    )


_INT = ctypes.c_int
_SIZE = ctypes.c_size_t
_PTR = ctypes.c_void_p
_TEXT = ctypes.c_char_p
_U64 = ctypes.c_uint64
_OUT = ctypes.POINTER(ctypes.c_uint64)

# name: (result, arguments). A pleat_status is a c_int: see check().
_PROTOTYPES: dict[str, tuple[object, list[object]]] = {
    "pleat_version": (_TEXT, []),
    "pleat_last_error": (ctypes.POINTER(ErrorRecord), []),
    "pleat_create": (_INT, [_TEXT, ctypes.POINTER(Instance)]),
    "pleat_default": (_INT, [ctypes.POINTER(Instance)]),
    "pleat_destroy": (_INT, [Instance, ctypes.c_uint]),
    "pleat_instance_conf": (_INT, [Instance, _TEXT, _SIZE, ctypes.POINTER(_SIZE)]),
    "pleat_malloc": (_PTR, [_SIZE, _INT, _PTR]),
    "pleat_free": (None, [_PTR, _SIZE, _INT, _PTR]),
    "pleat_block_record_stream": (_INT, [Instance, _INT, _U64, _PTR]),
    "pleat_buffer_create": (_INT, [Instance, _INT, _U64, _U64, _OUT]),
    "pleat_buffer_resize": (_INT, [Instance, _INT, _U64, _U64, _PTR]),
    "pleat_buffer_destroy": (_INT, [Instance, _INT, _U64, _PTR]),
    "pleat_device_trim": (_INT, [Instance, _INT, _U64, ctypes.c_bool, _OUT]),
    "pleat_device_compact_sized": (_INT, [Instance, _INT, _SIZE, ctypes.POINTER(CompactionRecord)]),
    "pleat_device_set_limit": (_INT, [Instance, _INT, _U64]),
    "pleat_device_memory_info": (_INT, [Instance, _INT, _OUT, _OUT]),
    "pleat_device_query_sized": (_INT, [Instance, _INT, _SIZE, ctypes.POINTER(DeviceInfo)]),
    "pleat_device_stats_sized": (_INT, [Instance, _INT, _SIZE, _PTR]),
    "pleat_device_reset_peaks": (_INT, [Instance, _INT]),
    "pleat_check": (_INT, [Instance, ctypes.POINTER(_INT)]),
    "pleat_history_record": (_INT, [Instance, _SIZE, ctypes.c_uint]),
    "pleat_snapshot_write": (_INT, [Instance, _INT, WRITE_FN, _PTR]),
    "pleat_snapshot_dump": (_INT, [Instance, _TEXT]),
    "pleat_tag_push": (_INT, [_TEXT]),
    "pleat_tag_pop": (_INT, []),
    "pleat_tag_name": (_TEXT, [ctypes.c_uint]),
    "pleat_tag_set_limit": (_INT, [Instance, _INT, _TEXT, _U64]),
    "pleat_tag_query_sized": (_INT, [Instance, _INT, _TEXT, _SIZE, ctypes.POINTER(TagRecord)]),
    "pleat_tag_sleep_sized": (
        _INT,
        [Instance, _INT, _TEXT, _INT, _TEXT, _SIZE, ctypes.POINTER(SleptRecord)],
    ),
    "pleat_tag_wake_sized": (
        _INT,
        [Instance, _INT, _TEXT, _U64, _SIZE, ctypes.POINTER(SleptRecord)],
    ),
    "pleat_tag_retain": (_INT, [Instance, _INT, _TEXT, _INT]),
    "pleat_tag_read_kept": (_INT, [Instance, _INT, _U64, _SIZE, _PTR]),
    "pleat_tag_find_kept": (_INT, [Instance, _INT, _U64, _SIZE, ctypes.POINTER(_PTR)]),
    "pleat_torch_malloc": (_PTR, [_SIZE, _INT, _PTR]),
    "pleat_torch_free": (None, [_PTR, _SIZE, _INT, _PTR]),
    "pleat_torch_reset": (None, []),
    "pleat_torch_stats": (_INT, [_INT, STATS_FN, _PTR]),
    "pleat_torch_reset_accumulated": (_INT, [_INT]),
    "pleat_set_current_stream": (_INT, [_INT, _PTR]),
    "pleat_current_stream": (_PTR, [_INT]),
    "pleat_cupy_malloc": (_PTR, [_PTR, _SIZE, _INT]),
    "pleat_cupy_free": (None, [_PTR, _PTR, _INT]),
    "pleat_numba_malloc": (_PTR, [_SIZE]),
    "pleat_numba_free": (None, [_PTR]),
    "pleat_ort_alloc": (_PTR, [_SIZE]),
    "pleat_ort_free": (None, [_PTR]),
    "pleat_ort_empty_cache": (None, []),
    "pleat_rmm_alloc": (_PTR, [_SIZE, _PTR, _PTR]),
    "pleat_rmm_dealloc": (None, [_PTR, _SIZE, _PTR, _PTR]),
}


def library_path() -> str:
    """Tell where libpleat.so is.

    Returns  an absolute path: PLEAT_LIBRARY of the environment, else the package's own.
    Raises   FileNotFoundError if there is none.
    Threads  any.
    """
    named = os.environ.get("PLEAT_LIBRARY")
    path = Path(named) if named else Path(__file__).parent / "_lib" / "libpleat.so"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is not there: install the package with pip, or let PLEAT_LIBRARY name a "
            "libpleat.so"
        )
    return str(path.resolve())


def beside(name: str) -> str | None:
    """Find the path of another library beside libpleat.so; None if missing."""
    path = Path(library_path()).parent / name
    return str(path) if path.is_file() else None


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """Load libpleat.so and set the prototypes of its functions.

    Returns  the same object at every call.
    Raises   FileNotFoundError; OSError if the library cannot be loaded.
    Threads  any.
    """
    loaded = ctypes.CDLL(library_path())
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    return loaded


def last_error() -> LastError:
    """Copy the error of the calling thread's last failing call; status 0 before the first."""
    return copy_record(library().pleat_last_error().contents)


def check(status: int) -> None:
    """Raise the PleatError of a status other than PLEAT_OK, with the thread's last error."""
    if status == OK:
        return
    error = last_error()
    if error.status != status:
        raise PleatError(status, "")
    raise PleatError(*error)
