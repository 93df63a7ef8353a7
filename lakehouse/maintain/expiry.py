"""Expires old snapshots of a table and deletes the files that only they needed.

The snapshots go with one published change of ours, which moves `main` and the bookmark: whoever has prepared a commit
on what was there before loses, so nothing that is deleted afterwards can come back. Kept are: what every ref stands on,
the history from `main` down to the oldest bookmark, and every snapshot of another writer that nobody has accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from lakehouse import naming
from lakehouse.audit.recount import chains_at, foreign_snapshots
from lakehouse.bookmark import EXPIRE
from lakehouse.catalog import translated
from lakehouse.errors import ConfigurationError, UsageError
from lakehouse.faults import fault_point
from lakehouse.iceberg import live_files
from lakehouse.maintain.reach import Reached, needed_only_by
from lakehouse.maintain.removal import inside, remove_files
from lakehouse.model import State
from lakehouse.operate.operator_change import (
    Decided,
    Operator,
    acting,
    change_id,
    decide,
    publish_decided,
    stand_now,
)
from lakehouse.position import Position, find_position
from lakehouse.services import Services
from lakehouse.target import ancestry, is_ours

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

MAX_AGE = "history.expire.max-snapshot-age-ms"
MIN_KEPT = "history.expire.min-snapshots-to-keep"
"""Iceberg's own table properties, with its own defaults."""
DEFAULT_AGE = timedelta(days=5)
DEFAULT_KEPT = 1
_MILLISECOND = timedelta(milliseconds=1)
_CENTURY = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Expiry:
    """What an expiry did, or would do. `state`: committed; nothing_to_do where nothing is old enough, and for a dry
    run.

    `expired` and `kept` count snapshots; `moved` are the idle bookmarks whose tags held old snapshots. `files` are the
    data and delete files that go, `bytes` their size, `metadata` the manifests, lists and statistics. `outside` are
    files that nothing needs any more and that stay, for they lie outside the table's folders.
    """

    table: str
    context: str
    state: State
    dry_run: bool
    bookmark_version: int
    snapshot_id: int | None
    expired: int = 0
    kept: int = 0
    moved: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    bytes: int = 0
    metadata: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    ledger: str = "ok"
    next: str = ""


