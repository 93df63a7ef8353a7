"""Reads again the objects whose rejects stand, once the declaration was mended: a bookmark change, then a load.

The change is published first, so a process that dies between the two leaves the objects planned: the next load of
anybody reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.audit.attempts import open_attempts
from lakehouse.audit.status import knows_batch, objects_with_rejects
from lakehouse.bookmark import REPLAY
from lakehouse.errors import UsageError
from lakehouse.ingest import LoadRequest, ingest
from lakehouse.model import Decision, ObjectDecision, Receipt, Window
from lakehouse.operate.object_change import (
    ObjectChange,
    Proposal,
    forgotten_deletes,
    list_source,
    publish_proposal,
)
from lakehouse.operate.operator_change import Operator, decide
from lakehouse.placement import landing_date
from lakehouse.plan import decide_objects
from lakehouse.position import Position, find_position
from lakehouse.services import Services

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


_ANYWAY = (Decision.PLANNED, Decision.DEFERRED)


@dataclass(frozen=True, slots=True)
class Replay:
    """What was decided, and the load that carried it out; no receipt if there was nothing to read again, and for a dry
    run."""

    change: ObjectChange
    receipt: Receipt | None = None


def replay_rejects(
    declaration: Declaration,
    operator: Operator,
    services: Services,
    *,
    batch_id: str | None = None,
    dry_run: bool = False,
) -> Replay:
    """Plan every object whose rejects stand to be read again, of one batch or of all, and load.

    The load is an ordinary one: it reads what else is unseen too. Raises UsageError for an unknown batch, what
    `find_position` and `discover` raise, LeaseHeld, and Conflict if others always commit first; what the load meets is
    told by its receipt.
    """
    to_load: list[bool] = []

    def once() -> ObjectChange | None:
        position = find_position(declaration, services)
        proposal, waiting = _propose(declaration, position, batch_id, services)
        to_load.append(waiting or bool(proposal.objects))
        return publish_proposal(declaration, position, proposal, operator, services, dry_run=dry_run)

    change = decide(declaration, operator, services, REPLAY, once, dry_run=dry_run)
    if dry_run or not to_load[-1]:
        return Replay(change)
    return Replay(change, ingest(declaration, LoadRequest(run_id=operator.run_id), services))


def knowing_batch(
    declarations: Sequence[Declaration], batch_id: str | None, services: Services
) -> tuple[Declaration, ...]:
    """Of several sources those that know a batch; all if none is asked for, or if none knows it."""
    if batch_id is None or len(declarations) == 1:
        return tuple(declarations)
    known = tuple(one for one in declarations if knows_batch(one, find_position(one, services), services, batch_id))
    return known or tuple(declarations)


def _propose(
    declaration: Declaration, position: Position, batch_id: str | None, services: Services
) -> tuple[Proposal, bool]:
    """The change, and whether the next load reads rejects again without it: of objects that are to be read anyway, of a
    batch that a gate has blocked."""
    if batch_id is not None and not knows_batch(declaration, position, services, batch_id):
        raise UsageError(
            f"table {declaration.table} has no batch of that id: batch_id={batch_id}",
            next=f"lakehouse batches {declaration.table}",
        )
    uris = objects_with_rejects(position, services, batch_id=batch_id)
    now = services.now()
    found = decide_objects(
        uris,
        declaration=declaration,
        bookmark=position.bookmark,
        listing=list_source(declaration, services, _window(declaration, uris)) if uris else (),
        now=now,
    )
    again = tuple(item for item in found.values() if item.decision is Decision.CONSUMED)
    blocked = [
        record.batch_id
        for record in open_attempts(declaration, position, services)
        if record.rejects is not None and batch_id in (None, record.batch_id)
    ]
    told = [f"{uri} is not listed any more: its rejects cannot be read again" for uri in uris if uri not in found]
    told += forgotten_deletes(declaration, again, position.bookmark, now=now)
    told += [_not_again(uri, item) for uri, item in found.items() if item.decision is not Decision.CONSUMED]
    told += [f"batch {one} was not published: its objects are to be read anyway" for one in dict.fromkeys(blocked)]
    if not uris and not blocked:
        told.append("no rejects stand" + (f" of batch {batch_id}" if batch_id else ""))
    waiting = bool(blocked) or any(item.decision in _ANYWAY for item in found.values())
    next_step = f"lakehouse load {declaration.table}" if again or waiting else ""
    return Proposal(REPLAY, again, tuple(told), next_step), waiting


def _not_again(uri: str, item: ObjectDecision) -> str:
    if item.decision in _ANYWAY:
        return f"{uri} is to be read anyway: {item.reason}"
    return f"{uri} is not read again, it is {item.decision.value}: {item.reason}"


def _window(declaration: Declaration, uris: Sequence[str]) -> Window:
    """The landing dates of the objects; open where one has none."""
    days = [landing_date(uri, source=declaration.source) for uri in uris]
    dated = [day for day in days if day is not None]
    return Window(min(dated), max(dated)) if dated and len(dated) == len(days) else Window()
