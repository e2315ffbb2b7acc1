"""Pools over another allocator, under the class: cached as torch does, counted, given back."""

# labels: python

from __future__ import annotations

import textwrap

import pytest
from class_test import PROBE, Run, probe, run_class  # noqa: F401 (fixtures)


FOREIGN = """
probe.probe_empty_pool.argtypes = [ctypes.c_ulonglong] * 2
probe.probe_empty_pool.restype = ctypes.c_bool
own = torch.cuda.memory.CUDAPluggableAllocator({!r}, "probe_malloc", "probe_free")

# Older versions drop a pool's allocator with the pool: then the class calls cudaFree.
from pathlib import Path
header = Path(torch.__file__).parent / "include/c10/cuda/CUDACachingAllocator.h"
IS_KEPT = "std::shared_ptr<CUDAAllocator>" in header.read_text()

# In 2.6 and 2.7 the thread's active pool has the allocator.
HAS_ROUTES = not torch.__version__.startswith(("2.6.", "2.7."))

def make_pool():
    return torch.cuda.MemPool(own.allocator())
def pool_of(tensor):
    for segment in torch.cuda.memory_snapshot():
        if 0 <= tensor.data_ptr() - segment["address"] < segment["total_size"]:
            return tuple(segment["segment_pool_id"])
def is_refused(n_bytes, take=empty):
    try:
        return take(n_bytes) is None
    except torch.OutOfMemoryError:
        return True
def take(pool, n_bytes=3 * MIB):
    with torch.cuda.use_mem_pool(pool):
        return empty(n_bytes)
"""


def test_recorded_uses_of_another_allocator_s_memory_hold_it(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            pool = make_pool()
            side = torch.cuda.Stream()
            a = take(pool)
            at = a.data_ptr()
            with torch.cuda.stream(side):
                a.zero_()
            assert not side.query()
            a.record_stream(side)
            del a
            b = take(pool)
            assert b.data_ptr() != at
            torch.cuda.synchronize()
            assert take(pool).data_ptr() == at
            """
        )
    )


def test_another_allocator_s_memory_goes_back_after_its_work(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            pool, other = make_pool(), make_pool()
            for each in (pool, other):
                take(each).zero_()
            probe.probe_empty_pool(*pool.id)
            torch.cuda.empty_cache()
            assert probe.probe_n_freed() == 0, "their pools have users"
            kept = take(other)
            del pool, each, other
            gc.collect()
            torch.cuda.empty_cache()
            assert probe.probe_n_freed() == 1, "the other segment has a block"
            kept.zero_()
            del kept
            assert probe.probe_n_freed() == 1, "a free does not wait"
            torch.cuda.empty_cache()
            assert probe.probe_n_freed() == (2 if IS_KEPT else 1)
            assert probe.probe_n_freed_early() == 0
            assert torch.cuda.memory_reserved() == 0
            """
        )
    )


