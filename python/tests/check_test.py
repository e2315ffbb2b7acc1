"""pleat-runtime --check: what it finds in scripts, what it leaves alone, what it prints.

The drawn programs (check_programs.py) have one mistake each, or none. A share of the seeds is played
here; `check_programs.py 0 200 wrong` plays them all."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from conftest import BUILD, RUNTIME, Run, clean_environment

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")
pytest.importorskip("torch")

PROGRAMS = Path(__file__).with_name("check_programs.py")
N_PROGRAMS = int(os.environ.get("PLEAT_CHECK_PROGRAMS", "40"))
ALLOCATORS = {
    "native": {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "pleat": {},
}


def arguments(allocator: str) -> list[str]:
    return ["-m", "pleat.torch" if allocator == "pleat" else "pleat.check"]


@pytest.fixture
def check(run_forked_python: Run, tmp_path: Path) -> Any:
    """check(CODE, allocator): the objects of the findings, and what was printed."""

    def run(code: str, allocator: str = "native", *words: str) -> tuple[dict[str, Any], str]:
        folder = tmp_path / "findings"
        folder.mkdir(exist_ok=True)
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(code), "utf-8")
        done = run_forked_python(
            *arguments(allocator),
            str(script),
            *words,
            PLEAT_TORCH_CHECK=str(folder),
            **ALLOCATORS[allocator],
        )
        (path,) = folder.glob("*.json")
        told = json.loads(path.read_text("utf-8"))
        path.unlink()
        return told, done.stderr

    return run


def line_of(code: str, words: str) -> int:
    (number,) = [
        i + 1 for i, line in enumerate(textwrap.dedent(code).splitlines()) if words in line
    ]
    return number


def first(place: dict[str, Any]) -> int:
    return int(place["frames"][0]["line"])


# ---- drawn programs ----


def is_right(result: dict[str, Any]) -> bool:
    """One finding, of that kind, with that block, both places and both streams."""
    expected = result["expected"]
    if len(result["found"]) != 1:
        return False
    (found,) = result["found"]
    marks = [key for key in "12bf" if key in expected]
    return bool(
        found["kind"] == expected["kind"]
        and found["bytes"] == expected["bytes"]
        and all(found[key] == expected[key] for key in marks)
        and set(expected["streams"]) <= set(found["streams"])
    )


@pytest.mark.parametrize("what", ["wrong", "right"])
@pytest.mark.parametrize("allocator", list(ALLOCATORS))
def test_drawn_programs(run_forked_python: Run, tmp_path: Path, allocator: str, what: str) -> None:
    share = N_PROGRAMS if allocator == "native" else N_PROGRAMS // 2
    done = run_forked_python(
        *arguments(allocator),
        str(PROGRAMS),
        "0",
        str(share),
        what,
        PLEAT_TORCH_CHECK=str(tmp_path),
        **ALLOCATORS[allocator],
    )
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == share
    if what == "right":
        wrong = [r for r in results if r["found"] or r["hints"]]
        assert not wrong, json.dumps(wrong[0], indent=1)
    else:
        missed = [r for r in results if not is_right(r)]
        assert 20 * len(missed) <= share, json.dumps(missed[0], indent=1)


# ---- single mistakes ----

FORGOTTEN = """
import torch
s = torch.cuda.Stream()
x = torch.randn(1 << 20, device="cuda")
torch.cuda.synchronize()
for i in range(3):
    with torch.cuda.stream(s):
        y = x * 2
    del x
    x = torch.randn(1 << 20, device="cuda")
    torch.cuda.synchronize()
