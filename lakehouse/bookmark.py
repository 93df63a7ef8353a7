"""The bookmark as a fold over batch manifests: what a context has seen, what operators decided about its objects, and
the chain that its next manifest carries.

Owns the rule how one manifest changes the set of seen objects and the rulings beside it. Never reads or writes
anything: manifests, references and times come in as values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime

from lakehouse.errors import DataError, LakehouseError, NotAvailable
from lakehouse.model import (
    Bookmark,
    ChainLink,
    Checkpoint,
    Decision,
    LandingObject,
    Manifest,
    ObjectOutcome,
    Reference,
    Seen,
    SeenObject,
    SeenStore,
)

CHECKPOINT_EVERY = 100
"""A manifest of every so many versions carries the full set of seen objects."""
MOST_CHANGED = 20_000
"""So does one before whose batch more objects than these have changed since the last checkpoint: whoever reads the
bookmark holds them in memory."""

LOAD = "load"
"""`Manifest.kind` of a batch that read objects; every other kind is an operator's action."""

SKIP, RELEASE, RELOAD, REPLAY = "object-skip", "object-release", "object-reload", "rejects-replay"
HOLD, UNHOLD = "hold", "release"
ACCEPT_GATE, ACCEPT_FOREIGN = "gate-accept", "accept-foreign"
DEDUPE = "dedupe"
"""A repair; also what `lakehouse.maintain` says in its snapshot's summary."""
RESET, REWIND, SET = "bookmark-reset", "bookmark-rewind", "bookmark-set"
REWIND_TABLE, REATTACH, IMPORT = "bookmark-rewind-with-table", "bookmark-rewind-to-table", "bookmark-import-glue"
COMPACT, EXPIRE, FENCE = "compact", "expire", "fence"
UPKEEP = frozenset({COMPACT, EXPIRE, FENCE})
"""Upkeep of the table: no row and nothing of the position changes. Their snapshots say so as `lakehouse.maintain`."""
MOVES = frozenset({RESET, REWIND, SET, REWIND_TABLE, REATTACH, IMPORT})
"""An operator's changes of the position. The manifest of each has a checkpoint, which says what is known after it: no
fold goes across it. One that attaches a bookmark again may follow an older version than the one before its own."""
RULINGS = {
    SKIP: Decision.SKIPPED,
    RELEASE: Decision.PLANNED,
    RELOAD: Decision.PLANNED,
    REPLAY: Decision.PLANNED,
}
"""What each kind of operator's decision about objects makes of them."""


def needs_checkpoint(version: int, *, changed: int = 0) -> bool:
    """Whether the manifest of this version must carry a checkpoint; `changed` is what `changed_since` says."""
    return version % CHECKPOINT_EVERY == 0 or changed > MOST_CHANGED


def changed_since(bookmark: Bookmark) -> int:
    """How many objects the manifests after the last checkpoint have changed."""
    return len(bookmark.seen.changes) + len(bookmark.paused.changes)


def next_chain(bookmark: Bookmark) -> tuple[ChainLink, ...]:
    """What the next manifest lists as its chain: newest first, down to the last checkpoint or to version 1."""
    return bookmark.chain


def advance(bookmark: Bookmark, manifest: Manifest, reference: Reference) -> Bookmark:
    """The bookmark after one more manifest. Raises as `fold` does."""
    return fold(bookmark, [(manifest, reference)])


def fold(bookmark: Bookmark, manifests: Iterable[tuple[Manifest, Reference]]) -> Bookmark:
    """The bookmark after these manifests, oldest first; `bookmark` itself stays as it is.

    Raises DataError when a version is missing or comes twice, NotAvailable for an operator's action that this version
    of lakehouse cannot apply.
    """
    known = _Known.of(bookmark)
    version, head, chain = bookmark.version, bookmark.head, bookmark.chain
    graves, settled, held, accepted = bookmark.graves, bookmark.settled_date, bookmark.held, bookmark.accepted
    source_uri = bookmark.source_uri
    for manifest, reference in manifests:
        if manifest.bookmark_version != version + 1:
            raise DataError(
                f"bookmark versions are not consecutive: context={manifest.context} version={version} "
                f"is followed by version={manifest.bookmark_version} manifest={reference.uri}"
            )
        known.apply(manifest)
        version, head = manifest.bookmark_version, reference
        chain = chain_after(manifest, reference)
        graves, settled, held = manifest.graves, manifest.settled_date, manifest.held
        accepted, source_uri = manifest.accepted, manifest.source_uri
    return Bookmark(
        version=version,
        head=head,
        chain=chain,
        seen=Seen(known.seen, bookmark.seen.store),
        graves=graves,
        settled_date=settled,
        held=held,
        accepted=accepted,
        rulings=known.rulings,
        paused=Seen(known.paused, bookmark.paused.store),
        source_uri=source_uri,
    )


def chain_after(manifest: Manifest, reference: Reference) -> tuple[ChainLink, ...]:
    """The chain of a bookmark that stands on this manifest: a checkpoint makes everything before it superfluous."""
    link = ChainLink(manifest.bookmark_version, reference)
    return (link,) if manifest.checkpoint else (link, *manifest.chain)


