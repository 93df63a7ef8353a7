from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.errors import UnreadableObject
from lakehouse.model import ObjectDecision
from lakehouse.read.sink import OF_VALUES, Sink
from lakehouse.stage import create_staging
from tests.staging_values import DAY, MTIME, URI, Staging, declared, planned, staging


def test_staging_tables_have_the_declared_columns_and_the_lineage() -> None:
    with duckdb.connect() as con:
        create_staging(con, declared({"id": "bigint", 'a"b': "decimal(12,2)", "t": "timestamptz"}))
        described = {
            table: [(name, kind) for name, kind, *_ in con.execute(f"DESCRIBE {table}").fetchall()]
            for table in ("staged", "rejects")
        }
    assert described["staged"] == [
        ("id", "BIGINT"),
        ('a"b', "DECIMAL(12,2)"),
        ("t", "TIMESTAMP WITH TIME ZONE"),
        ("_source_file", "VARCHAR"),
        ("_source_line", "BIGINT"),
        ("_source_mtime", "TIMESTAMP WITH TIME ZONE"),
        ("_source_date", "DATE"),
        ("__row_id", "BIGINT"),
    ]
    assert described["rejects"] == [
        ("uri", "VARCHAR"),
        ("line_number", "BIGINT"),
        ("column_name", "VARCHAR"),
        ("reason", "VARCHAR"),
        ("raw", "VARCHAR"),
    ]


def test_rows_carry_their_lineage(tmp_path: Path) -> None:
    with staging(tmp_path, declared()) as session:
        session.stage(b"id,v\n1,a\n")
        lineage = session.con.execute(
            "SELECT _source_file, _source_line, _source_mtime, _source_date FROM staged"
        ).fetchall()
    assert lineage == [(URI, 2, MTIME, DAY)]


def test_objects_add_up_and_a_refused_one_leaves_nothing(tmp_path: Path) -> None:
    first, second = planned("s3://landing/in/a'b.csv"), planned("s3://landing/in/b.csv")
    with staging(tmp_path, declared({"id": "string", "n": "int"})) as session:
        assert session.stage(b"id,n\n1,5\n2,abc\n", item=first).counts.rejected == 1
        with pytest.raises(UnreadableObject):
            session.stage(b"id,n,more\n1,5,6\n", item=second)
        with pytest.raises(UnreadableObject):
            session.stage(b"id,n\n" + b"1,5,6\n" * 30_000, item=second)
        assert session.stage(b"id,n\n1,5\n", item=second).counts.read == 1
        assert session.con.execute("SELECT count(*) FROM staged").fetchall() == [(2,)]
        assert session.con.execute("SELECT uri, line_number FROM rejects").fetchall() == [(first.object.uri, 3)]


def _columns_file(path: Path, format: str, names: list[str]) -> None:
    """Two rows whose values are the digit 1."""
    table = pa.table({name: ["1", "1"] for name in names})
    if format == "parquet":
        pq.write_table(table, path)
    elif format == "csv":
        path.write_text("".join(f"{','.join(line)}\n" for line in [names, *[["1"] * len(names)] * 2]))
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))


FORMATS = pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])


@FORMATS
def test_missing_columns_are_null_and_told(tmp_path: Path, format: str) -> None:
    columns = {"id": "string", "v": {"type": "string", "from": "V"}, "w": "string", **_from_path("day")}
    with staging(tmp_path, declared(columns, format={"type": format})) as session:
        _columns_file(session.path, format, ["id"])
        result = session.stage_file()
        assert (result.rows, result.missing) == ([("1", None, None, "2026-08-30")] * 2, ("v", "w"))
        _columns_file(session.path, format, ["w", "id", "V"])
        assert session.stage_file(item=planned("s3://landing/in/day=2026-08-30/b")).missing == ()


@FORMATS
@pytest.mark.parametrize("lost", ["id", "must", "first", "second"])
def test_file_without_a_needed_column_is_refused(tmp_path: Path, format: str, lost: str) -> None:
    names = ["id", "must", "first", "second"]
    columns = {**dict.fromkeys(names, "string"), "must": {"type": "string", "required": True}}
    declaration = declared(columns, format={"type": format}, order_by=["first", "second"])
    with staging(tmp_path, declaration) as session:
        _columns_file(session.path, format, [name for name in names if name != lost])
        with pytest.raises(UnreadableObject, match=f"missing columns: .* columns='{lost}' found='"):
            session.stage_file()
        assert session.empty


def test_a_column_that_one_json_object_has_is_not_missing(tmp_path: Path) -> None:
    with staging(tmp_path, declared({"id": "string", "v": "string"}, format={"type": "jsonl"})) as session:
        assert session.stage(b'{"id": 1}\n{"id": 2, "v": null}\n').missing == ()
        # nothing is known of the columns of a file without an object
        assert session.stage(b"[]\n\n", item=planned("s3://landing/in/day=2026-08-30/b")).missing == ()


