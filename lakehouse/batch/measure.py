"""Measures what the gates ask of a staged batch: ratios, control files, rows of earlier dates. Reads only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING

from lakehouse.bookmark import LOAD
from lakehouse.gate import Measured
from lakehouse.merge.supersede import Superseded
from lakehouse.model import Bookmark, Decision, ObjectOutcome
from lakehouse.placement import control_uri
from lakehouse.services import Services
from lakehouse.state import walk
from lakehouse.storage import Storage

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

HISTORY = 60
"""`row_count_change` looks back at most this many batches."""


def measure(
    declaration: Declaration,
    outcomes: Sequence[ObjectOutcome],
    *,
    superseded: Superseded,
    bookmark: Bookmark,
    landing: Storage,
    services: Services,
    scheduled: bool,
) -> Measured:
    """Everything that `gate.evaluate` compares. Quarantined objects count nowhere: they have a state of their own."""
    consumed = [o for o in outcomes if o.decision is Decision.CONSUMED]
    history: dict[date, dict[str, int]] = {}
    if declaration.gates.row_count_change is not None and scheduled:
        history = _history(bookmark, services)
    touched = {o.landing_date for o in consumed if o.landing_date is not None}
    for item in consumed:
        if item.landing_date is not None:
            history.setdefault(item.landing_date, {})[item.object.uri] = item.rows.staged
    totals = {day: sum(rows.values()) for day, rows in history.items()}
    return Measured(
        records=sum(o.rows.read for o in consumed),
        rejected=sum(o.rows.rejected for o in consumed),
        staged=sum(o.rows.staged for o in consumed),
        superseded=superseded.rows,
        conflicting=superseded.conflicting,
        dates={day: n for day, n in totals.items() if day in touched},
        earlier={day: n for day, n in totals.items() if day not in touched},
        control=_control(declaration, consumed, landing),
    )


def _history(bookmark: Bookmark, services: Services) -> dict[date, dict[str, int]]:
    """Staged rows of the latest version of every object, by landing date, from the last batches."""
    history: dict[date, dict[str, int]] = {}
    for manifest, _ in islice(walk(services.state, bookmark.head), HISTORY):
        for item in manifest.objects:
            if item.landing_date is not None and manifest.kind == LOAD:
                history.setdefault(item.landing_date, {}).setdefault(item.object.uri, item.rows.staged)
    return history


def _control(
    declaration: Declaration, outcomes: Sequence[ObjectOutcome], landing: Storage
) -> dict[str, tuple[int | None, int]]:
    template = declaration.gates.control_file
    if template is None:
        return {}
    keys = [landing.key(control_uri(o.object.uri, template)) for o in outcomes]
    return {
        o.object.uri: (_number(data), o.rows.read) for o, data in zip(outcomes, landing.read_many(keys), strict=True)
    }


def _number(data: bytes | None) -> int | None:
    text = data.decode("utf-8", "replace").strip() if data is not None else ""
    return int(text) if re.fullmatch(r"\d{1,18}", text) else None
