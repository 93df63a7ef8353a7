"""A declaration as a value: defaults, hash, and every mistake with its place."""

from __future__ import annotations

from datetime import date, time
from pathlib import Path

import pytest
from pydantic import BaseModel

from lakehouse.declaration import CsvFormat, Declaration, PartitionField, parse_declarations
from lakehouse.declaration.checks import Gates
from lakehouse.declaration.source import Ready, Source
from lakehouse.errors import DeclarationError, NotAvailable
from tests.declaration_text import BASE, document


def parse(text: str, **env: str) -> Declaration:
    (declaration,) = parse_declarations(text, path=Path("defs.yaml"), env=env)
    return declaration


def mistakes(text: str, **env: str) -> list[str]:
    with pytest.raises((DeclarationError, NotAvailable)) as caught:
        parse_declarations(text, path=Path("defs.yaml"), env=env)
    return str(caught.value).splitlines()


def test_defaults() -> None:
    d = parse(document())
    assert (d.namespace, d.name, d.context) == ("analytics", "orders", "orders")
    assert (d.source.uri, d.source.bucket, d.source.prefix) == ("s3://landing/orders/", "landing", "orders/")
    assert d.source.format == CsvFormat(type="csv")
    assert d.source.locate("input_date=2026-01-05/a.csv") == (date(2026, 1, 5), True)
    assert [(c.name, str(c.type), c.source_name, c.from_path) for c in d.columns] == [
        ("id", "long", "id", None),
        ("n", "double", "n", None),
        ("t", "timestamptz", "t", None),
        ("day", "date", "day", "date"),
    ]
    assert (d.key, d.order_by, d.start_date, d.lineage) == (("id",), ("t",), date(2026, 8, 30), True)
    assert d.source.max_bytes == 20_000_000_000
    assert d.checks["late_arrivals"].severity == "warn" and d.checks["gates"].blocking
    assert (str(d.path), d.line, d.document) == ("defs.yaml", 3, 0)
    with pytest.raises(ValueError, match="frozen"):
        d.table = "x.y"  # type: ignore[misc]


