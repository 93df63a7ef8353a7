"""DuckDB's way, the way by the letter and Python's csv agree on rows, rejects, lines and bytes of any CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from lakehouse.declaration import CsvFormat, Declaration
from lakehouse.errors import UnreadableObject
from lakehouse.read.csv import pieces as csv_pieces
from lakehouse.read.csv import reader as reader
from lakehouse.read.csv import records as csv_records
from lakehouse.read.csv import survey as csv_survey
from tests.chaos_run import SECONDS, Tally, run_for_long
from tests.staging_values import Result, Staging, declared

NAMES = ("id", "v", "w")
PLAIN = ["a", "b", " ", "x y", "é", "日本", "NULL", "1", "007", "\t", "#", "-", "\ufeff", "’", "'", "0x1F", " 5"]
NASTY = ['"', '""', "\0", "\n", "\r", "\r\n", "\\", ",", "|"]


@contextmanager
def small_blocks(size: int) -> Iterator[None]:
    """Also the smallest pieces, so that a file is cut wherever a block ends."""
    with (
        patch.object(csv_survey, "BLOCK", size),
        patch.object(csv_records, "CHUNK", size),
        patch.object(csv_pieces, "SHORTEST", 1),
    ):
        yield


NULL_LISTS = st.sampled_from([[""], ["", "NULL"], ["NULL"], [], ["a", "1"]])
Case = tuple[dict[str, Any], list[list[str] | None], bytes]


@st.composite
def files(draw: st.DrawFn, *, regular: bool) -> Case:
    """Options of the format, for each column its own list of texts that mean NULL or none, bytes."""
    delimiter = draw(st.sampled_from([",", "|", "\t", ";"]))
    width = draw(st.integers(1, 3))
    end = draw(st.sampled_from(["\n", "\r\n"] if regular else ["\n", "\r\n", "\r", ""]))
    atoms = PLAIN if regular else PLAIN + NASTY
    texts = st.lists(st.sampled_from(atoms), max_size=3).map("".join)

    def quoted(text: str) -> str:
        if not regular and draw(st.booleans()):
            return f'"{text}"'
        return '"' + text.replace('"', '""') + draw(st.sampled_from(["", '""', end or "\n", delimiter])) + '"'

    def record(_: int) -> str:
        size = width if regular else draw(st.sampled_from([width, width, width, width - 1, width + 1]))
        fields = [quoted(draw(texts)) if draw(st.integers(0, 3)) == 0 else draw(texts) for _ in range(size)]
        return delimiter.join(
            field.replace(delimiter, "") if regular and field[:1] != '"' else field for field in fields
        )

    skip, header = draw(st.integers(0, 2)), draw(st.sampled_from([True, True, False]))
    quote = draw(st.sampled_from(['"', '"', None]))
    lines = ["# exported" if i else "made by 'x'" for i in range(skip)]
    lines += [delimiter.join(NAMES[:width])] * header + [*(record(i) for i in range(draw(st.integers(0, 6))))]
    text = "".join(line + (end or draw(st.sampled_from(["\n", "\r\n", "\r"]))) for line in lines)
    if draw(st.booleans()):
        text = text.removesuffix("\n").removesuffix("\r")
    data = text.encode()
    if not regular and draw(st.integers(0, 5)) == 0:
        data = data.replace(b"a", b"\xff", 1)
    options = {
        "delimiter": delimiter,
        "header": header,
        "quote": quote,
        "skip_lines": skip,
        "null_values": draw(NULL_LISTS),
        "quoted_empty": draw(st.sampled_from(["null", "text"])),
        "blank_lines": draw(st.sampled_from(["skip", "reject"])),
        "escape": draw(st.sampled_from([None, quote] if regular else [None, "\\"])),
    }
    own = [draw(st.none() | NULL_LISTS) for _ in range(width)]
    return options, own, (b"\xef\xbb\xbf" if draw(st.integers(0, 4)) == 0 else b"") + data


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    with duckdb.connect(config={"threads": 2}) as con:
        yield con, tmp_path_factory.mktemp("csv")


Session = tuple[duckdb.DuckDBPyConnection, Path]


def outcome(data: bytes, declaration: Declaration, session: Session, *, fast: bool) -> Result | str:
    staging = Staging(*session, declaration)
    with patch.object(reader, "survey_file", reader.survey_file if fast else lambda _: None):
        try:
            return staging.stage(data)
        except UnreadableObject as error:
            assert staging.empty
            return str(error)


def by_python(data: bytes, format: CsvFormat, width: int) -> tuple[list[tuple[int, list[str]]], list[int]]:
    """Good records with their first line, and the lines of the bad ones, below the header."""
    skipped = format.skip_lines + format.header
    text = data.decode("utf-8-sig")
    lines = text.encode().splitlines(keepends=True)[skipped:]
    if lines and not lines[-1].endswith((b"\n", b"\r")):
        # Python finds the end unexpected wherever the last line without a line end follows an escaped one
        lines[-1] += b"\n"
    escape = None if format.escape == format.quote else format.escape
    parser = csv.reader(
        io.StringIO(b"".join(lines).decode(), newline=""),
        delimiter=format.delimiter,
        quoting=csv.QUOTE_MINIMAL if format.quote else csv.QUOTE_NONE,
        escapechar=escape,
        strict=True,
    )
    good: list[tuple[int, list[str]]] = []
    bad: list[int] = []
    while True:
        first = parser.line_num + 1
        try:
            fields = next(parser)
        except StopIteration:
            return good, bad
        except csv.Error as error:
            last = parser.line_num if "unexpected end" in str(error) else first
            bad += [line + skipped for line in range(first, last + 1)]
            continue
        if not fields:
            bad += [first + skipped] if format.blank_lines == "reject" else []
        elif len(fields) == width:
            good.append((first + skipped, fields))
        else:
            bad.append(first + skipped)


def check(session: Session, case: Case, block: int) -> Result | str:
    """What came of the file, which all ways agree on."""
    options, own, data = case
    columns = {
        name: {"type": "string"} | ({} if nulls is None else {"null_values": nulls})
        for name, nulls in zip(NAMES, own, strict=False)
    }
    declaration = declared(columns, format=options)
    with small_blocks(block):
        fast = outcome(data, declaration, session, fast=True)
        slow = outcome(data, declaration, session, fast=False)
    assert fast == slow
    if isinstance(slow, str) or b"\0" in data or b"\xff" in data:
        return slow
    if options["escape"] and b"\\\r\n" in data:
        return slow  # to us an escaped CRLF is one line end, to Python an escaped CR and a line end
    assert isinstance(declaration.source.format, CsvFormat)
    good, bad = by_python(data, declaration.source.format, len(own))
    # a missing key is ours to reject, not a matter of CSV
    whole = [line for line, column, *_ in slow.rejects if column is None]
    assert whole == sorted(bad)
    assert sorted(slow.lines + [line for line in slow.rejected_lines if line not in whole]) == [n for n, _ in good]
    rows = dict(zip(slow.lines, slow.rows, strict=True))
    for line, fields in good:
        for mine, theirs, nulls in zip(rows.get(line, ()), fields, own, strict=False):
            assert mine == theirs or (mine is None and theirs in (options["null_values"] if nulls is None else nulls))
    return slow


BLOCKS = st.sampled_from([1, 3, 16, 4096])


@settings(max_examples=60)
@given(files(regular=True), BLOCKS)
def test_regular_files_read_the_same_in_every_way(session: Session, case: Case, block: int) -> None:
    check(session, case, block)


@settings(max_examples=60)
@given(files(regular=False), BLOCKS)
def test_nasty_files_read_the_same_in_every_way(session: Session, case: Case, block: int) -> None:
    check(session, case, block)


@pytest.mark.chaos
@pytest.mark.timeout(SECONDS + 3600)
def test_files_read_the_same_in_every_way_for_long(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    def one(number: int) -> Tally:
        tally = Tally()

        @seed(number)
        @settings(max_examples=50, database=None)
        @given(st.one_of(files(regular=True), files(regular=False)), BLOCKS)
        def some_files(case: Case, block: int) -> None:
            found = check(session, case, block)
            tally.files += 1
            tally.records += 0 if isinstance(found, str) else found.counts.read
            tally.refused += isinstance(found, str)

        some_files()
        return tally

    assert run_for_long("csv", one, capsys).files
