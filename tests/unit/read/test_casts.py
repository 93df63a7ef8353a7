"""Strict casts: what is accepted keeps its value, what would be bent is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import NotAvailable
from lakehouse.read.casts import CastRules, cast
from lakehouse.types import parse_type

REFUSED = None


def naive(*parts: int) -> datetime:
    """A time without a zone."""
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        yield con


def value_of(con: duckdb.DuckDBPyConnection, kind: str, text: str, rules: CastRules | None = None) -> Any:
    sql = cast(parse_type(kind), "x", rules or CastRules())
    (row,) = con.execute(f"SELECT {sql} FROM (SELECT $text::VARCHAR AS x)", {"text": text}).fetchall()
    return row[0]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "5", 5),
        ("int", " +5\t", 5),
        ("int", "007", 7),
        ("int", "-0", 0),
        ("int", "5.00", 5),
        ("int", "2147483648", REFUSED),
        ("long", "9223372036854775807", 9223372036854775807),
        ("long", "9223372036854775808", REFUSED),
        ("long", "12.75", REFUSED),
        ("long", "0x1F", REFUSED),
        ("long", "1_000", REFUSED),
        ("long", "1e3", REFUSED),
        ("long", "", REFUSED),
        ("long", "5\n", REFUSED),
        ("decimal(10,2)", "1.1", Decimal("1.10")),
        ("decimal(10,2)", "1.100", Decimal("1.10")),
        ("decimal(10,2)", "1.1005", REFUSED),
        ("decimal(10,2)", "007.50", Decimal("7.50")),
        ("decimal(10,2)", ".5", Decimal("0.50")),
        ("decimal(10,2)", "99999999.99", Decimal("99999999.99")),
        ("decimal(10,2)", "100000000", REFUSED),
        ("decimal(10,2)", "1e2", REFUSED),
        ("decimal(10,2)", "1,5", REFUSED),
        ("decimal(10,2)", ".", REFUSED),
        ("decimal(5,0)", "7.0", Decimal(7)),
        ("decimal(5,0)", "7.5", REFUSED),
        (
            "decimal(38,10)",
            "9999999999999999999999999999.9999999999",
            Decimal("9999999999999999999999999999.9999999999"),
        ),
        ("double", "0.1", 0.1),
        ("double", "12.50", 12.5),
        ("double", "1E5", 100000.0),
        ("double", "0.10000000000000001", 0.1),
        ("double", "0.100000000000000012", REFUSED),
        ("double", "9007199254740992", 9007199254740992.0),
        ("double", "9007199254740993", REFUSED),
        ("double", "1e400", REFUSED),
        ("double", "1e-400", REFUSED),
        ("double", "0e5", 0.0),
        ("double", "inf", REFUSED),
        ("double", "nan", REFUSED),
        ("float", "16777216", 16777216.0),
        ("float", "16777217", REFUSED),
        ("float", "1e39", REFUSED),
        ("boolean", "TRUE", True),
        ("boolean", " n ", False),
        ("boolean", "2", REFUSED),
        ("date", "2026-01-05", date(2026, 1, 5)),
        ("date", " 2026-01-05 ", date(2026, 1, 5)),
        ("date", "26-01-05", REFUSED),
        ("date", "2026-1-5", REFUSED),
        ("date", "2026-02-30", REFUSED),
        ("date", "2026-01-05 23:59", REFUSED),
        ("date", "infinity", REFUSED),
        ("date", "epoch", REFUSED),
        ("date", "0044-03-15 (BC)", REFUSED),
        ("date", "12026-01-05", REFUSED),
        ("time", "12:30", time(12, 30)),
        ("time", "12:30:01.1234560", time(12, 30, 1, 123456)),
        ("time", "12:30:01.1234567", REFUSED),
        ("time", "24:00:00", REFUSED),
        ("time", "12:30:00+02", REFUSED),
        ("timestamp", "2026-01-05 10:00:00", naive(2026, 1, 5, 10)),
        ("timestamp", "2026-01-05T10:00", naive(2026, 1, 5, 10)),
        ("timestamp", "2026-01-05 10:00:00.1234560", naive(2026, 1, 5, 10, 0, 0, 123456)),
        ("timestamp", "2026-01-05 10:00:00.1234567", REFUSED),
        ("timestamp", "2026-01-05 24:00:00", REFUSED),
        ("timestamp", "2026-01-05 10:00:00Z", REFUSED),
        ("timestamp", "2026-01-05", REFUSED),
        ("timestamp", "-infinity", REFUSED),
        ("timestamp", "0044-03-15 00:00:00 (BC)", REFUSED),
        ("timestamptz", "2026-01-05T10:00:00Z", datetime(2026, 1, 5, 10, tzinfo=UTC)),
        ("timestamptz", "2026-01-05 10:00:00.5+05:30", datetime(2026, 1, 5, 4, 30, 0, 500000, tzinfo=UTC)),
        ("timestamptz", "2026-01-05 10:00:00-0030", datetime(2026, 1, 5, 10, 30, tzinfo=UTC)),
        ("timestamptz", "2026-01-05 10:00:00", datetime(2026, 1, 5, 10, tzinfo=UTC)),
        ("timestamptz", "2026-01-05 10:00:00+25:00", REFUSED),
        ("timestamptz", "2026-01-05 10:00:00+05:61", REFUSED),
        ("timestamptz", "2026-01-05 24:00:00Z", REFUSED),
        ("timestamptz", "2026-01-05 10:00:00 Europe/Paris", REFUSED),
        ("timestamptz", "9999-12-31 23:59:59-12:00", REFUSED),
        ("string", " 007 ", " 007 "),
        ("uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
        ("uuid", "a0eebc999c0b4ef8bb6d6bb9bd380a11", REFUSED),
        ("uuid", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", REFUSED),
        ("binary", "DEad", b"\xde\xad"),
        ("binary", "", b""),
        ("binary", "abc", REFUSED),
        ("fixed(2)", "DEad", b"\xde\xad"),
        ("fixed(2)", "DE", REFUSED),
        ("fixed(2)", "DEadbe", REFUSED),
        ("fixed(2)", "", REFUSED),
    ],
)
def test_value_is_kept_or_refused(con: duckdb.DuckDBPyConnection, kind: str, text: str, value: Any) -> None:
    found = value_of(con, kind, text)
    assert found == value
    assert type(found) is type(value)


PARIS, PARIS_EARLIER = CastRules(timezone="Europe/Paris"), CastRules(timezone="Europe/Paris", dst_overlap="earlier")
HOWE, HOWE_EARLIER = (replace(rules, timezone="Australia/Lord_Howe") for rules in (PARIS, PARIS_EARLIER))


@pytest.mark.parametrize(
    ("text", "rules", "value"),
    [
        ("2026-07-01 12:00:00", PARIS, datetime(2026, 7, 1, 10, tzinfo=UTC)),
        ("2026-07-01 12:00:00Z", PARIS, datetime(2026, 7, 1, 12, tzinfo=UTC)),
        ("2026-07-01 12:00:00", PARIS_EARLIER, datetime(2026, 7, 1, 10, tzinfo=UTC)),
        ("2026-03-29 02:30:00", PARIS, REFUSED),
        ("2026-03-29 02:30:00", PARIS_EARLIER, REFUSED),
        ("2026-10-25 02:30:00", PARIS, datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
        ("2026-10-25 02:30:00", PARIS_EARLIER, datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        ("2026-04-05 01:45:00", HOWE, datetime(2026, 4, 4, 15, 15, tzinfo=UTC)),
        ("2026-04-05 01:45:00", HOWE_EARLIER, datetime(2026, 4, 4, 14, 45, tzinfo=UTC)),
    ],
)
def test_times_without_offset_are_of_the_declared_zone(
    con: duckdb.DuckDBPyConnection, text: str, rules: CastRules, value: datetime | None
) -> None:
    # R15
    assert value_of(con, "timestamptz", text, rules) == value


@pytest.mark.parametrize(
    ("kind", "form", "text", "value"),
    [
        ("date", "%m/%d/%Y", "03/04/2026", date(2026, 3, 4)),  # R13
        ("date", "%d/%m/%Y", "03/04/2026", date(2026, 4, 3)),
        ("date", "%d/%m/%Y", "5/1/2026", date(2026, 1, 5)),
        ("date", "%d/%m/%Y", "05/01/26", REFUSED),
        ("date", "%d/%m/%Y", "2026-01-05", REFUSED),
        ("date", "%Y-%d-%m", "2026-01-05", date(2026, 5, 1)),
        ("date", "%Y%m%d", "2026105", REFUSED),
        ("date", "%d-%b-%Y", "05-JAN-2026", date(2026, 1, 5)),
        ("date", "%Y-%m-%d %H:%M", "2026-01-05 00:00", date(2026, 1, 5)),
        ("date", "%Y-%m-%d %H:%M", "2026-01-05 10:00", REFUSED),
        ("timestamp", "%d.%m.%Y %H:%M:%S.%f", "05.01.2026 10:00:00.010", naive(2026, 1, 5, 10, 0, 0, 10000)),
        ("timestamp", "%d.%m.%Y %H:%M:%S.%f", "05.01.2026 10:00:00.000", naive(2026, 1, 5, 10)),
        ("timestamp", "%m/%d/%Y %I:%M %p", "1/5/2026 10:05 pm", naive(2026, 1, 5, 22, 5)),
        ("timestamptz", "%d/%m/%Y %H:%M", "05/01/2026 10:00", datetime(2026, 1, 5, 10, tzinfo=UTC)),
        ("timestamptz", "%d/%m/%Y %H:%M %z", "05/01/2026 10:00 +02:00", datetime(2026, 1, 5, 8, tzinfo=UTC)),
        ("timestamptz", "%d/%m/%Y %H:%M %z", "05/01/2026 10:00", REFUSED),
    ],
)
def test_declared_formats(con: duckdb.DuckDBPyConnection, kind: str, form: str, text: str, value: Any) -> None:
    rules = CastRules(date_format=form) if kind == "date" else CastRules(timestamp_format=form)
    assert value_of(con, kind, text, rules) == value


def test_declared_words_and_base64(con: duckdb.DuckDBPyConnection) -> None:
    rules = CastRules(true_words=("Ja",), false_words=("Nein", "it's"), binary="base64")
    assert [value_of(con, "boolean", text, rules) for text in ("JA", "nein", "it's", "true")] == [
        True,
        False,
        False,
        None,
    ]
    texts = ("QUI=", "QR==", "!!", "QUI")
    assert [value_of(con, "binary", text, rules) for text in texts] == [b"AB", None, None, None]


@pytest.mark.parametrize("form", ["%z %Y-%m-%d %H:%M", "%Y-%m-%d %H:%M %Z"])
def test_zone_elsewhere_in_a_format_is_refused(form: str) -> None:
    with pytest.raises(NotAvailable, match="not available yet"):
        cast(parse_type("timestamptz"), "x", CastRules(timestamp_format=form))


@settings(max_examples=150)
@given(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(-1e6, 1e6, width=32)), st.integers(1, 17))
def test_double_is_what_python_reads_or_nothing(con: duckdb.DuckDBPyConnection, number: float, digits: int) -> None:
    assert value_of(con, "double", repr(number)) == number
    shorter = f"{number:.{digits}g}"
    found = value_of(con, "double", shorter)
    assert found is None or (
        found == float(shorter) and Decimal(shorter) in (Decimal(repr(found)), Decimal(f"{found:.17g}"))
    )


@settings(max_examples=100)
@given(st.decimals(-(10**9), 10**9, allow_nan=False, places=4))
def test_decimal_is_exact_or_nothing(con: duckdb.DuckDBPyConnection, number: Decimal) -> None:
    found = value_of(con, "decimal(12,2)", str(number))
    assert found == (number if number == round(number, 2) else None)


GERMAN = CastRules(decimal=",", thousands=".")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("decimal(12,2)", "1.234,50", Decimal("1234.50")),
        ("decimal(12,2)", "99,10", Decimal("99.10")),
        ("decimal(12,2)", "1.234", Decimal("1234.00")),
        ("decimal(12,2)", " -1.234.567,8 ", Decimal("-1234567.80")),
        ("decimal(12,2)", "1234,5", Decimal("1234.50")),
        ("decimal(12,2)", ",5", Decimal("0.50")),
        ("decimal(12,2)", "1,505", REFUSED),
        ("decimal(12,2)", "1.23", REFUSED),
        ("decimal(12,2)", "12345.678", REFUSED),
        ("decimal(12,2)", "1.2345", REFUSED),
        ("decimal(12,2)", ".123", REFUSED),
        ("decimal(12,2)", "1,234.50", REFUSED),
        ("decimal(12,2)", "1,2,3", REFUSED),
        ("decimal(12,2)", ",", REFUSED),
        ("decimal(12,2)", "", REFUSED),
        ("int", "1.234", 1234),
        ("int", "1.234,00", 1234),
        ("int", "1.234,5", REFUSED),
        ("bigint", "-9.223.372.036.854.775.808", -(2**63)),
        ("double", "1.234,5", 1234.5),
        ("double", "1,5e3", 1500.0),
        ("double", "nan", REFUSED),
        ("float", "0,5", 0.5),
        ("string", "1.234,50", "1.234,50"),
    ],
)
def test_numbers_as_the_declared_country_writes_them(
    con: duckdb.DuckDBPyConnection, kind: str, text: str, value: Any
) -> None:
    """R12"""
    assert value_of(con, kind, text, GERMAN) == value


@pytest.mark.parametrize("group", [",", "'", "_", " ", "\u00a0", "\u202f", "’"])
def test_marks_between_thousands(con: duckdb.DuckDBPyConnection, group: str) -> None:
    rules = CastRules(thousands=group)
    assert value_of(con, "decimal(12,2)", f"1{group}234{group}567.5", rules) == Decimal("1234567.50")
    assert value_of(con, "decimal(12,2)", f"1{group}23", rules) is None


@settings(max_examples=100)
@given(st.decimals(-(10**9), 10**9, allow_nan=False, places=2))
def test_a_number_with_marks_is_the_number(con: duckdb.DuckDBPyConnection, number: Decimal) -> None:
    text = f"{number:,.2f}".translate(str.maketrans(",.", ".,"))
    assert value_of(con, "decimal(12,2)", text, GERMAN) == number