def test_everything_that_can_be_said() -> None:
    d = parse(
        document(
            table="lake.sales.orders",
            owners="[a@example.com, team:x]",
            tags="{tier: gold}",
            source='{uri: "s3://{{ env.BUCKET }}/o/", format: {type: csv, quoted_empty: null, booleans: {true: ["1"], '
            'false: ["0"]}}, bookmark: main, max_bytes: 512MiB, max_files: "{{ env.FILES }}"}',
            columns='{id: bigint, s: {type: string, from: S}, t: timestamptz, amount: "decimal(12,2)"}',
            partition_by='[day(t), "truncate(4, s)"]',
            gates='{expected_objects: {min: 2, by: "08:00"}, row_count_change: 0.5}',
            checks="{late_arrivals: {blocking: true}}",
        ),
        BUCKET="landing",
        FILES="7",
    )
    assert (d.namespace, d.name, d.context) == ("lake.sales", "orders", "main")
    assert (d.source.bucket, d.source.max_bytes, d.source.max_files) == ("landing", 512 * 1024**2, 7)
    assert isinstance(d.source.format, CsvFormat)
    assert d.source.format.quoted_empty == "null"
    assert d.source.locate("x/a.csv") == (None, True)
    assert d.partition_by == (PartitionField("t", "day"), PartitionField("s", "truncate", 4))
    assert d.gates.expected_objects and d.gates.expected_objects.by == time(8)
    assert d.checks["late_arrivals"].severity == "warn" and d.checks["late_arrivals"].blocking


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"table": "orders"}, "3:10: table: got 'orders'; expected namespace.table"),
        ({"key": None}, "3:3: key: missing; expected key: [order_id]"),
        ({"key": "[]"}, "6:8: key: got a list; expected at least one"),
        ({"key": "id"}, "6:8: key: got 'id'; expected a list"),
        ({"key": "[id, idd]"}, "6:13: key[1]: no column 'idd'; did you mean id?"),
        ({"key": "[id, id]"}, "6:13: key[1]: 'id' is named twice"),
        ({"order_by": None}, "3:3: order_by: missing; expected order_by: [order_time]"),
        ({"order_by": "[when]"}, "7:14: order_by[0]: no column 'when'; known are id, n, t, day"),
        ({"start_date": "2026-02-30"}, "8:15: start_date: got '2026-02-30'; expected a date"),
        ({"partition_bye": "[id]"}, "9:3: partition_bye: unknown field; did you mean partition_by?"),
        ({"lookback_days": "3"}, "9:3: lookback_days: unknown field; it belongs into source"),
        ({"owners": "[bob]"}, "9:12: owners[0]: got 'bob'; expected an email address or team:<name>"),
        ({"timezone": "Europe/Berln"}, "9:13: timezone: got 'Europe/Berln'; expected a time zone"),
        ({"timezone": "localtime"}, "9:13: timezone: got 'localtime'; expected a time zone"),
        ({"timezone": "right/UTC"}, "9:13: timezone: got 'right/UTC'; expected a time zone"),
        ({"timezone": "../etc"}, "9:13: timezone: got '../etc'; expected a time zone"),
        ({"schedule": '"61 * * * *"'}, "9:13: schedule: got '61 * * * *'; expected minute as 0-59"),
        ({"timeout_minutes": "0"}, "9:20: timeout_minutes: got 0; expected a number at least 1"),
        ({"tolerance": '"many"'}, "9:14: tolerance: got 'many'; expected a whole number"),
        ({"lineage": "on"}, "9:12: lineage: got 'on'; expected true or false"),
        ({"description": "12"}, "9:16: description: got 12; expected text; put it in quotes"),
        ({"engine": "flink"}, "9:11: engine: got 'flink'; expected duckdb"),
        ({"gates": "{max_rejected_ratio: 50}"}, "9:31: gates.max_rejected_ratio: got 50; expected a number at most 1"),
        ({"checks": "{late: {}}"}, "9:12: checks.late: got 'late'; expected counts_reconcile"),
        ({"partition_by": "[day(id)]"}, "9:18: partition_by[0]: day does not fit id of type long; expected date"),
        ({"partition_by": "[day(when)]"}, "9:18: partition_by[0]: no column 'when'; known are"),
        ({"partition_by": "[day(t), hour(t)]"}, "9:26: partition_by[1]: t is partitioned like this already"),
    ],
)
def test_a_mistake_has_file_line_column_field_and_remedy(fields: dict[str, str | None], line: str) -> None:
    (found,) = mistakes(document(**fields))[:1] if fields.get("checks") else mistakes(document(**fields))
    assert found.startswith(f"defs.yaml:{line}")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("{id: bigint, t: date, ID: int}", "columns.ID: the column name differs from id by case alone"),
        ("{id: bigint, t: date, _Source_File: string}", "columns._Source_File: the name belongs to a lineage column"),
        ("{id: bigint, t: date, a.b: string}", "columns.a.b: a column name has no dot"),
        ("{id: bigint, t: date, x: strng}", "columns.x: unknown type 'strng'; one of binary"),
        (
            "{id: bigint, t: date, x: {type: int, requird: true}}",
            "columns.x.requird: unknown field; did you mean required?",
        ),
        ("{id: bigint, t: date, x: {required: true}}", "columns.x.type: missing; expected a type"),
        ("{id: bigint, t: date, x: {type: int, name: y}}", "columns.x.name: unknown field"),
        ("{id: bigint, t: date, x: {type: int, from: id}}", "columns.x.from: 'id' is read into id already"),
        ("{id: bigint, t: date, x: {type: int, from_path: date}}", "columns.x.type: got int; expected date"),
        (
            "{id: bigint, t: date, x: {type: int, from: a, from_path: b}}",
            "columns.x.from: a column comes from the file or",
        ),
        ("{id: bigint, t: date, x: {type: int, date_format: '%d/%m/%Y'}}", "a column of type int has no date_format"),
        ("{id: bigint, t: date, x: {type: date, date_format: '%d'}}", "x.date_format: got '%d'; expected one of %y"),
        (
            "{id: bigint, t: date, x: {type: int, from_path: a, thousands: ','}}",
            "x.thousands: the value comes from the path",
        ),
        ("{id: bigint, t: date, x: {type: boolean, booleans: {true: [j], false: [j]}}}", "'j' is true and false"),
        (
            "{id: bigint, t: date, x: {type: boolean, booleans: {true: [j], false: [n], maybe: [x]}}}",
            "booleans.maybe: unknown field",
        ),
        ("{id: bigint, t: date, x: {type: int, from_path: a/b}}", "columns.x.from_path: got 'a/b'; expected `date` or"),
        ("{id: bigint, t: date, t: int}", "columns.t: duplicate key, first on line 5"),
    ],
)
def test_mistakes_in_columns(columns: str, message: str) -> None:
    (found,) = mistakes(document(columns=columns))
    assert message in found


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{format: {type: csv}}", "4:11: source.uri: missing; expected uri: s3://bucket/folder/"),
        ("{uri: /data, format: {type: csv}}", "source.uri: got '/data'; expected a folder such as s3://"),
        ("{uri: file:///data/, format: {type: csv}}", "source.uri: got 'file:///data/'; expected a folder"),
        ('{uri: "s3://landing/*.csv", format: {type: csv}}', "the glob belongs into files"),
        ("{uri: s3://landing, format: {type: cvs}}", "4:46: source.format.type: got 'cvs'; expected one of csv, jsonl"),
        ("{uri: s3://landing, format: {}}", "source.format.type: got no type; expected one of csv"),
        ("{uri: s3://landing, format: {type: jsonl, quote: x}}", "source.format.quote: unknown field; it belongs into"),
        ("{uri: s3://landing, format: {type: csv, delimiter: ab}}", "delimiter: got 'ab'; expected one character"),
        ("{uri: s3://landing, format: {type: csv, delimiter: '\"'}}", "delimiter and quote are both '\"'"),
        ("{uri: s3://landing, format: {type: csv, decimal: ';'}}", "decimal: got ';'; expected . or ,"),
        ("{uri: s3://landing, format: {type: csv, thousands: x}}", "thousands: got 'x'; expected one of . , '"),
        ("{uri: s3://landing, format: {type: csv, thousands: .}}", "decimal and thousands are both '.'"),
        (
            "{uri: s3://landing, format: {type: csv, date_format: '%d/%m'}}",
            "date_format: got '%d/%m'; expected one of %y",
        ),
        ("{uri: s3://landing, format: {type: csv}, partition: '%Y'}", "%m and %d is missing"),
        ("{uri: s3://landing, format: {type: csv}, files: '{a}'}", "files: got '{a}'; expected no braces"),
        ("{uri: s3://landing, format: {type: csv}, max_bytes: 5XB}", "max_bytes: got '5XB'; expected bytes above 0"),
        ("{uri: s3://landing, format: {type: csv}, bookmark: a b}", "bookmark: got 'a b'; expected letters"),
        ("nothing", "4:11: source: got 'nothing'; expected a mapping"),
        (
            "{uri: s3://landing, format: {type: csv}, partition: day=%Y-%m-%d, ready: {objects: 3, marker: _DONE}}",
            "source.ready: got a mapping; expected one of objects: 3, marker: _SUCCESS or control",
        ),
        ("{uri: s3://landing, format: {type: csv}, ready: {}}", "source.ready: got a mapping; expected one of"),
        (
            "{uri: s3://landing, format: {type: csv}, ready: _SUCCESS}",
            "source.ready: got '_SUCCESS'; expected a mapping",
        ),
        ("{uri: s3://landing, format: {type: csv}, ready: {object: 3}}", "ready.object: unknown field; did you mean"),
        (
            "{uri: s3://landing, format: {type: csv}, partition: day=%Y-%m-%d, ready: {objects: 0}}",
            "source.ready.objects: got 0; expected a number at least 1",
        ),
        (
            "{uri: s3://landing, format: {type: csv}, partition: day=%Y-%m-%d, ready: {marker: a/b}}",
            "source.ready.marker: got 'a/b'; expected the name of a file such as _SUCCESS",
        ),
        (
            "{uri: s3://landing, format: {type: csv}, ready: {marker: _DONE}}",
            "ready.marker: it is about a landing date",
        ),
    ],
)
def test_mistakes_in_the_source(source: str, message: str) -> None:
    (found,) = mistakes(document(source=source, columns="{id: bigint, t: date}"))
    assert message in found


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("engine", "spark"),
        ("source", "{uri: {secret: aws:landing#uri}, format: {type: csv}}"),
    ],
)
def test_fields_of_later_issues(field: str, value: str) -> None:
    columns = "{id: bigint, n: double, t: timestamptz}"
    with pytest.raises(NotAvailable, match="not available yet") as caught:
        parse(document(columns=columns, **{field: value}))
    assert field in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("format", "origin"), [("{type: csv}", ("a.b",)), ("{type: jsonl}", ("a", "b")), ("{type: orc}", ("a", "b"))]
)
def test_a_dot_in_from_is_literal_in_csv_alone(format: str, origin: tuple[str, ...]) -> None:
    source = f"{{uri: s3://landing/, format: {format}}}"
    declaration = parse(document(source=source, columns="{id: bigint, t: date, x: {type: int, from: a.b}}"))
    assert declaration.origin(declaration.columns[2]) == origin


