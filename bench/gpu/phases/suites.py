"""The unit suites that use the real driver, the library in a fresh Python, and a test that the
contents of PyTorch's tensors stay."""
import re

from cells import Cell
from phases.pytorch import ROOT, environment_of, read as read_pytorch

# Every other suite asks for the simulated driver itself, since it tests faults and hazards. Each
# case is a cell: one that crashes or breaks the context takes no other along. The numbers are
# seconds.
CASES = {
    "vmm_gpu_test": {"memory": 4, "streams": 4, "measuring": 30},
    "vmm_pool_gpu_test": {"gpu": 8},
}
CASES_ON_SIMULATOR = {"vmm_gpu_test": {"memory": 1}}    # tests exports, without measuring
LIMIT_S = 120
LOADER = ROOT / "tests" / "python" / "load_library.py"
SUMMARY = re.compile(r"^\d+%: Checks: \d+, Failures: \d+, Errors: \d+$", re.MULTILINE)


def read_check(output):
    summary = SUMMARY.search(output)
    return {"detail": summary.group(0) if summary else ""}


def read_loader(output):
    said = output.splitlines()[-1] if output else ""
    return {"detail": said.split(" through ")[0]}   # drops a path of this machine


def cells(setup):
    found = []
    environment = {"CK_DEFAULT_TIMEOUT": "0"}
    if setup.is_simulated:
        # The suites open libcuda.so.1; here that is the simulator, with real contents. Measuring
        # the cost of calls would take a minute and depend on the host.
        environment |= {**setup.library_path(setup.links), "PLEAT_SIM": "backing:memory"}
    else:
        environment |= setup.library_path()
    programs = CASES_ON_SIMULATOR if setup.is_simulated else CASES
    for name, seconds in programs.items():
        found += [Cell("suites", f"{name} {case}", (setup.build / name,), LIMIT_S, about_s=about_s,
                       environment={**environment, "CK_RUN_CASE": case}, read=read_check)
                  for case, about_s in seconds.items()]
    found.append(Cell("suites", "load_library",
                      (setup.python, "-B", LOADER, setup.build / "libpleat.so.0"), LIMIT_S,
                      about_s=3, environment={"PLEAT_CONF": f"driver:{setup.driver}"},
                      read=read_loader))
    return found + contents(setup)


def contents(setup):
    command = (setup.python, ROOT / "bench" / "gpu" / "contents.py", "--allocator", "pleat")
    environment = environment_of(setup)
    if not setup.is_simulated:
        return [Cell("suites", name, (*command, *more), LIMIT_S, about_s=12,
                     known={"allocator": "pleat"}, environment=environment,
                     read=read_pytorch)
                for name, more in (("torch_contents", ()), ("torch_graph", ("--graph",)))]
    environment["PLEAT_SIM"] = "capacity:1G,backing:memory,compute:9.0"
    return [Cell("suites", "torch_contents", (*command, "--rounds", "600"), LIMIT_S,
                 about_s=12, known={"allocator": "pleat"}, environment=environment,
                 read=read_pytorch)]
