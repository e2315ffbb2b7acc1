"""The real torch with CUDA tensors, on the simulated CUDA runtime, under pleat."""

from __future__ import annotations

import pickle
import textwrap
from pathlib import Path

import pytest
from conftest import RUNTIME, SIMULATOR, Run, run_arguments
from statistics_keys import expected_keys, without_private_pools

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")

INSTALL = """
import gc, threading
import pleat, pleat.torch, torch
MIB = 1 << 20
def empty(n_bytes, **options):
    return torch.empty(n_bytes, dtype=torch.uint8, device="cuda", **options)
"""


def installed(code: str, binding: str = "auto") -> str:
    install = f"pleat.torch.install(binding={binding!r})\n"
    return INSTALL + install + textwrap.dedent(code)


def test_tensors_are_counted_and_given_back(run_cuda: Run) -> None:
    run_cuda(
        installed(
            """
            a = empty(1000)
            b = empty(30 * MIB)
            assert torch.cuda.memory_allocated() == 1024 + 30 * MIB
            assert pleat.torch.memory_allocated("cuda:0") == torch.cuda.memory_allocated(0)
            assert torch.cuda.memory_reserved() >= 30 * MIB
            del b
            assert torch.cuda.memory_allocated() == 1024
            assert torch.cuda.max_memory_allocated() == 1024 + 30 * MIB
            torch.cuda.reset_peak_memory_stats()
            assert torch.cuda.max_memory_allocated() == 1024
            torch.cuda.reset_accumulated_memory_stats()
            stats = torch.cuda.memory_stats()
            assert stats["allocated_bytes.all.allocated"] == 0
            ours = pleat.torch.memory_stats() # with keys that this torch may not have
            assert stats.items() <= ours.items()
            assert list(stats) == sorted(stats)
            nested = torch.cuda.memory_stats_as_nested_dict()
            assert nested.items() <= pleat.torch.memory_stats_as_nested_dict().items()
            assert nested["allocation"]["all"]["current"] == 1
            if hasattr(torch.accelerator, "memory_allocated"):
                assert torch.accelerator.memory_allocated() == 1024
                assert torch.accelerator.max_memory_allocated() == 1024
                torch.accelerator.reset_peak_memory_stats()
                torch.accelerator.reset_accumulated_memory_stats()
            before = torch.cuda.mem_get_info()
            del a
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == 0
            assert torch.cuda.mem_get_info() == pleat.torch.mem_get_info()
            assert torch.cuda.mem_get_info()[0] > before[0]
            assert pleat.check_invariants() == 0
            """
        )
    )


def test_live_tensors_move_together(run_cuda: Run) -> None:
    run_cuda(
        installed(
            """
            halves = [empty(MIB) for _ in range(8)]
            at = [t.data_ptr() for t in halves]
            for i in (1, 2):
                halves[i] = None
            torch.cuda.synchronize()
            held = torch.cuda.memory_reserved()
            done = pleat.torch.compact()
            assert torch.cuda.memory_reserved() == held - done.won_bytes
            assert [t.data_ptr() for t in halves if t is not None] == at[:1] + at[3:]
            assert pleat.torch.compact("cuda:0").won_bytes == 0
            assert pleat.check_invariants() == 0
            """
        )
    )


@pytest.mark.parametrize("binding", ["class", "hooks"])
def test_a_request_that_is_short_moves_live_tensors_if_it_may(run_cuda: Run, binding: str) -> None:
    code = """
        pleat.torch.install(
            "limit:280M,chunk_share:1", binding={binding!r}, short={short!r})
        whole = empty(256 * MIB)  # four chunks, which the small tensors fill next
        del whole
        tensors = [empty(2 * MIB) for _ in range(128)]
        kept = tensors[::32]
        at = [t.data_ptr() for t in kept]
        del tensors
        torch.cuda.synchronize()
        try:
            large = empty(200 * MIB)
        except torch.OutOfMemoryError as error:
            print(error)
        assert [t.data_ptr() for t in kept] == at
        assert pleat.check_invariants() == 0
        """
    refused = run_cuda(INSTALL + textwrap.dedent(code.format(binding=binding, short="refuse")))
    words = 'install(short="compact"), or pleat.torch.compact() between two steps, would win'
    assert words in refused.stdout
    assert "pleat_device" not in refused.stdout  # a function of C
    served = run_cuda(INSTALL + textwrap.dedent(code.format(binding=binding, short="compact")))
    assert served.stdout == ""


