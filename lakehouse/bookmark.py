"""The bookmark as a fold over batch manifests: what a context has seen, and the chain that its next manifest carries.

Owns the rule how one manifest changes the set of seen objects. Never reads or writes anything: manifests, references
and times come in as values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from lakehouse.errors import DataError, LakehouseError, NotAvailable
from lakehouse.model import (
    Bookmark,
    ChainLink,
    Decision,
    LandingObject,
    Manifest,
    ObjectOutcome,
    Reference,
    SeenObject,
)

CHECKPOINT_EVERY = 100
"""A manifest of every so many versions carries the full set of seen objects."""

LOAD = "load"
"""`Manifest.kind` of a batch that read objects; every other kind is an operator's action."""


def needs_checkpoint(version: int) -> bool:
    """Whether the manifest of this version must carry a checkpoint."""
    return version % CHECKPOINT_EVERY == 0


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
    seen = dict(bookmark.seen)
    version, head, chain = bookmark.version, bookmark.head, bookmark.chain
    graves, settled = bookmark.graves, bookmark.settled_date
    for manifest, reference in manifests:
        if manifest.bookmark_version != version + 1:
            raise DataError(
                f"bookmark versions are not consecutive: context={manifest.context} version={version} "
                f"is followed by version={manifest.bookmark_version} manifest={reference.uri}"
            )
        seen.update(_changes(manifest))
        version, head = manifest.bookmark_version, reference
        chain = chain_after(manifest, reference)
        graves, settled = manifest.graves, manifest.settled_date
    return Bookmark(version=version, head=head, chain=chain, seen=seen, graves=graves, settled_date=settled)


def chain_after(manifest: Manifest, reference: Reference) -> tuple[ChainLink, ...]:
    """The chain of a bookmark that stands on this manifest: a checkpoint makes everything before it superfluous."""
    link = ChainLink(manifest.bookmark_version, reference)
    return (link,) if manifest.checkpoint else (link, *manifest.chain)


def seen_after(bookmark: Bookmark, manifest: Manifest) -> dict[str, SeenObject]:
    """The full set of seen objects once this manifest is published: what its checkpoint must hold."""
    return {**bookmark.seen, **_changes(manifest)}


def first_seen(seen: Mapping[str, SeenObject], item: LandingObject, *, now: datetime) -> datetime:
    """When exactly this version of the object was seen first: a later reading of it does not make it younger."""
    known = seen.get(item.uri)
    return known.first_seen if known is not None and known.object.identity == item.identity else now


def _changes(manifest: Manifest) -> dict[str, SeenObject]:
    """What the manifest adds to the seen set or replaces in it, by uri. Nothing if it does not advance (G4)."""
    if not manifest.advance:
        return {}
    if manifest.kind != LOAD:
        raise NotAvailable(
            f"a bookmark change of kind={manifest.kind} is not available yet: context={manifest.context} "
            f"bookmark_version={manifest.bookmark_version}"
        )
    changes = {outcome.object.uri: _seen(manifest, outcome) for outcome in manifest.objects}
    if len(changes) != len(manifest.objects):
        raise LakehouseError(f"a batch lists one object twice: batch_id={manifest.batch_id}")
    return changes


def _seen(manifest: Manifest, outcome: ObjectOutcome) -> SeenObject:
    if outcome.decision not in (Decision.CONSUMED, Decision.QUARANTINED):
        raise LakehouseError(
            f"a batch can only consume or quarantine: uri={outcome.object.uri} decision={outcome.decision}"
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
