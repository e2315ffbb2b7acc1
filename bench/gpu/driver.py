"""The driver calls of these programs, through ctypes: no compiler, no PyTorch.

Under run.py --simulate libcuda.so.1 is the simulated runtime, whose kernels compute nothing."""
import argparse
import contextlib
import ctypes
import json
import sys
import time
from ctypes import byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_ushort, c_void_p

NO_KERNELS = "kernels compute nothing on the simulated device"
MIB, GIB = 1 << 20, 1 << 30
NOT_READY = 600
MULTIPROCESSORS, VMM, POSIX_FD, RDMA, FABRIC = 16, 102, 103, 110, 128   # attributes of a device
HOST_NODE, HOST_NODE_VMM = 134, 141
ON_DEVICE, ON_HOST_NODE = 1, 3      # locations of memory
FILE_DESCRIPTOR = 1                 # type of an exported handle
NON_BLOCKING = 1            # flag of a stream
DISABLE_TIMING = 2          # flag of an event
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2     # modes of a capture
READ_WRITE = 3
THREADS = 256               # of a block


class Location(ctypes.Structure):
    _fields_ = (("type", c_int), ("id", c_int))


class Flags(ctypes.Structure):
    _fields_ = (("compression", c_ubyte), ("rdma", c_ubyte), ("usage", c_ushort),
                ("reserved", c_ubyte * 4))


class Properties(ctypes.Structure):
    """CUmemAllocationProp."""
    _fields_ = (("type", c_int), ("handle_types", c_int), ("location", Location),
                ("win32", c_void_p), ("flags", Flags))


class Access(ctypes.Structure):
    """CUmemAccessDesc."""
    _fields_ = (("location", Location), ("flags", c_int))


DESTRUCTOR = ctypes.CFUNCTYPE(None, c_void_p)

# Every call with its parameters, since ctypes would cut an address in half. p: a pointer or a
# pointer-like handle; a: 64 bits; i: int; u: unsigned; c: a byte.
KINDS = {"p": c_void_p, "a": c_uint64, "i": c_int, "u": c_uint, "c": c_ubyte}
CALLS = """
    cuInit u; cuDriverGetVersion p; cuDeviceGet pi; cuDeviceGetAttribute pii; cuDeviceGetName pii;
    cuDevicePrimaryCtxRetain pi; cuCtxPushCurrent_v2 p; cuCtxPopCurrent_v2 p; cuCtxSynchronize -;
    cuCtxRecordEvent pp; cuMemGetInfo_v2 pp; cuMemAlloc_v2 pa; cuMemFree_v2 a; cuMemHostAlloc pau;
    cuMemGetAllocationGranularity ppi; cuMemAddressReserve paaaa; cuMemAddressFree aa;
    cuMemCreate papa; cuMemRelease a; cuMemMap aaaaa; cuMemSetAccess aapa; cuMemUnmap aa;
    cuMemGetAccess ppa; cuMemRetainAllocationHandle pp; cuMemExportToShareableHandle paia;
    cuMemImportFromShareableHandle ppi; cuMemsetD8Async acap; cuMemcpyHtoDAsync_v2 apap;
    cuMemcpyDtoHAsync_v2 paap; cuMemcpyDtoDAsync_v2 aaap; cuStreamCreate pu; cuStreamDestroy_v2 p;
    cuStreamQuery p; cuStreamGetCtx pp; cuStreamGetId pp; cuStreamIsCapturing pp;
    cuStreamSynchronize p; cuStreamWaitEvent ppu; cuStreamBeginCapture_v2 pi;
    cuStreamEndCapture pp; cuStreamGetCaptureInfo_v2 pppppp; cuStreamGetCaptureInfo_v3 ppppppp;
    cuThreadExchangeStreamCaptureMode p; cuEventCreate pu; cuEventRecord pp; cuEventQuery p;
    cuEventSynchronize p; cuEventDestroy_v2 p; cuGraphInstantiateWithFlags ppa; cuGraphLaunch pp;
    cuGraphDestroy p; cuGraphExecDestroy p; cuUserObjectCreate pppuu; cuGraphRetainUserObject ppuu;
    cuModuleLoadData pp; cuModuleGetFunction ppp; cuLaunchKernel puuuuuuuppp;
    cuDeviceGetDevResource ipi; cuDevSmResourceSplitByCount ppppuu; cuDevResourceGenerateDesc ppu;
    cuGreenCtxCreate ppiu; cuGreenCtxStreamCreate ppui; cuCtxFromGreenCtx pp; cuGetErrorName ip
"""
PARAMETERS = {symbol: tuple(KINDS[kind] for kind in kinds.strip("-"))
              for symbol, kinds in (call.split() for call in CALLS.split(";"))}


class DriverError(RuntimeError):
    def __init__(self, symbol, result, name):
        super().__init__(f"{symbol}: {name}")
        self.result = result


def attempt(call, *arguments):
    """The call's result, or the driver's error as the result, so that later questions are still
    asked."""
    try:
        return call(*arguments)
    except DriverError as error:
        return {"failed": str(error)}


def tell(found):
    """Print the result so far. The last line counts, also when the program is killed."""
    print(json.dumps(found), flush=True)


def skip(why):
    """End the program, since its question cannot be asked on this machine."""
    tell({"skipped": why})
    sys.exit(0)


def options(document, *more):
    """--seconds, which every program here has, and `more` pairs of (name, settings)."""
    parser = argparse.ArgumentParser(description=document.split("\n", maxsplit=1)[0])
    for name, settings in more:
        parser.add_argument(name, **settings)
    parser.add_argument("--seconds", type=float, default=10.0, help="at most, about")
    return parser.parse_args()