def test_a_number_asked_for_alone_is_that_of_the_statistics(run_cuda: Run) -> None:
    run_cuda(
        installed(
            """
            def compare():
                stats = pleat.torch.memory_stats()
                alone = {
                    "allocated_bytes.all.current": pleat.torch.memory_allocated(),
                    "allocated_bytes.all.peak": pleat.torch.max_memory_allocated(),
                    "reserved_bytes.all.current": pleat.torch.memory_reserved(),
                    "reserved_bytes.all.peak": pleat.torch.max_memory_reserved(),
                }
                assert alone == {key: stats[key] for key in alone}
                return list(alone.values())
            a = empty(1000)
            b = empty(30 * MIB)
            del b
            torch.cuda.empty_cache()
            live, most_live, held, most_held = compare()
            assert (live, most_live) == (1024, 1024 + 30 * MIB)
            assert 0 < held < 30 * MIB <= most_held
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.reset_accumulated_memory_stats()
            assert compare() == [live, live, held, held]
            for ask in (pleat.torch.memory_stats, pleat.torch.memory_allocated):
                try:
                    ask(99)
                except pleat.PleatError as error:
                    assert error.name == "PLEAT_EDEVICE"
                else:
                    raise AssertionError
            """
        )
    )


def test_the_keys_are_those_of_torchs_own_allocator(run_cuda: Run) -> None:
    code = "import torch\ntorch.ones(8, device='cuda')\nprint(*torch.cuda.memory_stats(), sep='\\n')"
    native = run_cuda(code).stdout.split()
    ours = run_cuda("import pleat.torch\npleat.torch.install()\n" + code).stdout.split()
    assert set(ours) == set(without_private_pools(native))
    hooks = "import pleat.torch\npleat.torch.install(binding='hooks')\n"
    assert set(run_cuda(hooks + code).stdout.split()) == expected_keys()
    newer_than_torch = {"num_oom_rejections"} - set(native)
    assert without_private_pools(native) == expected_keys() - newer_than_torch


