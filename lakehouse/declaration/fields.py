"""The kinds of value that fields of a declaration hold, each with what it accepts.

A check raises ValueError with what would be right (`expected …`); what stood there is put before it by `explain`,
so that no check prints a value from the environment. Reads time zones from the system, nothing else.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from datetime import date, time
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    Strict,
)
from pydantic_core import PydanticCustomError

from lakehouse.declaration.column_names import NAME
from lakehouse.declaration.cron import check_cron
from lakehouse.declaration.file_glob import compile_glob
from lakehouse.declaration.problem import nearest
from lakehouse.declaration.yaml_source import Substituted, scalar
from lakehouse.types import ColumnType, parse_type

NOT_AVAILABLE = "not_available"
TOLD = "told"
_SIZES = {"": 1, "b": 1} | {
    f"{letter}{unit}": base**power
    for power, letter in enumerate("kmgt", start=1)
    for unit, base in (("b", 1000), ("ib", 1024))
}


class Values(BaseModel):
    """A frozen part of a declaration; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def not_available(what: str, *, at: str = "") -> PydanticCustomError:
    """The error of a feature that is not available yet; `at` is the field below the place that asks for it."""
    return PydanticCustomError(NOT_AVAILABLE, "{text}", {"text": f"{what} is not available yet", "at": at})


def told(message: str) -> PydanticCustomError:
    """An error whose message already says what stood there."""
    return PydanticCustomError(TOLD, "{text}", {"text": message})


