"""The codes of libpleat as an exception: `PleatError`."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

OK = 0
EPENDING = 11
ENOMEM_DEVICE = 13

NAMES = (
    "PLEAT_OK", "PLEAT_EINVAL", "PLEAT_ESIZE", "PLEAT_ECONF", "PLEAT_EDEVICE", "PLEAT_ESTREAM",
    "PLEAT_EFOREIGN", "PLEAT_EDOUBLEFREE", "PLEAT_EGONE", "PLEAT_EFORKED", "PLEAT_EBUSY",
    "PLEAT_EPENDING", "PLEAT_ENOMEM_HOST", "PLEAT_ENOMEM_DEVICE", "PLEAT_ENOSPACE_VA",
    "PLEAT_EDRIVER", "PLEAT_ENODRIVER", "PLEAT_ENOVMM", "PLEAT_EPOISONED", "PLEAT_ECAPTURE",
    "PLEAT_ENOTSUP", "PLEAT_EPOOL", "PLEAT_EWRITE", "PLEAT_ESHARE", "PLEAT_EASLEEP",
)  # fmt: skip


class PleatError(RuntimeError):
    """A call of libpleat failed.

    status        pleat_status as an integer; its name is `name`
    text          one sentence: the failure, and a remedy
    driver_call   the driver's function that failed, or ""
    driver_result CUresult, 0 if no driver call failed
    bytes         size of the request, 0 if none
    """

    def __init__(
        self,
        status: int,
        text: str,
        driver_call: str = "",
        driver_result: int = 0,
        n_bytes: int = 0,
    ) -> None:
        self.status = status
        self.text = text
        self.driver_call = driver_call
        self.driver_result = driver_result
        self.bytes = n_bytes
        super().__init__(f"{self.name}: {text}" if text else self.name)

    @property
    def name(self) -> str:
        """The constant of the status: "PLEAT_ECONF"."""
        return NAMES[self.status] if 0 <= self.status < len(NAMES) else f"status {self.status}"

    def __reduce__(self) -> tuple[type[PleatError], tuple[int, str, str, int, int]]:
        return PleatError, (
            self.status,
            self.text,
            self.driver_call,
            self.driver_result,
            self.bytes,
        )


class ErrorRecord(ctypes.Structure):
    """pleat_error of pleat.h."""

    _fields_ = (
        ("status", ctypes.c_int),
        ("driver_result", ctypes.c_int),
        ("driver_call", ctypes.c_char_p),
        ("bytes", ctypes.c_uint64),
        ("text", ctypes.c_char_p),
        ("verdict", ctypes.c_int),
    )


class LastError(NamedTuple):
    """pleat_last_error of the calling thread, copied."""

    status: int
    text: str
    driver_call: str
    driver_result: int
    bytes: int


def copy_record(record: ErrorRecord) -> LastError:
    """The texts only live until the thread's next failure, hence the copy."""
    return LastError(
        record.status,
        (record.text or b"").decode(errors="replace"),
        (record.driver_call or b"").decode(errors="replace"),
        record.driver_result,
        record.bytes,
    )
