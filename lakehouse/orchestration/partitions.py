"""Daily partitions: one landing date is one partition, in the declared time zone, today included (INTERFACE, Dates)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import dagster as dg

from lakehouse.model import Window

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

RunContext = dg.AssetExecutionContext | dg.AssetCheckExecutionContext | dg.OpExecutionContext


def daily_partitions(declaration: Declaration) -> dg.DailyPartitionsDefinition | None:
    """The partitions of the asset; None if its sources are undated."""
    if not declaration.dated:
        return None
    return dg.DailyPartitionsDefinition(
        start_date=declaration.start_date.isoformat(), timezone=declaration.timezone, end_offset=1
    )


def check_partitions(declaration: Declaration) -> dg.DailyPartitionsDefinition | None:
    """The partitions of the checks. A run over a range would leave partitioned checks without an evaluation, so they
    have none where ranges are one run."""
    return daily_partitions(declaration) if declaration.backfill == "partition" else None


def today(declaration: Declaration, now: datetime) -> date:
    """The day it is in the declared zone."""
    return now.astimezone(ZoneInfo(declaration.timezone)).date()


def known_dates(declaration: Declaration, dates: Sequence[date], *, now: datetime) -> tuple[date, ...]:
    """Those that are partitions by now: not before the start and not after today."""
    return tuple(day for day in dates if declaration.start_date <= day <= today(declaration, now))


def partition_keys(context: RunContext) -> tuple[str, ...]:
    """The partitions of the run, one per day: its own, those of its range, or none.

    A job of checks alone has no partitions definition, so a range is counted out here.
    """
    if context.has_partition_key:
        return (context.partition_key,)
    if not context.has_partition_key_range:
        return ()
    asked = context.partition_key_range
    first, last = date.fromisoformat(asked.start), date.fromisoformat(asked.end)
    return tuple((first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1))


def window_of(keys: Sequence[str]) -> Window:
    """The landing dates of these partitions, from the first to the last; open if there are none."""
    if not keys:
        return Window()
    return Window(date.fromisoformat(keys[0]), date.fromisoformat(keys[-1]))
