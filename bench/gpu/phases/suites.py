"""Phase 2: the unit suites that speak to the real driver, the library in a fresh Python, and
whether PyTorch's bytes stay what they are."""
import re

from cells import Cell
from phases.pytorch import ROOT, environment_of, read as read_pytorch

# Every other suite asks for the simulated driver itself: its faults and hazards are what it tests.
PROGRAMS = ("vmm_gpu_test", "vmm_pool_gpu_test")
PROGRAMS_ON_SIMULATOR = ("vmm_gpu_test",)   # the other calls what the simulator does not export
LIMIT_S = 120
PROGRAM_LIMIT_S = 240       # each of its tests is a process that makes a context, in a second or so
LOADER = ROOT / "tests" / "python" / "load_library.py"
SUMMARY = re.compile(r"^\d+%: Checks: \d+, Failures: \d+, Errors: \d+$", re.MULTILINE)


def read_check(output):
    summary = SUMMARY.search(output)
    return {"detail": summary.group(0) if summary else ""}


def read_loader(output):
    said = output.splitlines()[-1] if output else ""
    return {"detail": said.split(" through ")[0]}   # a path: of this machine only


def cells(setup):
    found = []
    environment = {"CK_DEFAULT_TIMEOUT": "0"}
    if setup.is_simulated:
        # The suites ask for libcuda.so.1; here that is the simulator, with contents that are kept.
        # Measuring what calls cost would take a minute and depend on the host.
        environment |= {**setup.library_path(setup.links), "PLEAT_SIM": "backing:memory",
                        "CK_RUN_CASE": "memory"}
    else:
        environment |= setup.library_path()
    for name in PROGRAMS_ON_SIMULATOR if setup.is_simulated else PROGRAMS:
        found.append(Cell("suites", name, (setup.build / name,), PROGRAM_LIMIT_S,
                          environment=environment, read=read_check))
    found.append(Cell("suites", "load_library",
                      (setup.python, "-B", LOADER, setup.build / "libpleat.so.0"), LIMIT_S,
                      environment={"PLEAT_CONF": f"driver:{setup.driver}"}, read=read_loader))
    return found + contents(setup)


def contents(setup):
    command = (setup.python, ROOT / "bench" / "gpu" / "contents.py", "--allocator", "pleat")
    environment = environment_of(setup)
    if not setup.is_simulated:
        return [Cell("suites", name, (*command, *more), LIMIT_S, known={"allocator": "pleat"},
                     environment=environment, read=read_pytorch)
                for name, more in (("torch_contents", ()), ("torch_graph", ("--graph",)))]
    environment["PLEAT_SIM"] = "capacity:1G,backing:memory,compute:9.0"
    return [Cell("suites", "torch_contents", (*command, "--rounds", "600"), LIMIT_S,
                 known={"allocator": "pleat"}, environment=environment, read=read_pytorch)]
