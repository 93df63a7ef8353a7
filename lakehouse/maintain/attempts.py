"""Which attempts were published, which can never be any more, and what of the state folder is still referred to.

Reads the chains of manifests of all bookmarks. Deletes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from lakehouse import naming
from lakehouse.attempt import AttemptRecord, read_records
from lakehouse.bookmark import UPKEEP
from lakehouse.checkpoint import CheckpointIndex, decode_checkpoint
from lakehouse.errors import DataError
from lakehouse.manifest import decode_manifest
from lakehouse.model import LandingObject, Manifest, Reference
from lakehouse.position import Position
from lakehouse.recover import files_may_be_deleted
from lakehouse.services import Services
from lakehouse.state import read_blob, walk
from lakehouse.target import manifest_of, summary

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

_PLACE = re.compile(r"(batches|staging)/[^/]+/([0-9a-f]{32})/([0-9a-f]{32})/[^/]+")
_MANIFEST = "/manifest.parquet"


@dataclass(frozen=True, slots=True)
class StateObject:
    """An object of the state folder of one table: its key, and the attempt that it belongs to, empty if to none."""

    uri: str
    key: str
    size: int
    attempt: str = ""


@dataclass(frozen=True, slots=True)
class Attempts:
    """`published` are the attempts in the chains of the bookmarks or in a snapshot of the table, `dead` those whose
    bookmark has moved past them, `referred` the addresses of state objects that something still needs."""

    published: frozenset[str]
    dead: frozenset[str]
    referred: frozenset[str]

    def proven(self, attempt: str) -> bool:
        """Whether no commit of the attempt can land any more."""
        return attempt in self.published or attempt in self.dead


def state_objects(declaration: Declaration, table: Table, services: Services) -> list[StateObject]:
    """What lies in the state folder of this life of the table."""
    root = naming.incarnation_root(services.catalog_name, declaration.table, str(table.metadata.table_uuid))
    return [_object(item, root, services) for item in services.state.list(root)]


def _object(item: LandingObject, root: str, services: Services) -> StateObject:
    key = services.state.key(item.uri)
    place = _PLACE.fullmatch(key.removeprefix(root))
    return StateObject(item.uri, key, item.size, place[3] if place else "")


def look_at_attempts(
    declaration: Declaration,
    position: Position,
    objects: Sequence[StateObject],
    services: Services,
    *,
    before: datetime,
) -> tuple[Attempts, frozenset[str]]:
    """What became of the attempts, and the keys of records that are history: a batch or an operator of the same source
    has answered them, and they ended before `before`. Raises DataError where a published object is missing."""
    chains = {context: _chain(position, context, services) for context in position.target.bookmarks}
    manifests = [pair for chain in chains.values() for pair in chain]
    published = {manifest.attempt_id for manifest, _ in manifests}
    referred = {uri for manifest, reference in manifests for uri in _referred(manifest, reference, services)}
    for snapshot in position.target.table.metadata.snapshots if position.target.table else ():
        published.add(summary(snapshot).get(naming.ATTEMPT_ID, ""))
        if (head := manifest_of(snapshot)) is not None:
            referred.add(head.uri)
    root = naming.incarnation_root(services.catalog_name, declaration.table, position.target.uuid)
    history = set()
    for record in read_records(services.state, root):
        if record.ended_at < before and record.bookmark_version < _decided(chains.get(record.context, ())):
            history.add(root + naming.attempt_record(record.attempt_id))
        else:
            referred |= _of_record(record, objects)
    versions = {context: chain[0][0].bookmark_version for context, chain in chains.items() if chain}
    dead = frozenset(_dead(objects, published, versions, services))
    return Attempts(frozenset(published - {""}), dead, frozenset(referred)), frozenset(history)


def _chain(position: Position, context: str, services: Services) -> list[tuple[Manifest, Reference]]:
    return [*walk(services.state, manifest_of(position.target.bookmarks[context]))]


def _decided(chain: Sequence[tuple[Manifest, Reference]]) -> int:
    """The newest version that is no upkeep."""
    return next((manifest.bookmark_version for manifest, _ in chain if manifest.kind not in UPKEEP), 0)


def _referred(manifest: Manifest, reference: Reference, services: Services) -> Iterator[str]:
    """Everything that a published manifest refers to, parts of its checkpoint among it."""
    yield reference.uri
    yield from (link.manifest.uri for link in manifest.chain)
    yield from (grave.file.uri for grave in manifest.graves)
    if manifest.rejects is not None:
        yield manifest.rejects.uri
    if manifest.checkpoint is not None:
        yield manifest.checkpoint.uri
        found = decode_checkpoint(read_blob(services.state, manifest.checkpoint))
        if isinstance(found, CheckpointIndex):
            yield from (part.file.uri for part in (*found.seen, *found.rulings, *found.paused))


def _of_record(record: AttemptRecord, objects: Sequence[StateObject]) -> set[str]:
    """The rejects and the staged rows that a record tells of."""
    staged = {item.uri for item in objects if item.attempt == record.attempt_id}
    return staged | ({record.rejects.uri} if record.rejects is not None else set())


def _dead(
    objects: Sequence[StateObject], published: set[str], versions: Mapping[str, int], services: Services
) -> Iterator[str]:
    """Attempts that left a manifest and whose bookmark has moved past the version that they started from."""
    found = [o for o in objects if o.attempt and o.attempt not in published and o.key.endswith(_MANIFEST)]
    for item, data in zip(found, services.state.read_many([o.key for o in found]), strict=True):
        try:
            manifest = decode_manifest(data) if data is not None else None
        except DataError:
            manifest = None  # nobody can read what it wanted: only a fence proves that it is dead
        if manifest is None or manifest.attempt_id != item.attempt:
            continue
        base, now = manifest.bookmark_version - 1, versions.get(manifest.context)
        if files_may_be_deleted(base_version=base, tag_version=now):
            yield item.attempt