def test_rescued_columns_have_a_column_of_their_own() -> None:
    declaration = parse(document(unknown_columns="rescue"))
    assert str(declaration.columns[-1].type) == "map<string, string>"
    assert [c.name for c in declaration.columns] == [*(c.name for c in parse(document()).columns), "_rescued"]
    (found,) = mistakes(document(unknown_columns="rescue", columns="{id: bigint, t: date, _rescued: string}"))
    assert "columns._rescued: the name belongs to the rescued columns; choose another name" in found


def test_added_columns_follow_the_declared_ones_and_change_no_hash() -> None:
    declaration = parse(document(unknown_columns="add"))
    names = [c.name for c in declaration.columns]
    assert (declaration.added, declaration.with_added(())) == ((), declaration)
    more = declaration.with_added(("b", "a"))
    assert [c.name for c in more.columns] == [*names, "b", "a"]
    assert more.added == ("b", "a") and str(more.columns[-1].type) == "string" and not more.columns[-1].required
    assert more.hash == declaration.hash and more.declared == declaration != more
    as_read = declaration.as_read
    assert as_read.rescues and as_read.file_columns == declaration.file_columns
    assert [c.name for c in as_read.columns] == [*names, "_rescued"]
    for word in ("reject", "ignore", "rescue"):
        other = parse(document(unknown_columns=word))
        assert other.as_read is other and not other.adds


