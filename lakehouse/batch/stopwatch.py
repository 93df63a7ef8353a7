"""Wall-clock seconds by step. The clock comes in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

STEPS = ("plan", "read", "stage", "merge", "publish", "ledger", "total")


class Stopwatch:
    """Adds up seconds by step; a step may be entered many times. `current` is the step entered last."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = clock()
        self._seconds = dict.fromkeys(STEPS, 0.0)
        self.current = "plan"

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        start = self._clock()
        self.current = name
        try:
            yield
        finally:
            self._seconds[name] += self._clock() - start

    def elapsed(self) -> float:
        return self._clock() - self._started

    def seconds(self) -> dict[str, float]:
        return {**{k: round(v, 4) for k, v in self._seconds.items()}, "total": round(self.elapsed(), 4)}
