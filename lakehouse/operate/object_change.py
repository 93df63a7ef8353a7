"""What an operator decides about landing objects: skip one, take that or a quarantine back, read one again.

Owns who may decide what about which object, and says what follows. A decision is about one version of one object; it is
published as every operator's change (`lakehouse.operate.operator_change`) and carried out by the plan of the next load.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from lakehouse.bookmark import RELEASE, RELOAD, REPLAY, RULINGS, SKIP, first_seen, narrowed
from lakehouse.errors import UsageError
from lakehouse.graves import remembered_since
from lakehouse.landing import discover
from lakehouse.model import (
    Bookmark,
    Decision,
    LandingObject,
    ObjectDecision,
    ObjectOutcome,
    SeenObject,
    State,
    Window,
)
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
from lakehouse.storage import open_root

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

_SAID = {SKIP: "skipped", RELEASE: "released", RELOAD: "to be read again", REPLAY: "to be read again for its rejects"}
_WAITING = (Decision.PLANNED, Decision.DEFERRED)
_CHANGES = {
    SKIP: (*_WAITING, Decision.CONSUMED, Decision.QUARANTINED),
    RELEASE: (Decision.SKIPPED, Decision.QUARANTINED),
    RELOAD: (Decision.CONSUMED, Decision.QUARANTINED, Decision.SKIPPED),
}
"""The decisions that each change takes an object out of."""
_ALREADY = {SKIP: (Decision.SKIPPED,), RELEASE: _WAITING, RELOAD: _WAITING}
"""The decisions that are what the change asks for."""
_MOST_SEARCHED = 2000


@dataclass(frozen=True, slots=True)
class Ruled:
    """One object that was decided about: what a load would have done with it, and what it is to do now."""

    uri: str
    landing_date: str | None
    before: Decision
    before_reason: str
    after: Decision
    after_reason: str


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """What a change did, or would do. `change` is its kind in the ledger; `state`: committed; nothing_to_do where it is
    as it was asked for already, and for a dry run."""

    table: str
    context: str
    change: str
    state: State
    dry_run: bool
    bookmark_version: int
    snapshot_id: int | None
    author: str
    reason: str
    objects: tuple[Ruled, ...] = ()
    warnings: tuple[str, ...] = ()
    ledger: str = "ok"
    next: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a change is to publish on one position. Nothing is published without objects."""

    kind: str
    objects: tuple[ObjectDecision, ...]
    warnings: tuple[str, ...] = ()
    next: str = ""


def change_object(
    declaration: Declaration, uri: str, kind: str, operator: Operator, services: Services, *, dry_run: bool = False
) -> ObjectChange:
    """Skip (`bookmark.SKIP`), release or reload one object; a dry run only tells.

    Raises UsageError for an object that nobody knows or that the change cannot be about, what `find_position` and
    `discover` raise, LeaseHeld, and Conflict if others always commit first.
    """

    def once() -> ObjectChange | None:
        position = find_position(declaration, services)
        proposal = _propose(declaration, uri, kind, position.bookmark, services)
        return publish_proposal(declaration, position, proposal, operator, services, dry_run=dry_run)

    return decide(declaration, operator, services, kind, once, dry_run=dry_run)


def publish_proposal(
    declaration: Declaration,
    position: Position,
    proposal: Proposal,
    operator: Operator,
    services: Services,
    *,
    dry_run: bool,
) -> ObjectChange | None:
    """Publish what is proposed, and report it. None if others committed first: propose again."""
    started_at, attempt_id = services.now(), services.new_id()
    bookmark = position.bookmark
    outcomes = tuple(
        ObjectOutcome(
            item.object,
            item.landing_date,
            RULINGS[proposal.kind],
            f"{_SAID[proposal.kind]} by {operator.author}: {operator.reason}",
            first_seen(bookmark, item.object, now=started_at),
        )
        for item in proposal.objects
    )
    tag = position.target.tag
    told = ObjectChange(
        table=declaration.table,
        context=declaration.context,
        change=proposal.kind,
        state=State.NOTHING_TO_DO,
        dry_run=dry_run,
        bookmark_version=bookmark.version,
        snapshot_id=tag.snapshot_id if tag else None,
        author=operator.author,
        reason=operator.reason,
        objects=tuple(map(_ruled, proposal.objects, outcomes)),
        warnings=proposal.warnings,
        next=proposal.next,
    )
    if dry_run or not outcomes:
        return told
    position, live = with_table(declaration, position, services)
    decided = Decided(
        kind=proposal.kind,
        batch_id=change_id(declaration, position, proposal.kind, outcomes),
        attempt_id=attempt_id,
        live=live,
        started_at=started_at,
        objects=outcomes,
    )
    return publish_and_tell(told, declaration, position, decided, operator, services)


