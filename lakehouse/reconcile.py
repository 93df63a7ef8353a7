"""The equations of DESIGN §8, from counts alone. Pure; every equation keeps both sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from lakehouse.model import DateCounts, Equation, Manifest, ObjectOutcome, RowCounts

LIVE_CHANGE = "table: live change = inserted - deleted"
RECORDS = "object: records = rejected + accepted"
KEYS_DISTINCT = "table: count(*) = count(distinct key)"
KEYS_DISTINCT_BY_DATE = "table: count(*) = count(distinct key and landing date)"
KEYS_NOT_NULL = "table: rows with a NULL key = 0"
UNDATED = "undated"
"""Stands for the landing date of objects whose source has none, in maps keyed by date text."""


def batch_equations(
    *,
    objects: Sequence[ObjectOutcome],
    rows: RowCounts,
    dates: Mapping[str, DateCounts],
    live_before: int,
    live_after: int,
    keys_found: int,
    lineage: bool,
    transformed: Sequence[Equation] = (),
) -> tuple[Equation, ...]:
    """What must hold after the merge and before the commit of one batch.

    `keys_found` counts the inserted and updated keys that were read back from the written files; together with the
    stale and unchanged ones, which were seen in the target, they must be every key that was staged. `transformed` says
    what became of the accepted records where a declared SQL made the staged rows of them.
    """
    of_objects = sum(o.rows.staged for o in objects)
    fates = rows.superseded + rows.stale + rows.unchanged + rows.inserted + rows.updated + rows.removed + rows.absent
    kept = rows.staged - rows.superseded - rows.removed - rows.absent
    if transformed:
        equations = [*transformed, Equation("batch: staged by object = staged", of_objects, rows.staged)]
    else:
        equations = [*_of_objects(objects), Equation("batch: accepted = staged", of_objects, rows.staged)]
    equations += [
        Equation("batch: staged = sum of fates", rows.staged, fates),
        Equation(LIVE_CHANGE, live_after - live_before, rows.inserted - rows.deleted),
        Equation("contained: accepted keys = keys in the table", kept, keys_found + rows.stale + rows.unchanged),
    ]
    if lineage:
        won = sum(d.gained - d.lost for d in dates.values())
        equations.append(Equation("dates: gained - lost = inserted - deleted", won, rows.inserted - rows.deleted))
    return tuple(equations)


def _of_objects(objects: Sequence[ObjectOutcome]) -> list[Equation]:
    """The sum over all objects, or the objects for which it does not hold."""
    each = [Equation(RECORDS, o.rows.read, o.rows.rejected + o.rows.staged, o.landing_date) for o in objects]
    total = Equation(RECORDS, sum(e.left for e in each), sum(e.right for e in each))
    return [e for e in each if not e.holds] or [total]


def expected_live(manifests: Iterable[Manifest]) -> int:
    """Rows that the published batches left in the table, those that were there before it was taken over among them."""
    return sum(m.baseline + m.rows.inserted - m.rows.deleted for m in manifests)


def expected_by_date(manifests: Iterable[Manifest]) -> dict[str, int]:
    """Rows by the date of the object that last wrote them, as the published batches left them.

    Rows that were there before the table was taken over count as undated.
    """
    totals: dict[str, int] = {}
    for manifest in manifests:
        if manifest.baseline:
            totals[UNDATED] = totals.get(UNDATED, 0) + manifest.baseline
        for day, counts in manifest.dates.items():
            totals[day] = totals.get(day, 0) + counts.gained - counts.lost
    return totals


def baseline_dates(rows: Mapping[date | None, int]) -> dict[str, DateCounts]:
    """A baseline by landing date. All of it counts as undated, so what has a date is moved there; rows that are gone
    count below zero."""
    dates = {day_text(day): _moved(count) for day, count in rows.items() if day is not None and count}
    if dates:
        dates[UNDATED] = _moved(sum(counts.lost - counts.gained for counts in dates.values()))
    return dates


def _moved(rows: int) -> DateCounts:
    return DateCounts(gained=max(rows, 0), lost=max(-rows, 0))


def day_text(day: date | None) -> str:
    return day.isoformat() if day else UNDATED


def parse_day(text: str) -> date | None:
    return None if text == UNDATED else date.fromisoformat(text)