@dataclass(frozen=True, slots=True)
class Retention:
    """Which snapshots of a branch stay at `now`: those that are younger than `age`, and `kept` of them at least."""

    now: datetime
    age: timedelta
    kept: int

    @property
    def since_ms(self) -> int:
        """When the oldest that is young enough was made, in milliseconds."""
        return int((self.now - min(self.age, _CENTURY)).timestamp() * 1000)

    def of(self, ref: SnapshotRef | None) -> Retention:
        """What counts for a branch: its own word comes before the table's."""
        if ref is None:
            return self
        own = ref.max_snapshot_age_ms
        age = self.age if own is None else timedelta(milliseconds=min(own, _CENTURY // _MILLISECOND))
        return replace(self, age=age, kept=max(1, ref.min_snapshots_to_keep or self.kept))


@dataclass(frozen=True, slots=True)
class _Choice:
    """The snapshots that go and those that stay."""

    gone: tuple[Snapshot, ...] = ()
    kept: tuple[Snapshot, ...] = ()
    waiting: tuple[int, ...] = ()
    reached: Reached = field(default_factory=Reached)


def expire(
    declaration: Declaration,
    services: Services,
    operator: Operator,
    *,
    older_than: timedelta | None = None,
    dry_run: bool = False,
) -> Expiry:
    """Expire the snapshots of a table that are older than `older_than`, by default than its properties say; a dry run
    only lists.

    Raises UsageError for a table that does not exist or whose files must not be deleted (`gc.enabled`), what
    `find_position` raises, LeaseHeld, and Conflict if others always commit first.
    """
    declaration = acting(declaration, services)

    def once() -> Expiry | None:
        position = find_position(declaration, services)
        table = table_of(position)
        refuse_kept_files(table)
        retention = retention_of(table, now=services.now(), older_than=older_than)
        lagging = _lagging(position, table, retention)
        if not dry_run and not _move(declaration, lagging, operator, services):
            return None
        if lagging and not dry_run:
            position = find_position(declaration, services)
            table = table_of(position)
        choice = _choose(position, table, retention, services, but=lagging if dry_run else ())
        told = _report(declaration, position, table, choice, lagging, dry_run=dry_run)
        if dry_run or not choice.gone:
            return told
        return _publish(declaration, position, table, choice, told, operator, services)

    return decide(declaration, operator, services, EXPIRE, once, dry_run=dry_run)


def table_of(position: Position) -> Table:
    """The table of a position. Raises UsageError if there is none, or no bookmark of ours on it."""
    table, name = position.target.table, position.target.name
    if table is None or position.target.tag is None:
        what = "does not exist" if table is None else "was never loaded"
        raise UsageError(f"table {name} {what}: there is nothing to maintain", next=f"lakehouse load {name}")
    return table


def refuse_kept_files(table: Table) -> None:
    """Raise UsageError where Iceberg's own property forbids to delete files, as it does for shared ones."""
    if table.properties.get("gc.enabled", "true").strip().lower() == "false":
        name = ".".join(table.name())
        raise UsageError(
            f"table {name} has gc.enabled=false: its files may be shared and are not deleted",
            next=f"alter table {name} set tblproperties ('gc.enabled' = 'true')   # if no other table needs them",
        )


def retention_of(table: Table, *, now: datetime, older_than: timedelta | None) -> Retention:
    """What stays of the history of a table. Raises ConfigurationError for a property that is no whole number."""
    properties = table.properties
    declared = _number(properties, MAX_AGE, default=DEFAULT_AGE // _MILLISECOND)
    age = timedelta(milliseconds=min(declared, _CENTURY // _MILLISECOND)) if older_than is None else older_than
    return Retention(now, age, max(1, _number(properties, MIN_KEPT, default=DEFAULT_KEPT)))


def _number(properties: Mapping[str, str], name: str, *, default: int) -> int:
    text = properties.get(name)
    if text is None:
        return default
    if not text.strip().isdecimal():
        raise ConfigurationError(f"the table property is no whole number: {name}={text!r}", next=f"unset {name}")
    return int(text)


def retained(line: Sequence[Snapshot], retention: Retention) -> list[Snapshot]:
    """What stays of a branch, newest first: an unbroken piece, so that its end is where the history ends."""
    young = sum(1 for _ in takewhile(lambda snapshot: snapshot.timestamp_ms >= retention.since_ms, line))
    return list(line[: max(young, retention.kept)])


def _lagging(position: Position, table: Table, retention: Retention) -> tuple[str, ...]:
    """The bookmarks whose tags stand on snapshots that would go."""
    line = [*ancestry(table, position.target.main)]
    stays = {snapshot.snapshot_id for snapshot in retained(line, retention.of(table.metadata.refs.get(MAIN_BRANCH)))}
    return tuple(sorted(c for c, s in position.target.bookmarks.items() if s.snapshot_id not in stays))


def _move(declaration: Declaration, lagging: Iterable[str], operator: Operator, services: Services) -> bool:
    """Let every bookmark that lags stand on a snapshot of now, an empty one; False if others committed first."""
    for context in lagging:
        one = declaration.under(context)
        position = find_position(one, services)
        if publish_empty(one, position, operator, services, kind=EXPIRE) is None:
            return False
        stand_now(one, services)  # its ledger, too
    return True


def publish_empty(
    declaration: Declaration,
    position: Position,
    operator: Operator,
    services: Services,
    *,
    kind: str,
    expired: Sequence[int] = (),
) -> int | None:
    """Publish a snapshot without files; None if others committed first. Every commit that was prepared on what was
    there before asserts a `main` that is gone by then."""
    started_at = services.now()
    with translated(f"table={declaration.table}"):
        live = live_files(table_of(position), position.target.main)
    decided = Decided(
        kind=kind,
        batch_id=change_id(declaration, position, kind),
        attempt_id=services.new_id(),
        live=live,
        started_at=started_at,
        maintain=kind,
        expired=expired,
    )
    return publish_decided(declaration, position, decided, operator, services)


def _choose(
    position: Position, table: Table, retention: Retention, services: Services, *, but: Sequence[str]
) -> _Choice:
    """`but` are bookmarks that would be moved first, so that they hold nothing back."""
    metadata, target = table.metadata, position.target
    line = [*ancestry(table, target.main)]
    stays = {snapshot.snapshot_id for snapshot in retained(line, retention.of(metadata.refs.get(MAIN_BRANCH)))}
    numbers = {snapshot.snapshot_id: number for number, snapshot in enumerate(line)}
    oldest = [numbers.get(s.snapshot_id, -1) for c, s in target.bookmarks.items() if c not in but]
    waiting = _waiting(position, line, stays, services)
    # with the one before it, from which its net rows are counted
    oldest += [numbers[snapshot_id] + 1 for snapshot_id in waiting]
    stays |= {snapshot.snapshot_id for snapshot in line[: max(oldest, default=-1) + 1]}
    for name, ref in metadata.refs.items():
        if naming.tagged_context(name) not in but:
            stays |= _held_by(table, name, ref, retention)
    behind = {s.snapshot_id for ref in metadata.refs.values() for s in _line_of(table, ref)}
    since = retention.since_ms
    loose = {s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in behind and s.timestamp_ms >= since}
    gone = [s for s in metadata.snapshots if s.snapshot_id not in stays | loose]
    kept = [s for s in metadata.snapshots if s.snapshot_id in stays | loose]
    if not gone:
        return _Choice(kept=tuple(kept), waiting=waiting)
    return _Choice(tuple(gone), tuple(kept), waiting, needed_only_by(table, gone, kept))


def _line_of(table: Table, ref: SnapshotRef) -> list[Snapshot]:
    return [*ancestry(table, table.metadata.snapshot_by_id(ref.snapshot_id))]


def _held_by(table: Table, name: str, ref: SnapshotRef, retention: Retention) -> set[int]:
    """The snapshots that stay because of a ref other than `main`: a branch has a history of its own, a tag has none."""
    if ref.snapshot_ref_type == SnapshotRefType.TAG:
        return {ref.snapshot_id}
    if name == MAIN_BRANCH:
        return set()
    return {snapshot.snapshot_id for snapshot in retained(_line_of(table, ref), retention.of(ref))}


def _waiting(position: Position, line: Sequence[Snapshot], stays: set[int], services: Services) -> tuple[int, ...]:
    """Snapshots of other writers that would go and that nobody has accepted: once gone, nobody could say what they
    did. All manifests are read for it, so only where there is such a snapshot."""
    if all(is_ours(snapshot) for snapshot in line if snapshot.snapshot_id not in stays):
        return ()
    found = foreign_snapshots(line, chains_at(line, position.target, services))
    return tuple(snapshot.snapshot_id for snapshot in found)


def _report(
    declaration: Declaration,
    position: Position,
    table: Table,
    choice: _Choice,
    lagging: Sequence[str],
    *,
    dry_run: bool,
) -> Expiry:
    tag, reached = position.target.tag, choice.reached
    files, outside = inside(table, reached.files)
    metadata, more = inside(table, reached.paths - frozenset(reached.files))
    warnings = []
    if choice.waiting:
        warnings.append(
            f"the history from snapshot {choice.waiting[-1]} of another writer on is kept, which nobody has accepted: "
            f"lakehouse reconcile {declaration.table} --accept-foreign {choice.waiting[-1]} --reason TEXT"
        )
    return Expiry(
        table=declaration.table,
        context=declaration.context,
        state=State.COMMITTED if lagging and not dry_run else State.NOTHING_TO_DO,
        dry_run=dry_run,
        bookmark_version=position.bookmark.version,
        snapshot_id=tag.snapshot_id if tag else None,
        expired=len(choice.gone),
        kept=len(choice.kept),
        moved=tuple(lagging),
        files=tuple(files),
        bytes=sum(reached.files[path] for path in files),
        metadata=tuple(metadata),
        outside=(*outside, *more),
        warnings=tuple(warnings),
        next=f"lakehouse maintain {declaration.table} expire" if dry_run and choice.gone else "",
    )


def _publish(
    declaration: Declaration,
    position: Position,
    table: Table,
    choice: _Choice,
    told: Expiry,
    operator: Operator,
    services: Services,
) -> Expiry | None:
    expired = [snapshot.snapshot_id for snapshot in choice.gone]
    if publish_empty(declaration, position, operator, services, kind=EXPIRE, expired=expired) is None:
        return None
    fault_point("after_expire")
    remove_files(table, (*told.files, *told.metadata))
    now = stand_now(declaration, services)
    return replace(
        told,
        state=State.COMMITTED,
        kept=told.kept + 1,
        bookmark_version=now.bookmark_version,
        snapshot_id=now.snapshot_id,
        ledger=now.ledger,
    )
