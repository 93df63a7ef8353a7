"""Copies planned objects to local files, a few ahead of the reader. Never looks inside, never takes another version."""

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


def fetch_all(
    storage: Storage, objects: Sequence[LandingObject], folder: Path, *, ahead: int = 8
) -> Generator[tuple[LandingObject, Path | FetchError], None, None]:
    """Yield every object in order, with its local copy or the error that it alone has.

    At most `ahead` copies lie in `folder` or are under way; each is deleted when the next one is asked for, and all of
    them when the generator is closed. Files are named by position, never by key. Raises ConfigurationError, and
    Unavailable once three objects in a row are: then the service is down, and asking for more would only take time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pool = ThreadPoolExecutor(ahead, thread_name_prefix="fetch")
    waiting: deque[tuple[LandingObject, Path, Future[FetchError | None]]] = deque()
    rest = iter([(obj, folder / f"object-{index:06d}") for index, obj in enumerate(objects)])
    unavailable = 0
    try:
        while True:
            while len(waiting) < ahead and (following := next(rest, None)):
                waiting.append((*following, pool.submit(_fetch, storage, *following)))
            if not waiting:
                return
            obj, path, future = waiting.popleft()
            error = future.result()
            unavailable = unavailable + 1 if isinstance(error, Unavailable) else 0
            if error and unavailable >= _DEAD_AFTER:
                raise error
            try:
                yield obj, error or path
            finally:
                path.unlink(missing_ok=True)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for _, path, _ in waiting:
            path.unlink(missing_ok=True)


def _fetch(storage: Storage, obj: LandingObject, path: Path) -> FetchError | None:
    try:
        with spilling(path.parent):
            storage.fetch(obj, path)
    except _FETCH_ERRORS as error:
        path.unlink(missing_ok=True)
        return error
    return None
