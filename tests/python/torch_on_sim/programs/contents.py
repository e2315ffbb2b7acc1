"""With backing:memory, bytes survive copies to the device, within the device, and back."""

import torch
from child import counts, give_back

torch.manual_seed(1)


def bytes_survive_the_way_there_and_back() -> None:
    for n in (1, 1000, 3 << 20):
        x = torch.randint(0, 256, (n,), dtype=torch.uint8)
        on_device = x.cuda()
        assert torch.equal(on_device.cpu(), x)
        assert torch.equal(on_device.clone().cpu(), x)
        other = torch.empty_like(on_device)
        other.copy_(on_device)
        on_device.zero_()
        torch.cuda.synchronize()
        assert torch.equal(other.cpu(), x)


def bytes_survive_copies_that_nobody_waits_for() -> None:
    x = torch.randn(1 << 20).pin_memory()
    assert x.is_pinned()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        on_device = x.to("cuda", non_blocking=True)
        back = torch.empty(1 << 20, pin_memory=True)
        back.copy_(on_device, non_blocking=True)
    side.synchronize()
    assert torch.equal(back, x)


def a_model_s_weights_survive() -> None:
    model = torch.nn.Linear(100, 100)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    model.cuda()
    for key, value in model.state_dict().items():
        assert value.is_cuda and torch.equal(value.cpu(), weights[key])
    model.cpu()
    for key, value in model.state_dict().items():
        assert torch.equal(value, weights[key])


def neighbours_do_not_run_into_each_other() -> None:
    kept = [torch.full((n,), n % 251, dtype=torch.uint8) for n in range(1, 3000, 100)]
    on_device = [tensor.cuda() for tensor in kept]
    del on_device[::3]
    on_device += [torch.ones(700, dtype=torch.uint8).cuda() for _ in range(20)]
    rest = [tensor for i, tensor in enumerate(kept) if i % 3 != 0]
    for tensor, expected in zip(on_device, rest):
        assert torch.equal(tensor.cpu(), expected)


bytes_survive_the_way_there_and_back()
bytes_survive_copies_that_nobody_waits_for()
a_model_s_weights_survive()
neighbours_do_not_run_into_each_other()
give_back()
assert counts().hazards == 0
