"""Copies planned objects to local files, small ones to memory, ahead of the reader. Never looks inside, never takes
another version."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

from lakehouse.errors import ObjectChanged, Unavailable, UnreadableObject
from lakehouse.model import LandingObject
from lakehouse.scratch import spilling
from lakehouse.storage import Storage

FetchError: TypeAlias = ObjectChanged | Unavailable | UnreadableObject
"""What concerns one object alone: the others go on."""

_FETCH_ERRORS = (ObjectChanged, Unavailable, UnreadableObject)
_DEAD_AFTER = 3
WAITING_BYTES = 32 << 20
"""Of small objects more copies may wait, up to so many bytes: the reader takes them by hundreds."""
_MOST_WAITING = 2000


def fetch_all(
    storage: Storage, objects: Sequence[LandingObject], folder: Path, *, ahead: int = 8, small: int = 0
) -> Generator[tuple[LandingObject, Path | bytes | FetchError], None, None]:
    """Yield every object in order, with its local copy or the error that it alone has; of one of at most `small` bytes
    the copy is the bytes themselves.

    At most `ahead` objects are under way. So many copies wait in `folder` or in memory or, while all goes well, more of
    them up to WAITING_BYTES; each is deleted when the next one is asked for, and all of them when the generator is
    closed. Files are named by position, never by key. Raises ConfigurationError, and Unavailable once three objects in
    a row are: then the service is down, and asking for more would only take time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pool = ThreadPoolExecutor(ahead, thread_name_prefix="fetch")
    waiting: deque[tuple[LandingObject, Path | None, Future[Path | bytes | FetchError]]] = deque()
    rest = ((o, None if o.size <= small else folder / f"object-{index:06d}") for index, o in enumerate(objects))
    unavailable, most, waiting_bytes = 0, ahead, 0
    patient = True
    try:
        while True:
            while len(waiting) < ahead or (len(waiting) < most and waiting_bytes < WAITING_BYTES):
                if (following := next(rest, None)) is None:
                    break
                waiting.append((*following, pool.submit(_fetch, storage, *following)))
                waiting_bytes += following[0].size
            if not waiting:
                return
            obj, path, future = waiting.popleft()
            waiting_bytes -= obj.size
            copy = future.result()
            unavailable = unavailable + 1 if isinstance(copy, Unavailable) else 0
            most = ahead if unavailable else min(most + 2, _MOST_WAITING)
            if isinstance(copy, Unavailable) and unavailable >= _DEAD_AFTER:
                raise copy
            try:
                yield obj, copy
            finally:
                if path is not None:
                    path.unlink(missing_ok=True)
    except BaseException as stop:
        # whoever stops us from outside does not wait for a service that is silent
        patient = isinstance(stop, (Exception, GeneratorExit))
        raise
    finally:
        pool.shutdown(wait=patient, cancel_futures=True)
        for _, path, _ in waiting:
            if path is not None:
                path.unlink(missing_ok=True)


def _fetch(storage: Storage, obj: LandingObject, path: Path | None) -> Path | bytes | FetchError:
    try:
        if path is None:
            return storage.fetch_bytes(obj)
        with spilling(path.parent):
            storage.fetch(obj, path)
    except _FETCH_ERRORS as error:
        if path is not None:
            path.unlink(missing_ok=True)
        return error
    return path
