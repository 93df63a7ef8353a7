"""A strict check of five-field cron expressions, the subset that schedulers agree on. Pure; computes no times."""

from __future__ import annotations

import re

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_LONGEST_MONTH = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
_ITEM = re.compile(r"(?P<first>\*|[a-z0-9]+)(?:-(?P<last>[a-z0-9]+))?(?:/(?P<step>[0-9]+))?")


def check_cron(text: str) -> None:
    """Raise ValueError, saying what would be right, unless `text` is a cron expression that fires some day."""
    parts = text.lower().split()
    if len(parts) != len(_FIELDS):
        raise ValueError('expected five fields (minute, hour, day, month, weekday) such as "0 6 * * *"')
    values = [_field(part, field) for part, field in zip(parts, _FIELDS, strict=True)]
    days, months = values[2], values[3]
    if parts[4] == "*" and all(min(days) > _LONGEST_MONTH.get(month, 31) for month in months):
        raise ValueError(f"expected a day that exists, month={min(months)} has no day {min(days)}")


def _field(part: str, field: tuple[str, int, int, tuple[str, ...]]) -> set[int]:
    name, low, high, names = field
    values: set[int] = set()
    for text in part.split(","):
        item = _ITEM.fullmatch(text)
        wrong = ValueError(f"expected {name} as {low}-{high}, *, a range a-b, a step */n or a list of these")
        if not item or (item["first"] == "*" and item["last"]):
            raise wrong
        first = low if item["first"] == "*" else _number(item["first"], names, low)
        single = high if item["first"] == "*" else first
        last = _number(item["last"], names, low) if item["last"] else single
        step = int(item["step"] or 1)
        if item["step"] and item["first"] != "*" and not item["last"]:
            raise wrong
        if first is None or last is None or not low <= first <= last <= high or step == 0:
            raise wrong
        values.update(range(first, last + 1, step))
    return values


def _number(text: str, names: tuple[str, ...], low: int) -> int | None:
    if text in names:
        return names.index(text) + low
    return int(text) if text.isdecimal() else None
