"""JSON lines, JSON documents and XML agree with slow readers by the letter on rows, lines, rejects and raw text.

A file is read or refused, never a traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import UnreadableObject
from lakehouse.read.objects import json_document, xml
from tests import reference_objects as reference
from tests.chaos_run import SECONDS, Tally, run_for_long
from tests.reference_objects import FLAT, NESTED, XML_NESTED, Options, Outcome, Refused
from tests.staging_values import Staging, declared

RANDOM = st.randoms(use_true_random=False)
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
    "01", "+1", "1.", ".5", "-", "NaN", "Infinity", "-Infinity", "nan", "0x1F", "True", "tru", "nullx", "1 2", "",
    "'a'", "--1", "\u0661", "1_0", "undefined", "/**/1",
]  # fmt: skip
NAMES = ["id", "s", "n", "l", "o", "m"]
ODD_NAMES = ["ID", " id", "other", "", "a.b", "ö", r"s\u0000", r"\ud800", r"\u0069d", "_rescued"]
COUNTS = [0, 1, 1, 2, 3, 4, 5, 25]
CHUNKS = [1, 3, 16, 4096]
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

    def __init__(self, random_: Random, *, nasty: bool, blanks: Sequence[str], flat: bool) -> None:
        self._random, self._nasty, self._blanks = random_, nasty, blanks
        self._names = NAMES[:3] if flat else NAMES
        self._odd = random_.randint(0, 3) == 0

    def one(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def rarely(self, of: int) -> bool:
        return self._random.randint(1, of) == of

    def blank(self) -> str:
        if self._nasty and self.rarely(60):
            return str(self.one("\f", "\v", "\u00a0", "/**/", "\0"))
        return str(self.one(*self._blanks))

    def text(self) -> str:
        atoms = TEXT + NASTY_TEXT if self._nasty and self.rarely(6) else TEXT
        return '"' + "".join(self._random.choices(atoms, k=self._random.randint(0, 4))) + '"'

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


def damaged(random_: Random, data: bytes) -> bytes:
    """The bytes, most often as they are; else cut, changed, doubled, in another encoding or with a foreign byte."""
    if random_.randint(0, 5) or not data:
        return data
    at = random_.randint(0, len(data) - 1)
    size = random_.choice([1, 2, 20])
    match random_.randint(0, 6):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[at + size :]
        case 2:
            return data[: at + size] + data[at:]
        case 3:
            return data[:at] + random_.randbytes(random_.randint(1, 2)) + data[at + 1 :]
        case 4:
            return data.decode().encode("utf-16-le", "surrogatepass")
        case 5:
            return b"\xff\xfe" + data.decode().encode("utf-16-le", "surrogatepass")
        case _:
            return data[:at] + random_.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b"\xef\xbb\xbf"]) + data[at:]


def options_of(random_: Random, nested: dict[str, str]) -> Options:
    columns = random_.choice([FLAT, nested])
    return Options(columns, random_.choice([(), ("",), ("", "x"), ("x", "NULL")]), random_.random() < 0.5)


def jsonl_file(random_: Random) -> Case:
    options = options_of(random_, NESTED)
    writer = Writer(random_, nasty=random_.random() < 0.5, blanks=[*BLANK, "\r"], flat=options.columns is FLAT)
    end = random_.choice(["\n", "\r\n"])
    lines = [
        random_.choice(["", "", " "]) + writer.record() if not writer.rarely(8) else writer.one("", " ", "\t", "\r")
        for _ in range(random_.choice(COUNTS))
    ]
    text = end.join(lines) + random_.choice(["", end])
    data = damaged(random_, text.encode("utf-8", "surrogatepass"))
    if random_.randint(0, 6) == 0:
        data = b"\xef\xbb\xbf" + data
    return Case(data, {"type": "jsonl", "null_values": options.nulls}, options, random_.choice(CHUNKS))


def json_file(random_: Random) -> Case:
    options = options_of(random_, NESTED)
    blanks = [*BLANK, "\n", "\r\n"]
    writer = Writer(random_, nasty=random_.random() < 0.5, blanks=blanks, flat=options.columns is FLAT)
    records = [writer.record() for _ in range(random_.choice(COUNTS))]
    text = records[0] if len(records) == 1 and random_.random() < 0.5 else writer.array(records)
    path = random_.choice([None, "data", "data.rows"])
    for name in reversed(path.split(".") if path else []):
        beside = [(other, writer.value("s")) for other in random_.choice([(), ("next",), ("é", "x")])]
        pairs = [*beside, (name, text)] if random_.random() < 0.5 else [(name, text), *beside]
        text = writer.object(pairs + ([(name, "[]")] if writer.rarely(30) else []))
    text = writer.blank() + text + writer.blank()
    data = damaged(random_, text.encode("utf-8", "surrogatepass"))
    if random_.randint(0, 6) == 0:
        data = b"\xef\xbb\xbf" + data
    format = {"type": "json", "records_path": path, "null_values": options.nulls}
    return Case(data, format, options, random_.choice(CHUNKS))


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


ODD_HEADS = [
    '<?xml version="1.0" encoding="latin-1"?>', "<!DOCTYPE all>", '<!DOCTYPE a [<!ENTITY s "x">]>', "\n<?xml ?>", "x",
]  # fmt: skip


def xml_file(random_: Random) -> Case:
    options = options_of(random_, XML_NESTED)
    nasty, odd = random_.randint(0, 2) == 0, random_.randint(0, 3) == 0

    def rarely(of: int) -> bool:
        return random_.randint(1, of) == of

    def text() -> str:
        atoms = XML_TEXT + NASTY_XML if nasty and rarely(8) else XML_TEXT
        return "".join(random_.choices(atoms, k=random_.randint(0, 4)))

    def attributes(names: Sequence[str]) -> str:
        listed = [*names, *(["xsi:nil"] if rarely(12) else []), *(["id"] if nasty and rarely(30) else [])]
        quote = random_.choice("'\"")
        words = ["1", "true", "x", "", "a>b", "a&#10;b", "/>"]
        return "".join(f"{random_.choice(blanks)} {name}={quote}{random_.choice(words)}{quote}" for name in listed)

    def element(name: str, content: str, names: Sequence[str] = ()) -> str:
        tag = name + attributes(names) + random_.choice(blanks)
        if not content and random_.random() < 0.5:
            return f"<{tag}/>"
        return f"<{tag}>{content}</{name}{random_.choice(blanks)}>"

    def child(name: str, depth: int = 0) -> str:
        kind = random_.choice(NAMES) if rarely(15) else name
        if kind == "o":
            parts = "".join(element("b", text()) for _ in range(random_.choice([0, 1, 1, 1, 2])))
            return element(name, parts + (text() if rarely(20) else ""), random_.choice([(), ("a",)]))
        if kind == "m":
            keys = random_.choices(["k", "é", "k2"], k=random_.randint(0, 2))
            return element(name, "".join(element(key, text()) for key in keys))
        if kind == "n" and not rarely(4):
            return element(name, random_.choice(["12", " -7.0 ", "", "9223372036854775808"]))
        if rarely(150):
            return element(name, "<d>" * 9000 + "</d>" * 9000)
        if depth < 2 and rarely(20):
            return element(name, child("s", depth + 1) + child("r", depth + 1))
        return element(name, text(), ("unit",) if odd and rarely(8) else ())

    def record() -> str:
        names = [name for name in options.columns if not rarely(6)]
        names += ["l"] * (("l" in names) + rarely(4)) if "l" in options.columns else []
        names += [random_.choice(["ID", "other", "_VALUE", "s"])] if odd and rarely(6) else []
        content = "".join(random_.choice(blanks) + child(name) for name in names)
        content += text() if nasty and rarely(10) else random_.choice(blanks)
        return element("r", content, ("no",) if odd and rarely(6) else ())

    blanks = ["", "", "", " ", "\n", "\r\n", "\t"]
    records = [record() if not rarely(12) else child("other") for _ in range(random_.choice(COUNTS))]
    body = "".join(random_.choice(blanks) + (f"<g>{r}</g>" if rarely(8) else r) for r in records)
    whole = records[0] if len(records) == 1 and rarely(3) else f"<all>{body}{random_.choice(blanks)}</all>"
    head = random_.choice(["", "", '<?xml version="1.0"?>', '<?xml version="1.0" encoding="UTF-8"?>\n'])
    if rarely(12):
        head = random_.choice(ODD_HEADS)
    text_ = head + random_.choice(["", "<!-- é -->\n"]) + whole + random_.choice(["", "\n", "<!-- -->"])
    data = damaged(random_, text_.encode("utf-8", "surrogatepass"))
    if random_.randint(0, 6) == 0:
        data = b"\xef\xbb\xbf" + data
    format = {"type": "xml", "row_element": "r", "null_values": options.nulls}
    return Case(data, format, options, random_.choice(CHUNKS))


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


@settings(max_examples=40)
@given(RANDOM)
def test_json_lines_are_read_by_the_letter(check: Check, random_: Random) -> None:
    check(jsonl_file(random_))


@settings(max_examples=40)
@given(RANDOM)
def test_json_documents_are_read_by_the_letter(check: Check, random_: Random) -> None:
    check(json_file(random_))


@settings(max_examples=40)
@given(RANDOM)
def test_xml_documents_are_read_by_the_letter(check: Check, random_: Random) -> None:
    check(xml_file(random_))


@pytest.mark.chaos
@pytest.mark.timeout(SECONDS + 3600)
@pytest.mark.parametrize("make", [jsonl_file, json_file, xml_file])
def test_objects_are_read_by_the_letter_for_long(
    check: Check, make: Callable[[Random], Case], capsys: pytest.CaptureFixture[str]
) -> None:
    def one(seed: int) -> Tally:
        records = check(make(Random(seed)))
        return Tally(1, records or 0, records is None)

    assert run_for_long(make.__name__, one, capsys).files
