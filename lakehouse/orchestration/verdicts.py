"""What each check concludes from a plan, a recount or the gates of a load. Pure: time comes in, nothing is read.

Every verdict carries both sides of what it compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import dagster as dg

from lakehouse.audit.arrivals import arrival, distribution, late_days
from lakehouse.audit.completeness import DONE
from lakehouse.errors import DataError
from lakehouse.model import Decision, Equation, GateResult, ObjectDecision, Plan, Window
from lakehouse.orchestration.markdown import markdown_list, markdown_table
from lakehouse.orchestration.metadata import SNAPSHOT_ID, Metadata, equations_table, gate_text, gates_value
from lakehouse.orchestration.partitions import today
from lakehouse.readable import readable
from lakehouse.reconcile import KEYS_DISTINCT, KEYS_DISTINCT_BY_DATE, KEYS_NOT_NULL

if TYPE_CHECKING:
    from lakehouse.audit.recount import Recount
    from lakehouse.declaration import Declaration

KEY_EQUATIONS = (KEYS_DISTINCT, KEYS_DISTINCT_BY_DATE, KEYS_NOT_NULL)
"""The equations of a recount that are about keys."""

_DATA = (Decision.PLANNED, Decision.CONSUMED, Decision.DEFERRED, Decision.QUARANTINED, Decision.SKIPPED)
_MISS_RATE = 0.001
_MOST_NAMED = 20
_MOST_SAID = 6


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check says, in one line; `metadata` holds both sides."""

    passed: bool
    description: str
    metadata: Metadata = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "description", readable(self.description))


def error_verdict(error: DataError) -> Verdict:
    """A check that the data does not let conclude."""
    return Verdict(False, f"{error.message}; next: {error.next}" if error.next else error.message)


def all_sources_verdict(found: Sequence[tuple[str, Verdict]]) -> Verdict:
    """The verdicts of all sources, by context, as one: of an only source its own."""
    if len(found) == 1:
        return found[0][1]
    text = "; ".join(f"{context}: {verdict.description}" for context, verdict in found)
    metadata = {f"{context}/{name}": value for context, verdict in found for name, value in verdict.metadata.items()}
    return Verdict(all(verdict.passed for _, verdict in found), text, metadata)


def counts_verdict(recount: Recount) -> Verdict:
    """Whether every equation of the recount holds."""
    return _equations_verdict(recount, recount.equations)


def keys_verdict(recount: Recount) -> Verdict:
    """Whether every key is there once and none is NULL. A table without a snapshot has no keys: 0 = 0.

    A write mode that keeps every row has no keys to compare, and the recount says so.
    """
    without_rows = recount.snapshot_id is None
    equations = [e for e in recount.equations if without_rows or e.name in KEY_EQUATIONS]
    if not equations and (why := [text for text in recount.unavailable if text.startswith("keys: ")]):
        return Verdict(True, why[0])
    return _equations_verdict(recount, equations)


def gates_verdict(gates: Sequence[GateResult], *, loaded: bool) -> Verdict:
    """Whether the last load of the date passed its gates; `loaded` False: this Dagster instance knows of none."""
    if not loaded:
        return Verdict(True, "this Dagster instance remembers no load, so there are no gates to look at")
    metadata: Metadata = {"gates": gates_value(gates)} if gates else {}
    if refused := [g for g in gates if g.stops]:
        return Verdict(False, "; ".join(map(gate_text, refused)), metadata)
    if accepted := [g for g in gates if g.accepted]:
        texts = "; ".join(map(gate_text, accepted))
        return Verdict(True, f"{len(gates) - len(accepted)} gates passed; {texts}", metadata)
    return Verdict(True, f"{len(gates)} gates passed" if gates else "the last load had nothing to do", metadata)


