"""JSON lines, JSON documents and XML agree with slow readers by the letter on rows, lines, rejects and raw text.

A file is read or refused, never a traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import UnreadableObject
from lakehouse.read import json_document, xml
from tests import reference_objects as reference
from tests.chaos_run import SECONDS, run_for_long
from tests.reference_objects import FLAT, NESTED, XML_NESTED, Options, Outcome, Refused
from tests.staging_values import Staging, declared

SHORT = settings(max_examples=40)
TEXT = [
    *"aZ09 é日{}[]:,<>&'/-\u007f\u2028\ufeff", "🙂", r"\"", r"\\", r"\/", r"\n", r"\r\n", r"\u0041", r"\u00e9",
    r"\ud83d\ude42", "x", "NULL",
]  # fmt: skip
NASTY_TEXT = [
    r"\ud800",
    r"\udc00\ud800",
    r"\u0000",
    "\t",
    "\0",
    "\n",
    "\r",
    r"\x",
    "\\",
    '"',
    r"\u12",
    "\x1f",
    r"\U0041",
]
NUMBERS = [
    "0", "-0", "1", "1.10", "1.0", "1e5", "1E-400", "1e400", "-12.5", "12345678901234567890123", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "0.1234567890123456789", "1" * 400,
]  # fmt: skip
NASTY_WORDS = [
    "01", "+1", "1.", ".5", "-", "NaN", "Infinity", "-Infinity", "nan", "0x1F", "True", "tru", "nullx", "1 2", "", "'a'",
    "--1", "\u0661", "1_0", "undefined", "/**/1",
]  # fmt: skip
NAMES = ["id", "s", "n", "l", "o", "m"]
ODD_NAMES = ["ID", " id", "other", "", "a.b", "ö", r"s\u0000", r"\ud800", r"\u0069d", "_rescued"]
BLANK = ["", "", "", " ", "\t", "  "]


@dataclass(frozen=True)
class Case:
    """A file, how it is declared, and in pieces of how many bytes it is read."""

    data: bytes
    format: dict[str, Any]
    options: Options
    chunk: int


class Writer:
    """Draws JSON texts, right ones and, with `nasty`, others among them."""

    def __init__(self, draw: st.DrawFn, *, nasty: bool, blanks: Sequence[str], flat: bool) -> None:
        self._draw, self._nasty, self._blanks = draw, nasty, blanks
        self._names = NAMES[:3] if flat else NAMES
        self._odd = draw(st.integers(0, 3)) == 0

    def one(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def rarely(self, of: int) -> bool:
        return self._draw(st.integers(1, of)) == of

    def blank(self) -> str:
        if self._nasty and self.rarely(60):
            return str(self.one("\f", "\v", "\u00a0", "/**/", "\0"))
        return str(self.one(*self._blanks))

    def text(self) -> str:
        atoms = TEXT + NASTY_TEXT if self._nasty and self.rarely(6) else TEXT
        return '"' + "".join(self._draw(st.lists(st.sampled_from(atoms), max_size=4))) + '"'

    def single(self) -> str:
        if self._nasty and self.rarely(25):
            return str(self.one(*NASTY_WORDS))
        return str(
            self.one(self.text(), self.text(), self.one(*NUMBERS), "true", "false", "null", '"x"', '""', '" 7 "')
        )

    def value(self, name: str, depth: int = 0) -> str:
        if self.rarely(12):
            name = str(self.one(*NAMES))
        if name == "n" and not self.rarely(4):
            return str(self.one(*NUMBERS[:4], '"12"', '"-7.00"'))
        if name == "l":
            return self.array([self.single() for _ in range(self.one(0, 1, 3))])
        if name == "o":
            pairs = [(part, self.single()) for part in self.one((), ("a",), ("b", "a"), ("a", "b"))]
            return self.object(pairs + ([("zz", "1")] if self._odd and self.rarely(8) else []))
        if name == "m":
            return self.object([(self.text()[1:-1], self.single()) for _ in range(self.one(0, 1, 2))])
        if depth < 3 and self.rarely(10):
            return self.array([self.value("s", depth + 1), self.value("o", depth + 1)])
        if self.rarely(150):
            return str(
                self.one("[" * 100_000, "[" * 40 + "]" * 40, '{"a":' * 30 + "1" + "}" * 30, "[" * 9000 + "]" * 9000)
            )
        return self.single()

    def array(self, parts: Sequence[str]) -> str:
        return "[" + ",".join(self.blank() + part + self.blank() for part in parts) + "]"

    def object(self, pairs: Sequence[tuple[str, str]]) -> str:
        parts = [f'{self.blank()}"{name}"{self.blank()}:{self.blank()}{value}{self.blank()}' for name, value in pairs]
        return "{" + ",".join(parts) + (("," * self._nasty) if self.rarely(50) else "") + "}"

    def record(self) -> str:
        if self._nasty and self.rarely(15):
            return str(
                self.one("[1]", '"a"', "7", "{", "}", "]", '{"id"}', '{"id":1}{"id":2}', "null", '{"id":1,}', "NaN")
            )
        names = [name for name in self._names if not self.rarely(5)]
        if self._odd and self.rarely(6):
            names.append(self.one(*ODD_NAMES))
        if self._nasty and self.rarely(20):
            names.append(self.one(*self._names))
        if self.rarely(3):
            names.reverse()
        return self.object([(name, self.value(name)) for name in names])


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes, most often as they are; else cut, changed, doubled, in another encoding or with a foreign byte."""
    if draw(st.integers(0, 4)) or not data:
        return data
    at = draw(st.integers(0, len(data) - 1))
    size = draw(st.sampled_from([1, 2, 20]))
    match draw(st.integers(0, 6)):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[at + size :]
        case 2:
            return data[: at + size] + data[at:]
        case 3:
            return data[:at] + draw(st.binary(min_size=1, max_size=2)) + data[at + 1 :]
        case 4:
            return data.decode().encode("utf-16-le", "surrogatepass")
        case 5:
            return b"\xff\xfe" + data.decode().encode("utf-16-le", "surrogatepass")
        case _:
            return (
                data[:at]
                + draw(st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b"\xef\xbb\xbf"]))
                + data[at:]
            )