def show(value: object) -> str:
    """A value as the file spells it, shortened; text from the environment as its template."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, (list, dict)):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def later(*values: object) -> BeforeValidator:
    """Refuse these values of a field: they belong to a feature that is not available yet."""

    def check(value: object) -> object:
        if any(type(value) is type(v) and value == v for v in values) or (
            isinstance(value, Substituted) and value in values
        ):
            raise not_available(show(value))
        return value

    return BeforeValidator(check)


def environment_value(value: object) -> object:
    """The value that a text from the environment stands for; any other value as it is."""
    return scalar(str(value)) if isinstance(value, Substituted) else value


def _checked(check: Callable[[str], object]) -> AfterValidator:
    def run(text: str) -> str:
        check(text)
        return text

    return AfterValidator(run)


def matching(pattern: str, expected: str) -> AfterValidator:
    """Accept text that matches as a whole."""
    expression = re.compile(pattern)

    def check(text: str) -> None:
        if not expression.fullmatch(text):
            raise ValueError(f"expected {expected}")

    return _checked(check)


def _timezone(name: str) -> None:
    if name in ("localtime", "posixrules") or name.startswith(("posix/", "right/")):
        # files beside the zones, which Python takes for zones and DuckDB does not
        raise ValueError("expected a time zone such as Europe/Berlin or UTC")
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = sorted(available_timezones())
        near = nearest(name, known) if name else ""
        hint = f"; {near}" if near.startswith("did") else ""
        raise ValueError(f"expected a time zone such as Europe/Berlin or UTC{hint}") from error


_NOTATIONS = ("utf-7", "unicode-escape", "raw-unicode-escape", "idna", "punycode", "undefined")
"""Codecs of Python that write text down by other text."""


def _encoding(name: str) -> str:
    try:
        found = codecs.lookup(name).name
        is_text = "a,1\n".encode(found).decode(found) == "a,1\n" and found not in _NOTATIONS
    except (LookupError, ValueError):
        is_text = False
    if not is_text:
        raise ValueError("expected an encoding of text such as utf-8, utf-16, latin-1, cp1252")
    return "utf-8" if found == "utf-8-sig" else found


def _column_type(value: object) -> ColumnType:
    if not isinstance(value, str):
        raise ValueError("expected a type such as bigint, string, decimal(12,2), timestamptz")
    try:
        return parse_type(value)
    except ValueError as error:
        raise told(str(error)) from error


def _script_name(name: str) -> None:
    parts = name.split("/")
    if "\0" in name or "\\" in name or any(part in ("", ".", "..") for part in parts):
        raise ValueError("expected a file in the folder of the declaration, such as orders.sql")


def _size(given: object) -> int | None:
    value = environment_value(given)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", value.strip().lower()) if isinstance(value, str) else None
    if not found or found[2] not in _SIZES or int(found[1]) == 0:
        raise ValueError("expected bytes above 0, as a whole number or such as 20GB, 512MiB")
    size: int = int(found[1]) * _SIZES[found[2]]
    return size


def _date(value: object) -> date:
    try:
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise ValueError("expected a date such as 2026-08-30")


def _time(value: object) -> time | None:
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value):
        return time.fromisoformat(value)
    raise ValueError('expected a time of day such as "08:00"')


def _strptime(*needed: str) -> AfterValidator:
    """A format must name each of `needed`, a set of directives of which one is enough."""

    def check(text: str) -> None:
        used = set(re.findall(r"%(-?.)", text))
        if unknown := sorted(d for d in used if d.removeprefix("-") not in "aAbBdfgHIjmMnpSyYzZ%"):
            raise ValueError(f"expected directives of strptime, not %{unknown[0]}")
        names = {d.removeprefix("-") for d in used}
        for directives in needed:
            if not names & set(directives):
                raise ValueError(f"expected one of {', '.join('%' + d for d in directives)} in the format")

    return _checked(check)


Text = Annotated[str, Strict()]
Name = Annotated[str, Strict(), matching(NAME, "a name without control characters")]
Switch = Annotated[bool, BeforeValidator(environment_value), Strict()]
Count = Annotated[int, BeforeValidator(environment_value), Strict(), Field(ge=0)]
Positive = Annotated[int, BeforeValidator(environment_value), Strict(), Field(ge=1)]
Ratio = Annotated[float, BeforeValidator(environment_value), Strict(), Field(ge=0, le=1)]
Change = Annotated[float, BeforeValidator(environment_value), Strict(), Field(gt=0)]
Size = Annotated[int | None, PlainValidator(_size)]
Day = Annotated[date, PlainValidator(_date)]
TimeOfDay = Annotated[time | None, PlainValidator(_time)]
Zone = Annotated[str, Strict(), _checked(_timezone)]
Encoding = Annotated[str, Strict(), AfterValidator(_encoding)]
Cron = Annotated[str, Strict(), _checked(check_cron)]
Glob = Annotated[str, Strict(), _checked(compile_glob)]
Character = Annotated[
    str, Strict(), matching(r"[^\x00\r\n]", r'one character such as "," or "\t" in double quotes, no line end')
]
Thousands = Annotated[str, Strict(), matching(r"[.,'’_ \u00a0\u202f]", "one of . , ' ’ _ or a space")]
DateFormat = Annotated[str, Strict(), _strptime("yY", "mbBj", "dj")]
TimestampFormat = Annotated[str, Strict(), _strptime("yY", "mbBj", "dj", "HI")]
RecordsPath = Annotated[str, Strict(), matching(r"[^.]+(\.[^.]+)*", "names joined by dots, such as data.orders")]
ElementName = Annotated[str, Strict(), matching(r"[^\x00-\x20<>/=&'\"]+", "the name of an element, such as order")]
ScriptName = Annotated[str, Strict(), _checked(_script_name)]
TypeOfColumn = Annotated[ColumnType, PlainValidator(_column_type), PlainSerializer(str, return_type=str)]
FolderName = Annotated[str, Strict(), matching(r"[^/=\x00]+", "`date` or the name of a folder name=value")]
Table = Annotated[
    str,
    Strict(),
    # Dagster names its sensor, schedule and pool after the table: letters, digits and _ are what it takes
    matching(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+", "namespace.table of letters, digits and _, such as analytics.orders"),
]
Location = Annotated[
    str,
    Strict(),
    matching(r"[a-z][a-z0-9+.-]*://[^\x00-\x20*]*[^\x00-\x20*/]/*", "a folder such as s3://bucket/warehouse/orders"),
    AfterValidator(lambda uri: uri.rstrip("/")),
]
Context = Annotated[
    str, Strict(), matching(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", "letters, digits, _, . and -, such as orders")
]
Owner = Annotated[
    str,
    Strict(),
    # what Dagster accepts
    matching(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}|team:[^\x00-\x20]+", "an email address or team:<name>"),
]
Group = Annotated[str, Strict(), matching(r"[A-Za-z0-9_]+(/[A-Za-z0-9_]+)*", "letters, digits and _, such as sales")]
TagKey = Annotated[
    str, Strict(), matching(r"([A-Za-z0-9_.-]{1,63}/)?[A-Za-z0-9_.-]{1,63}", "a tag of letters, digits, _, . and -")
]
TagValue = Annotated[str, Strict(), matching(r"[A-Za-z0-9_.-]{0,63}", "at most 63 letters, digits, _, . and -")]
