"""Counts the target again, by a scan of our own making, and compares it with what the bookmark says (DESIGN §8).

Reads only. The scan is PyIceberg's, so it shares no code with the merge that it checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

import duckdb
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakehouse import naming
from lakehouse.audit.reread import reread_equations
from lakehouse.catalog import translated
from lakehouse.engine_session import engine_session
from lakehouse.errors import DataError
from lakehouse.model import ACCEPTED_AND_STAGED, Equation, Manifest, Reference
from lakehouse.naming import quote_name
from lakehouse.position import find_position
from lakehouse.reconcile import (
    KEYS_DISTINCT,
    KEYS_DISTINCT_BY_DATE,
    KEYS_NOT_NULL,
    RECORDS,
    day_text,
    expected_by_date,
    expected_live,
    parse_day,
)
from lakehouse.services import Services
from lakehouse.state import walk
from lakehouse.target import Target, ancestry, manifest_of, summary

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


@dataclass(frozen=True, slots=True)
class Recount:
    """A recount at one snapshot. `unavailable` names levels that cannot be counted, `foreign` snapshots of others that
    nobody has accepted; `next` is the command that accepts the oldest of them."""

    snapshot_id: int | None
    equations: tuple[Equation, ...]
    unavailable: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    next: str = ""

    @property
    def holds(self) -> bool:
        return all(e.holds for e in self.equations)


@dataclass(frozen=True, slots=True)
class ForeignSnapshot:
    """A snapshot of another writer that nobody has accepted, with its net rows as its summary has them."""

    snapshot_id: int
    rows: int

    @property
    def text(self) -> str:
        return f"snapshot {self.snapshot_id}: net rows {self.rows:+d}"


def recount(
    declaration: Declaration,
    services: Services,
    *,
    snapshot_id: int | None = None,
    landing_date: date | None = None,
    reread: bool = False,
) -> Recount:
    """Recount the table at `snapshot_id` (default: what the bookmark or a later writer left as `main`).

    What the bookmarks of all contexts say is added up, those of sources that are not declared any more among them: they
    share the rows. `landing_date` restricts the equations of dates to one; `reread` reads the source objects of the
    declared sources again, of one date or all of them. Raises DataError if the snapshot has expired, and what
    `find_position` raises for any of the sources.
    """
    positions = [(one, find_position(one, services)) for one in declaration.by_source]
    target = positions[0][1].target
    table = target.table
    if table is None or target.main is None:
        return Recount(None, (Equation("table: rows = published rows", 0, 0),))
    snapshot = target.main if snapshot_id is None else table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise DataError(f"table {declaration.table} has no snapshot {snapshot_id} any more: it has expired")
    line = [*ancestry(table, snapshot)]
    chains = chains_at(line, target, services)
    manifests = in_one(chains)
    foreign = foreign_snapshots(line, chains)
    with engine_session(services, f"recount-{services.new_id()}") as (con, folder):
        _scan(con, table, snapshot, declaration)
        equations = [*_table_equations(con, declaration, manifests, foreign)]
        if declaration.lineage:
            equations += _date_equations(con, manifests, landing_date)
    for one, position in positions if reread else ():
        with engine_session(services, f"recount-{services.new_id()}") as (con, folder):
            found = reread_equations(
                con, one, position, snapshot, landing_date=landing_date, folder=folder, services=services
            )
        several = f"{one.context}: " if len(positions) > 1 else ""
        equations += [replace(equation, name=several + equation.name) for equation in found]
    equations += _stored_equations(manifests, landing_date)
    return Recount(
        snapshot.snapshot_id,
        tuple(equations),
        _unavailable(declaration),
        tuple(found.text for found in foreign),
        accept_foreign_command(declaration.table, foreign[-1].snapshot_id) if foreign else "",
    )


def accept_foreign_command(table: str, snapshot_id: int) -> str:
    """The command that accepts what another writer's snapshot did to the number of rows."""
    return f"lakehouse reconcile {table} --accept-foreign {snapshot_id} --reason TEXT"


def _unavailable(declaration: Declaration) -> tuple[str, ...]:
    dates = () if declaration.lineage else ("landing dates: the table has no lineage columns",)
    keys = () if _unique(declaration) else (f"keys: {declaration.write} keeps every row, whatever its key",)
    return (*dates, *keys)


def chains_at(line: Sequence[Snapshot], target: Target, services: Services) -> list[tuple[Manifest, ...]]:
    """The manifests of every context that were published up to a snapshot, newest first, each verified by its digest.

    `line` is the snapshot and its ancestors, newest first. A renamed bookmark comes twice, under both names. Where a
    context's snapshots have expired from the line, its tag says how it stood, if that is not younger than the snapshot.
    """
    heads: dict[str, Reference] = {}
    for snapshot in line:
        context, head = summary(snapshot).get(naming.CONTEXT), manifest_of(snapshot)
        if context is not None and head is not None:
            heads.setdefault(context, head)
    newest = line[0].sequence_number or 0
    for context, tagged in target.bookmarks.items():
        if (head := manifest_of(tagged)) is not None and (tagged.sequence_number or 0) <= newest:
            heads.setdefault(context, head)
    return [tuple(manifest for manifest, _ in walk(services.state, head)) for head in heads.values()]


def in_one(chains: Sequence[Sequence[Manifest]]) -> tuple[Manifest, ...]:
    """The manifests of all chains, each once."""
    return tuple({m.attempt_id: m for chain in chains for m in chain}.values())


