"""Attempts at a source that ended unpublished, all of them and those that the bookmark has not answered. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from lakehouse import naming
from lakehouse.attempt import AttemptRecord, read_records
from lakehouse.bookmark import UPKEEP
from lakehouse.model import NEW_TABLE, Manifest
from lakehouse.position import Position
from lakehouse.services import Services
from lakehouse.state import walk
from lakehouse.target import Target

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


def open_attempts(declaration: Declaration, position: Position, services: Services) -> Iterator[AttemptRecord]:
    """Attempts on the bookmark as it stands that ended unpublished, newest first: the next batch makes them history."""
    decided = _decided(position.target, services)
    for record in _records(declaration, position.target, services, decided):
        if record.bookmark_version >= _version(decided):
            yield record


def decided_version(position: Position, services: Services) -> int:
    """The newest version that a batch or an operator made: upkeep answers no attempt."""
    return _version(_decided(position.target, services))


def _version(decided: Manifest | None) -> int:
    return decided.bookmark_version if decided else 0


def _decided(target: Target, services: Services) -> Manifest | None:
    manifests = (manifest for manifest, _ in walk(services.state, target.bookmark))
    return next((m for m in manifests if m.kind not in UPKEEP), None)


def attempt_records(declaration: Declaration, target: Target, services: Services) -> list[AttemptRecord]:
    """Every record of an attempt at the source, in this life of the table and before it was made, newest first; those
    that a batch has answered as far as they can be read."""
    return _records(declaration, target, services, _decided(target, services))


def _records(
    declaration: Declaration, target: Target, services: Services, decided: Manifest | None
) -> list[AttemptRecord]:
    lives = dict.fromkeys([target.uuid, NEW_TABLE])
    roots = [naming.incarnation_root(services.catalog_name, declaration.table, life) for life in lives]
    answered = decided.written_at if decided else None
    found = chain.from_iterable(read_records(services.state, root, answered=answered) for root in roots)
    ours = [r for r in found if r.context == declaration.context]
    return sorted(ours, key=lambda r: r.ended_at, reverse=True)
