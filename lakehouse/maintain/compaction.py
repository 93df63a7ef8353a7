"""Merges the small data files of each partition and applies position deletes. No row changes: lineage and what the
bookmarks know stay as they are.

Partition after partition, in commits of bounded size: each is one published change of ours with the bookmark's next
version, proved by its counts before it shows. Where others commit in between, the rest is planned again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import duckdb
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from lakehouse.bookmark import COMPACT
from lakehouse.catalog import translated
from lakehouse.engine_session import engine_session
from lakehouse.errors import Conflict, CountsDiffer
from lakehouse.iceberg import LiveFiles, live_files, only_data_file
from lakehouse.maintain.expiry import table_of
from lakehouse.merge import Match, MatchCounts, WrittenFiles, numbered, write_files
from lakehouse.merge.hits import create_tables
from lakehouse.merge.match import FileChange, file_changes
from lakehouse.merge.policy import Fate, merge_rule
from lakehouse.merge.position_deletes import (
    DeletesOfFile,
    paths_named,
    read_deleted,
    refuse_equality_deletes,
)
from lakehouse.merge.target_files import TargetFile
from lakehouse.merge.write import target_file_bytes
from lakehouse.model import Equation, State
from lakehouse.operate.dedupe import stage_nothing
from lakehouse.operate.operator_change import (
    MOST_TRIES,
    Decided,
    Operator,
    acting,
    change_id,
    lease_of,
    publish_decided,
    stand_now,
)
from lakehouse.position import Position, find_position
from lakehouse.reconcile import LIVE_CHANGE
from lakehouse.services import Progress, Services

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

COMMIT_BYTES = 1 << 30
COMMIT_FILES = 500
"""About so much is rewritten by one commit: what is lost when another writer commits first, or the process dies."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction did, or would do. `state`: committed; nothing_to_do where no file is worth it, and for a dry
    run. Counts of files are those of the whole table, before and after; a dry run does not know `data_files_after`.

    `rewritten` data files with `bytes` in `partitions` partitions are taken together or freed of deletes, by `commits`.
    """

    table: str
    context: str
    state: State
    dry_run: bool
    bookmark_version: int
    snapshot_id: int | None
    rows: int = 0
    partitions: int = 0
    rewritten: int = 0
    bytes: int = 0
    commits: int = 0
    data_files_before: int = 0
    data_files_after: int | None = None
    delete_files_before: int = 0
    delete_files_after: int | None = None
    warnings: tuple[str, ...] = ()
    ledger: str = "ok"
    next: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Data files of one partition that become as few as their size allows; `shared` are delete files of several data
    files that have no meaning left without them."""

    files: tuple[TargetFile, ...]
    shared: frozenset[str] = frozenset()

    @property
    def bytes(self) -> int:
        return sum(target.file.file_size_in_bytes for target in self.files)


@dataclass(frozen=True, slots=True)
class _Plan:
    position: Position
    table: Table
    live: LiveFiles
    groups: tuple[Group, ...]
    dangling: frozenset[str]

    @property
    def due(self) -> int:
        """Files that are to be rewritten."""
        return sum(len(group.files) for group in self.groups)

    @property
    def files(self) -> int:
        """All live files, of both kinds."""
        return len(self.live.data) + len(self.live.deletes)


def compact(declaration: Declaration, services: Services, operator: Operator, *, dry_run: bool = False) -> Compaction:
    """Compact a table; a dry run only counts.

    Raises UsageError for a table without a bookmark of ours, NotAvailable for equality deletes, what `find_position`
    raises, LeaseHeld, CountsDiffer before anything became visible, and Conflict if others always commit first: what was
    committed by then stays.
    """
    declaration = acting(declaration, services)
    if dry_run:
        return _report(declaration, _plan(declaration, services), dry_run=True)
    with lease_of(declaration, operator, services, step=COMPACT):
        plan = _plan(declaration, services)
        done = told = _report(declaration, plan, dry_run=False)
        total, lost = plan.due, 0
        while plan.groups:
            services.progress(Progress(COMPACT, max(0, total - plan.due), total, told.rows))
            if _publish(declaration, plan, _first(plan.groups), operator, services):
                done, lost = replace(done, commits=done.commits + 1), 0
            else:
                lost += 1
            if lost == MOST_TRIES:
                raise Conflict(
                    f"table {declaration.table}: others committed first {lost} times in a row; "
                    f"commits={done.commits} of this compaction stay",
                    next=f"lakehouse maintain {declaration.table} compact",
                )
            before, plan = plan.files, _plan(declaration, services)
            if not lost and plan.files >= before:
                break  # what is left cannot become less
        return _after(declaration, done, plan, services) if done.commits else told