def complete_verdict(plan: Plan) -> Verdict:
    """listed = consumed + ignored + skipped: nothing is planned, deferred or quarantined (DESIGN §8).

    What an operator skipped is decided, with author and reason: it is named and fails nothing.
    """
    inside = [d for d in plan.decisions if d.decision is not Decision.OUTSIDE_WINDOW]
    counts = Counter(d.decision for d in inside)
    done = counts[Decision.CONSUMED] + counts[Decision.IGNORED]
    skipped = [d for d in inside if d.decision is Decision.SKIPPED]
    left = [d for d in inside if d.decision not in DONE]
    metadata: Metadata = {
        "listed": dg.MetadataValue.int(len(inside)),
        "consumed_or_ignored": dg.MetadataValue.int(done),
        **{decision.value: dg.MetadataValue.int(counts[decision]) for decision in Decision if decision in counts},
        **_objects("left", left),
        **_objects("skipped_objects", skipped),
    }
    if not left:
        also = f" + skipped by an operator {len(skipped)}" if skipped else ""
        return Verdict(True, f"listed {len(inside)} = consumed or ignored {done}{also}", metadata)
    counted = ", ".join(f"{n} {decision.value}" for decision, n in Counter(d.decision for d in left).items())
    also = f", skipped by an operator {len(skipped)}" if skipped else ""
    return Verdict(False, f"listed {len(inside)}, consumed or ignored {done}{also}: {counted}", metadata)


def first_open_date(declaration: Declaration, *, now: datetime) -> date:
    """The oldest landing date that the schedule still looks at: before it, an object waits for somebody to ask."""
    return today(declaration, now) - timedelta(days=declaration.source.lookback_days)


def late_verdict(plan: Plan, declaration: Declaration, *, now: datetime, window: Window) -> Verdict:
    """Objects of the window that arrived after the schedule had stopped looking at their date, and all of the plan that
    wait unseen behind what it looks at, with the command that loads them. The plan may hold more than the window.

    Arrival is when S3 wrote the object. When a load first saw it says nothing of the source: the first load of a year
    of history sees all of it late.
    """
    days = declaration.source.lookback_days
    zone = ZoneInfo(declaration.timezone)
    dated = [
        (d, d.landing_date)
        for d in plan.decisions
        if d.landing_date is not None and d.decision in _DATA and window.contains(d.landing_date)
    ]
    late = [d for d, day in dated if late_days(d.object, day, zone) > days]
    arrived = [arrival(d.object, day, zone=zone, first_seen=None) for d, day in dated]
    spread = distribution(arrived, window=days, miss_rate=_MISS_RATE)
    waiting = _behind_the_window(plan, declaration, now=now)
    metadata: Metadata = {
        "lookback_days": dg.MetadataValue.int(days),
        "objects": dg.MetadataValue.int(len(dated)),
        "late": dg.MetadataValue.int(len(late)),
        "latest_days": dg.MetadataValue.int(max(spread.days, default=0)),
        "advised_lookback_days": dg.MetadataValue.int(spread.advised or 0),
        "arrivals": dg.MetadataValue.md(markdown_table(["days from landing date", "objects"], [*spread.days.items()])),
        "unseen_behind_the_window": dg.MetadataValue.int(len(waiting)),
        **_objects("late_objects", [*late, *(d for d in waiting if d not in late)]),
    }
    counted = f"{len(late)} of {len(dated)} objects came later than lookback_days={days}"
    if waiting:
        command = _load_command(declaration, waiting)
        metadata["next"] = dg.MetadataValue.text(command)
        named = ", ".join(d.object.uri for d in waiting[:_MOST_SAID])
        more = f" and {len(waiting) - _MOST_SAID} more" if len(waiting) > _MOST_SAID else ""
        text = f"{counted}; {len(waiting)} unseen, late, outside window: {named}{more}: {command}"
        return Verdict(False, text, metadata)
    if late:
        return Verdict(False, f"{counted}, and are read", metadata)
    return Verdict(True, f"none of {len(dated)} objects came later than lookback_days={days}", metadata)


def _behind_the_window(plan: Plan, declaration: Declaration, *, now: datetime) -> list[ObjectDecision]:
    """Unseen objects of dates that the schedule no longer looks at. What lies before `start_date` is history that was
    left out on purpose, unless it arrived since."""
    first, zone = first_open_date(declaration, now=now), ZoneInfo(declaration.timezone)

    def waits(item: ObjectDecision, day: date) -> bool:
        if item.decision is Decision.OUTSIDE_WINDOW:
            arrived = item.object.last_modified.astimezone(zone).date()
            return day < declaration.start_date <= arrived and item.ruled_at is None
        return item.decision in (Decision.PLANNED, Decision.DEFERRED) and day < first

    return [d for d in plan.decisions if d.landing_date is not None and waits(d, d.landing_date)]


