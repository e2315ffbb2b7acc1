# labels: python stress
"""Calls PyTorch's hooks as PyTorch does, on the simulator, without torch."""

from __future__ import annotations

from conftest import Run
from statistics_keys import expected_keys

SIMULATOR = "driver:sim,sim:[capacity:8G]"

# 8 threads, 100,000 blocks in all, at most 200 live in each thread.
MANY_BLOCKS = """
import ctypes, random, threading
import pleat

N_THREADS, N_BLOCKS, N_LIVE = 8, 100_000, 200
library = pleat.library()
failures = []
live_everywhere = [dict() for _ in range(N_THREADS)]

def work(number):
    rng = random.Random(number)
    live = live_everywhere[number]
    stream = None
    for _ in range(N_BLOCKS // N_THREADS):
        size = rng.choice((rng.randint(1, 4096), rng.randint(1, 1 << 20), rng.randint(1, 3 << 20)))
        at = library.pleat_torch_malloc(size, 0, stream)
        if not at or at % 512:
            failures.append((size, at, pleat.last_error()))
            return
        live[at] = size
        if len(live) > N_LIVE:
            gone = rng.choice(list(live))
            library.pleat_torch_free(gone, live.pop(gone), 0, stream)

threads = [threading.Thread(target=work, args=(i,)) for i in range(N_THREADS)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failures, failures

spans = sorted((at, at + size) for live in live_everywhere for at, size in live.items())
assert len(spans) == N_THREADS * N_LIVE
assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:])), "blocks overlap"
stats = pleat.memory_stats(0)
assert stats["allocation.all.allocated"] == N_BLOCKS
assert stats["allocation.all.current"] == len(spans)
requested = sum(size for live in live_everywhere for size in live.values())
assert stats["requested_bytes.all.current"] == requested
assert pleat.check_invariants() == 0

for live in live_everywhere:
    for at, size in live.items():
        library.pleat_torch_free(at, size, 0, None)
library.pleat_torch_reset()
stats = pleat.memory_stats(0)
assert stats["allocated_bytes.all.current"] == 0
assert stats["reserved_bytes.all.current"] == 0
assert stats["num_ooms"] == 0
assert pleat.check_invariants() == 0
print("done")
"""


def test_a_hundred_thousand_blocks_from_several_threads(run: Run) -> None:
    assert run(MANY_BLOCKS, PLEAT_CONF=SIMULATOR).stdout.strip() == "done"


def test_statistics_have_exactly_pytorchs_keys_sorted(run: Run) -> None:
    done = run("import pleat\nprint(*pleat.memory_stats(0), sep='\\n')", PLEAT_CONF=SIMULATOR)
    keys = done.stdout.split()
    assert len(keys) == 123
    assert set(keys) == expected_keys()
    assert keys == sorted(keys)


def test_statistics_move_as_pytorchs_do(run: Run) -> None:
    run(
        """
        import pleat
        library = pleat.library()
        def see(key):
            stats = pleat.memory_stats(0)
            return tuple(stats[f"{key}.{of}"] for of in ("current", "peak", "allocated", "freed"))
        at = library.pleat_torch_malloc(1000, 0, None)
        assert see("allocated_bytes.all") == (1024, 1024, 1024, 0)
        assert see("allocated_bytes.small_pool") == (1024, 1024, 1024, 0)
        assert see("requested_bytes.all") == (1000, 1000, 1000, 0)
        big = library.pleat_torch_malloc(3 << 20, 0, None)
        assert see("allocation.all") == (2, 2, 2, 0)
        assert see("allocation.large_pool") == (1, 1, 1, 0)
        library.pleat_torch_free(big, 3 << 20, 0, None)
        assert see("allocated_bytes.all") == (1024, 1024 + (3 << 20), 1024 + (3 << 20), 3 << 20)
        pleat.reset_peaks(0)
        assert see("allocated_bytes.all") == (1024, 1024, 1024 + (3 << 20), 3 << 20)
        pleat.reset_accumulated(0)
        assert see("allocated_bytes.all") == (1024, 1024, 0, 0)
        library.pleat_torch_free(at, 1000, 0, None)
        assert see("allocated_bytes.all") == (0, 1024, 0, 1024)
        assert pleat.memory_stats(0)["max_split_size"] == -1
        """,
        PLEAT_CONF=SIMULATOR,
    )


def test_null_comes_with_a_reason_and_frees_of_null_are_fine(run: Run) -> None:
    run(
        """
        import pleat
        library = pleat.library()
        assert library.pleat_torch_malloc(0, 0, None) is None
        library.pleat_torch_free(None, 0, 0, None)
        assert library.pleat_torch_malloc(9 << 30, 0, None) is None
        assert pleat.PleatError(*pleat.last_error()).name == "PLEAT_ENOMEM_DEVICE"
        assert pleat.memory_stats(0)["num_ooms"] == 1
        at = library.pleat_torch_malloc(7 << 30, 0, None)
        assert at, pleat.last_error()
        library.pleat_torch_free(at, 7 << 30, 0, None)
        """,
        PLEAT_CONF=SIMULATOR,
    )