def test_mistakes_in_nested_origins() -> None:
    source = "{uri: s3://landing/, format: {type: xml, row_element: r}}"
    columns = "{id: bigint, t: date, x: {type: string, from: a}, y: {type: int, from: a.b}, z: {type: int, from: a..}}"
    found = mistakes(document(source=source, columns=columns))
    assert [line.split(": ", 1)[1] for line in found] == [
        "columns.y.from: 'a.b' lies inside 'a', which is read as a whole; keep one of them",
        "columns.z.from: got 'a..'; expected names joined by dots",
    ]


def test_defaults_of_later_fields_may_be_written() -> None:
    later = {"sql": "null", "write": "upsert", "delete_when": "~", "deletes": "hard", "max_deleted_ratio": "0.1"}
    later |= {"location": "null", "table_properties": "{}", "engine": "duckdb", "unknown_columns": "reject"}
    assert parse(document(**later)) == parse(document())


def test_all_mistakes_at_once_in_file_order() -> None:
    found = mistakes(
        document(
            key="[nope]", order_by=None, start_date="soon", deletes="never", source='{uri: "{{ env.NO }}", files: 3}'
        )
    )
    assert [line.split(": ")[1] for line in found] == [
        "order_by", "source.format", "source.uri", "source.files", "columns.day.from_path", "key[0]", "start_date",
        "deletes",
    ]  # fmt: skip
    assert "environment variable NO is not set" in found[2]


