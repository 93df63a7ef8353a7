"""Takes rows and bookmark of a table back to a batch, in one commit: a new snapshot of that batch's very files.

Nothing points `main` or a tag at an old snapshot (DESIGN §3). Refused where others have published since, or where one
of the files is gone. What went and what came back is told by the manifests since, and proved by the files' own counts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from typing import TYPE_CHECKING

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakehouse import naming
from lakehouse.audit.bookmark_history import named_version
from lakehouse.bookmark import REWIND_TABLE, UPKEEP
from lakehouse.bookmark_move import stood_as
from lakehouse.catalog import translated
from lakehouse.errors import CountsDiffer, DataError, UsageError
from lakehouse.iceberg import PARALLEL_READS, LiveFiles, live_files
from lakehouse.model import DateCounts, Equation, Manifest, Reference, RowCounts
from lakehouse.operate.move import BookmarkChange, Listed, Move, Restored, change_bookmark
from lakehouse.operate.operator_change import Operator
from lakehouse.position import Position
from lakehouse.reconcile import LIVE_CHANGE, expected_by_date
from lakehouse.services import Services
from lakehouse.state import load_bookmark, walk
from lakehouse.target import ancestry, is_ours, summary

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

_MOST_NAMED = 5


def rewind_with_table(
    declaration: Declaration, named: str, operator: Operator, services: Services, *, dry_run: bool = False
) -> BookmarkChange:
    """Take rows and bookmark back to what they were after a batch or version.

    Columns that the table got since stay, and are NULL in the rows that come back. Raises UsageError for a version that
    is not there and where others have published since, DataError where the batch's snapshot has expired or a file of it
    is gone, CountsDiffer where its rows are not those that the manifests tell, and what `reset_bookmark` raises.
    """

    def move(position: Position, _: Listed) -> Move:
        version, head = named_version(declaration, services, position.target.bookmark, named)
        if head is None:
            raise UsageError(
                "before the first batch there was no table to go back to",
                next=f"lakehouse bookmark reset {declaration.table}{declaration.source_option} --reason TEXT",
            )
        now, then = position.bookmark, load_bookmark(services.state, head)
        undone = [manifest for manifest, _ in walk(services.state, position.target.bookmark, above=version)]
        if not undone:
            return Move(REWIND_TABLE, now, f"the bookmark stands at version {version}", to_version=version)
        restored = _restored(declaration, position, version, head, undone)
        return Move(REWIND_TABLE, stood_as(now, then), to_version=version, restored=restored)

    return change_bookmark(declaration, operator, services, REWIND_TABLE, move, dry_run=dry_run)


def _restored(
    declaration: Declaration, position: Position, version: int, head: Reference, undone: Sequence[Manifest]
) -> Restored:
    table = position.target.table
    assert table is not None
    snapshot = _snapshot_of(declaration, table, version, head, undone)
    with translated(f"table={declaration.table}"):
        now = live_files(table, position.target.main)
        _refuse_missing(declaration, snapshot, [*_lists(table, snapshot)], table.io)
        files = live_files(table, snapshot)
        _refuse_missing(declaration, snapshot, sorted(_paths(files) - _paths(now)), table.io)
    dates = _undone_dates(undone)
    came, went = (sum(getattr(c, side) for c in dates.values()) for side in ("gained", "lost"))
    equation = Equation(LIVE_CHANGE, files.rows - now.rows, came - went)
    if not equation.holds:
        raise CountsDiffer(
            f"table {declaration.table}: {equation.name}: {equation.left} by its files and {equation.right} by its "
            "batches; nothing was changed",
            next=f"lakehouse reconcile {declaration.table}",
        )
    return Restored(files, RowCounts(inserted=came, deleted=went, replaced=went), dates, (equation,))


def _snapshot_of(
    declaration: Declaration, table: Table, version: int, head: Reference, undone: Sequence[Manifest]
) -> Snapshot:
    """The snapshot that published a manifest. Raises DataError if it has expired, UsageError if others came after."""
    line = [*ancestry(table, table.metadata.current_snapshot())]
    since = [*takewhile(lambda snapshot: summary(snapshot).get(naming.MANIFEST) != head.uri, line)]
    if len(since) == len(line):
        raise DataError(
            f"table {declaration.table}: the batch's snapshot has expired, so its rows cannot come back: {head.uri}",
            next=_leaving_rows(declaration, version),
        )
    attempts = {manifest.attempt_id for manifest in undone}
    others = [text for snapshot in since if (text := _of_others(snapshot, attempts))]
    if others:
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        raise UsageError(
            f"table {declaration.table}: others have published since, and their rows would go: "
            f"{', '.join(others[:_MOST_NAMED])}{more}",
            next=_leaving_rows(declaration, version),
        )
    return line[len(since)]


def _of_others(snapshot: Snapshot, attempts: Collection[str]) -> str:
    """Who published it, if it was neither one of these attempts nor upkeep; the bookmark may have had another name."""
    keys = summary(snapshot)
    if not is_ours(snapshot):
        return f"snapshot {snapshot.snapshot_id} of another writer"
    if keys.get(naming.MAINTAIN) in UPKEEP:
        return ""
    if naming.CONTEXT in keys and keys.get(naming.ATTEMPT_ID) not in attempts:
        return f"snapshot {snapshot.snapshot_id} of bookmark {keys[naming.CONTEXT]}"
    return ""


def _leaving_rows(declaration: Declaration, version: int | str) -> str:
    """The command that goes back to that version with the bookmark alone."""
    where = f"{declaration.table}{declaration.source_option}"
    return f"lakehouse bookmark rewind {where} --to-batch {version} --reason TEXT   # leaves the rows"


def _lists(table: Table, snapshot: Snapshot) -> Sequence[str]:
    """The snapshot's manifests, if the list of them is there, else that list."""
    if not table.io.new_input(snapshot.manifest_list).exists():
        return (snapshot.manifest_list,)
    return [manifest.manifest_path for manifest in snapshot.manifests(io=table.io)]


def _paths(files: LiveFiles) -> frozenset[str]:
    return frozenset(entry.data_file.file_path for entry in (*files.data, *files.deletes))


def _refuse_missing(declaration: Declaration, snapshot: Snapshot, paths: Sequence[str], io: FileIO) -> None:
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        there = [*pool.map(lambda path: io.new_input(path).exists(), paths)]
    gone = [path for path, exists in zip(paths, there, strict=True) if not exists]
    if gone:
        more = f" and {len(gone) - _MOST_NAMED} more" if len(gone) > _MOST_NAMED else ""
        raise DataError(
            f"table {declaration.table}: files of snapshot {snapshot.snapshot_id} are gone, so its rows cannot come "
            f"back: {', '.join(gone[:_MOST_NAMED])}{more}",
            next=_leaving_rows(declaration, summary(snapshot)[naming.BOOKMARK_VERSION]),
        )


def _undone_dates(undone: Sequence[Manifest]) -> dict[str, DateCounts]:
    """What the batches have done to every landing date, the other way round."""
    return {
        day: DateCounts(gained=max(-net, 0), lost=max(net, 0)) for day, net in expected_by_date(undone).items() if net
    }