def plan_groups(live: LiveFiles, named: Sequence[frozenset[str]], *, target_bytes: int) -> tuple[Group, ...]:
    """What is worth being rewritten: small files where a partition has several, and files with deletes.

    `named` are, for each delete file of `live` in turn, the data files that it speaks of. A file is small below half of
    `target_bytes`. Data files that share a delete file stay together.
    """
    paths = {entry.data_file.file_path for entry in live.data}
    shared = [
        (entry.data_file.file_path, names & paths)
        for entry, names in zip(live.deletes, named, strict=True)
        if only_data_file(entry.data_file) is None
    ]
    deleted_from = frozenset().union(*named)
    by_partition: dict[tuple[object, ...], list[TargetFile]] = defaultdict(list)
    for target in numbered(live):
        by_partition[_partition(target.file)].append(target)
    groups: list[Group] = []
    for files in by_partition.values():
        small = [target for target in files if target.file.file_size_in_bytes < target_bytes // 2]
        several = {target.path for target in small} if len(small) > 1 else set()
        due = [target for target in files if target.path in several or target.path in deleted_from]
        for part in _cut(due, shared):
            if len(part.files) > 1 or part.files[0].path in deleted_from:
                groups.append(part)
    return tuple(groups)


def _partition(file: DataFile) -> tuple[object, ...]:
    return (file.spec_id, *(file.partition[position] for position in range(len(file.partition))))


def _cut(due: Sequence[TargetFile], shared: Sequence[tuple[str, Collection[str]]]) -> Iterator[Group]:
    """Files in groups of a bounded size; those that share a delete file are in one, whatever its size."""
    here = {target.path: target for target in due}
    joined = frozenset(name for _, names in shared for name in names if name in here)
    whole = frozenset(path for path, names in shared if names and joined.issuperset(names))
    group = Group(tuple(target for target in due if target.path in joined), whole)
    for target in due:
        if target.path in joined:
            continue
        full = len(group.files) >= COMMIT_FILES or group.bytes + target.file.file_size_in_bytes > COMMIT_BYTES
        if group.files and full:
            yield group
            group = Group(())
        group = replace(group, files=(*group.files, target))
    if group.files:
        yield group


def _first(groups: Sequence[Group]) -> list[Group]:
    """As many groups as one commit takes, one at least."""
    taken = [groups[0]]
    for group in groups[1:]:
        size = sum(one.bytes for one in taken) + group.bytes
        if size > COMMIT_BYTES or sum(len(one.files) for one in taken) + len(group.files) > COMMIT_FILES:
            break
        taken.append(group)
    return taken


def _plan(declaration: Declaration, services: Services) -> _Plan:
    position = find_position(declaration, services)
    table = table_of(position)
    with translated(f"table={declaration.table}"):
        live = live_files(table, position.target.main)
    refuse_equality_deletes(declaration.table, live.deletes)
    named = paths_named(table.io, [entry.data_file for entry in live.deletes])
    groups = plan_groups(live, named, target_bytes=target_file_bytes(table.properties))
    paths = {entry.data_file.file_path for entry in live.data}
    pairs = zip(live.deletes, named, strict=True)
    dangling = frozenset(entry.data_file.file_path for entry, names in pairs if paths.isdisjoint(names))
    return _Plan(position, table, live, groups, dangling)


def _publish(
    declaration: Declaration, plan: _Plan, groups: Sequence[Group], operator: Operator, services: Services
) -> bool:
    """Rewrite some groups and commit; False if others committed first."""
    started_at, attempt_id = services.now(), services.new_id()
    batch_id = change_id(declaration, plan.position, COMPACT)
    with engine_session(services, f"{COMPACT}-{services.new_id()}") as (con, folder):
        match = _match(con, declaration, plan, groups)
        written = write_files(
            con, declaration, match,
            table=plan.table, batch_id=batch_id, attempt_id=attempt_id, ingested_at=started_at,
            folder=folder / "output",
        )  # fmt: skip
    equation = Equation(LIVE_CHANGE, written.live_change, 0)
    if not equation.holds:
        raise CountsDiffer(
            f"table {declaration.table}: nothing was published, the compacted files have {written.live_change:+d} rows"
        )
    decided = Decided(
        kind=COMPACT,
        batch_id=batch_id,
        attempt_id=attempt_id,
        live=plan.live,
        started_at=started_at,
        equations=(equation,),
        added=written.added,
        removed=_removed(written, plan, groups),
        maintain=COMPACT,
    )
    return publish_decided(declaration, plan.position, decided, operator, services) is not None


def _match(con: duckdb.DuckDBPyConnection, declaration: Declaration, plan: _Plan, groups: Sequence[Group]) -> Match:
    """A batch without rows that rewrites all files of the groups."""
    files = [target for group in groups for target in group.files]
    create_tables(con)
    own = read_deleted(con, plan.table.io, plan.live.deletes, files)
    stage_nothing(con, declaration)
    rule = merge_rule(plan.table.properties, format_version=plan.table.metadata.format_version)
    file_changes(con, {}, own, rule)
    counted = con.execute("select __file, count(*) from deleted group by 1").fetchall()
    dead = {int(number): int(count) for number, count in counted}
    changes = tuple(_change(target, dead.get(target.number, 0), own) for target in files)
    return Match(MatchCounts(0, 0, 0, 0), changes, rule, (), plan.live.dangling)


def _change(target: TargetFile, dead: int, own: Mapping[int, DeletesOfFile]) -> FileChange:
    fate = Fate.DROP if dead >= target.file.record_count else Fate.REWRITE
    return FileChange(target, fate, 0, dead, own.get(target.number, DeletesOfFile()))


def _removed(written: WrittenFiles, plan: _Plan, groups: Sequence[Group]) -> frozenset[str]:
    """Rewritten files and their delete files, and delete files that speak of no live file."""
    return written.removed.union(plan.dangling, *(group.shared for group in groups))


def _report(declaration: Declaration, plan: _Plan, *, dry_run: bool) -> Compaction:
    tag = plan.position.target.tag
    return Compaction(
        table=declaration.table,
        context=declaration.context,
        state=State.NOTHING_TO_DO,
        dry_run=dry_run,
        bookmark_version=plan.position.bookmark.version,
        snapshot_id=tag.snapshot_id if tag else None,
        rows=plan.live.rows,
        partitions=len({_partition(group.files[0].file) for group in plan.groups}),
        rewritten=plan.due,
        bytes=sum(group.bytes for group in plan.groups),
        data_files_before=len(plan.live.data),
        data_files_after=None if dry_run else len(plan.live.data),
        delete_files_before=len(plan.live.deletes),
        delete_files_after=None if dry_run else len(plan.live.deletes),
        next=f"lakehouse maintain {declaration.table} compact" if dry_run and plan.groups else "",
    )


def _after(declaration: Declaration, done: Compaction, plan: _Plan, services: Services) -> Compaction:
    now = stand_now(declaration, services)
    return replace(
        done,
        state=State.COMMITTED,
        bookmark_version=now.bookmark_version,
        snapshot_id=now.snapshot_id,
        data_files_after=len(plan.live.data),
        delete_files_after=len(plan.live.deletes),
        ledger=now.ledger,
    )
