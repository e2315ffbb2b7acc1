#!/usr/bin/env python3
"""Layers: includes go down only. No ring is made by includes, by Python's imports or by calls
between the files of a folder. A type is defined in one file. CUDA's names and the banned calls stay
in their homes."""
import re
import sys

from calls import FOLDERS_WITHOUT_CALL_RINGS, call_rings
from cycles import import_rings, imports, rings
from source import ROOT, all_files, c_files, functions, includes, read, report, without_comments_and_strings
from tags import doubled_types

# The rooms of a layer, from bottom to top: an include goes to the same room or down.
ROOMS = (
    ("segments/base", *(f"segments/pleat/{name}" for name in (
        "space", "streams", "pools", "buffers", "grow", "compact", "sleep", "ops"))),
    ("segments/base", "segments/classic", "segments/classic/torch"),
    ("api", *(f"api/{name}" for name in (
        "base", "parts", "config", "instance", "tag", "mapping", "snapshot", "history", "pool",
        "share", "metrics", "calls", "adapters"))),
    tuple(f"bench/{name}" for name in (
        "base", "work", "pickle", "import", "generate", "patterns", "works", "run", "measure", "pairs", "ab",
        "ab/fleet", "command")),
)
RANK = {"vmm": 1, "segments": 2, "api": 3, "bench": 4, "tests": 5}
INCLUDE_FOLDERS = ("", "api", "vmm/base")
LIBRARY = ("api", "segments", "vmm")
# These parts of the public header include the header itself. So a file with a part has the whole.
PARTS_OF_PLEAT_H = ("api/pleat_pool.h", "api/pleat_tag.h", "api/pleat_share.h",
                    "api/pleat_checkpoint.h", "api/pleat_buffer.h", "api/pleat_host.h",
                    "api/pleat_snapshot.h", "api/pleat_watch.h", "api/pleat_mapping.h")
RUNTIME_MAY_INCLUDE = ("vmm/driver_abi.h", "vmm/tools/sim/sim_list.h", "vmm/base/pleat_sim.h")

MALLOC_FAMILY = {"malloc", "calloc", "realloc", "free", "strdup", "strndup", "asprintf",
                 "vasprintf", "aligned_alloc", "posix_memalign", "reallocarray"}
PRINTING = {"printf", "fprintf", "vprintf", "vfprintf", "dprintf", "puts", "fputs", "putchar",
            "perror"}
ENDING = {"abort", "exit", "_exit", "quick_exit"}
ENVIRONMENT = {"getenv", "secure_getenv", "setenv", "putenv"}
UNBOUNDED = {"strcpy", "strcat", "sprintf", "vsprintf", "gets", "stpcpy"}
# Cancellation points: a thread that is cancelled must not end inside a call (vmm/base/cancel.h).
WAITING = {"nanosleep", "clock_nanosleep", "usleep", "sleep", "pthread_cond_wait",
           "pthread_cond_timedwait"}
HOMES = {
    "vmm/base/cancel.h": WAITING,
    "vmm/base/meta.c": MALLOC_FAMILY,
    "vmm/base/assert.c": ENDING | PRINTING,
    "vmm/driver.c": {"secure_getenv"},
    "api/config/config.c": {"secure_getenv"},
    "api/base/complain.c": PRINTING,
    "api/adapters/pleat_cxx.hpp": {"sleep"},  # a tag's
}
BANNED = MALLOC_FAMILY | PRINTING | ENDING | ENVIRONMENT | UNBOUNDED | WAITING

# CUDA's own names: cuMemCreate, CUresult, cudaMalloc. The library's own declarations of this ABI
# (cu_result, CU_SUCCESS) may be used in vmm, but not in higher layers.
VENDOR_NAME = re.compile(r"\b(?:cu[A-Z]\w*|CU[a-z]\w*|cuda[A-Z]\w*)\b")
ABI_NAME = re.compile(r"\b(?:cu_\w+|CU_\w+)\b")
CALL = re.compile(r"(?<![\w.>])(\w+)\s*\(")


def folder(path):
    return path.parts[0]


def is_tool(path):
    return path.parts[:2] == ("vmm", "tools")


def is_sim(path):
    return path.parts[:3] == ("vmm", "tools", "sim")


def is_runtime(path):
    return path.parts[:3] == ("vmm", "tools", "runtime")


def is_product(path):
    """Whether the file belongs to a shared object of its own, outside of the library."""
    return is_sim(path) or is_runtime(path)


def knows_cuda(path):
    """Whether the file may use CUDA's own names. C++ code uses the frameworks' types."""
    text = path.as_posix()
    return (text.startswith("vmm/driver") or is_product(path) or path.suffix in (".cpp", ".hpp") or
            bool(re.match(r"tests/((vmm|sim)/|(support/|fuzz/|consumer/consumer_)(vmm|sim|runtime)[_./])", text)))


