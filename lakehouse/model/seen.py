"""What a context has seen, by uri: what is stored, which is read only where it is asked for, and what changed since.

Pure: how the stored part is read comes in as a value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass, field
from datetime import date, datetime
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple, Protocol, TypeAlias

from lakehouse.model.plans import Decision, LandingObject, SeenObject

Changes: TypeAlias = Mapping[str, SeenObject | None]
"""By uri; None where an object is not seen any more."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Objects of one landing date with one decision: how many, and S3's time of the newest."""

    objects: int
    newest: datetime

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.objects + other.objects, max(self.newest, other.newest))


Tallies: TypeAlias = dict[tuple[date | None, Decision], Tally]


class Fate(NamedTuple):
    """What has become of seen objects: one value for all that a batch has treated alike."""

    decision: Decision
    reason: str
    batch_id: str
    bookmark_version: int
    declaration: str


class Glance(NamedTuple):
    """What a plan has to know of a seen object. Made in a fraction of the time, for every listed object."""

    etag: str
    version_id: str | None
    fate: Fate

    def is_of(self, item: LandingObject) -> bool:
        """Whether it is exactly this version of the object, whose uri is the same."""
        return self.etag == item.etag and self.version_id == item.version_id

    @classmethod
    def at(cls, item: SeenObject) -> Glance:
        fate = Fate(item.decision, item.reason, item.batch_id, item.bookmark_version, item.declaration)
        return cls(item.object.etag, item.object.version_id, fate)


class SeenStore(Protocol):
    """Objects as a checkpoint stored them, each uri once. All but `size` and `may_hold` read, and raise DataError where
    something is missing or altered."""

    @property
    def size(self) -> int:
        """How many objects there are."""

    def may_hold(self, uri: str) -> bool:
        """False if it is certain without reading that the uri is not there."""

    def lookup(self, uris: Collection[str]) -> dict[str, SeenObject]:
        """Those of these uris that are there."""

    def glances(self, uris: Collection[str]) -> dict[str, Glance]:
        """As `lookup`, for a plan."""

    def stream(self) -> Iterator[SeenObject]:
        """All of them, in the order of their uris, few in memory at once."""

    def of_dates(self, days: Collection[date | None]) -> Iterator[SeenObject]:
        """Those of these landing dates, in the order of their uris."""

    def after(self, day: date) -> Iterator[SeenObject]:
        """Those of later landing dates, in the order of their uris."""

    def around(self, uri: str) -> list[str]:
        """Some uris that lie around this one, in order."""

    def tallies(self, without: Collection[str]) -> Tallies:
        """Counts of all objects but these."""

    def apart_from(self, other: SeenStore) -> SeenStore:
        """What is not stored in common with the other, which may hold the same objects all the same."""


class Nothing:
    """The empty store: a context without a checkpoint."""

    size = 0

    def may_hold(self, uri: str) -> bool:  # noqa: ARG002
        return False

    def lookup(self, uris: Collection[str]) -> dict[str, SeenObject]:  # noqa: ARG002
        return {}

    def glances(self, uris: Collection[str]) -> dict[str, Glance]:  # noqa: ARG002
        return {}

    def stream(self) -> Iterator[SeenObject]:
        return iter(())

    def of_dates(self, days: Collection[date | None]) -> Iterator[SeenObject]:  # noqa: ARG002
        return iter(())

    def after(self, day: date) -> Iterator[SeenObject]:  # noqa: ARG002
        return iter(())

    def around(self, uri: str) -> list[str]:  # noqa: ARG002
        return []

    def tallies(self, without: Collection[str]) -> Tallies:  # noqa: ARG002
        return {}

    def apart_from(self, other: SeenStore) -> SeenStore:  # noqa: ARG002
        return self


NOTHING = Nothing()


