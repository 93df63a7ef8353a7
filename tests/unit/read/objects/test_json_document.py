from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import UnreadableObject
from lakehouse.read.csv import records as csv_records
from lakehouse.read.objects import json_document, json_text, jsonl
from tests.staging_values import Result, Staging, declared

Stage = Callable[..., Result]


@pytest.fixture(params=[1, 7, 1 << 20])
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Stages bytes as a JSON document, read in pieces of some bytes."""
    monkeypatch.setattr(json_document, "CHUNK", request.param)
    with duckdb.connect() as con:

        def run(data: bytes, columns: dict[str, Any] | None = None, path: str | None = None, **changes: Any) -> Result:
            format = {"type": "json", "records_path": path}
            staging = Staging(con, tmp_path, declared(columns or {"id": "int"}, format=format, **changes))
            return staging.stage(data)

        yield run


def test_an_array_at_the_top(stage: Stage) -> None:
    data = b'\xef\xbb\xbf\n[ {"id": 1, "v": 1.10},\n{"id": 2,\n "v": "}]\\"[{"} , {"id":3,"v":null}]\n\n'
    result = stage(data, {"id": "int", "v": "string"})
    assert result.rows == [(1, "1.10"), (2, '}]"[{'), (3, None)]
    assert result.lines == [2, 3, 4]


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("a.b", b'{"x": [1, {"b": 2}], "a": {"c": "]", "b": [{"id": 1}], "d": null}, "y": -1.5e3}'),
        ("a", b'{"a": {"id": 1}}'),
        ("\u00e4", b'{"\\u00e4": [{"id": 1}]}'),
        (None, b'{"id": 1}'),
    ],
)
def test_the_records_are_where_the_path_leads(stage: Stage, path: str, data: bytes) -> None:
    assert stage(data, path=path).rows == [(1,)]


@pytest.mark.parametrize("data", [b"[]", b" [ ] ", b'{"a": {}, "r": []}'])
def test_no_record_at_all(stage: Stage, data: bytes) -> None:
    result = stage(data, path="r" if b"r" in data else None)
    assert (result.rows, result.counts.read, result.missing) == ([], 0, ())


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"7", "the record is JSON, but not an object"),
        (b"[2]", "the record is JSON, but not an object"),
        (b'"}"', "the record is JSON, but not an object"),
        (b'{"id": 2 "v": 3}', "not JSON at character 10: expecting ',' delimiter"),
        (b'{"id": 2,\n "v": nul}', "not JSON at character 17: expecting value"),
        (b'{"id": 2, "id": 3}', "a key twice: 'id'"),
        (b'{"id": "\xff"}', "invalid UTF-8 at byte 9 of the record"),
        (b"nope", "not JSON at character 1: expecting value"),
    ],
)
def test_a_broken_record_leaves_its_neighbours(stage: Stage, record: bytes, reason: str) -> None:
    result = stage(b'[{"id": 1},\n' + record + b',\n{"id": 9}]')
    assert result.rows == [(1,), (9,)]
    assert result.rejects == [(2, None, reason, record.decode("utf-8", "backslashreplace"))]


@pytest.mark.parametrize(
    ("data", "path", "reason"),
    [
        (b"", None, "line=1 reason=neither an array nor an object at the top"),
        (b"7", None, "line=1 reason=neither an array nor an object at the top"),
        (b'[{"id": 1},\n{"id": 2}', None, "line=2 reason=the document ends too early"),
        (b'[{"id": 1},\n{"id": "2', None, "line=2 reason=the document ends too early"),
        (b'[{"id": "2\\', None, "line=1 reason=the document ends too early"),
        (b'[{"id": 1}\n{"id": 2}]', None, "line=2 reason='{' where , or ] belongs"),
        (b'[{"id": 1},]', None, "line=1 reason=a value is missing"),
        (b'{"id": 1}\n{"id": 2}\n', None, "line=2 reason=something stands behind the document; one object per line"),
        (b'{"a": []}', "a.b", "line=1 reason=no object at a, so nothing at a.b"),
        (b'{"a": {"c": 1}}', "a.b", "line=1 reason=nothing at a.b"),
        (b'{"a": null}', "a", "line=1 reason=neither an array nor an object at a"),
        (b'{"a": [],\n"a": []}', "a", "line=2 reason=a is there twice"),
        (b"{a: []}", "a", "line=1 reason=a name without quotes"),
        (b'{"a" []}', "a", "line=1 reason=no name with a colon behind it"),
    ],
)
def test_a_document_that_cannot_be_read(stage: Stage, data: bytes, path: str | None, reason: str) -> None:
    with pytest.raises(UnreadableObject) as caught:
        stage(data, path=path)
    assert reason in str(caught.value)


def test_an_overlong_record_is_a_reject(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (json_document, jsonl, csv_records):
        monkeypatch.setattr(module, "MAX_RECORD", 30)
    monkeypatch.setattr(json_document._Document._value, "__defaults__", (30,))
    result = stage(b'[{"id": 1},\n{"id": 2, "v": "' + b"x" * 99 + b'"},\n{"id": 3}]', {"id": "int", "v": "string"})
    assert [row[0] for row in result.rows] == [1, 3]
    assert [(line, reason) for line, _, reason, _ in result.rejects] == [(2, "the record is longer than 30 bytes")]


def test_nested_values_and_declared_words(stage: Stage) -> None:
    columns = {"id": "int", "p": "struct<a: decimal(5,2), b: list<string>>", "m": "map<string, int>"}
    data = b'[{"id": 1, "p": {"a": 1.50, "b": ["x", null]}, "m": {"k": 1}}]'
    assert stage(data, columns).rows == [(1, {"a": Decimal("1.50"), "b": ["x", None]}, {"k": 1})]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(VALUES, max_size=5),
    st.dictionaries(st.text(), VALUES, max_size=3),
    st.lists(st.text(min_size=1), max_size=2),
    st.sampled_from([None, 1]),
    st.booleans(),
    st.integers(1, 9),
)
def test_records_are_those_of_pythons_json(
    items: list[Any], around: dict[str, Any], path: list[str], indent: int | None, escaped: bool, chunk: int
) -> None:
    document: Any = items
    for name in reversed(path):
        document = {**around, name: document}
    data = json.dumps(document, indent=indent, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_document, "CHUNK", chunk)
        found = list(json_document._Document(BytesIO(data), "s3://a/b").records(path))
    assert [json.loads(raw) for _, raw in found] == items


def test_the_parser_of_texts() -> None:
    assert json_text.parse_text(b'"a\\u00e4"') == "aä"
    assert json_text.parse_text(b"1") is None
    assert json_text.parse_text(b'"a') is None


@pytest.mark.parametrize("name", [b"\xed\xa0\x80", b"\xff", b"\0a"])
def test_a_name_on_the_way_that_is_no_text_refuses_the_document(stage: Stage, name: bytes) -> None:
    with pytest.raises(UnreadableObject, match="no name with a colon behind it"):
        stage(b'{"' + name + b'": 1, "data": [{"id": 1}]}', path="data")
