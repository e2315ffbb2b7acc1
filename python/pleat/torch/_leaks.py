"""What still lives: blocks by the place that allocated them, and the places that grow."""

from __future__ import annotations

from typing import NamedTuple

from . import _places

LEAST_STEPS = 3  # fewer show no growth


class Alive(NamedTuple):
    """Live blocks of one place in the user's code."""

    place: _places.Place
    blocks: int
    bytes: int
    age: int
    """Allocations since the oldest of them was allocated."""
    blocks_a_step: float
    """By how many it grew in each step of late; 0: it does not grow."""
    bytes_a_step: float

    def __str__(self) -> str:
        frames = self.place.frames
        where = frames[0].text() if frames else "?"
        words = f"{self.blocks} blocks, {size(self.bytes)}, {self.place.what} at {where}"
        if frames and frames[0].source():
            words += f": {frames[0].source()}"
        if self.blocks_a_step > 0:
            n = f"{self.blocks_a_step:g}"
            words += f" (grows by {n} blocks, {size(self.bytes_a_step)} a step)"
        return words


def size(n_bytes: float) -> str:
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if n_bytes >= 1 << shift:
            return f"{n_bytes / (1 << shift):.1f} {unit}"
    return f"{n_bytes:g} bytes"


class Mark(NamedTuple):
    """A moment: what lives now is no leak after it."""

    number: int
    """Allocations until then."""


class _Growth:
    """How the live blocks of a place change from step to step."""

    def __init__(self) -> None:
        self.count = self.bytes = self.oldest = 0
        self.streak = self.grown = self.grown_bytes = 0

    def step(self, count: int, n_bytes: int, oldest: int) -> None:
        if count > self.count:
            self.streak += 1
            self.grown += count - self.count
            self.grown_bytes += n_bytes - self.bytes
        else:
            self.streak = self.grown = self.grown_bytes = 0
        self.count, self.bytes, self.oldest = count, n_bytes, oldest


class Live:
    """The live blocks. Growth is looked at where a step ends: when the program's first optimizer has
    stepped, or at a mark. Of a block only numbers are kept, so it costs the garbage collector
    nothing; a change is one that Python's own lock makes whole."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}  # by address
        self.numbers: dict[int, int] = {}
        self.sizes: dict[int, int] = {}  # where they are known
        self.growths: dict[int, _Growth] = {}  # by place
        self.n_allocated = 0
        self.n_steps = 0

    def began(self, ptr: int, place: int) -> None:
        self.n_allocated += 1
        self.places[ptr] = place
        self.numbers[ptr] = self.n_allocated

    def freed(self, ptr: int) -> None:
        self.places.pop(ptr, None)
        self.sizes.pop(ptr, None)

    def _by_place(self, first: int) -> dict[int, list[int]]:
        """Blocks after number `first` by place: how many, bytes, and the oldest one's number."""
        found: dict[int, list[int]] = {}
        for ptr, place in list(self.places.items()):
            number = self.numbers[ptr]
            if number > first:
                count, n_bytes, oldest = found.get(place, (0, 0, number))
                size_of_it = self.sizes.get(ptr, 0)
                found[place] = [count + 1, n_bytes + size_of_it, min(oldest, number)]
        return found

    def step(self) -> None:
        self.n_steps += 1
        found = self._by_place(0)
        for place in found.keys() | self.growths.keys():
            self.growths.setdefault(place, _Growth()).step(*found.get(place, (0, 0, 0)))

    def _rate(self, place: int) -> tuple[float, float]:
        """Blocks and bytes a step, for a place that grew in three of four steps, the last ones. The
        first step makes what stays, such as an optimizer's state."""
        growth = self.growths.get(place, _Growth())
        is_growing = self.n_steps >= LEAST_STEPS and growth.streak >= 2
        if not is_growing or 4 * growth.streak < 3 * (self.n_steps - 1):
            return 0, 0
        return growth.grown / growth.streak, growth.grown_bytes / growth.streak

    def _tell(self, found: dict[int, list[int]]) -> list[Alive]:
        alive = [
            Alive(_places.place(place), count, n_bytes, self.n_allocated - oldest, *self._rate(place))
            for place, (count, n_bytes, oldest) in found.items()
        ]
        return sorted(alive, key=lambda a: (-a.bytes, -a.blocks))

    def since(self, mark: Mark | None) -> list[Alive]:
        """Live blocks allocated after the mark, by place, the most bytes first."""
        return self._tell(self._by_place(mark.number if mark is not None else 0))

    def growing(self) -> list[Alive]:
        """What grew until the last step ended. A program's end frees what its functions kept."""
        last = {p: [g.count, g.bytes, g.oldest] for p, g in self.growths.items()}
        return [alive for alive in self._tell(last) if alive.blocks_a_step > 0]