@dataclass(frozen=True, slots=True, eq=False)
class Seen(Mapping[str, SeenObject]):
    """A mapping by uri, in the order of uris. `changes` lie over what `store` holds.

    `get` of one uri is for single ones; many are looked up at once by `lookup`. Everything that goes over all objects
    holds few of them in memory.
    """

    changes: Changes = field(default_factory=dict)
    store: SeenStore = NOTHING

    @classmethod
    def of(cls, items: Mapping[str, SeenObject]) -> Seen:
        """The set of these objects by uri; one that is a set already stays what it is."""
        return items if isinstance(items, Seen) else cls(items)

    def __getitem__(self, uri: str) -> SeenObject:
        if uri in self.changes:
            found = self.changes[uri]
        else:
            found = self.store.lookup((uri,)).get(uri) if self.store.may_hold(uri) else None
        if found is None:
            raise KeyError(uri)
        return found

    def __iter__(self) -> Iterator[str]:
        return (item.object.uri for item in self.stream())

    def __len__(self) -> int:
        stored = len(self.store.lookup(self.changes)) if self.store.size else 0
        return self.store.size - stored + sum(item is not None for item in self.changes.values())

    def __bool__(self) -> bool:
        return any(item is not None for item in self.changes.values()) or len(self) > 0

    def __eq__(self, other: object) -> bool:
        return dict(self.items()) == dict(other.items()) if isinstance(other, Mapping) else NotImplemented

    def values(self) -> ValuesView[SeenObject]:
        return _Values(self)

    def items(self) -> ItemsView[str, SeenObject]:
        return _Items(self)

    def lookup(self, uris: Collection[str]) -> dict[str, SeenObject]:
        """Those of these uris that were seen; reads what they touch at once."""
        found = self.store.lookup([uri for uri in uris if uri not in self.changes])
        if self.changes:
            changed = ((uri, self.changes.get(uri)) for uri in uris)
            found |= {uri: item for uri, item in changed if item is not None}
        return found

    def glances(self, uris: Collection[str]) -> dict[str, Glance]:
        """As `lookup`, for a plan."""
        found = self.store.glances([uri for uri in uris if uri not in self.changes])
        if self.changes:
            changed = ((uri, self.changes.get(uri)) for uri in uris)
            found |= {uri: Glance.at(item) for uri, item in changed if item is not None}
        return found

    def stream(self) -> Iterator[SeenObject]:
        """All objects in the order of their uris."""
        return self._over(self.store.stream(), lambda _: True)

    def of_dates(self, days: Collection[date | None]) -> Iterator[SeenObject]:
        """Those of these landing dates, in the order of their uris."""
        return self._over(self.store.of_dates(days), lambda item: item.landing_date in days)

    def after(self, day: date) -> Iterator[SeenObject]:
        """Those of later landing dates, in the order of their uris."""
        return self._over(self.store.after(day), lambda item: item.landing_date is not None and item.landing_date > day)

    def around(self, uri: str, most: int) -> list[str]:
        """Uris that lie around this one, in order; of a large set not all."""
        ordered = sorted({*self.store.around(uri), *(u for u, item in self.changes.items() if item is not None)})
        first = max(0, bisect_left(ordered, uri) - most // 2)
        return ordered[first : first + most]

    def tallies(self) -> Tallies:
        """Counts by landing date and decision."""
        found = self.store.tallies(self.changes)
        for item in filter(None, self.changes.values()):
            key, one = (item.landing_date, item.decision), Tally(1, item.object.last_modified)
            found[key] = found[key] + one if key in found else one
        return found

    def changed(self, changes: Changes) -> Seen:
        """The set with these changes; this one stays as it is."""
        return Seen({**self.changes, **changes}, self.store)

    def differences(self, other: Seen) -> Iterator[tuple[str, SeenObject | None, SeenObject | None]]:
        """What this set and the other know differently, by uri and in that order; what they store in common is not
        read."""
        changed = {*self.changes, *other.changes}
        mine, theirs = self._apart_from(other, changed), other._apart_from(self, changed)
        for uri, pair in _side_by_side(mine.stream(), theirs.stream()):
            if pair[0] != pair[1]:
                yield uri, *pair

    def _apart_from(self, other: Seen, changed: Collection[str]) -> Seen:
        """What is not stored in common with the other, and all of what either has changed."""
        known = self.lookup(changed)
        return Seen({uri: known.get(uri) for uri in changed}, self.store.apart_from(other.store))

    def _over(self, stored: Iterable[SeenObject], fits: Callable[[SeenObject], bool]) -> Iterator[SeenObject]:
        """Stored objects with the changes that fit among them, both in the order of their uris."""
        pending = sorted(uri for uri, item in self.changes.items() if item is not None and fits(item))
        done = 0
        for item in stored:
            uri = item.object.uri
            while done < len(pending) and pending[done] < uri:
                yield from filter(None, [self.changes[pending[done]]])
                done += 1
            if uri not in self.changes:
                yield item
        yield from filter(None, (self.changes[uri] for uri in islice(pending, done, None)))


def _side_by_side(
    mine: Iterable[SeenObject], theirs: Iterable[SeenObject]
) -> Iterator[tuple[str, tuple[SeenObject | None, SeenObject | None]]]:
    """Two sets in the order of their uris, joined by uri."""
    both = merge(((s.object.uri, 0, s) for s in mine), ((s.object.uri, 1, s) for s in theirs), key=itemgetter(0))
    for uri, found in groupby(both, key=itemgetter(0)):
        sides: dict[int, SeenObject] = {side: item for _, side, item in found}
        yield uri, (sides.get(0), sides.get(1))


class _Values(ValuesView[SeenObject]):
    """The objects of a set, streamed: one after the other by key would read them one by one."""

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._seen = seen

    def __iter__(self) -> Iterator[SeenObject]:
        return self._seen.stream()


class _Items(ItemsView[str, SeenObject]):
    """As `_Values`, with the uris."""

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._seen = seen

    def __iter__(self) -> Iterator[tuple[str, SeenObject]]:
        return ((item.object.uri, item) for item in self._seen.stream())
