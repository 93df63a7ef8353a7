"""Attempts at a source that ended unpublished, all of them and those that the bookmark has not answered. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from lakehouse import naming
from lakehouse.attempt import AttemptRecord, read_records
from lakehouse.bookmark import UPKEEP
from lakehouse.model import NEW_TABLE
from lakehouse.position import Position
from lakehouse.services import Services
from lakehouse.state import walk
from lakehouse.target import Target

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


def open_attempts(declaration: Declaration, position: Position, services: Services) -> Iterator[AttemptRecord]:
    """Attempts on the bookmark as it stands that ended unpublished, newest first: the next batch makes them history."""
    since = decided_version(position, services)
    for record in attempt_records(declaration, position.target, services):
        if record.bookmark_version >= since:
            yield record


def decided_version(position: Position, services: Services) -> int:
    """The newest version that a batch or an operator made: upkeep answers no attempt."""
    manifests = (manifest for manifest, _ in walk(services.state, position.target.bookmark))
    return next((m.bookmark_version for m in manifests if m.kind not in UPKEEP), 0)


def attempt_records(declaration: Declaration, target: Target, services: Services) -> list[AttemptRecord]:
    """Every record of an attempt at the source, in this life of the table and before it was made, newest first."""
    lives = dict.fromkeys([target.uuid, NEW_TABLE])
    roots = [naming.incarnation_root(services.catalog_name, declaration.table, life) for life in lives]
    found = chain.from_iterable(read_records(services.state, root) for root in roots)
    ours = [r for r in found if r.context == declaration.context]
    return sorted(ours, key=lambda r: r.ended_at, reverse=True)