def _load_command(declaration: Declaration, items: Sequence[ObjectDecision]) -> str:
    """The load of the dates of these objects; dates between them that have nothing unseen are not read again."""
    days = sorted(d.landing_date for d in items if d.landing_date is not None)
    early = f"declare start_date: {days[0]}, then " if days[0] < declaration.start_date else ""
    return f"{early}lakehouse load {declaration.table} --from {days[0]} --to {days[-1]}"


def freshness_verdict(plan: Plan, declaration: Declaration, *, day: date | None, now: datetime) -> Verdict:
    """Whether the date has its expected objects by the declared time of that day, in the declared zone.

    `day` None is the newest date that is due. Without a declared time a date is due when it is over.
    """
    expected = declaration.gates.expected_objects
    if expected is None:
        return Verdict(True, "expected_objects is not declared")
    zone = ZoneInfo(declaration.timezone)
    today = now.astimezone(zone).date()
    if day is None:
        day = today if _due(today, expected.by, zone) <= now else today - timedelta(days=1)
    due = _due(day, expected.by, zone)
    there = [d for d in plan.decisions if d.decision in _DATA and _day_of(d, zone) == day]
    metadata: Metadata = {
        "date": dg.MetadataValue.text(day.isoformat()),
        "objects": dg.MetadataValue.int(len(there)),
        "expected": dg.MetadataValue.int(expected.min),
        "due": dg.MetadataValue.text(due.isoformat()),
    }
    if len(there) >= expected.min:
        return Verdict(True, f"{day}: {len(there)} objects, expected at least {expected.min}", metadata)
    if now < due:
        return Verdict(True, f"{day}: {len(there)} of {expected.min} objects, not due before {due}", metadata)
    return Verdict(False, f"{day}: {len(there)} of {expected.min} objects, due at {due}", metadata)


def _equations_verdict(recount: Recount, equations: Sequence[Equation]) -> Verdict:
    broken = [e for e in equations if not e.holds]
    metadata: Metadata = {
        "equations": dg.MetadataValue.md(equations_table(equations)),
        "compared": dg.MetadataValue.int(len(equations)),
        "differ": dg.MetadataValue.int(len(broken)),
        SNAPSHOT_ID: dg.MetadataValue.text(str(recount.snapshot_id or "")),
    }
    for name, texts in (("unavailable", recount.unavailable), ("foreign_snapshots", recount.foreign)):
        if texts:
            metadata[name] = dg.MetadataValue.md(markdown_list(texts))
    if recount.next:
        metadata["next"] = dg.MetadataValue.text(recount.next)
    if broken:
        return Verdict(False, "; ".join(_equation_text(e) for e in broken[:_MOST_NAMED]), metadata)
    if not equations:
        return Verdict(False, "the recount compared nothing", metadata)
    shown = "; ".join(_equation_text(e) for e in equations[:_MOST_SAID])
    more = f"; and {len(equations) - _MOST_SAID} more" if len(equations) > _MOST_SAID else ""
    return Verdict(True, shown + more, metadata)


def _equation_text(equation: Equation) -> str:
    day = f" [{equation.landing_date}]" if equation.landing_date else ""
    return f"{equation.name}{day}: {equation.left} {'=' if equation.holds else '≠'} {equation.right}"


def _due(day: date, by: time | None, zone: ZoneInfo) -> datetime:
    """When the date must be there. Compared in UTC: two times of one zone compare by the clock on the wall."""
    local = datetime.combine(day, by, zone) if by else datetime.combine(day + timedelta(days=1), time(), zone)
    return local.astimezone(UTC)


def _day_of(item: ObjectDecision, zone: ZoneInfo) -> date:
    """The landing date; of an undated source the day of arrival."""
    return item.landing_date or item.object.last_modified.astimezone(zone).date()


def _objects(name: str, items: Sequence[ObjectDecision]) -> Metadata:
    """The first objects by name, each with what was decided and why."""
    if not items:
        return {}
    lines = [[d.object.uri, d.landing_date or "", d.decision.value, d.reason] for d in items[:_MOST_NAMED]]
    more = f"\n\n… and {len(items) - _MOST_NAMED} more" if len(items) > _MOST_NAMED else ""
    return {name: dg.MetadataValue.md(markdown_table(["object", "date", "decision", "reason"], lines) + more)}
