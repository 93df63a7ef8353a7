"""How loads of one source have gone of late, as numbers: from manifests and records of attempts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import takewhile
from statistics import median

from lakehouse.audit.arrivals import late_days
from lakehouse.bookmark import ACCEPT_FOREIGN, ACCEPT_GATE, DEDUPE, LOAD, MOVES, RULINGS, UNHOLD
from lakehouse.model import Decision, Manifest

PERIOD = timedelta(days=30)
MOST_MANIFESTS = 300
"""So many of the newest manifests are enough for the numbers of a period; a busier source has them of a shorter one."""
MEDIAN_OF = 7
RECOVERIES = MOVES | RULINGS.keys() | {UNHOLD, ACCEPT_GATE, ACCEPT_FOREIGN, DEDUPE}
"""Kinds of changes by which an operator brings a table back on its way."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Of the last 30 days, or of the 300 newest versions where these are fewer.

    `merge_share`: seconds of merging of the seconds of all loads. `staging_variance`: staged rows of the newest load
    against the median of up to 7 before it, 0.5 is half as many again. `late_arrivals`: objects that were written later
    than the declared window after their landing date. `seconds_to_confirmed`: from the first failed attempt at what
    was published next, to its publishing, of the newest such; `open_failure_seconds`: since the first one on the
    bookmark as it stands. None where there is nothing to measure.
    """

    loads: int
    recoveries: int
    late_arrivals: int
    merge_share: float | None
    staging_variance: float | None
    seconds_to_confirmed: float | None
    open_failure_seconds: float | None


def measure_loads(
    newest_first: Iterable[Manifest],
    failures: Sequence[tuple[int, datetime]],
    *,
    version: int,
    now: datetime,
    zone: tzinfo,
) -> Measures:
    """`failures` are the attempts that ended unpublished: the bookmark version that each started from, and when;
    `version` is the bookmark's now."""
    recent = [*takewhile(lambda manifest: manifest.written_at >= now - PERIOD, newest_first)]
    loads = [manifest for manifest in recent if manifest.kind == LOAD]
    return Measures(
        loads=len(loads),
        recoveries=sum(manifest.kind in RECOVERIES for manifest in recent),
        late_arrivals=sum(_late(manifest, zone) for manifest in loads),
        merge_share=_merge_share(loads),
        staging_variance=_staging_variance(loads),
        seconds_to_confirmed=_confirmed(recent, failures),
        open_failure_seconds=_open(failures, version, now),
    )


def _late(manifest: Manifest, zone: tzinfo) -> int:
    return sum(
        item.decision is Decision.CONSUMED
        and item.landing_date is not None
        and late_days(item.object, item.landing_date, zone) > manifest.lookback_days
        for item in manifest.objects
    )


def _merge_share(loads: Sequence[Manifest]) -> float | None:
    whole = sum((load.written_at - load.started_at).total_seconds() for load in loads)
    merging = sum(
        (load.merge_ended_at - load.merge_started_at).total_seconds()
        for load in loads
        if load.merge_started_at is not None and load.merge_ended_at is not None
    )
    return round(merging / whole, 4) if whole > 0 else None


def _staging_variance(loads: Sequence[Manifest]) -> float | None:
    before = [load.rows.staged for load in loads[1 : MEDIAN_OF + 1]]
    middle = median(before) if before else 0
    return round(loads[0].rows.staged / middle - 1, 4) if middle else None


def _confirmed(recent: Sequence[Manifest], failures: Sequence[tuple[int, datetime]]) -> float | None:
    for manifest in recent:
        failed = [at for version, at in failures if version + 1 == manifest.bookmark_version]
        if failed:
            return round((manifest.written_at - min(failed)).total_seconds(), 3)
    return None


def _open(failures: Sequence[tuple[int, datetime]], version: int, now: datetime) -> float | None:
    failed = [at for base, at in failures if base == version and at >= now - PERIOD]
    return round((now - min(failed)).total_seconds(), 3) if failed else None
