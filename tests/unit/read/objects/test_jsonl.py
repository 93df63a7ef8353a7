from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import UnreadableObject
from lakehouse.read.objects import jsonl
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
        (b"[2]", "the record is JSON, but not an object"),
        (b"7", "the record is JSON, but not an object"),
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
    monkeypatch.setattr("lakehouse.read.csv.records.MAX_RECORD", 30)
    result = stage(b'{"id": 1}\n{"id": "' + b"x" * 100 + b'"}\n{"id": 3}\n', {"id": "int"})
    assert (result.lines, result.rejected_lines) == ([1, 3], [2])


def test_empty_file_has_no_rows(stage: Stage) -> None:
    assert stage(b"\n", {"id": "int"}).counts.read == 0


NESTED = {
    "id": "int",
    "s": "struct<a: int, `b c`: list<struct<x: string, y: decimal(5,2)>>, t: timestamptz>",
    "m": "map<int, list<date>>",
}


def test_nested_values_are_cast_as_strictly_as_others(stage: Stage) -> None:
    # R25: nulls do not change the type
    data = (
        b'{"id": 1, "s": {"a": "5", "b c": [{"x": 1.10, "y": 1.10}, null, {}], "t": "2026-07-01 12:00:00"}}\n'
        b'{"id": 2, "s": {}, "m": {}}\n{"id": 3, "s": null, "m": {"7": ["2026-01-01", null], "-8": null}}\n'
    )
    result = stage(data, NESTED, format={"timezone": "Europe/Paris"})
    empty = {"a": None, "b c": None, "t": None}
    items = [{"x": "1.10", "y": Decimal("1.10")}, None, {"x": None, "y": None}]
    assert result.rows == [
        (1, {"a": 5, "b c": items, "t": datetime(2026, 7, 1, 10, tzinfo=UTC)}, None),
        (2, empty, {}),
        (3, None, {7: [date(2026, 1, 1), None], -8: None}),
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ('"s": [1]', "s: a JSON array where an object is declared at s"),
        ('"s": "{}"', "s: a JSON text where an object is declared at s"),
        ('"s": {"a": [1]}', "s: a JSON array where a single value is declared at s.a"),
        ('"s": {"b c": {"x": 1}}', "s: a JSON object where an array is declared at s.b c"),
        ('"s": {"b c": [{"x": "\\u0000"}]}', "s: a NUL in the text at s.b c.element.x"),
        ('"s": {"a": 1.5}', f"s: a value in it does not fit a {NESTED['s']} exactly"),
        ('"s": {"b c": [null, {"y": 1.234}]}', f"s: a value in it does not fit a {NESTED['s']} exactly"),
        ('"s": {"t": "2026-03-29 02:30:00"}', f"s: a value in it does not fit a {NESTED['s']} exactly"),
        ('"m": {"1": ["x"]}', "m: a value in it does not fit a map<int, list<date>> exactly"),
        ('"m": {"a": []}', "m: a value in it does not fit a map<int, list<date>> exactly"),
        ('"m": {"1": [], "01": []}', "m: a value in it does not fit a map<int, list<date>> exactly"),
        ('"m": 7', "m: a JSON number where an object is declared at m"),
        ('"m": true', "m: a JSON boolean where an object is declared at m"),
    ],
)
def test_a_misfit_inside_a_nested_value_names_its_column(stage: Stage, value: str, reason: str) -> None:
    # R24
    data = f'{{"id": 1}}\n{{"id": 2, {value}}}\n'.encode()
    result = stage(data, NESTED, format={"timezone": "Europe/Paris"})
    assert [row[0] for row in result.rows] == [1]
    assert [(line, column, why) for line, column, why, _ in result.rejects] == [(2, reason[0], reason)]


def test_unknown_fields_of_an_object_follow_unknown_columns(stage: Stage) -> None:
    data = b'{"id": 1, "s": {"b c": [{"x": "k", "z": {"deep": 1}}]}}\n'
    with pytest.raises(UnreadableObject, match=r"unknown fields: .*line=1 column='s\.b c\.element' fields='z'"):
        stage(data, NESTED)
    (row,) = stage(data, NESTED, unknown_columns="ignore").rows
    assert row[1]["b c"] == [{"x": "k", "y": None}]
    with pytest.raises(UnreadableObject, match="case or blanks alone"):
        stage(b'{"id": 1, "s": {"A": 1}}\n', NESTED, unknown_columns="ignore")


