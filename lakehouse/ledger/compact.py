"""Makes one file of the small ones that a table's loads have left in each ledger table. Adds, drops and changes no row.

Each ledger table changes in one commit that asserts `main`: of a compaction and a sync at the same time one loses, and
looks again. Never moves a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from lakehouse.catalog import translated
from lakehouse.errors import Conflict
from lakehouse.ledger.commit import commit_rows
from lakehouse.ledger.data_files import SMALL_BYTES, Rewrite, every_row, partition_files, rewrite_files
from lakehouse.ledger.live import ATTEMPTS, live_ledger, pause_seconds
from lakehouse.ledger.schema import LEDGERS
from lakehouse.ledger.standing import Standing
from lakehouse.ledger.tables import find_ledger
from lakehouse.scratch import scratch_folder
from lakehouse.services import Services


@dataclass(frozen=True, slots=True)
class Compaction:
    """One ledger table: the files of the target's rows before and after, and the rows of those that were rewritten."""

    ledger: str
    files_before: int
    files_after: int
    rows_rewritten: int


def compact(standing: Standing, services: Services, *, dry_run: bool = False) -> tuple[Compaction, ...]:
    """Rewrite the small files of this target's rows, of all its contexts; a dry run only counts them.

    A ledger table that does not exist is left out. Raises Conflict if others always commit first, NotAvailable for a
    table with delete files of another writer, DataError if a file does not hold its rows, and what the catalog raises.
    """
    with translated(f"ledger of table={standing.table}"):
        found = (_compact(name, standing, services, dry_run=dry_run) for name in LEDGERS)
        return tuple(one for one in found if one is not None)


def _compact(name: str, standing: Standing, services: Services, *, dry_run: bool) -> Compaction | None:
    rewrite, told = Rewrite(), None
    for attempt in range(ATTEMPTS):
        if attempt:
            services.pause(pause_seconds(attempt, services.new_id()))
        table = find_ledger(services.catalog, services.settings.ops_namespace, name)
        if table is None:
            return told
        live = live_ledger(table)
        files = partition_files(live, standing.table_uuid)
        if told and rewrite.added and rewrite.added.file_path in {file.file_path for file in files}:
            return told  # the commit before landed, and only its answer was lost
        chosen = _small(files)
        told = Compaction(
            ledger=name,
            files_before=len(files),
            files_after=len(files) - max(0, len(chosen) - 1),
            rows_rewritten=sum(file.record_count for file in chosen),
        )
        if dry_run or not chosen:
            return told
        if rewrite.removed != frozenset(file.file_path for file in chosen):
            rewrite = _rewrite(table, chosen, standing, services)
        failure = commit_rows(
            services.catalog,
            table,
            live=live,
            added=[rewrite.added] if rewrite.added else [],
            removed=rewrite.removed,
            head={},
            commit_uuid=UUID(hex=services.new_id()),
        )
        if failure is None:
            return told
    raise Conflict(
        f"the ledger table {name} could not be compacted, others committed first: attempts={ATTEMPTS} "
        f"table={standing.table}; nothing was changed in it",
        next=f"lakehouse ledger compact {standing.table}",
    )


def _small(files: Sequence[DataFile]) -> list[DataFile]:
    """Those that become one; none if there is but one."""
    small = [file for file in files if file.file_size_in_bytes < SMALL_BYTES]
    return small if len(small) > 1 else []


def _rewrite(table: Table, chosen: Sequence[DataFile], standing: Standing, services: Services) -> Rewrite:
    with scratch_folder(services.settings.spill, f"lakehouse-ledger-{services.new_id()}") as folder:
        return rewrite_files(
            table, chosen, keep=every_row, table_uuid=standing.table_uuid, file_id=services.new_id(), folder=folder
        )