TRAIN = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(300, 700), torch.nn.GELU(), torch.nn.Linear(700, 11))
model = model.cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(5):
    batch = torch.randn(64 + 8 * step, 300, device="cuda")
    loss = torch.nn.functional.cross_entropy(
        model(batch), torch.zeros(len(batch), dtype=torch.long, device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
stats = torch.cuda.memory_stats()
print(*(stats[key] for key in ("requested_bytes.all.peak", "requested_bytes.all.allocated",
      "allocation.all.allocated", "allocation.all.current", "allocation.all.peak")))
"""


def test_a_training_asks_for_the_same_as_under_torchs_own(run_cuda: Run) -> None:
    native = run_cuda(TRAIN).stdout
    ours = run_cuda("import pleat.torch\npleat.torch.install()\n" + TRAIN).stdout
    assert ours == native
    assert len(native.split()) == 5


def test_out_of_memory_is_torchs_error_and_the_device_stays_usable(run_cuda: Run) -> None:
    done = run_cuda(
        installed(
            """
            kept = empty(2048 * MIB)
            try:
                empty(2100 * MIB)
            except torch.OutOfMemoryError as error:
                print(type(error), isinstance(error, torch.cuda.OutOfMemoryError))
                print(error)
            assert torch.cuda.memory_stats()["num_ooms"] == 1
            assert torch.cuda.memory_allocated() == 2048 * MIB
            del kept
            empty(3500 * MIB)
            """
        )
    )
    first, text = done.stdout.split("\n", 1)
    assert first == "<class 'torch.OutOfMemoryError'> True"
    assert "2.05 GiB" in text


def test_absurd_sizes_are_out_of_memory_too(run_cuda: Run) -> None:
    """The second number is from torch's own test: a batch size may start anywhere."""
    done = run_cuda(
        installed(
            """
            for n_bytes in (2**61, 8_000_000_000 << 30, 800_000_000 << 30):
                try:
                    empty(n_bytes)
                except torch.OutOfMemoryError as error:
                    print(str(error).split(". ")[1])
                else:
                    raise AssertionError(n_bytes)
            empty(MIB)
            assert pleat.check_invariants() == 0
            """
        )
    )
    assert done.stdout.splitlines() == [
        "Tried to allocate more than 1EB memory",
        "Tried to allocate more than 1EB memory",
        "Tried to allocate 800000000.00 GiB",
    ]


def test_freed_memory_of_any_shape_serves_one_big_request(run_cuda: Run) -> None:
    run_cuda(
        installed(
            """
            blocks = [empty(20 * MIB) for _ in range(190)]
            del blocks[::2]
            big = empty(1800 * MIB)
            assert torch.cuda.memory_stats()["num_ooms"] == 0
            assert pleat.check_invariants() == 0
            """
        )
    )


def test_uses_on_other_streams_hold_memory_back(run_cuda: Run) -> None:
    run_cuda(
        installed(
            """
            side = torch.cuda.Stream()
            tensor = empty(8 * MIB)
            with torch.cuda.stream(side):
                tensor.zero_()
                view = tensor[100:200]
                view.record_stream(side)
                own = empty(4 * MIB)
            del tensor, view, own
            torch.cuda.synchronize()
            del side
            torch.cuda.empty_cache()
            stats = torch.cuda.memory_stats()
            assert (stats["allocation.all.current"], stats["active.all.current"]) == (0, 0)
            assert torch.cuda.memory_reserved() == 0
            """
        )
    )


def test_a_fraction_limits_and_is_told(run_cuda: Run) -> None:
    run_cuda(
        installed(
            """
            assert torch.cuda.get_per_process_memory_fraction() == 1.0
            torch.cuda.set_per_process_memory_fraction(0.25)
            assert torch.cuda.get_per_process_memory_fraction() == 0.25
            empty(1000 * MIB)
            try:
                empty(1030 * MIB)
            except torch.OutOfMemoryError:
                pass
            else:
                raise AssertionError("more than a quarter")
            pleat.torch.set_per_process_memory_fraction(1.0)
            assert pleat.torch.get_per_process_memory_fraction() == 1.0
            empty(1030 * MIB)
            for bad, kind in ((1.5, ValueError), ("1", TypeError)):
                try:
                    pleat.torch.set_per_process_memory_fraction(bad)
                except kind:
                    continue
                raise AssertionError(bad)
            """
        )
    )


def test_a_fraction_below_what_lives_is_refused_by_both_functions(run_cuda: Run) -> None:
    run_cuda(
        installed(
            """
            kept = empty(1000 * MIB)
            for function in (
                torch.cuda.set_per_process_memory_fraction,
                pleat.torch.set_per_process_memory_fraction,
            ):
                try:
                    function(0.125)
                except (RuntimeError, pleat.PleatError) as error:
                    assert "live blocks need more" in str(error), error
                else:
                    raise AssertionError("1000 MiB live in 512")
                assert torch.cuda.get_per_process_memory_fraction() == 1.0
            """
        )
    )


def test_what_torch_cannot_ask_a_pluggable_allocator_still_raises(run_cuda: Run) -> None:
    """The list in docs/pytorch.md, as far as the simulated runtime supports it."""
    run_cuda(
        installed(
            """
            x = empty(MIB)
            for call in (
                torch.cuda.MemPool,
                lambda: x.untyped_storage()._share_cuda_(),
                lambda: torch._C._cuda_getCheckpointState(0, (0, 1)),
                lambda: torch._C._cuda_attach_out_of_memory_observer(lambda *_: None),
            ):
                try:
                    call()
                except RuntimeError as error:
                    assert "does not yet support" in str(error), error
                    continue
                raise AssertionError(call)
            raw = torch.cuda.caching_allocator_alloc(MIB)
            assert torch.cuda.memory_allocated() == 2 * MIB
            torch.cuda.caching_allocator_delete(raw)
            assert torch.cuda.memory.get_allocator_backend() == "pluggable"
            """,
            "hooks",
        )
    )


def test_the_summary_is_laid_out_as_torchs_own(run_cuda: Run) -> None:
    code = "x = torch.ones(8 << 20, device='cuda')\nprint(torch.cuda.memory_summary({}), end='')\n"
    for argument in ("", "abbreviated=True"):
        call = code.format(argument)
        native = run_cuda("import torch\n" + call).stdout.splitlines()
        ours = run_cuda(installed(call) + f"assert pleat.torch.memory_summary({argument}) == "
                        f"torch.cuda.memory_summary({argument})").stdout.splitlines()  # fmt: skip
        assert [line[:24] for line in ours] == [line[:24] for line in native]
        assert "|  32768 KiB |" in next(line for line in ours if "Allocated memory" in line)


def test_threads_allocate_and_free_each_others_tensors(run_cuda: Run) -> None:
    run_cuda(
        installed(
            """
            import queue, random
            pipe, failures = queue.Queue(), []
            def work(number):
                rng = random.Random(number)
                try:
                    with torch.cuda.stream(torch.cuda.Stream()):
                        for _ in range(300):
                            pipe.put(empty(rng.randint(1, 2 * MIB)))
                            if rng.random() < 0.9:
                                pipe.get()
                except Exception as error:
                    failures.append(error)
            threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            assert not failures, failures
            assert torch.cuda.memory_stats()["allocation.all.allocated"] >= 1200
            while not pipe.empty():
                pipe.get()
            torch.cuda.synchronize()
            assert torch.cuda.memory_allocated() == 0
            assert pleat.check_invariants() == 0
            """
        )
    )


def test_a_captured_graph_keeps_its_memory_to_itself(run_cuda: Run) -> None:
    run_cuda(
        installed(
            """
            x = empty(4 * MIB)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = x + 1
                z = y + 1
                del y
            keys = [k for k in pleat.torch.memory_stats() if k.startswith("reserved_bytes_by_pri")]
            assert any(k.endswith(".all.current") for k in keys), keys
            outside = [empty(4 * MIB) for _ in range(40)]
            inside = {z.data_ptr()}
            assert not inside & {t.data_ptr() for t in outside}
            graph.replay()
            torch.cuda.synchronize()
            graph.reset()
            del z, outside, graph, x
            gc.collect()
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == 0, torch.cuda.memory_summary()
            assert pleat.check_invariants() == 0
            """
        )
    )


def test_a_graph_that_runs_where_nobody_looks_keeps_its_memory_until_it_is_done(
    run_cuda: Run,
) -> None:
    """The replay's stream allocates nothing, so pleat never hears of the stream. The work is
    copies: the simulator knows their memory, and would record the hazard."""
    run_cuda(
        installed(
            """
            import ctypes
            x = torch.zeros(256 * MIB, dtype=torch.uint8, device="cuda")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = torch.empty_like(x).copy_(x)
                z = torch.empty_like(x).copy_(y)
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                graph.replay()
            del y, z, graph
            kept = []
            try:
                while len(kept) < 1000:
                    kept.append(x[: 64 * MIB].clone())
            except torch.OutOfMemoryError:
                pass
            assert 60 <= len(kept) < 64, "the graph's memory serves, too"
            torch.cuda.synchronize()
            lines = [line.split() for line in open("/proc/self/maps")]
            paths = {line[-1] for line in lines if line[-1].endswith("libpleat_sim.so")}
            assert paths, "the runtime's, and one that configurations are tried out with"
            for path in paths:
                assert ctypes.CDLL(path).pleat_sim_hazards(None, ctypes.c_size_t(0)) == 0
            assert pleat.check_invariants() == 0
            """
        )
    )


def test_snapshots_are_read_by_torchs_viewer(run_cuda: Run, tmp_path: Path) -> None:
    run_cuda(
        installed(
            """
            torch.cuda.memory._record_memory_history(max_entries=5000)
            pleat.torch.record_memory_history(max_entries=5000, stacks="all")
            kept = [empty((1 + i % 7) * MIB) for i in range(20)]
            del kept[::3]
            pool = tuple(torch.cuda.memory_snapshot()[0]["segment_pool_id"])
            assert pool == (0, 0)
            torch.cuda.memory._dump_snapshot("torchs.pickle")
            pleat.torch.dump_snapshot("ours.pickle")
            torch.cuda.memory._record_memory_history(None)
            seen = pleat.torch.snapshot()
            live = [b for s in seen["segments"] for b in s["blocks"]
                    if b["state"] == "active_allocated"]
            assert sorted(b["address"] for b in live) == sorted(t.data_ptr() for t in kept)
            actions = {e["action"] for e in seen["device_traces"][0]}
            assert {"alloc", "free_requested", "free_completed"} <= actions, actions
            """
        )
    )
    import torch.cuda._memory_viz

    viewer = torch.cuda._memory_viz.__file__
    for name in ("torchs.pickle", "ours.pickle"):
        assert "segments" in run_arguments(viewer, "stats", name, cwd=tmp_path).stdout
        assert "a = seg_0[0:1.0MiB]" in run_arguments(viewer, "trace", name, cwd=tmp_path).stdout
        run_arguments(viewer, "trace_plot", name, "-o", "page.html", cwd=tmp_path)
        assert "<html" in (tmp_path / "page.html").read_text()


UNCHANGED = """
import torch
from torch.cuda import max_memory_allocated, memory_reserved
x = torch.zeros(50 << 20, dtype=torch.uint8, device="cuda")
del x
x = torch.zeros(10 << 20, dtype=torch.uint8, device="cuda")
print(torch.cuda.memory_allocated() >> 20, max_memory_allocated() >> 20, memory_reserved() > 0)
print(torch.cuda.memory_summary().count("\\n"))
"""


def test_an_unchanged_script_prints_right_numbers(
    run_forked_python: Run, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNCHANGED)
    options = ("--report", "--snapshot", "end.pickle")
    done = run_forked_python("-m", "pleat.torch", *options, str(script))
    assert done.stdout.splitlines()[0] == "10 50 True"
    report = done.stderr.strip().splitlines()[-1]
    assert report.startswith("pleat: device 0: peak reserved 0.0")
    assert "peak allocated 0.049 GiB" in report
    assert report.endswith(" 0 failures")
    end = pickle.loads((tmp_path / "end.pickle").read_bytes())
    sizes = [entry["size"] for entry in end["device_traces"][0] if entry["action"] == "alloc"]
    assert sizes == [50 << 20, 10 << 20]


def test_a_history_from_the_start_holds_the_first_tensor(run_cuda: Run) -> None:
    run_cuda(
        INSTALL
        + """
pleat.torch.install(history=100)
first = empty(5 * MIB)
entries = [e for e in pleat.torch.snapshot()["device_traces"][0] if e["action"] == "alloc"]
assert [(e["addr"], e["size"]) for e in entries] == [(first.data_ptr(), 5 * MIB)]

pleat.torch.record_memory_history(None)
second = empty(5 * MIB)
entries = [e for e in pleat.torch.snapshot()["device_traces"][0] if e["action"] == "alloc"]
assert len(entries) == 1
pleat.torch.install()
"""
    )


POOL = """
pool = pleat.torch.mem_pool()
outside = empty(3 * MIB)
native_bytes = torch.cuda.memory_reserved()
assert torch.cuda.memory.get_allocator_backend() == "native"
"""


def test_a_pools_segments_come_from_pleat_and_torch_counts_them(run_cuda: Run) -> None:
    run_cuda(
        INSTALL
        + POOL
        + """
with pleat.torch.use_mem_pool(pool) as used:
    assert used is pool
    inside = [empty(MIB) for _ in range(3)] + [empty(30 * MIB)]
in_pool = torch.cuda.memory_reserved() - native_bytes
assert in_pool == (2 + 2 + 30) * MIB
assert pleat.memory_stats(0)["allocated_bytes.all.current"] == in_pool
assert torch.cuda.memory_allocated() == 36 * MIB
segments = pool.snapshot()
assert sorted(s["total_size"] for s in segments) == [2 * MIB, 2 * MIB, 30 * MIB]
try:
    with pleat.torch.use_mem_pool(pool):
        empty(5000 * MIB)
except torch.OutOfMemoryError as error:
    assert "CUDA out of memory. Tried to allocate" in str(error)
else:
    raise AssertionError("there is no such memory")
del inside, segments, used, pool
gc.collect()
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() == native_bytes
stats = pleat.memory_stats(0)
assert stats["allocated_bytes.all.current"] == 0
assert pleat.check_invariants() == 0
"""
    )


def test_a_look_at_the_statistics_before_a_pool_takes_the_real_driver(run_cuda: Run) -> None:
    run_cuda(
        INSTALL
        + """
empty(3)
assert pleat.torch.memory_allocated() == 0
assert pleat.describe().driver == "cuda"
pool = pleat.torch.mem_pool()
with pleat.torch.use_mem_pool(pool):
    x = empty(30 * MIB)
assert pleat.torch.memory_allocated() == 30 * MIB
"""
    )


def test_a_pool_for_one_block_needs_no_name(run_cuda: Run) -> None:
    run_cuda(
        INSTALL
        + """
with pleat.torch.use_mem_pool():
    x = empty(30 * MIB)
assert pleat.memory_stats(0)["allocated_bytes.all.current"] == 30 * MIB
y = empty(30 * MIB)
assert pleat.memory_stats(0)["allocated_bytes.all.current"] == 30 * MIB
x.zero_()
"""
    )


def test_a_child_forked_before_the_first_use_of_cuda_has_a_device(run_cuda: Run) -> None:
    run_cuda(
        """
        import os, torch
        import pleat.torch
        pleat.torch.install()
        for _ in range(2):
            child = os.fork()
            if child == 0:
                x = torch.zeros(1 << 20, device="cuda")
                assert torch.cuda.memory_allocated() == 4 << 20
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        assert torch.zeros(1, device="cuda").is_cuda
        """
    )


def test_workers_forked_after_the_first_use_of_cuda_do_no_harm(run_cuda: Run) -> None:
    run_cuda(
        installed(
            """
            from torch.utils.data import DataLoader
            on_device = empty(MIB)
            loader = DataLoader(torch.arange(64.0), batch_size=8, num_workers=2)
            assert sum(float(batch.sum()) for batch in loader) == 63 * 32
            assert torch.cuda.memory_allocated() == MIB
            another = empty(MIB)
            assert pleat.check_invariants() == 0
            """
        )
    )


def test_tensors_that_outlive_the_interpreter_are_no_crash(run_python: Run) -> None:
    done = run_python(  # not a fork: those leave the interpreter as it is
        "-c",
        installed(
            """
            import atexit, builtins, sys
            class Late:
                def __init__(self):
                    self.tensor = empty(MIB)
            builtins.late = Late()
            torch.late = Late()
            late = Late()
            atexit.register(lambda: setattr(builtins, "later", empty(MIB)))
            threading.Thread(target=lambda: [empty(MIB) for _ in range(100)]).start()
            """
        ),
        LD_PRELOAD=str(RUNTIME),
        PLEAT_SIM=SIMULATOR,
    )
    assert "rror" not in done.stderr
