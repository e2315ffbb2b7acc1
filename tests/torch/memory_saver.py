"""torch_memory_saver's own tests, played on the simulated runtime with pleat in its place.

    build/pleat-runtime --memory 24G --devices 2 --contents --quiet \\
        python3 tests/torch/memory_saver.py CHECKOUT [NAME...]

CHECKOUT is a checkout of torch_memory_saver, with test/examples/. Each example runs in a separate
process, in the mode "torch". A line says whether the example passed, or where it stopped. The
examples' testing_utils are used, with two changes. NVML's figures come from mem_get_info. Kernels
compute nothing here. So torch.full, torch.randn and fill_ write tensors from the host, and
comparisons run there."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

EXAMPLES = {
    "simple.run": {},
    "multi_device.run": {},
    "multi_device_torch_mode.run": {},
    "rl_example.run": {},
    "cpu_backup.run": {},
    "cpu_backup.run_multi_device_mmap_restore": {},
    "cpu_backup.run_rss": {},
    "cpu_backup.run_backend_from_env": {"TMS_INIT_CPU_BACKUP_BACKEND": "mmap"},
    "cpu_backup.run_retain_from_env": {"TMS_RETAIN_CPU_BACKUP": "1"},
    "disk_backup.run": {},
    "cuda_graph.run": {},
    "training_engine.run": {"TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1"},
    "nested_region.run": {"TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1"},
    "cuda_vmm_granularity.run": {"TMS_INIT_ENABLE": "1"},
}
PRELOADED = ("training_engine", "nested_region", "cuda_vmm_granularity")
MOST = 1 << 30  # elements, and bytes


def from_the_host(torch: Any) -> None:
    """Let tensors have their values, and be compared, without a kernel."""

    def of_host(make: Any) -> Any:
        def made(size: Any, *arguments: Any, device: Any = None, **options: Any) -> Any:
            n = torch.Size(tuple(size) if isinstance(size, (tuple, list)) else (size,)).numel()
            if device is None or torch.device(device).type != "cuda" or n > MOST:
                return make(size, *arguments, device=device, **options)
            return make(size, *arguments, **options).to(device)

        return made

    def fill(tensor: Any, value: Any) -> Any:
        if not tensor.is_cuda or tensor.nbytes > MOST:
            return plain_fill(tensor, value)
        return tensor.copy_(torch.full(tensor.shape, value, dtype=tensor.dtype))

    def equal(tensor: Any, other: Any) -> Any:
        return plain_equal(tensor.cpu(), other.cpu() if torch.is_tensor(other) else other)

    plain_fill, plain_equal = torch.Tensor.fill_, torch.Tensor.__eq__
    torch.full, torch.randn = of_host(torch.full), of_host(torch.randn)
    torch.Tensor.fill_, torch.Tensor.__eq__ = fill, equal


def their_module(checkout: Path, name: str) -> Any:
    full = f"torch_memory_saver.{name}"
    spec = importlib.util.spec_from_file_location(full, checkout / f"torch_memory_saver/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    spec.loader.exec_module(module)
    return module


def play(checkout: Path, example: str) -> None:
    import pleat.torch
    import pleat.torch_memory_saver
    import torch

    pleat.torch.install()
    pleat.torch_memory_saver.replace()
    torch.cuda.device_memory_used = lambda device=0: (
        torch.cuda.mem_get_info(device)[1] - torch.cuda.mem_get_info(device)[0]
    )
    sys.modules["torch_memory_saver"].__path__ = []  # type: ignore[attr-defined]
    for name in "utils", "testing_utils":
        their_module(checkout, name)
    from_the_host(torch)
    sys.path.insert(0, str(checkout / "test"))
    module, function = example.split(".")
    run = getattr(__import__(f"examples.{module}", fromlist=[function]), function)
    run(hook_mode="preload" if module in PRELOADED else "torch")


def stopped_at(output: str, checkout: Path) -> str:
    """The last of their own lines in the traceback, and the error."""
    lines = output.strip().splitlines()
    error = next((line for line in reversed(lines) if line and not line.startswith(" ")), "?")
    theirs = [line.strip() for line in lines if f'File "{checkout}/' in line]
    where = theirs[-1].replace(f'File "{checkout}/', "").replace('"', "") if theirs else "nowhere"
    return f"{where}: {error[:160]}"


def main() -> int:
    checkout = Path(sys.argv[1]).resolve()
    if os.environ.get("PLEAT_PLAY"):
        try:
            play(checkout, os.environ["PLEAT_PLAY"])
        except BaseException:
            traceback.print_exc()
            return 1
        return 0
    for example in sys.argv[2:] or EXAMPLES:
        environment = {**os.environ, **EXAMPLES[example], "PLEAT_PLAY": example}
        done = subprocess.run(
            [sys.executable, __file__, str(checkout)],
            env=environment, capture_output=True, text=True, check=False,
        )
        told = "passes" if done.returncode == 0 else stopped_at(done.stderr, checkout)
        print(f"{example}: {told}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
