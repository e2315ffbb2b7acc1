"""Finds rings: C files include, or Python modules import, one another, perhaps through others."""
import ast
import pathlib

from source import FOLDERS, ROOT, all_files, read

PYTHON_FOLDERS = FOLDERS + ("examples", "python")
PACKAGES = pathlib.Path("python")


def reached_from(name, needs):
    reached = set()
    ahead = list(needs[name])
    while ahead:
        other = ahead.pop()
        if other not in reached:
            reached.add(other)
            ahead += needs.get(other, ())
    return reached


def rings(needs):
    """The sets of names in which every name needs all others; each set is sorted. `needs`: name ->
    names."""
    reached = {name: reached_from(name, needs) for name in needs}
    found = set()
    for name, others in reached.items():
        if name in others:
            found.add(tuple(sorted(other for other in others if name in reached.get(other, ()))))
    return sorted(found)


def _run_when_loaded(node):
    """The import statements, except in functions, where they run later."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        elif not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _run_when_loaded(child)


def _module(base, name):
    """The project's module with this dotted name. "": the package in `base`. None: not in the
    project."""
    path = base.joinpath(*name.split(".")) if name else base
    for candidate in (path.parent / f"{path.name}.py", path / "__init__.py"):
        if (ROOT / candidate).is_file():
            return candidate
    return None


def _beside(path):
    """The folder of a program's modules. [] in a package, since its imports name the package."""
    return [] if (ROOT / path.parent / "__init__.py").is_file() else [path.parent]


def imports(path, text):
    """The project's modules to load before this module. The package around such a module does not
    count, since it need not be loaded completely."""
    for statement in _run_when_loaded(ast.parse(text)):
        level = getattr(statement, "level", 0)
        bases = [path.parents[level - 1]] if level else [PACKAGES, *_beside(path)]
        outer = getattr(statement, "module", None) or ""
        for alias in statement.names:
            names = [f"{outer}.{alias.name}".lstrip(".")]
            names += [outer] if isinstance(statement, ast.ImportFrom) else []
            found = [_module(base, name) for name in names for base in bases]
            yield from [module for module in found if module][:1]


def import_rings():
    modules = [path for path in all_files()
               if path.suffix == ".py" and path.parts[0] in PYTHON_FOLDERS]
    return rings({path: set(imports(path, read(path))) for path in modules})