class Driver:
    """libcuda.so.1, with the first device's primary context current on this thread."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.is_simulated = hasattr(self.library, "pleat_sim_reset")
        self.functions = {}
        for symbol, parameters in PARAMETERS.items():
            with contextlib.suppress(AttributeError):   # an older driver, or the simulator
                function = getattr(self.library, symbol)
                function.argtypes = parameters
                function.restype = c_int
                self.functions[symbol] = function
        self.call("cuInit", 0)
        self.device = self.get("cuDeviceGet", c_int, 0)
        self.context = self.get("cuDevicePrimaryCtxRetain", c_void_p, self.device)
        self.enter()

    def enter(self):
        """Called first by every thread that uses the driver."""
        self.call("cuCtxPushCurrent_v2", self.context)

    def has(self, *symbols):
        return all(symbol in self.functions for symbol in symbols)

    def need(self, *symbols):
        for symbol in symbols:
            if symbol not in self.functions:
                skip(f"the {'simulated ' if self.is_simulated else ''}driver has no {symbol}")

    def name_of(self, result):
        """"ok", or a text like "INVALID_VALUE (1)"."""
        text = c_char_p()
        if result == 0:
            return "ok"
        if self.functions["cuGetErrorName"](result, byref(text)) != 0 or not text.value:
            return str(result)
        return f"{text.value.decode().removeprefix('CUDA_ERROR_')} ({result})"

    def result(self, symbol, *arguments):
        return self.functions[symbol](*arguments)

    def call(self, symbol, *arguments):
        result = self.functions[symbol](*arguments)
        if result != 0:
            raise DriverError(symbol, result, self.name_of(result))

    def get(self, symbol, kind, *arguments):
        """The value that a call writes through the first parameter."""
        value = kind()
        self.call(symbol, byref(value), *arguments)
        return value.value

    def timed(self, symbol, *arguments):
        """(nanoseconds, result), including the time of ctypes: see nothing_ns."""
        function = self.functions[symbol]
        begin = time.perf_counter_ns()
        result = function(*arguments)
        return time.perf_counter_ns() - begin, result

    def nothing_ns(self, rounds=1000):
        """The time of a call that does nothing, a floor for all measured times."""
        version = c_int()
        return median([self.timed("cuDriverGetVersion", byref(version))[0]
                       for _ in range(rounds)])

    def attribute(self, number):
        """0 if the driver does not know the attribute."""
        value = c_int()
        result = self.result("cuDeviceGetAttribute", byref(value), number, self.device)
        return value.value if result == 0 else 0

    # ---- memory ----

    def properties(self, location=None):
        """The properties of pleat's chunks under PyTorch: exportable and open to GPUDirect RDMA, if
        the device can (`shareable:auto`, `rdma:auto`). Memory of the host is neither."""
        if location is not None:
            return Properties(type=1, location=location)
        return Properties(type=1, location=Location(ON_DEVICE, self.device),
                          handle_types=FILE_DESCRIPTOR if self.attribute(POSIX_FD) else 0,
                          flags=Flags(rdma=1 if self.attribute(RDMA) else 0))

    def access(self):
        return Access(Location(ON_DEVICE, self.device), READ_WRITE)

    def granule(self, properties, option=0):
        """The least size of a handle; option 1: the recommended size."""
        return self.get("cuMemGetAllocationGranularity", c_size_t, byref(properties), option)

    def create(self, n_bytes, properties=None):
        return self.get("cuMemCreate", c_uint64, n_bytes, byref(properties or self.properties()),
                        0)

    def reserve(self, n_bytes):
        return self.get("cuMemAddressReserve", c_uint64, n_bytes, 0, 0, 0)

    def map(self, at, n_bytes, handle):
        self.call("cuMemMap", at, n_bytes, 0, handle, 0)
        self.call("cuMemSetAccess", at, n_bytes, byref(self.access()), 1)

    def alloc(self, n_bytes):
        return self.get("cuMemAlloc_v2", c_uint64, n_bytes)

    def memory(self):
        """(free, total) bytes."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def read(self, at, kind, stream):
        """A value in the device's memory, at the stream's present point."""
        value = kind()
        self.call("cuMemcpyDtoHAsync_v2", byref(value), at, ctypes.sizeof(value), stream)
        self.call("cuStreamSynchronize", stream)
        return value

    # ---- streams and kernels ----

    def stream(self):
        return self.get("cuStreamCreate", c_void_p, NON_BLOCKING)

    def event(self):
        return self.get("cuEventCreate", c_void_p, DISABLE_TIMING)

    def load(self, source):
        """The kernels of a PTX text, by name, loaded on demand."""
        module = self.get("cuModuleLoadData", c_void_p, source.encode())
        return lambda name: self.get("cuModuleGetFunction", c_void_p, module, name.encode())

    def launch(self, function, stream, blocks, *arguments, threads=THREADS):
        """The arguments are ctypes values, in the kernel's order."""
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, stream,
                  packed(arguments), None)


def packed(arguments):
    """The array of argument addresses for a launch. The arguments must outlive the array."""
    array = (c_void_p * len(arguments))(*(ctypes.addressof(one) for one in arguments))
    array.kept = arguments
    return array


def median(values):
    return quantile(values, 0.5)


def quantile(values, share):
    """By the nearest rank; None for an empty list."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None


def spread(values):
    """Microseconds of nanoseconds: median, 99th percentile, most."""
    return [round(value / 1000, 1) for value in
            (quantile(values, 0.5), quantile(values, 0.99), max(values))] if values else []
