"""Under every allocator the device can be filled to its end, is usable afterwards, and holds
nothing when all is given back."""

import torch
from child import ALLOCATOR, counts, give_back, physical_bytes

GIB = 1 << 30


def gibibyte() -> torch.Tensor:
    return torch.empty(GIB, dtype=torch.uint8, device="cuda")


def fill() -> list[torch.Tensor]:
    kept: list[torch.Tensor] = []
    while len(kept) < 99:
        try:
            block = gibibyte()
        except torch.cuda.OutOfMemoryError:
            return kept
        if block.data_ptr() == 0:  # PyTorch's answer when a plug-in refuses
            return kept
        kept.append(block)
    raise AssertionError("the device has no end")


def the_device_fills_to_its_end_and_is_usable_afterwards() -> None:
    blocks = fill()
    assert len(blocks) == counts().capacity_bytes // GIB, len(blocks)
    assert len({block.data_ptr() for block in blocks}) == len(blocks)
    assert torch.cuda.mem_get_info()[0] < GIB
    last = blocks.pop().data_ptr()
    again = gibibyte()
    assert again.data_ptr() != 0
    assert ALLOCATOR in ("async", "pleat") or again.data_ptr() == last
    blocks.append(again)
    del again
    n = len(blocks)
    blocks.clear()
    blocks = fill()
    assert len(blocks) == n


def pieces_of_what_was_freed_are_used_again() -> None:
    blocks = fill()
    del blocks[::2]
    small = [torch.empty(100 << 20, dtype=torch.uint8, device="cuda") for _ in range(30)]
    assert all(block.data_ptr() != 0 for block in small)


def kernels_run_on_it() -> None:
    x = torch.randn(512, 512, device="cuda")
    y = torch.nn.functional.softmax(x @ x, dim=-1).sum()
    assert y.item() == 0.0
    assert torch.nonzero(x).shape == (0, 2)


the_device_fills_to_its_end_and_is_usable_afterwards()
pieces_of_what_was_freed_are_used_again()
kernels_run_on_it()
give_back()
assert ALLOCATOR == "pleat" or physical_bytes() == 0, physical_bytes()
assert counts().hazards == 0