def test_another_allocator_s_memory_is_seen(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            torch.cuda.init()
            probe.probe_track()
            pool = make_pool()
            a = take(pool)
            alloc, completed, segment_alloc, segment_free = 0, 2, 3, 4
            assert probe.probe_n_seen(segment_alloc) == 1 and probe.probe_n_seen(alloc) == 1
            def found():
                segments = torch.cuda.memory_snapshot()
                return [one for one in segments if tuple(one["segment_pool_id"]) == pool_id]
            pool_id = pool.id
            (segment,) = found()
            assert segment["address"] == a.data_ptr() and segment["total_size"] == 20 * MIB
            assert segment["blocks"][0]["state"] == "active_allocated"
            b = take(pool)
            assert probe.probe_n_seen(segment_alloc) == 1 and len(found()) == 1
            base = ctypes.c_void_p()
            assert probe.probe_base(ctypes.c_void_p(b.data_ptr()), ctypes.byref(base)) == 20 * MIB
            assert base.value == a.data_ptr(), "the segment's"
            del a, b
            assert [block["state"] for block in found()[0]["blocks"]] == ["inactive"]
            assert probe.probe_n_seen(completed) == 2 and probe.probe_n_seen(segment_free) == 0
            del pool
            gc.collect()
            torch.cuda.empty_cache()
            assert found() == [] and probe.probe_n_seen(segment_free) == 1
            """
        )
    )


CACHED = """
def state():
    stats = torch.cuda.memory_stats()
    groups = ("allocation", "segment", "active", "inactive_split")
    keys = [f"{group}.{of}.current" for group in groups for of in ("all", "small_pool")]
    keys += [f"{group}_bytes.all.current" for group in ("allocated", "reserved", "active",
                                                         "inactive_split", "requested")]
    segments = torch.cuda.memory_snapshot()
    blocks = [[(b["size"], b["state"]) for b in one["blocks"]] for one in segments]
    return [stats[key] for key in keys], torch.cuda.max_memory_allocated(), blocks
def play():
    pool = make_pool()
    side = torch.cuda.Stream()
    sizes = (1000, 1, 300_000, 1 << 20, 3 * MIB, (1 << 20) + 1, 9 * MIB, 10 * MIB, 33_000_000)
    live, seed = [], 1
    for step in range(200):
        seed = seed * 1103515245 + 12345 & 0x7fffffff
        if live and seed >> 16 & 1:
            del live[(seed >> 17) % len(live)]
        else:
            with torch.cuda.stream(side if seed >> 18 & 1 else torch.cuda.current_stream()):
                live.append(take(pool, sizes[(seed >> 19) % len(sizes)]))
        if step % 10 == 9:
            yield state()
    del live
    torch.cuda.empty_cache()
    yield state()
"""


def test_another_allocator_s_memory_is_cached_as_torch_does(
    run_class: Run, run_cuda: Run, probe: str
) -> None:
    """Play equal requests natively: sizes, segments, cutting and joining, all statistics."""
    shown = "\nfor each in play():\n    print(each)\n"
    code = PROBE.format(probe) + FOREIGN.format(probe) + CACHED + shown
    before = "import gc, torch\nMIB = 1 << 20\n" + (
        "def empty(n):\n    return torch.empty(n, dtype=torch.uint8, device='cuda')\n"
    )
    natively = run_cuda(before + code).stdout.splitlines()  # type: ignore[attr-defined]
    ours = run_class(code).stdout.splitlines()  # type: ignore[attr-defined]
    assert len(natively) == 21 and ours == natively


def test_the_memory_fraction_counts_another_allocator_s_memory(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            kept = empty(1 << 30)
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(0.5)
            pool = make_pool()
            a = take(pool, 768 * MIB)
            assert torch.cuda.get_per_process_memory_fraction() == 0.5
            assert is_refused(512 * MIB, lambda n: take(pool, n))
            assert is_refused(512 * MIB)
            b = empty(200 * MIB)
            assert is_refused(200 * MIB, lambda n: take(pool, n))
            del b
            b = take(pool, 256 * MIB) # pleat gives back what is free; and this is all there is
            torch.cuda.set_per_process_memory_fraction(0.75)
            c = empty(1000 * MIB)
            assert is_refused(200 * MIB)
            del a, b, pool
            gc.collect()
            torch.cuda.empty_cache()
            d = empty(1000 * MIB)
            assert torch.cuda.get_per_process_memory_fraction() == 0.75
            torch.cuda.set_per_process_memory_fraction(1.0)
            """
        )
    )


def test_a_pool_over_another_allocator_lends(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            needs_argument(torch.cuda.MemPool.__init__, "use_on_oom")
            keeper = make_pool()
            lender = torch.cuda.MemPool(own.allocator(), use_on_oom=True)
            a, b = take(keeper, 1500 * MIB), take(lender, 1500 * MIB)
            at = b.data_ptr()
            del a, b
            c = empty(1400 * MIB)
            assert c.data_ptr() == at
            assert is_refused(1400 * MIB), "the keeper has lent"
            del c
            assert take(lender, 1500 * MIB).data_ptr() == at
            """
        )
    )


def test_a_shortage_takes_what_ended_pools_left(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            pool = make_pool()
            a = take(pool, 2 << 30)
            del pool
            gc.collect()
            del a
            assert probe.probe_n_freed() == 0
            b = empty(3 << 30)
            assert probe.probe_n_freed() == (1 if IS_KEPT else 0)
            del b
            c = take(make_pool(), 3 << 30) # the other allocator lacks what pleat has free
            """
        )
    )