def test_a_device_is_compacted(run: Run) -> None:
    run(
        """
        import pleat
        library = pleat.library()
        granule = 2 << 20
        def malloc(n_granules):
            return library.pleat_torch_malloc(n_granules * granule, 0, None)
        def free(at, n_granules):
            library.pleat_torch_free(at, n_granules * granule, 0, None)
        first = malloc(31)
        free(malloc(32), 32)  # leaves a chunk of 32 granules
        blocks = [malloc(1) for _ in range(32)]
        kept = [0, 1, 22, 23, 24, 25, 26]
        for i in sorted({*range(32)} - {*kept}):
            free(blocks[i], 1)
        done = pleat.compact()
        assert done == pleat.Compaction(1, 7 * granule, 25 * granule), done
        assert pleat.device_stats(0)["resident_bytes"] == (31 + 7) * granule
        assert pleat.compact().won_bytes == 0
        assert pleat.check_invariants() == 0
        for i in kept:
            free(blocks[i], 1)
        free(first, 31)
        pleat.trim()
        assert pleat.device_stats(0)["resident_bytes"] == 0
        """,
        PLEAT_CONF="driver:sim,sim:[capacity:64G],chunk_share:1",
    )


def test_the_classic_caches_are_not_compacted(run: Run) -> None:
    run(
        """
        import pleat
        at = pleat.library().pleat_torch_malloc(512, 0, None)
        try:
            pleat.compact()
        except pleat.PleatError as error:
            assert "torch-native" in str(error)
        else:
            raise AssertionError("it was")
        pleat.library().pleat_torch_free(at, 512, 0, None)
        """,
        PLEAT_CONF="driver:sim,allocator:torch-native",
    )


def test_devices_are_described_limited_and_trimmed(run: Run) -> None:
    run(
        """
        import pleat
        library = pleat.library()
        device = pleat.describe(1)
        assert (device.driver, device.allocator, device.total_bytes) == ("sim", "pleat", 1 << 30)
        pleat.set_limit(1, 64 << 20)
        assert pleat.describe(1).limit_bytes == 64 << 20
        assert library.pleat_torch_malloc(65 << 20, 1, None) is None
        at = library.pleat_torch_malloc(32 << 20, 1, None)
        free, total = pleat.memory_info(1)
        assert total == 1 << 30 and free <= total - (32 << 20)
        library.pleat_torch_free(at, 32 << 20, 1, None)
        assert pleat.device_stats(1)["resident_bytes"] >= 32 << 20
        assert pleat.trim(1) >= 32 << 20
        assert pleat.device_stats(1)["resident_bytes"] == 0
        assert pleat.memory_info(1)[0] >= free + (32 << 20)
        """,
        PLEAT_CONF="driver:sim,sim:[capacity:1G,devices:2]",
    )


def test_a_snapshot_is_pytorchs_dictionary(run: Run) -> None:
    run(
        """
        import json, pathlib, pickle
        import pleat
        library = pleat.library()
        pleat.record_history(1000)
        at = library.pleat_torch_malloc(5000, 0, None)
        pleat.dump_snapshot("state.pickle")
        pleat.dump_snapshot("state.json")
        state = pickle.loads(pathlib.Path("state.pickle").read_bytes())
        assert {"segments", "device_traces", "allocator_settings"} <= set(state)
        blocks = [b for s in state["segments"] for b in s["blocks"]]
        assert [b["requested_size"] for b in blocks if b["address"] == at] == [5000]
        assert ("alloc", at, 5000) in [(e["action"], e.get("addr"), e["size"])
                                       for e in state["device_traces"][0]]
        read_back = json.loads(pathlib.Path("state.json").read_text())
        assert read_back["segments"][0]["address"] == state["segments"][0]["address"]
        try:
            pleat.dump_snapshot("nowhere/state.pickle")
        except pleat.PleatError as error:
            assert error.name == "PLEAT_EWRITE" and "nowhere/state.pickle" in error.text
        else:
            raise AssertionError("a folder that is not there was written to")
        """,
        PLEAT_CONF=SIMULATOR,
    )


def test_a_forked_child_leaves_memory_alone_and_the_parent_goes_on(run: Run) -> None:
    run(
        """
        import os
        import pleat
        library = pleat.library()
        at = library.pleat_torch_malloc(1 << 20, 0, None)
        child = os.fork()
        if child == 0:
            library.pleat_torch_free(at, 1 << 20, 0, None)
            library.pleat_torch_reset()
            os._exit(0 if library.pleat_torch_malloc(512, 0, None) is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert pleat.memory_stats(0)["allocation.all.current"] == 1
        library.pleat_torch_free(at, 1 << 20, 0, None)
        assert pleat.check_invariants() == 0
        """,
        PLEAT_CONF=SIMULATOR,
    )


def test_what_is_freed_while_the_interpreter_ends_is_no_crash(run: Run) -> None:
    done = run(
        """
        import pleat
        library = pleat.library()
        class Block:
            def __init__(self):
                self.free = library.pleat_torch_free
                self.at = library.pleat_torch_malloc(1 << 20, 0, None)
            def __del__(self):
                self.free(self.at, 1 << 20, 0, None)
        import builtins, sys
        builtins.kept = Block()
        sys.kept = Block()
        kept = Block()
        """,
        PLEAT_CONF=SIMULATOR,
    )
    assert done.stderr == ""
