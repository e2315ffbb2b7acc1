"""pleat as a class derived from torch's, compiled on first use: torch's features without
patches."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from conftest import RUNTIME, SIMULATOR, Run, Zygote, run_arguments

pytestmark = pytest.mark.skipif(not RUNTIME.exists(), reason="libpleat_runtime.so is not built")

INSTALL = """
import gc, pickle
import pleat, pleat.torch, torch
MIB = 1 << 20
pleat.torch.install(binding="class")
def empty(n_bytes, **options):
    return torch.empty(n_bytes, dtype=torch.uint8, device="cuda", **options)
def lacks(name):
    print(f"torch {torch.__version__} has no {name}")
    raise SystemExit(77)
def needs(module, name):
    if not hasattr(module, name):
        lacks(name)
def needs_argument(function, name):
    import inspect
    if name not in inspect.signature(function).parameters:
        lacks(name)
"""


@pytest.fixture
def run_class(run_cuda: Run) -> Run:
    """Run CODE with the class installed, on the simulated runtime."""

    def run_code(code: str, status: int | None = 0, **extra: str) -> object:
        return run_cuda(INSTALL + textwrap.dedent(code), status=status, **extra)

    return run_code  # type: ignore[return-value]


def test_an_external_stream_may_end_before_its_tensors(run_class: Run) -> None:
    """A call with the handle of a destroyed stream would kill the process."""
    run_class(
        """
        import ctypes
        runtime = ctypes.CDLL(None)
        for _ in range(40):
            handle = ctypes.c_void_p()
            assert runtime.cudaStreamCreateWithFlags(ctypes.byref(handle), 1) == 0
            with torch.cuda.stream(torch.cuda.ExternalStream(handle.value)):
                a, b = empty(30 * MIB), empty(1000)
                c = a + 1
            own = empty(40 * MIB)
            own.record_stream(torch.cuda.ExternalStream(handle.value))
            assert runtime.cudaStreamDestroy(handle) == 0
            del a, b, own
            d = empty(90 * MIB)
            del c, d
        torch.cuda.empty_cache()
        """,
        PLEAT_SIM="capacity:192M,dead_handles:crash,backing:memory",
    )


def test_torch_asks_the_class_without_patches(run_class: Run) -> None:
    run_class(
        """
        import inspect
        assert pleat.torch.binding() == "class"
        assert inspect.isbuiltin(torch._C._cuda_memoryStats)
        a = empty(1000)
        assert torch.cuda.memory_allocated() == 1024
        assert torch.cuda.memory_stats()["requested_bytes.all.current"] == 1000
        assert torch.cuda.memory_reserved() == pleat.torch.memory_reserved() > 0
        b = empty(30 * MIB)
        del b
        assert torch.cuda.max_memory_allocated() == 1024 + 30 * MIB
        torch.cuda.reset_peak_memory_stats()
        assert torch.cuda.max_memory_allocated() == 1024
        torch.cuda.reset_accumulated_memory_stats()
        assert torch.cuda.memory_stats()["allocation.all.allocated"] == 0
        assert torch.cuda.memory.caching_allocator_alloc(0) == 0
        assert empty(0).data_ptr() == 0
        del a
        torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved() == 0
        assert torch.cuda.memory_stats()["num_sync_all_streams"] == 1
        """
    )


def test_raw_blocks_and_streams(run_class: Run) -> None:
    run_class(
        """
        stream = torch.cuda.Stream()
        at = torch.cuda.caching_allocator_alloc(5 * MIB, stream=stream)
        assert torch.cuda.memory_allocated() == 5 * MIB
        torch.cuda.caching_allocator_delete(at)
        assert torch.cuda.memory_allocated() == 0
        with torch.cuda.stream(stream):
            again = empty(5 * MIB)
        assert again.data_ptr() == at
        again.record_stream(torch.cuda.current_stream())
        torch.cuda._sleep(1000)
        del again
        assert torch.cuda.memory_stats()["active_bytes.all.current"] == 5 * MIB
        """
    )


def test_out_of_memory_is_torch_s_and_observers_hear_of_it(run_class: Run) -> None:
    run_class(
        """
        heard = []
        torch._C._cuda_attach_out_of_memory_observer(lambda *numbers: heard.append(numbers))
        keep = empty(100 * MIB)
        try:
            empty(5 << 30)
        except torch.OutOfMemoryError as error:
            text = str(error)
        assert "Tried to allocate 5.00 GiB. GPU 0 has a total capacity of 4.00 GiB" in text
        assert "pleat: out of device memory on device 0" in text
        [(device, asked, total, free)] = heard
        assert (device, asked, total) == (0, 5 << 30, 4 << 30) and 0 < free < total
        assert torch.cuda.memory_stats()["num_ooms"] == 1
        try:
            empty(1 << 61)
        except torch.OutOfMemoryError as error:
            assert "more than 1EB memory" in str(error)
        """
    )


def test_the_memory_fraction_limits(run_class: Run) -> None:
    run_class(
        """
        assert torch.cuda.get_per_process_memory_fraction() == 1.0
        torch.cuda.set_per_process_memory_fraction(0.25)
        assert torch.cuda.get_per_process_memory_fraction() == 0.25
        try:
            empty(2 << 30)
        except torch.OutOfMemoryError:
            torch.cuda.set_per_process_memory_fraction(1.0)
        empty(2 << 30)
        """
    )


def test_torch_s_rounding_makes_blocks_larger(run_class: Run) -> None:
    run_class(
        """
        import warnings
        warnings.simplefilter("ignore")  # newer versions have another name for it
        def settings(text):
            torch.cuda.memory._set_allocator_settings(text)
        def told(key):
            return torch.cuda.memory_stats()[f"{key}.all.current"]
        def grown(n_bytes):
            before = [told(key) for key in ("active_bytes", "allocated_bytes", "requested_bytes")]
            kept.append(empty(n_bytes))
            active, allocated, requested = (
                told(key) - n
                for key, n in zip(("active_bytes", "allocated_bytes", "requested_bytes"), before)
            )
            assert active == allocated and requested == n_bytes
            return allocated
        kept = [empty(1)]
        assert grown(84 * MIB) == 84 * MIB
        settings("roundup_power2_divisions:4")
        assert grown(84 * MIB) == 96 * MIB
        assert grown(1200) == 1536 and grown(9 << 10) == 10 << 10
        settings("roundup_power2_divisions:[64:8,128:2,256:4,512:2,1024:4,>:1]")
        assert grown(84 * MIB) == 88 * MIB
        assert grown(150 * MIB) == 192 * MIB
        assert grown(400 * MIB) == 448 * MIB
        blocks = [
            (block["size"] // MIB, block["requested_size"] // MIB)
            for segment in torch.cuda.memory._snapshot()["segments"]
            for block in segment["blocks"]
            if block["state"] == "active_allocated"
        ]
        assert {(84, 84), (96, 84), (88, 84), (192, 150), (448, 400)} <= set(blocks)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            assert grown(84 * MIB) == 88 * MIB
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            assert grown(84 * MIB) == 88 * MIB
        settings("garbage_collection_threshold:0.5")
        assert grown(84 * MIB) == 84 * MIB
        assert grown(9 << 10) == 9 << 10
        del kept[:], graph
        assert told("allocated_bytes") == told("requested_bytes") == 0
        """
    )


def test_torch_s_rounding_is_read_from_the_environment(run_class: Run) -> None:
    run_class(
        """
        keep = empty(84 * MIB)
        assert torch.cuda.memory_allocated() == 96 * MIB
        """,
        PYTORCH_CUDA_ALLOC_CONF="roundup_power2_divisions:4",
    )


def test_pleat_s_own_rounding_holds_until_torch_s_is_set(run_class: Run) -> None:
    run_class(
        """
        import warnings
        warnings.simplefilter("ignore")
        keep = empty(9 * MIB)
        assert torch.cuda.memory_allocated() == 12 * MIB
        torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:4")
        more = empty(9 * MIB)
        assert torch.cuda.memory_allocated() == 22 * MIB
        """,
        PLEAT_CONF="driver:sim,roundup_power2_divisions:2",
    )


def test_snapshots_have_python_frames_and_metadata(run_class: Run) -> None:
    run_class(
        """
        def frames(entry):
            return [frame["name"] for frame in entry["frames"]]
        def make():
            return empty(3 * MIB)
        torch.cuda.memory._record_memory_history(stacks="python")
        has_metadata = hasattr(torch.cuda.memory, "_set_memory_metadata") # torch 2.8
        if has_metadata:
            torch.cuda.memory._set_memory_metadata("step 7")
        a = make()
        b = make()
        del b
        snapshot = torch.cuda.memory._snapshot()
        trace = snapshot["device_traces"][0]
        assert [entry["action"] for entry in trace if entry["size"] == 3 * MIB] == [
            "alloc", "alloc", "free_requested", "free_completed"
        ]
        first = next(entry for entry in trace if entry["action"] == "alloc")
        assert "make" in frames(first)
        assert first.get("user_metadata") == ("step 7" if has_metadata else None)
        assert first["addr"] == a.data_ptr() and first["time_us"] > 1_600_000_000_000_000
        [block] = [
            block for segment in snapshot["segments"] for block in segment["blocks"]
            if block["state"] == "active_allocated"
        ]
        assert block["address"] == a.data_ptr() and "make" in frames(block)
        again = torch.cuda.memory._snapshot()["device_traces"][0]
        assert again[-1]["action"] == "snapshot" and len(again) == len(trace) + 1
        from torch.cuda import _memory_viz
        assert "<html" in _memory_viz.trace_plot(snapshot)
        torch.cuda.memory._record_memory_history(None)
        assert torch.cuda.memory._snapshot()["device_traces"] == [[]]
        """
    )


def test_a_live_block_is_annotated_where_torch_can(run_class: Run) -> None:
    run_class(
        """
        import threading
        needs(torch.cuda.memory, "_annotate_tensor") # 2.14
        assert torch._C._cuda_memoryMetadataSupported()
        a = empty(3 * MIB)
        torch.cuda.memory._annotate_tensor(a, "unseen")
        torch.cuda.memory._record_memory_history(stacks="python")
        torch.cuda.memory._annotate_tensor(a[100:], "packed")
        torch.cuda.memory._set_memory_metadata("of this thread")
        told = []
        other = threading.Thread(
            target=lambda: told.append(torch.cuda.memory._get_memory_metadata())
        )
        other.start()
        other.join()
        assert told == [""]
        assert torch.cuda.memory._get_memory_metadata() == "of this thread"
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        [note] = [entry for entry in trace if entry["action"] == "annotate"]
        assert note["addr"] == a.data_ptr() and note["size"] == 3 * MIB
        assert note["user_metadata"] == "packed"
        assert "<module>" in [frame["name"] for frame in note["frames"]]
        pickle.dumps(trace)
        try:
            torch._C._cuda_annotateMemory(12345, "nobody")
        except RuntimeError as error:
            assert "no live allocation" in str(error)
        else:
            raise AssertionError("12345 is no block")
        """
    )


def test_a_history_may_begin_before_cuda_does(run_class: Run) -> None:
    run_class(
        """
        torch.cuda.memory._record_memory_history()
        assert not torch.cuda.is_initialized()
        a = empty(MIB)
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        assert [entry["action"] for entry in trace][-1] == "alloc", trace
        """
    )


def test_the_history_is_a_ring_that_skips_what_it_is_told(run_class: Run) -> None:
    run_class(
        """
        torch.cuda.memory._record_memory_history(max_entries=3)
        kept = [empty(512 * (i + 1)) for i in range(5)]
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        assert [entry["size"] for entry in trace] == [1536, 2048, 2560]
        torch.cuda.memory._record_memory_history("state")
        also = empty(7 * 512)
        blocks = [
            block for segment in torch.cuda.memory._snapshot()["segments"]
            for block in segment["blocks"] if block["size"] == 7 * 512
        ]
        assert len(blocks) == 1 and blocks[0]["frames"]
        """
    )


def test_private_pools_count_their_users(run_class: Run) -> None:
    run_class(
        """
        needs(torch.cuda.MemPool, "snapshot")
        pool = torch.cuda.MemPool()
        assert pool.use_count() == 1
        with torch.cuda.use_mem_pool(pool):
            a = empty(3 * MIB)
            assert pool.use_count() == 2
        b = empty(3 * MIB)
        assert pool.use_count() == 1
        segments = pool.snapshot()
        assert [s["segment_pool_id"] for s in segments] == [pool.id] * len(segments)
        inside = [block["address"] for s in segments for block in s["blocks"]]
        assert a.data_ptr() in inside and b.data_ptr() not in inside
        at = a.data_ptr()
        del a
        assert empty(3 * MIB).data_ptr() != at
        with torch.cuda.use_mem_pool(pool):
            assert empty(3 * MIB).data_ptr() == at
        del pool
        gc.collect()
        torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved() < 6 * MIB
        """
    )


def test_the_end_of_a_pool_leaves_other_free_memory(run_class: Run) -> None:
    run_class(
        """
        if torch.__version__.startswith(("2.6.", "2.7.")):
            lacks("end of a pool that empties that pool alone")
        a = empty(64 * MIB)
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            b = empty(32 * MIB)
        del a, b
        reserved = torch.cuda.memory_reserved()
        emptied = torch.cuda.memory_stats()["num_sync_all_streams"]
        del pool
        gc.collect()
        assert reserved - torch.cuda.memory_reserved() == 32 * MIB, reserved
        assert torch.cuda.memory_stats()["num_sync_all_streams"] == emptied
        """
    )


def test_a_pool_lends_before_memory_is_out(run_class: Run) -> None:
    run_class(
        """
        needs_argument(torch.cuda.MemPool.__init__, "use_on_oom")
        pool = torch.cuda.MemPool(use_on_oom=True)
        with torch.cuda.use_mem_pool(pool):
            a = empty(3 << 30)
        del a
        b = empty(2 << 30)
        del b, pool
        other = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(other):
            empty(3 << 30)
        empty(2 << 30)  # without graphs a pool keeps nothing
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=other.id):
            empty(3 << 30)
        try:
            empty(2 << 30)
        except torch.OutOfMemoryError:
            pass
        else:
            raise AssertionError("a graph's pool that does not lend has lent")
        """
    )


def test_graphs_replay_and_are_shared(run_class: Run) -> None:
    run_class(
        """
        def pool_of(tensor):
            for segment in torch.cuda.memory_snapshot():
                if 0 <= tensor.data_ptr() - segment["address"] < segment["total_size"]:
                    return segment["segment_pool_id"]
        def n_allocated():
            return torch.cuda.memory_stats()["allocation.all.allocated"]
        model = torch.nn.Linear(64, 64).cuda()
        data = torch.randn(8, 64, device="cuda", requires_grad=True)
        graphed = torch.cuda.make_graphed_callables(model, (data,))
        before = n_allocated()
        out = graphed(data)
        assert n_allocated() == before and pool_of(out) not in (None, (0, 0))
        out.sum().backward()
        graph = torch.cuda.CUDAGraph()
        second = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            a = data * 2
        with torch.cuda.graph(second, pool=graph.pool()):
            b = a + 1
        graph.replay()
        second.replay()
        pool = graph.pool()
        assert pool_of(a) == pool_of(b) == pool and pool_of(data) == (0, 0)
        del a, b, graph
        assert pool in [segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()]
        del second
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        assert pool not in [segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()]
        """
    )


COMPILE_COMMAND = """
import json; from pathlib import Path; from pleat.torch import _class
include = [*_class.torch_include(), _class.cuda_include()]
compiler, standard = _class.find_compiler(), _class.standards()[0]
print(json.dumps([*_class.compile_command(compiler, standard, include, Path("probe.so"))]))
"""


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory, cuda_zygote: Zygote) -> str:
    """class_probe.cpp, compiled like the class, but not optimized. A compiler cache, where there is
    one, knows the object of another suite or run: torch's headers take half a minute."""
    folder = tmp_path_factory.mktemp("probe")
    done = cuda_zygote.run("-c", COMPILE_COMMAND, cwd=folder)
    command = [word for word in json.loads(done.stdout) if not word.endswith(".cpp")]
    links = [word for word in command if word == "-shared" or word.startswith(("-L", "-l", "-Wl"))]
    compiles = [word for word in command if word not in (*links, "-O2", "-o", "probe.so")]
    cache = ["ccache"] if shutil.which("ccache") and "ccache" not in compiles[0] else []
    source = str(Path(__file__).parent / "class_probe.cpp")
    for line in (
        [*cache, *compiles, "-c", source, "-o", "probe.o"],
        [*compiles, "probe.o", "-o", "probe.so", *links],
    ):
        subprocess.run(line, cwd=folder, check=True)
    return str(folder / "probe.so")


