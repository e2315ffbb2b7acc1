"""Requests of newer PyTorch versions to pleat's class: exact addresses, stacks of a live block,
early refusals, private pools' figures. Each test is skipped on versions without its feature."""

# labels: python
# needs: torch

from __future__ import annotations

from class_test import Run, run_class  # noqa: F401 (a fixture)


def test_the_accelerators_functions_ask_pleat(run_class: Run) -> None:
    run_class(
        """
        needs(torch.accelerator, "memory_stats")
        a = empty(1000)
        stats = torch.accelerator.memory_stats()
        assert stats["active_bytes.all.current"] == 1024
        assert torch.accelerator.memory_allocated() == 1024
        assert torch.accelerator.memory_reserved() == pleat.torch.memory_reserved() > 0
        del a
        torch.accelerator.empty_cache()
        assert torch.accelerator.memory_reserved() == 0
        torch.accelerator.reset_peak_memory_stats()
        assert torch.accelerator.max_memory_allocated() == 0
        """
    )


def test_a_storage_comes_back_at_its_address(run_class: Run) -> None:
    run_class(
        """
        needs(torch.UntypedStorage, "_resize_with_addr_")
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            front, *pair = empty(5000), empty(3 * MIB), empty(3 * MIB)
        a, behind = sorted(pair, key=lambda tensor: tensor.data_ptr())
        del pair
        storage, at = a.untyped_storage(), a.data_ptr()
        live = torch.cuda.memory_allocated()
        def refused(bytes, address):
            try:
                with torch.cuda.use_mem_pool(pool):
                    storage._resize_with_addr_(bytes, address)
            except RuntimeError as error:
                return str(error)
            raise AssertionError(f"{bytes} at {address}")
        storage.resize_(0)
        assert "exact address" in refused(5000, front.data_ptr())
        assert "exact address" in refused(behind.data_ptr() - at + 512, at) # reaches into it
        assert "exact address" in refused(4096, 512) # of no pool
        assert "aligned to kMinBlockSize" in refused(4096, at + 1)
        assert torch.cuda.memory_allocated() == live - 3 * MIB
        torch.cuda.memory._record_memory_history(stacks="python")
        with torch.cuda.use_mem_pool(pool):
            storage._resize_with_addr_(3 * MIB, at)
        assert a.data_ptr() == at and torch.cuda.memory_allocated() == live
        [made] = [
            entry
            for entry in torch.cuda.memory._snapshot()["device_traces"][0]
            if entry["action"] == "alloc"
        ]
        assert made["addr"] == at and made["size"] == 3 * MIB
        assert made.get("internal_metadata", "mallocWithAddress") == "mallocWithAddress"
        with torch.cuda.use_mem_pool(pool):
            assert empty(3 * MIB).data_ptr() != at
        after = torch.cuda.memory._snapshot()["device_traces"][0][-3:]
        assert not any(entry.get("internal_metadata") for entry in after) # of that call only
        """
    )


def test_a_live_blocks_stack_is_told(run_class: Run) -> None:
    run_class(
        """
        needs(torch.cuda.memory, "_allocation_traceback")
        trace = torch.cuda.memory._allocation_traceback
        older = empty(MIB)
        def make():
            return empty(3 * MIB)
        torch.cuda.memory._record_memory_history(stacks="python")
        a = make()
        assert "make" in [frame["name"] for frame in trace(a.data_ptr())]
        assert trace(older.data_ptr()) is None
        at = a.data_ptr()
        del a
        assert trace(at) is None
        b = make()
        torch.cuda.memory._record_memory_history(None)
        assert trace(b.data_ptr()) is None
        """
    )


def test_settings_are_told_as_they_are_set(run_class: Run) -> None:
    run_class(
        """
        told = lambda: torch.cuda.memory._snapshot()["allocator_settings"]
        empty(1)
        assert not told()["expandable_segments"]
        torch.cuda.memory._set_allocator_settings(
            "expandable_segments:True,garbage_collection_threshold:0.5"
        )
        assert told()["expandable_segments"]
        assert told()["garbage_collection_threshold"] == 0.5
        """
    )


def test_early_refusals_where_torch_asks_for_them(run_class: Run) -> None:
    run_class(
        """
        empty(1)
        set_ = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
        if set_ is None or "num_oom_rejections" not in torch.cuda.memory_stats():
            lacks("early refusals")
        fails = lambda bytes: not fits(bytes)
        def fits(bytes):
            try:
                return empty(bytes) is not None
            except torch.OutOfMemoryError:
                return False
        n = lambda: torch.cuda.memory_stats()["num_oom_rejections"]
        total = torch.cuda.get_device_properties(0).total_memory
        tenth = total // 10
        set_("throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.1")
        a = empty(tenth // 2)
        assert fails(tenth // 2 + 2 * MIB) and n() == 1
        assert fits(tenth // 2 - 2 * MIB) and n() == 1
        del a
        assert fits(tenth - 2 * MIB) and fails(tenth + 2 * MIB) and n() == 2
        torch.cuda.set_per_process_memory_fraction(0.05)
        assert fails(tenth - 2 * MIB) and n() == 3 # the lower of the two
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.reset_accumulated_memory_stats()
        assert n() == 0
        set_("throw_on_cudamalloc_oom:False,per_process_memory_fraction:0.1")
        assert fits(2 * tenth) and n() == 0
        """
    )


def test_a_pool_that_comes_again_counts_from_zero(run_class: Run) -> None:
    run_class(
        """
        empty(1)
        name = "reserved_bytes_by_private_pools"
        if name not in torch.cuda.memory_stats_as_nested_dict():
            lacks(name)
        handle = torch.cuda.graph_pool_handle()

        def capture(n):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=handle):
                a = empty(n)
            return graph, a

        kept = capture(40 * MIB)
        torch.cuda.reset_accumulated_memory_stats()
        del kept
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        for _ in range(300): # pleat forgets all but the last 256 that ended
            pool = torch.cuda.MemPool()
            with torch.cuda.use_mem_pool(pool):
                a = empty(2 * MIB)
            del a, pool
        kept = capture(20 * MIB)
        figures = torch.cuda.memory_stats_as_nested_dict()[name][tuple(handle)]["all"]
        assert figures["current"] == figures["allocated"] == 20 * MIB, figures
        """
    )


def test_private_pools_figures(run_class: Run) -> None:
    run_class(
        """
        empty(1)
        name = "reserved_bytes_by_private_pools"
        figures = lambda id: torch.cuda.memory_stats_as_nested_dict()[name][id]["all"]
        if name not in torch.cuda.memory_stats_as_nested_dict():
            lacks(name)
        pool, other = torch.cuda.MemPool(), torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            a = empty(20 * MIB)
        with torch.cuda.use_mem_pool(other):
            b = empty(40 * MIB)
        assert figures(pool.id)["current"] == 20 * MIB
        assert figures(other.id)["current"] == figures(other.id)["allocated"] == 40 * MIB
        torch.cuda.reset_accumulated_memory_stats()
        assert figures(pool.id)["current"] == 20 * MIB
        assert figures(pool.id)["allocated"] == figures(pool.id)["freed"] == 0
        id = pool.id
        del a, pool
        gc.collect()
        torch.cuda.empty_cache()
        assert figures(id)["current"] == 0 and figures(id)["freed"] == 20 * MIB
        assert figures(id)["peak"] == 20 * MIB
        """
    )
