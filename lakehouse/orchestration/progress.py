"""Progress of a load as a few lines of the run's log. Owns the rate; never measures anything itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.services import Progress

SECONDS_BETWEEN_LINES = 10.0
"""Every line is an event in Dagster's storage, so a long step says where it is at most this often."""


class ProgressLog:
    """Passes on the first progress of each step, and then one per `SECONDS_BETWEEN_LINES`."""

    def __init__(self, write: Callable[[str], object], clock: Callable[[], float]) -> None:
        self._write = write
        self._clock = clock
        self._step = ""
        self._written_at = 0.0

    def __call__(self, progress: Progress) -> None:
        now = self._clock()
        if progress.step == self._step and now - self._written_at < SECONDS_BETWEEN_LINES:
            return
        self._step, self._written_at = progress.step, now
        self._write(progress_line(progress))


def progress_line(progress: Progress) -> str:
    """`stage 3/10, 120000 rows, about 12 s left`"""
    line = progress.step
    if progress.total:
        line += f" {progress.done}/{progress.total}"
    if progress.rows:
        line += f", {progress.rows} rows"
    if progress.seconds_left is not None:
        line += f", about {progress.seconds_left:.0f} s left"
    return line