PROBE = """
import ctypes
probe = ctypes.CDLL({!r})
probe.probe_largest.restype = ctypes.c_size_t
probe.probe_base.restype = ctypes.c_size_t
"""


def test_failed_captures_keep_no_memory(run_class: Run) -> None:
    run_class("""
    def fail(**where):
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, **where):
                x = empty(100 * MIB)
                torch.cuda.synchronize()
        except Exception:
            return
        raise AssertionError("the capture did not fail")
    def reserved():
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return torch.cuda.memory_reserved() // MIB
    empty(MIB)
    for _ in range(5):
        fail()
    assert reserved() == 0, reserved()
    if torch.__version__.startswith("2.6"):
        raise SystemExit(0)  # where a capture has failed, it neither captures nor replays any more

    # The graph of another capture of the pool lives; then it does not.
    handle = torch.cuda.graph_pool_handle()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=handle):
        x = empty(30 * MIB)
        x.add_(1)
    del x
    fail(pool=handle)
    assert reserved() >= 100, reserved()
    graph.replay()
    assert reserved() >= 100, reserved()
    del graph
    assert reserved() == 0, reserved()

    # A graph that allocates nothing keeps the pool, too.
    graph = torch.cuda.CUDAGraph()
    handle = torch.cuda.graph_pool_handle()
    x = empty(MIB)
    with torch.cuda.graph(graph, pool=handle):
        x.add_(1)
    fail(pool=handle)
    assert reserved() >= 100, reserved()
    graph.replay()

    # A user of the pool keeps it.
    pool = torch.cuda.MemPool()
    fail(pool=pool.id)
    held = reserved()
    del pool
    assert held - reserved() >= 100, (held, reserved())
    """)