def checkpoint_after(bookmark: Bookmark, manifest: Manifest) -> Checkpoint:
    """What the checkpoint of this manifest must hold: all that is seen and ruled once it is published."""
    known = _Known.of(bookmark)
    known.apply(manifest)
    return Checkpoint(Seen(known.seen, bookmark.seen.store), known.rulings, Seen(known.paused, bookmark.paused.store))


def narrowed(bookmark: Bookmark, uris: Collection[str]) -> Bookmark:
    """The bookmark as far as it knows these objects: all that they touch of it is read at once."""
    return replace(bookmark, seen=Seen(bookmark.seen.lookup(uris)), paused=Seen(bookmark.paused.lookup(uris)))


def ruling_of(bookmark: Bookmark, item: LandingObject) -> SeenObject | None:
    """What an operator decided about exactly this version of the object; a new version is free of it."""
    ruling = bookmark.rulings.get(item.uri)
    return ruling if ruling is not None and ruling.object.identity == item.identity else None


def were_read(bookmark: Bookmark, uris: Collection[str]) -> set[str]:
    """Those of these keys that were read, whether the bookmark counts them as seen or not."""
    return {*bookmark.seen.lookup(uris), *bookmark.paused.lookup(uris)}


def last_readings(bookmark: Bookmark, days: Collection[date | None]) -> dict[str, SeenObject]:
    """The last reading of every key of these landing dates, by uri, whether the bookmark counts it as seen or not: rows
    of it may be in the table."""
    found = {item.object.uri: item for item in bookmark.paused.of_dates(days)}
    for item in bookmark.seen.of_dates(days):
        paused = found.get(item.object.uri)
        if paused is None or paused.bookmark_version <= item.bookmark_version:
            found[item.object.uri] = item
    return found


def first_seen(bookmark: Bookmark, item: LandingObject, *, now: datetime) -> datetime:
    """When exactly this version of the object was seen first: a later reading of it does not make it younger."""
    known = (bookmark.seen.get(item.uri), bookmark.rulings.get(item.uri), bookmark.paused.get(item.uri))
    return min((k.first_seen for k in known if k is not None and k.object.identity == item.identity), default=now)


@dataclass(slots=True)
class _Known:
    """What is known of keys, by uri, while manifests are applied: of what was seen and paused, what has changed."""

    seen: dict[str, SeenObject | None]
    rulings: dict[str, SeenObject]
    paused: dict[str, SeenObject | None]
    was_paused: SeenStore

    @classmethod
    def of(cls, bookmark: Bookmark) -> _Known:
        return cls(
            dict(bookmark.seen.changes), dict(bookmark.rulings), dict(bookmark.paused.changes), bookmark.paused.store
        )

    def apply(self, manifest: Manifest) -> None:
        """Change it as the manifest says. A batch that does not advance (G4) leaves what is seen as it is.

        A batch that has read a key has carried out the request to read it again, also one about an older version of it.
        A skip stays: its version could come back.
        """
        if manifest.kind in MOVES:
            raise LakehouseError(
                f"only its checkpoint says what a {manifest.kind} knows: context={manifest.context} "
                f"bookmark_version={manifest.bookmark_version}"
            )
        if manifest.kind != LOAD and manifest.kind not in RULINGS:
            if not manifest.advance:
                return
            raise NotAvailable(
                f"a bookmark change of kind={manifest.kind} is not available yet: context={manifest.context} "
                f"bookmark_version={manifest.bookmark_version}"
            )
        changes = {outcome.object.uri: _seen(manifest, outcome) for outcome in manifest.objects}
        if len(changes) != len(manifest.objects):
            raise LakehouseError(f"a batch lists one object twice: batch_id={manifest.batch_id}")
        if manifest.kind in RULINGS:
            self.rulings.update(changes)
            return
        if not manifest.advance:
            self.paused.update({uri: _unadvanced(item) for uri, item in changes.items()})
            return
        self.seen.update(changes)
        for uri in changes:
            self.paused.pop(uri, None)
            if self.was_paused.may_hold(uri):
                self.paused[uri] = None
            if uri in self.rulings and self.rulings[uri].decision is not Decision.SKIPPED:
                del self.rulings[uri]


def _unadvanced(item: SeenObject) -> SeenObject:
    """What is known of an object that a batch has read without advancing; one that it refused gave no row (G4)."""
    return item if item.decision is Decision.QUARANTINED else replace(item, decision=Decision.DEFERRED)


def _seen(manifest: Manifest, outcome: ObjectOutcome) -> SeenObject:
    ruled = RULINGS.get(manifest.kind)
    if outcome.decision not in ((ruled,) if ruled else (Decision.CONSUMED, Decision.QUARANTINED)):
        raise LakehouseError(
            f"{manifest.kind} can only {'decide ' + ruled if ruled else 'consume or quarantine'}: "
            f"uri={outcome.object.uri} decision={outcome.decision}"
        )
    return SeenObject(
        object=outcome.object,
        landing_date=outcome.landing_date,
        decision=outcome.decision,
        reason=outcome.reason,
        batch_id=manifest.batch_id,
        bookmark_version=manifest.bookmark_version,
        declaration=manifest.declaration,
        first_seen=outcome.first_seen,
    )
