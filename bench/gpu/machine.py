"""The notes at the head of the table: machine and build."""
import hashlib
import pathlib
import platform
import subprocess

import ledger


def output_of(*command):
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout.strip() if ended.returncode == 0 else ""


def processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def gpu():
    """(name and driver, memory): the memory of two GPUs of a kind may differ by some bytes."""
    listed = output_of("nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                       "--format=csv,noheader").splitlines()
    if not listed:
        return "unknown (no nvidia-smi)", ""
    name, driver, memory = listed[0].split(", ")
    return f"{name}, driver {driver}", f", {memory}"


def torch_version(python):
    asked = output_of(python, "-c",
                      "import importlib.metadata as m; print(m.version('torch'))")
    return asked or "none"


def commit(build):
    """The commit that the carried build names; for a build folder, that of its sources."""
    try:
        return " ".join((build / "BUILD").read_text(encoding="utf-8").split())
    except OSError:
        root = str(pathlib.Path(__file__).resolve().parents[2])
        return output_of("git", "-C", root, "rev-parse", "--short=12", "HEAD") or "unknown"


def fingerprint(build):
    """Of the measured files: two commits may have built the same, one commit two things."""
    digest = hashlib.sha256()
    for name in ("pleat", "libpleat.so.0"):
        digest.update((build / name).read_bytes())
    return digest.hexdigest()[:12]


def notes(setup):
    """Lines without their '# '. Equal for two runs whose rows may be in one file."""
    device, memory = gpu() if not setup.is_simulated else (
        f"SIMULATED, {setup.memory}: memory figures only, no time", "")
    return [f"gpu: {device}",
            f"{ledger.MACHINE}{processor()}, {platform.system()} {platform.release()}{memory}",
            f"python: {python_version(setup.python)}, torch {torch_version(setup.python)}",
            f"build: {fingerprint(setup.build)}",
            f"{ledger.COMMIT}{commit(setup.build)}",
            f"scale: {setup.scale}"]


def python_version(python):
    return output_of(python, "-c", "import platform; print(platform.python_version())") or "none"