def test_the_largest_block_and_the_base_are_told(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + textwrap.dedent(
            """
            parts = [empty(100 * MIB) for _ in range(20)]
            before = probe.probe_largest(0)
            assert torch.cuda.mem_get_info()[0] <= before < torch.cuda.mem_get_info()[0] + 16 * MIB
            del parts[::2] # not neighbours, but pleat puts them together
            assert probe.probe_largest(0) == before + 1000 * MIB
            largest = empty(probe.probe_largest(0))
            base = ctypes.c_void_p()
            inside = ctypes.c_void_p(parts[0].data_ptr() + 12345)
            assert probe.probe_base(inside, ctypes.byref(base)) == 100 * MIB
            assert base.value == parts[0].data_ptr()
            """
        )
    )


def test_every_change_is_tracked(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + textwrap.dedent(
            """
            torch.cuda.init()
            probe.probe_track()
            kept = [empty(1000) for _ in range(10)]
            del kept[:4]
            alloc, requested, completed, gained = 0, 1, 2, 5
            counts = [probe.probe_n_seen(i) for i in (alloc, requested, completed)]
            assert counts == [10, 4, 4] and probe.probe_n_seen(gained) >= 1, counts
            """
        )
    )


def test_torch_compile_records_graphs_on_checkpoints(run_class: Run) -> None:
    run_class(
        """
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).cuda()
        compiled = torch.compile(model, backend="cudagraphs", dynamic=False)
        for step in range(4):
            for n in (4, 8):
                torch.compiler.cudagraph_mark_step_begin()
                out = compiled(torch.ones(n, 64, device="cuda"))
                out.sum().backward()
                model.zero_grad()
        from torch._inductor.cudagraph_trees import get_container
        assert get_container(0).tree_manager is not None
        """
    )