"""


@pytest.mark.parametrize("allocator", list(ALLOCATORS))
def test_a_finding_is_told_once_with_its_count(check: Any, allocator: str) -> None:
    told, printed = check(FORGOTTEN, allocator)
    (finding,) = told["findings"]
    assert finding["kind"] == "early-free" and finding["count"] >= 3
    assert first(finding["other"]) == line_of(FORGOTTEN, "y = x * 2")
    assert first(finding["here"]) == line_of(FORGOTTEN, "    x = torch.randn")
    assert first(finding["block"]["freed"]) == line_of(FORGOTTEN, "del x")
    assert finding["block"]["bytes"] == 4 << 20
    assert "record_stream" in finding["missing"]
    assert "y = x * 2" in printed and "pleat check: 1 finding," in printed


def test_a_script_without_mistakes_gets_one_line(check: Any) -> None:
    told, printed = check(FORGOTTEN.replace("    del x", "    x.record_stream(s)\n    del x"))
    assert told["findings"] == [] and told["operations"] > 0
    assert printed.count("\n") == 1 and printed.startswith("pleat check: 0 findings")


def test_gradients_are_followed_into_autograd_s_threads(check: Any) -> None:
    code = """
        import torch
        s = torch.cuda.Stream()
        w = torch.ones(1 << 16, device="cuda", requires_grad=True)
        (w * w).sum().backward()
        with torch.cuda.stream(s):
            g = w.grad * 2
        """
    told, _ = check(code)
    assert [f["kind"] for f in told["findings"]] == ["unordered"]
    (finding,) = told["findings"]
    assert first(finding["here"]) == line_of(code, "g = w.grad")
    assert finding["other"]["backward"]
    assert first(finding["other"]) == line_of(code, "backward()")


def test_halves_of_a_matrix_s_columns_are_apart(check: Any) -> None:
    code = """
        import torch
        s = torch.cuda.Stream()
        m = torch.zeros(64, 64, device="cuda")
        torch.cuda.synchronize()
        m[:, :32].add_(1)
        with torch.cuda.stream(s):
            m[:, 32:].add_(1)
        torch.cuda.synchronize()
        m[:, :33].add_(1)
        with torch.cuda.stream(s):
            m[:, 32:].mul_(1)
        """
    told, _ = check(code)
    (finding,) = told["findings"]
    assert first(finding["here"]) == line_of(code, "mul_(1)")


def test_what_a_wait_on_the_host_has_seen_is_over(check: Any) -> None:
    told, _ = check(
        """
        import torch
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            x = torch.ones(1000, device="cuda")
            x.sum().item()
        x.add_(1)
        y = torch.ones(1000).cuda()
        with torch.cuda.stream(s):
            y.add_(1)
        """
    )
    assert told["findings"] == []


def test_a_sleeping_tag_is_known(check: Any) -> None:
    code = """
        import torch, pleat.torch
        with pleat.torch.tag("kv"):
            kv = torch.zeros(1 << 20, device="cuda")
        pleat.torch.sleep("kv", keep="discard")
        kv.add_(1)
        torch.cuda.synchronize()
        pleat.torch.wake("kv")
        kv.sum()
        kv.fill_(0)
        kv.sum()
        """
    told, _ = check(code, "pleat")
    asleep, empty = told["findings"]
    assert asleep["kind"] == "unmapped" and "wake" in asleep["missing"]
    assert first(asleep["here"]) == line_of(code, "kv.add_")
    assert empty["kind"] == "no-contents" and empty["count"] == 1


def test_a_copy_into_a_sleeping_tag_says_whose_memory_it_is(check: Any) -> None:
    code = """
        import torch, pleat.torch
        with pleat.torch.tag("kv"):
            kv = torch.zeros(1 << 20, device="cuda")
        torch.cuda.synchronize()
        pleat.torch.sleep("kv", keep="discard")
        try:
            kv.copy_(torch.ones(1 << 20))
        except RuntimeError:
            pass
        """
    told, _ = check(code, "pleat")
    (asleep,) = told["findings"]
    assert asleep["kind"] == "unmapped" and "wake" in asleep["missing"]
    assert asleep["block"]["bytes"] == 4 << 20
    assert first(asleep["block"]["allocated"]) == line_of(code, "kv = torch.zeros")


def test_custom_operators_are_known_by_their_schema(check: Any) -> None:
    code = """
        import torch
        @torch.library.custom_op("mine::scale_", mutates_args=("x",))
        def scale_(x: torch.Tensor, by: float) -> None:
            x.mul_(by)
        s = torch.cuda.Stream()
        x = torch.ones(1000, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(s):
            y = x + 1
        scale_(x, 2.0)
        """
    told, _ = check(code)
    (finding,) = told["findings"]
    assert first(finding["here"]) == line_of(code, "scale_(x, 2.0)")
    assert finding["here"]["what"] == "mine::scale_"


def test_tensors_without_memory_are_left_alone(check: Any) -> None:
    """DTensor plans with them what each rank does, and FSDP2's parameters are DTensors."""
    code = """
        import torch
        import torch.distributed as dist
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.distributed.fsdp import fully_shard
        with FakeTensorMode():
            fake = torch.empty(3, device="cuda")
        assert (torch.empty_like(fake) + fake).shape == (3,)
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)).cuda()
        fully_shard(model)
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(2):
            model(torch.randn(8, 64, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        weight = next(model.parameters())._local_tensor.detach()
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            other = weight + 1
        model[0].weight.data.mul_(2)
        dist.destroy_process_group()
        """
    told, _ = check(code)
    (finding,) = told["findings"]
    assert first(finding["here"]) == line_of(code, "data.mul_")


def test_host_tensors_do_not_hide_what_an_operation_does_on_a_device(check: Any) -> None:
    """torch's own operations follow their tensors, and are left alone where those are the host's. One
    that is told a device is not, nor is anybody else's."""
    code = """
        import torch
        @torch.library.custom_op("mine::upload", mutates_args=())
        def upload(x: torch.Tensor) -> torch.Tensor:
            return torch.ones(x.numel(), device="cuda") * 2
        s = torch.cuda.Stream()
        main = torch.cuda.current_stream()
        host = (torch.ones(1000) + 1).pin_memory()
        with torch.cuda.stream(s):
            x = upload(host)
        x += 1
        main.synchronize()
        with torch.cuda.stream(s):
            y = host.to("cuda", non_blocking=True)
        y += 1
        """
    told, _ = check(code)
    uploaded, copied = told["findings"]
    assert uploaded["other"]["what"] == "mine::upload"
    assert copied["other"]["what"] == "aten::_to_copy"
    assert first(uploaded["block"]["allocated"]) == line_of(code, "x = upload(host)")
    assert first(copied["block"]["allocated"]) == line_of(code, "y = host.to")
    assert told["operations"] == 8  # the host's, too


@pytest.mark.parametrize("call", ["op_begin(1, [2])", "op_begin('x', [])", "tell(1)", "here()"])
def test_calls_of_the_simulator_refuse_what_they_cannot_read(check: Any, call: str) -> None:
    code = f"""
        import pytest
        from pleat.torch import _listener
        with pytest.raises(TypeError):
            _listener.{call}
        """
    told, _ = check(code)
    assert told["findings"] == []


# ---- training loops ----

SCRIPTS = Path(__file__).with_name("check_scripts.py")
# What a script lacks, and what is found.
LACKING = {
    "resnet": ("torch.cuda.current_stream().wait_stream(self.stream)", "unordered"),
    "sharded": ("main.wait_event(self.ready)", "unordered"),
    "sharded, its weights": ("self.whole.record_stream(main)", "early-free"),
    "sharded, its gradients": ("grad.record_stream(self.reduce)", "early-free"),
}


@pytest.mark.parametrize("script", ["gpt", "resnet", "vae", "dcgan", "sharded"])
@pytest.mark.parametrize("allocator", ["native", "pleat"])
def test_training_loops_have_no_mistake(check: Any, allocator: str, script: str) -> None:
    told, printed = check(SCRIPTS.read_text("utf-8"), allocator, script, "6")
    assert told["findings"] == [] and told["hints"] == [], printed
    assert told["growing"] == [] and told["operations"] > 300, printed


@pytest.mark.parametrize("what", list(LACKING))
def test_training_loops_that_lack_a_line_have_one(check: Any, what: str) -> None:
    line, kind = LACKING[what]
    code = SCRIPTS.read_text("utf-8")
    assert code.count(line) == 1
    told, printed = check(code.replace(line, "pass"), "native", what.split(",")[0], "3")
    assert kind in [finding["kind"] for finding in told["findings"]], printed


def test_random_numbers_in_graphs_are_torch_s_own_affair(check: Any) -> None:
    told, printed = check(
        """
        import torch
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.5)).cuda()
        x = torch.randn(8, 64, device="cuda", requires_grad=True)
        graphed = torch.cuda.make_graphed_callables(model, (x,))
        for _ in range(3):
            graphed(x).sum().backward()
        """
    )
    assert told["findings"] == [], printed


# ---- hints ----

NEEDLESS = """
import torch
s = torch.cuda.Stream()
main = torch.cuda.current_stream()
with torch.cuda.stream(s):
    torch.ones(8, device="cuda").sum()
for i in range(3):
    x = torch.randn(1 << 16, device="cuda")
    x.record_stream(s)
    y = x * 2
    del x
"""
ON_S = "    s.wait_stream(main)\n    with torch.cuda.stream(s):\n        {}\n    main.wait_stream(s)\n"
BLIND = """
import ctypes, os
kernel = ctypes.CDLL(os.environ["PLEAT_SIM_LIBRARY"]).pleat_sim_op_kernel
"""
NEEDED = {
    "read": ON_S.format("x[5:9].sum()"),
    "copied": ON_S.format("x.cpu()"),
    "written in one round of three": ON_S.format("i == 1 and x.neg_()"),
    "written through its address": ON_S.format("torch.from_dlpack(x).neg_()"),
    "perhaps, by a kernel that nobody knows": "    kernel(ctypes.c_void_p(s.cuda_stream))\n",
}


@pytest.mark.parametrize("allocator", list(ALLOCATORS))
def test_a_record_that_nothing_needs_gets_a_hint(check: Any, allocator: str) -> None:
    told, printed = check(NEEDLESS, allocator)
    (hint,) = told["hints"]
    assert hint["count"] == 3
    assert first(hint["place"]) == line_of(NEEDLESS, "record_stream")
    assert told["findings"] == [] and "pleat check: 0 findings" in printed
    assert "a hint: record_stream that nothing needs, 3 times" in printed


@pytest.mark.parametrize("use", list(NEEDED))
def test_a_record_that_may_be_needed_gets_none(check: Any, use: str) -> None:
    for where in ("    y = x * 2", "    x.record_stream(s)"):  # behind the record, or before
        told, printed = check(BLIND + NEEDLESS.replace(where, NEEDED[use] + where))
        assert told["hints"] == [] and told["findings"] == [], printed


def test_a_library_s_own_record_gets_none(check: Any) -> None:
    told, _ = check(
        """
        import torch
        s = torch.cuda.Stream()
        x = torch.ones(100, device="cuda")
        exec(compile("x.record_stream(s)", torch.__file__, "exec"), {"x": x, "s": s})
        del x
        """
    )
    assert told["hints"] == []


# ---- what lives ----

LOSSES = """
import torch
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.AdamW(model.parameters())
losses = []
for step in range(3):
    loss = model(torch.randn(8, 64, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
"""


def test_a_list_of_losses_is_told_after_three_steps(check: Any) -> None:
    told, printed = check(LOSSES)
    (growing,) = told["growing"]
    assert growing["blocks_a_step"] == 1
    assert f":{line_of(LOSSES, 'square().mean()')}" in growing["place"]
    assert "grows by 1 blocks" in printed
    told, _ = check("def main():\n" + textwrap.indent(LOSSES, "    ") + "main()\n")
    assert len(told["growing"]) == 1  # though its list is gone at the end
    told, printed = check(LOSSES.replace("append(loss)", "append(loss.item())"))
    assert told["growing"] == [] and "grows" not in printed


def test_leaks_since_a_mark(check: Any) -> None:
    code = """
        import torch, pleat.torch
        before = torch.ones(1000, device="cuda")
        mark = pleat.torch.mark()
        kept = [torch.ones(5000, device="cuda") for _ in range(3)]
        gone = torch.ones(5000, device="cuda")
        del gone
        (alive,) = pleat.torch.leaks(since=mark)
        assert (alive.blocks, alive.bytes) == (3, 3 * 20000), alive
        assert alive.place.frames[0].line == 5, alive
        assert len(pleat.torch.leaks()) == 2
        assert "3 blocks, 58.6 KiB" in str(alive), alive
        """
    check(code)


# ---- the command ----


STEP_BETWEEN = """
import torch
copy = torch.cuda.Stream()
with torch.cuda.stream(copy):
    emb = torch.ones(1 << 16, device="cuda")
torch.cuda.current_stream().wait_stream(copy)
loss = emb.mean()
del emb
w = torch.ones(1000, device="cuda")
for i in range(3000):
    w.mul_(2)
with torch.cuda.stream(copy):
    emb = torch.ones(1 << 16, device="cuda")
"""


def test_the_command_s_status_and_json(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    environment = clean_environment(PYTHONPATH=os.environ.get("PYTHONPATH", ""))

    def command(code: str, *options: str) -> tuple[int, str, list[dict[str, Any]]]:
        script.write_text(code, "utf-8")
        told = tmp_path / "told.json"
        done = subprocess.run(
            [BUILD / "pleat-runtime", "--check", *options, "--json", told, sys.executable, script],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        objects = [json.loads(line) for line in told.read_text("utf-8").splitlines()]
        return done.returncode, done.stderr, objects

    status, printed, (told,) = command(FORGOTTEN)
    assert status == 3 and len(told["findings"]) == 1, printed
    assert "not compared" not in printed and told["compared_launches"] is None
    status, printed, (told,) = command("import sys, torch\ntorch.ones(3).cuda()\nsys.exit(7)\n")
    assert status == 7 and told["findings"] == [], printed
    status, printed, (told,) = command("import torch\ntorch.ones(3).cuda()\n")
    assert status == 0, printed

    # A whole step lies between the two works; where it is too long, the line says so.
    status, printed, (told,) = command(STEP_BETWEEN)
    (finding,) = told["findings"]
    assert status == 3 and finding["kind"] == "early-free" and told["compared_launches"] is None
    assert first(finding["other"]) == line_of(STEP_BETWEEN, "emb.mean()")
    status, printed, (told,) = command(STEP_BETWEEN, "--sim", "depth:1000,host:1G")
    assert status == 0 and told["findings"] == [] and told["compared_launches"] == 1000, printed
    assert printed.startswith("pleat check: 0 findings, ") and printed.count("\n") == 1
    assert "not compared: work of two streams more than 1000 launches apart" in printed


def test_the_page_has_the_lines_of_code(tmp_path: Path) -> None:
    script, page = tmp_path / "script.py", tmp_path / "page.html"
    script.write_text(FORGOTTEN.replace("x * 2", "x * 2 if i < 9 else '<b>'"), "utf-8")
    done = subprocess.run(
        [BUILD / "pleat-runtime", "--check", "--html", page, sys.executable, script, "<i>"],
        env=clean_environment(PYTHONPATH=os.environ.get("PYTHONPATH", "")),
        check=False,
    )
    assert done.returncode == 3
    text = page.read_text("utf-8")
    marked = re.findall(r"<mark> *\d+ *(.*?)</mark>", text)
    assert "y = x * 2 if i &lt; 9 else &#x27;&lt;b&gt;&#x27;" in marked and "del x" in marked
    assert "record_stream(torch.cuda.current_stream())" in text
    assert text.count("<section>") == 1 and "&lt;i&gt;" in text and "<b>" not in text


def test_the_page_tells_what_is_no_finding(check: Any, tmp_path: Path) -> None:
    check(LOSSES)
    (page,) = (tmp_path / "findings").glob("*.html")
    text = page.read_text("utf-8")
    assert "0 findings" in text and "memory grows with each of 3 steps" in text
