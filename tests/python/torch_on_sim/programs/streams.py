"""Streams and events: memory in use by another stream is not handed out."""

import torch
from child import ALLOCATOR, counts, give_back

MIB = 1 << 20


def block() -> torch.Tensor:
    return torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")


def events_pass_when_their_stream_is_waited_for() -> None:
    side = torch.cuda.Stream()
    event = torch.cuda.Event()
    x = torch.zeros(10, device="cuda")
    with torch.cuda.stream(side):
        x.add_(1)
        event.record()
    assert not event.query()
    assert not side.query()
    event.synchronize()
    assert event.query()
    side.synchronize()
    assert side.query()


def time_is_counted_in_work() -> None:
    first = torch.cuda.Event(enable_timing=True)
    last = torch.cuda.Event(enable_timing=True)
    x = torch.zeros(10, device="cuda")
    first.record()
    for _ in range(50):
        x.add_(1)
    last.record()
    last.synchronize()
    assert abs(first.elapsed_time(last) - 0.050) < 1e-6  # one microsecond per kernel


def what_another_stream_uses_waits_for_it() -> None:
    side = torch.cuda.Stream()
    x = block()
    at = x.data_ptr()
    with torch.cuda.stream(side):
        x.add_(1)
    x.record_stream(side)
    del x
    y = block()
    assert y.data_ptr() != at, "the other stream's work is not over"
    torch.cuda.synchronize()
    y.record_stream(side)  # pleat polls a stream in calls that name the stream
    z = block()
    assert z.data_ptr() == at, "now it is"


def a_stream_takes_its_own_memory_at_once() -> None:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = block()
        at = x.data_ptr()
        x.add_(1)
        del x
        y = block()
    assert y.data_ptr() == at


events_pass_when_their_stream_is_waited_for()
time_is_counted_in_work()
if ALLOCATOR in ("native", "expandable", "pleat"):
    what_another_stream_uses_waits_for_it()
a_stream_takes_its_own_memory_at_once()
give_back()
assert counts().hazards == 0
