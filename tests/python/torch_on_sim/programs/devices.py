"""Two devices, many threads, and the workers of a loader."""

import threading

import torch
from child import counts
from torch.utils.data import DataLoader, TensorDataset


def contents_cross_devices() -> None:
    x = torch.arange(100000)
    there = x.to("cuda:1")
    back = there.to("cuda:0").to("cuda:1").to("cuda:0", non_blocking=True)
    assert torch.equal(back.cpu(), x)
    assert torch.cuda.can_device_access_peer(0, 1)


def one_full_device_leaves_the_other_usable() -> None:
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda:1")
        raise AssertionError("it has room for everything")
    except torch.cuda.OutOfMemoryError as error:
        assert "GPU 1" in str(error), error
    assert torch.equal(torch.arange(5, device="cpu").to("cuda:0").cpu(), torch.arange(5))


def threads_have_devices_and_streams_of_their_own() -> None:
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            device = number % 2
            with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)):
                for _ in range(200):
                    x = torch.randn(100000, device=f"cuda:{device}")
                    assert torch.cuda.current_device() == device
                    (x * 2).sum().item()
        except BaseException as error:  # any error: the test reports it
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


def a_loader_s_workers_are_forked_from_it() -> None:
    data = TensorDataset(torch.arange(64.0))
    loader = DataLoader(data, batch_size=16, num_workers=2, pin_memory=True)
    n = 0
    for (batch,) in loader:
        assert batch.is_pinned()
        n += batch.cuda(non_blocking=True).numel()
    assert n == 64


assert torch.cuda.device_count() == 2
contents_cross_devices()
one_full_device_leaves_the_other_usable()
threads_have_devices_and_streams_of_their_own()
a_loader_s_workers_are_forked_from_it()
assert counts().hazards == 0
