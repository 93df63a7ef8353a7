"""Settings of Python for the time in which very many objects are listed and planned; they are the whole process's.

No look for garbage: all objects are kept, and each look goes over all of them again, a quarter of the time for 50,000.
Short turns: the thread that reads a page of a listing gives its turn away with every few kilobytes, and waits for the
next one, for Python's usual five milliseconds, while another thread makes objects: a tenth of the time.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

TURN_SECONDS = 0.0005

_LOCK = Lock()
_inside = 0
_collected, _turn = True, 0.0


@contextmanager
def in_bulk() -> Iterator[None]:
    """Until the last of those who are inside, in whatever thread, has left; then all is as the first one found it."""
    global _inside, _collected, _turn
    with _LOCK:
        if _inside == 0:
            _collected, _turn = gc.isenabled(), sys.getswitchinterval()
            gc.disable()
            sys.setswitchinterval(min(_turn, TURN_SECONDS))
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0:
                sys.setswitchinterval(_turn)
                if _collected:
                    gc.enable()