def foreign_snapshots(line: Sequence[Snapshot], chains: Sequence[Sequence[Manifest]]) -> list[ForeignSnapshot]:
    """Snapshots that neither a batch nor our upkeep wrote and no operator has accepted, newest first, back to the first
    one of ours: what came before it is the baseline of an adoption, or nothing."""
    manifests = in_one(chains)
    attempts = {m.attempt_id for m in manifests}
    accepted = {m.foreign for m in manifests}
    firsts = {chain[-1].attempt_id for chain in chains}
    found = []
    for snapshot in line:
        keys = summary(snapshot)
        ours = keys.get(naming.ATTEMPT_ID) in attempts or any(k.startswith(naming.SUMMARY) for k in keys)
        if not ours and snapshot.snapshot_id not in accepted:
            found.append(ForeignSnapshot(snapshot.snapshot_id, _net_rows(keys)))
        firsts.discard(keys.get(naming.ATTEMPT_ID, ""))
        if chains and not firsts:
            break
    return found


def _net_rows(keys: Mapping[str, str]) -> int:
    """Rows that a snapshot has more than the one before, by its summary; a position delete takes a row out, too."""

    def change(what: str, fewer: str, more: str) -> int:
        return int(keys.get(f"{more}-{what}", 0)) - int(keys.get(f"{fewer}-{what}", 0))

    return change("records", "deleted", "added") - change("position-deletes", "removed", "added")


def _scan(con: duckdb.DuckDBPyConnection, table: Table, snapshot: Snapshot, declaration: Declaration) -> None:
    """Make the table `live`: unique columns and landing date of every row at the snapshot."""
    columns = [*_unique(declaration), *(["_source_date"] if declaration.lineage else [])]
    with translated(f"table={declaration.table}"):
        scan = table.scan(selected_fields=tuple(dict.fromkeys(columns)), snapshot_id=snapshot.snapshot_id)
        reader = scan.to_arrow_batch_reader()
        con.register("scan", reader)
        con.execute("create or replace table live as select * from scan")
        con.unregister("scan")


def _table_equations(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    manifests: Sequence[Manifest],
    foreign: Sequence[ForeignSnapshot],
) -> Iterator[Equation]:
    ((rows,),) = con.execute("select count(*) from live").fetchall()
    yield Equation("table: rows = published rows", rows, expected_live(manifests))
    if unique := _unique(declaration):
        columns = ", ".join(quote_name(name) for name in unique)
        any_null = " or ".join(f"{quote_name(k)} is null" for k in declaration.key)
        ((distinct,),) = con.execute(f"select count(*) from (select distinct {columns} from live)").fetchall()
        ((nulls,),) = con.execute(f"select count(*) from live where {any_null}").fetchall()
        yield Equation(KEYS_DISTINCT if declaration.keyed else KEYS_DISTINCT_BY_DATE, rows, distinct)
        yield Equation(KEYS_NOT_NULL, nulls, 0)
    yield Equation("table: snapshots of other writers = 0", len(foreign), 0)


def _unique(declaration: Declaration) -> tuple[str, ...]:
    """The columns that no two rows of the table share; none where the write mode keeps every row."""
    if declaration.keyed:
        return declaration.key
    if declaration.write == "replace_partition" and declaration.key:
        return (*declaration.key, "_source_date")
    return ()


def _date_equations(
    con: duckdb.DuckDBPyConnection, manifests: Sequence[Manifest], landing_date: date | None
) -> list[Equation]:
    counted = {
        day_text(day): int(n)
        for day, n in con.execute('select "_source_date", count(*) from live group by 1').fetchall()
    }
    expected = expected_by_date(manifests)
    days = sorted(set(counted) | set(expected))
    if landing_date is not None:
        days = [day_text(landing_date)]
    equations = [
        Equation("date: rows = gained - lost", counted.get(day, 0), expected.get(day, 0), parse_day(day))
        for day in days
    ]
    total = Equation("dates: sum of dates = rows", sum(counted.values()), sum(expected.values()))
    return equations if landing_date is not None else [*equations, total]


def _stored_equations(manifests: Sequence[Manifest], landing_date: date | None) -> list[Equation]:
    """What every batch proved before its commit must still be what its manifest says."""
    wanted = [
        o.rows
        for m in manifests
        if not _transformed(m)
        for o in m.objects
        if landing_date is None or o.landing_date == landing_date
    ]
    # where a SQL made the staged rows, what it was given was counted by batch
    by_batch = [e for m in manifests if _transformed(m) for e in m.equations if e.name == RECORDS]
    by_batch = by_batch if landing_date is None else []
    broken = sum(not e.holds for m in manifests for e in m.equations)
    return [
        Equation(
            "objects: records = rejected + accepted",
            sum(r.read for r in wanted) + sum(e.left for e in by_batch),
            sum(r.rejected + r.staged for r in wanted) + sum(e.right for e in by_batch),
            landing_date,
        ),
        Equation("batches: equations that did not hold = 0", broken, 0),
        Equation(
            "batches: deleted = removed + vanished + replaced",
            sum(m.rows.deleted for m in manifests),
            sum(m.rows.removed + m.rows.vanished + m.rows.replaced for m in manifests),
        ),
    ]


def _transformed(manifest: Manifest) -> bool:
    """Whether a declared SQL made the staged rows of the batch: its own equations say what became of the records."""
    return any(e.name == ACCEPTED_AND_STAGED for e in manifest.equations)
