"""Columns that come from inside nested values: the same in every format that has them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakehouse.errors import UnreadableObject
from tests.staging_values import Result, Staging, declared

Stage = Callable[..., Result]
COLUMNS = {
    "id": {"type": "long", "from": "c.k.id"},
    "name": {"type": "string", "from": "c.name"},
    "n": "long",
}
KEYS = pa.struct({"id": pa.int64()})
SCHEMA = pa.schema([("n", pa.int64()), ("c", pa.struct({"k": KEYS, "name": pa.string()}))])
RECORDS = [
    {"n": 1, "c": {"k": {"id": 10}, "name": "a"}},
    {"n": 2, "c": {"k": {"id": 20}, "name": None}},
    {"n": 3, "c": None},
    {"n": 4, "c": {"k": None, "name": "d"}},
]


def avro_record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": ["null", t]} for n, t in fields.items()]}


def parquet(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def written_orc(table: pa.Table) -> bytes:
    file = io.BytesIO()
    orc.write_table(table, file)
    return file.getvalue()


def avro(table: pa.Table) -> bytes:
    c = avro_record(
        "c", k=avro_record("k", id="long"), **dict.fromkeys(table.schema.field("c").type.names[1:], "string")
    )
    file = io.BytesIO()
    fastavro.writer(file, avro_record("r", n="long", c=c), table.to_pylist())
    return file.getvalue()


def jsonl(table: pa.Table) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in table.to_pylist())


def xml(table: pa.Table) -> bytes:
    def element(name: str, value: Any) -> str:
        if value is None:
            return ""
        inner = "".join(element(n, v) for n, v in value.items()) if isinstance(value, dict) else str(value)
        return f"<{name}>{inner}</{name}>"

    return f"<all>{''.join(element('r', record) for record in table.to_pylist())}</all>".encode()


WRITERS = {"parquet": parquet, "orc": written_orc, "avro": avro, "jsonl": jsonl, "xml": xml}


@pytest.fixture(params=WRITERS)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    with duckdb.connect() as con:

        def run(table: pa.Table, columns: dict[str, Any] | None = None, **changes: Any) -> Result:
            format = {"type": request.param} | ({"row_element": "r"} if request.param == "xml" else {})
            staging = Staging(con, tmp_path, declared(columns or COLUMNS, format=format, **changes))
            return staging.stage(WRITERS[request.param](table))

        yield run


def test_a_path_leads_into_nested_values(stage: Stage) -> None:
    result = stage(pa.Table.from_pylist(RECORDS, schema=SCHEMA))
    assert result.rows == [(10, "a", 1), (20, None, 2)]
    assert [reason for _, _, reason, _ in result.rejects] == ["id: no value, and the column needs one"] * 2


def test_what_stands_beside_the_path_is_unknown(stage: Stage) -> None:
    schema = pa.schema([("n", pa.int64()), ("c", pa.struct({"k": KEYS, "name": pa.string(), "new": pa.string()}))])
    table = pa.Table.from_pylist([{"n": 1, "c": {"k": {"id": 10}, "name": "a", "new": "x"}}], schema=schema)
    with pytest.raises(UnreadableObject, match=r"unknown fields: uri=.* column='c' fields='new'"):
        stage(table)
    assert stage(table, unknown_columns="ignore").rows == [(10, "a", 1)]


def test_a_path_that_the_file_lacks_is_a_missing_column(stage: Stage) -> None:
    schema = pa.schema([("n", pa.int64()), ("c", pa.struct({"k": KEYS}))])
    table = pa.Table.from_pylist([{"n": 1, "c": {"k": {"id": 10}}}], schema=schema)
    result = stage(table)
    assert (result.rows, result.missing) == ([(10, None, 1)], ("name",))
    needed = COLUMNS | {"name": {"type": "string", "from": "c.name", "required": True}}
    with pytest.raises(UnreadableObject, match=r"missing columns: uri=.* columns='c\.name'"):
        stage(table, needed)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_path_through_a_single_value(tmp_path: Path, kind: str) -> None:
    table = pa.Table.from_pylist([{"n": 1, "c": "x"}, {"n": 2, "c": "y"}])
    columns = {"n": "long", "name": {"type": "string", "from": "c.name"}}
    with duckdb.connect() as con:
        staging = Staging(con, tmp_path, declared(columns, format={"type": kind}, key=["n"]))
        if kind == "parquet":
            with pytest.raises(UnreadableObject, match=r"column='c\.name' file=string at='c'"):
                staging.stage(parquet(table))
        else:
            reasons = [reason for _, _, reason, _ in staging.stage(jsonl(table)).rejects]
            assert reasons == ["name: a JSON text at c where an object is declared"] * 2


def test_a_text_read_whole_has_no_parts(tmp_path: Path) -> None:
    columns = {"n": "long", "c": "string", "name": {"type": "string", "from": "c.name"}}
    with duckdb.connect() as con:
        staging = Staging(con, tmp_path, declared(columns, format={"type": "jsonl"}, key=["n"]))
        result = staging.stage(b'{"n": 1, "c": "x"}\n{"n": 2, "c": null}\n')
        assert result.rows == [(2, None, None)]
        assert [reason for _, _, reason, _ in result.rejects] == ["name: a JSON text at c where an object is declared"]


def test_a_value_may_be_read_whole_and_in_part(tmp_path: Path) -> None:
    columns = COLUMNS | {"c": "struct<k: struct<id: long>, name: string>"}
    with duckdb.connect() as con:
        for kind in ("jsonl", "parquet"):
            staging = Staging(con, tmp_path, declared(columns, format={"type": kind}))
            result = staging.stage(WRITERS[kind](pa.Table.from_pylist(RECORDS[:1], schema=SCHEMA)))
            assert result.rows == [(10, "a", 1, {"k": {"id": 10}, "name": "a"})]