def test_a_hundred_thousand_awaited_blocks_cost_little(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            n_calls = ctypes.CDLL("libpleat_sim.so").pleat_sim_n_calls
            n_calls.restype = ctypes.c_ulonglong
            pool, side = make_pool(), torch.cuda.Stream()
            def n_queries(n):
                before = n_calls(b"cuEventQuery")
                with torch.cuda.use_mem_pool(pool):
                    for _ in range(n):
                        empty(512).record_stream(side)
                return n_calls(b"cuEventQuery") - before
            with torch.cuda.stream(side):
                torch.cuda._sleep(10**15)
            assert n_queries(100000) < 101000 # a request that grows looks twice
            assert 0 < n_queries(1000) < 1010
            torch.cuda.synchronize()
            del pool
            gc.collect()
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == 0
            """
        )
    )


def test_a_capture_survives_what_happens_to_another_allocator_s_pools(
    run_class: Run, probe: str
) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            pool, old = make_pool(), make_pool()
            side, third = torch.cuda.Stream(), torch.cuda.Stream()
            kept = take(old)
            kept.record_stream(third)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool.id, stream=side):
                a = empty(3 * MIB) # a new segment
                a.zero_()
                a.record_stream(third)
                del a
                b = empty(3 * MIB)
                b.zero_()
                del kept, old
                gc.collect()
            graph.replay()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            assert probe.probe_n_freed() == 1
            del graph # a pool's user; torch 2.6 ends pools without
            """
        )
    )


def test_without_splitting_each_block_is_a_segment(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            needs_argument(torch.cuda.MemPool.__init__, "no_split")
            pool = torch.cuda.MemPool(own.allocator(), no_split=True)
            a, b = take(pool, 1000), take(pool)
            assert torch.cuda.memory_reserved() == 1024 + 3 * MIB
            at = b.data_ptr()
            del b
            c, d = take(pool, 2 * MIB), take(pool)
            assert d.data_ptr() == at and torch.cuda.memory_reserved() == 1024 + 5 * MIB
            """
        )
    )


@pytest.mark.parametrize("is_same_handle", [False, True])
def test_a_use_holds_when_its_stream_is_destroyed(
    run_class: Run, probe: str, is_same_handle: bool
) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + f"is_same_handle = {is_same_handle}\n"
        + textwrap.dedent(
            """
            probe.probe_make_stream.restype = ctypes.c_void_p
            handle = probe.probe_make_stream()
            side = torch.cuda.ExternalStream(handle)
            pool = make_pool()
            a = take(pool)
            at = a.data_ptr()
            with torch.cuda.stream(side):
                torch.cuda._sleep(10**12)
                a.zero_()
            a.record_stream(side)
            del a
            probe.probe_destroy_stream(ctypes.c_void_p(handle))
            if is_same_handle:
                assert probe.probe_make_stream() == handle
            b = take(pool)
            assert b.data_ptr() != at
            """
        )
    )


def test_streams_of_other_devices_are_awaited(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            pool, side = make_pool(), torch.cuda.Stream(1)
            a = take(pool)
            at = a.data_ptr()
            with torch.cuda.stream(side):
                torch.cuda._sleep(10**9)
            a.record_stream(side)
            del a
            b = take(pool)
            assert b.data_ptr() != at
            torch.cuda.synchronize(1)
            c = take(pool)
            assert c.data_ptr() == at
            torch.cuda.set_device(1)
            other = make_pool()
            d = take(other)
            d.record_stream(side)
            del d, other
            gc.collect()
            torch.cuda.set_device(0)
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved(1) == 0
            """
        ),
        PLEAT_SIM="capacity:4G,devices:2",
    )