def test_torch_compile_goes_back_to_a_checkpoint(run_class: Run) -> None:
    run_class(
        """
        restored = []
        restore = torch._C._cuda_setCheckpointPoolState
        def count(*arguments):
            restored.append(arguments)
            return restore(*arguments)
        torch._C._cuda_setCheckpointPoolState = count
        def compiled(function):
            return torch.compile(function, backend="cudagraphs", dynamic=False)
        root = compiled(lambda x: (x * 2, x + 3))
        branches = [compiled(lambda x: x @ x), compiled(lambda x: (x - 1, x.sum()))]
        x = torch.ones(512, 512, device="cuda")
        with torch.no_grad():
            for step in range(8):
                torch.compiler.cudagraph_mark_step_begin()
                both = root(x)
                out = branches[step % 2](both[0])
        assert restored
        """
    )


def test_the_profiler_has_a_timeline_of_memory(run_class: Run) -> None:
    run_class(
        """
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
            a = empty(3 * MIB)
            del a
        sizes = {event.name: event.device_memory_usage for event in found.events()}
        assert sizes["aten::empty"] == 3 * MIB and sizes["[memory]"] == -3 * MIB, sizes
        """
    )


def test_disabled_caching_goes_to_the_driver(run_class: Run) -> None:
    run_class(
        """
        torch.cuda.init()
        torch.cuda.caching_allocator_enable(False)
        a = empty(MIB)
        assert torch.cuda.memory_allocated() == 0
        torch.cuda.caching_allocator_enable(True)
        b = empty(MIB)
        del a
        assert torch.cuda.memory_allocated() == MIB
        torch.cuda.caching_allocator_enable(False)
        raw = torch.cuda.caching_allocator_alloc(MIB)
        torch.cuda.caching_allocator_delete(raw)
        del b
        assert torch.cuda.memory_allocated() == 0
        """
    )


