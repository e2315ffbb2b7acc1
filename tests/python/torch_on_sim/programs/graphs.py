"""CUDA graphs: each replay runs the captured work, and the graph owns its memory."""

import torch
from child import ALLOCATOR, counts, give_back, physical_bytes

MIB = 1 << 20


def warm(x: torch.Tensor) -> None:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        _ = x @ x
    torch.cuda.current_stream().wait_stream(side)


def a_graph_holds_its_memory_until_it_goes() -> None:
    x = torch.zeros(2048, 2048, device="cuda")
    warm(x)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
        z = (y @ x).relu()
    held = torch.cuda.memory_reserved() - before
    assert held >= 3 * 16 * MIB, held
    assert counts().graphs > 0
    torch.cuda.synchronize()
    assert counts().unfinished_work == 0, "a capture runs nothing"
    graph.replay()
    assert counts().unfinished_work >= 3, "a replay does"
    torch.cuda.synchronize()
    at = {y.data_ptr(), z.data_ptr()}
    others = [torch.empty(4 * MIB, device="cuda") for _ in range(20)]
    assert not at & {other.data_ptr() for other in others}
    del y, z
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() - before >= held, "it is the graph's"
    del others, graph
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert counts().graphs == 0


def forbidden_calls_break_a_capture() -> None:
    x = torch.zeros(10, device="cuda")
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            x.sum().item()
        raise AssertionError("a synchronisation passed")
    except RuntimeError as error:
        assert "captur" in str(error), error
    torch.cuda.synchronize()


def a_memory_pool_is_apart() -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.empty(MIB, device="cuda")
    at = x.data_ptr()
    del x
    y = torch.empty(MIB, device="cuda")
    assert y.data_ptr() != at, "its memory stays in it"
    with torch.cuda.use_mem_pool(pool):
        z = torch.empty(MIB, device="cuda")
    assert z.data_ptr() == at
    del z, pool


a_graph_holds_its_memory_until_it_goes()
if not (ALLOCATOR == "expandable" and torch.__version__.startswith("2.7.")):
    a_memory_pool_is_apart()  # 2.7 refuses a pool with expandable segments
give_back()
assert physical_bytes() == 0, physical_bytes()
assert counts().hazards == 0
forbidden_calls_break_a_capture()  # comes last: PyTorch's pools do not recover
