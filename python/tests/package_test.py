"""The package without torch: its library, errors, configuration texts and C structures."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SOURCE, Run, clean_environment

import pleat
from pleat import _conf, _default, _device_stats, _status


def test_the_installed_package_is_under_test_not_the_sources() -> None:
    assert not Path(pleat.__file__).is_relative_to(SOURCE / "python")
    assert Path(pleat.library_path()).parent == Path(pleat.__file__).parent / "_lib"


def test_libpleat_loads_by_dlopen_in_a_fresh_python(run: Run) -> None:
    done = run(
        """
        import ctypes, sys
        import pleat
        loaded = [line for line in open("/proc/self/maps") if "libpleat" in line]
        assert not loaded, "importing loads nothing"
        print(pleat.version(), pleat.__version__)
        assert "torch" not in sys.modules
        """
    )
    header = (SOURCE / "api/pleat.h").read_text()
    version = ".".join(re.findall(r"PLEAT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    assert done.stdout.split() == [version, version]


def test_the_metadata_carries_the_version_of_the_header() -> None:
    from importlib.metadata import version

    assert version("pleat-gpu") == pleat.version()


def test_statuses_are_those_of_the_header() -> None:
    header = (SOURCE / "vmm/base/pleat_types.h").read_text()
    assert list(_status.NAMES) == re.findall(r"^ {4}X\((PLEAT_\w+),", header, re.MULTILINE)
    assert _status.NAMES[_status.ENOMEM_DEVICE] == "PLEAT_ENOMEM_DEVICE"


def test_device_stats_are_the_fields_of_the_header_in_their_order() -> None:
    header = (SOURCE / "vmm/base/pleat_types.h").read_text()
    struct = re.search(r"typedef struct pleat_stats \{(.*?)\n\} pleat_stats;", header, re.DOTALL)
    assert struct is not None
    singles = re.findall(r"^ +uint64_t (\w+);", struct.group(1), re.MULTILINE)
    groups = re.findall(r"^ +pleat_stat (\w+)\[\w+\];", struct.group(1), re.MULTILINE)
    wholes = re.findall(r"^ +pleat_stat (\w+);", struct.group(1), re.MULTILINE)
    assert tuple(singles) == _device_stats._SINGLE
    assert tuple(groups) == _device_stats._GROUPS
    assert tuple(wholes) == _device_stats._WHOLES
    stat = re.search(r"typedef struct pleat_stat \{(.*?)\n\} pleat_stat;", header, re.DOTALL)
    assert stat is not None
    counters = re.findall(r"^ +uint64_t (\w+);", stat.group(1), re.MULTILINE)
    assert counters == [name for name, _ in _device_stats.Stat._fields_]
    history = (SOURCE / "api/pleat_snapshot.h").read_text()
    flags = dict(re.findall(r"PLEAT_(HISTORY_\w+) = (\d+)", history))
    assert flags == {name: str(getattr(_default, name)) for name in flags}


def test_an_error_has_the_status_and_the_sentence(run: Run) -> None:
    done = run(
        """
        import pleat
        try:
            pleat.memory_stats(99)
        except pleat.PleatError as error:
            print(error.name, error.status, "|", error.text)
        """,
        PLEAT_CONF="driver:sim",
    )
    assert done.stdout.startswith("PLEAT_EDEVICE 4 | ")
    assert len(done.stdout) > len("PLEAT_EDEVICE 4 | ") + 10


def test_an_error_survives_pickling() -> None:
    error = pleat.PleatError(13, "out", "cuMemCreate", 2, 4096)
    again = pickle.loads(pickle.dumps(error))
    assert (again.name, again.text, again.driver_call, again.driver_result, again.bytes) == (
        "PLEAT_ENOMEM_DEVICE", "out", "cuMemCreate", 2, 4096,
    )  # fmt: skip


def test_a_bad_configuration_names_the_key(run: Run) -> None:
    done = run("import pleat\npleat.conf()", status=1, PLEAT_CONF="driver:sim,growht:ample")
    assert "PLEAT_ECONF" in done.stderr
    assert "growht" in done.stderr


def test_the_simulator_is_not_taken_unasked(run: Run) -> None:
    done = run(
        """
        import pleat
        try:
            print("driver", pleat.describe(0).driver)
        except pleat.PleatError as error:
            print(error.name, "|", error.text)
        """,
        PLEAT_CONF="limit:0.5",
    )
    assert done.stdout.startswith(("driver cuda", "PLEAT_ENODRIVER | "))
    assert done.stdout.startswith("driver cuda") or "driver:sim" in done.stdout


def test_a_missing_library_is_said_with_its_path(run: Run) -> None:
    done = run("import pleat\npleat.version()", status=1, PLEAT_LIBRARY="/nowhere/libpleat.so")
    assert "/nowhere/libpleat.so is not there" in done.stderr


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", {}),
        ("driver:sim", {"driver": "sim"}),
        (" a : 1 ,, b:[x:1,y:2],", {"a": "1", "b": "[x:1,y:2]"}),
        ("roundup_power2_divisions:[256:1,>:4],limit:0.5",
         {"roundup_power2_divisions": "[256:1,>:4]", "limit": "0.5"}),
    ],
)  # fmt: skip
def test_configurations_are_split_at_outer_commas(text: str, entries: dict[str, str]) -> None:
    assert _conf.split_conf(text) == entries
    assert _conf.split_conf(_conf.join_conf(entries)) == entries


@pytest.mark.parametrize("text", ["driver", ":1", "a:[1", "a:1]", "a:1,a:2"])
def test_configurations_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        _conf.split_conf(text)


def test_a_configuration_is_laid_over_another_key_by_key() -> None:
    assert _conf.overlay("driver:sim,limit:1G", "limit:2G,growth:ample") == {
        "driver": "sim", "limit": "2G", "growth": "ample",
    }  # fmt: skip


def test_the_whole_configuration_is_read_back(run: Run) -> None:
    done = run("import pleat\nprint(pleat.conf())", PLEAT_CONF="driver:sim,limit:1G")
    entries = _conf.split_conf(done.stdout.strip())
    assert entries["driver"] == "sim"
    assert entries["allocator"] == "pleat"


@pytest.mark.parametrize(
    ("value", "is_on"),
    [("1", True), ("true", True), ("Yes", True), ("on", True), ("0", False), ("no", False),
     ("", False), ("off", False), ("2", None), ("ja", None)],
)  # fmt: skip
def test_a_switch_of_the_environment_is_a_word_or_told(
    run: Run, value: str, is_on: bool | None
) -> None:
    code = "from pleat import _start as s\nfor d in (False, True):\n    print(s.is_on('SWITCH', d))"
    done = run(code, SWITCH=value)
    expected = [False, True] if is_on is None else [is_on, is_on]
    assert done.stdout.split() == [str(word) for word in expected]
    said = f"pleat: SWITCH={value} is ignored: it is 1 (true, yes, on) or 0 (false, no, off)\n"
    assert done.stderr == ("" if is_on is not None else said)  # once


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("pleat.torch.install()", "no attribute 'torch': import pleat.torch first"),
        ("pleat.cupy", "import pleat.cupy first"),
        ("pleat.install()", "import pleat.torch, and call pleat.torch.install()"),
        ("pleat.nothing", "has no attribute 'nothing'\n"),
        ("from pleat import _conf; _conf.split_conf('short=compact')", "write short:compact\n"),
    ],
)
def test_a_near_miss_names_the_way(run: Run, code: str, hint: str) -> None:
    assert hint in run(f"import pleat\n{code}", status=1).stderr


def test_without_torch_the_python_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('none here', name='torch')")
    done = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import pleat.torch", status=1)
    assert done.stderr.splitlines()[-1].endswith(f"{sys.executable} has none: install torch there")


def test_the_module_is_the_command(run: Run) -> None:
    done = run("import runpy, sys\nsys.argv[1:] = ['--version']\nrunpy.run_module('pleat')")
    assert done.stdout.startswith("pleat ")


def test_the_package_is_typed() -> None:
    assert (Path(pleat.__file__).parent / "py.typed").is_file()


def test_the_licences_of_all_that_is_inside_are_there() -> None:
    folder = Path(pleat.__file__).parent
    assert "pleat authors" in (folder / "LICENSE").read_text()
    assert "jemalloc" in (folder / "LICENSE.jemalloc").read_text()


@pytest.mark.parametrize("name", ["pleat", "pleat-runtime"])
def test_the_commands_are_installed(name: str, tmp_path: Path) -> None:
    command = Path(pleat.__file__).parents[1] / "bin" / name
    kept = {**clean_environment(), "PYTHONPATH": str(Path(pleat.__file__).parents[1])}
    done = subprocess.run(
        [command, "--help"], env=kept, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert name in done.stdout.splitlines()[0] or f"Usage: {name}" in done.stdout


def test_the_commands_find_what_belongs_to_them(tmp_path: Path) -> None:
    folder = Path(pleat.__file__).parents[1]
    kept = {**clean_environment(), "PYTHONPATH": str(folder)}
    works = subprocess.run(
        [folder / "bin/pleat", "works"], env=kept, cwd=tmp_path, capture_output=True, text=True
    )
    assert "gpt2l_amp_var" in works.stdout
    (tmp_path / "mine.py").write_text("def order(now, own):\n    return 0\n")
    judged = subprocess.run(
        [folder / "bin/pleat", "replay", "gpt2s_tiny", "--driver", "sim", "--conf", "policy:./mine.py"],
        env=kept, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert "judge: the policy" in judged.stdout + judged.stderr, judged.stderr
    assert (folder / "pleat/_include/pleat_policy.h").is_file()
    code = "import os; print(os.environ['LD_PRELOAD'])"
    simulated = subprocess.run(
        [folder / "bin/pleat-runtime", "--quiet", sys.executable, "-c", code],
        env=kept, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert simulated.stdout.strip() == str(folder / "pleat/_lib/libpleat_runtime.so")


def test_the_wheel_compares_a_recording_in_a_fresh_environment(tmp_path: Path) -> None:
    wheels = list((Path(pleat.__file__).parents[1] / "wheel").glob("pleat_gpu-*.whl"))
    assert len(wheels) == 1
    venv = tmp_path / "venv"
    outside = {key: value for key, value in clean_environment().items() if key != "PYTHONPATH"}

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command, env=outside, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(sys.executable, "-m", "venv", "--without-pip", venv)
    run(sys.executable, "-m", "pip", "--python", venv / "bin/python", "install", "--no-index",
        "--no-deps", "--disable-pip-version-check", wheels[0])  # fmt: skip
    run(venv / "bin/pleat", "replay", "gpt2s_tiny", "--allocator", "torch-native", "--snapshot",
        "run.pickle")  # fmt: skip
    verdict = run(venv / "bin/pleat", "ab", "run.pickle", "--allocator", "pleat,torch-native",
                  "--no-report")  # fmt: skip
    assert "  advice   " in verdict


def test_mypy_finds_nothing(run_python: Run) -> None:
    """What mypy knows of torch, 25 seconds of work, stays beside torch."""
    pytest.importorskip("torch")  # whose types the package uses
    cache = Path(sys.prefix) / "mypy-cache"
    run_python("-m", "mypy", "--config-file", str(SOURCE / "pyproject.toml"), "--cache-dir",
               str(cache), str(SOURCE / "python/pleat"))  # fmt: skip


def test_a_wheel_tag_ties_it_to_the_machine_not_to_the_python() -> None:
    folder = next(Path(pleat.__file__).parents[1].glob("pleat_gpu-*.dist-info"))
    tags = re.findall(r"^Tag: (.*)$", (folder / "WHEEL").read_text(), re.MULTILINE)
    assert tags and all(tag.startswith("py3-none-linux_") for tag in tags)


def test_the_package_carries_the_class_for_torch_and_its_headers() -> None:
    package = Path(pleat.__file__).parent
    sources = {path.name for path in (SOURCE / "python/pleat/torch/source").iterdir()}
    assert sources == {path.name for path in (package / "torch/source").iterdir()}
    headers = {path.name for path in (package / "_include").iterdir()}
    wanted = {"pleat_torch.h"}
    while wanted - headers == set():
        named = set()
        for header in wanted:
            text = (package / "_include" / header).read_text()
            named |= set(re.findall(r'#include "(\w+\.h)"', text))
        if named <= wanted:
            return
        wanted |= named
    raise AssertionError(wanted - headers)
