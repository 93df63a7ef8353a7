"""Which gates operators let which batches pass, and how long such a word counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from lakehouse.model import Acceptance, Bookmark, LandingObject, Plan

Identity: TypeAlias = tuple[str, str, str | None]
"""Of an object: uri, etag, version id."""


def accepted_for(
    accepted: Iterable[Acceptance], objects: Iterable[Identity], *, declaration: str
) -> dict[str, Acceptance]:
    """By gate, what operators accepted for a batch of exactly these objects under that declaration."""
    wanted = frozenset(objects)
    return {one.gate: one for one in accepted if one.declaration == declaration and wanted == frozenset(one.objects)}


def accepted_versions(bookmark: Bookmark, *, declaration: str) -> dict[Identity, int]:
    """By object, the bookmark version at which a gate was last accepted for a batch that holds it."""
    return {
        key: one.bookmark_version for one in bookmark.accepted if one.declaration == declaration for key in one.objects
    }


def still_accepted(
    bookmark: Bookmark, objects: Iterable[LandingObject], *, declaration: str, advance: bool
) -> tuple[Acceptance, ...]:
    """What counts after a batch: an acceptance ends when an object of it was read, or with its declaration."""
    read = {item.uri for item in objects} if advance else set()
    return tuple(
        one
        for one in bookmark.accepted
        if one.declaration == declaration and not any(uri in read for uri, _, _ in one.objects)
    )


def with_accepted(plan: Plan, accepted: Sequence[Acceptance]) -> Plan:
    """Say which batches pass a gate by an operator's word, and which words are about other batches."""
    told = {
        one: f"gate {one.gate} of batch {number}: {one.text}"
        for number, batch in enumerate(plan.batches, start=1)
        for one in accepted_for(
            accepted, [item.object.identity for item in batch], declaration=plan.declaration
        ).values()
    }
    planned = {item.object.uri for batch in plan.batches for item in batch}
    other = [
        f"gate {one.gate} will be asked again, for other objects or another declaration than it is {one.text}"
        for one in accepted
        if one not in told and any(uri in planned for uri, _, _ in one.objects)
    ]
    return replace(plan, accepted=tuple(told.values()), warnings=(*plan.warnings, *other))
