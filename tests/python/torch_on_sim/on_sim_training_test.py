"""Training steps from end to end, on the simulated device, under every allocator."""
# labels: python

import json

import pytest
from on_sim import every_allocator, run


TORCH = ("torch._dynamo", "torch.utils.checkpoint")  # what optimizers and the program import


def figures(allocator: str, *options: str, sim: str = "", size: str = "small") -> dict[str, float]:
    found = json.loads(run("training", size, *options, allocator=allocator, sim=sim, modules=TORCH))
    assert found["hazards"] == 0
    if allocator != "pleat":
        assert found["left"] == 0, "all is given back"
    return dict(found)


@every_allocator
@pytest.mark.parametrize("options", [(), ("bf16", "fused", "checkpoint", "variable")])
def test_a_decoder_trains(allocator: str, options: tuple[str, ...]) -> None:
    found = figures(allocator, *options, sim="capacity:4G,compute:9.0")
    if allocator in ("native", "expandable"):
        assert found["peak_physical"] == found["peak_reserved"]
        assert found["peak_allocated"] <= found["peak_reserved"]


def test_checkpointing_and_bf16_save_memory() -> None:
    plain = figures("native", sim="capacity:4G")["peak_allocated"]
    bf16 = figures("native", "bf16", sim="capacity:4G")["peak_allocated"]
    both = figures("native", "bf16", "checkpoint", sim="capacity:4G")["peak_allocated"]
    assert both < bf16 < plain


def test_pleat_holds_no_more_than_pytorch_s_caches() -> None:
    options = ("bf16", "variable")
    pleat = figures("pleat", *options, sim="capacity:4G")["peak_physical"]
    native = figures("native", *options, sim="capacity:4G")
    assert pleat <= native["peak_physical"]
    assert pleat <= 1.03 * native["peak_allocated"] + (64 << 20)


def test_a_large_model_needs_no_memory_of_the_host() -> None:
    found = figures("native", "bf16", sim="capacity:141G,compute:9.0", size="medium")
    assert 10 << 30 < found["peak_allocated"] < 30 << 30


def test_a_rank_of_eight_holds_an_eighth_of_the_weights() -> None:
    weights = 8 * 2048 * 2048 * 4  # three times as much with AdamW's two averages
    one = int(run("sharded", "1", allocator="native", sim="capacity:4G", modules=TORCH))
    eight = int(run("sharded", "8", allocator="native", sim="capacity:4G", modules=TORCH))
    assert 3 * weights <= one < 3.3 * weights
    assert 3 * weights / 8 <= eight < 3.3 * weights / 8 + (32 << 20)