@st.composite
def options_of(draw: st.DrawFn, nested: dict[str, str]) -> Options:
    columns = draw(st.sampled_from([FLAT, nested]))
    return Options(columns, draw(st.sampled_from([(), ("",), ("", "x"), ("x", "NULL")])), draw(st.booleans()))


def chunks() -> st.SearchStrategy[int]:
    return st.sampled_from([1, 3, 16, 4096])


@st.composite
def jsonl_files(draw: st.DrawFn) -> Case:
    options = draw(options_of(NESTED))
    writer = Writer(draw, nasty=draw(st.booleans()), blanks=[*BLANK, "\r"], flat=options.columns is FLAT)
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = [
        draw(st.sampled_from(["", "", " "])) + writer.record()
        if not writer.rarely(8)
        else writer.one("", " ", "\t", "\r")
        for _ in range(draw(st.integers(0, 5)))
    ]
    text = end.join(lines) + draw(st.sampled_from(["", end]))
    data = draw(damaged(text.encode("utf-8", "surrogatepass")))
    if draw(st.integers(0, 6)) == 0:
        data = b"\xef\xbb\xbf" + data
    return Case(data, {"type": "jsonl", "null_values": options.nulls}, options, draw(chunks()))


@st.composite
def json_files(draw: st.DrawFn) -> Case:
    options = draw(options_of(NESTED))
    blanks = [*BLANK, "\n", "\r\n"]
    writer = Writer(draw, nasty=draw(st.booleans()), blanks=blanks, flat=options.columns is FLAT)
    records = [writer.record() for _ in range(draw(st.integers(0, 4)))]
    text = records[0] if len(records) == 1 and draw(st.booleans()) else writer.array(records)
    path = draw(st.sampled_from([None, "data", "data.rows"]))
    for name in reversed(path.split(".") if path else []):
        beside = [(other, writer.value("s")) for other in draw(st.sampled_from([(), ("next",), ("é", "x")]))]
        pairs = [*beside, (name, text)] if draw(st.booleans()) else [(name, text), *beside]
        text = writer.object(pairs + ([(name, "[]")] if writer.rarely(30) else []))
    text = writer.blank() + text + writer.blank()
    data = draw(damaged(text.encode("utf-8", "surrogatepass")))
    if draw(st.integers(0, 6)) == 0:
        data = b"\xef\xbb\xbf" + data
    return Case(data, {"type": "json", "records_path": path, "null_values": options.nulls}, options, draw(chunks()))


