"""Marks of landing dates that change with their objects: what a sensor remembers instead of the objects. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from lakehouse.model import LandingObject
from lakehouse.placement import is_marker, landing_date
from lakehouse.plan import settles_at

if TYPE_CHECKING:
    from lakehouse.declaration import Source


def fingerprints(listing: Sequence[LandingObject], *, source: Source, now: datetime) -> dict[str, str]:
    """16 hex digits per landing date (ISO, "" for an undated source) that change when its objects do.

    An object counts once it has settled, so that a date whose objects were too young when it was asked for changes
    again. Control files and empty objects count, since their arrival can unblock a load; folder markers and objects
    without a date do not.
    """
    identities: dict[str, list[tuple[str, str, str]]] = {}
    for obj in listing:
        day = landing_date(obj.uri, source=source)
        if is_marker(obj.uri) or (source.landing and day is None) or settles_at(obj, source, now):
            continue
        identities.setdefault(day.isoformat() if day else "", []).append((obj.uri, obj.etag, obj.version_id or ""))
    return {
        day: hashlib.sha256(json.dumps(sorted(found)).encode()).hexdigest()[:16]
        for day, found in sorted(identities.items())
    }
