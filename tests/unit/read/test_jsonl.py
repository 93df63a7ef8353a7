from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import UnreadableObject
from lakehouse.read import jsonl
from tests.staging_values import Result, Staging, declared

Stage = Callable[..., Result]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with duckdb.connect() as con:

        def run(data: bytes, columns: dict[str, Any] | None = None, **changes: Any) -> Result:
            format = {"type": "jsonl", **changes.pop("format", {})}
            return Staging(con, tmp_path, declared(columns, format=format, **changes)).stage(data)

        yield run


def test_numbers_keep_their_text(stage: Stage) -> None:
    data = b'{"id": "a", "d": 1.10, "n": 12345678901234567890123456789, "s": 1.10, "i": 9007199254740993}\n'
    columns = {"id": "string", "d": "decimal(10,2)", "n": "decimal(38,0)", "s": "string", "i": "long"}
    result = stage(data, columns)
    assert result.rows == [("a", Decimal("1.10"), Decimal("12345678901234567890123456789"), "1.10", 9007199254740993)]


def test_values_of_every_kind(stage: Stage) -> None:
    columns = {"id": "int", "b": "boolean", "s": "string", "d": "date", "f": "double"}
    data = (
        b'{"id": 1, "b": true, "s": false, "d": "2026-01-05", "f": 1e3}\r\n'
        b'\n  \n{"f": "1.5", "id": "2", "b": "no", "s": null}\n{"id": 3, "b": 0}'
    )
    result = stage(data, columns)
    assert result.rows == [
        (1, True, "false", date(2026, 1, 5), 1000.0),
        (2, False, None, None, 1.5),
        (3, False, None, None, None),
    ]
    assert result.lines == [1, 4, 5]


def test_json_booleans_need_no_declared_word(stage: Stage) -> None:
    words = {"booleans": {"true": ["ja"], "false": ["nein"]}}
    data = b'{"id": 1, "b": true}\n{"id": 2, "b": "nein"}\n{"id": 3, "b": "true"}\n'
    result = stage(data, {"id": "int", "b": "boolean"}, format=words)
    assert (result.rows, result.rejected_lines) == ([(1, True), (2, False)], [3])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": 2, ', "not JSON at character 10: expecting property name enclosed in double quotes"),
        (b'{"id": 2} {"id": 3}', "not JSON at character 10: extra data"),
        (b'{"id": 2, "id": 3}', "a key twice: 'id'"),
        (b'{"id": 2, "n": NaN}', "NaN is not JSON"),
        (b'{"id": 2, "n": -Infinity}', "-Infinity is not JSON"),
        (b"[2]", "the line is JSON, but not an object"),
        (b"7", "the line is JSON, but not an object"),
        (b'{"id": "\xff"}', "invalid UTF-8 at byte 9 of the record"),
        (b'{"id": "a\x00"}', "a NUL at byte 10 of the record"),
        (b'{"id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "JSON nested too deeply"),
    ],
)
def test_line_that_is_no_object_is_a_reject(stage: Stage, line: bytes, reason: str) -> None:
    result = stage(b'{"id": 1}\n' + line + b'\n{"id": 9}\n', {"id": "int", "n": "double"})
    assert [row[0] for row in result.rows] == [1, 9]
    ((number, column, why, raw),) = result.rejects
    assert (number, column, why) == (2, None, reason)
    assert raw == line.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def test_all_reasons_of_a_record_are_named(stage: Stage) -> None:
    # R24: a nested value is no text
    data = b'{"id": 1, "s": {"x": 1}, "n": "1x", "t": [1]}\n{"id": 2, "s": "\\ud800", "t": "\\u0000"}\n{"s": "x"}\n'
    result = stage(data, {"id": "int", "s": "string", "n": "int", "t": {"type": "string", "required": True}})
    assert [(line, column, reason) for line, column, reason, _ in result.rejects] == [
        (
            1,
            "s,t,n",
            "s: a JSON object where a single value is declared; t: a JSON array where a single value is declared; "
            "n: not a valid int",
        ),
        (2, "s,t", "s: half a surrogate pair in the text; t: a NUL in the text"),
        (3, "id,t", "id: no value, and the column needs one; t: no value, and the column needs one"),
    ]


def test_number_is_no_binary(stage: Stage) -> None:
    result = stage(b'{"id": "00ff"}\n{"id": 1234}\n', {"id": "binary"})
    assert (result.rows, result.rejected_lines) == ([(b"\x00\xff",)], [2])


def test_unknown_keys_refuse_the_file_or_are_ignored(stage: Stage) -> None:
    data = b'{"id": 1}\n{"id": 2, "x\'y": {"z": 1}}\n'
    with pytest.raises(UnreadableObject, match=r"unknown columns: .*line=2 columns=\"x'y\""):
        stage(data, {"id": "int"})
    assert stage(data, {"id": "int"}, unknown_columns="ignore").rows == [(1,), (2,)]
    with pytest.raises(UnreadableObject, match="case or blanks alone"):
        stage(b'{"ID": 1}\n', {"id": "int"}, unknown_columns="ignore")


def test_null_words_and_renames(stage: Stage) -> None:
    columns = {"id": {"type": "string", "from": "the id"}, "v": "string"}
    data = b'\xef\xbb\xbf{"the id": "k", "v": "N/A"}\n{"the id": "l", "v": ""}\n'
    assert stage(data, columns, format={"null_values": ["N/A"]}).rows == [("k", None), ("l", "")]


def test_line_over_the_limit_is_a_reject(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_RECORD", 30)
    monkeypatch.setattr("lakehouse.read.csv_records.MAX_RECORD", 30)
    result = stage(b'{"id": 1}\n{"id": "' + b"x" * 100 + b'"}\n{"id": 3}\n', {"id": "int"})
    assert (result.lines, result.rejected_lines) == ([1, 3], [2])


def test_empty_file_has_no_rows(stage: Stage) -> None:
    assert stage(b"\n", {"id": "int"}).counts.read == 0


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    with duckdb.connect(config={"threads": 1}) as con:
        yield con, tmp_path_factory.mktemp("jsonl")


texts = st.one_of(st.none(), st.text(max_size=5), st.integers(), st.booleans(), st.lists(st.none(), max_size=1))


@settings(max_examples=60, deadline=None)
@given(records=st.lists(st.dictionaries(st.sampled_from(["id", "v"]), texts), max_size=5), ascii=st.booleans())
def test_texts_come_through_as_python_reads_them(
    session: tuple[duckdb.DuckDBPyConnection, Path], records: list[dict[str, Any]], ascii: bool
) -> None:
    # a file in which no object has the key is refused as a whole
    records = [{"id": "first"}, *records]
    lines = [json.dumps(record, ensure_ascii=ascii) for record in records]
    result = Staging(*session, declared(format={"type": "jsonl"})).stage("\n".join(lines).encode())

    def text(value: Any) -> str | None:
        return value if value is None or isinstance(value, str) else json.dumps(value)

    good = [
        (number, (text(record.get("id")), text(record.get("v"))))
        for number, record in enumerate(records, start=1)
        if record.get("id") is not None
        and not any(isinstance(value, list) or (isinstance(value, str) and "\0" in value) for value in record.values())
    ]
    assert list(zip(result.lines, result.rows, strict=True)) == good
    assert result.counts.read == len(records)
