"""What rejects and quarantine reasons show of tables with `pii: true` columns."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakehouse.delete_mark import mark_deletes
from lakehouse.errors import DeclarationError, UnreadableObject
from lakehouse.read.csv import reader as csv_reader
from tests.staging_values import Result, Staging, declared

Stage = Callable[..., Result]
COLUMNS: dict[str, Any] = {"id": "int", "mail": {"type": "string", "pii": True}, "n": "int"}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with duckdb.connect() as con:

        def run(data: bytes, columns: dict[str, Any] | None = None, kind: str = "csv", **changes: Any) -> Result:
            format = {"type": kind, **changes.pop("format", {})}
            return Staging(con, tmp_path, declared(columns or COLUMNS, format=format, **changes)).stage(data)

        yield run


def raws(result: Result) -> list[str | None]:
    return [raw for *_, raw in result.rejects]


@pytest.mark.parametrize("fast", [True, False])
def test_csv_fields_by_position(stage: Stage, monkeypatch: pytest.MonkeyPatch, fast: bool) -> None:
    if not fast:
        monkeypatch.setattr(csv_reader, "survey_file", lambda _: None)
    data = b'id,n,mail\n1,2,a@b\n2,x,c@d\n3,x,"e,""@f"\n"4",x,\n5,"x, ","g\n@h"\nx,6,i@j\n'
    result = stage(data)
    assert result.rows == [(1, "a@b", 2)]
    assert raws(result) == ["2,x,***", "3,x,***", '"4",x,', '5,"x, ",***', "x,6,***"]


def test_csv_of_other_dialects(stage: Stage) -> None:
    assert raws(stage(b"id|mail|n\n1|a\\|b|x\n2|\\\nc|x\n", format={"delimiter": "|", "escape": "\\"})) == [
        "1|***|x",
        "2|***|x",
    ]
    assert raws(stage(b'id\tmail\tn\n1\t"a\tx\n', format={"delimiter": "\t", "quote": None})) == ["1\t***\tx"]
    assert raws(stage(b"1,a,x\n", format={"header": False})) == ["1,***,x"]


def test_csv_records_that_cannot_be_split(stage: Stage) -> None:
    data = b'id,mail,n\n1,ann@x\n2,"ann"@x,1\n3,ann@\xff,1\n\n4,"ann@x,1\n5,bob@x,1\n'
    result = stage(data, format={"blank_lines": "reject"})
    assert raws(result) == [
        "*** masked, 7 bytes",
        "*** masked, 11 bytes",
        "*** masked, 9 bytes",
        "",
        "*** masked, 10 bytes",
        "*** masked, 9 bytes",
    ]
    assert result.rejected_lines == [2, 3, 4, 5, 6, 7]


def test_a_shown_field_that_swallowed_others_is_masked(stage: Stage) -> None:
    result = stage(b'id,n,mail\n1,"2,ann@x\n2,",bob@x\n')
    assert raws(result) == ["1,***,***"]


def test_csv_columns_that_nobody_declares_are_masked(stage: Stage) -> None:
    data = b"id,mai,n\n1,ann@x,x\n"
    for unknown in ("ignore", "rescue"):
        assert raws(stage(data, unknown_columns=unknown)) == ["1,***,x"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1,ann@x,3\n", "unknown columns: uri={uri} columns=*** masked, 3 names"),
        (b"id,mail,n1,ann@x,3\n", "unknown columns: uri={uri} columns=*** masked, 3 names"),
        (b"id,mail,n,ann@x,ANN@x\n", "columns=*** masked, 2 names positions=4,5"),
    ],
)
def test_names_of_a_damaged_header_are_masked(stage: Stage, data: bytes, message: str) -> None:
    with pytest.raises(UnreadableObject) as caught:
        stage(data)
    assert message.removeprefix("unknown columns: uri={uri} ") in str(caught.value)
    assert "ann" not in str(caught.value).lower()
    with pytest.raises(UnreadableObject) as caught:
        stage(b"mail,ann@x\n", unknown_columns="ignore")
    assert "missing columns" in str(caught.value) and "found='mail',*** masked, 1 name" in str(caught.value)


def test_a_line_that_is_no_trailer_is_masked(stage: Stage) -> None:
    for trailer, data in (
        ("T", b"id,mail,n\n1,ann@x,1\n"),
        ({"starts_with": "T", "count": 2}, b"id,mail,n\nT,ann@x\n"),
    ):
        with pytest.raises(UnreadableObject, match=r"found='\*\*\* masked, \d+ bytes'"):
            stage(data, format={"trailer": trailer})


NESTED: dict[str, Any] = {
    "id": "int",
    "mail": {"type": "string", "from": "who.mail", "pii": True},
    "city": {"type": "int", "from": "who.city"},
    "tags": {"type": "map<string, int>", "pii": True},
}


@pytest.mark.parametrize(
    ("record", "raw"),
    [
        (b'{"id": "x", "who": {"mail": "a@b", "city": 1.50}}', '{"id":"x","who":{"mail":"***","city":1.50}}'),
        (b'{"id": 1, "who": {"mail": null, "city": "z"}}', '{"id":1,"who":{"mail":null,"city":"z"}}'),
        (b'{"id": 1, "who": {"mail": ["a@b"]}}', '{"id":1,"who":{"mail":"***"}}'),
        (b'{"id": 1, "who": "a@b"}', '{"id":1,"who":"***"}'),
        (b'{"id": 1, "who": [{"mail": "a@b"}]}', '{"id":1,"who":"***"}'),
        (b'{"id": 1, "tags": {"a@b": "x"}}', '{"id":1,"tags":"***"}'),
        (b'{"id": "x", "mial": "a@b", "who": {"a@b": 1}}', '{"id":"x","***":"***","who":{"***":"***"}}'),
        (b'{"id": 1, "who": {"mail": "a@b"}', "*** masked, 32 bytes"),
        (b'["a@b"]', "*** masked, 7 bytes"),
    ],
)
def test_json_by_path(stage: Stage, record: bytes, raw: str) -> None:
    result = stage(record + b"\n", NESTED, "jsonl", unknown_columns="ignore")
    assert raws(result) == [raw]
    if record.endswith(b"}}") or raw.startswith("{"):
        assert raws(stage(b"[" + record + b"]", NESTED, "json", unknown_columns="ignore")) == [raw]


def test_json_names_that_may_be_values_are_masked(stage: Stage) -> None:
    result = stage(b'{"tags": {"ann@x": 1, "ann@x": 2}}\n{"id": 1, "id": 2}\n', NESTED, "jsonl")
    assert [reason for *_, reason, _ in result.rejects] == ["a key twice: *** masked, 1 name", "a key twice: 'id'"]
    columns = {"id": "int", "who": {"type": "struct<a: int>", "pii": True}}
    for data in (
        b'{"id": 1, "who": {"ann@x": 1}}',
        b'{"id": 1, "ann@x": 1}',
        b'{"id": 1, "who": {"a": 1, "ann@x": 1}}',
    ):
        with pytest.raises(UnreadableObject, match=r"=\*\*\* masked, 1 name$"):
            stage(data, columns, "jsonl")


def test_mixed_values_are_masked_whatever_they_are(stage: Stage) -> None:
    columns = {"id": "int", "v": {"type": "struct<long: bigint>", "mixed": "struct", "pii": True}}
    assert raws(stage(b'{"id": 1, "v": "ann@x"}\n{"id": 2, "v": {"ann@x": 1}}\n', columns, "jsonl")) == [
        '{"id":1,"v":"***"}',
        '{"id":2,"v":"***"}',
    ]


XML: dict[str, Any] = {
    "id": "int",
    "mail": {"type": "string", "pii": True},
    "no": {"type": "int", "from": "_no", "pii": True},
    "amount": "struct<_VALUE: int, _currency: string>",
    "who": {"type": "struct<_t: string, name: string>", "pii": True},
}


@pytest.mark.parametrize(
    ("record", "raw"),
    [
        (
            b'<r no="7" x="1"><id>z</id> <mail>a@b</mail><amount currency="E&amp;">1</amount></r>',
            '<r no="***" x="***"><id>z</id> <mail>***</mail><amount currency="E&amp;">1</amount></r>',
        ),
        (
            b'<r no="7"><id>z</id><who t="a@b"> <name>a&lt;<!-- a@b -->@b</name><name/></who><new>a@b</new></r>',
            '<r no="***"><id>z</id><who t="***"> ***</who><new>***</new></r>'.replace(" ***", "***"),
        ),
        (b"<r><id>1</id><mail>a@b</mail><mail/></r>", "<r><id>1</id><mail>***</mail><mail></mail></r>"),
        (b"<r><id>1</id>a@b</r>", "*** masked, 20 bytes"),
    ],
)
def test_xml_by_element(stage: Stage, record: bytes, raw: str) -> None:
    data = b"<all>" + record + b"</all>"
    assert raws(stage(data, XML, "xml", format={"row_element": "r"}, unknown_columns="ignore")) == [raw]


def typed_file(kind: str) -> bytes:
    rows = [{"id": 1, "mail": "ann@x", "n": 1, "who": {"a": "ann@y", "b": 1}}, {"id": None, "mail": "bob@x", "n": 2}]
    sink = io.BytesIO()
    if kind == "avro":
        who = {"type": "record", "name": "W", "fields": [{"name": "a", "type": "string"}, {"name": "b", "type": "int"}]}
        kinds = {"id": ["null", "int"], "mail": "string", "n": "int", "who": ["null", who]}
        fields = [
            {"name": name, "type": of, **({"default": None} if "null" in of else {})} for name, of in kinds.items()
        ]
        fastavro.writer(sink, {"type": "record", "name": "R", "fields": fields}, rows)
        return sink.getvalue()
    who = pa.struct([("a", pa.string()), ("b", pa.int32())])
    schema = pa.schema([("id", pa.int32()), ("mail", pa.string()), ("n", pa.int32()), ("who", who)])
    rows[1]["who"] = {"a": "bob@y", "b": 2}
    table = pa.Table.from_pylist(rows, schema)
    (pq.write_table if kind == "parquet" else orc.write_table)(table, sink)
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_typed_formats_by_column(stage: Stage, kind: str) -> None:
    columns = {
        **COLUMNS,
        "who": "struct<a: string, b: int>",
        "inside": {"type": "string", "from": "who.a", "pii": True},
    }
    result = stage(typed_file(kind), columns, kind)
    who = "null" if kind == "avro" else '"***"'
    inside = f'"who.a":{who}'
    assert raws(result) == [f'{{"id":null,"mail":"***","n":"2","who":{who},{inside}}}']


def test_what_a_library_says_of_an_error_is_masked(stage: Stage, tmp_path: Path) -> None:
    data = typed_file("avro")
    with pytest.raises(UnreadableObject, match=r"reason=\w+: \*\*\* masked, \d+ bytes"):
        stage(data[:-20], {**COLUMNS, "who": "struct<a: string, b: int>"}, "avro")
    with pytest.raises(UnreadableObject, match=r"reason=\*\*\* masked, \d+ bytes"):
        stage(b"PAR1 ann@x PAR1", COLUMNS, "parquet")
    with duckdb.connect() as con:
        staging = Staging(con, tmp_path, declared(COLUMNS, delete_when="mail::int = 1", deletes="soft"))
        staging.stage(b"id,mail,n\n1,ann@x,1\n")
        with pytest.raises(DeclarationError) as caught:
            mark_deletes(con, staging.declaration)
    assert "fails on a staged row: *** masked" in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