def test_what_exceeds_a_lower_fraction_stays_counted(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            one, other = make_pool(), make_pool()
            parts = [take(one, 1024 * MIB), take(other, 1024 * MIB)]
            torch.cuda.set_per_process_memory_fraction(0.25)
            assert is_refused(100 * MIB)
            del parts[0], one, other
            gc.collect()
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == 1024 * MIB
            assert is_refused(100 * MIB), "the other is the whole of it"
            parts.clear()
            torch.cuda.empty_cache()
            a = empty(900 * MIB)
            b = take(make_pool(), 100 * MIB)
            pleat.set_limit(0, 2048 * MIB) # past torch
            assert torch.cuda.get_per_process_memory_fraction() == 0.5
            torch.cuda.set_per_process_memory_fraction(0.234375) # both exceed it, neither alone
            assert torch.cuda.get_per_process_memory_fraction() == 0.234375
            assert is_refused(10 * MIB)
            """
        )
    )


def test_a_pool_may_end_while_its_allocator_is_asked(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            import threading, time
            needs(torch._C, "_cuda_beginAllocateToPool")
            if not HAS_ROUTES:
                lacks("route to a pool's allocator but through use_mem_pool")
            torch.cuda.init()
            pool, side, got = make_pool(), torch.cuda.Stream(), []
            def ask():
                with torch.cuda.stream(side):
                    got.append(empty(3 * MIB))
            torch._C._cuda_beginAllocateToPool(0, pool.id)
            probe.probe_be_slow(500)
            thread = threading.Thread(target=ask)
            thread.start()
            time.sleep(0.1)
            end = getattr(torch._C, "_cuda_endAllocateToPool", None)
            (end or torch._C._cuda_endAllocateCurrentStreamToPool)(0, pool.id)
            torch._C._cuda_releasePool(0, pool.id)
            del pool
            gc.collect()
            torch.cuda.empty_cache()
            thread.join()
            assert len(got) == 1 and torch.cuda.memory_reserved() == 20 * MIB
            got.clear()
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == 0 and torch.cuda.memory_snapshot() == []
            """
        )
    )


def test_an_allocator_that_throws_loses_nothing_else(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            torch.cuda.set_per_process_memory_fraction(0.5)
            pool = make_pool()
            parts = [take(pool, 256 * MIB) for _ in range(4)]
            kept = [take(pool, 20 * MIB)]
            del pool
            gc.collect()
            parts.clear()
            probe.probe_throw_next()
            try:
                torch.cuda.empty_cache()
            except RuntimeError as error:
                assert "as it was told" in str(error)
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == 20 * MIB
            empty(1900 * MIB)
            """
        )
    )


def test_a_forked_child_leaves_such_pools_alone(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            pool, other = make_pool(), make_pool()
            take(pool)
            kept = take(other)
            is_over = threading.Event()
            def churn():
                while not is_over.is_set():
                    take(busy)
            busy = make_pool()
            threads = [threading.Thread(target=churn) for _ in range(2)]
            for thread in threads:
                thread.start()
            for _ in range(30): # any of pleat's mutexes may be held at a fork
                child = os.fork()
                if child == 0:
                    n_freed = probe.probe_n_freed()
                    del kept, pool, other
                    gc.collect()
                    torch.cuda.empty_cache()
                    os._exit(probe.probe_n_freed() - n_freed)
                assert os.waitpid(child, 0)[1] == 0
            is_over.set()
            for thread in threads:
                thread.join()
            """
        ).replace("pool, other =", "import os, threading\npool, other =", 1)
    )


def test_a_shortage_of_another_allocator_is_told(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            heard = []
            torch._C._cuda_attach_out_of_memory_observer(lambda *numbers: heard.append(numbers))
            torch.cuda.memory._record_memory_history()
            pool = make_pool()
            try:
                take(pool, 5 << 30)
            except torch.OutOfMemoryError as error:
                assert "Tried to allocate 5.00 GiB" in str(error)
            take(pool)
            stats = torch.cuda.memory_stats()
            keys = ("num_ooms", "num_alloc_retries", "num_device_alloc", "num_device_free")
            assert [stats[key] for key in keys] == [1, 1, 1, 0]
            [(device, asked, total, free)] = heard
            assert (device, asked, total) == (0, 5 << 30, 4 << 30)
            traces = torch.cuda.memory._snapshot()["device_traces"][0]
            assert [one["size"] for one in traces if one["action"] == "oom"] == [5 << 30]
            """
        )
    )


def test_the_innermost_pool_gets_the_request(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            outer, inner = make_pool(), torch.cuda.MemPool()
            with torch.cuda.use_mem_pool(outer):
                a = empty(1000)
                with torch.cuda.use_mem_pool(inner):
                    b = empty(1000)
                    with torch.cuda.use_mem_pool(outer):
                        c = empty(1000)
                    d = empty(1000)
                e = empty(1000)
            f = empty(1000)
            found = [pool_of(each) for each in (a, b, c, d, e, f)]
            o, i = outer.id, inner.id
            assert found == [o, i, o, i, o, (0, 0)], found
            """
        )
    )


