#!/usr/bin/env python3
"""The exports of the built libraries. Usage: lint_exports.py BUILD_DIR

libpleat.so exports exactly the declarations of the headers, with the version PLEAT_0. It can be
opened with dlopen late (no static TLS) and is never unloaded. libpleat.a defines no other global
name. The simulator exports only cu* and pleat_sim_*. libpleat_torch.so needs a C++ compiler. Its
exports are its hooks, and no piece of a C++ template."""
import pathlib
import re
import subprocess
import sys

from source import read, report

PUBLIC_HEADERS = dict.fromkeys(
    ["api/pleat.h", "api/pleat_pool.h", "api/pleat_tag.h", "api/pleat_share.h",
     "api/pleat_checkpoint.h", "api/pleat_buffer.h", "api/pleat_host.h",
     "api/pleat_snapshot.h", "api/pleat_watch.h", "api/pleat_mapping.h", "api/adapters/pleat_torch.h",
     "api/adapters/pleat_frameworks.h", "api/calls/first_versions.c"],
    "PLEAT_API")
TORCH_HEADERS = {"api/adapters/pleat_torch.hpp": "PLEAT_API"}
SIM_HEADERS = {"vmm/base/pleat_sim.h": "PLEAT_SIM_API"}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def declared(headers):
    names = set()
    for path, marker in headers.items():
        for prototype in re.findall(rf"^{marker}\b[^;{{]*;", read(path), re.MULTILINE):
            names.add(re.search(r"(\w+)\s*\(", prototype).group(1))
    return names


def global_names(path, *flags):
    lines = output("nm", "--defined-only", "--extern-only", *flags, str(path)).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines
            if len(line.split()) >= 3 and line.split()[-2] != "A"}


def unversioned(path, version):
    """Names without that version. nm tells a version node itself as an absolute symbol."""
    for line in output("nm", "-D", "--with-symbol-versions", "--defined-only", str(path)).splitlines():
        kind, name = line.split()[-2:]
        if kind != "A" and not name.endswith(f"@@{version}"):
            yield f"{path.name}: {name} has not the version {version}"


def difference(where, found, wanted):
    for name in sorted(found - wanted):
        yield f"{where}: exports {name}, which no public header declares"
    for name in sorted(wanted - found):
        yield f"{where}: does not export {name}"


def check_pleat(build):
    wanted = declared(PUBLIC_HEADERS)
    shared = build / "libpleat.so"
    yield from difference(shared.name, global_names(shared, "-D"), wanted)
    yield from unversioned(shared, "PLEAT_0")
    dynamic = output("readelf", "-d", str(shared))
    if "STATIC_TLS" in dynamic:
        yield f"{shared.name}: needs static TLS, so a framework cannot load it"
    if "NODELETE" not in dynamic:
        yield f"{shared.name}: could be unloaded"
    if not re.search(r"SONAME.*\[libpleat\.so\.0\]", dynamic):
        yield f"{shared.name}: its SONAME is not libpleat.so.0"
    static = build / "libpleat.a"
    if static.exists():
        yield from difference(static.name, global_names(static), wanted)


def check_torch(build):
    torch = build / "libpleat_torch.so"
    if torch.exists():
        yield from difference(torch.name, global_names(torch, "-D"), declared(TORCH_HEADERS))
        yield from unversioned(torch, "PLEAT_TORCH_0")


def check_sim(build):
    sim = build / "libpleat_sim.so"
    found = global_names(sim, "-D")
    own = {name for name in found if not re.match(r"cu[A-Z]", name)}
    yield from difference(sim.name, own, declared(SIM_HEADERS))
    if own == found:
        yield f"{sim.name}: exports no entry point of the driver"


def main():
    build = pathlib.Path(sys.argv[1])
    return report(list(check_pleat(build)) + list(check_torch(build)) + list(check_sim(build)))


if __name__ == "__main__":
    sys.exit(main())