def test_words_for_null_inside_nested_values_are_none_in_a_key(stage: Stage) -> None:
    columns = {"id": "int", "m": "map<string, list<int>>", "s": "struct<a: int>"}
    data = b'{"id": 1, "m": {"N/A": ["N/A", "", " ", 5], "": null}, "s": "N/A"}\n'
    result = stage(data, columns, format={"null_values": ["N/A", ""]})
    assert result.rows == [(1, {"N/A": [None, None, None, 5], "": None}, None)]


def test_a_column_has_null_words_of_its_own(stage: Stage) -> None:
    # R07: NA is a country where no word means NULL
    columns = {
        "id": "int",
        "country": {"type": "string", "null_values": []},
        "n": {"type": "int", "null_values": ["?"]},
        "s": {"type": "struct<a: string>", "null_values": ["none"]},
        "v": "string",
    }
    data = (
        b'{"id": 1, "country": "NA", "n": "?", "s": "none", "v": "NA"}\n'
        b'{"id": 2, "country": "", "n": 7, "s": {"a": "none"}, "v": "none"}\n'
        b'{"id": 3, "n": "NA", "s": {"a": "NA"}}\n'
    )
    result = stage(data, columns, format={"null_values": ["NA"]})
    assert result.rows == [(1, "NA", None, None, None), (2, "", 7, {"a": None}, "none")]
    assert result.rejected_lines == [3]
    plain = {name: kind for name, kind in columns.items() if name != "s"}
    data = b'{"id": 1, "country": "NA", "n": "?", "v": "NA"}\n'
    assert stage(data, plain, format={"null_values": ["NA"]}).rows == [(1, "NA", None, None)]


@pytest.mark.parametrize("nulls", [1, 10])
def test_nulls_beside_a_struct_change_nothing(stage: Stage, nulls: int) -> None:
    # R25
    lines = [b'{"id": 0, "t": {"one": 1}}', *(b'{"id": %d, "t": null}' % (i + 1) for i in range(nulls))]
    rows = stage(b"\n".join(lines), {"id": "int", "t": "struct<one: bigint>"}).rows
    assert rows == [(0, {"one": 1}), *((i + 1, None) for i in range(nulls))]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    with duckdb.connect(config={"threads": 1}) as con:
        yield con, tmp_path_factory.mktemp("jsonl")


texts = st.one_of(st.none(), st.text(max_size=5), st.integers(), st.booleans(), st.lists(st.none(), max_size=1))


@settings(max_examples=60)
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


words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4)
fields = st.sampled_from(["a", "B c", 'q"', "x'", "key", "value", "f0"])


@st.composite
def nested(draw: st.DrawFn, depth: int = 3) -> tuple[str, st.SearchStrategy[Any]]:
    """A type as text, and what its JSON values are."""
    kind = draw(st.sampled_from(["string", "long", "struct", "list", "map"] if depth else ["string", "long"]))
    if kind == "string":
        return kind, st.none() | words
    if kind == "long":
        return kind, st.none() | st.integers(-(2**63), 2**63 - 1)
    inner, values = draw(nested(depth - 1))
    if kind == "list":
        return f"list<{inner}>", st.none() | st.lists(values, max_size=3)
    if kind == "map":
        return f"map<string, {inner}>", st.none() | st.dictionaries(words, values, max_size=3)
    other, others = draw(nested(depth - 1))
    one, two = draw(st.lists(fields, min_size=2, max_size=2, unique=True))
    return f"struct<`{one}`: {inner}, `{two}`: {other}>", st.none() | st.fixed_dictionaries({one: values, two: others})


@settings(max_examples=40)
@given(data=st.data())
def test_nested_values_come_through_as_python_reads_them(
    session: tuple[duckdb.DuckDBPyConnection, Path], data: st.DataObject
) -> None:
    kind, values = data.draw(nested().filter(lambda drawn: "<" in drawn[0]))
    records = [{"id": str(n), "v": data.draw(values)} for n in range(3)]
    declaration = declared({"id": "string", "v": kind}, format={"type": "jsonl"})
    result = Staging(*session, declaration).stage("\n".join(map(json.dumps, records)).encode())
    assert result.rows == [(record["id"], record["v"]) for record in records]
