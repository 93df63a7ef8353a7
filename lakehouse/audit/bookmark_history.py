"""What an operator sees of a bookmark: how it stands, how it stood, how it got there, and what differs. Reads only.

Every answer comes from the published manifests, so it is right also when the ledger is behind or gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

from lakehouse.errors import UsageError
from lakehouse.model import Decision, Manifest, Reference, SeenObject, Tallies, Tally
from lakehouse.position import find_position
from lakehouse.services import Services
from lakehouse.state import load_bookmark, walk

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


@dataclass(frozen=True, slots=True)
class Change:
    """One published version of a bookmark: a batch, or what an operator did (`kind`, `author`, `reason`)."""

    bookmark_version: int
    kind: str
    batch_id: str
    written_at: datetime
    mode: str
    consumed: int
    quarantined: int
    rows_read: int
    rows_rejected: int
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    author: str
    reason: str
    manifest: str


@dataclass(frozen=True, slots=True)
class SeenDate:
    """What a bookmark has seen of one landing date; None is undated. `newest` is the last object's S3 time."""

    landing_date: date | None
    consumed: int
    quarantined: int
    newest: datetime


@dataclass(frozen=True, slots=True)
class Standing:
    """A bookmark as it stands or stood. `change` is None before the first batch; `manifest_sha256` is its digest."""

    table: str
    context: str
    table_uuid: str
    bookmark_version: int
    change: Change | None
    manifest_sha256: str
    consumed: int
    quarantined: int
    dates: tuple[SeenDate, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One object that two versions of a bookmark know differently: `how` is `added`, `new version`, `read again` or
    `removed`."""

    how: str
    uri: str
    landing_date: date | None
    before_etag: str | None
    after_etag: str | None
    before_version: int | None
    after_version: int | None


def standing_at(declaration: Declaration, services: Services, *, at: datetime | None = None) -> Standing:
    """The bookmark now, or as it stood at a moment: after the last change that was written by then."""
    position = find_position(declaration, services)
    versions = walk(services.state, position.target.bookmark)
    manifest, head = next((pair for pair in versions if at is None or pair[0].written_at <= at), (None, None))
    bookmark = position.bookmark if at is None else load_bookmark(services.state, head)
    tallies = bookmark.seen.tallies()
    seen: Counter[Decision] = Counter()
    for (_, decision), tally in tallies.items():
        seen[decision] += tally.objects
    return Standing(
        table=declaration.table,
        context=declaration.context,
        table_uuid=position.target.uuid,
        bookmark_version=bookmark.version,
        change=_change(manifest, head) if manifest and head else None,
        manifest_sha256=head.sha256 if head else "",
        consumed=seen[Decision.CONSUMED],
        quarantined=seen[Decision.QUARANTINED],
        dates=_dates(tallies),
    )


def changes(declaration: Declaration, services: Services) -> Iterator[Change]:
    """Every published version, newest first."""
    position = find_position(declaration, services)
    return (_change(manifest, reference) for manifest, reference in walk(services.state, position.target.bookmark))


def differences(declaration: Declaration, services: Services, before: str, after: str) -> tuple[Difference, ...]:
    """Objects that the bookmark knows differently after `after` than after `before`, by uri.

    Both are versions or batch ids; version 0 is before the first batch. Raises UsageError for one that is not there.
    """
    position = find_position(declaration, services)
    heads = (named_version(declaration, services, position.target.bookmark, named)[1] for named in (before, after))
    first, second = (load_bookmark(services.state, head) for head in heads)
    return tuple(_difference(*found) for found in first.seen.differences(second.seen))


def named_version(
    declaration: Declaration, services: Services, newest: Reference | None, named: str
) -> tuple[int, Reference | None]:
    """The version that is named by itself or by its batch, and its manifest; 0 and None for the time before the first.

    Raises UsageError if the bookmark whose newest manifest is `newest` has no such version.
    """
    if named == "0":
        return 0, None
    for manifest, reference in walk(services.state, newest):
        if named in (str(manifest.bookmark_version), manifest.batch_id):
            return manifest.bookmark_version, reference
    raise UsageError(
        f"no such version or batch: context={declaration.context} given={named!r}",
        next=f"lakehouse bookmark history {declaration.table}",
    )


def _difference(uri: str, before: SeenObject | None, after: SeenObject | None) -> Difference:
    if before is None or after is None:
        how = "added" if before is None else "removed"
    else:
        how = "read again" if before.object.identity == after.object.identity else "new version"
    shown = after or before
    assert shown is not None
    return Difference(
        how=how,
        uri=uri,
        landing_date=shown.landing_date,
        before_etag=before.object.etag if before else None,
        after_etag=after.object.etag if after else None,
        before_version=before.bookmark_version if before else None,
        after_version=after.bookmark_version if after else None,
    )


def _change(manifest: Manifest, reference: Reference) -> Change:
    decided = Counter(outcome.decision for outcome in manifest.objects)
    return Change(
        bookmark_version=manifest.bookmark_version,
        kind=manifest.kind,
        batch_id=manifest.batch_id,
        written_at=manifest.written_at,
        mode=manifest.mode.value,
        consumed=decided[Decision.CONSUMED],
        quarantined=decided[Decision.QUARANTINED],
        rows_read=manifest.rows.read,
        rows_rejected=manifest.rows.rejected,
        rows_inserted=manifest.rows.inserted,
        rows_updated=manifest.rows.updated,
        rows_deleted=manifest.rows.deleted,
        author=manifest.author,
        reason=manifest.reason,
        manifest=reference.uri,
    )


def _dates(tallies: Tallies) -> tuple[SeenDate, ...]:
    """Newest first, undated objects last."""
    by_date: dict[date | None, dict[Decision, Tally]] = {}
    for (day, decision), tally in tallies.items():
        by_date.setdefault(day, {})[decision] = tally

    def count(here: dict[Decision, Tally], decision: Decision) -> int:
        return here[decision].objects if decision in here else 0

    return tuple(
        SeenDate(
            landing_date=day,
            consumed=count(here, Decision.CONSUMED),
            quarantined=count(here, Decision.QUARANTINED),
            newest=max(tally.newest for tally in here.values()),
        )
        for day, here in sorted(by_date.items(), key=lambda pair: pair[0] or date.min, reverse=True)
    )
