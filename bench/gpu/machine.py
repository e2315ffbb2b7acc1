#!/usr/bin/env python3
"""Describe this machine: GPU, driver, host, and features reported by the driver.

With --class: import PyTorch and compile pleat's class for it, without touching the GPU. With
--hold: begin with the driver and stay, as a driver that nobody uses may be unloaded."""
import ctypes
import importlib.metadata
import os
import pathlib
import platform
import signal
import subprocess
import sys
import time

import driver

QUERY = "name,driver_version,memory.total,pstate,clocks.sm,clocks.max.sm,pcie.link.gen.current"
ATTRIBUTES = {"multiprocessors": driver.MULTIPROCESSORS, "vmm": driver.VMM,
              "posix_fd": driver.POSIX_FD, "rdma_with_vmm": driver.RDMA, "fabric": driver.FABRIC,
              "host_node": driver.HOST_NODE, "host_node_vmm": driver.HOST_NODE_VMM}


def output_of(*command):
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=8, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"none: {error}"[:100]
    return ended.stdout.strip()


def processor():
    for line in text_of("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def text_of(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def torch_version():
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "none"


def of_driver(cuda):
    name, version = ctypes.create_string_buffer(256), ctypes.c_int()
    cuda.call("cuDeviceGetName", name, 256, cuda.device)
    cuda.call("cuDriverGetVersion", ctypes.byref(version))
    plain = driver.Properties(type=1, location=driver.Location(driver.ON_DEVICE, cuda.device))
    free, total = cuda.memory()
    return {"gpu": name.value.decode(), "cuda": version.value, "free_bytes": free,
            "total_bytes": total,
            "attributes": {key: cuda.attribute(number) for key, number in ATTRIBUTES.items()},
            "granule": {f"{kind}, {size}": driver.attempt(cuda.granule, properties, option)
                        for kind, properties in (("plain", plain), ("as pleat", cuda.properties()))
                        for option, size in enumerate(("least", "recommended"))},
            "lacks": [symbol for symbol in driver.PARAMETERS if not cuda.has(symbol)]}


def facts():
    begin = time.monotonic()
    found = {"nvidia_smi": output_of("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader"),
             "kernel_module": text_of("/proc/driver/nvidia/version").split("\n")[0],
             "system": f"{platform.system()} {platform.release()}", "processor": processor(),
             "processors": os.cpu_count(), "libc": " ".join(platform.libc_ver()),
             "nodes": text_of("/sys/devices/system/node/online"),
             "python": platform.python_version(), "torch": torch_version()}
    driver.tell(found)
    cuda = driver.Driver()
    found["driver_in_s"] = round(time.monotonic() - begin, 2)
    return found | of_driver(cuda)


def compiled():
    begin = time.monotonic()
    import torch
    imported = time.monotonic()
    driver.tell({"torch": torch.__version__, "import_s": round(imported - begin, 1)})
    import pleat.torch
    pleat.torch.install(binding="class")
    return {"torch": torch.__version__, "import_s": round(imported - begin, 1),
            "class_s": round(time.monotonic() - imported, 1), "binding": pleat.torch.binding()}


def hold():
    """Until run.py ends this process."""
    ctypes.CDLL("libcuda.so.1").cuInit(0)
    signal.pause()


if __name__ == "__main__":
    if "--hold" in sys.argv:
        hold()
    driver.tell(compiled() if "--class" in sys.argv else facts())
