"""Lets a batch pass one gate that has refused it: a published change like every operator's.

It binds to the objects that the gate was asked about and to the declaration, not to the batch's id: the next load of
exactly these passes, whoever runs it, and anything else is blocked again. Nothing is loaded here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from lakehouse.accepted import accepted_for
from lakehouse.attempt import AttemptRecord
from lakehouse.audit.status import attempt_of, published_version
from lakehouse.bookmark import ACCEPT_GATE
from lakehouse.errors import UsageError
from lakehouse.gate import accept_command
from lakehouse.model import Acceptance, Bookmark, Decision, GateResult, State, Window
from lakehouse.operate.object_change import list_source
from lakehouse.operate.operator_change import (
    Decided,
    Operator,
    change_id,
    decide,
    publish_and_tell,
    with_table,
)
from lakehouse.placement import landing_date
from lakehouse.plan import decide_objects
from lakehouse.position import Position, find_position
from lakehouse.services import Services

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

_READABLE = (Decision.PLANNED, Decision.DEFERRED, Decision.CONSUMED, Decision.QUARANTINED)
"""What a load, in one of its modes, can still read."""


@dataclass(frozen=True, slots=True)
class GateAcceptance:
    """What an acceptance did, or would do. `state`: committed; nothing_to_do where the gate is accepted or the batch is
    loaded already, and for a dry run. `value` and `limit` are those of the gate, None for a batch without a record."""

    table: str
    context: str
    batch_id: str
    gate: str
    state: State
    dry_run: bool
    bookmark_version: int
    snapshot_id: int | None
    author: str
    reason: str
    value: float | int | str | None = None
    limit: float | int | str | None = None
    detail: str = ""
    objects: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    ledger: str = "ok"
    next: str = ""


def accept_gate(
    declaration: Declaration, batch_id: str, gate: str, operator: Operator, services: Services, *, dry_run: bool = False
) -> GateAcceptance:
    """Let the next load of the batch's objects under this declaration pass the gate; a dry run only tells.

    Raises UsageError for a batch that is not known, did not end at that gate or cannot be loaded as it was any more,
    what `find_position` and `discover` raise, LeaseHeld, and Conflict if others always commit first.
    """

    def once() -> GateAcceptance | None:
        position = find_position(declaration, services)
        tag = position.target.tag
        told = GateAcceptance(
            table=declaration.table,
            context=declaration.context,
            batch_id=batch_id,
            gate=gate,
            state=State.NOTHING_TO_DO,
            dry_run=dry_run,
            bookmark_version=position.bookmark.version,
            snapshot_id=tag.snapshot_id if tag else None,
            author=operator.author,
            reason=operator.reason,
        )
        if (version := published_version(position, services, batch_id)) is not None:
            text = f"the batch is committed as bookmark version {version}: there is nothing to accept"
            return replace(told, warnings=(text,))
        record = _blocked_attempt(declaration, position, services, batch_id)
        refused = _refused_gate(record, gate)
        told = replace(
            told, value=refused.value, limit=refused.limit, detail=refused.detail,
            objects=tuple(uri for uri, _, _ in record.objects), next=_after(record, gate, position.bookmark),
        )  # fmt: skip
        if why := _done(record, gate, position.bookmark, declaration=declaration.hash):
            return replace(told, warnings=(why,))
        _refuse_another_batch(declaration, record, position.bookmark, services)
        if dry_run:
            return told
        return _publish(declaration, position, record, told, operator, services)

    return decide(declaration, operator, services, ACCEPT_GATE, once, dry_run=dry_run)


def _blocked_attempt(declaration: Declaration, position: Position, services: Services, batch_id: str) -> AttemptRecord:
    record = attempt_of(declaration, position, services, batch_id)
    if record is None:
        raise UsageError(
            f"no such batch: table={declaration.table} context={declaration.context} batch={batch_id}",
            next=f"lakehouse status {declaration.table}",
        )
    if record.state is not State.BLOCKED:
        raise UsageError(
            f"no gate has refused the batch: batch={batch_id} state={record.state.value} step={record.step}: "
            f"{record.error}",
            next=record.command or f"lakehouse load {declaration.table}",
        )
    return record


def _refused_gate(record: AttemptRecord, gate: str) -> GateResult:
    failed = [g for g in record.gates if g.stops]
    found = next((g for g in failed if g.name == gate), None)
    if found is None:
        asked = next((g for g in record.gates if g.name == gate), None)
        known = "was not asked" if asked is None else "passed" if asked.passed else f"is {asked.accepted}"
        raise UsageError(
            f"gate {gate} {known}, so there is nothing to accept: batch={record.batch_id} "
            f"failed={', '.join(g.name for g in failed)}",
            next=accept_command(record.batch_id, failed[0].name),
        )
    return found


def _after(record: AttemptRecord, gate: str, bookmark: Bookmark) -> str:
    """The command that comes after the acceptance: of the next gate that has refused the batch, or the load."""
    accepted = accepted_for(bookmark.accepted, record.objects, declaration=record.declaration)
    left = [g.name for g in record.gates if g.stops and g.name != gate and g.name not in accepted]
    return accept_command(record.batch_id, left[0]) if left else record.command


def _done(record: AttemptRecord, gate: str, bookmark: Bookmark, *, declaration: str) -> str:
    """Why there is nothing to decide; empty if there is."""
    known = accepted_for(bookmark.accepted, record.objects, declaration=declaration).get(gate)
    if known is not None and record.declaration == declaration:
        return f"it is {known.text}"
    seen = [bookmark.seen.get(uri) for uri, _, _ in record.objects]
    read = [
        item
        for item, identity in zip(seen, record.objects, strict=True)
        if item is not None and item.object.identity == identity and item.bookmark_version > record.bookmark_version
    ]
    if read and len(read) == len(record.objects):
        return f"its objects are loaded already: batch={read[-1].batch_id} bookmark_version={read[-1].bookmark_version}"
    return ""


def _refuse_another_batch(
    declaration: Declaration, record: AttemptRecord, bookmark: Bookmark, services: Services
) -> None:
    """Raise UsageError if no load could make the batch again: its acceptance would never count."""
    again = f"lakehouse load {declaration.table}"
    if record.declaration != declaration.hash:
        raise UsageError(
            f"the declaration is another than the one that the batch was refused under: batch={record.batch_id} "
            f"declaration={record.declaration} now={declaration.hash}",
            next=again,
        )
    days = [landing_date(uri, source=declaration.source) for uri, _, _ in record.objects]
    known = [day for day in days if day is not None]
    window = Window(min(known), max(known)) if known and len(known) == len(days) else Window()
    decided = decide_objects(
        [uri for uri, _, _ in record.objects],
        declaration=declaration,
        bookmark=bookmark,
        listing=list_source(declaration, services, window),
        now=services.now(),
    )
    for uri, etag, version_id in record.objects:
        found = decided.get(uri)
        if found is None or found.object.identity != (uri, etag, version_id):
            why = "it is not listed any more" if found is None else "it was overwritten"
        elif found.decision not in _READABLE:
            why = f"it is {found.decision.value}: {found.reason}"
        else:
            continue
        raise UsageError(f"the batch cannot be loaded as it was: batch={record.batch_id} uri={uri}: {why}", next=again)


def _publish(
    declaration: Declaration,
    position: Position,
    record: AttemptRecord,
    told: GateAcceptance,
    operator: Operator,
    services: Services,
) -> GateAcceptance | None:
    started_at: datetime = services.now()
    position, live = with_table(declaration, position, services)
    acceptance = Acceptance(
        gate=told.gate,
        author=operator.author,
        reason=operator.reason,
        since=started_at,
        declaration=record.declaration,
        objects=tuple(sorted(record.objects, key=lambda identity: identity[0])),
        bookmark_version=position.bookmark.version + 1,
    )
    decided = Decided(
        kind=ACCEPT_GATE,
        batch_id=change_id(declaration, position, f"{ACCEPT_GATE} {told.gate} {record.batch_id}"),
        attempt_id=services.new_id(),
        live=live,
        started_at=started_at,
        accepted=(acceptance,),
    )
    reason = f"gate {told.gate} of batch {record.batch_id}: {operator.reason}"
    return publish_and_tell(told, declaration, position, decided, replace(operator, reason=reason), services)