def list_source(declaration: Declaration, services: Services, window: Window) -> tuple[LandingObject, ...]:
    """The objects of the source now, of a window alone where its days have prefixes."""
    return discover(open_root(declaration.source.uri, services.env), declaration.source, window)


def _ruled(item: ObjectDecision, outcome: ObjectOutcome) -> Ruled:
    day = item.landing_date.isoformat() if item.landing_date else None
    return Ruled(item.object.uri, day, item.decision, item.reason, outcome.decision, outcome.reason)


def _propose(declaration: Declaration, uri: str, kind: str, bookmark: Bookmark, services: Services) -> Proposal:
    day = landing_date(uri, source=declaration.source)
    listing = list_source(declaration, services, Window(day, day))
    now = services.now()
    decided = decide_objects([uri], declaration=declaration, bookmark=bookmark, listing=listing, now=now)
    found = decided[uri] if decided else _known(uri, kind, declaration, bookmark, listing)
    partition = f" --partition {found.landing_date}" if found.landing_date else ""
    command = "plan" if kind == SKIP else "load"
    next_step = f"lakehouse {command} {declaration.table}{partition}"
    if found.decision in _ALREADY[kind]:
        told = f"it is {found.decision.value} already: {found.reason}"
        return Proposal(kind, (), warnings=(told,), next=next_step)
    if found.decision not in _CHANGES[kind]:
        raise UsageError(
            f"{found.decision.value}, so there is nothing to {kind.removeprefix('object-')}: uri={uri}: {found.reason}",
            next=f"lakehouse object reload {shlex.quote(uri)} --reason TEXT"
            if found.decision is Decision.CONSUMED
            else f"lakehouse plan {declaration.table}",
        )
    if kind == SKIP:
        warnings = _without(declaration, found, bookmark)
    else:
        warnings = forgotten_deletes(declaration, (found,), bookmark, now=now)
    return Proposal(kind, (found,), warnings, next_step)


def _known(
    uri: str, kind: str, declaration: Declaration, bookmark: Bookmark, listing: Sequence[LandingObject]
) -> ObjectDecision:
    """An object that is not listed any more. A decision about it can be taken back, and nothing else.

    Raises UsageError otherwise.
    """
    known = bookmark.rulings.get(uri) or bookmark.seen.get(uri)
    if known is None:
        near = near_names(uri, listing, bookmark)
        raise UsageError(
            f"no such object: it is not listed and no batch has seen it: uri={uri}; {near}",
            next=f"lakehouse plan {declaration.table}",
        )
    if kind != RELEASE or known.decision in (Decision.CONSUMED, Decision.PLANNED):
        raise UsageError(
            f"the object is not listed any more, so no load can read it: uri={uri} {_standing(known)}",
            next=f"land it again, then lakehouse load {declaration.table}",
        )
    return ObjectDecision(known.object, known.landing_date, known.decision, f"{known.reason}; not listed any more")


def _standing(known: SeenObject) -> str:
    return f"decision={known.decision.value} bookmark_version={known.bookmark_version}"


def near_names(uri: str, listing: Sequence[LandingObject], bookmark: Bookmark) -> str:
    """The names that are most like it: of its folder, else of its landing date or source."""
    folder = uri.rpartition("/")[0] + "/"
    around = bookmark.seen.around(uri, _MOST_SEARCHED)
    known = dict.fromkeys((*(item.uri for item in listing), *around, *bookmark.rulings))
    searched = [name for name in known if name.startswith(folder)] or list(known)
    close = get_close_matches(uri, searched[:_MOST_SEARCHED], n=3)
    return f"near is {', '.join(close)}" if close else "none that is known has a name like it"


def forgotten_deletes(
    declaration: Declaration, items: Sequence[ObjectDecision], bookmark: Bookmark, *, now: datetime
) -> tuple[str, ...]:
    """That objects are so old that deletes of their rows are not remembered any more."""
    since = remembered_since(declaration, now)
    bookmark = narrowed(bookmark, [item.object.uri for item in items])
    old = [item for item in items if first_seen(bookmark, item.object, now=now) < since]
    if not declaration.hard_deletes or not old:
        return ()
    return (
        f"deletes before {since.date()} are forgotten: rows of {old[0].object.uri} that other objects have deleted "
        "come back, unless these are read again too",
    )


def _without(declaration: Declaration, item: ObjectDecision, bookmark: Bookmark) -> tuple[str, ...]:
    """What an operator should know before an object is skipped, by the write mode."""
    day = item.landing_date
    told = []
    if declaration.write == "replace_partition":
        told.append(f"{day} is replaced without this object from now on: rows of it that the table has go with that")
    elif item.object.uri in bookmark.seen or item.object.uri in bookmark.paused:
        told.append("rows of it that the table has stay there")
    if declaration.write == "snapshot":
        told.append(f"as long as {day} is the newest date that is read, no absent row vanishes: not all of it is known")
    return tuple(told)
