from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakehouse.errors import UnreadableObject
from lakehouse.read import sink
from lakehouse.read.csv import reader as reader
from lakehouse.read.csv import records as csv_records
from lakehouse.read.csv import survey as csv_survey
from tests.staging_values import Result, Staging, declared, planned, staging

Stage = Callable[..., Result]


@pytest.fixture(params=["duckdb", "by the letter"])
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Stages bytes as CSV: where DuckDB may read them, both ways must come to the same."""
    if request.param == "by the letter":
        monkeypatch.setattr(reader, "survey_file", lambda _: None)
    with duckdb.connect() as con:

        def run(data: bytes, columns: dict[str, Any] | None = None, **changes: Any) -> Result:
            staging = Staging(con, tmp_path, declared(columns, **changes))
            return staging.stage(data)

        yield run


def test_header_is_matched_by_name(stage: Stage) -> None:
    # R01: DuckDB matches a list of columns by position
    result = stage(b"id,price,qty\n2,9,5\n", {"id": "long", "qty": "int", "price": "int"})
    assert result.rows == [(2, 5, 9)]


def test_rename_takes_the_name_in_the_file(stage: Stage) -> None:
    assert stage(b"Order No,v\n7,a\n", {"id": {"type": "int", "from": "Order No"}, "v": "string"}).rows == [(7, "a")]


def test_values_are_never_bent(stage: Stage) -> None:
    # R02
    data = b"id,n,d\n" + b"".join(b"%d,%d,2026-01-05\n" % (i, i) for i in range(30)) + b"30,12.75,2026-01-05 23:59\n"
    result = stage(data, {"id": "long", "n": "long", "d": "date"})
    assert len(result.rows) == 30
    assert result.rejects == [(32, "n,d", "n: not a valid long; d: not a valid date", "30,12.75,2026-01-05 23:59")]


@pytest.mark.parametrize(
    ("data", "rows", "rejected"),
    [
        (b"c0\nv0\na;b\n", [("v0",), ("a;b",)], []),
        (b"c0\n1\n2,x\n3\n", [("1",), ("3",)], [3]),
    ],
)
def test_one_column_file_keeps_its_header_and_rows(
    stage: Stage, data: bytes, rows: list[tuple[str]], rejected: list[int]
) -> None:
    # R04 (a): the sniffer takes the header and first rows for a preamble
    result = stage(data, {"c0": "string"}, key=["c0"])
    assert (result.rows, result.rejected_lines) == (rows, rejected)


def test_ragged_rows_are_rejects_and_their_neighbours_stay(stage: Stage) -> None:
    # R04 (b), R21
    result = stage(b"id,a,b\n1,x,y\n2,x\n3,x,y,z\n4,x,y\n", {"id": "int", "a": "string", "b": "string"})
    assert [row[0] for row in result.rows] == [1, 4]
    assert result.rejects == [
        (3, None, "2 fields where the header has 3", "2,x"),
        (4, None, "4 fields where the header has 3", "3,x,y,z"),
    ]


@pytest.mark.parametrize("surplus", [b",", b",,", b',""', b",NULL"])
def test_an_empty_field_too_many_is_one_too_many(stage: Stage, surplus: bytes) -> None:
    # DuckDB lets surplus fields pass that mean NULL, also when it is strict
    result = stage(b"id,v\n1,a\n2,b" + surplus + b"\n", format={"null_values": ["", "NULL"]})
    assert (result.rows, result.rejected_lines) == ([("1", "a")], [3])


def test_header_shorter_than_all_rows_refuses_the_file(stage: Stage) -> None:
    # R04 (c)
    with pytest.raises(UnreadableObject, match=r"more fields than the header has 2: .*records=5"):
        stage(b"id,a\n" + b"1,x,y\n" * 5, {"id": "int", "a": "string"})


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"id,ID,v\n1,2,a\n", "'id','ID'"),  # R20
        (b"id,v,v\n1,a,b\n", "'v','v'"),
        (b"id,v,extra\n1,a,b\n", "unknown columns.*'extra'"),  # R05
        (b"v\na\n", "missing columns.*'id'"),
        (b"Id,v\n1,a\n", "'Id' declared='id'"),
        (b"id , v\n1,a\n", "'id ' declared='id'"),
        (b"id,v,\n1,a,\n", "unknown columns.*''"),
        (b"\n\n", "no header"),
        (b"id,\xff\n1,a\n", "header cannot be read.*UTF-8"),
        (b'id,"v\n1,a\n', "header cannot be read.*never closed"),
    ],
)
def test_header_that_does_not_fit_refuses_the_file(stage: Stage, data: bytes, named: str) -> None:
    with pytest.raises(UnreadableObject, match=named):
        stage(data)


def test_unknown_columns_can_be_ignored_and_missing_ones_are_null(stage: Stage) -> None:
    result = stage(b'x,id,"a,b"\n9,1,"p\nq"\n', {"id": "int", "n": "double"}, unknown_columns="ignore")
    assert result.rows == [(1, None)]
    with pytest.raises(UnreadableObject, match=r"missing columns.*'n'"):
        stage(b"id\n1\n", {"id": "int", "n": {"type": "double", "required": True}})


def test_near_names_are_refused_even_if_unknown_ones_are_ignored(stage: Stage) -> None:
    with pytest.raises(UnreadableObject, match="case or blanks alone"):
        stage(b"id,V\n1,a\n", unknown_columns="ignore")


@pytest.mark.parametrize(
    "name", ['a"b', "x'); DROP TABLE staged; --", "two\nlines", "c0", "line", "v0", "été", "%s {x}"]
)
def test_hostile_header_names_are_data(stage: Stage, name: str) -> None:
    column = {"type": "int", "from": name}
    header = '"' + name.replace('"', '""') + '"'
    result = stage(f"id,{header}\nk,5\nl,x\n".encode(), {"id": "string", "n": column})
    assert result.rows == [("k", 5)]
    assert result.rejected_lines == [2 + len(name.splitlines())]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends_blank_lines_and_bom(stage: Stage, end: bytes) -> None:
    # R19, R32; DuckDB finds no rows at all when told of CRLF
    lines = [b"\xef\xbb\xbfid,v", b'1,"a"', b"", b"2,b", b""]
    result = stage(end.join(lines))
    assert (result.rows, result.lines) == ([("1", "a"), ("2", "b")], [2, 4])
    result = stage(end.join([*lines[:-1], b"", b""]), format={"blank_lines": "reject"})
    assert result.rejects == [(3, None, "the line is blank", ""), (5, None, "the line is blank", "")]


@pytest.mark.parametrize("data", [b"id\n", b"id", b"id\n\n", b"id\r\n"])
def test_header_alone_is_no_row(stage: Stage, data: bytes) -> None:
    # R19
    assert stage(data, {"id": "string"}).counts.read == 0


def test_null_words_count_where_they_are_not_quoted(stage: Stage) -> None:
    # R11: one list for every way to read
    data = b'id,v\n1,NULL\n2,""\n3,\n4,N/A\n5,\\N\n6,"NULL"\n'
    words: dict[str, Any] = {"null_values": ["", "NULL"]}
    assert [v for _, v in stage(data, format=words).rows] == [None, None, None, "N/A", "\\N", "NULL"]
    words["quoted_empty"] = "text"
    assert [v for _, v in stage(data, format=words).rows] == [None, "", None, "N/A", "\\N", "NULL"]
    assert [v for _, v in stage(data, format={"null_values": []}).rows] == ["NULL", "", "", "N/A", "\\N", "NULL"]


def test_a_column_has_null_words_of_its_own(stage: Stage) -> None:
    # R07, R11: NA is a country, and no number
    columns = {
        "id": "int",
        "country": {"type": "string", "null_values": []},
        "n": {"type": "int", "null_values": ["NA", ""]},
        "v": "string",
    }
    data = b'id,v,n,country\n1,NA,NA,NA\n2,-,,\n3,"-","5",""\n4,x,-,"NA"\n'
    for lines in (data, data.replace(b"\n", b"\r")):
        result = stage(lines, columns, format={"null_values": ["-"]})
        assert result.rows == [(1, "NA", None, "NA"), (2, "", None, None), (3, "", 5, "-")]
        assert [(line, column) for line, column, *_ in result.rejects] == [(5, "n")]


def test_blanks_alone_are_no_number(stage: Stage) -> None:
    assert stage(b"id,n\n1,  \n", {"id": "int", "n": "int"}).rows == [(1, None)]
    assert stage(b"id,n\n1,  \n", {"id": "int", "n": "int"}, format={"null_values": ["x"]}).rejected_lines == [2]
    assert stage(b"id,v\n1,  \n").rows == [("1", "  ")]


def test_null_in_a_key_or_required_column_is_a_reject(stage: Stage) -> None:
    # V02
    columns = {"id": "string", "line": "int", "n": {"type": "int", "required": True}, "o": "int"}
    result = stage(b"id,line,n,o\na,1,1,\n,1,1,1\na,,1,1\na,2,,1\na,x,,y\n", columns, key=["id", "line"])
    assert result.rows == [("a", 1, 1, None)]
    absent = "no value, and the column needs one"
    assert [(line, column, reason) for line, column, reason, _ in result.rejects] == [
        (3, "id", f"id: {absent}"),
        (4, "line", f"line: {absent}"),
        (5, "n", f"n: {absent}"),
        (6, "line,n,o", f"line: not a valid int; n: {absent}; o: not a valid int"),
    ]


def test_lines_are_the_first_ones_of_their_records(stage: Stage) -> None:
    data = b'id,v,n\n1,"a\nb\n\nc",1\n2,x,z\n3,"p\nq",9\n4,"p\nq",z\n5,y,5\n'
    result = stage(data, {"id": "int", "v": "string", "n": "int"})
    assert result.lines == [2, 7, 11]
    assert [(line, raw) for line, *_, raw in result.rejects] == [(6, "2,x,z"), (9, '4,"p\nq",z')]


def test_bytes_that_are_no_text_reject_their_row(stage: Stage) -> None:
    # R17
    result = stage(b"id,v\n1,caf\xe9\n2,ok\n3,a\0b\n4,\xed\xa0\x80\n")
    assert result.rows == [("2", "ok")]
    assert result.rejects == [
        (2, None, "invalid UTF-8 at byte 6 of the record", "1,caf\\xe9"),
        (4, None, "a NUL at byte 4 of the record", "3,a\\x00b"),
        (5, None, "invalid UTF-8 at byte 3 of the record", "4,\\xed\\xa0\\x80"),
    ]


def test_malformed_quotes_reject_their_record(stage: Stage) -> None:
    result = stage(b'id,v\n1,"a"b\n2,c"d\n3,"e\nf"g\n4,h\n')
    assert result.rows == [("2", 'c"d'), ("4", "h")]
    reason = "field 2 goes on after its closing quote"
    assert result.rejects == [(2, None, reason, '1,"a"b'), (4, None, reason, '3,"e\nf"g')]


def test_a_quote_never_closed_rejects_every_line_it_swallows(stage: Stage) -> None:
    result = stage(b'id,v\n1,a\n2,"open\n3,c\n4,d')
    assert result.rows == [("1", "a")]
    reason = "a quote or escape in field 2 of line 3 is never closed"
    assert result.rejects == [(3, None, reason, '2,"open'), (4, None, reason, "3,c"), (5, None, reason, "4,d")]


def test_escapes(stage: Stage) -> None:
    result = stage(b'id,v\n1,"a\\"b\\\\"\n2,a\\,b\n3,"x""y"\n', format={"escape": "\\"})
    assert result.rows == [("1", 'a"b\\'), ("2", "a,b"), ("3", 'x"y')]


def test_skipped_lines_hold_anything(stage: Stage) -> None:
    result = stage(b'made by "me\n\nid,v\n1,a\n', format={"skip_lines": 2})
    assert (result.rows, result.lines) == ([("1", "a")], [4])
    with pytest.raises(UnreadableObject, match="no header"):
        stage(b"id,v\n1,a\n", format={"skip_lines": 2})


def test_records_over_the_limit_are_rejects(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_records, "MAX_RECORD", 10)
    monkeypatch.setattr(csv_records, "CHUNK", 4)
    monkeypatch.setattr(reader, "survey_file", lambda _: None)
    result = stage(b'id,v\n1,aaaaaaaaaaaaaaaaaaaaa\n2,b\n3,"aaaa\nbbbb\ncccc"\n4,"dd"\n5,e\n')
    assert result.rows == [("2", "b"), ("4", "dd"), ("5", "e")]
    assert result.rejected_lines == [2, 4, 5, 6]


def test_file_that_duckdb_cannot_take_is_read_by_the_letter(stage: Stage) -> None:
    # a line above DuckDB's limit, found by DuckDB and not by the survey
    long = b"x" * (csv_survey.MAX_LINE + 10)
    result = stage(b"id,v\n1," + long + b"\n2,b\n")
    assert [(id, len(v)) for id, v in result.rows] == [("1", len(long)), ("2", 1)]


def test_many_rejects_are_read_by_the_letter(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_REFED", 2)
    result = stage(b"id,n\n1,1\n2,x\n3,x\n4,x\n5,5\n", {"id": "int", "n": "int"})
    assert (result.lines, result.rejected_lines) == ([2, 6], [3, 4, 5])


def test_batches_are_let_go(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    # DuckDB keeps what is registered in a transaction until its end
    monkeypatch.setattr(reader, "survey_file", lambda _: None)
    monkeypatch.setattr(sink, "BATCH_ROWS", 100)
    held: list[int] = []
    arrow = sink.as_table

    def watched(*args: Any, **options: Any) -> pa.Table:
        held.append(pa.total_allocated_bytes())
        return arrow(*args, **options)

    monkeypatch.setattr(sink, "as_table", watched)
    assert stage(b"id,v\n" + (b"k," + b"x" * 1000 + b"\n") * 6000).counts.staged == 6000
    assert len(held) > 50
    assert max(held) - held[0] < 10 * 100 * 1000


@pytest.mark.parametrize("block", [1, 3, 7, 1000])
@pytest.mark.parametrize("data", [b"a\nbb\n\nccc\nd", b"a\nbb\n\nccc\nd\n"])
def test_lines_are_picked_whatever_the_blocks(data: bytes, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PICKED_BLOCK", block)
    lines = dict(enumerate(data.splitlines(keepends=True), start=1))
    for wanted in ([1], [5], [2, 4], [1, 2, 3, 4, 5]):
        assert list(reader._picked_lines(BytesIO(data), wanted)) == [(n, lines[n]) for n in wanted]


def test_numbers_of_a_country_in_a_file(tmp_path: Path) -> None:
    """R12"""
    format = {"type": "csv", "delimiter": ";", "decimal": ",", "thousands": "."}
    with staging(tmp_path, declared({"id": "int", "amt": "decimal(12,2)"}, format=format)) as session:
        first = session.stage(b"id;amt\n1;1.234,50\n2;99,10\n3;1,234.50\n")
        assert (first.rows, first.rejected_lines) == ([(1, Decimal("1234.50")), (2, Decimal("99.10"))], [4])
        alone = session.stage(b"id;amt\n3;1.234\n", item=planned("s3://landing/in/day=2026-08-30/b"))
        assert alone.rows == [(3, Decimal("1234.00"))]


def test_a_file_without_a_header_has_the_declared_columns_in_order(stage: Stage) -> None:
    columns = {"id": "int", "day": {"type": "date", "from_path": "date"}, "v": "string"}
    result = stage(b"# made by x\n1,a\n2,b,c\n3\n4,\n", columns, format={"header": False, "skip_lines": 1})
    assert [(row[0], row[2]) for row in result.rows] == [(1, "a"), (4, None)]
    assert result.lines == [2, 5]
    assert [(line, reason) for line, _, reason, _ in result.rejects] == [
        (3, "3 fields where 2 are declared"),
        (4, "1 fields where 2 are declared"),
    ]
    with pytest.raises(UnreadableObject, match="every record has more fields than 2 are declared"):
        stage(b"1,a,x\n2,b,x\n", columns, format={"header": False})


def test_a_file_without_a_header_may_hold_nothing_but_its_first_lines(stage: Stage) -> None:
    assert stage(b"# made by x\n", format={"header": False, "skip_lines": 1}).counts.read == 0
    assert stage(b"\xef\xbb\xbf1,a\n", {"id": "int", "v": "string"}, format={"header": False}).rows == [(1, "a")]


def test_columns_by_position_pass_over_the_names_of_the_header(stage: Stage) -> None:
    by_position = {"columns_by_position": True}
    columns = {"id": "int", "v": {"type": "string", "from": "x"}}
    assert stage(b"Nr,Nr\n1,a\n", columns, format=by_position).rows == [(1, "a")]
    with pytest.raises(UnreadableObject, match=r"another number of columns than declared: uri=.* header=3 declared=2"):
        stage(b"Nr,Text,More\n1,a,b\n", columns, format=by_position)


def test_without_quotes_a_quote_is_a_character(stage: Stage) -> None:
    data = b'id,v\n1,"a\n2,b"c"\n3,""\n'
    assert stage(data, {"id": "int", "v": "string"}, format={"quote": None}).rows == [
        (1, '"a'),
        (2, 'b"c"'),
        (3, '""'),
    ]


@pytest.mark.parametrize("ends", [b"", b"\n", b"\r\n\r\n"])
def test_the_trailer_counts_the_records(stage: Stage, ends: bytes) -> None:
    trailer = {"trailer": {"starts_with": "T", "count": 2}}
    data = b"id,v\r\n1,a\r\nx,b\r\n2,T\r\nT,3,xyz" + ends
    result = stage(data, {"id": "int", "v": "string"}, format=trailer)
    assert (result.rows, result.rejected_lines) == ([(1, "a"), (2, "T")], [3])
    with pytest.raises(UnreadableObject, match=r"counts other records than there are: uri=.* trailer=4 records=3"):
        stage(data.replace(b"T,3", b"T,4"), {"id": "int", "v": "string"}, format=trailer)
    with pytest.raises(UnreadableObject, match=r"the trailer has no number of records: uri=.* field=2 found='3x'"):
        stage(data.replace(b"T,3", b"T,3x"), {"id": "int", "v": "string"}, format=trailer)


def test_a_file_without_its_trailer_was_not_sent_to_its_end(stage: Stage) -> None:
    data = b"id,v\n1,a\n2,b\n"
    with pytest.raises(UnreadableObject, match=r"not the declared trailer: uri=.* declared='T' found='2,b'"):
        stage(data, format={"trailer": "T"})
    assert stage(data + b"Total\n", format={"trailer": "T"}).rows == [("1", "a"), ("2", "b")]


@pytest.mark.parametrize("binary", ["hex", "base64"])
@pytest.mark.parametrize("empty", [b"", b'""', b"  "])
def test_an_empty_field_is_no_binary_value(stage: Stage, binary: str, empty: bytes) -> None:
    columns = {"id": "int", "v": "binary"}
    format = {"binary": binary}
    assert stage(b"id,v\n1," + empty + b"\n", columns, format=format).rows == [(1, None)]
    needed = {"id": "int", "v": {"type": "binary", "required": True}}
    result = stage(b"id,v\n1," + empty + b"\n2,abcd\n", needed, format=format)
    assert [row[0] for row in result.rows] == [2]
    assert result.rejects[0][1:3] == ("v", "v: no value, and the column needs one")
    assert [row[1] for row in stage(b'id,v\n1,""\n', columns, format=format | {"null_values": []}).rows] == [b""]
