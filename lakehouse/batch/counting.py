"""Counts what the merge decided, by object and by landing date, from the session's own tables. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

import duckdb

from lakehouse.merge import MatchCounts
from lakehouse.model import DateCounts, ObjectOutcome, RowCounts
from lakehouse.reconcile import day_text


@dataclass(frozen=True, slots=True)
class Counted:
    """Counts of a batch after the match."""

    objects: tuple[ObjectOutcome, ...]
    rows: RowCounts
    dates: dict[str, DateCounts]


def count_batch(
    con: duckdb.DuckDBPyConnection, outcomes: Sequence[ObjectOutcome], *, match: MatchCounts, superseded: int
) -> Counted:
    """Give every object and every landing date its share; the batch's own counts come from other queries.

    So a row that fell out of a join shows as an equation that does not hold.
    """
    fates = _by_object(con)
    objects = tuple(_with_fates(o, fates.get(o.object.uri, {})) for o in outcomes)
    ((staged,),) = con.execute("select count(*) from staged").fetchall()
    rows = RowCounts(
        read=sum(o.rows.read for o in outcomes),
        rejected=sum(o.rows.rejected for o in outcomes),
        staged=int(staged),
        superseded=superseded,
        stale=match.stale,
        inserted=match.inserted,
        updated=match.updated,
        unchanged=match.unchanged,
        deleted=match.removed + match.vanished + match.replaced,
        removed=match.removed,
        vanished=match.vanished,
        replaced=match.replaced,
        absent=match.absent,
    )
    return Counted(objects, rows, _by_date(objects, _lost(con)))


def _by_object(con: duckdb.DuckDBPyConnection) -> dict[str, dict[str, int]]:
    fates: dict[str, dict[str, int]] = {}
    rows = con.execute(
        """select s._source_file,
            case when l.__row_id is not null then 'superseded' else coalesce(m.verdict, 'inserted') end as fate,
            count(*)
        from staged s
        left join losers l using (__row_id) left join matched m using (__row_id) group by all"""
    ).fetchall()
    for uri, fate, count in rows:
        fates.setdefault(uri, {})[fate] = int(count)
    return fates


def _with_fates(outcome: ObjectOutcome, fates: dict[str, int]) -> ObjectOutcome:
    return replace(outcome, rows=replace(outcome.rows, **fates, deleted=fates.get("removed", 0)))


def _lost(con: duckdb.DuckDBPyConnection) -> dict[date | None, int]:
    rows = con.execute(
        "select old_date, count(*) from (select old_date from matched where verdict in ('updated', 'removed') "
        "union all select old_date from gone) group by 1"
    ).fetchall()
    return {day: int(count) for day, count in rows}


def _by_date(objects: Sequence[ObjectOutcome], lost: dict[date | None, int]) -> dict[str, DateCounts]:
    totals: dict[str, DateCounts] = {}
    for item in objects:
        won = item.rows.inserted + item.rows.updated
        share = DateCounts(objects=1, rows=item.rows, gained=won)
        day = day_text(item.landing_date)
        totals[day] = totals.get(day, DateCounts()) + share
    for old, count in lost.items():
        day = day_text(old)
        totals[day] = totals.get(day, DateCounts()) + DateCounts(lost=count)
    return dict(sorted(totals.items()))