def resolve(name):
    """The project's file behind an include, relative to the root; None for all other files."""
    for base in INCLUDE_FOLDERS:
        candidate = ROOT / base / name
        if candidate.is_file():
            return candidate.relative_to(ROOT)
    return None


def is_up(path, target):
    """Whether the target lies in a higher room of the file's layer."""
    home, goal = path.parent.as_posix(), target.parent.as_posix()
    return any(home in rooms and goal in rooms and rooms.index(goal) > rooms.index(home)
               for rooms in ROOMS)


def check_rooms(paths):
    """A folder of a layer with rooms must have a rank."""
    ranked = {name for rooms in ROOMS for name in rooms}
    layers = {name.split("/")[0] for name in ranked}
    for home in sorted({path.parent.as_posix() for path in paths if folder(path) in layers}):
        if home not in ranked:
            yield f"{home}: no room of that name; rooms are ranked in tests/lint/lint_layers.py"


def python_room(path):
    """The rank in the package: what all share, pleat.torch, the modules of other frameworks."""
    if path.parent.as_posix() == "python/pleat/torch":
        return 1
    is_shared = path.name.startswith("_") or path.name == "streams.py"
    return 0 if is_shared else 2


def check_package(path, text):
    """An import that runs when the module is loaded goes down."""
    for target in imports(path, text):
        if python_room(target) > python_room(path):
            yield f"{path}: {target} lies in a higher room"


def check_includes(path, text):
    for line, name in includes(text):
        where = f"{path}:{line}"
        if re.match(r"(cuda|cu[A-Z]|driver_types)\w*\.h$", name) and not knows_cuda(path):
            yield f"{where}: CUDA header {name}"
        target = resolve(name)
        if target is None:
            continue
        if RANK[folder(target)] > RANK[folder(path)]:
            yield f"{where}: {name} lies in a higher layer"
        if is_up(path, target):
            yield f"{where}: {name} lies in a higher room"
        if is_tool(target) and not is_tool(path) and folder(path) in LIBRARY:
            yield f"{where}: {name} lies beside the library"
        if is_sim(path) and not is_sim(target) and folder(target) == "vmm" and \
                target.name != "pleat_sim.h" and not target.name.startswith("driver_"):
            yield f"{where}: the simulator is a product of its own; it may not use {name}"
        if is_runtime(path) and not is_runtime(target) and \
                target.as_posix() not in RUNTIME_MAY_INCLUDE:
            yield f"{where}: the simulated runtime is a product of its own; it may not use {name}"


def included(path, text):
    """The project's files that a file includes."""
    if path.as_posix() in PARTS_OF_PLEAT_H:
        return set()
    return {resolve(name) for _, name in includes(text)} - {None}


def include_rings(texts):
    """`texts`: path -> text of each file."""
    return rings({path: included(path, text) for path, text in texts.items()})


def check_names(path, code):
    for number, line in enumerate(code.split("\n"), 1):
        if not knows_cuda(path):
            for name in VENDOR_NAME.findall(line):
                yield f"{path}:{number}: CUDA's name {name} outside the driver table"
        if folder(path) in ("segments", "api", "bench"):
            for name in ABI_NAME.findall(line):
                yield f"{path}:{number}: {name} belongs to vmm"


def check_calls(path, code):
    if folder(path) == "tests":
        return
    banned = UNBOUNDED
    if folder(path) in LIBRARY:  # a setuid program's environment is not its user's
        banned = UNBOUNDED | {"getenv"} if is_product(path) else BANNED
    allowed = HOMES.get(path.as_posix(), set())
    for number, line in enumerate(code.split("\n"), 1):
        for name in CALL.findall(line):
            if name in banned and name not in allowed:
                yield f"{path}:{number}: {name}() outside its home"


def check_recursion(path, code):
    for first, _, name, body in functions(code):
        if name and re.search(rf"(?<![\w.>]){re.escape(name)}\s*\(", body):
            yield f"{path}:{first}: {name}() calls itself"


def main():
    texts = {path: read(path) for path in c_files()}
    problems = [f"{', '.join(path.as_posix() for path in ring)}: each needs all of these"
                for ring in include_rings(texts) + import_rings()]
    codes = {path: without_comments_and_strings(text) for path, text in texts.items()}
    problems += ["a ring of calls: " + "; ".join(ring) for ring in call_rings(
        {path: code for path, code in codes.items() if folder(path) in FOLDERS_WITHOUT_CALL_RINGS})]
    problems += [f"{name} is defined in {', '.join(path.as_posix() for path in paths)}"
                 for name, paths in doubled_types(
                     {path: code for path, code in codes.items() if folder(path) != "tests"})]
    problems += check_rooms(texts)
    for path in all_files():
        if path.parts[:2] == ("python", "pleat") and path.suffix == ".py":
            problems += check_package(path, read(path))
    for path, text in texts.items():
        code = codes[path]
        problems += check_includes(path, text)
        problems += check_names(path, code)
        problems += check_calls(path, code)
        problems += check_recursion(path, code)
    return report(problems)


if __name__ == "__main__":
    sys.exit(main())