def test_a_value_of_the_environment_is_never_printed() -> None:
    text = document(timezone='"{{ env.ZONE }}"', tolerance='"{{ env.ZONE }}"')
    found = mistakes(text, ZONE="hunter2")
    assert len(found) == 2
    assert all("{{ env.ZONE }}" in line and "hunter2" not in line for line in found)


def test_hash_is_about_the_read_and_the_result_alone() -> None:
    base = parse(document())
    assert base.hash == parse(document()).hash
    assert len(base.hash) == 16 and int(base.hash, 16) >= 0
    for same in (
        {"description": "x", "owners": "[a@example.com]", "schedule": '"0 6 * * *"', "timeout_minutes": "5"},
        {"gates": "{max_rejected_ratio: 0.5}", "partition_by": "[day]", "start_date": "2026-01-01"},
        {"location": "s3://warehouse/orders", "table_properties": '{a: "1"}'},
        {"source": BASE["source"].replace("format", "lookback_days: 9, max_files: 3, bookmark: b, format")},
        {"source": BASE["source"].replace("orders,", "orders/,").replace("type: csv", 'type: csv, delimiter: ","')},
    ):
        assert parse(document(**same)).hash == base.hash
    for other in (
        {"key": "[id, t]"},
        {"order_by": "[t, id]"},
        {"lineage": "false"},
        {"unknown_columns": "ignore"},
        {"columns": BASE["columns"].replace("bigint", "int")},
        {"columns": BASE["columns"].replace("n: double", "n: {type: double, from: m}")},
        {"source": BASE["source"].replace("csv}", "csv, skip_lines: 1}")},
        {"source": BASE["source"].replace("{type: csv}", "{type: jsonl}")},
        {"source": BASE["source"].replace("format", 'files: "*.csv", format')},
        {"source": BASE["source"].replace("format", "on_overwrite: retract, format")},
        {"write": "snapshot"},
        {"write": "append"},
        {"order_by": "arrival"},
        {"delete_when": "n = 1"},
    ):
        assert parse(document(**other)).hash != base.hash


KNOWN = {
    Declaration: """table description owners group tags source sources columns unknown_columns sql write key order_by
        delete_when deletes max_deleted_ratio partition_by lineage location table_properties gates tolerance schedule
        maintenance timezone start_date backfill timeout_minutes checks engine catalog""",
    Source: """uri partition files format bookmark lookback_days settle_seconds ready max_files max_bytes
        on_overwrite""",
    Ready: "objects marker control",
    Gates: """max_rejected_ratio max_duplicate_ratio max_conflicting_duplicates row_count_change expected_objects
        control_file""",
    CsvFormat: """type delimiter encoding null_values timezone quote escape header columns_by_position skip_lines
        trailer decimal thousands date_format timestamp_format dst_overlap booleans binary quoted_empty blank_lines""",
}


@pytest.mark.parametrize("model", KNOWN)
def test_every_field_of_the_interface_is_known(model: type[BaseModel]) -> None:
    assert {info.alias or name for name, info in model.model_fields.items()} == set(KNOWN[model].split())


@pytest.mark.parametrize("encoding", ["nope", "rot13", "hex", "utf-7", "unicode_escape", "idna", "cp037x"])
def test_what_is_no_encoding_of_text_is_refused(encoding: str) -> None:
    found = mistakes(document(source=f"{{uri: s3://landing/, format: {{type: csv, encoding: {encoding}}}}}"))
    assert f"encoding: got '{encoding}'; expected an encoding of text" in "".join(found)