def test_counts_do_not_depend_on_what_is_read(tmp_path: Path) -> None:
    # C01: DuckDB's count(*) over a scan converts nothing and counts bad rows too
    with staging(tmp_path, declared({"id": "int", "n": "int"})) as session:
        counts = session.stage(b"id,n\n1,1\n2,x\n3,3\n").counts
    assert (counts.read, counts.rejected, counts.staged) == (3, 1, 2)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"\xfd7zXZ\x00....", "files of xz are not read"),
        (b"PK\x03\x04....", "files of zip are not read"),
        ("id,v\n1,a\n".encode("utf-16"), "the file is UTF-16"),
        (b"PAR1....PAR1", "the file is parquet"),
    ],
)
def test_foreign_content_is_refused_by_name(tmp_path: Path, data: bytes, named: str) -> None:
    for format in ("csv", "jsonl"):
        with staging(tmp_path, declared(format={"type": format})) as session:
            with pytest.raises(UnreadableObject, match=named):
                session.stage(data)
            assert session.empty


def test_text_that_begins_like_something_else_is_text(tmp_path: Path) -> None:
    with staging(tmp_path, declared({"BZhours": "int", "PAR1": "int"}, key=["PAR1"])) as session:
        assert session.stage(b"BZhours,PAR1\n1,2\n").rows == [(1, 2)]


def _from_path(source: str, kind: str = "string") -> dict[str, object]:
    return {"id": "string", "p": {"type": kind, "from_path": source}}


@pytest.mark.parametrize(
    ("folder", "value"),
    [("p=S%C3%A3o%20Paulo", "São Paulo"), ("p=a+b", "a+b"), ("p=007", "007"), ("p=__HIVE_DEFAULT_PARTITION__", None)],
)
def test_folder_values_are_decoded_once(tmp_path: Path, folder: str, value: str | None) -> None:
    # R29
    with staging(tmp_path, declared(_from_path("p"))) as session:
        assert session.stage(b"id\n1\n", item=planned(f"s3://landing/in/{folder}/x.csv")).rows == [("1", value)]


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_landing_date_becomes_a_column(tmp_path: Path, format: str) -> None:
    data = b"id\n1\n" if format == "csv" else b'{"id": "1"}\n'
    declaration = declared(_from_path("date", "date"), format={"type": format, "date_format": "%d/%m/%Y"})
    with staging(tmp_path, declaration) as session:
        assert session.stage(data).rows == [("1", date(2026, 8, 30))]


@pytest.mark.parametrize(
    ("declared_as", "item", "named"),
    [
        (_from_path("q"), planned(), "no folder q="),
        (_from_path("p", "int"), planned("s3://landing/in/p=1x/x.csv"), "not a valid int.*column=p value='1x'"),
        (_from_path("p"), planned("s3://landing/in/p=%FF/x.csv"), "not valid UTF-8"),
        (_from_path("p"), planned("s3://landing/in/p=%00/x.csv"), "NUL"),
        (_from_path("date", "date"), planned(day=None), "no landing date"),
    ],
)
def test_path_that_does_not_say_the_value_refuses_the_object(
    tmp_path: Path, declared_as: dict[str, object], item: ObjectDecision, named: str
) -> None:
    with staging(tmp_path, declared(declared_as)) as session, pytest.raises(UnreadableObject, match=named):
        session.stage(b"id\n1\n", item=item)


def test_column_in_path_and_file_is_refused_unless_ignored(tmp_path: Path) -> None:
    item = planned("s3://landing/in/p=1/x.csv")
    for format, data in (("csv", b"id,p\na,2\n"), ("jsonl", b'{"id": "a", "p": 2}')):
        declaration = declared(_from_path("p"), format={"type": format})
        named = "come from its path.*'p'"
        with staging(tmp_path, declaration) as session, pytest.raises(UnreadableObject, match=named):
            session.stage(data, item=item)
        ignoring = declared(_from_path("p"), format={"type": format}, unknown_columns="ignore")
        with staging(tmp_path, ignoring) as session:
            assert session.stage(data, item=item).rows == [("a", "1")]


def test_null_folder_in_a_required_column_rejects_the_rows(tmp_path: Path) -> None:
    columns = {"id": "string", "p": {"type": "int", "from_path": "p", "required": True}}
    with staging(tmp_path, declared(columns)) as session:
        result = session.stage(b"id\n1\n2\n", item=planned("s3://landing/in/p=__HIVE_DEFAULT_PARTITION__/x.csv"))
    assert [(line, column, raw) for line, column, _, raw in result.rejects] == [(2, "p", "1"), (3, "p", "2")]


@pytest.mark.parametrize("name", ["a[1].csv", "a*.csv", "a?.csv", "it's.csv", "x.csv.gz"])
def test_local_names_are_no_patterns(tmp_path: Path, name: str) -> None:
    (tmp_path / "ab.csv").write_bytes(b"id,v\n9,other\n")
    with staging(tmp_path, declared()) as session:
        session.path = tmp_path / name
        assert session.stage(b"id,v\n1,a\n").rows == [("1", "a")]