def test_a_filter_runs_no_more_after_its_end(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            import threading
            kept = take(make_pool()) # so all requests are asked for
            pool = torch.cuda.MemPool()
            name = [ctypes.c_ulonglong(part) for part in pool.id]
            probe.probe_begin_filtered(*name, 300)
            thread = threading.Thread(target=lambda: empty(1000))
            thread.start()
            while probe.probe_n_filtering() == 0:
                pass
            assert probe.probe_end_filtered(*name) == 0
            thread.join()
            """
        )
    )


@pytest.mark.parametrize("inner", ["make_pool()", "torch.cuda.MemPool()"])
def test_threads_may_share_a_pool(run_class: Run, probe: str, inner: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + f"inner = {inner}\n"
        + textwrap.dedent(
            """
            import threading
            if not HAS_ROUTES:
                lacks("route for each thread")
            outer, others = make_pool(), []
            steps = [threading.Event() for _ in range(3)]
            def share():
                steps[0].wait()
                with torch.cuda.use_mem_pool(inner):
                    steps[1].set()
                    steps[2].wait()
                    others.append(empty(1000))
            thread = threading.Thread(target=share)
            thread.start()
            with torch.cuda.use_mem_pool(outer):
                with torch.cuda.use_mem_pool(inner):
                    steps[0].set()
                    steps[1].wait()
                a = empty(1000)
            steps[2].set()
            thread.join()
            found = [pool_of(each) for each in (a, *others)]
            assert found == [outer.id, inner.id], found
            """
        )
    )


def test_a_fraction_below_what_is_held_lets_nobody_grow(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            live, cached = empty(512 * MIB), empty(704 * MIB)
            theirs = take(make_pool(), 1024 * MIB)
            del cached
            torch.cuda.set_per_process_memory_fraction(0.3125) # 1,280 MiB of 1,536 that live
            assert torch.cuda.memory_reserved() == 1536 * MIB
            assert is_refused(64 * MIB)
            assert pleat.torch.get_per_process_memory_fraction() == 0.3125
            del live
            torch.cuda.empty_cache()
            assert not is_refused(255 * MIB) and is_refused(512 * MIB)
            pleat.torch.set_per_process_memory_fraction(0.5)
            assert torch.cuda.get_per_process_memory_fraction() == 0.5
            assert not is_refused(1000 * MIB) and is_refused(1100 * MIB)
            """
        )
    )


def test_what_a_capture_keeps_hides_no_other_pool(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            if not IS_KEPT:
                lacks("pool that may end in a capture")
            old, side = make_pool(), torch.cuda.Stream()
            with torch.cuda.stream(side):
                kept = take(old)
            pool = torch.cuda.MemPool()
            with torch.cuda.use_mem_pool(pool):
                live = empty(500 * MIB)  # or empty_cache, before the capture, would give it back
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side, capture_error_mode="relaxed"):
                a = empty(MIB)
                a.zero_()
                del kept, old
                gc.collect()
            assert probe.probe_n_freed() == 0
            del live
            reserved = torch.cuda.memory_reserved()
            del pool
            gc.collect()
            assert torch.cuda.memory_reserved() < reserved - 400 * MIB
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            assert probe.probe_n_freed() == 1
            """
        )
    )


def test_the_profiler_sees_what_comes_and_goes(run_class: Run, probe: str) -> None:
    run_class(
        PROBE.format(probe)
        + FOREIGN.format(probe)
        + textwrap.dedent(
            """
            from torch.profiler import ProfilerActivity, profile
            pool = make_pool()
            a = take(pool)
            with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
                b = take(pool, 1000)
                del b
            events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
            assert [e.nbytes() for e in events] == [1024, -1024]
            """
        )
    )
