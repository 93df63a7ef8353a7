from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse.errors import UnreadableObject
from lakehouse.read.objects import xml
from tests.staging_values import Result, Staging, declared

Stage = Callable[..., Result]


@pytest.fixture(params=[1, 7, 1 << 20])
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Stages bytes as an XML document whose records are `<r>`, read in pieces of some bytes."""
    monkeypatch.setattr(xml, "CHUNK", request.param)
    with duckdb.connect() as con:

        def run(data: bytes, columns: dict[str, Any] | None = None, **changes: Any) -> Result:
            format = {"type": "xml", "row_element": "r", **changes.pop("format", {})}
            staging = Staging(con, tmp_path, declared(columns or {"id": "int"}, format=format, **changes))
            return staging.stage(data)

        yield run


def test_elements_and_attributes_are_fields(stage: Stage) -> None:
    data = (
        b'\xef\xbb\xbf<?xml version="1.0" encoding="UTF-8"?>\n<!-- orders -->\n<all>\n'
        b' <r no="7"><id>1</id><v>a &amp; b &lt;&#233;&gt;<![CDATA[ <x> ]]></v></r>\n'
        b' <group><r no="8"><v/>\n<id> 2 </id></r></group><r no="9"><id>3</id></r>\n</all>\n<!-- end -->'
    )
    result = stage(data, {"id": "int", "v": "string", "no": {"type": "int", "from": "_no"}})
    assert result.rows == [(1, "a & b <é> <x> ", 7), (2, None, 8), (3, None, 9)]
    assert result.lines == [4, 5, 6]


def test_rejects_show_the_element_as_it_stands(stage: Stage) -> None:
    result = stage(b'<all><r>\n<id>x</id> </r>  \n<r a="1>2"/><r><id>2</id></r></all>', unknown_columns="ignore")
    assert result.rows == [(2,)]
    assert result.rejects == [
        (1, "id", "id: not a valid int", "<r>\n<id>x</id> </r>"),
        (3, "id", "id: no value, and the column needs one", '<r a="1>2"/>'),
    ]


def test_the_declared_type_says_what_is_a_list(stage: Stage) -> None:
    columns = {
        "id": "int",
        "tag": "list<string>",
        "p": "struct<_a: int, b: list<decimal(5,2)>>",
        "m": "map<string, int>",
    }
    data = (
        b"<all><r><id>1</id><tag>x</tag></r>"
        b'<r><tag>x</tag><id>2</id><tag/><p a="1"><b>1.10</b><b>2</b></p><m><k>1</k><l>2</l></m></r>'
        b"<r><id>3</id><p/></r></all>"
    )
    assert stage(data, columns).rows == [
        (1, ["x"], None, None),
        (2, ["x", None], {"_a": 1, "b": [Decimal("1.10"), Decimal("2.00")]}, {"k": 1, "l": 2}),
        (3, None, None, None),
    ]


def test_the_text_beside_attributes(stage: Stage) -> None:
    columns = {"id": "int", "v": "struct<_VALUE: decimal(5,2), _currency: string>"}
    data = b'<all><r><id>1</id><v currency="EUR">1.50</v></r><r><id>2</id><v>2</v></r></all>'
    assert stage(data, columns).rows == [
        (1, {"_VALUE": Decimal("1.50"), "_currency": "EUR"}),
        (2, {"_VALUE": Decimal("2.00"), "_currency": None}),
    ]


def test_a_column_has_null_words_of_its_own(stage: Stage) -> None:
    columns = {"id": "int", "v": {"type": "string", "null_values": ["-"]}, "w": "string"}
    data = b"<all><r><id>1</id><v>-</v><w>-</w></r><r><id>2</id><v/><w/></r></all>"
    assert stage(data, columns).rows == [(1, None, "-"), (2, "", None)]


def test_nil_is_no_value(stage: Stage) -> None:
    namespace = b'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    data = (
        b"<all " + namespace + b'><r><id>1</id><v xsi:nil="true"/></r><r><id>2</id><v xsi:nil="false">x</v></r></all>'
    )
    assert stage(data, {"id": "int", "v": "string"}, format={"null_values": []}).rows == [(1, None), (2, "x")]


@pytest.mark.parametrize(
    ("record", "column", "reason"),
    [
        (b"<r><id>1</id><id>2</id></r>", "id", "id: repeated elements where a single value is declared"),
        (
            b"<r><id><x>1</x></id></r>",
            "id",
            "id: an element with children or attributes where a single value is declared",
        ),
        (
            b'<r><id a="1">1</id></r>',
            "id",
            "id: an element with children or attributes where a single value is declared",
        ),
        (b"<r>text<id>1</id></r>", None, "text between elements"),
    ],
)
def test_a_record_that_does_not_fit_is_a_reject(stage: Stage, record: bytes, column: str, reason: str) -> None:
    result = stage(b"<all><r><id>0</id></r>\n" + record + b"\n<r><id>9</id></r></all>")
    assert result.rows == [(0,), (9,)]
    assert result.rejects == [(2, column, reason, record.decode())]


def test_unknown_fields_refuse_the_file_or_are_ignored(stage: Stage) -> None:
    data = b'<all><r new="1"><id a="1">1</id><x><y/></x></r></all>'
    with pytest.raises(UnreadableObject, match=r"unknown columns: .*line=1 columns='_new','x'"):
        stage(data)
    assert stage(data, unknown_columns="ignore").rows == [(1,)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "line=1 reason=no element found at character 1"),
        (b"<all>\n<r><id>1</id></r>", "line=2 reason=no element found at character"),
        (b"<all>\n<r><id>1</r></all>", "line=2 reason=mismatched tag at character"),
        (b"<all><r><id>\xff</id></r></all>", "line=1 reason=not well-formed (invalid token)"),
        (b"<all><r><id>&nbsp;</id></r></all>", "line=1 reason=undefined entity"),
        (
            b'<!DOCTYPE all [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<all><r><id>&x;</id></r></all>',
            "a document type",
        ),
        (b'<!DOCTYPE all SYSTEM "all.dtd"><all/>', "line=1 reason=a document type (DOCTYPE) is refused"),
        (b'<?xml version="1.0" encoding="latin-1"?><all/>', "its encoding is latin-1, declared is utf-8"),
        (b"<all><row/><x/></all>", "no element has the declared name: uri="),
    ],
)
def test_a_document_that_cannot_be_read(stage: Stage, data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableObject) as caught:
        stage(data)
    assert reason in str(caught.value)


@pytest.mark.parametrize(("data", "rows"), [(b"<all/>", []), (b"<?xml version='1.0'?>\n<r><id>1</id></r>", [(1,)])])
def test_the_root_alone(stage: Stage, data: bytes, rows: list[Any]) -> None:
    assert stage(data).rows == rows


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1"])
def test_a_declared_encoding(stage: Stage, encoding: str) -> None:
    data = f'<?xml version="1.0" encoding="{encoding}"?><all><r><id>1</id><v>é</v></r></all>'.encode(encoding)
    assert stage(data, {"id": "int", "v": "string"}, format={"encoding": encoding}).rows == [(1, "é")]


def test_an_overlong_record_is_a_reject(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml, "MAX_RECORD", 30)
    data = b"<all><r><id>1</id></r>\n<r><id>2</id><v>" + b"x" * 99 + b"</v></r><r><id>3</id></r></all>"
    result = stage(data, {"id": "int", "v": "string"})
    assert [row[0] for row in result.rows] == [1, 3]
    assert [(line, reason) for line, _, reason, _ in result.rejects] == [(2, "the record is longer than 30 bytes")]


def test_elements_that_are_too_deep_to_rescue_are_rejects(stage: Stage) -> None:
    deep = b"<d>" * 9000 + b"</d>" * 9000
    data = b"<all><r><id>1</id><x>" + deep + b"</x></r>\n<r><id>2</id></r></all>"
    result = stage(data, unknown_columns="rescue")
    assert (result.lines, [(line, reason) for line, _, reason, _ in result.rejects]) == (
        [2],
        [(1, "elements nested too deeply")],
    )


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_another_encoding_without_a_byte_order_mark_is_refused(stage: Stage, encoding: str) -> None:
    with pytest.raises(UnreadableObject, match="declare its encoding"):
        stage("<all><r><id>1</id></r></all>".encode(encoding))


def test_what_a_record_says_of_namespaces_is_no_field(stage: Stage) -> None:
    data = (
        b'<all><r xmlns="urn:a" xmlns:b="urn:b" xsi:type="b:t" no="7"><id xsi:type="xs:int">1</id>'
        b'<m xmlns="urn:c"><k xsi:type="x">1</k></m><p xsi:type="t"><a>1</a></p></r></all>'
    )
    columns = {"id": "int", "m": "map<string, int>", "p": "struct<a: int>"}
    named = {**columns, "no": {"type": "int", "from": "_no"}}
    assert stage(data, named).rows == [(1, {"k": 1}, {"a": 1}, 7)]
    assert stage(data, columns, unknown_columns="rescue").rows == [(1, {"k": 1}, {"a": 1}, {"_no": "7"})]


@pytest.mark.parametrize(
    ("nulls", "kept"),
    [
        ([""], {"o": '{"a": null, "_VALUE": "z"}'}),
        ([], {"e": "", "f": "", "o": '{"a": "", "_VALUE": "z"}'}),
    ],
)
def test_an_empty_element_is_no_value_where_it_is_rescued_too(
    stage: Stage, nulls: list[str], kept: dict[str, str]
) -> None:
    data = b'<all><r><id>1</id><e/><f></f><n xsi:nil="true"/><o><a/>z</o></r></all>'
    result = stage(data, {"id": "int"}, unknown_columns="rescue", format={"null_values": nulls})
    assert result.rows == [(1, kept)]


@pytest.mark.parametrize(
    ("declared_as", "inside", "reason"),
    [
        ("struct<a: int>", b"<v/><v/>", "v: repeated elements where an element with children is declared at v"),
        ("list<list<int>>", b"<v>1</v>", "v: a text where a list is declared at v.element"),
        ({"type": "int", "from": "v.a"}, b"<v/><v/>", "v: repeated elements at v where an element with children"),
    ],
)
def test_reasons_speak_of_elements(stage: Stage, declared_as: Any, inside: bytes, reason: str) -> None:
    result = stage(b"<all><r><id>1</id>" + inside + b"</r></all>", {"id": "int", "v": declared_as})
    assert [found[: len(reason)] for _, _, found, _ in result.rejects] == [reason]