def test_zones_do_not_depend_on_the_session(tmp_path: Path) -> None:
    # R15
    declaration = declared({"id": "int", "t": "timestamptz"}, format={"timezone": "Europe/Paris"})
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'America/New_York'")
        rows = Staging(con, tmp_path, declaration).stage(b"id,t\n1,2026-07-01 12:00:00\n").rows
    assert rows == [(1, datetime(2026, 7, 1, 10, tzinfo=UTC))]


def test_a_column_says_how_its_texts_are_spelled(tmp_path: Path) -> None:
    columns: dict[str, object] = {
        "id": "int",
        "d": {"type": "date", "date_format": "%d/%m/%Y"},
        "e": "date",
        "t": {"type": "timestamptz", "timezone": "Europe/Berlin", "timestamp_format": "%d.%m.%Y %H:%M"},
        "n": {"type": "decimal(12,2)", "decimal": ",", "thousands": "."},
        "m": "decimal(12,2)",
        "b": {"type": "boolean", "booleans": {"true": ["ja"], "false": ["nein"]}},
        "x": {"type": "binary", "binary": "base64"},
    }
    format = {"type": "csv", "delimiter": ";", "date_format": "%m/%d/%Y"}
    header = b"id;d;e;t;n;m;b;x\n"
    with staging(tmp_path, declared(columns, format=format)) as session:
        result = session.stage(
            header
            + b"1;02/03/2026;02/03/2026;30.08.2026 12:00;1.234,5;1234.5;ja;QUI=\n2;31/01/2026;31/01/2026;;;;true;\n"
        )
    noon = datetime(2026, 8, 30, 10, tzinfo=UTC)
    row = (1, date(2026, 3, 2), date(2026, 2, 3), noon, Decimal("1234.50"), Decimal("1234.50"), True, b"AB")
    assert result.rows == [row]
    assert [(line, columns) for line, columns, *_ in result.rejects] == [(3, "e,b")]


def test_a_column_of_parquet_and_of_json_has_its_own_zone(tmp_path: Path) -> None:
    columns: dict[str, object] = {"id": "int", "t": {"type": "timestamptz", "timezone": "Europe/Berlin"}}
    noon = datetime(2026, 8, 30, 10, tzinfo=UTC)
    with staging(tmp_path, declared(columns, format={"type": "jsonl"})) as session:
        assert session.stage(b'{"id": 1, "t": "2026-08-30 12:00:00"}\n').rows == [(1, noon)]
    with staging(tmp_path, declared(columns, format={"type": "parquet"})) as session:
        naive = datetime(2026, 8, 30, 12)  # noqa: DTZ001
        pq.write_table(
            pa.table({"id": pa.array([1], pa.int32()), "t": pa.array([naive], pa.timestamp("us"))}), session.path
        )
        assert session.stage_file().rows == [(1, noon)]


@FORMATS
def test_a_computed_column_is_not_looked_for_in_a_file(tmp_path: Path, format: str) -> None:
    """It is NULL before the SQL, and neither missing nor a reject; a file's own column of that name is not declared."""
    columns = {"id": "string", "v": {"type": "string", "computed": True, "required": True}}
    script = {"file": "x.sql", "text": "select * from staged"}
    with staging(tmp_path, declared(columns, format={"type": format}, key=("id", "v"), sql=script)) as session:
        _columns_file(session.path, format, ["id"])
        result = session.stage_file()
        assert (result.rows, result.missing, result.rejects) == ([("1", None)] * 2, (), [])
        _columns_file(session.path, format, ["id", "v"])
        with pytest.raises(UnreadableObject, match=r"unknown columns: .* columns='v'"):
            session.stage_file()


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("error", OF_VALUES)
def test_what_a_library_cannot_hold_refuses_the_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], hidden: bool
) -> None:
    columns = {"id": "string", "v": {"type": "string", "pii": hidden}}

    def fail(*_: object, **__: object) -> None:
        raise error("Could not convert 'Smith'")

    monkeypatch.setattr(Sink, "reject", fail)
    with staging(tmp_path, declared(columns, format={"type": "parquet"})) as session:
        pq.write_table(pa.table({"id": ["a", None], "v": ["x", "y"]}), session.path)
        data = session.path.read_bytes()
        with pytest.raises(UnreadableObject, match=f"uri={URI} reason=") as caught:
            session.stage(data)
        assert ("smith" not in str(caught.value).lower()) == hidden
        assert session.empty
        monkeypatch.undo()
        assert session.stage(data).counts.rejected == 1


@pytest.mark.parametrize("error", [duckdb.OutOfMemoryException, duckdb.IOException])
def test_what_the_machine_lacks_is_no_fault_of_the_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error("no room")

    monkeypatch.setattr(Sink, "add", fail)
    with staging(tmp_path, declared(format={"type": "avro"})) as session, pytest.raises(error):
        file = io.BytesIO()
        schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}
        fastavro.writer(file, schema, [{"id": "a"}])
        session.stage(file.getvalue())
