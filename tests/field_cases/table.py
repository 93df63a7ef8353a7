"""The field cases: what others met, what happens here, and the files of reading and staging that show it."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import zstandard

from tests.field_cases.discovery import DISCOVERY
from tests.field_cases.files import ALL, TEXT, TYPED
from tests.field_cases.model import Bytes, Case, File, Odd, Rejected, Sheet, Sheets

ID = {"id": pa.int64()}
V = {"id": "bigint", "v": "string"}
JSON = ("jsonl", "json")
INSTANT = datetime(2026, 3, 29, 5, 30, tzinfo=UTC)


def _column_order() -> Case:
    columns = {"id": "bigint", "qty": "int", "price": "int"}
    numbers = {"id": pa.int64(), "qty": pa.int32(), "price": pa.int32()}
    straight = Sheet(("id", "qty", "price"), ((1, 3, 7),), ((1, 3, 7),), types=numbers)
    turned = Sheet(("id", "price", "qty"), ((2, 9, 5),), ((2, 5, 9),), types=numbers)
    return Case(
        "R01",
        "A feed puts its columns into another order, and values land in the wrong ones.",
        "Columns are matched by name, in any order.",
        (Sheets(columns, (straight, turned)).part(),),
    )


def _bent_values() -> Case:
    return Case(
        "R02",
        "A value far below the sniffed sample is bent into the guessed type: rounded, zeros or the time of day lost.",
        "A value is kept as it is, or its record is a reject with its line; nothing is sniffed.",
        (
            Odd("bigint", "5", (0, "12.75"), TEXT, value=5, reason="v: not a valid").part("a fraction"),
            Odd("bigint", 5, (0, Decimal("12.75")), JSON, reason="v: not a valid").part("a JSON number"),
            Odd("bigint", "5", (0, "0x1F"), TEXT, value=5, reason="v: not a valid").part("hexadecimal"),
            Odd("string", "5", (0, "007"), ALL, read=(0, "007")).part("leading zeros"),
            Odd(
                "date", "2026-01-05", (0, "2026-01-05 23:59"), TEXT, value=date(2026, 1, 5), reason="v: not a valid"
            ).part("a time of day"),
            Odd("double", "1.5", (0, "1e400"), TEXT, value=1.5, reason="v: not a valid").part("too large"),
        ),
    )


def _ragged() -> Case:
    return Case(
        "R04",
        "Records with too few or too many fields make the sniffer throw away the header and what stands above them.",
        "Such a record is a reject, the others stay; a header shorter than every record refuses the file.",
        (
            Odd("string", "x", b"0", ("csv",), reason="1 field").part("too few"),
            Odd("string", "x", b"0,x,y", ("csv",), reason="3 fields").part("too many"),
            Bytes(V, {("csv", "a short header"): File(b"id,v\n" + b"1,x,y\n" * 5, refused="header")}).part(),
            Bytes({"c0": "string"}, {("csv", "one column"): File(b"c0\nv0\na;b\n", (("v0",), ("a;b",)))}).part(),
        ),
    )


def _new_column() -> Case:
    plain = Sheet(("id", "v"), ((1, "a"),), ((1, "a"),), types=ID)
    more = Sheet(("id", "v", "extra"), ((2, "b", "c"),), ((2, "b"),), types=ID)
    refused = Sheet(more.names, more.records, refused="extra", types=ID)
    rescued = [
        Sheet(plain.names, plain.records, ((1, "a", None),), types=ID),
        Sheet(more.names, more.records, ((2, "b", {"extra": "c"}),), types=ID),
    ]
    return Case(
        "R05",
        "The first file gives the schema; a column that later files have vanishes without a word.",
        "`unknown_columns` decides, in whatever order the files come: the file is refused and the column named, or the "
        "column is passed over, kept in `_rescued`, or added to the table.",
        (
            Sheets(V, (plain, refused)).part("reject"),
            Sheets(V, (plain, more), changes={"unknown_columns": "ignore"}).part("ignore"),
            Sheets(V, tuple(rescued), changes={"unknown_columns": "rescue"}).part("rescue"),
        ),
        ("tests/integration/test_added_columns.py::test_r05_the_extra_column_is_kept_in_both_orders",),
    )


def _whole_and_fraction() -> Case:
    def sheets(kind: type, whole: object, part: object) -> tuple[Sheet, ...]:
        return (
            Sheet(("id", "x"), ((1, whole),), ((1, kind(whole)),), types=ID | {"x": pa.int32()}),
            Sheet(("id", "x"), ((2, part),), ((2, kind(part)),), types=ID | {"x": pa.float64()}),
        )

    fits, _ = sheets(int, 1, 2.75)
    bent = Sheet(
        ("id", "x"),
        ((2, 2.75),),
        ((2, 2.75),),
        refused_in=dict.fromkeys(TYPED, "x"),
        rejects_in={format: [(0, "x: not a valid")] for format in TEXT},
        types=ID | {"x": pa.float64()},
    )
    texts = (
        Sheet(("id", "x"), ((1, "1"),), ((1, Decimal("1.00")),)),
        Sheet(("id", "x"), ((2, "2.75"),), ((2, Decimal("2.75")),)),
    )
    return Case(
        "R06",
        "A column is whole in one file and has fractions in the next; the second is rounded or the read fails.",
        "The declared type holds for every file: what fits without loss is widened, what does not is a reject or "
        "refuses its file.",
        (
            Sheets({"id": "bigint", "x": "double"}, sheets(float, 1, 2.75)).part("declared double"),
            Sheets({"id": "bigint", "x": "bigint"}, (fits, bent)).part("declared whole"),
            Sheets({"id": "bigint", "x": "decimal(12,2)"}, texts, formats=TEXT).part("declared decimal"),
        ),
    )


def _only_nulls() -> Case:
    def first(kind: pa.DataType) -> Sheet:
        return Sheet(("id", "v"), ((1, None), (2, None)), ((1, None), (2, None)), types=ID | {"v": kind})

    then = Sheet(("id", "v"), ((3, "x"), (4, "NA")), ((3, "x"), (4, "NA")), types=ID)
    return Case(
        "R07",
        "A column without values in the first file has no type, so later values fail; the code `NA` becomes no value.",
        "The declaration types the column, and no text is no value but the declared ones.",
        (
            Sheets(V, (first(pa.string()), then)).part(),
            Sheets(V, (first(pa.null()), then), formats=("parquet", "avro")).part("typed null"),
        ),
    )


def _leading_zeros() -> Case:
    codes = Sheet(("id", "v"), ((1, "01234"), (2, "09876")), ((1, "01234"), (2, "09876")), types=ID)
    quoted = File(b'id,v\n1,"01234"\n2,09876\n', ((1, "01234"), (2, "09876")))
    return Case(
        "R09",
        "Codes lose their leading zeros, quoted or not.",
        "A `string` column keeps the text.",
        (Sheets(V, (codes,)).part(), Bytes(V, {("csv", "one quoted, one not"): quoted}).part()),
    )


def _null_words() -> Case:
    words = b'id,v\n1,NULL\n2,""\n3,\n4,N/A\n5,\\N\n6,"NULL"\n'
    values = (None, None, None, "N/A", None, "NULL")
    rows = tuple((i + 1, value) for i, value in enumerate(values))
    again = b"".join(b"%d,NULL\n" % i for i in range(7, 2500))
    many = File(words + again, rows + tuple((i, None) for i in range(7, 2500)))
    # a bare quote inside a field: only the reader by the letter takes this file
    letters = File(words + b'7,a"b\n', (*rows, (7, 'a"b')))
    tags = b"<all>" + b"".join(b"<r><id>%d</id><v>%b</v></r>" % (i, t) for i, t in [(1, b"NULL"), (2, b""), (3, b"NA")])
    return Case(
        "R11",
        "Which texts are no value differs between readers, and by quotes.",
        "Those of `null_values` where they are not quoted, and an empty one as `quoted_empty` says; the same in every "
        "way to read a file.",
        (
            Bytes(
                V,
                {
                    ("csv", "a short file"): File(words, rows),
                    ("csv", "a long one"): many,
                    ("csv", "one read by the letter"): letters,
                },
                options={"null_values": ["", "NULL", "\\N"]},
            ).part(),
            Bytes(
                V,
                {("xml", "elements"): File(tags + b"</all>", ((1, None), (2, None), (3, "NA")))},
                options={"null_values": ["", "NULL"]},
            ).part(),
        ),
    )


def _numbers_of_a_country() -> Case:
    sheets = (
        Sheet(("id", "v"), ((1, "1.234,50"), (2, "99,10")), ((1, Decimal("1234.50")), (2, Decimal("99.10")))),
        Sheet(("id", "v"), ((3, "1.234"),), ((3, Decimal("1234.00")),)),
    )
    return Case(
        "R12",
        "`1.234` is a thousand in one country and one and a bit in another; a guess changes the amount.",
        "`decimal` and `thousands` are declared and hold for every file.",
        (
            Sheets(
                {"id": "bigint", "v": {"type": "decimal(12,2)", "decimal": ",", "thousands": "."}},
                sheets,
                formats=TEXT,
            ).part(),
        ),
    )


def _day_and_month() -> Case:
    sheets = (
        Sheet(("id", "v"), ((1, "03/04/2026"), (2, "04/25/2026")), ((1, date(2026, 3, 4)), (2, date(2026, 4, 25)))),
        Sheet(("id", "v"), ((3, "03/04/2026"),), ((3, date(2026, 3, 4)),)),
    )
    return Case(
        "R13",
        "Day and month are told apart by the values of each file, so one feed flips from day to day.",
        "`date_format` is declared; without it a date is `2026-03-04` and nothing else.",
        (
            Sheets({"id": "bigint", "v": {"type": "date", "date_format": "%m/%d/%Y"}}, sheets, formats=TEXT).part(),
            Odd("date", "2026-03-04", (0, "03/04/2026"), TEXT, value=date(2026, 3, 4), reason="v: not a valid").part(
                "not declared"
            ),
        ),
    )


def _zone_of_the_host() -> Case:
    def sheets(value: object, kind: pa.DataType) -> tuple[Sheet, ...]:
        return (Sheet(("id", "v"), ((1, value),), ((1, INSTANT),), types=ID | {"v": kind}),)

    columns = {"id": "bigint", "v": {"type": "timestamptz", "timezone": "America/New_York"}}
    naive = datetime(2026, 3, 29, 1, 30)  # noqa: DTZ001
    gap = Odd(
        "timestamptz",
        "2026-03-28 01:30:00",
        (0, "2026-03-29 02:30:00"),
        TEXT,
        value=datetime(2026, 3, 28, 0, 30, tzinfo=UTC),
        reason="v: not a valid",
        options={"timezone": "Europe/Berlin"},
    )
    parts = [gap.part("a time that was skipped")]
    for host in ("America/New_York", "UTC", "Asia/Kolkata"):
        texts = Sheets(columns, sheets("2026-03-29 01:30:00", pa.string()), formats=TEXT, zone=host)
        typed = Sheets(columns, sheets(naive, pa.timestamp("us")), formats=TYPED, zone=host)
        parts += [texts.part(f"on a host in {host}"), typed.part(f"on a host in {host}")]
    return Case(
        "R15",
        "A time without a zone is read in the zone of the host.",
        "It is read in the declared `timezone`, UTC unless told; a local time that does not exist is a reject.",
        tuple(parts),
    )


def _encodings() -> Case:
    def texts(encoding: str) -> dict[tuple[str, str], File]:
        written = {
            "csv": "id,v\n1,café\n2,ok\n",
            "jsonl": '{"id": 1, "v": "café"}\n{"id": 2, "v": "ok"}\n',
            "json": '[{"id": 1, "v": "café"}, {"id": 2, "v": "ok"}]',
            "xml": "<all><r><id>1</id><v>café</v></r><r><id>2</id><v>ok</v></r></all>",
        }
        rows = ((1, "café"), (2, "ok"))
        return {(format, encoding): File(text.encode(encoding), rows) for format, text in written.items()}

    bad = {"csv": b"0,caf\xe9", "jsonl": b'{"id": 0, "v": "caf\xe9"}', "json": b'{"id": 0, "v": "caf\xe9"}'}
    document = {("xml", "not declared"): File(b"<all><r><id>1</id><v>caf\xe9</v></r></all>", refused="not well-formed")}
    parts = [Bytes(V, texts(e), options={"encoding": e}).part(f"declared {e}") for e in ("latin-1", "utf-16")]
    parts += [Odd("string", "ok", raw, (f,), reason="UTF-8").part("not declared") for f, raw in bad.items()]
    return Case(
        "R17",
        "A file in another encoding fails, loses records or becomes bytes.",
        "`encoding` is declared; without it a record with bytes that are no UTF-8 is a reject; an XML document is "
        "refused.",
        (*parts, Bytes(V, document).part()),
    )


def _no_records() -> Case:
    empty = Sheet(("id", "v"), (), (), types=ID)
    one = {"id": "bigint"}
    return Case(
        "R19",
        "A file without records gives an error, wrong types or a phantom row.",
        "It has no rows, and is consumed. An object of 0 bytes is ignored.",
        (
            Sheets(V, (empty,)).part(),
            Bytes(
                one, {("csv", "a header and a blank line"): File(b"id\n\n"), ("jsonl", "a blank line"): File(b"\n")}
            ).part(),
        ),
        ("tests/integration/test_load.py::test_siblings_markers_and_empty_objects_are_not_loaded",),
    )


def _names_alike() -> Case:
    alike = Sheet(("id", "ID", "v"), ((1, 2, "a"),), refused="ID", types=ID | {"ID": pa.int64()})
    doubled: dict[tuple[str, str], File] = {
        ("csv", "a name twice"): File(b"id,v,v\n1,a,b\n", refused="v"),
        ("jsonl", "a key twice in a record"): File(b'{"id": 1, "v": "a", "v": "b"}\n', rejects=(Rejected(1, "twice"),)),
        ("json", "a key twice in a record"): File(b'[{"id": 1, "v": "a", "v": "b"}]', rejects=(Rejected(1, "twice"),)),
        ("xml", "an element twice"): File(
            b"<all><r><id>1</id><v>a</v><v>b</v></r></all>", rejects=(Rejected(1, "v: "),)
        ),
    }
    return Case(
        "R20",
        "Names that are equal, or equal up to case, are renamed, or the last value wins.",
        "The file is refused and both columns are named; a record that has a field twice is a reject.",
        (
            Sheets(V, (alike,), formats=ALL).part("up to case"),
            Sheets(V, (alike,), formats=ALL, changes={"unknown_columns": "ignore"}).part(
                "up to case where others are ignored"
            ),
            Bytes(V, doubled).part("repeated"),
        ),
    )


def _good_neighbours() -> Case:
    broken = {
        "csv": (b"0,x,surplus", "3 fields"),
        "jsonl": (b'{"id": 0, "v": "x"', "JSON"),
        "json": (b'{"id": 0, "v": nope}', "JSON"),
        "xml": (b"<r><id>0</id><v><b>x</b></v></r>", "v: "),
    }
    parts = [Odd("string", "x", raw, (format,), reason=reason).part() for format, (raw, reason) in broken.items()]
    quote = Odd("string", "x", b'0,"x" y', ("csv",), reason="closing quote")
    return Case(
        "R21",
        "Skipping errors also loses or empties good records beside the bad one.",
        "The bad record alone is a reject: accepted + rejected = records.",
        (*parts, quote.part("a broken quote")),
    )


def _dirty_cell() -> Case:
    return Case(
        "R22",
        "A cast that may fail is pushed into the scan and fails the read, or `12.75` becomes 13.",
        "A value that is not of the declared type makes its record a reject that names the column.",
        (
            Odd("int", "5", (0, "abc"), TEXT, value=5, reason="v: not a valid int").part(),
            Odd("int", "5", (0, "2147483648"), TEXT, value=5, reason="v: not a valid int").part("out of range"),
        ),
    )


def _choice() -> Case:
    kinds = (
        Sheet(("id", "v"), ((1, "a"),), ((1, "a"),)),
        Sheet(("id", "v"), ((2, {"x": 1}),), ((2, ""),), rejects_in={f: [(0, "v: ")] for f in (*JSON, "xml")}),
        Sheet(("id", "v"), ((3, [1, 2]),), ((3, ""),), rejects_in={f: [(0, "v: ")] for f in JSON}),
        Sheet(("id",), ((4,),), ((4, None),)),
    )
    return Case(
        "R24",
        "A field is a text, an object, a list or missing, record by record; its type depends on what comes first.",
        "The declared type decides for each record: an object or a list is a reject where a text is declared. `mixed` "
        "keeps all of them: as texts, as fields of a struct, or in a column for each kind.",
        (
            *(s.part(f"mixed: {m}") for m, s in zip(("string", "struct", "columns"), _mixed_kinds(), strict=True)),
            Sheets(V, kinds, formats=JSON).part(),
            Sheets(V, (kinds[0], kinds[1], kinds[3]), formats=("xml",)).part(),
            Odd("string", "a", (0, {"x": 1}), (*JSON, "xml"), reason="v: ").part("an object"),
            Odd("string", "a", (0, [1, 2]), JSON, reason="v: ").part("a list"),
        ),
    )


def _kinds(declared: dict[str, object], values: list[tuple[object, ...]]) -> Sheets:
    """One file for each kind of value, under a rule for mixed ones."""
    given: list[object] = ["a", 7, True, {"x": 1}, [1, 2], None]
    sheets = tuple(
        Sheet(("id", "v"), ((i, value),), ((i, *read),))
        for i, (value, read) in enumerate(zip(given, values, strict=True))
    )
    return Sheets({"id": "bigint", **declared}, sheets, formats=JSON)


def _mixed_kinds() -> tuple[Sheets, Sheets, Sheets]:
    texts = [("a",), ("7",), ("true",), ('{"x":1}',), ("[1,2]",), (None,)]
    fields = "struct<string: string, long: bigint, boolean: boolean, struct: struct<x: int>, list: list<int>>"
    empty = dict.fromkeys(("string", "long", "boolean", "struct", "list"))
    kinds = [
        {"string": "a"}, {"long": 7}, {"boolean": True}, {"struct": {"x": 1}}, {"list": [1, 2]},
    ]  # fmt: skip
    columns = {
        f"v_{kind}": {"type": type_, "from": "v", "mixed": "columns"}
        for kind, type_ in [
            ("string", "string"), ("long", "bigint"), ("boolean", "boolean"), ("struct", "struct<x: int>"),
            ("list", "list<int>"),
        ]
    }  # fmt: skip
    each = [tuple((empty | kind).values()) for kind in kinds]
    return (
        _kinds({"v": {"type": "string", "mixed": "string"}}, texts),
        _kinds({"v": {"type": fields, "mixed": "struct"}}, [*((empty | kind,) for kind in kinds), (None,)]),
        _kinds(columns, [*each, (None,) * 5]),
    )


def _share_of_nulls() -> Case:
    struct = pa.struct([("one", pa.int64())])
    parts = []
    for nulls in (1, 10, 2500):
        full = Sheet(("id", "v"), ((0, {"one": 1}),), ((0, {"one": 1}),), types=ID | {"v": struct})
        records = tuple((i, None) for i in range(1, nulls + 1))
        empty = Sheet(("id", "v"), records, records, types=ID | {"v": struct})
        formats = tuple(format for format in ALL if format != "csv")
        parts.append(
            Sheets({"id": "bigint", "v": "struct<one: bigint>"}, (full, empty), formats=formats).part(
                f"nulls beside one value: {nulls}"
            )
        )
    return Case(
        "R25",
        "The type of a nested field depends on how many records have no value in it.",
        "The declared type holds, whatever the share of nulls.",
        tuple(parts),
    )


def _members() -> Case:
    halves = {
        "csv": (b"id,v\n1,a\n", b"2,b\n3,c\n"),
        "jsonl": (b'{"id": 1, "v": "a"}\n', b'{"id": 2, "v": "b"}\n{"id": 3, "v": "c"}\n'),
        "json": (b'[{"id": 1, "v": "a"},\n', b'{"id": 2, "v": "b"},\n{"id": 3, "v": "c"}]'),
        "xml": (b"<all><r><id>1</id><v>a</v></r>\n", b"<r><id>2</id><v>b</v></r>\n<r><id>3</id><v>c</v></r></all>"),
    }
    packers: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "zstd": zstandard.ZstdCompressor().compress,
        "bz2": bz2.compress,
    }
    rows = ((1, "a"), (2, "b"), (3, "c"))
    files = {
        (format, name): File(b"".join(map(pack, members)), rows)
        for format, members in halves.items()
        for name, pack in packers.items()
    }
    return Case(
        "R27",
        "Only the first member of a concatenated archive is read.",
        "Every member is read, whatever the file is called.",
        (Bytes(V, files).part(),),
    )


def _folder_values() -> Case:
    cities = {"S%C3%A3o%20Paulo": "São Paulo", "a+b": "a+b", "007": "007", "__HIVE_DEFAULT_PARTITION__": None}
    sheets = tuple(
        Sheet(("id",), ((i,),), ((i, city),), types=ID, folder=f"city={folder}/")
        for i, (folder, city) in enumerate(cities.items())
    )
    return Case(
        "R29",
        "Encoded or code-like folder values change: `007` becomes 7, `a+b` becomes `a b`.",
        "They are decoded once and keep their text; hive's default name is no value.",
        (Sheets({"id": "bigint", "city": {"type": "string", "from_path": "city"}}, sheets).part(),),
    )


def _byte_order_mark() -> Case:
    mark = b"\xef\xbb\xbf"
    files = {
        ("csv", "LF"): File(mark + b"id,v\n1,a\n", ((1, "a"),)),
        ("csv", "CRLF"): File(mark + b"id,v\r\n1,a\r\n", ((1, "a"),)),
        ("csv", "a quoted header"): File(mark + b'"id","v"\r\n1,a', ((1, "a"),)),
        ("jsonl", "LF"): File(mark + b'{"id": 1, "v": "a"}\n', ((1, "a"),)),
        ("json", "LF"): File(mark + b'[{"id": 1, "v": "a"}]\n', ((1, "a"),)),
        ("xml", "LF"): File(mark + b"<all><r><id>1</id><v>a</v></r></all>\n", ((1, "a"),)),
    }
    return Case(
        "R32",
        "A byte order mark ends up in the first column's name, which is the key.",
        "It is no part of the text.",
        (Bytes(V, files).part(),),
    )


def _same_key_twice() -> Case:
    columns = {"id": "string", "v": "bigint", "at": "date"}
    types = {"v": pa.int64(), "at": pa.date32()}
    older = Sheet(("id", "v", "at"), (("k1", 1, date(2026, 1, 1)),), (("k1", 1, date(2026, 1, 1)),), types=types)
    newer = Sheet(("id", "v", "at"), (("k1", 2, date(2026, 1, 2)),), (("k1", 2, date(2026, 1, 2)),), types=types)
    texts = [
        Sheet(sheet.names, tuple((k, str(v), str(at)) for k, v, at in sheet.rows), sheet.rows)
        for sheet in (older, newer)
    ]
    changes = {"order_by": ["at"]}
    survivors = newer.rows
    return Case(
        "V01",
        "Exports that overlap put a key twice into one batch, and the upsert refuses all of it.",
        "The newest by `order_by` wins, in whatever order the files come; the other is counted as superseded.",
        (
            Sheets(columns, (older, newer), TYPED, changes=changes, survivors=survivors).part(),
            Sheets(columns, tuple(texts), TEXT, changes=changes, survivors=survivors).part(),
        ),
        ("tests/integration/test_load.py::test_duplicates_null_keys_and_bad_values_are_counted_and_listed",),
    )


def _null_key() -> Case:
    missing = "no value, and the column needs one"
    return Case(
        "V02",
        "A key without a value stops the batch.",
        "Its record is a reject with file and line; the others are merged.",
        (
            Odd("string", "x", (None, "x"), ALL, reason=f"id: {missing}").part("one column"),
            Odd("string", "x", (0, None), ALL, reason=f"v: {missing}", changes={"key": ["id", "v"]}).part(
                "of two columns"
            ),
        ),
        ("tests/integration/test_load.py::test_duplicates_null_keys_and_bad_values_are_counted_and_listed",),
    )


def _sub_microseconds() -> Case:
    good = datetime(2026, 1, 5, 10, 0, 0, 1)  # noqa: DTZ001
    nanos = 1_767_607_200_000_001_001
    return Case(
        "V05",
        "Nanoseconds and other zones than UTC are refused by the table's writer.",
        "Times become microseconds in UTC while they are staged; a value with a part below a microsecond is a reject.",
        (
            Odd(
                "timestamp",
                nanos - 1,
                (0, nanos),
                ("parquet", "orc"),
                value=good,
                reason="v: ",
                types={"v": pa.timestamp("ns")},
            ).part("typed nanoseconds"),
            Odd(
                "timestamp", "2026-01-05 10:00:00.000001", (0, "2026-01-05 10:00:00.0000011"), TEXT, value=good,
                reason="v: ",
            ).part("seven digits"),
        ),
        ("tests/unit/read/typed/test_parquet.py::test_v05_nanoseconds_zones_and_naive_times_become_microseconds_of_utc",),
    )  # fmt: skip


def _commits() -> list[Case]:
    crash, matrix = "tests/fault/test_crash.py", "tests/fault/test_matrix.py::test_a_part_of_the_matrix"
    return [
        Case(
            "M02",
            "The process dies between the table's commit and the saving of its state: a repeat, or a loss.",
            "There is one commit, of rows and bookmark together; the rerun does all of it or nothing.",
            tests=(f"{crash}::test_killed_at", matrix),
        ),
        Case(
            "M04",
            "A commit is not answered: a blind retry repeats it, a clean-up deletes files that are live.",
            "The table is read back; if that decides nothing the outcome is unknown, and no file is deleted.",
            tests=(
                f"{crash}::test_a_lost_response_is_settled_by_reading_back",
                f"{crash}::test_an_unknown_outcome_is_said_and_the_next_load_decides",
                matrix,
            ),
        ),
    ]


def _upkeep() -> list[Case]:
    expire, orphans = (f"tests/integration/test_maintain_{name}.py" for name in ("expire", "orphans"))
    return [
        Case(
            "X01",
            "Expiring snapshots frees no file, and metadata files pile up.",
            "`maintain expire` deletes what only they needed, after their commit; `--dry-run` lists it.",
            tests=(
                f"{expire}::test_x01_expired_snapshots_free_their_files",
                f"{orphans}::test_x01_an_expiry_that_was_killed_leaves_orphans_that_are_found",
            ),
        ),
        Case(
            "X02",
            "Clean-up after a failed commit deletes files of a commit that did land.",
            "Files of an attempt go once its bookmark has passed it, else behind a fence that no older commit passes.",
            tests=(f"{orphans}::test_x02_files_of_an_undecided_attempt_go_behind_a_fence_alone",),
        ),
        Case(
            "X04",
            "Orphan removal on a table with work in flight, or on a shared folder, removes what it should not.",
            "The lease is waited for; files of others go by their age; where another table has metadata nothing goes.",
            tests=(
                f"{orphans}::test_x04_work_in_flight_and_files_of_others_stay",
                f"{orphans}::test_x04_what_may_be_another_tables_stays",
                f"{orphans}::test_x04_a_running_load_is_waited_for",
            ),
        ),
    ]


def _shown_elsewhere() -> list[Case]:
    merge = "tests/unit/merge/test_merge.py"
    return [
        Case(
            "R31",
            "An object is replaced between two ranged reads, and the file is a mix of both versions.",
            "Reads ask for the planned ETag; an object that changed is planned again as a whole.",
            tests=(
                "tests/integration/test_fetch_spans.py::test_an_overwritten_or_deleted_object_is_told",
                "tests/fault/test_landing.py::test_r31_an_object_replaced_between_two_ranged_reads_is_read_whole",
            ),
        ),
        Case(
            "V04",
            "Unchanged rows are written again: times with zones, NaN.",
            "NaN equals NaN, times are instants: no data file, one empty snapshot.",
            tests=(f"{merge}::test_a_batch_of_unchanged_rows_writes_no_data_file_and_one_empty_snapshot",),
        ),
        Case(
            "V08",
            "The check runs after the write, so bad rows are in the table before it fails.",
            "Gates are asked before anything is merged; target and bookmark stay as they were.",
            tests=("tests/integration/test_load.py::test_a_failed_gate_leaves_everything_as_it_was",),
        ),
        Case(
            "V09",
            "Keys that vanished at the source stay in the target.",
            "`write: snapshot` deletes them within `max_deleted_ratio`, `upsert` keeps them.",
            tests=(
                "tests/integration/test_write_modes.py::test_v09_keys_that_vanished_at_the_source",
                "tests/integration/test_write_modes.py::test_v09_more_than_the_ratio_is_a_failed_gate_and_touches_nothing",
            ),
        ),
    ]


CASES: tuple[Case, ...] = tuple(
    sorted(
        [
            _column_order(),
            _bent_values(),
            _ragged(),
            _new_column(),
            _whole_and_fraction(),
            _only_nulls(),
            _leading_zeros(),
            _null_words(),
            _numbers_of_a_country(),
            _day_and_month(),
            _zone_of_the_host(),
            _encodings(),
            _no_records(),
            _names_alike(),
            _good_neighbours(),
            _dirty_cell(),
            _choice(),
            _share_of_nulls(),
            _members(),
            _folder_values(),
            _byte_order_mark(),
            _same_key_twice(),
            _null_key(),
            _sub_microseconds(),
            *_shown_elsewhere(),
            *_commits(),
            *_upkeep(),
            *DISCOVERY,
        ],
        key=lambda case: case.id,
    )
)
