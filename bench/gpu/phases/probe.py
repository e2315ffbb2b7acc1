"""Records which PyTorch is here, and what driver calls cost, as the simulator's cost file."""
import json

from cells import Cell, last_object
from phases.pytorch import ROOT, environment_of, read as read_pytorch

SECONDS = 60
SECONDS_SIMULATED = 3600    # the most allowed: it takes one
LIMIT_S = 150       # the command ends by itself; opening a device may take long
TORCH_LIMIT_S = 180     # the first import on a machine reads gigabytes; later ones do not
SHOWN = ("create (fresh)", "create (after release)", "map", "set access", "unmap")


def detail_of(probe):
    parts = [f"{probe['gpu']}, driver {probe['driver_version']}",
             f"granule {probe['granule_bytes'] >> 10} KiB", f"aliases {probe['aliases']}"]
    for name in SHOWN:
        cost = probe["costs"].get(name)
        if cost:
            parts.append(f"{name} {cost['per_call_us']:.3g} + {cost['per_handle_us']:.3g} a handle"
                         f" + {cost['per_granule_us']:.3g} a granule"
                         f" + {cost['per_1000_alive_us']:.3g} a thousand alive us")
    return "; ".join(parts)


def reader(setup):
    def read(output):
        probe = last_object(output)
        (setup.out / "probe.json").write_text(json.dumps(probe, indent=1) + "\n", encoding="utf-8")
        out = {"detail": detail_of(probe), "total_bytes": probe["total_bytes"]}
        if not probe["vmm"]:
            out.update(status="failed", problem=probe["verdict"])
        elif not probe["complete"]:
            out.update(status="failed", problem=probe["note"] or "not complete")
        return out
    return read


def cells(setup):
    return [Cell("probe", "torch", (setup.python, ROOT / "bench" / "gpu" / "describe.py"),
                 TORCH_LIMIT_S, about_s=12, environment=environment_of(setup), read=read_pytorch)]


def cost_cells(setup):
    command = [setup.build / "pleat", "probe", "--driver", setup.driver, "--json",
               "--seconds", SECONDS_SIMULATED if setup.is_simulated else SECONDS]
    if setup.is_simulated:      # on a real GPU the command names the file after it
        command += ["--cost-file", setup.out / "simulated.cost"]
    return [Cell("costs", "costs", tuple(command), LIMIT_S, about_s=SECONDS,
                 environment=setup.library_path(), read=reader(setup))]
