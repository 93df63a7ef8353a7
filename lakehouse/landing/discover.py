"""Lists a source. Complete or an error: a listing that failed half-way is never "no new files"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from typing import Protocol

from lakehouse.model import LandingObject, Window
from lakehouse.storage import Storage

_MOST_DAYS = 400
_PARALLEL = 8


class DatePattern(Protocol):
    """What discovery needs of `lakehouse.declaration`'s landing pattern."""

    def prefix(self, day: date) -> str | None:
        """The plain string prefix below the source that all keys of the day share; None if there is none."""


class LandingSource(Protocol):
    """What discovery needs of a declared source."""

    @property
    def uri(self) -> str:
        """A folder: ends with "/"."""

    @property
    def landing(self) -> DatePattern | None:
        """Where the path names the landing date; None for an undated source."""


def discover(
    storage: Storage,
    source: LandingSource,
    window: Window,
    *,
    told: Callable[[LandingObject], object] | None = None,
) -> tuple[LandingObject, ...]:
    """Every object of the source, ordered by URI, each once. `told` sees them as they arrive, which costs no time while
    the next page is on its way; of several days also in several threads.

    A window that is closed on both sides lists its days alone, where the pattern gives each a prefix: the answer then
    lacks objects of other days. Raises as `Storage.list` does.
    """
    folder = storage.key(source.uri)
    prefixes = [folder + prefix for prefix in _day_prefixes(source.landing, window) or [""]]
    if len(prefixes) == 1:
        listings = [_listed(storage, prefixes[0], told)]
    else:
        with ThreadPoolExecutor(_PARALLEL) as pool:
            listings = [*pool.map(lambda prefix: _listed(storage, prefix, told), prefixes)]
    # Days can share a prefix, and a listing can repeat a key that is overwritten meanwhile: the later entry stands.
    found = {obj.uri: obj for listing in listings for obj in listing}
    return tuple(found[uri] for uri in sorted(found))


def _listed(storage: Storage, prefix: str, told: Callable[[LandingObject], object] | None) -> Sequence[LandingObject]:
    if told is None:
        return [*storage.list(prefix)]
    found = []
    for obj in storage.list(prefix):
        told(obj)
        found.append(obj)
    return found


def _day_prefixes(pattern: DatePattern | None, window: Window) -> list[str]:
    """The distinct prefixes of the window's days; empty if the whole source must be listed."""
    if pattern is None or window.first is None or window.last is None:
        return []
    if not 0 <= (window.last - window.first).days < _MOST_DAYS:
        return []
    days = (window.first + timedelta(days=number) for number in range((window.last - window.first).days + 1))
    prefixes = [pattern.prefix(day) for day in days]
    named = [prefix for prefix in prefixes if prefix is not None]
    return [*dict.fromkeys(named)] if len(named) == len(prefixes) else []