XML_TEXT = [
    *"aZ09 é日'\"\u007f", "🙂", "&amp;", "&lt;", "&#233;", "&#x1F642;", "<![CDATA[<x> & ]]>", "<!-- - -->", "<?pi >?>",
    "\n", "\r\n", "x", "NULL", "]]&gt;",
]  # fmt: skip
NASTY_XML = [
    "&",
    "<",
    "]]>",
    "&#0;",
    "&nbsp;",
    "\0",
    "\x1b",
    "&#xD800;",
    "<b>",
    "</r>",
    "\ufffe",
    "<!--",
    "&#13;",
    "<![CDATA[",
]


@st.composite
def xml_files(draw: st.DrawFn) -> Case:
    options = draw(options_of(XML_NESTED))
    nasty, odd = draw(st.integers(0, 2)) == 0, draw(st.integers(0, 3)) == 0

    def rarely(of: int) -> bool:
        return draw(st.integers(1, of)) == of

    def text() -> str:
        atoms = XML_TEXT + NASTY_XML if nasty and rarely(8) else XML_TEXT
        return "".join(draw(st.lists(st.sampled_from(atoms), max_size=4)))

    def attributes(names: Sequence[str]) -> str:
        listed = [*names, *(["xsi:nil"] if rarely(12) else []), *(["id"] if nasty and rarely(30) else [])]
        quote = draw(st.sampled_from("'\""))
        words = ["1", "true", "x", "", "a>b", "a&#10;b", "/>"]
        return "".join(f"{draw(blanks)} {name}={quote}{draw(st.sampled_from(words))}{quote}" for name in listed)

    def element(name: str, content: str, names: Sequence[str] = ()) -> str:
        tag = name + attributes(names) + draw(blanks)
        return f"<{tag}/>" if not content and draw(st.booleans()) else f"<{tag}>{content}</{name}{draw(blanks)}>"

    def child(name: str, depth: int = 0) -> str:
        kind = draw(st.sampled_from(NAMES)) if rarely(15) else name
        if kind == "o":
            parts = "".join(element("b", text()) for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2]))))
            return element(name, parts + (text() if rarely(20) else ""), draw(st.sampled_from([(), ("a",)])))
        if kind == "m":
            keys = draw(st.lists(st.sampled_from(["k", "é", "k2"]), max_size=2))
            return element(name, "".join(element(key, text()) for key in keys))
        if kind == "n" and not rarely(4):
            return element(name, draw(st.sampled_from(["12", " -7.0 ", "", "9223372036854775808"])))
        if rarely(150):
            return element(name, "<d>" * 9000 + "</d>" * 9000)
        if depth < 2 and rarely(20):
            return element(name, child("s", depth + 1) + child("r", depth + 1))
        return element(name, text(), ("unit",) if odd and rarely(8) else ())

    def record() -> str:
        names = [name for name in options.columns if not rarely(6)]
        names += ["l"] * (("l" in names) + rarely(4)) if "l" in options.columns else []
        names += [draw(st.sampled_from(["ID", "other", "_VALUE", "s"]))] if odd and rarely(6) else []
        content = "".join(draw(blanks) + child(name) for name in names)
        return element(
            "r", content + (text() if nasty and rarely(10) else draw(blanks)), ("no",) if odd and rarely(6) else ()
        )

    blanks = st.sampled_from(["", "", "", " ", "\n", "\r\n", "\t"])
    records = [record() if not rarely(12) else child("other") for _ in range(draw(st.integers(0, 4)))]
    body = "".join(draw(blanks) + (f"<g>{r}</g>" if rarely(8) else r) for r in records)
    whole = records[0] if len(records) == 1 and rarely(3) else f"<all>{body}{draw(blanks)}</all>"
    head = draw(st.sampled_from(["", "", '<?xml version="1.0"?>', '<?xml version="1.0" encoding="UTF-8"?>\n']))
    if rarely(12):
        head = draw(
            st.sampled_from(
                [
                    '<?xml version="1.0" encoding="latin-1"?>',
                    "<!DOCTYPE all>",
                    '<!DOCTYPE a [<!ENTITY s "x">]>',
                    "\n<?xml ?>",
                    "x",
                ]
            )
        )
    text_ = head + draw(st.sampled_from(["", "<!-- é -->\n"])) + whole + draw(st.sampled_from(["", "\n", "<!-- -->"]))
    data = draw(damaged(text_.encode("utf-8", "surrogatepass")))
    if draw(st.integers(0, 6)) == 0:
        data = b"\xef\xbb\xbf" + data
    return Case(data, {"type": "xml", "row_element": "r", "null_values": options.nulls}, options, draw(chunks()))