def test_copies_between_devices_need_no_mapping(run_class: Run) -> None:
    run_class(
        """
        a = torch.arange(100).to("cuda:0")
        b = a.to("cuda:1")
        assert b.tolist() == list(range(100))
        assert torch.cuda.memory_allocated(1) == 1024
        """,
        PLEAT_SIM="capacity:4G,devices:2,backing:memory",
    )


def test_without_a_compiler_hooks_are_taken(run_cuda: Run, tmp_path: Path) -> None:
    code = """
    import pleat.torch, torch
    pleat.torch.install({})
    assert pleat.torch.binding() == "hooks"
    a = torch.empty(250, device="cuda")
    assert torch.cuda.memory_allocated() == 1024
    """
    elsewhere = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "CXX": "no-such-compiler"}
    done = run_cuda(code.format(""), **elsewhere)
    assert done.stderr.count("\n") == 1 and "no-such-compiler" in done.stderr
    assert "MemPool" in done.stderr
    done = run_cuda(code.format("binding='class'"), status=1, **elsewhere)
    assert "there is no C++ compiler: CXX is no-such-compiler" in done.stderr
    done = run_cuda(code.format("binding='hooks'"), **elsewhere)
    assert done.stderr == ""


def test_a_failed_compilation_is_remembered(run_cuda: Run, tmp_path: Path) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text("#!/bin/sh\necho it does not like this >&2\nexit 1\n")
    compiler.chmod(0o755)
    code = "import pleat.torch\npleat.torch.install()\nprint(pleat.torch.binding())"
    for attempt in range(2):
        done = run_cuda(code, XDG_CACHE_HOME=str(tmp_path / "cache"), CXX=str(compiler))
        assert done.stdout == "hooks\n" and ".failed says why" in done.stderr
        assert ("compiling its class" in done.stderr) == (attempt == 0)
    [said] = (tmp_path / "cache/pleat/torch").glob("*.failed")
    assert "it does not like this" in said.read_text()


