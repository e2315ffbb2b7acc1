# labels: python
"""bench/gpu/pack.sh: the packed files for a machine with a GPU. The script leaves other folders
alone."""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("PLEAT_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("PLEAT_BUILD_DIR", ROOT / "build"))
GPU = ROOT / "bench" / "gpu"


def pack(folder, tmp_path):
    """Run pack.sh with a cmake that builds nothing."""
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "cmake").write_text("#!/bin/sh\nexit 0\n")
    (tools / "cmake").chmod(0o755)
    return subprocess.run(["bash", GPU / "pack.sh", folder, BUILD], capture_output=True, text=True,
                          check=False, env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})


def test_a_folder_that_is_not_a_pack_is_not_touched(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("all of it")
    for folder in (mine, mine / "thesis.tex"):
        ended = pack(folder, tmp_path)
        assert ended.returncode == 2 and "give a new" in ended.stderr
    assert [path.name for path in mine.iterdir()] == ["thesis.tex"]
    assert (mine / "thesis.tex").read_text() == "all of it"


def test_a_pack_is_made_anew_where_one_was(tmp_path):
    if not all((BUILD / name).exists() for name in ("pleat", "libpleat_runtime.so")):
        pytest.skip("not all is built that is packed")
    folder = tmp_path / "pack"
    folder.mkdir()
    for left_over in (None, "old"):
        if left_over:
            (folder / left_over).write_text("of the last pack")
        ended = pack(folder, tmp_path)
        assert ended.returncode == 0, ended.stderr
        assert (folder / "bench/gpu/train.py").exists() and not (folder / "old").exists()
    assert (folder / "python/pleat/_include/pleat_torch.h").exists()
    ended = subprocess.run([sys.executable, "-B", folder / "bench/gpu/run.py", "--help"],
                           capture_output=True, text=True, check=True)
    assert "480 s" in ended.stdout or "{a,b}" in ended.stdout
