"""Which tests of PyTorch's are played (upstream.py --tests), and which version has its turn."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1] / "torch"
sys.path.insert(0, str(HERE))

import upstream  # noqa: E402
import versions  # noqa: E402

KNOWN = ["2.15.0", "2.13.0", "2.6.0"]


def test_a_folder_of_ones_own_need_not_have_all_modules(tmp_path: Path) -> None:
    assert upstream.modules_of(None, None) == list(upstream.DEVICES)
    assert upstream.modules_of(None, ["test_cuda_trace"]) == ["test_cuda_trace"]
    (tmp_path / "test_cuda_trace.py").touch()
    (tmp_path / "test_cuda.py").touch()
    assert upstream.modules_of(tmp_path, None) == ["test_cuda", "test_cuda_trace"]
    assert upstream.modules_of(tmp_path, ["test_cuda"]) == ["test_cuda"]
    with pytest.raises(SystemExit, match="has no test_cuda_multigpu"):
        upstream.modules_of(tmp_path, ["test_cuda", "test_cuda_multigpu"])
    with pytest.raises(SystemExit, match="has no test_cuda"):
        upstream.modules_of(tmp_path / "elsewhere", None)


def test_other_tests_are_recorded_in_another_file(tmp_path: Path) -> None:
    own, other = upstream.results_of("2.15.0", None), upstream.results_of("2.15.0", tmp_path)
    assert own.exists() and other != own and other.parent == own.parent


def answer_as_git(monkeypatch: pytest.MonkeyPatch, status: int, text: str) -> None:
    done = subprocess.CompletedProcess(["git"], status, stdout=text)
    monkeypatch.setattr(versions.subprocess, "run", lambda *_a, **_k: done)


def test_the_commit_says_whose_turn_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLEAT_TORCH_TURN", raising=False)
    answer_as_git(monkeypatch, 0, "0000000a" + "f" * 32 + "\n")
    assert versions.turn_of(KNOWN) == ("2.15.0", "commit 0000000a, of 2.15.0 and 2.6.0")
    answer_as_git(monkeypatch, 0, "0000000b" + "0" * 32 + "\n")
    assert versions.turn_of(KNOWN)[0] == "2.6.0"
    assert versions.turn_of(["2.15.0"])[0] == "2.15.0"


def test_the_day_says_it_where_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLEAT_TORCH_TURN", raising=False)
    answer_as_git(monkeypatch, 128, "")
    monkeypatch.setattr(time, "time", lambda: 3 * 86400.0 + 5)
    assert versions.turn_of(KNOWN) == ("2.6.0", "day 3, of 2.15.0 and 2.6.0")
    monkeypatch.setenv("PLEAT_TORCH_TURN", "2.9.1")
    assert versions.turn_of(KNOWN)[0] == "2.9.1"


def test_the_commit_says_which_share_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLEAT_TEST_PERCENT", raising=False)
    shares = set()
    for number in range(12):
        answer_as_git(monkeypatch, 0, f"{number:08x}" + "0" * 32 + "\n")
        shares.add((versions.turn_of(KNOWN)[0], versions.share_of_turn()))
    assert shares == {(v, f"{i}/6") for v in ("2.15.0", "2.6.0") for i in range(6)}
    monkeypatch.setenv("PLEAT_TEST_PERCENT", "100")
    assert versions.share_of_turn() == "0/1"


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """fetch.sh as far as versions.py asks it: `venv` names the folder, `python` runs `script`."""
    program = folder / "fetch.sh"
    program.write_text(f'#!/bin/sh\n[ "$1" = venv ] && echo {folder}/venv && exit\n{script}\n')
    program.chmod(0o755)
    monkeypatch.setattr(versions, "HERE", folder)


def test_who_installs_elsewhere_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PLEAT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("PLEAT_TORCH_PYTHON", raising=False)
    monkeypatch.setattr(versions, "ROOM_BYTES", 0)
    (tmp_path / "venv-torch-9.9.9").mkdir()
    with (tmp_path / "torch.lock").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        begin = time.monotonic()
        assert "within 1 s" in versions.fetch_bounded("9.9.9", 1)
        assert time.monotonic() - begin < 30
        assert (tmp_path / "venv-torch-9.9.9").exists()  # it may be the other's
    versions.remove_unfinished(tmp_path / "venv-torch-9.9.9")
    assert not (tmp_path / "venv-torch-9.9.9").exists()


def test_what_cannot_be_fetched_is_told_and_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(versions, "ROOM_BYTES", 0)
    stand_in(monkeypatch, tmp_path, "exit 1")
    assert versions.fetch_turn("2.9.1", "so") == 0
    assert "torch 2.9.1: NOT INSTALLED" in capfd.readouterr().out
    stand_in(monkeypatch, tmp_path, "exec sleep 60")
    begin = time.monotonic()
    assert "within 1 s" in versions.fetch_bounded("2.9.1", 1)
    assert time.monotonic() - begin < 30
    stand_in(monkeypatch, tmp_path, "exit 0")
    assert versions.fetch_bounded("2.9.1", 60) == ""
    monkeypatch.setattr(versions, "ROOM_BYTES", 1 << 62)
    assert "MiB left" in versions.fetch_bounded("2.9.1", 60)
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/pleat.stamp").touch()
    assert versions.fetch_bounded("2.9.1", 60) == ""  # the environment exists