def test_a_compiled_class_serves_every_file_of_the_library(run_cuda: Run) -> None:
    """A wheel's libpleat.so has another SONAME than a build's installed library."""
    run_cuda(
        """
        from pathlib import Path
        from pleat.torch import _class
        assert b"libpleat.so" not in Path(_class.prepare()).read_bytes()
        """
    )


SLOW_COMPILER = """#!/bin/sh
if [ "$1" = --version ]; then echo slow; exit; fi
while [ "$1" != -o ]; do shift; done
sleep 1
cp "$MADE" "$2"
echo once >>compiled
"""


def test_processes_that_start_together_compile_once(run_cuda: Run, tmp_path: Path) -> None:
    compiler = tmp_path / "c++"  # in a second it gives what a real one made
    compiler.write_text(SLOW_COMPILER)
    compiler.chmod(0o755)
    done = run_cuda(
        """
        import os, sys
        from pleat.torch import _class
        os.environ["MADE"] = str(_class.prepare())
        os.environ.update(XDG_CACHE_HOME=os.path.abspath("cache"), CXX=os.path.abspath("c++"))
        child = os.fork()
        import pleat.torch
        pleat.torch.install(binding="class")
        if child:
            sys.exit(os.waitpid(child, 0)[1])
        """
    )
    assert done.stderr.count("compiling its class") == 1
    assert (tmp_path / "compiled").read_text() == "once\n"
    names = sorted(os.listdir(tmp_path / "cache/pleat/torch"))
    assert len(names) == 2 and names[1] == "lock" and names[0].endswith(".so")


