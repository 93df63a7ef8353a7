"""Matches a batch with the target: which rows live on, change or die, and what becomes of each file. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
from pyiceberg.table import Table

from lakehouse.iceberg import LiveFiles
from lakehouse.merge.hits import (
    Looked,
    create_tables,
    drop_deleted,
    find_hits,
    find_replaced,
    find_retracted,
    reached_by_date,
    refuse_doubled_keys,
    refuse_null_keys,
)
from lakehouse.merge.order import newer, tie_break
from lakehouse.merge.policy import Fate, MergeRule, merge_rule
from lakehouse.merge.position_deletes import DeletesOfFile, read_deleted, refuse_equality_deletes
from lakehouse.merge.prune import candidates
from lakehouse.merge.target_files import TargetFile, TargetReader
from lakehouse.merge.verdicts import judge, keep_old_values
from lakehouse.model import Sweep
from lakehouse.naming import quote_name, quote_text
from lakehouse.placement import landing_date

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


@dataclass(frozen=True, slots=True)
class MatchCounts:
    """How the winners of a batch fared (they add up to the winners), and target rows that died without one."""

    inserted: int
    updated: int
    unchanged: int
    stale: int
    removed: int = 0
    absent: int = 0
    vanished: int = 0
    replaced: int = 0


@dataclass(frozen=True, slots=True)
class FileChange:
    """A data file with dead rows: `dead` of this batch and `dead_before` of earlier ones; `deletes` are delete files
    that hold positions of this file alone."""

    target: TargetFile
    fate: Fate
    dead: int
    dead_before: int
    deletes: DeletesOfFile


@dataclass(frozen=True, slots=True)
class Match:
    """The decisions of a batch; its rows stand in the tables `matched`, `gone` and `dead` (__file, __pos).

    `kept` names the columns of table `kept` that updated rows take over from the target. `dangling` are delete
    files of data files that are gone.
    """

    counts: MatchCounts
    changes: tuple[FileChange, ...]
    rule: MergeRule
    kept: tuple[str, ...]
    dangling: frozenset[str] = frozenset()


def numbered(live: LiveFiles) -> list[TargetFile]:
    """The live data files with the numbers that stand for them in the tables of a batch."""
    return [TargetFile(number, entry.data_file) for number, entry in enumerate(live.data)]


def match_target(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    table: Table,
    live: LiveFiles,
    sweep: Sweep,
    reader: TargetReader | None = None,
) -> Match:
    """Match the view `winners` with the live files of the target; `reader` may have opened some of them already.

    Raises TargetDamaged if a live key is NULL or stands in two rows, naming it; NotAvailable for equality deletes.
    """
    reader = reader or TargetReader(table)
    refuse_equality_deletes(declaration.table, live.deletes)
    files = numbered(live)
    by_number = {target.number: target for target in files}
    create_tables(con)
    looked = _find(con, declaration, reader=reader, files=files, sweep=sweep, any_deletes=bool(live.deletes))
    touched = con.execute(
        "select __file from hits union select __file from gone union select __file from keyless"
    ).fetchall()
    own = read_deleted(con, table.io, live.deletes, [by_number[int(number)] for (number,) in touched])
    drop_deleted(con)
    refuse_null_keys(con, declaration.table, by_number)
    refuse_doubled_keys(con, declaration, by_number)
    judge(con, declaration, reader=reader, files=by_number, looked=looked)
    _judge_the_unmatched(con, declaration, sweep)
    rule = merge_rule(table.properties, format_version=table.metadata.format_version)
    changes = file_changes(con, by_number, own, rule)
    kept = keep_old_values(con, declaration, reader=reader, files=by_number)
    return Match(_count(con), changes, rule, kept, live.dangling)


def _find(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    reader: TargetReader,
    files: Sequence[TargetFile],
    sweep: Sweep,
    any_deletes: bool,
) -> Looked:
    """Fill `hits` and `gone`; rows that are deleted already are still among them."""
    source = declaration.source
    if sweep.replaced_dates or sweep.replaced_objects:
        dates = {*sweep.replaced_dates, *(landing_date(uri, source=source) for uri in sweep.replaced_objects)}
        find_replaced(con, reader=reader, files=reached_by_date(files, reader.schema, dates), sweep=sweep)
    if not declaration.keyed:
        return Looked.AT_KEYS
    if sweep.snapshot_date is not None:
        keys = ", ".join(quote_name(k) for k in declaration.key)
        con.execute(
            f"create or replace view truth as select distinct {keys} from staged "
            f'where "_source_date" = date {quote_text(sweep.snapshot_date.isoformat())}'
        )
        reached: Sequence[TargetFile] = files
    else:
        known = [target.file for target in files]
        undecided = {file.file_path for file in known} if any_deletes else set()
        paths = {f.file_path for f in candidates(con, declaration, reader.schema, known, with_deletes=undecided)}
        reached = [target for target in files if target.path in paths]
    looked = find_hits(con, declaration, reader=reader, files=reached, snapshot_date=sweep.snapshot_date)
    if sweep.retracted_objects and sweep.snapshot_date is None:
        dates = {landing_date(uri, source=source) for uri in sweep.retracted_objects}
        again = reached_by_date(files, reader.schema, dates)
        find_retracted(con, declaration, reader=reader, files=again, sweep=sweep)
    return looked


def _judge_the_unmatched(con: duckdb.DuckDBPyConnection, declaration: Declaration, sweep: Sweep) -> None:
    """Winners that hit nothing are inserted; deletes and rows that are too old go to `matched`, without a place."""
    verdicts = []
    joins = ""
    keys = ", ".join(quote_name(k) for k in declaration.key)
    if declaration.hard_deletes:
        verdicts.append("when w._is_delete then 'absent'")
        order = (*declaration.order_by, *tie_break(declaration))
        joins = f"left join (select *, true as __buried from graves) g using ({keys})"
        verdicts.append(f"when g.__buried and {newer(order, 'g', 'w')} then 'stale'")
    if sweep.snapshot_date is not None:
        joins += f" left join (select *, true as __true from truth) r using ({keys})"
        verdicts.append("when r.__true is null then 'stale'")
    elif sweep.settled_date is not None:
        settled = quote_text(sweep.settled_date.isoformat())
        verdicts.append(f"when w.\"_source_date\" < date {settled} then 'stale'")
    if not verdicts:
        return
    con.execute(
        f"""insert into matched select __row_id, null, null, verdict, null from (
            select w.__row_id, case {" ".join(verdicts)} end as verdict
            from (select * from winners anti join (select __row_id from matched) using (__row_id)) w {joins})
        where verdict is not null"""
    )


def file_changes(
    con: duckdb.DuckDBPyConnection,
    files: Mapping[int, TargetFile],
    own: Mapping[int, DeletesOfFile],
    rule: MergeRule,
) -> tuple[FileChange, ...]:
    """Make the table `dead` from `matched` and `gone`, and decide every file that it names by the rule.

    `own` are the delete files that belong to one data file alone; earlier deletes stand in the table `deleted`.
    """
    con.execute(
        "create or replace table dead as select __file, __pos from matched "
        "where verdict in ('updated', 'removed') union all select __file, __pos from gone"
    )
    counted = con.execute(
        "select __file, count(*), coalesce(any_value(before), 0) from dead left join "
        "(select __file, count(*) as before from deleted group by 1) using (__file) group by 1 order by 1"
    ).fetchall()
    changes = []
    for number, dead, before in counted:
        target = files[number]
        fate = rule.decide(
            rows=target.file.record_count, size=target.file.file_size_in_bytes, dead=int(dead) + int(before)
        )
        changes.append(FileChange(target, fate, int(dead), int(before), own.get(number, DeletesOfFile())))
    return tuple(changes)


def _count(con: duckdb.DuckDBPyConnection) -> MatchCounts:
    verdicts = {v: int(n) for v, n in con.execute("select verdict, count(*) from matched group by 1").fetchall()}
    causes = {c: int(n) for c, n in con.execute("select cause, count(*) from gone group by 1").fetchall()}
    ((winners,),) = con.execute("select count(*) from winners").fetchall()
    return MatchCounts(
        inserted=int(winners) - sum(verdicts.values()),
        updated=verdicts.get("updated", 0),
        unchanged=verdicts.get("unchanged", 0),
        stale=verdicts.get("stale", 0),
        removed=verdicts.get("removed", 0),
        absent=verdicts.get("absent", 0),
        vanished=causes.get("vanished", 0),
        replaced=causes.get("replaced", 0),
    )
