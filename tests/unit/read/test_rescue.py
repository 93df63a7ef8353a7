"""`unknown_columns: rescue`: what is not declared is kept as texts, the same in every format."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakehouse.errors import UnreadableObject
from lakehouse.naming import quote_name
from lakehouse.read.csv import reader as csv_reader
from lakehouse.stage import brought_names, spread_rescued
from tests.staging_values import URI, Result, Staging, declared

Stage = Callable[..., Result]
Records = Sequence[Mapping[str, str | None]]


def csv(records: Records) -> bytes:
    lines = [records[0].keys(), *(record.values() for record in records)]
    return "".join(",".join("" if text is None else f'"{text}"' for text in line) + "\n" for line in lines).encode()


def jsonl(records: Records) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def document(records: Records) -> bytes:
    return json.dumps(records).encode()


def xml(records: Records) -> bytes:
    rows = ("".join(f"<{n}>{t}</{n}>" for n, t in record.items() if t is not None) for record in records)
    return f"<all>{''.join(f'<r>{row}</r>' for row in rows)}</all>".encode()


def table(records: Records) -> pa.Table:
    return pa.table({name: pa.array([record[name] for record in records], pa.string()) for name in records[0]})


def parquet(records: Records) -> bytes:
    file = io.BytesIO()
    pq.write_table(table(records), file)
    return file.getvalue()


def written_orc(records: Records) -> bytes:
    file = io.BytesIO()
    orc.write_table(table(records), file)
    return file.getvalue()


def avro(records: Records) -> bytes:
    file = io.BytesIO()
    fields = [{"name": name, "type": ["null", "string"]} for name in records[0]]
    fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, records)
    return file.getvalue()


WRITERS: dict[str, tuple[dict[str, Any], Callable[[Records], bytes]]] = {
    "csv": ({"type": "csv"}, csv),
    "csv by the letter": ({"type": "csv", "skip_lines": 0}, csv),
    "jsonl": ({"type": "jsonl"}, jsonl),
    "json": ({"type": "json"}, document),
    "xml": ({"type": "xml", "row_element": "r"}, xml),
    "parquet": ({"type": "parquet"}, parquet),
    "orc": ({"type": "orc"}, written_orc),
    "avro": ({"type": "avro"}, avro),
}


@pytest.fixture(params=WRITERS)
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    format, write = WRITERS[request.param]
    if request.param == "csv by the letter":
        monkeypatch.setattr(csv_reader, "survey_file", lambda _: None)
    with duckdb.connect() as con:

        def run(records: Records, columns: dict[str, Any] | None = None) -> Result:
            staging = Staging(con, tmp_path, declared(columns, format=format, unknown_columns="rescue"))
            return staging.stage(write(records))

        yield run


def test_what_is_not_declared_is_kept_by_name(stage: Stage) -> None:
    records = [
        {"zip": "007", "id": "a", "v": "x", "city": "Köln", "a-b.c": " 1.10"},
        {"zip": None, "id": "b", "v": None, "city": None, "a-b.c": None},
        {"zip": None, "id": "c", "v": "y", "city": "it's", "a-b.c": None},
    ]
    result = stage(records)
    assert result.rows == [
        ("a", "x", {"a-b.c": " 1.10", "city": "Köln", "zip": "007"}),
        ("b", None, None),
        ("c", "y", {"city": "it's"}),
    ]
    # the order of the names is the same in every file, so that an unchanged row is unchanged
    assert list(result.rows[0][2]) == ["a-b.c", "city", "zip"]


def test_nothing_unknown_is_nothing_rescued(stage: Stage) -> None:
    assert stage([{"v": "x", "id": "a"}]).rows == [("a", "x", None)]


def test_rejects_are_what_they_are_without_it(stage: Stage) -> None:
    result = stage([{"id": "1", "new": "p"}, {"id": None, "new": "q"}, {"id": "3", "new": "r"}])
    assert [(row[0], row[2]) for row in result.rows] == [("1", {"new": "p"}), ("3", {"new": "r"})]
    assert [(column, reason) for _, column, reason, _ in result.rejects] == [
        ("id", "id: no value, and the column needs one")
    ]


def test_a_name_that_is_nearly_a_declared_one_is_refused_all_the_same(stage: Stage) -> None:
    with pytest.raises(UnreadableObject, match="differs from the declared one by case or blanks alone"):
        stage([{"id": "1", "V": "x"}])


def test_other_values_are_kept_as_texts(tmp_path: Path) -> None:
    line = b'{"id": "a", "n": 1.10, "b": true, "l": [1, "x", {"y": 2.50}], "o": {"k": null}, "z": null}\n'
    records = pa.table({"id": ["a"], "n": [1], "l": [[1, 2]], "o": [{"k": "x"}], "d": pa.array([0], pa.date32())})
    with duckdb.connect() as con:
        staging = Staging(con, tmp_path, declared(format={"type": "jsonl"}, unknown_columns="rescue"))
        rescued = {"n": "1.10", "b": "true", "l": '[1, "x", {"y": 2.50}]', "o": '{"k": null}'}
        assert staging.stage(line).rows == [("a", None, dict(sorted(rescued.items())))]
        staging = Staging(con, tmp_path, declared(format={"type": "parquet"}, unknown_columns="rescue"))
        file = io.BytesIO()
        pq.write_table(records, file)
        rescued = {"n": "1", "l": "[1,2]", "o": '{"k":"x"}', "d": "1970-01-01"}
        assert staging.stage(file.getvalue()).rows == [("a", None, dict(sorted(rescued.items())))]
        xml_format = {"type": "xml", "row_element": "r"}
        staging = Staging(con, tmp_path, declared(format=xml_format, unknown_columns="rescue"))
        data = b'<all><r no="7"><id>a</id><x>1</x><x a="2"><y>3</y></x></r></all>'
        assert staging.stage(data).rows == [("a", None, {"_no": "7", "x": '["1", {"_a": "2", "y": "3"}]'})]


def test_a_text_that_no_column_holds_is_a_reject(tmp_path: Path) -> None:
    with duckdb.connect() as con:
        staging = Staging(con, tmp_path, declared(format={"type": "jsonl"}, unknown_columns="rescue"))
        deep = b'{"id": "c", "x": ' + b"[" * 700 + b"]" * 700 + b"}"
        result = staging.stage(b'{"id": "a", "x": "\\ud800"}\n{"id": "b", "x": "y"}\n' + deep)
        assert [row[0] for row in result.rows] == ["b"]
        assert [(line, column, reason) for line, column, reason, _ in result.rejects] == [
            (1, "_rescued", "_rescued: half a surrogate pair in the text"),
            (3, "_rescued", "_rescued: a value nested too deeply"),
        ]


def test_added_columns_hold_what_is_rescued(tmp_path: Path) -> None:
    """`unknown_columns: add` reads as `rescue` does, and spreads the map: in every format, under any name."""
    records: Records = [
        {"id": "a", "v": "x", "new": "007", "it's": "1"},
        {"id": "b", "v": None, "new": None, "it's": "2"},
        {"id": "c", "v": None, "new": None, "it's": None},
    ]
    for format, write in WRITERS.values():
        written = records
        if format["type"] in ("xml", "avro"):  # where no name has quotes
            written = [{name.replace("'", ""): text for name, text in record.items()} for record in records]
        added = [*written[0]][2:]
        with duckdb.connect() as con:
            declaration = declared(format=format, unknown_columns="add")
            staging = Staging(con, tmp_path, declaration.as_read)
            staging.stage(write(written))
            ((uri, names),) = brought_names(con).items()
            assert uri == URI and sorted(names) == sorted(added)
            spread_rescued(con, [*added, "before"], filled=names)
            listed = ", ".join(map(quote_name, ("id", "v", *added, "before")))
            found = con.execute(f"select {listed} from staged order by _source_line").fetchall()
            assert found == [(*record.values(), None) for record in written], format
            assert "_rescued" not in [name for name, *_ in con.execute("describe staged").fetchall()]


def test_known_columns_are_there_also_where_nothing_is_rescued(tmp_path: Path) -> None:
    with duckdb.connect() as con:
        staging = Staging(con, tmp_path, declared(unknown_columns="add").as_read)
        staging.stage(b"id,v,new\na,x,\n")
        assert brought_names(con) == {}
        spread_rescued(con, ["before"], filled=())
        assert con.execute("select * exclude (_source_mtime, _source_date) from staged").fetchall() == [
            ("a", "x", URI, 2, 1, None)
        ]