def test_a_child_leaves_the_memory_of_its_parent_alone(run_class: Run) -> None:
    run_class(
        """
        import os
        a = empty(MIB)
        child = os.fork()
        if child == 0:
            del a
            gc.collect()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert torch.cuda.memory_allocated() == MIB
        """
    )


def test_a_pool_s_blocks_come_back_at_their_addresses(run_class: Run) -> None:
    run_class(
        """
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            a = empty(3 * MIB)
            b = empty(5 * MIB)
        places = [a.data_ptr(), b.data_ptr()]
        state = torch._C._cuda_getCheckpointState(0, pool.id)
        assert torch._C._cuda_checkPoolLiveAllocations(0, pool.id, set(places))
        del a, b
        with torch.cuda.use_mem_pool(pool):
            c = empty(4 * MIB)
        assert not torch._C._cuda_checkPoolLiveAllocations(0, pool.id, set(places))
        torch._C._cuda_setCheckpointPoolState(0, state, [c.untyped_storage()._cdata], [])
        assert torch._C._cuda_checkPoolLiveAllocations(0, pool.id, set(places))
        assert torch.cuda.memory_allocated() == 8 * MIB
        for place in places:
            torch._C._cuda_cudaCachingAllocator_raw_delete(place)
        assert torch.cuda.memory_allocated() == 0
        """
    )


SPAWNING = """
import os, sys, torch, torch.multiprocessing, pleat.torch

def work(rank):
    a = torch.empty(1000, device="cuda")
    print(rank, pleat.torch.binding(), torch.cuda.memory_allocated(), os.environ["PLEAT_CONF"],
          flush=True)

def main(binding):
    pleat.torch.install("growth:frugal", binding=binding)
    torch.multiprocessing.spawn(work, nprocs=1)
"""


@pytest.mark.parametrize("binding", ["class", "hooks"])
def test_spawned_children_inherit_the_installation(
    run_cuda: Run, forked_python: Path, tmp_path: Path, binding: str
) -> None:
    """Children that inherit are fresh pythons. The last one, which does not, is a fork."""
    (tmp_path / "spawning.py").write_text(SPAWNING)
    code = f"import spawning; spawning.main({binding!r})"
    done = run_cuda(code)
    assert done.stdout.startswith(f"0 {binding} 4096 ") and "growth:frugal" in done.stdout
    assert "own allocator" not in done.stderr
    if binding == "class":
        given = {"LD_PRELOAD": str(RUNTIME), "PLEAT_SIM": SIMULATOR, "PLEAT_TORCH_SPAWN": "0"}
        done = run_arguments("-c", code, cwd=tmp_path, python=forked_python, **given)
        assert done.stdout.startswith("0 None ")
