"""What a batch takes out of the target besides its own deletes, and which dates it must leave alone. Pure.

Owns when a landing date is complete enough to replace rows (replace_partition) or to make the absent vanish (snapshot),
and which objects' earlier rows go (append, retract). Never counts, reads or deletes anything: that is the merge's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING

from lakehouse.bookmark import were_read
from lakehouse.model import Bookmark, Decision, ObjectDecision, ObjectOutcome, Plan, Sweep

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

_DATA = (Decision.PLANNED, Decision.CONSUMED, Decision.DEFERRED, Decision.QUARANTINED)


def withheld_dates(
    declaration: Declaration, outcomes: Iterable[ObjectOutcome], *, failed: Iterable[ObjectDecision]
) -> frozenset[date | None]:
    """Dates that must not be replaced by this batch: an object of theirs could not be read, now or as declared.

    Their other objects are taken out of the batch and stay unseen. `failed` could not be fetched for now. Empty in
    every mode but replace_partition.
    """
    if declaration.write != "replace_partition":
        return frozenset()
    unreadable = (o.landing_date for o in outcomes if o.decision is Decision.QUARANTINED)
    return frozenset((*unreadable, *(item.landing_date for item in failed)))


def kept_outcomes(outcomes: Iterable[ObjectOutcome], withheld: Collection[date | None]) -> tuple[ObjectOutcome, ...]:
    """The outcomes without the objects that were read for nothing; a quarantined object stays, so that it is told."""
    return tuple(o for o in outcomes if o.decision is Decision.QUARANTINED or o.landing_date not in withheld)


def sweep_for(
    declaration: Declaration,
    *,
    plan: Plan,
    bookmark: Bookmark,
    outcomes: Sequence[ObjectOutcome],
    failed: Sequence[ObjectDecision] = (),
    elsewhere: Collection[str] = (),
) -> tuple[Sweep, tuple[str, ...]]:
    """The sweep of one batch, and a warning for everything that it leaves though the mode would have taken it.

    `outcomes` are those of the batch, withheld dates taken out; `failed` are its objects that could not be fetched;
    `bookmark` is the one before the batch; `elsewhere` are objects that another bookmark of the table has read.
    """
    read = [o for o in outcomes if o.decision is Decision.CONSUMED]
    uris = [o.object.uri for o in read]
    before = were_read(bookmark, uris).union(elsewhere)
    again = [o for o in read if o.object.uri in before]
    match declaration.write:
        case "replace_partition":
            return Sweep(replaced_dates=frozenset(o.landing_date for o in read)), ()
        case "append":
            return Sweep(replaced_objects=frozenset(o.object.uri for o in again)), ()
    retracted, warnings = _retracted(declaration, again)
    if declaration.write == "upsert":
        return Sweep(retracted_objects=retracted), warnings
    snapshot_date, why = _complete_date(plan, outcomes, failed)
    if (settled := bookmark.settled_date) is not None:
        # what an older date says of a key ends with the newest complete date, which is the whole truth
        old = {o.object.uri for o in again if o.landing_date is not None and o.landing_date < settled}
        retracted -= old
    sweep = Sweep(retracted_objects=retracted, snapshot_date=snapshot_date, settled_date=bookmark.settled_date)
    return sweep, (*warnings, *why)


def settled_after(sweep: Sweep) -> date | None:
    """The landing date that the table equals once the batch of this sweep is published: `Manifest.settled_date`."""
    return sweep.snapshot_date or sweep.settled_date


def _retracted(declaration: Declaration, again: Sequence[ObjectOutcome]) -> tuple[frozenset[str], tuple[str, ...]]:
    if declaration.source.on_overwrite != "retract":
        return frozenset(), ()
    whole = frozenset(o.object.uri for o in again if not o.rows.rejected)
    warnings = tuple(
        f"{o.object.uri}: nothing was retracted, for {o.rows.rejected} of its records were rejected"
        for o in again
        if o.rows.rejected
    )
    return whole, warnings


def _complete_date(
    plan: Plan, outcomes: Sequence[ObjectOutcome], failed: Sequence[ObjectDecision]
) -> tuple[date | None, tuple[str, ...]]:
    """The newest date if this batch holds all of it, else why not; no word if it holds nothing of it."""
    day = plan.newest_date
    here = [o for o in outcomes if o.landing_date == day]
    missed = [item for item in failed if item.landing_date == day]
    if day is None or not (here or missed):
        return None, ()
    reasons = [*plan.unfinished, *(f"{item.object.uri} could not be fetched" for item in missed)]
    for item in here:
        if item.decision is Decision.QUARANTINED:
            reasons.append(f"{item.object.uri} was quarantined")
        elif item.rows.rejected:
            reasons.append(f"{item.object.uri} has {item.rows.rejected} rejected records")
    known = {o.object.uri for o in here} | {item.object.uri for item in missed}
    absent = [d for d in plan.decisions if d.landing_date == day and d.decision in _DATA and d.object.uri not in known]
    if absent and not reasons:
        reasons.append(f"{absent[0].object.uri} is not in this batch")
    if not reasons:
        return day, ()
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return None, (f"landing date {day} is not complete, so no row was deleted: {reasons[0]}{more}",)
