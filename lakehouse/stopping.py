"""Whether somebody has asked this process to stop: Ctrl-C, SIGTERM, or Dagster ends a run.

A signal's handler raises its exception wherever the main thread is. DuckDB makes a RuntimeError of its own of any, and
a reader of files may take that for a broken file: so the signal is remembered, and asked for where it matters.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType

from lakehouse.errors import OutcomeUnknown

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_Handler = Callable[[int, FrameType | None], object]


@dataclass
class _Asked:
    """Of this process, as its signals are: the number of the signal, 0 without one; how many are `noticing`."""

    number: int = 0
    noticing: int = 0


_asked = _Asked()


@contextmanager
def noticing_stops() -> Iterator[None]:
    """Remember signals that ask to stop, and handle them as before. Only the main thread can; others change nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: handler for number in _SIGNALS if callable(handler := signal.getsignal(number))}
    if not _asked.noticing:
        _asked.number = 0
    _asked.noticing += 1
    ours = {number: partial(_notice, handler) for number, handler in before.items()}
    for number, handler in ours.items():
        signal.signal(number, handler)
    try:
        yield
    finally:
        _asked.noticing -= 1
        for number, handler in ours.items():
            if signal.getsignal(number) is handler:  # a handler may have put another one there
                signal.signal(number, before[number])


@contextmanager
def stops_first() -> Iterator[None]:
    """What goes wrong in here after somebody asked to stop goes wrong for that. Raises KeyboardInterrupt instead of it.

    An outcome that is unknown stays one: it weighs more.
    """
    try:
        yield
    except OutcomeUnknown:
        raise
    except Exception as error:
        if _asked.number:
            raise KeyboardInterrupt from error
        raise


def raise_if_stopped() -> None:
    """Raise KeyboardInterrupt if somebody asked to stop and the exception that said so is lost."""
    if _asked.number:
        raise KeyboardInterrupt


def stopped() -> bool:
    return _asked.number != 0


def stop_code() -> int:
    """What a shell expects of a program that was ended by a signal: 128 and its number."""
    return 128 + (_asked.number or signal.SIGINT)


def _notice(handler: _Handler, number: int, frame: FrameType | None) -> None:
    _asked.number = number
    handler(number, frame)