def by_the_letter(case: Case) -> Outcome | None:
    """What must come of the file; None if it must be refused."""
    try:
        match case.format["type"]:
            case "jsonl":
                records = reference.read_jsonl(case.data)
            case "json":
                path = case.format["records_path"]
                records = reference.read_json(case.data, path.split(".") if path else ())
            case _:
                records = reference.read_xml(case.data, case.format["row_element"], case.options)
        return reference.judge(records, case.options)
    except Refused:
        return None


@contextmanager
def small_chunks(size: int) -> Iterator[None]:
    with patch.object(json_document, "CHUNK", size), patch.object(xml, "CHUNK", size):
        yield


Session = tuple[duckdb.DuckDBPyConnection, Path]
Check = Callable[[Case], int | None]


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Check]:
    """Compares what is staged of a file with what must come of it."""
    folder = tmp_path_factory.mktemp("objects")
    with duckdb.connect(config={"threads": 1}) as con:

        def compare(case: Case) -> int | None:
            wanted = by_the_letter(case)
            unknown = "ignore" if case.options.ignore else "reject"
            place = Staging(
                con, folder, declared(dict(case.options.columns), format=case.format, unknown_columns=unknown)
            )
            with small_chunks(case.chunk):
                try:
                    result = place.stage(case.data)
                except UnreadableObject as error:
                    assert place.empty
                    assert wanted is None, str(error)
                    return None
            assert wanted is not None, "must be refused"
            assert [*zip(result.lines, result.rows, strict=True)] == wanted.rows
            rejects = [
                (line, None if column is None else frozenset(column.split(",")), raw)
                for line, column, _, raw in result.rejects
            ]
            assert sorted(rejects, key=repr) == sorted(wanted.rejects, key=repr)
            return wanted.records

        yield compare


@SHORT
@given(jsonl_files())
def test_json_lines_are_read_by_the_letter(check: Check, case: Case) -> None:
    check(case)


@SHORT
@given(json_files())
def test_json_documents_are_read_by_the_letter(check: Check, case: Case) -> None:
    check(case)


@SHORT
@given(xml_files())
def test_xml_documents_are_read_by_the_letter(check: Check, case: Case) -> None:
    check(case)


@pytest.mark.chaos
@pytest.mark.timeout(SECONDS + 3600)
@pytest.mark.parametrize("files", [jsonl_files, json_files, xml_files])
def test_objects_are_read_by_the_letter_for_long(
    check: Check, files: Callable[[], st.SearchStrategy[Case]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_for_long(files.__name__, files(), check, capsys).files
